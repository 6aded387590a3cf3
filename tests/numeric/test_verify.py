"""Verdicts on random models: true identities hold, wrong ones do not, and what the check would have caught it catches."""

import itertools
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numeric.models import examples, llamas, tiny_llama, token_ids

import opalgebra as oa
from opalgebra.expr import linear_combination
from opalgebra.facts import Equal
from opalgebra.numeric.faithful import Reference
from opalgebra.numeric.verify import propagated_outputs
from opalgebra.space import ONE, X
from opalgebra.testing import plant

IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 36]])
COUNTINGS = ("all", "attention", "ffn", lambda vertex: vertex.layer % 2 == 1)
SPLITS = ("gate", "source", {"attention": "source", "ffn": "gate"}, {"attention": "source", "ffn": "source"})


@pytest.fixture(scope="module")
def M():
    return oa.bind(tiny_llama(), IDS)


@pytest.fixture(scope="module")
def by_heads():
    return oa.bind(tiny_llama(), IDS, heads=True)


def vertices(binding):
    return [vertex for stage in binding.T.stages for vertex in stage.vertices]


@examples(40)
@given(llamas(), token_ids(), st.sampled_from(COUNTINGS), st.sampled_from(SPLITS))
def test_every_series_of_every_model_holds(network, ids, counting, split):
    M = oa.bind(network, ids, split=split)
    report = oa.verify(M.T.dyson(counting=counting), M)
    assert report.holds is True
    assert report.residual <= report.bound <= report.worst_case


@examples(25)
@given(llamas(biases=False), token_ids(), st.sampled_from(COUNTINGS))
def test_every_series_with_heads_as_vertices_holds(network, ids, counting):
    M = oa.bind(network, ids, heads=True)
    assert oa.verify(M.T.dyson(counting=counting), M).holds is True


@examples(25)
@given(llamas(), token_ids(), st.data())
def test_theorems_and_equations_of_states_hold(network, ids, data):
    M = oa.bind(network, ids)
    s = data.draw(st.integers(1, len(M.T.stages)))
    theorem = oa.expand(M.T.stages[s - 1].factor @ M.T.x[s - 1])
    assert oa.verify(theorem, M).holds is True
    dressed = oa.expand(M.T.x[min(s, 4)])
    assert oa.verify(dressed, M).holds is True


def test_a_truncated_series_does_not_hold(M):
    report = oa.verify(M.T.dyson(order=3), M)
    assert report.holds is False
    assert report.what == "Dyson series counting all, truncated at order 3"


@pytest.mark.parametrize("s", range(1, 6))
def test_two_stages_in_the_wrong_order_do_not_hold(M, s):
    earlier, later = M.T.stages[s - 1].factor, M.T.stages[s].factor
    assert oa.verify(oa.expand(later @ earlier @ M.T.x[s - 1]), M).holds is True
    report = oa.verify(oa.equation(M.T.x[s + 1], earlier @ later @ M.T.x[s - 1]), M)
    assert report.holds is False
    assert report.residual > 1e6 * report.bound


def test_a_dropped_head_does_not_hold(by_heads):
    T = by_heads.T
    for layer, head in itertools.product((1, 2, 3), range(4)):
        stage = T.stages[2 * layer - 2]
        kept = tuple(vertex for vertex in stage.vertices if vertex is not T.head[layer, head])
        dropped = (1 + stage.branch(kept)) @ T.x[stage.number - 1]
        assert oa.verify(oa.equation(T.x[stage.number], dropped), by_heads).holds is False
        assert oa.verify(T.dyson(), plant(by_heads, T.head[layer, head], -1.0)).holds is False


def test_the_undressed_recurrence_does_not_hold(M):
    undressed = linear_combination(((1, part) for part in M.T.dyson().undressed), ONE, X)
    report = oa.verify(oa.equation(M.T.x[-1], undressed), M)
    assert report.holds is False
    assert report.residual > 0.01


