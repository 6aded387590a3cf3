"""Simplification by facts keeps the meaning wherever the facts hold, names the facts that it used, and ends."""

import pickle
from fractions import Fraction
from functools import partial
from importlib import import_module
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meaning import PRIME, Interpretation, apply, counterexample, inverted, kronecker, random_matrix, times, transposed
from test_laws import assert_search_finds

import opalgebra as oa
from opalgebra.expr import Identity, Zero

facts_module, simplify_module = (import_module(f"opalgebra.{name}") for name in ("facts", "simplify"))

A, B, C, P, N, J, K, H, S, T = oa.atoms("A B C P N J K H S T", kind="linear")
F, G, Q, Z = oa.atoms("F G Q Z", kind="nonlinear")
D = oa.Atom("D", kind="attention")
a = oa.Atom("a", kind="linear", domain=oa.POSITIONS, codomain=oa.POSITIONS)
w = oa.Atom("w", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES)
U, V, W = (oa.family(name, kind="linear") for name in "UVW")
x = oa.state("x")
l, L = oa.symbol("l"), oa.symbol("L")
SIZE = {"positions": 2, "features": 2}

FACTS = (
    oa.Commute(A, B), oa.Commute(V, V), oa.Commute(A, V), oa.Equal(A @ J, C), oa.Idempotent(P), oa.Idempotent(U),
    oa.Nilpotent(N, 3), oa.Inverse(J, K), oa.Inverse(1 - F), oa.Adjoint(H, H), oa.Adjoint(S, T), oa.Linear(G),
    oa.Homogeneous(Q), oa.Causal(Z, W), oa.Form(oa.dressed(D, x), oa.tensor(a, w), "frozen"), oa.Equal(G @ P, P @ B @ P),
)  # fmt: skip
LETTERS = (A, B, C, P, N, J, K, H, S, T, G, Q, Z, F, U[1], U[2], V[1], V[2], V[3], W[0], W[1], oa.dressed(D, x))


def square(random):
    return random_matrix(random, 4, 4)


def conjugated(random, matrix):
    change = square(random)
    return times(change, times(matrix, inverted(change)))


def diagonal(*entries):
    return tuple(tuple(entry * (i == j) for j in range(len(entries))) for i, entry in enumerate(entries))


def with_all_facts(seed):
    """An interpretation in which every one of the facts holds, and little else."""
    random = Random(f"facts {seed}")
    change, j = square(random), square(random)
    commuting = iter([times(change, times(diagonal(*random.sample(range(PRIME), 4)), inverted(change))) for _ in range(5)])
    matrices = {A: next(commuting), B: next(commuting), J: j, K: inverted(j), P: conjugated(random, diagonal(1, 1, 0, 0))}
    matrices |= {V[depth]: next(commuting) for depth in (1, 2, 3)}
    matrices |= {U[depth]: conjugated(random, diagonal(1, 0, 0, 0)) for depth in (1, 2)}
    matrices[C] = times(matrices[A], j)
    matrices[N] = conjugated(random, ((0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 0), (0, 0, 0, 0)))
    form = Interpretation(seed, SIZE).form(oa.X)
    half, matrices[S] = square(random), square(random)
    matrices[H] = times(inverted(form), tuple(tuple(sum(e) for e in zip(*rows)) for rows in zip(half, transposed(half))))
    matrices[T] = times(inverted(form), times(transposed(matrices[S]), form))
    matrices[W[0]], matrices[W[1]] = diagonal(1, 1, 0, 0), diagonal(1, 1, 1, 1)
    p = matrices[P]
    others = times(square(random), tuple(tuple((int(i == k) - p[i][k]) % PRIME for k in range(4)) for i in range(4)))
    matrices[G] = tuple(tuple(sum(e) % PRIME for e in zip(*rows)) for rows in zip(times(p, times(matrices[B], p)), others))
    patterns = random_matrix(random, 2, 2), random_matrix(random, 2, 2)
    maps = {letter: partial(apply, matrix) for letter, matrix in matrices.items()}
    maps |= {Q: homogeneous, Z: causal, F: lower, a: partial(apply, patterns[0]), w: partial(apply, patterns[1])}
    return Interpretation(seed, SIZE, splits={D: lambda state: kronecker(*patterns)}, maps=maps)


