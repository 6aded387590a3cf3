"""Array functions of a model as JSON and tensors, and back: nothing but known classes, numbers, texts and tensors is made.

A value is a number, text or None as itself, a tuple as a list, a tensor as the number of a stored one with its shape, a known
class as its name and fields, an activation as its name. Tensors that are one piece of memory are stored once.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import torch
from torch import Tensor

from opalgebra.errors import InputError
from opalgebra.numeric.activations import ACTIVATIONS, name_of
from opalgebra.numeric.attention import Attention, FrozenAttention, Projection, Rotary
from opalgebra.numeric.ffn import FFN, Experts, FrozenExperts, FrozenFFN, GatedFFN
from opalgebra.numeric.norms import Diagonal, LayerNorm, RMSNorm
from opalgebra.numeric.readout import Dense, Readout
from opalgebra.numeric.stages import BranchMaps, FrozenBranch, FrozenStage, StageMaps

_CLASSES = {found.__name__: found for found in (
    Attention, BranchMaps, Dense, Diagonal, Experts, FFN, FrozenAttention, FrozenBranch, FrozenExperts, FrozenFFN, FrozenStage,
    GatedFFN, LayerNorm, Projection, Readout, RMSNorm, Rotary, StageMaps,
)}  # fmt: skip
_LONGEST = 64


class Store:
    """Tensors by number, each piece of memory once."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._known: dict[tuple[Any, ...], str] = {}

    def put(self, value: Any) -> Any:
        """A value as JSON, with its tensors put into the store. ModelError for an activation that has no name."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, tuple | list):
            return [self.put(part) for part in value]
        if isinstance(value, Tensor):
            return {"tensor": self._number(value), "shape": list(value.shape)}
        if type(value).__name__ in _CLASSES:
            own = {part.name: self.put(getattr(value, part.name)) for part in fields(value) if part.init}
            return {"class": type(value).__name__, "fields": own}
        return {"activation": name_of(value)}

    def _number(self, tensor: Tensor) -> str:
        layout = tensor.numel() if tensor.is_contiguous() else (tensor.shape, tensor.stride())
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, layout)
        if key not in self._known:
            self._known[key] = f"part{len(self._known)}"
            self.tensors[self._known[key]] = tensor.detach().contiguous().flatten()
        return self._known[key]


def restored(value: Any, tensors: Mapping[str, Tensor], depth: int = 0) -> Any:
    """The value that `Store.put` wrote. InputError for anything else."""
    if depth > _LONGEST:
        raise InputError("the array functions are nested too deeply")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return tuple(restored(part, tensors, depth + 1) for part in value)
    if isinstance(value, dict) and value.keys() == {"tensor", "shape"}:
        return _tensor(value["tensor"], value["shape"], tensors)
    if isinstance(value, dict) and value.keys() == {"activation"} and value["activation"] in ACTIVATIONS:
        return ACTIVATIONS[value["activation"]]
    if isinstance(value, dict) and value.keys() == {"class", "fields"} and value["class"] in _CLASSES:
        kind, given = _CLASSES[value["class"]], value["fields"]
        own = [part for part in fields(kind) if part.init]
        needed = {part.name for part in own if part.default is MISSING}
        if isinstance(given, dict) and needed <= given.keys() <= {part.name for part in own}:
            return kind(**{name: restored(part, tensors, depth + 1) for name, part in given.items()})
    raise InputError(f"{str(value)[:60]} is no array function that is known here")


def _tensor(name: Any, shape: Any, tensors: Mapping[str, Tensor]) -> Tensor:
    found = tensors.get(name) if isinstance(name, str) else None
    sizes = isinstance(shape, list) and all(isinstance(size, int) and size >= 0 for size in shape)
    if found is None or not sizes or torch.Size(shape).numel() != found.numel():
        raise InputError(f"the tensor {str(name)[:20]} of shape {str(shape)[:40]} is not there")
    return found.view(shape)
