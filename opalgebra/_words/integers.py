"""Columns of exact integers: 64 bits while a bound says that they suffice, Python's integers (dtype object) after that.

Every operation is told a bound of its result beforehand, so that no sum or product can wrap around.
"""

from math import gcd
from typing import Any

import numpy as np

Column = Any

_LARGEST = 2**63 - 1
_CHUNK = 4096


def bound(column: Column) -> int:
    """The largest absolute value, as one of Python's integers."""
    return max(abs(int(column.max())), abs(int(column.min()))) if column.size else 0


def fitting(column: Column, largest: int) -> Column:
    """The column in a type that holds every number up to `largest`: unchanged, or as Python's integers."""
    return column if largest <= _LARGEST or column.dtype == object else column.astype(object)


def narrowed(column: Column) -> Column:
    """The column in 64 bits where its numbers fit."""
    return column.astype(np.int64) if column.dtype == object and bound(column) <= _LARGEST else column


def column_of(numbers: list[int]) -> Column:
    """Python's integers as a column."""
    if max(map(abs, numbers), default=0) <= _LARGEST:
        return np.array(numbers, dtype=np.int64)
    column = np.empty(len(numbers), dtype=object)
    column[:] = numbers
    return column


def scaled(column: Column, factor: int) -> Column:
    """`factor` times each number."""
    if factor == 1:
        return column
    if abs(factor) > _LARGEST:
        return column.astype(object) * factor
    return fitting(column, bound(column) * abs(factor)) * factor


def divided(column: Column, divisor: int) -> Column:
    """Each number over a common divisor."""
    return column if divisor == 1 else narrowed(column // divisor)


def common_divisor(column: Column, start: int) -> int:
    """The greatest common divisor of `start` and all numbers; looks no further once it is 1."""
    for first in range(0, len(column), _CHUNK):
        if start == 1:
            return 1
        part = column[first : first + _CHUNK]
        start = gcd(start, *map(int, part)) if part.dtype == object else gcd(start, int(np.gcd.reduce(part)))
    return start
