"""LaTeX for papers: plain amsmath, later factors to the left, a dressing as an argument in angle brackets."""

from collections.abc import Iterable, Mapping
from functools import partial, singledispatch
from typing import Any

from opalgebra.adjoint import AdjointOf, TransposeOf, adjoint
from opalgebra.architecture import Architecture
from opalgebra.atoms import Family
from opalgebra.calculus import Derivative
from opalgebra.commutator import Commutator
from opalgebra.derivation import Chain
from opalgebra.derivation import derivation as proof_lines
from opalgebra.display import Drawn, Tabulated
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Compose, Operator, Sum
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
from opalgebra.indexed import Binder, OrderedProduct, OrderedSum
from opalgebra.inverse import InverseOf, inverse
from opalgebra.kernel import Theorem
from opalgebra.matching import Pattern
from opalgebra.powers import Coefficients
from opalgebra.prove import Calculation
from opalgebra.render.lines import WIDTH, broken, visible
from opalgebra.render.notation import PLAIN, Notation, check_notation, index, name, polynomial, scalar, symbol_name, upright
from opalgebra.render.series_latex import architecture_formula, series_formula
from opalgebra.render.table import table, tabular
from opalgebra.render.text import between, every_index, member, source_name, traced_names
from opalgebra.render.tikz import tikz
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
from opalgebra.scalar import Polynomial, symbol
from opalgebra.series import Series
from opalgebra.tensor import Tensor
from opalgebra.trace import TraceOf

_HYPOTHESES = 8
LONG_REASON = 24


def _binder(binder: Binder, letter: str) -> list[Any]:
    bound = symbol_name(letter)
    if isinstance(binder, OrderedSum) and not binder.has_bare_line:
        here, places = symbol(letter), chosen_places(binder)
        upper, order = index(binder.upper), index(binder.order)
        sets = rf"\sum_{{\substack{{{places} \subseteq \{{1, \ldots, {upper}\}} \\ |{places}| = {order}}}}} "
        product = rf"\mathop{{\overleftarrow{{\prod}}}}\limits_{{{bound}=1}}^{{{upper}}}\,\lbrace "
        between = rf" \text{{ for }} {bound} \in {places},\; "
        return [sets, product, (binder.opened(here), SUM), between, (binder.line_at(here), SUM), r" \text{ else}\rbrace"]
    if isinstance(binder, OrderedSum):
        last = symbol_name(f"{letter}_{binder.order}")
        between = "<" if binder.order == 2 else r"< \cdots <"
        limits = f"{last}" if binder.order == 1 else f"{symbol_name(f'{letter}_1')} {between} {last}"
        return [rf"\sum_{{1 \le {limits} \le {index(binder.upper)}}} ", *word(binder, letter, r"\,", r" \cdots ")]
    limits = rf"_{{{bound}={index(binder.lower)}}}^{{{index(binder.upper)}}}"  # type: ignore[attr-defined]
    if isinstance(binder, OrderedProduct):
        return [rf"\mathop{{\overleftarrow{{\prod}}}}\limits{limits}\,", (binder.opened(symbol(letter)), FACTOR)]
    return [rf"\sum{limits} ", (binder.opened(symbol(letter)), PRODUCT)]


def _atom(notation: Notation, atom: Atom) -> str:
    return name(notation, atom.base, atom.indices, is_operator=not atom.is_state)


def _source(notation: Notation, atom: Atom, maps: frozenset[str]) -> tuple[str, str]:
    return name(notation, source_name(atom, maps), atom.indices, is_operator=False) + r"\langle ", r"\rangle"


def _letter(notation: Notation, node: Operator) -> tuple[list[Any], int]:
    if isinstance(node, Tensor):
        return between(node.blocks, r" \otimes ", FACTOR), PRODUCT
    if isinstance(node, Commutator):
        return [r"\lbrack ", *between(node.parts, ", ", SUM), r"\rbrack"], FACTOR
    if isinstance(node, TraceOf):
        names = ",".join(map(upright, traced_names(node)))
        return [r"\operatorname{tr}" + (f"_{{{names}}}" if names else "") + "(", (node.operator, SUM), ")"], FACTOR
    if isinstance(node, FunctionOf):
        return [rf"\operatorname{{{node.name}}}(", (node.operator, SUM), ")"], FACTOR
    mark = {InverseOf: "-1", AdjointOf: r"\dagger", TransposeOf: r"\mathsf{T}"}[type(node)]
    (part,) = node.parts
    if notation.index == "superscript" and isinstance(part, Atom) and part.indices:
        return ["(", (part, SUM), f")^{{{mark}}}"], FACTOR
    return ["{", (part, FACTOR), f"}}^{{{mark}}}"], FACTOR


