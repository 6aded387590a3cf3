"""The Dyson series: counts against brute force over subsets, terms against ranks, sums against the state they expand."""

import gc
import tracemalloc
from dataclasses import FrozenInstanceError
from functools import reduce
from itertools import islice, product
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meaning import Interpretation, counterexample

import opalgebra as oa
from opalgebra.expr import Atom, Zero, linear_combination, terms
from opalgebra.series import Series, check_order, counter
from opalgebra.space import ONE, Kind, X
from opalgebra.stage import Branch, Stage

x = oa.state("x")


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def series_of(sizes, *, kind="nonlinear", normed=True, counting="all", order=None):
    """A series of stages with the given numbers of vertices."""
    stages, states = [], [x]
    for number, size in enumerate(sizes, 1):
        vertices = tuple(Atom(f"V{number}_{index}", kind=kind) for index in range(size))
        norm = Atom(f"N{number}", kind=kind) if normed and number % 2 else None
        stages.append(Stage(number, number, (Branch(Kind.ATTENTION, vertices, norm),)))
        states.append(stages[-1].factor @ states[-1])
    return Series(tuple(stages), tuple(states), counting, order)


def chosen_by(mask):
    """A predicate on vertices from a tuple of booleans."""
    return lambda vertex: mask[(3 * vertex.layer + vertex.head) % len(mask)]


def brute_selections(series):
    """All selections by order, from every way to choose at each stage one counted vertex or none."""
    chosen = counter(series.counting)
    choices = [[None, *(v for v in stage.vertices if chosen(v))] for stage in series.stages]
    selections = {}
    for choice in product(*choices):
        selected = tuple(vertex for vertex in choice if vertex is not None)
        selections.setdefault(len(selected), []).append(selected)
    return selections


def brute_propagator(series, selected, after=0):
    """The dressed operator of a selection over the stages after the first ones."""
    operator = oa.Identity()
    for stage, state in list(zip(series.stages, series.states))[after:]:
        here = [vertex for vertex in stage.vertices if vertex in selected]
        rest = [vertex for vertex in stage.vertices if not counter(series.counting)(vertex)]
        step = stage.branch(tuple(here or rest))
        operator = (oa.dressed(step, state) if here else 1 + oa.dressed(step, state)) @ operator
    return operator


def total(series):
    """The sum of all orders."""
    return linear_combination(((1, series[order]) for order in range(series.max_order + 1)), ONE, X)


structures = st.tuples(
    st.lists(st.integers(1, 3), min_size=0, max_size=8), st.lists(st.booleans(), min_size=1, max_size=7).map(tuple)
).map(lambda drawn: series_of(drawn[0], counting=chosen_by(drawn[1])))
small = st.tuples(
    st.lists(st.integers(1, 3), min_size=0, max_size=4), st.lists(st.booleans(), min_size=1, max_size=7).map(tuple)
).map(lambda drawn: series_of(drawn[0], counting=chosen_by(drawn[1])))


@given(structures)
@settings(max_examples=40)
def test_counts_are_those_of_brute_force_over_subsets(series):
    brute = brute_selections(series)
    assert [series.count(order) for order in range(len(series.stages) + 2)] == [
        len(brute.get(order, ())) for order in range(len(series.stages) + 2)
    ]
    assert series.total == sum(map(len, brute.values()))
    assert series.max_order == max(brute)
    assert series.is_exact


@given(structures)
@settings(max_examples=30)
def test_ranks_run_through_every_selection_once(series):
    brute = brute_selections(series)
    for order in range(series.max_order + 1):
        if series.count(order) <= 500:
            found = [series.selection(order, rank) for rank in range(series.count(order))]
            assert len(set(found)) == len(found)
            assert set(found) == set(brute[order])


@given(small)
@settings(max_examples=40)
def test_terms_are_the_dressed_operators_of_the_selections_in_order_of_rank(series):
    for order in range(series.max_order + 1):
        found = list(series.terms(order))
        assert found == [series.term(order, rank) for rank in range(series.count(order))]
        assert len(set(found)) == len(found) == series.count(order)
        assert found == [brute_propagator(series, series.selection(order, rank)) for rank in range(series.count(order))]
        assert all(term.is_linear for term in found)


