"""Whether functions of arrays have the properties that facts declare, on random arguments of many sizes.

    Linear        F(a x + b y) = a F(x) + b F(y), for positive, negative and zero scalars; F(0) = F(x) + F(-x)
    Homogeneous   F(c x) = c F(x) for c > 0
    Causal        F(x) up to a position is the same whatever x is after it, for every position
    Adjoint       <A x, y> = <x, B y>
    all others    both sides of what the fact states, at x; of an inverse on both sides

Two sides are compared row by row, along the last axis. What rounding may do is estimated, never guessed: for m summed terms,

    lambda sqrt(m) u (sum of the norms of what is compared)

where u is the unit roundoff of the coarsest dtype that a function returns, plus what becomes of the difference when each
entry of each array that enters or leaves a function is wrong by `lambda sqrt(m) u`, the backward error of a sum of m terms
with probability 1 - 1e-6 (Higham and Mary, SIAM J. Sci. Comput. 41 (2019) A2815). Where a difference is larger, lambda times
the noise of the functions themselves is added, found from fourth differences along a line (Moré and Wild, SIAM J. Sci. Comput.
33 (2011) 1292): a function that rounds more coarsely inside than its dtype is judged at its noise, and `would_catch` says so.

The algebra takes part in no comparison: sums, compositions, commutators and tensor products are computed from the functions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from opalgebra.array_functions import Array, ArrayFunctions, NotFiniteError, Shapes
from opalgebra.conformance_laws import Inputs, Law, laws, rows
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.facts import Fact
from opalgebra.scalar import is_natural

LAMBDA = math.sqrt(2 * math.log(2 / 1e-6))
RESOLUTION = 1e-2
TRIALS = 3
POINTS = 24
SINGLE = 2.0**-24


@dataclass(frozen=True, eq=False)
class Conformance(Tabulated):
    """What a check of a fact found.

    holds: True, False, or None when the check cannot tell. residual and bound are those of the row with the largest residual
    over bound, relative to the norm of the row. would_catch: a relative difference of this size would have been seen in
    every row that was compared; compared is the number of those, out of total. counterexample: the arguments at which the
    fact fails. reason: what fails, or why the check cannot tell.
    """

    fact: Fact
    holds: bool | None
    residual: float = math.nan
    bound: float = math.nan
    would_catch: float = math.inf
    compared: int = 0
    total: int = 0
    counterexample: Inputs | None = None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """`holds`, `does not hold` or `cannot tell`."""
        return {True: "holds", False: "does not hold", None: "cannot tell"}[self.holds]

    def __str__(self) -> str:
        figures = f"residual {self.residual:.2e}   bound {self.bound:.2e}   would catch {self.would_catch:.1e}"
        figures += f"   in {self.compared:,} of {self.total:,} rows"
        return "\n  ".join([f"{self.fact}: {self.verdict}", figures, *[self.reason] * bool(self.reason)])

    __repr__ = __str__


def check_fact(
    fact: Fact,
    functions: Mapping[Any, Any],
    *,
    shape: Shapes,
    dtype: Any = "float64",
    examples: int = 30,
    largest: float = 1e3,
    inner: int | None = None,
    seed: int = 0,
) -> Conformance:
    """Whether functions of arrays have a declared property; see the module for what is compared.

    `functions` gives atoms their functions, `{F: f}`, members of families too, `{V[1]: f}` or `{V: {1: f, 2: g}}`, and states
    their arrays; a dressing, adjoint, inverse or other node that functions do not compose needs one of its own. A fact of a
    family is checked of the members given. `shape` is that of X, as (tokens, features), or maps spaces to shapes; a product
    has the axes of its factors. Functions take and return arrays of these shapes, of NumPy or, when `dtype` is one of its
    dtypes, PyTorch. Arguments have sizes from 1/largest to largest, less for dtypes of small range. `inner` is m, otherwise
    the number of entries of the largest array.

    The verdict is None, cannot tell, when a value is not finite, when what is compared is zero or ignores its argument, or
    when the estimate of rounding leaves less than two digits, as half precision often does; so in most rows, or in all
    examples of one scalar, position or member. InputError for a missing function or shape, a fact with symbols, and a function
    that returns another shape or no floating-point numbers.

    >>> import numpy as np, opalgebra as oa
    >>> F = oa.Atom("F", kind="nonlinear")
    >>> check_fact(oa.Linear(F), {F: lambda x: 2 * x}, shape=(3, 4)).holds
    True
    >>> check_fact(oa.Linear(F), {F: lambda x: 2 * x + 1e-6}, shape=(3, 4)).holds
    False
    """
    if not isinstance(fact, Fact):
        raise InputError(f"{fact!r} is no fact; declare one such as Linear(F) and give its functions")
    if fact.symbols:
        names = ", ".join(sorted(symbol.name for symbol in fact.symbols))
        raise InputError(f"'{fact}' has symbols without values, {names}; declare it for numbers")
    if not all(is_natural(count) and count for count in (examples, 1 if inner is None else inner)):
        raise InputError(f"examples={examples!r}, inner={inner!r}: these are whole numbers from 1 on")
    if not 1 < largest < math.inf:
        raise InputError(f"largest={largest!r}: arguments have sizes from 1/largest to largest, a number above 1")
    given = ArrayFunctions(functions, shape, dtype, inner)
    largest = min(largest, given.limits.max**0.25)
    scales = (1, 1 / largest, largest, largest**-0.5, largest**0.5)
    random = np.random.default_rng(seed)
    result = Conformance(fact, True, would_catch=0.0)
    blind: list[str] = []
    for law in laws(fact, given, largest):
        untold = dict.fromkeys(map(_written, law.cases))
        times = max(examples, len(law.cases)) if law.inputs else 1
        for number in range(times):
            case = law.cases[number % len(law.cases)]
            scale = scales[(number + number // len(law.cases)) % len(scales)]
            arrays = {name: given.rounded(scale * random.standard_normal(given.shape(s))) for name, s in law.inputs.items()}
            try:
                found = _compared(law, case | arrays, given, random)
            except NotFiniteError as problem:
                blind.append(f"{problem} in example {number}")
                continue
            if found.telling.any():
                untold.pop(_written(case), None)
            result = _with(result, law, found, case | arrays)
            if result.holds is False:
                return result
        blind += [f"{law.name}{case}: what is compared is zero, constant, or lost in rounding" for case in untold]
    if result.compared < result.total / 2:
        blind.append("in most rows what is compared is zero, constant, or lost in rounding")
    if result.compared == 0:
        return Conformance(fact, None, reason=blind[0] if blind else "both sides are one expression, so nothing could fail")
    return replace(result, holds=None, reason=blind[0]) if blind else result


def assert_fact(fact: Fact, functions: Mapping[Any, Any], **options: Any) -> None:
    """AssertionError, with the report as its text, unless `check_fact` finds that the fact holds."""
    report = check_fact(fact, functions, **options)
    if report.holds is not True:
        raise AssertionError(str(report))


@final
@dataclass(frozen=True)
class _Compared:
    """The rows of one comparison: differences, bounds, norms, and which of them would have shown a difference, or do."""

    residual: Array
    bound: Array
    size: Array
    telling: Array
    wrong: Array


def _compared(law: Law, inputs: Inputs, given: ArrayFunctions, random: np.random.Generator) -> _Compared:
    difference, parts = law.run(inputs, given.apply)
    norms = np.array([rows(part) for part in parts])
    size: Array = norms.max(axis=0)
    level = LAMBDA * math.sqrt(given.inner) * given.unit

    def nudge(array: Array) -> Array:
        nudged: Array = array * (1 + level * random.choice([-1, 1], array.shape))
        return nudged

    others = (law.run(inputs, lambda operator, at: given.apply(operator, at, nudge))[0] for _ in range(TRIALS))
    bound = level * norms.sum(axis=0) + np.max([rows(other - difference) for other in others], axis=0)
    bound = bound + given.inner * given.limits.tiny
    residual = rows(difference)
    change = size if law.change is None else law.change(inputs, given.apply)
    size = np.maximum(size, change)
    if law.inputs and _wrong(residual, bound, size).any():
        bound = bound + LAMBDA * _noise(law, inputs, given, random)
    return _Compared(residual, bound, size, bound <= RESOLUTION * change, _wrong(residual, bound, size))


def _wrong(residual: Array, bound: Array, size: Array) -> Array:
    wrong: Array = (residual > bound) & (bound <= RESOLUTION * size)
    return wrong


def _noise(law: Law, inputs: Inputs, given: ArrayFunctions, random: np.random.Generator) -> Array:
    """How far the computed difference is from a smooth function, by row.

    Errors of standard deviation s make fourth differences of sqrt(70) s. Kinks make a few that are larger: so the median, which
    of a normal distribution is 0.67 times the deviation. Steps are several times the rounding of single precision.
    """
    step = max(math.sqrt(given.unit), 8 * SINGLE)
    directions = {name: random.choice([-1, 1], given.shape(space)) for name, space in law.inputs.items()}
    values = []
    for point in range(POINTS):
        moved = {name: inputs[name] * (1 + point * step * direction) for name, direction in directions.items()}
        values.append(law.run(inputs | moved, given.apply)[0])
    fourth = np.array([rows(one) for one in np.diff(values, n=4, axis=0)])
    deviation: Array = np.median(fourth, axis=0) / (0.67 * math.sqrt(70))
    return deviation


def _with(result: Conformance, law: Law, found: _Compared, inputs: Inputs) -> Conformance:
    """The result with one more comparison taken into account."""
    counts = (result.compared + int(found.telling.sum()), result.total + found.telling.size)
    result = replace(result, compared=counts[0], total=counts[1])
    chosen = found.wrong if found.wrong.any() else found.telling
    if not chosen.any():
        return result
    size = np.where(chosen, found.size, 1)
    ratio = np.where(chosen, found.residual / found.bound, -1)
    row = int(ratio.argmax())
    if not found.residual[row] * result.bound < result.residual * found.bound[row]:
        result = replace(result, residual=float(found.residual[row] / size[row]), bound=float(found.bound[row] / size[row]))
    result = replace(result, would_catch=max(result.would_catch, float(np.max(np.where(chosen, found.bound / size, 0)))))
    if not found.wrong.any():
        return result
    shown = {name: value for name, value in inputs.items() if not name.startswith("_")}
    return replace(result, holds=False, counterexample=shown, reason=f"{law.name} fails in row {row}{_written(shown)}")


def _written(inputs: Inputs) -> str:
    """The scalars among the inputs."""
    return "".join(f", {name} = {value:.3g}" for name, value in inputs.items() if not isinstance(value, np.ndarray))
