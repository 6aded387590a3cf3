"""Operators between products of spaces that depend on a parameter or not, and their meaning modulo powers of the prime."""

from contextlib import contextmanager
from unittest.mock import patch

import meaning
from hypothesis import strategies as st
from meaning import times

import opalgebra as oa
from opalgebra.expr import Identity
from opalgebra.space import FEATURES, ONE, POSITIONS, K, Space, X

DIMENSIONS = {"positions": 2, "features": 2}
SPACES = (K, POSITIONS, FEATURES, X)


@contextmanager
def modulo(modulus):
    """Meanings in the ring of residues modulo a power of the prime."""
    with patch.object(meaning, "PRIME", modulus):
        yield


def exists(model, operator, environment):
    """Whether a linear operator has an inverse in the model; ValueError when that is a matter of the ring."""
    matrix = model.matrix(operator, environment)
    size = len(matrix)
    unit = tuple(tuple(int(i == j) for j in range(size)) for i in range(size))
    return size == len(matrix[0]) and times(matrix, meaning.inverted(matrix)) == unit


def name(letter, domain, codomain):
    return "_".join([letter, *domain.factors, "to", *codomain.factors, ""])


def linear(letter, domain, codomain):
    return oa.Atom(name(letter, domain, codomain), kind="linear", domain=domain, codomain=codomain)


def nonlinear(letter, domain, codomain):
    kind = "state" if domain == ONE else "nonlinear"
    return oa.Atom(name(letter, domain, codomain), kind=kind, domain=domain, codomain=codomain)


def families(letter, space):
    return oa.family(name(letter, space, space)[:-1], kind="linear", domain=space, codomain=space)


def cuts(domain, codomain):
    """The ways to write two spaces as products of two."""
    return [
        (Space(*domain.factors[:i]), Space(*codomain.factors[:j]), Space(*domain.factors[i:]), Space(*codomain.factors[j:]))
        for i in range(len(domain.factors) + 1)
        for j in range(len(codomain.factors) + 1)
    ]


def common(draw, kind, domain, codomain, below):
    """An operator of a kind that is built alike whatever depends on a parameter; None for other kinds.

    `below` draws a smaller operator between two spaces, linear or any, that depends on the parameter or not.
    """
    if kind == "compose":
        middle = draw(st.sampled_from(SPACES))
        return below(middle, codomain) @ below(domain, middle, varies=False)
    if kind == "linear compose":
        middle = draw(st.sampled_from(SPACES))
        return below(middle, codomain, is_linear=True) @ below(domain, middle)
    if kind == "tensor":
        first, second, third, fourth = draw(st.sampled_from(cuts(domain, codomain)))
        return oa.tensor(below(first, second), below(third, fourth))
    if kind in ("adjoint", "transpose"):
        return getattr(oa, kind)(below(codomain, domain))
    if kind == "dressed":
        return oa.dressed(nonlinear("G", domain, codomain), below(ONE, domain, is_linear=False, varies=False))
    if kind == "function":
        return oa.function("exp", below(domain, codomain, varies=False))
    if kind == "commutator":
        return oa.commutator(below(domain, codomain), below(domain, codomain))
    if kind == "trace":
        place = draw(st.integers(0, len(domain.factors)))
        wide = [Space(*space.factors[:place], "features", *space.factors[place:]) for space in (domain, codomain)]
        return oa.trace(below(*wide), place)
    return None


def leaves(domain, codomain, is_linear, varies, indices):
    if domain == ONE:
        found = [nonlinear("x", domain, codomain), *[nonlinear("y", domain, codomain)] * varies]
    else:
        found = [linear("A", domain, codomain), *[linear("S", domain, codomain)] * 2 * varies]
        if domain == codomain:
            letters = ["V", *["U"] * 2 * varies]
            found += [Identity(domain), *(families(letter, domain)[index] for letter in letters for index in indices)]
        if not is_linear:
            found += [nonlinear("G", domain, codomain), *[nonlinear("H", domain, codomain)] * 2 * varies]
    return st.sampled_from(found)
