"""What the atoms of a Transformer are as array functions, and what they become when a state freezes them.

A `Map` is a nonlinear function of a state, an array (batch, tokens, features). `freeze` at a state s gives the `Affine`
of its dressing, `F(s) = F<s>(s) + f<s>`: attention keeps its pattern (eager probabilities after mask and rotary
embedding) and moves values; a norm keeps its scale; a gated network keeps its gate. Affine maps act on any number of
leading axes at once, (orders, batch, tokens, features), so that all orders of a series share each product.

Weights are the model's own tensors, never copied or folded. `inner` is the number of summed inner dimensions along one
application, for rounding estimates.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.errors import InputError


class Affine(ABC):
    """A linear map of states and a source, frozen at one state; abstract."""

    source: Tensor | None
    inner: int

    @abstractmethod
    def add_to(self, out: Tensor, states: Tensor) -> None:
        """`out += linear part of states`, in place; out is contiguous (leading axes, batch, tokens, features)."""

    @property
    def is_constant(self) -> bool:
        """Whether the linear part is zero, so that the whole map is its source."""
        return False

    def restricted(self, heads: Sequence[int]) -> "Affine":
        """The share of some attention heads. InputError for a map that keeps no heads apart."""
        raise InputError("a whole output as source does not keep attention heads apart; use heads=False or attention='frozen'")

    def __call__(self, states: Tensor) -> Tensor:
        """The linear part of `states`."""
        out = torch.zeros_like(states, memory_format=torch.contiguous_format)
        self.add_to(out, states)
        return out


class Map(ABC):
    """A nonlinear map of states (batch, tokens, features) that can be frozen at one; abstract."""

    inner: int

    @abstractmethod
    def __call__(self, state: Tensor) -> Tensor:
        """The value of the map, from the state alone."""

    @abstractmethod
    def freeze(self, state: Tensor) -> Affine:
        """The dressing at `state` under the map's split."""

    @abstractmethod
    def rounding_scale(self, state: Tensor) -> Tensor:
        """(batch, tokens): the norm to which the rounding error of the map's value is relative, inner steps included."""


@final
@dataclass(frozen=True, eq=False)
class Constant(Affine):
    """A map whose whole output is a source: the split `source`."""

    source: Tensor
    inner: int = 0

    @property
    def is_constant(self) -> bool:
        return True

    def add_to(self, out: Tensor, states: Tensor) -> None:
        """Adds nothing: the linear part is zero."""


@final
@dataclass(frozen=True, eq=False)
class Diagonal(Affine):
    """A dressed norm: `y -> diagonal * y` with `diagonal` (batch, tokens, features)."""

    diagonal: Tensor
    inner: int
    source: Tensor | None = None

    def add_to(self, out: Tensor, states: Tensor) -> None:
        out.addcmul_(states, self.diagonal)

    def __call__(self, states: Tensor) -> Tensor:
        return states * self.diagonal


@final
@dataclass(frozen=True, eq=False)
class RMSNorm(Map):
    """`x * weight / sqrt(mean(x^2) + epsilon)`; dressed, the scale of each token is frozen."""

    weight: Tensor
    epsilon: float

    @property
    def inner(self) -> int:
        return self.weight.shape[0] + 4

    def scale(self, state: Tensor) -> Tensor:
        """(batch, tokens, 1): what each token is multiplied by before the weights."""
        return torch.rsqrt(state.square().mean(-1, keepdim=True) + self.epsilon)

    def diagonal(self, state: Tensor) -> Tensor:
        return self.scale(state) * self.weight

    def __call__(self, state: Tensor) -> Tensor:
        return state * self.diagonal(state)

    def freeze(self, state: Tensor) -> Diagonal:
        return Diagonal(self.diagonal(state), self.inner)

    def rounding_scale(self, state: Tensor) -> Tensor:
        return self(state).norm(dim=-1)


