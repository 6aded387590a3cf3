"""The proof of a theorem as lines to read: sides that are equal one after the other, each with the reason.

Chains by transitivity become lines; a step inside a larger expression is given by the rule used there. An induction has two
chains of its own, for 0 and from n to n + 1, which come before the chain that uses it, or is cited where a theorem of a name
has it in its proof.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from opalgebra.expr import Operator
from opalgebra.facts import Equal, Fact
from opalgebra.kernel import Theorem
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import Symbol

_REASONS = {
    "right_dist": "sums act pointwise", "left_dist": "linear", "dress": "dressing on the state", "distribute": "distribution",
    "unfold": "recursion", "reindex": "shift of the index", "split": "split", "sum_of_sums": "sum of sums",
    "sum_right": "sums act pointwise", "sum_left": "linear", "under": "for each index",
}  # fmt: skip


@final
@dataclass(frozen=True)
class Line:
    """A side, and why it equals the one before: words, and the declared facts that were used."""

    side: Operator
    words: tuple[str, ...]
    facts: tuple[Fact, ...] = ()


@final
@dataclass(frozen=True)
class Chain:
    """A first side and the lines that follow; `title` says what the chain is for."""

    title: str
    start: Operator
    lines: tuple[Line, ...]


def derivation(theorem: Theorem, cited: Mapping[str, Theorem]) -> tuple[Chain, ...]:
    """The chains of a proof, those that others use first; what is proved by induction in a cited theorem is not repeated."""
    names = {_stated(step): name for name, other in cited.items() for step in _inductions(other)}
    chains: list[Chain] = []
    for found in _inductions(theorem):
        if _stated(found) in names:
            continue
        base, step, symbol = found.arguments
        assert isinstance(symbol, Symbol)
        chains.append(_chain(f"Induction over {symbol.name}, first {symbol.name} = 0", base, names))
        chains.append(_chain(f"From {symbol.name} to {symbol.name} + 1", step, names, Equal(found.lhs, found.rhs)))
    return (*chains, _chain("Therefore" if chains else "", theorem, names))


_Stated = tuple[Operator, Operator, frozenset[Fact]]


def _stated(theorem: Theorem) -> _Stated:
    return theorem.lhs, theorem.rhs, theorem.hypotheses


def _chain(title: str, theorem: Theorem, names: Mapping[_Stated, str], claim: Equal | None = None) -> Chain:
    kept: list[Line] = []
    for line in without_recursion(_lines(theorem, names)):
        if claim in line.facts:
            line = Line(line.side, (*line.words, "induction hypothesis"), tuple(fact for fact in line.facts if fact != claim))
        previous = kept[-1].side if kept else theorem.lhs
        if line.side is not previous:
            kept.append(line)
    return Chain(title, theorem.lhs, tuple(kept))


def _inductions(theorem: Theorem) -> list[Theorem]:
    """The inductions in a proof, inner ones first."""
    found: list[Theorem] = []
    seen: set[Theorem] = set()
    stack = [(theorem, False)]
    while stack:
        step, ready = stack.pop()
        if ready and step.rule == "induction":
            found.append(step)
        if ready or step in seen:
            continue
        seen.add(step)
        stack.append((step, True))
        stack.extend((premise, False) for premise in step.premises)
    return found


def _lines(theorem: Theorem, names: Mapping[_Stated, str]) -> Steps[list[Line]]:
    """The sides after the first of a chain, with reasons."""
    if theorem.rule == "trans":
        before = yield _lines(theorem.premises[0], names)
        after = yield _lines(theorem.premises[1], names)
        return [*before, *after]
    if theorem.rule == "sym":
        (premise,) = theorem.premises
        forward = yield _lines(premise, names)
        sides = [premise.lhs, *(line.side for line in forward)][:-1]
        return [Line(side, line.words, line.facts) for side, line in zip(reversed(sides), reversed(forward))]
    words, facts = without_recursion(_reasons(theorem, names))
    return [Line(theorem.rhs, tuple(dict.fromkeys(words)), tuple(dict.fromkeys(facts)))]


def _reasons(theorem: Theorem, names: Mapping[_Stated, str]) -> Steps[tuple[list[str], list[Fact]]]:
    """The words for the rules below a step that change something, and the facts they use."""
    if theorem.lhs is theorem.rhs:
        return [], []
    if theorem.rule == "assume":
        return [], [theorem.arguments[0]]
    if theorem.rule == "induction" and _stated(theorem) in names:
        return [f"as in {names[_stated(theorem)].replace('_', ' ')}"], []
    if theorem.rule == "induction":
        return [f"induction over {theorem.arguments[2].name}"], []
    words = [_REASONS[theorem.rule]] if theorem.rule in _REASONS else []
    facts: list[Fact] = []
    if theorem.rule == "instantiate":
        words.append("instance")
    for premise in theorem.premises:
        more, used = yield _reasons(premise, names)
        words += more
        facts += used
    return words, facts if theorem.rule != "instantiate" else []
