"""Attention: what tokens exchange, `sum_h A_h x W_V^g(h) W_O^h`; dressed, the pattern is frozen and the values move.

A pattern A_h is the softmax over the visible tokens of `scaling * q k`, after the norms of queries and keys, the rotary
embedding and the soft cap. Key and value head g serves the queries of its group. The row of a token that sees none, a
padded one, is zero. Rows sum to what they sum to: the share of the value bias is `(A_h 1) b_V W_O^h`.

A state may hold the newest tokens alone: then the keys and values of those before are in a `Past`, and a pattern has a row
for each new token and a column for each token so far.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.numeric.maps import Affine, Constant, Map
from opalgebra.numeric.norms import Norm


@final
@dataclass(frozen=True, eq=False)
class Projection:
    """Heads read off a state: weight (heads, size, features), bias (heads, size), and a norm of each head or of all."""

    weight: Tensor
    bias: Tensor | None = None
    norm: Norm | None = None

    @property
    def heads(self) -> int:
        return self.weight.shape[0]

    @property
    def size(self) -> int:
        return self.weight.shape[1]

    @property
    def matrix(self) -> Tensor:
        """(heads * size, features)."""
        return self.weight.reshape(-1, self.weight.shape[-1])

    def before_norm(self, state: Tensor) -> Tensor:
        """(batch, heads, tokens, size)."""
        flat = functional.linear(state, self.matrix, None if self.bias is None else self.bias.reshape(-1))
        return flat.view(*state.shape[:-1], self.heads, self.size).transpose(1, 2)

    def _normed(self, heads: Tensor) -> Tensor:
        assert self.norm is not None
        if self.norm.features == self.size:
            return self.norm(heads)
        together = heads.transpose(1, 2).flatten(-2)
        return self.norm(together).unflatten(-1, (self.heads, self.size)).transpose(1, 2)

    def __call__(self, state: Tensor) -> Tensor:
        heads = self.before_norm(state)
        return heads if self.norm is None else self._normed(heads)

    def reach(self, state: Tensor) -> Tensor:
        """(batch, heads, tokens): the norm to which the rounding error of a head is relative."""
        reach = self.weight.flatten(1).norm(dim=1)[:, None] * state.norm(dim=-1)[:, None]
        if self.bias is not None:
            reach = reach + self.bias.norm(dim=1)[:, None]
        if self.norm is None:
            return reach
        heads = self.before_norm(state)
        if self.norm.features == self.size:
            return reach * self.norm.gain(heads) + self._normed(heads).norm(dim=-1)
        gain = self.norm.gain(heads.transpose(1, 2).flatten(-2))[:, None]
        return reach.norm(dim=1, keepdim=True) * gain + self._normed(heads).norm(dim=-1)


@final
@dataclass(frozen=True, eq=False)
class Rotary:
    """The rotation of the first features of a head by position: cosine, sine (batch or 1, tokens, rotated features).

    It is computed in the dtype of the tables where that is longer, and given back in that of the heads.
    """

    cosine: Tensor
    sine: Tensor

    @property
    def gain(self) -> Tensor:
        """How much longer a head is after the rotation, at most."""
        return (self.cosine.square() + self.sine.square()).max().sqrt()

    def __call__(self, heads: Tensor) -> Tensor:
        """heads (batch, heads, tokens, size); feature i is paired with i + half of the rotated ones."""
        rotated, kept = heads.split([self.cosine.shape[-1], heads.shape[-1] - self.cosine.shape[-1]], dim=-1)
        first, second = rotated.chunk(2, dim=-1)
        turned = rotated * self.cosine[:, None] + torch.cat((-second, first), dim=-1) * self.sine[:, None]
        turned = turned.to(heads.dtype)
        return torch.cat((turned, kept), dim=-1) if kept.shape[-1] else turned


@final
class Past:
    """What one reader of an attention keeps of the tokens so far, under a name each, in memory for `capacity` tokens."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._kept: dict[Hashable, Tensor] = {}
        self._filled: dict[Hashable, int] = {}

    def extended(self, name: Hashable, new: Tensor) -> Tensor:
        """The rows (..., tokens so far, size) kept under a name, after the new ones are put at their end."""
        if name not in self._kept:
            self._kept[name], self._filled[name] = new.new_empty((*new.shape[:-2], self.capacity, new.shape[-1])), 0
        kept, start = self._kept[name], self._filled[name]
        self._filled[name] = end = start + new.shape[-2]
        kept[..., start:end, :] = new
        return kept[..., :end, :]


