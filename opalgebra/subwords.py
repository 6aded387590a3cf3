"""Repeated subwords: what an expression writes more than once, found by a suffix automaton, and short names for it."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import final

from opalgebra.errors import InputError
from opalgebra.expr import Atom, Compose, Operator, Sum, check_operators, compose, factors, postorder
from opalgebra.rewrite import longest_first, rewritten
from opalgebra.scalar import is_natural


def common_subwords(operator: Operator, *, min_length: int = 2) -> dict[Operator, int]:
    """Each subword that is written more than once, with the number of its occurrences that do not overlap.

    Law: a subword is contiguous and keeps the order of its factors. A subword is left out when a longer one that holds
    it occurs as often. Words of shared subterms count as often as they are written; backgrounds are not entered. Those
    that save most factors, `(occurrences - 1) (length - 1)`, come first. InputError unless `min_length` is 2 or more.

    >>> import opalgebra as oa
    >>> a, b = oa.atoms("a b", kind="linear")
    >>> print(*common_subwords(a @ b @ a @ b))
    a @ b
    """
    if not is_natural(min_length) or min_length < 2:
        raise InputError(f"min_length={min_length!r}: a repeated subword has at least 2 factors; use a whole number from 2 on")
    check_operators(operator)
    automaton = _Automaton()
    for word, times in _words(operator).items():
        automaton.add(factors(word), times)
    repeats = list(automaton.repeats(min_length))
    ranked = sorted(
        (((1 - times) * (length - 1), -length, automaton.subword(node, length), times) for node, length, times in repeats),
        key=lambda entry: (*entry[:2], entry[2].digest),
    )
    return {subword: times for _, _, subword, times in ranked}


def abbreviate(operator: Operator) -> tuple[dict[Operator, Operator], Operator]:
    """Names for repeated subwords, and the operator written with them: `(definitions, short)`.

    Law: `substitute(short, definitions)` is the operator. Each definition is a subword of the operator that `short` writes
    at least twice, named by a new atom of the same spaces, linear when it is: U1, U2, ... for maps, u1, ... for states.
    Some repeated subword is named whenever there is one; where two overlap, the one that begins first, then the longer.

    >>> import opalgebra as oa
    >>> a, b = oa.atoms("a b", kind="linear")
    >>> definitions, short = abbreviate(a @ b @ a @ b)
    >>> print(short, *definitions.values())
    U1 @ U1 a @ b
    """
    common = list(common_subwords(operator))
    chosen = common
    while True:
        definitions = _named(operator, chosen)
        short = rewritten(operator, longest_first({word: atom for atom, word in definitions.items()}), False)
        uses: Counter[Operator] = Counter()
        for word, times in _words(short).items():
            for letter in factors(word):
                uses[letter] += times
        kept = [word for atom, word in definitions.items() if uses[atom] > 1]
        if len(kept) == len(chosen):
            return definitions, short
        chosen = kept or common[: min(1, len(chosen) - 1)]


def _named(operator: Operator, words: list[Operator]) -> dict[Operator, Operator]:
    """A new atom for each word."""
    taken = {atom.name for atom in operator.atoms}
    maps, states = _names("U", taken), _names("u", taken)
    return {
        Atom(next(states if word.is_state else maps), kind=word.kind, domain=word.domain, codomain=word.codomain): word
        for word in words
    }


def _names(letter: str, taken: set[str]) -> Iterator[str]:
    return (name for n in count(1) if (name := f"{letter}{n}") not in taken)


def _words(operator: Operator) -> dict[Operator, int]:
    """The maximal words of an expression, and how often each is written in it."""
    written: Counter[Operator] = Counter({operator: 1})
    found: dict[Operator, int] = {}
    for node in reversed(list(postorder(operator, backgrounds=False))):
        times = written[node]
        if times and isinstance(node, Sum):
            for _, term in node.terms:
                written[term] += times
        elif times:
            found[node] = times
            for letter in factors(node) if isinstance(node, Compose) else ():
                written[letter] += times * isinstance(letter, Sum)
    return found


@final
class _Automaton:
    """The suffix automaton of some words (Blumer et al. 1985): a node for each set of subwords that end at the same places.

    The longest subword of a node is extended by its transitions to the right; its link is the node of the longest suffix
    that ends at more places.
    """

    def __init__(self) -> None:
        self.lengths, self.links = [0], [-1]
        self.transitions: list[dict[Operator, int]] = [{}]
        self.ends: list[list[int]] = [[]]
        self.letters: list[Operator] = []
        self.weights: list[int] = []
        self._built: dict[int, Operator] = {}
        self._place: dict[int, int] = {}

    def add(self, word: list[Operator], times: int) -> None:
        """Takes in a word that is written so many times."""
        last = 0
        for letter in word:
            last = self._extended(last, letter)
            self.ends[last].append(len(self.letters))
            self.letters.append(letter)
            self.weights.append(times)

    def _node(self, length: int, link: int, transitions: dict[Operator, int]) -> int:
        self.lengths.append(length)
        self.links.append(link)
        self.transitions.append(transitions)
        self.ends.append([])
        return len(self.links) - 1

    def _extended(self, last: int, letter: Operator) -> int:
        if letter in self.transitions[last]:
            return self._exactly(last, letter)
        new, node = self._node(self.lengths[last] + 1, 0, {}), last
        while node >= 0 and letter not in self.transitions[node]:
            self.transitions[node][letter] = new
            node = self.links[node]
        if node >= 0:
            self.links[new] = self._exactly(node, letter)
        return new

    def _exactly(self, node: int, letter: Operator) -> int:
        """The node whose longest subword is that of `node` and the letter, split off another one when there is none."""
        known = self.transitions[node][letter]
        if self.lengths[known] == self.lengths[node] + 1:
            return known
        split = self._node(self.lengths[node] + 1, self.links[known], dict(self.transitions[known]))
        self.links[known] = split
        while node >= 0 and self.transitions[node].get(letter) == known:
            self.transitions[node][letter] = split
            node = self.links[node]
        return split

    def repeats(self, min_length: int) -> Iterator[tuple[int, int, int]]:
        """Node, length and times of each subword that is written more than once without overlaps.

        Left out is what a longer subword contains wherever it is written, and with as many times.
        """
        totals = [sum(self.weights[end] for end in ends) for ends in self.ends]
        by_length = sorted(range(1, len(self.links)), key=self.lengths.__getitem__, reverse=True)
        for node in by_length:
            totals[self.links[node]] += totals[node]
        for node in by_length:
            longest, link, ends = self.lengths[node], self.links[node], self.ends[node]
            shortest = max(self.lengths[link] + 1, min_length)
            self._place[node] = ends[0]
            always_followed = any(totals[longer] == totals[node] for longer in self.transitions[node].values())
            known = self._apart(ends, longest + 1) if always_followed else 1
            while shortest <= longest and totals[node] > known:
                more = bisect_right(range(shortest, longest + 1), -known - 1, key=lambda length: -self._apart(ends, length))
                if not more:
                    break
                longest = shortest + more - 1
                known = self._apart(ends, longest)
                yield node, longest, known
                longest -= 1
            small, large = sorted((ends, self.ends[link]), key=len)
            for end in small if link else ():
                insort(large, end)
            self.ends[link] = large

    def _apart(self, ends: list[int], length: int) -> int:
        """How often a subword of this length with these ends is written without overlaps."""
        times = place = 0
        while place < len(ends):
            times += self.weights[ends[place]]
            place = bisect_left(ends, ends[place] + length, place)
        return times

    def subword(self, node: int, length: int) -> Operator:
        """The subword of this length that ends where the node does, sharing the suffixes that are nodes themselves."""
        chain = [(node, length)]
        while chain[-1][0] not in self._built and (link := self.links[chain[-1][0]]) in self._place:
            chain.append((link, self.lengths[link]))
        word: Operator | None = None
        built = 0
        for part, size in reversed(chain):
            end = self._place[part]
            if self.lengths[part] == size and part in self._built:
                word = self._built[part]
            else:
                for place in range(end - built, end - size, -1):
                    letter = self.letters[place]
                    word = letter if word is None else compose(letter, word)
                if self.lengths[part] == size and word is not None:
                    self._built[part] = word
            built = size
        assert word is not None
        return word
