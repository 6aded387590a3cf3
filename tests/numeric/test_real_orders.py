"""Real weights: the orders of SmolLM2 at the demonstration prompt, and random inputs against an independent product."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numeric.models import examples

import opalgebra as oa
from opalgebra.numeric.faithful import faithful

pytestmark = pytest.mark.models

# Published figures have three digits.
PRINTED = 0.01
# A chain of 60 stages sums 60 * 2,500 dimensions: it errs by lambda sqrt(m) u = 5.4 * 390 * 1.1e-16 = 2.3e-13 of its result
# (Higham and Mary 2019), on both sides of a comparison. One stage alone errs by 5.4 * 50 * 1.1e-16 = 3e-14 of each part.
ROUNDING = 1e-12
ONE_STAGE = 3e-14
MISTAKE = 1e-3


def last_token(result):
    return result.norms[:, -1]


def test_counting_every_vertex_gives_the_published_norms_and_condition(bound):
    result = bound.orders()
    published = [3.23e-3, 4.15e-2, 1.73e-1, 6.78e-1, 2.02, 4.60, 9.02, 14.5, 19.7, 22.5]
    assert result.norms.shape == (61, 14)
    assert np.abs(last_token(result)[:10] / published - 1).max() < PRINTED
    assert abs(result.condition[-1] / 188 - 1) < PRINTED
    assert last_token(result).argmax() == 9 and (np.diff(last_token(result)[9:]) < 0).all()
    assert (result.partial_errors[4:19, -1] > 1).all() and result.partial_errors[19:, -1].max() < 1
    assert result.partial_errors[-1].max() < ROUNDING
    assert not result.source_norms.any()


def test_counting_attention_gives_the_published_norms(bound):
    result = bound.orders(counting="attention")
    published = [9.50e-2, 3.34e-1, 3.57e-1, 2.01e-1, 8.14e-2, 2.88e-2, 1.02e-2]
    assert result.norms.shape == (31, 14)
    assert np.abs(last_token(result)[:7] / published - 1).max() < PRINTED
    assert abs(result.partial_errors[4, -1] - 0.04) < 0.005
    assert result.partial_errors[-1].max() < ROUNDING


def test_the_network_as_a_source_is_well_conditioned(smollm2, bound):
    result = oa.bind(smollm2, bound.ids, split="source").orders()
    assert abs(result.condition[0, -1] - 2.1) < 0.05
    assert result.source_norms.any() and result.partial_errors[:, -1].max() < ROUNDING


def test_the_prompt_has_fourteen_tokens_and_the_model_answers_mary(smollm2, bound):
    assert bound.tokens == 14 and bound.token_texts[:2] == ["When", " Mary"]
    with faithful(smollm2.network):
        logits = smollm2.network(input_ids=bound.ids, use_cache=False).logits[0, -1]
    assert smollm2.token_texts([int(logits.argmax())]) == [" Mary"]
    by_order = bound.orders().logits(" Mary", minus=" John")
    own = logits[smollm2.token_id(" Mary")] - logits[smollm2.token_id(" John")]
    assert by_order.orders.shape == (61,) and by_order.readout_bias == 0
    scale = np.abs(by_order.orders).sum()
    assert abs(by_order.orders.sum() - float(own)) < ROUNDING * scale
    assert abs(float(by_order.model) - float(own)) < ROUNDING * scale


def record(network, ids):
    """The last state, and what the dressed stages are made of, from hooks on the model's own forward in eager attention."""
    found = {"norms": [], "gates": [], "states": []}

    def norm_hook(module, positional, output):
        given, gave = positional[0], output
        direction = given * module.weight
        scale = (gave * direction).sum(-1) / direction.square().sum(-1)
        found["norms"].append((scale[..., None] * module.weight).clone())
        found["states"].append(given.clone())

    def gate_hook(module, positional, output):
        found["gates"].append(output.clone())

    modules = [network.model.norm]
    modules += [norm for layer in network.model.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
    handles = [module.register_forward_hook(norm_hook) for module in modules]
    handles += [layer.mlp.act_fn.register_forward_hook(gate_hook) for layer in network.model.layers]
    try:
        with faithful(network):
            output = network(input_ids=ids, use_cache=False, output_attentions=True)
    finally:
        for handle in handles:
            handle.remove()
    return {**found, "patterns": output.attentions}


def dressed_branch(network, found, stage, state):
    """One dressed stage on a state (batch, tokens, features), with nothing but products of the model's weights."""
    layer, config = network.model.layers[stage // 2], network.config
    normed = state * found["norms"][stage]
    if stage % 2:
        mlp = layer.mlp
        return (normed @ mlp.up_proj.weight.T * found["gates"][stage // 2]) @ mlp.down_proj.weight.T
    total, size = torch.zeros_like(state), config.head_dim
    for head in range(config.num_attention_heads):
        group = head // (config.num_attention_heads // config.num_key_value_heads)
        value = layer.self_attn.v_proj.weight[group * size : (group + 1) * size]
        output = layer.self_attn.o_proj.weight[:, head * size : (head + 1) * size]
        total += found["patterns"][stage // 2][:, head] @ (normed @ value.T) @ output.T
    return total


def independent_product(network, found, counted, selection):
    """The term that passes the selected stages (from 0) and resums those that are not counted, applied to the embedding."""
    state = found["states"][0]
    for stage in range(2 * len(network.model.layers)):
        if stage in selection:
            state = dressed_branch(network, found, stage, state)
        elif not counted(stage):
            state = state + dressed_branch(network, found, stage, state)
    return state


COUNTED = {"all": lambda stage: True, "attention": lambda stage: stage % 2 == 0, "ffn": lambda stage: stage % 2 == 1}


def stages_of(selection, binding):
    numbers = {vertex: stage.number - 1 for stage in binding.T.stages for vertex in stage.vertices}
    return {numbers[vertex] for vertex in selection}


@examples(6)
@given(
    st.lists(st.integers(0, 49_151), min_size=2, max_size=12).map(tuple),
    st.sampled_from(sorted(COUNTED)),
    st.sampled_from(["gate", "source"]),
    st.data(),
)
def test_random_tokens_sum_to_the_model_s_own_state_and_random_terms_are_independent_products(
    smollm2, ids, counting, split, data
):
    network, found = smollm2.network, record(smollm2.network, torch.tensor([ids]))
    binding = oa.bind(smollm2, [list(ids)], split=split)
    result = binding.orders(counting=counting)
    own = found["states"][-1]
    added_up = result.parts.norm(dim=-1).sum(0)
    error = (result.parts.sum(0) - own).norm(dim=-1)
    assert (error <= ROUNDING * own.norm(dim=-1) + ONE_STAGE * added_up).all()
    if split == "source":
        return
    series = binding.T.dyson(counting=counting)
    order = data.draw(st.integers(0, series.max_order))
    rank = data.draw(st.integers(0, series.count(order) - 1))
    selection = stages_of(series.selection(order, rank), binding)
    assert len(selection) == order
    value = binding.evaluate(series.term(order, rank) @ binding.T.x[0])
    expected = independent_product(network, found, COUNTED[counting], selection)
    assert (value - expected).norm() <= ROUNDING * expected.norm()


def test_the_independent_product_sees_a_stage_moved_by_one(smollm2, bound):
    network, found = smollm2.network, record(smollm2.network, bound.ids)
    series = bound.T.dyson(counting="attention")
    selection = {2 * (layer - 1) for layer in (3, 17)}
    rank = next(r for r in range(series.count(2)) if stages_of(series.selection(2, r), bound) == selection)
    value = bound.evaluate(series.term(2, rank) @ bound.T.x[0])
    right = independent_product(network, found, COUNTED["attention"], selection)[0]
    moved = independent_product(network, found, COUNTED["attention"], {4, 34})[0]
    assert (value - right).norm() <= ROUNDING * right.norm()
    assert (value - moved).norm() > MISTAKE * right.norm()
