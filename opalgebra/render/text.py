"""ASCII text that the parser reads back, and Unicode for a terminal.

`str` writes composition as `@`, a dressing as `F2<x1>`, its source as `source(F2, x1)`. `repr` of an operator also
declares its atoms: `F2<x> @ x where F2: nonlinear, x: state`. The Unicode form drops the `@` and uses subscripts.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch
from typing import Any

from opalgebra.adjoint import AdjointOf, TransposeOf
from opalgebra.architecture import Architecture
from opalgebra.atoms import Family
from opalgebra.calculus import Derivative
from opalgebra.commutator import Commutator
from opalgebra.expr import (
    Atom,
    Compose,
    Dressed,
    Identity,
    Index,
    Operator,
    Source,
    Sum,
    Zero,
    as_index,
    is_bound,
    postorder,
)
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
from opalgebra.function import FunctionOf
from opalgebra.indexed import Binder, IndexedSum, OrderedProduct, OrderedSum
from opalgebra.inverse import InverseOf
from opalgebra.kernel import Theorem
from opalgebra.powers import Coefficients
from opalgebra.prove import Calculation
from opalgebra.render.writing import (
    FACTOR,
    PRODUCT,
    SUM,
    Parts,
    Style,
    Written,
    chosen_places,
    wished_order,
    word,
    write,
    write_series,
    write_stated,
)
from opalgebra.scalar import Polynomial, Scalar, Symbol, free_symbols, symbol, written_number
from opalgebra.series import Series
from opalgebra.space import ONE, Kind, Space, X
from opalgebra.tensor import Tensor
from opalgebra.trace import TraceOf

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _plain_name(base: str, indices: tuple[Index, ...]) -> str:
    if all(isinstance(index, int) for index in indices):
        return base + "_".join(map(str, indices))
    return f"{base}[{', '.join(map(str, indices))}]"


def _subscript_name(base: str, indices: tuple[Index, ...]) -> str:
    if all(isinstance(index, int) for index in indices):
        return base + ",".join(str(index).translate(_SUBSCRIPTS) for index in indices)
    inner = ",".join(str(index).replace(" ", "") for index in indices)
    return f"{base}_{inner}" if inner.isalnum() else f"{base}_{{{inner}}}"


def source_name(atom: Atom, maps: frozenset[str]) -> str:
    """The letter of a source: the lower case of its operator's, or `s_F` where that says nothing or names another map."""
    lower = atom.base.lower()
    return lower if atom.base.isupper() and lower not in maps else f"s_{atom.base}"


def _plain_scalar(value: Scalar) -> str:
    return f"({value})" if isinstance(value, Polynomial) and len(value.terms) > 1 else str(value)


def _plain_binder(binder: Binder, index: str) -> list[Any]:
    name, bounds = {
        OrderedProduct: ("ordered_product", ("lower", "upper")),
        IndexedSum: ("sum", ("lower", "upper")),
        OrderedSum: ("ordered_sum", ("upper", "order")),
    }[type(binder)]
    rest = ", ".join([index, *(str(getattr(binder, bound)) for bound in bounds)])
    line = [", ", (binder.line_at(symbol(index)), SUM)] if isinstance(binder, OrderedSum) and not binder.has_bare_line else []
    return [f"{name}(", (binder.opened(symbol(index)), SUM), f", {rest}", *line, ")"]


def _unicode_binder(binder: Binder, index: str) -> list[Any]:
    if isinstance(binder, OrderedSum) and not binder.has_bare_line:
        here, places = symbol(index), chosen_places(binder)
        sets = f"∑({places}⊆1..{binder.upper}, |{places}|={binder.order}) ∏←({index}=1..{binder.upper}) {{"
        return [sets, (binder.opened(here), SUM), f" for {index}∈{places}, ", (binder.line_at(here), SUM), " else}"]
    if isinstance(binder, OrderedSum):
        last = f"{index}_{binder.order}" if isinstance(binder.order, Polynomial) else f"{index}{_subscript(binder.order)}"
        between = "<" if binder.order == 2 else "<⋯<"
        first = "" if binder.order == 1 else f"{index}₁{between}"
        return [f"∑(1≤{first}{last}≤{binder.upper}) ", *word(binder, index, " ", " ⋯ ")]
    sign, level = ("∏←", FACTOR) if isinstance(binder, OrderedProduct) else ("∑", PRODUCT)
    limits = f"({index}={binder.lower}..{binder.upper}) "  # type: ignore[attr-defined]
    return [sign + limits, (binder.opened(symbol(index)), level)]


