"""Powers, exponential and logarithm of sums of words, up to a cut: finite sums, for every power has a higher grade."""

from collections.abc import Sequence
from fractions import Fraction
from math import factorial

from opalgebra._words.graded import LIMIT, Words, check_count, combination, product
from opalgebra._words.small import Cut, convolved
from opalgebra.errors import InputError


def power_series(
    coefficients: Sequence[Fraction | int], words: Words, *, cut: Cut | None = None, limit: int | None = LIMIT
) -> Words:
    """`sum over k of coefficients[k] * words**k` up to a cut. LimitError before the first power when one would be too long."""
    _check_powers(words, len(coefficients) - 1, cut, limit)
    parts: list[tuple[Fraction | int, Words]] = [(coefficients[0], Words.scalar(words.alphabet))]
    power = words.cut(cut)
    for k, coefficient in enumerate(coefficients[1:], 1):
        if k > 1:
            power = product(power, words, cut=cut, limit=limit)
        if not power.blocks:
            break
        parts.append((coefficient, power))
    return combination(parts)


def _check_powers(words: Words, last: int, cut: Cut | None, limit: int | None) -> None:
    """LimitError when a power forms more words than the limit; a power has at most every word of a length."""
    counts = power = words.cut(cut).counts
    for _ in range(2, last + 1):
        power = convolved(power, counts, cut)
        check_count(words.alphabet, power, limit)
        power = {key: min(count, len(words.alphabet.letters) ** key[0]) for key, count in power.items()}


def exponential(words: Words, *, cut: Cut, limit: int | None = LIMIT) -> Words:
    """`exp(words)` up to a cut. InputError for words of grade 0, as the sum would not end."""
    longest = _longest(words, cut)
    return power_series([Fraction(1, factorial(k)) for k in range(longest + 1)], words, cut=cut, limit=limit)


def logarithm(words: Words, *, cut: Cut, limit: int | None = LIMIT) -> Words:
    """`log(words)` up to a cut, of words with the constant 1. InputError for another constant, or other words of grade 0."""
    if words.constant != 1:
        raise InputError(f"the logarithm of a sum with the constant {words.constant} was asked; divide by it first")
    rest = combination([(1, words), (-1, Words.scalar(words.alphabet))])
    longest = _longest(rest, cut)
    signs = [Fraction(0), *(Fraction((-1) ** (k + 1), k) for k in range(1, longest + 1))]
    return power_series(signs, rest, cut=cut, limit=limit)


def _longest(words: Words, cut: Cut) -> int:
    """The highest power that is not above the cut throughout."""
    limited = [place for place, most in enumerate(cut) if most is not None]
    for _, grade in words.blocks:
        if not any(grade[place] for place in limited):
            raise InputError(f"a word of grade {grade} has powers that the cut {cut} never ends; count its letters")
    return sum(most for most in cut if most is not None)
