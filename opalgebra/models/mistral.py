"""Mistral: as Llama, with one window for every layer: each token sees the last `sliding_window`, itself included.

A layer is `(1 + F M)(1 + A N)`; weights as in Llama.
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
    check_class(network, "Mistral", "MistralModel", "MistralForCausalLM")
    check_configuration(network, "Mistral")


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    visible = prompt.visible(window=config.sliding_window)
    maps = []
    for layer in base.layers:
        attention = projected_attention(layer.self_attn, layer.self_attn.head_dim, visible, choices, rotary=turned)
        ffn = projected_ffn(layer.mlp, layer.mlp.act_fn, choices)
        maps += pre_norm_layer(layer, attention, ffn)
    return Parts(maps, readout_of(network), len(base.layers), config.num_attention_heads)
