"""Mixtral: as Mistral, with experts for the feed-forward network: each token is served by the few its router prefers.

A layer is `(1 + F M)(1 + A N)`, and F is the sum over the chosen experts e of r_e times their gated network. mlp.gate is the
router, mlp.experts.gate_up_proj (experts, 2 * hidden, features) has the gate first, mlp.experts.down_proj (experts, features,
hidden) the way down.
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
    pre_norm_layer,
    pre_norm_points,
    projected_attention,
    readout_of,
    rotary,
)
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.ffn import Experts
from opalgebra.numeric.roundoff import probable

points = pre_norm_points


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "Mixtral", "MixtralModel", "MixtralForCausalLM")
    check_configuration(network, "Mixtral")


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network), network.config
    with faithful(network):
        turned = rotary(base, base.embed_tokens(prompt.ids), prompt)
    visible = prompt.visible(window=config.sliding_window)
    maps = []
    choices_of_its_own = _choices(network, prompt) if prompt.cache is None else [None] * len(base.layers)
    for layer, own in zip(base.layers, choices_of_its_own):
        attention = projected_attention(layer.self_attn, layer.self_attn.head_dim, visible, choices, rotary=turned)
        ffn = _experts(layer.mlp, own, choices)
        maps += pre_norm_layer(layer, attention, ffn)
    return Parts(maps, readout_of(network), len(base.layers), config.num_attention_heads)


def _choices(network: Any, prompt: Prompt) -> list[torch.Tensor]:
    """The experts that the model itself chooses in each layer, (batch * tokens, experts of a token)."""
    found: list[torch.Tensor] = []
    with faithful(network):
        routers = [layer.mlp.gate for layer in base_of(network).layers]
        handles = [router.register_forward_hook(lambda module, given, gave: found.append(gave[2])) for router in routers]
        try:
            network(**prompt.inputs())
        finally:
            for handle in handles:
                handle.remove()
    return found


def _experts(module: Any, own: torch.Tensor | None, choices: Mapping[str, str]) -> Experts:
    inner = module.experts
    experts = []
    for both, down in zip(inner.gate_up_proj.detach(), inner.down_proj.detach()):
        gate, up = both.chunk(2)
        experts.append(gated_ffn((gate, None), (up, None), (down, None), inner.act_fn, choices))
    router = module.gate.weight.detach()
    slack = 2 * probable(router.shape[1], router.dtype)  # two logits are compared
    return Experts(router, tuple(experts), module.gate.top_k, own, slack)
