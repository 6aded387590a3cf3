"""Feed-forward networks: what each token does alone; dressed, its hidden units keep their gates.

    plain      act(x W_1 + b) W_2 + b
    gated      (act(x W_gate + b) * (x W_up + b)) W_down + b
    experts    sum over the chosen experts e of a token of r_e(x) gated_e(x), weights r_e that sum to one

Splits. `gate`: plain, act(h)/h is frozen; gated, the factor that `frozen` names, act(q) ("gate"), act(q)/q times the other
factor ("up") or the mean of both ("half"). `tangent`: each elementwise function by its derivative, the offset a source.
`source`: the whole output. The experts of a token and their weights are frozen in every one of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.errors import InputError
from opalgebra.numeric.maps import Affine, Constant, Map, slope

Activation = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True, eq=False)
class FrozenFFN(Affine):
    """`y -> (sum over paths of factor * (y W)) W_down`: a path is a frozen factor (batch, tokens, hidden) and weights W."""

    paths: tuple[tuple[Tensor, Tensor], ...]
    down: Tensor
    inner: int
    source: Tensor | None = None

    def add_to(self, out: Tensor, states: Tensor) -> None:
        hidden = None
        for frozen, weight in self.paths:
            moved = functional.linear(states, weight)
            moved *= frozen
            hidden = moved if hidden is None else hidden + moved
        assert hidden is not None
        out.view(-1, out.shape[-1]).addmm_(hidden.reshape(-1, hidden.shape[-1]), self.down.T)


@final
@dataclass(frozen=True, eq=False)
class FFN(Map):
    """`act(x W_up + b) W_down + b`, weights (out, in). split: "gate", "tangent" or "source"."""

    up: Tensor
    down: Tensor
    up_bias: Tensor | None
    down_bias: Tensor | None
    activation: Activation
    split: str = "gate"

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.up.shape[1] + self.down.shape[1]

    def __call__(self, state: Tensor) -> Tensor:
        hidden = self.activation(functional.linear(state, self.up, self.up_bias))
        return functional.linear(hidden, self.down, self.down_bias)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """A hidden unit is wrong relative to the norm of its weights times the state's, by the slope of the activation."""
        hidden = functional.linear(state, self.up, self.up_bias)
        error = _reach(self.up, self.up_bias, state) * steepness(self.activation, hidden) + self.activation(hidden).abs()
        return _moved_error(error, self.down, self.down_bias)

    def freeze(self, state: Tensor) -> Affine:
        if self.split == "source":
            return Constant(self(state), self.inner)
        hidden = functional.linear(state, self.up, self.up_bias)
        gate = ratio(self.activation, hidden) if self.split == "gate" else slope(self.activation, hidden)
        left = None if self.split == "gate" else self.activation(hidden) - gate * hidden
        constant = _added(_times(gate, self.up_bias), left)
        return FrozenFFN(((gate, self.up),), self.down, self.inner, _lowered(constant, self.down, self.down_bias, state))


