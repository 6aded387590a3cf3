"""`torch.nn.TransformerEncoder`: post-norm or, by norm_first, pre-norm; bidirectional, LayerNorm, plain network.

A layer is `M (1 + F) N (1 + A)`, or `(1 + F M)(1 + A N)`. It reads vectors (batch, tokens, features), whatever its own order of
axes, and has no embedding and no unembedding. self_attn.in_proj_weight has queries, keys and values one after another,
linear1 and linear2 are the network, norm1 and norm2 the norms.
"""

from collections.abc import Mapping
from typing import Any

import torch

from opalgebra.errors import ModelError
from opalgebra.models.family import (
    Parts,
    Prompt,
    layer_norm,
    parameters,
    plain_ffn,
    projection,
)
from opalgebra.numeric.attention import Attention
from opalgebra.numeric.faithful import Output, Reference, reference
from opalgebra.numeric.readout import Readout
from opalgebra.numeric.stages import BranchMaps, stage


def refused(network: Any) -> None:
    """ModelError for layers that are not torch's own or that do more than those of this family."""
    first = network.layers[0]
    for number, layer in enumerate(network.layers, start=1):
        attention = getattr(layer, "self_attn", None)
        if type(layer) is not torch.nn.TransformerEncoderLayer or type(attention) is not torch.nn.MultiheadAttention:
            what = f"is a {type(layer).__name__}, not torch's TransformerEncoderLayer"
        elif layer.norm_first != first.norm_first:
            what = "has another norm_first than the first"
        elif attention.bias_k is not None or attention.add_zero_attn:
            what = "adds keys of its own (add_bias_kv or add_zero_attn)"
        elif not attention._qkv_same_embed_dim:
            what = "has keys or values of another size (kdim or vdim)"
        else:
            continue
        raise ModelError(f"layer {number} of the TransformerEncoder {what}, which is not read here")
    if network.norm is not None and type(network.norm) is not torch.nn.LayerNorm:
        raise ModelError(
            f"the norm of the TransformerEncoder is a {type(network.norm).__name__}, and only LayerNorm is read here"
        )


def points(network: Any) -> list[torch.nn.Module | Output]:
    """The modules that read the residual stream, in order; the last state is what the last layer gives."""
    read_by = [(layer.norm1, layer.norm2) if layer.norm_first else (layer, layer.linear1) for layer in network.layers]
    return [*(module for both in read_by for module in both), Output(network.layers[-1])]


def run(network: Any, prompt: Prompt, points: list[Any]) -> Reference:
    """The forward on the vectors of the prompt."""
    vectors, batch_first = prompt.vectors, network.layers[0].self_attn.batch_first
    assert vectors is not None
    padded = None if prompt.mask is None else ~prompt.mask
    inputs = {"src": vectors if batch_first else vectors.transpose(0, 1), "src_key_padding_mask": padded}
    return reference(network, inputs, points, batch_first, prompt.mask)


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    visible = prompt.visible(causal=False)
    maps = []
    for layer in network.layers:
        first, second = layer_norm(layer.norm1), layer_norm(layer.norm2)
        attention = _attention(layer.self_attn, visible, choices)
        ffn = plain_ffn(parameters(layer.linear1), parameters(layer.linear2), layer.activation, choices)
        if layer.norm_first:
            maps += [stage(BranchMaps(attention, before=first)), stage(BranchMaps(ffn, before=second))]
        else:
            maps += [stage(BranchMaps(attention), after=first), stage(BranchMaps(ffn), after=second)]
    readout = Readout() if network.norm is None else Readout((layer_norm(network.norm),))
    shape = {"norm": "pre" if network.layers[0].norm_first else "post", "causal": False}
    return Parts(maps, readout, len(network.layers), network.layers[0].self_attn.num_heads, shape)


def _attention(module: Any, visible: torch.Tensor, choices: Mapping[str, str]) -> Attention:
    weight, bias = (None if part is None else part.detach() for part in (module.in_proj_weight, module.in_proj_bias))
    biases = (None, None, None) if bias is None else bias.chunk(3)
    three = (projection(w, b, module.head_dim) for w, b in zip(weight.chunk(3), biases))
    output, output_bias = parameters(module.out_proj)
    return Attention(*three, output, output_bias, module.head_dim**-0.5, visible, split=choices["attention"])
