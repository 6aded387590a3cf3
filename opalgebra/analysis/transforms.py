"""Sequence transformations of numbers that model the remainder: Aitken's, Levin's and Richardson's.

    aitken        s_n = s + c rho^n                        linear convergence, or divergence to be summed
    levin         s_n = s + w_n (c_0 + c_1/n + ...)        w_n = n (s_n - s_{n-1}): alternating, factorially divergent
    richardson    s_n = s + c_1/n + c_2/n^2 + ...          logarithmic convergence of this one kind

Levin's and Richardson's are mpmath's, run on the members' exact values with digits to spare, so that the only noise is that of
the members themselves.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from opalgebra.analysis.sequences import (
    DOUBLE,
    Estimate,
    Noisy,
    Trail,
    arithmetic,
    floats,
    judged,
    members,
    sizes,
    trailing,
)
from opalgebra.errors import InputError


def aitken(s: Any, *, tolerance: float | None = None) -> Estimate:
    """The limit of a sequence of numbers by Aitken's process, iterated: `s_{n+2} - (D s_{n+1})^2 / (D s_{n+1} - D s_n)`.

    s: real or complex members, exact ones exactly. Logarithmic convergence is reported as not converged. InputError for a
    member that is not finite, with its place.

    >>> aitken([1, 3, 7, 15, 31]).value
    Fraction(-1, 1)

    Aitken, Proc. R. Soc. Edinburgh 46 (1926) 289; Weniger, Comput. Phys. Rep. 10 (1989) 189, section 5.1.
    """
    found = members(s, axes=1)
    start = Noisy.of(found)
    return judged(aitken_trail(start), found.unit, tolerance, start=start, scalar=True)


def levin(s: Any, *, variant: str = "u", tolerance: float | None = None) -> Estimate:
    """The limit of the partial sums s of a series by Levin's transformation, mpmath's.

    s: real or complex partial sums, the first of which is the first term. variant: the model of the remainder, "u"
    n a_n, "t" a_n, "v" a_n a_{n+1} / (a_n - a_{n+1}). InputError for a member that is not finite, with its place.

    >>> import math
    >>> from itertools import accumulate
    >>> f"{levin(list(accumulate((-1) ** n * math.factorial(n) for n in range(20)))).value:.9f}"
    '0.596347362'

    Levin, Int. J. Comput. Math. B 3 (1973) 371; Weniger, Comput. Phys. Rep. 10 (1989) 189, section 7.3.
    """
    if variant not in ("u", "t", "v"):
        raise InputError(f"variant={variant!r} is not known; use 'u', 't' or 'v'")
    found = members(s, axes=1)
    return judged(levin_trail(Noisy.of(found), variant), found.unit, tolerance, scalar=True)


def richardson(s: Any, *, tolerance: float | None = None) -> Estimate:
    """The limit of a sequence s_1, s_2, ... with an expansion in 1/n, by Richardson's extrapolation, mpmath's.

    s: real or complex members; the first has the number 1. N = 2k + 2 members take the last k + 1 with weights that cancel k
    powers of 1/n and grow as large as e^N, by which the noise grows too. For a sequence without such an expansion the
    estimates do not contract, and it is reported as not converged. InputError for a member that is not finite, with its place.

    >>> from fractions import Fraction
    >>> from itertools import accumulate
    >>> f"{richardson(list(accumulate(Fraction(1, n * n) for n in range(1, 21)))).value:.9f}"
    '1.644934067'

    Bender and Orszag, Advanced Mathematical Methods, p. 375.
    """
    found = members(s, axes=1)
    return judged(richardson_trail(Noisy.of(found)), found.unit, tolerance, scalar=True)


def aitken_trail(start: Noisy) -> Trail:
    """The trail of the iterated process on numbers, several sequences at once.

    Three members with one step that is noise and one that is not have no estimate: the process would repeat one of them in
    every later column, and so would it with equal steps. Where both are noise the sequence has settled.
    """
    columns = [(start.values, start.noise)]
    while len(columns[-1][0]) > 2:
        values, noise = columns[-1]
        step, after = values[1:-1] - values[:-2], values[2:] - values[1:-1]
        blur, later = noise[1:-1] + noise[:-2], noise[2:] + noise[1:-1]
        still, stays = sizes(step) <= blur, sizes(after) <= later
        moves = ~still & ~stays & (sizes(after - step) > blur + later)
        share = np.where(moves[..., None], after / np.where(moves[..., None], after - step, 1), 0)
        one, other = sizes(share), sizes(1 - share)
        moved = values[2:] - after * share
        with np.errstate(invalid="ignore"):
            spread = np.hypot(np.hypot(one**2 * noise[:-2], 2 * one * other * noise[1:-1]), other**2 * noise[2:])
        known = (moves | (still & stays)) & np.isfinite(blur + later)
        columns.append((moved, np.where(known, spread, np.inf) + arithmetic(moved) * sizes(moved)))
    return trailing(columns)


def levin_trail(start: Noisy, variant: str = "u") -> Trail:
    """The trail of Levin's transformation on numbers, several sequences at once. Terms that are zero are left out."""

    def estimates(sums: list[Any]) -> list[Any]:
        transform, before, found = mpmath.levin(method="levin", variant=variant), 0, []
        for partial in sums:
            if partial != before:
                before = partial
                try:
                    found.append(transform.step_psum(partial)[0])
                    continue
                except ZeroDivisionError:  # two terms of the variant "v" are equal: there is no estimate yet
                    pass
            found.append(found[-1] if found else partial)
        return found

    return _by_mpmath(start, estimates)


def richardson_trail(start: Noisy) -> Trail:
    """The trail of Richardson's extrapolation on numbers, several sequences at once."""

    def weighted(sums: list[Any]) -> Any:
        if len(sums) < 4:
            return sums[-1]
        return mpmath.mpc(*(mpmath.richardson([part(s) for s in sums])[0] for part in (mpmath.re, mpmath.im)))

    return _by_mpmath(start, lambda sums: [weighted(sums[:k]) for k in range(1, len(sums) + 1)])


def _by_mpmath(start: Noisy, estimates: Callable[[list[Any]], list[Any]]) -> Trail:
    """A trail from a function of the partial sums as numbers of mpmath; its noise from runs on members moved by theirs."""
    values, noise = start.values[..., 0], start.noise
    count, is_real = len(values), not np.iscomplexobj(floats(values))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(RUNS, count))
    found = np.empty(values.shape, dtype=float if is_real else complex)
    spread = np.zeros(noise.shape)
    with mpmath.workdps(30 + 2 * count + int(np.log10(1 + sizes(start.values).max()))):
        for at in np.ndindex(values.shape[1:]):
            own = (slice(None), *at)
            base = [_number(x) for x in values[own]]
            plain = estimates(base)
            found[own] = [float(mpmath.re(x)) if is_real else complex(x) for x in plain]
            for row in signs if noise[own].any() else ():
                moved = estimates([x + step for x, step in zip(base, row * noise[own])])
                spread[own] = np.maximum(spread[own], [float(abs(x - y)) for x, y in zip(plain, moved)])
    rounding = np.where(values == found, 0.0, DOUBLE * np.abs(found)) if values.dtype != object else 0.0
    return Trail(found[..., None], spread + rounding, np.arange(1, count + 1))


def _number(value: Any) -> Any:
    """A member as a number of mpmath, in the working precision."""
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpmath.mpmathify(value)


RUNS = 3
"""How often the members are moved by their noise, with random signs that are always the same."""
