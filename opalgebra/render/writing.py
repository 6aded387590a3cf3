"""How an expression becomes a line of text: precedence, order of terms, and names for shared backgrounds.

One iterative writer serves every style; a `Style` says how each node looks. Terms are sorted by grade (number of
factors), then by numeric depth. Every composite background is named once, so that the size of the text is linear in the
size of the shared graph: `F3<x2> @ x where x1 = (1 + F1) @ x, x2 = (1 + F2) @ x1`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from opalgebra.errors import InputError
from opalgebra.expr import Atom, Compose, Dressed, Identity, Index, Operator, Source, Sum, Zero, factors, postorder
from opalgebra.indexed import Binder, OrderedSum
from opalgebra.powers import Coefficients
from opalgebra.scalar import Scalar, Symbol, is_negative, scalar_of

SUM, PRODUCT, FACTOR = range(3)
LONGEST = 10_000


@dataclass(frozen=True)
class Style:
    """How the nodes look.

    `source` is told the base names of all maps in the expression, so as not to look like one of them. `elide` is the
    number of terms above which the middle of a sum is replaced by its count. `binder` gives the parts of an indexed product
    or sum: texts, and pairs of an operator and how tightly it must hold together; they end in a text when they are closed.
    `letter` gives such parts of tensor products, inverses, adjoints, traces and the like, and how tightly they hold together.
    With `numbers`, a multiple of the identity in a sum is written as the number that it is, `2 + A`.
    `order` has terms that stand before all others wherever a sum has them, in this order.
    """

    atom: Callable[[Atom], str]
    state: Callable[[str, tuple[Index, ...]], str]
    dressing: tuple[str, str]
    source: Callable[[Atom, frozenset[str]], tuple[str, str]]
    scalar: Callable[[Scalar], str]
    times: str
    compose: Callable[[bool], str]
    brackets: tuple[str, str]
    identity: Callable[[Identity], str]
    zero: Callable[[Zero], str]
    dots: Callable[[int], str]
    binder: Callable[[Binder, str], list[Any]]
    letter: Callable[[Operator], tuple[list[Any], int]]
    numbers: bool = True
    elide: int | None = None
    order: tuple[Operator, ...] = ()


@dataclass(frozen=True)
class Written:
    """One or more expressions as text, with the definitions of the states that they name, innermost first."""

    lines: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...]


def write(style: Style, *operators: Operator) -> Written:
    """The expressions in a style, sharing the names of their backgrounds."""
    names = name_backgrounds(*operators)
    shown = {state: style.state(base, indices) for state, (base, indices) in names.items()}
    maps = frozenset(atom.base for operator in operators for atom in operator.atoms if not atom.is_state)
    definitions = tuple((shown[state], _line(style, state, shown, maps, top=True)) for state in names)
    return Written(tuple(_line(style, operator, shown, maps, top=False) for operator in operators), definitions)


Parts = list[str | Operator]


def write_stated(style: Style, sides: Iterable[Operator], stated: Iterable[Parts]) -> tuple[Written, list[str]]:
    """Sides of an equation and what is stated beside them, in texts and operators, with names shared between all of them."""
    facts, own = list(stated), list(sides)
    written = write(style, *own, *(part for parts in facts for part in parts if isinstance(part, Operator)))
    lines = iter(written.lines[len(own) :])
    return written, ["".join(next(lines) if isinstance(part, Operator) else part for part in parts) for parts in facts]


def write_series(style: Style, value: Coefficients, stated: Iterable[Parts]) -> tuple[Written, list[str], str]:
    """The operator of a power series, what is stated beside it, and the sum of its powers that are not zero."""
    g = scalar_of(value.parameter)
    powers: list[Parts] = []
    for power, term in enumerate(value.terms):
        if power and isinstance(term, Sum) and len(term.terms) > 1:
            powers.append([style.scalar(g**power), style.times, style.brackets[0], term, style.brackets[1]])
        elif not isinstance(term, Zero):
            powers.append([g**power * term])
    if style.elide is not None and len(powers) > style.elide:
        kept = style.elide // 2
        hidden = len(powers) - 2 * kept
        powers = [*powers[:kept], [style.dots(hidden)], *powers[-kept:]]
    facts = list(stated)
    written, lines = write_stated(style, [value.operator], [*facts, *(powers or [[value.terms[0]]])])
    first, *others = lines[len(facts) :]
    total = first + "".join(_added(line) for line in others)
    rest = "" if value.is_exact else f" + O({style.scalar(g ** len(value.terms))})"
    return written, lines[: len(facts)], total + rest


def _added(line: str) -> str:
    if line.startswith("-"):
        return f" - {line[1:]}"
    return line if line.startswith(" + ") else f" + {line}"


def name_backgrounds(*operators: Operator) -> dict[Operator, tuple[str, tuple[int, ...]]]:
    """Names for the composite states that dressings refer to, inner ones first.

    `(1 + F2) @ (1 + F1) @ x` becomes x2. A background `N @ s` with one atom N is written out and only s is named. Where all
    would have more than `LONGEST` letters, states that stand in several places are named too.
    """
    referred: dict[Operator, None] = {}
    for node in postorder(*operators, backgrounds=True):
        if isinstance(node, Dressed | Source):
            state = node.state
            if isinstance(state, Compose) and isinstance(state.left, Atom):
                state = state.right
            if not isinstance(state, Atom):
                referred[state] = None
    referred |= dict.fromkeys(_shared(*operators))
    taken = {atom.name for operator in operators for atom in operator.atoms}
    taken |= {symbol.name for operator in operators for symbol in operator.symbols}
    order = [node for node in postorder(*operators, *referred, backgrounds=True) if node in referred]
    names = {}
    repeats: Counter[tuple[str, int]] = Counter()
    for state in order:
        *chain, last = factors(state)
        base = last.base if isinstance(last, Atom) else "s"
        indices: tuple[int, ...] = (len(chain),)
        while base + "_".join(map(str, indices)) in taken:
            repeats[base, len(chain)] += 1
            indices = (len(chain), repeats[base, len(chain)])
        taken.add(base + "_".join(map(str, indices)))
        names[state] = (base, indices)
    return names


def _shared(*operators: Operator) -> list[Operator]:
    """The states that stand in several places of what is too long when it is written out."""
    lengths: dict[Operator, int] = {}
    places: Counter[Operator] = Counter()
    for node in postorder(*operators, backgrounds=False):
        lengths[node] = 1 + sum(lengths[part] for part in node.parts)
        places.update(node.parts)
    if sum(lengths[operator] for operator in operators) <= LONGEST:
        return []
    return [node for node, count in places.items() if count > 1 and isinstance(node, Sum | Compose) and node.is_state]


def sorted_terms(operator: Sum, order: tuple[Operator, ...] = ()) -> list[tuple[Scalar, Operator]]:
    """The terms named first in their order, then by grade, then by the numeric depth of their factors from left to right."""
    wished = {term: place for place, term in enumerate(order)}
    return sorted(operator.terms, key=lambda pair: (wished.get(pair[1], len(wished)), _rank(pair[1])))


def wished_order(terms: Iterable[Operator]) -> tuple[Operator, ...]:
    """The terms of a wished order of print, without their coefficients. InputError for what is no operator."""
    found: list[Operator] = []
    for term in terms:
        if not isinstance(term, Operator):
            raise InputError(f"{term!r} is no operator, and an order of print names terms of sums; give them as in [B, A]")
        found += term.parts if isinstance(term, Sum) else [term]
    return tuple(found)


def _rank(term: Operator) -> tuple[Any, ...]:
    word = [] if isinstance(term, Identity) else factors(term)
    return (len(word), [_factor_rank(factor) for factor in word])


def _factor_rank(factor: Operator) -> tuple[Any, ...]:
    if isinstance(factor, Atom):
        return (0, factor.sort_key, factor.digest)
    if isinstance(factor, Dressed | Source):
        return (1 + isinstance(factor, Source), factor.operator.sort_key, factor.digest)
    return (3, [atom.sort_key for atom in _first_atoms(factor)], factor.digest)


def _first_atoms(operator: Operator) -> list[Atom]:
    """A few of the atoms of an operator, in the order of reading."""
    found: list[Atom] = []
    waiting = [operator]
    for _ in range(64):
        if not waiting or len(found) == 8:
            break
        node = waiting.pop()
        if isinstance(node, Atom):
            found.append(node)
        waiting += reversed(node.parts or node.bodies)
    return found


def _line(style: Style, root: Operator, names: dict[Operator, str], maps: frozenset[str], *, top: bool) -> str:
    """One expression; with `top`, the root itself is written out even if it has a name."""
    tokens: list[str] = []
    work: list[str | tuple[Operator, int]] = [(root, SUM)]
    while work:
        item = work.pop()
        if isinstance(item, str):
            tokens.append(item)
            continue
        node, level = item
        named = names if not (top and node is root) else {}
        parts = [named[node]] if node in named else _parts(style, node, level, names, maps)
        work.extend(reversed(parts))
    return "".join(tokens)


def _parts(style: Style, node: Operator, level: int, names: dict[Operator, str], maps: frozenset[str]) -> list[Any]:
    if isinstance(node, Atom):
        return [style.atom(node)]
    if isinstance(node, Identity):
        return [style.identity(node)]
    if isinstance(node, Zero):
        return [style.zero(node)]
    if isinstance(node, Dressed):
        opening, closing = style.dressing
        return [(node.operator, FACTOR), opening, (node.state, SUM), closing]
    if isinstance(node, Source):
        opening, closing = style.source(node.operator, maps)
        return [opening, (node.state, SUM), closing]
    if isinstance(node, Binder):
        parts = style.binder(node, bound_name(node))
        closed = isinstance(parts[-1], str) or level < FACTOR
        return parts if closed else [style.brackets[0], *parts, style.brackets[1]]
    if isinstance(node, Compose):
        parts, own_level = _composition(style, node, names), PRODUCT
    elif not isinstance(node, Sum):
        parts, own_level = style.letter(node)
    else:
        alone = len(node.fields) == 1 and not is_negative(node.fields[0][0])
        parts, own_level = _sum(style, node), PRODUCT if alone else SUM
    return [style.brackets[0], *parts, style.brackets[1]] if own_level < level else parts


def word(binder: OrderedSum, index: str, gap: str, dots: str) -> list[Any]:
    """The parts of `body(l_n) ... body(l_1)`: every factor when there are at most three, the first and last otherwise."""
    order = binder.order
    few = isinstance(order, int) and order <= 3
    marks = range(order, 0, -1) if isinstance(order, int) and few else (order, 1)
    parts: list[Any] = []
    for mark in marks:
        name = scalar_of(Symbol(f"{index}_{mark}", "natural"))
        parts += ["" if not parts else gap if few else dots, (binder.opened(name), FACTOR)]
    return parts


def chosen_places(binder: OrderedSum) -> str:
    """A letter for the set of places that were chosen, which names nothing in the sum."""
    taken = _taken(binder)
    return next(name for name in chain(("S", "T", "R", "Q"), (f"S{number}" for number in count(1))) if name not in taken)


def _taken(binder: Binder) -> set[str]:
    """The names of everything in the bodies and bounds."""
    taken = {found.name for found in binder.symbols}
    for body in binder.bodies:
        taken |= {found.name for found in body.symbols} | {name for atom in body.atoms for name in (atom.base, atom.name)}
    return taken


def bound_name(binder: Binder) -> str:
    """A letter for a bound index that names nothing in body or bounds, the earlier in the alphabet the deeper inside."""
    taken = _taken(binder)
    letters = ("l", "m", "n", "k", "j", "i")
    names = [*letters[binder.level - 1 :], *(f"l{number}" for number in range(binder.level, binder.level + len(taken) + 1))]
    return next(name for name in names if name not in taken)


def _composition(style: Style, node: Compose, names: dict[Operator, str]) -> list[Any]:
    parts: list[Any] = []
    rest: Operator = node
    while isinstance(rest, Compose) and (rest is node or rest not in names):
        bracketed = isinstance(rest.left, Sum)
        follows = isinstance(rest.right, Sum) and rest.right not in names
        parts += [(rest.left, FACTOR), style.compose(bracketed or follows)]
        rest = rest.right
    return [*parts, (rest, FACTOR)]


def _sum(style: Style, node: Operator) -> list[Any]:
    assert isinstance(node, Sum)
    ordered = sorted_terms(node, style.order)
    hidden = 0
    if style.elide is not None and len(ordered) > style.elide:
        kept = style.elide // 2
        hidden = len(ordered) - 2 * kept
        ordered = ordered[:kept] + ordered[-kept:]
    parts: list[Any] = []
    for position, (coefficient, term) in enumerate(ordered):
        if hidden and position == len(ordered) // 2:
            parts.append(style.dots(hidden))
        negative = is_negative(coefficient)
        size = -coefficient if negative else coefficient
        parts.append(("-" if negative else "") if not parts else (" - " if negative else " + "))
        alone = style.numbers and isinstance(term, Identity) and (len(node.terms) > 1 or style.identity(term) == "1")
        if alone:
            parts.append(style.scalar(size))
        else:
            if size != 1:
                parts += [style.scalar(size), style.times]
            parts.append((term, PRODUCT))
    return parts
