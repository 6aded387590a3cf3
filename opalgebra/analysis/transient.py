"""Transient growth: how large powers of a matrix get before its eigenvalues decide, and the Kreiss constant that bounds them.

    K(A) <= sup_k ||A^k|| <= e n K(A),        K(A) = sup over |z| > 1 of (|z| - 1) ||(z - A)^{-1}||

and the same for `sup_t ||exp(tA)||` with Re z in place of |z| - 1. Kreiss constant, largest power and the condition number of
the eigenvectors are three numbers; for [[0.9, 10], [0, 0.8]] they are 17.2, 26.9 and 200.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
from scipy import optimize

from opalgebra.analysis.criss_cross import Circle, Line, farthest, rounding_of_search
from opalgebra.analysis.matrices import UNIT, Array, spectral_norm, square, unit_of
from opalgebra.display import Tabulated
from opalgebra.errors import InputError

SQUARINGS = 60
EXACT = 2.0**53


@dataclass(frozen=True, eq=False)
class TransientGrowth(Tabulated):
    """lower <= sup_k ||A^k|| <= upper, over k from 0; k: the power whose norm is lower. norms (steps + 1,): ||A^k||, as far as
    computed, and error (steps + 1,) of each. upper is infinite when no bound was found, and then nothing is known above.
    """

    lower: float
    upper: float
    k: int
    norms: Array
    error: Array

    @property
    def converged(self) -> bool:
        """Whether the bounds differ by no more than the errors of the norms."""
        return bool(np.isfinite(self.upper) and self.upper - self.lower <= 2 * self.error[self.k] + 4 * UNIT * self.upper)


def transient_growth(A: Any, *, steps: int = 1000) -> TransientGrowth:
    """Bounds of `sup_k ||A^k||`, attained below and proved above, with the rounding of every product in them.

    Powers are multiplied until one is a contraction, `||A^m|| <= 1`: then the supremum is the largest of those before it. If
    none of the first `steps` is, with m = steps and later squarings,

        sup_k ||A^k|| <= max_{k < m} ||A^k|| prod_j max(1, ||A^{m 2^j}||),

    down to the first contraction. Rounding is bounded componentwise along the products, `gamma_n |A^k| |A|` a step, and
    not at all for integers below 2^53. InputError for an array that is empty or not square, nan or infinity, steps below 1.

    >>> from opalgebra.analysis import transient_growth
    >>> growth = transient_growth([[0.9, 10.0], [0.0, 0.9]])
    >>> growth.k, round(growth.lower, 9), round(growth.upper, 9)
    (9, 38.745922718, 38.745922718)

    Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.5.
    """
    if not isinstance(steps, int) or steps < 1:
        raise InputError(f"steps={steps!r}: the number of powers is a positive natural number")
    power = factor = _Power(square(A))
    norms, errors = [1.0], [0.0]
    while not power.is_contraction and len(norms) <= steps and np.isfinite(power.upper):
        norms.append(power.norm)
        errors.append(power.error)
        power = power @ factor
    largest = float(np.max(np.array(norms) + errors))
    upper = largest
    for _ in range(SQUARINGS):
        if power.is_contraction or not np.isfinite(upper):
            break
        upper *= power.upper
        power = power @ power
    else:
        upper = np.inf
    if power.is_contraction and np.isfinite(upper):
        norms.append(power.norm)
        errors.append(power.error)
    else:
        upper = np.inf
    k = int(np.argmax(norms))
    return TransientGrowth(norms[k] - errors[k], upper, k, np.array(norms), np.array(errors))


@final
class _Power:
    """A power of a matrix as computed, and a bound, entry by entry, of how far it is from the exact one."""

    def __init__(self, value: Array, bound: Array | None = None) -> None:
        self.value = value
        self.bound = np.zeros(value.shape) if bound is None else bound
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(value).all()
            self.norm = spectral_norm(value) if finite else np.inf
            spread = float(np.linalg.norm(self.bound))
            self.error = spread + len(value) * UNIT * self.norm if finite and np.isfinite(spread) else np.inf
            self.upper = self.norm + self.error

    @property
    def is_contraction(self) -> bool:
        """Whether the norm is at most 1, up to its own rounding."""
        return bool(self.norm <= 1 + len(self.value) * UNIT and self.upper <= 1 + 2 * self.error and self.error < 0.5)

    def __matmul__(self, other: "_Power") -> "_Power":
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.value @ other.value
            left, right = np.abs(self.value), np.abs(other.value)
            reach = left @ right
            bound = self.bound @ right + left @ other.bound + self.bound @ other.bound
            if not (_is_integer(self.value) and _is_integer(other.value) and reach.max() < EXACT):
                inner = (2 if np.iscomplexobj(value) else 1) * len(value) + 2
                bound = bound + inner * UNIT / (1 - inner * UNIT) * reach
        return _Power(value, bound)


def _is_integer(values: Array) -> bool:
    return not np.iscomplexobj(values) and bool((np.rint(values) == values).all())


@dataclass(frozen=True, eq=False)
class KreissConstant(Tabulated):
    """value: attained at the point `at`, infinite where A is not stable; the constant lies in [value, value + error]. At 1,
    which is its least value, `at` is infinite: it is approached far away.
    """

    value: float
    at: complex
    error: float
    converged: bool


def kreiss_constant(A: Any, kind: str = "discrete", *, tolerance: float = 0.05) -> KreissConstant:
    """`sup (|z| - 1) ||(z - A)^{-1}||` over |z| > 1, or with kind="continuous" `sup Re z ||(z - A)^{-1}||` over Re z > 0.

    It is `sup over eps of (rho_eps - 1)/eps`, or `alpha_eps/eps`, with the pseudospectral radius and abscissa, which never
    decrease with eps: between e1 and e2 the quotient is at most `(rho_e2 - 1)/e1`. Intervals of eps are halved until no bound
    exceeds the best value by more than `tolerance` of it; the value itself is then a local maximum, to rounding. `error` is
    the height of the bounds above it; infinite, and `converged` False, when rounding hides whether A is stable. InputError
    for an array that is empty or not square, nan or infinity, another kind, a tolerance not between 0 and 1.

    >>> from opalgebra.analysis import kreiss_constant
    >>> round(kreiss_constant([[0.0, 4.0], [0.0, 0.0]]).value, 12)
    1.25

    Kreiss, BIT 2 (1962) 153; Mitchell, SIAM J. Matrix Anal. Appl. 41 (2020) 1944.
    """
    if kind not in ("continuous", "discrete"):
        raise InputError(f"kind={kind!r} is not known; use 'continuous' or 'discrete'")
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance={tolerance!r}: the relative height of the bounds lies between 0 and 1")
    unit = unit_of(A)
    A = square(A)
    is_discrete = kind == "discrete"
    across: Any = Circle() if is_discrete else Line()
    edge, rounding = (1.0 if is_discrete else 0.0), rounding_of_search(A, unit)
    values = np.linalg.eigvals(A)
    highest = across.height(values).max()
    # What A does at first: |z| <= ||A|| + eps in the pseudospectrum, Re z <= h + eps with the numerical abscissa h.
    at_once = spectral_norm(A) if is_discrete else float(np.linalg.eigvalsh((A + A.conj().T) / 2)[-1])
    if at_once <= edge + rounding:
        return KreissConstant(1.0, complex(np.inf), rounding, True)
    if highest > edge + rounding:
        return KreissConstant(np.inf, complex(values[np.argmax(across.height(values))]), 0.0, True)

    reached: dict[float, tuple[float, complex]] = {}

    def quotient(eps: float) -> float:
        if eps not in reached:
            found = farthest(A, eps, across, rounding)
            reached[eps] = (found.value - edge, found.at)
        return reached[eps][0] / eps

    least = 4 * rounding
    ends = [least, max(at_once - edge, 8 * least)]
    best = max(1.0, *map(quotient, ends))
    is_hidden = reached[least][0] > 0
    while at_once - edge > (best * (1 + tolerance) - 1) * ends[-1]:  # beyond, the quotient is at most 1 + (h - edge)/eps
        ends.append(4 * ends[-1])
        best = max(best, quotient(ends[-1]))
    pending, bounds = list(pairwise(ends)), [1.0]
    while pending:
        low, high = pending.pop()
        bound = reached[high][0] / low
        if bound <= best * (1 + tolerance):
            bounds.append(bound)
            continue
        middle = (low * high) ** 0.5
        best = max(best, quotient(middle))
        pending += [(low, middle), (middle, high)]
    start = max(reached, key=quotient)
    if best <= 1:
        return KreissConstant(1.0, complex(np.inf), np.inf if is_hidden else max(max(bounds) - 1.0, rounding), not is_hidden)
    value, at = _climbed(A, reached[start][1], lambda z: across.height(z) - edge, best)
    return KreissConstant(value, at, np.inf if is_hidden else max(max(bounds) - value, rounding), not is_hidden)


def _climbed(A: Array, start: complex, height: Callable[[complex], float], best: float) -> tuple[float, complex]:
    """The local maximum of `height(z) / sigma_min(z - A)` from a point where it is about `best`."""
    one = np.eye(len(A))

    def fall(place: Array) -> float:
        z = complex(*place)
        above = height(z)
        return float(np.linalg.svd(z * one - A, compute_uv=False)[-1]) / above if above > 0 else np.inf

    simplex = np.array([[start.real, start.imag]] * 3) + 1e-3 * height(start) * np.array([[0, 0], [1, 0], [0, 1]])
    options = {"xatol": 1e-10 * max(1.0, abs(start)), "fatol": 1e-15 / best, "maxiter": 400, "initial_simplex": simplex}
    found = optimize.minimize(fall, [start.real, start.imag], method="Nelder-Mead", options=options)
    return 1 / float(found.fun), complex(*found.x)
