"""BERT: post-norm, bidirectional, LayerNorm, absolute positions in the embedding, plain feed-forward network.

A layer is `M (1 + F) N (1 + A)`. attention.self.{query,key,value} and attention.output.dense are the heads, intermediate.dense
and output.dense the network; N and M are attention.output.LayerNorm and output.LayerNorm. x[0] is the normed embedding. The
language head is `decoder(LayerNorm(act(dense(x))))`, cls.predictions.
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
from opalgebra.numeric.faithful import Output
from opalgebra.numeric.readout import Dense, Readout
from opalgebra.numeric.stages import BranchMaps, stage


def refused(network: Any) -> None:
    """ModelError for another head or configuration than this family's."""
    check_class(network, "BERT", "BertModel", "BertForMaskedLM", "BertLMHeadModel")
    check_configuration(
        network, "BERT", add_cross_attention=False, chunk_size_feed_forward=0, position_embedding_type="absolute"
    )


def points(network: Any) -> list[torch.nn.Module | Output]:
    """The modules that read the residual stream, in order; the last state is what the last layer gives."""
    layers = base_of(network, "bert").encoder.layer
    return [*(module for layer in layers for module in (layer.attention, layer.intermediate)), Output(layers[-1])]


def read(network: Any, prompt: Prompt, choices: Mapping[str, str]) -> Parts:
    """The maps of every stage on a prompt, and the read-out."""
    base, config = base_of(network, "bert"), network.config
    visible = prompt.visible(causal=config.is_decoder)
    maps = []
    for layer in base.encoder.layer:
        ffn = plain_ffn(
            parameters(layer.intermediate.dense),
            parameters(layer.output.dense),
            layer.intermediate.intermediate_act_fn,
            choices,
        )
        maps += [
            stage(
                BranchMaps(_attention(layer.attention, visible, choices)), after=layer_norm(layer.attention.output.LayerNorm)
            ),
            stage(BranchMaps(ffn), after=layer_norm(layer.output.LayerNorm)),
        ]
    shape = {"norm": "post", "causal": bool(config.is_decoder)}
    return Parts(maps, _readout(network), len(base.encoder.layer), config.num_attention_heads, shape)


def _readout(network: Any) -> Readout:
    head = getattr(network, "cls", None)
    if head is None:
        return Readout()
    transform = head.predictions.transform
    dense = Dense(*parameters(transform.dense), transform.transform_act_fn)
    return Readout((dense, layer_norm(transform.LayerNorm)), *parameters(head.predictions.decoder))


def _attention(module: Any, visible: torch.Tensor, choices: Mapping[str, str]) -> Attention:
    inner = module.self
    three = (projection(*parameters(part), inner.attention_head_size) for part in (inner.query, inner.key, inner.value))
    output, output_bias = parameters(module.output.dense)
    return Attention(*three, output, output_bias, inner.scaling, visible, split=choices["attention"])
