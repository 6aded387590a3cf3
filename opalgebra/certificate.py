"""Certificates: a theorem as JSON text, and back by proving it again; nothing in the text is believed.

    {"format": "opalgebra certificate", "version": 1, "rows": [row, ..., row]}

The rows of `interchange`, and rows of these kinds, each naming earlier rows by their numbers; the last row is the theorem:

    ["Family", name, kind, domain, codomain]      ["Members", [index, ...], row]       the operators for members of a family
    ["Equal", row, row]  ["Linear", row]  ...     a declared fact and what it is of, see `facts`
    ["trans", row, row]  ["dress", row, facts]    a rule of `kernel` and its arguments: a step of the proof

Reading applies the rule of each step with all its checks, and gives the theorem that results. It needs the kernel and what is
below it, no more:

    python -m opalgebra.certificate FILE ...      replays certificates, one line for each; status 0 when all hold, else 1

What is shared is written once, so that a certificate is linear in the number of steps and of different nodes. The work that a
text may ask for is bounded in advance.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from itertools import repeat
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from opalgebra import charges, kernel
from opalgebra.adjoint import adjoint, transpose
from opalgebra.atoms import Family
from opalgebra.commutator import commutator
from opalgebra.dressing import dressed, source
from opalgebra.errors import InputError, LimitError, OpalgebraError
from opalgebra.expr import Atom, Operator, as_index, children, compose
from opalgebra.facts import (
    Adjoint,
    Causal,
    Commute,
    Equal,
    Every,
    Fact,
    Form,
    Homogeneous,
    Idempotent,
    Inverse,
    Linear,
    Nilpotent,
)
from opalgebra.function import function
from opalgebra.indexed import Binder, IndexedSum, Range
from opalgebra.instances import Members
from opalgebra.interchange import (
    LONGEST,
    NODES,
    Reader,
    Row,
    list_of,
    number_of,
    row,
    rows_of,
    scalar_of_row,
    space_of,
    text_of,
    written,
    written_table,
)
from opalgebra.inverse import inverse
from opalgebra.kernel import Theorem
from opalgebra.scalar import Symbol, as_scalar, scalar_of, symbol, the_symbol
from opalgebra.tensor import tensor
from opalgebra.trace import trace

FORMAT = "opalgebra certificate"
STEPS = 3_000_000
_FACTS = {found.__name__: found for found in (
    Equal, Linear, Homogeneous, Commute, Idempotent, Nilpotent, Inverse, Adjoint, Causal, Form, Every
)}  # fmt: skip
_BUILDERS: dict[str, Callable[..., Operator]] = {build.__name__: build for build in (
    compose, add, tensor, commutator, inverse, adjoint, transpose, trace, function, dressed, source
)}  # fmt: skip
_NAMES = {build: name for name, build in _BUILDERS.items()}


def certificate(theorem: Theorem) -> str:
    """The proof of a theorem as JSON text: `check(certificate(theorem))` has the same sides and hypotheses.

    >>> import opalgebra as oa
    >>> A, B, C = oa.atoms("A B C", kind="linear")
    >>> oa.check(oa.certificate(oa.expand((A + B) @ C))).rhs == A @ C + B @ C
    True
    """
    if not isinstance(theorem, Theorem):
        raise InputError(f"{theorem!r} is no theorem; prove it first, for only a proof can be written down")
    places: dict[Any, int] = {}
    rows: list[list[Any]] = []
    waiting: list[Any] = [theorem]
    while waiting:
        item = waiting[-1]
        missing = [] if item in places else [part for part in _parts(item) if part not in places]
        if not missing:
            waiting.pop()
            if item not in places:
                places[item] = len(rows)
                rows.append(_row(item, places))
        waiting += reversed(missing)
    return written_table(FORMAT, rows)


_ROWS = (Operator, Theorem, Fact, Family, Members)


def _parts(item: Any) -> list[Any]:
    """What has rows of its own in a row."""
    if isinstance(item, Operator):
        return list(children(item, backgrounds=True, bodies=True))
    if isinstance(item, Members):
        return [item.operator]
    if isinstance(item, Family):
        return []
    values = [getattr(item, part.name) for part in fields(item)] if isinstance(item, Fact) else list(item.arguments)
    found: list[Any] = []
    for value in values:
        if isinstance(value, _ROWS):
            found.append(value)
        elif isinstance(value, Mapping):
            found += [part for pair in value.items() for part in pair if isinstance(part, _ROWS)]
        elif isinstance(value, frozenset):
            found += sorted(value, key=_order)
    return found


def _order(fact: Fact) -> tuple[str, ...]:
    """An order of facts that is the same on every machine."""
    values = [getattr(fact, part.name) for part in fields(fact)]
    return type(fact).__name__, *(value.digest.hex() if isinstance(value, Operator) else repr(value) for value in values)


def _row(item: Any, places: Mapping[Any, int]) -> list[Any]:
    if isinstance(item, Operator):
        return row(type(item), _placed(item.fields, places))
    if isinstance(item, Family):
        return ["Family", item.name, str(item.kind), written(item.domain), written(item.codomain)]
    if isinstance(item, Members):
        return ["Members", [found.name for found in item.indices], places[item.operator]]
    if isinstance(item, Fact):
        values = [getattr(item, part.name) for part in fields(item)]
        return [type(item).__name__, *(_of_fact(value, places) for value in values)]
    sorts = _RULES[item.rule].sorts
    given = item.arguments
    if len(sorts) == 2 and sorts[1].several:
        return [item.rule, sorts[0].write(places, given[0]), [sorts[1].write(places, value) for value in given[1:]]]
    return [item.rule, *(sort.write(places, value) for sort, value in zip(sorts, given, strict=True))]


def _placed(value: Any, places: Mapping[Any, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_placed(part, places) for part in value)
    return places[value] if isinstance(value, Operator) else value


def _of_fact(value: Any, places: Mapping[Any, int]) -> Any:
    if isinstance(value, Operator | Family):
        return places[value]
    return value if value is None or isinstance(value, str) else written(as_scalar(value))


def check(text: str, *, limit: int = LONGEST, steps: int = STEPS) -> Theorem:
    """The theorem that a certificate proves, proved again; `oa.certificate` writes the text.

    InputError, SpaceError or NotLinearError in one line, with the row, for a text that is no proof; LimitError for more than
    `limit` characters, or for a proof that would take more than `steps` steps and 200 for each of its rows.
    """
    rows = rows_of(text, FORMAT, limit)
    reader = Reader(steps + 200 * len(rows), _ROW_KINDS)
    reader.read_all(rows)
    return reader.value(len(rows) - 1, Theorem, "theorem, as the last row is")  # type: ignore[no-any-return]


class _Sort(NamedTuple):
    """How an argument of a rule is written and read; `several` when the rule takes any number of them."""

    write: Callable[[Mapping[Any, int], Any], Any]
    read: Callable[[Reader, Any], Any]
    several: bool = False


def _of_rows(kind: Any, what: str) -> _Sort:
    return _Sort(lambda places, value: places[value], lambda reader, given: reader.value(given, kind, what))


def _facts(reader: Reader, given: Any) -> frozenset[Fact]:
    return frozenset(reader.value(place, Fact, "fact") for place in list_of(given, "facts"))


def _truth(reader: Reader, given: Any) -> bool:
    if not isinstance(given, bool):
        raise InputError(f"{str(given)[:20]} is not true or false")
    return given


def _index(reader: Reader, given: Any) -> Any:
    return as_index(scalar_of_row(given), of="depth")


def _symbol(reader: Reader, given: Any) -> Symbol:
    return the_symbol(scalar_of_row(given))


def _written_symbol(places: Mapping[Any, int], found: Symbol) -> Any:
    return written(scalar_of(found))


def _written_argument(places: Mapping[Any, int], value: Any) -> Any:
    """A row as its number; a text as itself; an index, or a tuple of them, as a list of scalars."""
    if isinstance(value, _ROWS):
        return places[value]
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return [written(as_scalar(part)) for part in value]
    return {"scalar": written(as_scalar(value))}


def _argument(reader: Reader, given: Any) -> Any:
    if isinstance(given, str):
        return text_of(given)
    if isinstance(given, list):
        return tuple(as_index(scalar_of_row(part), of="index") for part in given)
    if isinstance(given, dict):
        if given.keys() != {"scalar"}:
            raise InputError("an argument is a row, a text, a list of indices, or a scalar")
        scalar = scalar_of_row(given["scalar"])
        return int(scalar) if isinstance(scalar, Fraction) and scalar.denominator == 1 else scalar
    return reader.value(given, _ROWS, "part")


def _values(reader: Reader, given: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for pair in list_of(given, "pairs"):
        if len(list_of(pair, "what is given a value, and the value")) != 2:
            raise InputError("a pair is what is given a value, and the value")
        key = _symbol(reader, pair[0]) if isinstance(pair[0], list) else reader.value(pair[0], Atom | Family, "atom or family")
        value = scalar_of_row(pair[1]) if isinstance(key, Symbol) else reader.value(pair[1], Operator | Members, "operator")
        if key in found:
            raise InputError(f"{key} is given two values")
        found[key] = value
    return found


def _written_values(places: Mapping[Any, int], values: Mapping[Any, Any]) -> Any:
    return [
        [written(scalar_of(key)), written(as_scalar(value))] if isinstance(key, Symbol) else [places[key], places[value]]
        for key, value in values.items()
    ]


def _builder(reader: Reader, given: Any) -> Callable[..., Operator]:
    if not isinstance(given, str) or given not in _BUILDERS:
        raise InputError(f"{str(given)[:20]!r} is no function of maps; congruence is under {', '.join(_BUILDERS)}")
    return _BUILDERS[given]


_OPERATOR, _THEOREM, _FACT = _of_rows(Operator, "operator"), _of_rows(Theorem, "theorem"), _of_rows(Fact, "fact")
_FACTS_USED = _Sort(lambda places, facts: sorted(places[fact] for fact in facts), _facts)
_TRUTH = _Sort(lambda places, value: value, _truth)
_WHOLE = _Sort(lambda places, value: int(value), lambda reader, given: number_of(given))
_DEPTH = _Sort(lambda places, value: written(as_scalar(value)), _index)
_SYMBOL = _Sort(_written_symbol, _symbol)
_PERHAPS_SYMBOL = _Sort(
    lambda places, found: found and _written_symbol(places, found),
    lambda reader, given: None if given is None else _symbol(reader, given),
)
_VALUES = _Sort(_written_values, _values)
_BUILD = _Sort(lambda places, build: _NAMES[build], _builder)
_ARGUMENTS = _Sort(_written_argument, _argument, several=True)
_BINDER, _RANGE, _SUM = (_of_rows(kind, "product or sum") for kind in (Binder, Range, IndexedSum))


class _Rule(NamedTuple):
    """What a rule of the kernel takes, and what charges its steps; true when the sides are surely short when written out."""

    make: Callable[..., Theorem]
    sorts: tuple[_Sort, ...]
    charge: Callable[..., bool | None] = charges.of_old_sides


_RULES = {
    "refl": _Rule(kernel.refl, (_OPERATOR,)),
    "sym": _Rule(kernel.sym, (_THEOREM,)),
    "trans": _Rule(kernel.trans, (_THEOREM, _THEOREM)),
    "cong": _Rule(kernel.cong, (_BUILD, _ARGUMENTS), charges.congruence),
    "right_dist": _Rule(kernel.right_dist, (_OPERATOR, _OPERATOR), charges.distribution),
    "left_dist": _Rule(kernel.left_dist, (_OPERATOR, _OPERATOR, _FACTS_USED), charges.distribution),
    "dress": _Rule(kernel.dress, (_OPERATOR, _FACTS_USED), charges.dress),
    "distribute": _Rule(
        lambda operator, facts, unfold: kernel.distribute(operator, facts, unfold=unfold),
        (_OPERATOR, _FACTS_USED, _TRUTH),
        charges.distribute,
    ),
    "assume": _Rule(kernel.assume, (_FACT, _ARGUMENTS), charges.assume),
    "instantiate": _Rule(kernel.instantiate, (_THEOREM, _VALUES), charges.instantiate),
    "under": _Rule(kernel.under, (_THEOREM, _BINDER, _SYMBOL, _PERHAPS_SYMBOL), charges.under),
    "unfold": _Rule(lambda binder, lower: kernel.unfold(binder, lower=lower), (_BINDER, _TRUTH), charges.binders),
    "reindex": _Rule(kernel.reindex, (_RANGE, _WHOLE), charges.binders),
    "sum_of_sums": _Rule(kernel.sum_of_sums, (_SUM,), charges.binders),
    "sum_right": _Rule(kernel.sum_right, (_SUM, _OPERATOR), charges.binders),
    "sum_left": _Rule(kernel.sum_left, (_OPERATOR, _SUM), charges.binders),
    "split": _Rule(kernel.split, (_RANGE, _DEPTH), charges.split),
    "induction": _Rule(kernel.induction, (_THEOREM, _THEOREM, _SYMBOL), charges.induction),
}


def _step(rule: _Rule) -> Callable[..., Theorem]:
    """Reads the row of a rule and applies it."""

    def read(reader: Reader, *given: Any) -> Theorem:
        arguments = [sort.read(reader, value) for sort, value in zip(rule.sorts, given) if not sort.several]
        several = rule.sorts[-1].several
        if several:
            arguments += [rule.sorts[-1].read(reader, value) for value in list_of(given[-1], "arguments")]
        try:
            short = rule.charge(reader.effort, *arguments)
            theorem = rule.make(*arguments)
        except (TypeError, AttributeError):
            if several:
                raise InputError("the arguments are not those of the rule") from None
            raise
        for side in () if short else (theorem.lhs, theorem.rhs):
            if reader.effort.weight(side) > charges.LONGEST_SIDE:
                raise LimitError(f"a side would have more than {charges.LONGEST_SIDE:,} nodes when written out; share less")
        return theorem

    return read


def _fact_row(kind: type[Fact]) -> Row:
    names = tuple(part.name for part in fields(kind))

    def part(reader: Reader, name: str, given: Any) -> Any:
        if name == "split":
            return text_of(given)
        if name == "power":
            return as_index(scalar_of_row(given), of="power")
        if name == "index":
            return scalar_of_row(given)
        if given is None and (kind, name) == (Inverse, "inverse"):
            return None
        return reader.value(given, Operator | Family, "operator or family")

    return Row(names, lambda reader, *values: kind(*map(part, repeat(reader), names, values)))


def _family_row(reader: Reader, name: Any, kind: Any, domain: Any, codomain: Any) -> Family:
    return Family(text_of(name), text_of(kind), space_of(domain), space_of(codomain))


def _members_row(reader: Reader, indices: Any, operator: Any) -> Members:
    names = [text_of(name) for name in list_of(indices, "names of indices")]
    return Members(tuple(the_symbol(symbol(name)) for name in names), reader.operator(operator))


_ROW_KINDS: dict[str, Row] = {
    **NODES,
    "Family": Row(("name", "kind", "domain", "codomain"), _family_row),
    "Members": Row(("indices", "operator"), _members_row),
    **{name: _fact_row(kind) for name, kind in _FACTS.items()},
    **{name: Row(("arguments",) * len(rule.sorts), _step(rule)) for name, rule in _RULES.items()},
}


def _steps(theorem: Theorem) -> int:
    """The number of different steps of a proof."""
    seen: set[Theorem] = set()
    waiting = [theorem]
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting += found.premises
    return len(seen)


def main(paths: list[str]) -> int:
    """Replays the certificates in files and prints one line for each; 0 when all hold."""
    status = 0 if paths else 2
    if not paths:
        print("python -m opalgebra.certificate FILE ...: name the certificates to replay")
    for path in paths:
        try:
            theorem = check(read(Path(path)))
            print(f"{path}: proved in {_steps(theorem)} steps, {len(theorem.hypotheses)} hypotheses")
        except (OpalgebraError, OSError, UnicodeDecodeError) as error:
            print(f"{path}: refused: {error}")
            status = 1
    return status


def read(path: Path) -> str:
    """The text of a certificate; LimitError for a file that is too large to be one."""
    if path.stat().st_size > 4 * LONGEST:
        raise LimitError(f"the file has {path.stat().st_size:,} bytes, more than a certificate ever has")
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
