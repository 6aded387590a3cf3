"""Growth exponents of ordered products: how fast each direction grows per factor, without the product ever being formed.

The singular values of a long product lie further apart than float64 can hold: written as a matrix, all but the largest drown
in its rounding, and beyond some hundred factors it overflows. Here a frame of k columns is carried through the factors and
made orthonormal after each, `A_l Q_{l-1} = Q_l R_l`, and the logarithms of the diagonals of R_l are added. The first factor
given acts first.

Two questions are asked of a product. `lyapunov_spectrum`: its growth per factor in the limit of many factors, one pass, with
a statistical error. `depth_exponents`: the logarithms of the singular values of this finite product, divided by its length,
to rounding.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from opalgebra.analysis.linear_map import LinearMap, check_sizes, linear_map, random_frame
from opalgebra.analysis.matrices import UNIT, Array
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.roundoff import LAMBDA
from opalgebra.scalar import is_natural

SWEEPS = 100
NARROW = float(np.log(1e3))
"""Singular values within this range lose three digits of a product that is written out."""


@dataclass(frozen=True, eq=False)
class LyapunovSpectrum(Tabulated):
    """exponents (k,): per factor, in natural logarithms, not ordered where they are not resolved. error (k,): standard errors
    by means of blocks, infinite for fewer than 4 factors. converged (k,): whether both halves of the product agree within
    4 of them. factors: how many were counted.
    """

    exponents: Array
    error: Array
    converged: Array
    factors: int


def lyapunov_spectrum(matrices: Iterable[Any], k: int | None = None, *, discard: int = 0, seed: int = 0) -> LyapunovSpectrum:
    """The k leading growth exponents of an ordered product of square matrices or linear maps; all of them by default.

    `mu_i = lim (1/L) ln sigma_i(A_L ... A_1)`, as the mean of `ln |R_ii|` of the QR steps from a random frame; `discard`
    factors at the beginning turn the frame and are not counted. Any iterable, read once; torch tensors and maps stay on their
    device. A singular factor gives an exponent of minus infinity. InputError without a factor to count, for several sizes, k
    outside 1 .. n, an array that is empty or not square, nan or infinity.

    >>> from opalgebra.analysis import lyapunov_spectrum
    >>> shears = [[[1, 1], [0, 1]], [[1, 0], [1, 1]]] * 40
    >>> lyapunov_spectrum(shears, discard=40).exponents.round(12).tolist()
    [0.48121182506, -0.48121182506]

    Benettin et al., Meccanica 15 (1980) 9; Dieci and Van Vleck, Appl. Numer. Math. 17 (1995) 275.
    """
    if not is_natural(discard):
        raise InputError(f"discard={discard!r}: the number of factors that are not counted is a natural number")
    frame, rows, size = None, [], None
    for place, given in enumerate(matrices):
        factor = linear_map(given, name=f"matrix {place}")
        if frame is None:
            size = factor.size
            frame = random_frame(size, checked_rank(k, size), seed, factor)
        elif factor.size != size:
            raise InputError(f"matrix {place} has the size {factor.size} after {size}; factors of a product act on one space")
        frame, triangular = torch.linalg.qr(factor.apply(frame.to(torch.promote_types(frame.dtype, factor.dtype))))
        if place >= discard:
            rows.append(torch.log(triangular.diagonal().abs()).cpu())
    if not rows:
        raise InputError(f"no factor is left after discarding {discard}; give more, or discard fewer")
    growth = torch.stack(rows).numpy()
    with np.errstate(invalid="ignore"):
        error = _standard_error(growth)
        half = len(growth) // 2
        first, second = (part.mean(0) for part in (growth[:half], growth[half:])) if half else (growth[0] * np.nan,) * 2
        converged = np.abs(first - second) <= 4 * np.sqrt(2) * error + UNIT * len(growth)
    return LyapunovSpectrum(growth.mean(0), error, converged & np.isfinite(error), len(growth))


@dataclass(frozen=True, eq=False)
class DepthExponents(Tabulated):
    """log_singular_values (k,), decreasing; exponents (k,): the same per factor. error (k,), of the logarithms: the last
    change, and an estimate of rounding. converged (k,): whether the error is within the tolerance that was asked.
    """

    log_singular_values: Array
    exponents: Array
    error: Array
    converged: Array


def depth_exponents(
    matrices: Iterable[Any], k: int | None = None, *, sweeps: int = 8, tolerance: float = 1e-2, seed: int = 0
) -> DepthExponents:
    """The logarithms of the k largest singular values of `A_L ... A_1`, and their quotients by L; all of them by default.

    The triangular factors of one QR pass have the same singular values, and passes over their transposes, to and fro, make
    their product diagonal (the QR iteration, on a product that is never formed). For k below the size, the leading right
    singular subspace is found first by at most `sweeps` passes to and fro over the maps themselves, which need adjoints; from
    a smaller subspace all values are too small, and `error` has their last change. A frame of 2k columns is carried. Rounding
    is estimated as `lambda n^(1/2) u sum_l ||R_l||_F / |R_l,ii|`. InputError as `lyapunov_spectrum`, and for a map without an
    adjoint where one is needed.

    >>> from opalgebra.analysis import depth_exponents
    >>> depth_exponents([[[0.0, 2.0], [-2.0, 0.0]]] * 2000).log_singular_values.round(6).tolist()
    [1386.294361, 1386.294361]

    Bojanczyk, Ewerbring, Luk and Van Dooren, Signal Process. 25 (1991) 189; Halko, Martinsson and Tropp, SIAM Rev. 53 (2011)
    217.
    """
    maps = [linear_map(given, name=f"matrix {place}") for place, given in enumerate(matrices)]
    if not maps:
        raise InputError("the singular values of a product of no factors were asked; give at least one")
    check_sizes(maps)
    rank = checked_rank(k, maps[0].size)
    wide = min(maps[0].size, 2 * rank)
    if k is None or wide == maps[0].size:
        frame = torch.eye(maps[0].size, dtype=_dtype(maps), device=maps[0].device)
        found, change, rounding = _diagonalised([triangle for _, triangle in _carried(maps, frame)])
    elif any(part.adjoint is None for part in maps):
        raise InputError(f"{rank} of {maps[0].size} singular values were asked of a map without an adjoint; give it one")
    else:
        frame = random_frame(maps[0].size, wide, seed, maps[0]).to(_dtype(maps))
        found, change, rounding = _leading(maps, frame, rank, max(1, sweeps), tolerance)
    error = (change + rounding)[:rank]
    return DepthExponents(found[:rank], found[:rank] / len(maps), error, error <= tolerance)


@dataclass(frozen=True, eq=False)
class GinibreExponents(Tabulated):
    """exponents (d,): the Lyapunov exponents of products of Ginibre matrices. variances (d,): of one factor's share in each."""

    exponents: Array
    variances: Array


