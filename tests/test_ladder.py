"""The theorem that the orders of a Transformer add up: of every architecture and counting, against the orders written out."""

from functools import reduce
from operator import add

import pytest
from meaning import Interpretation, counterexample

import opalgebra as oa
from opalgebra import ladder
from opalgebra.ladder import Step, climbed

ARCHITECTURES = {
    "pre": oa.transformer(2),
    "heads": oa.transformer(2, 2),
    "post": oa.transformer(2, norm="post"),
    "sandwich": oa.transformer(2, 2, norm="sandwich"),
    "branch": oa.transformer(2, norm="branch"),
    "parallel": oa.transformer(2, parallel=True),
    "parallel post": oa.transformer(2, 2, norm="post", parallel=True),
    "parallel sandwich": oa.transformer(1, 2, norm="sandwich", parallel=True),
    "absorbed": oa.transformer(2, norms="absorbed"),
    "biases": oa.transformer(2, 2, biases=True),
    "biases post": oa.transformer(2, 2, norm="post", biases=True),
}
COUNTINGS = {"all": "all", "attention": "attention", "ffn": "ffn", "none": lambda v: False, "a head": lambda v: v.head == 1}


@pytest.mark.parametrize("counting", COUNTINGS.values(), ids=COUNTINGS)
@pytest.mark.parametrize("T", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_the_theorem_is_the_sum_of_the_orders_of_every_architecture(T, counting):
    series = T.dyson(counting=counting)
    theorem = series.theorem()
    assert not theorem.hypotheses
    assert theorem.lhs is T.operator @ T.x[0]
    assert theorem.rhs is reduce(add, series.unexpanded)
    assert len(series.unexpanded) == series.max_order + 1
    for order, state in enumerate(series.unexpanded):
        assert oa.simplify(state).rhs is oa.simplify(series[order]).rhs


@pytest.mark.parametrize("name", ["heads", "parallel post", "sandwich"])
def test_the_theorem_means_that_the_nonlinear_forward_is_the_sum(name):
    theorem = ARCHITECTURES[name].dyson(counting="attention").theorem()
    models = [Interpretation(seed) for seed in (1, 2, 3)]
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=models) is None


def test_planted_wrong_orders_are_found():
    series = ARCHITECTURES["heads"].dyson()
    wrong = reduce(add, (*series.unexpanded[:2], *series.unexpanded[3:]))
    assert counterexample(series.states[-1], wrong) is not None
    first = ARCHITECTURES["post"].dyson()
    moved = [state for order, state in enumerate(first.unexpanded) if order != 1]
    assert counterexample(first.states[-1], reduce(add, moved)) is not None


def test_a_step_that_is_not_what_it_says_proves_nothing(monkeypatch):
    A, F, x = oa.Atom("A", kind="linear"), oa.Atom("F", kind="nonlinear"), oa.state("x")
    nothing = oa.Zero(oa.ONE, oa.X)
    right = Step(1 + F, oa.Identity(), oa.dressed(F, x), (nothing, oa.source(F, x)))
    assert ladder.ladder_theorem(x, [right]).rhs == x + oa.dressed(F, x) @ x + oa.source(F, x)
    for wrong in (
        Step(1 + F, oa.Identity(), oa.dressed(F, x), (nothing, nothing)),
        Step(1 + F, oa.Identity(), A, (nothing, oa.source(F, x))),
        Step(1 + F, oa.Identity(), None, (nothing, oa.source(F, x))),
    ):
        with pytest.raises(oa.InputError, match="is not decided by normal forms"):
            ladder.ladder_theorem(x, [wrong])
    monkeypatch.setattr(ladder, "climbed", lambda orders, step: climbed(orders[:1], step))
    series = ARCHITECTURES["pre"].dyson()
    with pytest.raises(oa.InputError):
        series.theorem()


def test_a_state_that_bears_the_name_of_an_order_is_no_trouble():
    y, F = oa.state("y"), oa.Atom("F", kind="nonlinear")
    step = Step(1 + F, oa.Identity(), oa.dressed(F, y), (oa.Zero(oa.ONE, oa.X), oa.source(F, y)))
    assert ladder.ladder_theorem(y, [step]).rhs == y + oa.dressed(F, y) @ y + oa.source(F, y)


def test_a_truncated_series_has_no_theorem():
    series = oa.transformer(2).dyson(order=2)
    for act in (series.theorem, lambda: series.unexpanded):
        with pytest.raises(oa.InputError, match="a series truncated at order 2 is not the state; leave out order="):
            act()
    assert oa.transformer(2).dyson(order=4).theorem().hypotheses == frozenset()


def test_ten_layers_have_a_theorem_that_is_printed_in_short_and_whose_certificate_is_checked():
    theorem = oa.transformer(10).dyson(counting="attention").theorem()
    assert len(str(theorem)) < 30_000
    again = oa.check(oa.certificate(theorem))
    assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)


def test_shared_states_are_named_where_they_would_be_repeated_too_often():
    rhs = oa.transformer(6, norms="absorbed").dyson().theorem().rhs
    text = repr(rhs)
    assert len(text) < 6_000
    assert oa.parse(text) is rhs
    assert "s1 = " in text and "s1 = " not in repr(oa.transformer(2).dyson().theorem().rhs)
