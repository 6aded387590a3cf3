"""Affine blocks in homogeneous coordinates: every part born at a source is accounted for.

    prod_{l=1..L} (1 + W_l) = inj_0 P(L, 0) proj_0 + inj_1 proj_1 + sum_{l=1..L} inj_0 P(L, l) s_l proj_1

with W_l = inj_0 V_l proj_0 + inj_0 s_l proj_1 on features and one more coordinate that stays 1, and P(L, l) the product of
the 1 + V_j above l. A block that adds V_l x + s_l is linear in these coordinates. What is born at layer l is carried on by
P(L, l), whose series has the orders: with z for every V and s, the part of s_l that n later vertices act on has the order n +
1.
"""

from operator import add

from opalgebra import K, Theorem, X, direct_sum, family, instantiate, ordered_product, simplify, symbol, telescoping, theorem
from opalgebra.expr import compose
from opalgebra.facts import Equal
from opalgebra.kernel import assume, cong, distribute, induction, left_dist, refl, reindex, sym, under, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol

BOTH = direct_sum(X, K, name="H")
INTO, OUT = (BOTH.injection(0), BOTH.injection(1)), (BOTH.projection(0), BOTH.projection(1))
V = family("V", kind="linear")
S = family("s", kind="linear", domain=K)


def linear(layer):
    return INTO[0] @ V[layer] @ OUT[0]


def affine(layer):
    return linear(layer) + INTO[0] @ S[layer] @ OUT[1]


def product(block, lower, upper):
    j = symbol("j")
    return ordered_product(1 + block(j), j, lower, upper)


def features(block, a, n):
    """`prod (1 + W_j) inj_0 = inj_0 prod (1 + V_j)` over j = a + 1, ..., a + n, by induction over n."""
    kept = product(V.__getitem__, a + 1, a + n)
    claim = Equal(product(block, a + 1, a + n) @ INTO[0], INTO[0] @ kept)
    last = 1 + block(a + n + 1)
    passed = simplify(last @ INTO[0], facts=BOTH.facts)
    step = chain(
        cong(compose, unfold(product(block, a + 1, a + n + 1)), INTO[0]),
        cong(compose, last, assume(claim)),
        cong(compose, chain(passed, sym(distribute(INTO[0] @ (1 + V[a + n + 1])))), kept),
        sym(cong(compose, INTO[0], unfold(product(V.__getitem__, a + 1, a + n + 1)))),
    )
    return induction(refl(INTO[0]), step, the_symbol(n))


def one_is_read(n):
    """`proj_1 prod (1 + inj_0 V_j proj_0) = proj_1`, by induction over the length n."""
    last = 1 + linear(n + 1)
    claim = Equal(OUT[1] @ product(linear, 1, n), OUT[1])
    step = chain(
        cong(compose, OUT[1], unfold(product(linear, 1, n + 1))),
        cong(compose, simplify(OUT[1] @ last, facts=BOTH.facts), product(linear, 1, n)),
        assume(claim),
    )
    return induction(refl(OUT[1]), step, the_symbol(n))


def one_stays(n):
    """`prod (1 + inj_0 V_j proj_0) inj_1 = inj_1`, by induction over the length n."""
    last = 1 + linear(n + 1)
    step = chain(
        cong(compose, unfold(product(linear, 1, n + 1)), INTO[1]),
        cong(compose, last, assume(Equal(product(linear, 1, n) @ INTO[1], INTO[1]))),
        simplify(last @ INTO[1], facts=BOTH.facts),
    )
    return induction(refl(INTO[1]), step, the_symbol(n))


@theorem
def sources() -> Theorem:
    """Telescoping from the blocks without sources; then what stands on each side of a source is carried through."""
    a, n, i, k, L = map(symbol, "anikL")
    without = product(linear, 1, L)
    free = chain(
        sym(cong(compose, without, assume(BOTH.completeness))),
        left_dist(without, BOTH.completeness.lhs),
        cong(
            add,
            cong(compose, instantiate(features(linear, a, n), {a: 0, n: L}), OUT[0]),
            cong(compose, instantiate(one_stays(n), {n: L}), OUT[1]),
        ),
    )
    found = telescoping(lambda layer: 1 + affine(layer), lambda layer: 1 + linear(layer), L)
    (born,) = (term for _, term in found.rhs.terms if term is not without)
    shifted = reindex(born, 1)
    above = instantiate(features(affine, a, n), {a: i + 1, n: k})
    body = chain(
        cong(compose, above, S[i + 1] @ OUT[1] @ product(linear, 1, i)),
        cong(compose, above.rhs @ S[i + 1], instantiate(one_is_read(n), {n: i})),
    )
    sides = under(body, shifted.rhs, the_symbol(i), the_symbol(k))
    return chain(found, cong(add, free, chain(shifted, sides)))
