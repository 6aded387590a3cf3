"""Attention does not depend on the basis of its queries, keys and values, for any number of heads.

    sum_h b_h (x) (W_{O,h} M_g^-1) (M_g W_{V,g}) = sum_h a_h (x) W_{O,h} W_{V,g}

with frozen patterns a_h, and b_h those that the turned queries and keys give; here for the heads h that read one value head
g. A pattern depends only on its kernels, which do not change (see the theorems of the kernels): so b_h = a_h for every h.
That, and that M_g has an inverse, are the hypotheses.
"""

from opalgebra import (
    FEATURES,
    POSITIONS,
    Every,
    Inverse,
    Space,
    Theorem,
    auto,
    family,
    indexed_sum,
    inverse,
    symbol,
    tensor,
    theorem,
)
from opalgebra.kernel import assume, cong, refl, under
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def gauge_attention() -> Theorem:
    """Head by head: the weights by M^-1 M = 1, the patterns by the hypothesis."""
    head, g, h, H = Space("head"), *map(symbol, "ghH")
    pattern, turned = (family(name, kind="linear", domain=POSITIONS, codomain=POSITIONS) for name in ("a", "b"))
    value = family("WV", kind="linear", domain=FEATURES, codomain=head)
    output = family("WO", kind="linear", domain=head, codomain=FEATURES)
    M = family("M", kind="linear", domain=head, codomain=head)
    weights = output[h] @ inverse(M[g]) @ M[g] @ value[g]
    unturned = auto(weights, output[h] @ value[g], facts=[Inverse(M[g])])
    one_head = chain(
        cong(tensor, assume(Every(turned[h], pattern[h], h), h), refl(weights)),
        cong(tensor, refl(pattern[h]), unturned),
    )
    return under(one_head, indexed_sum(one_head.lhs, h, 0, H - 1), the_symbol(h))
