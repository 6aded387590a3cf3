"""A float64 network computes in float64: its own forward, with every request for float32 served by float64.

Transformer libraries write float32 into the forward itself: the norms and the softmax cast to it, the rotary table is
built in it. A network cast by `.double()` is therefore wrong by about 1e-7, which hides every smaller error. Inside
`faithful(network)` the same code runs with

* every request for float32 (`x.float()`, `x.to(torch.float32)`, `dtype=torch.float32`) served by float64, and the
  default dtype float64;
* every rotary module in the state of a fresh one, built from the same configuration in float64;
* an operation that still returns a shorter floating dtype refused, naming it.

Outside nothing has changed: each part is undone when the block is left, by an exception too.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from opalgebra.errors import ModelError

_LONGER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
_LONGER_BY_NAME = {"torch.FloatTensor": "torch.DoubleTensor", "torch.cuda.FloatTensor": "torch.cuda.DoubleTensor"}
_LONGER_METHODS = {torch.Tensor.float: torch.Tensor.double, torch.Tensor.cfloat: torch.Tensor.cdouble}
_SHORTER = (torch.float32, torch.bfloat16, torch.float16, torch.complex64)

# A rotary frequency theta^(-j/d) computed in float32 has a relative error of at most (ln theta + 8) u, times the
# extension factor where a scaling blends two tables: below 32 * 32 * 2^-24 = 2^-14 for theta < e^24 and factors up to
# 32. A table rounded to bfloat16 is wrong by 2^-9, another theta or scaling by far more. The limit lies between.
_TABLE_TOLERANCE = 2.0**-13


@dataclass(frozen=True, eq=False)
class Reference:
    """What the model's own forward computed, in the model's dtype.

    `states` (stages + 1, batch, tokens, features): the residual stream before each stage and after the last. All of it is where
    the input was.
    `logits` (batch, tokens, vocabulary) as the model returns them, after any soft cap, `uncapped` as its unembedding gives
    them; None without an unembedding.
    """

    states: torch.Tensor
    logits: torch.Tensor | None
    uncapped: torch.Tensor | None = None


_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Inside the block no other thread runs a model here: what a run changes belongs to the process."""
    with _ONE_AT_A_TIME:
        yield


