"""Frames against the big Gram matrix, kernels against the logits of the model's attention, channels against dense matrices."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from models.families import inputs, tiny

import opalgebra as oa
from opalgebra.analysis import attention_kernel, channels, gram
from opalgebra.analysis.basis import attention_of

basis, channel_module = import_module("opalgebra.analysis.basis"), import_module("opalgebra.analysis.channels")
RNG = np.random.default_rng(0)


def test_the_spectrum_is_that_of_the_big_gram_matrix():
    embedding = RNG.standard_normal((30, 5))
    found = gram(embedding)
    big = np.linalg.eigvalsh(embedding @ embedding.T)[::-1]
    assert np.allclose(found.spectrum, big[:5], rtol=1e-12) and np.abs(big[5:]).max() < 1e-12 * big[0]
    assert found.effective_dimension == pytest.approx((big.sum()) ** 2 / (big**2).sum())
    assert found.condition == pytest.approx(big[0] / big[4])
    centred = embedding - embedding.mean(0)
    values = np.linalg.svd(centred)[1] ** 2
    assert found.centred_dimension == pytest.approx(values.sum() ** 2 / (values**2).sum())


def coherent():
    embedding = np.concatenate([RNG.standard_normal((50, 6)), np.zeros((1, 6))])
    embedding[37] = -2 * embedding[11] + 1e-9 * embedding[3]
    unit = embedding[:50] / np.linalg.norm(embedding[:50], axis=1, keepdims=True)
    cosines = np.abs(unit @ unit.T) - 2 * np.eye(50)
    found = gram(torch.from_numpy(embedding))
    assert found.nearest[:2] == (11, 37) == np.unravel_index(cosines.argmax(), cosines.shape)
    assert found.coherence == pytest.approx(cosines.max(), abs=1e-15)
    assert found.welch < found.coherence


@pytest.mark.parametrize("rows", [7, 2048])
def test_the_coherence_is_the_largest_of_all_pairs(monkeypatch, rows):
    monkeypatch.setattr(basis, "ROWS", rows)
    coherent()


def test_planted_pair_with_itself_is_found(monkeypatch):
    monkeypatch.setattr(basis, "_largest", lambda unit, start: (unit[start : start + basis.ROWS] @ unit[start:].T).abs())
    with pytest.raises(AssertionError):
        coherent()


def test_a_tight_frame_has_full_dimension_and_meets_welch():
    angles = np.pi * np.arange(3) / 3
    frame = gram(np.stack([np.cos(angles), np.sin(angles)], axis=-1))
    assert frame.effective_dimension == pytest.approx(2) and frame.condition == pytest.approx(1)
    assert frame.coherence == pytest.approx(frame.welch) == pytest.approx(0.5)


def test_the_embedding_of_a_model_is_found_however_it_is_given():
    network = tiny("llama")
    weight = network.model.embed_tokens.weight.numpy()
    for given in (network, oa.load(network), oa.bind(network, inputs("llama")), weight):
        assert np.array_equal(gram(given).embedding, weight)


ROTARY = ("llama", "llama with biases", "mistral", "qwen2", "neox parallel")
FAMILIES = (*ROTARY, "gpt2", "bert", "encoder post-norm")


def kernels(family):
    """Logits of the head, the biases' share taken out, are the bilinear form at the states that attention reads."""
    network, given = tiny(family), inputs(family, batch=1)
    M = oa.bind(network, given)
    attention = attention_of(M, 2)
    place = next(index for index, stage in enumerate(M.T.stages) if stage.layer == 2)
    read = M.maps[place].branches[0].parts(M.states[place])[0]
    plain = replace(attention, query=replace(attention.query, bias=None), key=replace(attention.key, bias=None), softcap=None)
    logits = plain.logits(read)[0].flatten(0, 1) / attention.scaling
    last = M.tokens - 1
    for head in range(attention.heads):
        for distance in (0, 1, 4):
            found = attention_kernel(M, 2, head, distance)
            value = read[0, last].numpy() @ found.kernel @ read[0, last - distance].numpy()
            size = np.linalg.norm(found.kernel) * read[0].norm(dim=-1).max().item() ** 2
            assert abs(value - logits[head, last, last - distance].item()) < 1e-6 * size
            assert np.allclose(found.symmetric + found.antisymmetric, found.kernel)
            assert np.allclose(found.antisymmetric, -found.antisymmetric.T)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_kernel_is_what_attention_compares(family):
    kernels(family)


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_planted_rotation_the_wrong_way_is_found(monkeypatch, family):
    right = basis._turned
    monkeypatch.setattr(basis, "_turned", lambda rotary, weight, token: right(rotary, weight, 6 - token))
    with pytest.raises(AssertionError):
        kernels(family)


