"""The Llama family: pre-norm, sequential, RMSNorm, rotary positions, grouped-query attention, gated feed-forward network.

A layer is `(1 + F M)(1 + A N)`. Weights are read in place: self_attn.{q,k,v,o}_proj, mlp.{gate,up,down}_proj,
input_layernorm and post_attention_layernorm (the norm before the feed-forward network). The rotary table is the model's own.
"""

from typing import Any

import torch
from torch import Tensor

from opalgebra.errors import ModelError
from opalgebra.models.family import Parts
from opalgebra.numeric.blocks import Attention, GatedFFN, RMSNorm
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.interpretation import Readout


def points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream, in order, the final norm last."""
    base = _base(network)
    norms = [norm for layer in base.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    return [*norms, base.norm]


def read(network: Any, ids: Tensor, split: dict[str, str]) -> Parts:
    """The maps of every stage on ids (batch, tokens), and the read-out. ModelError for unknown options."""
    _check(network)
    base, config = _base(network), network.config
    with faithful(network):
        embedded = base.embed_tokens(ids)
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        cosine, sine = (table[0] for table in base.rotary_emb(embedded, positions))
    maps = []
    for layer in base.layers:
        inner, mlp = layer.self_attn, layer.mlp
        q, k, v, o = (_parameters(module) for module in (inner.q_proj, inner.k_proj, inner.v_proj, inner.o_proj))
        gate, up, down = (_parameters(module) for module in (mlp.gate_proj, mlp.up_proj, mlp.down_proj))
        attention = Attention(
            query=q[0], key=k[0], value=v[0], output=o[0], query_bias=q[1], key_bias=k[1], value_bias=v[1], output_bias=o[1],
            heads=config.num_attention_heads, key_heads=config.num_key_value_heads, scaling=inner.scaling, cosine=cosine,
            sine=sine, split=split["attention"],
        )  # fmt: skip
        ffn = GatedFFN(
            gate=gate[0], up=up[0], down=down[0], gate_bias=gate[1], up_bias=up[1], down_bias=down[1],
            activation=mlp.act_fn, split=split["ffn"],
        )  # fmt: skip
        maps += [(_norm(layer.input_layernorm), attention), (_norm(layer.post_attention_layernorm), ffn)]
    readout = Readout(_norm(base.norm), *_parameters(getattr(network, "lm_head", None)))
    return Parts(maps, readout, len(base.layers), config.num_attention_heads)


def _base(network: Any) -> Any:
    return getattr(network, "model", network)


def _parameters(module: Any) -> tuple[Any, Tensor | None]:
    """The weight and the bias of a module, each the model's own memory outside any gradient; None for what it lacks."""
    found = (getattr(module, name, None) for name in ("weight", "bias"))
    weight, bias = (None if parameter is None else parameter.detach() for parameter in found)
    return weight, bias


def _norm(module: Any) -> RMSNorm:
    return RMSNorm(module.weight.detach(), module.variance_epsilon)


def _check(network: Any) -> None:
    """Refuses a configuration that says more than this adapter knows."""
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaModel

    if not isinstance(network, LlamaForCausalLM | LlamaModel):
        raise ModelError(
            f"{type(network).__name__} is a Llama model with a head or class that is not known; pass its LlamaModel or a "
            "LlamaForCausalLM"
        )
    known = {*LlamaConfig().to_dict(), *_HARMLESS}
    named = (key for key in network.config.to_dict() if not key.startswith("_") and not key.endswith("_token_id"))
    unknown = sorted(key for key in named if key not in known)
    if unknown:
        raise ModelError(
            f"the configuration of {type(network).__name__} has {unknown[0]!r}, which the Llama adapter does not know; "
            "remove it if it does not change the forward pass"
        )
    if getattr(network.config, "pretraining_tp", 1) != 1:
        raise ModelError("pretraining_tp other than 1 changes the order of products and is not known here; set it to 1")


# Attributes that checkpoints of this family carry and that no forward pass reads.
_HARMLESS = frozenset({"is_llama_config", "rope_interleaved", "torch_dtype", "transformers.js_config"})
