"""The inverse of a map, linear or not, as a letter; that it exists is a hypothesis of what uses it.

Where a map has no inverse, the letter stands for the zero map, so that everything said of it here holds for all maps:

    1^-1 = 1      (c A)^-1 = 1/c A^-1 for linear A and a number c other than 0      (A (x) B)^-1 = A^-1 (x) B^-1

and an inverse is linear when the map is. `A @ A^-1 = 1 = A^-1 @ A` are equations of the fact `Inverse(A)`.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, final

from opalgebra import expr
from opalgebra.errors import InputError, SpaceError
from opalgebra.expr import Identity, Operator, Sum
from opalgebra.tensor import Tensor, tensor


@final
class InverseOf(Operator):
    """`operator^-1`, a map from the codomain of the operator to its domain."""

    __slots__ = ()

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return inverse(*fields)

    operator: Operator = expr._part(0)

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self.fields

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return inverse(*parts)


def inverse(operator: Operator) -> Operator:
    """`operator^-1`, by the laws of the module. SpaceError for a state, InputError for what is no operator.

    >>> import opalgebra as oa
    >>> A = oa.Atom("A", kind="linear")
    >>> oa.inverse(1 - A)
    inverse(1 - A) where A: linear
    """
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no inverse; of a scalar c, write 1 / c")
    if operator.is_state:
        raise SpaceError(f"{operator} is a state and has no inverse; only maps between spaces have one")
    if isinstance(operator, Identity):
        return operator
    if isinstance(operator, Tensor):
        return tensor(*map(inverse, operator.blocks))
    if isinstance(operator, Sum) and len(operator.terms) == 1 and operator.is_linear:
        coefficient, term = operator.terms[0]
        if isinstance(coefficient, Fraction):
            return 1 / coefficient * inverse(term)
    return InverseOf._intern((operator,), operator.codomain, operator.domain, operator.is_linear)
