"""Post-norm networks: every line is dressed by the norm, at any depth and exactly.

    prod_{l=1..L} N_l (1 + V_l) x = sum_{n=0..L} (N_l V_l at n depths, N_l at all others) x + sources

for all norms N_l and blocks V_l and every state x, each dressed by what it really reads: V_l by the state before it, N_l by
the sum that it normalises. There is no unit to expand about: the free propagator from one depth to another is the product of
the dressed norms between them, and what a norm or a block adds whatever it reads is a source that the later layers carry on.
"""

from operator import add

from opalgebra import Theorem, dressed, dyson_theorem, family, left_dist, ordered_product, state, symbol, theorem
from opalgebra.expr import compose
from opalgebra.kernel import cong, dress, refl, under
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def post_norm() -> Theorem:
    """Dressing makes every factor linear; then the theorem with the dressed norms as the line."""
    N, V = family("N", kind="nonlinear"), family("V", kind="nonlinear")
    x, L, i, j = state("x"), *map(symbol, "Lij")

    def before(depth):
        return ordered_product(N[j] @ (1 + V[j]), j, 1, depth - 1) @ x

    def block(depth):
        return dressed(V[depth], before(depth))

    def norm(depth):
        return dressed(N[depth], (1 + V[depth]) @ before(depth))

    opened = dress(ordered_product(N[i] @ (1 + V[i]), i, 1, L) @ x)
    product = ordered_product(norm(i) @ (1 + block(i)), i, 1, L)
    lines = chain(
        under(left_dist(norm(i), 1 + block(i)), product, the_symbol(i)),
        dyson_theorem(lambda depth: norm(depth) @ block(depth), L, line=norm),
    )
    series = cong(compose, lines, x)
    return chain(opened, cong(add, series, refl(opened.rhs - series.lhs)))
