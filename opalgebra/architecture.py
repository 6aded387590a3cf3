"""What a Transformer is, symbolically: an ordered product of residual stages, each a norm and its vertices.

With attention A, feed-forward network F and norms N, M, P, Q, all nonlinear maps of X, a layer acts as

    pre         (1 + F M)(1 + A N)             sandwich    (1 + Q F M)(1 + P A N)
    post        M (1 + F) N (1 + A)            branch      (1 + M F)(1 + N A)

and in parallel as one stage, `1 + A N + F M` and so on; `N (1 + A + F)` for post. With heads, A_l is a sum of vertices
`A_l_h`, head h counted from 0, and with biases also of `B_l`, the part that belongs to no head. Layers and stages count
from 1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from opalgebra.atoms import family, state
from opalgebra.display import Displayed
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Operator, linear_combination, ordered_product
from opalgebra.scalar import is_natural
from opalgebra.series import Counting, Series
from opalgebra.space import Kind, X
from opalgebra.stage import Branch, Stage

NORMS = ("pre", "post", "sandwich", "branch")


@final
class _Vertices(dict[Any, Any]):
    """A mapping to vertices that says what its indices are when asked for another."""

    def __init__(self, name: str, indices: str, vertices: Mapping[Any, Operator]) -> None:
        super().__init__(vertices)
        self.name, self.indices = name, indices

    def __missing__(self, key: object) -> Operator:
        written = ", ".join(map(str, key)) if isinstance(key, tuple) else repr(key)
        raise InputError(f"{self.name}[{written}] was asked, but {self.indices}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _Vertices, (self.name, self.indices, dict(self))


@final
class _States(tuple[Operator, ...]):
    """The states in order, which says how many there are when asked for another."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except (IndexError, TypeError):
            raise InputError(f"x[{index!r}] was asked, but its index is a number of stages from 0 to {len(self) - 1}") from None


@dataclass(frozen=True)
class Architecture(Displayed):
    """A Transformer. `heads` is None when attention is one vertex a layer; `norms` is "explicit" or "absorbed".

    `causal`: whether attention reads earlier tokens alone. `biases`: whether attention split into heads adds a bias too.
    """

    layers: int
    heads: int | None = None
    norm: str = "pre"
    parallel: bool = False
    causal: bool = True
    norms: str = "explicit"
    biases: bool = False

    __repr__ = Displayed.__repr__

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The residual stages in the order in which they act."""
        stages: list[Stage] = []
        for layer in range(1, self.layers + 1):
            attention, ffn = self._branches(layer)
            first, second = (self._norm(name, layer, "post") for name in ("N", "M"))
            if self.parallel:
                stages.append(Stage(layer, layer, (attention, ffn), first))
            else:
                stages.append(Stage(2 * layer - 1, layer, (attention,), first))
                stages.append(Stage(2 * layer, layer, (ffn,), second))
        return tuple(stages)

    def _branches(self, layer: int) -> tuple[Branch, Branch]:
        attention, ffn = family("A", kind=Kind.ATTENTION), family("F", kind=Kind.FFN)
        heads = (attention[layer],) if self.heads is None else tuple(attention[layer, h] for h in range(self.heads))
        bias = family("B", kind=Kind.NONLINEAR)[layer] if self.biases and self.heads is not None else None
        before = [self._norm(name, layer, "pre", "sandwich") for name in ("N", "M")]
        after = [
            self._norm(inside, layer, "sandwich") or self._norm(alone, layer, "branch")
            for inside, alone in (("P", "N"), ("Q", "M"))
        ]
        return (
            Branch(Kind.ATTENTION, heads, before[0], after[0], bias),
            Branch(Kind.FFN, (ffn[layer],), before[1], after[1]),
        )

    def _norm(self, name: str, layer: int, *where: str) -> Atom | None:
        """The norm of a layer, if this architecture has one there."""
        return family(name, kind=Kind.NORM)[layer] if self.norm in where and self.norms == "explicit" else None

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
        return _States(states)

    @cached_property
    def attention(self) -> Mapping[int, Operator]:
        """Attention by layer: an atom, or the sum of the heads and the bias that belongs to none of them."""
        sums = {layer: linear_combination((1, v) for v in branch.maps) for layer, branch in self._of(Kind.ATTENTION)}
        return _Vertices("attention", self._layers, sums)

    @cached_property
    def ffn(self) -> Mapping[int, Atom]:
        """The feed-forward network by layer."""
        return _Vertices("ffn", self._layers, {layer: branch.vertices[0] for layer, branch in self._of(Kind.FFN)})

    @property
    def _layers(self) -> str:
        return f"its index is a layer from 1 to {self.layers}"

    def _of(self, kind: Kind) -> Iterator[tuple[int, Branch]]:
        return ((stage.layer, branch) for stage in self.stages for branch in stage.branches if branch.kind == kind)

    @cached_property
    def head(self) -> Mapping[tuple[int, int], Atom]:
        """Attention heads by (layer, head); empty when heads are no vertices."""
        heads = range(self.heads or 0)
        known = f"its index is (layer, head) from (1, 0) to ({self.layers}, {len(heads) - 1})"
        none = "heads are no vertices here; ask by heads= in transformer, or heads=True in bind"
        found = {(layer, head): branch.vertices[head] for layer, branch in self._of(Kind.ATTENTION) for head in heads}
        return _Vertices("head", known if heads else none, found)

    def dyson(self, *, counting: Counting = "all", order: int | None = None) -> Series:
        """The graded Dyson series. `counting`: "all", "attention", "ffn" or a predicate on vertices; norms never count."""
        return Series(self.stages, self.x, counting, order)


def transformer(
    layers: int,
    heads: int | None = None,
    *,
    norm: str = "pre",
    parallel: bool = False,
    causal: bool = True,
    norms: str = "explicit",
    biases: bool = False,
) -> Architecture:
    """The symbolic Transformer of a number of layers; `heads=h` makes every head a vertex.

    norm: "pre", "post", "sandwich" (norms before and after each block) or "branch" (after each block, inside its residual).
    parallel: attention and feed-forward network read the same state. `norms="absorbed"` leaves the norms inside the
    vertices. biases: attention whose heads are vertices adds a bias that belongs to none of them. InputError for other options.

    >>> import opalgebra as oa
    >>> oa.transformer(layers=96).dyson().total == 2**192
    True
    >>> oa.transformer(1, norm="post").operator
    M1 @ (1 + F1) @ N1 @ (1 + A1) where A1: attention, F1: ffn, M1, N1: norm
    """
    for name, value in (("layers", layers), ("heads", 1 if heads is None else heads)):
        if not is_natural(value) or value == 0:
            raise InputError(f"{name}={value!r}: a Transformer has a positive number of {name}")
    for name, choice, known in (("norm", norm, NORMS), ("norms", norms, ("explicit", "absorbed"))):
        if choice not in known:
            raise InputError(f"{name}={choice!r} is unknown; use {', '.join(map(repr, known))}")
    return Architecture(layers, heads, norm, bool(parallel), bool(causal), norms, bool(biases))
