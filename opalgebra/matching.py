"""Matching: in which ways an operator is a pattern with subwords put in for its wildcards.

Factors do not commute, so a pattern is matched with contiguous factors in their order, and only the terms of a sum have
none. A reader of the pattern, run over the word once from its end, tells at each factor which items of the pattern can
begin there (an automaton with one bit an item), so the search from the left takes no step in vain unless a wildcard is
repeated or stands in a sum.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from operator import add, matmul, mul, sub
from typing import Any, NamedTuple, final

from opalgebra.display import Displayed
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom, Compose, Operator, Sum, check_operators, factors, ordered_product, postorder
from opalgebra.scalar import Scalar
from opalgebra.space import Kind, Space, X

LIMIT = 1_000_000


def first_factor(word: Operator) -> Operator:
    """The leftmost factor of a word."""
    return word.left if isinstance(word, Compose) else word


def later_factors(word: Operator) -> Operator | None:
    """A word without its leftmost factor; None when nothing is left."""
    return word.right if isinstance(word, Compose) else None


@final
@dataclass(frozen=True)
class Pattern(Displayed):
    """An expression in which the atoms `wild` stand for any subwords that fit; built from wildcards by `@ + - *`.

    It is no operator, and an atom of the same name as a wildcard is refused inside it, so the two are never confused.
    """

    operator: Operator
    wild: frozenset[Atom]

    def __str__(self) -> str:
        return str(self.operator)

    def __repr__(self) -> str:
        return f"{self.operator} for any {', '.join(sorted(atom.name for atom in self.wild))}"

    def __matmul__(self, other: Any) -> "Pattern":
        return _pattern(matmul, self, other)

    def __rmatmul__(self, other: Any) -> "Pattern":
        return _pattern(matmul, other, self)

    def __add__(self, other: Any) -> "Pattern":
        return _pattern(add, self, other)

    def __radd__(self, other: Any) -> "Pattern":
        return _pattern(add, other, self)

    def __sub__(self, other: Any) -> "Pattern":
        return _pattern(sub, self, other)

    def __rsub__(self, other: Any) -> "Pattern":
        return _pattern(sub, other, self)

    def __rmul__(self, scalar: Any) -> "Pattern":
        return _pattern(mul, scalar, self)

    def __neg__(self) -> "Pattern":
        return -1 * self


def _pattern(act: Callable[[Any, Any], Operator], *sides: Any) -> Pattern:
    wild = frozenset[Atom]().union(*(side.wild for side in sides if isinstance(side, Pattern)))
    for side in sides:
        plain = as_pattern(side) if isinstance(side, Pattern | Operator) else None
        for atom in plain.operator.atoms if plain else ():
            if atom in wild and plain is not None and atom not in plain.wild:
                raise InputError(f"{atom} is a wildcard and also an operator of the pattern; give the wildcard another name")
    result = act(*(side.operator if isinstance(side, Pattern) else side for side in sides))
    return Pattern(result, wild.intersection(result.atoms))


def as_pattern(value: Pattern | Operator) -> Pattern:
    if not isinstance(value, Pattern | Operator):
        raise InputError(f"{value!r} is no pattern; build one from operators and wildcards")
    return value if isinstance(value, Pattern) else Pattern(value, frozenset())


def wildcard(name: str, *, kind: str = Kind.NONLINEAR, domain: Space | None = None, codomain: Space = X) -> Pattern:
    """A pattern that stands for one or more contiguous factors with these spaces.

    `linear` takes linear subwords only, `nonlinear` any map, `state` a state; `attention`, `ffn` and `norm` take a
    single atom of that kind. SpaceError and InputError as for an atom.
    """
    atom = Atom(name, kind=kind, domain=domain, codomain=codomain)
    return Pattern(atom, frozenset({atom}))


def match(pattern: Pattern | Operator, operator: Operator, *, limit: int | None = LIMIT) -> dict[Pattern, Operator] | None:
    """The first of `matches`; None when there is none. A pattern without wildcards that matches gives an empty dict.

    >>> import opalgebra as oa
    >>> A, B, C = oa.atoms("A B C", kind="linear")
    >>> W = wildcard("W")
    >>> match(W @ C, A @ B @ C)[W] == A @ B
    True
    """
    return next(matches(pattern, operator, limit=limit), None)


def matches(pattern: Pattern | Operator, operator: Operator, *, limit: int | None = LIMIT) -> Iterator[dict[Pattern, Operator]]:
    """Every way in which the whole operator is the pattern with subwords for its wildcards, one at a time.

    Law: putting the subwords in gives the operator back, and the same wildcard stands for the same operator everywhere.
    The first wildcard is tried from its shortest subword on, then the next. Terms are matched one to one, with equal
    coefficients; a wildcard that is a term stands for one term, a wildcard that is a factor also for a sum. Backgrounds
    are matched as they are. Without sums and repeated wildcards no step is in vain; otherwise LimitError after `limit`
    steps (None: no limit).
    """
    check_operators(operator)
    plain = as_pattern(pattern)
    reader = Reader(plain.operator, plain.wild, whole=True)
    for found in search(plain, reader, operator, budget_of(limit)):
        bindings = found.bindings()
        yield {Pattern(atom, frozenset({atom})): bindings[atom] for atom in found.spans}


class _Span(NamedTuple):
    """The first `length` factors of a word."""

    word: Operator
    length: int

    def letters(self) -> Iterator[Operator]:
        rest: Operator | None = self.word
        for _ in range(self.length):
            assert rest is not None
            yield first_factor(rest)
            rest = later_factors(rest)


class Found(NamedTuple):
    """What the wildcards stand for so far, and the word that follows the match."""

    spans: Mapping[Atom, _Span]
    rest: Operator | None

    def bindings(self) -> dict[Operator, Operator]:
        return {atom: ordered_product(reversed(list(span.letters()))) for atom, span in self.spans.items()}


@final
class Reader:
    """At which factors of a word the items of a pattern word can begin; one pass from the end of the word decides it.

    Bit i of the first number of `read(word)` says that the items from i on match the word, or its beginning unless
    `whole`; bit i of the second, that they do so when wildcard i has already taken factors before this word.
    """

    def __init__(self, pattern: Operator, wild: frozenset[Atom], *, whole: bool) -> None:
        self.items = factors(pattern)
        self.wild = wild
        self.end = 1 << len(self.items)
        self.beyond = 0 if whole else self.end
        self.open_sums: list[tuple[int, Sum]] = []
        self.wildcards: list[tuple[int, Atom]] = []
        self.literals: dict[Operator, int] = defaultdict(int)
        for i, item in enumerate(self.items):
            if isinstance(item, Atom) and item in wild:
                self.wildcards.append((1 << i, item))
            elif isinstance(item, Sum) and _is_open(item, wild):
                self.open_sums.append((1 << i, item))
            else:
                self.literals[item] |= 1 << i
        self.readers: dict[Operator, Reader] = {}
        self._live: dict[Operator, tuple[int, int]] = {}
        self._bits: dict[Operator, tuple[int, int, int]] = {}
        self._closing: dict[Space, int] = {}

    def of_term(self, term: Operator) -> "Reader":
        """The reader of one term of a sum in the pattern."""
        if term not in self.readers:
            self.readers[term] = Reader(term, self.wild, whole=True)
        return self.readers[term]

    def read(self, word: Operator) -> tuple[int, int]:
        chain: list[Operator] = []
        rest: Operator | None = word
        while rest is not None and rest not in self._live:
            chain.append(rest)
            rest = later_factors(rest)
        begins, inside = (self.end, self.end >> 1 & self._closes(word.domain)) if rest is None else self._live[rest]
        for node in reversed(chain):
            fixed, opens, goes_on = self._accepts(first_factor(node))
            begins = (begins >> 1 & fixed) | (inside & opens) | self.beyond
            inside = (inside & goes_on) | (begins >> 1 & self._closes(node.codomain))
            self._live[node] = begins, inside
        return begins, inside

    def can_begin(self, item: int, word: Operator | None) -> bool:
        return item == len(self.items) if word is None else bool(self.read(word)[0] >> item & 1)

    def goes_on(self, item: int, letter: Operator, word: Operator) -> bool:
        """Whether a wildcard that has already taken factors can take the next one, and the items then still match."""
        return bool(self._accepts(letter)[2] & self.read(word)[1] >> item << item & 1 << item)

    def _closes(self, space: Space) -> int:
        """The wildcards that may end where a factor with this domain has been read."""
        if space not in self._closing:
            self._closing[space] = sum(bit for bit, atom in self.wildcards if atom.domain == space)
        return self._closing[space]

    def _accepts(self, letter: Operator) -> tuple[int, int, int]:
        """The fixed items that a factor can be, the wildcards that it can open, and those that it can go on with."""
        if letter not in self._bits:
            fixed = self.literals.get(letter, 0) | sum(bit for bit, item in self.open_sums if _same_shape(item, letter))
            fitting = [(bit, atom) for bit, atom in self.wildcards if _fits(atom, letter)]
            opens = sum(bit for bit, atom in fitting if atom.codomain == letter.codomain)
            goes_on = sum(bit for bit, atom in fitting if atom.kind in (Kind.LINEAR, Kind.NONLINEAR, Kind.STATE))
            self._bits[letter] = fixed, opens, goes_on
        return self._bits[letter]


def _fits(atom: Atom, letter: Operator) -> bool:
    if atom.kind == Kind.LINEAR:
        return letter.is_linear
    return atom.kind in (Kind.NONLINEAR, Kind.STATE) or (isinstance(letter, Atom) and letter.kind == atom.kind)


def _is_open(item: Operator, wild: frozenset[Atom]) -> bool:
    return any(isinstance(node, Atom) and node in wild for node in postorder(item, backgrounds=False))


def _same_shape(item: Sum, letter: Operator) -> bool:
    return isinstance(letter, Sum) and Counter(c for c, _ in item.terms) == Counter(c for c, _ in letter.terms)


class _AtWord(NamedTuple):
    """To do: match the items from `item` on with the word, or with nothing."""

    reader: Reader
    item: int
    word: Operator | None


class _AtTerms(NamedTuple):
    """To do: match each of the pattern's open terms with another of the operator's terms."""

    reader: Reader
    pattern: tuple[tuple[Scalar, Operator], ...]
    left: tuple[tuple[Scalar, Operator], ...]


Goals = Any
"""None, or (a goal, the goals to do after it)."""
Option = tuple[Goals, Found]


def budget_of(limit: int | None) -> Iterator[int]:
    """The steps that a search may still take; one iterator can serve several searches."""
    return count() if limit is None else iter(range(limit))


def search(pattern: Pattern, reader: Reader, word: Operator, budget: Iterator[int]) -> Iterator[Found]:
    """Depth first with an explicit stack of the options left at each step."""
    if not reader.can_begin(0, word):
        return
    stack: list[Iterator[Option]] = [iter([((_AtWord(reader, 0, word), None), Found({}, None))])]
    while stack:
        option = next(stack[-1], None)
        if option is None:
            stack.pop()
            continue
        goals, found = option
        if next(budget, None) is None:
            raise LimitError(
                f"matching {pattern} takes more steps than the limit allows; name more factors in the pattern, repeat fewer "
                "wildcards, or pass a larger limit="
            )
        if goals is None:
            yield found
        else:
            goal, later = goals
            stack.append(_at_word(goal, later, found) if isinstance(goal, _AtWord) else _at_terms(goal, later, found))


def _at_word(goal: _AtWord, later: Goals, found: Found) -> Iterator[Option]:
    reader, i, word = goal
    if i == len(reader.items):
        yield later, (found._replace(rest=word) if reader.beyond else found)
    elif word is not None:
        item, letter = reader.items[i], first_factor(word)
        if isinstance(item, Atom) and item in reader.wild:
            yield from _at_wildcard(goal, item, later, found)
        elif letter is item:
            yield (_AtWord(reader, i + 1, later_factors(word)), later), found
        elif isinstance(item, Sum) and isinstance(letter, Sum):
            left = {term: c for c, term in letter.terms}
            open_terms = tuple((c, term) for c, term in item.terms if _is_open(term, reader.wild))
            if all(left.pop(term, None) == c for c, term in item.terms if (c, term) not in open_terms):
                by_length = sorted(((c, term) for term, c in left.items()), key=lambda pair: len(factors(pair[1])))
                yield (
                    (_AtTerms(reader, open_terms, tuple(by_length)), (_AtWord(reader, i + 1, later_factors(word)), later)),
                    found,
                )


def _at_wildcard(goal: _AtWord, atom: Atom, later: Goals, found: Found) -> Iterator[Option]:
    """Each subword that the wildcard can take at the beginning of the word, shortest first."""
    reader, i, word = goal
    assert word is not None
    rest: Operator | None = word
    if atom in found.spans:
        for letter in found.spans[atom].letters():
            if rest is None or first_factor(rest) is not letter:
                return
            rest = later_factors(rest)
        if reader.can_begin(i + 1, rest):
            yield (_AtWord(reader, i + 1, rest), later), found
        return
    for length in count(1):
        if rest is None:
            return
        letter = first_factor(rest)
        if length > 1 and not reader.goes_on(i, letter, rest):
            return
        rest = later_factors(rest)
        if letter.domain == atom.domain and reader.can_begin(i + 1, rest):
            span = _Span(word, length)
            yield (_AtWord(reader, i + 1, rest), later), found._replace(spans={**found.spans, atom: span})


def _at_terms(goal: _AtTerms, later: Goals, found: Found) -> Iterator[Option]:
    if not goal.pattern:
        yield later, found
        return
    (coefficient, pattern), *others = goal.pattern
    reader = goal.reader.of_term(pattern)
    for position, (c, term) in enumerate(goal.left):
        if c == coefficient and reader.can_begin(0, term):
            left = goal.left[:position] + goal.left[position + 1 :]
            yield (_AtWord(reader, 0, term), (_AtTerms(goal.reader, tuple(others), left), later)), found
