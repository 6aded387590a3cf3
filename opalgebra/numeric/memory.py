"""The memory of a run, known before it: the code of a stage is run on shapes alone, and orders pass it in chunks that fit.

What a stage takes besides the orders themselves, hidden units and values of heads above all, is `fixed + rate * chunk` bytes
for `chunk` orders that pass it together. Both are read off two runs on tensors that have no memory, one of each kind of stage.
"""

import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from opalgebra.errors import InputError, LimitError
from opalgebra.numeric.maps import Derivative, beside, tensors, with_tensors
from opalgebra.numeric.stages import Step
from opalgebra.scalar import is_natural

SHARE_OF_FREE = 0.9
FIGURES = 5


class Allocations(TorchDispatchMode):
    """Bytes of tensors that are made inside the block and that something refers to: `now`, and at most, `peak`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for given in _storages((args, kwargs)):
            self._note(given, 0)
        result = function(*args, **kwargs)
        for made in _storages(result):
            self._note(made, made.nbytes())
        return result

    def _note(self, storage: torch.UntypedStorage, size: int) -> None:
        key = id(storage)
        if key not in self._known:
            self._known.add(key)
            weakref.finalize(storage, self._freed, key, size)
            self.now += size
            self.peak = max(self.peak, self.now)

    def _freed(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def _storages(tree: Any) -> Iterable[torch.UntypedStorage]:
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


@dataclass(frozen=True)
class Plan:
    """How many orders pass a stage together, and the bytes that the whole run takes at most, beyond what is there before."""

    chunk: int
    peak: int


def plan(steps: Sequence[Step], like: Tensor, kept: int, memory: int | None) -> Plan:
    """The largest chunk with which `kept` orders of states such as `like` (batch, tokens, features) pass the steps within
    `memory` bytes; within `SHARE_OF_FREE` of what is free on the fullest device for None.

    LimitError when one order at a time does not fit, InputError when memory is no number of bytes.
    """
    if memory is not None and not (is_natural(memory) and memory > 0):
        raise InputError(f"memory={memory!r}: a budget is a positive number of bytes, or None for what is free")
    kinds: dict[Any, Step] = {}
    for step in steps:
        kinds.setdefault(tuple((tensor.shape, tensor.device) for tensor in tensors(step)), step)
    devices = {device for kind in kinds for _, device in kind} | {like.device}
    budget = int(SHARE_OF_FREE * min(map(free, devices))) if memory is None else memory
    needs = [need for step in kinds.values() for need in _needs(step, like, kept)]
    ladders = 2 if any(step.is_birthplace for step in kinds.values()) else 1
    kept_bytes = ladders * kept * like.numel() * like.element_size()
    least = kept_bytes + max(need.bytes(1) for need in needs)
    if least > budget:
        raise LimitError(
            f"{kept:,} orders of {like.shape[0]:,} x {like.shape[1]:,} tokens take {least:,} bytes, one at a time, and "
            f"{budget:,} are {'free' if memory is None else 'allowed'}; ask for fewer orders by order=, give a shorter input, "
            "or raise memory="
        )
    chunk = max(1, min(kept, *(need.chunk(budget - kept_bytes, kept) for need in needs)))
    return Plan(chunk, kept_bytes + max(need.bytes(chunk) for need in needs))


@dataclass(frozen=True)
class Need:
    """What something takes while a chunk of orders passes: `fixed + rate * chunk` bytes, for at most `most` orders."""

    fixed: int
    rate: int = 0
    most: int = 1

    def bytes(self, chunk: int) -> int:
        return self.fixed + self.rate * min(chunk, self.most)

    def chunk(self, budget: int, kept: int) -> int:
        """The most orders that may pass together within a budget in bytes."""
        return kept if self.bytes(kept) <= budget else (budget - self.fixed) // self.rate


def free(device: torch.device) -> int:
    """Bytes that may still be allocated on a device."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _needs(step: Step, like: Tensor, kept: int) -> list[Need]:
    """What a step takes as it is passed, as its sources are born, and what the figures of one order take afterwards.

    The highest order passes only what is resummed. A derivative applies to one order after another, and needs the numbers of
    its state: it is run for real, on one order, and what that takes is a bound.
    """
    figures = Need(FIGURES * like.numel() * torch.float64.itemsize)
    if any(isinstance(part, Derivative) for share in step.branches for part in (share.counted, share.resummed, share.before)):
        return [Need(_passed(step, beside(step, like), 1)), Need(_born(step)), figures]
    shapes, empty = with_tensors(step, lambda tensor: tensor.to("meta")), like.to("meta")
    one, two = (_passed(shapes, empty, orders) for orders in (1, 2))
    most = kept if any(share.resummed is not None for share in step.branches) else kept - 1
    return [Need(2 * one - two, two - one, max(most, 1)), Need(_born(shapes)), figures]


def _passed(step: Step, like: Tensor, orders: int) -> int:
    parts = like.new_zeros((orders + 1, *like.shape))
    with torch.no_grad(), Allocations() as allocations:
        step.carry(parts, orders, orders)
    return allocations.peak


def _born(step: Step) -> int:
    with torch.no_grad(), Allocations() as allocations:
        for _ in step.births():
            pass
    return allocations.peak
