"""The Magnus and Baker-Campbell-Hausdorff series of matrices, without a word being listed, and how far their sums may be off.

    y_k <- y_k + V y_{k - 1}                     the words of k layers 1 + V, one pass over depth
    O_n = sum over m of (-1)^(m - 1)/m (E^m)_n   the logarithm of 1 + E_1 + E_2 + ..., grade by grade

n^3 products of matrices for n orders, at any depth. What is left out is bounded, in the spectral norm and apart from rounding,
by series with the norms v_l of the layers and no negative coefficient:

    words         -log(2 - prod (1 + z v_l)), finite where prod (1 + v_l) < 2
    commutators   w(s(z)) with w' = g(2 w), g(x) = 2 + x/2 (1 - cot(x/2)), finite where s(1) < 1.0868...; s(z) = z sum v_l for
                  layers exp(V), and - sum log(1 - z v_l) for layers 1 + V, whose logarithms have at most that norm

and the smaller of the two is given. Both are sufficient only: for layers exp(V) the series converges where sum v_l < pi.

Source: S. Blanes, F. Casas, J. A. Oteo, J. Ros, Phys. Rep. 470 (2009) 151, section 2.7.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from opalgebra.errors import InputError
from opalgebra.scalar import is_natural

RADIUS = 1.086868701864520861950802
"""Half the integral of 1/g from 0 to 2 pi: where w reaches pi, and its series ends to converge."""
LAYERS = ("residual", "exponential")
_FURTHER = 32
_HALVINGS = 60
Array = Any


@final
@dataclass(frozen=True, eq=False)
class LieSum:
    """`orders[n - 1]` is O_n, `value` their sum; `error` bounds the spectral norm of what is left out, or is infinite.

    `converged` says whether the bound is finite. `norm` is the sum of the norms of the layers.
    """

    orders: tuple[Array, ...]
    value: Array
    error: float
    converged: bool
    norm: float


def magnus(matrices: Sequence[Array], *, order: int, layers: str = "residual") -> LieSum:
    """The Magnus series of `(1 + V_L) ... (1 + V_1)`, or with layers="exponential" of `exp(V_L) ... exp(V_1)`.

    `matrices` are V_1, ..., V_L, square arrays of NumPy or PyTorch of one dtype, real or complex, in any precision; the results
    have their dtype and device. InputError for no matrices, another shape, an order that is no natural number above 0, or
    unknown layers.

    >>> import numpy as np
    >>> X, Y = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0.0]]), np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0.0]])
    >>> magnus([Y, X], order=2, layers="exponential").value.tolist()
    [[0.0, 1.0, 0.5], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if layers not in LAYERS:
        raise InputError(f"layers={layers!r} is unknown; use {' or '.join(LAYERS)}")
    if not is_natural(order) or order < 1:
        raise InputError(f"order={order!r}: a Magnus series has the orders 1, 2, ...; ask a natural number")
    matrices = list(matrices)
    _check(matrices)
    graded = _grades(matrices, order, layers)
    found = _logarithm(graded)
    value = found[0]
    for part in found[1:]:
        value = value + part
    norms = [_spectral_norm(matrix) for matrix in matrices]
    error = truncation_bound(norms, order=order, layers=layers)
    return LieSum(tuple(found), value, error, math.isfinite(error), sum(norms))


def bch(A: Array, B: Array, *, order: int) -> LieSum:
    """The Baker-Campbell-Hausdorff series `log(exp A exp B)`: the Magnus series of two exponential layers. Errors as there."""
    return magnus([B, A], order=order, layers="exponential")


def truncation_bound(norms: Sequence[float], *, order: int, layers: str) -> float:
    """A bound of the sum of the norms of all O_n with n above the order; infinite where no series of the module converges."""
    total = sum(norms)
    if layers == "exponential":
        return _tail(_commutators([0.0, total], order), order, RADIUS / total, math.pi) if total else 0.0
    return min(_by_words(norms, order), _by_commutators(norms, order))


def _by_words(norms: Sequence[float], order: int) -> float:
    """The tail of `-log(2 - prod (1 + z v))`: n c_n = n e_n + sum of e_k (n - k) c_{n - k}."""
    growth = math.prod(1 + norm for norm in norms)
    if growth >= 2:
        return math.inf
    if growth == 1:
        return 0.0
    last = order + _FURTHER
    e = [1.0, *[0.0] * last]
    for norm in norms:
        for k in range(last, 0, -1):
            e[k] += norm * e[k - 1]
    c = [0.0]
    for n in range(1, last + 1):
        c.append(e[n] + sum(e[k] * (n - k) * c[n - k] for k in range(1, n)) / n)
    wanted = (growth + 2) / 2
    radius = _largest(lambda r: math.prod(1 + r * norm for norm in norms) <= wanted)
    return _tail(c, order, radius, -math.log(2 - wanted))


def _by_commutators(norms: Sequence[float], order: int) -> float:
    """The tail of w(s(z)) for `s = - sum log(1 - z v)`."""

    def s(r: float) -> float:
        return sum(-math.log1p(-r * norm) for norm in norms) if r * max(norms) < 1 else math.inf

    if s(1.0) >= RADIUS:
        return math.inf
    if s(1.0) == 0:
        return 0.0
    last = order + _FURTHER
    coefficients = [0.0, *(sum(norm**k for norm in norms) / k for k in range(1, last + 1))]
    return _tail(_commutators(coefficients, order), order, _largest(lambda r: s(r) <= RADIUS), math.pi)


def _largest(holds: Any) -> float:
    """A number r, by halving, up to which a monotone condition holds; it holds at 1."""
    low, high = 1.0, 2.0
    while holds(high) and high < 2.0**_HALVINGS:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _tail(coefficients: Sequence[float], order: int, radius: float, there: float) -> float:
    """The sum of the coefficients above an order; the last ones by Cauchy's bound c_n <= there / radius^n."""
    if radius <= 1:
        return math.inf
    last = len(coefficients) - 1
    return sum(coefficients[order + 1 :]) + there * radius**-last / (radius - 1)


def _commutators(s: Sequence[float], order: int) -> list[float]:
    """The coefficients of w(s(z)), from `x' = 2 g(x) s'` for x = 2 w, with `g(x) = sum of |B_k|/k! x^k`."""
    last = order + _FURTHER
    slopes = [k * c for k, c in enumerate(s)][1:]
    slopes += [0.0] * (last - len(slopes))
    g = _bernoulli(last)
    powers = [[1.0, *[0.0] * last], *([0.0] * (last + 1) for _ in range(last))]
    composed: list[float] = []
    for n in range(1, last + 1):
        composed.append(sum(g[k] * powers[k][n - 1] for k in range(n)))
        powers[1][n] = 2 / n * sum(composed[n - 1 - i] * slopes[i] for i in range(n))
        for k in range(2, n + 1):
            powers[k][n] = sum(powers[1][j] * powers[k - 1][n - j] for j in range(1, n - k + 2))
    return [c / 2 for c in powers[1]]


def _bernoulli(last: int) -> list[float]:
    """|B_k|/k! from `x / (e^x - 1) = sum of B_k x^k / k!`: B_k/k! = - sum over j < k of B_j/j! / (k + 1 - j)!, exactly."""
    found: list[Fraction] = []
    for k in range(last + 1):
        before = (found[j] / math.factorial(k + 1 - j) for j in range(k))
        found.append(int(k == 0) - sum(before, start=Fraction(0)))
    return [abs(float(value)) for value in found]


def _check(matrices: Sequence[Array]) -> None:
    if not matrices:
        raise InputError("the Magnus series of no matrices was asked; give one for each layer, the first to act first")
    shape = tuple(getattr(matrices[0], "shape", ()))
    for matrix in matrices:
        if tuple(getattr(matrix, "shape", ())) != shape or len(shape) != 2 or shape[0] != shape[1]:
            raise InputError(
                f"layers of the shapes {shape} and {tuple(getattr(matrix, 'shape', ()))} were given; the Magnus series needs "
                "square matrices of one size"
            )
        if "float" not in str(matrix.dtype) and "complex" not in str(matrix.dtype):
            raise InputError(f"a layer has the dtype {matrix.dtype}, and the coefficients are fractions; give floats")
        if not math.isfinite(float(abs(matrix).sum())):
            raise InputError("a layer has entries that are not finite, and so no series; give finite numbers")


def _grades(matrices: Sequence[Array], order: int, layers: str) -> list[Array]:
    """E_1, ..., E_order of the product; a layer of grade j is V^j / j! or, for residual layers, V alone."""
    one = matrices[0] * 0
    one[range(len(one)), range(len(one))] = 1
    y = [one, *(one * 0 for _ in range(order))]
    for matrix in matrices:
        for k in range(order, 0, -1):
            if layers == "residual":
                y[k] = y[k] + matrix @ y[k - 1]
            else:
                inner = y[0]
                for j in range(k, 0, -1):
                    inner = y[k - j + 1] + (matrix @ inner) / j
                y[k] = inner
    return y[1:]


def _logarithm(graded: Sequence[Array]) -> list[Array]:
    """The grades of `log(1 + E)` from those of E, of which the first is of grade 1."""
    order = len(graded)
    total = list(graded)
    power: list[Any] = list(graded)
    for m in range(2, order + 1):
        longer: list[Any] = [None] * order
        for n in range(m, order + 1):
            for j in range(1, n - m + 2):
                term = graded[j - 1] @ power[n - j - 1]
                longer[n - 1] = term if longer[n - 1] is None else longer[n - 1] + term
            share = longer[n - 1] / m
            total[n - 1] = total[n - 1] + (share if m % 2 else -share)
        power = longer
    return total


def _spectral_norm(matrix: Array) -> float:
    """In double precision, for a bound needs no more digits."""
    if not hasattr(matrix, "__array_namespace__"):
        return float(sys.modules["torch"].linalg.matrix_norm(matrix, ord=2))
    library = matrix.__array_namespace__()
    double = matrix.astype(library.complex128 if library.iscomplexobj(matrix) else library.float64)
    return float(library.linalg.matrix_norm(double, ord=2))
