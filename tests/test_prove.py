"""Rewriting by theorems, what normal forms decide, and chains of steps: each gives a theorem of the kernel that is true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meaning import Interpretation, counterexample
from strategies import operators, states

import opalgebra as oa
from opalgebra import kernel

A, B, C, P = oa.atoms("A B C P", kind="linear")
F, G = oa.atoms("F G", kind="nonlinear")
x = oa.state("x")
V, W = oa.family("V", kind="linear"), oa.family("W", kind="linear")
l, m, L = map(oa.symbol, "lmL")
SWAP = oa.Commute(A, B)


def holds(theorem, **options):
    return counterexample(theorem.lhs, theorem.rhs, **options) is None


@pytest.mark.parametrize(
    ("operator", "rule", "after"),
    [
        (C @ A @ B + A @ B @ C, SWAP, C @ B @ A + B @ A @ C),
        (A @ B @ A @ B, SWAP, B @ A @ B @ A),
        (F @ (A @ B + C) @ x, SWAP, F @ (B @ A + C) @ x),
        (oa.dressed(F, A @ B @ x), SWAP, oa.dressed(F, B @ A @ x)),
        (oa.source(F, A @ B @ x), SWAP, oa.source(F, B @ A @ x)),
        (oa.inverse(1 - A @ B), SWAP, oa.inverse(1 - B @ A)),
        (oa.adjoint(oa.function("exp", A @ B)), SWAP, oa.adjoint(oa.function("exp", B @ A))),
        (oa.trace(A @ B @ C, 0), SWAP, oa.trace(B @ A @ C, 0)),
        (oa.commutator(A @ B, C), SWAP, oa.commutator(B @ A, C)),
        (oa.indexed_sum(V[l] @ A @ B, l, 1, L), SWAP, oa.indexed_sum(V[l] @ B @ A, l, 1, L)),
        (
            oa.indexed_sum(oa.ordered_product(V[m] @ A @ B, m, 1, l), l, 1, L),
            SWAP,
            oa.indexed_sum(oa.ordered_product(V[m] @ B @ A, m, 1, l), l, 1, L),
        ),
        (2 * A @ B, SWAP, 2 * B @ A),
        (A @ (1 + B), oa.expand(A @ (1 + B)), A + A @ B),
    ],
)  # fmt: skip
def test_rewriting_everywhere(operator, rule, after):
    theorem = oa.rewrite(operator, rule)
    assert (theorem.lhs, theorem.rhs) == (operator, after)


def rewritten_meaning(operator, letter):
    """What is false in an operator rewritten by `letter = W`, in a model where they are one map with two splits."""
    other = oa.Atom("W", kind=letter.kind, domain=letter.domain, codomain=letter.codomain)
    plain = Interpretation(1)
    model = Interpretation(1, maps={other: lambda v: plain.atom(letter, v)})
    theorem = oa.rewrite(operator, oa.Equal(letter, other))
    assert other in theorem.rhs.atoms
    return counterexample(theorem.lhs, theorem.rhs, interpretations=[model])


@given(st.one_of(operators(), states(3)), st.data())
def test_rewriting_by_a_true_equation_keeps_the_meaning(operator, data):
    letters = [atom for atom in operator.atoms if atom.kind in ("linear", "nonlinear")]
    if letters:
        try:
            assert rewritten_meaning(operator, data.draw(st.sampled_from(letters))) is None
        except oa.InputError as error:
            assert "nothing in" in str(error)


def test_rewriting_at_a_path_leaves_the_rest():
    operator = oa.ordered_product(1 + V[l], l, 1, L + 1) @ A @ B
    theorem = oa.rewrite(operator, oa.unfold, at=(0,))
    assert theorem.rhs is (1 + V[L + 1]) @ oa.ordered_product(1 + V[l], l, 1, L) @ A @ B
    assert oa.rewrite(A @ B @ A @ B, SWAP, at=(1, 1)).rhs is A @ B @ B @ A
    inside = oa.rewrite(oa.dressed(F, G @ x), kernel.dress, at=(0,))
    assert inside.rhs is oa.dressed(F, oa.dressed(G, x) @ x + oa.source(G, x)) and holds(inside)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: oa.rewrite(A @ C, SWAP), r"nothing in A @ C begins with A @ B"),
        (lambda: oa.rewrite(A @ C, oa.unfold), "unfold is no theorem; a function rewrites the part at a path"),
        (lambda: oa.rewrite(A @ C, SWAP, at=(2,)), "has 2 parts, and the path names part 2"),
        (lambda: oa.rewrite(A @ C, SWAP, at=(0,)), "A stands at this path and does not begin with A @ B"),
        (lambda: oa.auto(A @ B, B @ A), "is not decided by normal forms: the left side gives A @ B, the right side B @ A"),
        (lambda: oa.calc(A @ B).to(B @ A), "is not decided by normal forms"),
        (lambda: oa.calc(A @ C).to(C @ A, by=SWAP), "does not follow by"),
        (lambda: oa.calc(A, goal=B).theorem, "the goal B is not reached; the chain ends in A"),
        (lambda: oa.calc(5), "5 is no operator"),
        (lambda: oa.latex(A, derivation=True), "is no theorem and has no derivation"),
    ],
)
def test_what_does_not_follow_is_refused(act, message):
    with pytest.raises(oa.InputError, match=message):
        act()


def test_normal_forms_decide_states_by_dressing_them():
    theorem = oa.auto((1 + F) @ (1 + G) @ x, oa.expand((1 + F) @ (1 + G) @ x).rhs)
    assert holds(theorem)
    facts = [oa.Idempotent(P)]
    assert oa.auto((1 - P) @ P, oa.Zero(), facts=facts).hypotheses == {oa.Idempotent(P)}


def test_a_chain_is_shown_with_its_reasons_and_its_goal():
    chain = oa.calc((1 - P) @ (1 - P), goal=1 - P).to(1 - 2 * P + P @ P)
    assert str(chain) == "(1 - P) @ (1 - P)\n  = 1 - 2*P + P @ P    by normal form\ngoal: 1 - P"
    done = chain.rewritten(oa.Idempotent(P), name="P is a projector")
    assert str(done).endswith("  = 1 - P    by P is a projector")
    assert (done.theorem.rhs, done.theorem.hypotheses) == (1 - P, {oa.Idempotent(P)})
    assert oa.latex(done).startswith(r"\begin{aligned} (1 - P)(1 - P) &= 1 - 2\,P + P\,P \\")
    reversed_use = oa.calc(B @ A @ C).to(A @ B @ C, by=SWAP)
    assert reversed_use.theorem.hypotheses == {SWAP}
    assert oa.calc(F @ x).to(oa.dressed(F, x) @ x + oa.source(F, x), by=kernel.dress).steps[0][1] == "dress"


def test_telescoping_holds_at_every_length_and_for_a_nonlinear_right_side():
    U = oa.family("U", kind="nonlinear")
    theorem = oa.telescoping(V, U, L)
    for length in range(5):
        models = [Interpretation(seed) for seed in (1, 2)]
        sides = (oa.instantiate(theorem.lhs, {L: length}), theorem.rhs)
        assert counterexample(*sides, interpretations=models, environment={"L": length}) is None
    with pytest.raises(oa.NotLinearError, match="telescoping on the left needs it to be"):
        oa.telescoping(U, V, L)
    with pytest.raises(oa.InputError, match="is no single symbol"):
        oa.telescoping(V, W, 3)


def test_a_derivation_has_one_justified_step_a_line():
    shown = oa.latex(oa.dyson_theorem(V, L), derivation=True)
    assert shown.count(r"\begin{align}") == shown.count(r"\end{align}") == 3
    assert r"\text{induction hypothesis}" in shown and r"\text{recursion}" in shown
    steps = [line for line in shown.splitlines() if line.startswith("  &\\quad = ")]
    reasons = [line for line in shown.splitlines() if r"\tag*{\footnotesize$[" in line]
    assert len(steps) == len(reasons) == 8 and "$[]$" not in shown
    assert "From L to L + 1:" in shown


def test_a_derivation_cites_what_another_theorem_proves_by_induction():
    V, W, L = oa.family("V", kind="linear"), oa.family("W", kind="linear"), oa.symbol("L")
    series = oa.dyson_theorem(V, L)
    doubled = oa.dyson_theorem(lambda layer: W[layer] @ W[layer], L)
    assert "Induction over L" in oa.latex(doubled, derivation=True)
    cited = oa.latex(doubled, derivation=True, cited={"dyson_series": series})
    assert "Induction over L" not in cited and r"\text{as in dyson series}" in cited
    other = oa.latex(doubled, derivation=True, cited={"telescoping": oa.telescoping(V, W, L)})
    assert other == oa.latex(doubled, derivation=True)


def test_long_hypotheses_of_a_derivation_come_first_and_have_numbers():
    A, B, C = oa.atoms("A B C", kind="linear")
    long = oa.Equal(oa.ordered_product([A, B, C, B] * 4), oa.ordered_product([C] * 9))
    text = oa.latex(oa.simplify(long.lhs + A @ A, facts=[long, oa.Idempotent(A)]), derivation=True)
    stated = oa.latex(long)
    assert text.startswith(f"Hypotheses:\n\\begin{{align}}\n  &{stated} \\tag*{{(H1)}}\n")
    assert r"[\text{H1}" in text or r",\ \text{H1}" in text
    assert text.count(r"A\ \text{idempotent}") == 1
    assert "Hypotheses" not in oa.latex(oa.simplify(A @ A, facts=[oa.Idempotent(A)]), derivation=True)
