"""ASCII text that the parser reads back, and Unicode for a terminal.

`str` writes composition as `@`, a dressing as `F2<x1>`, its source as `source(F2, x1)`. `repr` of an operator also
declares its atoms: `F2<x> @ x where F2: nonlinear, x: state`. The Unicode form drops the `@` and uses subscripts.
"""

from fractions import Fraction
from functools import singledispatch
from itertools import groupby

from opalgebra.architecture import Architecture
from opalgebra.expr import Atom, Identity, Operator, Zero
from opalgebra.kernel import Equation, Theorem
from opalgebra.render.writing import Notation, Written, write
from opalgebra.series import Series
from opalgebra.space import ONE, Kind, Space, X

DIGITS = 24
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _plain_name(base: str, indices: tuple[int, ...]) -> str:
    return base + "_".join(map(str, indices))


def _subscript_name(base: str, indices: tuple[int, ...]) -> str:
    return base + ",".join(str(index).translate(_SUBSCRIPTS) for index in indices)


def source_name(atom: Atom, maps: frozenset[str]) -> str:
    """The letter of a source: the lower case of its operator's, or `s_F` where that says nothing or names another map."""
    lower = atom.base.lower()
    return lower if atom.base.isupper() and lower not in maps else f"s_{atom.base}"


def _plain_identity(node: Identity) -> str:
    return "1" if node.domain == X else f"one({node.domain})"


def _plain_zero(node: Zero) -> str:
    return "0" if (node.domain, node.codomain) == (X, X) else f"zero({node.domain}, {node.codomain})"


ASCII = Notation(
    name=_plain_name,
    dressing=("<", ">"),
    source=lambda atom, maps: (f"source({atom.name}, ", ")"),
    scalar=str,
    times="*",
    compose=lambda bracketed: " @ ",
    brackets=("(", ")"),
    identity=_plain_identity,
    zero=_plain_zero,
    dots=lambda hidden: f" + ... {hidden:,} terms ...",
)


def _unicode_scalar(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"({value})"


UNICODE = Notation(
    name=_subscript_name,
    dressing=("⟨", "⟩"),
    source=lambda atom, maps: (_subscript_name(source_name(atom, maps), atom.indices) + "⟨", "⟩"),
    scalar=_unicode_scalar,
    times=" ",
    compose=lambda bracketed: "" if bracketed else " ",
    brackets=("(", ")"),
    identity=lambda node: "1",
    zero=lambda node: "0",
    dots=lambda hidden: f" + ⋯ {hidden:,} terms ⋯",
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
    """An operator in ASCII with its atoms declared; `parse` reads it back to an equal operator."""
    written = write(ASCII, operator)
    by_declaration = groupby(sorted(operator.atoms, key=_declaration), key=_declaration)
    declarations = tuple(f"{', '.join(atom.name for atom in group)}: {what}" for what, group in by_declaration)
    return written.lines[0] + _where(written, declarations)


def _equation(notation: Notation, value: Theorem | Equation, turnstile: str) -> str:
    written = write(notation, value.lhs, value.rhs)
    hypotheses = f"[{', '.join(sorted(map(str, value.hypotheses)))}] " if value.hypotheses else ""
    return f"{turnstile}{hypotheses}{written.lines[0]} = {written.lines[1]}{_where(written)}"


@singledispatch
def text(value: object) -> str:
    """A value in ASCII."""
    return str(value)


@singledispatch
def unicode(value: object) -> str:
    """A value as a terminal shows it."""
    return text(value)


@text.register
def _(value: Operator) -> str:
    written = write(ASCII, value)
    return written.lines[0] + _where(written)


@unicode.register
def _(value: Operator) -> str:
    written = write(UNICODE, value)
    return written.lines[0] + _where(written)


@text.register
def _(value: Theorem) -> str:
    return _equation(ASCII, value, "|- ")


@unicode.register
def _(value: Theorem) -> str:
    return _equation(UNICODE, value, "⊢ ")


@text.register
def _(value: Equation) -> str:
    return _equation(ASCII, value, "")


@unicode.register
def _(value: Equation) -> str:
    return _equation(UNICODE, value, "")


def _number(value: int) -> str:
    """All digits of a number, or the first three of one that has more than `DIGITS`."""
    digits = str(value)
    return f"{value:,}" if len(digits) <= DIGITS else f"{digits[0]}.{digits[1:3]}...e{len(digits) - 1}"


@text.register
def _(value: Series) -> str:
    counts = [_number(value.count(order)) for order in range(value.max_order + 1)]
    if len(counts) > 9:
        counts[4:-4] = ["..."]
    suffix = "exact" if value.is_exact else f"truncated at order {value.max_order}"
    return f"{' + '.join(counts)} = {_number(value.total)} terms, {suffix}"


@text.register
def _(value: Architecture) -> str:
    heads = "" if value.heads is None else f", {_count(value.heads, 'head')} each"
    kind = f"{'parallel ' if value.parallel else ''}{value.norm}-norm {'' if value.causal else 'bidirectional '}Transformer"
    return f"{kind}: {_count(value.layers, 'layer')}{heads}, {_count(len(value.stages), 'stage')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
