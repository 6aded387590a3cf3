"""Every rewrite keeps the meaning, for random expressions and random nonlinear maps; planted bugs show that the check sees."""

from operator import add as plus
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from meaning import Interpretation, add, counterexample, scale, tree_counterexample
from strategies import (
    LINEAR,
    NONLINEAR,
    SPACES,
    build,
    maps,
    operators,
    pairs_that_do_not_add,
    pairs_that_do_not_compose,
    states,
    trees,
)

import opalgebra as oa
from opalgebra import dressing as dressing_module
from opalgebra import expr, kernel
from opalgebra.expand import expand
from opalgebra.expr import Sum, Zero, compose, factors, linear_combination, terms
from opalgebra.space import ONE, X

A, B = LINEAR[:2]
C, G = NONLINEAR[:2]
x, y = oa.state("x"), oa.state("y")
TREES = st.one_of(trees(X, X), trees(ONE, X))


def broken_theorem(theorem):
    """Where the two sides of a theorem differ in meaning; None when they agree."""
    return counterexample(theorem.lhs, theorem.rhs)


def broken_build(tree):
    """Where the operator built from a plain tree differs from the tree in meaning; None when they agree."""
    return tree_counterexample(tree, build(tree))


def broken_expansion(operator):
    return broken_theorem(expand(operator))


def broken_dressing(pair):
    """Where `F<s> @ s + f<s>` differs from `F @ s` in meaning; None when they agree."""
    operator, state = pair
    linear, source = dressing_module.dressing(operator, state)
    return counterexample(linear @ state + source, operator @ state)


def assert_search_finds(broken, examples):
    """A fixed random search over the examples meets one that `broken` reports."""
    once = settings(max_examples=2000, phases=[Phase.generate], database=None, deadline=None)
    find(examples, lambda example: broken(example) is not None, settings=once, random=Random(0))


@given(TREES)
def test_constructors_keep_the_meaning_of_the_tree_they_are_given(tree):
    assert broken_build(tree) is None


@given(st.sampled_from(SPACES).flatmap(lambda space: trees(space, X)))
def test_constructors_keep_the_meaning_between_any_spaces(tree):
    assert broken_build(tree) is None


@given(operators())
def test_what_is_called_linear_is_additive_and_homogeneous(operator):
    model = Interpretation(3)
    if operator.is_linear:
        u, v = model.point(operator.domain, 0), model.point(operator.domain, 1)
        mixed = model.value(operator, add(scale(5, u), v))
        assert mixed == add(scale(5, model.value(operator, u)), model.value(operator, v))


@given(maps())
def test_expanding_a_map_keeps_its_meaning(operator):
    assert broken_expansion(operator) is None


@given(states())
def test_expanding_a_state_keeps_its_meaning(state):
    assert broken_expansion(state) is None


@given(st.one_of(maps(), states()))
def test_expanding_twice_changes_nothing(operator):
    once = expand(operator).rhs
    assert kernel.distribute(once).rhs == once


@given(states())
def test_dressing_every_map_of_a_state_keeps_its_meaning(state):
    assert broken_theorem(kernel.dress(state)) is None


@given(st.one_of(maps(), states()))
def test_distribution_keeps_the_meaning(operator):
    assert broken_theorem(kernel.distribute(operator)) is None


@given(maps(2), operators(2).filter(lambda operator: operator.codomain == X))
def test_right_distribution_holds_for_all_maps(total, right):
    assert broken_theorem(kernel.right_dist(total, right)) is None


@given(maps().filter(lambda operator: operator.is_linear), operators(2).filter(lambda operator: operator.codomain == X))
def test_left_distribution_holds_for_linear_maps(left, total):
    assert broken_theorem(oa.left_dist(left, total)) is None


@given(maps(2), maps(2), states(2))
def test_congruence_symmetry_and_transitivity_keep_the_meaning(left, right, state):
    first, second = expand(left), expand(right)
    derived = [
        kernel.refl(left),
        kernel.sym(first),
        kernel.cong(compose, first, second),
        kernel.cong(compose, kernel.sym(first), expand(state)),
        kernel.cong(plus, first, second),
        kernel.trans(first, kernel.sym(first)),
        kernel.trans(kernel.dress(state), kernel.distribute(kernel.dress(state).rhs)),
    ]
    assert [broken_theorem(theorem) for theorem in derived] == [None] * len(derived)


@given(maps(), states(2))
def test_a_dressed_composite_and_its_source_give_back_its_value(operator, state):
    assert broken_dressing((operator, state)) is None
    assert counterexample(oa.dressed(operator, state) @ state + oa.source(operator, state), operator @ state) is None


@given(maps(), states(2))
def test_a_dressed_composite_is_linear_and_its_source_a_state(operator, state):
    assert oa.dressed(operator, state).is_linear
    assert oa.source(operator, state).is_state


@given(maps(), states(2))
def test_dressing_a_linear_map_gives_it_back_without_a_source(operator, state):
    if operator.is_linear:
        assert oa.dressed(operator, state) == operator
        assert oa.source(operator, state) == Zero(ONE, X)