def test_planted_key_heads_in_turn_instead_of_in_groups_are_found():
    M = oa.bind(tiny("llama"), inputs("llama"))
    attention = attention_of(M, 1)
    by_group = [attention_kernel(M, 1, head).kernel for head in range(4)]
    query, key = (
        [basis._turned(attention.rotary, weight, 6) for weight in part.weight] for part in (attention.query, attention.key)
    )
    table = [query[h].T @ key[h // 2] for h in range(4)]
    tiled = [query[h].T @ key[h % 2] for h in range(4)]
    assert all(np.allclose(a, b) for a, b in zip(by_group, table))
    assert not np.allclose(by_group[1], tiled[1]) and not np.allclose(by_group[2], tiled[2])


def test_the_ratio_of_symmetric_antisymmetric_and_random_kernels():
    symmetric = RNG.standard_normal((400, 400))
    assert basis.AttentionKernel(symmetric, 0).ratio == pytest.approx(1, abs=0.02)
    assert basis.AttentionKernel(symmetric + symmetric.T, 0).ratio == 0
    assert basis.AttentionKernel(symmetric - symmetric.T, 0).ratio == np.inf


def test_what_a_kernel_refuses():
    M = oa.bind(tiny("llama"), inputs("llama"))
    normed = oa.bind(tiny("qwen3"), inputs("qwen3"))
    for act, text in (
        (lambda: attention_kernel(normed, 1, 0), "layer 1 of Qwen3ForCausalLM norms its queries and keys"),
        (lambda: attention_kernel(M, 3, 0), "layer 3 was asked of 2, which count from 1; give 1 to 2"),
        (lambda: attention_kernel(M, 1, 4), "head 4 was asked of 4 of layer 1; they count from 0"),
        (lambda: attention_kernel(M, 1, 0, 7), "distance 7 was asked of 7 tokens; bind a longer input, or give 0 to 6"),
        (lambda: attention_kernel(tiny("llama"), 1, 0), "LlamaForCausalLM is no bound model"),
        (lambda: gram(tiny("encoder pre-norm")), "TransformerEncoder has no embedding of tokens"),
        (lambda: gram(np.ones(3)), r"an embedding is a matrix \(vocabulary, features\)"),
        (lambda: gram([[1.0, np.nan]]), r"the embedding is nan at index \(0, 1\)"),
        (lambda: gram(np.zeros((3, 2))).coherence, "there are not two"),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()


def dense_heads(M, layer):
    """`w_h = W_O^h W_V^h` and the two factors, by slicing the model's own weights."""
    module = M.model.network.model.layers[layer - 1].self_attn
    size, groups = module.head_dim, module.num_key_value_groups
    values = [module.v_proj.weight[(h // groups) * size : (h // groups + 1) * size].numpy() for h in range(4)]
    outputs = [module.o_proj.weight[:, h * size : (h + 1) * size].numpy() for h in range(4)]
    return values, outputs


def independent():
    M = oa.bind(tiny("llama"), inputs("llama"))
    found = channels(M, 1, 2)
    (values, outputs), (later_values, later_outputs) = dense_heads(M, 1), dense_heads(M, 2)
    for i in range(4):
        for j in range(4):
            first, second = outputs[i] @ values[i], later_outputs[j] @ later_values[j]
            lengths = np.linalg.norm(first) * np.linalg.norm(second)
            assert found.virtual[i, j] == pytest.approx(np.linalg.norm(second @ first) / lengths, rel=1e-10)
            assert found.commutator[i, j] == pytest.approx(np.linalg.norm(second @ first - first @ second) / lengths, rel=1e-10)
            spaces = ((found.read, values[i].T, later_values[j].T), (found.write, outputs[i], later_outputs[j]))
            for cosines, one, other in spaces:
                projectors = [part @ np.linalg.pinv(part) for part in (one, other)]
                expected = np.linalg.svd(projectors[0] @ projectors[1])[1][: one.shape[1]]
                assert np.allclose(cosines[i, j], expected, atol=1e-7)


def test_channels_are_as_independent_as_dense_matrices_say():
    independent()
    M = oa.bind(tiny("llama"), inputs("llama"))
    own = channels(M, 1)
    assert np.allclose(own.read[0, 1], 1) and not np.allclose(own.read[0, 2], 1)
    assert np.abs(np.diagonal(own.commutator)).max() < 1e-14


def test_planted_groups_in_turn_are_found(monkeypatch):
    def in_turn(attention):
        values = attention.value.weight.double().repeat(attention.heads // attention.value.heads, 1, 1)
        outputs = attention.output.double().unflatten(1, (attention.heads, -1)).permute(1, 0, 2)
        return values, outputs.contiguous()

    monkeypatch.setattr(channel_module, "_heads", in_turn)
    with pytest.raises(AssertionError):
        independent()


def test_random_heads_are_the_yardstick():
    """The largest cosine of random spaces reaches its bound for large dimensions, and a random product its size."""
    features, size = 600, 60
    spaces = [torch.from_numpy(RNG.standard_normal((2, features, size))) for _ in range(2)]
    largest = channel_module._cosines(*spaces)[..., 0]
    bound = 2 * np.sqrt(size / features * (1 - size / features))
    assert np.abs(largest / bound - 1).max() < 0.05
    first, second = (np.einsum("fa,ga->fg", *RNG.standard_normal((2, features, size))) for _ in range(2))
    ratio = np.linalg.norm(first @ second) / np.linalg.norm(first) / np.linalg.norm(second)
    assert ratio == pytest.approx(features**-0.5, rel=0.05)
