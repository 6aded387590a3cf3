"""Linear operators as sums of words in letters, and back.

Sums, products, commutators and multiples are read; every other operator, an atom, a dressing, an inverse, is a letter. Letters
are numbered in the order in which they act, so that products of later and later letters need no sorting.
"""

from collections.abc import Callable
from fractions import Fraction

from opalgebra._words.brackets import nested_commutators
from opalgebra._words.graded import LIMIT, Words, combination, commutator, product
from opalgebra._words.ordered import ordered_product
from opalgebra._words.packing import Alphabet
from opalgebra._words.small import Cut, Rational, Word, bracket, combined, multiplied
from opalgebra.commutator import Commutator
from opalgebra.errors import InputError, NotLinearError
from opalgebra.expr import Compose, Identity, Operator, Sum, Zero, factors, linear_combination
from opalgebra.expr import ordered_product as composed
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import Polynomial, Scalar

_SMALL = 64
Read = dict[Word, Rational] | Words


def letters_of(operator: Operator) -> list[Operator]:
    """The letters of an operator, those that act first before the others. NotLinearError for one that is not linear."""
    found: dict[Operator, None] = {}
    seen: set[Operator] = set()
    waiting = [operator]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Compose | Sum | Commutator):
            waiting += node.parts
        elif not isinstance(node, Identity | Zero):
            if not node.is_linear:
                raise NotLinearError(
                    f"{operator} was to be written as words, but {node} is not known to be linear; dress it on a state first, "
                    "or declare it with kind='linear'"
                )
            found[node] = None
    return list(found)


def alphabet_of(operator: Operator, weight: Callable[[Operator], tuple[int, ...]] = lambda _: (1,)) -> Alphabet:
    """The letters of an operator with their weights."""
    letters = letters_of(operator)
    return Alphabet(tuple(letters), tuple(map(weight, letters)))


def read(operator: Operator, alphabet: Alphabet, *, cut: Cut | None = None, limit: int | None = LIMIT) -> Words:
    """The words of an operator up to a cut. InputError for a coefficient with a symbol, LimitError for too many words."""
    found = without_recursion(_Reading(alphabet, cut, limit).read(operator))
    return found.cut(cut) if isinstance(found, Words) else Words.of(alphabet, found).cut(cut)


class _Reading:
    """What has been read so far, each shared part once; lives as long as one reading does."""

    def __init__(self, alphabet: Alphabet, cut: Cut | None, limit: int | None) -> None:
        self.alphabet, self.cut, self.limit = alphabet, cut, limit
        self.done: dict[Operator, Read] = {}

    def read(self, node: Operator) -> Steps[Read]:
        if node not in self.done:
            self.done[node] = yield self._read(node)
        return self.done[node]

    def _read(self, node: Operator) -> Steps[Read]:
        if isinstance(node, Identity):
            return {(): 1}
        if isinstance(node, Zero):
            return {}
        if isinstance(node, Sum):
            total: Read = yield self._sum(node)
            return total
        if not isinstance(node, Compose | Commutator):
            return {(self.alphabet.numbers[node],): 1}
        parts: list[Read] = []
        for part in factors(node) if isinstance(node, Compose) else node.parts:
            parts.append((yield self.read(part)))  # noqa: PERF401
        return self._bracket(*parts) if isinstance(node, Commutator) else self._product(parts)

    def _sum(self, node: Sum) -> Steps[Read]:
        parts: list[tuple[Rational, Read]] = []
        nested: dict[int, tuple[list[Word], list[Fraction]]] = {}
        for coefficient, term in node.terms:
            chain = self._chain(term)
            if chain is None:
                parts.append((rational(coefficient, node), (yield self.read(term))))
            else:
                words, numbers = nested.setdefault(len(chain), ([], []))
                words.append(chain)
                numbers.append(rational(coefficient, node))
        for words, numbers in nested.values():
            chains = Words.of(self.alphabet, dict(zip(words, numbers))).cut(self.cut)
            parts.append((1, nested_commutators(chains, limit=self.limit)))
        small = [(c, part) for c, part in parts if not isinstance(part, Words)]
        gathered: Read = combined(small)
        large = [(c, part) for c, part in parts if isinstance(part, Words)]
        return combination([*large, (1, self._columns(gathered))]) if large else gathered

    def _chain(self, node: Operator) -> Word | None:
        """The letters of `[l_1, [l_2, [..., l_n]]]`, None for anything else."""
        letters = []
        while isinstance(node, Commutator) and node.left in self.alphabet.numbers:
            letters.append(self.alphabet.numbers[node.left])
            node = node.right
        if not letters or node not in self.alphabet.numbers:
            return None
        return (*letters, self.alphabet.numbers[node])

    def _product(self, parts: list[Read]) -> Read:
        small = [part for part in parts if not isinstance(part, Words)]
        if len(small) == len(parts):
            count = 1
            for part in small:
                count = min(count * len(part), _SMALL + 1)
            if count <= _SMALL:
                total: dict[Word, Rational] = {(): 1}
                for part in reversed(small):
                    total = multiplied(part, total)
                return total
            return ordered_product(self.alphabet, small[::-1], cut=self.cut, limit=self.limit)
        found = self._columns(parts[-1])
        for factor in reversed(parts[:-1]):
            found = product(self._columns(factor), found, cut=self.cut, limit=self.limit)
        return found

    def _bracket(self, left: Read, right: Read) -> Read:
        if not isinstance(left, Words) and not isinstance(right, Words) and len(left) * len(right) <= _SMALL:
            return bracket(left, right)
        return commutator(self._columns(left), self._columns(right), cut=self.cut, limit=self.limit)

    def _columns(self, part: Read) -> Words:
        return part if isinstance(part, Words) else Words.of(self.alphabet, part)


def rational(coefficient: Scalar, node: Operator) -> Fraction:
    """A coefficient without symbols. InputError for one that has some."""
    if isinstance(coefficient, Polynomial):
        raise InputError(f"the words of {node} were asked, whose coefficient {coefficient} has a symbol; give it a value")
    return coefficient


def written(words: Words, operator: Operator) -> Operator:
    """The operator that words in letters are, a map between the same spaces as `operator`."""
    space = operator.domain
    parts = ((c, _word(words.alphabet, word, operator)) for word, c in words.terms())
    return linear_combination(parts, space, operator.codomain)


def _word(alphabet: Alphabet, word: Word, operator: Operator) -> Operator:
    letters = [alphabet.letters[number] for number in reversed(word)]
    return composed(letters, space=operator.domain)  # type: ignore[arg-type]
