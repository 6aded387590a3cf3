"""Naming operators: atoms, states, and families of atoms with an index."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

from opalgebra.display import Displayed
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Index, Operator, as_index, check_operators
from opalgebra.space import ONE, Kind, Space, X


def atoms(names: str, *, kind: str, domain: Space | None = None, codomain: Space = X) -> tuple[Atom, ...]:
    """One atom for each name in a text of names separated by spaces."""
    if not isinstance(names, str):
        raise InputError(f"{names!r} is no text; write the names in one text with spaces between them, as in atoms('A B', ...)")
    return tuple(Atom(name, kind=kind, domain=domain, codomain=codomain) for name in names.split())


def state(name: str, *, codomain: Space = X) -> Atom:
    """A named state: a map from the one-point space to `codomain`."""
    return Atom(name, kind=Kind.STATE, codomain=codomain)


@final
@dataclass(frozen=True, repr=False)
class Family(Displayed):
    """Atoms that differ in their indices alone: `V[3]` is the atom `V3`, `A[2, 1]` is `A2_1`, `V[l]` has a symbol for index."""

    name: str
    kind: str
    domain: Space
    codomain: Space

    __iter__: ClassVar[None] = None

    def __post_init__(self) -> None:
        first = Atom(self.name, kind=self.kind, domain=self.domain, codomain=self.codomain)
        if first.indices or Atom(f"{self.name}0", kind=self.kind, domain=self.domain, codomain=self.codomain).base != self.name:
            raise InputError(f"{self.name!r} ends in an index and names no family; use a name without digits at its end")
        object.__setattr__(self, "kind", first.kind)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> Atom:
        indices = index if isinstance(index, tuple) else (index,)
        indices = tuple(as_index(part, of=self.name) for part in indices)
        return Atom._make(self.name, indices, self.kind, self.domain, self.codomain)

    def __repr__(self) -> str:
        return f"family({self.name!r}, kind={str(self.kind)!r})"

    __str__ = __repr__


def family(name: str, *, kind: str, domain: Space | None = None, codomain: Space = X) -> Family:
    """A family of atoms, indexed by natural numbers or by symbols for them."""
    return Family(name, kind, (ONE if kind == Kind.STATE else X) if domain is None else domain, codomain)


Layers = Family | Callable[[Any], Operator]


def layer_of(layers: Layers, index: Any) -> Operator:
    """The operator of a layer, from a family or a function of the index. InputError for anything else."""
    if not callable(layers) and not isinstance(layers, Family):
        raise InputError(f"{layers!r} is no family and no function of an index; pass a family, or lambda l: g * V[l]")
    found = layers[index] if isinstance(layers, Family) else layers(index)
    check_operators(found)
    return found
