"""Pade approximants: the rational function p/q of type (m, n) whose power series starts as a given one does.

    p(z) - q(z) sum_k c_k z^k = O(z^(m+n+1)),    deg p <= m, deg q <= n, q(0) = 1

Blocks of the Pade table, where many types share one function, make the linear equations singular; rounding turns them into
nearly singular ones, whose solutions have pairs of a pole and a zero that belong to nothing (Froissart doublets). Float
coefficients are solved by singular values, and singular values below the tolerance lower the type until the equations are
regular: what comes out is the function of the whole block. Integers and `Fraction`s are solved exactly, by Euclid's algorithm
on z^(m+n+1) and the series, which gives the function of the block by itself.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from opalgebra.analysis.sequences import DOUBLE, Array, floats, members
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.scalar import is_natural

TOLERANCE = 1e-14 / DOUBLE
"""The tolerance of Gonnet, Guettel and Trefethen, 1e-14 for float64, in unit roundoffs."""


@dataclass(frozen=True, eq=False)
class Pade(Tabulated):
    """p(z) / q(z). p, q: coefficients, ascending, q[0] = 1, `Fraction`s where the series was exact; type: their degrees."""

    p: Array
    q: Array

    @property
    def type(self) -> tuple[int, int]:
        """The degrees of p and q, which a reduction makes less than those asked for."""
        return len(self.p) - 1, len(self.q) - 1

    @property
    def poles(self) -> Array:
        """The zeros of q, in order of their real part."""
        return np.sort_complex(np.roots(floats(self.q)[::-1])) if len(self.q) > 1 else np.zeros(0, dtype=complex)

    def __call__(self, z: Any) -> Any:
        """The value at a number or an array of numbers; infinite at a pole. Exact at an exact number of an exact function."""
        if isinstance(z, int | Fraction) and self.p.dtype == object:
            top, bottom = _at(self.p, Fraction(z)), _at(self.q, Fraction(z))
            return top / bottom if bottom else np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.polyval(floats(self.p)[::-1], z) / np.polyval(floats(self.q)[::-1], z)

    def __repr__(self) -> str:
        return f"Pade(type {self.type}, p = {self.p.tolist()}, q = {self.q.tolist()})"


def pade(c: Any, m: int, n: int | None = None, *, robust: bool = True, tolerance: float | None = None) -> Pade:
    """The Pade approximant of type (m, n), or less where the series is one of a rational function of less degree.

    c: ascending coefficients of a power series, m + n + 1 or more (those left out are taken as zero); real or complex, exact if
    they are integers or `Fraction`s. n: by default what the coefficients allow, len(c) - 1 - m. tolerance: what counts as zero,
    relative to the norm of the coefficients; by default 90 unit roundoffs of their dtype, 1e-14 for float64. For noisy
    coefficients give the relative size of the noise, or a little more. robust=False solves the equations of floats as they
    stand. InputError for a type that is not natural, for a coefficient that is not finite, and for singular equations.

    >>> pade([1, 1, 1, 1, 1], 2)
    Pade(type (0, 1), p = [Fraction(1, 1)], q = [Fraction(1, 1), Fraction(-1, 1)])
    >>> pade([1.0, 1j, -1.0], 0, 1).q.round(12)
    array([ 1.+0.j, -0.-1.j])

    Gonnet, Guettel and Trefethen, SIAM Review 55 (2013) 101; McEliece and Shearer, SIAM J. Appl. Math. 34 (1978) 611.
    """
    values, unit = members(c, axes=1, what="the power series")
    if n is None and is_natural(m):
        n = len(values) - 1 - m
    if not (is_natural(m) and is_natural(n)):
        raise InputError(f"a Pade approximant of type ({m}, {n}) was asked of {len(values)} coefficients; degrees are natural")
    assert n is not None
    values = np.concatenate([values[: m + n + 1], np.zeros(max(m + n + 1 - len(values), 0), dtype=int).astype(values.dtype)])
    if values.dtype == object:
        return _exact(values, m)
    return _robust(values, m, n, TOLERANCE * unit if tolerance is None else tolerance) if robust else _plain(values, m, n)


def _exact(c: Array, m: int) -> Pade:
    """Euclid's algorithm until the remainder has at most the degree m."""
    one, zero = Fraction(1), Fraction(0)
    before, here = [zero] * len(c) + [one], _trimmed([Fraction(x) for x in c])
    factor_before, factor = [zero], [one]
    while len(here) - 1 > m:
        quotient, remainder = _divided(before, here)
        following = _trimmed(_difference(factor_before, _product(quotient, factor)))
        # Monic remainders keep the fractions short.
        leading = remainder[-1] or one
        before, here = here, [x / leading for x in remainder]
        factor_before, factor = factor, [x / leading for x in following]
    if not any(here):
        return Pade(np.array([zero], dtype=object), np.array([one], dtype=object))
    while not factor[0]:
        here, factor = here[1:], factor[1:]
    return Pade(*(np.array([x / factor[0] for x in part], dtype=object) for part in (here, factor)))