def literal_sum(T):
    """The sum over all selections of stages of the product of their bare branches on the embedding."""
    branches = [stage.branch(stage.vertices) for stage in T.stages]
    chosen = itertools.chain.from_iterable(itertools.combinations(branches, k) for k in range(len(branches) + 1))
    return linear_combination(((1, oa.ordered_product([T.x[0], *selection])) for selection in chosen), ONE, X)


def test_the_literal_sum_over_all_selections_of_twelve_stages_does_not_hold():
    M = oa.bind(tiny_llama(layers=6, width=8, hidden=8, head_dim=2), IDS[:1, :3])
    literal = literal_sum(M.T)
    assert len(literal.terms) == 2**12
    report = oa.verify(oa.equation(M.T.x[-1], literal), M)
    assert report.holds is False
    assert report.residual > 0.01


def test_the_dressed_sum_over_all_selections_of_eight_stages_holds():
    M = oa.bind(tiny_llama(layers=4, width=8, hidden=8, head_dim=2, mlp_bias=True), IDS[:1, :3])
    S = M.T.dyson()
    total = linear_combination(((1, S[k]) for k in range(S.max_order + 1)), ONE, X)
    assert len(total.terms) > 2**8
    assert oa.verify(oa.equation(M.T.x[-1], total), M).holds is True


def test_the_literal_sum_does_not_hold_when_every_output_is_a_source_either():
    M = oa.bind(tiny_llama(layers=2), IDS, split={"attention": "source", "ffn": "source"})
    assert oa.verify(M.T.dyson(), M).holds is True
    assert oa.verify(oa.equation(M.T.x[-1], literal_sum(M.T)), M).holds is False


def test_maps_are_compared_on_states_that_they_were_not_made_for(M):
    T = M.T
    F, A, N, P = T.ffn[1], T.attention[1], T.stages[0].norm, T.stages[1].norm
    dressed = oa.dressed(F, P @ T.x[1])
    assert oa.verify(oa.equation(dressed @ (N + A), dressed @ N + dressed @ A), M).holds is True
    assert oa.verify(oa.equation(F @ (N + A), F @ N + F @ A), M).holds is False
    assert oa.verify(oa.equation(F @ (2 * N), 2 * (F @ N)), M).holds is False
    assert oa.verify(oa.expand((F + A) @ (1 + N)), M).holds is True


def test_a_dressed_ffn_does_not_commute_with_attention(M):
    T = M.T
    ffn, attention = oa.dressed(T.ffn[1], T.stages[1].norm @ T.x[1]), oa.dressed(T.attention[1], T.stages[0].norm @ T.x[0])
    assert oa.verify(oa.equation(ffn @ attention, attention @ ffn), M).holds is False


def test_a_dressing_at_another_state_does_not_hold(M):
    T = M.T
    F, P = T.ffn[1], T.stages[1].norm
    right, wrong = P @ T.x[1], P @ T.x[0]
    assert oa.verify(oa.equation(F @ right, oa.dressed(F, right) @ right + oa.source(F, right)), M).holds is True
    assert oa.verify(oa.equation(F @ right, oa.dressed(F, wrong) @ right + oa.source(F, wrong)), M).holds is False


@pytest.mark.parametrize("counting", ["all", "attention"])
@pytest.mark.parametrize("which", ["median", "worst"])
def test_an_error_planted_just_above_what_would_be_caught_turns_the_verdict(M, which, counting):
    S = M.T.dyson(counting=counting)
    caught = getattr(oa.verify(S, M).would_catch, which)
    vertex = next(vertex for vertex in vertices(M) if vertex.name == caught.vertex)
    assert oa.verify(S, plant(M, vertex, 1.2 * caught.error)).holds is False
    assert oa.verify(S, plant(M, vertex, 0.8 * caught.error)).holds is True


