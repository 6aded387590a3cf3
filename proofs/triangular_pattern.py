"""A causal pattern obeys the equation of its diagonal.

    (A - a_3) (A - a_2) (A - a_1) (A - a_0) = 0

for a lower triangular A with a_t at position t, here for four positions: with P_t the projector on the positions up to t, the
hypotheses say that P_0 (A - a_0) = 0, P_{t+1} (A - a_{t+1}) = P_{t+1} (A - a_{t+1}) P_t, and P_3 = 1: what A - a_t gives up to
position t comes from earlier positions alone.
"""

from opalgebra import POSITIONS, Atom, Equal, Identity, Theorem, Zero, family, parameter, theorem
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, left_dist, sym
from opalgebra.rewrite import chain


@theorem
def triangular_pattern() -> Theorem:
    """P_t (A - a_t) ... (A - a_0) = 0 for each t in turn, and P_3 is the identity."""
    A = Atom("A", kind="linear", domain=POSITIONS, codomain=POSITIONS)
    P = family("P", kind="linear", domain=POSITIONS, codomain=POSITIONS)
    factors = [A - parameter(f"a{t}") * Identity(POSITIONS) for t in range(4)]
    product, proof = factors[0], assume(Equal(P[0] @ factors[0], Zero(POSITIONS, POSITIONS)))
    for t in range(3):
        later = P[t + 1] @ factors[t + 1]
        step = cong(compose, assume(Equal(later, later @ P[t])), product)
        product = factors[t + 1] @ product
        proof = chain(step, cong(compose, later, proof), left_dist(later, proof.rhs))
    whole = cong(compose, assume(Equal(P[3], Identity(POSITIONS))), product)
    return chain(sym(whole), proof)
