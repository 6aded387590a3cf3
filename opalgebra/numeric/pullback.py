"""Covectors pulled back through linear maps: `<c, A y> = <A^T c, y>`, by automatic differentiation of the map itself.

No map states its transpose, so that none can state it wrongly: A is applied once, and differentiated once for all covectors.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from opalgebra.errors import InputError
from opalgebra.numeric.interpretation import Interpretation


def pulled(linear: Callable[[Tensor], Tensor], covectors: Tensor) -> Tensor:
    """`A^T c` for each of the covectors (rows, batch, tokens, features), for a linear map of such arrays."""
    if not len(covectors):
        return covectors
    with torch.inference_mode(False), torch.enable_grad():
        at = torch.zeros_like(covectors[:1]).requires_grad_()
        value = linear(at)
        if not value.requires_grad:
            return torch.zeros_like(covectors)
        (found,) = torch.autograd.grad(value, at, covectors[:, None], is_grads_batched=True, allow_unused=True)
    return torch.zeros_like(covectors) if found is None else found[:, 0]


def readout_covector(binding: Interpretation, token: str | int, minus: str | int | None = None) -> Tensor:
    """(1, 1, tokens, features): what a logit at the last token, or a difference of two, reads of the last state.

    The read-out is frozen at the last state, so that this times the parts of that state are `R.logits(token, minus).orders`.
    InputError for several rows of ids or a model without an unembedding.
    """
    readout = binding.readout
    if len(binding.ids) != 1:
        raise InputError(f"diagrams of {len(binding.ids)} prompts at once were asked; bind one text, or one row of token ids")
    if readout.unembedding is None:
        raise InputError(f"{binding.model.name} has no unembedding and so no logits; bind a model with a language head")
    last = int(binding.last[0])
    ids = [binding.model.token_id(part) for part in ([token] if minus is None else [token, minus])]
    with torch.no_grad():
        rows = readout.unembedding[ids].to(binding.states)
        covector = (rows[0] if minus is None else rows[0] - rows[1])[None, None, None]
        state = binding.reference.states[-1, :, last][:, None].to(binding.states)
        for dressing in reversed(readout.frozen(state)):
            covector = pulled(dressing, covector)
        found = torch.zeros_like(binding.states[:1])
        found[:, :, last] = covector[:, :, 0]
    return found


def only(position: int, states: Tensor) -> Tensor:
    """States (rows, batch, tokens, features) with every token but one set to zero."""
    kept = torch.zeros_like(states)
    kept[..., position, :] = states[..., position, :]
    return kept
