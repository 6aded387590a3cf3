"""All worldlines of an order at once, as products of halves: states forwards, covectors backwards, met at a middle vertex.

A worldline with k counted vertices is cut at one of them: before it a forward half with few vertices, after it a backward half
with the others. Halves live at one token at a time, because what is not counted acts at each token alone, so that one array
(tokens, features) carries a half at every token. What a vertex v of the middle contributes to a read-out is, for all halves i
before it, all halves j after it and all hops s -> t of it,

    values[j, i, t] = c_j[t] . (v E_s y_i)[t],

one matrix product a vertex. Work and memory are those of the halves; no worldline is written down.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom
from opalgebra.numeric import evaluation
from opalgebra.numeric.interpretation import Interpretation
from opalgebra.numeric.maps import Affine
from opalgebra.numeric.pullback import only, pulled
from opalgebra.numeric.stages import FrozenStage, part_of
from opalgebra.series import Series
from opalgebra.space import Kind
from opalgebra.stage import Stage

LIMIT = 2**28
Linear = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Passed:
    """A vertex of a half: `other` is the position at its other side, away from the middle, None where it does not move."""

    vertex: Atom
    other: int | None


@dataclass(frozen=True)
class Route:
    """The vertices of a half in the order of depth; `birth` is the stage's number and the emitter of its source, or None."""

    passed: tuple[Passed, ...] = ()
    birth: tuple[int, Atom] | None = None

    @property
    def term(self) -> tuple[tuple[Atom, ...], tuple[int, Atom] | None]:
        """The same without positions."""
        return tuple(passed.vertex for passed in self.passed), self.birth


@dataclass(frozen=True, eq=False)
class Halves:
    """Rows (rows, 1, tokens, features), each with its route; the half at a token is that token of a row."""

    rows: Tensor
    routes: tuple[Route, ...] = ()

    def and_those(self, others: list["Halves"]) -> "Halves":
        """These and others, within the limit on memory."""
        groups = [self, *(other for other in others if other.routes)]
        size = sum(group.rows.numel() for group in groups)
        if size > LIMIT:
            raise LimitError(
                f"the halves of these worldlines take {size:,} numbers, more than {LIMIT:,}; ask for a lower order, a shorter "
                "prompt, or count fewer vertices by counting="
            )
        return Halves(torch.cat([group.rows for group in groups]), tuple(route for group in groups for route in group.routes))


@dataclass(frozen=True, eq=False)
class Vertex:
    """A counted vertex with the norms around it, as a linear map from the state before its stage to what it adds after it."""

    atom: Atom
    linear: Linear
    moves: bool

    def forwards(self, halves: Halves) -> Halves:
        """The halves that pass this vertex last."""
        return self._passed(halves, self.linear, forwards=True)

    def backwards(self, halves: Halves) -> Halves:
        """The halves that pass it first."""
        return self._passed(halves, lambda rows: pulled(self.linear, rows), forwards=False)

    def _passed(self, halves: Halves, act: Linear, *, forwards: bool) -> Halves:
        def longer(route: Route, other: int | None) -> Route:
            own = (Passed(self.atom, other),)
            return Route((*route.passed, *own) if forwards else (*own, *route.passed), route.birth)

        if not self.moves:
            return Halves(_each(act, halves.rows), tuple(longer(route, None) for route in halves.routes))
        rows, routes = [], []
        for position in range(halves.rows.shape[-2]):
            here = (halves.rows[:, 0, position] != 0).any(-1).nonzero()[:, 0]
            rows.append(only(position, halves.rows[here]))
            routes += [longer(halves.routes[row], position) for row in here.tolist()]
        return Halves(_each(act, torch.cat(rows)), tuple(routes))


@dataclass(frozen=True, eq=False)
class Meeting:
    """values (after, before, tokens): what each pair of halves contributes, meeting at a token after the vertex in the middle.

    The last vertex of `before` is the one in the middle.
    """

    values: Tensor
    before: tuple[Route, ...]
    after: tuple[Route, ...]


