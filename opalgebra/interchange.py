"""Expressions as JSON and back: a table of rows, parts before wholes, so that what is shared is written once.

    {"format": "opalgebra expression", "version": 1, "rows": [row, ..., row]}

The last row is the expression. A row is a list of the name of a node and its fields, where a number of a row, from 0, stands
for what an earlier row is:

    ["Atom", base, [index, ...], kind, space, space]      domain, then codomain; V3 has the base V and the index "3"
    ["Identity", space]                                   ["Zero", domain, codomain]
    ["Sum", [[scalar, row], ...]]                         ["Compose", left, right]
    ["Dressed", row, state]                               ["Source", row, state]
    ["Tensor", [row, ...]]                                ["TraceOf", row, [place of a factor, ...]]
    ["InverseOf", row]  ["AdjointOf", row]  ["TransposeOf", row]  ["Commutator", left, right]  ["FunctionOf", name, row]
    ["OrderedProduct", body, level, lower, upper]         ["IndexedSum", body, level, lower, upper]
    ["OrderedSum", body, level, upper, order, line]

A space is the list of the names of its factors, `[]` for K and `["1"]` for the one-point space. A scalar is a fraction in
digits, `"3"` or `"-1/2"`, or a list of terms `[fraction, [[symbol, sort, exponent], ...]]`, and an index or bound is such a
scalar too. A binder of level n, which is one above the binders inside it, binds the natural symbol `#n` in its body.

Reading calls the constructors, never code that the text names: a table in another order of terms than the canonical one is
read as the operator that it means, and one that means nothing is refused.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from opalgebra.adjoint import adjoint, transpose
from opalgebra.atoms import family
from opalgebra.commutator import commutator
from opalgebra.dressing import dressed, source
from opalgebra.effort import Effort, terms_of
from opalgebra.errors import InputError, LimitError, OpalgebraError, SpaceError
from opalgebra.expr import (
    Atom,
    Identity,
    Operator,
    Sum,
    Zero,
    as_index,
    bound_symbol,
    compose,
    linear_combination,
    split_name,
    table,
    terms,
)
from opalgebra.function import function
from opalgebra.indexed import IndexedSum, OrderedProduct, OrderedSum, indexed_sum, ordered_product, ordered_sum
from opalgebra.inverse import inverse
from opalgebra.scalar import Polynomial, Scalar, Symbol, check_symbol, scalar_of
from opalgebra.space import Kind, Space
from opalgebra.tensor import Tensor, tensor
from opalgebra.trace import trace

FORMAT = "opalgebra expression"
VERSION = 1
_WRITERS = {FORMAT: "to_json", "opalgebra certificate": "certificate"}
LONGEST = 10_000_000
_FRACTION = re.compile(r"-?[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?")
_BOUND = re.compile(r"#[1-9][0-9]{0,5}")
_LIGHT = 100
_LONGEST_MESSAGE = 1_000
_MOST_FACTORS = 1_000
_FEWEST_STEPS = 50_000


def to_json(operator: Operator) -> str:
    """The operator as JSON text: `from_json(to_json(A)) is A`. The size is linear in the number of different nodes.

    >>> import opalgebra as oa
    >>> A = oa.Atom("A", kind="linear")
    >>> oa.from_json(oa.to_json(2 * A @ A)) is 2 * A @ A
    True
    """
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no table; to_json writes operators")
    return written_table(FORMAT, (row(node, fields) for node, fields in table(operator)))


def written_table(format: str, rows: Iterable[list[Any]]) -> str:
    """Rows as a text of a format."""
    lines = ",\n".join(map(json.dumps, rows))
    return f'{{"format": "{format}", "version": {VERSION}, "rows": [\n{lines}\n]}}\n'


def row(node: type[Operator], fields: tuple[Any, ...]) -> list[Any]:
    """The row of a node whose fields hold numbers of rows in place of operators."""
    if node in (Sum, Tensor):
        return [node.__name__, written(fields)]
    if issubclass(node, Atom):
        base, indices, *rest = fields
        fields = (base, tuple(map(_exact, indices)), *rest)
    if issubclass(node, OrderedProduct | IndexedSum | OrderedSum):
        body, level, first, second, *line = fields
        fields = (body, level, _exact(first), _exact(second), *line)
    return [node.__name__, *map(written, fields)]


def _exact(index: Any) -> Any:
    return Fraction(index) if isinstance(index, int) else index


def written(field: Any) -> Any:
    """A field in JSON: a space, scalar, name or number."""
    if isinstance(field, tuple):
        return [written(part) for part in field]
    if isinstance(field, Space):
        return list(field.factors)
    if isinstance(field, Fraction):
        return str(field)
    if isinstance(field, Polynomial):
        return [[str(c), [[found.name, found.sort, exponent] for found, exponent in monomial]] for monomial, c in field.terms]
    return int(field) if isinstance(field, int) else str(field)


def from_json(text: str, *, limit: int = LONGEST) -> Operator:
    """The operator that `to_json` wrote, by the constructors of its nodes and with all their checks.

    InputError for a text that is not of the format, with the row; SpaceError or NotLinearError where the parts of a node do
    not fit; LimitError for more than `limit` characters, or for a table that would take much more work than its size.
    """
    rows = rows_of(text, FORMAT, limit)
    reader = Reader(_FEWEST_STEPS + 20 * len(rows), NODES)
    reader.read_all(rows)
    result = reader.operator(len(rows) - 1)
    unbound = sorted(found.name for found in result.symbols if found.name.startswith("#"))
    if unbound:
        raise InputError(f"{unbound[0]} is an index that no product or sum binds; a binder of this level is missing")
    return result


def rows_of(text: str, format: str, limit: int) -> list[Any]:
    """The rows of a text of a format. InputError for another text, LimitError for more than `limit` characters."""
    if not isinstance(text, str):
        raise InputError(f"{type(text).__name__} is no text; decode the bytes of a file, or read it with encoding='utf-8'")
    if len(text) > limit:
        raise LimitError(f"the text has {len(text):,} characters, more than {limit:,}; pass a larger limit= if it is yours")
    return _rows(_loaded(text), format)


def _loaded(text: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in items}) < len(items):
            raise InputError("a name occurs twice in one object; each of format, version and rows is given once")
        return dict(items)

    numbers: Any = {"parse_float": _inexact, "parse_constant": _inexact, "parse_int": _integer}
    try:
        return json.loads(text, object_pairs_hook=pairs, **numbers)
    except json.JSONDecodeError as error:
        place = f"from character {error.pos + 1} on ({error.msg})"
        raise InputError(f"the text is no JSON {place}; write it with to_json") from None
    except RecursionError:
        raise InputError("the text is nested more deeply than the format ever is; write it with to_json") from None


def _inexact(written: str) -> Any:
    raise InputError(f"{written[:20]} is no number of the format, which is exact; write fractions as text, as in '1/2'")


def _integer(written: str) -> int:
    if len(written) > 12:
        raise InputError(f"{written[:20]}... is too large for the number of a row, a place or an exponent; write it as text")
    return int(written)


def _rows(loaded: Any, format: str) -> list[Any]:
    if not isinstance(loaded, dict) or loaded.get("format") != format:
        raise InputError(f'the text needs "format": "{format}"; write it with {_WRITERS[format]}')
    if type(loaded.get("version")) is not int or loaded["version"] != VERSION:
        raise InputError(f"the version {str(loaded.get('version'))[:20]!r} is unknown; this library reads version {VERSION}")
    rows = loaded.get("rows")
    if loaded.keys() != {"format", "version", "rows"} or not isinstance(rows, list) or not rows:
        raise InputError(f"the text has format, version, and rows, at least one; write it with {_WRITERS[format]}")
    return rows


def list_of(value: Any, what: str) -> list[Any]:
    """A list. InputError for anything else."""
    if not isinstance(value, list):
        raise InputError(f"{_shown(value)} is no list of {what}")
    return value


def _beginning(message: str) -> str:
    return message if len(message) < _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]} ..."


def _shown(value: Any) -> str:
    """The beginning of a value, which may be large."""
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value):,}"
    return repr(value[:20] if isinstance(value, str) else value)


def text_of(value: Any) -> str:
    """A text of at most 200 characters."""
    if not isinstance(value, str) or len(value) > 200:
        raise InputError(f"{_shown(value)} is no name of at most 200 characters")
    return value


def number_of(value: Any) -> int:
    """A whole number."""
    if type(value) is not int:
        raise InputError(f"{_shown(value)} is no whole number")
    return value


def space_of(value: Any) -> Space:
    """A space."""
    names = list_of(value, "names of factors")
    if len(names) > _MOST_FACTORS:
        raise LimitError(f"a space has {len(names):,} factors, more than {_MOST_FACTORS:,}; give several of them one name")
    return _space(*map(text_of, names))


@lru_cache(maxsize=1_000)
def _space(*names: str) -> Space:
    """One object for equal spaces, which are compared for each term of a sum."""
    return Space(*names)


def _fraction(value: Any) -> Fraction:
    if not isinstance(value, str) or _FRACTION.fullmatch(value) is None:
        raise InputError(f"{_shown(value)} is no fraction of at most 1,000 digits, such as '3' or '-1/2'")
    return Fraction(value)


def scalar_of_row(value: Any) -> Scalar:
    """A scalar."""
    if not isinstance(value, list):
        return _fraction(value)
    parts = [list_of(term, "a fraction and its symbols") for term in value]
    if any(len(part) != 2 for part in parts):
        raise InputError("a term of a scalar is a list of a fraction and its symbols")
    return Polynomial._make((_monomial(symbols), _fraction(coefficient)) for coefficient, symbols in parts)


def _monomial(value: Any) -> tuple[tuple[Symbol, int], ...]:
    powers: dict[Symbol, int] = {}
    for power in list_of(value, "symbols"):
        if len(list_of(power, "a symbol, its sort and its exponent")) != 3:
            raise InputError("a power is a list of a symbol, its sort and its exponent")
        name, sort, exponent = text_of(power[0]), power[1], number_of(power[2])
        if sort not in ("natural", "real", "positive"):
            raise InputError(f"{_shown(sort)} is no sort of a symbol; use natural, real or positive")
        if not (sort == "natural" and _BOUND.fullmatch(name)):
            check_symbol(name)
        powers[Symbol(name, sort)] = powers.get(Symbol(name, sort), 0) + exponent
    return tuple(sorted((found, exponent) for found, exponent in powers.items() if exponent))


class Reader:
    """The values of the rows so far; `nodes` says how each row is read."""

    def __init__(self, steps: int, nodes: "Mapping[str, Row]") -> None:
        self.built: list[Any] = []
        self.effort = Effort(steps)
        self.nodes = nodes

    def read_all(self, rows: list[Any]) -> None:
        """Reads rows one by one; an error says in which row."""
        for number, given in enumerate(rows):
            try:
                self.built.append(self.read(given))
            except OpalgebraError as error:
                raise type(error)(f"row {number}: {_beginning(str(error))}") from None

    def read(self, given: Any) -> Any:
        """The value of the next row."""
        name, *fields = list_of(given, "a name and fields") or [None]
        known = self.nodes.get(name) if isinstance(name, str) else None
        if known is None:
            raise InputError(f"{_shown(name)} is no name of a row; this library knows {', '.join(self.nodes)}")
        if len(fields) != len(known.fields):
            raise InputError(f"{name} has the fields {', '.join(known.fields)}; {len(fields)} are given")
        return known.build(self, *fields)

    def value(self, given: Any, kind: Any, what: str) -> Any:
        """The value of an earlier row, of the kind that is asked."""
        number = number_of(given)
        if not 0 <= number < len(self.built):
            raise InputError(f"{number} is not the number of an earlier row")
        if not isinstance(self.built[number], kind):
            raise InputError(f"row {number} is no {what}")
        return self.built[number]

    def operator(self, given: Any) -> Operator:
        """The operator of an earlier row."""
        return self.value(given, Operator, "operator")  # type: ignore[no-any-return]

    def make(self, build: Callable[..., Operator], rows: list[Any], *, before: Any = (), after: Any = ()) -> Operator:
        """What a constructor makes of some rows, where `before` and `after` are its other arguments.

        Large operators are first replaced by atoms of the same kind, for a refusal names the operators that it refuses.
        """
        operators = [self.operator(row) for row in rows]
        large = [self.effort.weight(operator) > _LIGHT for operator in operators]
        if any(large):
            parts = zip(rows, operators, large)
            build(*before, *(_named(f"row{row}", operator) if big else operator for row, operator, big in parts), *after)
        return self.effort.build(build, *before, *operators, *after)


def _named(name: str, operator: Operator) -> Operator:
    """An atom with the same spaces, linear where the operator is."""
    kind = Kind.STATE if operator.is_state else Kind.LINEAR if operator.is_linear else Kind.NONLINEAR
    return Atom(name, kind=kind, domain=operator.domain, codomain=operator.codomain)


def _atom(reader: Reader, base: Any, indices: Any, kind: Any, domain: Any, codomain: Any) -> Operator:
    places = tuple(as_index(scalar_of_row(index), of=text_of(base)) for index in list_of(indices, "indices"))
    name = text_of(base) + "_".join(map(str, places))
    if not all(isinstance(place, int) for place in places) or len(name) > 200 or split_name(name)[0] != base:
        family(base, kind="linear")
    return Atom._make(base, places, text_of(kind), space_of(domain), space_of(codomain))


def _sum(reader: Reader, pairs: Any) -> Operator:
    parts: list[tuple[Scalar, Operator]] = []
    for pair in list_of(pairs, "terms"):
        if len(list_of(pair, "a scalar and a row")) != 2:
            raise InputError("a term of a sum is a list of a scalar and a row")
        scalar, term = scalar_of_row(pair[0]), reader.operator(pair[1])
        first = parts[0][1] if parts else term
        if (term.domain, term.codomain) != (first.domain, first.codomain):
            raise SpaceError(
                f"row {pair[1]} maps {term.domain} to {term.codomain} and cannot be added to a map from {first.domain} to "
                f"{first.codomain}; the spaces of a sum are equal"
            )
        reader.effort.spend(sum(terms_of(scalar) * terms_of(inner) for inner, _ in terms(term)) - 1)
        parts.append((scalar, term))
    if not parts:
        raise InputError("a sum has at least one term; write the zero map between two spaces as Zero")
    return linear_combination(parts, parts[0][1].domain, parts[0][1].codomain)


def _trace(reader: Reader, row: Any, places: Any) -> Operator:
    over = [number_of(place) for place in list_of(places, "places of factors")]
    if not over:
        raise InputError("a trace is over at least one factor, counted from 0")
    return reader.make(trace, [row], after=over)


def _binder(build: Callable[..., Operator]) -> Callable[..., Operator]:
    """Reads an ordered product, sum, or ordered sum; its bounds are those of the public constructor."""

    def read(reader: Reader, row: Any, level: Any, first: Any, second: Any, *line: Any) -> Operator:
        rows = [row, *line]
        inside = max(reader.operator(number).height for number in rows)
        if number_of(level) != inside + 1:
            raise InputError(f"a binder over row {row} has the level {inside + 1}, one above those inside, not {level}")
        bounds = [scalar_of_row(bound) for bound in (first, second)]
        whole = [int(b) if isinstance(b, Fraction) and b.denominator == 1 else b for b in bounds]
        return reader.make(build, [row], after=(scalar_of(bound_symbol(level)), *whole, *map(reader.operator, line)))

    return read


def _of_rows(build: Callable[..., Operator]) -> Callable[..., Operator]:
    return lambda reader, *rows: reader.make(build, list(rows))


class Row(NamedTuple):
    """The fields of a node, and what reads them."""

    fields: tuple[str, ...]
    build: Callable[..., Any]


_PAIR = ("left", "right")
_RANGE = ("body", "level", "lower", "upper")
NODES = {
    "Atom": Row(("base", "indices", "kind", "domain", "codomain"), _atom),
    "Identity": Row(("space",), lambda reader, space: Identity(space_of(space))),
    "Zero": Row(("domain", "codomain"), lambda reader, domain, codomain: Zero(space_of(domain), space_of(codomain))),
    "Sum": Row(("terms",), _sum),
    "Compose": Row(_PAIR, _of_rows(compose)),
    "Dressed": Row(("operator", "state"), _of_rows(dressed)),
    "Source": Row(("operator", "state"), _of_rows(source)),
    "Tensor": Row(("blocks",), lambda reader, blocks: reader.make(tensor, list_of(blocks, "rows"))),
    "InverseOf": Row(("operator",), _of_rows(inverse)),
    "AdjointOf": Row(("operator",), _of_rows(adjoint)),
    "TransposeOf": Row(("operator",), _of_rows(transpose)),
    "Commutator": Row(_PAIR, _of_rows(commutator)),
    "TraceOf": Row(("operator", "over"), _trace),
    "FunctionOf": Row(("name", "operator"), lambda reader, name, row: reader.make(function, [row], before=(text_of(name),))),
    "OrderedProduct": Row(_RANGE, _binder(ordered_product)),
    "IndexedSum": Row(_RANGE, _binder(indexed_sum)),
    "OrderedSum": Row(("body", "level", "upper", "order", "line"), _binder(ordered_sum)),
}
