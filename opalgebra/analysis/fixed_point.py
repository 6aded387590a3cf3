"""Fixed points x = g(x) by mixing what the last steps have shown: Anderson's method and DIIS, which are one method.

With residuals f_k = g(x_k) - x_k, the next state is the combination of the last g(x_i), with coefficients that sum to one,
whose combined residual is shortest. On a linear g(x) = A x + b it is GMRES on (1 - A) x = b, one step behind.

The coefficients come from QR of the differences of residuals, each scaled to length one, the newest first; the oldest ones are
left out while the condition number is above u^(-1/2), so that coefficients keep half of their digits. Nothing here depends
on the unit of x: a problem with b, 1e-8 b or 1e8 b takes the same steps. The normal equations of Pulay's DIIS would square
that condition number.

Anderson, J. ACM 12 (1965) 547; Pulay, Chem. Phys. Lett. 73 (1980) 393; Walker and Ni, SIAM J. Numer. Anal. 49 (2011) 1715.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opalgebra.analysis.sequences import DOUBLE, Array, finite, numbers, relative_tolerance
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.scalar import is_natural


@dataclass(frozen=True, eq=False)
class FixedPoint(Tabulated):
    """x: the last state, of the kind and dtype of x0; residuals: |f_k| for every state, x0's first; converged: whether the last
    one is at most the tolerance times the first, or the rounding of x; steps: evaluations of g, len(residuals).
    """

    x: Any
    residuals: Array
    converged: bool

    @property
    def steps(self) -> int:
        """How often g was evaluated."""
        return len(self.residuals)


def anderson(
    g: Callable[[Any], Any],
    x0: Any,
    m: float = 5,
    *,
    mixing: float = 1.0,
    steps: int = 100,
    tolerance: float | None = None,
) -> FixedPoint:
    """A fixed point of g from x0 by Anderson's method with the last m differences of residuals; math.inf keeps all.

    g: arrays of the shape of x0 to the same, NumPy's or PyTorch's, real or complex. mixing: how much of the combined residual
    is added; 1 is the plain fixed-point step. tolerance: of the residual relative to the first one, by default half of the
    digits of the dtype of x0. It ends after `steps` evaluations at the latest. InputError for a value of g of another shape or
    one that is not finite, with its place and step.

    >>> import numpy as np
    >>> found = anderson(np.cos, np.zeros(1))
    >>> found.converged, found.steps < 10, f"{found.x[0]:.8f}"
    (True, True, '0.73908513')
    """
    if not (m == float("inf") or is_natural(m)):
        raise InputError(f"m={m!r} differences were asked; give a natural number, or math.inf for all")
    if not mixing > 0:
        raise InputError(f"mixing={mixing!r} is not positive; 1 is the plain fixed-point step")
    return _iterated(g, x0, m, None, mixing, steps, tolerance)


def diis(
    g: Callable[[Any], Any],
    x0: Any,
    m: int = 8,
    *,
    error: Callable[[Any], Any] | None = None,
    steps: int = 100,
    tolerance: float | None = None,
) -> FixedPoint:
    """A fixed point of g from x0 by direct inversion in the iterative subspace, on the last m error vectors.

    error: the error vector of a state, any array that vanishes at the fixed point and nowhere else, such as a commutator; by
    default g(x) - x, for which this is Anderson's method with m - 1 differences. Everything else as `anderson`.

    >>> import numpy as np
    >>> A, b = np.array([[0.6, 0.3], [-0.2, 0.5]]), np.ones(2)
    >>> diis(lambda x: A @ x + b, np.zeros(2)).x.round(6)
    array([3.076923, 0.769231])
    """
    if not is_natural(m) or not m:
        raise InputError(f"m={m!r} error vectors were asked; give a natural number from 1 on")
    return _iterated(g, x0, m - 1, error, 1.0, steps, tolerance)


def _iterated(
    g: Callable[[Any], Any],
    x0: Any,
    differences: float,
    error: Callable[[Any], Any] | None,
    mixing: float,
    steps: int,
    tolerance: float | None,
) -> FixedPoint:
    if not is_natural(steps) or not steps:
        raise InputError(f"steps={steps!r} evaluations were allowed; give a natural number from 1 on")
    space = _Space(x0)
    goal = relative_tolerance(space.unit, tolerance)
    x, lengths, converged = space.start, list[float](), False
    states, images, faults = list[Array](), list[Array](), list[Array]()
    for step in range(steps):
        given = space.given(x)
        image = space.read(g(given), f"g(x) in step {step + 1}")
        fault = image - x if error is None else numbers(error(given), f"the error vector in step {step + 1}")[0].ravel()
        states, images, faults = [*states, x], [*images, image], [*faults, fault]
        lengths.append(float(np.linalg.norm(fault)))
        # g(x) - x is no more exact than the rounding of the two.
        floor = space.unit * float(np.linalg.norm(x) + np.linalg.norm(image)) if error is None else 0.0
        converged = lengths[-1] <= max(goal * lengths[0], floor)
        if converged or step + 1 == steps:
            break
        kept = int(min(differences, len(states) - 1)) + 1
        states, images, faults = states[-kept:], images[-kept:], faults[-kept:]
        shares = _shares(faults, space.unit)
        mixed = [state + mixing * (image - state) for state, image in zip(states, images)]
        x = sum(share * part for share, part in zip(shares, mixed[len(mixed) - len(shares) :]))
        finite(x, f"the state after step {step + 1}")
    return FixedPoint(space.given(x), np.array(lengths), bool(converged))


def _shares(faults: list[Array], unit: float) -> Array:
    """The coefficients, with the sum one, of the shortest combination; of the newest vectors alone where they are dependent."""
    differences = [newer - older for newer, older in zip(faults[:0:-1], faults[-2::-1])]
    lengths = np.array([np.linalg.norm(difference) for difference in differences])
    used = min(int(np.argmin(lengths > 0)) if not (lengths > 0).all() else len(differences), len(faults[-1]))
    if not used:
        return np.ones(1)
    table = np.stack(differences[:used], axis=-1) / lengths[:used]
    basis, triangle = np.linalg.qr(table)
    while used and np.linalg.cond(triangle[:used, :used]) > unit**-0.5:
        used -= 1
    if not used:
        return np.ones(1)
    weights = np.linalg.solve(triangle[:used, :used], basis[:, :used].conj().T @ faults[-1]) / lengths[:used]
    # f_k - sum_i w_i (f_{k-i+1} - f_{k-i}): each difference takes its weight from the newer vector and gives it to the older.
    newest_first = np.concatenate([[1.0], np.zeros(used)]) + 0 * weights.sum()
    newest_first[:-1] -= weights
    newest_first[1:] += weights
    return np.asarray(newest_first[::-1])


class _Space:
    """The kind of arrays that x0 is: shape, dtype and library; inside they are flat float64 or complex128."""

    def __init__(self, x0: Any) -> None:
        values, self.unit = numbers(x0, "x0")
        if values.dtype == object:
            values, self.unit = values.astype(float), DOUBLE
        self.like, self.shape, self.start = x0, values.shape, values.ravel()

    def read(self, value: Any, what: str) -> Array:
        """A value of the function as a flat array."""
        values, _ = numbers(value, what)
        if values.shape != self.shape:
            raise InputError(f"{what} has the shape {values.shape}, but x0 has {self.shape}; give a map of one space to itself")
        return values.astype(complex if np.iscomplexobj(values) else float).ravel()

    def given(self, flat: Array) -> Any:
        """A flat array as the function takes it."""
        values = flat.reshape(self.shape)
        if hasattr(self.like, "detach"):
            import torch

            dtype = self.like.dtype if self.like.dtype.is_floating_point or self.like.dtype.is_complex else torch.float64
            return torch.as_tensor(values).to(self.like.device, dtype)
        dtype = getattr(self.like, "dtype", None)
        return values.astype(dtype) if dtype is not None and dtype.kind in "fc" else values
