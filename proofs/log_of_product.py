"""The grades of the logarithm of a product of layers 1 + V_l, up to the third, for any number of layers.

    E_1 = O_1,   E_2 = O_2 + O_1^2 / 2,   E_3 = O_3 + (O_1 O_2 + O_2 O_1) / 2 + O_1^3 / 6

with E_n the sum over 1 <= l_1 < ... < l_n <= L of V_{l_n} ... V_{l_1}, the terms of grade n of the product, and O_n those of
its logarithm, log(1 + E) = E - E^2 / 2 + E^3 / 3 - ..., which the hypotheses write down: O_1 = E_1, O_2 = E_2 - E_1^2 / 2,
O_3 = E_3 - (E_1 E_2 + E_2 E_1) / 2 + E_1^3 / 3. The three equations are one, between the coefficients of every power of z.
"""

from fractions import Fraction

from opalgebra import Equal, Theorem, auto, family, ordered_sum, parameter, rewrite, symbol, theorem
from opalgebra.kernel import sym, trans


@theorem
def log_of_product() -> Theorem:
    """The grades of the logarithm put into the right side, and distribution; the factors do not commute."""
    V, logs, i, L, z = family("V", kind="linear"), family("O", kind="linear"), symbol("i"), symbol("L"), parameter("z")
    half, third, sixth = Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)
    first, second, last = (ordered_sum(V[i], i, L, order) for order in (1, 2, 3))
    logarithm = [
        Equal(logs[1], first),
        Equal(logs[2], second - half * first @ first),
        Equal(logs[3], last - half * (first @ second + second @ first) + third * first @ first @ first),
    ]
    one, two, three = logs[1], logs[2], logs[3]
    cubic = three + half * (one @ two + two @ one) + sixth * one @ one @ one
    found = rewrite(z * one + z**2 * (two + half * one @ one) + z**3 * cubic, logarithm[0])
    for fact in logarithm[1:]:
        found = trans(found, rewrite(found.rhs, fact))
    return sym(trans(found, auto(found.rhs, z * first + z**2 * second + z**3 * last)))
