"""A frozen vertex with a relative error planted in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from opalgebra.errors import InputError
from opalgebra.expr import Atom
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.maps import Affine
from opalgebra.numeric.stages import part_of


@dataclass(frozen=True, eq=False)
class _Perturbed(Affine):
    vertex: Affine
    share: Affine
    error: float
    head: int | None

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.vertex.inner

    @property
    def is_constant(self) -> bool:
        return self.vertex.is_constant

    @property
    def source(self) -> Tensor | None:  # type: ignore[override]
        if self.vertex.source is None or self.share.source is None:
            return self.vertex.source
        return self.vertex.source + self.error * self.share.source

    @property
    def common(self) -> Tensor | None:
        return self.vertex.common

    def restricted(self, heads: Sequence[int]) -> Affine:
        kept = self.vertex.restricted(heads)
        return replace(self, vertex=kept) if self.head in heads else kept

    def add_to(self, out: Tensor, states: Tensor) -> None:
        self.vertex.add_to(out, states)
        out += self.error * self.share(states)


def planted(binding: Binding, vertex: Atom, error: float) -> Binding:
    """See `opalgebra.testing.plant`."""
    for index, stage in enumerate(binding.T.stages):
        for at, branch in enumerate(stage.branches):
            if vertex in branch.vertices:
                frozen, branches = list(binding.frozen), list(binding.frozen[index].branches)
                here = branches[at].vertex
                share = part_of(here, branch, (vertex,))
                branches[at] = replace(branches[at], vertex=_Perturbed(here, share, error, vertex.head))
                frozen[index] = replace(frozen[index], branches=tuple(branches))
                return replace(binding, frozen=frozen, known_dressings={})
    raise InputError(f"{vertex.name} is no vertex of this model; take one of M.T.attention, M.T.ffn or M.T.head")
