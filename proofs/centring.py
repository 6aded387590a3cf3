"""Centring is idempotent: with M the mean over the features, M M = M, the map 1 - M is a projection.

    (1 - M) (1 - M) = 1 - M

That M M = M is the hypothesis: the mean of a vector of equal entries is that entry.
"""

from opalgebra import FEATURES, Atom, Idempotent, Identity, Theorem, calc, theorem


@theorem
def centring() -> Theorem:
    """By distribution and the hypothesis."""
    M, one = Atom("M", kind="linear", domain=FEATURES, codomain=FEATURES), Identity(FEATURES)
    return calc((one - M) @ (one - M)).to(one - 2 * M + M @ M).to(one - M, by=Idempotent(M)).theorem
