"""GPT-2: pre-norm, sequential, LayerNorm, absolute positions in the embedding, plain feed-forward network.

A layer is `(1 + F M)(1 + A N)`. Weights are stored (in, out): attn.c_attn has queries, keys and values one after another on
its last axis, attn.c_proj the output, mlp.c_fc and mlp.c_proj the network; norms ln_1, ln_2 and ln_f.
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
    projection,
)
from opalgebra.numeric.attention import Attention
from opalgebra.numeric.ffn import FFN
from opalgebra.numeric.readout import Readout
from opalgebra.numeric.stages import BranchMaps, stage


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "GPT-2", "GPT2Model", "GPT2LMHeadModel")
    check_configuration(network, "GPT-2", add_cross_attention=False, reorder_and_upcast_attn=False)


def points(network: Any) -> list[torch.nn.Module]:
    """The modules that read the residual stream, in order, the final norm last."""
    base = base_of(network, "transformer")
    return [*(norm for layer in base.h for norm in (layer.ln_1, layer.ln_2)), base.ln_f]


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, visible = base_of(network, "transformer"), prompt.visible()
    maps = []
    for layer in base.h:
        maps += [
            stage(BranchMaps(_attention(layer.attn, visible, choices), before=layer_norm(layer.ln_1))),
            stage(BranchMaps(_ffn(layer.mlp, choices), before=layer_norm(layer.ln_2))),
        ]
    readout = Readout((layer_norm(base.ln_f),), *parameters(getattr(network, "lm_head", None)))
    return Parts(maps, readout, len(base.h), network.config.n_head)


def _turned(module: Any) -> tuple[Any, Any]:
    """The weight (out, in) and the bias of a module that stores its weight (in, out)."""
    weight, bias = parameters(module)
    return weight.T, bias


def _attention(module: Any, visible: torch.Tensor, choices: Mapping[str, str]) -> Attention:
    weight, bias = _turned(module.c_attn)
    three = (projection(w, b, module.head_dim) for w, b in zip(weight.chunk(3), bias.chunk(3)))
    output, output_bias = _turned(module.c_proj)
    return Attention(*three, output, output_bias, module.scaling, visible, split=choices["attention"])


def _ffn(module: Any, choices: Mapping[str, str]) -> FFN:
    return plain_ffn(_turned(module.c_fc), _turned(module.c_proj), module.act, choices)