def _plain_letter(node: Operator) -> tuple[list[Any], int]:
    name, *rest = {
        Tensor: ("tensor",),
        InverseOf: ("inverse",),
        AdjointOf: ("adjoint",),
        TransposeOf: ("transpose",),
        Commutator: ("commutator",),
    }.get(type(node), ("trace", *_legs(node)) if isinstance(node, TraceOf) else ("function",))
    before = [f"{node.name}, "] if isinstance(node, FunctionOf) else []
    return [f"{name}(", *before, *between(node.parts, ", ", SUM), "".join(f", {leg}" for leg in rest) + ")"], FACTOR


def _legs(trace: TraceOf) -> tuple[Any, ...]:
    """The numbers of the factors that are traced; none when all are."""
    return () if len(trace.over) == len(trace.operator.domain.factors) else trace.over


def traced_names(trace: TraceOf) -> list[str]:
    """The names of the factors that are traced; none when all are."""
    return [trace.operator.domain.factors[leg] for leg in _legs(trace)]


def between(parts: Iterable[Operator], mark: str, level: int) -> list[Any]:
    """Operators with a mark between them."""
    found: list[Any] = []
    for part in parts:
        found += [*([mark] if found else []), (part, level)]
    return found


def _unicode_letter(node: Operator) -> tuple[list[Any], int]:
    if isinstance(node, Tensor):
        return between(node.blocks, " ⊗ ", FACTOR), PRODUCT
    if isinstance(node, Commutator):
        return ["[", *between(node.parts, ", ", SUM), "]"], FACTOR
    if isinstance(node, TraceOf):
        return ["tr" + "".join(f"_{name}" for name in traced_names(node)) + "(", (node.operator, SUM), ")"], FACTOR
    if isinstance(node, FunctionOf):
        return [f"{node.name}(", (node.operator, SUM), ")"], FACTOR
    mark = {InverseOf: "⁻¹", AdjointOf: "†", TransposeOf: "ᵀ"}[type(node)]
    return [(node.parts[0], FACTOR), mark], FACTOR


def _subscript(value: object) -> str:
    return str(value).translate(_SUBSCRIPTS)


def _plain_identity(node: Identity) -> str:
    return "1" if node.domain == X else f"one({node.domain})"


def _plain_zero(node: Zero) -> str:
    return "0" if (node.domain, node.codomain) == (X, X) else f"zero({node.domain}, {node.codomain})"


ASCII = Style(
    atom=lambda atom: _plain_name(atom.base, atom.indices),
    state=_plain_name,
    dressing=("<", ">"),
    source=lambda atom, maps: (f"source({atom.name}, ", ")"),
    scalar=_plain_scalar,
    times="*",
    compose=lambda bracketed: " @ ",
    brackets=("(", ")"),
    identity=_plain_identity,
    zero=_plain_zero,
    dots=lambda hidden: f" + ... {hidden:,} terms ...",
    binder=_plain_binder,
    letter=_plain_letter,
)


def _unicode_scalar(value: Scalar) -> str:
    if isinstance(value, Polynomial):
        return _plain_scalar(value).replace("*", " ")
    return str(value) if value.denominator == 1 else f"({value})"


UNICODE = Style(
    atom=lambda atom: _subscript_name(atom.base, atom.indices),
    state=_subscript_name,
    dressing=("⟨", "⟩"),
    source=lambda atom, maps: (_subscript_name(source_name(atom, maps), atom.indices) + "⟨", "⟩"),
    scalar=_unicode_scalar,
    times=" ",
    compose=lambda bracketed: "" if bracketed else " ",
    brackets=("(", ")"),
    identity=lambda node: "1",
    zero=lambda node: "0",
    dots=lambda hidden: f" + ⋯ {hidden:,} terms ⋯",
    binder=_unicode_binder,
    letter=_unicode_letter,
    elide=24,
)


def _where(written: Written, declarations: tuple[str, ...] = ()) -> str:
    clauses = (*(f"{name} = {body}" for name, body in written.definitions), *declarations)
    return f" where {', '.join(clauses)}" if clauses else ""


def _spaces(domain: Space, codomain: Space) -> str:
    return f" {domain} -> {codomain}" if codomain != X or domain not in (ONE, X) else ""


