"""A binding is an interpretation of which states, orders and series can be asked, checked against the model itself."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from opalgebra.errors import ModelError
from opalgebra.expr import Operator
from opalgebra.numeric import evaluation, orders, roundoff
from opalgebra.numeric.interpretation import Interpretation
from opalgebra.series import Counting


@final
@dataclass(frozen=True, eq=False, repr=False)
class Binding(Interpretation):
    """One model at one input (batch, tokens), with its split named; made by `bind`."""

    def evaluate(self, state: Operator) -> Tensor:
        """A state expression as an array (tokens, features), with a leading batch axis for an input of token ids.

        InputError when it is no state or has atoms that are not the model's.
        """
        return self.unbatched(evaluation.evaluate(self, state).array)

    def orders(self, *, counting: Counting = "all", order: int | None = None) -> "orders.Orders":
        """All orders of the Dyson series on this input, in one pass over depth; see `opalgebra.numeric.orders`."""
        return orders.orders(self, counting=counting, order=order)


def self_check(binding: Binding) -> float:
    """The largest error of a block over its bound, each block run alone on the model's own recorded state.

    The bound is `lambda sqrt(m) u` (see `roundoff`) times what the rounding is relative to: the norm of the state it is
    added to, and the block's own `rounding_scale`. The logits of the last token are checked in the same way.
    ModelError naming the first block beyond its bound.
    """
    worst = 0.0
    recorded = binding.reference.states
    for index, ((norm, vertex), stage) in enumerate(zip(binding.maps, binding.T.stages)):
        state, after = recorded[index], recorded[index + 1]
        normed = norm(state)
        difference = (state + vertex(normed) - after).norm(dim=-1)
        scale = state.norm(dim=-1) + vertex.rounding_scale(normed)
        bound = roundoff.probable(norm.inner + vertex.inner, binding.dtype) * scale
        where = f"{stage.kind} of layer {stage.layer} (stage {stage.number})"
        worst = max(worst, _checked(where, difference, bound, after.norm(dim=-1), binding))
    readout, logits = binding.readout, binding.reference.logits
    if readout.unembedding is not None and logits is not None:
        normed, weight = readout.norm(recorded[-1][:, -1]), readout.unembedding
        own = torch.nn.functional.linear(normed, weight, readout.bias)
        scale = normed.norm(dim=-1, keepdim=True) * weight.norm(dim=1) + own.abs()
        bound = roundoff.probable(2 * weight.shape[1], binding.dtype) * scale
        last = logits[:, -1].to(own)
        worst = max(worst, _checked("unembedding", (own - last).abs(), bound, last.abs(), binding))
    return worst


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
