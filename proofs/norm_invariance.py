"""At eps = 0 pre-norm blocks do not see a positive rescaling of each token.

    N D = N   gives   (V N) D = V N   and   (1 + V N) D = D + V N

for every block V and every positive diagonal D over the tokens. That N D = N is the hypothesis: the scale of a token is
divided out.
"""

from opalgebra import Atom, Equal, Theorem, calc, theorem


@theorem
def norm_invariance() -> Theorem:
    """The sum acts pointwise, and then the hypothesis."""
    V, N = (Atom(name, kind="nonlinear") for name in "VN")
    D = Atom("D", kind="linear")
    return calc((1 + V @ N) @ D).to(D + V @ N @ D).to(D + V @ N, by=Equal(N @ D, N)).theorem
