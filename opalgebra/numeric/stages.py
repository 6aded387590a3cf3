"""A stage as array functions, the mirror of the symbolic one, and its dressing at one state.

A stage is `after @ (1 + sum of branches)`, a branch `after @ vertices @ before`; each norm may be missing. `freeze` dresses
every map by what it really reads. A `Step` is a frozen stage whose vertices are shared out between what is counted and
what is resummed; with y_k the part of a state that passed k counted vertices, it does, for all k together,

    y_k <- after< y_k + sum over branches of after<resummed<before< y_k >>> + after<counted<before< y_{k-1} >>> >

All maps of a stage are on one device. A state is taken there when it meets the stage, and the value of a stage is given back
where the state was.

Sources: a vertex emits its own and the shift of the norm before it, with order 1 if it is counted and 0 if not; what
belongs to no head alone, the output bias, counts when every head does; the shift of a norm after vertices has order 0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from opalgebra.expr import Atom
from opalgebra.numeric.maps import Affine, Map, beside
from opalgebra.stage import Branch, Stage


@dataclass(frozen=True, eq=False)
class BranchMaps:
    """What a branch adds, `after(vertex(before(x)))`; the vertex is attention with all its heads, or a feed-forward network."""

    vertex: Map
    before: Map | None = None
    after: Map | None = None

    def parts(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the vertex reads, what it gives, and what the branch adds."""
        read = state if self.before is None else self.before(state)
        value = self.vertex(read)
        return read, value, value if self.after is None else self.after(value)


@dataclass(frozen=True, eq=False)
class StageMaps:
    """One stage: its branches, and the norm after it or None."""

    branches: tuple[BranchMaps, ...]
    after: Map | None = None

    def __call__(self, state: Tensor) -> Tensor:
        """The value of the whole stage."""
        total = self.sum(state)
        return (total if self.after is None else self.after(total)).to(state.device)

    def sum(self, state: Tensor) -> Tensor:
        """The value before the norm after the stage, on the device of the stage."""
        here = total = beside(self, state)
        for branch in self.branches:
            total = total + branch.parts(here)[2]
        return total


def stage(*branches: BranchMaps, after: Map | None = None) -> StageMaps:
    """A stage of some branches."""
    return StageMaps(branches, after)


@dataclass(frozen=True, eq=False)
class FrozenBranch:
    """A branch with each of its maps frozen at what it reads."""

    vertex: Affine
    before: Affine | None = None
    after: Affine | None = None

    @property
    def inner(self) -> int:
        return sum(part.inner for part in (self.before, self.vertex, self.after) if part is not None)


@dataclass(frozen=True, eq=False)
class Share:
    """A branch with its vertices shared out: counted, resummed, and what belongs to none of them; None for nothing."""

    before: Affine | None
    counted: Affine | None
    resummed: Affine | None
    common: Tensor | None
    after: Affine | None

    def read(self, parts: Tensor) -> Tensor:
        """The linear part of the norm before the vertices, in memory of its own."""
        return parts.clone() if self.before is None else self.before(parts)

    def add_to(self, out: Tensor, vertex: Affine, read: Tensor) -> None:
        """`out += after<vertex<read>>`, in place."""
        if self.after is None:
            vertex.add_to(out, read)
        else:
            self.after.add_to(out, vertex(read))

    @property
    def moves(self) -> bool:
        """Whether some vertex has a linear part."""
        return any(part is not None and not part.is_constant for part in (self.counted, self.resummed))

    def births(self) -> Iterator[tuple[Tensor, int]]:
        """What the branch adds whatever its argument, with its order, at the end of the branch."""
        for part, order in ((self.counted, 1), (self.resummed, 0)):
            born = None if part is None else emitted(part, self.before)
            if born is not None:
                yield self._left(born), order
        if self.common is not None:
            yield self._left(self.common), int(self.resummed is None)
        if self.after is not None and self.after.source is not None:
            yield self.after.source, 0

    def _left(self, born: Tensor) -> Tensor:
        return born if self.after is None else self.after(born)


def emitted(vertex: Affine, before: Affine | None) -> Tensor | None:
    """The source of `vertex @ before`: the vertex's own, and the norm's sent through it."""
    if before is None or before.source is None or vertex.is_constant:
        return vertex.source
    return vertex.whole(before.source)


