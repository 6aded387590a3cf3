"""Multi-head attention is a sum over channels, for any number of heads.

    A_l<x> = sum_{h=0..H-1} a_{l,h} (x) w_{l,h}

with frozen patterns. The channels act on the same factors and in general neither commute nor add up to one tensor product.
"""

from opalgebra import Theorem, dressed, frozen_forms, simplify, theorem, transformer


@theorem
def channels() -> Theorem:
    """The form of dressed attention in the frozen split, on both sides of a weight that acts on the features alone."""
    T = transformer(1)
    vertex = dressed(T.attention[1], T.x[0])
    return simplify(vertex, facts=frozen_forms(vertex))
