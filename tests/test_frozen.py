"""Tensor forms of frozen dressings: what commutes and what does not follows from the factors, under the forms as hypotheses."""

from functools import partial
from random import Random

import pytest
from meaning import Interpretation, apply, counterexample, kronecker, random_matrix

import opalgebra as oa
from opalgebra.expr import Zero, factors
from opalgebra.frozen import NEURONS, PATTERNS, TOKENS, WEIGHTS, norm_factors

T = oa.transformer(2, heads=2)
STACK = oa.dressed(T.operator, T.x[0])
SIZE = {"positions": 2, "features": 2}


def by_name(facts):
    return {fact.dressing.operator.name: fact.dressing for fact in facts if isinstance(fact, oa.Form)}


FORMS = oa.frozen_forms(STACK, tokens=2)
D = by_name(FORMS)
a, w, f, E = PATTERNS, WEIGHTS, NEURONS, TOKENS


def diagonal(random):
    one, other = random.sample(range(1, 10**6), 2)
    return ((one, 0), (0, other))


def frozen_model(seed):
    """Patterns, scales, weights and token blocks at random; every dressing is the Kronecker product that its form says."""
    random = Random(seed)
    matrices, splits = {E[0]: ((1, 0), (0, 0)), E[1]: ((0, 0), (0, 1))}, {}
    centering = oa.Atom("C", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES)
    half = pow(2, -1, 2**31 - 1)
    matrices[centering] = ((half, -half), (-half, half))
    for stage in T.stages:
        scale, weight = norm_factors(stage.norm)
        matrices |= {scale[stage.layer]: diagonal(random), weight[stage.layer]: diagonal(random)}
        for vertex in stage.vertices:
            if vertex.kind == "attention":
                matrices |= {family[vertex.indices]: random_matrix(random, 2, 2) for family in (a, w)}
            else:
                matrices |= {f[vertex.layer, token]: random_matrix(random, 2, 2) for token in (0, 1)}
    model = Interpretation(seed, SIZE, maps={atom: partial(apply, matrix) for atom, matrix in matrices.items()})
    for fact in FORMS:
        if isinstance(fact, oa.Form):
            matrix = by_hand(fact.dressing.operator, matrices, centering)
            splits[fact.dressing.operator] = lambda state, value=matrix: value
    model.splits.update(splits)
    return model


def by_hand(atom, matrices, centering):
    if atom.kind == "attention":
        return kronecker(matrices[a[atom.indices]], matrices[w[atom.indices]])
    if atom.kind == "ffn":
        first, second = (matrices[f[atom.layer, token]] for token in (0, 1))
        return tuple((*row, 0, 0) for row in first) + tuple((0, 0, *row) for row in second)
    scale, weight = (matrices[family[atom.layer]] for family in norm_factors(atom))
    centered = tuple(tuple(weight[i][i] * entry for entry in matrices[centering][i]) for i in (0, 1))
    return kronecker(scale, centered)


MODELS = [frozen_model(seed) for seed in (1, 2)]


def holds(lhs, rhs):
    return counterexample(lhs, rhs, interpretations=MODELS) is None


def form_of(name):
    (form,) = [fact for fact in FORMS if isinstance(fact, oa.Form) and fact.dressing is D[name]]
    return form


def members(fact):
    """A member of each family that a fact is of."""
    operands = [getattr(fact, name, None) for name in ("left", "right", "operator")]
    return [operand[1] if operand[0] is E[0] else operand[2] for operand in operands if isinstance(operand, type(E))]


@pytest.mark.parametrize("fact", FORMS, ids=str)
def test_every_fact_holds_where_patterns_scales_and_gates_are_frozen(fact):
    statement = fact.equation(*members(fact))
    assert holds(statement.lhs, statement.rhs)


def test_the_forms_are_those_of_the_dictionary():
    forms = {fact.dressing.operator.name: fact.form for fact in FORMS if isinstance(fact, oa.Form)}
    assert forms["A2_1"] == oa.tensor(a[2, 1], w[2, 1])
    assert forms["F1"] == oa.tensor(E[0], f[1, 0]) + oa.tensor(E[1], f[1, 1])
    sigma, gamma = norm_factors(T.stages[0].norm)
    assert forms["N1"] == oa.tensor(sigma[1], gamma[1] @ oa.Atom("C", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES))
    rms = oa.frozen_forms(D["N1"], centered=False)
    assert [fact.form for fact in rms if isinstance(fact, oa.Form)] == [oa.tensor(sigma[1], gamma[1])]
    whole = oa.transformer(1)
    (only,) = [
        fact.form for fact in oa.frozen_forms(oa.dressed(whole.operator, whole.x[0]), heads=2)
        if isinstance(fact, oa.Form) and fact.dressing.operator.kind == "attention"
    ]  # fmt: skip
    assert only == oa.tensor(a[1, 0], w[1, 0]) + oa.tensor(a[1, 1], w[1, 1])
    assert {str(fact.split) for fact in FORMS if isinstance(fact, oa.Form)} == {"frozen", "gate"}


