"""To SymPy and back, for the products that a free algebra describes: all factors but the rightmost are linear.

SymPy takes noncommutative symbols for elements of one associative algebra: it distributes on both sides, passes numbers
through every factor, takes `A*0` for 0 and `A*A` for `A**2`. Let `W`, `V` be words of linear maps and `G`, `H` any maps or
states. Then each of these moves is a law of maps:

    (W + V) @ G = W @ G + V @ G    the sum is pointwise         W @ (G + H) = W @ G + W @ H    W is linear
    (c W) @ G = c (W @ G)          the multiple is pointwise    W @ (c G) = c (W @ G), W @ 0 = 0    W is linear

and with a nonlinear map in place of W the right-hand column is false. So a nonlinear map or a state may stand rightmost
only; then every equality that holds in the free algebra holds for the maps. Words that compose keep composing under these
moves, so other spaces than X are allowed; `from_sympy` checks them again.

An atom is the noncommutative symbol with its name, a dressing `F<s>` or a source the symbol whose name is its text. A name
stands for one atom: keep to that across the expressions that you combine. A number is a multiple of the identity of the
space that its neighbours in a sum have, and of X when it stands alone.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from opalgebra.errors import InputError, LimitError, NotLinearError, SpaceError
from opalgebra.expr import (
    Atom,
    Compose,
    Dressed,
    Identity,
    Operator,
    Source,
    Sum,
    Zero,
    factors,
    linear_combination,
    ordered_product,
)
from opalgebra.parse import parse
from opalgebra.recursion import Steps, without_recursion
from opalgebra.space import Kind, X

DEEPEST = 64
LIMIT = 200_000
_LARGEST_EXPONENT = 4_000
_KNOWN = "noncommutative symbols, rational numbers, sums, products, natural powers and commutators"


def to_sympy(operator: Operator) -> Any:
    """The operator as a SymPy expression; `from_sympy(to_sympy(A), atoms=A.atoms)` is the same map as A, and equal to it
    when no factor but the first of a product is zero or has a coefficient (SymPy moves it to the front).

    NotLinearError when a nonlinear map stands to the left of another factor. LimitError for sums nested more than 64 deep
    (SymPy recurses). SpaceError for a multiple of an identity, or a zero, that is no map of X to X.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.to_sympy(2 * A @ (1 + B) @ B @ B)
    2*A*(1 + B)*B**2
    """
    if not isinstance(operator, Operator):
        raise InputError(f"to_sympy takes an operator, not {type(operator).__name__}; of a theorem, give .lhs or .rhs")
    _refuse_repetition(operator.atoms)
    result, _ = without_recursion(_written(operator, {}))
    if result.is_Number and (operator.domain, operator.codomain) != (X, X):
        raise SpaceError(
            f"{operator} maps {operator.domain} to {operator.codomain}, but in SymPy it is a mere number, which is read back "
            "as a map of X to X; convert the terms around it instead"
        )
    return result


def _refuse_repetition(atoms: Iterable[Atom]) -> None:
    for name, count in Counter(atom.name for atom in dict.fromkeys(atoms)).items():
        if count > 1:
            raise InputError(f"{name} names {count} different atoms, and in SymPy a name is one symbol; rename one of them")


def _refuse_nonlinear(left: Sequence[Operator]) -> None:
    for factor in left:
        if not factor.is_linear and not factor.is_state:
            raise NotLinearError(
                f"{factor} stands to the left of another factor, but is not known to be linear, and SymPy distributes every "
                "product; on a state, dress it first (expand does), or declare it with kind='linear' if it is"
            )


def _written(operator: Operator, known: dict[Operator, tuple[Any, int]]) -> Steps[tuple[Any, int]]:
    """The SymPy form of an operator, and how deep sums are nested in it."""
    from sympy import Add, Integer, Mul, Rational, Symbol

    if operator in known:
        return known[operator]
    form: Any
    forms, height = [], 0
    if isinstance(operator, Sum):
        for coefficient, term in operator.terms:
            if not isinstance(coefficient, Fraction):
                raise InputError(f"the coefficient {coefficient} has symbols, which have no SymPy form here; give them values")
            form, below = yield _written(term, known)
            forms.append(Rational(coefficient.numerator, coefficient.denominator) * form)
            height = max(height, below + 1)
        if height > DEEPEST:
            raise LimitError(f"sums are nested more than {DEEPEST} deep, and SymPy recurses; expand the operator first")
        form = Add(*forms)
    elif isinstance(operator, Compose):
        parts = factors(operator)
        _refuse_nonlinear(parts[:-1])
        for part in parts:
            form, below = yield _written(part, known)
            forms.append(form)
            height = max(height, below)
        form = Mul(*forms)
    elif isinstance(operator, Identity | Zero):
        form = Integer(isinstance(operator, Identity))
    elif isinstance(operator, Atom | Dressed | Source):
        text = str(operator)
        form = Symbol(f"({text})" if " where " in text else text, commutative=False)
    else:
        raise InputError(f"{operator} ({type(operator).__name__}) has no SymPy form; write it as sums and products")
    known[operator] = form, height
    return known[operator]


def from_sympy(expression: Any, atoms: Iterable[Atom] = ()) -> Operator:
    """The operator of a SymPy expression. A symbol is the given atom of its name, else a linear atom on X.

    Floats are taken at their exact binary value, `Commutator(A, B)` of linear maps is `A @ B - B @ A`. What else SymPy can
    write (commuting symbols, inverses, functions, adjoints, ...) is refused by name with InputError; a product with a
    nonlinear map to the left of another factor raises NotLinearError, spaces that do not fit SpaceError, and a power of
    more than 200,000 factors LimitError. Symbol names are looked up or parsed, never evaluated.

    >>> import opalgebra as oa, sympy
    >>> A, B = sympy.symbols("A B", commutative=False)
    >>> print(oa.from_sympy(sympy.expand(A * (A + B / 2))))
    A @ A + 1/2*A @ B
    """
    from sympy import Basic

    if not isinstance(expression, Basic):
        raise InputError(f"from_sympy reads SymPy expressions, not {type(expression).__name__}; for text, use parse")
    given = list(atoms)
    _refuse_repetition(given)
    names: dict[str, Operator] = {atom.name: atom for atom in given}
    return _operator(without_recursion(_read(expression, given, names, {}, {})))


Value = Operator | Fraction


def _read(
    expression: Any, atoms: list[Atom], names: dict[str, Operator], symbols: dict[str, Any], known: dict[Any, Value]
) -> Steps[Value]:
    """The value of an expression, parts before wholes; a number stays a number until it meets an operator."""
    from sympy import Add, Float, Mul, Pow, Rational, Symbol
    from sympy.physics.quantum import Commutator

    if id(expression) in known:
        return known[id(expression)]
    arguments: list[Value] = []
    if type(expression) in (Add, Mul, Pow, Commutator):
        for part in expression.args[: 1 if type(expression) is Pow else None]:
            value = yield _read(part, atoms, names, symbols, known)
            arguments.append(value)
    result: Value
    if type(expression) is Add:
        result = _sum(arguments)
    elif type(expression) is Mul:
        result = _product(arguments)
    elif type(expression) is Pow:
        result = _power(arguments[0], expression.args[1])
    elif type(expression) is Commutator:
        left, right = map(_operator, arguments)
        _refuse_nonlinear((left, right))
        result = left @ right - right @ left
    elif isinstance(expression, Rational):
        result = Fraction(int(expression.p), int(expression.q))
    elif isinstance(expression, Float):
        result = _exact(*expression._mpf_)
    elif type(expression) is Symbol:
        result = _named(expression, atoms, names, symbols)
    else:
        result = _refuse(expression)
    known[id(expression)] = result
    return result


def _refuse(expression: Any) -> Operator:
    from sympy import adjoint

    name = type(expression).__name__
    if isinstance(expression, adjoint):
        raise InputError(f"{name}: operators have no adjoint here yet; write the adjoint as a symbol of its own")
    raise InputError(f"SymPy's {name} has no meaning as an operator here; use {_KNOWN}")


def _named(symbol: Any, atoms: list[Atom], names: dict[str, Operator], symbols: dict[str, Any]) -> Operator:
    name = symbol.name
    if symbol.is_commutative:
        raise InputError(
            f"{name} commutes, so it stands for a number, and coefficients have no symbols here; substitute its value, or "
            f"declare an operator by Symbol({name!r}, commutative=False)"
        )
    if symbols.setdefault(name, symbol) != symbol:
        raise InputError(f"two symbols with different assumptions are named {name}; rename one of them")
    if name not in names:
        names[name] = _dressing(name, atoms) if name.endswith((">", ")")) else Atom(name, kind=Kind.LINEAR)
    return names[name]


def _dressing(name: str, atoms: list[Atom]) -> Operator:
    operator = parse(name[1:-1] if name.startswith("(") else name, atoms=atoms)
    if not isinstance(operator, Dressed | Source):
        raise InputError(f"the symbol {name!r} names neither an atom, a dressing nor a source; write it as a SymPy expression")
    return operator


def _exact(sign: int, mantissa: int, exponent: int, bits: int) -> Fraction:
    """The value of a binary float, as exact as it is stored."""
    if abs(exponent) + bits > _LARGEST_EXPONENT:
        raise LimitError("a coefficient would have more than 1,000 digits; use scalars with fewer")
    signed = -int(mantissa) if sign else int(mantissa)
    return Fraction(signed * 2 ** max(exponent, 0), 2 ** max(-exponent, 0))


def _operator(value: Value) -> Operator:
    return value if isinstance(value, Operator) else value * Identity(X)


def _sum(values: list[Value]) -> Value:
    number = sum((value for value in values if not isinstance(value, Operator)), Fraction(0))
    operators = [value for value in values if isinstance(value, Operator)]
    if not operators:
        return number
    first = operators[0]
    return linear_combination(((1, operator) for operator in operators), first.domain, first.codomain) + number


def _product(values: list[Value]) -> Value:
    coefficient = Fraction(1)
    operators = []
    for value in values:
        if isinstance(value, Operator):
            operators.append(value)
        else:
            coefficient *= value
    if not operators:
        return coefficient
    _refuse_nonlinear(operators[:-1])
    return coefficient * ordered_product(reversed(operators))


def _power(base: Value, exponent: Any) -> Value:
    if not exponent.is_Integer or exponent < 0:
        shown = exponent if exponent.is_Integer and exponent > -LIMIT else f"SymPy's {type(exponent).__name__}"
        raise InputError(f"a power of an operator is a natural number, not {shown}; there are no inverses and roots here yet")
    if not isinstance(base, Operator):
        raise InputError("a power of a number was left unevaluated; give the number, for example by doit()")
    if len(factors(base)) * int(exponent) > LIMIT:
        raise LimitError(f"a power would have more than {LIMIT:,} factors; use a smaller exponent")
    _refuse_nonlinear([base] if exponent > 1 else [])
    return base ** int(exponent)
