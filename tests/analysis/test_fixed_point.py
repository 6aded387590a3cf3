"""Anderson's method and DIIS against GMRES, in any unit, on nonlinear and complex maps."""

from importlib import import_module
from math import inf

import numpy as np
import pytest
import torch

import opalgebra as oa
from opalgebra.analysis import anderson, diis

module = import_module("opalgebra.analysis.fixed_point")
M, B = np.array([[0.6, 0.3, 0.0], [-0.2, 0.5, 0.4], [0.1, -0.3, 0.7]]), np.array([1.0, 2.0, 3.0])
STATES = (
    [0, 0, 0],
    [1, 2, 3],
    [17 / 5, 6, 31 / 5],
    [2125 / 417, 7642 / 1251, 5825 / 1251],
    [135 / 19, 350 / 57, 355 / 57],
)
RESIDUALS = (6, 256 / 139, 0)
"""Squares of those of GMRES on (1 - M) x = b from zero."""


def gmres():
    """State k + 1 is b + M times state k of GMRES, which is so known from it, and its residual with it."""
    for steps, exact in enumerate(STATES, start=1):
        found = anderson(lambda x: M @ x + B, np.zeros(3), inf, steps=steps)
        assert np.abs(found.x - exact).max() < 1e-10
    assert found.converged
    for state, square in zip(STATES[2:], RESIDUALS):
        before = np.linalg.solve(M, np.array(state) - B)
        assert abs(((B - before + M @ before) ** 2).sum() - square) < 1e-10


def test_anderson_is_gmres_one_step_behind():
    gmres()


def test_planted_weights_of_the_wrong_sign_are_found(monkeypatch):
    right = module._shares
    monkeypatch.setattr(module, "_shares", lambda faults, unit: 2 * np.eye(len(s := right(faults, unit)))[-1] - s)
    with pytest.raises(AssertionError):
        gmres()


def contraction(kind, size=40, seed=0):
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((size, size)).astype(kind)
    if kind is complex:
        matrix += 1j * generator.standard_normal((size, size))
    return 0.95 * matrix / np.abs(np.linalg.eigvals(matrix)).max(), generator.standard_normal(size).astype(kind)


def scale_free(method):
    matrix, shift = contraction(float)
    runs = [method(lambda x, s=s: matrix @ x + s * shift, np.zeros(40), steps=300) for s in (1.0, 1e-8, 1e8)]
    assert {run.converged for run in runs} == {True} and len({run.steps for run in runs}) == 1
    bent = [method(lambda x, s=s: s * np.tanh(matrix @ x / s + shift), np.zeros(40), steps=300) for s in (1.0, 1e-8, 1e8)]
    assert {run.converged for run in bent} == {True} and len({run.steps for run in bent}) == 1


@pytest.mark.parametrize("method", [anderson, diis])
def test_the_unit_does_not_matter(method):
    scale_free(method)


def test_planted_absolute_cut_is_found(monkeypatch):
    """Without scaling the columns, a cut on their lengths drops all of them for a small b."""

    def absolute(faults, unit):
        kept = [f for f in faults[:-1] if np.linalg.norm(f) > 1e-6]
        return module_shares([*kept, faults[-1]], unit)

    module_shares = module._shares
    monkeypatch.setattr(module, "_shares", absolute)
    with pytest.raises(AssertionError):
        scale_free(anderson)


@pytest.mark.parametrize("method", [anderson, diis])
@pytest.mark.parametrize("kind", [float, complex])
def test_the_fixed_point_is_found_and_faster_than_by_iterating(method, kind):
    matrix, shift = contraction(kind)
    exact = np.linalg.solve(np.eye(40) - matrix, shift)
    found = method(lambda x: matrix @ x + shift, np.zeros(40, dtype=kind), 20, steps=300)
    assert found.converged and found.x.dtype == kind
    assert np.linalg.norm(found.x - exact) < 1e-5 * np.linalg.norm(exact)
    plain = anderson(lambda x: matrix @ x + shift, np.zeros(40, dtype=kind), 0, steps=300)
    assert found.steps < plain.steps / 4


def test_both_are_one_method():
    matrix, shift = contraction(complex)
    one, other = (f(lambda x: matrix @ x + shift, np.zeros(40) + 0j, m, steps=12) for f, m in ((anderson, 5), (diis, 6)))
    assert np.array_equal(one.x, other.x)


def test_an_error_vector_of_ones_own():
    """An invertible map of the residual gives the least of another norm, and the same fixed point."""
    matrix, shift = contraction(float)
    weights = np.linspace(1, 3, 40)
    found = diis(lambda x: matrix @ x + shift, np.zeros(40), error=lambda x: weights * (matrix @ x + shift - x), steps=300)
    assert found.converged
    assert np.linalg.norm(matrix @ found.x + shift - found.x) < 1e-6 * np.linalg.norm(shift)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128])
def test_torch_in_torch_out(dtype):
    matrix, shift = (torch.as_tensor(part).to(dtype) for part in contraction(float))
    found = anderson(lambda x: matrix @ x + shift, torch.zeros(40, dtype=dtype), 20, steps=300)
    assert found.converged and found.x.dtype == dtype
    assert float((matrix @ found.x + shift - found.x).abs().max()) < (1e-2 if dtype is torch.float32 else 1e-6)


@pytest.mark.parametrize("size", [1, 2])
def test_more_steps_than_components(size):
    found = anderson(np.cos, np.zeros(size), tolerance=1e-14)
    assert found.converged and np.abs(found.x - 0.7390851332151607).max() < 1e-14


def test_at_the_fixed_point_one_evaluation_is_enough():
    start = np.linalg.solve(np.eye(3) - M, B)
    found = anderson(lambda x: M @ x + B, start)
    assert found.steps == 1 and found.converged
    far = anderson(lambda x: 2 * x + 1, np.zeros(1), 0, steps=5)
    assert not far.converged and far.steps == 5


def test_what_is_refused():
    def broken(x):
        return x + 1 if not x.any() else np.array([1.0, np.nan])

    for act, text in (
        (lambda: anderson(broken, np.zeros(2)), r"g\(x\) in step 2 is nan at index 1; leave out what is not finite"),
        (lambda: anderson(lambda x: x[:1], np.zeros(2)), r"g\(x\) in step 1 has the shape \(1,\), but x0 has \(2,\)"),
        (lambda: anderson(np.cos, [0.0], -1), "m=-1 differences were asked; give a natural number, or math.inf for all"),
        (lambda: anderson(np.cos, [0.0], mixing=0), "mixing=0 is not positive"),
        (lambda: diis(np.cos, [0.0], 0), "m=0 error vectors were asked; give a natural number from 1 on"),
        (lambda: anderson(np.cos, [0.0], steps=0), "steps=0 evaluations were allowed"),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()