def meetings(binding: Interpretation, series: Series, order: int, covector: Tensor) -> Iterator[Meeting]:
    """What all worldlines of an order contribute to a read-out covector (1, 1, tokens, features) of the last state.

    InputError where attention is resummed in propagators, which then do not stay at a token.
    """
    steps = [_Step.of(stage, frozen, series) for stage, frozen in zip(series.stages, binding.frozen)]
    longest = order // 2
    ends = [Halves(covector, (Route(),)), *[Halves(covector[:0])] * longest]
    afterwards: list[Halves] = []
    for step in reversed(steps):
        afterwards.insert(0, ends[longest])
        ends = step.backwards(ends)
    first = binding.states[:1]
    shortest = max(order - 1 - longest, 0)
    starts = [Halves(first, (Route(),)), *[Halves(first[:0])] * shortest]
    for place, step in enumerate(steps):
        born = step.born(binding, series)
        if order and afterwards[place].routes:
            for vertex in step.vertices:
                yield from _met(vertex.forwards(starts[shortest]), afterwards[place])
            if not shortest:
                yield from _met(born[1], afterwards[place])
        starts = [halves.and_those([born[count]] if count < 2 else []) for count, halves in enumerate(step.forwards(starts))]
    if not order:
        yield from _met(starts[0], Halves(covector, (Route(),)))


def _met(before: Halves, after: Halves) -> Iterator[Meeting]:
    if before.routes and after.routes:
        yield Meeting(torch.einsum("jtf,itf->jit", after.rows[:, 0], before.rows[:, 0]), before.routes, after.routes)


@dataclass(frozen=True, eq=False)
class _Step:
    """A stage: what passes it where nothing is chosen, and its counted vertices."""

    stage: Stage
    line: Linear
    vertices: tuple[Vertex, ...]

    @staticmethod
    def of(stage: Stage, frozen: FrozenStage, series: Series) -> "_Step":
        counted = set(series.counted[stage.number - 1])
        resummed: list[Linear] = []
        vertices = []
        for branch, own in zip(stage.branches, frozen.branches, strict=True):
            chosen = [[atom] for atom in branch.vertices if atom in counted]
            rest = [atom for atom in branch.vertices if atom not in counted]
            for atoms in filter(None, [*chosen, rest]):
                part = part_of(own.vertex, branch, atoms)
                if part.is_constant:
                    continue
                if atoms is not rest:
                    linear = _composed([own.before, part, own.after, frozen.after])
                    vertices.append(Vertex(atoms[0], linear, branch.kind == Kind.ATTENTION))
                    continue
                if branch.kind == Kind.ATTENTION:
                    raise InputError(
                        f"worldlines were asked where attention of layer {stage.layer} is resummed in propagators, which then "
                        "leave their token; count attention too, or resolve one diagram by token_flow"
                    )
                resummed.append(_composed([own.before, part, own.after]))
        return _Step(stage, _line(resummed, frozen.after), tuple(vertices))

    def forwards(self, starts: list[Halves]) -> list[Halves]:
        """The halves after the stage, by the number of vertices that they passed."""
        return self._passed(starts, self.line, Vertex.forwards)

    def backwards(self, ends: list[Halves]) -> list[Halves]:
        """The halves before it."""
        return self._passed(ends, lambda rows: pulled(self.line, rows), Vertex.backwards)

    def _passed(self, halves: list[Halves], line: Linear, chosen: Callable[[Vertex, Halves], Halves]) -> list[Halves]:
        found = []
        for count, own in enumerate(halves):
            fewer = halves[count - 1] if count else None
            added = [chosen(vertex, fewer) for vertex in self.vertices] if fewer is not None and fewer.routes else []
            found.append(Halves(_each(line, own.rows), own.routes).and_those(added))
        return found

    def born(self, binding: Interpretation, series: Series) -> tuple[Halves, Halves]:
        """The sources of the stage, at its end, by their order 0 or 1."""
        found: tuple[list[Halves], list[Halves]] = ([], [])
        for stage, emitter, left in series.births(1):
            if stage is self.stage:
                array = evaluation.evaluate(binding, series.born(stage, emitter)).array[None]
                if array.any():
                    found[1 - left].append(Halves(array, (Route(birth=(stage.number, emitter)),)))
        none = Halves(binding.states[:0])
        return none.and_those(found[0]), none.and_those(found[1])


def _each(act: Linear, rows: Tensor) -> Tensor:
    """The image of each row; maps take no array of none."""
    return act(rows) if len(rows) else rows


def _composed(parts: list[Affine | None]) -> Linear:
    """The linear parts of some maps, the first acting first."""
    maps = [part for part in parts if part is not None]

    def act(states: Tensor) -> Tensor:
        for part in maps:
            states = part(states)
        return states

    return act


def _line(resummed: list[Linear], after: Affine | None) -> Linear:
    def act(states: Tensor) -> Tensor:
        total = states
        for branch in resummed:
            total = total + branch(states)
        return total if after is None else after(total)

    return act
