"""Other maps for the atoms of an expression, everywhere: in backgrounds, under binders, and in the facts of a theorem.

What holds for all maps holds for each. When an atom F is interpreted as the value of an operator G, with the dressings that
the chain rule gives G, the expression means what it becomes here: `F<s>` becomes the dressing of G at what s becomes. A value
is a map of the same spaces, linear where the atom is, and it may be given for a family: `V[l]` for every l.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from opalgebra.atoms import Family
from opalgebra.dressing import dressed, source
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import Atom, Dressed, Index, Operator, Source, at, check_operators, is_bound, postorder
from opalgebra.facts import Every, Fact, Linear
from opalgebra.indexed import Binder, IndexedSum, OrderedProduct, OrderedSum, indexed_sum, ordered_product, ordered_sum
from opalgebra.scalar import Polynomial, Scalar, Symbol, as_scalar, fresh_names, scalar_of, symbol, the_symbol

_BINDERS: dict[type[Operator], Callable[..., Operator]] = {
    OrderedProduct: ordered_product, IndexedSum: indexed_sum, OrderedSum: ordered_sum
}  # fmt: skip


class Members(NamedTuple):
    """The operators for the members of a family: `operator`, which holds the indices of the member as symbols."""

    indices: tuple[Symbol, ...]
    operator: Operator

    def member(self, indices: tuple[Index, ...]) -> Operator:
        """The operator for the member with these indices."""
        if len(indices) != len(self.indices):
            raise InputError(f"a member has {len(indices)} indices, and what is put for it {len(self.indices)}; give as many")
        return at(self.operator, dict(zip(self.indices, map(as_scalar, indices))))


Choices = Mapping[Atom | Family, Operator | Members]


def choices_of(values: Mapping[Any, Any], met: Iterable[Operator]) -> Choices:
    """The operators that are given for atoms and families, checked; `met` are the expressions in which they stand.

    For a family another family, an operator for all members, or a function of the indices. SpaceError, NotLinearError or
    InputError where a value does not fit.
    """
    there = dict.fromkeys(atom for operator in met for atom in operator.atoms)
    chosen: dict[Atom | Family, Operator | Members] = {}
    for key, value in values.items():
        if isinstance(key, Family):
            if callable(value) and not isinstance(value, Operator | Family | Members) and not _lengths(key, there):
                continue
            found = value if isinstance(value, Members) else _members(key, value, there)
            typical, operator = key[0], found.operator
        elif isinstance(key, Atom) and not key.symbols:
            found, typical, operator = value, key, value
            for atom in there:
                if atom.symbols and family_of(atom) == family_of(key):
                    raise InputError(f"{key} cannot be given alone, for {atom} may be it; give the family {key.base}")
        else:
            raise InputError(f"{key!r} is no atom and no family, and only these and symbols have values; name one")
        _check(key, typical, operator)
        chosen[key] = found
    return chosen


def _lengths(key: Family, there: Iterable[Atom]) -> set[int]:
    """How many indices the members have that are met."""
    return {len(atom.indices) for atom in there if atom.indices and family_of(atom) == key}


def _members(key: Family, value: Any, there: Iterable[Atom]) -> Members:
    lengths = _lengths(key, there) or {1}
    names = tuple(symbol(f"index{place}_of_{key.name}"[:100]) for place in range(max(lengths)))
    if len(lengths) > 1:
        raise InputError(f"members of {key.name} have {min(lengths)} and {max(lengths)} indices; give them one at a time")
    indices = tuple(map(the_symbol, names))
    if isinstance(value, Family):
        return Members(indices, value[names])  # type: ignore[index]
    found = value if isinstance(value, Operator) else value(*names) if callable(value) else value
    check_operators(found)
    return Members(indices, found)


def _check(key: Atom | Family, typical: Atom, operator: Operator) -> None:
    name = key.name
    check_operators(operator)
    if (operator.domain, operator.codomain) != (typical.domain, typical.codomain):
        raise SpaceError(
            f"{name} maps {typical.domain} to {typical.codomain} and cannot be {operator}, which maps {operator.domain} to "
            f"{operator.codomain}; give a map of the same spaces"
        )
    if typical.is_linear and not operator.is_linear:
        raise NotLinearError(f"{name} is linear and cannot be {operator}, which is not known to be linear; what holds need not")
    if any(map(is_bound, operator.symbols)):
        raise InputError(f"{operator} has an index that a product or sum binds; open its body at a symbol of your own")


def family_of(atom: Atom) -> Family | None:
    """The family of an atom with indices."""
    return Family(atom.base, str(atom.kind), atom.domain, atom.codomain) if atom.indices else None


def instance(operator: Operator, chosen: Choices) -> Operator:
    """The operator with the chosen operators for its atoms. A bound index is a symbol of its own while its body is open."""
    nodes = list(postorder(operator, backgrounds=True, bodies=True))
    levels = sorted({node.level for node in nodes if isinstance(node, Binder)})
    values = [value.operator if isinstance(value, Members) else value for value in chosen.values()]
    taken = {found for part in (*nodes, *values) for found in part.symbols}
    opened = dict(zip(levels, map(symbol, fresh_names(taken, len(levels)))))
    free: dict[Symbol, Scalar] = {Symbol(f"#{level}", "natural"): index for level, index in opened.items()}
    done: dict[Operator, Operator] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(replaced, value))
        if isinstance(value, Operator):
            return done[value]
        return value.at(free) if isinstance(value, Polynomial) else value

    for node in nodes:
        parts = replaced(node.fields)
        if isinstance(node, Binder):
            body, level, *rest = parts
            done[node] = _BINDERS[type(node)](body, opened[level], *rest)
        elif isinstance(node, Dressed | Source):
            done[node] = (dressed if isinstance(node, Dressed) else source)(*parts)
        else:
            made = node._rebuilt(*parts)
            done[node] = _chosen(made, chosen) if isinstance(made, Atom) else made
    return done[operator]


def _chosen(atom: Atom, chosen: Choices) -> Operator:
    if atom in chosen:
        return chosen[atom]  # type: ignore[return-value]
    members = chosen.get(family) if (family := family_of(atom)) else None
    return members.member(atom.indices) if isinstance(members, Members) else atom


def instance_of_fact(fact: Fact, chosen: Choices) -> Fact | None:
    """The fact of the chosen operators; None when it holds by their kinds, as `Linear` does of what is linear.

    InputError where the fact is of a family whose members become something that is no family.
    """
    if isinstance(fact, Every):
        values = [value.operator if isinstance(value, Members) else value for value in chosen.values()]
        taken = {found for operator in (*fact.operators, *values) for found in operator.symbols}
        index = symbol(*fresh_names(taken, 1))
        stated = fact.equation(index)
        return Every(instance(stated.lhs, chosen), instance(stated.rhs, chosen), index)
    parts = [_part(fact, getattr(fact, part.name), chosen) for part in fields(fact)]
    if isinstance(fact, Linear) and isinstance(parts[0], Operator) and parts[0].is_linear:
        return None
    return type(fact)(*parts)


def _part(fact: Fact, value: Any, chosen: Choices) -> Any:
    if isinstance(value, Operator):
        return instance(value, chosen)
    if not isinstance(value, Family):
        return value
    if any(isinstance(key, Atom) and family_of(key) == value for key in chosen):
        raise InputError(f"a member of {value.name} cannot be given alone, for {fact} is about all; give {value.name}")
    members = chosen.get(value)
    if members is None:
        return value
    assert isinstance(members, Members)
    found = family_of(members.operator) if isinstance(members.operator, Atom) else None
    if found is None or members.operator is not found[tuple(map(scalar_of, members.indices))]:  # type: ignore[arg-type]
        raise InputError(f"the hypothesis {fact} is about the family {value.name}, and {members.operator} makes no family")
    return found
