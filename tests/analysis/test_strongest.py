"""Worldlines met in the middle against every one of them listed, with dense matrices of the model; totals against orders."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from models.families import FAMILIES, MODELS, inputs, tiny
from numeric import oracle
from numeric.models import tiny_llama, word_tokenizer

import opalgebra as oa
from opalgebra.analysis import strongest_diagrams, strongest_worldlines, token_flow
from opalgebra.numeric import half_worldlines, pullback

IDS = torch.tensor([[5, 11, 23]])
ALL = 100_000
# Chains of at most 8 stages with fewer than 100 summed dimensions each err by lambda sqrt(m) u = 5.4 * 28 * 1.1e-16 = 2e-14 of
# the product of the norms that they pass, which exceeds what is left of it by less than 1e3 here. Errors planted below: 1e-3.
ROUNDING = 2e-11
MISTAKE = 1e-3


def attends(name):
    return name.startswith("A")


def small(seed=0, **changes):
    """Two layers, two heads, small enough to list every worldline; `biases` gives it sources."""
    sizes = {"layers": 2, "heads": 2, "key_heads": 1, "head_dim": 4, "width": 6, "hidden": 7, "attention_bias": True}
    return tiny_llama(seed, **{**sizes, "mlp_bias": True, **changes})


def listed(network, ids, counted, order):
    """{(source or None, vertices, positions): contribution} of every worldline of an order, from the model's own weights."""
    found = oracle.record(network, ids)
    stages = [with_bias(network, stage, at) for at, stage in enumerate(oracle.dense_stages(network, found, heads=True))]
    tokens, features = found.states[0][0].shape

    def block(matrix, t, s):
        return matrix.reshape(tokens, features, tokens, features)[t, :, s, :]

    partial = [(None, (), (s,), 0, found.states[0][0][s]) for s in range(tokens)]
    for stage in stages:
        longer = [
            (birth, names, way, count, block(oracle.factor(stage, counted, None), way[-1], way[-1]) @ vector)
            for birth, names, way, count, vector in partial
        ]
        for (birth, names, way, count, vector), name in itertools.product(partial, filter(counted, stage.vertices)):
            for t in range(tokens):
                moved = block(stage.vertices[name], t, way[-1]) @ vector
                here = (*way, t) if attends(name) else way
                if attends(name) or t == way[-1]:
                    longer.append((birth, (*names, name), here, count + 1, moved))
        for name, source in stage.sources.items():
            longer += [(name, (), (t,), int(counted(name)), source.reshape(tokens, features)[t]) for t in range(tokens)]
        partial = longer
    norm, head = network.model.norm, oracle.array(network.lm_head.weight)
    last = found.norms[-1]
    scale = oracle.norm_scale(last[0][0], last[1][0], oracle.array(norm.weight))[-1]
    covector = (head[5] - head[7]) * oracle.array(norm.weight) * scale
    values = {
        (birth, names, way): covector @ vector
        for birth, names, way, count, vector in partial
        if count == order and way[-1] == tokens - 1
    }
    return {key: value for key, value in values.items() if value != 0}


