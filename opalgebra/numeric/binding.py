"""A binding interprets the atoms of a symbolic Transformer as array functions of one model at one input.

Every stage is frozen once, at the state before it, under the named split; after that each factor of the ordered product
is affine. The values of `T.x[s]` are the binding's own forward, stage by stage; the model's own forward, which shares no
arithmetic with it, is the `reference`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from opalgebra.architecture import Architecture
from opalgebra.errors import InputError, ModelError
from opalgebra.expr import Atom, Compose, Operator
from opalgebra.numeric import evaluation, orders, roundoff
from opalgebra.numeric.blocks import Affine, Attention, Map
from opalgebra.numeric.faithful import Reference
from opalgebra.numeric.stages import FrozenStage, part_of
from opalgebra.series import Counting


@dataclass(frozen=True, eq=False)
class Readout:
    """The measurement after the last stage: a final norm and an unembedding (vocabulary, features), or None."""

    norm: Map
    unembedding: Tensor | None
    bias: Tensor | None


class Source(Protocol):
    """What a binding asks of the model that it came from."""

    @property
    def name(self) -> str:
        """How reports call the model."""

    def token_id(self, token: str | int) -> int:
        """The id of a text that is one token."""

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """What the reader sees of the tokens."""


@dataclass(frozen=True, eq=False)
class Binding:
    """One model at one input (batch, tokens), with its split named; made by `bind`.

    `maps[s]` are the norm and the vertex of stage s + 1, `frozen[s]` their dressings at `states[s]`. `states`
    (stages + 1, batch, tokens, features) is the binding's own forward. `deviation` is the largest error of a block in
    the self-check over its bound, None when the check was left out.
    """

    model: Source
    T: Architecture
    ids: Tensor
    has_batch: bool
    split: Mapping[str, str]
    maps: Sequence[tuple[Map, Map]]
    frozen: Sequence[FrozenStage]
    states: Tensor
    reference: Reference
    readout: Readout
    deviation: float | None = None
    known_dressings: dict[tuple[Atom, Operator], Affine] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        checked = "not self-checked" if self.deviation is None else f"self-check {self.deviation:.1e} of its bound"
        split = ", ".join(f"{kind} {choice}" for kind, choice in self.split.items())
        return (
            f"Binding({self.model.name}, {tuple(self.ids.shape)} tokens, {len(self.frozen)} stages, split: {split}, "
            f"{str(self.dtype).removeprefix('torch.')}, {self.states.device}, {checked})"
        )

    @property
    def dtype(self) -> torch.dtype:
        return self.states.dtype

    @property
    def tokens(self) -> int:
        """The number of tokens of the input."""
        return self.ids.shape[1]

    @property
    def token_texts(self) -> list[Any]:
        """The tokens as texts, one list a row for an input of token ids."""
        rows = [self.model.token_texts(row) for row in self.ids.tolist()]
        return rows if self.has_batch else rows[0]

    def unbatched(self, array: Any, axis: int = 0) -> Any:
        """The array without its batch axis when the input was a text."""
        return array if self.has_batch else array.squeeze(axis)

    def evaluate(self, state: Operator) -> Tensor:
        """A state expression as an array (tokens, features), with a leading batch axis for an input of token ids.

        InputError when it is no state or has atoms that are not the model's.
        """
        return self.unbatched(evaluation.evaluate(self, state).array)

    def orders(self, *, counting: Counting = "all", order: int | None = None) -> "orders.Orders":
        """All orders of the Dyson series on this input, in one pass over depth; see `opalgebra.numeric.orders`."""
        return orders.orders(self, counting=counting, order=order)

    def map_of(self, atom: Atom) -> Map:
        """The array function of a vertex or norm of `T`; InputError for other atoms."""
        place = self._places.get(atom)
        if place is None:
            raise InputError(
                f"{atom.name} ({atom.kind}) is not part of this model; its operators are those of M.T, such as "
                f"{', '.join(known.name for known in list(self._places)[:4])}"
            )
        index, part = place
        found = self.maps[index][part]
        return found.restricted([atom.head]) if isinstance(found, Attention) and atom.head is not None else found

    def own_dressing(self, atom: Atom, background: Operator) -> Affine | None:
        """What the atom was frozen to, when the background is the model's own state before it; otherwise None."""
        if atom not in self._places:
            return None
        index, part = self._places[atom]
        here, stage, frozen = self.T.x[index], self.T.stages[index], self.frozen[index]
        if part == 0:
            return frozen.norm if background is here else None
        behind_norm = isinstance(background, Compose) and background.left is stage.norm and background.right is here
        return part_of(frozen.vertex, stage, (atom,)) if behind_norm else None

    @cached_property
    def _places(self) -> dict[Atom, tuple[int, int]]:
        places: dict[Atom, tuple[int, int]] = {}
        for index, stage in enumerate(self.T.stages):
            if stage.norm is not None:
                places[stage.norm] = (index, 0)
            places |= dict.fromkeys(stage.vertices, (index, 1))
        return places


def self_check(binding: Binding) -> float:
    """The largest error of a block over its bound, each block run alone on the model's own recorded state.

    The bound is `lambda sqrt(m) u` (see `roundoff`) times what the rounding is relative to: the norm of the state it is
    added to, and the block's own `rounding_scale`. ModelError naming the first block beyond its bound.
    """
    worst = 0.0
    recorded = binding.reference.states
    for index, ((norm, vertex), stage) in enumerate(zip(binding.maps, binding.T.stages)):
        state, after = recorded[index], recorded[index + 1]
        normed = norm(state)
        difference = (state + vertex(normed) - after).norm(dim=-1)
        scale = state.norm(dim=-1) + vertex.rounding_scale(normed)
        bound = roundoff.probable(norm.inner + vertex.inner, binding.dtype) * scale
        ratio = (difference / bound).nan_to_num(nan=torch.inf).max().item()
        worst = max(worst, ratio)
        if ratio > 1:
            relative = (difference / after.norm(dim=-1)).max().item()
            raise ModelError(
                f"the self-check failed at the {stage.kind} of layer {stage.layer} (stage {stage.number}): it differs from "
                f"the model's own forward by {relative:.1e}, {ratio:.1e} times the rounding bound; the adapter does not "
                "describe this model (check=False binds it all the same)"
            )
    return worst
