"""Binding a model to its symbolic Transformer: choose the family, freeze every stage, check against the model itself."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from opalgebra.architecture import transformer
from opalgebra.errors import InputError, ModelError
from opalgebra.models import FAMILIES
from opalgebra.models.load import Model, load
from opalgebra.numeric.binding import Binding, self_check
from opalgebra.numeric.faithful import reference
from opalgebra.numeric.stages import freeze

FFN_SPLITS = ("gate", "source")
ATTENTION_SPLITS = ("frozen", "source")
_EMPTY = "the prompt is empty; give at least one token"


def bind(
    model: Model | torch.nn.Module | str,
    input: str | Tensor,
    *,
    split: str | Mapping[str, str] = "gate",
    gated: str = "gate",
    heads: bool = False,
    check: bool = True,
) -> Binding:
    """The atoms of a model's symbolic Transformer `M.T` as array functions at one input.

    input: a text (results then have no batch axis) or integer token ids (batch, tokens), without padding.
    split: "gate" or "source" names the split of the feed-forward network and leaves attention "frozen"; a mapping
    {"attention": "frozen" | "source", "ffn": "gate" | "source"} names both. gated: "gate", the factor of a gated unit
    that is frozen. heads=True makes every attention head a vertex.

    With `check`, every block is compared with the model's own float64 forward and ModelError names one that differs.
    One thread at a time runs a model. InputError for an empty or too long input or an unknown split; ModelError for a
    family that is not known, a weight that is not finite, a configuration that the family's adapter does not know.
    """
    choices = _split(split, gated)
    if not isinstance(heads, bool):
        raise InputError(f"heads={heads!r} is neither True, every attention head a vertex, nor False")
    model = model if isinstance(model, Model) else load(model)
    family = _family(model)
    _check_weights(model)
    ids = _ids(model, input)
    with torch.no_grad():
        parts = family.read(model.network, ids, choices)
        own = reference(model.network, ids, family.points(model.network))
        frozen, states = freeze(own.states, parts.maps)
        if heads:
            frozen[0].vertex.restricted([0])
        binding = Binding(
            model=model,
            T=transformer(parts.layers, parts.heads if heads else None),
            ids=ids,
            has_batch=not isinstance(input, str),
            split=choices,
            maps=parts.maps,
            frozen=frozen,
            states=states,
            reference=own,
            readout=parts.readout,
        )
        return replace(binding, deviation=self_check(binding)) if check else binding


def family_of(model_type: str) -> ModuleType | None:
    """The adapter that reads a transformers `model_type`, or None."""
    return import_module(f"opalgebra.models.{FAMILIES[model_type]}") if model_type in FAMILIES else None


def _family(model: Model) -> ModuleType:
    model_type = getattr(getattr(model.network, "config", None), "model_type", None)
    family = family_of(model_type) if model_type else None
    if family is None:
        known = ", ".join(FAMILIES)
        what = f"family {model_type!r}" if model_type else f"class {type(model.network).__name__}"
        raise ModelError(f"{model.name} is of the {what}, which no adapter reads; families known here: {known}")
    return family


def _split(split: str | Mapping[str, str], gated: str) -> dict[str, str]:
    if not isinstance(split, str | Mapping):
        raise InputError(f"split={split!r} is not known; use a name such as 'gate', or a mapping of 'attention' and 'ffn'")
    choices = {"attention": "frozen", "ffn": "gate"} | ({"ffn": split} if isinstance(split, str) else dict(split))
    allowed = {"attention": ATTENTION_SPLITS, "ffn": FFN_SPLITS}
    for kind, choice in choices.items():
        if choice not in allowed.get(kind, ()):
            options = "; ".join(f"{name}: {', '.join(values)}" for name, values in allowed.items())
            raise InputError(f"split {kind}={choice!r} is not known; use {options}")
    if gated != "gate":
        raise InputError(f"gated={gated!r} is not known; use gated='gate'")
    return choices


def _check_weights(model: Model) -> None:
    for name, weight in model.network.named_parameters():
        if not torch.isfinite(weight.sum()) and not (finite := torch.isfinite(weight)).all():
            place = tuple((~finite).nonzero()[0].tolist())
            raise ModelError(
                f"the weight {name} of {model.name} is {weight[place].item()} at index {place}; mend the weights and load again"
            )


def _ids(model: Model, input: Any) -> Tensor:
    device = next(model.network.parameters()).device
    if isinstance(input, str):
        ids = torch.tensor([model.token_ids(input)], dtype=torch.long)
    else:
        try:
            ids = torch.as_tensor(input)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"the input is a {type(input).__name__} that is no array of integers; give a text, or token ids (batch, "
                "tokens) with rows of the same length"
            ) from error
        if ids.numel() == 0:
            raise InputError(_EMPTY)
        if ids.ndim != 2 or ids.is_floating_point() or ids.dtype == torch.bool:
            raise InputError(f"token ids are integers (batch, tokens), not {ids.dtype} of shape {tuple(ids.shape)}")
        ids = ids.long()
    if ids.numel() == 0:
        raise InputError(_EMPTY)
    config = model.network.config
    longest, vocabulary = config.max_position_embeddings, config.vocab_size
    if ids.shape[1] > longest:
        raise InputError(f"the prompt has {ids.shape[1]:,} tokens and {model.name} reads at most {longest:,}; shorten it")
    if ids.min() < 0 or ids.max() >= vocabulary:
        raise InputError(f"token ids run from 0 to {vocabulary - 1:,}, but the input has {int(ids.min())} to {int(ids.max())}")
    return ids.to(device)
