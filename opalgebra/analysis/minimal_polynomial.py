"""Vector extrapolation by a polynomial that the sequence obeys: MPE, RRE, and the members that are still to come.

If x_n = x + A^n e, the steps D_n = x_{n+1} - x_n obey `sum_j g_j D_{n+j} = 0` with the coefficients of the minimal polynomial
of A for e, scaled to sum g_j = 1, and then x = sum_j g_j x_j. From K + 1 steps,

    MPE    g_K = 1 before scaling, the others by least squares         RRE    |sum_j g_j D_j| least over sum_j g_j = 1

The residual `sum_j g_j D_j` is (A - 1)(estimate - x) for such a sequence; divided by the distance from 1 of the nearest zero
of the polynomial it is an estimate of the error that K + 2 members give of themselves. All by QR of the steps, each at its
own length, so that the scale of the sequence drops out.

Sidi, Vector Extrapolation Methods with Applications (SIAM, 2017), chapters 2 to 4.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from opalgebra.analysis.sequences import (
    DOUBLE,
    Array,
    Estimate,
    Noisy,
    members,
    power_tails,
    relative_tolerance,
    sizes,
)
from opalgebra.errors import InputError
from opalgebra.scalar import is_natural


def mpe(S: Any, *, tolerance: float | None = None) -> Estimate:
    """The limit of a sequence of vectors (members, components) by minimal polynomial extrapolation.

    S: real or complex, convergent or not; K + 2 members give the limit exactly where the minimal polynomial has the degree K.
    The estimate is the last, or the one whose error is least once the steps are spent in noise. Logarithmic convergence is
    reported as not converged. InputError for fewer than three members or one that is not finite, with its place.

    >>> import numpy as np
    >>> A, b = np.diag([2.0, -3.0, 0.5]), np.ones(3)
    >>> found = mpe(np.cumsum([np.linalg.matrix_power(A, k) @ b for k in range(6)], axis=0))
    >>> found.value.round(9), found.converged
    (array([-1.  ,  0.25,  2.  ]), True)

    Cabay and Jackson, SIAM J. Numer. Anal. 13 (1976) 734.
    """
    return _extrapolated(S, minimal_weights, tolerance)


def rre(S: Any, *, tolerance: float | None = None) -> Estimate:
    """The limit of a sequence of vectors (members, components) by reduced rank extrapolation; see `mpe`.

    For a linear iteration the residuals are those of GMRES.

    >>> import numpy as np
    >>> A, b = np.diag([2.0, -3.0, 0.5]), np.ones(3)
    >>> rre(np.cumsum([np.linalg.matrix_power(A, k) @ b for k in range(5)], axis=0)).value.round(9)
    array([-1.  ,  0.25,  2.  ])

    Eddy (1979); Mesina, Comput. Methods Appl. Mech. Eng. 10 (1977) 165.
    """
    return _extrapolated(S, reduced_weights, tolerance)


class Weights(NamedTuple):
    """g_0, ..., g_K with the sum 1, the length of the residual, and whether K + 1 steps are dependent within their noise."""

    values: Array
    residual: float
    is_spent: bool


class Steps(NamedTuple):
    """The upper triangle of the steps scaled to length one, their lengths, and the noise of each step."""

    triangle: Array
    lengths: Array
    noise: Array

    def leading(self, count: int) -> Array:
        """The triangle of the first steps, at their true lengths."""
        return self.triangle[:count, :count] * self.lengths[:count]

    def is_spent(self, last: int) -> bool:
        """Whether the step of a number is a combination of those before it, within its noise."""
        height = abs(self.triangle[last, last]) * self.lengths[last] if last < len(self.triangle) else 0.0
        return bool(height <= self.noise[last] + DOUBLE * self.lengths[last])


def minimal_weights(steps: Steps, degree: int) -> Weights | None:
    """MPE's weights from degree + 1 steps; None where they have the sum zero, and there is no estimate."""
    whole = steps.leading(degree + 1)
    own = np.ones(degree + 1, dtype=whole.dtype)
    if degree:
        own[:-1] = np.linalg.lstsq(whole[:degree, :degree], -whole[:degree, degree], rcond=None)[0]
    total = own.sum()
    if not abs(total) > DOUBLE * np.abs(own).sum():
        return None
    residual = abs(whole[degree, degree]) if len(whole) > degree else 0.0
    return Weights(own / total, float(residual / abs(total)), steps.is_spent(degree))


def reduced_weights(steps: Steps, degree: int) -> Weights | None:
    """RRE's weights from degree + 1 steps; those of MPE where the steps are dependent, and the residual vanishes for both."""
    if steps.is_spent(degree):
        return minimal_weights(steps, degree)
    whole = steps.leading(degree + 1)
    # g is proportional to (D^+ D)^-1 1; the scale of every step is taken out first.
    scaled = steps.triangle[: degree + 1, : degree + 1]
    ones = 1 / steps.lengths[: degree + 1]
    shortest = ones.max()
    own = np.linalg.solve(scaled, np.linalg.solve(scaled.conj().T, ones / shortest)) * ones / shortest
    own = own / own.sum()
    return Weights(own, float(np.linalg.norm(whole @ own)), False)


def _extrapolated(S: Any, method: Any, tolerance: float | None) -> Estimate:
    found = members(S, axes=2, least=3, exact=False)
    return extrapolated(Noisy.of(found), method, found.unit, tolerance)