@final
@dataclass(frozen=True, eq=False)
class FrozenAttention(Affine):
    """`y -> sum_h A_h y W_V^g(h) W_O^h`, where the heads of a group g read one value head.

    pattern (batch, groups, heads of a group, tokens, tokens), value (groups * size, features), output
    (features, heads * size).
    """

    pattern: Tensor
    value: Tensor
    output: Tensor
    inner: int
    source: Tensor | None = None

    def add_to(self, out: Tensor, states: Tensor) -> None:
        batch, groups, heads, tokens, _ = self.pattern.shape
        size = self.value.shape[0] // groups
        values = functional.linear(states.reshape(-1, batch, tokens, states.shape[-1]), self.value)
        lead = values.shape[0]
        values = values.view(lead, batch, tokens, groups, size).permute(1, 3, 2, 0, 4)
        mixed = torch.matmul(
            self.pattern.reshape(batch, groups, heads * tokens, tokens),
            values.reshape(batch, groups, tokens, lead * size),
        )
        mixed = mixed.view(batch, groups, heads, tokens, lead, size).permute(4, 0, 3, 1, 2, 5)
        flat = out.view(-1, out.shape[-1])
        flat.addmm_(mixed.reshape(flat.shape[0], -1), self.output.T)

    def restricted(self, heads: Sequence[int]) -> "FrozenAttention":
        """Some of the heads only, in the order of the model."""
        if self.source is not None:
            raise InputError("heads as vertices of an attention with biases are not known here; use heads=False")
        batch, groups, per_group, tokens, _ = self.pattern.shape
        if len(heads) == groups * per_group:
            return self
        chosen = torch.as_tensor(list(heads), device=self.pattern.device)
        pattern = self.pattern.view(batch, -1, 1, tokens, tokens)[:, chosen]
        value = _head_rows(self.value, groups, chosen // per_group)
        output = _head_columns(self.output, groups * per_group, chosen)
        return replace(self, pattern=pattern, value=value, output=output)


def _head_rows(weight: Tensor, heads: int, chosen: Tensor) -> Tensor:
    return weight.view(heads, -1, weight.shape[-1])[chosen].reshape(-1, weight.shape[-1])


def _head_columns(weight: Tensor, heads: int, chosen: Tensor) -> Tensor:
    return weight.view(weight.shape[0], heads, -1)[:, chosen].reshape(weight.shape[0], -1)


@final
@dataclass(frozen=True, eq=False)
class Attention(Map):
    """Grouped-query attention with rotary positions; key and value head `g` serve `heads / key heads` query heads each.

    Weights as the model stores them, (out, in). cosine, sine (tokens, size); scaling multiplies the logits. The output
    is `sum_h A_h x W_V^g(h) W_O^h` plus biases. split: "frozen" keeps the pattern, "source" the whole output.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    query_bias: Tensor | None
    key_bias: Tensor | None
    value_bias: Tensor | None
    output_bias: Tensor | None
    heads: int
    key_heads: int
    scaling: float
    cosine: Tensor
    sine: Tensor
    split: str = "frozen"

    @property
    def size(self) -> int:
        """Features of one head."""
        return self.query.shape[0] // self.heads

    @property
    def inner(self) -> int:
        return self.query.shape[1] + self.size + self.cosine.shape[0] + self.output.shape[1]

    def _queries_and_keys(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, key heads, heads of a group, tokens, size) and (batch, key heads, 1, tokens, size), rotated."""
        batch, tokens, _ = state.shape
        shape = (batch, tokens, -1, self.size)
        query = self._rotated(functional.linear(state, self.query, self.query_bias).view(shape).transpose(1, 2))
        key = self._rotated(functional.linear(state, self.key, self.key_bias).view(shape).transpose(1, 2))
        return query.view(batch, self.key_heads, -1, tokens, self.size), key.unsqueeze(2)

    def pattern(self, state: Tensor) -> Tensor:
        """(batch, key heads, heads of a group, tokens, tokens): causal softmax probabilities."""
        query, key = self._queries_and_keys(state)
        logits = torch.matmul(query, key.transpose(-1, -2)) * self.scaling
        tokens = state.shape[1]
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=state.device).triu(1)
        return torch.softmax(logits.masked_fill(future, -torch.inf), dim=-1)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """A relative error e of queries and keys moves a logit by `e (|dq| |k| + |q| |dk|)`, with |dq| bounded by the
        norm of its weights times the state's, and moves a softmax average by at most twice that, relatively.
        """
        query, key = (part.norm(dim=-1) for part in self._queries_and_keys(state))
        size = state.norm(dim=-1)[:, None, None, :]

        def weight_norms(weight: Tensor) -> Tensor:
            return weight.view(self.key_heads, -1, self.size * state.shape[-1]).norm(dim=-1)[None, :, :, None]

        pattern = self.pattern(state)
        moved = weight_norms(self.query) * size * key.amax(-1, keepdim=True)
        moved = moved + query * (weight_norms(self.key) * size).amax(-1, keepdim=True)
        values = weight_norms(self.value) * size
        mixed = (pattern * values[..., None, :]).sum(-1) * (2 + 2 * self.scaling * moved)
        columns = self.output.view(-1, self.key_heads, mixed.shape[2], self.size).norm(dim=(0, 3))
        return (mixed * columns[None, :, :, None]).square().sum((1, 2)).sqrt()

    def _rotated(self, heads: Tensor) -> Tensor:
        first, second = heads.chunk(2, dim=-1)
        return heads * self.cosine + torch.cat((-second, first), dim=-1) * self.sine

    def linear_part(self, pattern: Tensor) -> FrozenAttention:
        return FrozenAttention(pattern, self.value, self.output, self.inner)

    def __call__(self, state: Tensor) -> Tensor:
        pattern = self.pattern(state)
        out = self.linear_part(pattern)(state)
        constant = self._constant(pattern)
        return out if constant is None else out + constant

    def _constant(self, pattern: Tensor) -> Tensor | None:
        """`sum_h (A_h 1) b_V^g(h) W_O^h + b_O`, with the row sums as computed."""
        constant = None
        if self.value_bias is not None:
            batch, groups, _, tokens, _ = pattern.shape
            rows = pattern.sum(-1, keepdim=True) * self.value_bias.view(groups, 1, 1, self.size)
            rows = rows.permute(0, 3, 1, 2, 4).reshape(batch, tokens, -1)
            constant = functional.linear(rows, self.output)
        if self.output_bias is not None:
            constant = self.output_bias if constant is None else constant + self.output_bias
        return constant

    def freeze(self, state: Tensor) -> Affine:
        if self.split == "source":
            return Constant(self(state), self.inner)
        pattern = self.pattern(state)
        constant = self._constant(pattern)
        source = None if constant is None else constant.expand_as(state)
        return replace(self.linear_part(pattern), source=source)

    def restricted(self, heads: Sequence[int]) -> "Attention":
        """The same attention with some of its query heads only, each with a key and value head of its own."""
        if self.value_bias is not None or self.output_bias is not None:
            raise InputError("heads as vertices of an attention with biases are not known here; use heads=False")
        chosen = torch.as_tensor(list(heads), device=self.query.device)
        served = chosen // (self.heads // self.key_heads)
        return replace(
            self,
            query=_head_rows(self.query, self.heads, chosen),
            key=_head_rows(self.key, self.key_heads, served),
            value=_head_rows(self.value, self.key_heads, served),
            output=_head_columns(self.output, self.heads, chosen),
            heads=len(heads),
            key_heads=len(heads),
        )


