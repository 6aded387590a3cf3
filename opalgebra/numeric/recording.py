"""What one forward of a network did: its calls of modules, its nonlinear functions, its sums; and where its vertices end.

Nothing is known of families. With tensors told apart by their memory:

* layers are calls side by side, each around one softmax over tokens;
* the stream is the input of a layer, every sum with it and every norm of it;
* a vertex is the largest call around its nonlinear functions, without a sum with the stream and without a norm after them,
  followed by the calls that its output is handed to. A softmax over tokens makes it attention, an activation function a
  feed-forward network; what it adds to the stream is its output.

Where this finds no answer, or more than one, the network is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from opalgebra.errors import ModelError

ACTIVATIONS = frozenset(
    "celu elu erf gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu sigmoid silu softplus "
    "softsign tanh".split()
)
SCALES = frozenset("linalg_norm linalg_vector_norm norm reciprocal rsqrt sqrt std vector_norm".split())
NORMS = frozenset({"layer_norm", "rms_norm"})
CHOICES = frozenset({"argmax", "sort", "topk"})
ATTENTION = frozenset({"pattern", "scaled_dot_product_attention", "multi_head_attention_forward"})


@dataclass(eq=False)
class Call:
    """One call of a module, the nth of that module, with the first tensor that it was given and the first that it gave.

    These share memory with what the network worked on, and perhaps wrote to; `took` and `kept` are copies made at the time.
    """

    module: torch.nn.Module
    nth: int
    parent: "Call | None"
    start: int
    given: Tensor | None
    took: Tensor | None
    gave: Tensor | None = None
    kept: Tensor | None = None
    end: int = 0
    is_leaf: bool = True

    def holds(self, time: int) -> bool:
        return self.start < time < self.end

    @property
    def path(self) -> list["Call"]:
        """This call and those around it, the outermost first."""
        return [*(self.parent.path if self.parent is not None else []), self]


@dataclass(eq=False)
class Applied:
    """A nonlinear function, by name, or a module that is one, as it was applied within a call.

    `gave` shares memory with what the network worked on; `kept` is a copy of it as it was.
    """

    kind: str
    of: Any
    time: int
    call: Call
    function: Any
    args: tuple[Any, ...]
    gave: Any
    kept: Any
    is_gate: bool = False


@dataclass(frozen=True, eq=False)
class Vertex:
    """A vertex, "attention" or "ffn", of a layer counted from 1: it ends with a call, the nth of a module."""

    kind: str
    layer: int
    call: Call = field(repr=False)

    @property
    def output(self) -> Tensor:
        """What it emitted."""
        return self.call.kept  # type: ignore[return-value]

    def __str__(self) -> str:
        name = {"attention": "attention", "ffn": "feed-forward network"}[self.kind]
        return f"{name} of layer {self.layer}"


class Recorder(TorchFunctionMode):
    """Notes what happens in one forward; times are numbers of what was noted before."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network
        self.calls: list[Call] = []
        self.open: list[Call] = []
        self.applied: list[Applied] = []
        self.sums: list[tuple[int, Tensor, Tensor, Tensor]] = []
        self.multiples: dict[int, tuple[Tensor, Tensor]] = {}
        self.products: list[tuple[int, int]] = []
        self.counts: dict[int, int] = {}
        self.time = 0

    def hooks(self) -> Iterator[Any]:
        for module in self.network.modules():
            yield module.register_forward_pre_hook(self._enter, with_kwargs=True)
            yield module.register_forward_hook(self._leave, with_kwargs=True)

    def _tick(self) -> int:
        self.time += 1
        return self.time

    def _enter(self, module: torch.nn.Module, positional: tuple, keyword: dict) -> None:
        nth = self.counts[id(module)] = self.counts.get(id(module), -1) + 1
        parent = self.open[-1] if self.open else None
        if parent is not None:
            parent.is_leaf = False
        given = first_tensor((*positional, *keyword.values()))
        call = Call(module, nth, parent, self._tick(), given, None if given is None else given.clone())
        self.calls.append(call)
        self.open.append(call)

    def _leave(self, module: torch.nn.Module, positional: tuple, keyword: dict, output: Any) -> None:
        call = self.open.pop()
        call.gave, call.end = first_tensor((output,)), self._tick()
        call.kept = None if call.gave is None else call.gave.clone()
        inside = [item for item in self.applied if call.holds(item.time)]
        is_function = call.is_leaf and next(module.parameters(), None) is None and isinstance(output, Tensor)
        if is_function and any(item.kind == "activation" for item in inside):
            self.applied = [item for item in self.applied if item not in inside]
            self.applied.append(
                Applied("activation", module, call.end, call, module.forward, (call.took,), output, output.clone())
            )

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        kind = kind_of(function, args, kwargs)
        given = tuple(part.clone() if kind and isinstance(part, Tensor) else part for part in args)
        result = function(*args, **kwargs)
        if self.open and any(isinstance(part, Tensor) for part in args):
            name, time = name_of(function), self._tick()
            if kind is not None:
                kept = result.clone() if isinstance(result, Tensor) else result
                if kind == "choice" and isinstance(result, tuple):
                    kept = tuple(part.clone() for part in result)
                self.applied.append(Applied(kind, name, time, self.open[-1], partial(function, **kwargs), given, result, kept))
            if name in ("add", "mul"):
                self._sum_or_product(name, time, args, kwargs, result)
            inner = _inner(name, (*args, *kwargs.values()))
            if inner:
                self.products.append((time, inner))
        return result

    def _sum_or_product(self, name: str, time: int, args: tuple, kwargs: dict, result: Any) -> None:
        one, other = (*args, *kwargs.values())[:2]
        alike = (
            all(isinstance(part, Tensor) and not isinstance(part, torch.nn.Parameter) for part in (one, other))
            and one.shape == other.shape
        )
        if name == "add" and alike:
            self.sums.append((time, one, other, result))
        elif name == "mul" and alike:
            for item in self.applied:
                if item.kind == "activation" and any(is_same(item.gave, factor) for factor in (one, other)):
                    item.is_gate = True
        elif name == "mul" and isinstance(one, Tensor) and not isinstance(other, Tensor):
            self.multiples[time] = one, result


