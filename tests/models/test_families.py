"""Every family: the orders of its series against all selections written out, its heads, its norms, its own logits."""

import numpy as np
import pytest
from models import dense
from models.families import ENCODERS, FAMILIES, MODELS, inputs, tiny

import opalgebra as oa

# Two chains of four stages with about 150 summed dimensions each err by lambda sqrt(m) u = 5.4 * 25 * 1.1e-16 = 1.5e-14 of
# what they sum, and frozen factors come from states with the same error, which later stages amplify: 60 times this.
ROUNDING = 1e-12
MISTAKE = 1e-4
COUNTINGS = {
    "all": lambda name: True,
    "attention": lambda name: name.startswith("A"),
    "ffn": lambda name: name.startswith("F"),
    "one head": lambda name: name == "A1_1",
    "a head and a network": lambda name: name in ("A2_0", "F1"),
}


def vertex_names(counted):
    return lambda vertex: counted(vertex.name)


def discrepancy(result, parts, sources, row: int) -> float:
    """The largest difference of a part, or of its source-born share, over the sum of the norms of the parts."""
    found = result.parts[:, row].numpy().reshape(len(parts), -1)
    tokens = result.binding.tokens
    lengths = np.linalg.norm(result.binding.reference.states[-1, row].numpy(), axis=-1)
    born = np.linalg.norm(sources.reshape(len(parts), tokens, -1), axis=-1)
    by_source = np.abs(result.source_norms[row] * lengths - born).max()
    return max(np.linalg.norm(found - parts, axis=1).max(), by_source) / np.linalg.norm(parts, axis=1).sum()


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_order_is_the_sum_over_all_selections(family, counting):
    counted, network, ids = COUNTINGS[counting], tiny(family), inputs(family, tokens=5)
    heads = counting not in ("attention", "ffn")
    binding = oa.bind(network, ids, heads=heads)
    result = binding.orders(counting=vertex_names(counted))
    for row in range(1 if heads else 2):
        x0, stages, last = dense.stages_of(network, ids, row, heads=heads)
        parts, sources = dense.brute_force(x0, stages, counted)
        assert np.abs(parts.sum(0) - last.ravel()).max() < ROUNDING * np.abs(parts).sum(0).max()
        assert discrepancy(result, parts, sources, row) < ROUNDING


@pytest.mark.parametrize("family", FAMILIES)
def test_the_written_sum_of_an_order_is_the_part_of_the_one_pass_recurrence(family):
    binding = oa.bind(tiny(family), inputs(family, tokens=5), heads=True)
    for counting in (vertex_names(COUNTINGS["a head and a network"]), "ffn"):
        series, result = binding.T.dyson(counting=counting), binding.orders(counting=counting)
        for order in range(series.max_order + 1):
            difference = (binding.evaluate(series[order]) - result.parts[order]).norm()
            assert difference < ROUNDING * result.parts.norm() * len(result.parts)


SPOILED = {
    "tiled": ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "olmo2", "phi3", "mixtral"],
    "order": ["neox parallel", "neox sequential"],
    "unbiased": ["gpt2", "neox parallel", "bert", "encoder post-norm"],
    "shift": ["gpt2", "neox sequential", "bert", "encoder pre-norm"],
    "weight": ["gemma2", "gemma3"],
}


@pytest.mark.parametrize(("spoiled", "family"), [(what, family) for what, some in SPOILED.items() for family in some])
def test_the_comparison_sees_planted_mistakes(spoiled, family):
    network, ids = tiny(family), inputs(family, tokens=6)
    x0, stages, _ = dense.stages_of(network, ids, spoiled=spoiled)
    parts, sources = dense.brute_force(x0, stages, COUNTINGS["all"])
    assert discrepancy(oa.bind(network, ids).orders(), parts, sources, 0) > MISTAKE


SHAPES = {"gemma2": {"norm": "sandwich"}, "gemma3": {"norm": "sandwich"}, "olmo2": {"norm": "branch"},
          "neox parallel": {"parallel": True}, "bert": {"norm": "post", "causal": False}, "bert decoder": {"norm": "post"},
          "encoder post-norm": {"norm": "post", "causal": False}, "encoder pre-norm": {"causal": False},
          "encoder without biases": {"norm": "post", "causal": False}}  # fmt: skip
WITHOUT_BIAS = ("llama", "mistral", "qwen2", "phi3", "mixtral", "encoder without biases")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_architecture_is_the_one_that_the_model_has(family):
    shape = SHAPES.get(family, {})
    network, ids = tiny(family, layers=3), inputs(family)
    assert oa.transformer(3, **shape) == oa.bind(network, ids).T
    heads = 3 if family.startswith(("gpt2", "neox", "bert")) else 4
    assert oa.transformer(3, heads, biases=family not in WITHOUT_BIAS, **shape) == oa.bind(network, ids, heads=True).T


@pytest.mark.parametrize("family", FAMILIES)
def test_every_state_is_the_one_that_the_model_passes_through(family):
    binding = oa.bind(tiny(family, layers=3), inputs(family), heads=True)
    for symbol, own in zip(binding.T.x, binding.reference.states, strict=True):
        assert (binding.evaluate(symbol) - own).norm() < ROUNDING * own.norm()
    theorem = oa.expand(binding.T.stages[1].factor @ binding.T.x[1])
    assert oa.verify(theorem, binding).holds is True
    for counting in ("all", "attention", "ffn"):
        assert oa.verify(binding.T.dyson(counting=counting), binding).holds is True


@pytest.mark.parametrize("family", MODELS)
def test_logits_by_order_and_the_constant_sum_to_the_logit_before_the_cap(family):
    network, ids = tiny(family), inputs(family)
    binding = oa.bind(network, ids)
    logits = binding.orders().logits(7, minus=30)
    own = binding.reference.logits[:, -1, [7, 30]].numpy()
    cap = getattr(network.config, "final_logit_softcapping", None)
    if cap is not None:
        own = cap * np.arctanh(own / cap)
    expected = own[:, 0] - own[:, 1]
    assert np.abs(logits.orders.sum(1) + logits.readout_bias - expected).max() < ROUNDING * np.abs(logits.orders).sum()
    assert np.abs(logits.model - expected).max() < ROUNDING * np.abs(logits.orders).sum()
    returned = binding.reference.logits[:, -1, 7] - binding.reference.logits[:, -1, 30]
    assert np.array_equal(logits.capped, returned.numpy()) and np.allclose(logits.capped, logits.model) == (cap is None)


@pytest.mark.parametrize("family", ENCODERS)
def test_an_encoder_reads_vectors_and_has_no_logits(family):
    network, vectors = tiny(family), inputs(family)
    binding = oa.bind(network, vectors)
    assert binding.evaluate(binding.T.x[0]).shape == vectors.shape
    own = network(vectors if network.layers[0].self_attn.batch_first else vectors.transpose(0, 1))
    own = own if network.layers[0].self_attn.batch_first else own.transpose(0, 1)
    read = binding.readout.values(binding.orders().parts.sum(0))[-1]
    assert (read - own).norm() < ROUNDING * own.norm()
    with pytest.raises(oa.InputError, match=r"^TransformerEncoder has no unembedding and so no logits; bind a model with a "):
        binding.orders().logits(3)
