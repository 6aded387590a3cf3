"""A network run again with its nonlinearities frozen, through its own modules alone.

With the patterns of attention, the scales of norms, the gates and the choices of experts as they were in one recorded
forward, a network is affine in its initial state and in what its vertices emit, both together:

    x[n] = response(x[0], emitted) + response(0, 0).

An activation whose output is multiplied by another hidden array is a gate, and frozen; any other is multiplied by what it
gave over what it was given. Weights are read by no one but the network's own code.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from opalgebra.errors import ModelError
from opalgebra.numeric import recording as seen
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.recording import Applied, Call, Recorder, Vertex, first_tensor, kind_of, name_of, refusal


@dataclass(frozen=True, eq=False)
class Recording:
    """One forward of a network on an input, and what it takes to run it again.

    initial, final (batch, tokens, features): the state before the first layer and after the last, the forward's own.
    inner: the summed inner dimensions of all products in the layers. constant: kinds of vertices whose whole output is a
    source.
    """

    network: torch.nn.Module
    given: Tensor
    vertices: tuple[Vertex, ...]
    layers: tuple[Call, ...]
    applied: tuple[Applied, ...]
    inner: int
    constant: frozenset[str] = frozenset()

    @property
    def initial(self) -> Tensor:
        return self.layers[0].took  # type: ignore[return-value]

    @property
    def final(self) -> Tensor:
        return self.layers[-1].kept  # type: ignore[return-value]

    def run(self, initial: Tensor, emitted: Mapping[int, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The last state, and what each vertex made, from a state and what some vertices emit in place of what they make.

        emitted: a state for the number of a vertex. ModelError when the forward takes another path than it did.
        """
        player = _Player(self, initial, emitted)
        try:
            with faithful(self.network), _without_fast_path(), _hooked(player.hooks()), player:
                forward(self.network, self.given)
        except _LastStateError as reached:
            return reached.state, player.made
        raise _other_path(self.network)


def record(network: torch.nn.Module, given: Tensor, *, constant: Sequence[str] = ()) -> Recording:
    """One forward on token ids (batch, tokens), or on states (batch, tokens, features) for a network that reads states.

    constant: kinds of vertices, "attention" or "ffn", whose whole output is a source. ModelError, in one line, where it
    cannot be said how the network is built.
    """
    if getattr(getattr(network, "config", None), "is_encoder_decoder", False):
        raise refusal(network, "it has an encoder and a decoder")
    recorder = Recorder(network)
    with faithful(network), _without_fast_path(), _hooked(recorder.hooks()), recorder:
        forward(network, given)
    found = seen.layers(recorder)
    ends = [vertex for number, call in enumerate(found, start=1) for vertex in seen.vertices(recorder, number, call)]
    inner = sum(size for time, size in recorder.products if any(layer.holds(time) for layer in found))
    return Recording(network, given, tuple(ends), tuple(found), tuple(recorder.applied), inner, frozenset(constant))


def forward(network: torch.nn.Module, given: Tensor) -> Any:
    """The network's own forward."""
    if given.is_floating_point():
        return network(given)
    return network(input_ids=given, use_cache=False, return_dict=True)


class _LastStateError(Exception):
    """Raised after the last layer, so that nothing behind it is computed."""

    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state


