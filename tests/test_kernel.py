"""The rules that make theorems: their conclusions, their side conditions word by word, and nothing else makes one."""

import copy
import pickle
from operator import add

import pytest

import opalgebra as oa
from opalgebra import kernel
from opalgebra.atoms import atoms
from opalgebra.expand import expand
from opalgebra.expr import Identity, Zero, compose
from opalgebra.scalar import Symbol
from opalgebra.space import ONE, X

A, B, C = atoms("A B C", kind="linear")
F, G = atoms("F G", kind="nonlinear")
x = oa.state("x")
Y = oa.Space("hidden")
E = oa.Atom("E", kind="linear", domain=X, codomain=Y)


def sides(theorem):
    return theorem.lhs, theorem.rhs


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def test_a_theorem_cannot_be_constructed():
    message = "a Theorem is proved, not constructed; use expand, or the rules of opalgebra.kernel"
    assert refused(oa.InputError, lambda: oa.Theorem(object(), "refl", (A,), (), A, B)) == message
    assert refused(oa.InputError, lambda: oa.Theorem(None, "refl", (A,), (), A, A)) == message


@pytest.mark.parametrize("name", ["lhs", "rhs", "hypotheses", "premises", "rule", "arguments"])
def test_a_theorem_cannot_be_altered(name):
    theorem = kernel.refl(A)
    assert refused(AttributeError, lambda: setattr(theorem, name, B)) == f"theorems are immutable: {name} cannot be set"
    assert sides(theorem) == (A, A)


def test_an_equation_cannot_be_altered():
    statement = oa.equation(A, B)
    assert refused(AttributeError, lambda: setattr(statement, "rhs", A)) == "cannot assign to field 'rhs'"
    assert sides(statement) == (A, B)


def test_a_theorem_is_proved_again_when_it_is_unpickled_or_copied():
    theorem = expand((1 + F) @ (1 + G) @ x)
    for again in (pickle.loads(pickle.dumps(theorem)), copy.deepcopy(theorem)):
        assert sides(again) == sides(theorem)
        assert (again.rule, again.arguments) == ("trans", again.premises)
        assert [premise.rule for premise in again.premises] == ["dress", "distribute"]


def test_an_equation_survives_pickling():
    assert sides(pickle.loads(pickle.dumps(oa.equation(A, F)))) == (A, F)


def test_a_theorem_keeps_its_rule_arguments_and_premises():
    first, second = kernel.refl(A), kernel.refl(B)
    both = kernel.cong(compose, first, second)
    assert (both.rule, both.arguments, both.premises) == ("cong", (compose, first, second), (first, second))
    assert (first.rule, first.arguments, first.premises) == ("refl", (A,), ())
    assert both.hypotheses == frozenset()


def test_reflexivity_and_symmetry():
    assert sides(kernel.refl(F)) == (F, F)
    theorem = expand((A + B) @ F)
    assert sides(kernel.sym(theorem)) == (theorem.rhs, theorem.lhs)


def test_transitivity_joins_two_theorems_with_the_same_middle():
    theorem = expand((A + B) @ F)
    assert sides(kernel.trans(theorem, kernel.sym(theorem))) == (theorem.lhs, theorem.lhs)


def test_transitivity_refuses_different_middles():
    message = "the first theorem ends in A, the second begins with B; they must be equal"
    assert refused(oa.InputError, lambda: kernel.trans(kernel.refl(A), kernel.refl(B))) == message


def test_congruence_of_composition_and_sum():
    first, second = expand((A + B) @ C), expand((A - B) @ F)
    assert sides(kernel.cong(compose, first, second)) == (first.lhs @ second.lhs, first.rhs @ second.rhs)
    assert sides(kernel.cong(add, first, second)) == (first.lhs + second.lhs, first.rhs + second.rhs)


def test_congruence_refuses_spaces_that_do_not_fit():
    message = "A acts on X, but E maps to hidden; compose maps whose spaces fit"
    assert refused(oa.SpaceError, lambda: kernel.cong(compose, kernel.refl(A), kernel.refl(E))) == message
    message = "E maps X to hidden and cannot be added to a map from X to X; the spaces of a sum are equal"
    assert refused(oa.SpaceError, lambda: kernel.cong(add, kernel.refl(A), kernel.refl(E))) == message


