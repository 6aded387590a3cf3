"""Functions of a linear operator, such as `exp(A)`, as letters of which nothing is assumed.

No law of the function of a number is used: `log(A @ B)` is not `log(A) + log(B)`, and `exp(A + B)` not `exp(A) @ exp(B)`.
Equal operators have equal functions, and that is all.
"""

import re
from collections.abc import Sequence
from typing import Any, final

from opalgebra import expr
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import Operator

_NAME = re.compile(r"[a-z]{1,40}")


@final
class FunctionOf(Operator):
    """`name(operator)`, a linear map of a space to itself."""

    __slots__ = ()

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return function(*fields)

    name: str = expr._part(0)
    operator: Operator = expr._part(1)

    @property
    def parts(self) -> tuple[Operator, ...]:
        return (self.operator,)

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return function(self.name, *parts)


def function(name: str, operator: Operator) -> Operator:
    """The function `name` of a linear operator, opaque: `function("exp", A)`.

    NotLinearError and SpaceError unless the operator is a linear map of a space to itself; InputError for a name that is not
    of small letters.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        shown = f"{name[:20]!r}..." if isinstance(name, str) and len(name) > 200 else repr(name)
        raise InputError(f"{shown} is no name of a function; use small letters, as in function('exp', A)")
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator; function({name!r}, A) is a function of an operator A")
    if not operator.is_linear:
        raise NotLinearError(f"{name}({operator}): only linear operators have functions here; dress it on a state first")
    if operator.domain != operator.codomain:
        raise SpaceError(f"{name}({operator}): {operator} maps {operator.domain} to {operator.codomain}, not a space to itself")
    return FunctionOf._intern((name, operator), operator.domain, operator.domain, True)
