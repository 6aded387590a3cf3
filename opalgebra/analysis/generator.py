"""The effective generator of an ordered product: `A_l ... A_1 = exp(G_l)`, where a logarithm exists, and where it jumps.

The principal logarithm has eigenvalues with imaginary parts between -pi and pi. An eigenvalue of the product that crosses the
negative real axis from one depth to the next makes it jump by 2 pi i there, so that G is not continuous in depth; on the axis
itself, and for a singular product, there is none. A layer is 1 + V, not exp(V): to second order the logarithm of a product of
layers is

    sum_i V_i + (1/2) sum over i > j of [V_i, V_j] - (1/2) sum_i V_i^2.

Of a causal model the dressed product between two depths has a block for each token, the product of `token_blocks`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from opalgebra.analysis.matrices import UNIT, Array, spectral_norm, square
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.roundoff import LAMBDA

HALVINGS = 16
SMALL = 0.5
"""A logarithm that moves by less between two depths has not jumped: a jump moves it by 2 pi at least."""


@dataclass(frozen=True, eq=False)
class EffectiveGenerator(Tabulated):
    """generator (n, n): the principal logarithm of the whole product, complex where it has to be; NaN where there is none.

    obstructions: how many eigenvalues of the product lie on the negative real axis or at zero, to rounding; a principal
    logarithm exists where there is none. error: `||exp(G) - P|| / ||P||`. jumps (depth,): how many eigenvalues of the
    logarithm jumped by 2 pi i in the step to each depth; -1 where they could not be followed; empty where that was not asked.
    """

    generator: Array
    obstructions: int
    error: float
    jumps: Array

    @property
    def exists(self) -> bool:
        """Whether the product has a principal logarithm."""
        return self.obstructions == 0

    @property
    def converged(self) -> bool:
        """Whether the logarithm exists and its exponential gives the product back to half of the digits."""
        return bool(self.exists and self.error <= UNIT**0.5)


def effective_generator(matrices: Sequence[Any], *, follow: bool = True) -> EffectiveGenerator:
    """The principal logarithm of `A_L ... A_1`, the first matrix given acting first, with the branch jumps on the way.

    Between two depths the logarithm is followed along `(1 + s (A_l - 1)) A_{l-1} ... A_1`, s from 0 to 1, in steps halved
    until it moves by less than 1/2, or jumps however short the step; follow=False leaves this out, which takes many
    logarithms. InputError without a matrix, for several sizes, an array that is empty or not square, nan or infinity.

    >>> import numpy as np
    >>> from opalgebra.analysis import effective_generator
    >>> c, s = np.cos(0.5), np.sin(0.5)
    >>> found = effective_generator([[[c, -s], [s, c]]] * 8)                # a rotation by 4, which is beyond pi
    >>> float(found.generator[1, 0].round(12)), found.jumps.tolist()        # 4 - 2 pi
    (-2.28318530718, [0, 0, 0, 0, 0, 0, 2, 0])

    Higham, Functions of Matrices (2008), ch. 11.
    """
    factors = [square(given, name=f"matrix {place}") for place, given in enumerate(matrices)]
    if not factors:
        raise InputError("the generator of a product of no matrices was asked; give at least one")
    if len({len(factor) for factor in factors}) > 1:
        raise InputError("matrices of several sizes were given; the factors of a product act on one space")
    product, jumps = np.eye(len(factors[0])), []
    for factor in factors:
        jumps.append(_jumps(factor, product) if follow else 0)
        product = factor @ product
    values = np.linalg.eigvals(product)
    rounding = LAMBDA * len(product) ** 0.5 * UNIT * len(factors) * spectral_norm(product)
    near = (values.real <= rounding) & (np.abs(values.imag) <= rounding)
    counts = np.array(jumps if follow else [], dtype=int)
    if near.any():
        return EffectiveGenerator(np.full(product.shape, np.nan), int(near.sum()), np.inf, counts)
    found = linalg.logm(product)
    error = spectral_norm(linalg.expm(found) - product) / spectral_norm(product)
    return EffectiveGenerator(found, 0, float(error), counts)


def _jumps(factor: Array, product: Array) -> int:
    """How many eigenvalues of the logarithm jump on the way from the product to `factor @ product`; -1 where it is not told."""
    change = (factor - np.eye(len(factor))) @ product
    total, pending = 0, [(0.0, 1.0, _log(product), _log(product + change))]
    while pending:
        low, high, before, after = pending.pop()
        if before is None or after is None:
            return -1
        moved = np.linalg.svd(after - before, compute_uv=False)
        if moved[0] <= SMALL:
            continue
        if high - low > 2.0**-HALVINGS:
            middle = (low + high) / 2
            here = _log(product + middle * change)
            pending += [(low, middle, before, here), (middle, high, here, after)]
        elif ((moved > SMALL) & (moved < np.pi)).any():
            return -1
        else:
            total += int((moved >= np.pi).sum())
    return total


def _log(product: Array) -> Array | None:
    """The principal logarithm, an eigenvalue on the negative axis taken from above; None for a product singular to rounding."""
    moduli = np.abs(np.linalg.eigvals(product))
    if moduli.min() <= len(product) * UNIT * moduli.max():
        return None
    found: Array = linalg.logm(product.astype(complex))
    return found
