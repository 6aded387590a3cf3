"""Declared facts: the equation that each states, what it may be declared of, and how it becomes a hypothesis."""

import pickle
from operator import add
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meaning import Interpretation, apply, counterexample, random_matrix
from strategies import NONLINEAR, maps, states
from test_laws import assert_search_finds

import opalgebra as oa
from opalgebra import kernel
from opalgebra.expr import Identity, Zero, compose
from opalgebra.kernel import assume, cong, left_dist

A, B, C = oa.atoms("A B C", kind="linear")
F, G = oa.atoms("F G", kind="nonlinear")
V, W = oa.family("V", kind="linear"), oa.family("W", kind="linear")
P = oa.family("P", kind="linear")
x = oa.state("x")
n, m = oa.symbol("n"), oa.symbol("m")


def stated(fact, *arguments):
    theorem = assume(fact, *arguments)
    assert theorem.hypotheses == {fact}
    return str(theorem)


@pytest.mark.parametrize(
    ("fact", "arguments", "text"),
    [
        (oa.Linear(F), (A + 2 * B,), "|- [F linear] F @ (A + 2*B) = F @ A + 2*F @ B"),
        (oa.Linear(F), (Zero(),), "|- [F linear] F @ 0 = 0"),
        (oa.Equal(A @ B, C), (), "|- [A @ B = C] A @ B = C"),
        (oa.Commute(A, F), (), "|- [A, F commute] A @ F = F @ A"),
        (oa.Commute(V, W), (V[1], W[n]), "|- [every V[l], every W[l] commute] V1 @ W[n] = W[n] @ V1"),
        (oa.Homogeneous(F), (3, A), "|- [F homogeneous] F @ (3*A) = 3*F @ A"),
        (oa.Idempotent(A), (), "|- [A idempotent] A @ A = A"),
        (oa.Nilpotent(A, 3), (), "|- [A^3 = 0] A @ A @ A = 0"),
        (oa.Nilpotent(A, n), (), "|- [A^n = 0] ordered_product(A, l, 1, n) = 0"),
        (oa.Inverse(1 - F), (), "|- [1 - F invertible] (1 - F) @ inverse(1 - F) = 1"),
        (oa.Inverse(A, B), ("left",), "|- [B inverse to A] B @ A = 1"),
        (oa.Adjoint(A, A), (), "|- [A self-adjoint] adjoint(A) = A"),
        (oa.Adjoint(A, B), ("right",), "|- [B adjoint to A] adjoint(B) = A"),
        (oa.Inverse(V), ("left", V[2]), "|- [every V[l] invertible] inverse(V2) @ V2 = 1"),
        (oa.Inverse(V, W), ("right", V[n]), "|- [every W[l] inverse to every V[l]] V[n] @ W[n] = 1"),
        (oa.Adjoint(V, V), ("left", V[3]), "|- [every V[l] self-adjoint] adjoint(V3) = V3"),
        (oa.Adjoint(V, W), ("right", V[n]), "|- [every W[l] adjoint to every V[l]] adjoint(W[n]) = V[n]"),
        (oa.Causal(F, P), (n,), "|- [F causal] P[n] @ F = P[n] @ F @ P[n]"),
        (oa.Every(P[n] @ F, P[n] @ A, n), (4,), "|- [P[t] @ F = P[t] @ A for every t] P4 @ F = P4 @ A"),
        (oa.Nilpotent(A, n + 1), (), "|- [A^(n + 1) = 0] ordered_product(A, l, 1, n + 1) = 0"),
        (oa.Every(V[n], W[n], n), (n + 1,), "|- [V[t] = W[t] for every t] V[n + 1] = W[n + 1]"),
        (oa.Form(oa.dressed(F, x), A, "frozen"), (), "|- [F<x> = A for split: frozen] F<x> = A"),
    ],
)
def test_each_fact_states_its_equation_under_itself(fact, arguments, text):
    assert stated(fact, *arguments) == text
    assert pickle.loads(pickle.dumps(fact)) == fact
    again = pickle.loads(pickle.dumps(assume(fact, *arguments)))
    assert (again.lhs, again.rhs, again.hypotheses) == (assume(fact, *arguments).lhs, assume(fact, *arguments).rhs, {fact})