def test_two_heads_compose_factor_by_factor_and_the_forms_are_hypotheses():
    product = D["A2_1"] @ D["N2"] @ D["A1_0"] @ D["N1"]
    theorem = oa.simplify(product, facts=FORMS)
    blocks = theorem.rhs.blocks
    assert [len(factors(block)) for block in blocks] == [4, 6]
    assert {fact.dressing.operator.name for fact in theorem.hypotheses} == {"A2_1", "N2", "A1_0", "N1"}
    assert holds(theorem.lhs, theorem.rhs)
    swapped = oa.tensor(blocks[0], w[1, 0] @ w[2, 1])
    assert not holds(theorem.lhs, swapped)


@pytest.mark.parametrize(
    ("one", "other", "commute"),
    [
        ("A1_0", "A1_1", False), ("A1_0", "A2_0", False), ("A1_0", "F1", False), ("F1", "F2", False), ("N1", "A1_0", False),
        ("N1", "F1", False), ("N1", "M2", False),
    ],
)  # fmt: skip
def test_dressings_that_share_a_factor_that_does_not_commute_do_not(one, other, commute):
    left, right = D[one], D[other]
    theorem = oa.simplify(left @ right - right @ left, facts=FORMS)
    assert (theorem.rhs == Zero()) is commute
    assert holds(theorem.lhs, theorem.rhs)
    assert holds(left @ right, right @ left) is commute


def test_the_diagonal_parts_commute_and_so_do_operators_on_different_factors():
    sigma, gamma = norm_factors(T.stages[0].norm)
    one = oa.Identity(oa.POSITIONS), oa.Identity(oa.FEATURES)
    scales = oa.tensor(sigma[1], one[1])
    blockwise = oa.simplify(scales @ D["F1"] - D["F1"] @ scales, facts=FORMS)
    assert blockwise.rhs == Zero()
    assert blockwise.hypotheses == {oa.Commute(E, norm_factors(T.stages[0].norm)[0]), form_of("F1")}
    assert holds(blockwise.lhs, blockwise.rhs)
    assert oa.tensor(sigma[1], one[1]) @ oa.tensor(one[0], w[1, 0]) == oa.tensor(one[0], w[1, 0]) @ oa.tensor(sigma[1], one[1])
    weights = oa.tensor(one[0], gamma[1]) @ oa.tensor(one[0], gamma[2])
    assert oa.simplify(weights, facts=FORMS).rhs == oa.simplify(oa.tensor(one[0], gamma[2] @ gamma[1]), facts=FORMS).rhs
    mixing = oa.simplify(scales @ D["A1_0"] - D["A1_0"] @ scales, facts=FORMS)
    assert mixing.rhs != Zero() and not holds(scales @ D["A1_0"], D["A1_0"] @ scales)


def test_the_same_holds_for_any_number_of_tokens():
    forms = oa.frozen_forms(STACK)
    sigma, _ = norm_factors(T.stages[0].norm)
    scales = oa.tensor(sigma[1], oa.Identity(oa.FEATURES))
    theorem = oa.simplify(scales @ D["F1"] - D["F1"] @ scales, facts=forms)
    assert theorem.rhs == Zero()
    attention = oa.simplify(D["A1_0"] @ D["F1"] - D["F1"] @ D["A1_0"], facts=forms)
    assert len(attention.rhs.terms) == 2


def test_planted_form_with_the_factors_of_another_head_is_found():
    wrong = [oa.Form(D["A1_0"], oa.tensor(a[1, 1], w[1, 1]), "frozen")]
    theorem = oa.simplify(D["A1_0"] @ D["N1"], facts=wrong)
    assert not holds(theorem.lhs, theorem.rhs)


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: oa.frozen_forms(3), "3 is no operator and has no dressings"),
        (lambda: oa.frozen_forms(STACK, ffn="source"), "the splits of an FFN in which it acts on each token"),
        (lambda: oa.frozen_forms(STACK, tokens=-1), "an index is a natural number"),
        (lambda: oa.frozen_forms(D["F1"] + oa.dressed(T.ffn[1], T.x[0])), "F1 is dressed on two states"),
    ],
)
def test_what_has_no_forms_is_refused(ask, text):
    with pytest.raises(oa.InputError, match=text):
        ask()


def test_vertices_with_other_names_have_letters_of_their_own():
    x, y = oa.state("x"), oa.state("y")
    A, B = oa.Atom("A1_1", kind="attention"), oa.Atom("B1_1", kind="attention")
    F1, G1 = oa.Atom("F1", kind="ffn"), oa.Atom("G1", kind="ffn")
    operator = oa.dressed(A, x) - oa.dressed(B, y) + oa.dressed(F1, x) - oa.dressed(G1, y)
    theorem = oa.simplify(operator, facts=oa.frozen_forms(operator))
    assert len(theorem.rhs.terms) == 4
    with pytest.raises(oa.LimitError, match="up to 200; leave a symbol for more"):
        oa.frozen_forms(operator, tokens=10_000)