def name_of(function: Any) -> str:
    """The name of a torch function, the same for its form in place."""
    return str(getattr(function, "__name__", "")).rstrip("_")


def kind_of(function: Any, args: tuple, kwargs: dict) -> str | None:
    """What kind of nonlinear function this is, by what has to be frozen of it; None for all others."""
    name = name_of(function)
    first = args[0] if args and isinstance(args[0], Tensor) else None
    if first is None or not first.is_floating_point():
        return None
    if name == "softmax":
        rows, columns = first.shape[-2:] if first.ndim > 1 else (1, 0)
        return "pattern" if first.ndim > 2 and columns >= rows and (first.ndim > 3 or columns == rows) else "choice"
    if name in ATTENTION:
        return name
    if name == "pow":
        exponent = args[1] if len(args) > 1 else kwargs["exponent"]
        return "scale" if not isinstance(exponent, Tensor) and (exponent < 0 or exponent % 1) else None
    tables = ((ACTIVATIONS, "activation"), (SCALES, "scale"), (NORMS, "norm"), (CHOICES, "choice"))
    return next((kind for names, kind in tables if name in names), None)


def first_tensor(values: Sequence[Any]) -> Tensor | None:
    """The first floating-point tensor among values, or in a tuple among them."""
    for value in values:
        found = first_tensor(value) if isinstance(value, tuple | list) else value
        if isinstance(found, Tensor) and found.is_floating_point():
            return found
    return None


def is_same(one: Any, other: Any) -> bool:
    """Whether two tensors share memory."""
    return (
        isinstance(one, Tensor)
        and isinstance(other, Tensor)
        and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    )


def _inner(name: str, given: Sequence[Any]) -> int:
    """Summed inner dimensions of a function of these arguments."""
    sizes = [part.shape for part in given if isinstance(part, Tensor) and part.ndim]
    if name in ("linear", "matmul", "mm", "bmm", "mean", "softmax", *NORMS):
        return int(sizes[0][-1])
    if name in ("addmm", "baddbmm"):
        return int(sizes[1][-1])
    return int(4 * sizes[0][-1] + max(sizes[1][:-1])) if name in ATTENTION else 0


def refusal(network: torch.nn.Module, what: str) -> ModelError:
    """What is raised for a network that is built in another way than this module knows."""
    return ModelError(
        f"cannot say how {type(network).__name__} is built: {what}; the oracle reads stacks of layers with one attention and "
        "one feed-forward network each, added to a stream"
    )


def layers(recorder: Recorder) -> list[Call]:
    """The calls of the layers in order. ModelError when they are not side by side with one softmax over tokens each."""
    network = recorder.network
    paths = [item.call.path for item in recorder.applied if item.kind in ATTENTION]
    if not paths:
        raise refusal(network, "no softmax over tokens was seen in its forward")
    if len(paths) == 1:
        time = next(item.time for item in recorder.applied if item.kind in ATTENTION)
        after = [item.call.path for item in recorder.applied if item.kind == "activation" and item.time > time]
        shared = [call for call in paths[0] if any(call in path for path in after)]
        found = shared[-1:]
    else:
        depth = sum(all(call in path for path in paths[1:]) for call in paths[0])
        found = [path[depth] for path in paths if len(path) > depth]
    if len(found) < len(paths) or len({id(call) for call in found}) < len(found):
        raise refusal(network, f"its {len(paths)} softmaxes over tokens are not in one layer each")
    if any(call.given is None or call.gave is None or call.given.shape != call.gave.shape for call in found):
        raise refusal(network, "a layer does not give a state of the shape that it takes")
    return found


