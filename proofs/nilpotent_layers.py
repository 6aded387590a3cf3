"""The map that takes the state of each depth to the next is nilpotent, for any number of linear layers.

    N inj_m = inj_{m+1} T_{m+1} for every m,   inj_{L+1+m} = 0 for every m,   sum_{m=0..L} inj_m proj_m = 1   give   N^{L+1} = 0

where inj_m puts the state of depth m into the states of all depths 0, ..., L, and T_l is layer l; dressed layers are linear.
"""

from opalgebra import (
    Atom,
    Equal,
    Every,
    Identity,
    Space,
    Theorem,
    X,
    Zero,
    family,
    indexed_sum,
    instantiate,
    ordered_product,
    simplify,
    symbol,
    theorem,
)
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, induction, refl, sum_left, sym, under, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def nilpotent_layers() -> Theorem:
    """N^n inj_m = inj_{m+n} T_{m+n} ... T_{m+1} by induction over n, which is 0 for n = L + 1."""
    states, L, i, k, m, n = Space("states"), *map(symbol, "Likmn")
    N = Atom("N", kind="linear", domain=states, codomain=states)
    inj = family("inj", kind="linear", domain=X, codomain=states)
    proj = family("proj", kind="linear", domain=states, codomain=X)
    T = family("T", kind="linear")
    moves = Every(N @ inj[k], inj[k + 1] @ T[k + 1], k)

    def power(length):
        return ordered_product(N, i, 1, length)

    def layers(length):
        return ordered_product(T[i], i, m + 1, m + length)

    step = chain(
        cong(compose, unfold(power(n + 1)), inj[m]),
        cong(compose, N, assume(Equal(power(n) @ inj[m], inj[m + n] @ layers(n)))),
        cong(compose, assume(moves, m + n), layers(n)),
        cong(compose, inj[m + n + 1], sym(unfold(layers(n + 1)))),
    )
    moved = instantiate(induction(refl(inj[m]), step, the_symbol(n)), {n: L + 1})
    nothing = Every(inj[L + 1 + k], Zero(X, states), k)
    column = chain(moved, cong(compose, assume(nothing, m), layers(L + 1)))
    completeness = assume(Equal(indexed_sum(inj[m] @ proj[m], m, 0, L), Identity(states)))
    whole = power(L + 1)
    columns = sum_left(whole, completeness.lhs)
    return chain(
        sym(cong(compose, whole, completeness)),
        columns,
        under(cong(compose, column, proj[m]), columns.rhs, the_symbol(m)),
        simplify(indexed_sum(Zero(states, states), m, 0, L)),
    )
