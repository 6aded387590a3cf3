"""A causal pattern obeys the equation of its diagonal, for any number of positions.

    (A - D_T) ... (A - D_1) (A - D_0) = 0

for a lower triangular A with a_t at position t and D_t = a_t 1. With P_t the projector on the positions up to t, the
hypotheses are P_0 (A - D_0) = 0, P_{t+1} (A - D_{t+1}) = P_{t+1} (A - D_{t+1}) P_t for every t, and P_T = 1: what A - a_t
gives up to position t comes from earlier positions alone.
"""

from opalgebra import (
    POSITIONS,
    Atom,
    Equal,
    Every,
    Identity,
    Theorem,
    Zero,
    family,
    instantiate,
    ordered_product,
    symbol,
    theorem,
)
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, induction, left_dist, sym, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def triangular_pattern() -> Theorem:
    """P_t (A - D_t) ... (A - D_0) = 0 by induction over t, and P_T is the identity."""
    A = Atom("A", kind="linear", domain=POSITIONS, codomain=POSITIONS)
    D, P = (family(name, kind="linear", domain=POSITIONS, codomain=POSITIONS) for name in "DP")
    i, t, T = map(symbol, "itT")
    nothing = Zero(POSITIONS, POSITIONS)

    def product(last):
        return ordered_product(A - D[i], i, 0, last)

    later = P[t + 1] @ (A - D[t + 1])
    step = chain(
        cong(compose, P[t + 1], unfold(product(t + 1))),
        cong(compose, assume(Every(later, later @ P[t], t), t), product(t)),
        cong(compose, later, assume(Equal(P[t] @ product(t), nothing))),
        left_dist(later, nothing),
    )
    found = induction(assume(Equal(P[0] @ (A - D[0]), nothing)), step, the_symbol(t))
    return chain(sym(cong(compose, assume(Equal(P[T], Identity(POSITIONS))), product(T))), instantiate(found, {t: T}))