@dataclass(frozen=True, eq=False)
class Step:
    """A frozen stage with its vertices shared out, and the recurrence of the module."""

    branches: tuple[Share, ...]
    after: Affine | None

    @property
    def counts(self) -> bool:
        """Whether a vertex of the stage is counted."""
        return any(share.counted is not None for share in self.branches)

    @property
    def is_birthplace(self) -> bool:
        """Whether some source is born here."""
        return next(self._emitters(), None) is not None

    def _emitters(self) -> Iterator[object]:
        for share in self.branches:
            norms = (share.before, share.after)
            parts = (share.counted, share.resummed, *norms)
            yield from (part.source for part in parts if part is not None and part.source is not None)
            yield from () if share.common is None else (share.common,)
        if self.after is not None and self.after.source is not None:
            yield self.after.source

    def carry(self, parts: Tensor, filled: int, chunk: int | None = None) -> int:
        """The recurrence on parts (orders, batch, tokens, features) beside it, in place, where the first `filled` are not zero.

        Gives how many are not zero afterwards; a part beyond the last order is not kept. chunk: how many orders pass the
        stage together, all for None. The highest pass first: what a lower order is added to has been read by then.
        """
        if not filled:
            return 0
        risen = min(filled, len(parts) - 1)
        chunk = chunk or len(parts)
        for high in range(filled, 0, -chunk):
            self._carry_chunk(parts, max(high - chunk, 0), high, risen)
        climbs = any(share.counted is not None and not share.counted.is_constant for share in self.branches)
        reached = max(filled, risen + 1) if climbs and risen else filled
        if self.after is not None:
            for low in range(0, reached, chunk):
                parts[low : min(low + chunk, reached)] = self.after(parts[low : min(low + chunk, reached)])
        return reached

    def _carry_chunk(self, parts: Tensor, low: int, high: int, risen: int) -> None:
        """The orders from `low` to below `high`, of which those below `risen` are passed on to the next."""
        top = min(high, risen)
        moving = [share for share in self.branches if share.moves and (low < top or share.resummed is not None)]
        reads = [share.read(parts[low : top if share.resummed is None else high]) for share in moving]
        for share, read in zip(moving, reads):
            if share.resummed is not None and not share.resummed.is_constant:
                share.add_to(parts[low:high], share.resummed, read)
            if share.counted is not None and not share.counted.is_constant and low < top:
                share.add_to(parts[low + 1 : top + 1], share.counted, read[: top - low])

    def births(self) -> Iterator[tuple[Tensor, int]]:
        """The sources of the stage with their orders, at its end."""
        for share in self.branches:
            for born, order in share.births():
                yield born if self.after is None else self.after(born), order
        if self.after is not None and self.after.source is not None:
            yield self.after.source, 0


@dataclass(frozen=True, eq=False)
class FrozenStage:
    """The affine map of one stage, every map of it frozen at what it reads when the stage is given one state."""

    branches: tuple[FrozenBranch, ...]
    after: Affine | None = None

    @property
    def inner(self) -> int:
        """Inner dimensions along the longest way through the stage."""
        return max(branch.inner for branch in self.branches) + (0 if self.after is None else self.after.inner)

    def shared(self, symbolic: Stage, chosen: Callable[[Atom], bool]) -> Step:
        """The stage with its chosen vertices counted and the others resummed."""
        shares = []
        for frozen, branch in zip(self.branches, symbolic.branches, strict=True):
            counted = [vertex for vertex in branch.vertices if chosen(vertex)]
            resummed = [vertex for vertex in branch.vertices if not chosen(vertex)]
            parts = (part_of(frozen.vertex, branch, own) if own else None for own in (counted, resummed))
            common = frozen.vertex.common if branch.has_heads else None
            shares.append(Share(frozen.before, *parts, common, frozen.after))
        return Step(tuple(shares), self.after)

    def whole(self, state: Tensor) -> Tensor:
        """The affine map of the stage: its linear part and all its sources."""
        here = total = beside(self, state)
        for branch in self.branches:
            read = here if branch.before is None else branch.before.whole(here)
            value = branch.vertex.whole(read)
            total = total + (value if branch.after is None else branch.after.whole(value))
        return (total if self.after is None else self.after.whole(total)).to(state.device)


def part_of(vertex: Affine, branch: Branch, vertices: Sequence[Atom]) -> Affine:
    """The share of some vertices of a branch in its frozen vertex: all of it, or some heads of attention."""
    if not branch.has_heads:
        return vertex
    return vertex.restricted([atom.head for atom in vertices if atom.head is not None])


def freeze(recorded: Tensor, maps: Sequence[StageMaps]) -> tuple[list[FrozenStage], Tensor]:
    """Every stage frozen at the model's own state before it, and the states of the product of the frozen stages.

    recorded and the states are (stages + 1, batch, tokens, features); both start at the embedding. Rounding errors of
    one stage are carried on by frozen, and so linear, stages: they do not move patterns, gates and scales.
    """
    frozen = [freeze_stage(part, here) for part, here in zip(maps, recorded)]
    return frozen, product(recorded[0], frozen)


def product(start: Tensor, frozen: Sequence[FrozenStage]) -> Tensor:
    """The states of the product of frozen stages, (stages + 1, batch, tokens, features)."""
    states = [start]
    for stage in frozen:
        states.append(stage.whole(states[-1]))
    return torch.stack(states)


def freeze_stage(maps: StageMaps, here: Tensor) -> FrozenStage:
    """A stage frozen at the state before it; each dressing is made once, and applied only where a norm follows."""
    branches, total = [], (here := beside(maps, here))
    for branch in maps.branches:
        read = here if branch.before is None else branch.before(here)
        before, vertex, after = None if branch.before is None else branch.before.freeze(here), branch.vertex.freeze(read), None
        if branch.after is not None or maps.after is not None:
            added = vertex.whole(read)
            if branch.after is not None:
                after = branch.after.freeze(added)
                added = after.whole(added)
            total = total + added
        branches.append(FrozenBranch(vertex, before, after))
    return FrozenStage(tuple(branches), None if maps.after is None else maps.after.freeze(total))
