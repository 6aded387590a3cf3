"""What keeps a deep ordered product finite: its regulators, removed or frozen one at a time.

    scaling     attention logits are divided by sqrt(d_k)           removed: multiplied by nothing
    softmax     logits become weights that sum to one               removed: the logits are the weights; frozen
    norms       states are divided by their size                    removed: by nothing, weights, shifts and centring stay;
    frozen residual    a stage adds to the state, 1 + V                    removed: V alone, and the series is its last order

Frozen means as the stage would have it if it read the embedding: the pattern, or the size, of x_0 at every depth, which no
longer answers to what the state has become. The changed model is another nonlinear map; it is run from the same
embedding, every stage is dressed at its own new states, and the Dyson series of these dressings is exact again. So each
regulator is judged by what the unchanged model is judged by: the sizes of its orders, their cancellation, the growth of the
state, and the rank of the tokens along depth. Norms of queries and keys, and the final norm, are left as they are.

Chang, arXiv:2603.11322, for the claim that norms and softmax regulate every order; Dong, Cordonnier and Loukas, ICML (2021),
for rank without residuals.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.attention import Attention, FrozenAttention
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.faithful import full_precision
from opalgebra.numeric.maps import Affine, Differentiated, Map, beside
from opalgebra.numeric.norms import Diagonal
from opalgebra.numeric.orders import ladders
from opalgebra.numeric.stages import FrozenBranch, FrozenStage, Share, StageMaps, Step
from opalgebra.series import Counting, counter

REGULATORS = (
    ("removed", "scaling"),
    ("removed", "softmax"),
    ("removed", "norms"),
    ("removed", "residual"),
    ("frozen", "softmax"),
    ("frozen", "norms"),
)
"""Every change that `regulated` knows, as the name of its argument and its value."""


@dataclass(frozen=True, eq=False)
class Regulated(Tabulated):
    """A model with one regulator changed, at one input. Float64 NumPy; a leading batch axis for an input of token ids.

    norms (orders, tokens): |y_n| / |x_L|; condition (tokens,): sum of norms over norm of the sum; residual (tokens,):
    |sum_n y_n - x_L| / |x_L|, the rounding of the series, which condition times the unit roundoff explains. growth (stages + 1,
    tokens): |x_s| / |x_0|. rank (stages + 1,): `(sum s^2)^2 / sum s^4` of the singular values s of the tokens' states,
    between 1 and their number. NaN at padded positions. depth: how many stages have a state with a finite square. Where these
    are not all of them the state has left the range of the dtype, and x_L is the last state before that.
    """

    change: str
    depth: int
    norms: Any
    condition: Any
    residual: Any
    growth: Any
    rank: Any

    def __repr__(self) -> str:
        last = self.condition[..., -1].max() if self.condition.ndim > 1 else self.condition[-1]
        return f"Regulated({self.change}: {self.depth} stages, condition {last:.2g} at the last token)"


def regulated(M: Binding, *, removed: str | None = None, frozen: str | None = None, counting: Counting = "all") -> Regulated:
    """The orders, growth and rank of a bound model with one regulator removed or frozen, or of itself where none is named.

    removed: "scaling", "softmax", "norms" or "residual"; frozen: "softmax" or "norms"; see the module. counting: which vertices
    make an order. Cost: a forward and `M.orders` each. InputError for another name, for both at once, for a split that does not
    freeze patterns or differentiates, and for what the model does not have.

    >>> import opalgebra as oa
    >>> M = oa.bind(oa.load("minilm"), "Depth is discrete time.")
    >>> [round(float(found.rank[-1]), 2) for found in (regulated(M), regulated(M, removed="residual"))]
    [2.81, 1.0]
    """
    change = _Change(M, removed, frozen)
    with torch.no_grad(), full_precision():
        states, steps = change.run(counter(counting))
        initial, sources = ladders(states[0], steps, None)
        parts = initial.parts + sources.parts
    first, last = (states[index].double().norm(dim=-1) for index in (0, -1))
    size = torch.stack([part.double().norm(dim=-1) for part in parts])
    total = parts.double().sum(0)
    residual = (total - states[-1].double()).norm(dim=-1) / last
    growth = torch.stack([state.double().norm(dim=-1) for state in states]) / first
    per_token = (size / last, size.sum(0) / total.norm(dim=-1), residual, growth)
    norms, condition, off, grown = (M.real(figure, torch.nan) for figure in per_token)
    ranks = torch.stack([participation(M.real(state.double().movedim(-1, 0), 0.0).movedim(0, -1)) for state in states])
    moved = [norms.movedim(1, 0), condition, off, grown.movedim(1, 0), ranks.movedim(1, 0)]
    return Regulated(change.name, len(states) - 1, *(M.unbatched(figure.cpu()).numpy() for figure in moved))


def participation(state: Tensor) -> Tensor:
    """(batch,): `(sum s^2)^2 / sum s^4` of the singular values of (batch, tokens, features), by its smaller Gram matrix."""
    scaled = state / state.abs().amax((-1, -2), keepdim=True).clamp(min=torch.finfo(state.dtype).tiny)
    gram = scaled @ scaled.mT if state.shape[-2] <= state.shape[-1] else scaled.mT @ scaled
    return gram.diagonal(dim1=-2, dim2=-1).sum(-1) ** 2 / gram.square().sum((-1, -2))


@final
class _Minus(Affine):
    """`y -> -y`, which as one more branch of a stage takes its residual connection away."""

    source = None
    inner = 0

    def add_to(self, out: Tensor, states: Tensor) -> None:
        out -= states


class _Change:
    """One change of a bound model, checked."""

    def __init__(self, M: Binding, removed: str | None, frozen: str | None) -> None:
        if not isinstance(M, Binding):
            raise InputError(f"{type(M).__name__} is no bound model; bind one at an input")
        if removed is not None and frozen is not None:
            raise InputError(f"removed={removed!r} and frozen={frozen!r} were asked at once; change one regulator at a time")
        for name, value in (("removed", removed), ("frozen", frozen)):
            known = [what for how, what in REGULATORS if how == name]
            if value is not None and value not in known:
                raise InputError(f"{name}={value!r} is not known; use {', '.join(map(repr, known))}")
        vertices = [branch.vertex for maps in M.maps for branch in maps.branches]
        attentions = [vertex for vertex in vertices if isinstance(vertex, Attention)]
        if any(isinstance(vertex, Differentiated) for vertex in vertices) or any(a.split != "frozen" for a in attentions):
            raise InputError("regulators are changed where patterns are frozen; bind with the split 'gate' or 'tangent'")
        norms = [norm for maps in M.maps for norm in (maps.after, *(n for b in maps.branches for n in (b.before, b.after)))]
        if "norms" in (removed, frozen) and all(norm is None for norm in norms):
            raise InputError(f"{M.model.name} has no norms on its states; change another regulator")
        self.M, self.removed, self.frozen = M, removed, frozen
        self.name = "unchanged" if removed is frozen else f"{removed or frozen} {'removed' if removed else 'frozen'}"

    def run(self, chosen: Any) -> tuple[list[Tensor], list[Step]]:
        """The states of the changed model from the embedding on, as far as they are finite, and its steps."""
        states: list[Tensor] = [self.M.states[0]]
        steps: list[Step] = []
        for maps, symbolic in zip(self.M.maps, self.M.T.stages, strict=True):
            stage = self._frozen(maps, states[-1], states[0])
            step = stage.shared(symbolic, chosen)
            if self.removed == "residual":
                stage = replace(stage, branches=(*stage.branches, FrozenBranch(_Minus())))
                step = Step((*step.branches, Share(None, None, _Minus(), None, None)), step.after)
            state = stage.whole(states[-1])
            if not torch.isfinite(state.double().square().sum()):
                break
            states, steps = [*states, state], [*steps, step]
        return states, steps

    def _frozen(self, maps: StageMaps, here: Tensor, first: Tensor) -> FrozenStage:
        """A stage dressed at a state, with the change; `first` is the embedding."""
        here, first = beside(maps, here), beside(maps, first)
        branches, total, origin = [], here, first
        for branch in maps.branches:
            read_first, value_first, added_first = branch.parts(first)
            before = self._norm(branch.before, here, first)
            read = here if before is None else before.whole(here)
            vertex = self._vertex(branch.vertex, read, read_first)
            value = vertex.whole(read)
            after = self._norm(branch.after, value, value_first)
            branches.append(FrozenBranch(vertex, before, after))
            total = total + (value if after is None else after.whole(value))
            origin = origin + added_first
        if self.removed == "residual":
            total = total - here
        return FrozenStage(tuple(branches), self._norm(maps.after, total, origin))

    def _norm(self, norm: Map | None, state: Tensor, first: Tensor) -> Affine | None:
        if norm is None:
            return None
        dressing = norm.freeze(first if self.frozen == "norms" else state)
        if self.removed != "norms":
            return dressing
        assert isinstance(dressing, Diagonal)
        return replace(dressing, scale=torch.ones_like(dressing.scale))

    def _vertex(self, vertex: Map, read: Tensor, first: Tensor) -> Affine:
        if not isinstance(vertex, Attention):
            return vertex.freeze(read)
        if self.removed == "scaling":
            vertex = replace(vertex, scaling=1.0)
        dressing = vertex.freeze(first if self.frozen == "softmax" else read)
        if self.removed != "softmax":
            return dressing
        assert isinstance(dressing, FrozenAttention)
        return replace(dressing, pattern=vertex.logits(read).masked_fill(~vertex.visible[:, None, None], 0.0))