def _robust(c: Array, m: int, n: int, tolerance: float) -> Pade:
    """The algorithm of Gonnet, Guettel and Trefethen."""
    cut = tolerance * float(np.linalg.norm(c))
    if np.abs(c[: m + 1]).max() <= tolerance * np.abs(c).max():
        return Pade(np.zeros(1, dtype=c.dtype), np.ones(1, dtype=c.dtype))
    while n > 0:
        table = _toeplitz(c[: m + n + 1], n)
        below = table[m + 1 :]
        rank = int((np.linalg.svd(below, compute_uv=False) > cut).sum())
        if rank == n:
            break
        m, n = m - (n - rank), rank
    if n == 0:
        return Pade(_until_last(c[: m + 1], cut), np.ones(1, dtype=c.dtype))
    q = np.linalg.svd(below)[2][n].conj()
    weights = np.abs(q) + np.sqrt(2 * DOUBLE)
    q = weights * np.linalg.qr((below * weights).conj().T, mode="complete")[0][:, n]
    q = q / np.linalg.norm(q)
    p = table[: m + 1] @ q
    leading = int(np.flatnonzero(np.abs(q) > tolerance)[0])
    p, q = _until_last(p[leading:], cut), _until_last(q[leading:], tolerance)
    return Pade(p / q[0], q / q[0])


def _plain(c: Array, m: int, n: int) -> Pade:
    table = _toeplitz(c, n)
    try:
        tail = np.linalg.solve(table[m + 1 :, 1:], -table[m + 1 :, 0])
    except np.linalg.LinAlgError as error:
        what = f"the equations of type ({m}, {n}) are singular"
        raise InputError(f"{what}; leave robust= out, or ask for a smaller type") from error
    q = np.concatenate([np.ones(1), tail])
    return Pade(table[: m + 1] @ q, q)


def _toeplitz(c: Array, n: int) -> Array:
    """(len(c), n + 1): the coefficients of the series, of z times it, ..., of z^n times it."""
    table = np.zeros((len(c), n + 1), dtype=c.dtype)
    for shift in range(n + 1):
        table[shift:, shift] = c[: len(c) - shift]
    return table


def _until_last(values: Array, cut: float) -> Array:
    """The coefficients up to the last that is larger than the cut; one zero where none is."""
    large = np.flatnonzero(np.abs(values) > cut)
    return values[: large[-1] + 1] if len(large) else np.zeros(1, dtype=values.dtype)


def _at(coefficients: Array, z: Fraction) -> Fraction:
    value = Fraction(0)
    for coefficient in coefficients[::-1]:
        value = value * z + coefficient
    return value


def _trimmed(polynomial: list[Fraction]) -> list[Fraction]:
    """Without leading zeros; the zero polynomial is one zero."""
    while len(polynomial) > 1 and not polynomial[-1]:
        polynomial = polynomial[:-1]
    return polynomial


def _product(one: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    product = [Fraction(0)] * (len(one) + len(other) - 1)
    for i, x in enumerate(one):
        for j, y in enumerate(other):
            product[i + j] += x * y
    return product


def _difference(one: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    longest = max(len(one), len(other))
    padded = ([*part, *[Fraction(0)] * (longest - len(part))] for part in (one, other))
    return [x - y for x, y in zip(*padded)]


def _divided(dividend: list[Fraction], divisor: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Quotient and remainder of polynomials."""
    quotient, rest = [Fraction(0)] * (len(dividend) - len(divisor) + 1), list(dividend)
    for shift in reversed(range(len(quotient))):
        quotient[shift] = rest[shift + len(divisor) - 1] / divisor[-1]
        for place, coefficient in enumerate(divisor):
            rest[shift + place] -= quotient[shift] * coefficient
    return quotient, _trimmed(rest[: max(len(divisor) - 1, 1)])
