"""Norms: a state divided by its size, token by token; dressed, the size of each token is frozen.

    RMSNorm     x * w / sqrt(mean(x^2) + epsilon)
    LayerNorm   (x - mean(x)) * w / sqrt(variance(x) + epsilon) + b, the variance biased

The dressing is `y -> diagonal * C y` with C the centring of LayerNorm, and the shift b is its source.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from opalgebra.numeric.maps import Affine, Map, beside


@final
@dataclass(frozen=True, eq=False)
class Diagonal(Affine):
    """A dressed norm: `y -> diagonal * y`, or `diagonal * (y - mean(y))`, diagonal = scale (batch, tokens, 1) * weights."""

    scale: Tensor
    weight: Tensor | float
    inner: int
    source: Tensor | None = None
    centered: bool = False

    @property
    def diagonal(self) -> Tensor:
        """(batch, tokens, features)."""
        return self.scale * self.weight

    def __call__(self, states: Tensor) -> Tensor:
        here = beside(self, states)
        return ((here - here.mean(-1, keepdim=True) if self.centered else here) * self.diagonal).to(states.device)

    def add_to(self, out: Tensor, states: Tensor) -> None:
        out.addcmul_(states - states.mean(-1, keepdim=True) if self.centered else states, self.diagonal)


class Norm(Map):
    """A norm over features; abstract."""

    features: int

    @abstractmethod
    def scale(self, state: Tensor) -> Tensor:
        """(batch, tokens, 1): what each token is multiplied by before the weights."""

    @property
    @abstractmethod
    def factor(self) -> Tensor | float:
        """(features,): the weights."""

    def gain(self, state: Tensor) -> Tensor:
        """(batch, tokens): how much longer a small change of the state is after the norm, at most."""
        largest = self.factor.abs().max() if isinstance(self.factor, Tensor) else abs(self.factor)
        return self.scale(state)[..., 0] * largest


@final
@dataclass(frozen=True, eq=False)
class RMSNorm(Norm):
    """`x * (weight + offset) / sqrt(mean(x^2) + epsilon)`; the offset is 1 where a model stores `weight - 1`."""

    weight: Tensor
    epsilon: float
    offset: float = 0.0

    @property
    def features(self) -> int:  # type: ignore[override]
        return self.weight.shape[0]

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.features + 4

    @property
    def factor(self) -> Tensor:
        return self.weight + self.offset if self.offset else self.weight

    def scale(self, state: Tensor) -> Tensor:
        return torch.rsqrt(state.square().mean(-1, keepdim=True) + self.epsilon)

    def __call__(self, state: Tensor) -> Tensor:
        return state * (self.scale(state) * self.factor)

    def freeze(self, state: Tensor) -> Diagonal:
        return Diagonal(self.scale(state), self.factor, self.inner)

    def rounding_scale(self, state: Tensor) -> Tensor:
        return self(state).norm(dim=-1)


@final
@dataclass(frozen=True, eq=False)
class LayerNorm(Norm):
    """`(x - mean(x)) * weight / sqrt(variance(x) + epsilon) + bias`; weight and bias may be None."""

    weight: Tensor | None
    bias: Tensor | None
    epsilon: float
    features: int

    @property
    def inner(self) -> int:  # type: ignore[override]
        return 2 * self.features + 5

    @property
    def factor(self) -> Tensor | float:
        return 1.0 if self.weight is None else self.weight

    def scale(self, state: Tensor) -> Tensor:
        centred = state - state.mean(-1, keepdim=True)
        return torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.epsilon)

    def __call__(self, state: Tensor) -> Tensor:
        centred = state - state.mean(-1, keepdim=True)
        value = centred * (torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.epsilon) * self.factor)
        return value if self.bias is None else value + self.bias

    def freeze(self, state: Tensor) -> Diagonal:
        source = None if self.bias is None else self.bias.expand_as(state)
        return Diagonal(self.scale(state), self.factor, self.inner, source, centered=True)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """The mean is subtracted, which leaves an error relative to the whole state."""
        shift = 0.0 if self.bias is None else self.bias.norm()
        return self.gain(state) * state.norm(dim=-1) + shift
