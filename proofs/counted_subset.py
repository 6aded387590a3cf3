"""Counting some vertices and resumming the rest gives the full series, at any depth.

    prod_{l=1..L} (U_l + C_l) = prod_{l=1..L} U_l + sum_{m=1..L} [prod_{l>m} (U_l + C_l)] C_m [prod_{l<m} U_l]

for linear U_l, C_l: C_l is what is counted at layer l, U_l everything else, the unit included. Below the first
counted vertex everything is resummed into the propagator of the U_l, above it stands the same product again; put into
itself n times, the equation is the series up to order n in the counted vertices with a remainder that vanishes for n
> L.
"""

from opalgebra import Theorem, family, symbol, telescoping, theorem


@theorem
def counted_subset() -> Theorem:
    """Replacing U_l + C_l by U_l one layer after the other."""
    U, C = family("U", kind="linear"), family("C", kind="linear")
    return telescoping(lambda layer: U[layer] + C[layer], U, symbol("L"))
