"""Measurement: the last state read in the basis of the vocabulary, by order, by block, and along depth in two senses.

    probabilities    softmax of the logits `<w_v, N x_L>`, with N the final norm, and their entropy
    by order         N frozen at the last state is linear: every order of the Dyson series has logits of its own, and so has
                     every block, which add up to the model's before any soft cap
    logit lens       the final norm is computed anew from the state of each depth, as if the model ended there
    frozen logits    the final norm keeps the scale that it has at the last state, so that logits are linear in the state, and
                     the difference of two depths is what the stages between them contributed

The lens and the frozen logits are the model's logits at the last depth. With a scale that grows with depth the frozen logits of
early states are small however clear these states are, and the lens of the first state is no contribution to anything.

Where the analogy with a quantum measurement ends. The vocabulary is the discrete basis in which the state is read, and one
outcome is drawn. But the weight of an outcome is a Gibbs weight, exp(<w_v, N x>) with energies -<w_v, N x> at temperature 1,
and not the Born rule |<w_v, x>|^2: the sign of an amplitude counts, adding a constant to all logits changes nothing, and
twice the state is half the temperature, not the same ray. The w_v are an overcomplete frame (`gram`), neither orthogonal nor
complete in the sense that their weights would add up to one without the partition function. Paths add in the logits and
multiply in the weights: there is no interference of probabilities. And nothing collapses: the state stays as it is, and the
token drawn enters the next position through the embedding.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.maps import beside
from opalgebra.series import Counting


@dataclass(frozen=True, eq=False)
class Measurement(Tabulated):
    """What the model says at one position; float64 NumPy, with a leading batch axis for an input of token ids.

    probabilities (vocabulary,): of the next token, any soft cap included. entropy: theirs, in nats. logits (vocabulary,):
    before any cap. by_order (orders, vocabulary) and by_block (stages + 1, vocabulary), the embedding first: their shares, by
    orders of the series and by stages; each of the two adds up to `logits - readout_bias`. readout_bias (vocabulary,): what
    the shifts of the final norm and the bias of the unembedding add whatever the state.
    """

    probabilities: Any
    entropy: Any
    logits: Any
    by_order: Any
    by_block: Any
    readout_bias: Any
    counting: str


def measurement(binding: Binding, position: int = -1, *, counting: Counting = "all") -> Measurement:
    """Probabilities, entropy and logits by order and by block at a position; see the module for what they are not.

    position: from 0, -1 for the last token that is not padded. counting: which vertices count as an order, as for
    `M.orders`. The final norm is frozen at the last state for the shares. InputError without an unembedding or for a position
    that the input does not have.

    >>> import opalgebra as oa
    >>> M = oa.bind(oa.load("smollm2"), "The capital of France is")
    >>> found = measurement(M, counting="attention")
    >>> M.model.token_texts([found.probabilities.argmax()]), f"{found.entropy:.2f} nats"
    ([' Paris'], '1.48 nats')
    """
    states, readout = _states(binding, position), binding.readout
    unembedding = binding.readout.unembedding
    assert unembedding is not None
    rows = torch.arange(len(binding.ids), device=binding.ids.device)
    found = binding.orders(counting=counting)
    parts = found.parts[:, rows, _place(binding, position)][:, :, None]
    blocks = torch.cat([states[:1], states[1:] - states[:-1]])
    constant = torch.zeros_like(states[-1])
    for dressing in readout.frozen(states[-1]):
        parts, blocks, constant = dressing(parts), dressing(blocks), dressing.whole(constant)
    parts, blocks, constant = (beside(readout, each) for each in (parts, blocks, constant))
    by_order, by_block = (functional.linear(each, unembedding)[:, :, 0] for each in (parts, blocks))
    bias = functional.linear(constant, unembedding, readout.bias)[:, 0]
    capped = readout.logits(states[-1])[:, 0]
    weights = torch.log_softmax(capped.double(), dim=-1)
    entropy = torch.special.entr(weights.exp()).sum(-1)
    whole = by_block.sum(0) + bias
    six = (weights.exp(), entropy, whole, by_order.movedim(0, 1), by_block.movedim(0, 1), bias)
    arrays = [binding.unbatched(each.double().cpu()).numpy() for each in six]
    arrays[1] = arrays[1] if arrays[1].ndim else float(arrays[1])
    return Measurement(*arrays, counting=found.counting)


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
        found.append(functional.linear(beside(readout, state), readout.unembedding, readout.bias)[:, 0])
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
    return binding.reference.states[:, rows, _place(binding, position)][:, :, None].to(binding.dtype)


def _place(binding: Binding, position: int) -> Tensor:
    """(batch,): a position in every row."""
    return binding.last if position == -1 else torch.full_like(binding.last, position)


def _given(binding: Binding, logits: Tensor) -> Any:
    return binding.unbatched(logits.movedim(0, 1).double().cpu()).numpy()
