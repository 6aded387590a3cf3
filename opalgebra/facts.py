"""What may be declared of operators: a fixed list of facts, each an equation or a scheme of equations.

    Linear(F)        F @ (a G + b H) = a F @ G + b F @ H      Homogeneous(F)   F @ (c G) = c F @ G for c > 0
    Equal(A, B)      A = B                                    Commute(A, B)    A @ B = B @ A
    Idempotent(A)    A @ A = A                                Nilpotent(A, n)  A^n = 0
    Inverse(A, B)    A @ B = 1 and B @ A = 1                  Adjoint(A, B)    A+ = B
    Causal(F, P)     P[t] @ F = P[t] @ F @ P[t] for every prefix projector P[t]
    Form(A, B, s)    A = B in the split s                     (A a dressing, B a tensor product)
    Every(A, B, i)   A = B for every natural number i

A fact of a family is one of all its members, of Commute of every pair of them. Nothing is concluded from a fact but by the
kernel, which puts it among the hypotheses of the theorem; facts never reach into the operator of a dressing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from opalgebra.adjoint import adjoint
from opalgebra.atoms import Family
from opalgebra.display import Displayed
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import (
    Atom,
    Compose,
    Dressed,
    Identity,
    Index,
    Operator,
    Sum,
    Zero,
    as_index,
    at,
    bound_symbol,
    linear_combination,
    postorder,
    terms,
)
from opalgebra.indexed import ordered_product
from opalgebra.inverse import InverseOf, inverse
from opalgebra.scalar import (
    Polynomial,
    Scalar,
    ScalarLike,
    Symbol,
    as_scalar,
    fits,
    free_symbols,
    fresh_names,
    scalar_of,
    symbol,
    the_symbol,
)

Operand = Operator | Family


@dataclass(frozen=True, repr=False)
class Fact(Displayed):
    """A declared fact; abstract."""

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The free symbols of the fact."""
        return frozenset().union(*(_symbols(getattr(self, part.name)) for part in fields(self)))

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The operators that the fact is of."""
        return tuple(value for part in fields(self) if isinstance(value := getattr(self, part.name), Operator))

    def at(self, values: Mapping[Symbol, Scalar]) -> Any:
        """The fact with values in place of symbols."""
        return type(self)(*(_at(getattr(self, part.name), values) for part in fields(self)))

    def equation(self, *arguments: Any) -> "Equal":
        """The equation that the fact states, of the given members where it is about a family."""
        raise NotImplementedError


def as_facts(facts: object) -> tuple[Fact, ...]:
    """The facts given, each once. InputError for what is no sequence of facts."""
    given = tuple(dict.fromkeys(facts)) if isinstance(facts, Iterable) and not isinstance(facts, Operator) else (facts,)
    for fact in given:
        if not isinstance(fact, Fact):
            raise InputError(f"{fact!r} is no fact; declare a list of them, as in facts=[Commute(A, B), Equal(A @ B, C)]")
    return given


def _symbols(value: Any) -> frozenset[Symbol]:
    return value.symbols if isinstance(value, Operator) else free_symbols(value)


def _at(value: Any, values: Mapping[Symbol, Scalar]) -> Any:
    if isinstance(value, Operator):
        return at(value, values)
    return value.at(values) if isinstance(value, Polynomial) else value


def is_member(operator: Operator, operand: Operand) -> bool:
    """Whether a fact of the operand is one of the operator: the same operator, or an atom of the family."""
    if isinstance(operand, Operator):
        return operator is operand
    return isinstance(operator, Atom) and bool(operator.indices) and operand[operator.indices] is operator


def _member(operand: Operand, given: tuple[Any, ...], place: int = 0) -> Operator:
    """The operator that a fact speaks of: its operand, or the given member of the operand."""
    if len(given) > place:
        if not is_member(given[place], operand):
            raise InputError(f"{given[place]} is not {operand}, of which the fact is; name a member of it")
        return given[place]  # type: ignore[no-any-return]
    if isinstance(operand, Family):
        raise InputError(f"a fact of the family {operand.name} is used of a member of it; name it, as in {operand.name}[1]")
    return operand


def _generic(operand: object, *, square: bool = True) -> Operator:
    """The operand, or a typical member of it; errors unless it is a map, and of a space to itself."""
    if not isinstance(operand, Operator | Family):
        raise InputError(f"{operand!r} is no operator and no family, and a fact is declared of one")
    found = operand[0] if isinstance(operand, Family) else operand
    if found.is_state:
        raise SpaceError(f"{found} is a state, and facts are declared of maps")
    if square and found.domain != found.codomain:
        raise SpaceError(f"{found} maps {found.domain} to {found.codomain}; this fact is of a map of one space to itself")
    return found


@dataclass(frozen=True, repr=False)
class Equal(Fact):
    """The statement `lhs = rhs` between maps of the same spaces; SpaceError when the spaces differ.

    As a declared fact it rewrites the larger side to the smaller, by number of factors and then by name.
    """

    lhs: Operator
    rhs: Operator

    def __post_init__(self) -> None:
        lhs, rhs = self.lhs, self.rhs
        for side in (lhs, rhs):
            if not isinstance(side, Operator):
                raise InputError(
                    f"{side!r} is no operator, and an equation has one on each side; build it from atoms or parse it"
                )
        if (lhs.domain, lhs.codomain) != (rhs.domain, rhs.codomain):
            raise SpaceError(
                f"the two sides map {lhs.domain} to {lhs.codomain} and {rhs.domain} to {rhs.codomain}; an equation "
                "needs the same spaces on both sides"
            )

    def equation(self, *arguments: Any) -> "Equal":
        return self


@dataclass(frozen=True, repr=False)
class Every(Fact):
    """`A(i) = B(i)` for every natural number i, which is bound: the name of the index does not matter.

    It is used at a value, `assume(fact, 3)` or `assume(fact, t + 1)`. SpaceError when the spaces of the sides differ.
    """

    lhs: Operator
    rhs: Operator
    index: Scalar

    def __post_init__(self) -> None:
        Equal(self.lhs, self.rhs)
        given = the_symbol(self.index)
        bound = bound_symbol(1 + max(self.lhs.height, self.rhs.height))
        if given.sort != "natural":
            raise InputError(f"{given.name} is {given.sort}, and an index is a natural number; use symbol('l')")
        if given != bound and bound in self.lhs.symbols | self.rhs.symbols:
            raise InputError(f"{self.lhs} has an index that a product or sum binds; open its body at a symbol of your own")
        for name, value in (("lhs", at(self.lhs, {given: scalar_of(bound)})), ("rhs", at(self.rhs, {given: scalar_of(bound)}))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "index", scalar_of(bound))

    @property
    def symbols(self) -> frozenset[Symbol]:
        return (self.lhs.symbols | self.rhs.symbols) - {the_symbol(self.index)}

    def equation(self, *values: Any) -> Equal:
        """The law at a natural number or a symbol for one."""
        if len(values) != 1:
            raise InputError(f"'{self}' is used at a value of its index; name one, as in assume(fact, 3)")
        value = {the_symbol(self.index): as_scalar(as_index(values[0], of="the index"))}
        return Equal(at(self.lhs, value), at(self.rhs, value))


def equation(lhs: Operator, rhs: Operator) -> Equal:
    """The unproved statement `lhs = rhs`, for `verify`. InputError for what is no operator."""
    return Equal(lhs, rhs)


@dataclass(frozen=True, repr=False)
class Linear(Fact):
    """`F @ (a G + b H) = a F @ G + b F @ H`, `F @ 0 = 0`: F is linear, though its kind does not say so.

    Of an atom or a family of atoms. Its dressings stay what the split makes of them.
    """

    operator: Operand

    def __post_init__(self) -> None:
        if not isinstance(_generic(self.operator, square=False), Atom):
            raise InputError(f"{self.operator} is no atom; declare its atoms linear, and the rest follows")

    def equation(self, total: Operator, *members: Operator) -> Equal:
        """The law at a sum."""
        found = _member(self.operator, members)
        parts = ((c, found @ term) for c, term in terms(total))
        return Equal(found @ total, linear_combination(parts, total.domain, found.codomain))


@dataclass(frozen=True, repr=False)
class Homogeneous(Fact):
    """`F @ (c G) = c F @ G` for every scalar c > 0: F is homogeneous of degree one, as a ReLU network without biases is."""

    operator: Operand

    def __post_init__(self) -> None:
        _generic(self.operator, square=False)

    def equation(self, scalar: ScalarLike, argument: Operator, *members: Operator) -> Equal:
        """The law at a positive scalar and an argument."""
        found, factor = _member(self.operator, members), as_scalar(scalar)
        if not is_positive(factor):
            raise InputError(f"{found} is homogeneous for positive scalars, and {factor} may be none")
        return Equal(found @ (factor * argument), factor * (found @ argument))


def is_positive(scalar: Scalar) -> bool:
    """Whether a scalar is greater than zero for all values of its symbols, by its coefficients alone."""
    return fits(Symbol("", "positive"), scalar)


@dataclass(frozen=True, repr=False)
class Commute(Fact):
    """`A @ B = B @ A`, of two maps of one space, linear or not. Of one family twice: all its members commute."""

    left: Operand
    right: Operand

    def __post_init__(self) -> None:
        left, right = _generic(self.left), _generic(self.right)
        if left.domain != right.domain:
            raise SpaceError(f"{left} acts on {left.domain} and {right} on {right.domain}; only maps of one space commute")

    def equation(self, *members: Operator) -> Equal:
        left, right = _member(self.left, members), _member(self.right, members, 1)
        return Equal(left @ right, right @ left)


@dataclass(frozen=True, repr=False)
class Idempotent(Fact):
    """`A @ A = A`: A is a projection, linear or not."""

    operator: Operand

    def __post_init__(self) -> None:
        _generic(self.operator)

    def equation(self, *members: Operator) -> Equal:
        found = _member(self.operator, members)
        return Equal(found @ found, found)


@dataclass(frozen=True, repr=False)
class Nilpotent(Fact):
    """`A^n = 0`, for a natural number n, at least 1."""

    operator: Operand
    power: Index

    def __post_init__(self) -> None:
        _generic(self.operator)
        if as_index(self.power, of="the power of a nilpotent operator") == 0:
            raise InputError(f"{self.operator}^0 is the identity and not zero; the power of a nilpotent operator is at least 1")

    def equation(self, *members: Operator) -> Equal:
        found = _member(self.operator, members)
        index = symbol(*fresh_names(found.symbols | free_symbols(self.power), 1))
        return Equal(ordered_product(found, index, 1, self.power), Zero(found.domain, found.codomain))


@dataclass(frozen=True, repr=False)
class Inverse(Fact):
    """`A @ B = 1` and `B @ A = 1`: B is the inverse of A. Without B: A has an inverse, `inverse(A)`.

    Of two families, for members with the same indices.
    """

    operator: Operand
    inverse: Operand | None = None

    def __post_init__(self) -> None:
        found = _generic(self.operator, square=False)
        if self.inverse is None and isinstance(self.operator, Operator):
            object.__setattr__(self, "inverse", inverse(self.operator))
        other = inverse(found) if self.inverse is None else _partner(self.inverse, self.operator, found)
        if (other.domain, other.codomain) != (found.codomain, found.domain):
            raise SpaceError(
                f"{found} maps {found.domain} to {found.codomain}, and {other} maps {other.domain} to {other.codomain}; an "
                "inverse goes back"
            )

    def equation(self, side: str = "right", *members: Operator) -> Equal:
        """`A @ B = 1` for B on the right, `B @ A = 1` for B on the left."""
        found = _member(self.operator, members)
        other = inverse(found) if self.inverse is None else _partner(self.inverse, self.operator, found)
        if side not in ("left", "right"):
            raise InputError(f"side={side!r}: an inverse stands on a side of the operator; use 'left' or 'right'")
        if side == "right":
            return Equal(found @ other, Identity(found.codomain))
        return Equal(other @ found, Identity(found.domain))


@dataclass(frozen=True, repr=False)
class Adjoint(Fact):
    """`A+ = B`, of linear maps; `Adjoint(A, A)` says that A is self-adjoint (Hermitian).

    Of two families, for members with the same indices.
    """

    operator: Operand
    adjoint: Operand

    def __post_init__(self) -> None:
        found = _generic(self.operator, square=False)
        other = _partner(self.adjoint, self.operator, found)
        Equal(adjoint(found), other)
        adjoint(other)

    def equation(self, side: str = "left", *members: Operator) -> Equal:
        """`A+ = B`, or for `right` its adjoint, `B+ = A`."""
        found = _member(self.operator, members)
        other = _partner(self.adjoint, self.operator, found)
        return Equal(adjoint(found), other) if side == "left" else Equal(adjoint(other), found)


def _partner(operand: Operand, first: Operand, member: Operator) -> Operator:
    """The member of a family that belongs to a member of the first one; an operator belongs to an operator."""
    if isinstance(operand, Family) != isinstance(first, Family):
        raise InputError(f"{operand!r} cannot belong to {first!r}; name two operators, or two families")
    if isinstance(operand, Family):
        assert isinstance(member, Atom)
        return operand[member.indices]
    if not isinstance(operand, Operator):
        raise InputError(f"{operand!r} is no operator and no family, and a fact is declared of one")
    return operand


@dataclass(frozen=True, repr=False)
class Causal(Fact):
    """`P[t] @ F = P[t] @ F @ P[t]` for every t: what F gives up to position t depends on its argument up to t alone.

    P is a family of linear maps, the projectors on the positions up to t. Holds for a nonlinear F, and passes on to
    compositions, and to sums since P[t] is linear.
    """

    operator: Operand
    projectors: Family

    def __post_init__(self) -> None:
        found = _generic(self.operator)
        if not isinstance(self.projectors, Family):
            raise InputError(f"{self.projectors!r} is no family; causality is about a family of projectors, one a position")
        projector = self.projectors[0]
        if not projector.is_linear or projector.domain != found.domain or projector.codomain != found.domain:
            raise NotLinearError(f"{projector.base} is no family of linear maps of {found.domain}, as prefix projectors are")

    def equation(self, position: Index | tuple[Index, ...], *members: Operator) -> Equal:
        """The law at a position, the index or indices of a projector."""
        found, projector = _member(self.operator, members), self.projectors[position]
        return Equal(projector @ found, projector @ found @ projector)


@dataclass(frozen=True, repr=False)
class Form(Fact):
    """`A = B` in the split named: the tensor product that a dressing is when, say, attention patterns are frozen."""

    dressing: Operator
    form: Operator
    split: str

    def __post_init__(self) -> None:
        if not isinstance(self.dressing, Dressed):
            raise InputError(f"{self.dressing} is no dressing; a split gives forms to dressings F<s> alone")
        Equal(self.dressing, self.form)
        if not self.form.is_linear:
            raise NotLinearError(f"{self.form} is not known to be linear, but a dressing is; it cannot be its form")

    def equation(self, *arguments: Any) -> Equal:
        return Equal(self.dressing, self.form)


def is_linear(operator: Operator, facts: Iterable[Fact]) -> bool:
    """Whether kinds and the facts `Linear` among those given prove an operator linear."""
    if operator.is_linear:
        return True
    declared = [fact for fact in facts if isinstance(fact, Linear)]
    if not declared or operator.is_state:
        return False
    linear: dict[Operator, bool] = {}
    for node in postorder(operator, backgrounds=False):
        if isinstance(node, Sum | Compose | InverseOf):
            linear[node] = node.is_linear or all(linear[part] for part in node.parts)
        else:
            linear[node] = node.is_linear or any(is_member(node, fact.operator) for fact in declared)
    return linear[operator]