@pytest.mark.parametrize(
    ("error", "declare", "text"),
    [
        (oa.InputError, lambda: oa.Linear(F + A), "declare its atoms linear"),
        (oa.InputError, lambda: oa.Linear(3), "3 is no operator and no family"),
        (oa.SpaceError, lambda: oa.Commute(A, x), "x is a state"),
        (oa.SpaceError, lambda: oa.Adjoint(A, oa.Atom("E", kind="linear", domain=oa.K)), "an equation needs the same spaces"),
        (oa.SpaceError, lambda: oa.Inverse(oa.Atom("E", kind="linear", domain=oa.K), A), "an inverse goes back"),
        (oa.NotLinearError, lambda: oa.Adjoint(F, A), "the adjoint of F was asked"),
        (oa.NotLinearError, lambda: oa.Causal(F, oa.family("Q", kind="nonlinear")), "as prefix projectors are"),
        (oa.InputError, lambda: oa.Nilpotent(A, 0), "is at least 1"),
        (oa.InputError, lambda: oa.Form(A, B, "frozen"), "A is no dressing"),
        (oa.NotLinearError, lambda: oa.Form(oa.dressed(F, x), G, "frozen"), "it cannot be its form"),
        (oa.InputError, lambda: assume(oa.Homogeneous(F), -1, A), "homogeneous for positive scalars"),
        (oa.InputError, lambda: assume(oa.Homogeneous(F), oa.parameter("c"), A), "homogeneous for positive scalars"),
        (oa.InputError, lambda: assume(oa.Commute(V, W), V[1], V[2]), "V2 is not family"),
        (oa.InputError, lambda: oa.Inverse(V, A), "name two operators, or two families"),
        (oa.NotLinearError, lambda: oa.Adjoint(A, F), "the adjoint of F was asked"),
        (oa.InputError, lambda: oa.Equal(1, 2), "1 is no operator, and an equation has one on each side"),
        (oa.InputError, lambda: oa.Adjoint(A, V), "name two operators, or two families"),
        (oa.InputError, lambda: oa.Adjoint(A, 3), "3 is no operator and no family"),
        (oa.NotLinearError, lambda: oa.Adjoint(oa.family("Q", kind="nonlinear"), V), "the adjoint of Q0 was asked"),
        (oa.InputError, lambda: assume(oa.Inverse(V), "left"), "name it, as in V\\[1\\]"),
        (oa.InputError, lambda: assume(oa.Adjoint(V, W), "left", W[1]), "W1 is not family"),
        (oa.InputError, lambda: assume(oa.Commute(V, W)), "name it, as in V\\[1\\]"),
        (oa.SpaceError, lambda: oa.Every(V[n], x, n), "needs the same spaces on both sides"),
        (oa.InputError, lambda: oa.Every(V[n], W[n], 3), "3 is no single symbol"),
        (oa.InputError, lambda: oa.Every(V[n], W[n], oa.parameter("r")), "r is real, and an index is a natural number"),
        (oa.InputError, lambda: oa.Every(oa.indexed_sum(V[n], n, 1, m).body, V[1], m), "an index that a product or sum binds"),
        (oa.InputError, lambda: assume(oa.Every(V[n], W[n], n)), "is used at a value of its index; name one"),
        (oa.InputError, lambda: assume(oa.Every(V[n], W[n], n), -1), "an index is a natural number"),
        (oa.InputError, lambda: oa.simplify(V[1], facts=[oa.Every(V[n], W[n], n)]), "give the equations it is needed at"),
    ],
)
def test_what_a_fact_cannot_be_declared_or_used_of_is_refused(error, declare, text):
    with pytest.raises(error, match=text):
        declare()


def test_the_facts_that_an_expansion_needs_become_its_hypotheses_and_no_others():
    theorem = oa.expand(F @ (A + B), facts=[oa.Linear(F), oa.Linear(G)])
    assert theorem.rhs == F @ A + F @ B
    assert theorem.hypotheses == {oa.Linear(F)}
    assert repr(theorem) == "⊢ [F linear] F(A + B) = F A + F B"
    assert oa.expand((A + B) @ C, facts=[oa.Linear(F)]).hypotheses == frozenset()
    assert oa.expand(F @ (A + B)).rhs == F @ (A + B)


def test_a_fact_of_a_family_is_one_of_every_member():
    Q = oa.family("Q", kind="nonlinear")
    assert oa.expand(Q[3] @ (A + B), facts=[oa.Linear(Q)]).rhs == Q[3] @ A + Q[3] @ B
    assert left_dist(Q[n], A + B, [oa.Linear(Q)]).rhs == Q[n] @ A + Q[n] @ B
    with pytest.raises(oa.NotLinearError):
        left_dist(F, A + B, [oa.Linear(Q)])


def test_a_map_declared_linear_is_distributed_on_a_state_and_its_dressing_stays_a_name():
    y = oa.state("y")
    theorem = oa.expand((1 + F) @ (x + y), facts=[oa.Linear(F)])
    assert theorem.rhs == x + y + F @ x + F @ y
    assert oa.dressed(F, x) != F


def test_values_reach_into_hypotheses():
    theorem = oa.instantiate(assume(oa.Nilpotent(A, n)), {n: 2})
    assert theorem.hypotheses == {oa.Nilpotent(A, 2)}
    assert (theorem.lhs, theorem.rhs) == (A @ A, Zero())


