"""Dyson's equation for a projector: what never passes through P is summed first.

    R = D + D P A R,    R = (1 - A)^-1,    D = (1 - (1 - P) A)^-1

for linear A and P. D sums the words without an inner line in P, so that A D is the irreducible part, the self-energy.
"""

from opalgebra import Theorem, atoms, theorem
from opalgebra import dyson_equation as equation


@theorem
def dyson_equation() -> Theorem:
    """From (1 - A) R = 1 with A = (1 - P) A + P A."""
    return equation(*atoms("A P", kind="linear"))
