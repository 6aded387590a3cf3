"""The Llama family: pre-norm, sequential, RMSNorm, rotary positions, grouped-query attention, gated feed-forward network.

A layer is `(1 + F M)(1 + A N)`. Weights are read in place: self_attn.{q,k,v,o}_proj, mlp.{gate,up,down}_proj,
input_layernorm and post_attention_layernorm (the norm before the feed-forward network). The rotary table is the model's own.
"""

from collections.abc import Mapping
from typing import Any

from opalgebra.models.family import (
    Parts,
    Prompt,
    base_of,
    check_class,
    check_configuration,
    pre_norm_layer,
    pre_norm_points,
    projected_attention,
    projected_ffn,
    readout_of,
    rotary,
)
from opalgebra.numeric.faithful import faithful

points = pre_norm_points


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "Llama", "LlamaModel", "LlamaForCausalLM")
    check_configuration(network, "Llama", pretraining_tp=1)


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
        maps += pre_norm_layer(layer, attention, ffn)
    return Parts(maps, readout_of(network), len(base.layers), config.num_attention_heads)
