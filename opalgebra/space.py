"""Spaces are what operators act between; kinds are what an operator is known to be.

A space is a tensor product of named factors, so it is equal to another when the factors are. Two spaces are special.
`K`, the scalars, is the empty product and the unit of the tensor product. `ONE` is the one-point space: a map out of it
is a state, and it is no vector space, so it takes part in no tensor product.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from opalgebra.errors import SpaceError

_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, init=False)
class Space:
    """A tensor product of named factors: `Space("positions", "features")`; `*` is the tensor product."""

    factors: tuple[str, ...]

    def __init__(self, *factors: str) -> None:
        if "X" in factors or "K" in factors:
            raise SpaceError(f"the factors {factors!r} name a space of their own, X or K; use opalgebra.X or opalgebra.K")
        if any(not isinstance(name, str) or _NAME.fullmatch(name) is None for name in factors) and factors != ("1",):
            raise SpaceError(f"the factors of a space are named by identifiers, not by {factors!r}; rename them")
        object.__setattr__(self, "factors", factors)

    def __mul__(self, other: "Space") -> "Space":
        if ONE in (self, other):
            raise SpaceError("the one-point space is no vector space and takes part in no tensor product; use K")
        return Space(*self.factors, *other.factors)

    def __str__(self) -> str:
        return {ONE: "1", K: "K", X: "X"}.get(self) or "*".join(self.factors)

    __repr__ = __str__


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
