"""The difference of two products of layers as a sum of single replacements, at any depth.

    A_L ... A_1 - B_L ... B_1 = sum_{l=1..L} A_L ... A_{l+1} (A_l - B_l) B_{l-1} ... B_1

for linear A_l and every B_l. In any norm with |A B| <= |A| |B| the left side is then at most sum_l |A_L| ... |A_{l+1}| |A_l -
B_l| |B_{l-1}| ... |B_1| for linear B_l: what is changed early is changed by all later layers.
"""

from operator import add

from opalgebra import Theorem, family, symbol, theorem
from opalgebra import telescoping as telescoped
from opalgebra.kernel import cong, refl


@theorem
def telescoping() -> Theorem:
    """By induction over L; the product of the B_l is then taken to the left side."""
    found = telescoped(family("A", kind="linear"), family("B", kind="linear"), symbol("L"))
    (old,) = (term for _, term in found.rhs.terms if term.body.atoms[0].base == "B" and len(term.body.atoms) == 1)
    return cong(add, found, refl(-1 * old))