def with_bias(network, stage, at):
    """The output bias of attention, which belongs to no head and counts as all of them do."""
    bias = network.model.layers[at // 2].self_attn.o_proj.bias
    if at % 2 or bias is None:
        return stage
    return replace(stage, sources={**stage.sources, f"AB{at // 2 + 1}": np.tile(oracle.array(bias), IDS.shape[1])})


def key_of(resolved):
    """The source, the vertices and the positions of a single worldline."""
    diagram = resolved.diagram
    first = diagram.nodes[0]
    birth = None if first.kind != "source" else first.atom.name.replace("B", "AB")
    return birth, tuple(v.name for v in diagram.vertices[birth is not None :]), resolved.positions


def discrepancy(bound, expected, order, counting="attention"):
    """The largest difference between what is found and what is listed, over the sum of the sizes."""
    found = strongest_worldlines(bound, 5, minus=7, order=order, counting=counting, number=ALL)
    size = sum(map(abs, expected.values()))
    values = {key_of(resolved): value for resolved, value in zip(found.diagrams, found.contributions)}
    assert len(values) == len(found.diagrams)
    missing = max((abs(values.get(key, 0.0) - expected.get(key, 0.0)) for key in values.keys() | expected.keys()), default=0.0)
    figures = [found.total - sum(expected.values()), found.absolute - size]
    return max(missing, *map(abs, figures)) / (size or 1.0)


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("biases", [False, True])
def test_every_worldline_is_found_with_what_it_contributes(order, biases):
    changes = {"attention_bias": biases, "mlp_bias": biases, "layers": 3 if order == 3 and not biases else 2}
    network = small(order, **changes)
    bound = oa.bind(network, IDS, heads=True)
    expected = listed(network, IDS, attends, order)
    assert bool(expected) == (order <= changes["layers"])
    assert discrepancy(bound, expected, order) < ROUNDING


def test_ffns_and_attention_count_together():
    network = small(3)
    bound = oa.bind(network, IDS, heads=True)
    for order in (1, 2):
        assert discrepancy(bound, listed(network, IDS, lambda name: True, order), order, "all") < ROUNDING


def test_the_strongest_are_those_of_the_whole_list_in_order():
    network = small(1)
    bound = oa.bind(network, IDS, heads=True)
    expected = sorted(listed(network, IDS, attends, 2).values(), key=abs, reverse=True)
    found = strongest_worldlines(bound, 5, minus=7, number=5)
    np.testing.assert_allclose(found.contributions, expected[:5], rtol=1e-9)
    assert found.count == len(expected)
    assert repr(found).startswith(f"Strongest(5 of {len(expected)}: {expected[0]:+.3g}, ")
    assert found.diagrams[0].contribution == pytest.approx(expected[0], rel=1e-9)


def test_diagrams_are_the_sums_of_their_worldlines_and_both_ways_to_weigh_them_agree():
    network = small(2)
    bound = oa.bind(network, IDS, heads=True)
    expected = {}
    for (birth, names, _), value in listed(network, IDS, attends, 2).items():
        expected[birth, names] = expected.get((birth, names), 0.0) + value
    found = strongest_diagrams(bound, 5, minus=7, number=ALL)
    size = sum(map(abs, expected.values()))
    assert found.count == len(expected) == len(found.diagrams)
    for resolved, value in zip(found.diagrams, found.contributions):
        first = resolved.diagram.nodes[0]
        birth = first.atom.name.replace("B", "AB") if first.kind == "source" else None
        names = tuple(vertex.name for vertex in resolved.diagram.vertices[birth is not None :])
        assert abs(value - expected[birth, names]) < ROUNDING * size
        assert abs(resolved.contribution - value) < ROUNDING * size


def test_the_weight_of_a_hop_is_the_sum_over_the_worldlines_that_take_it():
    network = small(4)
    bound = oa.bind(network, IDS, heads=True)
    term = bound.T.dyson(counting="attention").propagator((bound.T.head[1, 0], bound.T.head[2, 1]))
    flow = token_flow(bound, oa.Diagram(term), 5, minus=7)
    ways = {way: value for (birth, names, way), value in listed(network, IDS, attends, 2).items() if names == ("A1_0", "A2_1")
            and birth is None}  # fmt: skip
    size = sum(map(abs, ways.values()))
    for hops in flow.steps:
        assert abs(sum(hop.weight for hop in hops) - sum(ways.values())) < ROUNDING * size
    moving = [flow.steps[2 * place] for place, node in enumerate(flow.diagram.nodes) if node.kind == "attention"]
    assert len(moving) == 2
    for place, hops in enumerate(moving):
        for hop in hops:
            through = sum(value for way, value in ways.items() if way[place : place + 2] == (hop.source, hop.target))
            assert abs(hop.weight - through) < ROUNDING * size
    assert flow.count == len(ways) == 6
    assert (flow.readout, flow.is_causal, flow.tokens) == ("5 − 7", True, ("5", "11", "23"))


def test_lines_that_carry_between_tokens_have_weights_too():
    network = small(5)
    bound = oa.bind(network, IDS)
    S = bound.T.dyson(counting="ffn")
    flow = token_flow(bound, oa.Diagram(S.propagator((bound.T.ffn[2],))), 5, minus=7)
    value = bound.evaluate(S.propagator((bound.T.ffn[2],)) @ S.states[0])
    expected = float((pullback.readout_covector(bound, 5, 7)[0, 0] * value).sum())
    assert flow.contribution == pytest.approx(expected, rel=1e-9)
    assert any(hop.source != hop.target for hop in flow.steps[1])
    for hops in flow.steps:
        assert sum(hop.weight for hop in hops) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("family", MODELS)
def test_worldlines_of_every_family_sum_to_the_logits_of_their_order(family):
    bound = oa.bind(tiny(family), inputs(family, batch=1), heads=True)
    expected = bound.orders(counting="attention").logits(5, minus=7)
    for order in range(3):
        found = strongest_worldlines(bound, 5, minus=7, order=order, number=1)
        assert abs(found.total - expected.orders[0, order]) <= ROUNDING * (found.absolute + abs(expected.orders).sum())
    resolved = strongest_diagrams(bound, 5, minus=7, order=1, number=1)
    assert resolved.diagrams[0].contribution == pytest.approx(resolved.contributions[0], rel=1e-8)


def test_what_is_padded_carries_nothing():
    ids, mask = torch.tensor([[0, 0, 5, 11, 23]]), torch.tensor([[0, 0, 1, 1, 1]])
    network = small(6)
    alone = strongest_worldlines(oa.bind(network, IDS, heads=True), 5, number=4)
    padded = strongest_worldlines(oa.bind(network, ids, mask=mask, heads=True), 5, number=4)
    np.testing.assert_allclose(padded.contributions, alone.contributions, rtol=1e-9)
    assert [tuple(at - 2 for at in d.positions) for d in padded.diagrams] == [d.positions for d in alone.diagrams]


@pytest.mark.parametrize("error", ["covectors are not transposed", "sources are forgotten", "a token is read twice"])
def test_planted_errors_are_found(monkeypatch, error):
    network = small(0)
    bound = oa.bind(network, IDS, heads=True)
    expected = listed(network, IDS, attends, 2)
    assert discrepancy(bound, expected, 2) < ROUNDING
    if error == "covectors are not transposed":
        monkeypatch.setattr(half_worldlines, "pulled", lambda linear, covectors: linear(covectors))
    elif error == "sources are forgotten":
        none = half_worldlines.Halves(bound.states[:0])
        monkeypatch.setattr(half_worldlines._Step, "born", lambda *_: (none, none))
    else:
        own = half_worldlines.only
        monkeypatch.setattr(half_worldlines, "only", lambda at, states: own(at, states) * (1 + (at == 0)))
    assert discrepancy(bound, expected, 2) > MISTAKE


def refused(act):
    with pytest.raises(oa.OpalgebraError) as caught:
        act()
    return str(caught.value)


def test_refusals(monkeypatch):
    network = small(0)
    bound = oa.bind(network, IDS, heads=True)
    diagram = oa.Diagram(bound.T.dyson().term(1, 0))
    assert refused(lambda: strongest_worldlines(network, 5)) == "LlamaForCausalLM is no bound model; bind one at an input"
    assert refused(lambda: token_flow(network, diagram, 5)) == "LlamaForCausalLM is no bound model; bind one at an input"
    assert refused(lambda: token_flow(bound, "A1", 5)) == "str is no diagram; make one of a term by Diagram(term)"
    assert refused(lambda: strongest_diagrams(bound, 5, number=0)) == (
        "number=0: the strongest of an order are a positive number of them"
    )
    assert refused(lambda: strongest_worldlines(oa.bind(network, IDS.repeat(2, 1)), 5)) == (
        "diagrams of 2 prompts at once were asked; bind one text, or one row of token ids"
    )
    assert refused(lambda: strongest_worldlines(bound, 5, counting="ffn")) == (
        "worldlines were asked where attention of layer 1 is resummed in propagators, which then leave their token; count "
        "attention too, or resolve one diagram by token_flow"
    )
    assert refused(lambda: strongest_worldlines(bound, 5, order=-1)) == (
        "order -1 of a series was asked; an order is a natural number"
    )
    encoder = oa.bind(tiny(FAMILIES[-1]), inputs(FAMILIES[-1], batch=1))
    assert refused(lambda: strongest_worldlines(encoder, 5)).endswith(
        "has no unembedding and so no logits; bind a model with a language head"
    )
    monkeypatch.setattr(half_worldlines, "LIMIT", 50)
    assert refused(lambda: strongest_worldlines(bound, 5)) == (
        "the halves of these worldlines take 72 numbers, more than 50; ask for a lower order, a shorter prompt, or count fewer "
        "vertices by counting="
    )


def test_a_diagram_that_carries_nothing_is_refused():
    bound = oa.bind(small(0), IDS, split={"attention": "source", "ffn": "gate"})
    diagram = oa.Diagram(bound.T.dyson(counting="attention").term(1, 0))
    assert refused(lambda: token_flow(bound, diagram, 5)) == (
        "the diagram carries nothing to this logit under the binding's split, and so has no worldlines"
    )


def test_a_text_is_labelled_with_its_tokens():
    bound = oa.bind(oa.load(small(0), tokenizer=word_tokenizer()), "w5 w11 w23", heads=True)
    found = strongest_worldlines(bound, "w5", minus="w7", number=1)
    assert (found.diagrams[0].tokens, found.diagrams[0].readout) == (("w5", "w11", "w23"), "w5 − w7")


def gap_of(bound, value):
    """What a part of the last state adds to the logit of " Mary" less that of " John", from the model's own weights."""
    network = bound.model.network
    norm, head = network.model.norm, network.lm_head.weight
    state = bound.reference.states[-1][0, -1]
    scale = 1 / torch.sqrt(state.square().mean() + norm.variance_epsilon)
    mary, john = (head[bound.model.token_id(token)] for token in (" Mary", " John"))
    return float((value[-1] * scale * norm.weight) @ (mary - john))


@pytest.mark.models
def test_the_first_order_of_a_real_model(smollm2):
    check_real(smollm2, order=1, number=2)


@pytest.mark.slow
@pytest.mark.models
def test_the_second_order_of_a_real_model(smollm2):
    check_real(smollm2, order=2, number=12)


def check_real(model, order, number):
    """The total against the recurrence of orders, each diagram against the value of its term."""
    from conftest import PROMPT

    bound = oa.bind(model, PROMPT, heads=True)
    expected = bound.orders(counting="attention", order=order).logits(" Mary", minus=" John")
    found = strongest_diagrams(bound, " Mary", minus=" John", order=order, number=number)
    assert abs(found.total - float(expected.orders[order])) < ROUNDING * found.absolute
    assert len(found.diagrams) == number
    for resolved, contribution in zip(found.diagrams, found.contributions):
        value = gap_of(bound, bound.evaluate(resolved.diagram.to_term()))
        assert contribution == pytest.approx(value, rel=1e-10)
        assert resolved.contribution == pytest.approx(value, rel=1e-10)
