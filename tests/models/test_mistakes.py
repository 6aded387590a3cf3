"""Mistakes of adapters that the self-check must see: each is planted in what an adapter reads, the model itself is right."""

from dataclasses import replace

import pytest
import torch
from models.families import WINDOW, inputs, tiny

import opalgebra as oa
from opalgebra.models.bind import family_of
from opalgebra.numeric.attention import Attention, Projection, Rotary
from opalgebra.numeric.ffn import Experts
from opalgebra.numeric.norms import Norm


def vertices(kind, change):
    """The change of every vertex of a kind."""

    def changed(maps):
        branches = (replace(b, vertex=change(b.vertex) if isinstance(b.vertex, kind) else b.vertex) for b in maps.branches)
        return replace(maps, branches=tuple(branches))

    return lambda parts: replace(parts, maps=[changed(maps) for maps in parts.maps])


def norms(change):
    """The change of every norm of the stages."""

    def each(norm):
        return None if norm is None else change(norm)

    def changed(maps):
        branches = (replace(b, before=each(b.before), after=each(b.after)) for b in maps.branches)
        return replace(maps, branches=tuple(branches), after=each(maps.after))

    return lambda parts: replace(parts, maps=[changed(maps) for maps in parts.maps])


def attention(**changes):
    return vertices(Attention, lambda found: replace(found, **{name: change(found) for name, change in changes.items()}))


def visible(condition):
    tokens = torch.arange(7)
    return attention(visible=lambda found: condition(tokens[:, None] - tokens)[None])


def three_first(found: Attention) -> Attention:
    """GPT-NeoX read as (3, heads, size) in place of (heads, 3, size)."""
    heads, size = found.query.heads, found.query.size
    weight = torch.stack([part.weight for part in (found.query, found.key, found.value)], 1).reshape(3, heads, size, -1)
    bias = torch.stack([part.bias for part in (found.query, found.key, found.value)], 1).reshape(3, heads, size)
    query, key, value = (Projection(weight[part], bias[part]) for part in range(3))
    return replace(found, query=query, key=key, value=value)


def tiled(found: Attention) -> Attention:
    """The key and value heads of a group exchanged with those of the next."""
    order = torch.arange(found.heads).view(found.key.heads, -1).T.flatten()
    output = found.output.unflatten(1, (found.heads, -1))[:, order].flatten(1)
    return replace(found, query=replace(found.query, weight=found.query.weight[order]), output=output)


def unbiased(norm: Norm) -> Norm:
    """The variance divided by one less: the scale as with another weight."""
    return replace(norm, weight=norm.weight * (1 - 1 / norm.features) ** 0.5)


def without_norms(found: Attention) -> Attention:
    return replace(found, query=replace(found.query, norm=None), key=replace(found.key, norm=None))


def one_head_alone(found: Attention) -> Attention:
    """The norm of all queries taken for a norm of each head."""
    norm = found.query.norm
    return replace(found, query=replace(found.query, norm=replace(norm, weight=norm.weight[: found.query.size])))


class OneOfAll(Experts):
    """Experts whose weights are those among all, not renormalised."""

    def routes(self, state):
        chosen = super().routes(state)[1]
        logits = torch.nn.functional.linear(state.reshape(-1, state.shape[-1]), self.router)
        return torch.softmax(logits, -1).gather(1, chosen), chosen


