"""What an atom of a Transformer is as an array function, and what it becomes when a state freezes it.

A `Map` is a nonlinear function of a state, an array (batch, tokens, features). `freeze` at a state s gives the `Affine`
of its dressing, `F(s) = F<s>(s) + f<s>`. Affine maps act on any number of leading axes at once, (orders, batch, tokens,
features), so that all orders of a series share each product. Which dressing a map has is its split; one split needs no
word of the map itself, `jacobian`: the derivative at s, and the value minus the derivative applied to s.

Weights are the model's own tensors, never copied or folded. A model may be spread over devices: a map is called with states
that are `beside` it; an affine map with states on any device, and gives their images back there. `inner` is the number of
summed inner dimensions along one application, for rounding estimates.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, final

import torch
from torch import Tensor

from opalgebra.errors import InputError

_NO_HEADS = "a map that is no attention has no heads; take some of attention alone"


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

    @property
    def common(self) -> Tensor | None:
        """The part of the source that belongs to no head alone, which `restricted` leaves out."""
        return None

    def restricted(self, heads: Sequence[int]) -> "Affine":
        """The share of some attention heads, `common` left out. InputError for a map that has no heads."""
        raise InputError(_NO_HEADS)

    def __call__(self, states: Tensor) -> Tensor:
        """The linear part of `states`."""
        here = beside(self, states)
        out = torch.zeros_like(here, memory_format=torch.contiguous_format)
        self.add_to(out, here)
        return out.to(states.device)

    def whole(self, state: Tensor) -> Tensor:
        """The linear part of a state and the source."""
        return self(state) if self.source is None else self(state) + self.source.to(state.device)


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

    def gain(self, state: Tensor) -> Tensor:
        """(batch, tokens): how much longer a small change of the state is after the map, at most; known of norms."""
        raise NotImplementedError(type(self).__name__)

    @property
    def common(self) -> Tensor | None:
        """(features,): what the map adds whatever its argument and that belongs to no head alone."""
        return None

    def restricted(self, heads: Sequence[int]) -> "Map":
        """The same map with some attention heads alone, `common` left out. InputError for a map that has no heads."""
        raise InputError(_NO_HEADS)


@final
@dataclass(frozen=True, eq=False)
class Constant(Affine):
    """A map whose whole output is a source: the split `source`. `share` gives the output of some heads alone."""

    source: Tensor
    inner: int = 0
    common: Tensor | None = None  # type: ignore[assignment]
    share: Callable[[Sequence[int]], Tensor] | None = None

    @property
    def is_constant(self) -> bool:
        return True

    def add_to(self, out: Tensor, states: Tensor) -> None:
        """Adds nothing: the linear part is zero."""

    def restricted(self, heads: Sequence[int]) -> "Constant":
        if self.share is None:
            raise InputError(_NO_HEADS)
        return replace(self, source=self.share(heads), common=None)


@final
@dataclass(frozen=True, eq=False)
class Differentiated(Map):
    """A map under the split `jacobian`, whatever its own."""

    map: Map

    @property
    def inner(self) -> int:  # type: ignore[override]
        return self.map.inner

    def __call__(self, state: Tensor) -> Tensor:
        return self.map(state)

    def freeze(self, state: Tensor) -> "Derivative":
        return Derivative(self.map, state)

    def rounding_scale(self, state: Tensor) -> Tensor:
        return self.map.rounding_scale(state)

    def gain(self, state: Tensor) -> Tensor:
        return self.map.gain(state)

    @property
    def common(self) -> Tensor | None:
        return self.map.common

    def restricted(self, heads: Sequence[int]) -> "Differentiated":
        return Differentiated(self.map.restricted(heads))


@final
class Derivative(Affine):
    """The derivative of a map at a state, and the source `F(s) - F'(s) s`; every norm, pattern and gate is differentiated.

    inner: a product of factors becomes a sum of products, one with each factor differentiated: three times the map's.
    """

    def __init__(self, function: Map, state: Tensor) -> None:
        self.map, self.state, self.inner = function, state.clone(), 3 * function.inner
        self.source = function(state) - self(state)

    def add_to(self, out: Tensor, states: Tensor) -> None:
        flat = states.reshape(-1, *self.state.shape)
        with torch.inference_mode(False):
            for place, tangent in zip(out.view(-1, *self.state.shape), flat):
                place += torch.func.jvp(self.map, (self.state.clone(),), (tangent.clone(),))[1]

    @property
    def common(self) -> Tensor | None:
        return None if self.map.common is None else self.map.common.expand_as(self.state)

    def restricted(self, heads: Sequence[int]) -> "Derivative":
        return Derivative(self.map.restricted(heads), self.state)


def slope(activation: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """The derivative of an elementwise function at each of the values."""
    with torch.inference_mode(False), torch.enable_grad():
        at = values.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(activation(at).sum(), at)
    return found


def cast(part: Any, dtype: torch.dtype) -> Any:
    """The same maps with every floating tensor as a copy in `dtype`; functions and integers as they are."""
    return with_tensors(part, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def with_tensors(part: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same maps with every tensor changed; functions and numbers as they are."""
    if isinstance(part, Tensor):
        return change(part)
    if isinstance(part, tuple | list):
        return type(part)(with_tensors(each, change) for each in part)
    if isinstance(part, Derivative):
        return Derivative(with_tensors(part.map, change), change(part.state))
    names = _given(type(part))
    return replace(part, **{name: with_tensors(getattr(part, name), change) for name in names}) if names else part


def moved(part: Any, device: torch.device | None, known: dict[Any, Tensor] | None = None) -> Any:
    """The same maps with every tensor on a device; a tensor that is there is itself. known: moves that are not made again."""
    made = {} if known is None else known

    def there(tensor: Tensor) -> Tensor:
        key = (id(tensor), device)
        if key not in made:
            made[key] = tensor if device is None else tensor.to(device)
        return made[key]

    return with_tensors(part, there)


def tensors(part: Any) -> Iterator[Tensor]:
    """Every tensor of some maps, in the order of their fields."""
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, tuple | list):
        for each in part:
            yield from tensors(each)
    elif isinstance(part, Derivative):
        yield part.state
        yield from tensors(part.map)
    else:
        for name in _given(type(part)):
            yield from tensors(getattr(part, name))


@cache
def _given(kind: type) -> tuple[str, ...]:
    """The names of what a dataclass is made of; none for other types."""
    return tuple(field.name for field in fields(kind) if field.init) if is_dataclass(kind) else ()


def device_of(part: Any) -> torch.device | None:
    """The device of some maps, which is that of their first tensor; None for maps without any, at home on every device."""
    return next((tensor.device for tensor in tensors(part)), None)


def beside(part: Any, states: Tensor) -> Tensor:
    """The states on the device of some maps; themselves where they are there."""
    device = device_of(part)
    return states if device is None else states.to(device)
