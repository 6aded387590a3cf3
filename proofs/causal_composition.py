"""Causality is closed under composition and sums, for nonlinear maps.

    P F = P F P and P G = P G P   give   P (1 + F) (1 + G) = P (1 + F) (1 + G) P

for a prefix projector P and all maps F and G. A block of a decoder is such a map, and then so is every product of layers 1 +
F. For the sums P is linear, and P P = P for the unit.
"""

from opalgebra import Atom, Causal, Idempotent, Theorem, atoms, auto, family, symbol, theorem
from opalgebra.expr import compose
from opalgebra.kernel import cong, sym
from opalgebra.rewrite import chain


@theorem
def causal_composition() -> Theorem:
    """Each factor is causal, P (1 + F) = P (1 + F) P; then P is put between the factors, behind both, and taken out between."""
    F, G = atoms("F G", kind="nonlinear")
    prefixes = family("P", kind="linear")
    P = prefixes[symbol("t")]

    def causal(block: Atom) -> Theorem:
        return auto(P @ (1 + block), P @ (1 + block) @ P, facts=[Causal(block, prefixes), Idempotent(prefixes)])

    between = cong(compose, causal(F), 1 + G)
    behind = cong(compose, P @ (1 + F), causal(G))
    return chain(between, behind, sym(cong(compose, between, P)))