def test_right_distribution_needs_no_linearity():
    assert sides(kernel.right_dist(2 * F - G, C)) == ((2 * F - G) @ C, 2 * F @ C - G @ C)
    assert sides(kernel.right_dist(F, C)) == (F @ C, F @ C)
    assert sides(kernel.right_dist(Zero(), F)) == (Zero(), Zero())


def test_right_distribution_refuses_spaces_that_do_not_fit():
    message = "A acts on X, but E maps to hidden; compose maps whose spaces fit"
    assert refused(oa.SpaceError, lambda: kernel.right_dist(2 * A, E)) == message
    message = "0 acts on X, but E maps to hidden; compose maps whose spaces fit"
    assert refused(oa.SpaceError, lambda: kernel.right_dist(Zero(), E)) == message


def test_left_distribution_over_a_linear_map():
    assert sides(oa.left_dist(C, 2 * F - G)) == (C @ (2 * F - G), 2 * C @ F - C @ G)
    assert sides(oa.left_dist(C, Zero())) == (C @ Zero(), Zero())
    assert sides(oa.left_dist(1 + C, 1 + F)) == ((1 + C) @ (1 + F), (1 + C) + (1 + C) @ F)


@pytest.mark.parametrize("left", [F, 1 + F, A @ F, F @ A])
def test_left_distribution_refuses_what_is_not_known_to_be_linear(left):
    message = (
        f"{left} @ (A + B) cannot be distributed: {left} is not known to be linear; on a state, dress it first "
        "(expand does), or declare it with kind='linear' if it is"
    )
    assert refused(oa.NotLinearError, lambda: oa.left_dist(left, A + B)) == message


def test_left_distribution_refuses_spaces_that_do_not_fit():
    message = "A acts on X, but E maps to hidden; compose maps whose spaces fit"
    assert refused(oa.SpaceError, lambda: oa.left_dist(A, E)) == message


def test_dressing_a_state_from_the_inside_out():
    inner = oa.dressed(G, x) @ x + oa.source(G, x)
    assert sides(kernel.dress(F @ G @ x)) == (F @ G @ x, oa.dressed(F, G @ x) @ inner + oa.source(F, G @ x))
    assert sides(kernel.dress(A @ x)) == (A @ x, A @ x)
    assert sides(kernel.dress(2 * x + F @ x)) == (2 * x + F @ x, 2 * x + oa.dressed(F, x) @ x + oa.source(F, x))


def test_dressing_leaves_no_nonlinear_map_acting_on_a_state_and_keeps_backgrounds():
    theorem = kernel.dress((1 + F) @ oa.dressed(G, F @ x) @ x)
    background = oa.dressed(G, F @ x) @ x
    assert theorem.rhs == (1 + oa.dressed(F, background)) @ background + oa.source(F, background)


def test_only_a_state_can_be_dressed():
    assert refused(oa.SpaceError, lambda: kernel.dress(F)) == "F maps X to X; only a state can be dressed"
    assert refused(oa.SpaceError, lambda: kernel.dress(E)) == "E maps X to hidden; only a state can be dressed"


def test_distribution_uses_linearity_only_where_it_is_known():
    assert kernel.distribute(A @ (B + F @ (B + C))).rhs == A @ B + A @ F @ (B + C)
    assert kernel.distribute(A @ (2 * B)).rhs == 2 * A @ B
    assert kernel.distribute(F @ (2 * B)).rhs == F @ (2 * B)
    assert kernel.distribute(A @ Zero()).rhs == Zero()
    assert kernel.distribute(F @ Zero()).rhs == F @ Zero()
    assert kernel.distribute((F + A) @ (B + C)).rhs == F @ (B + C) + A @ B + A @ C


def test_distribution_collects_and_cancels():
    assert kernel.distribute((A + B) @ (A - B) - A @ A + B @ B).rhs == B @ A - A @ B
    assert kernel.distribute((1 + A) @ (1 - A) + A @ A).rhs == oa.Identity()