def homogeneous(v):
    """Of degree one and not additive: sums of `v_i^2 / v_j`."""
    return tuple((v[i] * v[i] * pow(v[i - 1], -1, PRIME) if v[i - 1] else v[i]) % PRIME for i in range(4))


def causal(v):
    """Two features of each of two positions; the first position ignores the second."""
    return tuple(value % PRIME for value in (v[0] * v[1], v[0] ** 2 + 3, v[0] * v[3], v[1] + v[2] * v[3] + 1))


def lower(v):
    return tuple(value % PRIME for value in (0, v[0] ** 2 + 1, v[0] * v[1], v[2] ** 3 + v[1]))


MODELS = [with_all_facts(seed) for seed in (1, 2)]

MODELS_FACTS_HOLD = [
    (oa.Commute(A, B), ()), (oa.Commute(V, V), (V[1], V[2])), (oa.Commute(A, V), (A, V[3])), (FACTS[3], ()),
    (oa.Idempotent(P), ()), (oa.Idempotent(U), (U[2],)), (oa.Nilpotent(N, 3), ()), (oa.Inverse(J, K), ("left",)),
    (oa.Inverse(1 - F), ("right",)), (oa.Inverse(1 - F), ("left",)), (oa.Adjoint(H, H), ("left",)),
    (oa.Adjoint(S, T), ("right",)), (oa.Linear(G), (A + 2 * F,)), (oa.Homogeneous(Q), (Fraction(3, 2), A + F)),
    (oa.Causal(Z, W), (0,)), (oa.Causal(Z, W), (1,)), (FACTS[14], ()), (FACTS[15], ()),
]  # fmt: skip


@pytest.mark.parametrize(("fact", "arguments"), MODELS_FACTS_HOLD, ids=str)
def test_the_facts_hold_in_the_models_of_this_file(fact, arguments):
    statement = fact.equation(*arguments)
    assert counterexample(statement.lhs, statement.rhs, interpretations=MODELS) is None


COEFFICIENTS = st.sampled_from([1, 2, -1, Fraction(1, 3), -4])


@st.composite
def expressions(draw, depth=3):
    """Sums and words of the letters, with inverses, adjoints, traces and brackets inside."""
    words = st.lists(st.sampled_from(LETTERS), min_size=1, max_size=5).map(oa.ordered_product)
    if depth == 0:
        return draw(words)
    smaller = expressions(depth - 1)
    shape = draw(st.sampled_from(("word", "word", "sum", "compose", "compose", "inside", "inverse", "over")))
    if shape == "sum":
        return sum((c * e for c, e in draw(st.lists(st.tuples(COEFFICIENTS, smaller), min_size=2, max_size=3))), start=0 * A)
    if shape == "compose":
        return draw(smaller) @ draw(smaller)
    if shape == "inverse":
        inverses = [oa.inverse(1 - F), F @ oa.inverse(1 - F), oa.inverse(1 - F) @ (1 - F), J @ K]
        return draw(st.sampled_from(inverses)) @ draw(words)
    if shape == "over":
        binder = draw(st.sampled_from([oa.indexed_sum, oa.ordered_product]))
        body = draw(st.sampled_from([V[l], U[l], U[l] @ U[l], 2 * l * V[l] + U[l]]))
        return draw(words) @ binder(body @ draw(words), l, 1, L) @ draw(words)
    if shape == "inside":
        inside = draw(smaller)
        if inside.is_linear:
            build = draw(st.sampled_from([
                oa.adjoint, oa.transpose, oa.inverse, partial(oa.function, "exp"), partial(oa.commutator, A @ P),
                lambda e: oa.tensor(oa.trace(e, "features"), Identity(oa.FEATURES)),
            ]))  # fmt: skip
            return build(inside)
        return inside
    return draw(words)


