"""The numerical range `W(A) = {x* A x : ||x|| = 1}`: a convex set that holds the eigenvalues, and what A does at once.

Its support function in the direction of an angle t is `h(t)`, the largest eigenvalue of the Hermitian part of `e^{-it} A`, and
an eigenvector x to it gives the boundary point `x* A x`. The rightmost value, the numerical abscissa `h(0)`, is the initial
growth rate of `exp(tA)`; the largest modulus is the numerical radius `max_t h(t)`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from opalgebra.analysis.matrices import UNIT, Array, spectral_norm, square, unit_of
from opalgebra.display import Tabulated
from opalgebra.errors import InputError

LEVEL = 1e-12
"""The relative height above the best value at which the radius is asked whether anything is higher."""
STEPS = 30


@dataclass(frozen=True, eq=False)
class NumericalRange(Tabulated):
    """boundary (points,): complex points of the boundary, anticlockwise. radius: numerical radius, with its error. abscissa."""

    boundary: Array
    radius: float
    abscissa: float
    error: float
    converged: bool


def numerical_range(A: Any, points: int = 128) -> NumericalRange:
    """Boundary points, numerical radius and numerical abscissa of a square matrix.

    The boundary is sampled at equally spaced angles (Johnson). The radius starts from the best of these and is global:
    the angles where `h(t)` passes a level are unimodular eigenvalues of `z^2 A* - 2 r z + A` (Mengi and Overton), a
    pencil of order 2n; the level rises until none is left. `error` is the height of the last level and the rounding of
    the eigenvalues. InputError for fewer than 3 points, an array that is empty or not square, nan or infinity.

    >>> from opalgebra.analysis import numerical_range
    >>> found = numerical_range([[0.0, 1.0], [0.0, 0.0]])
    >>> round(found.radius, 12), found.abscissa
    (0.5, 0.5)

    Johnson, SIAM J. Numer. Anal. 15 (1978) 595; Mengi and Overton, IMA J. Numer. Anal. 25 (2005) 648.
    """
    if not isinstance(points, int) or points < 3:
        raise InputError(f"points={points!r}: a boundary needs at least 3 points, a natural number")
    unit = unit_of(A)
    A = square(A)
    angles = 2 * np.pi * np.arange(points) / points
    heights, boundary = np.empty(points), np.empty(points, complex)
    for place, angle in enumerate(angles):
        heights[place], vector = _support(A, float(angle))
        boundary[place] = vector.conj() @ (A @ vector)
    norm = spectral_norm(A)
    radius, converged = _radius(A, float(heights.max()), norm)
    error = LEVEL * radius + max(unit, len(A) * UNIT) * norm
    return NumericalRange(boundary, radius, float(heights[0]), error, converged)


def _support(A: Array, angle: float) -> tuple[float, Array]:
    """h(t) and its eigenvector."""
    turned = np.exp(-1j * angle) * A
    values, vectors = np.linalg.eigh((turned + turned.conj().T) / 2)
    return float(values[-1]), vectors[:, -1]


def _radius(A: Array, radius: float, norm: float) -> tuple[float, bool]:
    """The maximum of h from a value that it takes."""
    if norm == 0:
        return 0.0, True
    for _ in range(STEPS):
        angles = _crossings(A, radius + LEVEL * norm)
        if not len(angles):
            return radius, True
        gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi))
        best = max(_support(A, float(angle))[0] for angle in angles + gaps / 2)
        if best <= radius + LEVEL * norm:
            return max(best, radius), True
        radius = best
    return radius, False


def _crossings(A: Array, level: float) -> Array:
    """The angles where h, or another eigenvalue of the Hermitian part, is the level; sorted."""
    n = len(A)
    one, zero = np.eye(n), np.zeros((n, n))
    left = np.block([[zero, one], [-A, 2 * level * one]])
    right = np.block([[one, zero], [zero, A.conj().T]])
    up, down = linalg.eigvals(left, right, homogeneous_eigvals=True)
    near = np.abs(np.abs(up) - np.abs(down)) <= UNIT**0.5 * (np.abs(up) + np.abs(down))
    return np.sort(np.angle(up[near] * down[near].conj()))