def test_an_equation_needs_the_same_spaces_on_both_sides():
    message = "the two sides map X to X and X to hidden; an equation needs the same spaces on both sides"
    assert refused(oa.SpaceError, lambda: oa.equation(A, E)) == message
    message = "the two sides map 1 to X and X to X; an equation needs the same spaces on both sides"
    assert refused(oa.SpaceError, lambda: oa.equation(x, A)) == message


def test_an_equation_has_no_hypotheses_and_is_no_theorem():
    statement = oa.equation(A @ B, B @ A)
    assert not hasattr(statement, "hypotheses")
    assert not isinstance(statement, oa.Theorem)
    assert isinstance(statement, oa.Equal)


def test_a_state_is_a_map_out_of_the_one_point_space():
    assert (kernel.dress(F @ x).lhs.domain, kernel.dress(F @ x).rhs.codomain) == (ONE, X)


l, n, L, M = map(oa.symbol, "l n L M".split())
g = oa.parameter("g")
V, W = oa.family("V", kind="linear"), oa.family("W", kind="linear")


def test_a_recursion_that_holds_from_zero_on_is_not_put_under_an_index_that_may_be_negative():
    """At n = -1 the recursion of the product would read 1 = A, and the sum would make 1 + A = 2 A of it."""
    recursion = kernel.unfold(oa.ordered_product(A, l, 1, n + 1))
    index = Symbol("n", "natural")
    with pytest.raises(oa.InputError, match="from L - 1 on was asked, which may be negative"):
        kernel.under(recursion, oa.indexed_sum(V[n], n, L - 1, M), index)
    for build in (oa.indexed_sum, oa.ordered_product):
        with pytest.raises(oa.InputError, match="an index is a natural number"):
            build(A, l, -1, M)
    assert kernel.under(recursion, oa.indexed_sum(V[n], n, L, M), index).lhs == oa.indexed_sum(recursion.lhs, n, L, M)


@pytest.mark.parametrize("divide", [lambda: 1 / g, lambda: g**-1, lambda: 1 / n, lambda: 2 / (g * n)])
def test_nothing_is_divided_by_what_may_be_zero(divide):
    """From g A = g B, `1/g` times both sides would give A = B, and g = 0 then from no hypothesis at all."""
    with pytest.raises(oa.InputError, match="may be zero; declare it with positive=True"):
        divide()
    p = oa.parameter("p", positive=True)
    theorem = kernel.cong(compose, 1 / p * Identity(), kernel.assume(oa.Equal(p * A, p * B)))
    assert (theorem.lhs, theorem.rhs) == (A, B)
    with pytest.raises(oa.InputError, match="is positive and 0 may not be"):
        oa.instantiate(theorem, {p: 0})


def test_induction_is_over_natural_numbers_alone():
    claim = oa.Equal(A @ (1 + g * B), (1 + g * B) @ A)
    with pytest.raises(oa.InputError, match="g is real; induction is over a natural number"):
        kernel.induction(kernel.refl(A), kernel.assume(claim), Symbol("g", "real"))


def test_no_theorem_and_no_binder_holds_an_index_that_another_binds():
    first, second = oa.indexed_sum(V[l], l, 1, L), oa.indexed_sum(W[l], l, 1, L)
    with pytest.raises(oa.InputError, match="has an index that a product or sum binds"):
        kernel.assume(oa.Equal(first.body, second.body))
    with pytest.raises(oa.InputError, match="has an index that a product or sum binds"):
        oa.indexed_sum(V[n] @ first.body, n, 1, M)


def test_a_constructor_is_the_constructor_itself_and_a_theorem_is_about_operators():
    class Equals:
        def __eq__(self, other):
            return True

        __hash__ = object.__hash__

        def __call__(self, operator):
            return operator

    with pytest.raises(oa.InputError, match="proves nothing"):
        kernel.cong(Equals(), A)
    with pytest.raises(oa.InputError, match="5 is no operator, and theorems are about operators"):
        kernel.refl(5)
