"""Adjoints and transposes of linear operators; both reverse the order of a composition.

    (A @ B)+ = B+ @ A+      (a A + b B)+ = a A+ + b B+      (A (x) B)+ = A+ (x) B+      A++ = A      1+ = 1
    (A^-1)+ = (A+)^-1      [A, B]+ = [B+, A+]      tr(A)+ = tr(A+)      P(B(l), a..b)+ = P(B(a + b - l)+, a..b)

and the same for the transpose. They are computed, and names on letters only: on atoms, dressings, functions and ordered
sums. Scalars are real. The adjoint of a transpose stays as it is written.
"""

from collections.abc import Sequence
from typing import Any, final

from opalgebra import expr
from opalgebra.commutator import Commutator, commutator
from opalgebra.errors import InputError, NotLinearError
from opalgebra.expr import Compose, Identity, Operator, Sum, Zero, factors, linear_combination, ordered_product
from opalgebra.indexed import IndexedSum, OrderedProduct, Range
from opalgebra.inverse import InverseOf, inverse
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import as_scalar
from opalgebra.tensor import Tensor, tensor
from opalgebra.trace import TraceOf, trace


class Reversed(Operator):
    """A letter with domain and codomain exchanged; abstract."""

    __slots__ = ()
    is_multilinear = True

    operator: Operator = expr._part(0)

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self.fields


@final
class AdjointOf(Reversed):
    """`operator+` of a letter."""

    __slots__ = ()

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return adjoint(*fields)

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return adjoint(*parts)


@final
class TransposeOf(Reversed):
    """`operator^T` of a letter."""

    __slots__ = ()

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return transpose(*fields)

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return transpose(*parts)


def adjoint(operator: Operator) -> Operator:
    """`operator+`, a linear map from the codomain to the domain. NotLinearError for a map not known to be linear, and a state.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.adjoint(A @ B) == oa.adjoint(B) @ oa.adjoint(A)
    True
    """
    return _reversed(operator, AdjointOf, "adjoint")


def transpose(operator: Operator) -> Operator:
    """`operator^T`; see `adjoint`."""
    return _reversed(operator, TransposeOf, "transpose")


def _reversed(operator: Operator, letter: type[Reversed], name: str) -> Operator:
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no {name}; scalars are real, so they are their own")
    if operator.is_state or not operator.is_linear:
        raise NotLinearError(
            f"the {name} of {operator} was asked, but it is not known to be a linear map between vector spaces; dress a "
            "nonlinear map on a state first, and for a bra or ket use a linear atom to or from K"
        )
    done: dict[Operator, Operator] = {}
    return without_recursion(_steps(operator, letter, done))


def _steps(operator: Operator, letter: type[Reversed], done: dict[Operator, Operator]) -> Steps[Operator]:
    if operator in done:
        return done[operator]
    done[operator] = yield _step(operator, letter, done)
    return done[operator]


def _step(operator: Operator, letter: type[Reversed], done: dict[Operator, Operator]) -> Steps[Operator]:
    if isinstance(operator, Identity):
        return operator
    if isinstance(operator, Zero):
        return Zero(operator.codomain, operator.domain)
    if isinstance(operator, letter):
        inside: Operator = operator.operator
        return inside
    if isinstance(operator, Range):
        turned: Operator = yield _range(operator, letter)
        return turned
    if not isinstance(operator, Compose | Sum | Tensor | InverseOf | Commutator | TraceOf):
        return letter._intern((operator,), operator.codomain, operator.domain, True)
    parts: list[Operator] = []
    for part in factors(operator) if isinstance(operator, Compose) else operator.parts:
        parts.append((yield _steps(part, letter, done)))  # noqa: PERF401
    if isinstance(operator, Sum):
        scaled = ((c, part) for (c, _), part in zip(operator.terms, parts))
        return linear_combination(scaled, operator.codomain, operator.domain)
    if isinstance(operator, TraceOf):
        return trace(parts[0], *operator.over)
    if isinstance(operator, Compose):
        return ordered_product(parts)
    if isinstance(operator, Commutator):
        return commutator(*reversed(parts))
    return inverse(*parts) if isinstance(operator, InverseOf) else tensor(*parts)


def _range(operator: Range, letter: type[Reversed]) -> Steps[Operator]:
    index = operator.free_index()
    at: Any = index
    if isinstance(operator, OrderedProduct):
        at = as_scalar(operator.lower) + operator.upper - index
    inside = yield _steps(operator.opened(at), letter, {})
    assert isinstance(operator, IndexedSum | OrderedProduct)
    return operator.over(inside, index)
