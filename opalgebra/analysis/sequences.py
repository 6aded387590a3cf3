"""What every extrapolator is given and gives: a sequence with its noise, a trail of estimates, and the best of them.

An extrapolator turns the first k members of a sequence into an estimate T_k of its limit, for every k. Of the trail
T_1, T_2, ... the error of T_k is judged by the trail alone,

    error_k = d_k max(1, r / (1 - r)) + noise_k,    d_k = max(|T_k - T_{k-1}|, |T_k - T_{k-2}|),    r = (d_k / d_{k-2})^(1/2)

where r is how fast the trail contracts: a geometric tail with the ratio r adds up to r / (1 - r) times its first step. Where
it does not contract, r >= 1, nothing is known of the limit and the error is infinite. That is how logarithmic convergence
comes out as failure: r tends to one with the number of terms, and differences that look small stay far from the tolerance. A
transform that does not accelerate such sequences is told by the sequence itself, `power_tails`.
The best estimate is the last, with the most members; but where the trail stays within its own noise up to its end, more
members only add noise, and it is the one of least error there.

noise_k is what the rounding of the members becomes in T_k, by first-order propagation with independent errors: a member is
known to the unit roundoff of its dtype, whatever the arithmetic, which is float64 (complex128) or exact. Members that are
integers or `Fraction`s are exact, and are extrapolated exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np

from opalgebra.display import Tabulated
from opalgebra.errors import InputError

Array = np.ndarray[Any, Any]
DOUBLE = 2.0**-53
"""The unit roundoff of the arithmetic here."""


@dataclass(frozen=True, eq=False)
class Estimate(Tabulated):
    """A limit. value: as the members are; error: what is estimated of its distance from the limit, in the norm (absolute value)
    of a member; noise: the share of rounding in it; terms: how many members the value rests on.

    converged: whether the error is at most the tolerance times the size of the value. The tolerance is half of the digits of
    the members' dtype unless the caller names another. Arrays of these where several sequences were given at once.
    """

    value: Any
    error: Any
    converged: Any
    noise: Any
    terms: Any


class Members(NamedTuple):
    """values: float64, complex128 or `Fraction` objects, the sequence along the first axis; unit: their unit roundoff."""

    values: Array
    unit: float


class Noisy(NamedTuple):
    """values (members, *batch, components) and the noise (members, *batch) of each; numbers have one component."""

    values: Array
    noise: Array

    @classmethod
    def of(cls, found: Members) -> "Noisy":
        """Members whose noise is their rounding."""
        values = found.values if found.values.ndim > 1 else found.values[:, None]
        return cls(values, found.unit * sizes(values))


class Trail(NamedTuple):
    """values (estimates, *batch, components) and noise (estimates, *batch); terms (estimates,): members used by each."""

    values: Array
    noise: Array
    terms: Array


def members(given: Any, *, axes: int, least: int = 1, exact: bool = True, what: str = "the sequence") -> Members:
    """A sequence of numbers (axes=1) or vectors (axes=2) as an array; if `exact`, of integers and fractions exactly.

    InputError for another number of axes, fewer members than `least`, what is no number, and for NaN or infinity with its
    place.
    """
    values, unit = numbers(given, what)
    if values.ndim != axes:
        wanted = "numbers" if axes == 1 else "vectors (members, components)"
        raise InputError(f"{what} has the shape {values.shape}, but a sequence of {wanted} is expected")
    if len(values) < least:
        raise InputError(f"{what} has {len(values)} members, and {least} are needed; give more")
    return Members(values, unit) if exact or values.dtype != object else Members(floats(values), DOUBLE)


def numbers(given: Any, what: str) -> tuple[Array, float]:
    """An array of finite numbers, NumPy's, PyTorch's or a list, and the unit roundoff of its dtype, 0 where it is exact."""
    unit = None
    if hasattr(given, "detach"):
        import torch

        unit = torch.finfo(given.dtype).eps / 2 if given.dtype.is_floating_point or given.dtype.is_complex else 0.0
        wide = torch.complex128 if given.dtype.is_complex else torch.float64 if given.dtype.is_floating_point else given.dtype
        given = given.detach().to("cpu", wide).numpy()
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise InputError(f"{what} has members of different shapes; give an array") from error
    if values.dtype.kind in "iu" or (values.dtype == object and all(isinstance(x, Rational) for x in values.flat)):
        exact = np.empty(values.size, dtype=object)
        exact[:] = [Fraction(int(x)) if values.dtype.kind in "iu" else Fraction(x) for x in values.flat]
        return exact.reshape(values.shape), 0.0
    if values.dtype.kind not in "fc":
        raise InputError(f"{what} is of {values.dtype}; give floating numbers, or integers and Fractions, which are exact")
    unit = unit if unit is not None else max(float(np.finfo(values.dtype).eps) / 2, DOUBLE)
    values = values.astype(complex if values.dtype.kind == "c" else float)
    finite(values, what)
    return values, unit


def finite(values: Array, what: str) -> None:
    """InputError with the place of the first member that is NaN or infinite."""
    broken = np.argwhere(~np.isfinite(values))
    if len(broken):
        at = tuple(broken[0].tolist())
        raise InputError(f"{what} is {values[at]} at index {at[0] if len(at) == 1 else at}; leave out what is not finite")


def floats(values: Array) -> Array:
    """The same numbers in float64 or complex128."""
    return values if values.dtype != object else values.astype(float)


def arithmetic(values: Array) -> float:
    """The unit roundoff of what is computed with these numbers: none for exact ones."""
    return 0.0 if values.dtype == object else DOUBLE


def sizes(values: Array) -> Array:
    """Norms over the last axis, in float64."""
    return np.asarray(np.linalg.norm(floats(values), axis=-1))


def trailing(columns: Sequence[tuple[Array, Array]]) -> Trail:
    """The trail of a triangular table of values and noise, each column of which needs two members more for an entry.

    T_k is the last entry that the first k members reach in the last column where its noise is finite.
    """
    values, noise = columns[0][0].copy(), columns[0][1].copy()
    for number, (later, scatter) in enumerate(columns[1:], start=1):
        known = np.isfinite(scatter)
        values[2 * number :] = np.where(known[..., None], later, values[2 * number :])
        noise[2 * number :] = np.where(known, scatter, noise[2 * number :])
    return Trail(values, noise, np.arange(1, len(values) + 1))


def judged(trail: Trail, unit: float, tolerance: float | None, *, start: Noisy | None = None, scalar: bool = False) -> Estimate:
    """The best estimate of a trail and its error; see the module. Several sequences at once have each their own.

    start: the sequence itself, for a transform that does not accelerate logarithmic convergence.
    """
    steps = _steps(trail)
    error = _errors(trail, steps)
    best = _best(trail, steps, error)
    at = (best, *np.indices(best.shape))
    value, found, noise = trail.values[at], error[at], trail.noise[at]
    if start is not None:
        found = np.maximum(found, power_tails(start))
    limit = relative_tolerance(unit, tolerance) * sizes(value)
    settled = (found <= limit) & np.isfinite(found)
    if scalar:
        value = value[..., 0]
    return Estimate(*map(plain, (value, found, settled, noise, trail.terms[best])))


def last_error(trail: Trail) -> Array:
    """(*batch,): the error of the last estimate of a trail, such as that of the last partial sum among partial sums."""
    return np.asarray(_errors(trail, _steps(trail))[-1])


def power_tails(start: Noisy) -> Array:
    """(*batch,): how much the steps D_n that decay as a power of n still add up to, and 0 for sequences of other kinds.

    Over the last two octaves of n, `|D_n| ~ n^-c` loses the same factor in each, and `lambda^n` twice as many digits in the
    second: the borderline is the square root of two. The steps have to point one way, within 45 degrees. Their tail is
    `|D_n| n / (c - 1)` by Raabe, infinite for c <= 1.
    """
    steps = floats(start.values[1:] - start.values[:-1])
    lengths, tails = sizes(steps), np.zeros(start.noise.shape[1:])
    for at in np.ndindex(tails.shape):
        own, floor = lengths[(slice(None), *at)], start.noise[(slice(1, None), *at)]
        clear = np.flatnonzero(own > floor)
        last = int(clear[-1]) + 1 if len(clear) else 0
        octaves = np.array([last // 4, last // 2, last - 1, last])
        if last < 8 or not np.all(own[octaves - 1] > 0):
            continue
        directions = np.stack([steps[(n - 1, *at)] / own[n - 1] for n in octaves])
        early, late = np.log2(own[octaves[:2] - 1] / own[octaves[[1, 3]] - 1]) / np.log2(octaves[[1, 3]] / octaves[:2])
        aligned = np.real(directions[:3].conj() @ directions[3]).min() > np.sqrt(0.5)
        if aligned and abs(late) < np.sqrt(2) * max(abs(early), 1 / last):
            tails[at] = own[last - 1] * last / (late - 1) if late > 1 else np.inf
    return tails


def _steps(trail: Trail) -> Array:
    """d_k of the module, infinite where there are no two estimates before."""
    values, steps = trail.values, np.full(trail.noise.shape, np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        for k in range(2, len(values)):
            steps[k] = np.maximum(sizes(values[k] - values[k - 1]), sizes(values[k] - values[k - 2]))
    return np.where(np.isnan(steps), np.inf, steps)


def _errors(trail: Trail, steps: Array) -> Array:
    """error_k of the module."""
    error = np.full(steps.shape, np.inf)
    for k in range(2, len(steps)):
        before = steps[max(k - 2, 2)]
        ratio = np.sqrt(np.divide(steps[k], before, out=np.zeros_like(before), where=(before > 0) & np.isfinite(before)))
        tail = np.divide(ratio, 1 - ratio, out=np.full_like(ratio, np.inf), where=ratio < 1)
        tail = np.where(_is_floor(trail, steps, k) | (k < 4), 1.0, np.maximum(1.0, tail))
        with np.errstate(invalid="ignore"):
            error[k] = np.where(steps[k] > 0, steps[k] * tail, 0.0) + trail.noise[k]
    return np.where(np.isfinite(error), error, np.inf)


def _is_floor(trail: Trail, steps: Array, k: int) -> Array:
    """Whether T_k differs from the two estimates before it by no more than the noise of all three."""
    return np.asarray(steps[k] <= trail.noise[k - 2 : k + 1].sum(0))


def _best(trail: Trail, steps: Array, error: Array) -> Array:
    """The last estimate, or the one of least error where the trail stays within its noise to the end."""
    last = len(steps) - 1
    best, stays = np.full(steps.shape[1:], last), np.ones(steps.shape[1:], dtype=bool)
    for k in range(last, 1, -1):
        stays = stays & _is_floor(trail, steps, k)
        better = stays & (error[k] < error[best, *np.indices(best.shape)])
        best = np.where(better, k, best)
    return best


def relative_tolerance(unit: float, tolerance: float | None) -> float:
    """The tolerance asked for, or half of the digits of the dtype: the square root of its unit roundoff."""
    if tolerance is None:
        return float(np.sqrt(max(unit, DOUBLE)))
    if not tolerance > 0:
        raise InputError(f"tolerance={tolerance!r} is no positive number; leave it out for half of the digits of the dtype")
    return float(tolerance)


def plain(value: Any) -> Any:
    """A scalar of Python for an array without axes."""
    return value if np.ndim(value) else value.item() if hasattr(value, "item") else value
