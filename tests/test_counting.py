"""The number of words as a polynomial in symbolic lengths: the same as counting them at every small length."""

from itertools import combinations

import pytest

import opalgebra as oa
from opalgebra.expr import postorder
from opalgebra.growth import expanded_count
from opalgebra.indexed import OrderedSum
from opalgebra.scalar import the_symbol

A, B = oa.atoms("A B", kind="linear")
F = oa.Atom("F", kind="nonlinear")
V = oa.family("V", kind="linear")
l, m, n, L, M = map(oa.symbol, "l m n L M".split())


def written(operator, values):
    """The number of terms when every binder is written out at numbers, counted term by term."""
    return expanded_count(unfolded(oa.instantiate(operator, values)))


def unfolded(operator):
    """Ordered sums over numbers of layers written out word by word."""
    done = {}
    for node in postorder(operator, backgrounds=False, bodies=True):
        if isinstance(node, OrderedSum):
            places = range(1, node.upper + 1)
            words = [oa.ordered_product([node.opened(i) if i in chosen else node.line_at(i) for i in places])
                     for chosen in combinations(places, node.order)]  # fmt: skip
            done[node] = sum(words[1:], start=words[0])
    return oa.substitute(operator, done) if done else operator


@pytest.mark.parametrize(
    ("operator", "count"),
    [
        (oa.indexed_sum(V[l], l, 1, L), "L"),
        (oa.indexed_sum((1 + V[l]) @ (A + B), l, 2, L + 1), "4*L"),
        (oa.ordered_sum(V[l], l, L, 2), "1/2*L^2 - 1/2*L"),
        (oa.ordered_sum(V[l] + A, l, L, 3), "4/3*L^3 - 4*L^2 + 8/3*L"),
        (oa.ordered_sum(V[l] + A, l, L, 2, A @ V[l + 1]), "2*L^2 - 2*L"),
        (oa.indexed_sum(oa.indexed_sum(V[m] @ V[l], m, 1, l), l, 1, L), "1/2*L^2 + 1/2*L"),
        (oa.indexed_sum(oa.indexed_sum(A @ V[m], m, 1, l + 1) @ oa.indexed_sum(V[m], m, 0, l), l, 1, L),
         "1/3*L^3 + 3/2*L^2 + 13/6*L"),
        (oa.ordered_product(V[l], l, 1, L) @ (A + B) + oa.indexed_sum(V[l], l, 1, L), "L + 2"),
        (F @ (A + B) + oa.indexed_sum(F @ (A + V[l]) + V[l] @ F, l, 1, M), "2*M + 1"),
        (oa.commutator(A, oa.indexed_sum(V[l], l, 1, L)), "2*L"),
        ((1 + A) @ (1 + B), "4"),
    ],
)  # fmt: skip
def test_the_polynomial_counts_the_words_at_every_length(operator, count):
    polynomial = oa.word_count(operator)
    assert str(polynomial) == count
    for length in (2, 3, 5):
        values = {symbol: length for symbol in (L, M) if {found.name for found in operator.symbols} >= {str(symbol)}}
        at = polynomial.at({the_symbol(key): value for key, value in values.items()}) if values else polynomial
        assert at == written(operator, values)


def test_the_generating_function_of_a_product_has_the_counts_by_order_as_coefficients():
    z = oa.parameter("z")
    generating = oa.ordered_product((1 + z) * oa.Identity(), l, 1, L)
    for length in (0, 1, 5):
        (coefficient,) = {c for c, _ in oa.expand(oa.instantiate(generating, {L: length})).rhs.terms} if length else {1}
        counts = [oa.binomial(length, order) for order in range(length + 1)]
        assert coefficient == sum(count * z**order for order, count in enumerate(counts))


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        (oa.ordered_product(1 + V[l], l, 1, L), "is no polynomial in its length; count one order at a time"),
        (oa.ordered_sum(V[l], l, L, n), "is no polynomial in its length"),
        (oa.ordered_sum(V[l], l, L, 2, 1 + A), "its line .* is not one word"),
        (oa.indexed_sum(V[l], l, 3, L), "which may be negative"),
        (oa.ordered_sum(oa.indexed_sum(V[m], m, 0, l), l, L, 2), "give the length a value"),
        (3, "3 is no operator"),
    ],
)
def test_a_number_that_is_no_polynomial_is_refused(operator, text):
    with pytest.raises(oa.InputError, match=text):
        oa.word_count(operator)


def test_planted_sum_of_powers_without_the_lower_end_is_found(monkeypatch):
    module = oa.word_count.__globals__
    right = module["binomial"]
    monkeypatch.setitem(module, "binomial", lambda upper, order: 0 if upper == 2 else right(upper, order))
    operator = oa.indexed_sum(V[l], l, 2, L + 1)
    assert oa.word_count(operator).at({the_symbol(L): 4}) != written(operator, {L: 4})


def test_nonlinear_factors_keep_the_sums_in_their_arguments():
    Q, R = oa.family("Q", kind="nonlinear"), oa.family("R", kind="nonlinear")
    for body, count in ((Q[l] + R[l], 2), (Q[l] + V[l], 3), (2 * V[l] + Q[l] + R[l], 5)):
        written = oa.expand(oa.instantiate(body, {l: 2}) @ oa.instantiate(body, {l: 1})).rhs
        assert oa.word_count(oa.ordered_sum(body, l, 2, 2)) == len(written.terms) == count
    with pytest.raises(oa.InputError, match="is no polynomial in its length"):
        oa.word_count(oa.ordered_product(Q[l], l, 1, L))


def test_a_length_that_may_be_negative_is_refused():
    with pytest.raises(oa.InputError, match=r"the length L - 1 of .* may be negative"):
        oa.word_count(oa.ordered_sum(V[l], l, L - 1, 2))
