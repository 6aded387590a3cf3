"""Binding a model to its symbolic Transformer: choose the family, freeze every stage, check against the model itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from opalgebra.architecture import Architecture, transformer
from opalgebra.errors import InputError, ModelError
from opalgebra.models import FAMILIES, UNREAD
from opalgebra.models.family import Parts, Prompt, placed
from opalgebra.models.load import Model, load
from opalgebra.models.prompt import prompt_of
from opalgebra.models.trace import WEIGHTS, Trace, check_weights, made_with, vocabulary, weights_digest
from opalgebra.numeric.attention import Attention
from opalgebra.numeric.binding import Binding, self_check
from opalgebra.numeric.faithful import Reference, full_precision, one_at_a_time, reference
from opalgebra.numeric.ffn import Experts, GatedFFN
from opalgebra.numeric.interpretation import Origin
from opalgebra.numeric.maps import Differentiated, Map, cast
from opalgebra.numeric.stages import BranchMaps, FrozenStage, StageMaps, freeze, product

SPLITS = {"attention": ("frozen", "source"), "ffn": ("gate", "tangent", "source")}
GATED = ("gate", "up", "half")
ACCUMULATED = {name: dtype for dtype in (torch.float64, torch.float32) for name in (dtype, str(dtype).removeprefix("torch."))}
ENCODER = "torch.nn.TransformerEncoder"


def bind(
    model: Model | torch.nn.Module | str | Trace,
    input: str | Tensor | None = None,
    *,
    split: str | Mapping[str, str] = "gate",
    gated: str = "gate",
    heads: bool = False,
    check: bool = True,
    mask: Any = None,
    positions: Any = None,
    accumulate: torch.dtype | str | None = None,
) -> Binding:
    """The atoms of a model's symbolic Transformer `M.T` as array functions at one input, or at the run of a trace.

    input: a text (results then have no batch axis), integer token ids (batch, tokens), or for a model without an embedding
    vectors (batch, tokens, features). mask (batch, tokens): 1 or True at tokens, 0 or False at padding, on any side or
    between; what is padded counts in no figure and no verdict, and figures by token are NaN there. positions (batch, tokens):
    the position of each token; by default they are counted from the first token that is not padded.

    split: "gate", "tangent" or "source" names the split of the feed-forward network and leaves attention "frozen"; a mapping
    {"attention": "frozen" | "source", "ffn": ...} names both; "jacobian" stands alone and differentiates everything, norms
    too. gated: which factor of a gated unit the split "gate" freezes: "gate", "up", or "half" for the mean of both. heads=True
    makes every attention head a vertex. accumulate="float64" or "float32" evaluates the frozen stages of a shorter model in
    that dtype; what the model itself rounded is then a row of its own.

    With `check`, every block is compared with the model's own forward in its dtype and ModelError names one that differs.
    One thread at a time runs a model. InputError for an empty or too long input or an unknown split; ModelError for a
    family that is not known, a weight that is not finite, a configuration that the family's adapter does not know.
    """
    choices = split_choices(split, gated)
    if accumulate is not None and accumulate not in ACCUMULATED:
        raise InputError(
            f"accumulate={accumulate!r} is not known; use 'float64' or 'float32', or leave it out for the model's own dtype"
        )
    options = Options(choices, gated, check_heads(heads), check, None if accumulate is None else ACCUMULATED[accumulate])
    if isinstance(model, Trace):
        if any(given is not None for given in (input, mask, positions)):
            raise InputError("a trace has its own input; bind it alone, or record another")
        return _bind_trace(model, options)
    if input is None:
        raise InputError("a model is bound at an input; give a text, or token ids (batch, tokens)")
    model, family = known_model(model)
    prompt = prompt_of(model, input, mask, positions)
    with one_at_a_time(), torch.no_grad(), full_precision():
        parts = parts_under(family, model, prompt, choices, gated)
        own = forward_of(family, model, prompt)
        return _bound(model, prompt, not isinstance(input, str), parts, own, options)


@dataclass(frozen=True)
class Options:
    """What is asked of a binding besides its model and input."""

    choices: dict[str, str]
    gated: str = "gate"
    heads: bool = False
    check: bool = True
    accumulate: torch.dtype | None = None

    @property
    def are_recorded(self) -> bool:
        """Whether a trace holds what these splits freeze."""
        return self.choices == split_choices("gate", "gate") and self.accumulate is None


def record(
    model: Model | torch.nn.Module | str,
    input: str | Tensor,
    *,
    device: torch.device | str | None = None,
    weights: str = "blocks",
    mask: Any = None,
    positions: Any = None,
) -> Trace:
    """One run of a model at one input, as a trace that `bind` takes in place of both, without the model.

    weights: "blocks" puts the weights into the trace; "reference" puts the model's name, by which it is loaded again and its
    weights compared when the trace is bound. device: where a model of a name is run. The input, mask and positions are those of
    `bind`, and so are the errors; ModelError also for an activation that cannot be stored.

    >>> import opalgebra as oa
    >>> oa.record("smollm2", "The capital of France is", weights="reference")  # doctest: +SKIP
    Trace(smollm2, (1, 5) tokens, weights by reference, float64, recorded on cpu x86_64)
    """
    if weights not in WEIGHTS:
        raise InputError(f"weights={weights!r} is not known; use {' or '.join(map(repr, WEIGHTS))}")
    known = load(model, device=device) if isinstance(model, str) else model
    found, family = known_model(known)
    prompt = prompt_of(found, input, mask, positions)
    with one_at_a_time(), torch.no_grad(), full_precision():
        own = forward_of(family, found, prompt)
        parts = parts_under(family, found, prompt, split_choices("gate", "gate"), "gate") if weights == "blocks" else None
        frozen = None if parts is None else tuple(freeze(own.states, parts.maps)[0])
    return Trace(
        origin=vocabulary(found),
        prompt=prompt,
        has_batch=not isinstance(input, str),
        reference=own,
        parts=parts,
        frozen=frozen,
        weights=None if parts is not None else weights_digest(found),
        made=made_with(own),
    )


def known_model(model: Model | torch.nn.Module | str) -> tuple[Model, ModuleType]:
    """A model that is loaded and may be read, and its family."""
    found = model if isinstance(model, Model) else load(model)
    family = _family(found)
    family.refused(found.network)
    _check_weights(found)
    return found, family


def _bind_trace(trace: Trace, options: Options) -> Binding:
    with torch.no_grad(), full_precision():
        if trace.parts is None:
            dtype, place = getattr(torch, trace.made["dtype"]), trace.reference.states.device
            model, family = known_model(load(trace.origin.name, dtype=dtype, device=place))
            check_weights(trace, model)
            parts = parts_under(family, model, trace.prompt, options.choices, options.gated)
            return _bound(model, trace.prompt, trace.has_batch, parts, trace.reference, options)
        parts = _under(trace.parts, trace.origin.name, options.choices, options.gated)
        frozen = trace.frozen if options.are_recorded else None
        return _bound(trace.origin, trace.prompt, trace.has_batch, parts, trace.reference, options, frozen)


def _bound(
    model: Origin,
    prompt: Prompt,
    has_batch: bool,
    parts: Parts,
    own: Reference,
    options: Options,
    frozen: Sequence[FrozenStage] | None = None,
) -> Binding:
    """The binding of a run; `frozen` are the dressings where they are known."""
    recorded = own.states
    if options.accumulate is not None:
        if torch.finfo(options.accumulate).eps > torch.finfo(recorded.dtype).eps:
            raise InputError(f"{model.name} computes in {recorded.dtype}, longer than {options.accumulate} to accumulate in")
        parts, recorded = cast(parts, options.accumulate), recorded.to(options.accumulate)
    stages, states = freeze(recorded, parts.maps) if frozen is None else (list(frozen), product(recorded[0], frozen))
    binding = Binding(
        model=model,
        T=architecture_of(parts, heads=options.heads),
        ids=prompt.ids,
        has_batch=has_batch,
        split=options.choices,
        maps=parts.maps,
        frozen=stages,
        states=states,
        reference=own,
        readout=parts.readout,
        mask=prompt.mask,
    )
    return replace(binding, deviation=self_check(binding)) if options.check else binding


def architecture_of(parts: Parts, *, heads: bool) -> Architecture:
    """The symbolic Transformer of array functions, with every attention head a vertex if `heads`."""
    shape = dict(parts.shape)
    if heads and any(branch.vertex.common is not None for maps in parts.maps for branch in maps.branches):
        shape["biases"] = True
    return transformer(parts.layers, parts.heads if heads else None, **shape)


def forward_of(family: ModuleType, model: Model, prompt: Prompt) -> Reference:
    """The model's own forward."""
    run = getattr(family, "run", _forward)
    return run(model.network, prompt, family.points(model.network))  # type: ignore[no-any-return]


