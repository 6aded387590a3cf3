"""The smallest singular value of `z - T` for one triangular T and many points z at once: inverse Lanczos, batched over points.

`1/sigma_min^2` is the largest eigenvalue of `((z - T)* (z - T))^{-1}`, and a Lanczos step of it is two triangular solves. The
matrices of all points share what stands off the diagonal, so that one matrix product serves all of them; each point has
its own start vector, tridiagonal matrix and end.

A point ends when the residual of its Ritz value theta is below `RESIDUAL` theta, which leaves an eigenvalue within that
distance for certain; that it is the largest holds with probability one for a random start. A step that is small against the
last one proves neither, and ends too early at isolated points.

Trefethen and Embree, Spectra and Pseudospectra (2005), ch. 39; Golub and Van Loan, Matrix Computations, ch. 10.
"""

import numpy as np

from opalgebra.analysis.matrices import UNIT, Array

RESIDUAL = 2e-6
"""A residual of an eigenvalue of the inverse square is twice one of sigma: a relative error of 1e-6."""
STEPS, NEWTON, CHUNK, NUMBERS, LEAF = 400, 40, 4096, 2**21, 12


def smallest_singular_values(triangular: Array, points: Array, *, floor: float, seed: int = 0) -> tuple[Array, Array]:
    """sigma_min of `z - T` at points (m,), and its relative error by the residual; infinite where `STEPS` were too few.

    floor: positive; singular values below it are not distinguished from zero, and no further step is spent on them.
    """
    n = len(triangular)
    upper = np.ascontiguousarray(triangular, dtype=np.complex128)
    lower = np.ascontiguousarray(upper.conj().T)
    random = np.random.default_rng(seed)
    sigma, error = np.empty(len(points)), np.empty(len(points))
    size = min(CHUNK, max(1, NUMBERS // n))
    for begin in range(0, len(points), size):
        chunk = slice(begin, begin + size)
        start = random.random((n, 2 * len(points[chunk]))) - 0.5
        with np.errstate(all="ignore"):  # what overflows lies below the floor
            sigma[chunk], error[chunk] = _chunk(upper, lower, points[chunk], start.view(np.complex128), floor)
    return sigma, error


def _chunk(upper: Array, lower: Array, points: Array, vector: Array, floor: float) -> tuple[Array, Array]:
    n, limit = len(upper), 1 / floor**2
    sigma, error = np.full(len(points), np.nan), np.full(len(points), np.inf)
    distance = points[None] - np.diag(upper)[:, None]
    distance[np.abs(distance) < floor] = floor
    inverse = 1 / distance
    conjugate = inverse.conj()
    vector = vector / np.sqrt(_squares(vector))
    before = np.zeros_like(vector)
    active = np.arange(len(points))
    ritz, lengths = np.zeros(len(points)), np.zeros(len(points))
    diagonal, beside = np.empty((0, len(points))), np.empty((0, len(points)))
    for _ in range(STEPS):
        moved = vector.copy()
        _solve_lower(lower, conjugate, moved, 0, n)
        alpha = _squares(moved)
        _solve_upper(upper, inverse, moved, 0, n)
        before *= lengths
        moved -= before
        before = vector
        moved -= alpha * vector
        lengths = np.sqrt(_squares(moved))

        deep = ~(alpha < limit)
        alpha[deep] = limit
        diagonal = np.vstack((diagonal, alpha))
        ritz, last = _largest(diagonal, beside, ritz)
        residual = lengths * last
        found = ~(residual > RESIDUAL * ritz) | deep | (ritz >= limit)
        beside = np.vstack((beside, lengths))
        sigma[active] = 1 / np.sqrt(ritz)
        done = active[found]
        error[done] = np.where(deep | (ritz >= limit), 0.0, residual / (2 * ritz))[found]
        if found.all():
            break
        if found.any():
            kept = np.flatnonzero(~found)
            active, ritz, lengths = active[kept], ritz[kept], lengths[kept]
            moved, before, inverse, conjugate, diagonal, beside = (
                rows.take(kept, axis=1) for rows in (moved, before, inverse, conjugate, diagonal, beside)
            )
        vector = moved
        vector /= lengths
    return sigma, error


def _squares(columns: Array) -> Array:
    """The squared norms of complex columns."""
    real = columns.view(np.float64)
    sums = np.einsum("ij,ij->j", real, real)
    total: Array = sums[0::2] + sums[1::2]
    return total


def _solve_upper(upper: Array, inverse: Array, columns: Array, first: int, end: int) -> None:
    """`columns <- (z - T)^{-1} columns` in the rows from first to end, by halves, so that nearly all is matrix products."""
    if end - first <= LEAF:
        for row in range(end - 1, first - 1, -1):
            target = columns[row]
            if row + 1 < end:
                target += upper[row, row + 1 : end] @ columns[row + 1 : end]
            target *= inverse[row]
        return
    middle = (first + end) // 2
    _solve_upper(upper, inverse, columns, middle, end)
    columns[first:middle] += upper[first:middle, middle:end] @ columns[middle:end]
    _solve_upper(upper, inverse, columns, first, middle)


def _solve_lower(lower: Array, conjugate: Array, columns: Array, first: int, end: int) -> None:
    """`columns <- (z - T)^{-*} columns`, with lower = T*, in the rows from first to end."""
    if end - first <= LEAF:
        for row in range(first, end):
            target = columns[row]
            if row > first:
                target += lower[row, first:row] @ columns[first:row]
            target *= conjugate[row]
        return
    middle = (first + end) // 2
    _solve_lower(lower, conjugate, columns, first, middle)
    columns[middle:end] += lower[middle:end, first:middle] @ columns[first:middle]
    _solve_lower(lower, conjugate, columns, middle, end)


def _largest(diagonal: Array, beside: Array, before: Array) -> tuple[Array, Array]:
    """The largest eigenvalue of each real symmetric tridiagonal matrix, and the modulus of its eigenvector's last entry.

    diagonal (k, m), beside (k - 1, m); before: the largest eigenvalue without the last row. Newton's method for the
    characteristic polynomial, by its pivots q, falls monotonically from the bound that the matrix of `before` and the
    last row gives; at the end the last pivot is zero, and the last entry is `|q'|^{-1/2}`.
    """
    if len(diagonal) == 1:
        return diagonal[0].copy(), np.ones_like(diagonal[0])
    half = (before - diagonal[-1]) / 2
    value = (before + diagonal[-1]) / 2 + np.hypot(half, beside[-1])
    squares = beside**2
    for _ in range(NEWTON):
        pivot, slope = diagonal[0] - value, np.full_like(value, -1.0)
        total = slope / pivot
        for row in range(1, len(diagonal)):
            pivot[pivot == 0] = -np.finfo(float).tiny
            through = squares[row - 1] / pivot
            slope = through / pivot * slope - 1.0
            pivot = diagonal[row] - value - through
            if row + 1 < len(diagonal):
                total += slope / pivot
        step = pivot / (slope + total * pivot)
        value = value - step
        if not (np.abs(step) > 4 * UNIT * len(diagonal) * value).any():
            break
    return value, np.abs(slope) ** -0.5
