"""Post-norm networks: every line is dressed by the norm.

    prod_{l=1..L} N_l (1 + V_l) = prod_{l=1..L} N_l + sum_{m=1..L} [prod_{l>m} N_l (1 + V_l)] N_m V_m [prod_{l<m} N_l]

for linear N_l and V_l, which dressed norms and blocks are. There is no unit to expand about: the free propagator from
one depth to another is the product of the norms between them.
"""

from opalgebra import Theorem, family, simplify, symbol, telescoping, theorem
from opalgebra.kernel import trans


@theorem
def post_norm() -> Theorem:
    """Replacing N_l (1 + V_l) by N_l one layer after the other."""
    N, V = family("N", kind="linear"), family("V", kind="linear")
    found = telescoping(lambda layer: N[layer] + N[layer] @ V[layer], N, symbol("L"))
    return trans(found, simplify(found.rhs))
