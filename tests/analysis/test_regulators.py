"""Changed models against a forward written down in NumPy, their orders against every selection, and what is seen at depth."""

from importlib import import_module
from itertools import product
from math import erf

import numpy as np
import pytest
import torch
from models.families import inputs, tiny

import opalgebra as oa
from opalgebra.analysis import regulated

module = import_module("opalgebra.analysis.regulators")
CHANGES = [{}, *({how: what} for how, what in module.REGULATORS)]
LABELS = ["unchanged", *(f"{what} {how}" for how, what in module.REGULATORS)]
TOKENS, FEATURES, HEADS = 5, 24, 4


def gelu(x):
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


class Oracle:
    """An encoder of torch as affine maps on (tokens * features) in one coordinate more, at a change; post-norm or pre-norm."""

    def __init__(self, network, removed=None, frozen=None):
        self.layers, self.removed, self.frozen = network.layers, removed, frozen
        self.pre = network.layers[0].norm_first

    def norm(self, norm, state, embedding):
        """The dressed norm (matrix, shift) at a state, or at what stands for the embedding."""
        at = embedding if self.frozen == "norms" else state
        scale = 1 / np.sqrt(at.var(-1) + norm.eps) if self.removed != "norms" else np.ones(len(at))
        centring = np.eye(FEATURES) - 1 / FEATURES
        return np.kron(np.diag(scale), norm.weight.numpy()[:, None] * centring), np.tile(norm.bias.numpy(), len(at))

    def attention(self, layer, read, first):
        module = layer.self_attn
        query, key, value = (part.numpy() for part in module.in_proj_weight.chunk(3))
        biases = [part.numpy() for part in module.in_proj_bias.chunk(3)]
        size = FEATURES // HEADS
        matrix, added = 0, np.tile(module.out_proj.bias.numpy(), TOKENS)
        for h in range(HEADS):
            rows = slice(h * size, (h + 1) * size)
            at = first if self.frozen == "softmax" else read
            logits = (at @ query[rows].T + biases[0][rows]) @ (at @ key[rows].T + biases[1][rows]).T
            logits = logits / (1 if self.removed == "scaling" else np.sqrt(size))
            weights = np.exp(logits - logits.max(-1, keepdims=True))
            pattern = logits if self.removed == "softmax" else weights / weights.sum(-1, keepdims=True)
            output = module.out_proj.weight.numpy()[:, rows]
            matrix = matrix + np.kron(pattern, output @ value[rows])
            added = added + np.kron(pattern.sum(-1), output @ biases[2][rows])
        return matrix, added

    def ffn(self, layer, read):
        up, down = layer.linear1, layer.linear2
        hidden = read @ up.weight.numpy().T + up.bias.numpy()
        active = gelu(hidden) if self.pre else np.maximum(hidden, 0)
        gate = active / hidden
        blocks = [down.weight.numpy() @ (gate[t][:, None] * up.weight.numpy()) for t in range(TOKENS)]
        matrix = np.zeros((TOKENS * FEATURES,) * 2)
        for t, block in enumerate(blocks):
            matrix[t * FEATURES : (t + 1) * FEATURES, t * FEATURES : (t + 1) * FEATURES] = block
        added = np.concatenate([down.weight.numpy() @ (gate[t] * up.bias.numpy()) + down.bias.numpy() for t in range(TOKENS)])
        return matrix, added

    def stages(self, x0):
        """For each stage what stays, what the counted vertex does, and the norm after, each homogeneous; and the states."""
        states, found = [x0], []
        for layer in self.layers:
            for kind, norm in (("attention", layer.norm1), ("ffn", layer.norm2)):
                here = states[-1]
                plain = Oracle.__new__(Oracle)
                plain.layers, plain.pre, plain.removed, plain.frozen = self.layers, self.pre, None, None
                read, first = here, x0
                before = None
                if self.pre:
                    before = self.norm(norm, here, x0)
                    read = applied(before, here)
                    first = applied(plain.norm(norm, x0, x0), x0)
                vertex = self.attention(layer, read, first) if kind == "attention" else self.ffn(layer, read)
                own = homogeneous(*vertex) @ (np.eye(len(here.ravel()) + 1) if before is None else homogeneous(*before, one=1))
                stays = 0.0 if self.removed == "residual" else 1.0
                total = stays * here + applied(vertex, read)
                after = None
                if not self.pre:
                    on_first = plain.attention(layer, x0, x0) if kind == "attention" else plain.ffn(layer, x0)
                    after = self.norm(norm, total, x0 + applied(on_first, x0))
                    total = applied(after, total)
                line = np.diag([*[stays] * here.size, 1.0])
                out = np.eye(here.size + 1) if after is None else homogeneous(*after, one=1)
                found.append((out @ line, out @ (line + own), own))
                states.append(total)
        return states, found

    def orders(self, x0):
        """Every selection of vertices by itself. What a norm after a stage adds has the order of the line that it stands on."""
        states, stages = self.stages(x0)
        start, last = np.append(x0.ravel(), 1.0), len(stages)
        parts = np.zeros((last + 1, x0.size))
        for choice in product((0, 1), repeat=last):
            vector = start
            for chosen, (line, whole, _) in zip(choice, stages):
                vector = (whole - line) @ vector if chosen else line @ vector
            parts[sum(choice)] += vector[:-1]
        return states, parts.reshape(last + 1, *x0.shape)


