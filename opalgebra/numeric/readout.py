"""The measurement after the last stage: maps such as the final norm, then the unembedding, then a soft cap.

Dressed at the last state the maps are affine, so that a logit before the cap is a sum over orders and a constant. All of it is
on one device; values and logits are given there, and logits by order where the orders are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.numeric.ffn import Activation, ratio, steepness
from opalgebra.numeric.maps import Affine, Map, beside


@final
@dataclass(frozen=True, eq=False)
class FrozenDense(Affine):
    """`y -> gate * (y W)` with the gate (batch, tokens, features) frozen."""

    gate: Tensor
    weight: Tensor
    inner: int
    source: Tensor | None

    def add_to(self, out: Tensor, states: Tensor) -> None:
        out += self.gate * functional.linear(states, self.weight)


@final
@dataclass(frozen=True, eq=False)
class Dense(Map):
    """`act(x W + b)`, weight (out, in); dressed, the gate act(h)/h is frozen."""

    weight: Tensor
    bias: Tensor | None
    activation: Activation

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.weight.shape[1]

    def __call__(self, state: Tensor) -> Tensor:
        return self.activation(functional.linear(state, self.weight, self.bias))

    def freeze(self, state: Tensor) -> FrozenDense:
        gate = ratio(self.activation, functional.linear(state, self.weight, self.bias))
        return FrozenDense(gate, self.weight, self.inner, None if self.bias is None else gate * self.bias)

    def rounding_scale(self, state: Tensor) -> Tensor:
        hidden = functional.linear(state, self.weight, self.bias)
        reach = self.weight.norm(dim=1) * state.norm(dim=-1, keepdim=True)
        if self.bias is not None:
            reach = reach + self.bias.abs()
        return (reach * steepness(self.activation, hidden)).norm(dim=-1)


@dataclass(frozen=True, eq=False)
class Readout:
    """maps: what the last state passes, in order. unembedding (vocabulary, features) and bias, or None. cap: c of a soft cap
    `c tanh(logit / c)`.
    """

    maps: tuple[Map, ...] = ()
    unembedding: Tensor | None = None
    bias: Tensor | None = None
    cap: float | None = None

    def values(self, state: Tensor) -> list[Tensor]:
        """The state, and what each map makes of the one before it."""
        values = [beside(self, state)]
        for part in self.maps:
            values.append(part(values[-1]))
        return values

    def logits(self, state: Tensor) -> Tensor:
        """The logits as the model returns them, after the cap."""
        assert self.unembedding is not None
        logits = functional.linear(self.values(state)[-1], self.unembedding, self.bias)
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def frozen(self, state: Tensor) -> list[Affine]:
        """The dressings of the maps at the state, each at what it reads."""
        return [part.freeze(value) for part, value in zip(self.maps, self.values(state))]

    def by_part(self, parts: Tensor, state: Tensor, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The logits of some ids before the cap: of each part (orders, batch, tokens, features), and the constant."""
        assert self.unembedding is not None
        constant = torch.zeros_like(state)
        for dressing in self.frozen(state):
            parts, constant = dressing(parts), dressing.whole(constant)
        weight = self.unembedding[list(ids)].to(parts)
        bias = None if self.bias is None else self.bias[list(ids)].to(parts)
        return functional.linear(parts, weight), functional.linear(constant, weight, bias)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """(batch, tokens, 1): the norm to which rounding errors of what is unembedded are relative, over its own norm."""
        values = self.values(state)
        growth = torch.ones_like(values[0][..., :1])
        for part, value, after in zip(self.maps, values, values[1:]):
            own = part.rounding_scale(value) / after.norm(dim=-1).clamp(min=torch.finfo(after.dtype).tiny)
            growth = growth * own[..., None].clamp(min=1.0)
        return growth
