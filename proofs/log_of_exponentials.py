"""The grades of the logarithm of a product of exponentials of layers, up to the third, for any number of layers.

    E_1 = O_1,   E_2 = O_2 + O_1^2 / 2,   E_3 = O_3 + (O_1 O_2 + O_2 O_1) / 2 + O_1^3 / 6

with E_n the grades of exp(V_L) ... exp(V_1), in which a layer that occurs m times has the weight 1/m!, and O_n those of log(1
+ E_1 + E_2 + ...), which the hypotheses write down as for layers 1 + V_l. The three equations are one, between the
coefficients of every power of z.
"""

from fractions import Fraction

from opalgebra import Equal, Theorem, auto, family, indexed_sum, ordered_sum, parameter, rewrite, symbol, theorem
from opalgebra.kernel import sym, trans


@theorem
def log_of_exponentials() -> Theorem:
    """The grades of the logarithm put into the right side, and distribution; the factors do not commute."""
    V, logs, i, j, L = family("V", kind="linear"), family("O", kind="linear"), *map(symbol, "ijL")
    z = parameter("z")
    half, third, sixth = Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)
    mixed = indexed_sum(indexed_sum(V[j] @ V[j] @ V[i] + V[j] @ V[i] @ V[i], i, 1, j - 1), j, 1, L)
    first = indexed_sum(V[i], i, 1, L)
    second = ordered_sum(V[i], i, L, 2) + half * indexed_sum(V[i] @ V[i], i, 1, L)
    last = ordered_sum(V[i], i, L, 3) + half * mixed + sixth * indexed_sum(V[i] @ V[i] @ V[i], i, 1, L)
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