def _style(notation: Notation, order: tuple[Operator, ...]) -> Style:
    return Style(
        atom=partial(_atom, notation),
        state=partial(name, notation, is_operator=False),
        dressing=(r"\langle ", r"\rangle"),
        source=partial(_source, notation),
        scalar=scalar,
        times=r"\,",
        compose=lambda bracketed: "" if bracketed else r"\,",
        brackets=("(", ")"),
        identity=lambda node: notation.identity,
        zero=lambda node: "0",
        binder=_binder,
        letter=partial(_letter, notation),
        dots=lambda hidden: rf" + \underbrace{{\cdots}}_{{{hidden:,}\ \text{{terms}}}}".replace(",", "{,}"),
        numbers=notation.identity == "1",
        elide=24,
        order=order,
    )


def _where(written: Written) -> str:
    if not written.definitions:
        return ""
    clauses = r",\; ".join(f"{name} = {body}" for name, body in written.definitions)
    return rf" \quad\text{{where}}\quad {clauses}"


def _equation(value: Theorem | Equal, style: Style, turnstile: str = "") -> str:
    written, stated = write_stated(style, (value.lhs, value.rhs), _hypotheses(value))
    hypotheses = r",\; ".join(stated) + r" \;" if stated else ""
    return f"{hypotheses}{turnstile}{written.lines[0]} = {written.lines[1]}{_where(written)}"


def _hypotheses(value: Theorem | Equal | Coefficients | Derivative) -> list[Parts]:
    """The parts of each hypothesis in a fixed order; of very many, some and their number."""
    facts = [] if isinstance(value, Equal) else sorted(value.hypotheses, key=str)
    more: list[Parts] = [[rf"\ldots\ ({len(facts)}\ \text{{hypotheses}})"]] if len(facts) > _HYPOTHESES else []
    return [*(_fact(fact) for fact in facts[:_HYPOTHESES]), *more]


def _fact(fact: Fact) -> Parts:
    match fact:
        case Inverse(operator, None | InverseOf()):
            return [inverse(member(operator)), r"\ \text{exists}"]
        case Inverse(operator, other):
            return [member(other), " = ", inverse(member(operator))]
        case Adjoint(operator, other):
            return [adjoint(member(operator)), " = ", member(other)]
        case Equal(lhs, rhs):
            return [lhs, " = ", rhs]
        case Every():
            running = every_index(fact)
            stated = fact.equation(running)
            return [stated.lhs, " = ", stated.rhs, rf"\ \text{{for every }} {symbol_name(str(running))}"]
        case Form(dressing, form, split):
            return [dressing, " = ", form, rf"\ \text{{({split})}}"]
        case Commute(left, right):
            return [*_operand(left), r",\, ", *_operand(right), r"\ \text{commute}"]
        case Nilpotent(operator, power):
            whole = ["(", operator, ")"] if isinstance(operator, Atom) and operator.indices else _operand(operator)
            return ["{", *whole, f"}}^{{{index(power)}}} = 0"]
        case Linear(operator) | Homogeneous(operator) | Idempotent(operator) | Causal(operator):
            return [*_operand(operator), rf"\ \text{{{type(fact).__name__.lower()}}}"]
    raise TypeError(f"{type(fact).__name__} has no LaTeX form")


def _operand(operand: Any) -> Parts:
    """An operator, in brackets where it is no letter; the general member of a family."""
    return ["(", operand, ")"] if isinstance(operand, Sum | Compose) else [member(operand)]


def latex(
    value: object,
    *,
    order: Iterable[Operator] = (),
    derivation: bool = False,
    cited: Mapping[str, Theorem] | None = None,
    notation: Notation = PLAIN,
) -> str:
    r"""A value as LaTeX for math mode, its letters written as a `Notation` says.

    In every sum the terms in `order` stand first, in that order, the others as always.

    With `derivation`, the proof of a theorem as `align` environments for text mode, one justified step a line; hypotheses that
    are too long for a reason come first and have numbers. What a theorem in `cited` proves by induction is cited by its name.
    TypeError for values that have no LaTeX form, InputError for an order that does not consist of operators.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.latex(A @ B - B @ A, order=[B @ A])
    '-B\\,A + A\\,B'
    """
    style = _style(check_notation(notation), wished_order(order))
    if not derivation:
        return _latex(value, style, notation)
    if not isinstance(value, Theorem):
        raise InputError(f"{type(value).__name__} is no theorem and has no derivation; pass a theorem")
    chains = proof_lines(value, cited or {})
    numbered, listed = _numbered(value, style)
    return "\n\n".join([*([listed] if listed else []), *(_chain(chain, style, numbered) for chain in chains)])


def _numbered(theorem: Theorem, style: Style) -> tuple[dict[Fact, str], str]:
    """The numbers of the hypotheses that are long, and the lines that state them."""
    facts = sorted(theorem.hypotheses, key=str)
    _, lines = write_stated(style, [theorem.lhs], [_fact(fact) for fact in facts])
    long = [(fact, line) for fact, line in zip(facts, lines) if visible(line) > LONG_REASON]
    rows = []
    for number, (_, line) in enumerate(long, 1):
        rows += _rows(line, "&", rf"\tag*{{(H{number})}}")
    stated = " \\\\\n".join(f"  {row}" for row in rows)
    numbers = {fact: rf"\text{{H{number}}}" for number, (fact, _) in enumerate(long, 1)}
    return numbers, f"Hypotheses:\n\\begin{{align}}\n{stated}\n\\end{{align}}" if rows else ""


