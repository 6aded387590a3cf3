"""The freedom to choose a basis of the values, for each value head.

    (W_{O,h} M_g^-1) (M_g W_{V,g}) = W_{O,h} W_{V,g}

for every query head h, every value head g that it reads, and every M_g that has an inverse, which is the hypothesis; every
output matrix of the heads that read g changes with the value matrix that they share.
"""

from opalgebra import FEATURES, Inverse, Space, Theorem, auto, family, inverse, symbol, theorem


@theorem
def gauge_values() -> Theorem:
    """M^-1 M = 1 in the middle."""
    head, g, h = Space("head"), symbol("g"), symbol("h")
    value = family("WV", kind="linear", domain=FEATURES, codomain=head)
    output = family("WO", kind="linear", domain=head, codomain=FEATURES)
    M = family("M", kind="linear", domain=head, codomain=head)
    return auto(output[h] @ inverse(M[g]) @ M[g] @ value[g], output[h] @ value[g], facts=[Inverse(M[g])])
