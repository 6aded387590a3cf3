"""Magnus and BCH sums of matrices: against the words of the symbolic series, mpmath's logarithms, and exact tails."""

import math
from fractions import Fraction
from importlib import import_module
from itertools import product

import mpmath
import numpy as np
import pytest
import torch
from triangular import combined, one, times

import opalgebra as oa
from opalgebra.analysis import bch, magnus
from opalgebra.analysis.lie import LAYERS, RADIUS, truncation_bound
from opalgebra.expr import Atom

module = import_module("opalgebra.analysis.lie")
V = oa.family("V", kind="linear")


def matrices(count, size, norm, seed=0, dtype=float):
    random = np.random.default_rng(seed)
    found = [random.standard_normal((size, size)).astype(dtype) for _ in range(count)]
    if dtype is complex:
        found = [m + 1j * random.standard_normal((size, size)) for m in found]
    return [norm * m / np.linalg.norm(m, 2) for m in found]


def exact_log(layers, kind):
    """The logarithm of the product, with 40 digits."""
    with mpmath.workdps(40):
        total = mpmath.eye(len(layers[0]))
        for layer in layers:
            matrix = mpmath.matrix(layer.tolist())
            total = (mpmath.eye(len(layer)) + matrix if kind == "residual" else mpmath.expm(matrix)) * total
        return np.array(mpmath.logm(total).tolist(), dtype=complex)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_orders_are_those_of_the_words(kind, order):
    assert orders_are_wrong(kind, order) is False


def orders_are_wrong(kind, order):
    """The orders of integer matrices, word by word in exact arithmetic, against the recurrence in floats.

    Entries are at most 2, so that an order n is a sum of at most n 2^n products (E^m)_n / m of at most 9^n words in entries
    below 6^n; each rounds relative to its size.
    """
    random = np.random.default_rng(order)
    exact = [tuple(tuple(Fraction(int(n)) for n in row) for row in random.integers(-2, 3, (3, 3))) for _ in range(3)]
    letters = [V[k] for k in range(3)]
    layers = oa.ordered_product((1 + v) if kind == "residual" else oa.function("exp", v) for v in letters)
    found = magnus([np.array(m, dtype=float) for m in exact], order=order, layers=kind)
    for n in range(1, order + 1):
        words = oa.magnus(layers, order=n, form="words") - oa.magnus(layers, order=n - 1, form="words")
        total = combined((0, one(3)))
        for c, word in words.terms:
            matrix = one(3)
            for letter in [word] if isinstance(word, Atom) else oa_factors(word):
                matrix = times(matrix, exact[letters.index(letter)])
            total = combined((1, total), (c, matrix))
        wanted = np.array(total, dtype=float)
        if np.abs(found.orders[n - 1] - wanted).max() > n * 2**n * 18**n * np.finfo(float).eps:
            return True
    return False


def oa_factors(word):
    from opalgebra.expr import factors

    return factors(word)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("norm", [0.01, 0.1, 0.16])
def test_the_bound_holds_and_the_sum_converges(kind, dtype, norm):
    layers = matrices(4, 5, norm, dtype=dtype)
    exact = exact_log(layers, kind)
    for order in (1, 2, 4, 8):
        found = magnus(layers, order=order, layers=kind)
        assert found.converged
        assert np.linalg.norm(found.value - exact, 2) <= found.error + 1e-13
        assert found.norm == pytest.approx(4 * norm)
        assert found.value == pytest.approx(sum(found.orders))


def test_the_bound_is_met_by_numbers():
    """One layer 1 - v of numbers: log(1 - v) = - sum of v^n/n has terms of the size of the words."""
    for v in (0.05, 0.3):
        for order in (1, 3, 6):
            left_out = abs(math.log1p(-v) + sum(v**n / n for n in range(1, order + 1)))
            bound = truncation_bound([v], order=order, layers="residual")
            assert left_out <= bound * (1 + 1e-12)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_bounds_are_the_tails_of_their_series(order):
    """Against the series by mpmath: Taylor coefficients of -log(2 - prod (1 + z v)), and w by solving its equation."""
    norms = [0.1, 0.07, 0.02]
    with mpmath.workdps(40):
        function = lambda z: -mpmath.log(2 - mpmath.fprod(1 + z * v for v in norms))  # noqa: E731
        tail = function(1) - mpmath.fsum(mpmath.taylor(function, 0, order))
    assert module._by_words(norms, order) == pytest.approx(float(tail), rel=1e-6)

    def g(x):
        return 2 + x / 2 * (1 - mpmath.cot(x / 2)) if x else mpmath.mpf(1)

    def inverse(w):
        return mpmath.quad(lambda y: 1 / g(2 * y), [0, w])

    with mpmath.workdps(30):
        total = mpmath.fsum(norms)
        w = mpmath.findroot(lambda w: inverse(w) - total, total)
    series = module._commutators([0.0, 1.0], order)
    assert series[:3] == [0.0, 1.0, 0.5]
    left_out = float(w) - sum(series[n] * float(total) ** n for n in range(order + 1))
    assert truncation_bound(norms, order=order, layers="exponential") == pytest.approx(left_out, rel=1e-6)


