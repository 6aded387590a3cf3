"""Text to Operator: the grammar that `str` and `repr` of operators print, read by a table-driven parser, never evaluated.

    expression [where name = state, ..., name, name: kind [space -> space], ...]

The expression has `+`, `-`, `@`, a scalar times an operator (`1/2*g^2*A`), a scalar in a sum for a multiple of the identity,
`F<s>` for a dressing, `source(F, s)` for its source, `one(SPACE)` and `zero(SPACE, SPACE)`, `V[l + 1]` for a member of a
family declared as `V[]: kind`, `tensor(A, B)`, `inverse(A)`, `adjoint(A)`, `transpose(A)`, `commutator(A, B)`,
`function(exp, A)`, `trace(A)` or over numbered factors of its space `trace(A, 1)`, and `ordered_product(B, l, 1, L)`,
`sum(B, l, 1, L)`, `ordered_sum(B, l, L, n)`, `ordered_sum(B, l, L, n, U)` with a line, with a bound index l. A name in an index
or bound is a symbol for natural numbers; scalars are declared `natural`, `real` or `positive`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from itertools import zip_longest
from typing import Any

from opalgebra.adjoint import adjoint, transpose
from opalgebra.atoms import Family, family
from opalgebra.commutator import commutator
from opalgebra.dressing import dressed, source
from opalgebra.effort import MOST_DIGITS, Effort, terms_of
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom, Identity, Operator, Zero, compose, linear_combination, terms
from opalgebra.function import function
from opalgebra.indexed import indexed_sum, ordered_product, ordered_sum
from opalgebra.inverse import inverse
from opalgebra.scalar import (
    LONGEST_NAME,
    Polynomial,
    Scalar,
    Symbol,
    free_symbols,
    largest_integer,
    parameter,
    scalar_of,
    symbol,
)
from opalgebra.space import ONE, K, Kind, Space, X
from opalgebra.tensor import tensor
from opalgebra.trace import trace

MAX_LENGTH = 1_000_000
FEWEST_STEPS = 1_000

GRAMMAR = r"""
start: sum ["where" clause ("," clause)*]
clause: NAME "=" sum                                           -> definition
      | declared ("," declared)* ":" NAME [space ["->" space]] -> declaration
declared: NAME [FAMILY]
sum: SIGN? product (SIGN product)*
product: scaled ("@" factor)*
?scaled: factor ("*" factor)*
?factor: NUMBER                            -> number
       | NAME "^" [SIGN] NUMBER            -> power
       | atom
       | atom "<" sum ">"                  -> dressed
       | "source" "(" atom "," sum ")"     -> source
       | "one" "(" space ")"               -> one
       | "zero" "(" space "," space ")"    -> zero
       | "ordered_product" "(" sum "," NAME "," sum "," sum ")" -> ordered_product
       | "sum" "(" sum "," NAME "," sum "," sum ")"             -> indexed_sum
       | "ordered_sum" "(" sum "," NAME "," sum "," sum ["," sum] ")" -> ordered_sum
       | "tensor" "(" sum ("," sum)* ")"                        -> tensor
       | "inverse" "(" sum ")"                                  -> inverse
       | "adjoint" "(" sum ")"                                  -> adjoint
       | "transpose" "(" sum ")"                                -> transpose
       | "commutator" "(" sum "," sum ")"                       -> commutator
       | "function" "(" NAME "," sum ")"                        -> function
       | "trace" "(" sum ("," NUMBER)* ")"                      -> trace
       | "(" sum ")"
?atom: NAME                                -> name
     | NAME "[" sum ("," sum)* "]"         -> indexed
