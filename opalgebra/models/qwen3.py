"""Qwen3: as Llama, with a norm on each query and key before the rotation, heads of any size, and windows by layer.

A layer is `(1 + F M)(1 + A N)`; weights as in Llama, q_norm and k_norm over the features of one head.
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
    rms_norm,
    rotary,
    window_of,
)
from opalgebra.numeric.faithful import faithful

points = pre_norm_points


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "Qwen3", "Qwen3Model", "Qwen3ForCausalLM")
    check_configuration(network, "Qwen3")


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    maps = []
    for layer, kind in zip(base.layers, config.layer_types):
        visible = prompt.visible(window=window_of(config, kind))
        inner = layer.self_attn
        norms = (rms_norm(inner.q_norm), rms_norm(inner.k_norm))
        attention = projected_attention(inner, inner.head_dim, visible, choices, norms=norms, rotary=turned)
        ffn = projected_ffn(layer.mlp, layer.mlp.act_fn, choices)
        maps += pre_norm_layer(layer, attention, ffn)
    return Parts(maps, readout_of(network), len(base.layers), config.num_attention_heads)