def test_the_radius_of_convergence():
    """Half of 2.1737374..., the number of the Magnus series with |[A, B]| <= 2 |A| |B|; ln 2 for the series of words."""
    with mpmath.workdps(25):
        integral = mpmath.quad(lambda x: 1 / (2 + x / 2 * (1 - mpmath.cot(x / 2))), [0, mpmath.pi, 2 * mpmath.pi])
    assert float(integral) == pytest.approx(2.173737403729042, rel=1e-12)
    assert float(integral) / 2 == pytest.approx(RADIUS, rel=1e-12)
    assert math.isfinite(truncation_bound([RADIUS / 2, RADIUS / 2 - 1e-3], order=3, layers="exponential"))
    assert truncation_bound([RADIUS / 2, RADIUS / 2], order=3, layers="exponential") == math.inf
    assert math.isfinite(module._by_words([0.9999], 3))
    assert module._by_words([1.0], 3) == math.inf
    many = [math.log(2) / 4000] * 4000
    assert math.isfinite(module._by_words(many, 1))
    assert module._by_words([1.001 * v for v in many], 1) == math.inf


def test_a_sum_that_nothing_bounds_says_so():
    found = magnus(matrices(8, 3, 1.0), order=3)
    assert found.error == math.inf
    assert not found.converged
    assert magnus([np.zeros((2, 2))], order=1).error == 0
    assert magnus([np.zeros((2, 2))], order=1, layers="exponential").error == 0


def test_known_values():
    X, Y = np.zeros((3, 3)), np.zeros((3, 3))
    X[0, 1] = Y[1, 2] = 1
    assert bch(X, Y, order=2).value.tolist() == [[0, 1, 0.5], [0, 0, 1], [0, 0, 0]]
    for s, coefficient in ((1, "1.581976706869326424385002"), (-1, "0.581976706869326424385002")):
        X, Y = (np.array(matrix, dtype=np.longdouble) for matrix in ([[s, 0], [0, 0]], [[0, 2.0**-20], [0, 0]]))
        found = bch(X, Y, order=24).value[0, 1] * 2**20
        assert abs(found - np.longdouble(coefficient)) < 1e-14
    A, B = np.array([[0.0, 1], [0, 0]]), np.array([[0.0, 0], [1, 0]])
    generator, leading = A + B, bch(A, B, order=2).orders[1]
    powers = [np.linalg.matrix_power(generator, k) for k in range(20)]
    change = sum(powers[i] @ leading @ powers[j] / math.factorial(i + j + 1) for i, j in product(range(20), repeat=2))
    assert change[0, 0] == pytest.approx(0.5876005968219007, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.float32])
def test_torch_gives_what_numpy_gives(dtype):
    layers = matrices(3, 4, 0.2)
    tensors = [torch.tensor(m, dtype=dtype) for m in layers]
    for kind in LAYERS:
        found, wanted = magnus(tensors, order=4, layers=kind), magnus(layers, order=4, layers=kind)
        assert found.value.dtype == dtype
        assert np.allclose(found.value.numpy(), wanted.value, atol=64 * torch.finfo(dtype).eps)
        assert found.error == pytest.approx(wanted.error, rel=1e-4)


def test_the_work_does_not_grow_with_the_number_of_words():
    """Thirty layers have more than 30^8 words of order 8."""
    layers = matrices(30, 4, 0.02)
    assert np.linalg.norm(magnus(layers, order=8).value - exact_log(layers, "residual"), 2) < 1e-4


def test_the_given_matrices_are_left_alone():
    layers = matrices(2, 3, 0.3)
    copies = [layer.copy() for layer in layers]
    magnus(layers, order=3)
    assert all((layer == copy).all() for layer, copy in zip(layers, copies))


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda: magnus([], order=2), "of no matrices was asked; give one for each layer, the first to act first"),
        (lambda: magnus([np.eye(2), np.eye(3)], order=2), "of the shapes (2, 2) and (3, 3) were given"),
        (lambda: magnus([np.ones((2, 3))], order=2), "needs square matrices of one size"),
        (lambda: magnus([np.eye(2, dtype=int)], order=2), "a layer has the dtype int64"),
        (lambda: magnus([[[1.0]]], order=2), "needs square matrices"),
        (lambda: magnus([np.array([[np.nan]])], order=2), "a layer has entries that are not finite"),
        (lambda: magnus([np.eye(2)], order=0), "order=0: a Magnus series has the orders 1, 2, ..."),
        (lambda: magnus([np.eye(2)], order=2, layers="exp"), "layers='exp' is unknown; use residual or exponential"),
    ],
)
def test_what_is_refused(act, text):
    with pytest.raises(oa.InputError) as caught:
        act()
    assert text in str(caught.value)


def test_planted_mistakes_are_seen(monkeypatch):
    real = module._grades
    with monkeypatch.context() as patch:
        patch.setattr(module, "_grades", lambda layers, *rest: real(layers[::-1], *rest))
        assert orders_are_wrong("residual", 2)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_grades", lambda layers, order, kind: real(layers, order, "exponential"))
        assert orders_are_wrong("residual", 2)
    with monkeypatch.context() as patch:
        tail = module._tail
        patch.setattr(module, "_tail", lambda coefficients, order, *rest: tail(coefficients, order + 1, *rest))
        layers = matrices(1, 1, 0.3)
        wanted = np.linalg.norm(magnus(layers, order=1).value - exact_log(layers, "residual"), 2)
        assert magnus(layers, order=1).error < wanted
