"""The atoms of a symbolic Transformer interpreted as array functions of one model at one input.

Every stage is frozen once, at the model's own state before it, under the named split; after that each factor of the
ordered product is affine. The values of `T.x[s]` are those of the product of the frozen stages; the model's own forward,
which shares no arithmetic with it, is the `reference`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, final

import torch
from torch import Tensor

from opalgebra.architecture import Architecture
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Operator
from opalgebra.numeric.faithful import Reference
from opalgebra.numeric.maps import Affine, Constant, Map, device_of
from opalgebra.numeric.norms import Diagonal
from opalgebra.numeric.readout import Readout
from opalgebra.numeric.stages import BranchMaps, FrozenStage, StageMaps, part_of
from opalgebra.stage import Branch

Place = tuple[int, Map, Operator, Callable[[FrozenStage], Affine]]


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
class Run:
    """One run of a model on tokens (batch, tokens), with the split under which it is decomposed; abstract.

    `mask` (batch, tokens) is False at padded positions, which no figure counts; None without any.
    """

    model: Origin
    ids: Tensor
    has_batch: bool
    split: Mapping[str, str]
    reference: Reference
    readout: Readout
    mask: Tensor | None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which it is decomposed."""
        raise NotImplementedError

    @property
    def dtypes(self) -> str:
        """The dtype of the model, and that in which it is evaluated where this is another."""
        own, here = (str(dtype).removeprefix("torch.") for dtype in (self.arithmetic, self.dtype))
        return own if own == here else f"{own} accumulated in {here}"

    @property
    def arithmetic(self) -> torch.dtype:
        """The dtype in which the model itself computed."""
        return self.reference.states.dtype

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

    def real(self, figures: Tensor, padded: float) -> Tensor:
        """Figures (..., batch, tokens) with another value at padded positions."""
        return figures if self.mask is None else figures.masked_fill(~self.mask.to(figures.device), padded)

    @property
    def last(self) -> Tensor:
        """(batch,): the last position of each row that is not padded."""
        places = torch.arange(self.tokens, device=self.ids.device).expand(self.ids.shape[:2])
        return (places if self.mask is None else places.masked_fill(~self.mask, 0)).amax(1)


@dataclass(frozen=True, eq=False)
class Interpretation(Run):
    """One model at one input, every stage of it frozen there; abstract, `Binding` adds what can be asked of it.

    `maps[s]` are the array functions of stage s + 1, `frozen[s]` their dressings at the model's own state before it.
    `states` (stages + 1, batch, tokens, features) is the product of the frozen stages. `deviation` is the largest error of a
    block in the self-check over its bound, None when the check was left out.
    """

    T: Architecture
    maps: Sequence[StageMaps]
    frozen: Sequence[FrozenStage]
    states: Tensor
    deviation: float | None = None
    known_dressings: dict[tuple[Atom, Operator], Affine] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        checked = "not self-checked" if self.deviation is None else f"self-check {self.deviation:.1e} of its bound"
        split = ", ".join(f"{kind} {choice}" for kind, choice in self.split.items())
        return (
            f"Binding({self.model.name}, {tuple(self.ids.shape)} tokens, {len(self.frozen)} stages, split: {split}, "
            f"{self.dtypes}, {self.devices}, {checked})"
        )

    @property
    def dtype(self) -> torch.dtype:
        return self.states.dtype

    @property
    def devices(self) -> str:
        """Where states are given, and where else stages are."""
        found = (self.states.device, *map(device_of, self.maps))
        return ", ".join(dict.fromkeys(str(device) for device in found if device is not None))

    def map_of(self, atom: Atom) -> Map:
        """The array function of a vertex or norm of `T`; InputError for other atoms."""
        place = self._places.get(atom)
        if place is None:
            raise InputError(
                f"{atom.name} ({atom.kind}) is not part of this model; its operators are those of M.T, such as "
                f"{', '.join(known.name for known in list(self._places)[:4])}"
            )
        return place[1]

    def own_dressing(self, atom: Atom, background: Operator) -> Affine | None:
        """What the atom was frozen to, when the background is what it reads in the model; otherwise None."""
        if atom not in self._places:
            return None
        index, _, reads, dressing = self._places[atom]
        return dressing(self.frozen[index]) if background is reads else None

    @cached_property
    def frozen_norms(self) -> dict[Atom, Diagonal]:
        """The dressings of the norms of `T`, those that are diagonal."""
        found = {atom: dressing(self.frozen[index]) for atom, (index, _, _, dressing) in self._places.items()}
        return {atom: part for atom, part in found.items() if isinstance(part, Diagonal)}

    @cached_property
    def _places(self) -> dict[Atom, Place]:
        """Each atom with its stage, its array function, what it reads, and its dressing among those of the stage."""
        places: dict[Atom, Place] = {}
        for index, (stage, maps) in enumerate(zip(self.T.stages, self.maps, strict=True)):
            here = self.T.x[index]
            for at, (branch, own) in enumerate(zip(stage.branches, maps.branches, strict=True)):
                places |= _of_branch(index, at, branch, own, here)
            if stage.after is not None:
                assert maps.after is not None
                places[stage.after] = (index, maps.after, stage.sum @ here, lambda frozen: _given(frozen.after))
        return places


@final
@dataclass(frozen=True, eq=False)
class Bias(Map):
    """The constant map that adds what belongs to no head alone."""

    value: Tensor
    inner: int = 0

    def __call__(self, state: Tensor) -> Tensor:
        return self.value.expand_as(state)

    def freeze(self, state: Tensor) -> Constant:
        return Constant(self(state))

    def rounding_scale(self, state: Tensor) -> Tensor:
        return torch.zeros_like(state[..., 0])


def _of_branch(index: int, at: int, branch: Branch, maps: BranchMaps, here: Operator) -> dict[Atom, Place]:
    places: dict[Atom, Place] = {}
    reads = here if branch.before is None else branch.before @ here
    if branch.before is not None:
        assert maps.before is not None
        places[branch.before] = (index, maps.before, here, lambda frozen: _given(frozen.branches[at].before))
    for vertex in branch.vertices:
        function = maps.vertex.restricted([vertex.head]) if branch.has_heads else maps.vertex

        def dressing(frozen: FrozenStage, vertex: Atom = vertex) -> Affine:
            return part_of(frozen.branches[at].vertex, branch, (vertex,))

        places[vertex] = (index, function, reads, dressing)
    if branch.bias is not None:
        common = _given(maps.vertex.common)
        places[branch.bias] = (index, Bias(common), reads, lambda frozen: Constant(_given(frozen.branches[at].vertex.common)))
    if branch.after is not None:
        places[branch.after] = (
            index, _given(maps.after), branch.read(branch.maps) @ here, lambda frozen: _given(frozen.branches[at].after)
        )  # fmt: skip
    return places


def _given(part: Any) -> Any:
    assert part is not None
    return part