def _declaration(atom: Atom) -> str:
    return (
        atom.kind
        + (f" {atom.codomain}" if atom.kind == Kind.STATE and atom.codomain != X else "")
        + (_spaces(atom.domain, atom.codomain) if atom.kind != Kind.STATE else "")
    )


def declared(operator: Operator) -> str:
    """An operator in ASCII with its atoms and symbols declared; `parse` reads it back to an equal operator."""
    written = write(ASCII, operator)
    what: dict[str, dict[str, None]] = {}
    for atom in operator.atoms:
        what.setdefault(_declaration(atom), {})[_declared_name(atom)] = None
    for found in sorted(_scalar_symbols(operator)):
        what.setdefault(found.sort, {})[found.name] = None
    return written.lines[0] + _where(written, tuple(f"{', '.join(names)}: {kind}" for kind, names in sorted(what.items())))


def _scalar_symbols(operator: Operator) -> set[Symbol]:
    """The symbols that occur in coefficients, apart from those that an index or a bound shows to be natural numbers."""
    in_indices: set[Symbol] = set()
    in_scalars: set[Symbol] = set()
    for node in postorder(operator, backgrounds=True, bodies=True):
        if isinstance(node, Sum):
            in_scalars |= {found for coefficient, _ in node.terms for found in free_symbols(coefficient)}
        elif not isinstance(node, Compose | Dressed | Source):
            in_indices |= {found for field in _spread(node.fields) for found in free_symbols(field)}
    return {found for found in in_scalars - in_indices if not is_bound(found)}


def _spread(fields: tuple[Any, ...]) -> list[Any]:
    return [part for field in fields for part in (field if isinstance(field, tuple) else (field,))]


def _declared_name(atom: Atom) -> str:
    """The name of an atom, or that of its family when an index has no value: `V[]`."""
    return atom.name if all(isinstance(index, int) for index in atom.indices) else f"{atom.base}[]"


def _equation(style: Style, value: Theorem | Equal, turnstile: str) -> str:
    written, stated = write_stated(style, (value.lhs, value.rhs), _hypotheses(value, style.elide))
    return f"{turnstile}{_where_holds(stated)}{written.lines[0]} = {written.lines[1]}{_where(written)}"


def _where_holds(stated: list[str]) -> str:
    return f"[{', '.join(stated)}] " if stated else ""


def _series(style: Style, value: Coefficients) -> str:
    written, stated, total = write_series(style, value, _hypotheses(value, style.elide))
    return f"{_where_holds(stated)}{written.lines[0]} = {total}{_where(written)}"


def _derivative(style: Style, value: Derivative) -> str:
    d = f"d/d{value.parameter.name} "
    given: list[Parts] = [[d, member(letter), " = ", member(change)] for letter, change in value.given]
    own: Parts = ["(", value.operator, ")"] if isinstance(value.operator, Sum | Compose) else [value.operator]
    stated = [*given, *_hypotheses(value, style.elide), own]
    written, (*hypotheses, shown) = write_stated(style, [value.value], stated)
    return f"{_where_holds(hypotheses)}{d}{shown} = {written.lines[0]}{_where(written)}"


def member(operand: Any) -> Operator:
    """An operator, or the general member of a family."""
    found: Operator = operand[as_index(symbol("l"), of=operand.name)] if isinstance(operand, Family) else operand
    return found


