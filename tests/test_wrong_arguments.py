"""What is no operator, no fact, no text, no layer or no scalar is refused by one line that says so, wherever it is passed."""

from decimal import Decimal

import numpy as np
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
        lambda wrong: oa.bch(A, wrong, order=2),
        lambda wrong: oa.bch(A, B, order=wrong),
        lambda wrong: oa.zassenhaus(wrong, A, order=2),
        lambda wrong: oa.lyndon_form(wrong),
        lambda wrong: oa.magnus(wrong, order=2),
        lambda wrong: oa.magnus(1 + A, order=2, form=wrong),
        lambda wrong: oa.truncation(wrong, order=2),
        lambda wrong: oa.truncation(A, order=wrong),
        lambda wrong: oa.exponential(wrong, order=2),
        lambda wrong: oa.logarithm(wrong, order=2),
        lambda wrong: oa.cumulants(wrong, kind="free"),
        lambda wrong: oa.cumulants([1], kind=wrong),
        lambda wrong: oa.moments([wrong], kind="free"),
        lambda wrong: oa.ordered_cumulant(wrong, (1, 2), kind="convolution"),
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


DIVIDED = "'/' divides scalars alone, and a multiple has its scalar on the left; write "
ARRAY = "an array (ndarray) is no operator and no coefficient; name an atom for it, and give lambdify the array"
NUMBER = "is no coefficient, for these are exact and real; "


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: A / 2, DIVIDED + "Fraction(1, 2) * A"),
        (lambda: A / 0.5, DIVIDED + "(1/c) * A"),
        (lambda: A / g, DIVIDED + "(1/c) * A"),
        (lambda: A / B, "'/' would have two meanings for operators; write inverse(B) @ A, or A @ inverse(B)"),
        (lambda: 1 / A, "'/' divides by scalars alone; write inverse(A) for an operator"),
        (lambda: A @ 2, "'@' composes operators, and 2 is a scalar; write c * A for a multiple, as in 2 * A"),
        (lambda: 2 @ A, "'@' composes operators, and 2 is a scalar; write c * A for a multiple, as in 2 * A"),
        (lambda: g @ A, "'@' composes operators, and g is a scalar; write c * A for a multiple, as in 2 * A"),
        (lambda: 1j * A, f"1j {NUMBER}for i, declare J @ J = -1 of an atom J"),
        (lambda: A + 1j, f"1j {NUMBER}for i, declare J @ J = -1 of an atom J"),
        (lambda: A @ 1j, f"1j {NUMBER}for i, declare J @ J = -1 of an atom J"),
        (lambda: Decimal(2) * A, f"Decimal('2') {NUMBER}use an int, a Fraction, a float or a parameter"),
        (lambda: A - Decimal(2), f"Decimal('2') {NUMBER}use an int, a Fraction, a float or a parameter"),
        (lambda: A @ np.eye(2), ARRAY),
        (lambda: np.eye(2) @ A, ARRAY),
        (lambda: np.eye(2) * A, ARRAY),
        (lambda: A + np.eye(2), ARRAY),
        (lambda: np.eye(2) - A, ARRAY),
    ],
)
def test_arithmetic_with_what_is_no_operator_says_what_to_write(act, message):
    with pytest.raises(oa.InputError) as refused:
        act()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "act",
    [
        lambda wrong: oa.Atom("S", kind="linear", domain=wrong),
        lambda wrong: oa.Atom("S", kind="linear", codomain=wrong),
        lambda wrong: oa.atoms("S", kind="linear", domain=wrong),
        lambda wrong: oa.family("V", kind="linear", domain=wrong),
        lambda wrong: oa.state("x", codomain=wrong),
        lambda wrong: oa.Identity(wrong),
        lambda wrong: oa.Zero(wrong, oa.X),
        lambda wrong: oa.Zero(oa.X, wrong),
        lambda wrong: oa.POSITIONS * wrong,
        lambda wrong: oa.wildcard("W", domain=wrong),
    ],
)
@pytest.mark.parametrize("wrong", ["positions", "", "X", 4, 3.5, [oa.X]], ids=repr)
def test_what_is_no_space_is_refused_at_once(act, wrong):
    with pytest.raises(oa.SpaceError, match=r"is no space; use Space\('(positions|hidden)'\), or X") as refused:
        act(wrong)
    assert len(str(refused.value).splitlines()) == 1


def test_the_space_that_was_meant_is_named():
    with pytest.raises(oa.SpaceError) as refused:
        oa.state("x", codomain="positions")
    assert str(refused.value) == "'positions' is no space; use Space('positions'), or X, the space of a Transformer's states"


def test_names_of_atoms_are_one_text():
    with pytest.raises(oa.InputError) as refused:
        oa.atoms(["A", "B"], kind="linear")
    assert str(refused.value) == (
        "['A', 'B'] is no text; write the names in one text with spaces between them, as in atoms('A B', ...)"
    )


@pytest.mark.parametrize("items", [oa.expand(A), "A", A, None], ids=["theorem", "text", "operator", "None"])
def test_a_document_has_a_list_of_items_and_a_title(items):
    with pytest.raises(
        oa.InputError, match=r"^the items of a document are a list, not a \w+; write document\(\[it\], title='T'\)$"
    ):
        oa.document(items, title="T")
    with pytest.raises(oa.InputError, match=r"title=None is no text"):
        oa.document([items], title=None)


LONG = "a" * 100_000
MANY = [f"A{number}" for number in range(10_000)]


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"{LONG}*A where A: linear",
        f"{LONG}^2",
        f"{LONG}[1]",
        f"{LONG}[1] where {LONG}: linear",
        f"A where {LONG}: linear, {LONG}: real",
        f"g*A where A: linear, {LONG}: real",
        f"A where A: {LONG}",
        f"function({LONG}, A) where A: linear",
        f"one({LONG}) @ A where A: linear",
        f"({' + '.join(MANY)})*B where {', '.join(MANY)}, B: linear",
    ],
    ids=range(11),
)
def test_a_long_name_is_not_repeated_whole(text):
    with pytest.raises(OpalgebraError) as refused:
        oa.parse(text)
    assert len(str(refused.value)) < 300
