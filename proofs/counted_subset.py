"""Counting some vertices and resumming the rest gives the full series, at any depth.

    sum_{n=0..L} (C at n depths, 1 + R at all others) = sum_{n=0..L} (R + C at n depths, 1 at all others)
                                                      = prod_{l=1..L} (1 + R_l + C_l)

for linear R_l, C_l: C_l is what is counted at layer l, R_l everything else there. On the left a term of order n has n counted
vertices, and between them the propagators of 1 + R; on the right every vertex is counted.
"""

from opalgebra import Theorem, dyson_theorem, family, symbol, theorem
from opalgebra.kernel import sym
from opalgebra.rewrite import chain


@theorem
def counted_subset() -> Theorem:
    """Both sides are the Dyson series of one product, with another line."""
    R, C, L = family("R", kind="linear"), family("C", kind="linear"), symbol("L")
    counted = dyson_theorem(C, L, line=lambda layer: 1 + R[layer])
    return chain(sym(counted), dyson_theorem(lambda layer: R[layer] + C[layer], L))
