"""GPT-NeoX and Pythia: pre-norm, LayerNorm, rotary positions on a part of each head, plain feed-forward network.

A layer is one stage, `1 + A N + F M`, or `(1 + F M)(1 + A N)` when use_parallel_residual is off.
attention.query_key_value has query, key and value of one head after another, (heads, 3, size, features); attention.dense is
the output, mlp.dense_h_to_4h and mlp.dense_4h_to_h the network.
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
    layer_norm,
    parameters,
    plain_ffn,
    rotary,
)
from opalgebra.numeric.attention import Attention, Projection, Rotary
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.readout import Readout
from opalgebra.numeric.stages import BranchMaps, stage


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "GPT-NeoX", "GPTNeoXModel", "GPTNeoXForCausalLM")
    check_configuration(network, "GPT-NeoX")


def points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream, in order, the final norm last."""
    base = base_of(network, "gpt_neox")
    read_by = [
        (layer.input_layernorm,) if layer.use_parallel_residual else (layer.input_layernorm, layer.post_attention_layernorm)
        for layer in base.layers
    ]
    return [*(norm for norms in read_by for norm in norms), base.final_layer_norm]


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config, visible = base_of(network, "gpt_neox"), network.config, prompt.visible()
    with faithful(network):
        turned = rotary(base, base.embed_in(prompt.ids), prompt)
    maps = []
    for layer in base.layers:
        mlp = layer.mlp
        ffn = plain_ffn(parameters(mlp.dense_h_to_4h), parameters(mlp.dense_4h_to_h), mlp.act, choices)
        branches = (
            BranchMaps(_attention(layer.attention, visible, turned, choices), before=layer_norm(layer.input_layernorm)),
            BranchMaps(ffn, before=layer_norm(layer.post_attention_layernorm)),
        )
        maps += [stage(*branches)] if layer.use_parallel_residual else map(stage, branches)
    readout = Readout((layer_norm(base.final_layer_norm),), *parameters(getattr(network, "lm_head", None)))
    shape = {"parallel": bool(config.use_parallel_residual)}
    return Parts(maps, readout, len(base.layers), config.num_attention_heads, shape)


def _attention(module: Any, visible: torch.Tensor, turned: Rotary, choices: Mapping[str, str]) -> Attention:
    weight, bias = (
        None if part is None else part.unflatten(0, (-1, 3, module.head_size)) for part in parameters(module.query_key_value)
    )
    three = (Projection(weight[:, part], None if bias is None else bias[:, part]) for part in range(3))
    output, output_bias = parameters(module.dense)
    return Attention(*three, output, output_bias, module.scaling, visible, turned, split=choices["attention"])
