"""Attention heads in sequence act as one virtual head.

    A_{2,h}<y> A_{1,g}<x> = (a_{2,h} a_{1,g}) (x) (w_{2,h} w_{1,g})

with frozen patterns a_{l,h} and weights w_{l,h} = W_O W_V: patterns compose on the positions, weights on the features. A
layer of H heads adds H vertices, so that order n of L layers of attention has binomial(L, n) H^n words.
"""

from opalgebra import Theorem, dressed, frozen_forms, simplify, theorem, transformer


@theorem
def virtual_heads() -> Theorem:
    """The frozen split gives each head as a tensor product, and these compose factor by factor."""
    T = transformer(2, heads=2)
    word = dressed(T.head[2, 1], T.x[2]) @ dressed(T.head[1, 0], T.x[0])
    return simplify(word, facts=frozen_forms(word))
