"""Operators in blocks: their inverses by the Schur complement, on random matrices and on known numbers."""

from fractions import Fraction
from functools import partial
from random import Random

import pytest
from meaning import Interpretation, apply, counterexample, inverted, random_matrix, residue

import opalgebra as oa
from opalgebra.expr import Identity, Zero, factors
from opalgebra.kernel import assume

Y, Z, S = oa.Space("upper"), oa.Space("lower"), oa.Space("S")
BLOCKS = [
    oa.Atom(name, kind="linear", domain=domain, codomain=codomain)
    for name, domain, codomain in (("A", Y, Y), ("B", Z, Y), ("C", Y, Z), ("D", Z, Z))
]
A, B, C, D = BLOCKS


def in_blocks(both, dimensions, seed=1, matrices=None):
    """An interpretation in which a direct sum is one: its vectors are those of the parts side by side."""
    sizes = [dimensions.get(part.factors[0], 2) if part.factors else 1 for part in both.parts]
    maps = {atom: partial(apply, matrix) for atom, matrix in (matrices or {}).items()}
    for number, size in enumerate(sizes):
        before = sum(sizes[:number])
        after = sum(sizes) - before - size
        maps[both.injection(number)] = lambda v, b=before, a=after: (0,) * b + tuple(v) + (0,) * a
        maps[both.projection(number)] = lambda v, b=before, s=size: tuple(v[b : b + s])
    return Interpretation(seed, {**dimensions, both.space.factors[0]: sum(sizes)}, maps=maps)


def holds(theorem, models):
    return counterexample(theorem.lhs, theorem.rhs, interpretations=models) is None


TWO = oa.direct_sum(Y, Z)
MODELS = [in_blocks(TWO, {"upper": 2, "lower": 3}, seed) for seed in (1, 2)]


def test_the_facts_of_a_direct_sum_hold_where_vectors_stand_side_by_side():
    assert len(TWO.facts) == 5
    assert all(holds(assume(fact), MODELS) for fact in TWO.facts)
    assert TWO.unit(0, 1).rhs == Zero(Z, Y)
    assert TWO.unit(1, 1).rhs == Identity(Z)


def test_blocks_are_put_in_and_taken_out():
    F = oa.Atom("F", kind="nonlinear", domain=Z, codomain=Y)
    whole = TWO.operator({(0, 0): A, (0, 1): 2 * F})
    assert whole == TWO.injection(0) @ A @ TWO.projection(0) + 2 * (TWO.injection(0) @ F @ TWO.projection(1))
    theorem = oa.simplify(TWO.block(whole, 0, 1), facts=TWO.facts)
    assert holds(theorem, MODELS)
    only = TWO.operator({(0, 1): 2 * F})
    assert oa.simplify(TWO.block(only, 0, 1), facts=TWO.facts).rhs == 2 * F


def test_the_inverse_in_blocks_holds_for_random_matrices():
    theorem = oa.schur_complement(*BLOCKS)
    (whole,) = theorem.lhs.parts
    assert {oa.Inverse(D), oa.Inverse(A - B @ oa.inverse(D) @ C), oa.Inverse(whole)} <= theorem.hypotheses <= {
        oa.Inverse(D), oa.Inverse(A - B @ oa.inverse(D) @ C), oa.Inverse(whole), *TWO.facts
    }  # fmt: skip
    assert holds(theorem, MODELS)
    wrong = theorem.rhs + 2 * TWO.operator({(0, 1): oa.inverse(A) @ B @ oa.inverse(D)})
    assert counterexample(theorem.lhs, wrong, interpretations=MODELS) is not None


def test_the_inverse_in_blocks_of_composite_blocks_on_one_space():
    a, b, c, d = oa.atoms("a b c d", kind="linear")
    both = oa.direct_sum(oa.X, oa.X)
    models = [Interpretation(seed, {**in_blocks(both, {}).dimensions, "positions": 1, "features": 2}) for seed in (1, 2)]
    for model in models:
        model.maps.update(in_blocks(both, {"positions": 2}).maps)
    assert holds(oa.schur_complement(1 + a @ b, 2 * b - c, -3 * c, d @ d + 1), models)


