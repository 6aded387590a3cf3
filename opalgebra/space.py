"""Spaces are what operators act between; kinds are what an operator is known to be.

A space is a tensor product of named factors, so it is equal to another when the factors are. Two spaces are special.
`K`, the scalars, is the empty product and the unit of the tensor product. `ONE` is the one-point space: a map out of it
is a state, and it is no vector space, so it takes part in no tensor product.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from opalgebra.errors import SpaceError

_NAME = re.compile(r"[^\W\d]\w{0,199}")


@dataclass(frozen=True, init=False)
class Space:
    """A tensor product of named factors: `Space("positions", "features")`; `*` is the tensor product."""

    factors: tuple[str, ...]

    def __init__(self, *factors: str) -> None:
        if "X" in factors or "K" in factors:
            raise SpaceError(f"the factors {factors!r} name a space of their own, X or K; use opalgebra.X or opalgebra.K")
        if any(not isinstance(name, str) or _NAME.fullmatch(name) is None for name in factors) and factors != ("1",):
            shown = repr(factors) if len(repr(factors)) <= 200 else f"{repr(factors)[:40]}..."
            raise SpaceError(f"the factors of a space are named by identifiers, not by {shown}; rename them")
        object.__setattr__(self, "factors", factors)

    def __mul__(self, other: "Space") -> "Space":
        check_spaces(other)
        if ONE in (self, other):
            raise SpaceError("the one-point space is no vector space and takes part in no tensor product; use K")
        return Space(*self.factors, *other.factors)

    def __str__(self) -> str:
        return {ONE: "1", K: "K", X: "X"}.get(self) or "*".join(self.factors)

    __repr__ = __str__


def check_spaces(*values: object) -> None:
    """SpaceError for the first value that is no space."""
    for value in values:
        if not isinstance(value, Space):
            is_name = isinstance(value, str) and _NAME.fullmatch(value) and value not in ("X", "K")
            named = f"Space({value!r})" if is_name else "Space('hidden')"
            raise SpaceError(f"{value!r} is no space; use {named}, or X, the space of a Transformer's states")


ONE = Space("1")
K = Space()
POSITIONS = Space("positions")
FEATURES = Space("features")
X = POSITIONS * FEATURES


class Kind(StrEnum):
    """What an operator is known to be. `attention`, `ffn` and `norm` are nonlinear maps with a part in a Transformer."""

    LINEAR = "linear"
    NONLINEAR = "nonlinear"
    STATE = "state"
    ATTENTION = "attention"
    FFN = "ffn"
    NORM = "norm"
