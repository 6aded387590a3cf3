"""How far rounding may take a result: an estimate derived from operation counts, never a guessed tolerance.

For a sum of terms y_n that approximates x, each a chain of products with m summed inner dimensions in all,

    |error| / |x|  <=  lambda sqrt(m) u sum_n |y_n| / |x|

with probability at least 1 - `FAILURE` when rounding errors are independent and of mean zero (Higham and Mary, SIAM J.
Sci. Comput. 41 (2019) A2815). u is the unit roundoff. `worst_case` has m in place of lambda sqrt(m) and needs no
assumption. Both treat the frozen quantities as computed to the same relative accuracy as the terms: an estimate.
"""

import math

import torch

FAILURE = 1e-6
LAMBDA = math.sqrt(2 * math.log(2 / FAILURE))


def unit_roundoff(dtype: torch.dtype) -> float:
    """Half the distance from 1 to the next larger number of the dtype."""
    return torch.finfo(dtype).eps / 2


def probable(inner: int, dtype: torch.dtype) -> float:
    """`lambda sqrt(m) u`: the relative error to expect of terms with m summed inner dimensions."""
    return LAMBDA * math.sqrt(inner) * unit_roundoff(dtype)


def worst_case(inner: int, dtype: torch.dtype) -> float:
    """`m u / (1 - m u)`: the relative error that no rounding can exceed; infinite when m u reaches 1."""
    product = inner * unit_roundoff(dtype)
    return product / (1 - product) if product < 1 else math.inf
