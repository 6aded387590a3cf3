"""A parameter that counts vertices, and a parameter that couples them: two things with two names.

    grading(A, g, F)     F becomes g F where it acts, and F<s>, f<s> become g F<s>, g f<s>: the background s stays
    coupling(A, g, F)    the map F is g F everywhere: F<s>, f<s> become g F<s'>, g f<s'>, where s' has g F for F too

A grading counts the vertices of a dressed expression: in what `F @ s = F<s> @ s + f<s>` makes of a stack of layers, the
coefficient of g^k is the order k of its Dyson series. It keeps every law of maps in which dressings are letters of their own,
but not that equation, which it would break: with g, the F on the left reads another state than the background on the right.
A coupling changes the model: what it gives means, whatever F is, what the operator means with g F in place of F and g F<s>
in place of its dressings. It keeps every equation, that of dressing included, and the states are then no polynomials of the
graded kind: their series in g is another one.
"""

from collections.abc import Iterable
from typing import Any

from opalgebra.atoms import Family
from opalgebra.calculus import Letter, as_letter, named, parameter_of
from opalgebra.dressing import dressed, source
from opalgebra.errors import InputError
from opalgebra.expr import (
    Atom,
    Dressed,
    Operator,
    Source,
    postorder,
)
from opalgebra.scalar import Scalar, scalar_of


def grading(operator: Operator, g: Scalar, vertices: Letter | Iterable[Letter]) -> Operator:
    """The operator with a factor g at each vertex where it acts, bare or dressed, and at its sources; never in backgrounds.

    The vertices are atoms or families. InputError for a g that is no parameter, and for an atom that also stands under an
    index, where it may be any of its family.

    >>> import opalgebra as oa
    >>> F, x, g = oa.Atom("F", kind="nonlinear"), oa.state("x"), oa.parameter("g")
    >>> print(grading(oa.dressed(F, F @ x) @ x, g, F))
    g*F<F @ x> @ x
    """
    return _scaled(operator, g, vertices, backgrounds=False)


def coupling(operator: Operator, g: Scalar, vertices: Letter | Iterable[Letter]) -> Operator:
    """The operator with the map g F in place of F for each vertex F, in backgrounds too: `(g F)<s> = g F<s>`.

    Errors as in `grading`.

    >>> import opalgebra as oa
    >>> F, x, g = oa.Atom("F", kind="nonlinear"), oa.state("x"), oa.parameter("g")
    >>> print(coupling(oa.dressed(F, F @ x) @ x, g, F))
    g*F<s0> @ x where s0 = g*F @ x
    """
    return _scaled(operator, g, vertices, backgrounds=True)


def _scaled(operator: Operator, g: Scalar, vertices: Letter | Iterable[Letter], *, backgrounds: bool) -> Operator:
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no vertices; build one from atoms")
    factor = scalar_of(parameter_of(g))
    letters = [as_letter(v) for v in ([vertices] if isinstance(vertices, Operator | Family) else vertices)]
    done: dict[Operator, Operator] = {}

    def renewed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(renewed, value))
        return done[value] if isinstance(value, Operator) else value

    for node in postorder(operator, backgrounds=backgrounds, bodies=True):
        if isinstance(node, Dressed | Source) and backgrounds:
            build = dressed if isinstance(node, Dressed) else source
            done[node] = build(done[node.operator], done[node.state])
        elif isinstance(node, Atom | Dressed | Source):
            vertex = node if isinstance(node, Atom) else node.operator
            done[node] = node if named(vertex, letters) is None else factor * node
        else:
            done[node] = node._rebuilt(*renewed(node.fields))
    return done[operator]
