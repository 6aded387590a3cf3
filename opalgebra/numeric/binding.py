"""A binding is an interpretation of which states, orders and series can be asked, checked against the model itself."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from opalgebra.display import Tabulated
from opalgebra.errors import ModelError
from opalgebra.expr import Operator
from opalgebra.numeric import evaluation, orders, roundoff
from opalgebra.numeric.interpretation import Interpretation
from opalgebra.numeric.maps import Map, beside
from opalgebra.numeric.stages import StageMaps
from opalgebra.render.table import Table, table
from opalgebra.series import Counting


@final
@dataclass(frozen=True, eq=False, repr=False)
class Binding(Interpretation, Tabulated):
    """One model at one input (batch, tokens), with its split named; made by `bind`."""

    def evaluate(self, state: Operator) -> Tensor:
        """A state expression as an array (tokens, features), with a leading batch axis for an input of token ids.

        InputError when it is no state or has atoms that are not the model's.
        """
        return self.unbatched(evaluation.evaluate(self, state).array)

    def orders(
        self, *, counting: Counting = "all", order: int | None = None, memory: int | None = None
    ) -> "orders.Orders":
        """All orders of the Dyson series on this input, in one pass over depth; see `opalgebra.numeric.orders`."""
        return orders.orders(self, counting=counting, order=order, memory=memory)

    def peak_memory(self, *, counting: Counting = "all", order: int | None = None, memory: int | None = None) -> int:
        """The bytes that `orders` would take at most, found without taking them; see `opalgebra.numeric.memory`."""
        return orders.peak_memory(self, counting=counting, order=order, memory=memory)


def self_check(binding: Binding) -> float:
    """The largest error of a block over its bound, each block run alone on the model's own recorded state.

    The bound is `lambda sqrt(m) u` (see `roundoff`) times what the rounding is relative to: the norm of the state it is
    added to, and the block's own `rounding_scale`. The logits of the last token are checked in the same way.
    ModelError naming the first block beyond its bound.
    """
    worst = 0.0
    recorded, dtype = binding.reference.states, binding.reference.states.dtype
    for index, (maps, stage) in enumerate(zip(binding.maps, binding.T.stages)):
        state, after = (beside(maps, recorded[place].to(binding.dtype)) for place in (index, index + 1))
        difference = binding.real((maps(state) - after).norm(dim=-1), 0.0)
        scale, inner = scale_of_stage(maps, state)
        kinds = " and ".join(branch.kind for branch in stage.branches)
        where = f"{kinds} of layer {stage.layer} (stage {stage.number})"
        bound = roundoff.probable(inner, dtype) * binding.real(scale, 1.0)
        worst = max(worst, _checked(where, difference, bound, after.norm(dim=-1), binding))
    readout, logits = binding.readout, binding.reference.logits
    if readout.unembedding is not None and logits is not None:
        rows = torch.arange(len(logits), device=logits.device)
        last, state = logits[rows, binding.last], recorded[-1][rows, binding.last][:, None].to(binding.dtype)
        last, state = beside(readout, last), beside(readout, state)
        normed, own = readout.values(state)[-1][:, 0], readout.logits(state)[:, 0]
        reach = normed.norm(dim=-1, keepdim=True) * readout.unembedding.norm(dim=1)
        scale = readout.rounding_scale(state)[:, 0] * reach + own.abs()
        inner = sum(part.inner for part in readout.maps) + 2 * readout.unembedding.shape[1]
        bound = roundoff.probable(inner, dtype) * scale
        worst = max(worst, _checked("unembedding", (own - last).abs(), bound, last.abs(), binding))
    return worst


def scale_of_stage(maps: StageMaps, state: Tensor) -> tuple[Tensor, int]:
    """(batch, tokens): the norm to which the rounding error of a stage is relative, and the inner dimensions summed in it.

    A norm before a vertex passes on its own relative error, at the worst token; one after it stretches what went before.
    """
    scale, inner = state.norm(dim=-1), 0
    tiny = torch.finfo(state.dtype).tiny
    for branch in maps.branches:
        read, value, _ = branch.parts(state)
        own = branch.vertex.rounding_scale(read)
        if branch.before is not None:
            own = own * (branch.before.rounding_scale(state) / read.norm(dim=-1).clamp(min=tiny)).amax().clamp(min=1.0)
        inner = max(inner, sum(part.inner for part in (branch.before, branch.vertex, branch.after) if part is not None))
        scale = scale + (own if branch.after is None else _stretched(branch.after, value, own))
    if maps.after is not None:
        scale, inner = _stretched(maps.after, maps.sum(state), scale), inner + maps.after.inner
    return scale, inner


def _stretched(norm: Map, state: Tensor, scale: Tensor) -> Tensor:
    return norm.rounding_scale(state) + norm.gain(state) * scale


def _checked(where: str, difference: Tensor, bound: Tensor, size: Tensor, binding: Binding) -> float:
    """The largest difference over its bound; ModelError beyond it."""
    ratio = torch.where(difference == 0, 0.0, difference / bound).nan_to_num(nan=torch.inf)
    worst = ratio.max().item()
    if worst > 1:
        relative = torch.where(difference == 0, 0.0, difference / size).max().item()
        dtype = str(binding.dtype).removeprefix("torch.")
        raise ModelError(
            f"the self-check failed at the {where}: it differs from the model's own forward by {relative:.1e}, "
            f"{worst:.1e} times the rounding bound of {dtype}; the adapter does not describe this model, or its numbers "
            "leave the range of the dtype (check=False binds it all the same)"
        )
    return worst


@table.register
def _(value: Binding) -> Table:
    rows = [
        ("architecture", str(value.T)),
        ("input", " x ".join(map(str, value.ids.shape)) + " tokens"),
        ("split", ", ".join(f"{kind} {choice}" for kind, choice in value.split.items())),
        ("dtype, device", f"{value.dtypes}, {value.devices}"),
        ("largest error of the self-check over its bound", value.deviation),
    ]
    return Table(["binding", value.model.name], rows)