def extrapolated(whole: Noisy, method: Any, unit: float, tolerance: float | None) -> Estimate:
    """The estimate of one sequence by a method of weights.

    As many steps as there are components obey some polynomial whatever they are: of a longer sequence the last members are
    taken, with one step more than that, and a polynomial is believed where the steps behind it obey it too.
    """
    components = whole.values.shape[1]
    start = Noisy(whole.values[-(components + 3) :], whole.noise[-(components + 3) :])
    values, steps = start.values, _steps(start)
    best = Estimate(values[-1], math.inf, False, float(start.noise[-1]), len(values))
    for degree in range(min(len(values) - 2, components) + 1):
        if not steps.lengths[degree] > 0:
            return Estimate(values[degree], float(start.noise[degree]), True, float(start.noise[degree]), degree + 2)
        weights = method(steps, degree)
        if weights is None:
            continue
        nearest = max(_distance(weights.values), DOUBLE)
        scatter = float(np.linalg.norm(weights.values * steps.noise[: degree + 1])) / nearest
        noise = scatter + float(np.linalg.norm(weights.values * start.noise[: degree + 1]))
        residual = max(weights.residual, _later(values, weights.values))
        estimate = weights.values @ values[: degree + 1]
        if degree == components and degree == len(values) - 2:
            residual = float(np.linalg.norm(estimate - best.value)) * nearest
        best = Estimate(estimate, residual / nearest + noise, False, noise, degree + 2)
        if weights.is_spent:
            break
    error = float(max(best.error, power_tails(whole)))
    settled = bool(error <= relative_tolerance(unit, tolerance) * sizes(best.value))
    return Estimate(best.value, error, settled, best.noise, best.terms)


def _later(values: Array, weights: Array) -> float:
    """The longest residual of the polynomial on the steps behind those that it was fitted to."""
    steps = values[1:] - values[:-1]
    shifts = range(1, len(steps) - len(weights) + 1)
    return max((float(np.linalg.norm(weights @ steps[n : n + len(weights)])) for n in shifts), default=0.0)


def _steps(start: Noisy) -> Steps:
    steps = start.values[1:] - start.values[:-1]
    lengths = sizes(steps)
    unit = np.divide(steps, lengths[:, None], out=np.zeros_like(steps), where=lengths[:, None] > 0)
    return Steps(np.asarray(np.linalg.qr(unit.T, mode="r")), lengths, np.hypot(start.noise[1:], start.noise[:-1]))


def _distance(weights: Array) -> float:
    """How far the nearest zero of `sum_j g_j w^j` is from 1, and at most the distance 1 of a part that dies at once."""
    zeros = np.roots(weights[::-1])
    return float(np.abs(zeros - 1).min(initial=1.0))


def extrapolate_depth(states: Any, depth: float, *, order: int | None = None) -> Estimate:
    """The state at a depth beyond those given, by the linear recurrence that the given ones obey best; math.inf for the limit.

    states (depths, components): those at depth 0, 1, ..., one vector each. order: how many steps the recurrence goes back, by
    default half of those given. `D_n = sum_j a_j D_{n-K+j}` is fitted by least squares to all steps D_n = x_{n+1} - x_n and
    continued. `error` is how far the same recurrence misses the last state that was given when it is fitted to the others,
    times the number of steps ahead, and `converged` compares it with the tolerance of their dtype. InputError for a depth
    that is given already, for too few states, or for one that is not finite.

    >>> import numpy as np
    >>> A, b = np.array([[0.5, 0.4], [0.0, -0.4]]), np.ones(2)
    >>> states = np.cumsum([np.linalg.matrix_power(A, k) @ b for k in range(6)], axis=0)
    >>> [f"{x:.10f}" for x in extrapolate_depth(states, 10).value]
    ['2.5700046659', '0.7143156736']
    """
    found = members(states, axes=2, least=3, exact=False, what="the states")
    values = found.values
    if depth == math.inf:
        return rre(values)
    if not is_natural(depth) or depth < len(values):
        raise InputError(f"depth {depth!r} was asked of states at depths 0 to {len(values) - 1}; give a later one, or math.inf")
    back = (len(values) - 1) // 2 if order is None else order
    if not is_natural(back) or not 0 < back < len(values) - 1:
        raise InputError(f"order={order!r} was asked of {len(values)} states; give 1 to {len(values) - 2}")
    value = _continued(values, back, int(depth))
    ahead = int(depth) - len(values) + 1
    before = values[:-1]
    missed = np.inf
    if len(before) > 2:
        missed = float(np.linalg.norm(_continued(before, min(back, len(before) - 2), len(before)) - values[-1]))
    noise = found.unit * float(sizes(values).max())
    error = missed * ahead + noise
    return Estimate(value, error, bool(error <= relative_tolerance(found.unit, None) * sizes(value)), noise, len(values))


def _continued(values: Array, back: int, depth: int) -> Array:
    """The state at a depth, from the last `back` steps by the recurrence fitted to all of them."""
    steps = list(values[1:] - values[:-1])
    rows = [np.stack(steps[n : n + back], axis=-1) for n in range(len(steps) - back)]
    wanted = np.concatenate(steps[back:])
    shares = np.linalg.lstsq(np.concatenate(rows), wanted, rcond=None)[0]
    state = values[-1]
    for _ in range(depth - len(values) + 1):
        steps.append(np.stack(steps[-back:], axis=-1) @ shares)
        state = state + steps[-1]
    return np.asarray(state)
