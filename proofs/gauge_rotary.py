"""The freedom to choose a basis of the queries and keys, with rotary positions: maps that commute with the rotations.

    (M_g W_{Q,h})^T R_i^T R_j (M_g^-T W_{K,g}) = W_{Q,h}^T R_i^T R_j W_{K,g}

for every query head h, every key head g that it reads, and all positions i and j. The hypotheses are that R_i^T R_i = 1 = R_i
R_i^T and M_g R_i = R_i M_g for every i, as for every M_g that turns and scales the planes of the rotations, and that M_g^T
has an inverse. For other M_g the kernel changes.
"""

from opalgebra import (
    FEATURES,
    Every,
    Identity,
    Inverse,
    Space,
    Theorem,
    auto,
    calc,
    family,
    inverse,
    symbol,
    theorem,
    transpose,
)
from opalgebra.expr import compose
from opalgebra.kernel import assume, cong, sym
from opalgebra.rewrite import chain


@theorem
def gauge_rotary() -> Theorem:
    """M commutes with R_j^T too, for R_j^T is the inverse of R_j; so M^T is moved past both rotations to its inverse."""
    head = Space("head")
    query, key = (family(name, kind="linear", domain=FEATURES, codomain=head) for name in ("WQ", "WK"))
    M, R = (family(name, kind="linear", domain=head, codomain=head) for name in "MR")
    g, h, i, j = map(symbol, "ghij")
    one = Identity(head)
    commute = Every(M[g] @ R[i], R[i] @ M[g], i)
    right, left = Every(R[i] @ transpose(R[i]), one, i), Every(transpose(R[i]) @ R[i], one, i)
    here, there, basis = transpose(R[i]), R[j], transpose(M[g])

    back = chain(
        sym(cong(compose, assume(left, j), M[g] @ transpose(there))),
        cong(compose, transpose(there), cong(compose, sym(assume(commute, j)), transpose(there))),
        cong(compose, transpose(there) @ M[g], assume(right, j)),
    )
    past_here, past_there = cong(transpose, sym(assume(commute, i))), cong(transpose, back)
    turned = transpose(M[g] @ query[h]) @ here @ there @ inverse(basis) @ key[g]
    return (
        calc(turned)
        .to(transpose(query[h]) @ here @ basis @ there @ inverse(basis) @ key[g], by=past_here)
        .to(transpose(query[h]) @ here @ there @ basis @ inverse(basis) @ key[g], by=past_there)
        .to(transpose(query[h]) @ here @ there @ key[g], by=auto(basis @ inverse(basis), one, facts=[Inverse(basis)]))
        .theorem
    )
