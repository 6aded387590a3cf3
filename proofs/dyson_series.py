"""The Dyson expansion of a product of any length.

    prod_{l=1..L} (1 + V_l) = sum_{n=0..L} sum_{1 <= l_1 < ... < l_n <= L} V_{l_n} ... V_{l_1}

for linear V_l, later factors to the left. The terms are as many as there are selections: with V_l = z for every l the order n
has binomial(L, n) terms z^n, and with z = 1 all together are 2^L.
"""

from opalgebra import Theorem, dyson_theorem, family, symbol, theorem


@theorem
def dyson_series() -> Theorem:
    """By induction over L, with the recursion `E_n(L + 1) = E_n(L) + V_{L+1} E_{n-1}(L)` of the ordered sums."""
    return dyson_theorem(family("V", kind="linear"), symbol("L"))