@final
@dataclass(frozen=True, eq=False)
class GatedFFN(Map):
    """`(act(x W_gate + b) * (x W_up + b)) W_down + b`. split and frozen: see the module."""

    gate: Tensor
    up: Tensor
    down: Tensor
    gate_bias: Tensor | None
    up_bias: Tensor | None
    down_bias: Tensor | None
    activation: Activation
    split: str = "gate"
    frozen: str = "gate"

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.up.shape[1] + self.down.shape[1]

    def _factors(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return functional.linear(state, self.gate, self.gate_bias), functional.linear(state, self.up, self.up_bias)

    def __call__(self, state: Tensor) -> Tensor:
        gate, up = self._factors(state)
        return functional.linear(self.activation(gate) * up, self.down, self.down_bias)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """Each factor of a hidden unit is wrong relative to the norm of its weights times the state's."""
        gate, up = self._factors(state)
        active = self.activation(gate)
        error = _reach(self.gate, self.gate_bias, state) * steepness(self.activation, gate) * up.abs()
        error = error + _reach(self.up, self.up_bias, state) * active.abs() + (active * up).abs()
        return _moved_error(error, self.down, self.down_bias)

    def freeze(self, state: Tensor) -> Affine:
        if self.split == "source":
            return Constant(self(state), self.inner)
        gate, up = self._factors(state)
        active = self.activation(gate)
        if self.split == "tangent":
            steep = slope(self.activation, gate)
            through_gate, through_up, left = steep * up, active, -(steep * up) * gate
        else:
            share = {"gate": 0.0, "half": 0.5, "up": 1.0}[self.frozen]
            through_gate = share * ratio(self.activation, gate) * up if share else None
            through_up, left = ((1 - share) * active if share < 1 else None), None
        terms = ((through_gate, self.gate, self.gate_bias), (through_up, self.up, self.up_bias))
        paths = tuple((factor, weight) for factor, weight, _ in terms if factor is not None)
        constant = left
        for factor, _, bias in terms:
            constant = _added(constant, None if factor is None else _times(factor, bias))
        return FrozenFFN(paths, self.down, self.inner, _lowered(constant, self.down, self.down_bias, state))


@final
@dataclass(frozen=True, eq=False)
class FrozenExperts(Affine):
    """Frozen experts, each with the places (batch * tokens) that it serves and their weights (places, 1)."""

    experts: tuple[tuple[Tensor, Tensor, Affine], ...]
    inner: int
    source: Tensor | None = None

    @property
    def is_constant(self) -> bool:
        return all(frozen.is_constant for _, _, frozen in self.experts)

    def add_to(self, out: Tensor, states: Tensor) -> None:
        flat = states.reshape(-1, self.places, states.shape[-1])
        for places, weight, frozen in self.experts:
            moved = weight * frozen(flat[:, places].contiguous())
            out.view(-1, self.places, out.shape[-1]).index_add_(1, places, moved)

    places: int = 0


@final
@dataclass(frozen=True, eq=False)
class Experts(Map):
    """The `top` experts of each token, weighted by the softmax of their router logits among all, renormalised.

    router (experts, features). The choice and the weights are frozen with a dressing. A choice is discrete, so that one
    rounding error can change it: `own` (batch * tokens, top) is what the model itself chose at its own states, and it is
    taken where its lowest logit falls short of the highest by no more than `slack`, relative to the logits' reach.
    """

    router: Tensor
    experts: tuple[GatedFFN, ...]
    top: int
    own: Tensor | None = None
    slack: float = 0.0

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.router.shape[1] + len(self.experts) + self.experts[0].inner

    def routes(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """(batch * tokens, top): the weights and the numbers of the chosen experts."""
        flat = state.reshape(-1, state.shape[-1])
        logits = functional.linear(flat, self.router)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        best, chosen = torch.topk(logits, self.top, dim=-1)
        if self.own is not None and len(self.own) == len(flat):
            reach = self.router.norm(dim=-1).max() * flat.norm(dim=-1)
            short = best[:, -1] - logits.gather(1, self.own).amin(1)
            chosen = torch.where((short <= self.slack * reach)[:, None], self.own, chosen)
        weights = torch.softmax(logits, dim=-1).gather(1, chosen)
        return (weights / weights.sum(-1, keepdim=True)).to(state.dtype), chosen

    def _served(self, state: Tensor) -> list[tuple[GatedFFN, Tensor, Tensor]]:
        """Each expert with the places that it serves and their weights, those that serve none left out."""
        weights, chosen = self.routes(state)
        served = []
        for number, expert in enumerate(self.experts):
            places, rank = (chosen == number).nonzero(as_tuple=True)
            if len(places):
                served.append((expert, places, weights[places, rank, None]))
        return served

    def __call__(self, state: Tensor) -> Tensor:
        flat = state.reshape(-1, state.shape[-1])
        total = torch.zeros_like(flat)
        for expert, places, weight in self._served(state):
            total = total.index_add(0, places, weight * expert(flat[places]))
        return total.view_as(state)

    def rounding_scale(self, state: Tensor) -> Tensor:
        """A relative error of the router's logits moves a weight by at most twice the largest of them, relatively."""
        flat = state.reshape(-1, state.shape[-1])
        total = flat.new_zeros(len(flat))
        moved = 2 * self.router.norm(dim=-1).max() * flat.norm(dim=-1)
        for expert, places, weight in self._served(state):
            own = expert.rounding_scale(flat[places]) + moved[places] * expert(flat[places]).norm(dim=-1)
            total = total.index_add(0, places, weight[:, 0] * own)
        return total.view(state.shape[:-1])

    def freeze(self, state: Tensor) -> FrozenExperts:
        flat = state.reshape(-1, state.shape[-1])
        frozen, source = [], None
        for expert, places, weight in self._served(state):
            own = expert.freeze(flat[places])
            frozen.append((places, weight, own))
            if own.source is not None:
                source = torch.zeros_like(flat) if source is None else source
                source.index_add_(0, places, weight * own.source)
        return FrozenExperts(tuple(frozen), self.inner, None if source is None else source.view_as(state), places=len(flat))


def ratio(activation: Activation, values: Tensor) -> Tensor:
    """`act(h) / h`, at h = 0 its limit `act'(0)`. InputError for an activation that is not zero at zero."""
    at_zero = activation(torch.zeros_like(values[..., :1]))
    if at_zero.any():
        raise InputError(
            f"the activation {type(activation).__name__} is {at_zero.flatten()[0].item():g} at zero, so that act(h)/h is no "
            "gate; use split='tangent' or split='source'"
        )
    zero = values == 0
    return torch.where(zero, slope(activation, torch.zeros_like(values)), activation(values) / torch.where(zero, 1.0, values))


def steepness(activation: Activation, values: Tensor) -> Tensor:
    """The slope at each value, at least 1.2, which a smooth activation nowhere exceeds by much around a value."""
    return slope(activation, values).abs().clamp(min=1.2)


def _reach(weight: Tensor, bias: Tensor | None, state: Tensor) -> Tensor:
    reach = weight.norm(dim=1) * state.norm(dim=-1, keepdim=True)
    return reach if bias is None else reach + bias.abs()


def _moved_error(error: Tensor, down: Tensor, bias: Tensor | None) -> Tensor:
    moved = (error * down.norm(dim=0)).norm(dim=-1)
    return moved if bias is None else moved + bias.norm()


def _times(factor: Tensor, bias: Tensor | None) -> Tensor | None:
    return None if bias is None else factor * bias


def _added(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _lowered(constant: Tensor | None, down: Tensor, bias: Tensor | None, state: Tensor) -> Tensor | None:
    if constant is None:
        return None if bias is None else bias.expand_as(state)
    return functional.linear(constant, down, bias)