def homogeneous(matrix, added, one=0):
    return np.block([[matrix, added[:, None]], [np.zeros((1, len(matrix))), np.array([[one]])]])


def applied(affine, state):
    return (affine[0] @ state.ravel() + affine[1]).reshape(state.shape)


def agrees(family, change):
    network, given = tiny(family), inputs(family, batch=1, tokens=TOKENS)
    x0 = given[0].numpy() if network.layers[0].self_attn.batch_first else given.numpy()[0]
    states, parts = Oracle(network, **change).orders(x0)
    found = regulated(oa.bind(network, given), **change)
    lengths = np.linalg.norm(states, axis=-1)
    assert found.depth == len(states) - 1
    assert np.allclose(found.growth[0], lengths / lengths[0], rtol=1e-9)
    assert np.allclose(found.norms[0], np.linalg.norm(parts, axis=-1) / lengths[-1], rtol=1e-8, atol=1e-10)
    assert np.allclose(found.condition[0], np.linalg.norm(parts, axis=-1).sum(0) / lengths[-1], rtol=1e-8)
    assert found.residual.max() < 1e-13 * found.condition.max()
    for rank, state in zip(found.rank[0], states):
        s = np.linalg.svd(state)[1]
        assert rank == pytest.approx((s**2).sum() ** 2 / (s**4).sum(), rel=1e-9)


@pytest.mark.parametrize("change", CHANGES, ids=LABELS)
@pytest.mark.parametrize("family", ["encoder post-norm", "encoder pre-norm"])
def test_a_changed_encoder_is_what_is_written_down(family, change):
    agrees(family, change)


def planted(monkeypatch, name, wrong, change, family="encoder post-norm"):
    monkeypatch.setattr(module._Change, name, wrong(getattr(module._Change, name)))
    with pytest.raises(AssertionError):
        agrees(family, change)


def test_planted_mistakes_are_found(monkeypatch):
    """Norms frozen at the state before instead of at the embedding, and a pattern without softmax taken from it."""
    with monkeypatch.context() as patch:
        planted(patch, "_norm", lambda right: lambda self, norm, here, _: right(self, norm, here, here), {"frozen": "norms"})
    with monkeypatch.context() as patch:
        planted(patch, "_vertex", lambda right: lambda self, v, _, first: right(self, v, first, first), {"removed": "softmax"})


def test_planted_residual_that_stays_in_the_series_is_found(monkeypatch):
    monkeypatch.setattr(module._Minus, "add_to", lambda self, out, states: None)
    with pytest.raises(AssertionError):
        agrees("encoder pre-norm", {"removed": "residual"})


def test_unchanged_it_is_the_series_of_the_model():
    for family in ("llama", "gemma2", "neox parallel", "bert", "mixtral"):
        M = oa.bind(tiny(family), inputs(family))
        for counting in ("all", "attention"):
            found, R = regulated(M, counting=counting), M.orders(counting=counting)
            assert np.allclose(found.norms, R.norms, rtol=1e-9, atol=1e-12)
            assert np.allclose(found.condition, R.condition, rtol=1e-9)


