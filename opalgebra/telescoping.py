"""The difference of two ordered products as a sum of single replacements, for any length.

    A(L) @ ... @ A(1) = B(L) @ ... @ B(1) + sum over l = 1..L of A(L) @ ... @ A(l+1) @ (A(l) - B(l)) @ B(l-1) @ ... @ B(1)

for linear A and every B, by induction over L. With A = B + C it is Dyson's equation in depth: B alone acts before the first C,
and both after it. Norms of both sides give the bound of the difference by the single differences.
"""

from operator import add
from typing import Any

from opalgebra.atoms import Family, Layers, layer_of
from opalgebra.expr import compose
from opalgebra.facts import Equal
from opalgebra.indexed import indexed_sum, ordered_product
from opalgebra.kernel import (
    Theorem,
    assume,
    cong,
    distribute,
    induction,
    instantiate,
    left_dist,
    refl,
    sum_left,
    sym,
    trans,
    under,
    unfold,
)
from opalgebra.resolvent import refuse_nonlinear
from opalgebra.rewrite import chain
from opalgebra.scalar import Scalar, fresh_names, scalar_of, symbol, the_symbol
from opalgebra.space import Kind


def telescoping(A: Layers, B: Layers, length: Scalar) -> Theorem:
    """The theorem of the module, for families or functions of the layer and a symbol for the length.

    NotLinearError when A is not linear, InputError when the length is no single symbol, SpaceError where spaces differ.

    >>> import opalgebra as oa
    >>> A, B = oa.family("A", kind="linear"), oa.family("B", kind="nonlinear")
    >>> two = oa.instantiate(oa.telescoping(A, B, oa.symbol("L")), {oa.symbol("L"): 2})
    >>> print(two.rhs)
    A2 @ (A1 - B1) + B2 @ B1 + (A2 - B2) @ B1
    """
    found = the_symbol(length)
    at: Any = length
    first, second = (layer_of(layers, at) for layers in (A, B))
    refuse_nonlinear(first, needs="telescoping on the left")
    kind = Kind.LINEAR if second.is_linear else Kind.NONLINEAR
    one = Family("A", Kind.LINEAR, first.domain, first.codomain)
    other = Family("B", kind, first.domain, first.codomain)
    return instantiate(_telescoping(one, other, scalar_of(found)), {one: A, other: B})


def _telescoping(A: Family, B: Family, length: Any) -> Theorem:
    i: Any
    j: Any
    k: Any
    i, j, k = map(symbol, fresh_names({the_symbol(length)}, 3))

    def replaced(place: Any, upper: Any) -> Any:
        after, before = ordered_product(A[j], j, place + 1, upper), ordered_product(B[j], j, 1, place - 1)
        return after @ (A[place] - B[place]) @ before

    def total(upper: Any, last: Any) -> Any:
        """The sum over the places up to `last` of a product of `upper` layers."""
        return indexed_sum(replaced(i, upper), i, 1, last)

    def product(layers: Family, upper: Any) -> Any:
        return ordered_product(layers[i], i, 1, upper)

    old, new = product(B, length), product(B, length + 1)
    claim = Equal(product(A, length), old + total(length, length))
    layer = A[length + 1]
    moved = sum_left(layer, total(length, length))
    longest: Any = ordered_product(A[j], j, i + 1, i + k + 1)
    rest = (A[i] - B[i]) @ ordered_product(B[j], j, 1, i - 1)
    inside = under(sym(cong(compose, unfold(longest), rest)), total(length, length), the_symbol(i), the_symbol(k))
    grown = chain(
        unfold(product(A, length + 1)),
        cong(compose, layer, assume(claim)),
        left_dist(layer, claim.rhs),
        cong(add, refl(layer @ old), trans(moved, inside)),
    )
    difference = distribute((layer - B[length + 1]) @ old)
    listed = chain(
        cong(add, unfold(new), unfold(total(length + 1, length + 1))),
        cong(add, refl(B[length + 1] @ old + total(length + 1, length)), difference),
    )
    base = refl(instantiate(claim.lhs, {length: 0}))
    return induction(base, trans(grown, sym(listed)), the_symbol(length))
