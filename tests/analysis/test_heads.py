"""Null models and heads: laws against draws, p-values that are uniform under the null, heads in any basis."""

from importlib import import_module

import numpy as np
import pytest
import torch
from models.families import inputs, tiny

import opalgebra as oa
from opalgebra.analysis import (
    deviation,
    elliptic,
    fuss_catalan_moments,
    gaussian_product,
    ginibre,
    head_spectra,
    marchenko_pastur_moments,
    product_ensemble,
)

heads = import_module("opalgebra.analysis.heads")


def test_moments_of_singular_values_are_those_of_draws():
    """At n = 300 moments are off by O(1/n) of themselves, the higher ones by more: 5 % for the first four."""
    factors = [ginibre(300, seed=seed) for seed in range(3)]
    for count in (1, 2, 3):
        singular = np.linalg.svd(np.linalg.multi_dot([*factors[:count], np.eye(300)]), compute_uv=False)
        moments = [(singular ** (2 * power)).mean() for power in range(1, 5)]
        np.testing.assert_allclose(moments, fuss_catalan_moments(count, 4), rtol=0.05 * count)
    np.testing.assert_array_equal(fuss_catalan_moments(1, 6), marchenko_pastur_moments(1, 6))
    wide = np.random.default_rng(0).standard_normal((200, 400)) / 20
    singular = np.linalg.svd(wide, compute_uv=False)
    np.testing.assert_allclose([(singular ** (2 * j)).mean() for j in (1, 2, 3)], marchenko_pastur_moments(0.5, 3), rtol=0.05)


def test_ensembles_repeat_by_their_seed_and_have_the_correlations_asked():
    assert (ginibre(4, seed=1) == ginibre(4, seed=1)).all() and (ginibre(4, seed=1) != ginibre(4, seed=2)).any()
    for tau in (-1.0, -0.4, 0.0, 0.7, 1.0):
        A = elliptic(400, tau, seed=0) * 20
        upper = np.triu_indices(400, 1)
        assert abs((A[upper] * A.T[upper]).mean() - tau) < 5 * 2**0.5 / len(upper[0]) ** 0.5
        assert abs(A[upper].var() - 1) < 0.02 and abs(np.diag(A).var() - (1 + tau)) < 5 * (1 + tau) * (2 / 400) ** 0.5 + 1e-12


def test_the_small_product_has_the_spectrum_of_the_large_one():
    """Of rank k, with an edge in the unit of the ensemble near 1 for Gaussian factors."""
    left, right = gaussian_product([(60, 9)], seed=0), gaussian_product([(9, 60)], seed=1)
    large = np.linalg.eigvals(left @ right)
    large = large[np.argsort(-np.abs(large))]
    assert np.abs(large[9:]).max() < 1e-6
    found = deviation(left, right, product_ensemble(60, 9, draws=19, seed=0))
    expected = large[:9] * 60**0.5 / np.linalg.norm(left @ right)
    np.testing.assert_allclose(np.sort_complex(found.eigenvalues[0]), np.sort_complex(expected), atol=1e-10)
    departure = (np.linalg.norm(left @ right) ** 2 - (np.abs(large) ** 2).sum()) ** 0.5 / np.linalg.norm(left @ right)
    moduli = np.abs(expected)
    by_hand = [moduli.max(), moduli.mean(), expected.real.sum() / moduli.sum(), (expected.imag == 0).mean(), departure]
    np.testing.assert_allclose(found.statistics[0][[0, 1, 2, 4]], np.array(by_hand)[[0, 1, 2, 4]], atol=1e-10)
    assert 0.8 < product_ensemble(300, 100, draws=5, seed=0).statistics[:, 0].mean() < 1.2


def p_values_under_the_null(ensemble, count=200):
    random = np.random.default_rng(1)
    draws = [deviation(random.standard_normal((20, 6)), random.standard_normal((6, 20)), ensemble) for _ in range(count)]
    return np.array([draw.p_values[0] for draw in draws])


