"""The grades of a product of exponentials of layers: weakly ordered sums, 1/m! for a layer that occurs m times.

    E_1 = sum_l V_l,   E_2 = sum_{l<m} V_m V_l + sum_l V_l^2 / 2,
    E_3 = sum_{k<l<m} V_m V_l V_k + sum_{l<m} (V_m^2 V_l + V_m V_l^2) / 2 + sum_l V_l^3 / 6

obey the recursion of the grades of exp(V_{L+1}) [exp(V_L) ... exp(V_1)], and vanish for L = 0:

    E_n(L+1) = E_n(L) + V_{L+1} E_{n-1}(L) + V_{L+1}^2 E_{n-2}(L) / 2 + V_{L+1}^3 E_{n-3}(L) / 6

for n = 1, 2, 3, which is one equation between the coefficients of every power of z.
"""

from fractions import Fraction
from operator import add

from opalgebra import Equal, Theorem, Zero, auto, expand, family, indexed_sum, ordered_sum, parameter, rewrite, symbol, theorem
from opalgebra.kernel import assume, cong, induction, refl, sym, trans, unfold
from opalgebra.rewrite import chain
from opalgebra.scalar import the_symbol


@theorem
def grades_of_exponentials() -> Theorem:
    """The sums are unfolded at their upper end, and then it is distribution."""
    V, i, j, L, z = family("V", kind="linear"), *map(symbol, "ijL"), parameter("z")
    half, sixth = Fraction(1, 2), Fraction(1, 6)

    def strict(order, length):
        return ordered_sum(V[i], i, length, order)

    def powers(exponent, length):
        return indexed_sum(V[i] ** exponent, i, 1, length)

    def mixed(length):
        words = V[j] @ V[j] @ V[i] + V[j] @ V[i] @ V[i]
        return indexed_sum(indexed_sum(words, i, 1, j - 1), j, 1, length)

    def grades(length):
        first = powers(1, length)
        second = strict(2, length) + half * powers(2, length)
        third = strict(3, length) + half * mixed(length) + sixth * powers(3, length)
        return first, second, third

    V_last = V[L + 1]
    before, after = grades(L), grades(L + 1)
    recursion = (
        before[0] + V_last,
        before[1] + V_last @ before[0] + half * V_last @ V_last,
        before[2] + V_last @ before[1] + half * V_last @ V_last @ before[0] + sixth * V_last @ V_last @ V_last,
    )
    claim = assume(Equal(strict(1, L), powers(1, L)))
    step = chain(unfold(strict(1, L + 1)), cong(add, claim, V_last), sym(unfold(powers(1, L + 1))))
    of_first_order = induction(refl(Zero()), step, the_symbol(L))
    found = expand(z * after[0] + z**2 * after[1] + z**3 * after[2])
    for total in (strict(2, L + 1), strict(3, L + 1), *(powers(order, L + 1) for order in (1, 2, 3)), mixed(L + 1)):
        found = trans(found, rewrite(found.rhs, unfold(total)))
    found = trans(found, rewrite(found.rhs, of_first_order))
    return trans(found, auto(found.rhs, z * recursion[0] + z**2 * recursion[1] + z**3 * recursion[2]))
