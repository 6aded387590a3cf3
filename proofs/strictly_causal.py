"""A strictly causal linear map of T + 1 positions is nilpotent, for any number of positions.

    P_0 N = 0,   P_{t+1} N = P_{t+1} N P_t for every t,   P_T = 1   give   N^{T+1} = 0

where P_t projects on the positions up to t: what N gives at a position depends on earlier positions alone.
"""

from opalgebra import Atom, Equal, Every, Identity, Theorem, Zero, family, instantiate, ordered_product, symbol, theorem
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, induction, left_dist, sym, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def strictly_causal() -> Theorem:
    """P_t N^{t+1} = 0 by induction over t, and P_T is the identity."""
    N, P, i, t, T = Atom("N", kind="linear"), family("P", kind="linear"), *map(symbol, "itT")

    def power(last):
        return ordered_product(N, i, 0, last)

    later = P[t + 1] @ N
    step = chain(
        cong(compose, P[t + 1], unfold(power(t + 1))),
        cong(compose, assume(Every(later, later @ P[t], t), t), power(t)),
        cong(compose, later, assume(Equal(P[t] @ power(t), Zero()))),
        left_dist(later, Zero()),
    )
    found = induction(assume(Equal(P[0] @ N, Zero())), step, the_symbol(t))
    return chain(sym(cong(compose, assume(Equal(P[T], Identity())), power(T))), instantiate(found, {t: T}))
