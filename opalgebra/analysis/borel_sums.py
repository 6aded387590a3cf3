"""Borel summation: factorially divergent series by the Laplace integral of what their Borel transform continues to.

    sum_k c_k z^k  ->  integral over t from 0 to infinity of e^-t B(z t),    B(w) = sum_k c_k w^k / k!

B is continued by a Pade approximant. Where it has a pole on the path the series is not Borel summable along z: the two
integrals that pass the pole on its two sides differ, half of their difference is an error of the sum (for a real series an
imaginary one, of the size of the nonperturbative part), and their mean is the value.
"""

from math import factorial, pi
from typing import Any

import numpy as np

from opalgebra.analysis.rational import Pade, pade
from opalgebra.analysis.sequences import DOUBLE, Array, Estimate, members, plain, relative_tolerance
from opalgebra.errors import InputError

STEPS = tuple(2.0**-power for power in range(2, 11))
"""Widths of the trapezoidal rule, halved until the integral stays."""


def borel(c: Any, z: Any, *, tolerance: float | None = None) -> Estimate:
    """The Borel sum of a power series at z, its transform continued by the Pade approximant nearest to the diagonal.

    c: ascending coefficients, real, complex or exact; z: a number. `error` is the change from the neighbouring types, what
    the integral and the rounding of the coefficients leave open, and the ambiguity of a pole on the path. InputError for a
    coefficient that is not finite.

    >>> import math
    >>> f"{borel([(-1) ** n * math.factorial(n) for n in range(8)], 1).value:.13f}"
    '0.5963473623232'

    Hardy, Divergent Series, chapter 8; Graffi, Grecchi and Simon, Phys. Lett. B 32 (1970) 631.
    """
    count = len(members(c, axes=1, what="the power series").values)
    return borel_pade(c, (count - 1) - count // 2, count // 2, z, tolerance=tolerance)


def borel_pade(c: Any, m: int, n: int, z: Any, *, tolerance: float | None = None) -> Estimate:
    """The Borel sum of a power series at z with the Pade approximant of type (m, n) of its Borel transform.

    Arguments, errors and result as `borel` and `pade`; m + n + 1 coefficients are used for the value. Further ones, if
    there are any, are used for the error alone.

    >>> from fractions import Fraction
    >>> zero_dimensional = [1, -3, Fraction(105, 2), Fraction(-3465, 2), Fraction(675675, 8)]
    >>> f"{borel_pade(zero_dimensional, 2, 2, 0.01).value:.5f}"
    '0.97405'
    """
    values, unit = members(c, axes=1, what="the power series")
    z = complex(z) if isinstance(z, complex) else float(z)
    if not np.isfinite(z):
        raise InputError(f"a Borel sum was asked at z = {z}; give a finite number")
    transform = borel_transform(values)
    whole = transform[: m + n + 1]
    value, doubt = laplace(pade(whole, m, n), z)
    more = ((m + 1, n), (m, n + 1)) if len(transform) > m + n + 1 else ((m - 1, n), (m, n - 1))
    near = [laplace(pade(transform[: sum(type_) + 1], *type_), z)[0] for type_ in more if min(type_) >= 0]
    moved = [laplace(pade(whole * (1 + unit * row), m, n), z)[0] for row in signs(len(whole))] if unit else []
    noise = max((abs(other - value) for other in moved), default=0.0) + DOUBLE * abs(value)
    error = max((abs(other - value) for other in near), default=np.inf) + doubt + noise
    error = float(error) if np.isfinite(error) else np.inf
    settled = bool(error <= relative_tolerance(unit, tolerance) * abs(value))
    return Estimate(plain(value), error, settled, float(noise), m + n + 1)


def signs(count: int, runs: int = 3) -> Array:
    """Rows of random signs that are always the same, by which coefficients are moved to see what their rounding does."""
    return np.random.default_rng(0).choice([-1.0, 1.0], size=(runs, count))


def borel_transform(values: Array) -> Array:
    """c_k / k!, exact for exact coefficients."""
    if values.dtype == object:
        return np.array([x / factorial(k) for k, x in enumerate(values)], dtype=object)
    inverse, found = 1.0, np.empty_like(values)
    for k, x in enumerate(values):
        inverse = inverse / max(k, 1)
        found[k] = x * inverse
    return found


def laplace(transform: Pade, z: complex | float) -> tuple[Any, float]:
    """The integral of `e^-t B(z t)` over t from 0 to infinity, and what the rule and a pole on the path leave open."""
    if z == 0:
        return transform(0.0), 0.0
    poles = transform.poles / z
    angles = np.angle(poles[poles != 0])
    ahead = np.abs(angles) <= np.sqrt(DOUBLE)
    if not ahead.any():
        return _along(transform, z, 0.0)
    # The path turns half of the way to the next pole, and no further than where e^-t still falls fast.
    turn = min(pi / 4, np.abs(angles[~ahead]).min(initial=pi / 2) / 2)
    (above, doubt), (below, other) = (_along(transform, z, sign * turn) for sign in (1, -1))
    value = (above + below) / 2
    real = not (isinstance(z, complex) or np.iscomplexobj(transform.p) or np.iscomplexobj(transform.q))
    return (value.real if real else value), abs(above - below) / 2 + doubt + other


def _along(transform: Pade, z: complex | float, angle: float) -> tuple[Any, float]:
    """The integral along the ray of an angle, by the double-exponential rule t = exp(x - e^-x) on halved steps."""
    direction = np.exp(1j * angle) if angle else 1.0
    value, change = np.float64(np.inf), np.inf
    for step in STEPS:
        x = np.arange(-4.5, 7.0, step)
        t = np.exp(x - np.exp(-x))
        parts = step * t * (1 + np.exp(-x)) * direction * np.exp(-t * direction) * transform(z * t * direction)
        value, change = parts.sum(), abs(parts.sum() - value)
        if change <= len(x) ** 0.5 * DOUBLE * np.abs(parts).sum():
            break
    return value.item(), float(change)