@given(small)
@settings(max_examples=40)
def test_sources_are_counted_and_are_states(series):
    for order in range(series.max_order + 1):
        found = list(series.sources(order))
        assert len(found) == series.source_count(order)
        assert all(state.is_state for state in found)


@given(small)
@settings(max_examples=40)
def test_sources_are_born_at_each_vertex_and_carried_by_later_selections(series):
    chosen = counter(series.counting)
    brute = {}
    for stage, state in zip(series.stages, series.states):
        later = Series(series.stages[stage.number :], (x,) * (len(series.stages) + 1 - stage.number), series.counting)
        for vertex in stage.vertices:
            born = oa.source(stage.branch((vertex,)), state)
            for order, selections in brute_selections(later).items():
                for selected in selections:
                    carried = brute_propagator(series, selected, after=stage.number) @ born
                    brute.setdefault(order + chosen(vertex), []).append(carried)
    for order in range(len(series.stages) + 2):
        assert sorted(state.digest for state in series.sources(order)) == sorted(s.digest for s in brute.get(order, []))


@given(small)
@settings(max_examples=40)
def test_the_orders_sum_to_the_last_state_in_meaning(series):
    assert counterexample(total(series), series.states[-1]) is None


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("counting", ["all", "attention", "ffn", lambda vertex: vertex.layer != 2])
def test_the_orders_of_a_transformer_sum_to_its_last_state_in_meaning(layers, heads, counting):
    T = oa.transformer(layers, heads)
    S = T.dyson(counting=counting)
    assert counterexample(total(S), T.x[-1], interpretations=[Interpretation(1)]) is None
    assert counterexample(total(S), T.operator @ T.x[0], interpretations=[Interpretation(2)]) is None


