"""The commutator of linear operators, kept as entered until `expand` unfolds it: `[A, B] = A @ B - B @ A`.

    [A, A] = 0      [1, A] = 0 = [A, 1]      [c A, B] = c [A, B] = [A, c B]

are used when one is built. It is linear in both places, which only linear operators make true: for nonlinear maps
`A @ (B + C)` is not `A @ B + A @ C`, and neither Jacobi's identity nor bilinearity holds.
"""

from collections.abc import Sequence
from typing import Any, final

from opalgebra import expr
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import Identity, Operator, Sum, Zero
from opalgebra.scalar import Scalar, as_scalar


@final
class Commutator(Operator):
    """`[left, right]`, a linear map of a space to itself."""

    __slots__ = ()
    is_multilinear = True

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return commutator(*fields)

    left: Operator = expr._part(0)
    right: Operator = expr._part(1)

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self.fields

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return commutator(*parts)

    @property
    def unfolded(self) -> Operator:
        """`left @ right - right @ left`."""
        return self.left @ self.right - self.right @ self.left


def commutator(left: Operator, right: Operator) -> Operator:
    """`[left, right]`. NotLinearError unless both are linear, SpaceError unless both map one space to itself.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.commutator(A, 2 * B)
    2*commutator(A, B) where A, B: linear
    """
    coefficient: Scalar = as_scalar(1)
    sides = []
    for operator in (left, right):
        if not isinstance(operator, Operator):
            raise InputError(f"{operator!r} is no operator and has no commutator; a scalar commutes with every linear operator")
        if not operator.is_linear:
            raise NotLinearError(
                f"the commutator of {operator} was asked, but it is not known to be linear, and for other maps a commutator "
                "is neither bilinear nor obeys Jacobi's identity; dress it on a state first, or declare it with kind='linear'"
            )
        while isinstance(operator, Sum) and len(operator.terms) == 1:
            share, operator = operator.terms[0]
            coefficient = coefficient * share
        sides.append(operator)
    first, second = sides
    spaces = {first.domain, first.codomain, second.domain, second.codomain}
    if len(spaces) > 1:
        raise SpaceError(
            f"[{left}, {right}] maps between {', '.join(sorted(map(str, spaces)))}; a commutator needs two maps of one space "
            "to itself"
        )
    if first is second or any(isinstance(side, Identity | Zero) for side in sides):
        return Zero(left.domain, left.domain)
    result = Commutator._intern((first, second), left.domain, left.domain, True)
    return result if coefficient == 1 else coefficient * result
