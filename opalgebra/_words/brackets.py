"""Right-nested commutators in bulk: the linear map that sends a word to `[l_1, [l_2, [... , l_n]]]`.

It is a product of steps from the inside, each on the last k letters, `w - (the first of these k letters moved to the end)`. For
a table of coefficients with one axis for each letter that is a difference of the table and a transposed one.
"""

from typing import Any

import numpy as np

from opalgebra._words.block import Block, from_unsorted, is_dense
from opalgebra._words.graded import LIMIT, Words, check_count
from opalgebra._words.integers import fitting, narrowed
from opalgebra._words.packing import Alphabet


def nested_commutators(words: Words, *, limit: int | None = LIMIT) -> Words:
    """The sum of `[l_1, [l_2, [... , l_n]]]` with the coefficients of the words `l_1 ... l_n`; a letter alone stays.

    The empty word has no commutator and is sent to 0. LimitError when more words than the limit are formed.
    """
    alphabet = words.alphabet
    check_count(alphabet, {key: count << max(key[0] - 1, 0) for key, count in words.counts.items()}, limit)
    found = {}
    for key, block in words.blocks.items():
        made = _nested(alphabet, block) if key[0] else None
        if made is not None:
            found[key] = made
    return Words(alphabet, found, words.denominator).reduced()


def _nested(alphabet: Alphabet, block: Block) -> Block | None:
    length, largest = block.length, block.bound << block.length - 1
    integers = fitting(block.integers, largest)
    if block.codes is None or is_dense(alphabet, length, block.count << length - 1):
        table = integers
        if block.codes is not None:
            table = np.zeros(alphabet.base**length, dtype=integers.dtype)
            table[block.codes[0]] = integers
        for last in range(2, length + 1):
            table = table.reshape(-1, alphabet.base, alphabet.base ** (last - 1))
            table = (table.reshape(table.shape[0], -1) - table.swapaxes(1, 2).reshape(table.shape[0], -1)).ravel()
        return Block(length, None, narrowed(table)) if table.any() else None
    letters: Any = alphabet.unpacked(block.codes, length)
    for last in range(2, length + 1):
        order = [*range(length - last), *range(length - last + 1, length), length - last]
        letters, integers = np.concatenate([letters, letters[:, order]]), np.concatenate([integers, -integers])
    return from_unsorted(length, alphabet.packed(letters, length), integers)