def broken(operator):
    theorem = oa.simplify(operator, facts=FACTS)
    assert theorem.lhs is operator and theorem.hypotheses <= set(FACTS)
    return counterexample(theorem.lhs, theorem.rhs, interpretations=MODELS, points=2, environment={"L": 2})


@given(expressions())
def test_simplification_keeps_the_meaning_where_the_facts_hold(operator):
    assert broken(operator) is None


@given(expressions())
def test_a_simplified_operator_is_left_as_it_is(operator):
    simple = oa.simplify(operator, facts=FACTS).rhs
    assert oa.simplify(simple, facts=FACTS).rhs is simple


@pytest.mark.parametrize(
    ("fact", "wrong"),
    [
        (oa.Idempotent, lambda self, *m: oa.equation(P @ P, Identity())),
        (oa.Nilpotent, lambda self, *m: oa.equation(N @ N, Zero())),
        (oa.Adjoint, lambda self, side: oa.equation(self.operator, self.adjoint)),
        (oa.Causal, lambda self, t, *m: oa.equation(W[t] @ Z, Z)),
        (oa.Inverse, lambda self, side: oa.equation(self.operator @ self.inverse, 2 * Identity())),
    ],
)
def test_planted_equation_that_a_fact_does_not_state_is_found(monkeypatch, fact, wrong):
    monkeypatch.setattr(getattr(facts_module, fact.__name__), "equation", wrong)
    assert_search_finds(broken, expressions())


def test_planted_fact_of_all_operators_is_found(monkeypatch):
    for module in (facts_module, simplify_module):
        monkeypatch.setattr(module, "is_member", lambda operator, operand: True)
    assert_search_finds(broken, expressions())


@pytest.mark.parametrize(
    ("operator", "facts", "simple"),
    [
        (P @ (A + P) @ P, [oa.Idempotent(P)], P + P @ A @ P),
        (A @ B @ A @ B - B @ A @ A @ B, [oa.Commute(A, B)], Zero()),
        (V[10] @ V[2] @ V[1], [oa.Commute(V, V)], V[1] @ V[2] @ V[10]),
        (A @ B @ C, [oa.Equal(A @ B, C + N)], C @ C + N @ C),
        (oa.inverse(A @ B) @ A @ B @ C, [oa.Inverse(A @ B)], C),
        (F @ (2 * A + 4 * B), [oa.Homogeneous(F)], 2 * (F @ (A + 2 * B))),
        (F @ (-2 * A), [oa.Homogeneous(F)], 2 * (F @ (-1 * A))),
        (F @ oa.inverse(1 - F), [oa.Inverse(1 - F)], oa.inverse(1 - F) - 1),
        (B @ N @ N @ N @ A, [oa.Nilpotent(N, 3)], Zero()),
        (F @ N @ N @ N, [oa.Nilpotent(N, 3)], F @ Zero()),
        (W[2] @ Z @ W[2] @ Q @ W[2], [oa.Causal(Z, W), oa.Causal(Q, W)], W[2] @ Z @ Q),
        (oa.commutator(A, B) @ C, [oa.Commute(A, B)], Zero()),
        (oa.trace(P @ A @ P), [oa.Idempotent(P)], oa.trace(A @ P)),
        (oa.function("exp", P @ P), [oa.Idempotent(P)], oa.function("exp", P)),
        (oa.ordered_product(1 + U[l] @ U[l], l, 1, L), [oa.Idempotent(U)], oa.ordered_product(1 + U[l], l, 1, L)),
        (F @ A @ F @ (B + C), [oa.Commute(A, F)], A @ F @ F @ (B + C)),
        (V[1] @ Q @ (B + C), [oa.Commute(V, Q)], Q @ (V[1] @ B + V[1] @ C)),
        (A @ oa.indexed_sum(V[l], l, 1, L) - oa.indexed_sum(V[l], l, 1, L) @ A, [oa.Commute(A, V)], Zero()),
        (oa.indexed_sum(U[l] + l * U[l] @ U[l], l, 1, L), [oa.Idempotent(U)], oa.indexed_sum((l + 1) * U[l], l, 1, L)),
        (oa.indexed_sum(V[l] @ A, l, 1, L), [oa.Commute(A, V)], oa.indexed_sum(A @ V[l], l, 1, L)),
        (oa.ordered_product(N, l, 1, L) @ A, [oa.Nilpotent(N, L)], Zero()),
        (V[1] @ A @ B, [oa.Commute(A @ B, V)], A @ B @ V[1]),
        (W[1, 2] @ Z @ W[1, 2], [oa.Causal(Z, W)], W[1, 2] @ Z),
        (V[1] @ W[1] @ A @ W[2] @ V[2] @ W[1], [oa.Inverse(V, W)], A @ W[1]),
        (oa.indexed_sum(oa.inverse(V[l]) @ V[l] @ A, l, 1, L), [oa.Inverse(V)], oa.indexed_sum(A, l, 1, L)),
        (oa.adjoint(V[1]) @ V[1], [oa.Adjoint(V, V)], V[1] @ V[1]),
        (A @ C - B @ C, [oa.Equal(A, N), oa.Equal(A, H), oa.Equal(B, H)], Zero()),
    ],
)  # fmt: skip
def test_what_facts_make_of_an_operator(operator, facts, simple):
    theorem = oa.simplify(operator, facts=facts)
    assert (theorem.lhs, theorem.rhs) == (operator, simple)
    assert theorem.hypotheses and theorem.hypotheses <= set(facts)
    again = pickle.loads(pickle.dumps(theorem))
    assert (again.lhs, again.rhs, again.hypotheses) == (theorem.lhs, theorem.rhs, theorem.hypotheses)


