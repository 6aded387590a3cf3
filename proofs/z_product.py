"""The product of the Z factors of all layers depends on the ends alone.

    Z_{L+1} ... Z_1 = n_{L+1}^-1 n_0,    Z_{l+1} = n_{l+1}^-1 n_l

for any number of layers; the hypothesis is that every n_l has an inverse.
"""

from opalgebra import Inverse, Theorem, family, instantiate, inverse, ordered_product, symbol, theorem
from opalgebra.expr import compose
from opalgebra.facts import Equal
from opalgebra.kernel import assume, cong, induction, refl, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def z_product() -> Theorem:
    """By induction over L: Z_{L+2} n_{L+1}^-1 n_0 = n_{L+2}^-1 n_{L+1} n_{L+1}^-1 n_0."""
    n, i, L = family("n", kind="linear"), symbol("i"), symbol("L")
    Z = ordered_product(inverse(n[i + 1]) @ n[i], i, 0, L)
    claim = Equal(Z, inverse(n[L + 1]) @ n[0])
    base = refl(inverse(n[1]) @ n[0])
    later = instantiate(Z, {L: L + 1})
    factor = inverse(n[L + 2]) @ n[L + 1]
    step = chain(
        unfold(later),
        cong(compose, factor, assume(claim)),
        cong(compose, inverse(n[L + 2]), cong(compose, assume(Inverse(n), "right", n[L + 1]), n[0])),
    )
    return induction(base, step, the_symbol(L))
