"""A Transformer in homogeneous coordinates: with one coordinate more that stays 1, dressed stages and sources are linear.

A stage that takes x to `D @ x + b`, with D its dressed linear part and b its source, takes `(x, 1)` to `(D @ x + b, 1)` by

    W = inj_0 @ D @ proj_0 + inj_0 @ s @ proj_1 + inj_1 @ proj_1

on `X (+) K`. The state of K that is the number 1 is a letter e, and s the linear map from K to X with `s @ e = b`: that is a
hypothesis for every stage, beside the equations of the direct sum. So the whole stack is one product of linear maps.
"""

from operator import add

from opalgebra.atoms import Family, state
from opalgebra.direct_sum import direct_sum
from opalgebra.dressing import dressing
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Operator, compose, factors, linear_combination
from opalgebra.facts import Equal
from opalgebra.kernel import Theorem, cong, dress, instantiate, refl, sym
from opalgebra.ladder import Step
from opalgebra.prove import auto
from opalgebra.rewrite import chain
from opalgebra.series import Series
from opalgebra.space import ONE, K, Kind, X

BOTH = direct_sum(X, K, name="homogeneous")
ONE_STATE = state("e", codomain=K)
SOURCES = Family("s", Kind.LINEAR, K, X)


def homogeneous(series: Series) -> Theorem:
    """`W_L @ ... @ W_1 @ (inj_0 @ x[0] + inj_1 @ e) = inj_0 @ x[L] + inj_1 @ e`, with `s[l] @ e` the source of stage l.

    The counting does not matter, for all of a stage is in W. InputError when the state or an atom has one of these names.

    >>> import opalgebra as oa
    >>> print(oa.homogeneous(oa.transformer(1, norms="absorbed").dyson()).rhs)
    inj0 @ (1 + F1) @ x1 + inj1 @ e where x1 = (1 + A1) @ x
    """
    if not isinstance(series, Series):
        raise InputError(f"{series!r} is no series; pass one such as transformer(2).dyson()")
    own = {"e", "s", "inj", "proj"}
    taken = sorted({atom.base for state in series.states for atom in state.atoms} & own)
    if taken:
        raise InputError(f"{taken[0]} names a letter of the homogeneous coordinates; give the atom another name")
    here = BOTH.injection(0) @ series.states[0] + BOTH.injection(1) @ ONE_STATE
    proof = refl(here)
    for number, (step, before) in enumerate(zip(series._steps, series.states), 1):
        proof = chain(cong(compose, _factor(_linear(step), SOURCES[number]), proof), _stage(step, before, SOURCES[number]))
    return proof


def _linear(step: Step) -> Operator:
    return step.line if step.counted is None else step.line + step.counted


def _factor(linear: Operator, source: Operator) -> Operator:
    (into, one), (out, read) = ((part(0), part(1)) for part in (BOTH.injection, BOTH.projection))
    return into @ linear @ out + into @ source @ read + one @ read


def _stage(step: Step, before: Operator, source: Atom) -> Theorem:
    """`W @ (inj_0 @ x + inj_1 @ e) = inj_0 @ x' + inj_1 @ e`, x' the state after the stage: proved for letters, then put in."""
    linear, born = _linear(step), linear_combination(((1, part) for part in step.sources), ONE, X)
    D, y, b = Atom("D_letter", kind=Kind.LINEAR), state("y_letter"), state("b_letter")
    s = Atom("s_letter", kind=Kind.LINEAR, domain=K)
    whole = _factor(D, s) @ (BOTH.injection(0) @ y + BOTH.injection(1) @ ONE_STATE)
    value = BOTH.injection(0) @ (D @ y + b) + BOTH.injection(1) @ ONE_STATE
    letters = auto(whole, value, facts=[*BOTH.facts, Equal(s @ ONE_STATE, b)])
    put = instantiate(letters, {D: linear, y: before, b: born, s: source})
    opened, here = y, before
    for factor in reversed(factors(step.factor)):
        part, left_over = dressing(factor, here)
        opened, here = part @ opened + left_over, factor @ here
    shared = instantiate(auto(opened, linear @ y + born), {y: before})
    stage = chain(instantiate(dress(step.factor @ y), {y: before}), shared)
    after = cong(compose, BOTH.injection(0), sym(stage))
    (rest,) = (term for _, term in put.rhs.terms if term is not after.lhs)  # type: ignore[attr-defined]
    return chain(put, cong(add, after, refl(rest)))
