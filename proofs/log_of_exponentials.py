"""The grades of the logarithm of a product of exponentials of layers, up to the third, for any number of layers.

    E_1 = sum_l V_l,   E_2 = sum_{l<m} V_m V_l + sum_l V_l^2 / 2,
    E_3 = sum_{k<l<m} V_m V_l V_k + sum_{l<m} (V_m^2 V_l + V_m V_l^2) / 2 + sum_l V_l^3 / 6

are the grades of exp(V_L) ... exp(V_1): a layer that occurs m times has the weight 1/m!. With O_n the terms of grade n of
log(1 + E_1 + E_2 + ...), again E_3 = O_3 + (O_1 O_2 + O_2 O_1) / 2 + O_1^3 / 6.
"""

from fractions import Fraction

from opalgebra import Theorem, auto, family, indexed_sum, ordered_sum, symbol, theorem


@theorem
def log_of_exponentials() -> Theorem:
    """By distribution; the factors do not commute."""
    V, i, j, L = family("V", kind="linear"), *map(symbol, "ijL")
    half, third, sixth = Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)

    def pairs(word):
        return indexed_sum(indexed_sum(word(V[j], V[i]), i, 1, j - 1), j, 1, L)

    first = indexed_sum(V[i], i, 1, L)
    second = ordered_sum(V[i], i, L, 2) + half * indexed_sum(V[i] @ V[i], i, 1, L)
    mixed = pairs(lambda late, early: late @ late @ early + late @ early @ early)
    last = ordered_sum(V[i], i, L, 3) + half * mixed + sixth * indexed_sum(V[i] @ V[i] @ V[i], i, 1, L)
    one, two = first, second - half * first @ first
    three = last - half * (first @ second + second @ first) + third * first @ first @ first
    return auto(last, three + half * (one @ two + two @ one) + sixth * one @ one @ one)
