"""The grades of the logarithm of a product of layers 1 + V_l, up to the third, for any number of layers.

    E_2 = O_2 + O_1^2 / 2,   E_3 = O_3 + (O_1 O_2 + O_2 O_1) / 2 + O_1^3 / 6

with E_n the sum over 1 <= l_1 < ... < l_n <= L of V_{l_n} ... V_{l_1}, and O_n the terms of grade n of
log(1 + E_1 + E_2 + ...) = E - E^2 / 2 + E^3 / 3 - ...: O_1 = E_1, O_2 = E_2 - E_1^2 / 2,
O_3 = E_3 - (E_1 E_2 + E_2 E_1) / 2 + E_1^3 / 3. The equation for the third grade is proved; it holds in the second too.
"""

from fractions import Fraction

from opalgebra import Theorem, auto, family, ordered_sum, symbol, theorem


@theorem
def log_of_product() -> Theorem:
    """By distribution; the factors do not commute."""
    V, i, L = family("V", kind="linear"), symbol("i"), symbol("L")
    half, third = Fraction(1, 2), Fraction(1, 3)
    first, second, last = (ordered_sum(V[i], i, L, order) for order in (1, 2, 3))
    one, two = first, second - half * first @ first
    three = last - half * (first @ second + second @ first) + third * first @ first @ first
    return auto(last, three + half * (one @ two + two @ one) + Fraction(1, 6) * one @ one @ one)
