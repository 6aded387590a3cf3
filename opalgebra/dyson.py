"""The Dyson series of a product of symbolic length, proved once for all lengths.

    ordered_product(1 + V[l], l, 1, L) = sum over n = 0..L of ordered_sum(V[l], l, L, n)

for linear V: by induction over L, with the recursion `E_n(L+1) = E_n(L) + V[L+1] @ E_{n-1}(L)` of the ordered sums. The
factors of a Transformer are linear once each is dressed by the state before it, and then this is its exact series.
"""

from collections.abc import Callable
from operator import add
from typing import Any

from opalgebra.atoms import Family
from opalgebra.errors import InputError
from opalgebra.expr import Identity, Operator, check_operators, compose
from opalgebra.facts import Equal
from opalgebra.indexed import indexed_sum, ordered_product, ordered_sum
from opalgebra.kernel import (
    Theorem,
    assume,
    cong,
    induction,
    instantiate,
    refl,
    reindex,
    right_dist,
    sum_left,
    sum_of_sums,
    sym,
    trans,
    under,
    unfold,
)
from opalgebra.rewrite import chain
from opalgebra.scalar import Scalar, Symbol, fresh_names, scalar_of, symbol, the_symbol
from opalgebra.space import Kind


def dyson_theorem(V: Family | Callable[[Any], Operator], length: Scalar) -> Theorem:
    """The theorem of the module for the linear operators `V[l]` (or `V(l)`) and a symbol for the length.

    NotLinearError when V is not linear: dress it first. InputError when the length is no single symbol.

    >>> import opalgebra as oa
    >>> print(oa.dyson_theorem(oa.family("V", kind="linear"), oa.symbol("L")))
    |- ordered_product(1 + V[l], l, 1, L) = sum(ordered_sum(V[l], l, L, m), m, 0, L)
    """
    found = the_symbol(length)
    if isinstance(V, Family):
        return _series(V, found)
    if not callable(V):
        raise InputError(f"{V!r} is no family and no function of an index; pass a family, or lambda l: g * V[l]")
    body = V(length)
    check_operators(body)
    kind = Kind.LINEAR if body.is_linear else Kind.NONLINEAR
    letters = Family("V", kind, body.domain, body.codomain)
    return instantiate(_series(letters, found), {letters: V})


def _series(V: Family, found: Symbol) -> Theorem:
    length: Any = scalar_of(found)
    body: Callable[[Any], Operator] = V.__getitem__
    i, n = (symbol(name) for name in fresh_names(body(length).symbols | {found}, 2))

    def words(order: Any, upper: Any) -> Any:
        return ordered_sum(body(i), i, upper, order)

    def total(term: Operator, upper: Any, *, first: int = 0) -> Any:
        return indexed_sum(term, n, first, upper)

    def series(upper: Any, *, first: int = 0, shift: int = 0) -> Any:
        return total(words(n + shift, upper), upper - shift, first=first)

    def product(upper: Any) -> Any:
        return ordered_product(1 + body(i), i, 1, upper)

    claim = Equal(product(length), series(length))
    factor = 1 + body(length + 1)
    grown = chain(
        unfold(product(length + 1)),
        cong(compose, refl(factor), assume(claim)),
        right_dist(factor, series(length)),
        cong(add, refl(series(length)), sum_left(body(length + 1), series(length))),
    )
    one, passed = refl(Identity(factor.domain)), total(body(length + 1) @ words(n, length), length)
    kept = total(words(n + 1, length), length)
    from_one = chain(
        reindex(series(length + 1, first=1), 1),
        under(unfold(words(n + 1, length + 1)), series(length + 1, shift=1), the_symbol(n)),
        sum_of_sums(total(words(n + 1, length) + body(length + 1) @ words(n, length), length)),
        cong(add, chain(unfold(kept), reindex(series(length, shift=1), -1)), refl(passed)),
    )
    listed = chain(
        unfold(series(length + 1), lower=True),
        cong(add, one, from_one),
        cong(add, sym(unfold(series(length), lower=True)), refl(passed)),
    )
    return induction(one, trans(grown, sym(listed)), found)
