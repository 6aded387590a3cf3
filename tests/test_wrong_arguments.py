"""What is no operator, no fact, no text, no layer or no scalar is refused by one line that says so, wherever it is passed."""

import pytest

import opalgebra as oa
from opalgebra import kernel
from opalgebra.errors import OpalgebraError

A, B = oa.atoms("A B", kind="linear")
x = oa.state("x")
V, l, g = oa.family("V", kind="linear"), oa.symbol("l"), oa.parameter("g")


@pytest.mark.parametrize(
    "act",
    [
        lambda wrong: oa.Space(wrong),
        lambda wrong: oa.symbol(wrong),
        lambda wrong: oa.parameter(wrong),
        lambda wrong: oa.Atom(wrong, kind="linear"),
        lambda wrong: oa.parse(wrong),
        lambda wrong: oa.from_json(wrong),
        lambda wrong: oa.to_json(wrong),
        lambda wrong: oa.expand(wrong),
        lambda wrong: oa.expand(A, facts=wrong),
        lambda wrong: oa.expand(A, facts=[wrong]),
        lambda wrong: oa.simplify(wrong),
        lambda wrong: oa.simplify(A, facts=wrong),
        lambda wrong: oa.match(A, wrong),
        lambda wrong: oa.match(wrong, A),
        lambda wrong: oa.common_subwords(wrong),
        lambda wrong: oa.dressed(A, wrong),
        lambda wrong: oa.source(wrong, x),
        lambda wrong: oa.inverse(wrong),
        lambda wrong: oa.commutator(A, wrong),
        lambda wrong: oa.trace(wrong),
        lambda wrong: oa.adjoint(wrong),
        lambda wrong: oa.function("exp", wrong),
        lambda wrong: oa.derivative(wrong, g),
        lambda wrong: oa.derivative(A, wrong),
        lambda wrong: oa.ordered_product(wrong),
        lambda wrong: oa.ordered_product([A, wrong]),
        lambda wrong: oa.ordered_sum(wrong, l, 1, 2),
        lambda wrong: oa.indexed_sum(wrong, l, 1, 2),
        lambda wrong: oa.unfold(wrong),
        lambda wrong: oa.split(wrong, 1),
        lambda wrong: oa.reindex(wrong, 1),
        lambda wrong: oa.instantiate(g * A, {g: wrong}),
        lambda wrong: oa.left_dist(wrong, A),
        lambda wrong: kernel.right_dist(A, wrong),
        lambda wrong: kernel.dress(wrong),
        lambda wrong: kernel.distribute(wrong),
        lambda wrong: oa.resolvent_identity(wrong),
        lambda wrong: oa.neumann(wrong, 2),
        lambda wrong: oa.push_through(wrong, A),
        lambda wrong: oa.resummation(A, wrong),
        lambda wrong: oa.dyson_equation(A, wrong),
        lambda wrong: oa.schur_complement(A, A, A, wrong),
        lambda wrong: oa.self_energy(wrong, A, A, A),
        lambda wrong: oa.network(wrong),
        lambda wrong: oa.network_states(wrong),
        lambda wrong: oa.network_nilpotent(wrong),
        lambda wrong: oa.propagator(wrong, 1, 0),
        lambda wrong: oa.frozen_forms(wrong),
        lambda wrong: oa.word_count(wrong),
        lambda wrong: oa.equation(A, wrong),
    ],
)
@pytest.mark.parametrize("wrong", ["5 + ?", None, object()], ids=["text", "None", "object"])
def test_a_value_of_another_type_is_refused_in_one_line(act, wrong):
    with pytest.raises(OpalgebraError) as refused:
        act(wrong)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["sum", "one", "tensor", "where"])
def test_a_symbol_has_no_name_that_a_text_reads_otherwise(name):
    with pytest.raises(oa.InputError, match="is no name of a symbol"):
        oa.parameter(name)


def test_an_index_has_at_most_a_thousand_digits():
    with pytest.raises(oa.LimitError, match=r"an index of V would have more than 1,000 digits"):
        V[10**5000]


def test_a_neumann_series_has_a_longest_length():
    with pytest.raises(oa.LimitError, match=r"1,000,000,000 terms was asked, more than 300"):
        oa.neumann(A, 10**9)


def test_no_background_is_named_like_a_scalar_of_the_operator():
    F = oa.Atom("F", kind="nonlinear")
    operator = oa.parameter("x1") * oa.dressed(F, (1 + F) @ x) @ x
    assert oa.parse(repr(operator)) is operator
    assert oa.parse(str(operator), atoms=[*operator.atoms, *operator.symbols]) is operator
