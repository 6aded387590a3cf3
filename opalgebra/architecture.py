"""What a Transformer is, symbolically: an ordered product of residual stages, each a norm and its vertices.

A pre-norm sequential model of L layers has 2 L stages, acting first to last

    (1 + F_L M_L)(1 + A_L N_L) ... (1 + F_1 M_1)(1 + A_1 N_1)

with attention A, feed-forward network F, and the norms N and M before them, all nonlinear maps of X. With heads, A_l is
a sum of vertices `A_l_h`, head h counted from 0. Layers and stages count from 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from opalgebra.atoms import family, state
from opalgebra.display import Displayed
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Operator, linear_combination, ordered_product
from opalgebra.scalar import is_natural
from opalgebra.series import Counting, Series, Stage
from opalgebra.space import Kind, X


@dataclass(frozen=True)
class Architecture(Displayed):
    """A pre-norm sequential Transformer. `heads` is None when attention is one vertex a layer."""

    layers: int
    heads: int | None = None
    norms: str = "explicit"

    __repr__ = Displayed.__repr__

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The residual stages in the order in which they act."""
        attention, ffn = family("A", kind=Kind.ATTENTION), family("F", kind=Kind.FFN)
        before, between = family("N", kind=Kind.NORM), family("M", kind=Kind.NORM)
        explicit = self.norms == "explicit"
        stages = []
        for layer in range(1, self.layers + 1):
            heads = (attention[layer],) if self.heads is None else tuple(attention[layer, h] for h in range(self.heads))
            number = 2 * layer - 1
            stages.append(Stage(number, Kind.ATTENTION, layer, before[layer] if explicit else None, heads))
            stages.append(Stage(number + 1, Kind.FFN, layer, between[layer] if explicit else None, (ffn[layer],)))
        return tuple(stages)

    @cached_property
    def operator(self) -> Operator:
        """The whole stack as one ordered product; a map of X."""
        return ordered_product((stage.factor for stage in self.stages), space=X)

    @cached_property
    def x(self) -> tuple[Operator, ...]:
        """`x[s]` is the state after stage s, `x[0]` the embedding; `x[s] = (1 + V_s) @ x[s - 1]`, shared."""
        states: list[Operator] = [state("x")]
        for stage in self.stages:
            states.append(stage.factor @ states[-1])
        return tuple(states)

    @cached_property
    def attention(self) -> Mapping[int, Operator]:
        """Attention by layer: an atom, or the sum of the heads."""
        return {s.layer: linear_combination((1, v) for v in s.vertices) for s in self.stages if s.kind == Kind.ATTENTION}

    @cached_property
    def ffn(self) -> Mapping[int, Atom]:
        """The feed-forward network by layer."""
        return {stage.layer: stage.vertices[0] for stage in self.stages if stage.kind == Kind.FFN}

    @cached_property
    def head(self) -> Mapping[tuple[int, int], Atom]:
        """Attention heads by (layer, head); empty when heads are no vertices."""
        vertices = (vertex for stage in self.stages for vertex in stage.vertices)
        return {(v.layer or 0, v.head): v for v in vertices if v.head is not None}

    def dyson(self, *, counting: Counting = "all", order: int | None = None) -> Series:
        """The graded Dyson series. `counting`: "all", "attention", "ffn" or a predicate on vertices; norms never count."""
        return Series(self.stages, self.x, counting, order)


def transformer(
    layers: int, heads: int | None = None, *, norm: str = "pre", norms: str = "explicit", parallel: bool = False
) -> Architecture:
    """The symbolic Transformer of a number of layers; `heads=h` makes every head a vertex.

    `norms="absorbed"` leaves the norms inside the vertices. Only pre-norm sequential models are known (InputError).

    >>> import opalgebra as oa
    >>> oa.transformer(layers=96).dyson().total == 2**192
    True
    """
    for name, value in (("layers", layers), ("heads", 1 if heads is None else heads)):
        if not is_natural(value) or value == 0:
            raise InputError(f"{name}={value!r}: a Transformer has a positive number of {name}")
    if norm != "pre" or parallel:
        raise InputError(f"norm={norm!r}, parallel={parallel} is not known here; use norm='pre', parallel=False")
    if norms not in ("explicit", "absorbed"):
        raise InputError(f"norms={norms!r} is unknown; use 'explicit' or 'absorbed'")
    return Architecture(layers, heads, norms)
