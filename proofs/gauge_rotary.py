"""The freedom to choose a basis of the queries and keys, with rotary positions: maps that commute with the rotations.

    (M W_Q)^T R_i^T R_j (M^-T W_K) = W_Q^T R_i^T R_j W_K

when M^T R_i^T = R_i^T M^T and M^T R_j = R_j M^T, which holds for every M that commutes with all rotations of pairs.
For other M the kernel changes.
"""

from opalgebra import FEATURES, Atom, Commute, Inverse, Space, Theorem, auto, inverse, theorem, transpose


@theorem
def gauge_rotary() -> Theorem:
    """M^T is moved past both rotations to its inverse."""
    head = Space("head")
    query, key = (Atom(name, kind="linear", domain=FEATURES, codomain=head) for name in ("W_Q", "W_K"))
    M, here, there = (Atom(name, kind="linear", domain=head, codomain=head) for name in ("M", "R_i", "R_j"))
    rotated = transpose(query) @ transpose(here) @ there
    turned = transpose(M @ query) @ transpose(here) @ there @ inverse(transpose(M)) @ key
    facts = [Commute(transpose(M), transpose(here)), Commute(transpose(M), there), Inverse(transpose(M))]
    return auto(turned, rotated @ key, facts=facts)
