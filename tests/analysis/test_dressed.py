"""Dressed stages as linear maps against the binding's own evaluation, derivatives and dense matrices; exponents of models."""

from importlib import import_module

import numpy as np
import pytest
import torch
from models.families import inputs, tiny

import opalgebra as oa
from opalgebra.analysis import (
    dressed_layer,
    dressed_stages,
    gaussian_stages,
    krylov_pseudospectrum,
    model_exponents,
    pseudospectrum,
    rank_collapse,
    saturation,
    token_blocks,
)

dressed = import_module("opalgebra.analysis.dressed")
FAMILIES = ("llama", "gpt2", "gemma2", "bert", "olmo2")


def bound_to(family, split="gate"):
    return oa.bind(tiny(family), inputs(family, batch=1), split=split)


def dense(part):
    return part(torch.eye(part.size, dtype=torch.float64)).numpy()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", ["gate", "tangent", "source", "jacobian"])
def test_the_product_of_the_stages_is_the_linear_part_of_the_model(family, split):
    """The difference of the frozen product at two states is the product of the maps on their difference."""
    bound = bound_to(family, split)
    maps = dressed_stages(bound)
    start = bound.reference.states[0]
    other = start + torch.randn(start.shape, dtype=start.dtype, generator=torch.Generator().manual_seed(0))
    ends = []
    for state in (start, other):
        for stage in bound.frozen:
            state = stage.whole(state)
        ends.append(state)
    columns = (other - start).reshape(-1, 1)
    for part in maps:
        columns = part(columns)
    np.testing.assert_allclose(columns[:, 0], (ends[1] - ends[0]).flatten(), atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", ["gate", "jacobian"])
def test_the_adjoint_is_the_transpose(family, split):
    part = dressed_layer(bound_to(family, split), 2)
    x, y = torch.randn(2, part.size, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moved = part(x)
    np.testing.assert_allclose(
        moved.T @ y, x.T @ part.adjoint(y), atol=1e-13 * float(x.norm() * y.norm() + moved.norm() * y.norm())
    )


def test_the_tangent_is_the_derivative_of_the_models_own_forward():
    bound = bound_to("llama", "jacobian")
    part, step = dressed_layer(bound, 1), 1e-6
    start = bound.reference.states[0]
    direction = torch.randn(start.shape, dtype=start.dtype, generator=torch.Generator().manual_seed(1))

    def forward(state):
        for maps in bound.maps[:2]:
            state = maps(state)
        return state

    numeric = (forward(start + step * direction) - forward(start - step * direction)) / (2 * step)
    np.testing.assert_allclose(part(direction.reshape(-1, 1))[:, 0], numeric.flatten(), atol=1e-8)


@pytest.mark.parametrize("family", ["llama", "gpt2", "bert"])
def test_exponents_are_those_of_the_dense_product(family):
    bound = bound_to(family)
    found = model_exponents(bound, k=3, draws=2, sweeps=50)
    matrix = np.linalg.multi_dot([dense(part) for part in dressed_stages(bound)][::-1])
    exact = np.log(np.linalg.svd(matrix, compute_uv=False))[:3]
    # Values of a subspace are too small, by the square of the angle that is left.
    assert (found.own.log_singular_values <= exact + 1e-10).all()
    assert (exact - found.own.log_singular_values <= 2 * found.own.error).all()
    assert found.baseline.shape == (2, 3) and (found.baseline[0] != found.baseline[1]).any()


def test_a_twin_keeps_patterns_gates_and_norms_and_the_size_of_the_weights():
    bound = bound_to("llama")
    assert len(gaussian_stages(bound, seed=0)) == len(bound.frozen)
    for stage in bound.frozen:
        own, twin = stage.branches[0].vertex, dressed._twin(stage, np.random.default_rng(0)).branches[0].vertex
        for name in ("value", "output", "down"):
            if hasattr(own, name):
                before, after = getattr(own, name), getattr(twin, name)
                assert abs(before.norm() - after.norm()) < 1e-12 * before.norm() and (before != after).any()
        if hasattr(own, "pattern"):
            assert own.pattern is twin.pattern
        else:
            assert all(a[0] is b[0] for a, b in zip(own.paths, twin.paths))
    with pytest.raises(oa.InputError, match="a Gaussian twin of Derivative was asked, whose weights are not apart"):
        gaussian_stages(bound_to("llama", "jacobian"), seed=0)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "olmo2"])
def test_the_blocks_of_a_token_multiply(family):
    bound = bound_to(family)
    matrix = np.linalg.multi_dot([dense(part) for part in dressed_stages(bound)][::-1])
    features = bound.states.shape[-1]
    for token in (0, 3, -1):
        place = token % bound.tokens
        rows = slice(place * features, (place + 1) * features)
        blocks = token_blocks(bound, token)
        np.testing.assert_allclose(np.linalg.multi_dot(blocks[::-1]), matrix[rows, rows], atol=1e-10)


