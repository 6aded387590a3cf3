"""What is bound: a text, token ids or vectors, checked against what the model reads, with a mask and positions."""

from typing import Any

import torch
from torch import Tensor

from opalgebra.errors import InputError
from opalgebra.models.family import Prompt
from opalgebra.models.load import Model

_EMPTY = "the prompt is empty; give at least one token"


def prompt_of(model: Model, input: Any, mask: Any, positions: Any) -> Prompt:
    """The prompt of an input, on the model's device. InputError for what the model cannot read."""
    first = next(model.network.parameters())
    config = getattr(model.network, "config", None)
    if isinstance(input, str):
        if mask is not None or positions is not None:
            raise InputError("mask= and positions= belong to token ids (batch, tokens); a text has neither")
        ids = torch.tensor([model.token_ids(input)], dtype=torch.long)
        return _checked(model, Prompt(ids.to(first.device), None, None))
    if config is None:
        return _vectors(model, input, mask, positions)
    ids = _array(input, "integers; give a text, or token ids (batch, tokens) with rows of the same length")
    if ids.numel() == 0:
        raise InputError(_EMPTY)
    if ids.ndim != 2 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise InputError(f"token ids are integers (batch, tokens), not {ids.dtype} of shape {tuple(ids.shape)}")
    own_mask, own_positions = _mask(mask, ids.shape), _positions(positions, ids.shape)
    moved = (None if part is None else part.to(first.device) for part in (own_mask, own_positions))
    return _checked(model, Prompt(ids.long().to(first.device), *moved))


def _checked(model: Model, prompt: Prompt) -> Prompt:
    if prompt.ids.numel() == 0:
        raise InputError(_EMPTY)
    config, ids = model.network.config, prompt.ids
    longest, vocabulary = config.max_position_embeddings, config.vocab_size
    if ids.shape[1] > longest:
        raise InputError(f"the prompt has {ids.shape[1]:,} tokens and {model.name} reads at most {longest:,}; shorten it")
    if ids.min() < 0 or ids.max() >= vocabulary:
        raise InputError(f"token ids run from 0 to {vocabulary - 1:,}, but the input has {int(ids.min())} to {int(ids.max())}")
    if prompt.places.max() >= longest:
        raise InputError(f"positions run from 0 to {longest - 1:,}, but the input has {int(prompt.places.max())}")
    return prompt


def _vectors(model: Model, input: Any, mask: Any, positions: Any) -> Prompt:
    """The prompt of a model without an embedding."""
    first = next(model.network.parameters())
    vectors = _array(input, "numbers; give vectors (batch, tokens, features)")
    if vectors.ndim != 3 or not vectors.is_floating_point():
        raise InputError(
            f"{model.name} has no embedding and reads vectors (batch, tokens, features), not {vectors.dtype} of shape "
            f"{tuple(vectors.shape)}"
        )
    if vectors.numel() == 0:
        raise InputError(_EMPTY)
    if positions is not None:
        raise InputError(f"{model.name} has no positions of its own; leave positions= out")
    own_mask = _mask(mask, vectors.shape[:2])
    own_mask = None if own_mask is None else own_mask.to(first.device)
    labels = torch.arange(vectors.shape[1], device=first.device).expand(vectors.shape[:2])
    return Prompt(labels, own_mask, None, vectors.to(first))


def _array(input: Any, wanted: str) -> Tensor:
    try:
        return torch.as_tensor(input)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"the input is a {type(input).__name__} that is no array of {wanted}") from error


def _mask(mask: Any, shape: torch.Size) -> Tensor | None:
    if mask is None:
        return None
    found = _array(mask, "ones and zeros; give a mask (batch, tokens)")
    if found.shape != shape or not ((found == 0) | (found == 1)).all():
        raise InputError(
            f"a mask is 1 at tokens and 0 at padding, of shape {tuple(shape)}; this one is {found.dtype} of shape "
            f"{tuple(found.shape)}"
        )
    if not found.bool().any(1).all():
        raise InputError("a row of the mask has no token; leave that row out")
    return found.bool()


def _positions(positions: Any, shape: torch.Size) -> Tensor | None:
    if positions is None:
        return None
    found = _array(positions, "integers; give positions (batch, tokens)")
    if found.shape != shape or found.is_floating_point() or found.dtype == torch.bool or (found < 0).any():
        raise InputError(
            f"positions are natural numbers of shape {tuple(shape)}; these are {found.dtype} of shape {tuple(found.shape)}"
        )
    return found.long()