def test_only_the_facts_used_are_hypotheses_and_backgrounds_are_left_alone():
    theorem = oa.simplify(P @ P @ A @ oa.dressed(F, P @ P @ x), facts=[oa.Idempotent(P), oa.Commute(A, B)])
    assert theorem.rhs == P @ A @ oa.dressed(F, P @ P @ x)
    assert theorem.hypotheses == {oa.Idempotent(P)}
    assert oa.simplify((A + B) @ C).hypotheses == frozenset()


def test_symbolic_indices_are_never_taken_for_different_or_equal_ones():
    n = oa.symbol("n")
    assert oa.simplify(U[l] @ U[n], facts=[oa.Idempotent(U)]).rhs == U[l] @ U[n]


def test_facts_that_lead_in_circles_end_in_an_error_and_so_do_those_that_give_no_rule():
    grows = oa.Form(oa.dressed(F, x), oa.dressed(F, x) @ A, "frozen")
    with pytest.raises(oa.LimitError, match="after 50 rewritings; the facts may lead in circles"):
        oa.simplify(oa.dressed(F, x), facts=[grows], limit=50)
    g = oa.parameter("g")
    with pytest.raises(oa.InputError, match="the coefficient -g of A @ B @ C may be zero; make it positive"):
        oa.simplify(A, facts=[oa.Equal(A, g * A @ B @ C)])
    h = oa.parameter("h", positive=True)
    assert oa.simplify(A @ B, facts=[oa.Equal(C, h * A @ B)]).rhs == 1 / h * C
    with pytest.raises(oa.InputError, match="is no fact"):
        oa.simplify(A, facts=[A])
    with pytest.raises(oa.InputError, match="3 is no operator"):
        oa.simplify(3)


def test_long_words_are_sorted_without_recursion():
    word = oa.ordered_product([A, B] * 400)
    theorem = oa.simplify(oa.ordered_product([P] * 3000) + word @ oa.inverse(word), facts=[oa.Idempotent(P)])
    assert theorem.rhs == P + word @ oa.inverse(word)
