"""One residual layer on a state expands exactly, into terms that each carry their own background.

    (1 + F)(1 + A) x = x + A<x> x + a<x> + F<x1> x + F<x1> A<x> x + F<x1> a<x> + f<x1>,    x1 = (1 + A) x

for all maps A and F of X and every state x. No map is assumed linear: A and F may be attention and a feed-forward network
behind their norms. The background of F is x1, the state that F really reads. The terms are the four selections of the Dyson
series of two vertices and its three source-born parts.
"""

from operator import add

from opalgebra import Atom, Theorem, dressed, left_dist, source, state, theorem
from opalgebra.expr import compose
from opalgebra.kernel import cong, dress, refl, right_dist, trans


@theorem
def one_layer() -> Theorem:
    """The theorem, by dressing once and then distributing one product at a time."""
    A, F = (Atom(name, kind="nonlinear") for name in ("A", "F"))
    x = state("x")
    x1 = (1 + A) @ x
    attention, ffn = dressed(A, x), dressed(F, x1)
    from_attention, from_ffn = refl(source(A, x)), refl(source(F, x1))

    step = dress((1 + F) @ x1)
    inner = cong(add, right_dist(1 + attention, x), from_attention)
    step = trans(step, cong(add, cong(compose, refl(1 + ffn), inner), from_ffn))
    over_ffn = trans(right_dist(1 + ffn, inner.rhs), cong(add, refl(inner.rhs), left_dist(ffn, inner.rhs)))
    return trans(step, cong(add, over_ffn, from_ffn))


if __name__ == "__main__":
    print(one_layer())