@given(maps(2), maps(2), maps(2))
def test_composition_and_sum_are_associative(first, second, third):
    assert (first @ second) @ third == first @ (second @ third)
    assert (first + second) + third == first + (second + third)
    assert first + second == second + first
    assert (first + second) - second == first


@given(maps(2), maps(2), states(2))
def test_dressing_respects_the_grouping_of_a_composition(outer, inner, state):
    assert oa.dressed(outer @ inner, state) == oa.dressed(outer, inner @ state) @ oa.dressed(inner, state)


@given(pairs_that_do_not_compose())
def test_spaces_that_do_not_fit_are_refused_by_composition(pair):
    with pytest.raises(oa.SpaceError, match="compose maps whose spaces fit"):
        pair[0] @ pair[1]


@given(pairs_that_do_not_add())
def test_spaces_that_differ_are_refused_by_addition(pair):
    with pytest.raises(oa.SpaceError, match="the spaces of a sum are equal"):
        pair[0] + pair[1]


def test_an_expansion_of_a_state_holds_for_a_split_that_makes_every_dressing_zero():
    nothing = {atom: lambda state: ((0, 0), (0, 0)) for atom in NONLINEAR}
    theorem = expand((1 + C @ G) @ (1 + G) @ x)
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=[Interpretation(1, splits=nothing)]) is None


# Planted bugs: each is a wrong law, and the check above is seen to find it.


def test_planted_distribution_of_a_nonlinear_map_over_a_sum_is_found(monkeypatch):
    def act(term, argument, facts=()):
        for factor in reversed(factors(term)):
            parts = [(c, factor @ inner) for c, inner in terms(argument)]
            argument = linear_combination(parts, argument.domain, factor.codomain)
        return argument

    monkeypatch.setattr(kernel, "_act", act)
    assert broken_expansion(C @ (A + B)) is not None
    assert_search_finds(broken_expansion, maps())


def test_planted_left_distribution_without_its_side_condition_is_found():
    def left_dist(left, total):
        return oa.Equal(left @ total, linear_combination((c, left @ term) for c, term in terms(total)))

    assert broken_theorem(left_dist(A, A + B)) is None
    assert broken_theorem(left_dist(C, A + B)) is not None
    assert_search_finds(lambda pair: broken_theorem(left_dist(*pair)), st.tuples(maps(2), maps(2)))


def test_planted_scalar_moved_through_a_nonlinear_map_is_found(monkeypatch):
    compose = expr.compose

    def homogeneous(left, right):
        if isinstance(right, Sum) and len(right.terms) == 1:
            coefficient, term = right.terms[0]
            return coefficient * compose(left, term)
        return compose(left, right)

    monkeypatch.setattr(expr, "compose", homogeneous)
    two_a = ("sum", ((2, ("leaf", A)),))
    assert broken_build(("compose", ("leaf", B), two_a)) is None
    assert broken_build(("compose", ("leaf", C), two_a)) is not None
    assert_search_finds(broken_build, TREES)


def test_planted_nonlinear_map_of_zero_taken_as_zero_is_found(monkeypatch):
    compose = expr.compose

    def annihilating(left, right):
        return Zero(right.domain, left.codomain) if isinstance(right, Zero) else compose(left, right)

    monkeypatch.setattr(expr, "compose", annihilating)
    assert broken_build(("compose", ("leaf", B), ("leaf", Zero()))) is None
    assert broken_build(("compose", ("leaf", C), ("leaf", Zero()))) is not None
    assert_search_finds(broken_build, TREES)


def wrong_stage(operator, state):
    """The chain rule with every factor dressed by the same state."""
    linear, left_over = 1 + 0 * A, Zero(ONE, X)
    for factor in reversed(factors(operator)):
        part, part_source = dressing(factor, state)
        linear, left_over = part @ linear, part @ left_over + part_source
    return linear, left_over


dressing = dressing_module.dressing


def test_planted_background_of_the_wrong_stage_is_found(monkeypatch):
    monkeypatch.setattr(kernel, "dressing", lambda operator, state: wrong_stage(operator, x))
    monkeypatch.setattr(dressing_module, "dressing", wrong_stage)
    assert broken_dressing((A @ C, x)) is None
    assert broken_dressing((C @ G, x)) is not None
    assert broken_expansion(C @ x) is None
    assert broken_expansion(C @ A @ x) is not None
    assert_search_finds(broken_dressing, st.tuples(trees(X, X, spaces=(X,)).map(build), states(1)))


def test_planted_dressing_without_its_source_is_found(monkeypatch):
    def sourceless(operator, state):
        linear, _ = dressing(operator, state)
        return linear, Zero(ONE, operator.codomain)

    monkeypatch.setattr(kernel, "dressing", sourceless)
    assert broken_theorem(kernel.dress(A @ x)) is None
    assert broken_theorem(kernel.dress(C @ x)) is not None
    assert_search_finds(broken_expansion, states())


