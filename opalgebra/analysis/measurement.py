"""Logits along depth, in the two senses that are often taken for one.

    logit lens       the final norm is computed anew from the state of each depth, as if the model ended there
    frozen logits    the final norm keeps the scale that it has at the last state, so that logits are linear in the state, and
                     the difference of two depths is what the stages between them contributed

Both are the model's logits at the last depth. With a scale that grows with depth the frozen logits of early states are small
however clear these states are, and the lens of the first state is no contribution to anything.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.errors import InputError
from opalgebra.numeric.binding import Binding


def logit_lens(binding: Binding, *, position: int = -1) -> Any:
    """(stages + 1, vocabulary): the logits of the state of every depth at a position, its own norm and the soft cap included.

    A leading batch axis for an input of token ids; -1 is the last token that is not padded. InputError without an unembedding
    or for a position that the input does not have.
    """
    states = _states(binding, position)
    return _given(binding, torch.stack([binding.readout.logits(state)[:, 0] for state in states]))


def frozen_logits(binding: Binding, *, position: int = -1) -> Any:
    """(stages + 1, vocabulary): the same with the read-out frozen at the last state, and before any soft cap.

    Linear in the state up to a constant: the last row is the model's logits before the cap. Shapes and errors as `logit_lens`.
    """
    states, readout = _states(binding, position), binding.readout
    dressings = readout.frozen(states[-1])
    found = []
    for state in states:
        for dressing in dressings:
            state = dressing.whole(state)
        found.append(functional.linear(state, readout.unembedding, readout.bias)[:, 0])
    return _given(binding, torch.stack(found))


def _states(binding: Binding, position: int) -> Tensor:
    """(stages + 1, batch, 1, features): the model's own states at one position."""
    if not isinstance(binding, Binding):
        raise InputError(f"{type(binding).__name__} is no bound model; bind one at an input")
    if binding.readout.unembedding is None:
        raise InputError(f"{binding.model.name} has no unembedding and so no logits; bind a model with a language head")
    if not isinstance(position, int) or not -1 <= position < binding.tokens:
        raise InputError(f"position {position!r} was asked of {binding.tokens} tokens; they count from 0, and -1 is the last")
    rows = torch.arange(len(binding.ids), device=binding.ids.device)
    place = binding.last if position == -1 else torch.full_like(rows, position)
    return binding.reference.states[:, rows, place][:, :, None].to(binding.dtype)


def _given(binding: Binding, logits: Tensor) -> Any:
    return binding.unbatched(logits.movedim(0, 1).double().cpu()).numpy()
