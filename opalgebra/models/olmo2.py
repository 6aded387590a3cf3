"""OLMo-2: a norm after each block inside its residual, norms over all queries and all keys, no norm before a block.

A layer is `(1 + M F)(1 + N A)`. N and M are post_attention_layernorm and post_feedforward_layernorm, q_norm and k_norm
reach over all heads together; other weights as in Llama.
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
    projected_attention,
    projected_ffn,
    readout_of,
    rms_norm,
    rotary,
)
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.stages import BranchMaps, stage


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "OLMo-2", "Olmo2Model", "Olmo2ForCausalLM")
    check_configuration(network, "OLMo-2")


def points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream, in order, the final norm last."""
    base = base_of(network)
    return [*(module for layer in base.layers for module in (layer, layer.mlp)), base.norm]


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    visible = prompt.visible()
    maps = []
    for layer in base.layers:
        inner = layer.self_attn
        norms = (rms_norm(inner.q_norm), rms_norm(inner.k_norm))
        attention = projected_attention(inner, inner.head_dim, visible, choices, norms=norms, rotary=turned)
        ffn = projected_ffn(layer.mlp, layer.mlp.act_fn, choices)
        maps += [
            stage(BranchMaps(attention, after=rms_norm(layer.post_attention_layernorm))),
            stage(BranchMaps(ffn, after=rms_norm(layer.post_feedforward_layernorm))),
        ]
    return Parts(maps, readout_of(network), len(base.layers), config.num_attention_heads, {"norm": "branch"})
