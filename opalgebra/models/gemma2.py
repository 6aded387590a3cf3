"""Gemma 2: norms before and after each block with weights `1 + w`, soft caps on attention and logits, alternating windows.

A layer is `(1 + Q F M)(1 + P A N)`. N, P, M and Q are input_layernorm, post_attention_layernorm, pre_feedforward_layernorm
and post_feedforward_layernorm; other weights as in Llama. The embedding module itself scales by sqrt(features).
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
    check_class(network, "Gemma 2", "Gemma2Model", "Gemma2ForCausalLM")
    check_configuration(network, "Gemma 2", use_bidirectional_attention=(None, False))


def points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream, in order, the final norm last."""
    base = base_of(network)
    norms = [norm for layer in base.layers for norm in (layer.input_layernorm, layer.pre_feedforward_layernorm)]
    return [*norms, base.norm]


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    maps = []
    for layer, kind in zip(base.layers, config.layer_types):
        visible = prompt.visible(window=config.sliding_window if kind == "sliding_attention" else None)
        inner = layer.self_attn
        attention = projected_attention(
            inner, inner.head_dim, visible, choices, rotary=turned, softcap=inner.attn_logit_softcapping
        )
        ffn = projected_ffn(layer.mlp, layer.mlp.act_fn, choices)
        around = (layer.input_layernorm, layer.post_attention_layernorm)
        before, after = (rms_norm(norm, offset=1.0) for norm in around)
        maps.append(stage(BranchMaps(attention, before, after)))
        around = (layer.pre_feedforward_layernorm, layer.post_feedforward_layernorm)
        before, after = (rms_norm(norm, offset=1.0) for norm in around)
        maps.append(stage(BranchMaps(ffn, before, after)))
    readout = Readout(
        (rms_norm(base.norm, offset=1.0),), *parameters(getattr(network, "lm_head", None)), cap=config.final_logit_softcapping
    )
    return Parts(maps, readout, len(base.layers), config.num_attention_heads, {"norm": "sandwich"})
