"""Ordered products of factors `1 + F_l` that have no letter in common: every word once, so that nothing is collected.

    S = sum over l_1 > l_2 > ... of F_{l_1} F_{l_2} ...,        S_k = sum over j, l of F_l,j S_{k - j}(only factors before l)

with j, k grades. Words remember their leftmost factor and stand in its order, so that those with factors before l are a prefix,
and one gather makes a whole grade of any number of factors.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import lcm, prod

import numpy as np

from opalgebra._words.block import sorted_block
from opalgebra._words.graded import LIMIT, Words, check_count, product
from opalgebra._words.integers import Column, bound, column_of, fitting, narrowed, scaled
from opalgebra._words.packing import Alphabet, Codes
from opalgebra._words.small import Cut, Key, Small, Word, added, counts_of_product, is_within

Owned = tuple[Codes, Column, Column]
"""Words with their coefficients and the number of their leftmost factor, in the order of the latter."""


def ordered_product(
    alphabet: Alphabet, factors: Sequence[Small], *, cut: Cut | None = None, limit: int | None = LIMIT
) -> Words:
    """The product of factors, the first of which acts first and so stands on the right, up to a cut.

    LimitError, before anything is formed, when there are more words than the limit.
    """
    constants = [Fraction(factor.get((), 0)) for factor in factors]
    if not all(constants) or not _are_apart(factors):
        total = Words.scalar(alphabet)
        for factor in factors:
            total = product(Words.of(alphabet, factor), total, cut=cut, limit=limit)
        return total
    check_count(alphabet, counts_of_product(alphabet, factors, cut), limit)
    overall = prod(constants, start=Fraction(1))
    if overall != 1:
        factors = [{word: c / constant for word, c in factor.items()} for constant, factor in zip(constants, factors)]
    return _disjoint(alphabet, factors, cut).scaled(overall)


def _are_apart(factors: Sequence[Small]) -> bool:
    """Whether no letter stands in two factors."""
    seen: set[int] = set()
    for factor in factors:
        here = set().union(*factor)
        if not seen.isdisjoint(here):
            return False
        seen |= here
    return True


def _disjoint(alphabet: Alphabet, factors: Sequence[Small], cut: Cut | None) -> Words:
    """The product of factors `1 + F_l` without common letters."""
    steps, denominator = _columns(alphabet, factors, cut)
    nothing: Key = (0, (0,) * alphabet.gradings)
    done: dict[Key, Owned] = {nothing: (np.zeros((1, 1), dtype=np.int64), np.ones(1, dtype=np.int64), np.full(1, -1))}
    powers: dict[Key, int] = {nothing: 0}
    for key in sorted(_reachable(list(steps), nothing, len(factors), cut)):
        parts = []
        for step, column in steps.items():
            before = key[0] - step[0], tuple([a - b for a, b in zip(key[1], step[1])])
            if before in done:
                part = _extended(alphabet, column, step[0], done[before], before[0])
                if len(part[1]):
                    parts.append((part, powers[before] + 1))
        if parts:
            power = powers[key] = max(used for _, used in parts)
            done[key] = _in_order(
                [(codes, scaled(c, denominator ** (power - used)), owner) for (codes, c, owner), used in parts]
            )
    most = max(powers.values())
    blocks = {}
    for key, (codes, integers, _) in done.items():
        blocks[key] = sorted_block(key[0], codes, scaled(integers, denominator ** (most - powers[key])))
    return Words(alphabet, blocks, denominator**most).reduced()


def _columns(alphabet: Alphabet, factors: Sequence[Small], cut: Cut | None) -> tuple[dict[Key, Owned], int]:
    """For each length and grade the words of all factors, in their order, and the denominator of all coefficients."""
    denominator = lcm(*(c.denominator for factor in factors for c in factor.values()))
    gathered: dict[Key, tuple[list[Word], list[int], list[int]]] = {}
    for owner, factor in enumerate(factors):
        for word, c in factor.items():
            if word and is_within(grade := alphabet.grade(word), cut):
                words, integers, owners = gathered.setdefault((len(word), grade), ([], [], []))
                words.append(word)
                integers.append(c.numerator * (denominator // c.denominator))
                owners.append(owner)
    columns = {}
    for key, (words, integers, owners) in gathered.items():
        columns[key] = alphabet.packed(np.array(words), key[0]), column_of(integers), np.array(owners)
    return columns, denominator


def _reachable(steps: list[Key], nothing: Key, factors: int, cut: Cut | None) -> set[Key]:
    """Lengths and grades of the words of at least one and at most so many factors."""
    found: set[Key] = set()
    level = {nothing}
    for _ in range(factors):
        level = {key for before in level for step in steps if is_within((key := added(before, step))[1], cut)} - found
        if not level:
            break
        found |= level
    return found


def _extended(alphabet: Alphabet, step: Owned, length: int, rest: Owned, rest_length: int) -> Owned:
    """Every word of the step before every word of the rest whose factors all come earlier."""
    codes, integers, owners = step
    counts = np.searchsorted(rest[2], owners)
    total = int(counts.sum())
    starts = np.cumsum(counts) - counts
    places = np.arange(total) - np.repeat(starts, counts)
    largest = bound(integers) * bound(rest[1])
    joined = alphabet.joined(np.repeat(codes, counts, axis=1), rest[0][:, places], length, rest_length)
    if bound(integers) == 1 == bound(rest[1]) and (integers == 1).all() and (rest[1] == 1).all():
        made = np.ones(total, dtype=np.int64)
    else:
        made = narrowed(np.repeat(fitting(integers, largest), counts) * fitting(rest[1], largest)[places])
    return joined, made, np.repeat(owners, counts)


def _in_order(parts: list[Owned]) -> Owned:
    """Several parts as one, in the order of the leftmost factor."""
    if len(parts) == 1:
        return parts[0]
    largest = max(bound(c) for _, c, _ in parts)
    codes = np.concatenate([codes for codes, *_ in parts], axis=1)
    integers = np.concatenate([fitting(c, largest) for _, c, _ in parts])
    owners = np.concatenate([owner for *_, owner in parts])
    order = np.argsort(owners, kind="stable")
    return codes[:, order], integers[order], owners[order]
