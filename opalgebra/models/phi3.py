"""Phi-3: as Llama, with fused weights, rotary positions on a part of each head, and a window if there is one.

A layer is `(1 + F M)(1 + A N)`. self_attn.qkv_proj has all queries, then all keys, then all values; mlp.gate_up_proj the gate,
then the other factor.
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
    gated_ffn,
    parameters,
    pre_norm_layer,
    pre_norm_points,
    projection,
    readout_of,
    rotary,
)
from opalgebra.numeric.attention import Attention, Rotary
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.ffn import GatedFFN

points = pre_norm_points


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "Phi-3", "Phi3Model", "Phi3ForCausalLM")
    check_configuration(network, "Phi-3", attention_bias=False, lm_head_bias=False)


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    visible = prompt.visible(window=config.sliding_window)
    maps = []
    for layer in base.layers:
        attention = _attention(layer.self_attn, config, visible, turned, choices)
        ffn = _ffn(layer.mlp, choices)
        maps += pre_norm_layer(layer, attention, ffn)
    return Parts(maps, readout_of(network), len(base.layers), config.num_attention_heads)


def _attention(module: Any, config: Any, visible: torch.Tensor, turned: Rotary, choices: Mapping[str, str]) -> Attention:
    size, (weight, _) = module.head_dim, parameters(module.qkv_proj)
    rows = [heads * size for heads in (config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads)]
    three = (projection(part, None, size) for part in weight.split(rows))
    output, _ = parameters(module.o_proj)
    return Attention(*three, output, None, module.scaling, visible, turned, split=choices["attention"])


def _ffn(module: Any, choices: Mapping[str, str]) -> GatedFFN:
    gate, up = parameters(module.gate_up_proj)[0].chunk(2)
    return gated_ffn((gate, None), (up, None), parameters(module.down_proj), module.activation_fn, choices)
