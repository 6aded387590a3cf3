"""Exponents of products against exact singular values, rank collapse and saturation by hand, logarithms; and planted bugs."""

from importlib import import_module

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import opalgebra as oa
from opalgebra.analysis import (
    LinearMap,
    birkhoff,
    composed,
    depth_exponents,
    dobrushin,
    effective_generator,
    effective_rank,
    ginibre,
    linear_map,
    lyapunov_spectrum,
    rank_residual,
    saturation,
)

products, generator = (import_module(f"opalgebra.analysis.{name}") for name in ("products", "generator"))


def exact_logs(matrices):
    """ln sigma of the product, in as many digits as it takes."""
    with mpmath.workdps(300):
        product = mpmath.eye(len(matrices[0]))
        for matrix in matrices:
            product = mpmath.matrix(np.asarray(matrix).tolist()) * product
        values = (mpmath.svd_c if np.iscomplexobj(matrices[0]) else mpmath.svd_r)(product, compute_uv=False)
        return np.array([float(mpmath.log(value)) for value in values])


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_two_hundred_layers_have_the_singular_values_of_three_hundred_digits(kind):
    random = np.random.default_rng(0)
    layers = [ginibre(5, kind, seed=random) for _ in range(120)]
    found, exact = depth_exponents(layers), exact_logs(layers)
    assert found.converged.all()
    assert (np.abs(found.log_singular_values - exact) <= found.error).all() and found.error.max() < 1e-9
    np.testing.assert_array_equal(found.exponents, found.log_singular_values / 120)
    for k in (1, 2):
        some = depth_exponents(layers, k)
        assert (np.abs(some.log_singular_values - exact[:k]) <= some.error).all()


def test_the_product_as_a_matrix_loses_six_of_eight():
    layers = list(np.random.default_rng(0).standard_normal((200, 8, 8)))
    written = np.log(np.linalg.svd(np.linalg.multi_dot(layers[::-1]), compute_uv=False))
    found = depth_exponents(layers)
    wrong = np.abs(written - found.log_singular_values) > 1e-6
    assert wrong.sum() == 6 and found.converged.all()
    determinants = sum(np.linalg.slogdet(layer)[1] for layer in layers)
    assert abs(found.log_singular_values.sum() - determinants) < found.error.sum()


def test_planted_order_of_the_factors_is_found(monkeypatch):
    carried = products._carried
    monkeypatch.setattr(products, "_carried", lambda maps, frame: carried(list(maps)[::-1], frame))
    layers = list(np.random.default_rng(0).standard_normal((3, 3, 3)))
    found = depth_exponents(layers)
    assert (np.abs(found.log_singular_values - exact_logs(layers)) > 1e-3).any()


def test_planted_diagonals_of_one_pass_are_found(monkeypatch):
    """The diagonals of one QR pass are no singular values of a finite product."""
    monkeypatch.setattr(products, "SWEEPS", 0)
    with pytest.raises((AssertionError, UnboundLocalError)):
        test_two_hundred_layers_have_the_singular_values_of_three_hundred_digits("real")


def test_a_subspace_that_has_not_turned_yet_says_so():
    layers = [np.eye(40) + 0.05 * ginibre(40, seed=place) for place in range(4)]
    exact = np.log(np.linalg.svd(np.linalg.multi_dot(layers[::-1]), compute_uv=False))
    once = depth_exponents(layers, 3, sweeps=1)
    assert not once.converged.any() and np.isinf(once.error).all()
    assert (once.log_singular_values <= exact[:3] + 1e-12).all()
    more = depth_exponents(layers, 3, sweeps=400, tolerance=1e-7)
    assert more.converged.all()
    np.testing.assert_allclose(more.log_singular_values, exact[:3], atol=1e-5)


def test_maps_and_matrices_are_one():
    A, B = ginibre(6, seed=0), ginibre(6, "complex", seed=1)
    both = composed([linear_map(A), linear_map(B)])
    x = torch.from_numpy(ginibre(6, "complex", seed=2))
    np.testing.assert_allclose(both(x), B @ A @ x.numpy(), atol=1e-14)
    np.testing.assert_allclose(both.adjoint(x), (B @ A).conj().T @ x.numpy(), atol=1e-14)
    np.testing.assert_allclose(
        depth_exponents([both]).log_singular_values, depth_exponents([A, B]).log_singular_values, atol=1e-12
    )
    assert composed([linear_map(A), LinearMap(6, lambda columns: columns)]).adjoint is None