def test_the_self_energy_sums_what_leaves_a_part_and_comes_back():
    theorem = oa.self_energy(*BLOCKS)
    assert theorem.rhs == oa.inverse(1 - A - B @ oa.inverse(1 - D) @ C)
    assert holds(theorem, MODELS)
    assert counterexample(theorem.lhs, oa.inverse(1 - A - B @ C), interpretations=MODELS) is not None


def test_blocks_that_are_made_of_the_same_operators():
    a, b = oa.atoms("a b", kind="linear")
    theorem = oa.self_energy(a, b, a, b)
    assert theorem.rhs == oa.inverse(1 - a - b @ oa.inverse(1 - b) @ a)
    both = oa.direct_sum(oa.X, oa.X)
    assert oa.schur_complement(a, b, b, a @ a).lhs.domain == both.space


def test_a_self_energy_of_a_site_with_known_numbers():
    """G = (z - H)^-1 at z = 5: Sigma = 7, G_11 = 1/(z - 1 - Sigma) = -1/3."""
    site, rest = oa.K, oa.Space("rest")
    h = [
        oa.Atom(name, kind="linear", domain=domain, codomain=codomain)
        for name, domain, codomain in (("A", site, site), ("B", rest, site), ("C", site, rest), ("D", rest, rest))
    ]
    numbers = dict(zip(h, (((1,),), ((2, 0),), ((3,), (0,)), ((4, 1), (1, -2)))))
    model = in_blocks(oa.direct_sum(site, rest), {"rest": 2}, matrices=numbers)
    a, b, c, d = h
    sigma = b @ oa.inverse(5 - d) @ c
    assert model.matrix(sigma, {}) == ((7,),)
    green = oa.schur_complement(5 - a, -1 * b, -1 * c, 5 - d)
    third, ninth, sixth = Fraction(1, 3), Fraction(1, 9), Fraction(1, 6)
    known = ((-third, -7 * ninth, -ninth), (-7 * sixth, -14 * ninth, -2 * ninth), (-sixth, -2 * ninth, ninth))
    expected = tuple(tuple(map(residue, row)) for row in known)
    assert model.matrix(green.rhs, {}) == model.matrix(green.lhs, {}) == expected
    first = oa.simplify(oa.direct_sum(site, rest).block(green.rhs, 0, 0), facts=green.hypotheses).rhs
    assert model.matrix(first, {}) == ((residue(-third),),)


def test_what_has_no_blocks_is_refused():
    with pytest.raises(oa.NotLinearError, match="F is not known to be linear, and a Schur complement"):
        oa.schur_complement(oa.Atom("F", kind="nonlinear"), *oa.atoms("B C D", kind="linear"))
    with pytest.raises(oa.SpaceError):
        oa.schur_complement(A, C, B, D)
    with pytest.raises(oa.SpaceError, match="no part of a direct sum"):
        oa.direct_sum(oa.X, oa.ONE)
    with pytest.raises(oa.InputError, match="at least one part"):
        oa.direct_sum()
    with pytest.raises(oa.InputError, match="2 is no part of a direct sum of 2"):
        TWO.injection(2)


def test_planted_sign_in_the_schur_complement_is_refused_by_the_kernel(monkeypatch):
    """The formula is checked by a proof, not by its author: with a wrong block no theorem comes out."""
    module = oa.direct_sum.__globals__
    right = module["pulled_out"]

    def signed(word):
        return -right(word) if len(factors(word)) == 5 and word.domain == Z else right(word)

    monkeypatch.setitem(module, "pulled_out", signed)
    with pytest.raises(oa.InputError, match="was to be proved"):
        oa.schur_complement(*BLOCKS)


def test_random_matrices_have_the_inverse_that_their_blocks_say():
    random = Random(5)
    sizes = ((2, 2), (2, 3), (3, 2), (3, 3))
    matrices = {block: random_matrix(random, *size) for block, size in zip(BLOCKS, sizes)}
    model = in_blocks(TWO, {"upper": 2, "lower": 3}, matrices=matrices)
    stacked = tuple(x + y for x, y in zip(matrices[A], matrices[B])) + tuple(x + y for x, y in zip(matrices[C], matrices[D]))
    assert model.matrix(oa.schur_complement(*BLOCKS).rhs, {}) == inverted(stacked)
