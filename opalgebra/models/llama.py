"""The Llama family: pre-norm, sequential, RMSNorm, rotary positions, grouped-query attention, gated feed-forward network.

A layer is `(1 + F M)(1 + A N)`. Weights are read in place: self_attn.{q,k,v,o}_proj, mlp.{gate,up,down}_proj,
input_layernorm and post_attention_layernorm (the norm before the feed-forward network). The rotary table is the model's own.
"""

from collections.abc import Mapping
from typing import Any

import torch

from opalgebra.models.family import (
    Parts,
    Prompt,
    base_of,
    check_class,
    check_configuration,
    parameters,
    projected_attention,
    projected_ffn,
    rms_norm,
    rotary,
)
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.readout import Readout
from opalgebra.numeric.stages import BranchMaps, stage


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "Llama", "LlamaModel", "LlamaForCausalLM")
    check_configuration(network, "Llama", pretraining_tp=1)


def points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream, in order, the final norm last."""
    base = base_of(network)
    norms = [norm for layer in base.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    return [*norms, base.norm]


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    visible = prompt.visible()
    maps = []
    for layer in base.layers:
        attention = projected_attention(layer.self_attn, layer.self_attn.head_dim, visible, choices, rotary=turned)
        ffn = projected_ffn(layer.mlp, layer.mlp.act_fn, choices)
        maps += [
            stage(BranchMaps(attention, before=rms_norm(layer.input_layernorm))),
            stage(BranchMaps(ffn, before=rms_norm(layer.post_attention_layernorm))),
        ]
    readout = Readout((rms_norm(base.norm),), *parameters(getattr(network, "lm_head", None)))
    return Parts(maps, readout, len(base.layers), config.num_attention_heads)
