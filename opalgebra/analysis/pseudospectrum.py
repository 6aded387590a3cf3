"""Pseudospectra on a grid: the eps-pseudospectrum of A is where `sigma_min(z - A) <= eps`.

It is the set of eigenvalues of all `A + E` with `||E|| <= eps`, and where `||(z - A)^{-1}|| >= 1/eps`. Of a normal matrix it is
the eps-neighbourhood of the eigenvalues; how much larger it is tells what the eigenvalues do not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from opalgebra.analysis.inverse_lanczos import smallest_singular_values
from opalgebra.analysis.matrices import UNIT, Array, array, spectral_norm, square, unit_of
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.roundoff import LAMBDA

MARGIN = 0.1


@dataclass(frozen=True, eq=False)
class Pseudospectrum(Tabulated):
    """z: the points, of the shape of the grid, rows of constant imaginary part. sigma_min: `sigma_min(z - A)` at each.

    error: absolute, what the iteration left and the rounding of the Schur form together; converged: whether the iteration
    ended by its rule. A value below its error is not distinguished from zero. eigenvalues (n,); norm: `||A||`.
    """

    z: Array
    sigma_min: Array
    error: Array
    converged: Array
    eigenvalues: Array
    norm: float


def pseudospectrum(A: Any, grid: Any = None, n: int = 100) -> Pseudospectrum:
    """sigma_min(z - A) at the points of a grid, an array of complex numbers of any shape.

    Without a grid: n x n points over the box around the numerical range, a tenth wider on each side. One Schur form, then
    inverse Lanczos for all points together. The relative error is 1e-6 of the value, besides an absolute one of
    `lambda sqrt(n) u (||A||_F + |z|)`, an estimate with u = 1.1e-16; numbers given in a shorter format add their own rounding.
    InputError for an array that is empty or not square, nan or infinity (in the grid too), n below 2.

    >>> from opalgebra.analysis import pseudospectrum
    >>> pseudospectrum([[0.0, 1.0], [0.0, 0.0]], [0.5, 0.5j]).sigma_min.round(12)
    array([0.20710678, 0.20710678])

    Trefethen, Acta Numerica 8 (1999) 247; Wright, EigTool (2002).
    """
    unit = unit_of(A)
    A = square(A)
    triangular = linalg.schur(A, output="complex")[0]
    norm = spectral_norm(A)
    floor = max(UNIT * norm, float(np.finfo(float).tiny) ** 0.25)
    if grid is None:
        z, is_mirrored = box(A, n), not np.iscomplexobj(A)
    else:
        z, is_mirrored = grid_points(grid), False
    points = z[: (n + 1) // 2].ravel() if is_mirrored else z.ravel()
    sigma, relative = smallest_singular_values(triangular, points, floor=floor)
    error = sigma * np.where(np.isfinite(relative), relative, 1.0) + rounding_of(A, points, unit) + floor
    converged = np.isfinite(relative)
    if is_mirrored:
        sigma, error, converged = (_mirrored(figures.reshape(-1, n), n) for figures in (sigma, error, converged))
    shape = z.shape
    return Pseudospectrum(z, sigma.reshape(shape), error.reshape(shape), converged.reshape(shape), np.diag(triangular), norm)


def rounding_of(A: Array, points: Array, unit: float) -> Array:
    """The absolute error of singular values of z - A that a Schur form of A leaves, and the rounding of A as it was given."""
    size = float(np.linalg.norm(A))
    error: Array = LAMBDA * len(A) ** 0.5 * UNIT * (size + np.abs(points)) + (unit * size if unit > UNIT else 0.0)
    return error


def contours(result: Pseudospectrum, levels: Iterable[float]) -> dict[float, list[Array]]:
    """The boundaries of the eps-pseudospectra, for each level eps the curves as complex arrays; interpolated in log sigma.

    A closed curve ends where it begins. InputError for a grid that is no rectangle, a level that is not positive, or
    without contourpy, which comes with the `plot` extra.
    """
    try:
        from contourpy import contour_generator
    except ImportError as error:
        raise InputError("contours need contourpy; run `pip install 'opalgebra[plot]'`") from error
    z = result.z
    if z.ndim != 2 or min(z.shape) < 2 or (z.real != z.real[:1]).any() or (z.imag != z.imag[:, :1]).any():
        raise InputError(f"contours were asked on points of shape {z.shape}; they need a rectangular grid, x along its rows")
    generator = contour_generator(z.real[0], z.imag[:, 0], np.log(np.maximum(result.sigma_min, np.finfo(float).tiny)))
    found = {}
    for level in levels:
        if not level > 0:
            raise InputError(f"a level of {level!r} was asked; the eps of a pseudospectrum is positive")
        lines: Any = generator.lines(float(np.log(level)))
        found[level] = [line[:, 0] + 1j * line[:, 1] for line in lines]
    return found


def grid_points(grid: Any) -> Array:
    shape = np.shape(grid.detach().cpu() if hasattr(grid, "detach") else grid)
    return array(grid, name="grid", axes=len(shape)).astype(np.complex128)


def box(A: Array, n: int) -> Array:
    """n x n points over the numerical range; with imaginary parts that are exactly opposite, those of highest first."""
    if not isinstance(n, int) or n < 2:
        raise InputError(f"n={n!r}: a grid has at least 2 points along each side, a natural number")
    parts = (A + A.conj().T) / 2, (A - A.conj().T) / 2j
    (left, right), (low, high) = (np.linalg.eigvalsh(part)[[0, -1]] for part in parts)
    wide = MARGIN * max(right - left, high - low) or 1.0
    x = np.linspace(left - wide, right + wide, n)
    y = np.linspace(low - wide, high + wide, n)
    if not np.iscomplexobj(A):
        y = (y - y[::-1]) / 2
    points: Array = x[None, :] + 1j * y[::-1, None]
    return points


def _mirrored(upper: Array, n: int) -> Array:
    """The figures of all rows from those with an imaginary part that is not negative."""
    whole: Array = np.vstack((upper, upper[: n // 2][::-1]))
    return whole
