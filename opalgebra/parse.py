"""Text to Operator: the grammar that `str` and `repr` of operators print, read by a table-driven parser, never evaluated.

    expression [where name = state, ..., name, name: kind [space -> space], ...]

The expression has `+`, `-`, `@`, a scalar times an operator (`1/2*A`), a scalar in a sum for a multiple of the identity,
`F<s>` for a dressing, `source(F, s)` for its source, `one(SPACE)` and `zero(SPACE, SPACE)`.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import Any

from opalgebra.dressing import dressed, source
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Identity, Operator, Zero, linear_combination
from opalgebra.space import ONE, K, Kind, Space, X

MAX_LENGTH = 1_000_000

GRAMMAR = r"""
start: sum ["where" clause ("," clause)*]
clause: NAME "=" sum                                   -> definition
      | NAME ("," NAME)* ":" NAME [space ["->" space]] -> declaration
sum: SIGN? product (SIGN product)*
product: [NUMBER "*"] factor ("@" factor)*
?factor: NUMBER                            -> number
       | NAME                              -> name
       | NAME "<" sum ">"                  -> dressed
       | "source" "(" NAME "," sum ")"     -> source
       | "one" "(" space ")"               -> one
       | "zero" "(" space "," space ")"    -> zero
       | "(" sum ")"
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


def parse(text: str, *, atoms: Iterable[Atom] = (), kind: str | None = None) -> Operator:
    """The operator that the text names; `parse(repr(op)) == op` and `parse(str(op), atoms=op.atoms) == op`.

    Names stand for the given atoms, for what is declared after `where`, or, with `kind`, for atoms of that kind.
    InputError says where the text stops making sense, or which name is unknown; spaces that do not fit raise SpaceError.

    >>> import opalgebra as oa
    >>> oa.parse("2*A @ B where A, B: linear")
    2*A @ B where A, B: linear
    """
    from lark.exceptions import UnexpectedInput

    if len(text) > MAX_LENGTH:
        raise InputError(f"the text has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise InputError(_complaint(text, error)) from None
    body, *clauses = (child for child in tree.children if child is not None)
    given = list(dict.fromkeys(atoms))
    _refuse_repetition([atom.name for atom in given])
    _refuse_repetition([name for clause in clauses for name in _named_by(clause)])
    names: dict[str, Operator] = {atom.name: atom for atom in given}
    for clause in clauses:
        if clause.data == "declaration":
            _declare(clause.children, names)
    for clause in clauses:
        if clause.data == "definition":
            names[str(clause.children[0])] = _operator(_value(clause.children[1], names, kind))
    return _operator(_value(body, names, kind))


def _complaint(text: str, error: Any) -> str:
    token = getattr(error, "token", None)
    if token is not None and token.type == "$END":
        return "the expression ends too early; write it as in A @ (1 + B)"
    place = error.pos_in_stream if token is None else token.start_pos
    found = text[place : place + 12]
    return f"the expression makes no sense from character {place + 1} on ({found!r}); write it as in A @ (1 + B)"


def _named_by(clause: Any) -> list[str]:
    tokens = [str(child) for child in clause.children if child is not None and not hasattr(child, "data")]
    return tokens if clause.data == "definition" else tokens[:-1]


def _refuse_repetition(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"{name} is declared {count} times; a text has one meaning for a name, so rename one of them")


def _declare(children: list[Any], names: dict[str, Operator]) -> None:
    tokens = [str(child) for child in children if child is not None and not hasattr(child, "data")]
    spaces = [_space(child) for child in children if hasattr(child, "data")]
    *declared, kind = tokens
    domain = spaces[0] if len(spaces) == 2 else (ONE if kind == Kind.STATE else X)
    for name in declared:
        names[name] = Atom(name, kind=kind, domain=domain, codomain=spaces[-1] if spaces else X)


def _space(tree: Any) -> Space:
    parts = [str(child) for child in tree.children]
    special = {"1": ONE, "K": K, "X": X}
    return special[parts[0]] if len(parts) == 1 and parts[0] in special else Space(*parts)


def _value(tree: Any, names: dict[str, Operator], kind: str | None) -> Operator | Fraction:
    """The value of a parse tree, parts before wholes; a number stays a number until it meets an operator."""
    values: list[Any] = []
    work: list[tuple[Any, int | None]] = [(tree, None)]
    while work:
        node, ready = work.pop()
        if ready is not None:
            arguments = values[len(values) - ready :]
            del values[len(values) - ready :]
            values.append(_node(node.data, arguments, names, kind))
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
    """The scalar and factors of a product, bracketed products among them dissolved, so that any grouping is linear work."""
    scalar, *factors = product.children
    children, stack = [scalar], factors[::-1]
    while stack:
        child = stack.pop()
        if getattr(child, "data", "") == "sum" and len(child.children) == 1 and child.children[0].children[0] is None:
            stack += child.children[0].children[:0:-1]
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
        elif len(node.children) == 2 and node.children[0] is None and getattr(node.children[1], "data", "") == "sum":
            stack.append((sign, node.children[1]))
        else:
            children += (sign, node)
    return children


def _node(rule: str, arguments: list[Any], names: dict[str, Operator], kind: str | None) -> Operator | Fraction:
    match rule:
        case "number":
            return Fraction(str(arguments[0]))
        case "name":
            return _named(arguments[0], names, kind)
        case "dressed":
            return dressed(_named(arguments[0], names, kind), _operator(arguments[1]))
        case "source":
            return source(_named(arguments[0], names, kind), _operator(arguments[1]))
        case "one":
            return Identity(_space(arguments[0]))
        case "zero":
            return Zero(_space(arguments[0]), _space(arguments[1]))
        case "product":
            return _product(arguments)
        case _:
            return _sum(arguments)


def _product(arguments: list[Any]) -> Operator | Fraction:
    scalar, *rest = arguments
    if scalar is None and len(rest) == 1:
        return rest[0]  # type: ignore[no-any-return]
    result = _operator(rest[-1])
    for factor in reversed(rest[:-1]):
        result = _operator(factor) @ result
    return result if scalar is None else Fraction(str(scalar)) * result


def _sum(arguments: list[Any]) -> Operator | Fraction:
    signed = list(zip(arguments[::2], arguments[1::2]))
    operators = [(sign, value) for sign, value in signed if isinstance(value, Operator)]
    number = sum((sign * value for sign, value in signed if not isinstance(value, Operator)), Fraction(0))
    if not operators:
        return number
    first = operators[0][1]
    return linear_combination(operators, first.domain, first.codomain) + number


def _operator(value: Operator | Fraction) -> Operator:
    if isinstance(value, Operator):
        return value
    return value * Identity(X)


def _named(token: Any, names: dict[str, Operator], kind: str | None) -> Operator:
    name = str(token)
    if name not in names:
        if kind is None:
            raise InputError(f"{name} is not declared; add 'where {name}: linear' to the text or pass atoms=")
        names[name] = Atom(name, kind=kind)
    return names[name]
