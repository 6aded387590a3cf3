"""What every family's adapter is given and gives, and the pieces that several of them are made of.

An adapter has `points(network)`, the modules that read the residual stream in order; `read(network, prompt, choices)`, the
array functions of every stage; and `refused(network)`, which names what the family does not know. Weights are the model's
own memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from opalgebra.errors import ModelError
from opalgebra.numeric.attention import Attention, Projection, Rotary
from opalgebra.numeric.ffn import FFN, GatedFFN
from opalgebra.numeric.maps import Map, device_of, moved
from opalgebra.numeric.norms import LayerNorm, Norm, RMSNorm
from opalgebra.numeric.readout import Readout
from opalgebra.numeric.stages import BranchMaps, StageMaps, stage


@dataclass(frozen=True, eq=False)
class Prompt:
    """ids (batch, tokens); vectors (batch, tokens, features) for a model without an embedding, where ids number the tokens;
    mask (batch, tokens) is False at padded positions; positions (batch, tokens) as given. With a cache of transformers, by the
    name that the model has for it, the ids are of the tokens that come after the `past` ones whose keys and values it holds.
    """

    ids: Tensor
    mask: Tensor | None
    positions: Tensor | None
    vectors: Tensor | None = None
    past: int = 0
    cache: Mapping[str, Any] | None = None

    @property
    def places(self) -> Tensor:
        """The position of each token: as given, or counted from the first that is not padded."""
        if self.positions is not None:
            return self.positions
        if self.mask is not None:
            return (self.mask.long().cumsum(-1) - 1).clamp(min=0)
        return torch.arange(self.past, self.past + self.ids.shape[1], device=self.ids.device)[None]

    def inputs(self) -> dict[str, Any]:
        """The arguments of the model's own forward. With positions alone a mask of ones goes along, without which
        transformers takes a jump in the positions for the beginning of another text.
        """
        inputs = {"input_ids": self.ids, "use_cache": self.cache is not None, "return_dict": True, **(self.cache or {})}
        if self.mask is not None or self.positions is not None:
            ones = torch.ones_like(self.ids) if self.mask is None else self.mask.long()
            inputs |= {"attention_mask": ones, "position_ids": self.places.expand(self.ids.shape)}
        return inputs

    def visible(self, *, causal: bool = True, window: int | None = None) -> Tensor:
        """(batch or 1, tokens, tokens): which tokens, on the last axis with those of the past, each token sees; at most
        `window`, itself included.
        """
        places = torch.arange(self.past + self.ids.shape[1], device=self.ids.device)
        distance = places[self.past :, None] - places
        seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
        if window is not None:
            seen = seen & (distance < window)
        return seen[None] if self.mask is None else seen[None] & self.mask[:, None, :]


@dataclass(frozen=True, eq=False)
class Parts:
    """maps: the array functions of each stage. shape: what `opalgebra.transformer` is asked besides layers and heads."""

    maps: Sequence[StageMaps]
    readout: Readout
    layers: int
    heads: int
    shape: Mapping[str, Any] = field(default_factory=dict)


def placed(parts: Parts) -> Parts:
    """Each stage on the device of its first weight, and the read-out on that of its unembedding.

    What is moved is what the stages of a model share, masks and tables, once for each device; the weights only of a stage that
    is itself spread. On one device everything is itself.
    """
    known: dict[Any, Tensor] = {}
    readout = parts.readout
    last = device_of(readout if readout.unembedding is None else readout.unembedding)
    maps = [moved(own, device_of(own), known) for own in parts.maps]
    return replace(parts, maps=maps, readout=moved(readout, last, known))


def parameters(module: Any) -> tuple[Any, Tensor | None]:
    """The weight and the bias of a module, each the model's own memory outside any gradient; None for what it lacks."""
    found = (getattr(module, name, None) for name in ("weight", "bias"))
    weight, bias = (None if parameter is None else parameter.detach() for parameter in found)
    return weight, bias


def rms_norm(module: Any, *, offset: float = 0.0) -> RMSNorm:
    """A norm by the root mean square, which calls its epsilon `variance_epsilon` or `eps`."""
    epsilon = module.variance_epsilon if hasattr(module, "variance_epsilon") else module.eps
    return RMSNorm(module.weight.detach(), epsilon, offset)


def layer_norm(module: Any) -> LayerNorm:
    """A `torch.nn.LayerNorm` over the features."""
    return LayerNorm(*parameters(module), module.eps, module.normalized_shape[0])


def projection(weight: Tensor, bias: Tensor | None, size: int, norm: Norm | None = None) -> Projection:
    """Heads of a size from a weight (heads * size, features) and a bias (heads * size,)."""
    return Projection(weight.unflatten(0, (-1, size)), None if bias is None else bias.unflatten(0, (-1, size)), norm)


def projected_attention(
    module: Any,
    size: int,
    visible: Tensor,
    choices: Mapping[str, str],
    *,
    norms: tuple[Any, Any] = (None, None),
    **options: Any,
) -> Attention:
    """Attention with the modules q_proj, k_proj, v_proj and o_proj; norms of queries and of keys."""
    query, key, value = (
        projection(*parameters(part), size, norm)
        for part, norm in ((module.q_proj, norms[0]), (module.k_proj, norms[1]), (module.v_proj, None))
    )
    output, bias = parameters(module.o_proj)
    return Attention(query, key, value, output, bias, module.scaling, visible, split=choices["attention"], **options)


