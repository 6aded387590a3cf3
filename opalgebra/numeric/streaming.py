"""All orders of the newest tokens alone, from what was kept of the earlier ones: the transfer picture of a causal series.

A causal model carries nothing from a token back to an earlier one. What the new tokens need of the tokens before them are the
keys, which make their rows of the patterns, and in every attention the values of each order y_k, which those rows mix. With
both kept, a new token costs what it would cost alone, and one row of attention over the tokens so far for each head and order.
The keys and values are those of the frozen dressings here, not of the cache of the model's own forward.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from opalgebra.expr import Atom
from opalgebra.numeric.attention import Attention, FrozenAttention, Past
from opalgebra.numeric.maps import Affine
from opalgebra.numeric.orders import Ladder
from opalgebra.numeric.stages import Share, StageMaps, Step, freeze_stage
from opalgebra.stage import Stage


@dataclass(frozen=True, eq=False)
class Readers:
    """Who reads the values of one attention: the model's own state, the orders of x0, those of the sources, what is born."""

    own: Past
    initial: Past
    sources: Past
    born: Past


class Stream:
    """The ladders of x0 and of the sources, carried on with every new token; for at most `capacity` tokens in all.

    `kept` is the number of orders that are computed. The patterns of jacobian splits are not kept, and no such map is taken.
    """

    def __init__(self, stages: Sequence[Stage], chosen: Callable[[Atom], bool], kept: int, capacity: int) -> None:
        self.stages, self.chosen, self.kept = stages, chosen, kept
        self.readers = [Readers(*(Past(capacity) for _ in range(4))) for _ in stages]

    def advance(self, recorded: Tensor, maps: Sequence[StageMaps]) -> "Column":
        """The orders of new tokens: recorded (stages + 1, batch, tokens, features) are the model's own states of them, and
        maps the array functions of each stage for them, each attention with the tokens that each new one sees of all so far.
        """
        initial, sources = Ladder(self.kept, recorded[0]), Ladder(self.kept, recorded[0])
        initial.born(recorded[0], 0)
        inner = 0
        for stage, readers, own, here in zip(self.stages, self.readers, maps, recorded):
            frozen = freeze_stage(_mapped(own, readers.own), here)
            step, inner = frozen.shared(stage, self.chosen), inner + frozen.inner
            initial.pass_through(_reading(step, readers.initial))
            sources.pass_through(_reading(step, readers.sources))
            for source, order in _reading(step, readers.born).births():
                sources.born(source, order)
        for ladder in (initial, sources):
            ladder.parts = ladder.parts.to(recorded.device)
        initial.add(sources)
        return Column(initial.parts, sources.parts, inner)


@dataclass(frozen=True, eq=False)
class Column:
    """The orders of the newest tokens and the share of the sources in them, (orders, batch, tokens, features); `inner` is the
    number of inner dimensions summed on the way.
    """

    parts: Tensor
    sources: Tensor
    inner: int


def _mapped(maps: StageMaps, past: Past) -> StageMaps:
    """The maps of a stage with its attention reading what is kept."""
    branches = (
        replace(branch, vertex=replace(branch.vertex, past=past)) if isinstance(branch.vertex, Attention) else branch
        for branch in maps.branches
    )
    return replace(maps, branches=tuple(branches))


def _reading(step: Step, past: Past) -> Step:
    """The step with the attention of its shares reading what is kept for one reader."""

    def each(part: Affine | None) -> Any:
        return replace(part, past=past) if isinstance(part, FrozenAttention) else part

    def share(own: Share) -> Share:
        return replace(own, counted=each(own.counted), resummed=each(own.resummed))

    return replace(step, branches=tuple(map(share, step.branches)))