def test_planted_composition_in_the_wrong_order_is_found(monkeypatch):
    compose = expr.compose

    def reversed_order(left, right):
        endomorphisms = left.domain == left.codomain == right.domain == right.codomain
        return compose(right, left) if endomorphisms else compose(left, right)

    monkeypatch.setattr(expr, "compose", reversed_order)
    assert broken_build(("compose", ("leaf", A), ("leaf", B))) is not None
    assert_search_finds(broken_build, TREES)


def test_planted_collection_of_products_in_either_order_is_found(monkeypatch):
    collect = expr.linear_combination

    def sorted_word(term):
        word = factors(term)
        if all(factor.domain == factor.codomain == X for factor in word):
            return expr.ordered_product(sorted(word, key=lambda factor: factor.digest), space=X)
        return term

    def commutative(parts, domain=X, codomain=X):
        found = [(c * inner, sorted_word(term)) for c, operator in parts for inner, term in terms(operator)]
        return collect(found, domain, codomain)

    monkeypatch.setattr(expr, "linear_combination", commutative)
    product, reverse = (("compose", ("leaf", a), ("leaf", b)) for a, b in ((A, B), (B, A)))
    assert broken_build(("sum", ((1, product), (1, reverse)))) is not None
    assert_search_finds(broken_build, TREES)


def test_planted_collection_that_forgets_a_coefficient_is_found(monkeypatch):
    collect = expr.linear_combination

    def absorbing(parts, domain=X, codomain=X):
        found = {}
        for coefficient, operator in parts:
            for inner, term in terms(operator):
                found.setdefault(term, coefficient * inner)
        return collect([(c, term) for term, c in found.items()], domain, codomain)

    monkeypatch.setattr(expr, "linear_combination", absorbing)
    assert_search_finds(broken_build, TREES)


def test_planted_chain_rule_with_an_untransported_source_is_found(monkeypatch):
    def chained(operator, state):
        word = factors(operator)
        if len(word) < 2:
            return dressing(operator, state)
        inner, inner_source = dressing(word[-1], state)
        outer, outer_source = chained(expr.ordered_product(word[-2::-1]), word[-1] @ state)
        return outer @ inner, inner_source + outer_source

    monkeypatch.setattr(dressing_module, "dressing", chained)
    assert broken_dressing((C @ A, x)) is None
    assert broken_dressing((A @ C, x)) is not None
    assert_search_finds(broken_dressing, st.tuples(trees(X, X, spaces=(X,)).map(build), states(1)))


def kron(on_positions, on_features):
    """The Kronecker product of a matrix on positions and one on features."""
    return tuple(
        tuple(a * b for a in position_row for b in feature_row) for position_row in on_positions for feature_row in on_features
    )


def blocks(first, second):
    """The block diagonal matrix that acts on the features of each of two positions by its own block."""
    nothing = (0,) * len(first)
    return tuple((*row, *nothing) for row in first) + tuple((*nothing, *row) for row in second)


ONES = ((1, 0), (0, 1))
PATTERN = ((1, 0), (3, 4))
attention, ffn = oa.Atom("A1", kind="attention"), oa.Atom("F1", kind="ffn")


def on_tokens(dressed_attention, dressed_ffn):
    """Interpretations on two positions times two features, with these matrices for the dressings of A1 and F1."""
    splits = {attention: lambda state: dressed_attention, ffn: lambda state: dressed_ffn}
    return [Interpretation(seed, {"positions": 2, "features": 2}, splits) for seed in (1, 2)]


def claimed_commutation():
    """`F<x> @ A<x>` and `A<x> @ F<x>`, which a dressed FFN of the form `1 (x) F` would make equal."""
    f, a = oa.dressed(ffn, x), oa.dressed(attention, x)
    return f @ a, a @ f


def test_planted_commutation_of_a_dressed_ffn_with_attention_is_found_when_tokens_have_their_own_blocks():
    models = on_tokens(kron(PATTERN, ONES), blocks(((1, 2), (3, 4)), ((5, 6), (7, 8))))
    assert counterexample(*claimed_commutation(), interpretations=models) is not None


def test_commutation_of_a_dressed_ffn_with_attention_would_hold_if_all_tokens_had_the_same_block():
    models = on_tokens(kron(PATTERN, ONES), kron(ONES, ((1, 2), (3, 4))))
    assert counterexample(*claimed_commutation(), interpretations=models) is None


def test_commutation_fails_for_equal_blocks_too_when_attention_also_turns_the_features():
    models = on_tokens(kron(PATTERN, ((0, 1), (2, 3))), kron(ONES, ((1, 2), (3, 4))))
    assert counterexample(*claimed_commutation(), interpretations=models) is not None


def test_the_library_never_takes_the_two_orders_of_dressed_attention_and_ffn_for_equal():
    one, other = claimed_commutation()
    assert one != other
    assert one - other != Zero()
    assert len(terms(expand(one - other).rhs)) == 2
    assert len(terms(expand(one + other).rhs)) == 2
    with pytest.raises(oa.InputError):
        kernel.trans(kernel.refl(one), kernel.refl(other))
