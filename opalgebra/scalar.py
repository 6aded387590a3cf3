"""Coefficients are exact: integers, fractions, and floats taken at their exact binary value."""

import math
from fractions import Fraction
from numbers import Integral

from opalgebra.errors import InputError

Scalar = Fraction
ScalarLike = int | float | Fraction


def is_scalar(value: object) -> bool:
    """Whether `value` can be a coefficient."""
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def is_natural(value: object) -> bool:
    """Whether `value` is a natural number: 0, 1, 2, ..."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def as_scalar(value: ScalarLike) -> Scalar:
    """`value` exactly; InputError for NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"a coefficient must be finite, not {value}; use a number")
    return Fraction(value)
