"""The Dyson series of multi-head attention, at any depth and for any number of heads.

    prod_{l=1..L} (1 + sum_{h<H} W_{l,h}) = sum_{n=0..L} sum_{1 <= l_1 < ... < l_n <= L} (sum_h W_{l_n,h}) ... (sum_h W_{l_1,h})

for linear channels W_{l,h}, which dressed heads are. Each of the binomial(L, n) words of order n is a product of n sums over
heads, so that order n has binomial(L, n) H^n terms: with W_{l,h} = z for every head, the order n is binomial(L, n) H^n z^n.
"""

from opalgebra import Theorem, dyson_theorem, family, indexed_sum, symbol, theorem


@theorem
def heads_series() -> Theorem:
    """The theorem for layers, with the sum over the heads for each."""
    W, h, H, L = family("W", kind="linear"), *map(symbol, "hHL")
    return dyson_theorem(lambda layer: indexed_sum(W[layer, h], h, 0, H - 1), L)