@pytest.mark.parametrize("norm", ["pre", "post", "sandwich", "branch"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("counting", ["all", "attention", "ffn", lambda vertex: vertex.head == 0])
def test_the_series_of_every_architecture_is_exact(norm, parallel, heads, counting):
    T = oa.transformer(2, heads, norm=norm, parallel=parallel)
    S = T.dyson(counting=counting)
    assert counterexample(total(S), T.operator @ T.x[0]) is None
    assert [sum(1 for _ in S.sources(order)) for order in range(S.max_order + 1)] == [
        S.source_count(order) for order in range(S.max_order + 1)
    ]


@pytest.mark.parametrize("norm", ["pre", "post", "sandwich", "branch"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("counting", ["all", "ffn", lambda vertex: vertex.head == 0])
def test_the_series_with_a_bias_that_belongs_to_no_head_is_exact(norm, parallel, counting):
    T = oa.transformer(2, 2, norm=norm, parallel=parallel, biases=True)
    S = T.dyson(counting=counting)
    assert counterexample(total(S), T.operator @ T.x[0], interpretations=[Interpretation(1)]) is None
    plain = oa.transformer(2, 2, norm=norm, parallel=parallel).dyson(counting=counting)
    assert [S.count(k) for k in range(S.max_order + 1)] == [plain.count(k) for k in range(plain.max_order + 1)]
    assert [sum(1 for _ in S.sources(k)) for k in range(S.max_order + 1)] == [
        S.source_count(k) for k in range(S.max_order + 1)
    ]


@pytest.mark.parametrize(
    ("counting", "order"), [("all", 1), ("attention", 1), ("ffn", 0), (lambda vertex: vertex.head == 0, 0)]
)
def test_a_bias_that_belongs_to_no_head_counts_when_every_head_does(counting, order):
    S = oa.transformer(1, 2, biases=True).dyson(counting=counting)
    births = [(emitter.name, order - left) for stage, emitter, left in S.births(order)]
    assert ("B1", order) in births
    assert not S.is_bare and oa.transformer(1, 2).dyson().is_bare


def test_planted_error_of_a_bias_without_its_source_or_without_its_dressing_is_found(monkeypatch):
    T = oa.transformer(2, 2, norm="sandwich", biases=True)
    births, right = Series.births, total(T.dyson())
    assert counterexample(right, T.x[-1]) is None
    with monkeypatch.context() as planted:
        planted.setattr(Series, "births", lambda self, k: (b for b in births(self, k) if b[1].name[0] != "B"))
        assert counterexample(total(T.dyson()), T.x[-1]) is not None
    passing = [[f for f in factors if "B1" not in str(f)] for factors in T.dyson()._passing]
    monkeypatch.setattr(Series, "_passing", passing)
    assert counterexample(total(T.dyson()), T.x[-1]) is not None


@pytest.mark.parametrize("norm", ["post", "sandwich", "branch"])
@pytest.mark.parametrize("parallel", [False, True])
def test_planted_error_of_dressing_a_norm_after_vertices_by_one_vertex_alone_is_found(norm, parallel, monkeypatch):
    T = oa.transformer(2, 2, norm=norm, parallel=parallel)
    monkeypatch.setattr(Series, "_after", lambda self, branch, here: oa.dressed(branch.after or oa.Identity(), here))
    monkeypatch.setattr(Series, "_line", lambda self, stage: oa.dressed(stage.after or oa.Identity(), here_of(self, stage)))
    assert counterexample(total(T.dyson()), T.x[-1]) is not None


def here_of(series, stage):
    return series.states[stage.number - 1]


def test_shifts_of_norms_after_vertices_are_born_with_order_0():
    for norm, emitters in (("pre", ""), ("post", "N1 M1"), ("branch", "N1 M1"), ("sandwich", "P1 Q1")):
        S = oa.transformer(1, norm=norm).dyson()
        assert sorted(emitted(S, 0)) == sorted(emitters.split())


def emitted(series, order):
    """The names of what emits the sources of an order, before any vertex was passed."""
    return [name for stage, name, left in ((s, e.name, n) for s, e, n in series.births(order)) if left == 0 == order]


def test_parallel_stages_count_attention_and_ffn_as_alternatives():
    S = oa.transformer(3, heads=2, parallel=True).dyson()
    assert [S.count(order) for order in range(4)] == [1, 9, 27, 27]
    assert S.total == 4**3


@pytest.mark.parametrize("heads", [1, 3])
def test_a_predicate_may_count_single_heads(heads):
    T = oa.transformer(2, heads)
    S = T.dyson(counting=lambda vertex: vertex.head == 0)
    assert [S.count(order) for order in range(4)] == [1, 2, 1, 0]
    assert counterexample(total(S), T.x[-1]) is None


def test_absorbed_norms_give_the_same_counts_and_an_exact_series():
    T = oa.transformer(2, norms="absorbed")
    assert [T.dyson().count(order) for order in range(5)] == [1, 4, 6, 4, 1]
    assert counterexample(total(T.dyson()), T.x[-1]) is None


def test_norms_never_count():
    T = oa.transformer(2)
    S = T.dyson(counting=lambda vertex: vertex.kind == Kind.NORM)
    assert (S.total, S.max_order) == (1, 0)


def test_a_truncated_series_keeps_the_low_orders_as_they_are():
    T = oa.transformer(3)
    whole, kept = T.dyson(), T.dyson(order=2)
    assert (kept.max_order, kept.is_exact, kept.total) == (2, False, 1 + 6 + 15)
    assert [kept[order] for order in range(3)] == [whole[order] for order in range(3)]
    assert counterexample(total(kept), T.x[-1]) is not None
    assert T.dyson(order=6).is_exact
    assert (T.dyson(order=99).max_order, T.dyson(order=99).total) == (6, 64)
    assert (T.dyson(order=0)[0], T.dyson(order=0).total) == (whole[0], 1)


def test_orders_beyond_the_last_are_empty():
    S = oa.transformer(1).dyson()
    assert (S.count(3), S.source_count(3), list(S.terms(3)), list(S.sources(3)), S[3]) == (0, 0, [], [], Zero(ONE, X))


def test_order_zero_is_the_initial_state_when_every_vertex_counts():
    T = oa.transformer(2)
    assert T.dyson()[0] == T.x[0]
    assert list(T.dyson().terms(0)) == [oa.Identity()]


def test_the_first_order_of_one_layer_word_by_word():
    T = oa.transformer(1, norms="absorbed")
    A, F, S = T.attention[1], T.ffn[1], T.dyson()
    assert list(S.terms(1)) == [oa.dressed(A, T.x[0]), oa.dressed(F, T.x[1])]
    assert list(S.sources(1)) == [oa.source(A, T.x[0]), oa.source(F, T.x[1])]
    assert list(S.terms(2)) == [oa.dressed(F, T.x[1]) @ oa.dressed(A, T.x[0])]
    assert list(S.sources(2)) == [oa.dressed(F, T.x[1]) @ oa.source(A, T.x[0])]


def test_what_is_not_counted_is_resummed_into_the_propagator():
    T = oa.transformer(1, norms="absorbed")
    A, F, S = T.attention[1], T.ffn[1], T.dyson(counting="attention")
    passed = 1 + oa.dressed(F, T.x[1])
    assert list(S.terms(0)) == [passed]
    assert list(S.terms(1)) == [passed @ oa.dressed(A, T.x[0])]
    assert list(S.sources(0)) == [oa.source(F, T.x[1])]
    assert list(S.sources(1)) == [passed @ oa.source(A, T.x[0])]
    assert (S.is_complete, T.dyson().is_complete) == (False, True)


def test_iteration_gives_every_kept_order_and_ends():
    S = oa.transformer(2).dyson()
    assert list(S) == [S[order] for order in range(5)]
    assert list(oa.transformer(2).dyson(order=1)) == [S[0], S[1]]


# Size


def test_a_series_of_two_to_the_192_terms_is_counted_and_ranked_without_being_listed():
    S = oa.transformer(layers=96).dyson()
    assert S.total == 2**192
    assert sum(S.count(order) for order in range(193)) == 2**192
    rank = 0x5DEECE66D5DEECE66D5DEECE66D5DEECE66D % S.count(96)
    selected = S.selection(96, rank)
    assert len(selected) == len(set(selected)) == 96
    assert S.term(96, rank) == brute_propagator(S, set(selected))
    assert S.selection(96, 0) == tuple(v for stage in S.stages[:96] for v in stage.vertices)
    assert S.selection(96, S.count(96) - 1) == tuple(v for stage in S.stages[96:] for v in stage.vertices)


@given(st.integers(0, 2**192 - 1), st.integers(0, 192))
def test_the_rank_of_a_selection_is_found_again_by_counting(number, order):
    S = wide
    rank = number % S.count(order)
    selected = S.selection(order, rank)
    found, left = 0, order
    positions = {vertex: position for position, stage in enumerate(S.stages) for vertex in stage.vertices}
    for position in range(len(S.stages)):
        if left and selected[order - left] in S.stages[position].vertices:
            left -= 1
        elif left:
            found += comb(len(S.stages) - position - 1, left - 1)
    assert found == rank
    assert [positions[vertex] for vertex in selected] == sorted(positions[vertex] for vertex in selected)


wide = oa.transformer(layers=96).dyson()


def test_terms_and_sources_of_a_huge_order_are_lazy():
    assert next(iter(wide.terms(96))) == wide.term(96, 0)
    assert next(iter(wide.sources(96))).is_state


def growth(items):
    """The memory that is still held after taking every item, in bytes."""
    tracemalloc.start()
    try:
        for _ in items:
            pass
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_terms_are_iterated_in_constant_memory():
    wide = oa.transformer(layers=96, heads=96).dyson()
    assert wide.count(3) == sum(96**heads * comb(96, heads) * comb(96, 3 - heads) for heads in range(4))
    assert wide.term(3, wide.count(3) - 1).is_linear
    terms = oa.transformer(layers=24, heads=24).dyson().terms(3)
    for _ in islice(terms, 1_000):
        pass
    kept = []
    assert growth(islice(terms, 1_000)) < 100_000
    assert growth(kept.append(term) for term in islice(terms, 1_000)) > 500_000


# Planted error: the recurrence with bare vertices


def test_undressed_orders_sum_to_the_last_state_for_linear_vertices_alone():
    linear, nonlinear = series_of([1, 2, 1], kind="linear"), series_of([1, 2, 1])
    for series, agrees in ((linear, True), (nonlinear, False)):
        bare = reduce(lambda a, b: a + b, series.undressed)
        assert (counterexample(bare, series.states[-1]) is None) == agrees


def test_undressed_orders_are_those_of_the_series_for_linear_vertices_one_a_stage():
    series = series_of([1, 1, 1], kind="linear")
    assert len(series.undressed) == 4
    for order, bare in enumerate(series.undressed):
        assert counterexample(bare, series[order]) is None


def test_planted_error_of_dressing_each_stage_by_the_initial_state_is_found():
    series = series_of([1, 1])
    wrong = Series(series.stages, (x, x, series.states[-1]))
    assert counterexample(total(series), series.states[-1]) is None
    assert counterexample(total(wrong), series.states[-1]) is not None


def test_planted_error_of_forgetting_the_sources_is_found():
    series = series_of([1, 1])
    parts = [term @ x for order in range(3) for term in series.terms(order)]
    assert counterexample(reduce(lambda a, b: a + b, parts), series.states[-1]) is not None


# Refusals


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda S: S.count(-1), "order -1 of a series was asked; an order is a natural number"),
        (lambda S: S[1.5], "order 1.5 of a series was asked; an order is a natural number"),
        (lambda S: S.source_count("1"), "order '1' of a series was asked; an order is a natural number"),
        (lambda S: S.terms(3), "order 3 was asked of a series truncated at order 2; raise order="),
        (lambda S: list(S.sources(3)), "order 3 was asked of a series truncated at order 2; raise order="),
        (lambda S: S[3], "order 3 was asked of a series truncated at order 2; raise order="),
        (lambda S: S.term(1, 4), "rank 4 of order 1 was asked of 4 selections; ranks count from 0"),
        (lambda S: S.term(1, -1), "rank -1 of order 1 was asked of 4 selections; ranks count from 0"),
    ],
)
def test_refusals_say_what_was_asked_and_what_blocks_it(act, message):
    S = oa.transformer(2).dyson(order=2)
    assert refused(oa.InputError, lambda: act(S)) == message


@pytest.mark.parametrize("order", [-1, 1.0, "2"])
def test_a_truncation_order_is_a_natural_number(order):
    message = f"order={order!r}: a truncation order is a natural number; leave it out for all orders"
    assert refused(oa.InputError, lambda: oa.transformer(1).dyson(order=order)) == message
    assert refused(oa.InputError, lambda: check_order(order)) == message


def test_an_unknown_counting_is_refused():
    message = "counting='heads' is unknown; use all, attention, ffn, or a predicate on vertices"
    assert refused(oa.InputError, lambda: oa.transformer(1).dyson(counting="heads")) == message


def test_a_sum_too_large_to_be_written_is_refused():
    S = oa.transformer(layers=20).dyson()
    size = S.count(20) + S.source_count(20)
    assert refused(oa.LimitError, lambda: S[20]) == (
        f"order 20 has {size:,} terms and the limit of a written sum is 200,000; iterate over terms(20) "
        "and sources, or evaluate all orders at once with a binding's orders()"
    )


def test_a_series_is_frozen():
    with pytest.raises(FrozenInstanceError):
        oa.transformer(1).dyson().order = 3


# Printing


@pytest.mark.parametrize(
    ("series", "printed"),
    [
        (oa.transformer(2).dyson(), "1 + 4 + 6 + 4 + 1 = 16 terms, exact"),
        (oa.transformer(2).dyson(order=1), "1 + 4 = 5 terms, truncated at order 1"),
        (oa.transformer(2, 3).dyson(counting="attention"), "1 + 6 + 9 = 16 terms, exact"),
        (oa.transformer(4).dyson(), "1 + 8 + 28 + 56 + 70 + 56 + 28 + 8 + 1 = 256 terms, exact"),
        (oa.transformer(5).dyson(), "1 + 10 + 45 + 120 + ... + 120 + 45 + 10 + 1 = 1,024 terms, exact"),
        (oa.transformer(1).dyson(counting=lambda vertex: False), "1 = 1 terms, exact"),
        (
            oa.transformer(96, 96).dyson(),
            "1 + 9,312 + 42,914,256 + 130,487,643,680 + ... + 2.92...e195 + 9.24...e193 + 1.92...e192 + 1.98...e190 = "
            "4.25...e219 terms, exact",
        ),
    ],
)
def test_a_series_prints_its_counts(series, printed):
    assert str(series) == repr(series) == printed


def test_the_parts_of_an_order_are_its_terms_on_the_initial_state_and_its_sources():
    S = oa.transformer(2).dyson()
    for order in range(5):
        parts = [term @ S.states[0] for term in S.terms(order)] + list(S.sources(order))
        assert S[order] == linear_combination([(1, part) for part in parts], ONE, X)
        assert len(terms(S[order])) >= S.count(order)