def test_the_errors_of_exponents_cover_them():
    """Over 40 products the exact exponent lies within 2 errors in all but a few; 5 would be three standard deviations off."""
    random, exact = np.random.default_rng(0), products.ginibre_exponents(3).exponents
    hits = 0
    for _ in range(40):
        found = lyapunov_spectrum(random.standard_normal((400, 3, 3)), discard=5)
        hits += int((np.abs(found.exponents - exact) < 2 * found.error).sum())
    assert hits > 0.85 * 120


def test_an_exponent_that_drifts_is_not_converged():
    growing = [np.diag([np.exp(step / 50), 1.0]) for step in range(200)]
    assert not lyapunov_spectrum(growing, 1).converged[0]
    assert not lyapunov_spectrum([np.eye(2)]).converged.any()


@pytest.mark.gpu
def test_a_product_on_the_device_is_that_on_the_cpu():
    layers = list(np.random.default_rng(0).standard_normal((50, 6, 6)))
    device = [torch.from_numpy(layer).cuda() for layer in layers]
    for k in (None, 2):
        np.testing.assert_allclose(depth_exponents(device, k).exponents, depth_exponents(layers, k).exponents, atol=1e-9)
    np.testing.assert_allclose(lyapunov_spectrum(device).exponents, lyapunov_spectrum(layers).exponents, atol=1e-9)


# Rank collapse


@st.composite
def patterns(draw):
    n = draw(st.integers(1, 6))
    rows = [[draw(st.integers(0, 8)) for _ in range(n)] for _ in range(n)]
    if draw(st.booleans()):
        rows = [[entry if column <= row else 0 for column, entry in enumerate(entries)] for row, entries in enumerate(rows)]
    for row, entries in enumerate(rows):
        entries[row] += 1
    return np.array(rows) / np.sum(rows, axis=1, keepdims=True)


@given(patterns(), patterns())
@settings(max_examples=60)
def test_dobrushins_coefficient_is_the_contraction_of_spans(P, Q):
    n = len(P)
    pairs = [np.abs(P[i] - P[j]).sum() / 2 for i in range(n) for j in range(n)]
    assert abs(dobrushin(P) - max(pairs)) < 1e-15
    corners = np.array([[index >> place & 1 for place in range(n)] for index in range(1 << n)], dtype=float)
    spans = np.ptp(corners @ P.T, axis=1)[np.ptp(corners, axis=1) > 0]
    assert n == 1 or abs(spans.max() - dobrushin(P)) < 1e-12
    if n > 1:
        assert sorted(np.abs(np.linalg.eigvals(P)))[-2] <= dobrushin(P) + 1e-7
    if len(P) == len(Q):
        product = P @ Q
        assert dobrushin(product / product.sum(1, keepdims=True)) <= dobrushin(P) * dobrushin(Q) + 1e-12


@given(patterns())
@settings(max_examples=60)
def test_birkhoffs_coefficient_is_one_under_a_causal_mask_and_contracts_the_metric_otherwise(P):
    n, found = len(P), birkhoff(P)
    if n > 1 and (np.tril(P) == P).all():
        assert found == 1.0
    if not P.all():
        return

    def metric(x, y):
        return np.ptp(np.log(x / y))

    spread = max(
        np.log(P[i, k] * P[j, m] / (P[j, k] * P[i, m])) for i in range(n) for j in range(n) for k in range(n) for m in range(n)
    )
    assert abs(found - np.tanh(spread / 4)) < 1e-12
    random = np.random.default_rng(0)
    for _ in range(20):
        x, y = np.exp(3 * random.standard_normal((2, n)))
        assert metric(P @ x, P @ y) <= found * metric(x, y) + 1e-9


def test_the_residual_is_least_at_the_mean():
    X = ginibre(6, seed=0)[:, :3]
    random = np.random.default_rng(0)
    for _ in range(50):
        assert rank_residual(X) <= np.linalg.norm(X - X.mean(0) - 0.1 * random.standard_normal(3)) + 1e-12
    R = X - X.mean(0)
    composite = (np.abs(R).sum(0).max() * np.abs(R).sum(1).max()) ** 0.5
    assert abs(rank_residual(X, norm="composite") - composite) < 1e-14


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=6), st.sampled_from(["stable", "participation", "entropy"]))
@settings(max_examples=60)
def test_effective_ranks_lie_between_one_and_the_number_of_values(s, kind):
    found = effective_rank(s, kind)
    positive = sum(value > 0 for value in s)
    assert found == 0 if positive == 0 else 1 - 1e-12 <= found <= positive + 1e-9
    assert abs(effective_rank([2.5] * len(s), kind) - len(s)) < 1e-12