def check_uniform(p_values, draws):
    """Binomial over heads, and the ensemble is itself a draw: five standard errors of both together, on either side."""
    for level in (0.05, 0.2, 0.5):
        share = (p_values <= level).mean(0)
        allowed = 5 * (level * (1 - level) * (1 / len(p_values) + 1 / draws)) ** 0.5
        assert (share <= level + allowed).all()
        assert (share[[0, 1, 2, 4]] >= level - allowed).all()  # ties make the share of real eigenvalues conservative


def test_p_values_are_uniform_under_the_null_and_least_for_aligned_factors():
    ensemble = product_ensemble(20, 6, draws=199, seed=0)
    check_uniform(p_values_under_the_null(ensemble), 199)
    aligned = np.random.default_rng(1).standard_normal((20, 6))
    found = deviation(aligned, aligned.T, ensemble)
    assert (found.p_values == 2 / 200).all() and found.statistics[0, 2] == pytest.approx(1)


def test_planted_reference_of_independent_points_is_found(monkeypatch):
    """As many independent points of the circular law in place of the eigenvalues of one matrix: they do not repel."""
    statistics = heads._statistics

    def independent(left, right):
        found, values = statistics(left, right)
        random = np.random.default_rng(0)
        points = random.uniform(size=values.shape) ** 0.5 * np.exp(2j * np.pi * random.uniform(size=values.shape))
        rows = (np.abs(points).max(1), np.abs(points).mean(1), points.real.sum(1) / np.abs(points).sum(1))
        return np.column_stack((*rows, found[:, 3:])), points

    with monkeypatch.context() as planted:
        planted.setattr(heads, "_statistics", independent)
        wrong = product_ensemble(20, 6, draws=199, seed=0)
    with pytest.raises(AssertionError):
        check_uniform(p_values_under_the_null(wrong), 199)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "bert", "neox parallel"])
@pytest.mark.parametrize("kind", ["ov", "qk"])
def test_heads_of_every_family_are_read_from_its_own_weights(family, kind):
    bound = oa.bind(tiny(family), inputs(family))
    found = head_spectra(bound, kind, draws=19)
    assert found.layers.tolist() == list(range(1, bound.T.layers + 1))
    vertices = [vertex for _, _, vertex in heads.attentions(bound)]
    assert found.eigenvalues.shape[:2] == (len(vertices), vertices[0].heads)
    state = bound.reference.states[0]
    for layer, vertex in enumerate(vertices):
        left, right = heads.head_factors(vertex, kind)
        for head in range(vertex.heads):
            product = left[head] @ right[head]
            if kind == "ov":
                one = vertex.restricted([head])
                own = one.freeze(state)
                pattern = own.pattern[0, 0, 0]
                x = torch.from_numpy(np.random.default_rng(0).standard_normal(tuple(state.shape)))
                np.testing.assert_allclose(own(x)[0], (pattern @ x[0]).numpy() @ product.T, atol=1e-12)
            values = np.linalg.eigvals(product)
            largest = np.abs(values).max() * len(product) ** 0.5 / np.linalg.norm(product)
            assert abs(found.statistics[layer, head, 0] - largest) < 1e-6


def test_a_head_in_another_basis_is_the_same_head():
    random = np.random.default_rng(0)
    left, right = random.standard_normal((12, 4)), random.standard_normal((4, 12))
    M = random.standard_normal((4, 4))
    ensemble = product_ensemble(12, 4, draws=19, seed=0)
    first, second = deviation(left, right, ensemble), deviation(left @ np.linalg.inv(M), M @ right, ensemble)
    np.testing.assert_allclose(first.statistics, second.statistics, atol=1e-8)


def test_refusals():
    bound = oa.bind(tiny("llama"), inputs("llama"))
    for act, message in (
        (lambda: head_spectra(bound, "kq"), "kind='kq' is not known; use 'ov' for what a head moves or 'qk' for how it scores"),
        (lambda: head_spectra(tiny("llama")), "LlamaForCausalLM is no bound model; bind one at an input"),
    ):
        with pytest.raises(oa.InputError, match=message):
            act()
