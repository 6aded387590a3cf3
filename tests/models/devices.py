"""Models spread over devices, and devices that are pretended where there are none.

Under `Pretended` a tensor is on the device that it is said to be on, whatever memory it is in: `.to(device)` says so of a copy,
a result is where its arguments are, and arguments on different devices are refused, as is NumPy's view of a tensor that is
not on the CPU. Numbers are real, so that a run over two pretended GPUs can be compared with one on the CPU to the last digit.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

CPU = torch.device("cpu")
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
_FREE = {"to", "copy_", "__setitem__"}
_INDEXED = {"__getitem__", "__setitem__", "index_put_"}


class Pretended(TorchFunctionMode):
    """Inside, tensors are where they are said to be; see the module."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if function == torch.Tensor.device.__get__:
            return where(args[0])
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        home = _home(name, given)
        if name in ("numpy", "__array__") and home != CPU:
            raise TypeError(f"can't convert {home} device type tensor to numpy")
        if name == "cpu":
            return _to(args[0], CPU)
        if name == "to":
            return _to(*args, *kwargs.values())
        if kwargs.get("device") is not None:
            home = torch.device(kwargs.pop("device"))
        result = function(*args, **kwargs)
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and all(leaf is not each for each in given):
                say(leaf, home)
        return result


def where(tensor: torch.Tensor) -> torch.device:
    return getattr(tensor, "_said", CPU)


def say(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    tensor._said = torch.device(device)
    return tensor


def _home(name: str, given: list[torch.Tensor]) -> torch.device:
    """The device of the arguments; a number may be on the CPU, and so may an index."""
    places = {where(tensor) for tensor in (given[:1] if name in _FREE else given) if tensor.ndim or where(tensor) != CPU}
    if name in _INDEXED and given:
        places = {where(given[0])} | (places - {CPU})
    if len(places) > 1:
        raise RuntimeError(f"expected all tensors of {name} to be on the same device, but found {sorted(map(str, places))}")
    return places.pop() if places else CPU


def _to(tensor: torch.Tensor, *wished: Any) -> torch.Tensor:
    """`tensor.to(...)`, of which the device and the dtype matter."""
    dtype, home = tensor.dtype, where(tensor)
    for each in wished:
        if isinstance(each, torch.Tensor):
            dtype, home = each.dtype, where(each)
        elif isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, torch.device | str):
            home = torch.device(each)
    cast = tensor.to(dtype)
    return cast if home == where(tensor) and cast is tensor else say(cast.clone() if cast is tensor else cast, home)


def layer_of(name: str) -> int | None:
    """The number of the layer that a parameter belongs to."""
    found = re.search(r"\.(\d+)\.", name)
    return int(found[1]) if found else None


def in_two(name: str) -> int:
    """0 for the embedding and the first layer, 1 for the rest."""
    layer = layer_of(name)
    if layer is None:
        return int(not any(part in name for part in ("embed", "wte", "wpe", "cls")))
    return int(layer > 0)


def spread(network: torch.nn.Module, place: Callable[[str], torch.device], put: Callable = say) -> torch.nn.Module:
    """The network with its parameters and buffers at the places of their names, and activations taken along by hooks."""
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        put(tensor, place(name))
    for module in network.modules():
        devices = {tensor.device for tensor in (*module.parameters(), *module.buffers())}
        if len(devices) == 1:
            module.register_forward_pre_hook(_Taken(devices.pop()), with_kwargs=True)
    return network


def really(tensor: torch.Tensor, device: torch.device) -> None:
    """Puts a parameter or buffer on a device that is there."""
    tensor.data = tensor.data.to(device)


class _Taken:
    """A hook that takes what a module is given to its device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self, module: torch.nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return tree_map(lambda part: part.to(self.device) if isinstance(part, torch.Tensor) else part, (args, kwargs))