def _forward(network: torch.nn.Module, prompt: Prompt, points: list[Any]) -> Reference:
    """The forward of a model of transformers."""
    return reference(network, prompt.inputs(), points, real=prompt.mask)


def parts_under(family: ModuleType, model: Model, prompt: Prompt, choices: Mapping[str, str], gated: str) -> Parts:
    """The family's array functions under a split."""
    parts = family.read(model.network, prompt, {"attention": "frozen", "ffn": "gate", "gated": "gate"})
    return _under(placed(parts), model.name, choices, gated)


def _under(parts: Parts, name: str, choices: Mapping[str, str], gated: str) -> Parts:
    """Array functions under a split."""
    vertices = [branch.vertex for maps in parts.maps for branch in maps.branches]
    if gated != "gate" and not any(isinstance(vertex, GatedFFN | Experts) for vertex in vertices):
        raise InputError(f"gated={gated!r}: {name} has no gated units; leave gated= out")
    if choices["ffn"] == "jacobian":
        return replace(parts, maps=[_differentiated(maps) for maps in parts.maps])
    return replace(parts, maps=[_split_stage(maps, choices, gated) for maps in parts.maps])


def _split_stage(maps: StageMaps, choices: Mapping[str, str], gated: str) -> StageMaps:
    def under(vertex: Any) -> Any:
        if isinstance(vertex, Experts):
            return replace(vertex, experts=tuple(map(under, vertex.experts)))
        own = {"split": choices["attention" if isinstance(vertex, Attention) else "ffn"]}
        return replace(vertex, **own, **({"frozen": gated} if isinstance(vertex, GatedFFN) else {}))

    return replace(maps, branches=tuple(replace(branch, vertex=under(branch.vertex)) for branch in maps.branches))