def _hypotheses(value: Theorem | Equal | Coefficients | Derivative, elide: int | None) -> list[Parts]:
    """The parts of each hypothesis in a fixed order; of very many, some and their number."""
    facts = [] if isinstance(value, Equal) else sorted(value.hypotheses, key=str)
    if elide is None or len(facts) <= elide:
        return [_fact(fact) for fact in facts]
    return [*(_fact(fact) for fact in facts[: elide // 2]), [f"... {len(facts):,} hypotheses"]]


def text(value: object, *, order: Iterable[Operator] = ()) -> str:
    """A value in ASCII, as `str` has it. In every sum the terms in `order` stand first, in that order, the others as always.

    InputError for an order that does not consist of operators.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.text(A + 2 * B, order=[B])
    '2*B + A'
    """
    return _text(value, replace(ASCII, order=wished_order(order)))


@singledispatch
def _text(value: object, style: Style) -> str:
    return str(value)


@_text.register
def _(value: Operator, style: Style) -> str:
    written = write(style, value)
    return written.lines[0] + _where(written)


@_text.register
def _(value: Theorem, style: Style) -> str:
    return _equation(style, value, "|- ")


@_text.register
def _(value: Equal, style: Style) -> str:
    return _equation(style, value, "")


@_text.register
def _(value: Calculation, style: Style) -> str:
    return _calculation(style, value)


@_text.register
def _(value: Coefficients, style: Style) -> str:
    return _series(style, value)


@_text.register
def _(value: Derivative, style: Style) -> str:
    return _derivative(style, value)


def _calculation(style: Style, value: Calculation) -> str:
    """One step a line with its reason, and the goal until it is reached."""
    open_goal = None if value.last is value.goal else value.goal
    sides = [value.start, *(step.rhs for step, _ in value.steps), *([] if open_goal is None else [open_goal])]
    written = write(style, *sides)
    lines = [written.lines[0]]
    for line, (_, reason) in zip(written.lines[1:], value.steps):
        lines.append(f"  = {line}    by {reason}")
    if open_goal is not None:
        lines.append(f"goal: {written.lines[-1]}")
    return "\n".join(lines) + _where(written)


@singledispatch
def unicode(value: object) -> str:
    """A value as a terminal shows it."""
    return text(value)


@unicode.register
def _(value: Operator) -> str:
    return _text(value, UNICODE)


@unicode.register
def _(value: Theorem) -> str:
    return _equation(UNICODE, value, "⊢ ")


@unicode.register
def _(value: Calculation) -> str:
    return _calculation(UNICODE, value)


@unicode.register
def _(value: Equal) -> str:
    return _equation(UNICODE, value, "")


@unicode.register
def _(value: Coefficients) -> str:
    return _series(UNICODE, value)


@unicode.register
def _(value: Derivative) -> str:
    return _derivative(UNICODE, value)


@_text.register
def _(value: Fact, style: Style) -> str:
    return "".join(map(str, _fact(value)))


def _fact(fact: Fact) -> Parts:
    match fact:
        case Equal(lhs, rhs):
            return [lhs, " = ", rhs]
        case Every():
            index = every_index(fact)
            stated = fact.equation(index)
            return [stated.lhs, " = ", stated.rhs, f" for every {index}"]
        case Inverse(operator, None | InverseOf()):
            return [_operand(operator), " invertible"]
        case Inverse(operator, inverse):
            return [_operand(inverse), " inverse to ", _operand(operator)]
        case Adjoint(operator, adjoint):
            own, other = _operand(operator), _operand(adjoint)
            return [own, " self-adjoint"] if operator == adjoint else [other, " adjoint to ", own]
        case Commute(left, right):
            return [_operand(left), ", ", _operand(right), " commute"]
        case Nilpotent(operator, power):
            exponent = power if str(power).isalnum() else f"({power})"
            return [_operand(operator), f"^{exponent} = 0"]
        case Form(dressing, form, split):
            return [dressing, " = ", form, f" for split: {split}"]
        case Linear(operator) | Homogeneous(operator) | Idempotent(operator) | Causal(operator):
            return [_operand(operator), f" {type(fact).__name__.lower()}"]
    raise TypeError(f"{type(fact).__name__} has no text")


def every_index(fact: Every) -> Scalar:
    """A letter for the index, which names nothing in the fact."""
    atoms = {atom for side in fact.operators for atom in side.atoms}
    taken = {found.name for found in fact.symbols} | {name for atom in atoms for name in (atom.base, atom.name)}
    names = ("t", "l", "m", "k", "i", *(f"t{number}" for number in range(len(taken) + 1)))
    return symbol(next(name for name in names if name not in taken))


def _operand(operand: Any) -> str | Operator:
    return f"every {operand.name}[l]" if isinstance(operand, Family) else operand


@_text.register
def _(value: Series, style: Style) -> str:
    orders = range(value.max_order + 1)
    shown = [*orders[:4], None, *orders[-4:]] if len(orders) > 9 else list(orders)
    counts = ["..." if order is None else written_number(value.count(order)) for order in shown]
    suffix = "exact" if value.is_exact else f"truncated at order {value.max_order}"
    return f"{' + '.join(counts)} = {written_number(value.total)} terms, {suffix}"


@_text.register
def _(value: Architecture, style: Style) -> str:
    heads = "" if value.heads is None else f", {_count(value.heads, 'head')} each"
    kind = f"{'parallel ' if value.parallel else ''}{value.norm}-norm {'' if value.causal else 'bidirectional '}Transformer"
    return f"{kind}: {_count(value.layers, 'layer')}{heads}, {_count(len(value.stages), 'stage')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
