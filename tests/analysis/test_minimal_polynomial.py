"""MPE, RRE and depth extrapolation against resolvents, GMRES by brute force, and sequences that obey no polynomial."""

from importlib import import_module
from math import inf

import numpy as np
import pytest
import torch
from analysis.series import RESOLVENT, divergent, logarithmic

import opalgebra as oa
from opalgebra.analysis import extrapolate_depth, mpe, rre

module = import_module("opalgebra.analysis.minimal_polynomial")
BOTH = (mpe, rre)
A, B = np.array([[0.5, 0.4], [0.0, -0.4]]), np.ones(2)
DEPTHS = np.cumsum([np.linalg.matrix_power(A, k) @ B for k in range(11)], axis=0)


def resolvent():
    for method in BOTH:
        exact = method(divergent(5))
        assert np.abs(exact.value - RESOLVENT).max() < 1e-9 and not exact.converged
        shown = method(divergent(6))
        assert np.abs(shown.value - RESOLVENT).max() < 1e-9 and shown.converged
        assert np.linalg.norm(shown.value - RESOLVENT) <= shown.error < 1e-9


def test_a_divergent_neumann_series_is_the_resolvent():
    """Five terms give it, and a sixth shows it: in three dimensions four steps obey some polynomial whatever they are."""
    resolvent()


def test_planted_weights_that_do_not_sum_to_one_are_found(monkeypatch):
    right = module.minimal_weights

    def careless(steps, degree):
        found = right(steps, degree)
        return found and found._replace(values=found.values * (1 + 1e-6))

    monkeypatch.setattr(module, "minimal_weights", careless)
    with pytest.raises(AssertionError):
        resolvent()


def iterates(features, members, seed=0, kind=complex):
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((features, features)) / features**0.5
    if kind is complex:
        matrix = matrix + 1j * generator.standard_normal((features, features)) / features**0.5
    shift = generator.standard_normal(features).astype(kind)
    states = [np.zeros(features, dtype=kind)]
    for _ in range(members - 1):
        states.append(matrix @ states[-1] + shift)
    return matrix, shift, np.array(states)


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("count", [4, 6, 9])
def test_rre_has_the_least_residual_and_mpe_an_orthogonal_one(kind, count):
    """For x -> A x + b: RRE is GMRES, whose residual is least over a Krylov space; MPE is Arnoldi's, orthogonal to it."""
    matrix, shift, states = iterates(14, count, kind=kind)
    space = np.stack([np.linalg.matrix_power(matrix, k) @ shift for k in range(count - 2)], axis=-1)
    moved = space - matrix @ space
    least = space @ np.linalg.lstsq(moved, shift, rcond=None)[0]
    assert np.allclose(rre(states).value, least, rtol=1e-9)
    orthogonal = space @ np.linalg.solve(space.conj().T @ moved, space.conj().T @ shift)
    assert np.allclose(mpe(states).value, orthogonal, rtol=1e-9)


@pytest.mark.parametrize("method", BOTH)
def test_scale_and_error_estimates(method):
    matrix, shift, states = iterates(8, 30)
    exact = np.linalg.solve(np.eye(8) - matrix, shift)
    for scale in (1e-150, 1e-8, 1.0, 1e8):
        found = method(scale * states)
        assert found.converged and np.linalg.norm(found.value - scale * exact) < 100 * found.error < 1e-6 * scale
    for count in (4, 6, 8):
        short = method(states[:count])
        true = np.linalg.norm(short.value - exact)
        assert not short.converged and true / 30 < short.error < 30 * true


@pytest.mark.parametrize("method", BOTH)
@pytest.mark.parametrize("count", [8, 12, 40])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_logarithmic_convergence_is_reported_as_failure(method, count, dtype):
    sums = np.stack([logarithmic(count), np.cumsum(1 / np.arange(1.0, count + 1) ** 1.2)], axis=-1)
    assert not method(sums.astype(dtype)).converged


@pytest.mark.parametrize("method", BOTH)
def test_a_sequence_that_has_arrived(method):
    same = method(np.ones((4, 3)))
    assert (same.value == 1).all() and same.converged
    settled = method(torch.tensor(0.5, dtype=torch.float64) ** torch.arange(80)[:, None] * torch.ones(2))
    assert np.abs(settled.value).max() < 1e-15


def depths():
    assert np.abs(mpe(DEPTHS[:5]).value - [18 / 7, 5 / 7]).max() < 1e-12
    assert np.abs(extrapolate_depth(DEPTHS[:5], inf).value - [18 / 7, 5 / 7]).max() < 1e-12
    found = extrapolate_depth(DEPTHS[:5], 10)
    assert np.abs(found.value - [2.5700046659, 6975739 / 9765625]).max() < 1e-12 and found.converged


def test_a_depth_series_and_its_limit():
    """h_L = (1 - A^(L+1)) (1 - A)^-1 b from its first five values."""
    assert np.abs(DEPTHS[2] - [2.19, 0.76]).max() < 1e-15 and np.abs(DEPTHS[5] - [2.52759, 0.71136]).max() < 1e-15
    depths()


def test_planted_recurrence_one_step_short_is_found(monkeypatch):
    right = module._continued
    monkeypatch.setattr(module, "_continued", lambda values, back, depth: right(values, back, depth - 1))
    with pytest.raises(AssertionError):
        depths()


def test_what_is_refused():
    for act, text in (
        (lambda: mpe(np.ones((2, 3))), "the sequence has 2 members, and 3 are needed; give more"),
        (lambda: rre([[1.0, 2.0], [np.nan, 1.0], [0.0, 1.0]]), r"the sequence is nan at index \(1, 0\)"),
        (lambda: extrapolate_depth(DEPTHS, 4), "depth 4 was asked of states at depths 0 to 10; give a later one, or math.inf"),
        (lambda: extrapolate_depth(DEPTHS, 20, order=10), "order=10 was asked of 11 states; give 1 to 9"),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()
