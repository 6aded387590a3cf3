"""The resolvent of a nilpotent map is a finite sum of its powers, for any length.

    (1 - N)^-1 = sum_{n=0..L} N^n    when N^{L+1} = 0

for linear N. The hypotheses are that, and that 1 - N has an inverse, which the sum then is.
"""

from operator import add

from opalgebra import (
    Atom,
    Equal,
    Identity,
    Inverse,
    Nilpotent,
    Theorem,
    auto,
    indexed_sum,
    inverse,
    left_dist,
    ordered_product,
    symbol,
    theorem,
)
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, induction, refl, right_dist, sym, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def neumann_series() -> Theorem:
    """(1 - N) (1 + ... + N^L) = 1 - N^{L+1} by induction over L; then multiply by the inverse."""
    N, i, n, L = Atom("N", kind="linear"), *map(symbol, "inL")

    def power(length):
        return ordered_product(N, i, 1, length)

    def total(length):
        return indexed_sum(power(n), n, 0, length)

    claim = Equal((1 - N) @ total(L), 1 - power(L + 1))
    last = power(L + 1)
    grown = chain(
        cong(compose, 1 - N, unfold(total(L + 1))),
        left_dist(1 - N, total(L) + last),
        cong(add, assume(claim), right_dist(1 - N, last)),
    )
    ended = cong(add, refl(Identity()), cong(compose, refl(-1 * Identity()), unfold(power(L + 2))))
    step = chain(grown, sym(ended))
    base = auto((1 - N) @ total(0), 1 - N)
    telescoped = induction(base, step, the_symbol(L))
    vanishing = cong(compose, refl(-1 * Identity()), assume(Nilpotent(N, L + 1)))
    solved = chain(telescoped, cong(add, refl(Identity()), vanishing))
    resolvent = inverse(1 - N)
    return chain(sym(cong(compose, resolvent, solved)), cong(compose, assume(Inverse(1 - N), "left"), total(L)))
