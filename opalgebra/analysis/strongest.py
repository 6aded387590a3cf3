"""The strongest diagrams and worldlines of an order, found without writing down the others.

Each half of all worldlines is computed once, states forwards and the read-out covector backwards, and where they meet the
contributions are products of the halves (`opalgebra.numeric.half_worldlines`); only the largest are kept. Their sum over the
whole order, which no truncation touches, is `R.logits(token, minus).orders[order]`.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opalgebra.analysis.token_flow import readout_name, token_flow, token_texts
from opalgebra.diagram import Diagram
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Operator
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.faithful import full_precision
from opalgebra.numeric.half_worldlines import Meeting, Route, meetings
from opalgebra.numeric.pullback import readout_covector
from opalgebra.scalar import is_natural
from opalgebra.series import Counting, Series
from opalgebra.worldlines import Hop, TokenDiagram

Candidate = tuple[float, int, Any]


@dataclass(frozen=True)
class Strongest(Tabulated):
    """The strongest of an order, by the size of what each contributes to a logit, or a difference of two, at the last token.

    contributions: of each; total: of all of the order, `R.logits(...).orders[order]`; absolute: the sum of the sizes of all;
    count: how many carry anything to the logit. `absolute` over the size of `total` says how much cancels.
    """

    diagrams: tuple[TokenDiagram, ...]
    contributions: tuple[float, ...]
    total: float
    absolute: float
    count: int

    def __repr__(self) -> str:
        largest = ", ".join(f"{value:+.3g}" for value in self.contributions[:4])
        more = ", ..." if len(self.contributions) > 4 else ""
        return f"Strongest({len(self.diagrams)} of {self.count:,}: {largest}{more}; all together {self.total:+.4g})"


def strongest_diagrams(
    binding: Binding,
    token: str | int,
    *,
    minus: str | int | None = None,
    order: int = 2,
    counting: Counting = "attention",
    number: int = 12,
) -> Strongest:
    """The diagrams of an order that contribute most to a logit, each summed over all its worldlines and resolved into tokens.

    counting: as in `T.dyson`; what is not counted must act at each token alone. Bind with heads=True for heads as vertices.
    InputError for several prompts, a model without an unembedding, or attention that is not counted; LimitError for an order
    whose halves take too much memory: work grows with the number of halves, which have order // 2 vertices at most.
    """
    series, found = _searched(binding, token, minus, order, counting, number, _Largest.see_diagrams)
    candidates = found.best()
    resolved = [token_flow(binding, Diagram(_term(series, *term)), token, minus=minus) for _, _, term in candidates]
    return found.result(resolved, candidates)


def strongest_worldlines(
    binding: Binding,
    token: str | int,
    *,
    minus: str | int | None = None,
    order: int = 2,
    counting: Counting = "attention",
    number: int = 12,
) -> Strongest:
    """The single worldlines of an order that contribute most to a logit: diagrams with one position at each depth.

    Arguments and errors as `strongest_diagrams`.
    """
    series, found = _searched(binding, token, minus, order, counting, number, _Largest.see_worldlines)
    candidates = found.best()
    name, texts = readout_name(token, minus), token_texts(binding)
    resolved = []
    for value, _, (before, after, meets) in candidates:
        diagram, hops = _worldline(series, before, after, meets, value)
        resolved.append(TokenDiagram(diagram, texts, hops, binding.T.causal, name))
    return found.result(resolved, candidates)


class _Largest:
    """The largest candidates seen so far, and the sums over all; the earlier of equal ones is kept."""

    def __init__(self, number: int) -> None:
        self.number, self.seen = number, 0
        self.heap: list[tuple[float, int, Candidate]] = []
        self.total, self.absolute, self.count = 0.0, 0.0, 0

    def see_worldlines(self, meeting: Meeting) -> None:
        values = meeting.values
        self._sum(values)
        rows, tokens = len(meeting.before), values.shape[-1]
        for value, place in self._top(values.flatten()):
            pair, meets = divmod(place, tokens)
            after, before = divmod(pair, rows)
            self._offer(value, (meeting.before[before], meeting.after[after], meets))

    def see_diagrams(self, meeting: Meeting) -> None:
        values = meeting.values.sum(-1)
        by_row = _grouped(values, [route.term for route in meeting.before], 1)
        sums = _grouped(by_row[0], [route.term for route in meeting.after], 0)
        self._sum(sums[0])
        for value, place in self._top(sums[0].flatten()):
            after, before = divmod(place, len(by_row[1]))
            (vertices, birth), (later, _) = by_row[1][before], sums[1][after]
            self._offer(value, ((*vertices, *later), birth))

    def _sum(self, values: Tensor) -> None:
        self.total += float(values.sum())
        self.absolute += float(values.abs().sum())
        self.count += int((values != 0).sum())

    def _top(self, values: Tensor) -> list[tuple[float, int]]:
        places = values.abs().topk(min(self.number, len(values))).indices
        return [(value, place) for value, place in zip(values[places].tolist(), places.tolist()) if value]

    def _offer(self, value: float, what: Any) -> None:
        self.seen += 1
        entry = (abs(value), -self.seen, (value, self.seen, what))
        (heapq.heappush if len(self.heap) < self.number else heapq.heappushpop)(self.heap, entry)

    def best(self) -> list[Candidate]:
        return [candidate for _, _, candidate in sorted(self.heap, reverse=True)]

    def result(self, diagrams: list[TokenDiagram], candidates: list[Candidate]) -> Strongest:
        values = tuple(value for value, _, _ in candidates)
        return Strongest(tuple(diagrams), values, self.total, self.absolute, self.count)


def _searched(
    binding: Binding,
    token: str | int,
    minus: str | int | None,
    order: int,
    counting: Counting,
    number: int,
    see: Callable[[_Largest, Meeting], None],
) -> tuple[Series, _Largest]:
    """The series, and what is largest in all meetings of its halves."""
    if not isinstance(binding, Binding):
        raise InputError(f"{type(binding).__name__} is no bound model; bind one at an input")
    if not is_natural(number) or number == 0:
        raise InputError(f"number={number!r}: the strongest of an order are a positive number of them")
    series, found = binding.T.dyson(counting=counting), _Largest(number)
    series.count(order)
    covector = readout_covector(binding, token, minus)
    with torch.no_grad(), full_precision():
        for meeting in meetings(binding, series, order, covector):
            see(found, meeting)
    return series, found


def _grouped(values: Tensor, names: list[Any], axis: int) -> tuple[Tensor, list[Any]]:
    """Sums over the rows of each name along an axis, and the names."""
    known = {name: place for place, name in enumerate(dict.fromkeys(names))}
    places = torch.tensor([known[name] for name in names], device=values.device)
    shape = [len(known) if along == axis else size for along, size in enumerate(values.shape)]
    return values.new_zeros(shape).index_add_(axis, places, values), list(known)


def _term(series: Series, vertices: tuple[Atom, ...], birth: tuple[int, Atom] | None) -> Operator:
    """The state of a selection, on the embedding or on a source."""
    if birth is None:
        return series.propagator(vertices) @ series.states[0]
    number, emitter = birth
    return series.propagator(vertices, number) @ series.born(series.stages[number - 1], emitter)


def _worldline(series: Series, before: Route, after: Route, meets: int, value: float) -> tuple[Diagram, tuple[Hop, ...]]:
    """The diagram of two halves that meet at a position, and the hops of their worldline."""
    diagram = Diagram(_term(series, (*before.term[0], *after.term[0]), before.birth))
    leaving = [meets]
    for passed in reversed(before.passed):
        leaving.insert(0, leaving[0] if passed.other is None else passed.other)
    for passed in after.passed:
        leaving.append(leaving[-1] if passed.other is None else passed.other)
    at, *targets = leaving
    hops = []
    for step in range(len(diagram.nodes) + len(diagram.lines)):
        node = None if step % 2 else diagram.nodes[step // 2]
        target = at if node is None or node.vertex is None or node.kind == "source" else targets.pop(0)
        hops.append(Hop(step, at, target, value))
        at = target
    return diagram, tuple(hops)
