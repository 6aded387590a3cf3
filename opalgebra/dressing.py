"""Dressing: on a state, any map is a linear operator plus a source, `F @ s = F<s> @ s + f<s>`.

`F<s>` and `f<s>` are names on nonlinear atoms only. On every other expression they are computed:

    A<s> = A,  a<s> = 0                                   for linear A
    (a A + b B)<s> = a A<s> + b B<s>                      and the same for sources
    (A @ B)<s> = A<B @ s> @ B<s>                          chain rule
    source of A @ B at s = A<B @ s> @ b<s> + a<B @ s>

and in the same way on products and sums over an index, with `P(i) = ordered_product(B, l, a, i)`:

    (sum of B(i))<s> = sum of B(i)<s>                     and the same for sources
    P(b)<s> = ordered_product(B(l)<P(l - 1) @ s>, l, a, b)
    source of P(b) at s = sum over i of ordered_product(B(l)<P(l - 1) @ s>, l, i + 1, b) @ b(i)<P(i - 1) @ s>

A background is a state, by type: dressing by anything else would break associativity.
"""

from opalgebra.errors import NotLinearError, SpaceError
from opalgebra.expr import (
    Atom,
    Dressed,
    Identity,
    Operator,
    Source,
    Sum,
    Zero,
    as_index,
    at,
    check_operators,
    factors,
    linear_combination,
)
from opalgebra.indexed import Binder, IndexedSum, OrderedProduct, indexed_sum, ordered_product
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import free_symbols, fresh_names, symbol
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
    check_operators(operator, state)
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
        elif isinstance(factor, IndexedSum):
            index = factor.free_index(state)
            inside, inside_source = yield _steps(factor.opened(index), state)
            part, part_source = factor.over(inside, index), factor.over(inside_source, index)
        elif isinstance(factor, OrderedProduct):
            part, part_source = yield _product(factor, state)
        elif isinstance(factor, Binder):
            raise NotLinearError(f"{factor} is not known to be linear and has no dressing; give its length and order values")
        elif not isinstance(factor, Sum):
            raise NotLinearError(f"{factor} is not known to be linear and has no dressing; name it as one nonlinear atom")
        else:
            parts, sources = [], []
            for coefficient, term in factor.terms:
                term_part, term_source = yield _steps(term, state)
                parts.append((coefficient, term_part))
                sources.append((coefficient, term_source))
            part = linear_combination(parts, factor.domain, factor.codomain)
            part_source = linear_combination(sources, ONE, factor.codomain)
        linear = part @ linear
        left_over = part_source if isinstance(left_over, Zero) else part @ left_over + part_source
        state = factor @ state
    return linear, left_over


def _product(product: OrderedProduct, state: Operator) -> Steps[Pair]:
    index = product.free_index(state)
    inside, inside_source = yield _steps(product.opened(index), product.between(product.lower, index - 1) @ state)
    part = product.over(inside, index)
    (later,) = map(symbol, fresh_names(part.symbols | state.symbols | free_symbols(index), 1))
    there = at(inside, dict.fromkeys(free_symbols(index), later))
    after = ordered_product(there, later, as_index(index + 1, of="lower"), product.upper)
    return part, indexed_sum(after @ inside_source, index, product.lower, product.upper)