@final
@dataclass(frozen=True, eq=False)
class FrozenAttention(Affine):
    """`y -> sum_h A_h y W_V^g(h) W_O^h`, where the heads of a group g read one value head.

    pattern (batch, groups, heads of a group, tokens, tokens), value (groups * size, features), output (features, heads *
    size). The source is `sum_h (A_h 1) b_V^g(h) W_O^h + b_O`; `b_O` belongs to no head alone. chosen: the heads that these
    are of the model's, all for None. With a `past` the map is of the new tokens alone, and to be applied once to each.
    """

    pattern: Tensor
    value: Tensor
    output: Tensor
    inner: int
    value_bias: Tensor | None = None
    output_bias: Tensor | None = None
    chosen: tuple[int, ...] | None = None
    past: Past | None = None

    def add_to(self, out: Tensor, states: Tensor) -> None:
        batch, groups, heads, tokens, _ = self.pattern.shape
        size = self.value.shape[0] // groups
        values = functional.linear(states.reshape(-1, batch, tokens, states.shape[-1]), self.value)
        lead = values.shape[0]
        values = values.view(lead, batch, tokens, groups, size).permute(1, 3, 2, 0, 4)
        values = values.reshape(batch, groups, tokens, lead * size)
        if self.past is not None:
            values = self.past.extended(("values", self.chosen), values)
        mixed = torch.matmul(self.pattern.flatten(2, 3), values)
        mixed = mixed.view(batch, groups, heads, tokens, lead, size).permute(4, 0, 3, 1, 2, 5)
        flat = out.view(-1, out.shape[-1])
        flat.addmm_(mixed.reshape(flat.shape[0], -1), self.output.T)

    @property
    def source(self) -> Tensor | None:  # type: ignore[override]
        batch, groups, _, tokens, _ = self.pattern.shape
        if self.value_bias is not None:
            rows = self.pattern.sum(-1, keepdim=True) * self.value_bias.view(groups, 1, 1, -1)
            rows = rows.permute(0, 3, 1, 2, 4).reshape(batch, tokens, -1)
            return functional.linear(rows, self.output, self.output_bias)
        return self.common

    @property
    def common(self) -> Tensor | None:
        batch, _, _, tokens, _ = self.pattern.shape
        return None if self.output_bias is None else self.output_bias.expand(batch, tokens, -1)

    def restricted(self, heads: Sequence[int]) -> "FrozenAttention":
        """Some of the heads only, in the order of the model."""
        _, groups, per_group, _, _ = self.pattern.shape
        if len(heads) == groups * per_group:
            return replace(self, output_bias=None, chosen=tuple(heads))
        chosen = torch.as_tensor(list(heads), device=self.pattern.device)
        served = chosen // per_group
        pattern = self.pattern.flatten(1, 2)[:, chosen, None]
        value = self.value.unflatten(0, (groups, -1))[served].flatten(0, 1)
        output = self.output.unflatten(1, (groups * per_group, -1))[:, chosen].flatten(1)
        bias = None if self.value_bias is None else self.value_bias.view(groups, -1)[served]
        return replace(
            self, pattern=pattern, value=value, output=output, value_bias=bias, output_bias=None, chosen=tuple(heads)
        )


