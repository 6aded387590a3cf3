"""The freedom to choose a basis of the queries and keys, without rotary positions.

    (M W_Q)^T (M^-T W_K) = W_Q^T W_K

for every invertible M: the kernel, and with it the pattern, does not change. The hypothesis is that M^T has the
inverse M^-T.
"""

from opalgebra import FEATURES, Atom, Inverse, Space, Theorem, auto, inverse, theorem, transpose


@theorem
def gauge_plain() -> Theorem:
    """A transpose reverses the order, and M^T M^-T = 1 in the middle."""
    head = Space("head")
    query, key = (Atom(name, kind="linear", domain=FEATURES, codomain=head) for name in ("W_Q", "W_K"))
    M = Atom("M", kind="linear", domain=head, codomain=head)
    turned = transpose(M @ query) @ inverse(transpose(M)) @ key
    return auto(turned, transpose(query) @ key, facts=[Inverse(transpose(M))])
