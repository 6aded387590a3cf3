"""How far pseudospectra reach: the eps-pseudospectral abscissa and radius, and the distance to instability; all global.

On a line or circle, the points where eps is a singular value of z - A are eigenvalues of a matrix of order 2n: with
`(z - A) v = eps u` and `(z - A)* u = eps v`,

    z = x + iy, x given:    iy (v, u) = [[A - x, eps], [-eps, x - A*]] (v, u)
    z = t d, |d| = 1:        t (v, u) = [[A/d, eps], [eps, (A/d)*]] (v, u)            (u turned by d)
    z = r w, r given:        [[A, eps], [0, r]] (v, u) = w [[r, 0], [eps, A*]] (v, u)

A search across finds the intervals that lie inside the pseudospectrum, a search outwards from their middles a point farther
out; the two alternate and converge quadratically to the global maximum (Burke, Lewis and Overton; Mengi and Overton).
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import linalg

from opalgebra.analysis.matrices import UNIT, Array, spectral_norm, square, unit_of
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.roundoff import LAMBDA

STEPS, NEWTON = 40, 8
NEAR = UNIT**0.5
"""Eigenvalues as near as this, relative to the norm, to where they are sought are taken; too many only cost a look."""


@dataclass(frozen=True, eq=False)
class Reach(Tabulated):
    """value: how far; at: a point where it is attained. error: rounding over the slope of sigma_min there, an estimate."""

    value: float
    at: complex
    error: float
    converged: bool


def pseudospectral_abscissa(A: Any, eps: float) -> Reach:
    """`max {Re z : sigma_min(z - A) <= eps}`, the largest real part that a perturbation of norm eps gives an eigenvalue.

    A spectrum to the left of it says nothing of growth before long times. InputError for an eps that is not positive or
    lies below the rounding of A, where the set cannot be told from the spectrum; for an array empty or not square, nan or
    infinity.

    >>> from opalgebra.analysis import pseudospectral_abscissa
    >>> round(pseudospectral_abscissa([[-1.0, 20.0], [0.0, -1.0]], 0.05).value, 12)
    0.001249219725

    Burke, Lewis and Overton, IMA J. Numer. Anal. 23 (2003) 359.
    """
    return _farthest(A, eps, Line())


def pseudospectral_radius(A: Any, eps: float) -> Reach:
    """`max {|z| : sigma_min(z - A) <= eps}`; arguments and errors as `pseudospectral_abscissa`.

    >>> from opalgebra.analysis import pseudospectral_radius
    >>> round(pseudospectral_radius([[0.0, 1.0], [0.0, 0.0]], 0.1).value, 12)
    0.331662479036

    Mengi and Overton, IMA J. Numer. Anal. 25 (2005) 648.
    """
    return _farthest(A, eps, Circle())


def distance_to_instability(A: Any, kind: str = "continuous") -> Reach:
    """The least norm of a complex perturbation that gives A an eigenvalue on the boundary of the stable region.

    kind "continuous": `min_y sigma_min(iy - A)`, the left half plane being stable; "discrete": `min_t sigma_min(e^{it} - A)`,
    the open unit disc. 0 for a matrix that is not stable. InputError for another kind and as above.

    >>> from opalgebra.analysis import distance_to_instability
    >>> round(distance_to_instability([[-1.0, 20.0], [0.0, -1.0]]).value, 12)
    0.049875621121

    Van Loan (1985); Boyd and Balakrishnan, Syst. Control Lett. 15 (1990) 1.
    """
    if kind not in ("continuous", "discrete"):
        raise InputError(f"kind={kind!r} is not known; use 'continuous' or 'discrete'")
    unit = unit_of(A)
    A = square(A)
    across: Across = Line() if kind == "continuous" else Circle()
    values = np.linalg.eigvals(A)
    rounding, least = rounding_of_search(A, unit), rounding_of_search(A, UNIT)
    edge = 0.0 if kind == "continuous" else 1.0
    outermost = values[np.argmax(across.height(values))]
    if across.height(outermost) >= edge:
        return Reach(0.0, complex(outermost), rounding, True)
    places = across.angle(values)
    for _ in range(STEPS):
        sigmas = [_singular(A, across.point(edge, place))[0] for place in places]
        best, at = min(zip(sigmas, places))
        level = best * (1 - 1e-12)
        crossings = across.crossings(A, edge, level) if level > least else np.empty(0)
        middles = across.middles(crossings)
        places = np.array([m for m in middles if _singular(A, across.point(edge, m))[0] < level])
        if not len(places):
            return Reach(float(best), complex(across.point(edge, at)), rounding + 1e-12 * float(best), True)
    return Reach(float(best), complex(across.point(edge, at)), float(best), False)


@final
class Line:
    """Vertical lines, searched outwards to the right."""

    def height(self, z: Any) -> Any:
        return np.real(z)

    def angle(self, z: Any) -> Any:
        return np.imag(z)

    def point(self, height: float, place: float) -> complex:
        return complex(height, place)

    def ray(self, place: float) -> tuple[complex, complex]:
        """Where a search outwards begins, and its direction."""
        return 1j * place, 1.0

    def crossings(self, A: Array, height: float, eps: float) -> Array:
        n = len(A)
        here, one = A - height * np.eye(n), eps * np.eye(n)
        values = np.linalg.eigvals(np.block([[here, one], [-one, -here.conj().T]]))
        near = np.abs(values.real) <= NEAR * max(np.linalg.norm(here), eps)
        return np.sort(values.imag[near])

    def middles(self, crossings: Array) -> Array:
        middles: Array = (crossings[1:] + crossings[:-1]) / 2
        return middles


@final
class Circle:
    """Circles around zero, searched outwards along rays."""

    def height(self, z: Any) -> Any:
        return np.abs(z)

    def angle(self, z: Any) -> Any:
        return np.angle(z)

    def point(self, height: float, place: float) -> complex:
        return complex(height * np.exp(1j * place))

    def ray(self, place: float) -> tuple[complex, complex]:
        return 0.0, complex(np.exp(1j * place))

    def crossings(self, A: Array, height: float, eps: float) -> Array:
        n = len(A)
        one, zero = np.eye(n), np.zeros((n, n))
        left = np.block([[A, eps * one], [zero, height * one]])
        right = np.block([[height * one, zero], [eps * one, A.conj().T]])
        up, down = linalg.eigvals(left, right, homogeneous_eigvals=True)
        near = np.abs(np.abs(up) - np.abs(down)) <= NEAR * (np.abs(up) + np.abs(down))
        return np.sort(np.angle(up[near] * down[near].conj()))

    def middles(self, crossings: Array) -> Array:
        if not len(crossings):
            return crossings
        middles: Array = crossings + np.diff(np.append(crossings, crossings[0] + 2 * np.pi)) / 2
        return middles


Across = Line | Circle


def rounding_of_search(A: Array, unit: float) -> float:
    """The absolute error to expect of sigma_min, that of A as it was given included."""
    return float(LAMBDA * len(A) ** 0.5 * UNIT + (unit if unit > UNIT else 0.0)) * spectral_norm(A)


def _farthest(A: Any, eps: float, across: Across) -> Reach:
    unit = unit_of(A)
    A = square(A)
    rounding = rounding_of_search(A, unit)
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.floating) or not 0 < eps < np.inf:
        raise InputError(f"eps={eps!r} was asked; the eps of a pseudospectrum is a positive number")
    if eps < rounding:
        raise InputError(
            f"eps={eps:.1e} lies below the rounding {rounding:.1e} of A, where nothing can be told; take a larger eps, or "
            "give A in float64 if it was shorter"
        )
    return farthest(A, float(eps), across, rounding)


def farthest(A: Array, eps: float, across: Across, rounding: float) -> Reach:
    """The search itself, on a checked matrix; rounding is that of its singular values."""
    least = rounding_of_search(A, UNIT)
    values = np.linalg.eigvals(A)
    start = values[np.argmax(across.height(values))]
    best, place, slope = _outwards(A, eps, across, across.angle(start), across.height(start))
    for _ in range(STEPS):
        middles = across.middles(across.crossings(A, best, eps))
        higher = [m for m in middles if _singular(A, across.point(best, m))[0] < eps]
        found = max((_outwards(A, eps, across, m, best) for m in higher), default=(best, place, slope))
        gained = found[0] - best
        if gained > 0:
            best, place, slope = found
        if gained * slope <= least:
            error = rounding / slope if slope > 0 else np.inf
            return Reach(float(best), across.point(best, place), float(error), bool(np.isfinite(error)))
    return Reach(float(best), across.point(best, place), float(gained), False)


def _outwards(A: Array, eps: float, across: Across, place: float, least: float) -> tuple[float, float, float]:
    """The farthest height on a ray where sigma_min is eps, at least `least`; the place; the slope of sigma_min there."""
    origin, direction = across.ray(place)
    turned = (A - origin * np.eye(len(A))) / direction
    one = eps * np.eye(len(A))
    values = np.linalg.eigvals(np.block([[turned, one], [one, turned.conj().T]]))
    near = np.abs(values.imag) <= NEAR * max(np.linalg.norm(turned), eps)
    for candidate in sorted(values.real[near], reverse=True):
        height, slope = _polished(turned, float(candidate), eps)
        if slope > 0 and abs(height - candidate) <= 1e-4 * max(abs(candidate), eps):
            return max(height, float(least)), float(place), slope
    return float(least), float(place), _polished(turned, float(least), eps)[1]


def _polished(turned: Array, height: float, eps: float) -> tuple[float, float]:
    """Newton's method for `sigma_min(t - turned) = eps`, where the eigenvalue is near its solution."""
    slope = 0.0
    for _ in range(NEWTON):
        sigma, slope = _singular(turned, height)
        step = (sigma - eps) / slope if slope else 0.0
        height -= step
        if abs(step) <= 2 * UNIT * abs(height):
            break
    return height, slope


def _singular(A: Array, z: complex) -> tuple[float, float]:
    """sigma_min(z - A) and its derivative along the real direction, `Re u* v`."""
    left, values, right = np.linalg.svd(z * np.eye(len(A)) - A)
    return float(values[-1]), float((left[:, -1].conj() @ right[-1].conj()).real)