FAMILY: "[]"
space: (NAME | NUMBER) ("*" NAME)*
SIGN: "+" | "-"
NUMBER: /[0-9]{1,1000}(\/0{0,9}[1-9][0-9]{0,999}|\.[0-9]{1,1000})?/
NAME: /[^\W\d]\w*/
%ignore /\s+/
"""


@cache
def _parser() -> Any:
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr")


def parse(text: str, *, atoms: Iterable[Atom | Scalar | Symbol] = (), kind: str | None = None) -> Operator:
    """The operator that the text names; `parse(repr(op)) == op` and `parse(str(op), atoms=op.atoms) == op`.

    Names stand for the given atoms and scalar symbols, for what is declared after `where`, or, with `kind`, for atoms of
    that kind. Where an operator has scalar parameters, `parse(str(op), atoms=[*op.atoms, *op.symbols]) == op`.
    InputError says where the text stops making sense, or which name is unknown; spaces that do not fit raise SpaceError.

    >>> import opalgebra as oa
    >>> oa.parse("2*A @ B where A, B: linear")
    2*A @ B where A, B: linear
    """
    from lark.exceptions import UnexpectedInput

    if not isinstance(text, str):
        raise InputError(f"{type(text).__name__} is no text; parse reads what repr and str write")
    if len(text) > MAX_LENGTH:
        raise InputError(f"the text has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise InputError(_complaint(text, error)) from None
    body, *clauses = (child for child in tree.children if child is not None)
    given = [scalar_of(item) if isinstance(item, Symbol) else item for item in dict.fromkeys(atoms)]
    names: dict[str, Any] = {name: value for item in given for name, value in _given(item)}
    _refuse_repetition([_base_or_name(item) for item in given if not isinstance(item, Atom) or _is_plain(item)])
    _refuse_repetition([name for clause in clauses for name in _named_by(clause)])
    for clause in clauses:
        if clause.data == "declaration":
            _declare(clause.children, names)
    for name in _names_in_indices(tree):
        names.setdefault(name, symbol(name))
    known = names.keys() | {name for clause in clauses for name in _named_by(clause)}
    for name in _names_of_scalars(tree) if kind is None else ():
        if name not in known:
            raise InputError(_undeclared(name, "real"))
    effort = Effort(FEWEST_STEPS + len(text) // 2)
    for clause in clauses:
        if clause.data == "definition":
            defined = _operator(_value(clause.children[1], names, kind, effort))
            if effort.weight(defined) > FEWEST_STEPS + len(text):
                name = _shown(clause.children[0])
                raise LimitError(f"{name} would be too long when written out; use fewer names that repeat others")
            names[str(clause.children[0])] = defined
    return _operator(_value(body, names, kind, effort))


def _is_plain(atom: Atom) -> bool:
    return all(isinstance(index, int) for index in atom.indices)


def _given(item: Atom | Scalar) -> list[tuple[str, Any]]:
    """The names that a given atom or scalar explains: its own, and that of its family when an index has no value."""
    if isinstance(item, Atom):
        if _is_plain(item):
            return [(item.name, item)]
        return [(item.base, Family(item.base, kind=item.kind, domain=item.domain, codomain=item.codomain))]
    return [(found.name, scalar_of(found)) for found in free_symbols(item)]


def _base_or_name(item: Atom | Scalar) -> str:
    return item.name if isinstance(item, Atom) else str(item)


def _names_in_indices(tree: Any) -> Iterator[str]:
    """Every name inside an index or a bound, and every bound index; each part is visited once, at any depth."""
    stack = [(tree, False)]
    while stack:
        node, inside = stack.pop()
        if hasattr(node, "data"):
            binds = node.data in ("ordered_product", "indexed_sum", "ordered_sum")
            if binds or (inside and node.data in ("name", "power")):
                yield str(node.children[int(binds)])
            bounds = range(2, 4) if binds else range(int(node.data == "indexed"), len(node.children) * (node.data == "indexed"))
            stack += ((child, inside or place in bounds) for place, child in enumerate(node.children))


def _names_of_scalars(tree: Any) -> Iterator[str]:
    """Every name before a `*` or a power, alone or in a sum in brackets; each part is visited once, at any depth."""
    stack = [(tree, False)]
    while stack:
        node, scales = stack.pop()
        if hasattr(node, "data"):
            if node.data == "power" or (scales and node.data == "name"):
                yield str(node.children[0])
            below = scales and node.data in ("sum", "product", "scaled")
            last = len(node.children) - 1
            stack += ((child, below or (node.data == "scaled" and place < last)) for place, child in enumerate(node.children))


def _undeclared(name: str, kind: str) -> str:
    return f"{_shown(name)} is not declared; add 'where {_shown(name)}: {kind}' to the text or pass atoms="


def _shown(value: object) -> str:
    """A name or expression in an error: its beginning when it is long."""
    text = str(value)
    return text if len(text) <= LONGEST_NAME else f"{text[:20]}..."


def _complaint(text: str, error: Any) -> str:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return "the expression ends too early; write it as in A @ (1 + B)"
    place = error.pos_in_stream if token is None else token.start_pos
    found = text[place : place + 12]
    return f"the expression makes no sense from character {place + 1} on ({found!r}); write it as in A @ (1 + B)"


def _named_by(clause: Any) -> list[str]:
    if clause.data == "definition":
        return [str(clause.children[0])]
    return [str(child.children[0]) for child in clause.children if getattr(child, "data", "") == "declared"]


def _refuse_repetition(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(
                f"{_shown(name)} is declared {count} times; a text has one meaning for a name, so rename one of them"
            )


def _declare(children: list[Any], names: dict[str, Any]) -> None:
    spaces = [_space(child) for child in children if getattr(child, "data", "") == "space"]
    declared = [child.children for child in children if getattr(child, "data", "") == "declared"]
    kind = next(str(child) for child in children if child is not None and not hasattr(child, "data"))
    domain = spaces[0] if len(spaces) == 2 else (ONE if kind == Kind.STATE else X)
    for token, mark in declared:
        name = str(token)
        if kind in ("natural", "real", "positive"):
            names[name] = symbol(name) if kind == "natural" else parameter(name, positive=kind == "positive")
        else:
            make = Atom if mark is None else Family
            names[name] = make(name, kind=kind, domain=domain, codomain=spaces[-1] if spaces else X)


def _space(tree: Any) -> Space:
    parts = [str(child) for child in tree.children]
    special = {"1": ONE, "K": K, "X": X}
    return special[parts[0]] if len(parts) == 1 and parts[0] in special else Space(*parts)


def _value(tree: Any, names: dict[str, Any], kind: str | None, effort: Effort) -> Operator | Scalar:
    """The value of a parse tree, parts before wholes; a number stays a number until it meets an operator."""
    values: list[Any] = []
    work: list[tuple[Any, int | None]] = [(tree, None)]
    while work:
        node, ready = work.pop()
        if ready is not None:
            arguments = values[len(values) - ready :]
            del values[len(values) - ready :]
            values.append(_node(node.data, arguments, names, kind, effort))
        elif not hasattr(node, "data") or node.data == "space":
            values.append(node)
        else:
            children = {"product": _factors, "sum": _signed_terms}.get(node.data, _children)(node)
            work.append((node, len(children)))
            work += ((child, None) for child in reversed(children))
    return values[0]  # type: ignore[no-any-return]


def _children(tree: Any) -> list[Any]:
    return tree.children  # type: ignore[no-any-return]


def _factors(product: Any) -> list[Any]:
    """The number of scalars in front, the scalars, and the factors of a product.

    Bracketed products among the factors are dissolved, so that any grouping is linear work.
    """
    first, *others = product.children
    *scalars, factor = first.children if first.data == "scaled" else [first]
    children, stack = [len(scalars), *scalars], [*others[::-1], factor]
    while stack:
        child = stack.pop()
        if child.data == "sum" and len(child.children) == 1 and child.children[0].children[0].data != "scaled":
            stack += child.children[0].children[::-1]
        else:
            children.append(child)
    return children


def _signed_terms(tree: Any) -> list[Any]:
    """The terms of a sum, each behind its sign as 1 or -1, bracketed sums among them dissolved for the same reason."""
    children: list[Any] = []
    stack = [(1, tree)]
    while stack:
        sign, node = stack.pop()
        if node.data == "sum":
            own, parts = sign, []
            for child in node.children:
                if hasattr(child, "data"):
                    parts.append((own, child))
                else:
                    own = -sign if child == "-" else sign
            stack += reversed(parts)
        elif len(node.children) == 1 and node.children[0].data == "sum":
            stack.append((sign, node.children[0]))
        else:
            children += (sign, node)
    return children


_BUILDERS: dict[str, Any] = {
    "dressed": dressed,
    "source": source,
    "tensor": tensor,
    "inverse": inverse,
    "adjoint": adjoint,
    "transpose": transpose,
    "commutator": commutator,
}
_BINDERS: dict[str, Any] = {"ordered_product": ordered_product, "indexed_sum": indexed_sum, "ordered_sum": ordered_sum}


def _node(rule: str, arguments: list[Any], names: dict[str, Any], kind: str | None, effort: Effort) -> Any:
    if rule in _BUILDERS:
        return effort.build(_BUILDERS[rule], *map(_operator, arguments))
    if rule in _BINDERS:
        body, index, first, second, *line = arguments
        between = [_operator(part) for part in line if part is not None]
        return effort.build(_BINDERS[rule], _operator(body), names[str(index)], first, second, *between)
    match rule:
        case "number":
            return Fraction(str(arguments[0]))
        case "name":
            found = _named(arguments[0], names, kind)
            if isinstance(found, Operator) and not isinstance(found, Atom) and not found.is_state:
                effort.spend(effort.weight(found))
            return found
        case "indexed":
            return _member(arguments[0], names, kind)[tuple(arguments[1:])]
        case "power":
            return _power(_named(arguments[0], names, kind), *arguments[1:])
        case "one":
            return Identity(_space(arguments[0]))
        case "zero":
            return Zero(_space(arguments[0]), _space(arguments[1]))
        case "function":
            return function(str(arguments[0]), _operator(arguments[1]))
        case "trace":
            return effort.build(trace, _operator(arguments[0]), *map(_leg, arguments[1:]))
        case "product":
            return _product(arguments, effort)
        case _:
            return _sum(arguments, effort)


def _leg(token: Any) -> int:
    if not str(token).isdigit() or len(str(token)) > 4:
        raise InputError(f"{str(token)[:20]} numbers no factor of a space; a trace is over factors numbered from 0 on")
    return int(token)


def _power(base: Any, sign: Any, exponent: Any) -> Scalar:
    if not str(exponent).isdigit() or isinstance(base, Operator) or len(str(exponent)) > 4:
        power = f"{_shown(base)}^{_shown(exponent)}"
        raise InputError(f"{power}: only scalar symbols have powers, of at most four digits; write A @ A")
    return base ** (-int(exponent) if sign == "-" else int(exponent))  # type: ignore[no-any-return]


def _product(arguments: list[Any], effort: Effort) -> Operator | Scalar:
    count, *values = arguments
    scalars, factors = values[:count], values[count:]
    for value in scalars:
        if isinstance(value, Operator):
            shown = _shown(value)
            real = f", or declare a parameter by 'where {shown}: real'" if isinstance(value, Atom) else ""
            raise InputError(f"'*' multiplies by a scalar, and {shown} is none; write 2*A, or A @ B{real}")
    scale: Scalar = Fraction(1)
    for value in scalars:
        scale = _scaled(scale, value, effort)
    if len(factors) == 1:
        return _scaled(scale, factors[0], effort) if count else factors[0]  # type: ignore[no-any-return]
    result = _operator(factors[-1])
    for factor in reversed(factors[:-1]):
        result = effort.build(compose, _operator(factor), result)
    return _scaled(scale, result, effort) if count else result


def _scaled(scale: Scalar, value: Any, effort: Effort) -> Any:
    coefficients = [c for c, _ in terms(value)] if isinstance(value, Operator) else [value]
    effort.spend(terms_of(scale) * sum(map(terms_of, coefficients)) - 1 if isinstance(scale, Polynomial) else 0)
    result = scale * value
    if not isinstance(value, Operator) and largest_integer(result) >= 10**MOST_DIGITS:
        raise LimitError(f"a scalar would have more than {MOST_DIGITS:,} digits; use scalars with fewer")
    return result


def _sum(arguments: list[Any], effort: Effort) -> Operator | Scalar:
    signed = list(zip(arguments[::2], arguments[1::2]))
    operators = [(sign, value) for sign, value in signed if isinstance(value, Operator)]
    number = _total([sign * value for sign, value in signed if not isinstance(value, Operator)])
    if not operators:
        return number
    sizes: Counter[Operator] = Counter()
    for coefficient, term in (pair for _, value in operators for pair in terms(value)):
        if isinstance(coefficient, Polynomial):
            effort.spend(sizes[term] // 2)
            sizes[term] += len(coefficient.terms)
    first = operators[0][1]
    return linear_combination(operators, first.domain, first.codomain) + number


def _total(scalars: list[Scalar]) -> Scalar:
    """The sum of scalars, neighbours first, so that many symbols are little work."""
    while len(scalars) > 1:
        pairs = zip_longest(scalars[::2], scalars[1::2], fillvalue=Fraction(0))
        scalars = [first + second for first, second in pairs]
    return scalars[0] if scalars else Fraction(0)


def _operator(value: Any) -> Operator:
    return value if isinstance(value, Operator) else value * Identity(X)


def _named(token: Any, names: dict[str, Any], kind: str | None) -> Any:
    name = str(token)
    if name not in names:
        if kind is None:
            raise InputError(_undeclared(name, "linear"))
        names[name] = Atom(name, kind=kind)
    if isinstance(names[name], Family):
        raise InputError(f"{_shown(name)} is a family of operators; give it an index, as in {_shown(name)}[1]")
    return names[name]


def _member(token: Any, names: dict[str, Any], kind: str | None) -> Family:
    name = str(token)
    if name not in names:
        if kind is None:
            raise InputError(_undeclared(f"{_shown(name)}[]", "linear"))
        names[name] = family(name, kind=kind)
    if not isinstance(names[name], Family):
        shown = _shown(name)
        raise InputError(f"{shown} is declared as one operator and has no members; declare {shown}[] for a family")
    return names[name]  # type: ignore[no-any-return]
