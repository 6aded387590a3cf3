"""Pseudospectra of maps too large for a Schur form, from a Krylov space: `A V_k = V_{k+1} H`, H of shape (k + 1, k).

For every z and y, `||(z - A) V_k y|| = ||(z I - H) y||` with I the first k columns of the identity, and so

    sigma_min(z - A) <= sigma_min(z I - H),

which falls as k grows and is reached when the space is invariant. The sets found are therefore inside the true ones, never
outside; the outer parts of the spectrum are right first.

Toh and Trefethen, SIAM J. Sci. Comput. 17 (1996) 1; Wright and Trefethen, SIAM J. Sci. Comput. 23 (2001) 591.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from opalgebra.analysis.linear_map import LinearMap, linear_map, random_frame
from opalgebra.analysis.matrices import UNIT, Array
from opalgebra.analysis.pseudospectrum import Pseudospectrum, box, grid_points
from opalgebra.errors import InputError
from opalgebra.scalar import is_natural

CHUNK = 256


def krylov_pseudospectrum(
    A: Any, grid: Any = None, n: int = 40, *, dimension: int = 60, tolerance: float = 0.1, seed: int = 0
) -> Pseudospectrum:
    """Upper bounds of sigma_min(z - A) of a linear map or a matrix, from a Krylov space of a dimension with a random start.

    Matrix-free: `dimension` applications, and as many of the adjoint. sigma_min is at most the value found, and some singular value of z - A lies
    within `error` of it, the residual `||(z - A)* u - sigma v||` of the whole map; for a map without an adjoint the error is the value
    itself. `converged` where the error is within `tolerance` of the value: inside a spectrum that takes as many dimensions as there are.
    `eigenvalues` are the Ritz values, `norm` that of H, at most that of A. The grid is as for `pseudospectrum`, by default around
    the numerical range of H. InputError for a dimension below 1; one above the size is lowered to it. Errors otherwise as `pseudospectrum`.

    >>> from opalgebra.analysis import krylov_pseudospectrum
    >>> krylov_pseudospectrum([[0.0, 1.0], [0.0, 0.0]], [0.5, 0.5j]).sigma_min.round(12)
    array([0.20710678, 0.20710678])
    """
    if not is_natural(dimension) or dimension < 1:
        raise InputError(f"dimension={dimension!r}: the dimension of a Krylov space is a positive natural number")
    operator = linear_map(A, name="A")
    basis, projected = arnoldi(operator, dimension, seed)
    k = projected.shape[1]
    z = box(projected[:k], n) if grid is None else grid_points(grid)
    turned = None if operator.adjoint is None else _in_own_frame(basis, operator.adjoint(basis))
    sigma, residual = _smallest(projected, turned, z.ravel())
    scale = float(np.linalg.norm(projected, 2))
    rounding = (k * UNIT * (scale + np.abs(z))).reshape(z.shape)
    sigma, error = sigma.reshape(z.shape), residual.reshape(z.shape) + rounding
    ritz = np.linalg.eigvals(projected[:k])
    return Pseudospectrum(z, sigma, error, error <= tolerance * sigma + 2 * rounding, ritz, scale)


def arnoldi(A: LinearMap, dimension: int, seed: int = 0) -> tuple[Tensor, Array]:
    """V (size, rows) and H (rows, k) with `A V_k = V H`: k = dimension and one row more, or fewer where the space is invariant, and then
    H is square.
    """
    dimension = min(dimension, A.size)
    basis = torch.zeros(A.size, dimension + 1, dtype=A.dtype, device=A.device)
    basis[:, :1] = random_frame(A.size, 1, seed, A)
    projected = torch.zeros(dimension + 1, dimension, dtype=A.dtype, device=A.device)
    for place in range(dimension):
        moved = A.apply(basis[:, place : place + 1])[:, 0]
        size, known = moved.norm(), basis[:, : place + 1]
        for _ in range(2):  # twice is enough
            along = known.mH @ moved
            moved = moved - known @ along
            projected[: place + 1, place] += along
        length = moved.norm()
        if not torch.isfinite(length):
            raise InputError(f"the map gives nan or infinity after {place + 1} applications; mend it, or scale it down")
        if length <= A.size**0.5 * UNIT * size or place + 1 == A.size:
            return known, projected[: place + 1, : place + 1].cpu().numpy()
        projected[place + 1, place] = length
        basis[:, place + 1] = moved / length
    return basis, projected.cpu().numpy()


def _in_own_frame(basis: Tensor, moved: Tensor) -> tuple[Array, Array]:
    """`[V, A* V] = Q [R_1, R_2]`: lengths of combinations of the two are those of combinations of R_1 and R_2."""
    together = torch.linalg.qr(torch.cat((basis, moved), dim=1))[1].cpu().numpy()
    return together[:, : basis.shape[1]], together[:, basis.shape[1] :]


def _smallest(projected: Array, turned: tuple[Array, Array] | None, z: Array) -> tuple[Array, Array]:
    """sigma_min of `z - H` and the residual of its vectors in the whole map, `(z - A)* V u - sigma V_k v`."""
    rows, columns = projected.shape
    found, residuals = [], []
    for begin in range(0, len(z), CHUNK):
        points = z[begin : begin + CHUNK]
        shifted = points[:, None, None] * np.eye(rows, columns) - projected
        if turned is None:
            values = np.linalg.svd(shifted, compute_uv=False)[:, -1]
            residuals.append(values)
        else:
            left, sizes, right = np.linalg.svd(shifted, full_matrices=False)
            values, u, v = sizes[:, -1], left[:, :, -1].T, right[:, -1].conj().T
            basis, adjoint = turned
            residuals.append(np.linalg.norm(points.conj() * (basis @ u) - adjoint @ u - values * (basis[:, :columns] @ v), axis=0))
        found.append(values)
    return np.concatenate(found), np.concatenate(residuals)
