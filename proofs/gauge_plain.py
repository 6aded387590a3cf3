"""The freedom to choose a basis of the queries and keys, without rotary positions.

    (M_g W_{Q,h})^T (M_g^-T W_{K,g}) = W_{Q,h}^T W_{K,g}

for every query head h, every key head g that it reads, and every M_g whose transpose has an inverse, which is the hypothesis:
the kernel, and with it the pattern, does not change.
"""

from opalgebra import FEATURES, Inverse, Space, Theorem, auto, family, inverse, symbol, theorem, transpose


@theorem
def gauge_plain() -> Theorem:
    """A transpose reverses the order, and M^T M^-T = 1 in the middle."""
    head, g, h = Space("head"), symbol("g"), symbol("h")
    query, key = (family(name, kind="linear", domain=FEATURES, codomain=head) for name in ("WQ", "WK"))
    M = family("M", kind="linear", domain=head, codomain=head)
    turned = transpose(M[g] @ query[h]) @ inverse(transpose(M[g])) @ key[g]
    return auto(turned, transpose(query[h]) @ key[g], facts=[Inverse(transpose(M[g]))])
