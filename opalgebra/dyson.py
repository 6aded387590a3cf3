"""The Dyson series of a product of symbolic length, proved once for all lengths and lines.

    ordered_product(U[l] + V[l], l, 1, L) = sum over n = 0..L of ordered_sum(V[l], l, L, n, U[l])

for linear U and V: order n has V at n depths and the line U at all others. By induction over L, with the recursion
`E_n(L+1) = U[L+1] @ E_n(L) + V[L+1] @ E_{n-1}(L)` of the ordered sums. With U = 1 it is the series of `1 + V`; with U = 1 +
what is not counted, the series of what is; with norms for U and norms after blocks for V, that of a post-norm network. The
factors of a Transformer are linear once each is dressed by the state before it, and then this is its exact series.
"""

from operator import add
from typing import Any

from opalgebra.atoms import Family, Layers, layer_of
from opalgebra.expr import Identity, Operator, compose
from opalgebra.facts import Equal
from opalgebra.indexed import indexed_sum, ordered_product, ordered_sum
from opalgebra.kernel import (
    Theorem,
    assume,
    cong,
    induction,
    instantiate,
    left_dist,
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
from opalgebra.resolvent import refuse_nonlinear
from opalgebra.rewrite import chain
from opalgebra.scalar import Scalar, Symbol, fresh_names, scalar_of, symbol, the_symbol
from opalgebra.space import Kind


def dyson_theorem(V: Layers, length: Scalar, *, line: Layers | None = None) -> Theorem:
    """The theorem of the module for linear operators `V[l]` (or `V(l)`), a symbol for the length, and a line, 1 if not given.

    NotLinearError when V or the line is not linear: dress it first. InputError when the length is no single symbol.

    >>> import opalgebra as oa
    >>> V, U, L = oa.family("V", kind="linear"), oa.family("U", kind="linear"), oa.symbol("L")
    >>> print(oa.dyson_theorem(V, L))
    |- ordered_product(1 + V[l], l, 1, L) = sum(ordered_sum(V[l], l, L, m), m, 0, L)
    >>> print(oa.dyson_theorem(V, L, line=U).rhs)
    sum(ordered_sum(V[l], l, L, m, U[l]), m, 0, L)
    """
    found = the_symbol(length)
    body = layer_of(V, length)
    between = Identity(body.domain) if line is None else layer_of(line, length)
    refuse_nonlinear(body, between, needs="the Dyson series of a product")
    vertices, lines = (Family(name, Kind.LINEAR, part.domain, part.codomain) for name, part in (("V", body), ("U", between)))
    return instantiate(_series(vertices, lines, found), {vertices: V, lines: between if line is None else line})


def _series(V: Family, U: Family, found: Symbol) -> Theorem:
    length: Any = scalar_of(found)
    i: Any
    n: Any
    i, n = (symbol(name) for name in fresh_names({found}, 2))

    def words(order: Any, upper: Any) -> Any:
        return ordered_sum(V[i], i, upper, order, U[i])

    def total(term: Operator, upper: Any, *, first: int = 0) -> Any:
        return indexed_sum(term, n, first, upper)

    def product(upper: Any) -> Any:
        return ordered_product(U[i] + V[i], i, 1, upper)

    series = total(words(n, length), length)
    claim = Equal(product(length), series)
    line, layer = U[length + 1], V[length + 1]
    passed, chosen = (total(factor @ words(n, length), length) for factor in (line, layer))
    grown = chain(
        unfold(product(length + 1)),
        cong(compose, line + layer, assume(claim)),
        right_dist(line + layer, series),
        cong(add, sum_left(line, series), sum_left(layer, series)),
    )
    later, shorter = (total(line @ words(n + 1, length), upper) for upper in (length, length - 1))
    nothing = words(length + 1, length)
    from_one = chain(
        reindex(total(words(n, length + 1), length + 1, first=1), 1),
        under(unfold(words(n + 1, length + 1)), total(words(n + 1, length + 1), length), the_symbol(n)),
        sum_of_sums(total(line @ words(n + 1, length) + layer @ words(n, length), length)),
        cong(add, chain(unfold(later), cong(add, reindex(shorter, -1), left_dist(line, nothing))), refl(chosen)),
    )
    listed = chain(
        unfold(total(words(n, length + 1), length + 1), lower=True),
        cong(add, unfold(words(0, length + 1)), from_one),
        cong(add, sym(unfold(passed, lower=True)), refl(chosen)),
    )
    return induction(refl(Identity(V.domain)), trans(grown, sym(listed)), found)