@examples(15)
@given(llamas(), token_ids(), st.sampled_from(SPLITS[:3]))
def test_would_catch_turns_the_verdict_on_every_model(network, ids, split):
    M = oa.bind(network, ids, split=split)
    S = M.T.dyson()
    report = oa.verify(S, M)
    for caught in (report.would_catch.median, report.would_catch.worst):
        vertex = next(vertex for vertex in vertices(M) if vertex.name == caught.vertex)
        assert oa.verify(S, plant(M, vertex, 2.1 * caught.error)).holds is False


@pytest.mark.parametrize("heads", [False, True])
def test_an_error_in_a_vertex_moves_the_sum_by_its_propagated_output(heads):
    M = oa.bind(tiny_llama(attention_bias=not heads, mlp_bias=True), IDS, heads=heads)
    names, propagated = propagated_outputs(M)
    right = M.orders().parts.sum(0)
    for name, expected in zip(names, propagated, strict=True):
        vertex = next(vertex for vertex in vertices(M) if vertex.name == name)
        moved = plant(M, vertex, 0.5).orders().parts.sum(0) - right
        torch.testing.assert_close(moved, 0.5 * expected, rtol=1e-9, atol=1e-11)


def test_a_different_forward_of_the_model_itself_is_seen(M):
    states = M.reference.states.clone()
    states[-1, 1, 2, 0] += 1e-9
    tampered = replace(M, reference=Reference(states, M.reference.logits))
    report = oa.verify(M.T.dyson(), tampered)
    assert report.holds is False
    assert [row.index(max(row)) for row in report.per_position][1] == 2
    last = M.T.stages[-1].factor @ M.T.x[-2]
    assert last is M.T.x[-1]
    assert oa.verify(oa.expand(last), tampered).holds is False


def test_float32_models_are_verified_to_their_own_precision():
    M = oa.bind(tiny_llama(dtype=torch.float32), IDS)
    report = oa.verify(M.T.dyson(), M)
    assert report.holds is True
    assert report.dtype == "float32"
    assert 1e-7 < report.bound < 1e-3
    assert oa.verify(M.T.dyson(), plant(M, M.T.ffn[2], 0.01)).holds is False


def test_bfloat16_cannot_tell_and_says_so():
    M = oa.bind(tiny_llama(dtype=torch.bfloat16, layers=8), IDS)
    report = oa.verify(M.T.dyson(), M)
    assert report.holds is None
    assert str(report).startswith("Dyson series counting all: cannot tell\n")


def test_a_check_that_could_not_have_seen_a_missing_vertex_cannot_tell():
    network = tiny_llama()
    for layer in network.model.layers:
        layer.self_attn.o_proj.weight *= 1e-20
        layer.mlp.down_proj.weight *= 1e-20
    M = oa.bind(network, IDS)
    report = oa.verify(M.T.dyson(), M)
    assert report.residual == 0
    assert report.would_catch.median.error > 1
    assert report.holds is None


def test_the_right_product_is_compared_with_the_model_and_the_wrong_one_too(M):
    T = M.T
    attention, ffn = T.stages[2].factor, T.stages[3].factor
    right = oa.equation(T.x[4], ffn @ attention @ T.x[2])
    assert oa.verify(right, M).holds is True
    assert oa.verify(oa.equation(T.x[-1], T.operator @ T.x[0]), M).holds is True
    assert oa.verify(oa.equation(T.x[4], attention @ ffn @ T.x[2]), M).holds is False
    assert oa.verify(right, plant(M, T.ffn[2], 1e-6)).holds is True
    states = M.reference.states.clone()
    states[4, 0, 1, 0] += 1e-9
    assert oa.verify(right, replace(M, reference=Reference(states, M.reference.logits))).holds is False


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_error_of_one_per_cent_is_never_called_right(dtype):
    M = oa.bind(tiny_llama(dtype=dtype), IDS)
    x = M.T.x[1]
    assert oa.verify(oa.equation(1.01 * x, x), M).holds is not True
    for order in range(4):
        assert oa.verify(M.T.dyson(order=order), M).holds is not True


