"""A word as a number: its rank among all words of its length.

    rank(l_1 l_2 ... l_n) = sum over k of l_k m^(n - k)

for letters numbered from 0 in an alphabet of m. Ranks sort as words do, and `rank(u v) = rank(u) m^|v| + rank(v)`. What does
not fit into 63 bits stands in several limbs, each with as many letters as fit, filled from the end of the word. The ranks of n
words are an array (limbs, n), the limb with the first letters first.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

Codes = Any
Array = Any

_LARGEST = 2**63 - 1


@final
@dataclass(frozen=True)
class Alphabet:
    """Letters in the order in which words are sorted; `weights` has for each letter its weight in every grading."""

    letters: tuple[Hashable, ...]
    weights: tuple[tuple[int, ...], ...]

    @staticmethod
    def plain(letters: Sequence[Hashable]) -> "Alphabet":
        """One grading, in which every letter has the weight 1."""
        return Alphabet(tuple(letters), ((1,),) * len(letters))

    @cached_property
    def base(self) -> int:
        """The number of letters, and 2 where there are fewer."""
        return max(len(self.letters), 2)

    @cached_property
    def numbers(self) -> dict[Hashable, int]:
        """The number of each letter."""
        return {letter: number for number, letter in enumerate(self.letters)}

    @cached_property
    def gradings(self) -> int:
        """How many gradings there are."""
        return len(self.weights[0]) if self.weights else 1

    @cached_property
    def is_even(self) -> bool:
        """Whether all letters weigh the same, so that the length of a word tells its grade."""
        return len(set(self.weights)) <= 1

    def grade(self, word: Sequence[int]) -> tuple[int, ...]:
        """The weight of a word, given by the numbers of its letters, in every grading."""
        return tuple(sum(self.weights[number][k] for number in word) for k in range(self.gradings))

    @cached_property
    def per_limb(self) -> int:
        """How many letters a limb holds."""
        count = 1
        while self.base ** (count + 1) <= _LARGEST:
            count += 1
        return count

    def limbs(self, length: int) -> int:
        """How many limbs a word of this length has."""
        return max(1, -(-length // self.per_limb))

    def joined(self, left: Codes, right: Codes, left_length: int, right_length: int) -> Codes:
        """The ranks of `u v` for words u and v of these lengths; the axes after the limbs are broadcast."""
        limbs = self.limbs(left_length + right_length)
        if limbs == 1:
            return left * self.base**right_length + right
        skipped, shift = divmod(right_length, self.per_limb)
        parts: list[Any] = [0] * limbs
        for place, limb in enumerate(reversed(left), skipped):
            high, low = np.divmod(limb, self.base ** (self.per_limb - shift)) if shift else (0, limb)
            if place < limbs:
                parts[place] = parts[place] + low * self.base**shift
            if place + 1 < limbs:
                parts[place + 1] = parts[place + 1] + high
        for place, limb in enumerate(reversed(right)):
            parts[place] = parts[place] + limb
        shape = np.broadcast_shapes(left.shape[1:], right.shape[1:])
        return np.stack([np.broadcast_to(np.asarray(part, dtype=np.int64), shape) for part in reversed(parts)])

    def packed(self, words: Array, length: int) -> Codes:
        """The ranks of words given as an array (n, length) of letter numbers."""
        words = np.asarray(words, dtype=np.int64)
        codes = np.zeros((self.limbs(length), len(words)), dtype=np.int64)
        for place in range(length):
            row = -1 - (length - 1 - place) // self.per_limb
            codes[row] = codes[row] * self.base + words[:, place]
        return codes

    def unpacked(self, codes: Codes, length: int) -> Array:
        """The letter numbers (n, length) of words: the inverse of `packed`."""
        words = np.empty((codes.shape[1], length), dtype=np.int64)
        rest = codes.copy()
        for place in reversed(range(length)):
            row = -1 - (length - 1 - place) // self.per_limb
            rest[row], words[:, place] = np.divmod(rest[row], self.base)
        return words


def is_increasing(codes: Codes) -> bool:
    """Whether every word stands before the next in the order of words, none twice."""
    before, after = codes[:, :-1], codes[:, 1:]
    found = after[-1] > before[-1]
    for row in range(len(codes) - 2, -1, -1):
        found = (after[row] > before[row]) | ((after[row] == before[row]) & found)
    return bool(found.all())


def sorting(codes: Codes) -> Array:
    """The places that sort words; quick where they already stand in a few sorted runs."""
    return np.argsort(codes[0], kind="stable") if len(codes) == 1 else np.lexsort(codes[::-1])
