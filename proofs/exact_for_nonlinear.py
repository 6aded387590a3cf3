"""The dressed Dyson series is exact for nonlinear layers, at any depth.

    prod_{l=1..L} (1 + F_l) x
        = sum_n (ordered sums of F_l<x_{l-1}>) x + sources, each carried on by the later layers

for all maps F_l and every state x, with x_{l-1} the state that layer l reads. No map is assumed linear: attention and
feed-forward networks behind their norms are such maps.
"""

from operator import add

from opalgebra import Theorem, dressed, dyson_theorem, family, ordered_product, state, symbol, theorem
from opalgebra.expr import compose
from opalgebra.kernel import cong, dress, refl, trans


@theorem(cites=["dyson_series"])
def exact_for_nonlinear() -> Theorem:
    """Dressing makes every factor linear; then the theorem for linear factors applies to the part without sources."""
    F, x, L, i, j = family("F", kind="nonlinear"), state("x"), *map(symbol, "Lij")

    def vertex(depth):
        return dressed(F[depth], ordered_product(1 + F[j], j, 1, depth - 1) @ x)

    opened = dress(ordered_product(1 + F[i], i, 1, L) @ x)
    series = cong(compose, dyson_theorem(vertex, L), x)
    return trans(opened, cong(add, series, refl(opened.rhs - series.lhs)))
