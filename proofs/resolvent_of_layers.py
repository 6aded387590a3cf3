"""A network of linear layers as one resolvent: all states, and all propagators between them, at any depth.

    (1 - N)^-1 = sum_{m=0..L} sum_{l=m..L} inj_l G(l, m) proj_m,    G(l, m) = T_l ... T_{m+1}

where N takes the state of each depth to the next; the layers are linear, as dressed ones are. The hypotheses say what N does,
N inj_m = inj_{m+1} T_{m+1}, that there is no depth L + 1, inj_{L+1} = 0, that the depths are all, sum_m inj_m proj_m = 1, and
that 1 - N has an inverse.
"""

from operator import add

from opalgebra import (
    Atom,
    Equal,
    Every,
    Identity,
    Inverse,
    Space,
    Theorem,
    X,
    Zero,
    auto,
    family,
    indexed_sum,
    inverse,
    left_dist,
    ordered_product,
    rewrite,
    symbol,
    theorem,
)
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, induction, refl, right_dist, sum_left, sym, under, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def resolvent_of_layers() -> Theorem:
    """(1 - N) times a column is inj_m, by induction over how many depths it has; then all columns, and the inverse."""
    states, L, i, k, m, n = Space("states"), *map(symbol, "Likmn")
    N = Atom("N", kind="linear", domain=states, codomain=states)
    inj = family("inj", kind="linear", domain=X, codomain=states)
    proj = family("proj", kind="linear", domain=states, codomain=X)
    T = family("T", kind="linear")
    moves = Every(N @ inj[k], inj[k + 1] @ T[k + 1], k)

    def propagator(later):
        return ordered_product(T[i], i, m + 1, later)

    def column(last):
        return indexed_sum(inj[n] @ propagator(n), n, m, last)

    def left_over(last):
        return inj[last + 1] @ propagator(last + 1)

    claim = Equal((1 - N) @ column(m + k), inj[m] - left_over(m + k))
    last = inj[m + k + 1] @ propagator(m + k + 1)
    passed = chain(
        cong(compose, assume(moves, m + k + 1), propagator(m + k + 1)),
        cong(compose, inj[m + k + 2], sym(unfold(propagator(m + k + 2)))),
    )
    minus = refl(-1 * Identity(states))
    step = chain(
        cong(compose, 1 - N, unfold(column(m + k + 1))),
        left_dist(1 - N, column(m + k) + last),
        cong(add, assume(claim), right_dist(1 - N, last)),
        cong(add, refl(inj[m]), cong(compose, minus, passed)),
    )
    base = chain(right_dist(1 - N, inj[m]), cong(add, refl(inj[m]), cong(compose, minus, assume(moves, m))))
    solved = cong(compose, induction(base, step, the_symbol(k)), proj[m])

    whole = indexed_sum(column(L) @ proj[m], m, 0, L)
    ends, complete = Equal(inj[L + 1], Zero(X, states)), Equal(indexed_sum(inj[m] @ proj[m], m, 0, L), Identity(states))
    columns = under(solved, whole, the_symbol(m), the_symbol(k))
    ended = rewrite(columns.rhs, ends)
    product = chain(
        sum_left(1 - N, whole),
        columns,
        ended,
        auto(ended.rhs, complete.lhs),
        assume(complete),
    )
    return chain(
        sym(cong(compose, inverse(1 - N), product)),
        cong(compose, assume(Inverse(1 - N), "left"), whole),
    )