def test_planted_block_with_the_pattern_of_another_token_is_found(monkeypatch):
    at_token = dressed._at_token
    monkeypatch.setattr(dressed, "_at_token", lambda stage, token: at_token(stage, max(0, token - 1)))
    with pytest.raises(AssertionError):
        test_the_blocks_of_a_token_multiply("llama")


def test_planted_norm_left_out_of_the_linear_part_is_found(monkeypatch):
    from dataclasses import replace

    linear = dressed._linear

    def careless(stage, states):
        return linear(replace(stage, branches=tuple(replace(part, before=None) for part in stage.branches)), states)

    monkeypatch.setattr(dressed, "_linear", careless)
    with pytest.raises(AssertionError):
        test_the_product_of_the_stages_is_the_linear_part_of_the_model("llama", "gate")


def test_pseudospectra_of_a_whole_layer_are_bounds_of_the_dense_ones():
    part = dressed_layer(bound_to("llama"), 1)
    exact = pseudospectrum(dense(part), n=8)
    found = krylov_pseudospectrum(part, exact.z, dimension=part.size)
    np.testing.assert_allclose(found.sigma_min, exact.sigma_min, atol=1e-5)
    fewer = krylov_pseudospectrum(part, exact.z, dimension=40)
    assert (fewer.sigma_min >= exact.sigma_min - exact.error).all()
    assert np.median(fewer.sigma_min / exact.sigma_min) < 1.2


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_saturation_and_collapse_of_a_model_by_hand(family):
    bound = oa.bind(tiny(family), inputs(family))
    states = bound.reference.states.double().numpy()
    found = saturation(bound)
    step = np.linalg.norm(states[1:] - states[:-1], axis=-1) / np.linalg.norm(states[:-1], axis=-1)
    np.testing.assert_allclose(found.step, np.moveaxis(step, 0, -1), rtol=1e-12)
    assert found.to_end.shape == (2, bound.tokens, len(states)) and (found.to_end[..., -1] == 0).all()
    if found.entropy is not None:
        lens = oa.analysis.logit_lens(bound, position=2)
        p = np.exp(lens - lens.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        np.testing.assert_allclose(found.entropy[:, 2], -(p * np.log(p)).sum(-1), rtol=1e-9)
    one = oa.bind(tiny(family), inputs(family, batch=1))
    collapse = rank_collapse(one)
    X = one.reference.states[1, 0].double().numpy()
    assert abs(collapse.residual[1] - np.linalg.norm(X - X.mean(0)) / np.linalg.norm(X)) < 1e-12
    assert collapse.dobrushin.shape == (one.T.layers, heads_of(one)) and collapse.layers.tolist() == list(
        range(1, one.T.layers + 1)
    )
    if family == "llama":
        assert (collapse.dobrushin <= 1).all() and collapse.rank.shape == (len(one.frozen) + 1,)


def heads_of(bound):
    from opalgebra.analysis.heads import attentions

    return attentions(bound)[0][2].heads


def test_padded_tokens_are_nan_and_a_text_has_no_batch():
    network, ids = tiny("llama"), inputs("llama")
    mask = torch.ones_like(ids)
    mask[0, -2:] = 0
    found = saturation(oa.bind(network, ids, mask=mask))
    for figures in (found.step, found.turn, found.to_end, found.entropy):
        assert np.isnan(figures[0, -2:]).all() and np.isfinite(figures[1]).all() and np.isfinite(figures[0, :-2]).all()


def test_refusals():
    network, ids = tiny("llama"), inputs("llama")
    batch, one = oa.bind(network, ids), bound_to("llama")
    short = oa.bind(tiny("llama").float(), inputs("llama", batch=1))
    for act, message in (
        (lambda: dressed_stages(network), "LlamaForCausalLM is no bound model"),
        (lambda: dressed_stages(batch), "dressed maps of several rows, or of padded ones, were asked"),
        (lambda: dressed_stages(short), "the stages are evaluated in float32; bind with accumulate='float64'"),
        (lambda: dressed_stages(one, layer=9), "layer 9 was asked of a model of 2; layers count from 1 to 2"),
        (lambda: token_blocks(bound_to("bert")), "which is not causal; its blocks do not multiply"),
        (lambda: token_blocks(one, 99), "token 99 was asked of 7; they count from 0, and -1 is the last"),
        (lambda: token_blocks(bound_to("llama", "jacobian")), "the block of one token was asked of Derivative"),
        (lambda: rank_collapse(batch), "rank collapse of several rows, or of padded ones, was asked"),
    ):
        with pytest.raises(oa.InputError, match=message) as caught:
            act()
        assert "\n" not in str(caught.value)


@pytest.mark.models
@pytest.mark.slow
def test_exponents_of_the_real_model_exceed_no_norm_and_differ_from_its_twins(smollm2):
    bound = oa.bind(smollm2, "The capital of France is")
    found = model_exponents(bound, k=4, draws=3, sweeps=12)
    assert found.own.converged.all()
    assert (found.own.exponents[0] > found.baseline[:, 0]).all()
    assert found.baseline.std(0).max() < 0.02
