"""The Z identity of a normalised stream, and its product.

    z_l = Z_l (z_{l-1} + n_{l-1}^-1 V_l x_{l-1}),    z_l = n_l^-1 x_l,    Z_l = n_l^-1 n_{l-1},    x_l = x_{l-1} + V_l x_{l-1}

for every block V_l, where n_l is the linear map that multiplies each token by the rms of its state after layer l, which has
an inverse when no state is zero. The hypothesis is that n_{l-1} has an inverse.
"""

from opalgebra import Inverse, Theorem, auto, family, inverse, state, theorem


@theorem
def z_identity() -> Theorem:
    """By distribution and n_{l-1} n_{l-1}^-1 = 1, at the layer 1."""
    n, V, x = family("n", kind="linear"), family("V", kind="nonlinear"), state("x")
    Z = inverse(n[1]) @ n[0]
    right = Z @ (inverse(n[0]) @ x + inverse(n[0]) @ V[1] @ x)
    return auto(inverse(n[1]) @ (x + V[1] @ x), right, facts=[Inverse(n[0])])