def test_a_cancellation_that_leaves_no_digits_cannot_tell(M):
    x = M.T.x
    theorem = oa.expand(M.T.stages[1].factor @ M.T.stages[0].factor @ x[0])
    for size, verdict in ((1, False), (10**12, False), (10**13, None), (10**16, None)):
        noisy = x[1] + size * (theorem.lhs - theorem.rhs)
        assert oa.verify(oa.equation(noisy, 1.2 * x[1]), M).holds is verdict


def test_two_zeros_cannot_tell(M):
    zero = 0 * M.T.x[0]
    report = oa.verify(oa.equation(oa.dressed(M.T.ffn[1], M.T.x[0]) @ zero, zero), M)
    assert report.holds is None


def test_results_have_a_batch_axis_when_the_input_had_one(M):
    report = oa.verify(M.T.dyson(), M)
    assert [len(row) for row in report.per_position] == [5, 5]
    assert [len(row) for row in report.bounds] == [5, 5]


def test_a_report_is_plain_data_and_reads_well(M):
    report = oa.verify(M.T.dyson(), M)
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["verdict"] == "holds"
    assert plain["split"] == {"attention": "frozen", "ffn": "gate"}
    assert plain["would_catch"]["median"]["vertex"] == report.would_catch.median.vertex
    assert set(plain["versions"]) == {"python", "opalgebra", "torch", "transformers"}
    lines = str(report).splitlines()
    assert repr(report) == str(report)
    assert lines[0] == "Dyson series counting all: holds"
    assert lines[1] == (
        f"  residual {report.residual:.2e}   bound {report.bound:.2e} (estimate; worst case {report.worst_case:.1e})"
    )
    assert lines[2] == (
        f"  condition {report.condition:.3g}   model LlamaForCausalLM   split attention frozen, ffn gate   float64 on cpu"
    )
    median, worst = report.would_catch.median, report.would_catch.worst
    assert lines[3] == (
        f"  would catch a relative error of {median.error:.1e} in {median.vertex} (median vertex), "
        f"{worst.error:.1e} in {worst.vertex} (worst)"
    )


def message(error, statement, binding):
    with pytest.raises(error) as raised:
        oa.verify(statement, binding)
    return str(raised.value)


def test_what_cannot_be_verified_is_refused(M, by_heads):
    x = M.T.x[0]
    assert message(oa.InputError, "x = x", M) == "a str cannot be verified; pass a Series, a Theorem or an equation"
    assert message(oa.InputError, Equal(x, x), M) == (
        "both sides are one and the same expression, so that nothing could fail; state an equation of two, or compare with a "
        "state M.T.x[s] that the model itself computed"
    )
    assert message(oa.InputError, M.T.dyson(), None) == (
        "a NoneType is no binding of a model; verify(statement, bind(model, prompt))"
    )
    assert message(oa.InputError, by_heads.T.dyson(), M) == (
        "the series is of another architecture than the binding; take it from M.T.dyson()"
    )
    P, Q = oa.atoms("P Q", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES)
    assert message(oa.InputError, oa.equation(P, Q), M) == (
        "only states and maps of X can be verified, not maps features -> features"
    )
    foreign = oa.Atom("Z7", kind="linear")
    assert message(oa.InputError, oa.equation(foreign @ x, x), M).startswith("Z7 (linear) is not part of this model;")


def test_a_side_that_is_not_finite_is_named_with_its_token(M):
    states = M.reference.states.clone()
    states[-1, 1, 3] = float("nan")
    broken = replace(M, reference=Reference(states, M.reference.logits))
    assert message(oa.ModelError, M.T.dyson(), broken) == (
        "Dyson series counting all: a side is not finite at token 3 of row 1; use a longer dtype or check the input"
    )


def test_planting_asks_for_a_vertex_of_the_model(M):
    with pytest.raises(oa.InputError) as raised:
        plant(M, oa.Atom("F9", kind="ffn"), 0.1)
    assert str(raised.value) == "F9 is no vertex of this model; take one of M.T.attention, M.T.ffn or M.T.head"
