"""To SymPy and back, for the products that a free algebra describes: all factors but the rightmost are linear.

SymPy takes noncommutative symbols for elements of one associative algebra: it distributes on both sides, passes numbers
through every factor, takes `A*0` for 0 and `A*A` for `A**2`. Let `W`, `V` be words of linear maps and `G`, `H` any maps or
states. Then each of these moves is a law of maps:

    (W + V) @ G = W @ G + V @ G    the sum is pointwise         W @ (G + H) = W @ G + W @ H    W is linear
    (c W) @ G = c (W @ G)          the multiple is pointwise    W @ (c G) = c (W @ G), W @ 0 = 0    W is linear

and with a nonlinear map in place of W the right-hand column is false. So a nonlinear map or a state may stand rightmost
only; then every equality that holds in the free algebra holds for the maps. Words that compose keep composing under these
moves, so other spaces than X are allowed; `from_sympy` checks them again.

    here                                    in SymPy
    an atom A, a member V[l] of a family    the noncommutative symbol A, the Indexed V[l] with a noncommutative base
    scalar symbols, by their sorts          real=True, positive=True, or integer=True and nonnegative=True
    commutator(A, B)                        Commutator(A, B), whose sides SymPy may exchange for a sign
    adjoint(A), transpose(A)                Dagger(A), transpose(A), of a letter A that is neither
    inverse(A), given the fact Inverse(A)   A**-1, of a linear atom A: then A*A**-1 = 1 holds as SymPy says
    any other letter                        the noncommutative symbol that has its text for a name; when it has scalar
                                            symbols, the noncommutative function of that name, applied to them

Letters by name are dressings, sources, functions, traces, tensor products, products and sums over an index, inverses, and an
adjoint of a transpose. Of these SymPy has laws that do not hold: `exp(A)*exp(A)` is `exp(2*A)`; a `Sum` from 3 to 1 is minus
a term, and `simplify` moves factors across a `Sum`; a `Product` has no order; a `TensorProduct` is composed with another
place by place, however they are cut, and has no powers; adjoints commute with transposes.

A name stands for one atom: keep to that across the expressions that you combine. A number is a multiple of the identity of
the space that its neighbours in a sum have, and of X when it stands alone.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from opalgebra.adjoint import AdjointOf, Reversed, adjoint, transpose
from opalgebra.commutator import Commutator, commutator
from opalgebra.errors import InputError, LimitError, NotLinearError, SpaceError
from opalgebra.expr import Atom, Compose, Identity, Operator, Sum, Zero, factors, linear_combination, ordered_product
from opalgebra.facts import Fact, Inverse
from opalgebra.inverse import inverse
from opalgebra.letters import Names, Value, atom_symbol, letter_symbol, number, refuse
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import Polynomial, Scalar
from opalgebra.space import X
from opalgebra.tensor import tensor

DEEPEST = 64
LIMIT = 200_000
_LARGEST_EXPONENT = 4_000


def to_sympy(operator: Operator, facts: Iterable[Fact] = ()) -> Any:
    """The operator as a SymPy expression; `from_sympy(to_sympy(A), atoms=A.atoms)` is the same map as A, and equal to it
    when no factor but the first of a product is zero or has a coefficient (SymPy moves it to the front) and no commutator
    is turned round.

    Of the facts, `Inverse(A)` of linear atoms are used; what SymPy then concludes holds under these facts. NotLinearError
    when a nonlinear map stands to the left of another factor. LimitError for sums and commutators nested more than 64 deep
    (SymPy recurses). SpaceError for a multiple of an identity, or a zero, that is no map of X to X.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.to_sympy(2 * A @ (1 + B) @ B @ B)
    2*A*(1 + B)*B**2
    >>> oa.to_sympy(A @ oa.inverse(A) @ B), oa.to_sympy(A @ oa.inverse(A) @ B, facts=[oa.Inverse(A)])
    (A*inverse(A)*B, B)
    """
    if not isinstance(operator, Operator):
        raise InputError(f"to_sympy takes an operator, not {type(operator).__name__}; of a theorem, give .lhs or .rhs")
    names = Names(operator.atoms)
    for atom in operator.atoms:
        if atom.symbols:
            names.family(atom.base)
    letters = {
        inverse(fact.operator): fact.operator
        for fact in facts
        if isinstance(fact, Inverse) and isinstance(fact.operator, Atom) and fact.operator.is_linear
    }
    result, _ = without_recursion(_written(operator, letters, {}))
    if result.is_commutative and (operator.domain, operator.codomain) != (X, X):
        raise SpaceError(
            f"{operator} maps {operator.domain} to {operator.codomain}, but in SymPy it is a mere number, which is read back "
            "as a map of X to X; convert the terms around it instead"
        )
    return result


def _refuse_nonlinear(left: Sequence[Operator]) -> None:
    for factor in left:
        if not factor.is_linear and not factor.is_state:
            raise NotLinearError(
                f"{factor} stands to the left of another factor, but is not known to be linear, and SymPy distributes every "
                "product; on a state, dress it first (expand does), or declare it with kind='linear' if it is"
            )


Written = tuple[Any, int]


def _written(operator: Operator, inverses: dict[Operator, Atom], known: dict[Operator, Written]) -> Steps[Written]:
    """The SymPy form of an operator, and how deep sums and commutators are nested in it."""
    import sympy
    from sympy.physics import quantum

    if operator in known:
        return known[operator]
    parts: Sequence[Operator] = ()
    if isinstance(operator, Compose):
        parts = factors(operator)
        _refuse_nonlinear(parts[:-1])
    elif isinstance(operator, Sum | Commutator) or (
        isinstance(operator, Reversed) and not isinstance(operator.operator, Reversed)
    ):
        parts = operator.parts
    elif operator in inverses:
        parts = [inverses[operator]]
    forms: list[Any] = []
    height = 0
    for part in parts:
        form, below = yield _written(part, inverses, known)
        forms.append(form)
        height = max(height, below + isinstance(operator, Sum | Commutator))
    if height > DEEPEST:
        raise LimitError(
            f"sums and commutators are nested more than {DEEPEST} deep, and SymPy recurses; expand the operator first"
        )
    if isinstance(operator, Compose):
        form = sympy.Mul(*forms)
    elif isinstance(operator, Sum):
        form = sympy.Add(*(number(coefficient) * form for (coefficient, _), form in zip(operator.terms, forms)))
    elif isinstance(operator, Commutator):
        form = quantum.Commutator(*forms)
    elif isinstance(operator, Identity | Zero):
        form = sympy.Integer(isinstance(operator, Identity))
    elif isinstance(operator, Atom):
        form = atom_symbol(operator)
    elif not forms:
        form = letter_symbol(operator)
    elif isinstance(operator, Reversed):
        form = quantum.Dagger(*forms) if isinstance(operator, AdjointOf) else sympy.transpose(*forms)
    else:
        form = forms[0] ** -1
    known[operator] = form, height
    return known[operator]


def from_sympy(expression: Any, atoms: Iterable[Atom] = ()) -> Operator:
    """The operator of a SymPy expression. A symbol is the given atom of its name, else a linear atom on X; an Indexed is a
    member of the family that a given atom is in, else of linear maps of X.

    Floats are taken at their exact binary value, `A**-1` of a linear map is `inverse(A)`, `TensorProduct` is `tensor`. What
    else SymPy can write (functions, sums over an index, ...) is refused by name with InputError; a product with a nonlinear
    map to the left of another factor raises NotLinearError, spaces that do not fit SpaceError, and a power of more than
    200,000 factors LimitError. Symbol names are looked up or parsed, never evaluated.

    >>> import opalgebra as oa, sympy
    >>> A, B = sympy.symbols("A B", commutative=False)
    >>> print(oa.from_sympy(sympy.expand(A * (A + B / 2))))
    A @ A + 1/2*A @ B
    """
    from sympy import Basic

    if not isinstance(expression, Basic):
        raise InputError(f"from_sympy reads SymPy expressions, not {type(expression).__name__}; for text, use parse")
    return _operator(without_recursion(_read(expression, Names(atoms), {})))


def _read(expression: Any, names: Names, known: dict[Any, Value]) -> Steps[Value]:
    """The value of an expression, parts before wholes; a number stays a number until it meets an operator."""
    import sympy
    from sympy.core.function import AppliedUndef
    from sympy.physics import quantum

    if id(expression) in known:
        return known[id(expression)]
    what = AppliedUndef if isinstance(expression, AppliedUndef) else type(expression)
    turned = {sympy.adjoint: adjoint, quantum.Dagger: adjoint, sympy.transpose: transpose}
    read: dict[Any, tuple[slice, Callable[[list[Value]], Value]]] = {
        sympy.Add: (slice(None), _sum),
        sympy.Mul: (slice(None), _product),
        sympy.Pow: (slice(1), lambda parts: _power(parts[0], expression.exp)),
        quantum.Commutator: (slice(None), lambda parts: commutator(*map(_operator, parts))),
        quantum.TensorProduct: (slice(None), _tensor),
        sympy.Indexed: (slice(1, None), lambda parts: names.member(expression, parts)),
        AppliedUndef: (slice(None), lambda parts: names.function(expression, parts)),
        **dict.fromkeys(turned, (slice(None), lambda parts: turned[what](_operator(parts[0])))),
    }
    result: Value
    if what in read:
        chosen, build = read[what]
        parts: list[Value] = []
        for part in expression.args[chosen]:
            parts.append((yield _read(part, names, known)))  # noqa: PERF401
        result = build(parts)
    elif isinstance(expression, sympy.Rational):
        result = Fraction(int(expression.p), int(expression.q))
    elif isinstance(expression, sympy.Float):
        result = _exact(*expression._mpf_)
    elif what is sympy.Symbol:
        result = names.scalar(expression) if expression.is_commutative else names.symbol(expression)
    else:
        result = refuse(expression)
    known[id(expression)] = result
    return result


def _exact(sign: int, mantissa: int, exponent: int, bits: int) -> Fraction:
    """The value of a binary float, as exact as it is stored."""
    if abs(exponent) + bits > _LARGEST_EXPONENT:
        raise LimitError("a coefficient would have more than 1,000 digits; use scalars with fewer")
    signed = -int(mantissa) if sign else int(mantissa)
    return Fraction(signed * 2 ** max(exponent, 0), 2 ** max(-exponent, 0))


def _operator(value: Value) -> Operator:
    return value if isinstance(value, Operator) else value * Identity(X)


def _sum(values: list[Value]) -> Value:
    number: Scalar = sum((value for value in values if not isinstance(value, Operator)), Fraction(0))
    operators = [value for value in values if isinstance(value, Operator)]
    if not operators:
        return number
    first = operators[0]
    return linear_combination(((1, operator) for operator in operators), first.domain, first.codomain) + number


def _product(values: list[Value]) -> Value:
    coefficient: Scalar = Fraction(1)
    operators = []
    for value in values:
        if isinstance(value, Operator):
            operators.append(value)
        else:
            coefficient = coefficient * value
    if not operators:
        return coefficient
    _refuse_nonlinear(operators[:-1])
    return coefficient * ordered_product(reversed(operators))


def _tensor(values: list[Value]) -> Value:
    if not all(isinstance(value, Operator) for value in values):
        raise InputError(
            "a number in a TensorProduct is a multiple of the identity of a space that SymPy does not name; write the identity "
            "of positions, say, as Symbol('one(positions)', commutative=False)"
        )
    return tensor(*map(_operator, values))


def _power(base: Value, exponent: Any) -> Value:
    if not exponent.is_Integer:
        raise InputError(f"a power here is an integer, not SymPy's {type(exponent).__name__}; there are no roots here yet")
    power = int(exponent)
    if isinstance(base, Fraction):
        raise InputError("a power of a number was left unevaluated; give the number, for example by doit()")
    if isinstance(base, Polynomial):
        if abs(power) > _LARGEST_EXPONENT:
            raise LimitError(f"a power of a scalar would be more than {_LARGEST_EXPONENT:,}; use a smaller exponent")
        return base**power
    if len(factors(base)) * abs(power) > LIMIT:
        raise LimitError(f"a power would have more than {LIMIT:,} factors; use a smaller exponent")
    _refuse_nonlinear([] if power in (0, 1) else [base])
    root = inverse(base) if power < 0 else base
    return root if abs(power) == 1 else root ** abs(power)