def _chain(chain: Chain, style: Style, numbered: Mapping[Fact, str]) -> str:
    used = [fact for line in chain.lines for fact in line.facts]
    facts: list[Parts] = [[numbered[fact]] if fact in numbered else _fact(fact) for fact in used]
    written, stated = write_stated(style, [chain.start, *(line.side for line in chain.lines)], facts)
    shown = iter(stated)
    reasons = []
    for line in chain.lines:
        words = [rf"\text{{{word}}}" for word in line.words]
        reasons.append(r",\ ".join([*words, *(next(shown) for _ in line.facts)]))
    first, *sides = written.lines
    rows = _rows(first, "&", r"\notag")
    for side, reason in zip(sides, reasons):
        rows += _rows(side, r"&\quad = ", rf"\tag*{{\footnotesize$[{reason}]$}}")
    if written.definitions:
        clauses = r",\; ".join(f"{name} = {body}" for name, body in written.definitions)
        rows += _rows(clauses, r"&\text{where}\quad ", r"\notag")
    body = " \\\\\n".join(f"  {row}" for row in rows)
    title = f"{chain.title}:\n" if chain.title else ""
    return f"{title}\\begin{{align}}\n{body}\n\\end{{align}}"


def _rows(formula: str, before: str, after: str) -> list[str]:
    """A formula in lines, with what stands before the first and after the last."""
    first, *others = broken(formula, width=WIDTH - 8, inside=2)
    lines = [before + first, *(rf"&\qquad {line}" for line in others)]
    return [*(rf"{line} \notag" for line in lines[:-1]), f"{lines[-1]} {after}"]


@singledispatch
def _latex(value: object, style: Style, notation: Notation) -> str:
    raise TypeError(f"{type(value).__name__} has no LaTeX form; pass an operator, theorem, equation, series or architecture")


@_latex.register
def _(value: Polynomial, style: Style, notation: Notation) -> str:
    return polynomial(value)


@_latex.register
def _(value: Family, style: Style, notation: Notation) -> str:
    """The member of a general index."""
    return _latex(member(value), style, notation)


@_latex.register
def _(value: Pattern, style: Style, notation: Notation) -> str:
    wild = sorted(value.wild, key=lambda atom: atom.sort_key)
    return rf"{_latex(value.operator, style, notation)}\ \text{{ for any }} {', '.join(style.atom(atom) for atom in wild)}"


@_latex.register
def _(value: Operator, style: Style, notation: Notation) -> str:
    written = write(style, value)
    return written.lines[0] + _where(written)


@_latex.register
def _(value: Theorem, style: Style, notation: Notation) -> str:
    return _equation(value, style, r"\vdash\; ")


@_latex.register
def _(value: Equal, style: Style, notation: Notation) -> str:
    return _equation(value, style)


@_latex.register
def _(value: Calculation, style: Style, notation: Notation) -> str:
    sides = (value.start, *(step.rhs for step, _ in value.steps))
    written = write(style, *sides)
    first, *others = written.lines
    rows = [f"{first} &= {others[0]}" if others else first, *(f"&= {side}" for side in others[1:])]
    body = r" \\ ".join(rows)
    return rf"\begin{{aligned}} {body} \end{{aligned}}{_where(written)}"


@_latex.register
def _(value: Coefficients, style: Style, notation: Notation) -> str:
    written, stated, total = write_series(style, value, _hypotheses(value))
    return f"{written.lines[0]} = {total}{_where(written)}{_if(stated)}"


@_latex.register
def _(value: Derivative, style: Style, notation: Notation) -> str:
    d = rf"\tfrac{{d}}{{d{symbol_name(value.parameter.name)}}}\,"
    given: list[Parts] = [[d, member(letter), " = ", member(change)] for letter, change in value.given]
    stated = [*given, *_hypotheses(value), _operand(value.operator)]
    written, (*hypotheses, shown) = write_stated(style, [value.value], stated)
    return f"{d}{shown} = {written.lines[0]}{_where(written)}{_if(hypotheses)}"


def _if(stated: list[str]) -> str:
    return r" \quad\text{if}\quad " + r",\; ".join(stated) if stated else ""


@_latex.register
def _(value: Fact, style: Style, notation: Notation) -> str:
    written, (stated,) = write_stated(style, (), [_fact(value)])
    return stated + _where(written)


@_latex.register
def _(value: Architecture, style: Style, notation: Notation) -> str:
    return architecture_formula(value, notation)


@_latex.register
def _(value: Series, style: Style, notation: Notation) -> str:
    return series_formula(value, notation)


@_latex.register
def _(value: Tabulated, style: Style, notation: Notation) -> str:
    return tabular(table(value))


@_latex.register
def _(value: Drawn, style: Style, notation: Notation) -> str:
    """The picture on the axis of the formula, so that a diagram may stand in a sum."""
    return rf"\vcenter{{\hbox{{{tikz(value)}}}}}"
