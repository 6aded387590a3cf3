"""Ordered products and brackets with values known from elsewhere; the resolvents are in test_direct_sum and test_network."""

from fractions import Fraction

import pytest
from meaning import PRIME, Interpretation, counterexample, scale

import opalgebra as oa
from opalgebra.expr import Identity, Zero

ORDERS = (
    "1 7381/2520 177133/50400 84095/36288 341693/362880 8591/34560 7513/172800 121/24192 11/30240 11/725760 1/3628800"
).split()
COUNTS = (1, 10, 45, 120, 210, 252, 210, 120, 45, 10, 1)

l, z = oa.symbol("l"), oa.parameter("z")
A, B = oa.atoms("A B", kind="linear")


def test_the_orders_of_a_product_of_ten_scalar_layers():
    """The order k of the product of 1 + 1/l over l = 1, ..., 10 is c(11, k + 1)/10!, and the orders add up to 11."""
    product = oa.expand(oa.ordered_product(1 + z / depth * Identity() for depth in range(1, 11))).rhs
    ((series, _),) = product.terms
    assert series == sum(Fraction(order) * z**power for power, order in list(enumerate(ORDERS)))
    assert sum(map(Fraction, ORDERS)) == 11


@pytest.mark.parametrize(("order", "value"), list(enumerate(ORDERS)))
def test_the_ordered_sums_of_the_scalar_layers(order, value):
    V = oa.family("V", kind="linear")
    words = oa.ordered_sum(V[l], l, 10, order)
    inverses = {V[depth]: lambda vector, share=pow(depth, -1, PRIME): scale(share, vector) for depth in range(1, 11)}
    assert counterexample(words, Fraction(value) * Identity(), interpretations=[Interpretation(1, maps=inverses)]) is None
    assert oa.word_count(words) == COUNTS[order] == oa.binomial(10, order)


def test_the_jacobi_identity_in_its_reported_form():
    def bracket(left, right):
        return oa.commutator(left, right)

    difference = bracket(bracket(bracket(A, B), A), B) - bracket(bracket(bracket(A, B), B), A)
    assert oa.expand(difference).rhs == Zero()
    assert oa.expand(bracket(bracket(bracket(A, B), A), B)).rhs != Zero()


def test_a_commutator_of_sums_is_four_commutators():
    first, second, third, fourth = oa.atoms("A1 A2 B1 B2", kind="linear")
    found = oa.expand(oa.commutator(first + second, third + fourth), unfold=False).rhs
    assert found == sum((oa.commutator(a, b) for a in (first, second) for b in (third, fourth)), start=0 * A)
    assert len(found.terms) == 4