def gated_ffn(gate: Any, up: Any, down: Any, activation: Any, choices: Mapping[str, str]) -> GatedFFN:
    """A gated network from pairs of a weight (out, in) and a bias."""
    return GatedFFN(
        gate=gate[0], up=up[0], down=down[0], gate_bias=gate[1], up_bias=up[1], down_bias=down[1], activation=activation,
        split=choices["ffn"], frozen=choices["gated"],
    )  # fmt: skip


def projected_ffn(module: Any, activation: Any, choices: Mapping[str, str]) -> GatedFFN:
    """A gated network with the modules gate_proj, up_proj and down_proj."""
    return gated_ffn(*map(parameters, (module.gate_proj, module.up_proj, module.down_proj)), activation, choices)


def plain_ffn(up: Any, down: Any, activation: Any, choices: Mapping[str, str]) -> FFN:
    """A plain network from pairs of a weight (out, in) and a bias."""
    return FFN(up[0], down[0], up[1], down[1], activation, choices["ffn"])


def pre_norm_points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream of a stack of layers with a norm before each block, the final norm last."""
    base = base_of(network)
    norms = [norm for layer in base.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    return [*norms, base.norm]


def pre_norm_layer(layer: Any, attention: Attention, ffn: Map) -> list[StageMaps]:
    """`(1 + F M)(1 + A N)` with the norms input_layernorm and post_attention_layernorm."""
    return [
        stage(BranchMaps(attention, before=rms_norm(layer.input_layernorm))),
        stage(BranchMaps(ffn, before=rms_norm(layer.post_attention_layernorm))),
    ]


def sandwich_points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream of a stack of layers with norms around each block, the final norm last."""
    base = base_of(network)
    norms = [norm for layer in base.layers for norm in (layer.input_layernorm, layer.pre_feedforward_layernorm)]
    return [*norms, base.norm]


def sandwich_layer(layer: Any, attention: Attention, ffn: Map, *, offset: float) -> list[StageMaps]:
    """`(1 + Q F M)(1 + P A N)` with the four norms of Gemma, their weights stored less the offset."""
    around = (
        (attention, layer.input_layernorm, layer.post_attention_layernorm),
        (ffn, layer.pre_feedforward_layernorm, layer.post_feedforward_layernorm),
    )
    return [stage(BranchMaps(block, *(rms_norm(norm, offset=offset) for norm in norms))) for block, *norms in around]


def readout_of(network: Any, *, offset: float = 0.0, cap: float | None = None) -> Readout:
    """The final norm, and the unembedding lm_head of a network that has one."""
    return Readout((rms_norm(base_of(network).norm, offset=offset),), *parameters(getattr(network, "lm_head", None)), cap=cap)


def window_of(config: Any, kind: str) -> int | None:
    """The window of a layer of a kind that config.layer_types names."""
    return config.sliding_window if kind == "sliding_attention" else None


def rotary(network: Any, embedded: Tensor, prompt: Prompt, *kind: str) -> Rotary:
    """The rotary table of the model's own module, at the positions of the prompt; call it inside `faithful`."""
    return Rotary(*network.rotary_emb(embedded, prompt.places, *kind))


def base_of(network: Any, name: str = "model") -> Any:
    """The stack of layers under a head, or the network itself."""
    return getattr(network, name, network)


def check_class(network: Any, family: str, *classes: str) -> None:
    """ModelError unless the network is of one of these classes of transformers."""
    import transformers

    if not isinstance(network, tuple(getattr(transformers, name) for name in classes)):
        *others, last = classes
        named = f"{', '.join(others)} or {last}" if others else last
        raise ModelError(f"{type(network).__name__} is a {family} model with a head or class that is not known; pass a {named}")


def check_configuration(network: Any, family: str, **needed: Any) -> None:
    """ModelError for an attribute that the family's configuration class does not have, and for one with another value than
    is needed: a value, or several in a tuple.
    """
    config = network.config
    known = {*type(config)().to_dict(), *needed, *_HARMLESS}
    named = (key for key in config.to_dict() if not key.startswith("_") and not key.endswith("_token_id"))
    unknown = sorted(key for key in named if key not in known)
    if unknown:
        raise ModelError(
            f"the configuration of {type(network).__name__} has {unknown[0]!r}, which the {family} adapter does not know; "
            "remove it if it does not change the forward pass"
        )
    for key, values in needed.items():
        allowed = values if isinstance(values, tuple) else (values,)
        found = getattr(config, key, allowed[0])
        if found not in allowed:
            raise ModelError(
                f"the configuration of {type(network).__name__} has {key}={found!r}, which changes the forward pass in a way "
                f"that the {family} adapter does not know; it reads models with {key}={allowed[0]!r}"
            )


# Attributes that published checkpoints carry and that no forward pass reads.
_HARMLESS = frozenset(
    "auto_map cache_implementation directionality gradient_checkpointing is_llama_config n_ctx pooler_fc_size "
    "pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type rope_interleaved "
    "task_specific_params torch_dtype transformers.js_config".split()
)
