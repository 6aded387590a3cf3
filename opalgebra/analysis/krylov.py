"""Pseudospectra of maps too large for a Schur form, from the best vectors of a subspace: matrix-free, with a residual.

For every subspace S, `min over x in S of ||(z - A) x||` is an upper bound of sigma_min(z - A), and with `Y` a basis of S it
is a singular value of the small `z R_1 - R_2`, `[Y, A Y] = Q [R_1, R_2]`. The sets found are inside the true ones, never
outside.

What such a vector is made of decides how good the bound is. A Krylov space of a random start has the outer eigenvalues, but
not what a non-normal map does at once; a layer is c plus a V whose singular values fall. So S is spanned by both: a Krylov
space of A, the leading right and left singular vectors W and U of `A - c`, and their images `A U`, `A* W`; c is the mean
of the diagonal of Arnoldi's H.

Toh and Trefethen, SIAM J. Sci. Comput. 17 (1996) 1; Wright and Trefethen, SIAM J. Sci. Comput. 23 (2001) 591; Halko,
Martinsson and Tropp, SIAM Rev. 53 (2011) 217.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from opalgebra.analysis.linear_map import LinearMap, linear_map, random_frame
from opalgebra.analysis.matrices import UNIT, Array
from opalgebra.analysis.pseudospectrum import Pseudospectrum, box, grid_points
from opalgebra.errors import InputError
from opalgebra.numeric.roundoff import LAMBDA
from opalgebra.scalar import is_natural

CHUNK, SWEEPS, OVERSAMPLING = 256, 2, 8


def krylov_pseudospectrum(
    A: Any, grid: Any = None, n: int = 40, *, dimension: int = 100, tolerance: float = 0.1, seed: int = 0
) -> Pseudospectrum:
    """Upper bounds of sigma_min(z - A) of a linear map or a matrix, from a subspace of about `dimension` vectors.

    sigma_min is at most the value found, and some singular value of z - A lies within `error` of it, the residual `||(z - A)*
    u - sigma x||` of the whole map. `converged` where the error is within `tolerance` of the value: outside the spectrum
    first. A map without an adjoint has a Krylov space alone, and the value itself is its error. `eigenvalues` are the Ritz
    values, `norm` that of A on the subspace. The grid is as for `pseudospectrum`, by default around the numerical range
    there. InputError for a dimension below 1; one above the size is lowered to it. Errors otherwise as `pseudospectrum`.

    >>> from opalgebra.analysis import krylov_pseudospectrum
    >>> krylov_pseudospectrum([[0.0, 1.0], [0.0, 0.0]], [0.5, 0.5j]).sigma_min.round(12)
    array([0.20710678, 0.20710678])
    """
    if not is_natural(dimension) or dimension < 1:
        raise InputError(f"dimension={dimension!r}: the dimension of a subspace is a positive natural number")
    operator = linear_map(A, name="A")
    share = dimension if operator.adjoint is None or dimension >= operator.size else -(-dimension // 5)
    known, projected = arnoldi(operator, share, seed)
    k = projected.shape[1]
    basis = known[:, :k]
    if operator.adjoint is not None and k < operator.size:
        basis = _enriched(operator, basis, complex(projected.diagonal().mean()), min(dimension // 5, operator.size // 4), seed)
    moved = operator.apply(basis)
    triangles = [basis, moved]
    if operator.adjoint is not None:
        triangles += [operator.adjoint(basis), operator.adjoint(moved)]
    parts = np.split(torch.linalg.qr(torch.cat(triangles, dim=1))[1].cpu().numpy(), len(triangles), axis=1)
    restricted = parts[0].conj().T @ parts[1]
    z = box(restricted, n) if grid is None else grid_points(grid)
    sigma, residual = _smallest(parts, z.ravel())
    scale = float(np.linalg.norm(parts[1], 2))
    rounding = LAMBDA * operator.size**0.5 * UNIT * (scale + np.abs(z))
    sigma, error = sigma.reshape(z.shape), residual.reshape(z.shape) + rounding
    ritz = np.linalg.eigvals(restricted)
    return Pseudospectrum(z, sigma, error, error <= tolerance * sigma + 2 * rounding, ritz, scale)


def arnoldi(A: LinearMap, dimension: int, seed: int = 0) -> tuple[Tensor, Array]:
    """V (size, rows) and H (rows, k) with `A V_k = V H`: k = dimension and one row more, or fewer where the space is
    invariant, and then H is square.
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
        if length <= LAMBDA * A.size**0.5 * UNIT * size or place + 1 == A.size:
            return known, projected[: place + 1, : place + 1].cpu().numpy()
        projected[place + 1, place] = length
        basis[:, place + 1] = moved / length
    return basis, projected.cpu().numpy()


def _enriched(A: LinearMap, basis: Tensor, centre: complex, rank: int, seed: int) -> Tensor:
    """An orthonormal basis of the given columns, W, U, A U and A* W."""
    shift: Any = centre if A.dtype.is_complex else centre.real
    assert A.adjoint is not None
    right = random_frame(A.size, min(A.size, rank + OVERSAMPLING), seed + 1, A)
    for _ in range(SWEEPS):
        left = torch.linalg.qr(A.apply(right) - shift * right)[0]
        right = torch.linalg.qr(A.adjoint(left) - np.conj(shift) * left)[0]
    left, _, turn = torch.linalg.svd(A.apply(right) - shift * right, full_matrices=False)
    left, right = left[:, :rank], (right @ turn.mH)[:, :rank]
    together = torch.cat((basis, right, left, A.apply(left), A.adjoint(right)), dim=1)
    found: Tensor = torch.linalg.qr(together[:, : A.size])[0]
    return found


def _smallest(parts: list[Array], z: Array) -> tuple[Array, Array]:
    """The least `||(z - A) Y y||` and the residual of its vectors, from the triangles of Y, A Y, A* Y and A* A Y."""
    basis, moved, *adjoint = parts
    columns = basis.shape[1]
    small = slice(0, 2 * columns)
    found, residuals = [], []
    for begin in range(0, len(z), CHUNK):
        points = z[begin : begin + CHUNK]
        shifted = points[:, None, None] * basis[small] - moved[small]
        if adjoint:
            _, sizes, right = np.linalg.svd(shifted, full_matrices=False)
            values, x = sizes[:, -1], right[:, -1].conj().T
            # (z - A)* (z - A) x - sigma^2 x, over sigma
            square = np.abs(points) ** 2 - values**2
            left = square * (basis @ x) - points.conj() * (moved @ x) - points * (adjoint[0] @ x) + adjoint[1] @ x
            residuals.append(np.linalg.norm(left, axis=0) / np.maximum(values, np.finfo(float).tiny))
        else:
            values = np.linalg.svd(shifted, compute_uv=False)[:, -1]
            residuals.append(values)
        found.append(values)
    sigma = np.concatenate(found)
    return sigma, np.minimum(np.concatenate(residuals), sigma)