def test_scaling_and_norms_removed_are_what_a_patched_network_says(monkeypatch):
    network, ids = tiny("llama"), inputs("llama")
    M = oa.bind(network, ids)
    scaled = tiny("llama")
    with torch.no_grad():
        for layer in scaled.model.layers:
            layer.self_attn.q_proj.weight *= layer.self_attn.head_dim**0.5
    own = oa.bind(scaled, ids).reference.states.norm(dim=-1)
    assert np.allclose(regulated(M, removed="scaling").growth, (own / own[0]).movedim(1, 0), rtol=1e-9)
    kind = type(network.model.norm)
    monkeypatch.setattr(kind, "forward", lambda self, states: self.weight * states)
    seen = []
    for layer in network.model.layers:
        layer.register_forward_hook(lambda module, given, gave: seen.append(gave[0] if isinstance(gave, tuple) else gave))
    network(ids, use_cache=False)
    lengths = torch.stack([network.model.embed_tokens(ids), *seen]).norm(dim=-1)
    found = regulated(M, removed="norms").growth[:, ::2]
    assert np.allclose(found, (lengths / lengths[0]).movedim(1, 0), rtol=1e-6)


def test_padding_and_batches():
    ids = inputs("llama")
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    found = regulated(oa.bind(tiny("llama"), ids, mask=mask), removed="scaling")
    alone = regulated(oa.bind(tiny("llama"), ids[:1, 3:]), removed="scaling")
    assert np.isnan(found.growth[0, :, :3]).all() and np.isnan(found.condition[0, :3]).all()
    for name in ("norms", "growth"):
        assert np.allclose(getattr(found, name)[0, :, 3:], getattr(alone, name)[0], rtol=1e-9)
    assert np.allclose(found.rank[0], alone.rank[0], rtol=1e-9)


@pytest.mark.parametrize("layers", [12, 96])
def test_what_keeps_a_random_deep_model_finite(layers):
    """Gated networks square the state: without norms the exponents double with every layer. Without the residual connection
    every token becomes one state. Without 1/sqrt(d_k) nothing of the kind happens.
    """
    M = oa.bind(tiny("llama", layers=layers), inputs("llama", batch=1))
    found = {label: regulated(M, **change) for label, change in zip(LABELS, CHANGES)}
    stages = 2 * layers
    for label in ("unchanged", "scaling removed", "softmax frozen"):
        assert found[label].depth == stages and found[label].growth.max() < 2 * stages
    for label in ("norms removed", "norms frozen"):
        assert found[label].depth < min(stages, 30)
        exponents = np.log10(found[label].growth[0, :, -1])
        assert exponents[-1] > 50 and exponents[-1] > 1.8 * exponents[-3]
    assert found["residual removed"].rank[0, -1] < 1.5
    assert found["unchanged"].rank[0, -1] > found["residual removed"].rank[0, -1]


@pytest.mark.models
@pytest.mark.slow
def test_what_keeps_smollm2_finite(bound):
    found = {label: regulated(bound, **change) for label, change in zip(LABELS, CHANGES) if label != "softmax frozen"}
    assert found["unchanged"].condition[-1] == pytest.approx(188, rel=0.01)
    assert found["norms removed"].depth < 25 and found["norms frozen"].depth < 25
    assert found["residual removed"].rank[-1] < 1.01 < found["unchanged"].rank[-1]
    assert found["scaling removed"].condition[-1] < 2 * found["unchanged"].condition[-1]


@pytest.mark.models
def test_what_keeps_minilm_finite():
    M = oa.bind(oa.load("minilm"), "When Mary and John went to the store, John gave a drink to")
    found = {label: regulated(M, **change) for label, change in zip(LABELS, CHANGES)}
    assert all(one.depth == 12 for one in found.values())
    assert found["unchanged"].growth[-1].max() < 2 and found["norms frozen"].growth[-1].max() > 50
    assert found["residual removed"].rank[-1] < 1.01 and found["unchanged"].rank[-1] > 3


def test_what_is_refused():
    M = oa.bind(tiny("llama"), inputs("llama"))
    for act, text in (
        (lambda: regulated(M, removed="bias"), "removed='bias' is not known; use 'scaling', 'softmax', 'norms', 'residual'"),
        (lambda: regulated(M, frozen="scaling"), "frozen='scaling' is not known; use 'softmax', 'norms'"),
        (lambda: regulated(M, removed="norms", frozen="softmax"), "were asked at once; change one regulator at a time"),
        (lambda: regulated(tiny("llama")), "LlamaForCausalLM is no bound model; bind one at an input"),
        (lambda: regulated(oa.bind(tiny("llama"), inputs("llama"), split="jacobian")), "regulators are changed where patterns"),
        (
            lambda: regulated(oa.bind(tiny("llama"), inputs("llama"), split={"attention": "source", "ffn": "gate"})),
            "regulators are changed where patterns are frozen",
        ),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()
