"""What each rule of the kernel costs, in the steps of `effort`, charged before it is applied to what a foreign text gives.

A charge is true when the sides that the rule makes are surely short when they are written out.
"""

from collections.abc import Callable, Mapping
from operator import add
from typing import Any

from opalgebra.effort import Effort, instantiating, substituting
from opalgebra.expr import Operator, bound_symbol, compose, postorder, terms
from opalgebra.facts import Every, Fact, Nilpotent
from opalgebra.growth import expanded_total
from opalgebra.indexed import Binder, Range, ordered_product, ordered_sum
from opalgebra.instances import Members
from opalgebra.kernel import Theorem
from opalgebra.scalar import Symbol, as_scalar, largest_integer, scalar_of, the_symbol

LONGEST_SIDE = 500_000


def _sides(part: Any) -> list[Any]:
    return [part.lhs, part.rhs] if isinstance(part, Theorem) else [part, part]


def congruence(effort: Effort, build: Callable[..., Operator], *parts: Any) -> None:
    for side in (0, 1):
        given = [_sides(part)[side] for part in parts]
        operators = [part for part in given if isinstance(part, Operator)]
        if build is add:
            effort.spend(sum(len(terms(operator)) for operator in operators))
        effort.charge(build, *given)


def distribution(effort: Effort, left: Operator, right: Operator, facts: Any = ()) -> None:
    for total, other, swap in ((left, right, False), (right, left, True)):
        for _, term in terms(total):
            effort.charge(compose, *((other, term) if swap else (term, other)))


def dress(effort: Effort, operator: Operator, facts: Any) -> None:
    effort.spend(6 * effort.weight(operator) << 2 * operator.height)


def distribute(effort: Effort, operator: Operator, facts: Any, unfold: bool) -> bool:
    longest = max(effort.weight(node) for node in postorder(operator, backgrounds=False))
    total = expanded_total(operator, facts)
    effort.spend(total * (1 + longest // 100))
    return total * longest <= LONGEST_SIDE


def assume(effort: Effort, fact: Fact, *arguments: Any) -> None:
    operators = [part for part in (*fact.operators, *arguments) if isinstance(part, Operator)]
    effort.spend(4 * sum(effort.weight(operator) for operator in operators))
    if isinstance(fact, Nilpotent) and isinstance(fact.power, int):
        effort.spend(fact.power * sum(effort.weight(operator) for operator in operators))
    if isinstance(fact, Every) and len(arguments) == 1:
        value = as_scalar(arguments[0])
        numbers = {the_symbol(fact.index): largest_integer(value)}
        effort.spend(sum(instantiating(effort, operator, numbers, 0) for operator in operators))
        effort.spend(substituting({the_symbol(fact.index): value}, *operators))


def instantiate(effort: Effort, theorem: Theorem, values: Mapping[Any, Any]) -> None:
    """A state that is put for another is shared, and none of its parts is made again."""
    numbers = {key: largest_integer(value) for key, value in values.items() if isinstance(key, Symbol)}
    operators = [getattr(value, "operator", value) for key, value in values.items() if not isinstance(key, Symbol)]
    weight = sum(len(terms(put)) if put.is_state else effort.weight(put) for put in operators)
    scalars = {key: as_scalar(value) for key, value in values.items() if isinstance(key, Symbol)}
    for operator in (theorem.lhs, theorem.rhs, *(part for fact in theorem.hypotheses for part in fact.operators)):
        effort.spend(instantiating(effort, operator, numbers, weight))
        effort.spend(substituting(scalars, operator))
        for members in values.values():
            if isinstance(members, Members):
                _members(effort, operator, members)


def _members(effort: Effort, operator: Operator, members: Members) -> None:
    """The indices of every atom put into the operator for its family."""
    for atom in operator.atoms:
        if len(atom.indices) == len(members.indices):
            effort.spend(substituting(dict(zip(members.indices, map(as_scalar, atom.indices))), members.operator))


def under(effort: Effort, theorem: Theorem, binder: Operator, index: Symbol, distance: Symbol | None) -> None:
    for side in (theorem.lhs, theorem.rhs):
        if distance is not None and isinstance(binder, Range):
            effort.spend(substituting({distance: as_scalar(binder.upper) - scalar_of(index)}, side))
        effort.charge(ordered_sum, side, scalar_of(index), 1, 1)
        effort.spend(effort.weight(side) << 2 * side.height)


def binders(effort: Effort, *arguments: Any) -> None:
    for operator in arguments:
        if isinstance(operator, Operator):
            count = len(terms(operator.bodies[0])) if operator.bodies else 1
            effort.spend(count * effort.weight(operator) << 2 * operator.height)
            if isinstance(operator, Binder):
                bound = bound_symbol(operator.level)
                for value in (scalar_of(bound) + 1, *map(as_scalar, operator.fields[2:4])):
                    effort.spend(substituting({bound: value}, *operator.bodies))


def split(effort: Effort, whole: Range, depth: Any) -> None:
    binders(effort, whole)
    index = whole.free_index()
    for lower, upper in ((whole.lower, depth), (as_scalar(depth) + 1, whole.upper)):
        effort.charge(ordered_product, whole.opened(index), index, lower, upper)


def induction(effort: Effort, base: Theorem, step: Theorem, symbol: Symbol) -> None:
    for fact in step.hypotheses:
        for operator in fact.operators:
            effort.spend(instantiating(effort, operator, {symbol: 1}, 0))
            effort.spend(substituting({symbol: scalar_of(symbol) + 1}, operator))


def of_old_sides(effort: Effort, *arguments: Any) -> bool:
    effort.spend(1)
    return True
