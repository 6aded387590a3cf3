"""Words of one length with their coefficients: listed in order, each once, or one coefficient for every word of the length."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np

from opalgebra._words.integers import bound, fitting, narrowed
from opalgebra._words.packing import Alphabet, Codes, is_increasing, sorting

_DENSE = 4
"""A block has every word of its length where these are at most so many times the products that are formed for it."""
_DENSEST = 2**24


@final
@dataclass(frozen=True, eq=False)
class Block:
    """Words of one length in increasing order, none twice; without `codes`, all words of the length.

    The integers are coefficients over a denominator that the owner keeps. Listed ones are not zero.
    """

    length: int
    codes: Codes | None
    integers: Any

    @cached_property
    def bound(self) -> int:
        """The largest absolute value of an integer."""
        return bound(self.integers)

    @property
    def size(self) -> int:
        """How many words stand here, those with a coefficient of zero included."""
        return len(self.integers)

    @cached_property
    def count(self) -> int:
        """How many words have a coefficient that is not zero."""
        return int(np.count_nonzero(self.integers))

    @property
    def nbytes(self) -> int:
        """The memory of the columns."""
        return int(self.integers.nbytes + (0 if self.codes is None else self.codes.nbytes))

    def listed(self) -> "Block":
        """The same with its words listed."""
        if self.codes is not None:
            return self
        kept = np.flatnonzero(self.integers)
        return Block(self.length, kept[None, :], self.integers[kept])

    def kept(self, choice: Any) -> "Block":
        """The words at some places."""
        block = self.listed()
        return Block(self.length, block.codes[:, choice], block.integers[choice])  # type: ignore[index]


def collected(length: int, runs: Sequence[tuple[Codes, Any]]) -> Block | None:
    """The block of words listed in runs, each of which is sorted and has no word twice; None when nothing is left."""
    runs = sorted((run for run in runs if len(run[1])), key=lambda run: tuple(run[0][:, 0]))
    if not runs:
        return None
    largest = sum(bound(integers) for _, integers in runs)
    ends = [(tuple(codes[:, 0]), tuple(codes[:, -1])) for codes, _ in runs]
    codes = np.concatenate([codes for codes, _ in runs], axis=1) if len(runs) > 1 else runs[0][0]
    integers = np.concatenate([fitting(column, largest) for _, column in runs]) if len(runs) > 1 else runs[0][1]
    if any(last >= first for (_, last), (first, _) in pairwise(ends)):
        codes, integers = _merged(codes, integers)
    return _without_zeros(length, codes, integers)


def sorted_block(length: int, codes: Codes, integers: Any) -> Block:
    """The block of different words in any order."""
    if is_increasing(codes):
        return Block(length, codes, integers)
    order = sorting(codes)
    return Block(length, codes[:, order], integers[order])


def from_unsorted(length: int, codes: Codes, integers: Any) -> Block | None:
    """The block of words in any order, equal ones added; None when nothing is left."""
    if not len(integers):
        return None
    if not is_increasing(codes):
        codes, integers = _merged(codes, fitting(integers, bound(integers) * len(integers)))
    return _without_zeros(length, codes, integers)


def _merged(codes: Codes, integers: Any) -> tuple[Codes, Any]:
    """Sorted words, equal ones added."""
    order = sorting(codes)
    codes, integers = codes[:, order], integers[order]
    is_new = np.ones(len(integers), dtype=bool)
    np.any(codes[:, 1:] != codes[:, :-1], axis=0, out=is_new[1:])
    if is_new.all():
        return codes, integers
    starts = np.flatnonzero(is_new)
    return codes[:, starts], np.add.reduceat(integers, starts)


def _without_zeros(length: int, codes: Codes, integers: Any) -> Block | None:
    integers = narrowed(integers)
    if not integers.all():
        kept = np.flatnonzero(integers)
        codes, integers = codes[:, kept], integers[kept]
    return Block(length, codes, integers) if len(integers) else None


def is_dense(alphabet: Alphabet, length: int, formed: int) -> bool:
    """Whether a coefficient for every word of a length is cheaper than so many listed products."""
    return alphabet.is_even and alphabet.base**length <= min(_DENSE * formed, _DENSEST)


def product(alphabet: Alphabet, length: int, pairs: Iterable[tuple[Block, Block]]) -> Block | None:
    """The sum of the products of pairs of blocks, all of words of one length; None when nothing is left."""
    pairs = list(pairs)
    largest = sum(left.bound * right.bound for left, right in pairs)
    formed = sum(left.count * right.count for left, right in pairs)
    if is_dense(alphabet, length, formed):
        return _every_word(alphabet, length, pairs, largest)
    runs = []
    for left, right in ((left.listed(), right.listed()) for left, right in pairs):
        first, second = (np.asarray(block.codes) for block in (left, right))
        codes = alphabet.joined(first[:, :, None], second[:, None, :], left.length, right.length)
        runs.append((codes.reshape(len(codes), -1), _outer(left, right, largest).ravel()))
    return collected(length, runs)


def _outer(left: Block, right: Block, largest: int) -> Any:
    return np.multiply.outer(fitting(left.integers, largest), fitting(right.integers, largest))


def _every_word(alphabet: Alphabet, length: int, pairs: list[tuple[Block, Block]], largest: int) -> Block | None:
    total = np.zeros(alphabet.base**length, dtype=np.int64 if largest < 2**63 else object)
    for left, right in pairs:
        table = total.reshape(alphabet.base**left.length, alphabet.base**right.length)
        outer = _outer(left, right, largest)
        rows: Any = slice(None) if left.codes is None else left.codes[0]
        columns: Any = slice(None) if right.codes is None else right.codes[0]
        if left.codes is not None and right.codes is not None:
            rows = rows[:, None]
        table[rows, columns] += outer
    return Block(length, None, narrowed(total)) if total.any() else None


def combination(alphabet: Alphabet, length: int, parts: Sequence[tuple[int, Block]]) -> Block | None:
    """The sum of integer multiples of blocks of one length; None when nothing is left."""
    largest = sum(abs(factor) * block.bound for factor, block in parts)
    if any(block.codes is None for _, block in parts):
        total = np.zeros(alphabet.base**length, dtype=np.int64 if largest < 2**63 else object)
        for factor, block in parts:
            share = fitting(block.integers, largest) * factor
            if block.codes is None:
                total += share
            else:
                total[block.codes[0]] += share
        return Block(length, None, narrowed(total)) if total.any() else None
    return collected(length, [(block.codes, fitting(block.integers, largest) * factor) for factor, block in parts])


def memory(alphabet: Alphabet, length: int, count: int) -> int:
    """The bytes that so many listed words of a length take."""
    return 8 * (alphabet.limbs(length) + 1) * count
