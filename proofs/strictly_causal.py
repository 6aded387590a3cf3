"""A strictly causal linear map of T + 1 positions is nilpotent.

    P_0 N = 0 and P_{t+1} N = P_{t+1} N P_t for t < 3, P_3 = 1   give   N^4 = 0

where P_t projects on the positions up to t: what N gives at a position depends on earlier positions alone. Here for
four positions.
"""

from opalgebra import Atom, Equal, Identity, Theorem, Zero, family, theorem
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, left_dist, sym
from opalgebra.rewrite import chain


@theorem
def strictly_causal() -> Theorem:
    """P_t N^{t+1} = 0 for each t in turn, and P_3 is the identity."""
    N, P = Atom("N", kind="linear"), family("P", kind="linear")
    proof = assume(Equal(P[0] @ N, Zero()))
    for t in range(3):
        step = cong(compose, assume(Equal(P[t + 1] @ N, P[t + 1] @ N @ P[t])), N ** (t + 1))
        inner = cong(compose, P[t + 1] @ N, proof)
        proof = chain(step, inner, left_dist(P[t + 1] @ N, Zero()))
    whole = cong(compose, assume(Equal(P[3], Identity())), N**4)
    return chain(sym(whole), proof)