class _Player(TorchFunctionMode):
    """Serves the initial state, what the nonlinear functions gave in the recording, and what vertices emit."""

    def __init__(self, recording: Recording, initial: Tensor, emitted: Mapping[int, Tensor]) -> None:
        super().__init__()
        self.recording, self.initial, self.emitted = recording, initial, emitted
        self.coming = iter(recording.applied)
        self.made: list[Tensor] = []
        self.is_inside = False

    def hooks(self) -> Iterator[Any]:
        recording = self.recording
        first, last = recording.layers[0], recording.layers[-1]
        yield first.module.register_forward_pre_hook(_Nth(first.nth, self._begin), with_kwargs=True)
        for module in {item.of for item in recording.applied if isinstance(item.of, torch.nn.Module)}:
            yield module.register_forward_pre_hook(self._enter)
            yield module.register_forward_hook(self._leave)
        for number, vertex in enumerate(recording.vertices):
            yield vertex.call.module.register_forward_hook(_Nth(vertex.call.nth, partial(self._emit, number)))
        yield last.module.register_forward_hook(_Nth(last.nth, self._stop))

    def _begin(self, module: torch.nn.Module, positional: tuple, keyword: dict) -> tuple[tuple, dict]:
        if positional:
            return (self.initial.clone(), *positional[1:]), keyword
        name = next(name for name, value in keyword.items() if first_tensor((value,)) is not None)
        return positional, {**keyword, name: self.initial.clone()}

    def _enter(self, module: torch.nn.Module, positional: tuple) -> None:
        self.is_inside = True

    def _leave(self, module: torch.nn.Module, positional: tuple, output: Tensor) -> Tensor:
        given = _activated(self._next(module), positional[0])
        self.is_inside = False
        return given

    def _emit(self, number: int, module: torch.nn.Module, positional: tuple, output: Any) -> Any:
        vertex = self.recording.vertices[number]
        is_constant = vertex.kind in self.recording.constant
        made: Any = vertex.output if is_constant else first_tensor((output,))
        self.made.append(made.clone())
        given = self.emitted.get(number, made).clone()
        return (given, *output[1:]) if isinstance(output, tuple) else given

    def _stop(self, module: torch.nn.Module, positional: tuple, output: Any) -> None:
        raise _LastStateError(first_tensor((output,)))  # type: ignore[arg-type]

    def _next(self, of: Any) -> Applied:
        found = next(self.coming, None)
        if found is None or found.of != of:
            raise _other_path(self.recording.network)
        return found

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        kind = None if self.is_inside else kind_of(function, args, kwargs)
        if kind is None:
            return function(*args, **kwargs)
        item = self._next(name_of(function))
        if kind == "activation":
            return _activated(item, args[0])
        if kind == "norm":
            return _normed(item, *args, **kwargs)
        if kind == "multi_head_attention_forward":
            return function(*item.args[:2], *args[2:], **kwargs)
        if kind == "scaled_dot_product_attention":
            return _attended(function, item, args[2], kwargs)
        return item.kept.clone() if isinstance(item.kept, Tensor) else tuple(part.clone() for part in item.kept)


def _activated(item: Applied, given: Tensor) -> Tensor:
    """A gate as it was; otherwise what is given, times what was given back over what was given then (at 0, the slope)."""
    if item.is_gate:
        return item.kept.clone()
    then = item.args[0]
    quotient = item.kept / then
    if bool((then == 0).any()):
        slope = torch.func.jvp(lambda hidden: item.function(hidden, *item.args[1:]), (then,), (torch.ones_like(then),))[1]
        quotient = torch.where(then == 0, slope, quotient)
    return given * quotient


def _normed(item: Applied, given: Tensor, shape: Sequence[int], weight: Any = None, *rest: Any, **named: Any) -> Tensor:
    """`layer_norm(given, shape, weight, bias, eps)` or `rms_norm(given, shape, weight, eps)` with the scale that it had."""
    is_centred = item.of == "layer_norm"
    over = tuple(range(-len(shape), 0))
    weight, bias = named.get("weight", weight), None
    if is_centred:
        bias, *rest = rest or (named.get("bias"),)
    epsilon = (*rest, named.get("eps"))[0]
    if epsilon is None:
        epsilon = 1e-5 if is_centred else torch.finfo(given.dtype).eps
    then = item.args[0]
    if is_centred:
        then, given = (state - state.mean(over, keepdim=True) for state in (then, given))
    normed = given * torch.rsqrt(then.square().mean(over, keepdim=True) + epsilon)
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias


def _attended(function: Any, item: Applied, value: Tensor, keyword: dict[str, Any]) -> Tensor:
    """`pattern @ value`; the pattern is what the function makes of the identity in place of the values."""
    query, key, _, *rest = item.args
    identity = torch.eye(key.shape[-2], dtype=query.dtype, device=query.device).expand(*key.shape[:-1], key.shape[-2])
    pattern = function(query, key, identity, *rest, **keyword)
    return pattern @ value.repeat_interleave(pattern.shape[-3] // value.shape[-3], -3)


def _other_path(network: torch.nn.Module) -> ModelError:
    return ModelError(
        f"{type(network).__name__} took another path when it was run again with its nonlinearities frozen; only a forward "
        "that calls the same functions each time, on the same input, can be checked"
    )


class _Nth:
    """A hook that acts at the nth call of its module alone."""

    def __init__(self, nth: int, hook: Any) -> None:
        self.left, self.hook = nth, hook

    def __call__(self, *given: Any) -> Any:
        self.left -= 1
        return self.hook(*given) if self.left == -1 else None


@contextmanager
def _hooked(handles: Iterator[Any]) -> Iterator[None]:
    made: list[Any] = []
    try:
        made.extend(handles)
        yield
    finally:
        for handle in made:
            handle.remove()


@contextmanager
def _without_fast_path() -> Iterator[None]:
    """PyTorch's own encoder layers call their parts, one by one."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
