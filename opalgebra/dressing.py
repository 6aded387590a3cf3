"""Dressing: on a state, any map is a linear operator plus a source, `F @ s = F<s> @ s + f<s>`.

`F<s>` and `f<s>` are names on nonlinear atoms only. On every other expression they are computed:

    A<s> = A,  a<s> = 0                                   for linear A
    (a A + b B)<s> = a A<s> + b B<s>                      and the same for sources
    (A @ B)<s> = A<B @ s> @ B<s>                          chain rule
    source of A @ B at s = A<B @ s> @ b<s> + a<B @ s>

A background is a state, by type: dressing by anything else would break associativity.
"""

from opalgebra.errors import SpaceError
from opalgebra.expr import Atom, Dressed, Identity, Operator, Source, Zero, factors, linear_combination, terms
from opalgebra.recursion import Steps, without_recursion
from opalgebra.space import ONE

Pair = tuple[Operator, Operator]


def dressed(operator: Operator, state: Operator) -> Operator:
    """`operator<state>`, a linear operator. SpaceError when `state` is no state in the operator's domain."""
    return dressing(operator, state)[0]


def source(operator: Operator, state: Operator) -> Operator:
    """The source of `operator` at `state`, a state. SpaceError as in `dressed`."""
    return dressing(operator, state)[1]


def dressing(operator: Operator, state: Operator) -> Pair:
    """`(operator<state>, its source)`, by the laws of the module. SpaceError as in `dressed`."""
    if not state.is_state:
        raise SpaceError(
            f"{operator} was to be dressed by {state}, which maps {state.domain} to {state.codomain}; a background is a "
            "state: apply the map to a state first"
        )
    if operator.domain != state.codomain:
        raise SpaceError(f"{operator} acts on {operator.domain}, but the state {state} lies in {state.codomain}")
    return without_recursion(_steps(operator, state))


def _steps(operator: Operator, state: Operator) -> Steps[Pair]:
    linear: Operator = Identity(operator.domain)
    left_over: Operator = Zero(ONE, operator.domain)
    part: Operator
    part_source: Operator
    for factor in reversed(factors(operator)):
        if factor.is_linear:
            part, part_source = factor, Zero(ONE, factor.codomain)
        elif isinstance(factor, Atom):
            part, part_source = Dressed._make(factor, state), Source._make(factor, state)
        else:
            parts, sources = [], []
            for coefficient, term in terms(factor):
                term_part, term_source = yield _steps(term, state)
                parts.append((coefficient, term_part))
                sources.append((coefficient, term_source))
            part = linear_combination(parts, factor.domain, factor.codomain)
            part_source = linear_combination(sources, ONE, factor.codomain)
        linear = part @ linear
        left_over = part_source if isinstance(left_over, Zero) else part @ left_over + part_source
        state = factor @ state
    return linear, left_over
