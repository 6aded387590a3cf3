"""What each fact states of the values of functions, as laws that can fail at random arguments."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import combinations, product
from typing import Any, final

import numpy as np

from opalgebra.array_functions import Array, ArrayFunctions
from opalgebra.expr import Operator, Zero, factors
from opalgebra.facts import Adjoint, Causal, Commute, Equal, Every, Fact, Form, Homogeneous, Inverse, Linear
from opalgebra.space import Space

Apply = Callable[..., Array]
Inputs = dict[str, Any]


@final
@dataclass(frozen=True)
class Law:
    """An equation: its random arguments and their spaces, the cases of its scalars, and how it is computed.

    `run` gives the difference of the sides, and the arrays whose norms it is compared with. `change` is how much the sides
    vary with their argument, for a law that says nothing of constants.
    """

    name: str
    inputs: dict[str, Space]
    run: Callable[[Inputs, Apply], tuple[Array, list[Array]]]
    cases: tuple[dict[str, Any], ...] = ({},)
    change: Callable[[Inputs, Apply], float] | None = None


def rows(array: Array) -> Array:
    """The norms along the last axis; of a vector its one norm."""
    by_row = array.reshape(-1, array.shape[-1] if array.ndim > 1 else array.size)
    squares: Array = (by_row**2).sum(axis=1)
    return squares**0.5


def laws(fact: Fact, given: ArrayFunctions, largest: float) -> Iterator[Law]:
    """The laws that a fact states of the functions given."""
    if isinstance(fact, Equal | Form):
        yield from _equation(fact.equation())
    elif isinstance(fact, Every):
        for index in given.indices(fact):
            yield from _equation(fact.equation(index))
    elif isinstance(fact, Adjoint | Inverse):
        for member in given.members(fact.operator):
            if isinstance(fact, Adjoint):
                yield _adjoint(member, fact.equation("left", member).rhs)
            else:
                yield from _equation(fact.equation("right", member))
                yield from _equation(fact.equation("left", member))
    elif isinstance(fact, Commute) and fact.left == fact.right:
        for pair in combinations(given.members(fact.left), 2):
            yield from _equation(fact.equation(*pair))
    else:
        operands = (getattr(fact, part.name) for part in fields(fact) if part.name not in ("power", "projectors"))
        for members in product(*map(given.members, operands)):
            if isinstance(fact, Linear):
                yield from _linear(members[0], largest)
            elif isinstance(fact, Homogeneous):
                yield _homogeneous(members[0], largest)
            elif isinstance(fact, Causal):
                yield from _causal(members[0], given.projectors(fact.projectors, members[0].domain), largest)
            else:
                yield from _equation(fact.equation(*members))


def _linear(operator: Operator, largest: float) -> Iterator[Law]:
    def combined(given: Inputs, apply: Apply) -> tuple[Array, list[Array]]:
        a, b = given["a"], given["b"]
        x, y = apply(operator, given["x"]), apply(operator, given["y"])
        total = apply(operator, a * given["x"] + b * given["y"])
        return total - a * x - b * y, [total, a * x, b * y]

    def at_zero(given: Inputs, apply: Apply) -> tuple[Array, list[Array]]:
        x, opposite = apply(operator, given["x"]), apply(operator, -given["x"])
        return apply(operator, 0 * given["x"]) - x - opposite, [x, opposite]

    scalars = ((1, 1), (-1, 0), (2 / 3, -5 / 4), (1 / largest, 1), (largest, -1))
    cases = tuple({"a": a, "b": b} for a, b in scalars)
    space, name = operator.domain, str(operator)
    yield Law(f"{name} @ (a x + b y) = a {name} @ x + b {name} @ y", {"x": space, "y": space}, combined, cases)
    yield Law(f"{name} @ 0 = {name} @ x + {name} @ (-x)", {"x": space}, at_zero)


def _homogeneous(operator: Operator, largest: float) -> Law:
    def run(given: Inputs, apply: Apply) -> tuple[Array, list[Array]]:
        scaled, value = apply(operator, given["c"] * given["x"]), given["c"] * apply(operator, given["x"])
        return scaled - value, [scaled, value]

    cases = tuple({"c": float(c)} for c in np.geomspace(1 / largest, largest, 6))
    return Law(f"({operator}) @ (c x) = c ({operator}) @ x", {"x": operator.domain}, run, cases)


def _adjoint(operator: Operator, adjoint: Operator) -> Law:
    def run(given: Inputs, apply: Apply) -> tuple[Array, list[Array]]:
        left = apply(operator, given["x"]) * given["y"]
        right = given["x"] * apply(adjoint, given["y"])
        return np.array([left.sum() - right.sum()]), [np.array([np.linalg.norm(side)]) for side in (left, right)]

    return Law(f"<{operator} x, y> = <x, {adjoint} y>", {"x": operator.domain, "y": operator.codomain}, run)


def _equation(equation: Equal) -> Iterator[Law]:
    """Two operators are one function; one that is zero is compared with what its factors make of unrelated arguments."""
    lhs, rhs = equation.lhs, equation.rhs
    chain = list(reversed(factors(lhs))) if isinstance(rhs, Zero) and not lhs.is_state else []

    def run(given: Inputs, apply: Apply) -> tuple[Array, list[Array]]:
        left = apply(lhs, given.get("x"))
        if not chain:
            right = apply(rhs, given.get("x"))
            return left - right, [left, right]
        size = _spread(given["x"])
        for number, factor in enumerate(chain):
            other = given[f"_{number}"]
            size = _spread(apply(factor, other * (size / _spread(other))))
        return left, [np.full(left.shape, size)]

    def change(given: Inputs, apply: Apply) -> float:
        sides = [(apply(side, given["x"]), apply(side, given["_y"])) for side in (lhs, rhs)]
        return max(float(rows(one - other).max()) for one, other in sides)

    if lhs is rhs:
        return
    spaces = {} if lhs.is_state else {"x": lhs.domain, "_y": lhs.domain}
    spaces |= {f"_{number}": factor.domain for number, factor in enumerate(chain)}
    yield Law(f"{lhs} = {rhs}", spaces, run, change=None if chain or lhs.is_state else change)


def _spread(array: Array) -> float:
    return float(np.sqrt(np.mean(array**2)))


def _causal(operator: Operator, projectors: Mapping[Any, Callable[[Array], Array]], largest: float) -> Iterator[Law]:
    def run(given: Inputs, apply: Apply) -> tuple[Array, list[Array]]:
        kept, other = projectors[given["t"]], given["c"] * given["y"]
        left = kept(apply(operator, given["x"]))
        right = kept(apply(operator, kept(given["x"]) + (other - kept(other))))
        return left - right, [left, right]

    def change(given: Inputs, apply: Apply) -> float:
        return float(rows(apply(operator, given["x"]) - apply(operator, given["y"])).max())

    cases = tuple({"t": t, "c": c} for c in (1, largest, 0) for t in projectors)
    inputs = {"x": operator.domain, "y": operator.domain}
    if cases:
        yield Law(f"what {operator} gives up to t, whatever comes later,", inputs, run, cases, change)
