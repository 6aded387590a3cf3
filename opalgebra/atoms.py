"""Naming operators: atoms, states, and families of atoms with an index."""

from typing import final

from opalgebra.errors import InputError
from opalgebra.expr import Atom
from opalgebra.scalar import is_natural
from opalgebra.space import Kind, Space, X


def atoms(names: str, *, kind: str, domain: Space | None = None, codomain: Space = X) -> tuple[Atom, ...]:
    """One atom for each name in a text of names separated by spaces."""
    return tuple(Atom(name, kind=kind, domain=domain, codomain=codomain) for name in names.split())


def state(name: str, *, codomain: Space = X) -> Atom:
    """A named state: a map from the one-point space to `codomain`."""
    return Atom(name, kind=Kind.STATE, codomain=codomain)


@final
class Family:
    """Atoms that differ in their indices alone: `V[3]` is the atom `V3`, `A[2, 1]` is `A2_1`."""

    def __init__(self, name: str, *, kind: str, domain: Space | None = None, codomain: Space = X) -> None:
        self.name, self.kind, self.domain, self.codomain = name, kind, domain, codomain

    def __getitem__(self, index: int | tuple[int, ...]) -> Atom:
        indices = index if isinstance(index, tuple) else (index,)
        if not all(map(is_natural, indices)):
            raise InputError(f"{self.name}[{index}]: an index is a natural number or several; use {self.name}[3]")
        name = self.name + "_".join(map(str, indices))
        return Atom(name, kind=self.kind, domain=self.domain, codomain=self.codomain)

    def __repr__(self) -> str:
        return f"family({self.name!r}, kind={self.kind!r})"


def family(name: str, *, kind: str, domain: Space | None = None, codomain: Space = X) -> Family:
    """A family of atoms, indexed by natural numbers."""
    return Family(name, kind=kind, domain=domain, codomain=codomain)
