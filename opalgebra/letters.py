"""The letters of operators as SymPy symbols, and back; and what SymPy can write that has no meaning as an operator.

An atom is the noncommutative symbol of its name, a member `V[l]` of a family the Indexed of a base with such a symbol, and a
scalar symbol the symbol with the assumptions of its sort. Any other letter is the noncommutative symbol that has its text for
a name; when it has scalar symbols, the noncommutative function of that name, applied to them, so that values which SymPy
puts in their place reach the letter. Names are looked up or parsed, never evaluated.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn, final

from opalgebra.atoms import Family
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Operator, as_index
from opalgebra.kernel import instantiate
from opalgebra.parse import parse
from opalgebra.scalar import Polynomial, Scalar, Symbol, parameter, symbol
from opalgebra.space import Kind, X

Value = Operator | Scalar

_SORTS = {"natural": {"integer": True, "nonnegative": True}, "positive": {"positive": True}, "real": {"real": True}}
_KNOWN = (
    "noncommutative symbols, alone or Indexed, rational numbers, real symbols, sums, products, integer powers, commutators, "
    "adjoints, transposes and tensor products"
)
_REASONS = {
    "Sum": "SymPy moves noncommuting factors across a Sum, and its empty sums are not 0; use indexed_sum",
    "Product": "SymPy's Product has no order for factors that do not commute; use ordered_product",
    "exp": "SymPy merges exp(A)*exp(A) into exp(2*A), and here nothing is assumed of a function; use function('exp', A)",
    "conjugate": "SymPy's conjugate is an adjoint of a transpose in either order, and here the two may differ; use adjoint",
}


def number(scalar: Scalar | int) -> Any:
    """The SymPy form of a scalar or an index."""
    from sympy import Add, Mul, Rational

    if not isinstance(scalar, Polynomial):
        return Rational(scalar.numerator, scalar.denominator)
    monomials = [[number(c), *(scalar_symbol(found) ** power for found, power in monomial)] for monomial, c in scalar.terms]
    return Add(*(Mul(*monomial) for monomial in monomials))


def scalar_symbol(found: Symbol) -> Any:
    """The symbol with the assumptions of a sort."""
    from sympy import Symbol as SympySymbol

    return SympySymbol(found.name, **_SORTS[found.sort])


def indexed_base(name: str) -> Any:
    """What SymPy writes a family on."""
    from sympy import IndexedBase
    from sympy import Symbol as SympySymbol

    return IndexedBase(SympySymbol(name, commutative=False))


def atom_symbol(atom: Atom) -> Any:
    """The symbol of an atom, an Indexed when an index of it has no value."""
    from sympy import Symbol as SympySymbol

    if not atom.symbols:
        return SympySymbol(atom.name, commutative=False)
    return indexed_base(atom.base)[tuple(map(number, atom.indices))]


def letter_symbol(operator: Operator) -> Any:
    """The symbol named by the text of an operator, or the function of that name, applied to the operator's scalar symbols."""
    from sympy import Function
    from sympy import Symbol as SympySymbol

    text, free = str(operator), sorted(operator.symbols)
    for found in free:
        text += f"{', ' if ' where ' in text else ' where '}{found.name}: {found.sort}"
    name = f"({text})" if " where " in text else text
    return Function(name, commutative=False)(*map(scalar_symbol, free)) if free else SympySymbol(name, commutative=False)


def refuse(expression: Any) -> NoReturn:
    """InputError, with the reason where there is one."""
    name = type(expression).__name__
    reason = _REASONS.get(name, f"use {_KNOWN}")
    raise InputError(f"SymPy's {name} has no meaning as an operator here; {reason}")


@final
class Names:
    """What names stand for in one call: the given atoms, and what has been read so far. InputError for two meanings."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        self.atoms = tuple(dict.fromkeys(atoms))
        for name, count in Counter(atom.name for atom in self.atoms).items():
            if count > 1:
                raise InputError(f"{name} names {count} different atoms, and in SymPy a name is one symbol; rename one of them")
        self.operators: dict[str, Operator] = {atom.name: atom for atom in self.atoms if not atom.symbols}
        self.seen: dict[str, Any] = {}

    def scalar(self, expression: Any) -> Scalar:
        """The scalar that a commuting symbol is, by its assumptions."""
        for sort in _SORTS:
            if expression == scalar_symbol(Symbol(expression.name, sort)):
                name = expression.name
                return symbol(name) if sort == "natural" else parameter(name, positive=sort == "positive")
        raise InputError(
            f"{expression.name} commutes, but is no number of a known sort; declare Symbol({expression.name!r}, real=True), or "
            "instead positive=True, or integer=True and nonnegative=True; an operator has commutative=False"
        )

    def symbol(self, expression: Any) -> Operator:
        """The operator that a noncommutative symbol is."""
        name = expression.name
        if self.seen.setdefault(name, expression) != expression:
            raise InputError(f"two symbols with different assumptions are named {name}; rename one of them")
        if name not in self.operators:
            text = name.endswith((">", ")"))
            self.operators[name] = self.letter(name, []) if text else Atom(name, kind=Kind.LINEAR)
        return self.operators[name]

    def letter(self, name: str, values: list[Value]) -> Operator:
        """The operator whose text is a name, with these values of its scalar symbols."""
        operator = parse(name[1:-1] if name.startswith("(") else name, atoms=self.atoms)
        free = sorted(operator.symbols)
        if len(free) != len(values):
            raise InputError(f"{name!r} has {len(free)} scalar symbols, not {len(values)}; apply it to their values")
        return instantiate(operator, {found: _scalar(value, name) for found, value in zip(free, values)})

    def function(self, expression: Any, values: list[Value]) -> Operator:
        """The letter that a noncommutative function of scalars is."""
        from sympy import Function

        name = expression.func.__name__
        if expression.func != Function(name, commutative=False) or not name.endswith((">", ")")):
            return refuse(expression)
        return self.letter(name, values)

    def member(self, expression: Any, indices: list[Value]) -> Operator:
        """The member of a family that an Indexed is."""
        name = str(expression.base.label)
        if expression.base != indexed_base(name):
            raise InputError(f"{expression} is no operator; its base is to be IndexedBase(Symbol({name!r}, commutative=False))")
        return self.family(name)[tuple(as_index(_scalar(index, name), of=name) for index in indices)]

    def family(self, name: str) -> Family:
        """The family of this name that the given atoms are of; of linear maps of X when there is none."""
        found = {(atom.kind, atom.domain, atom.codomain) for atom in self.atoms if atom.indices and atom.base == name}
        if len(found) > 1:
            raise InputError(f"{name} names {len(found)} different families, and in SymPy a name is one; rename one of them")
        kind, domain, codomain = found.pop() if found else (Kind.LINEAR, X, X)
        return Family(name, kind=kind, domain=domain, codomain=codomain)


def _scalar(value: Value, name: str) -> Scalar:
    if isinstance(value, Operator):
        raise InputError(f"{name} is applied to the operator {value}, but only scalars are indices and lengths")
    return value
