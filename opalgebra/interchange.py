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
    ["OrderedSum", body, level, upper, order]

A space is the list of the names of its factors, `[]` for K and `["1"]` for the one-point space. A scalar is a fraction in
digits, `"3"` or `"-1/2"`, or a list of terms `[fraction, [[symbol, sort, exponent], ...]]`, and an index or bound is such a
scalar too. A binder of level n, which is one above the binders inside it, binds the natural symbol `#n` in its body.

Reading calls the constructors, never code that the text names: a table in another order of terms than the canonical one is
read as the operator that it means, and one that means nothing is refused.
"""

import json
import re
from collections.abc import Callable
from fractions import Fraction
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
    table,
    terms,
)
from opalgebra.function import function
from opalgebra.indexed import IndexedSum, OrderedProduct, OrderedSum, indexed_sum, ordered_product, ordered_sum
from opalgebra.inverse import inverse
from opalgebra.scalar import Polynomial, Scalar, Symbol, parameter, scalar_of, symbol
from opalgebra.space import Kind, Space
from opalgebra.tensor import Tensor, tensor
from opalgebra.trace import trace

FORMAT = "opalgebra expression"
VERSION = 1
LONGEST = 10_000_000
_FRACTION = re.compile(r"-?[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?")
_BOUND = re.compile(r"#[1-9][0-9]{0,5}")
_LIGHT = 100
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
    rows = (json.dumps(_row(node, fields)) for node, fields in table(operator))
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "rows": [\n' + ",\n".join(rows) + "\n]}\n"


def _row(node: type[Operator], fields: tuple[Any, ...]) -> list[Any]:
    if node in (Sum, Tensor):
        return [node.__name__, _written(fields)]
    if issubclass(node, Atom):
        base, indices, *rest = fields
        fields = (base, tuple(map(_exact, indices)), *rest)
    if issubclass(node, OrderedProduct | IndexedSum | OrderedSum):
        body, level, *bounds = fields
        fields = (body, level, *map(_exact, bounds))
    return [node.__name__, *map(_written, fields)]


def _exact(index: Any) -> Any:
    return Fraction(index) if isinstance(index, int) else index


def _written(field: Any) -> Any:
    if isinstance(field, tuple):
        return [_written(part) for part in field]
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
    if not isinstance(text, str):
        raise InputError(f"{type(text).__name__} is no text; decode the bytes of a file, or read it with encoding='utf-8'")
    if len(text) > limit:
        raise LimitError(f"the text has {len(text):,} characters, more than {limit:,}; pass a larger limit= if it is yours")
    rows = _rows(_loaded(text))
    reader = _Reader(len(rows))
    for number, row in enumerate(rows):
        try:
            reader.built.append(reader.read(row))
        except OpalgebraError as error:
            raise type(error)(f"row {number}: {error}") from None
    result = reader.built[-1]
    unbound = sorted(found.name for found in result.symbols if found.name.startswith("#"))
    if unbound:
        raise InputError(f"{unbound[0]} is an index that no product or sum binds; a binder of this level is missing")
    return result


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


def _rows(loaded: Any) -> list[Any]:
    if not isinstance(loaded, dict) or loaded.get("format") != FORMAT:
        raise InputError(f'the text is no expression: it needs "format": "{FORMAT}"; write it with to_json')
    if type(loaded.get("version")) is not int or loaded["version"] != VERSION:
        raise InputError(f"the version {str(loaded.get('version'))[:20]!r} is unknown; this library reads version {VERSION}")
    rows = loaded.get("rows")
    if loaded.keys() != {"format", "version", "rows"} or not isinstance(rows, list) or not rows:
        raise InputError("an expression has format, version, and rows, a list of at least one row; write it with to_json")
    return rows


def _list_of(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{_shown(value)} is no list of {what}")
    return value


def _shown(value: Any) -> str:
    """The beginning of a value, which may be large."""
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value):,}"
    return repr(value[:20] if isinstance(value, str) else value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise InputError(f"{_shown(value)} is no name of at most 200 characters")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise InputError(f"{_shown(value)} is no whole number")
    return value


def _space(value: Any) -> Space:
    names = _list_of(value, "names of factors")
    if len(names) > _MOST_FACTORS:
        raise LimitError(f"a space has {len(names):,} factors, more than {_MOST_FACTORS:,}; give several of them one name")
    return Space(*map(_text, names))


def _fraction(value: Any) -> Fraction:
    if not isinstance(value, str) or _FRACTION.fullmatch(value) is None:
        raise InputError(f"{_shown(value)} is no fraction of at most 1,000 digits, such as '3' or '-1/2'")
    return Fraction(value)


def _scalar(value: Any) -> Scalar:
    if not isinstance(value, list):
        return _fraction(value)
    parts = [_list_of(term, "a fraction and its symbols") for term in value]
    if any(len(part) != 2 for part in parts):
        raise InputError("a term of a scalar is a list of a fraction and its symbols")
    return Polynomial._make((_monomial(symbols), _fraction(coefficient)) for coefficient, symbols in parts)


def _monomial(value: Any) -> tuple[tuple[Symbol, int], ...]:
    powers: dict[Symbol, int] = {}
    for power in _list_of(value, "symbols"):
        if len(_list_of(power, "a symbol, its sort and its exponent")) != 3:
            raise InputError("a power is a list of a symbol, its sort and its exponent")
        name, sort, exponent = _text(power[0]), power[1], _number(power[2])
        if sort not in ("natural", "real", "positive"):
            raise InputError(f"{_shown(sort)} is no sort of a symbol; use natural, real or positive")
        if not (sort == "natural" and _BOUND.fullmatch(name)):
            symbol(name) if sort == "natural" else parameter(name)
        powers[Symbol(name, sort)] = powers.get(Symbol(name, sort), 0) + exponent
    return tuple(sorted((found, exponent) for found, exponent in powers.items() if exponent))


class _Reader:
    """The operators of the rows so far."""

    def __init__(self, count: int) -> None:
        self.built: list[Operator] = []
        self.effort = Effort(_FEWEST_STEPS + 20 * count)

    def read(self, row: Any) -> Operator:
        """The operator of the next row."""
        name, *fields = _list_of(row, "a name and fields") or [None]
        known = _NODES.get(name) if isinstance(name, str) else None
        if known is None:
            raise InputError(f"{_shown(name)} is no name of a node; this library knows {', '.join(_NODES)}")
        if len(fields) != len(known.fields):
            raise InputError(f"{name} has the fields {', '.join(known.fields)}; {len(fields)} are given")
        return known.build(self, *fields)

    def operator(self, value: Any) -> Operator:
        number = _number(value)
        if not 0 <= number < len(self.built):
            raise InputError(f"{number} is not the number of an earlier row")
        return self.built[number]

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


def _atom(reader: _Reader, base: Any, indices: Any, kind: Any, domain: Any, codomain: Any) -> Operator:
    places = tuple(as_index(_scalar(index), of=_text(base)) for index in _list_of(indices, "indices"))
    name = _text(base) + "_".join(map(str, places))
    if not all(isinstance(place, int) for place in places) or len(name) > 200 or Atom(name, kind="linear").base != base:
        family(base, kind="linear")
    return Atom._make(base, places, _text(kind), _space(domain), _space(codomain))


def _sum(reader: _Reader, pairs: Any) -> Operator:
    parts: list[tuple[Scalar, Operator]] = []
    for pair in _list_of(pairs, "terms"):
        if len(_list_of(pair, "a scalar and a row")) != 2:
            raise InputError("a term of a sum is a list of a scalar and a row")
        scalar, term = _scalar(pair[0]), reader.operator(pair[1])
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


def _trace(reader: _Reader, row: Any, places: Any) -> Operator:
    over = [_number(place) for place in _list_of(places, "places of factors")]
    if not over:
        raise InputError("a trace is over at least one factor, counted from 0")
    return reader.make(trace, [row], after=over)


def _binder(build: Callable[..., Operator]) -> Callable[..., Operator]:
    """Reads an ordered product, sum, or ordered sum; its bounds are those of the public constructor."""

    def read(reader: _Reader, row: Any, level: Any, first: Any, second: Any) -> Operator:
        body = reader.operator(row)
        if _number(level) != body.height + 1:
            raise InputError(f"a binder over row {row} has the level {body.height + 1}, one above those inside, not {level}")
        bounds = [_scalar(bound) for bound in (first, second)]
        whole = [int(b) if isinstance(b, Fraction) and b.denominator == 1 else b for b in bounds]
        return reader.make(build, [row], after=(scalar_of(bound_symbol(level)), *whole))

    return read


def _of_rows(build: Callable[..., Operator]) -> Callable[..., Operator]:
    return lambda reader, *rows: reader.make(build, list(rows))


class _Row(NamedTuple):
    """The fields of a node, and what reads them."""

    fields: tuple[str, ...]
    build: Callable[..., Operator]


_PAIR = ("left", "right")
_RANGE = ("body", "level", "lower", "upper")
_NODES = {
    "Atom": _Row(("base", "indices", "kind", "domain", "codomain"), _atom),
    "Identity": _Row(("space",), lambda reader, space: Identity(_space(space))),
    "Zero": _Row(("domain", "codomain"), lambda reader, domain, codomain: Zero(_space(domain), _space(codomain))),
    "Sum": _Row(("terms",), _sum),
    "Compose": _Row(_PAIR, _of_rows(compose)),
    "Dressed": _Row(("operator", "state"), _of_rows(dressed)),
    "Source": _Row(("operator", "state"), _of_rows(source)),
    "Tensor": _Row(("blocks",), lambda reader, blocks: reader.make(tensor, _list_of(blocks, "rows"))),
    "InverseOf": _Row(("operator",), _of_rows(inverse)),
    "AdjointOf": _Row(("operator",), _of_rows(adjoint)),
    "TransposeOf": _Row(("operator",), _of_rows(transpose)),
    "Commutator": _Row(_PAIR, _of_rows(commutator)),
    "TraceOf": _Row(("operator", "over"), _trace),
    "FunctionOf": _Row(("name", "operator"), lambda reader, name, row: reader.make(function, [row], before=(_text(name),))),
    "OrderedProduct": _Row(_RANGE, _binder(ordered_product)),
    "IndexedSum": _Row(_RANGE, _binder(indexed_sum)),
    "OrderedSum": _Row(("body", "level", "upper", "order"), _binder(ordered_sum)),
}
