"""State expressions have the values that the model's own states, modules and dense matrices give."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numeric import oracle
from numeric.models import examples, llamas, tiny_llama, token_ids, word_tokenizer

import opalgebra as oa
from opalgebra.errors import InputError, SpaceError
from opalgebra.numeric.faithful import faithful

# As in test_orders: two chains of at most six stages here, 4e-14 of what they sum, 25 times this for what stages amplify.
ROUNDING = 1e-12
MISTAKE = 1e-3

IDS = torch.tensor([[5, 11, 23, 7], [2, 36, 2, 19]])
SPLITS = st.fixed_dictionaries({"attention": st.sampled_from(["frozen", "source"]), "ffn": st.sampled_from(["gate", "source"])})


def close(value, expected, scale=None) -> bool:
    value, expected = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
    assert value.shape == expected.shape
    scale = np.linalg.norm(expected) if scale is None else scale
    return bool(np.linalg.norm(value - expected) <= ROUNDING * scale)


def biased(seed=0, **changes):
    return tiny_llama(seed, **{"layers": 2, "attention_bias": True, "mlp_bias": True, **changes})


@examples(20)
@given(llamas(), token_ids(), st.booleans(), SPLITS)
def test_every_state_of_the_architecture_is_the_state_that_the_model_passes_through(network, ids, heads, split):
    heads = heads and split["attention"] == "frozen" and not network.config.attention_bias
    binding, found = oa.bind(network, ids, heads=heads, split=split), oracle.record(network, ids)
    assert len(binding.T.x) == len(found.states)
    for symbol, state in zip(binding.T.x, found.states):
        assert close(binding.evaluate(symbol), state, max(map(np.linalg.norm, found.states)))


@examples(20)
@given(llamas(), token_ids(tokens=st.integers(1, 4)), SPLITS, st.data())
def test_a_term_is_its_product_of_matrices_and_a_source_state_is_propagated(network, ids, split, data):
    counting = data.draw(st.sampled_from(["all", "attention", "ffn"]))
    binding, found = oa.bind(network, ids, split=split), oracle.record(network, ids)
    series = binding.T.dyson(counting=counting)
    order = data.draw(st.integers(0, series.max_order))
    rank = data.draw(st.integers(0, series.count(order) - 1))
    counted = {"all": "AF", "attention": "A", "ffn": "F"}[counting]
    selection = [vertex.name for vertex in series.selection(order, rank)]
    value = binding.evaluate(series.term(order, rank) @ binding.T.x[0])
    for row in range(len(ids)):
        stages = oracle.dense_stages(network, found, row, **split)
        choices = [next((name for name in stage.vertices if name in selection), None) for stage in stages]
        assert sum(choice is not None for choice in choices) == order
        matrix = oracle.product(stages, lambda name: name[0] in counted, choices)
        expected = (matrix @ found.states[0][row].ravel()).reshape(ids.shape[1], -1)
        scale = sum(map(np.linalg.norm, found.states)) + np.linalg.norm(expected)
        assert close(value[row], expected, scale)


@pytest.mark.parametrize("counting", ["all", "attention", "ffn"])
@pytest.mark.parametrize("heads", [False, True])
def test_the_written_sum_of_an_order_is_the_part_of_the_one_pass_recurrence(counting, heads):
    binding = oa.bind(tiny_llama(1, layers=2, heads=2, key_heads=1) if heads else biased(1), IDS, heads=heads)
    series, result = binding.T.dyson(counting=counting), binding.orders(counting=counting)
    scale = result.parts.norm() * len(result.parts)
    for order in range(series.max_order + 1):
        assert close(binding.evaluate(series[order]), result.parts[order], scale)


def test_a_head_is_its_kronecker_product():
    network = tiny_llama(2, layers=2, heads=6, key_heads=2, width=12)
    binding, found = oa.bind(network, IDS, heads=True), oracle.record(network, IDS)
    stages = oracle.dense_stages(network, found, heads=True)
    for head in range(6):
        vertex = binding.T.head[2, head] @ binding.T.stages[2].norm
        value = binding.evaluate(oa.dressed(vertex, binding.T.x[2]) @ binding.T.x[0])
        expected = stages[2].vertices[f"A2_{head}"] @ found.states[0][0].ravel()
        assert close(value[0], expected.reshape(4, 12))


def test_a_source_is_what_the_biases_give():
    network = biased(3)
    binding, found = oa.bind(network, IDS), oracle.record(network, IDS)
    stages = oracle.dense_stages(network, found, 1)
    for index, stage in enumerate(binding.T.stages):
        value = binding.evaluate(oa.source(stage.branch(stage.vertices), binding.T.x[index]))
        (expected,) = stages[index].sources.values()
        assert close(value[1], expected.reshape(4, -1))


def test_a_source_of_a_block_without_biases_is_zero():
    binding = oa.bind(tiny_llama(3, layers=1), IDS)
    assert not binding.evaluate(oa.source(binding.T.ffn[1], binding.T.x[1])).any()
    assert not binding.evaluate(oa.source(binding.T.stages[0].norm, binding.T.x[0])).any()


@pytest.mark.parametrize("background", [0, 1, 3])
def test_a_network_dressed_by_another_state_has_the_gate_of_that_state(background):
    network = biased(4)
    binding, found = oa.bind(network, IDS), oracle.record(network, IDS)
    mlp, state = network.model.layers[0].mlp, torch.as_tensor(found.states[background])
    gate = oracle.array(mlp.act_fn(mlp.gate_proj(state)))
    symbol = binding.T.x[background]
    for row in range(2):
        matrix, source = oracle.ffn_matrix(mlp, gate[row]), oracle.ffn_source(mlp, gate[row])
        moved = binding.evaluate(oa.dressed(binding.T.ffn[1], symbol) @ binding.T.x[2])[row]
        assert close(moved, (matrix @ found.states[2][row].ravel()).reshape(4, -1))
        assert close(binding.evaluate(oa.source(binding.T.ffn[1], symbol))[row], source.reshape(4, -1))


def test_a_norm_dressed_by_another_state_has_the_scale_of_that_state():
    network = biased(5)
    binding, found = oa.bind(network, IDS), oracle.record(network, IDS)
    norm = binding.T.stages[1].norm
    weight, mean = oracle.array(network.model.layers[0].post_attention_layernorm.weight), (found.states[3] ** 2).mean(-1)
    expected = found.states[0] * weight / np.sqrt(mean + network.config.rms_norm_eps)[..., None]
    assert close(binding.evaluate(oa.dressed(norm, binding.T.x[3]) @ binding.T.x[0]), expected)
    own = found.states[0] * weight / np.sqrt((found.states[1] ** 2).mean(-1) + network.config.rms_norm_eps)[..., None]
    assert close(binding.evaluate(oa.dressed(norm, binding.T.x[1]) @ binding.T.x[0]), own)
    assert np.linalg.norm(own - expected) > MISTAKE * np.linalg.norm(own)


def own_modules(network):
    """(network of layer 1, attention of layer 2, norm before it), called as the model calls them."""
    layer = network.model.layers[1]

    def attention(state):
        tokens = state.shape[1]
        mask = torch.full((1, 1, tokens, tokens), torch.finfo(torch.float64).min, dtype=torch.float64).triu(1)
        tables = network.model.rotary_emb(state, torch.arange(tokens)[None])
        return layer.self_attn(hidden_states=state, position_embeddings=tables, attention_mask=mask)[0]

    return network.model.layers[0].mlp, attention, layer.input_layernorm


def test_bare_maps_act_as_the_modules_of_the_model_on_any_state():
    network = biased(6)
    binding, found = oa.bind(network, IDS), oracle.record(network, IDS)
    x, T = binding.T.x, binding.T
    first, second, third = (torch.as_tensor(found.states[s]) for s in (0, 1, 3))
    mlp, attention, norm = own_modules(network)
    with faithful(network):
        one = mlp(first + second)
        two = attention(norm(2 * third - first))
        three = mlp(attention(second)) - norm(second)
    assert close(binding.evaluate(T.ffn[1] @ (x[0] + x[1])), one)
    assert close(binding.evaluate(T.attention[2] @ T.stages[2].norm @ (2 * x[3] - x[0])), two)
    assert close(binding.evaluate((T.ffn[1] @ T.attention[2] - T.stages[2].norm) @ x[1]), three)
    distributed = binding.evaluate(T.ffn[1] @ x[0] + T.ffn[1] @ x[1])
    assert (distributed - one).norm() > MISTAKE * one.norm()


def test_dressing_and_source_give_the_bare_map_back_on_a_state_that_the_model_never_sees():
    binding = oa.bind(biased(7), IDS)
    T, strange = binding.T, 3 * binding.T.x[1] - binding.T.x[4]
    for operator in (T.ffn[2], T.attention[1], T.stages[3].norm, T.operator, T.ffn[1] @ T.attention[2] + T.ffn[2]):
        bare = binding.evaluate(operator @ strange)
        dressed = binding.evaluate(oa.dressed(operator, strange) @ strange + oa.source(operator, strange))
        assert close(dressed, bare, 10 * bare.norm())


def test_sums_scalars_and_zero_are_evaluated_as_written():
    binding = oa.bind(tiny_llama(8, layers=1), IDS)
    one, two = (torch.as_tensor(binding.evaluate(binding.T.x[s])) for s in (0, 2))
    assert close(binding.evaluate(2 * binding.T.x[0] - binding.T.x[2]), 2 * one - two)
    zero = binding.evaluate(binding.T.x[0] - binding.T.x[0])
    assert zero.shape == one.shape and not zero.any()
    assert close(binding.evaluate((1 + oa.dressed(binding.T.ffn[1], binding.T.x[1])) @ oa.Zero(oa.ONE, oa.X)), 0 * one, 1)


def test_a_text_gives_an_array_of_tokens_and_features():
    binding = oa.bind(oa.load(tiny_llama(9, layers=1), tokenizer=word_tokenizer()), "w5 w11 w23")
    assert binding.evaluate(binding.T.x[1]).shape == (3, 20)
    assert oa.bind(tiny_llama(9, layers=1), IDS).evaluate(binding.T.x[1]).shape == (2, 4, 20)


def test_ten_thousand_nested_maps_are_evaluated_without_recursion():
    binding = oa.bind(tiny_llama(10, layers=1), IDS[:1, :2])
    norm, state = binding.T.stages[0].norm, binding.T.x[0]
    for _ in range(10_000):
        state = norm @ state
    value = oracle.array(binding.evaluate(state))
    norm = binding.model.network.model.layers[0].input_layernorm
    weight, expected = oracle.array(norm.weight), oracle.array(binding.evaluate(binding.T.x[0]))
    for _ in range(10_000):
        expected = expected * weight / np.sqrt((expected**2).mean(-1, keepdims=True) + norm.variance_epsilon)
    # 10,000 steps, each wrong by 5.4 sqrt(24) u = 2.9e-15 at most: 3e-11
    assert np.linalg.norm(value - expected) < 3e-11 * np.linalg.norm(expected)


def refusal(binding, state, error=InputError) -> str:
    with pytest.raises(error) as caught:
        binding.evaluate(state)
    return str(caught.value)


def test_a_map_has_no_value_of_its_own():
    binding = oa.bind(tiny_llama(11, layers=1), IDS)
    assert refusal(binding, binding.T.ffn[1]) == "F1 maps X to X; only a state has a value: apply it to M.T.x[0]"
    series = binding.T.dyson()
    assert refusal(binding, series.term(0, 0)) == "1 maps X to X; only a state has a value: apply it to M.T.x[0]"


def test_atoms_that_are_not_the_model_s_are_refused():
    binding = oa.bind(tiny_llama(11, layers=1), IDS)
    G = oa.Atom("G", kind="nonlinear")
    V = oa.Atom("V", kind="linear")
    x = binding.T.x[0]
    text = "{} ({}) is not part of this model; its operators are those of M.T, such as N1, A1, M1, F1"
    assert refusal(binding, G @ x) == text.format("G", "nonlinear")
    assert refusal(binding, V @ x + x) == text.format("V", "linear")
    assert refusal(binding, oa.dressed(G, x) @ x) == text.format("G", "nonlinear")
    assert refusal(binding, oa.source(G, x)) == text.format("G", "nonlinear")
    assert refusal(binding, oa.Atom("F1", kind="nonlinear") @ x) == text.format("F1", "nonlinear")
    assert refusal(binding, oa.state("y")) == "y is not a state of this model; its states are M.T.x[s]"


def test_states_of_another_architecture_are_refused():
    binding = oa.bind(tiny_llama(11, layers=1), IDS)
    deeper, split = oa.transformer(layers=2), oa.transformer(layers=1, heads=4)
    text = "{} is not part of this model; its operators are those of M.T, such as N1, A1, M1, F1"
    assert refusal(binding, deeper.x[3]) == text.format("N2 (norm)")
    assert refusal(binding, split.x[1]) in [text.format(f"A1_{head} (attention)") for head in range(4)]
    assert refusal(binding, oa.dressed(binding.T.ffn[1], deeper.x[4]) @ binding.T.x[0]) == text.format("N2 (norm)")
    assert close(binding.evaluate(deeper.x[2]), binding.evaluate(binding.T.x[2]))


def test_each_head_of_an_attention_that_is_a_source_emits_what_it_gives():
    network = tiny_llama(12, layers=1, attention_bias=True)
    source, frozen = (oa.bind(network, IDS, heads=True, split={"attention": split}) for split in ("source", "frozen"))
    T = source.T
    read = T.stages[0].norm @ T.x[0]
    for head in range(4):
        value = frozen.evaluate(T.head[1, head] @ read)
        assert close(source.evaluate(oa.source(T.head[1, head], read)), value)
        assert not source.evaluate(oa.dressed(T.head[1, head], read) @ T.x[0]).any()


def test_a_background_that_is_no_state_is_refused_by_the_algebra():
    T = oa.transformer(layers=1)
    with pytest.raises(SpaceError, match="a background is a state"):
        oa.dressed(T.ffn[1], T.attention[1])
