"""Hypothesis strategies for plain expression trees, the operators built from them, and operators whose spaces do not fit.

A plain tree is `("leaf", operator)`, `("sum", ((coefficient, tree), ...))`, `("compose", left, right)`,
`("dressed", tree, state)` or `("source", tree, state)`, and nothing has been simplified in it.
"""

from fractions import Fraction
from functools import cache
from typing import Any

from hypothesis import strategies as st

from opalgebra.atoms import atoms, state
from opalgebra.dressing import dressed, source
from opalgebra.expr import Atom, Identity, Operator, Zero
from opalgebra.space import ONE, K, Space, X

Y = Space("hidden")
SPACES = (X, Y, K)
Tree = Any

LINEAR = atoms("A B V1 V2 V10", kind="linear")
NONLINEAR = (
    *atoms("C G_out", kind="nonlinear"),
    Atom("A1_0", kind="attention"),
    Atom("F2", kind="ffn"),
    Atom("N1", kind="norm"),
)
STATES = (*map(state, ("x", "y", "x1")), state("h", codomain=Y), state("k", codomain=K))
BETWEEN = tuple(
    Atom(f"{letter}_{domain}_{codomain}_", kind=kind, domain=domain, codomain=codomain)
    for domain in SPACES
    for codomain in SPACES
    if (domain, codomain) != (X, X)
    for letter, kind in (("L", "linear"), ("P", "nonlinear"))
)

coefficients = st.one_of(
    st.sampled_from([Fraction(1), Fraction(-1), Fraction(2), Fraction(0)]),
    st.fractions(min_value=-3, max_value=3, max_denominator=4).filter(bool),
)


def leaves(domain: Space, codomain: Space) -> list[Operator]:
    """Every operator without parts between two spaces: atoms, the zero map, the identity."""
    fitting = [atom for atom in (*LINEAR, *NONLINEAR, *STATES, *BETWEEN) if (atom.domain, atom.codomain) == (domain, codomain)]
    return [*fitting, *([Identity(domain)] if domain == codomain else []), Zero(domain, codomain)]


@cache
def trees(
    domain: Space = X, codomain: Space = X, depth: int = 3, spaces: tuple[Space, ...] = SPACES
) -> st.SearchStrategy[Tree]:
    """Plain trees of maps `domain -> codomain`, or of states for `ONE`, at most `depth` operations deep."""
    found = leaves(domain, codomain)
    leaf = st.sampled_from([*found[:-1], *found]).map(lambda operator: ("leaf", operator))
    if depth == 0:
        return leaf
    same = trees(domain, codomain, depth - 1, spaces)
    middles = st.sampled_from((X, *spaces))
    choices = [
        leaf,
        st.lists(st.tuples(coefficients, same), min_size=1, max_size=3).map(lambda terms: ("sum", tuple(terms))),
        middles.flatmap(
            lambda middle: st.tuples(
                st.just("compose"), trees(middle, codomain, depth - 1, spaces), trees(domain, middle, depth - 1, spaces)
            )
        ),
    ]
    if domain == ONE:
        choices.append(
            middles.flatmap(
                lambda middle: st.tuples(
                    st.just("source"), trees(middle, codomain, depth - 1, spaces), trees(ONE, middle, depth - 1, spaces)
                )
            )
        )
    else:
        choices.append(
            st.tuples(st.just("dressed"), trees(domain, codomain, depth - 1, spaces), trees(ONE, domain, depth - 1, spaces))
        )
    return st.one_of(choices)


def build(tree: Tree) -> Operator:
    """The operator of a plain tree, by `+ - * @`, `dressed` and `source`."""
    match tree:
        case ("sum", terms):
            total: Any = 0
            for coefficient, term in terms:
                total = _plus(total, coefficient, build(term))
            return total  # type: ignore[no-any-return]
        case ("compose", left, right):
            return build(left) @ build(right)
        case ("dressed", operator, background):
            return dressed(build(operator), build(background))
        case ("source", operator, background):
            return source(build(operator), build(background))
    return tree[1]  # type: ignore[no-any-return]


def _plus(total: Any, coefficient: Fraction, term: Operator) -> Any:
    if isinstance(term, Identity) and total != 0:
        return total + coefficient
    if coefficient == 1:
        return total + term
    return total - (-coefficient) * term if coefficient < 0 else total + coefficient * term


def maps(depth: int = 3) -> st.SearchStrategy[Operator]:
    """Maps X -> X, with other spaces inside."""
    return trees(X, X, depth).map(build)


def states(depth: int = 3) -> st.SearchStrategy[Operator]:
    """States in X, with other spaces inside."""
    return trees(ONE, X, depth).map(build)


def operators(depth: int = 3) -> st.SearchStrategy[Operator]:
    """Maps and states between any of the spaces."""
    return st.tuples(st.sampled_from((ONE, *SPACES)), st.sampled_from(SPACES)).flatmap(
        lambda spaces: trees(*spaces, depth).map(build)
    )


def pairs_that_do_not_compose(depth: int = 2) -> st.SearchStrategy[tuple[Operator, Operator]]:
    """(left, right) with the domain of left different from the codomain of right."""
    return st.tuples(operators(depth), operators(depth)).filter(lambda pair: pair[0].domain != pair[1].codomain)


def pairs_that_do_not_add(depth: int = 2) -> st.SearchStrategy[tuple[Operator, Operator]]:
    """Two operators whose domains or codomains differ."""
    return st.tuples(operators(depth), operators(depth)).filter(
        lambda pair: (pair[0].domain, pair[0].codomain) != (pair[1].domain, pair[1].codomain)
    )