def test_a_fact_for_every_index_binds_it():
    fact = oa.Every(V[n] @ oa.indexed_sum(W[m + n], m, 0, n), V[n + 1], n)
    assert fact == oa.Every(V[m] @ oa.indexed_sum(W[n + m], n, 0, m), V[m + 1], m)
    assert fact.symbols == frozenset() and oa.Every(V[n], W[m], n).symbols == W[m].symbols
    assert fact.equation(m) == oa.equation(V[m] @ oa.indexed_sum(W[n + m], n, 0, m), V[m + 1])
    theorem = oa.instantiate(assume(oa.Every(V[n], W[m], n), m + 1), {m: n})
    assert theorem.hypotheses == {oa.Every(V[m], W[n], m)}
    assert (theorem.lhs, theorem.rhs) == (V[n + 1], W[n])


def test_operators_are_put_into_a_fact_for_every_index_without_capture():
    U = oa.family("U", kind="linear")
    theorem = assume(oa.Every(V[n], W[n], n), 2)
    found = oa.instantiate(theorem, {V: lambda i: oa.indexed_sum(oa.indexed_sum(U[i + m + n], m, 0, i), n, 0, 1)})
    (fact,) = found.hypotheses
    for index in (0, 2, 5):
        assert fact.equation(index).lhs == oa.indexed_sum(oa.indexed_sum(U[index + m + n], m, 0, index), n, 0, 1)
    with_free = oa.instantiate(theorem, {V: lambda i: U[i + n], W: lambda i: U[i + m]})
    assert with_free.hypotheses == {oa.Every(U[oa.symbol("k") + n], U[oa.symbol("k") + m], oa.symbol("k"))}


def test_what_holds_for_every_index_may_be_put_under_a_sum_and_what_holds_for_one_may_not():
    one, every = assume(oa.Equal(V[n], W[n])), assume(oa.Every(V[n], W[n], n), n)
    total = oa.indexed_sum(V[n], n, 1, m)
    assert kernel.under(every, total, kernel.the_symbol(n)).rhs == oa.indexed_sum(W[n], n, 1, m)
    with pytest.raises(oa.InputError, match="n is free in a hypothesis"):
        kernel.under(one, total, kernel.the_symbol(n))


def test_congruence_holds_for_functions_of_maps_and_for_no_others():
    equal = assume(oa.Equal(A, B))
    assert cong(oa.inverse, equal).rhs == oa.inverse(B)
    assert cong(oa.commutator, equal, C).rhs == oa.commutator(B, C)
    assert cong(oa.trace, equal, "features").rhs == oa.trace(B, "features")
    assert cong(oa.function, "exp", equal).rhs == oa.function("exp", B)
    states_equal = assume(oa.Equal(A @ x, x))
    assert cong(oa.dressed, F, states_equal).rhs == oa.dressed(F, x)
    with pytest.raises(oa.InputError, match="equal proves nothing"):
        cong(oa.dressed, assume(oa.Equal(F, G)), x)
    with pytest.raises(oa.InputError, match="equal proves nothing"):
        cong(lambda operator: operator @ operator, equal)


def test_the_resolvent_identity_holds_for_every_map_that_has_one():
    """`(1 - F)^-1 = 1 + F (1 - F)^-1`, from `(1 - F) R = 1` and right distribution alone."""
    fact = oa.Inverse(1 - F)
    R = fact.inverse
    solved = cong(add, assume(fact), kernel.refl(F @ R))
    opened = cong(add, kernel.right_dist(1 - F, R), kernel.refl(F @ R))
    theorem = kernel.trans(kernel.sym(opened), solved)
    assert (theorem.lhs, theorem.rhs, theorem.hypotheses) == (R, Identity() + F @ R, {fact})
    lower = {F: lambda vector: (0, vector[0] ** 3 + 5)}
    model = Interpretation(1, maps=lower)
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=[model]) is None
    mirrored = 1 + R @ F
    assert counterexample(R, mirrored, interpretations=[model]) is not None


def declared_linear(seed):
    """An interpretation in which the first nonlinear atom is a matrix."""
    matrix = random_matrix(Random(seed), 2, 2)
    return Interpretation(seed, maps={NONLINEAR[0]: lambda vector: apply(matrix, vector)})


def broken(operator):
    theorem = oa.expand(operator, facts=[oa.Linear(NONLINEAR[0])])
    return counterexample(theorem.lhs, theorem.rhs, interpretations=[declared_linear(1), declared_linear(2)])


@given(st.one_of(maps(), states()))
def test_an_expansion_with_a_map_declared_linear_holds_where_it_is(operator):
    assert broken(operator) is None


def test_planted_fact_that_is_taken_for_one_of_every_map_is_found(monkeypatch):
    monkeypatch.setattr(kernel, "is_linear", lambda operator, facts: True)
    assert_search_finds(broken, maps())


def test_planted_expansion_without_its_hypothesis_is_false_where_the_map_is_not_linear():
    theorem = oa.expand(F @ (A + B), facts=[oa.Linear(F)])
    assert counterexample(theorem.lhs, theorem.rhs) is not None
    assert compose(F, A + B) == theorem.lhs