@final
@dataclass(frozen=True, eq=False)
class FrozenGated(Affine):
    """`y -> (gate * (y W_up)) W_down` with the gate (batch, tokens, hidden) frozen."""

    gate: Tensor
    up: Tensor
    down: Tensor
    inner: int
    source: Tensor | None = None

    def add_to(self, out: Tensor, states: Tensor) -> None:
        hidden = functional.linear(states, self.up)
        hidden *= self.gate
        out.view(-1, out.shape[-1]).addmm_(hidden.view(-1, hidden.shape[-1]), self.down.T)


@final
@dataclass(frozen=True, eq=False)
class GatedFFN(Map):
    """`(act(x W_gate + b) * (x W_up + b)) W_down + b`. split: "gate" freezes act(..), "source" the whole output."""

    gate: Tensor
    up: Tensor
    down: Tensor
    gate_bias: Tensor | None
    up_bias: Tensor | None
    down_bias: Tensor | None
    activation: Callable[[Tensor], Tensor]
    split: str = "gate"

    @property
    def inner(self) -> int:
        return self.up.shape[1] + self.down.shape[1]

    def _gate(self, state: Tensor) -> Tensor:
        return self.activation(functional.linear(state, self.gate, self.gate_bias))

    def __call__(self, state: Tensor) -> Tensor:
        hidden = self._gate(state) * functional.linear(state, self.up, self.up_bias)
        return functional.linear(hidden, self.down, self.down_bias)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """Each factor of a hidden unit is wrong relative to the norm of its weights times the state's; the slope of the
        activations in use is at most 1.2.
        """
        size = state.norm(dim=-1, keepdim=True)
        gate, up = self._gate(state), functional.linear(state, self.up, self.up_bias)
        error = 1.2 * self.gate.norm(dim=1) * size * up.abs() + self.up.norm(dim=1) * size * gate.abs() + (gate * up).abs()
        return (error * self.down.norm(dim=0)).norm(dim=-1)

    def freeze(self, state: Tensor) -> Affine:
        if self.split == "source":
            return Constant(self(state), self.inner)
        gate = self._gate(state)
        source = None if self.up_bias is None else functional.linear(gate * self.up_bias, self.down)
        if self.down_bias is not None:
            source = self.down_bias.expand_as(state) if source is None else source + self.down_bias
        return FrozenGated(gate, self.up, self.down, self.inner, source)