def ginibre_exponents(d: int, kind: str = "real", *, variance: float = 1.0) -> GinibreExponents:
    """Exact, for independent d x d factors with normal entries: `mu_i = (ln 2 + psi((d - i + 1)/2))/2`, variance `psi'(...)/4`.

    For kind "complex", with `E |g|^2 = variance`, `mu_i = psi(d - i + 1)/2`. The variance adds half of its logarithm. Of
    variance 1/d and many features, `exp(2 mu)` is uniform on 0 .. 1.

    >>> from opalgebra.analysis import ginibre_exponents
    >>> ginibre_exponents(2).exponents
    array([ 0.05796576, -0.63518142])

    Newman, Commun. Math. Phys. 103 (1986) 121; Forrester, J. Stat. Phys. 151 (2013) 796; Akemann, Burda, Kieburg, J. Phys. A
    47 (2014).
    """
    if kind not in ("real", "complex"):
        raise InputError(f"kind={kind!r} is not known; use 'real' or 'complex'")
    if not is_natural(d) or d < 1 or not variance > 0:
        raise InputError(f"d={d!r} and variance={variance!r} were asked; a size is a positive integer, a variance is positive")
    beta = 1 if kind == "real" else 2
    halves = beta * np.arange(d, 0, -1) / 2
    exponents = (np.log(2 / beta) + special.psi(halves) + np.log(variance)) / 2
    return GinibreExponents(exponents, special.polygamma(1, halves) / 4)


def vector_growth(n: int) -> tuple[float, float]:
    """Mean and variance of `ln ||W x|| / ||x||` for one vector and a real n x n W with normal entries of variance 1/n.

    `(psi(n/2) + ln(2/n))/2`, about -1/(2n), and `psi'(n/2)/4`: a chain of L layers shrinks a vector by exp(-L/2n). Hanin and
    Nica, Commun. Math. Phys. 376 (2020) 287.
    """
    if not is_natural(n) or n < 1:
        raise InputError(f"n={n!r} was asked; it is a positive natural number")
    return float((special.psi(n / 2) + np.log(2 / n)) / 2), float(special.polygamma(1, n / 2) / 4)


