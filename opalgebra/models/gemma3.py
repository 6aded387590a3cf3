"""Gemma 3, its language model: as Gemma 2, with norms on queries and keys, two rotary tables and no cap on attention.

A layer is `(1 + Q F M)(1 + P A N)`; weights as in Gemma 2, q_norm and k_norm with weights `1 + w` over the features of one
head. Layers of kind `sliding_attention` have a window and a rotary table of their own.
"""

from collections.abc import Mapping
from typing import Any

from opalgebra.models.family import (
    Parts,
    Prompt,
    base_of,
    check_class,
    check_configuration,
    projected_attention,
    projected_ffn,
    readout_of,
    rms_norm,
    rotary,
    sandwich_layer,
    sandwich_points,
    window_of,
)
from opalgebra.numeric.faithful import faithful

points = sandwich_points


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "Gemma 3", "Gemma3TextModel", "Gemma3ForCausalLM")
    check_configuration(network, "Gemma 3", use_bidirectional_attention=(False, None))


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = {kind: rotary(base, base.embed_tokens(prompt.ids), prompt, kind) for kind in set(config.layer_types)}
    maps = []
    for layer, kind in zip(base.layers, config.layer_types):
        visible = prompt.visible(window=window_of(config, kind))
        inner = layer.self_attn
        norms = (rms_norm(inner.q_norm, offset=1.0), rms_norm(inner.k_norm, offset=1.0))
        attention = projected_attention(inner, inner.head_dim, visible, choices, norms=norms, rotary=turned[kind])
        ffn = projected_ffn(layer.mlp, layer.mlp.act_fn, choices)
        maps += sandwich_layer(layer, attention, ffn, offset=1.0)
    readout = readout_of(network, offset=1.0, cap=config.final_logit_softcapping)
    return Parts(maps, readout, len(base.layers), config.num_attention_heads, {"norm": "sandwich"})
