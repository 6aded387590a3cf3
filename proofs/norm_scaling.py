"""A pre-norm block sees a rescaled stream through another epsilon.

    N_eps(c x) = N_{eps/c^2}(x) for c > 0,   so that   V N_eps c = V N_{eps/c^2}

as maps, for every block V. The fact about the norm is a hypothesis; M stands for the norm with eps / c^2.
"""

from opalgebra import Atom, Equal, Identity, Theorem, calc, parameter, theorem


@theorem
def norm_scaling() -> Theorem:
    """The hypothesis, applied inside of the block."""
    V, N, M = (Atom(name, kind="nonlinear") for name in "VNM")
    scaling = parameter("c", positive=True) * Identity()
    return calc(V @ N @ scaling).to(V @ M, by=Equal(N @ scaling, M)).theorem