@final
@dataclass(frozen=True, eq=False)
class Attention(Map):
    """Grouped-query attention. visible (batch or 1, tokens, tokens): which tokens (last axis) each token sees.

    output (features, heads * size); scaling multiplies the logits, softcap c turns them into `c tanh(logit / c)`. split:
    "frozen" keeps the pattern, "source" the whole output. chosen: the heads that are kept, all for None. With a `past`,
    visible (1, new tokens, tokens), and `freeze` is called once for each token, in their order.
    """

    query: Projection
    key: Projection
    value: Projection
    output: Tensor
    output_bias: Tensor | None
    scaling: float
    visible: Tensor
    rotary: Rotary | None = None
    softcap: float | None = None
    split: str = "frozen"
    chosen: tuple[int, ...] | None = None
    past: Past | None = None

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return self.query.heads

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.query.weight.shape[2] + self.query.size + self.visible.shape[-1] + self.output.shape[1]

    def _queries_and_keys(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, key heads, heads of a group, tokens, size) and (batch, key heads, 1, tokens so far, size), rotated."""
        query, key = self.query(state), self.key(state)
        if self.rotary is not None:
            query, key = self.rotary(query), self.rotary(key)
        if self.past is not None:
            key = self.past.extended("keys", key)
        return query.unflatten(1, (self.key.heads, -1)), key.unsqueeze(2)

    def logits(self, state: Tensor) -> Tensor:
        """(batch, key heads, heads of a group, tokens, tokens): what the softmax is taken of, hidden tokens included."""
        query, key = self._queries_and_keys(state)
        logits = torch.matmul(query, key.transpose(-1, -2)) * self.scaling
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def pattern(self, state: Tensor) -> Tensor:
        """(batch, key heads, heads of a group, tokens, tokens): softmax probabilities."""
        hidden = ~self.visible[:, None, None]
        blind = hidden.all(-1, keepdim=True)
        logits = self.logits(state).masked_fill(hidden & ~blind, -torch.inf)
        return torch.softmax(logits, dim=-1).masked_fill(blind, 0.0)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """A relative error e of queries and keys moves a logit by `e (|dq| |k| + |q| |dk|)`, with |dq| bounded by the
        norm of its weights times the state's, and moves a softmax average by at most twice that, relatively.
        """
        query, key = (part.norm(dim=-1) for part in self._queries_and_keys(state))
        gain = 1.0 if self.rotary is None else self.rotary.gain
        query_reach = gain * self.query.reach(state).unflatten(1, (self.key.heads, -1))
        key_reach = gain * self.key.reach(state).unsqueeze(2)
        pattern = self.pattern(state)
        moved = query_reach * key.amax(-1, keepdim=True) + query * key_reach.amax(-1, keepdim=True)
        mixed = (pattern * self.value.reach(state)[:, :, None, None, :]).sum(-1) * (2 + 2 * self.scaling * moved)
        columns = self.output.unflatten(1, (*mixed.shape[1:3], -1)).norm(dim=(0, 3))
        total = (mixed * columns[None, :, :, None]).square().sum((1, 2)).sqrt()
        return total if self.output_bias is None else total + self.output_bias.norm()

    def _frozen(self, state: Tensor) -> FrozenAttention:
        whole = FrozenAttention(
            self.pattern(state), self.value.matrix, self.output, self.inner, self.value.bias, self.output_bias, past=self.past
        )
        return whole if self.chosen is None else whole.restricted(self.chosen)

    def __call__(self, state: Tensor) -> Tensor:
        return self._frozen(state).whole(state)

    def freeze(self, state: Tensor) -> Affine:
        frozen = self._frozen(state)
        if self.split == "source":
            return Constant(frozen.whole(state), self.inner, frozen.common, lambda heads: frozen.restricted(heads).whole(state))
        return frozen

    @property
    def common(self) -> Tensor | None:
        return self.output_bias if self.chosen is None else None

    def restricted(self, heads: Sequence[int]) -> "Attention":
        """Some of the query heads only, without the output bias, which belongs to none of them."""
        return replace(self, chosen=tuple(heads))
