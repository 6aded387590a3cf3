"""Sums of words by length and grade: products truncated by several gradings at once, linear combinations, filters and ranks.

A cut is the highest grade to keep, one number (or None: no limit) for each grading. A product forms no word above it: pairs of
blocks whose grades add up to more are left out. How many words are formed is known before and refused above a limit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import Any, final

import numpy as np

from opalgebra._words import block as blocks_module
from opalgebra._words.block import Block, from_unsorted, memory
from opalgebra._words.integers import column_of, common_divisor, divided, scaled
from opalgebra._words.packing import Alphabet, Codes
from opalgebra._words.small import Cut, Key, Small, Word, added, convolved, is_within
from opalgebra.errors import InputError, LimitError

LIMIT = 10_000_000


def check_count(alphabet: Alphabet, counts: Mapping[Key, int], limit: int | None) -> None:
    """LimitError for more words than the limit, with their number and the memory that they would take."""
    count = sum(counts.values())
    if limit is not None and count > limit:
        size = sum(memory(alphabet, length, number) for (length, _), number in counts.items())
        raise LimitError(
            f"the expansion forms {_written(count)} words, which take {_bytes(size)}, and the limit is {limit:,}; ask a lower "
            "order, or raise limit="
        )


def _written(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"about 10^{len(str(count)) - 1}"


def _bytes(size: int) -> str:
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB")):
        if size >= 1000**power:
            return f"{size / 1000**power:.1f} {unit}" if size < 10**18 else f"about 10^{len(str(size)) - 13} TB"
    return f"{size / 1000:.1f} kB"


@final
@dataclass(frozen=True, eq=False)
class Words:
    """`sum of integers / denominator * word`, the words in blocks of one length and grade. No block is empty."""

    alphabet: Alphabet
    blocks: Mapping[Key, Block]
    denominator: int = 1

    @staticmethod
    def zero(alphabet: Alphabet) -> "Words":
        return Words(alphabet, {})

    @staticmethod
    def scalar(alphabet: Alphabet, value: Fraction | int = 1) -> "Words":
        """A multiple of the empty word."""
        return Words.of(alphabet, {(): value})

    @staticmethod
    def letter(alphabet: Alphabet, letter: Any) -> "Words":
        return Words.of(alphabet, {(alphabet.numbers[letter],): 1})

    @staticmethod
    def of(alphabet: Alphabet, terms: Small) -> "Words":
        """From a dictionary of words, as letter numbers, to rational coefficients."""
        kept = {word: c for word, c in terms.items() if c}
        denominator = lcm(*(c.denominator for c in kept.values()))
        groups: dict[Key, list[tuple[Word, int]]] = {}
        for word, c in kept.items():
            key = len(word), alphabet.grade(word)
            groups.setdefault(key, []).append((word, c.numerator * (denominator // c.denominator)))
        found = {}
        for key, group in groups.items():
            group.sort()
            length = key[0]
            words = np.array([word for word, _ in group], dtype=np.int64).reshape(len(group), length)
            codes = alphabet.packed(words, length)
            found[key] = Block(length, codes, column_of([c for _, c in group]))
        return Words(alphabet, found, denominator)

    @staticmethod
    def from_columns(alphabet: Alphabet, words: Any, integers: Any, denominator: int = 1) -> "Words":
        """From letter numbers (n, length) with integer coefficients over a denominator, in any order; equal words are added."""
        words = np.asarray(words, dtype=np.int64)
        integers = np.asarray(integers)
        if words.ndim != 2 or integers.shape != (len(words),) or integers.dtype not in (np.dtype(np.int64), np.dtype(object)):
            raise InputError("columns of words are an array (n, length) and n integers, of 64 bits or Python's own")
        weights = np.array(alphabet.weights, dtype=np.int64).reshape(len(alphabet.letters), -1)
        length = words.shape[1]
        codes = alphabet.packed(words, length)
        if alphabet.is_even:
            parts = {alphabet.grade((0,) * length if alphabet.letters else ()): slice(None)}
        else:
            grades, which = np.unique(weights[words].sum(axis=1), axis=0, return_inverse=True)
            parts = {tuple(map(int, grade)): which.ravel() == k for k, grade in enumerate(grades)}
        found = {}
        for grade, places in parts.items():
            made = from_unsorted(length, codes[:, places], integers[places])
            if made is not None:
                found[length, grade] = made
        return Words(alphabet, found, denominator).reduced()

    @property
    def count(self) -> int:
        """The number of words."""
        return sum(block.count for block in self.blocks.values())

    @cached_property
    def counts(self) -> dict[Key, int]:
        """The number of words of each length and grade."""
        return {key: block.count for key, block in self.blocks.items()}

    @property
    def nbytes(self) -> int:
        """The memory of all columns."""
        return sum(block.nbytes for block in self.blocks.values())

    @property
    def constant(self) -> Fraction:
        """The coefficient of the empty word."""
        return self.coefficient(())

    def reduced(self) -> "Words":
        """The same with the smallest denominator."""
        divisor = self.denominator
        for block in self.blocks.values():
            divisor = common_divisor(block.integers, divisor)
        if divisor == 1:
            return self
        found = {key: Block(b.length, b.codes, divided(b.integers, divisor)) for key, b in self.blocks.items()}
        return Words(self.alphabet, found, self.denominator // divisor)

    def scaled(self, factor: Fraction | int) -> "Words":
        """A rational multiple."""
        if not factor:
            return Words.zero(self.alphabet)
        above, below = factor.numerator, self.denominator * factor.denominator
        found = {key: Block(b.length, b.codes, scaled(b.integers, above)) for key, b in self.blocks.items()}
        return Words(self.alphabet, found, below).reduced()

    def where(self, choice: Callable[[Key], bool]) -> "Words":
        """The blocks of chosen lengths and grades."""
        return Words(self.alphabet, {key: block for key, block in self.blocks.items() if choice(key)}, self.denominator)

    def cut(self, cut: Cut | None) -> "Words":
        """What is not above a cut."""
        return self.where(lambda key: is_within(key[1], cut))

    def filtered(self, choice: Callable[[Any], Any]) -> "Words":
        """The words that are chosen: `choice` maps letter numbers (n, length) to n truth values."""
        found = {}
        for key, block in self.blocks.items():
            listed = block.listed()
            kept = np.flatnonzero(choice(self.alphabet.unpacked(listed.codes, block.length)))
            if len(kept):
                found[key] = listed.kept(kept)
        return Words(self.alphabet, found, self.denominator)

    def terms(self, key: Key | None = None) -> Iterator[tuple[Word, Fraction]]:
        """Words, as letter numbers, with their coefficients: by length and grade, then in the order of words."""
        for found in sorted(self.blocks) if key is None else [key] if key in self.blocks else []:
            block = self.blocks[found].listed()
            letters = self.alphabet.unpacked(block.codes, block.length).tolist()
            for word, integer in zip(letters, block.integers.tolist()):
                yield tuple(word), Fraction(integer, self.denominator)

    def term(self, key: Key, rank: int) -> tuple[Word, Fraction]:
        """The word of a rank among those of its length and grade, counted from 0, and its coefficient."""
        block = self.blocks[key].listed() if key in self.blocks else None
        count = 0 if block is None else block.size
        if not 0 <= rank < count:
            raise InputError(f"rank {rank} was asked of {count:,} words; ranks count from 0")
        chosen = block.kept(slice(rank, rank + 1))  # type: ignore[union-attr]
        word = self.alphabet.unpacked(chosen.codes, chosen.length)[0].tolist()
        return tuple(word), Fraction(int(chosen.integers[0]), self.denominator)

    def rank(self, word: Sequence[int]) -> int | None:
        """The place of a word among those of its length and grade, in the order of words; None for one that is not here."""
        found = self.blocks.get((len(word), self.alphabet.grade(word)))
        if found is None:
            return None
        codes: Codes = found.listed().codes
        wanted = tuple(self.alphabet.packed(np.array(word, dtype=np.int64)[None, :], len(word))[:, 0])
        low, high = 0, codes.shape[1]
        while low < high:
            middle = (low + high) // 2
            if tuple(codes[:, middle]) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < codes.shape[1] and tuple(codes[:, low]) == wanted else None

    def coefficient(self, word: Sequence[int]) -> Fraction:
        """The coefficient of a word."""
        rank = self.rank(word)
        return Fraction(0) if rank is None else self.term((len(word), self.alphabet.grade(word)), rank)[1]

    def is_equal(self, other: "Words") -> bool:
        """Whether all words and coefficients are the same."""
        return self.alphabet == other.alphabet and not combination([(1, self), (-1, other)]).blocks


def product(left: Words, right: Words, *, cut: Cut | None = None, limit: int | None = LIMIT) -> Words:
    """`left @ right` up to a cut. LimitError when it would form more words than the limit."""
    alphabet = left.alphabet
    check_count(alphabet, convolved(left.counts, right.counts, cut), limit)
    pairs: dict[Key, list[tuple[Block, Block]]] = {}
    for key, block in left.blocks.items():
        for other, factor in right.blocks.items():
            total = added(key, other)
            if is_within(total[1], cut):
                pairs.setdefault(total, []).append((block, factor))
    found = {}
    for key, group in pairs.items():
        made = blocks_module.product(alphabet, key[0], group)
        if made is not None:
            found[key] = made
    return Words(alphabet, found, left.denominator * right.denominator).reduced()


def combination(parts: Iterable[tuple[Fraction | int, Words]]) -> Words:
    """The linear combination of sums of words over one alphabet, collected once. At least one part."""
    parts = [(Fraction(c), words) for c, words in parts]
    alphabet = parts[0][1].alphabet
    denominator = lcm(*(c.denominator * words.denominator for c, words in parts))
    groups: dict[Key, list[tuple[int, Block]]] = {}
    for c, words in parts:
        factor = c.numerator * (denominator // (c.denominator * words.denominator))
        for key, block in words.blocks.items() if factor else ():
            groups.setdefault(key, []).append((factor, block))
    shared = gcd(denominator, *(factor for group in groups.values() for factor, _ in group))
    found = {}
    for key, group in groups.items():
        made = blocks_module.combination(alphabet, key[0], [(factor // shared, block) for factor, block in group])
        if made is not None:
            found[key] = made
    return Words(alphabet, found, denominator // shared).reduced()


def commutator(left: Words, right: Words, *, cut: Cut | None = None, limit: int | None = LIMIT) -> Words:
    """`left @ right - right @ left` up to a cut."""
    there, back = product(left, right, cut=cut, limit=limit), product(right, left, cut=cut, limit=limit)
    return combination([(1, there), (-1, back)])
