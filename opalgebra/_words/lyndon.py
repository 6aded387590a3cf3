"""Lie polynomials in the basis of Lyndon words: two of them are equal when their coordinates are, Jacobi's identity included.

A Lyndon word is smaller than each of its proper ends. Its bracket is `[b(u), b(v)]`, where v is its longest proper end that is
Lyndon; `b(w) = w + larger words`, and the brackets are a basis of the free Lie algebra (Reutenauer, Free Lie Algebras, 1993,
theorem 5.1; Lothaire, Combinatorics on Words, theorem 5.3.1). The coordinates of a Lie polynomial are therefore found from its
smallest words on.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from heapq import heapify, heappop, heappush

from opalgebra._words.small import Rational, Word, bracket
from opalgebra.errors import InputError


def is_lyndon(word: Word) -> bool:
    """Whether a word is smaller than each of its proper ends."""
    return bool(word) and all(word < word[start:] for start in range(1, len(word)))


def lyndon_words(letters: int, length: int) -> Iterator[Word]:
    """The Lyndon words of a length over letters 0, 1, ..., in order (Duval 1983)."""
    word = [-1]
    while word and length:
        word[-1] += 1
        if len(word) == length:
            yield tuple(word)
        word = [word[place % len(word)] for place in range(length)]
        while word and word[-1] == letters - 1:
            word.pop()


def factorized(word: Word) -> tuple[Word, Word]:
    """The standard factorization `u v` of a Lyndon word of two letters or more."""
    start = next(start for start in range(1, len(word)) if is_lyndon(word[start:]))
    return word[:start], word[start:]


def lyndon_coordinates(terms: Mapping[Word, Rational]) -> dict[Word, Fraction]:
    """The coefficient of each bracket `b(w)`, in the order of length and words.

    InputError when the words are no sum of commutators and letters.
    """
    rest: dict[Word, Rational] = {word: c for word, c in terms.items() if c}
    waiting = [(len(word), word) for word in rest if is_lyndon(word)]
    heapify(waiting)
    brackets: dict[Word, Mapping[Word, Rational]] = {}
    found = {}
    while waiting:
        _, word = heappop(waiting)
        coefficient = rest.get(word, 0)
        if not coefficient:
            continue
        found[word] = Fraction(coefficient)
        for other, share in expanded(word, brackets).items():
            before = rest.get(other, 0)
            after = before - coefficient * share
            if after:
                rest[other] = after
                if not before and is_lyndon(other):
                    heappush(waiting, (len(other), other))
            else:
                del rest[other]
    if rest:
        raise InputError("no sum of commutators and letters has these words; write it as words")
    return found


def expanded(word: Word, known: dict[Word, Mapping[Word, Rational]]) -> Mapping[Word, Rational]:
    """The words of the bracket of a Lyndon word; `known` gathers what has been found."""
    if word not in known:
        known[word] = {word: 1} if len(word) == 1 else bracket(*(expanded(part, known) for part in factorized(word)))
    return known[word]
