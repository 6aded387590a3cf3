"""The atoms of a symbolic Transformer interpreted as array functions of one model at one input.

Every stage is frozen once, at the model's own state before it, under the named split; after that each factor of the
ordered product is affine. The values of `T.x[s]` are those of the product of the frozen stages; the model's own forward,
which shares no arithmetic with it, is the `reference`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from opalgebra.architecture import Architecture
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Compose, Operator
from opalgebra.numeric.blocks import Affine, Attention, Map
from opalgebra.numeric.faithful import Reference
from opalgebra.numeric.stages import FrozenStage, part_of


@dataclass(frozen=True, eq=False)
class Readout:
    """The measurement after the last stage: a final norm and an unembedding (vocabulary, features), or None."""

    norm: Map
    unembedding: Tensor | None
    bias: Tensor | None


class Origin(Protocol):
    """What a binding asks of the model that it came from."""

    @property
    def name(self) -> str:
        """How reports call the model."""

    def token_id(self, token: str | int) -> int:
        """The id of a text that is one token."""

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """What the reader sees of the tokens."""


@dataclass(frozen=True, eq=False)
class Interpretation:
    """One model at one input (batch, tokens), with its split named; abstract, `Binding` adds what can be asked of it.

    `maps[s]` are the norm and the vertex of stage s + 1, `frozen[s]` their dressings at the model's own state before it.
    `states` (stages + 1, batch, tokens, features) is the product of the frozen stages. `deviation` is the largest error of
    a block in the self-check over its bound, None when the check was left out.
    """

    model: Origin
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