# Saturation


def test_steps_and_angles_of_a_path_by_hand():
    found = saturation(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [0.0, 1.0]]))
    np.testing.assert_allclose(found.step, [1, 1, 0.5])
    np.testing.assert_allclose(found.turn, [np.pi / 4, np.pi / 4, 0], atol=1e-15)
    np.testing.assert_allclose(found.to_end, [np.pi / 2, np.pi / 4, 0, 0], atol=1e-15)
    assert found.entropy is None
    tiny = saturation(np.array([[1.0, 0.0], [1.0, 1e-12]])).turn[0]
    assert abs(tiny - 1e-12) < 1e-24
    assert np.isnan(saturation(np.array([[0.0, 0.0], [1.0, 0.0]])).turn[0])


# The effective generator


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_a_logarithm_gives_the_product_back_and_says_where_there_is_none():
    layers = [np.eye(6) + 0.1 * ginibre(6, seed=place) for place in range(5)]
    found = effective_generator(layers)
    assert found.converged and found.jumps.tolist() == [0] * 5 and not np.iscomplexobj(found.generator)
    np.testing.assert_allclose(
        np.linalg.multi_dot(layers[::-1]), torch.linalg.matrix_exp(torch.tensor(found.generator)), atol=1e-12
    )
    for matrix, obstructions in ((np.diag([1.0, 0.0]), 1), (np.diag([-1.0, 2.0]), 1), (-np.eye(2), 2), (np.eye(2, k=1), 2)):
        none = effective_generator([matrix])
        assert (none.obstructions, none.exists, none.converged) == (obstructions, False, False)
        assert np.isnan(none.generator).all() and np.isinf(none.error)
    assert len(effective_generator(layers, follow=False).jumps) == 0


def test_a_rotation_beyond_half_a_turn_jumps_there():
    for steps, size in ((8, 0.5), (40, 0.1), (6, 0.6)):
        found = effective_generator([rotation(size)] * steps)
        turned = steps * size
        wrapped = (turned + np.pi) % (2 * np.pi) - np.pi
        np.testing.assert_allclose(found.generator, [[0, -wrapped], [wrapped, 0]], atol=1e-12)
        expected = [2 if place * size < np.pi <= (place + 1) * size else 0 for place in range(steps)]
        assert found.jumps.tolist() == expected
    one_way = effective_generator([[[np.exp(0.5j)]]] * 8)
    assert one_way.jumps.tolist() == [0, 0, 0, 0, 0, 0, 1, 0]
    assert abs(one_way.generator[0, 0] - 1j * (4 - 2 * np.pi)) < 1e-12


def test_planted_blindness_to_jumps_is_found(monkeypatch):
    monkeypatch.setattr(generator, "SMALL", 7.0)
    with pytest.raises(AssertionError):
        test_a_rotation_beyond_half_a_turn_jumps_there()


def test_to_second_order_the_logarithm_has_the_squares_of_the_layers():
    """Omega_2 = (1/2) sum over i > j of [V_i, V_j] - (1/2) sum V_i^2; without the squares it would be that of exp(V)."""
    V = [ginibre(4, seed=place) for place in range(3)]
    second = -sum(v @ v for v in V) / 2
    second = second + sum(V[i] @ V[j] - V[j] @ V[i] for i in range(3) for j in range(i)) / 2
    for g in (1e-2, 5e-3):
        log = effective_generator([np.eye(4) + g * v for v in V], follow=False).generator
        rest = np.linalg.norm(log - g * sum(V) - g**2 * second)
        assert rest < 40 * g**3
        assert np.linalg.norm(log - g * sum(V) - g**2 * (second + sum(v @ v for v in V) / 2)) > 10 * rest


def test_names_of_the_package_are_those_of_the_modules():
    assert oa.analysis.lyapunov_spectrum is lyapunov_spectrum


@pytest.mark.parametrize(("angle", "principal"), [(3.0, 3.0), (4.0, 4.0 - 2 * np.pi)])
def test_the_generator_of_a_rotation_is_its_principal_angle(angle, principal):
    rotation = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    found = effective_generator([rotation])
    assert np.allclose(found.generator, [[0.0, -principal], [principal, 0.0]], rtol=1e-12, atol=1e-12)