MISTAKES = {
    ("neox parallel", "queries, keys, values before heads"): vertices(Attention, three_first),
    ("neox sequential", "queries, keys, values before heads"): vertices(Attention, three_first),
    ("neox parallel", "rotation of the whole head"): attention(
        rotary=lambda found: Rotary(found.rotary.cosine.repeat(1, 1, 2), found.rotary.sine.repeat(1, 1, 2))
    ),
    ("qwen2", "key heads tiled"): vertices(Attention, tiled),
    ("gemma3", "key heads tiled"): vertices(Attention, tiled),
    ("gpt2", "variance unbiased"): norms(unbiased),
    ("bert", "variance unbiased"): norms(unbiased),
    ("gpt2", "shift of the norms left out"): norms(lambda norm: replace(norm, bias=None)),
    ("bert", "shift of the norms left out"): norms(lambda norm: replace(norm, bias=None)),
    ("encoder pre-norm", "shift of the norms left out"): norms(lambda norm: replace(norm, bias=None)),
    ("gpt2 scaled by layer", "one scaling for all layers"): attention(scaling=lambda found: 8**-0.5),
    ("gpt2", "queries and keys exchanged"): attention(query=lambda found: found.key, key=lambda found: found.query),
    ("gemma2", "weights of the norms without one"): norms(lambda norm: replace(norm, offset=0.0)),
    ("gemma3", "weights of the norms without one"): norms(lambda norm: replace(norm, offset=0.0)),
    ("gemma2", "no soft cap"): attention(softcap=lambda found: None),
    ("gemma3", "a soft cap"): attention(softcap=lambda found: 1.5),
    ("gemma2", "scaled by the size of a head"): attention(scaling=lambda found: 8**-0.5),
    ("gemma2", "no norm after the branches"): lambda parts: replace(
        parts, maps=[replace(m, branches=tuple(replace(b, after=None) for b in m.branches)) for m in parts.maps]
    ),
    ("olmo2", "no norm after the branches"): lambda parts: replace(
        parts, maps=[replace(m, branches=tuple(replace(b, after=None) for b in m.branches)) for m in parts.maps]
    ),
    ("gemma2", "no window"): visible(lambda distance: distance >= 0),
    ("gemma3", "windows everywhere"): visible(lambda distance: (distance >= 0) & (distance < WINDOW)),
    ("mistral", "no window"): visible(lambda distance: distance >= 0),
    ("mistral", "one more in the window"): visible(lambda distance: (distance >= 0) & (distance <= WINDOW)),
    ("phi3", "one less in the window"): visible(lambda distance: (distance >= 0) & (distance < WINDOW - 1)),
    ("mixtral", "no window"): visible(lambda distance: distance >= 0),
    ("qwen3", "a window in every layer"): visible(lambda distance: (distance >= 0) & (distance < WINDOW)),
    ("bert", "causal"): visible(lambda distance: distance >= 0),
    ("bert decoder", "bidirectional"): visible(lambda distance: distance > -9),
    ("encoder post-norm", "causal"): visible(lambda distance: distance >= 0),
    ("qwen3", "no norm of queries and keys"): vertices(Attention, without_norms),
    ("olmo2", "no norm of queries and keys"): vertices(Attention, without_norms),
    ("olmo2", "a norm of each query"): vertices(Attention, one_head_alone),
    ("qwen2", "no bias of the values"): attention(value=lambda found: replace(found.value, bias=None)),
    ("llama with biases", "no bias of the output"): attention(output_bias=lambda found: None),
    ("gemma3", "one rotary table"): attention(rotary=lambda found: Rotary(*GLOBAL)),
    ("mixtral", "weights not renormalised"): vertices(Experts, lambda e: OneOfAll(e.router, e.experts, e.top)),
    ("mixtral", "one expert more"): vertices(Experts, lambda e: replace(e, top=3, own=None)),
    ("mixtral", "gate and other factor exchanged"): vertices(
        Experts, lambda e: replace(e, experts=tuple(replace(x, gate=x.up, up=x.gate) for x in e.experts))
    ),
    ("phi3", "gate and other factor exchanged"): vertices(
        object, lambda found: replace(found, gate=found.up, up=found.gate) if hasattr(found, "gate") else found
    ),
    ("gemma2", "no cap on the logits"): lambda parts: replace(parts, readout=replace(parts.readout, cap=None)),
    ("bert", "no activation in the head"): lambda parts: replace(
        parts,
        readout=replace(
            parts.readout, maps=(replace(parts.readout.maps[0], activation=torch.nn.Identity()), *parts.readout.maps[1:])
        ),
    ),
    ("gpt2", "no final shift"): lambda parts: replace(
        parts, readout=replace(parts.readout, maps=(replace(parts.readout.maps[0], bias=None),))
    ),
    ("neox sequential", "two layers exchanged"): lambda parts: replace(parts, maps=[*parts.maps[2:], *parts.maps[:2]]),
}
ANGLE = (torch.arange(7, dtype=torch.float64)[:, None] * 1e6 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)).repeat(1, 2)
GLOBAL = ANGLE.cos()[None], ANGLE.sin()[None]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("mistake", MISTAKES, ids=": ".join)
def test_the_self_check_names_the_block_of_a_planted_mistake(mistake, dtype, monkeypatch):
    family, network = mistake[0], tiny(mistake[0], dtype=dtype)
    adapter = family_of(getattr(getattr(network, "config", None), "model_type", "torch.nn.TransformerEncoder"))
    assert oa.bind(network, inputs(family)).deviation < 1
    right = adapter.read
    monkeypatch.setattr(adapter, "read", lambda *arguments: MISTAKES[mistake](right(*arguments)))
    with pytest.raises(oa.ModelError) as caught:
        oa.bind(network, inputs(family))
    assert str(caught.value).startswith("the self-check failed at the ")
    read_out = mistake[1] in ("no cap on the logits", "no activation in the head", "no final shift")
    assert ("at the unembedding: " in str(caught.value)) == read_out


def test_a_padded_position_that_is_seen_is_caught(monkeypatch):
    network, mask = tiny("llama"), [[1] * 7, [0, 0, 0, 1, 1, 1, 1]]
    adapter = family_of("llama")
    right = adapter.read
    forgetful = visible(lambda distance: distance >= 0)
    monkeypatch.setattr(adapter, "read", lambda *arguments: forgetful(right(*arguments)))
    with pytest.raises(oa.ModelError, match=r"^the self-check failed at the attention of layer 1"):
        oa.bind(network, inputs("llama"), mask=mask)