def _differentiated(maps: StageMaps) -> StageMaps:
    def each(part: Map | None) -> Any:
        return None if part is None else Differentiated(part)

    branches = (BranchMaps(each(own.vertex), each(own.before), each(own.after)) for own in maps.branches)
    return StageMaps(tuple(branches), each(maps.after))


def family_of(model_type: str) -> ModuleType | None:
    """The adapter that reads a transformers `model_type`, or None."""
    return import_module(f"opalgebra.models.{FAMILIES[model_type]}") if model_type in FAMILIES else None


def _family(model: Model) -> ModuleType:
    model_type = getattr(getattr(model.network, "config", None), "model_type", None)
    if isinstance(model.network, torch.nn.TransformerEncoder):
        model_type = ENCODER
    family = family_of(model_type) if model_type else None
    if family is None:
        known = ", ".join(FAMILIES)
        what = f"family {model_type!r}" if model_type else f"class {type(model.network).__name__}"
        why = f": {UNREAD[model_type]}" if model_type in UNREAD else ""
        raise ModelError(f"{model.name} is of the {what}, which no adapter reads{why}; families known here: {known}")
    return family


def check_heads(heads: object) -> bool:
    """The same; InputError for what is neither True nor False."""
    if not isinstance(heads, bool):
        raise InputError(f"heads={heads!r} is neither True, every attention head a vertex, nor False")
    return heads


def split_choices(split: str | Mapping[str, str], gated: str) -> dict[str, str]:
    """The split of attention and of the feed-forward network that is asked for. InputError for one that is not known."""
    if not isinstance(split, str | Mapping):
        raise InputError(f"split={split!r} is not known; use a name such as 'gate', or a mapping of 'attention' and 'ffn'")
    if gated not in GATED:
        raise InputError(f"gated={gated!r} is not known; use {', '.join(map(repr, GATED))}")
    if split == "jacobian":
        if gated != "gate":
            raise InputError(f"gated={gated!r} freezes a factor, and split='jacobian' differentiates both; leave gated= out")
        return dict.fromkeys(("attention", "ffn", "norm"), "jacobian")
    choices = {"attention": "frozen", "ffn": "gate"} | ({"ffn": split} if isinstance(split, str) else dict(split))
    for kind, choice in choices.items():
        if choice not in SPLITS.get(kind, ()):
            options = "; ".join(f"{name}: {', '.join(values)}" for name, values in SPLITS.items())
            raise InputError(f"split {kind}={choice!r} is not known; use {options}; or split='jacobian' for everything")
    if gated != "gate":
        if choices["ffn"] != "gate":
            raise InputError(
                f"gated={gated!r} names a factor that ffn='gate' freezes, but ffn={choices['ffn']!r}; use ffn='gate'"
            )
        choices["gated"] = gated
    return choices


def _check_weights(model: Model) -> None:
    for name, value in (*model.network.named_parameters(), *model.network.named_buffers()):
        if value.is_meta:
            raise ModelError(
                f"{name} of {model.name} is not in memory but offloaded or never loaded (its device is 'meta'), and binding "
                "reads weights in place; load the model with a device_map that names no 'disk', and no 'cpu' beside a GPU"
            )
    for name, weight in model.network.named_parameters():
        if not torch.isfinite(weight.sum()) and not (finite := torch.isfinite(weight)).all():
            place = tuple((~finite).nonzero()[0].tolist())
            raise ModelError(
                f"the weight {name} of {model.name} is {weight[place].item()} at index {place}; mend the weights and load again"
            )
