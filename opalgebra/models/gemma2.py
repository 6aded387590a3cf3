"""Gemma 2: norms before and after each block with weights `1 + w`, soft caps on attention and logits, alternating windows.

A layer is `(1 + Q F M)(1 + P A N)`. N, P, M and Q are input_layernorm, post_attention_layernorm, pre_feedforward_layernorm
and post_feedforward_layernorm; other weights as in Llama. The embedding module itself scales by sqrt(features).
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
    rotary,
    sandwich_layer,
    sandwich_points,
    window_of,
)
from opalgebra.numeric.faithful import faithful

points = sandwich_points


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "Gemma 2", "Gemma2Model", "Gemma2ForCausalLM")
    check_configuration(network, "Gemma 2", use_bidirectional_attention=(None, False))


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    maps = []
    for layer, kind in zip(base.layers, config.layer_types):
        visible = prompt.visible(window=window_of(config, kind))
        inner = layer.self_attn
        attention = projected_attention(
            inner, inner.head_dim, visible, choices, rotary=turned, softcap=inner.attn_logit_softcapping
        )
        ffn = projected_ffn(layer.mlp, layer.mlp.act_fn, choices)
        maps += sandwich_layer(layer, attention, ffn, offset=1.0)
    readout = readout_of(network, offset=1.0, cap=config.final_logit_softcapping)
    return Parts(maps, readout, len(base.layers), config.num_attention_heads, {"norm": "sandwich"})