def checked_rank(k: int | None, size: int) -> int:
    """k, or the size for None. InputError outside 1 .. size."""
    if k is None:
        return size
    if not is_natural(k) or not 1 <= k <= size:
        raise InputError(f"k={k!r} exponents were asked of maps of size {size}; ask for 1 to {size}")
    return k


def _carried(maps: Iterable[LinearMap], frame: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The orthonormal frame after each map, and the triangular factor there."""
    for part in maps:
        frame, triangle = torch.linalg.qr(part.apply(frame))
        yield frame, triangle


def _leading(maps: Sequence[LinearMap], frame: Tensor, rank: int, sweeps: int, tolerance: float) -> tuple[Array, Array, Array]:
    """The same as `_diagonalised` for a frame that is turned to the leading right singular vectors by passes to and fro."""
    before = np.full(frame.shape[1], -np.inf)
    for _ in range(sweeps):
        passed = list(_carried(maps, frame))
        found, inner, rounding = _diagonalised([triangle for _, triangle in passed])
        with np.errstate(invalid="ignore"):
            change = inner + np.nan_to_num(np.abs(found - before), nan=0.0, posinf=np.inf)
        if (change[:rank] <= tolerance).all():
            break
        before, frame = found, passed[-1][0]
        for part in reversed(maps):
            assert part.adjoint is not None
            frame = torch.linalg.qr(part.adjoint(frame))[0]
    return found, change, rounding


def _dtype(maps: Iterable[LinearMap]) -> torch.dtype:
    return torch.complex128 if any(part.dtype.is_complex for part in maps) else torch.float64


def _diagonalised(triangles: list[Tensor]) -> tuple[Array, Array, Array]:
    """The log singular values of a product of triangular factors, the first acting first, decreasing; their last change;
    rounding.
    """
    logs, rounding = _log_diagonals(triangles), _rounding(triangles)
    if np.isfinite(logs).all() and np.ptp(logs) < NARROW:
        found = _written(triangles)
        return found, np.full(len(found), abs(found.sum() - logs.sum())), 1e3 * rounding
    change = np.zeros(len(logs))
    for _ in range(SWEEPS):
        frame = torch.eye(len(logs), dtype=triangles[0].dtype, device=triangles[0].device)
        turned = [LinearMap(len(logs), triangle.mH.__matmul__) for triangle in reversed(triangles)]
        triangles = [triangle for _, triangle in _carried(turned, frame)]
        before, logs = logs, _log_diagonals(triangles)
        with np.errstate(invalid="ignore"):
            change = np.nan_to_num(np.abs(logs - before), nan=0.0)
        if (change <= UNIT * len(triangles)).all():
            break
    order = np.argsort(-logs, kind="stable")
    return logs[order], change[order], np.sort(rounding + _rounding(triangles))


def _rounding(triangles: list[Tensor]) -> Array:
    """By how much rounding moves each logarithm: a QR step moves R_ii by `u ||R||`, to first order."""
    stacked = torch.stack(triangles)
    diagonal = stacked.diagonal(dim1=1, dim2=2).abs()
    relative = torch.linalg.matrix_norm(stacked)[:, None] / diagonal
    total: Array = (LAMBDA * UNIT * diagonal.shape[1] ** 0.5) * relative.sum(0).cpu().numpy()
    return np.nan_to_num(total, nan=0.0, posinf=0.0)


def _written(triangles: list[Tensor]) -> Array:
    """The same by the product itself, each factor scaled to a determinant of 1: for values near each other, which passes
    tell apart slowly.
    """
    scales = [triangle.diagonal().abs().log().mean() for triangle in triangles]
    product = torch.eye(len(triangles[0]), dtype=triangles[0].dtype, device=triangles[0].device)
    for triangle, scale in zip(triangles, scales):
        product = (triangle / scale.exp()) @ product
    logs: Array = (torch.linalg.svdvals(product).log() + torch.stack(scales).sum()).cpu().numpy()
    return logs


def _log_diagonals(triangles: list[Tensor]) -> Array:
    logs: Array = torch.log(torch.stack([triangle.diagonal().abs() for triangle in triangles])).sum(0).cpu().numpy()
    return logs


def _standard_error(growth: Array) -> Array:
    """Of the mean over factors, by means of about L^(1/2) blocks, which correlations over fewer factors do not fool."""
    blocks = int(len(growth) ** 0.5)
    if blocks < 2:
        return np.full(growth.shape[1], np.inf)
    length = len(growth) // blocks
    means = growth[-blocks * length :].reshape(blocks, length, -1).mean(1)
    error: Array = means.std(0, ddof=1) / blocks**0.5
    return error
