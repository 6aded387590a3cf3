"""A stage frozen at one state, and how its vertices are shared out between what is counted and what is resummed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from opalgebra.expr import Atom
from opalgebra.numeric.blocks import Affine, Map
from opalgebra.series import Stage


@dataclass(frozen=True, eq=False)
class FrozenStage:
    """The affine map `x -> V<N s>(N<s>(x)) + source` of one stage, frozen at the state s before it."""

    norm: Affine
    vertex: Affine

    @property
    def inner(self) -> int:
        return self.norm.inner + self.vertex.inner

    def shared(self, stage: Stage, chosen: Callable[[Atom], bool]) -> "Step":
        """The stage with its chosen vertices counted and the others resummed."""
        counted = [vertex for vertex in stage.vertices if chosen(vertex)]
        resummed = [vertex for vertex in stage.vertices if not chosen(vertex)]
        return Step(
            self.norm,
            part_of(self.vertex, stage, counted) if counted else None,
            part_of(self.vertex, stage, resummed) if resummed else None,
        )


@dataclass(frozen=True, eq=False)
class Step:
    """A norm and the counted and the resummed share of the vertices behind it (None: no vertex)."""

    norm: Affine
    counted: Affine | None
    resummed: Affine | None

    def source(self, share: Affine | None) -> Tensor | None:
        """What a share adds whatever its argument: its own source, and the norm's shift sent through it."""
        if share is None or share.is_constant or self.norm.source is None:
            return None if share is None else share.source
        shifted = share(self.norm.source)
        return shifted if share.source is None else shifted + share.source


def part_of(vertex: Affine, stage: Stage, vertices: Sequence[Atom]) -> Affine:
    """The share of some vertices in the frozen vertex of a stage: all of it, or some heads of attention."""
    if len(vertices) == len(stage.vertices):
        return vertex
    return vertex.restricted([atom.head for atom in vertices if atom.head is not None])


def freeze(recorded: Tensor, maps: Sequence[tuple[Map, Map]]) -> tuple[list[FrozenStage], Tensor]:
    """Every stage frozen at the model's own state before it, and the states of the product of the frozen stages.

    recorded and the states are (stages + 1, batch, tokens, features); both start at the embedding. Rounding errors of
    one stage are carried on by frozen, and so linear, stages: they do not move patterns, gates and scales.
    """
    states, frozen = [recorded[0]], []
    for (norm, vertex), here in zip(maps, recorded):
        stage = FrozenStage(norm.freeze(here), vertex.freeze(norm(here)))
        normed = stage.norm(states[-1])
        if stage.norm.source is not None:
            normed = normed + stage.norm.source
        after = states[-1].clone()
        stage.vertex.add_to(after, normed)
        if stage.vertex.source is not None:
            after += stage.vertex.source
        states.append(after)
        frozen.append(stage)
    return frozen, torch.stack(states)