@contextmanager
def faithful(network: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Inside the block, `network(ids)` computes in the network's own dtype, with eager attention, in evaluation mode.

    A float64 network computes wholly in float64 (see the module). A network of any other dtype keeps its arithmetic.
    Gradients, autocast, TF32 and fused encoder kernels are off, experts are computed one at a time. Everything is restored
    at the end of the block. The default dtype and the TF32 switches belong to the process, so one thread at a time is
    inside; do not run others that depend on them.

    Raises ModelError when only a part of the network is float64, when attention cannot be switched to eager, when a
    rotary table cannot be rebuilt or disagrees with its configuration, or when an operation returns a shorter dtype.

    >>> linear = torch.nn.Linear(2, 2).double()
    >>> with faithful(linear):
    ...     print(linear(torch.ones(1, 2, dtype=torch.float64)).float().dtype)
    torch.float64
    """
    double = _is_double(network)
    with ExitStack() as stack:
        stack.enter_context(_ONE_AT_A_TIME)
        stack.enter_context(torch.no_grad())
        for device_type in {parameter.device.type for parameter in network.parameters()} | {"cpu"}:
            stack.enter_context(torch.autocast(device_type, enabled=False))
        stack.enter_context(full_precision())
        stack.enter_context(_evaluation(network))
        stack.enter_context(_eager_attention(network))
        stack.enter_context(_experts_one_at_a_time(network))
        stack.enter_context(_no_fused_encoder())
        if double:
            stack.enter_context(_default_float64())
            stack.enter_context(_ServeFloat64())
            for name, module in network.named_modules():
                if any(buffer.endswith("inv_freq") for buffer, _ in module.named_buffers(recurse=False)):
                    stack.enter_context(_rotary_in_float64(name, module))
            stack.enter_context(_RefuseShorter())
        yield network


@dataclass(frozen=True, eq=False)
class Output:
    """A point of the residual stream that is what a module gives, where no module reads it alone."""

    module: torch.nn.Module


def reference(
    network: torch.nn.Module,
    inputs: torch.Tensor | Mapping[str, Any],
    points: Sequence[torch.nn.Module | Output],
    batch_first: bool = True,
    real: torch.Tensor | None = None,
) -> Reference:
    """Run the model's own forward once and record the input of each module in `points`, or its output for an `Output`.

    inputs: token ids (batch, tokens), or the keyword arguments of the forward. `points` are the modules that read the
    residual stream, in the order in which they run, the final norm last (for Llama: input_layernorm and
    post_attention_layernorm of each layer, then norm). `batch_first` is False for a model whose states are (tokens, batch,
    features). real (batch, tokens): False where a state may be anything, at padded positions. No arithmetic is shared with
    any decomposition: the numbers are the forward's own.

    Raises ModelError when the points are not called once each in this order, or when a recorded state is not finite.
    Source: the residual stream as the sum over stages, Elhage et al. 2021, "Transformer Circuits".
    """
    recorded: list[tuple[int, torch.Tensor]] = []
    uncapped: list[torch.Tensor] = []

    def keep(index: int, state: torch.Tensor) -> None:
        recorded.append((index, (state if batch_first else state.transpose(0, 1)).detach().clone()))

    def hooked(index: int, point: torch.nn.Module | Output):
        if isinstance(point, Output):
            return point.module.register_forward_hook(lambda module, given, gave: keep(index, gave))
        return point.register_forward_pre_hook(
            lambda module, given, named: keep(index, given[0] if given else named["hidden_states"]), with_kwargs=True
        )

    if isinstance(inputs, torch.Tensor):
        inputs = {"input_ids": inputs.to(next(network.parameters()).device), "use_cache": False, "return_dict": True}
    handles = []
    with faithful(network):
        try:
            handles = [hooked(index, point) for index, point in enumerate(points)]
            unembedding = network.get_output_embeddings() if hasattr(network, "get_output_embeddings") else None
            if unembedding is not None:
                handles.append(unembedding.register_forward_hook(lambda module, given, gave: uncapped.append(gave.detach())))
            output = network(**inputs)
        finally:
            for handle in handles:
                handle.remove()
    _check_order([index for index, _ in recorded], points)
    place = next(value.device for value in inputs.values() if isinstance(value, torch.Tensor))
    states = torch.stack([state.to(place) for _, state in recorded])
    _check_finite(states, real)
    logits = getattr(output, "logits", None)
    both = (logits, uncapped[0] if uncapped else None)
    return Reference(states, *(None if part is None else part.detach().to(place) for part in both))


def _is_double(network: torch.nn.Module) -> bool:
    dtypes = {name: value.dtype for name, value in network.named_parameters() if value.is_floating_point()}
    shorter = next((name for name, dtype in dtypes.items() if dtype != torch.float64), None)
    if dtypes and shorter is not None and torch.float64 in dtypes.values():
        raise ModelError(
            f"cannot run {type(network).__name__} faithfully in float64: its parameter {shorter!r} is "
            f"{_name(dtypes[shorter])} while others are float64; cast the whole model with .double()"
        )
    return bool(dtypes) and shorter is None


class _ServeFloat64(TorchFunctionMode):
    """Every torch call that names float32 is made with float64 in its place."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        function = _LONGER_METHODS.get(function, function)
        return function(*map(_longer, args), **{key: _longer(value) for key, value in (kwargs or {}).items()})


def _longer(argument):
    if isinstance(argument, torch.dtype):
        return _LONGER.get(argument, argument)
    return _LONGER_BY_NAME.get(argument, argument) if isinstance(argument, str) else argument


class _RefuseShorter(TorchDispatchMode):
    """No operation returns a floating dtype shorter than float64: what the first mode could not see is refused here."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor) and value.dtype in _SHORTER:
                raise ModelError(
                    f"cannot run faithfully in float64: the operation {function} returned {_name(value.dtype)}, from a "
                    "shorter constant or cast that no call names; run the model in float32 instead"
                )
        return result


@contextmanager
def _default_float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _evaluation(network: torch.nn.Module) -> Iterator[None]:
    before = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@contextmanager
def _eager_attention(network: torch.nn.Module) -> Iterator[None]:
    before = [(config, config._attn_implementation) for config in _attention_configurations(network)]
    try:
        if any(implementation != "eager" for _, implementation in before):
            network.set_attn_implementation("eager")
            left = next((config for config, _ in before if config._attn_implementation not in ("eager", None)), None)
            if left is not None:
                raise ModelError(
                    f"cannot switch {type(network).__name__} to eager attention from {left._attn_implementation!r}; "
                    "load it with attn_implementation='eager'"
                )
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


@contextmanager
def _experts_one_at_a_time(network: torch.nn.Module) -> Iterator[None]:
    """The grouped products of experts have no float64."""
    configurations = [config for config in _attention_configurations(network) if hasattr(config, "_experts_implementation")]
    before = [(config, config._experts_implementation) for config in configurations]
    try:
        for config in configurations:
            config._experts_implementation_internal = "eager"
        yield
    finally:
        for config, implementation in before:
            config._experts_implementation_internal = implementation


@contextmanager
def _no_fused_encoder() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _attention_configurations(network: torch.nn.Module) -> list:
    """Each configuration object once, nested ones included."""
    found: dict[int, object] = {}
    waiting = [module.config for module in network.modules() if hasattr(module, "set_attn_implementation")]
    while waiting:
        config = waiting.pop()
        if id(config) not in found:
            found[id(config)] = config
            nested = (getattr(config, key, None) for key in config.sub_configs)
            waiting += [value for value in nested if hasattr(value, "sub_configs")]
    return list(found.values())


@contextmanager
def _rotary_in_float64(name: str, module: torch.nn.Module) -> Iterator[None]:
    """The module gets the whole state of a fresh one of its class; its hooks stay, and a forward that another library put
    around its own. Its own state is put back as it was, whatever the forward wrote (a dynamic table replaces its buffers).
    """
    kind = type(module).__name__
    if getattr(module, "config", None) is None:
        raise ModelError(
            f"cannot run faithfully in float64: the rotary module {name!r} ({kind}) has no configuration to rebuild "
            "its table from; run the model in float32 instead"
        )
    before = module.__dict__
    fresh = type(module)(module.config).to(next(module.buffers()).device).train(module.training)
    _check_table(name, module, fresh)
    hooks = {key: value for key, value in before.items() if "hook" in key or key in ("forward", "_old_forward")}
    object.__setattr__(module, "__dict__", {**fresh.__dict__, **hooks})
    try:
        yield
    finally:
        object.__setattr__(module, "__dict__", before)


def _check_table(name: str, module: torch.nn.Module, fresh: torch.nn.Module) -> None:
    for key, exact in fresh.named_buffers(recurse=False):
        present = getattr(module, key, None)
        agrees = (
            isinstance(present, torch.Tensor)
            and present.shape == exact.shape
            and bool(((present.double() - exact).abs() <= _TABLE_TOLERANCE * exact.abs()).all())
        )
        if not agrees:
            _refuse_table(name, module, key)
    for key, value in vars(fresh).items():
        if key.endswith("attention_scaling") and getattr(module, key, None) != value:
            _refuse_table(name, module, key)


def _refuse_table(name: str, module: torch.nn.Module, key: str) -> None:
    raise ModelError(
        f"cannot run faithfully in float64: {key} of the rotary module {name!r} ({type(module).__name__}) is not what "
        "its configuration gives, beyond float32 rounding; load the model anew with dtype=torch.float64 (a cast "
        "through bfloat16 or float16 rounds the table)"
    )


@contextmanager
def full_precision() -> Iterator[None]:
    """float32 products are float32 products: no TF32 and no bfloat16 in their place."""
    with ExitStack() as undo:
        for read, write, full in _precision_switches():
            try:
                before = read()
            except RuntimeError:  # this switch and a newer one were mixed: the newer ones below decide
                continue
            if before not in full:
                write(full[0])
                undo.callback(write, before)
        yield


def tf32() -> bool:
    """Whether float32 products may be computed as shorter ones now."""
    for read, _, full in _precision_switches():
        try:
            if read() not in full:
                return True
        except RuntimeError:  # as in `full_precision`
            continue
    return False


def _precision_switches() -> list[tuple]:
    """(read, write, values of full precision): the older switches, then the newer ones from the general to the special,
    since a special one follows the general one until it is set.
    """
    backends = torch.backends

    def attribute(owner, key: str, full: tuple) -> tuple:
        return (lambda: getattr(owner, key)), (lambda value: setattr(owner, key, value)), full

    switches = [
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, ("highest",)),
        attribute(backends.cudnn, "allow_tf32", (False,)),
    ]
    if hasattr(backends, "fp32_precision"):
        owners = [backends, backends.cudnn, backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
        owners += [backends.mkldnn, backends.mkldnn.matmul, backends.mkldnn.conv, backends.mkldnn.rnn]
        switches += [attribute(owner, "fp32_precision", ("ieee", "none")) for owner in owners]
    return switches


def _check_order(called: list[int], points: Sequence[torch.nn.Module | Output]) -> None:
    missing = next((index for index in range(len(points)) if index not in called), None)
    if not points:
        what = "no point is given"
    elif len({id(point) for point in points}) < len(points):
        what = "a module is given twice"
    elif missing is not None:
        what = f"the forward never called point {missing} ({type(points[missing]).__name__})"
    elif called != list(range(len(points))):
        what = f"the forward called the {len(points)} points in the order {called[: len(points) + 1]}"
    else:
        return
    raise ModelError(
        f"cannot record the residual stream: {what}; give each module that reads the stream once, in order of execution"
    )


def _check_finite(states: torch.Tensor, real: torch.Tensor | None) -> None:
    broken = ~torch.isfinite(states).all(dim=-1)
    if real is not None:
        broken &= real
    broken = broken.nonzero()
    if len(broken):
        stage, row, token = broken[0].tolist()
        raise ModelError(
            f"the model's own forward is not finite: NaN or infinity in the state after stage {stage} (0 is the "
            f"embedding) at token {token} of row {row}; check the weights and the dtype ({_name(states.dtype)})"
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
