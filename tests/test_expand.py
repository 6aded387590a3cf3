"""Expansion: what it gives, what it leaves alone, and the number of terms before anything is built."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import maps, states

import opalgebra as oa
from opalgebra import kernel
from opalgebra.atoms import atoms
from opalgebra.expand import expand
from opalgebra.expr import Compose, Dressed, Sum, Zero, factors, postorder, terms
from opalgebra.growth import expanded_count
from opalgebra.space import ONE, X

A, B, C = atoms("A B C", kind="linear")
F, G = atoms("F G", kind="nonlinear")
V = oa.family("V", kind="linear")
x, y = oa.state("x"), oa.state("y")


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def test_a_sum_on_the_left_is_distributed_for_all_maps():
    assert expand((A + B) @ C).rhs == A @ C + B @ C
    assert expand((F + G) @ C).rhs == F @ C + G @ C


def test_a_nonlinear_map_is_not_distributed():
    assert expand(F @ (A + B)).rhs == F @ (A + B)
    assert expand(F @ (2 * A)).rhs == F @ (2 * A)
    assert expand(F @ Zero()).rhs == F @ Zero()


def test_a_linear_map_is_distributed():
    assert expand(C @ (A + 2 * B)).rhs == C @ A + 2 * C @ B
    assert expand(C @ Zero()).rhs == Zero()
    assert expand(C @ (F + G)).rhs == C @ F + C @ G


def test_the_argument_of_a_nonlinear_map_is_expanded_in_place():
    assert expand(F @ ((A + B) @ C)).rhs == F @ (A @ C + B @ C)
    assert expand(A @ F @ (A @ (B + C))).rhs == A @ F @ (A @ B + A @ C)


def test_on_a_state_a_nonlinear_map_is_dressed():
    assert expand(F @ x).rhs == oa.dressed(F, x) @ x + oa.source(F, x)


def test_a_theorem_starts_from_the_expression_it_was_asked_for():
    for operator in (A, x, F @ (A + B), (1 + F) @ (1 + G) @ x):
        assert expand(operator).lhs == operator
        assert expand(operator).hypotheses == frozenset()


def test_three_residual_factors_have_eight_terms():
    product = oa.ordered_product(1 + V[layer] for layer in (1, 2, 3))
    assert product == (1 + V[3]) @ (1 + V[2]) @ (1 + V[1])
    words = [oa.Identity(), V[1], V[2], V[3], V[2] @ V[1], V[3] @ V[1], V[3] @ V[2], V[3] @ V[2] @ V[1]]
    assert set(expand(product).rhs.terms) == {(1, word) for word in words}


def test_later_factors_stand_to_the_left():
    words = {term for _, term in terms(expand((1 + V[2]) @ (1 + V[1])).rhs)}
    assert V[2] @ V[1] in words
    assert V[1] @ V[2] not in words


def test_equal_terms_are_collected_and_opposite_ones_cancel():
    assert expand((1 + A) ** 3).rhs == 1 + 3 * A + 3 * A**2 + A**3
    assert expand((A + B) @ (A - B)).rhs == A @ A - A @ B + B @ A - B @ B
    assert expand((A + B) @ C - A @ C - B @ C).rhs == Zero()


def test_two_residual_stages_on_a_state():
    one, two = oa.dressed(F, x), oa.dressed(G, (1 + F) @ x)
    f, g = oa.source(F, x), oa.source(G, (1 + F) @ x)
    assert expand((1 + G) @ (1 + F) @ x).rhs == x + one @ x + two @ x + two @ one @ x + f + two @ f + g


def test_backgrounds_are_left_as_they_are():
    background = (A + B) @ (C + 1) @ x
    operator = oa.dressed(F, background) @ (A + B)
    assert expand(operator).rhs == oa.dressed(F, background) @ A + oa.dressed(F, background) @ B
    assert expand(oa.source(F, background)).rhs == oa.source(F, background)
    assert expand(F @ background).rhs == sum(
        (oa.dressed(F, background) @ word @ x for word in (A @ C, B @ C, A, B)), oa.source(F, background)
    )


@given(states())
def test_the_expansion_of_a_state_is_complete(state):
    for _, term in terms(expand(state).rhs):
        *word, last = factors(term)
        assert all(factor.is_linear and not isinstance(factor, Sum) for factor in word)
        assert not isinstance(last, Sum | Compose | Zero)
        assert last.is_state


@given(maps())
def test_the_expansion_of_a_map_leaves_no_sum_where_distribution_is_allowed(operator):
    for node in postorder(expand(operator).rhs, backgrounds=False):
        if isinstance(node, Compose):
            assert not isinstance(node.left, Sum)
            assert not (node.left.is_linear and isinstance(node.right, Sum | Zero))


@given(maps())
def test_no_background_is_changed_by_distribution(operator):
    before = {node for node in postorder(operator, backgrounds=False) if isinstance(node, Dressed)}
    after = {node for node in postorder(kernel.distribute(operator).rhs, backgrounds=False) if isinstance(node, Dressed)}
    assert after <= before


# Counts


@given(st.one_of(maps(), states()))
def test_the_count_bounds_the_number_of_terms(operator):
    assert len(terms(kernel.distribute(operator).rhs)) <= expanded_count(operator)


@st.composite
def without_collectable_terms(draw, names=None, depth=3):
    """Maps in which every leaf is an atom of its own and every coefficient is positive."""
    names = count() if names is None else names
    form = draw(st.sampled_from(["atom", "sum", "product", "product"])) if depth else "atom"
    again = without_collectable_terms(names, depth - 1)
    if form == "atom":
        return oa.Atom(f"V{next(names)}", kind=draw(st.sampled_from(["linear", "linear", "nonlinear"])))
    if form == "sum":
        return sum((draw(st.integers(1, 3)) * draw(again) for _ in range(draw(st.integers(1, 3)))), Zero())
    return oa.ordered_product([draw(again) for _ in range(draw(st.integers(2, 3)))])


@given(without_collectable_terms())
def test_the_count_is_the_number_of_terms_when_nothing_can_be_collected(operator):
    assert len(terms(kernel.distribute(operator).rhs)) == expanded_count(operator)


@pytest.mark.parametrize("layers", range(9))
def test_the_count_is_the_number_of_terms_of_a_product_of_residual_factors(layers):
    product = oa.ordered_product((1 + V[layer] for layer in range(1, layers + 1)), space=X)
    assert len(terms(expand(product).rhs)) == expanded_count(product) == 2**layers


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (A, 1),
        (oa.Identity(), 1),
        (Zero(), 0),
        (A @ Zero(), 0),
        (F @ Zero(), 1),
        (2 * A, 1),
        (A + B, 2),
        ((A + B) @ (A + B + C), 6),
        ((A + F) @ (B + C), 3),
        (F @ (A + B) @ C, 1),
        ((1 + A) ** 10, 2**10),
        ((A + B) @ x, 2),
        (oa.dressed(F, (A + B) @ x) @ (x + y), 2),
        (Zero(ONE, X), 0),
    ],
)
def test_counts_of_small_expressions(operator, expected):
    assert expanded_count(operator) == expected


def test_the_count_of_a_deep_product_is_exact():
    assert expanded_count(oa.ordered_product(1 + V[layer] for layer in range(1, 3001))) == 2**3000


# The limit


def test_an_expansion_beyond_the_limit_is_refused_before_it_is_built():
    product = oa.ordered_product(1 + V[layer] for layer in range(1, 61))
    assert refused(oa.LimitError, lambda: expand(product)) == (
        "the expansion has 1,152,921,504,606,846,976 terms and the limit is 200,000; raise it, or keep the product factored"
    )


def test_the_expansion_of_a_deep_state_is_refused_before_it_is_built():
    W = oa.family("W", kind="nonlinear")
    state = oa.ordered_product(1 + W[layer] for layer in range(1, 61)) @ x
    message = refused(oa.LimitError, lambda: expand(state))
    assert message.startswith(f"the expansion has {2**60 + 2**60 - 1:,} terms and the limit is 200,000; raise it, ")


def test_the_limit_can_be_chosen():
    product = (A + B) @ (A + C)
    assert len(terms(expand(product, limit=4).rhs)) == 4
    assert refused(oa.LimitError, lambda: expand(product, limit=3)) == (
        "the expansion has 4 terms and the limit is 3; raise it, or keep the product factored"
    )
    assert len(terms(expand((1 + A + B) ** 2, limit=None).rhs)) == 7


@pytest.mark.parametrize("thing", [3, "A", None])
def test_what_is_no_operator_is_refused(thing):
    assert refused(oa.InputError, lambda: oa.expand(thing)) == (
        f"{thing!r} is no operator; build one from atoms, or read a text with parse"
    )
    assert refused(oa.InputError, lambda: oa.equation(oa.Atom("A", kind="linear"), thing)) == (
        f"{thing!r} is no operator, and an equation has one on each side; build it from atoms or parse it"
    )


def test_sums_inside_nonlinear_maps_and_inverses_are_counted_before_they_are_multiplied_out():
    V = oa.family("V", kind="linear")
    product, F = oa.ordered_product(1 + V[layer] for layer in range(1, 40)), oa.Atom("F", kind="nonlinear")
    for operator in (F @ product, oa.inverse(product), oa.function("exp", product), F @ (1 + product)):
        with pytest.raises(oa.LimitError, match="the expansion has 549,755,813,88"):
            expand(operator)
        with pytest.raises(oa.LimitError, match="would first be expanded to 549,755,813,88"):
            oa.simplify(operator)
    assert expanded_count(F @ product) == 1


def test_an_inverse_of_a_nonlinear_map_has_no_dressing():
    F, x = oa.Atom("F", kind="nonlinear"), oa.state("x")
    for ask in (lambda: expand(oa.inverse(1 - F) @ x), lambda: oa.dressed(oa.inverse(1 - F), x)):
        with pytest.raises(oa.NotLinearError, match="has no dressing; name it as one nonlinear atom"):
            ask()


def test_an_expansion_of_more_terms_than_can_be_counted_is_refused_at_once():
    A = oa.Atom("A", kind="linear")
    shared = A
    for _ in range(60):
        shared = shared @ shared + A
    for act in (oa.expand, oa.simplify):
        with pytest.raises(oa.LimitError, match=r"at least 1.00...e4000 terms"):
            act(shared)