def vertices(recorder: Recorder, number: int, layer: Call) -> list[Vertex]:
    """The attention and the feed-forward network of a layer, in the order in which they end."""
    look = _Layer(recorder, number, layer)
    around, attention = look.end("attention", [item for item in look.applied if item.kind in ATTENTION])
    activations = [item for item in look.applied if item.kind == "activation" and not (around and around.holds(item.time))]
    _, ffn = look.end("ffn", activations)
    found = [Vertex("attention", number, attention), Vertex("ffn", number, ffn)]
    return sorted(found, key=lambda vertex: vertex.call.end)


class _Layer:
    """One layer of a recording: what was applied, and the times of sums with the stream and of norms."""

    def __init__(self, recorder: Recorder, number: int, layer: Call) -> None:
        self.network, self.number, self.layer = recorder.network, number, layer
        self.calls = [call for call in recorder.calls if layer.holds(call.start)]
        self.applied = [item for item in recorder.applied if layer.holds(item.time)]
        self.norms = [item.time for item in self.applied if item.kind in ("norm", "scale")]
        self.sums = self._sums_with_stream(recorder)
        self.readers = [given for _, *given, _ in recorder.sums] + [[call.given] for call in self.calls if self._is_norm(call)]
        self.multiples = list(recorder.multiples.values())

    def _is_norm(self, call: Call) -> bool:
        inside = [item.kind for item in self.applied if call.holds(item.time)]
        return call.is_leaf and bool(inside) and all(kind in ("norm", "scale") for kind in inside)

    def _sums_with_stream(self, recorder: Recorder) -> list[int]:
        stream = [self.layer.given]
        norms = [(call.end, [call.given], call.gave) for call in self.calls if self._is_norm(call)]
        sums = [(time, [one, other], result) for time, one, other, result in recorder.sums if self.layer.holds(time)]
        found = []
        for time, given, gave in sorted([*norms, *sums], key=lambda entry: entry[0]):
            if any(is_same(part, known) for part in given for known in stream):
                stream.append(gave)
                if len(given) == 2 and self._is_state(gave):
                    found.append(time)
        return found

    def around(self, item: Applied) -> list[Call]:
        """The calls around what was applied, within the layer, the outermost first."""
        path = item.call.path
        return path[path.index(self.layer) + 1 :] if self.layer in path else []

    def end(self, kind: str, items: list[Applied]) -> tuple[Call | None, Call]:
        """The largest call of a vertex around some nonlinear functions, if any, and the call that the vertex ends with."""
        name = {"attention": "attention", "ffn": "feed-forward network"}[kind]
        if not items:
            raise refusal(self.network, f"layer {self.number} has no {name}")
        last = items[-1].time
        foreign = [item.time for item in self.applied if kind == "ffn" and item.kind in ATTENTION]
        fits = [
            call
            for call in self.around(items[-1])
            if all(call.holds(item.time) for item in items)
            and not any(call.holds(time) for time in (*self.sums, *foreign))
            and not any(last < time < call.end for time in self.norms)
        ]
        if not fits and len(items) > 1:
            raise refusal(self.network, f"the {name} of layer {self.number} is in more than one module")
        current = fits[0] if fits else None
        gave, since = (current.gave, current.end) if current else (items[-1].gave, last)
        while True:
            handed = [call for call in self.calls if call.start > since and is_same(call.given, gave) and self._is_plain(call)]
            if not handed:
                break
            current = handed[0]
            gave, since = current.gave, current.end
        if current is None or gave is None or not self._is_added(gave):
            raise refusal(self.network, f"the {name} of layer {self.number} is no module whose output is added to the stream")
        return (fits[0] if fits else None), current

    def _is_plain(self, call: Call) -> bool:
        times = [*(item.time for item in self.applied), *self.sums]
        return not any(call.holds(time) for time in times)

    def _is_added(self, gave: Tensor) -> bool:
        aliases = [gave, *(result for source, result in self.multiples if is_same(source, gave))]
        return self._is_state(gave) and any(
            is_same(part, alias) for given in self.readers for part in given for alias in aliases
        )

    def _is_state(self, array: Tensor) -> bool:
        """Whether an array is a state, its batch and tokens perhaps on one axis."""
        return array.shape[-1] == self.layer.given.shape[-1] and array.numel() == self.layer.given.numel()
