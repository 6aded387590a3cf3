"""All orders in one pass equal the sum over every selection of vertices, and the comparison sees planted mistakes."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numeric import oracle
from numeric.models import VOCABULARY, examples, llamas, tiny_llama, token_ids, word_tokenizer

import opalgebra as oa
from opalgebra.errors import InputError, ModelError
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.maps import Affine
from opalgebra.numeric.orders import undressed

# Both computations are chains of at most 12 stages with about 100 summed dimensions each, so that each errs by
# lambda sqrt(m) u = 5.4 * 35 * 1.1e-16 = 2e-14 of what it sums (Higham and Mary 2019); the frozen factors come from states
# with the same error, which later stages amplify: 25 times this, for both. Planted mistakes are seen far above, at MISTAKE.
ROUNDING = 1e-12
MISTAKE = 1e-3

COUNTINGS = {
    "all": lambda name: True,
    "attention": lambda name: name.startswith("A"),
    "ffn": lambda name: name.startswith("F"),
}
SPLITS = st.fixed_dictionaries({"attention": st.sampled_from(["frozen", "source"]), "ffn": st.sampled_from(["gate", "source"])})


def deep(seed=0, **changes):
    """Twelve stages, small enough to sum every one of the 4096 selections."""
    sizes = {"layers": 6, "heads": 2, "key_heads": 1, "head_dim": 2, "width": 6, "hidden": 7}
    return tiny_llama(seed, **{**sizes, **changes})


IDS = torch.tensor([[5, 11, 23], [2, 36, 2]])


def discrepancy(result, parts, sources, row) -> float:
    """The largest difference of a part, or of its source-born share, over the sum of the norms of the parts."""
    found = result.parts[:, row].double().numpy().reshape(len(parts), -1)
    scale = np.linalg.norm(parts, axis=1).sum()
    by_part = np.linalg.norm(found - parts, axis=1).max()
    tokens = result.binding.tokens
    lengths = np.linalg.norm(result.binding.reference.states[-1, row].double().numpy(), axis=-1)
    expected = np.linalg.norm(sources.reshape(len(parts), tokens, -1), axis=-1)
    by_source = np.abs(result.source_norms[row] * lengths - expected).max()
    return max(by_part, by_source) / scale


def expected_figures(parts, sources, exact):
    """norms, source_norms, partial_errors and condition of one row, straight from their definitions."""
    tokens, features = exact.shape
    parts, sources = (each.reshape(-1, tokens, features) for each in (parts, sources))
    length = np.linalg.norm(exact, axis=-1)
    norms = np.linalg.norm(parts, axis=-1)
    errors = [np.linalg.norm(parts[: n + 1].sum(0) - exact, axis=-1) / length for n in range(len(parts))]
    condition = norms.sum(0) / np.linalg.norm(parts.sum(0), axis=-1)
    return norms / length, np.linalg.norm(sources, axis=-1) / length, np.array(errors), condition


def check_against_oracle(network, ids, counting, counted, *, heads=False, split=None, order=None):
    """The whole comparison, row by row."""
    split = split or {"attention": "frozen", "ffn": "gate"}
    binding = oa.bind(network, ids, split=split, heads=heads)
    result = binding.orders(counting=counting, order=order)
    found = oracle.record(network, ids)
    for row in range(len(ids)):
        stages = oracle.dense_stages(network, found, row, heads=heads, **split)
        parts, sources = oracle.brute_force(found.states[0][row], stages, counted)
        if order is not None:
            parts, sources = parts[: order + 1], sources[: order + 1]
        assert discrepancy(result, parts, sources, row) < ROUNDING
        exact = found.states[-1][row]
        norms, source_norms, errors, condition = expected_figures(parts, sources, exact)
        size = norms.sum(0).max()
        assert np.abs(result.norms[row] - norms).max() < ROUNDING * size
        assert np.abs(result.source_norms[row] - source_norms).max() < ROUNDING * size
        assert np.abs(result.partial_errors[row] - errors).max() < ROUNDING * size
        assert np.abs(result.condition[row] / condition - 1).max() < 2 * ROUNDING * condition.max()
        if order is None:
            assert result.partial_errors[row][-1].max() < ROUNDING * size


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("counting", COUNTINGS)
def test_twelve_stages_agree_with_all_4096_selections(counting, biases):
    network = deep(1, attention_bias=biases, mlp_bias=biases)
    check_against_oracle(network, IDS, counting, COUNTINGS[counting])


@examples(25)
@given(llamas(), token_ids(tokens=st.integers(1, 4)), st.sampled_from(sorted(COUNTINGS)), SPLITS)
def test_every_counting_and_split_agrees_with_all_selections(network, ids, counting, split):
    check_against_oracle(network, ids, counting, COUNTINGS[counting], split=split)


@examples(20)
@given(llamas(), token_ids(tokens=st.integers(1, 4)), SPLITS, st.data())
def test_a_random_predicate_and_truncation_agree_with_all_selections(network, ids, split, data):
    layers = network.config.num_hidden_layers
    names = [f"{kind}{layer}" for layer in range(1, layers + 1) for kind in "AF"]
    chosen = data.draw(st.sets(st.sampled_from(names)))
    order = data.draw(st.none() | st.integers(0, 2 * layers + 1))
    check_against_oracle(
        network, ids, lambda vertex: vertex.name in chosen, lambda name: name in chosen, split=split, order=order
    )


@examples(20)
@given(llamas(layers=st.integers(1, 2), biases=False), token_ids(tokens=st.integers(1, 3)), st.data())
def test_heads_as_vertices_agree_with_all_selections(network, ids, data):
    layers, heads = network.config.num_hidden_layers, network.config.num_attention_heads
    names = [f"F{layer}" for layer in range(1, layers + 1)]
    names += [f"A{layer}_{head}" for layer in range(1, layers + 1) for head in range(heads)]
    chosen = data.draw(st.sets(st.sampled_from(names)) | st.just(set(names)))
    check_against_oracle(network, ids, lambda vertex: vertex.name in chosen, lambda name: name in chosen, heads=True)


def test_heads_that_all_count_are_the_attention_as_one_vertex():
    network = deep(2, layers=3, heads=3, key_heads=3)
    heads, whole = oa.bind(network, IDS, heads=True), oa.bind(network, IDS)
    for counting in COUNTINGS:
        together, plain = heads.orders(counting=counting), whole.orders(counting=counting)
        assert (together.parts - plain.parts).norm() < ROUNDING * plain.parts.norm() * len(plain.parts)


@examples(10)
@given(llamas(), token_ids())
def test_the_orders_sum_to_the_hidden_states_that_the_model_itself_outputs(network, ids):
    binding = oa.bind(network, ids)
    total = binding.orders().parts.sum(0)
    with faithful(network):
        outputs = network(input_ids=ids, output_hidden_states=True, use_cache=False)
        normed = network.model.norm(total)
    scale = outputs.hidden_states[-1].norm() * binding.orders().condition.max()
    assert (normed - outputs.hidden_states[-1]).norm() < ROUNDING * scale
    for layer, state in enumerate(outputs.hidden_states[:-1]):
        assert (binding.states[2 * layer] - state).norm() < ROUNDING * state.norm() * binding.orders().condition.max()


@pytest.mark.parametrize("order", [0, 1, 5, 11, 12, 40])
def test_a_truncation_gives_exactly_the_first_orders_of_the_full_run(order):
    binding = oa.bind(deep(3, attention_bias=True, mlp_bias=True), IDS)
    full, cut = binding.orders(), binding.orders(order=order)
    kept = min(order, 12) + 1
    assert cut.parts.shape == (kept, *full.parts.shape[1:])
    assert (cut.parts - full.parts[:kept]).norm() < ROUNDING * full.parts.norm()
    assert np.abs(cut.partial_errors - full.partial_errors[:, :kept]).max() < ROUNDING * full.norms.sum(1).max()
    assert cut.norms.shape == cut.source_norms.shape == (2, kept, 3)


def counting_applications(binding):
    """The same binding, and the list to which every vertex adds the number of states that it is applied to, not of shapes."""
    applied = []

    class Counted(Affine):
        def __init__(self, vertex):
            self.vertex, self.source, self.inner = vertex, vertex.source, vertex.inner

        def add_to(self, out, states):
            if states.device.type != "meta":
                applied.append(states.reshape(-1, *binding.states[0].shape).shape[0])
            self.vertex.add_to(out, states)

    frozen = [
        replace(stage, branches=tuple(replace(branch, vertex=Counted(branch.vertex)) for branch in stage.branches))
        for stage in binding.frozen
    ]
    return replace(binding, frozen=frozen, known_dressings={}), applied


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("order", [None, 0, 1, 4, 12])
def test_the_number_of_block_applications_is_that_of_the_recurrence(order, counting):
    binding, applied = counting_applications(oa.bind(deep(4), IDS))
    binding.orders(counting=counting, order=order)
    kept = 12 if order is None else order
    passed, expected = 0, 0
    for stage in range(12):
        counts = COUNTINGS[counting]("AF"[stage % 2])
        expected += min(passed + 1, kept) if counts else min(passed, kept) + 1
        passed += counts
    assert sum(applied) == expected
    if counting == "all":
        assert sum(applied) == (78 if order is None else sum(min(n, order) for n in range(1, 13)))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("tied", [False, True])
def test_logits_by_order_and_the_readout_bias_sum_to_the_logit_of_the_model(tied, batch):
    network, ids = deep(5, attention_bias=True, mlp_bias=True, tied=tied), IDS[:batch]
    result, found = oa.bind(network, ids).orders(), oracle.record(network, ids)
    for token, minus in [(7, None), (7, 30), (0, VOCABULARY - 1)]:
        logits = result.logits(token, minus=minus)
        own = found.logits[:, -1, token] - (0 if minus is None else found.logits[:, -1, minus])
        assert logits.orders.shape == (batch, 13) and logits.orders.dtype == np.float64
        scale = np.abs(logits.orders).sum(1) + np.abs(own)
        assert (np.abs(logits.orders.sum(1) + logits.readout_bias - own) < ROUNDING * scale).all()
        assert (np.abs(logits.model - own) < ROUNDING * scale).all()


def test_an_unembedding_with_a_bias_gives_it_as_the_readout_bias():
    network = deep(6, layers=1)
    network.lm_head.bias = torch.nn.Parameter(torch.linspace(-3, 3, VOCABULARY, dtype=torch.float64), requires_grad=False)
    logits = oa.bind(network, IDS).orders().logits(8, minus=30)
    own = oracle.record(network, IDS).logits[:, -1]
    assert np.allclose(logits.readout_bias, network.lm_head.bias[8] - network.lm_head.bias[30], rtol=1e-15, atol=0)
    assert np.abs(logits.orders.sum(1) + logits.readout_bias - (own[:, 8] - own[:, 30])).max() < ROUNDING * np.abs(own).max()


def test_a_text_gives_results_without_a_batch_axis():
    network = deep(7, layers=2)
    binding = oa.bind(oa.load(network, tokenizer=word_tokenizer()), "w5 w11 w23")
    batched = oa.bind(network, IDS[:1]).orders()
    result = binding.orders()
    for name in ("norms", "source_norms", "partial_errors", "condition"):
        assert np.array_equal(getattr(result, name), getattr(batched, name)[0])
        assert getattr(result, name).dtype == np.float64
    logits = result.logits("w7", minus="w30")
    assert logits.orders.shape == (5,) and logits.readout_bias.shape == logits.model.shape == ()
    assert np.array_equal(logits.orders, batched.logits(7, minus=30).orders[0])


def test_the_record_is_plain_json_and_the_table_has_a_row_for_each_order_and_token():
    network = deep(8, layers=2)
    text = oa.bind(oa.load(network, tokenizer=word_tokenizer()), "w5 w11 w23").orders(counting="ffn")
    plain = json.loads(json.dumps(text.to_dict(), allow_nan=False))
    assert plain["tokens"] == ["w5", "w11", "w23"] and plain["model"] == "LlamaForCausalLM"
    assert plain["split"] == {"attention": "frozen", "ffn": "gate"} and plain["counting"] == "ffn" and plain["order"] is None
    assert np.array_equal(plain["norms"], text.norms) and np.array_equal(plain["condition"], text.condition)

    table = text.to_pandas()
    assert table.shape == (9, 3) and list(table.index.names) == ["order", "token"]
    assert table.loc[(2, 1), "norms"] == text.norms[2, 1] and table.loc[(1, 2), "partial_errors"] == text.partial_errors[1, 2]

    batch = oa.bind(network, IDS).orders(order=1)
    assert json.loads(json.dumps(batch.to_dict()))["tokens"] == [["5", "11", "23"], ["2", "36", "2"]]
    table = batch.to_pandas()
    assert table.shape == (12, 3) and list(table.index.names) == ["batch", "order", "token"]
    assert table.loc[(1, 0, 2), "norms"] == batch.norms[1, 0, 2]


def test_the_printed_form_says_what_was_counted_and_how_much_there_is():
    binding = oa.bind(deep(9, layers=2), IDS)
    assert repr(binding.orders()) == "Orders(counting all: 5 orders, 3 tokens)"
    assert repr(binding.orders(counting="attention", order=1)) == "Orders(counting attention: 2 orders up to 1, 3 tokens)"

    def odd_layers(vertex):
        return vertex.layer % 2 == 1

    assert repr(binding.orders(counting=odd_layers)) == "Orders(counting odd_layers: 3 orders, 3 tokens)"


def test_a_part_that_is_not_finite_is_refused_naming_its_order_and_token():
    binding = oa.bind(deep(10, layers=2), IDS)
    states = binding.states.clone()
    states[0, 1, 2, 0] = torch.nan
    text = r"^order 0 is not finite at token 2 \(row 1\); use a longer dtype or fewer orders$"
    with pytest.raises(ModelError, match=text):
        replace(binding, states=states).orders()
    frozen = list(binding.frozen)
    (branch,) = frozen[1].branches
    scale = branch.before.scale.clone()
    scale[0, 1] = torch.inf
    frozen[1] = replace(frozen[1], branches=(replace(branch, before=replace(branch.before, scale=scale)),))
    with pytest.raises(ModelError, match=r"^order 1 is not finite at token 1 \(row 0\); use a longer dtype or fewer orders$"):
        replace(binding, frozen=frozen).orders()


ORDER_TEXT = "order={}: a truncation order is a natural number; leave it out for all orders"


@pytest.mark.parametrize("order", [-1, True, 1.5, "2"])
def test_an_order_that_is_no_natural_number_is_refused(order):
    with pytest.raises(InputError) as caught:
        oa.bind(deep(11, layers=1), IDS).orders(order=order)
    assert str(caught.value) == ORDER_TEXT.format(repr(order))


def test_an_unknown_counting_is_refused_with_the_known_ones():
    with pytest.raises(InputError) as caught:
        oa.bind(deep(11, layers=1), IDS).orders(counting="heads")
    assert str(caught.value) == "counting='heads' is unknown; use all, attention, ffn, or a predicate on vertices"


def test_a_token_that_the_model_does_not_have_is_refused():
    network = deep(11, layers=1)
    result = oa.bind(oa.load(network, tokenizer=word_tokenizer()), "w5 w11").orders()
    for token, text in {
        37: "token id 37 was asked; ids of LlamaForCausalLM run from 0 to 36",
        -1: "token id -1 was asked; ids of LlamaForCausalLM run from 0 to 36",
        "w5 w6": "'w5 w6' is 2 tokens of LlamaForCausalLM; give a text that is one token, or an id",
        "": "'' is 0 tokens of LlamaForCausalLM; give a text that is one token, or an id",
    }.items():
        with pytest.raises(InputError) as caught:
            result.logits(token)
        assert str(caught.value) == text
        with pytest.raises(InputError):
            result.logits(1, minus=token)
    with pytest.raises(InputError) as caught:
        oa.bind(network, IDS).orders().logits("w5")
    assert str(caught.value) == "LlamaForCausalLM has no tokenizer to read 'w5'; pass a token id"


def planted(stages, network, found, row):
    """The parts and sources of one row under each planted mistake."""
    every = COUNTINGS["all"]
    x0 = found.states[0][row]
    swapped = [*stages[:4], stages[5], stages[4], *stages[6:]]

    def rebuilt(**changes):
        return oracle.brute_force(x0, oracle.dense_stages(network, found, row, **changes), every)

    return {
        "value heads tiled instead of repeated": rebuilt(value_head=lambda head, heads, key_heads: head % key_heads),
        "norm frozen one stage too early": rebuilt(norms=[0, 0, *range(2, 12)]),
        "two stages swapped": oracle.brute_force(x0, swapped, every),
        "sources born with order 0": oracle.brute_force(x0, stages, every, born=lambda counted: 0),
        "the gate of the first token for every token": rebuilt(gate_token=lambda token: 0),
    }


def test_the_comparison_sees_planted_mistakes():
    network = deep(12, heads=4, key_heads=2, width=8, attention_bias=True, mlp_bias=True)
    result, found = oa.bind(network, IDS).orders(), oracle.record(network, IDS)
    stages = oracle.dense_stages(network, found)
    right = oracle.brute_force(found.states[0][0], stages, COUNTINGS["all"])
    assert discrepancy(result, *right, 0) < ROUNDING
    for mistake, wrong in planted(stages, network, found, 0).items():
        assert discrepancy(result, *wrong, 0) > MISTAKE, mistake


def test_the_comparison_sees_a_recurrence_that_reads_parts_already_updated():
    network = deep(13)
    result, found = oa.bind(network, IDS).orders(), oracle.record(network, IDS)
    for in_place in (False, True):
        parts = oracle.recurrence(found.states[0][0], oracle.dense_stages(network, found), COUNTINGS["all"], in_place)
        assert (discrepancy(result, parts, np.zeros_like(parts), 0) > MISTAKE) == in_place


def test_bare_vertices_do_not_sum_to_the_state_of_the_model():
    binding = oa.bind(deep(14), IDS)
    bare, dressed = undressed(binding), binding.orders()
    assert bare.counting == "all, undressed"
    assert np.array_equal(bare.norms[:, 0], dressed.norms[:, 0])
    assert dressed.partial_errors[:, -1].max() < ROUNDING * dressed.norms.sum(1).max()
    assert bare.partial_errors[:, -1].min() > 0.1


def test_the_numbers_are_the_same_inside_inference_mode_and_leave_the_binding_unchanged():
    binding = oa.bind(deep(15), IDS)
    states = binding.states.clone()
    first, second = binding.orders(), binding.orders()
    assert torch.equal(first.parts, second.parts) and torch.equal(states, binding.states)
    with torch.inference_mode():
        assert np.array_equal(binding.orders().norms, first.norms)


def test_a_model_that_could_be_trained_gives_the_same_numbers_without_a_gradient():
    frozen, trainable = (oa.bind(deep(16).requires_grad_(grad), IDS) for grad in (False, True))
    one, two = frozen.orders(), trainable.orders()
    assert np.array_equal(one.norms, two.norms)
    assert np.array_equal(one.logits(3, minus=4).orders, two.logits(3, minus=4).orders)
    assert not trainable.evaluate(trainable.T.ffn[1] @ trainable.T.x[2]).requires_grad
