"""The orders of a state as a recursion over depth, each a sum that is never written out, and the proof that they add up.

A map, dressed at the state x before it, acts as `line + counted` and leaves sources over, some of which are counted. With
`y_0 = x[0]` and no other order at first,

    y_k  <-  line @ y_k + counted @ y_{k-1} + the sources of order k born in this step

keeps `x = sum over k of y_k`. A state of L steps has at most L + 1 orders of at most L + 1 terms that share their parts, while
written out they have 2^L.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add

from opalgebra.dressing import dressing
from opalgebra.expr import Atom, Operator, compose, factors, linear_combination
from opalgebra.kernel import Theorem, cong, dress, instantiate, refl
from opalgebra.prove import auto
from opalgebra.rewrite import chain
from opalgebra.space import ONE, Kind


@dataclass(frozen=True)
class Step:
    """A map, and what it is at the state before it: `factor @ x = (line + counted) @ x + sources[0] + sources[1]`.

    Sources have order 0, or 1 where what emits them is counted. `counted` is None where nothing is.
    """

    factor: Operator
    line: Operator
    counted: Operator | None
    sources: tuple[Operator, Operator]


def climbed(orders: Sequence[Operator], step: Step) -> tuple[Operator, ...]:
    """The orders after a step."""
    last = len(orders) if step.counted is None else len(orders) + 1
    found = []
    for k in range(last):
        parts = [(1, step.line @ orders[k])] if k < len(orders) else []
        parts += [(1, step.counted @ orders[k - 1])] if step.counted is not None and k else []
        parts += [(1, step.sources[k])] if k < 2 else []
        found.append(linear_combination(parts, ONE, step.factor.codomain))
    return tuple(found)


def total(orders: Iterable[Operator]) -> Operator:
    """The sum of the orders."""
    found = list(orders)
    return linear_combination(((1, order) for order in found), ONE, found[0].codomain)


def ladder_theorem(start: Operator, steps: Sequence[Step]) -> Theorem:
    """`factor_L @ ... @ factor_1 @ start = sum over k of y_k`, by dressing once, and then step by step.

    In each step the orders before it are letters, for which the equation is decided by normal forms; then they are put in.
    """
    orders: tuple[Operator, ...] = (start,)
    state, proof = start, refl(start)
    for step in steps:
        base = next(name for name in ("y", *(f"y_{n}_" for n in range(len(start.atoms) + 1))) if _is_free(name, step, start))
        letters = tuple(Atom(f"{base}{k}", kind=Kind.STATE, codomain=start.codomain) for k in range(len(orders)))
        opened, before = proof, total(letters)
        for factor in reversed(factors(step.factor)):
            linear, left_over = dressing(factor, state)
            opened = cong(add, cong(compose, linear, opened), refl(left_over))
            before, state = linear @ before + left_over, factor @ state
        shared = auto(before, total(climbed(letters, step)))
        proof = chain(opened, instantiate(shared, dict(zip(letters, orders))))
        orders = climbed(orders, step)
    return chain(dress(state), proof)


def _is_free(name: str, step: Step, start: Operator) -> bool:
    return all(atom.base != name for part in (start, step.factor) for atom in part.atoms)
