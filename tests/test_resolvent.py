"""Identities of inverses, on random matrices and on a nonlinear map that has an inverse; each fails where it must."""

import pytest
from meaning import Interpretation, counterexample

import opalgebra as oa
from opalgebra.expr import Identity, compose
from opalgebra.kernel import assume, cong, sym, trans

A, B, C, P = oa.atoms("A B C P", kind="linear")
F, G = oa.atoms("F G", kind="nonlinear")


def lower(vector):
    """A nonlinear map of which 1 - F, and 1 - F - (a strictly lower matrix), have inverses."""
    return (0, vector[0] ** 3 + 5)


TRIANGULAR = [
    Interpretation(seed, maps={F: lower, G: lambda v: (0, v[0] ** 2 + 7), A: lambda v: (0, 3 * v[0] % 2147483647)})
    for seed in (1, 2)
]


def holds(theorem, interpretations=None):
    return counterexample(theorem.lhs, theorem.rhs, interpretations=interpretations) is None


def test_the_resolvent_identity_holds_for_every_map_and_its_mirror_form_for_linear_ones_alone():
    assert holds(oa.resolvent_identity(A)) and holds(oa.resolvent_identity(F), TRIANGULAR)
    assert holds(oa.resolvent_identity(A, mirror=True)) and holds(oa.resolvent_identity(A + 2 * B @ C, mirror=True))
    assert holds(oa.resolvent_identity(F + G), TRIANGULAR) and oa.resolvent_identity(A + B).rhs == 1 + (A + B) @ oa.inverse(
        1 - A - B
    )
    assert str(oa.resolvent_identity(A, mirror=True)) == "|- [1 - A invertible] inverse(1 - A) = 1 + inverse(1 - A) @ A"
    with pytest.raises(oa.NotLinearError):
        oa.resolvent_identity(F, mirror=True)
    R = oa.inverse(1 - F)
    assert counterexample(R, 1 + R @ F, interpretations=TRIANGULAR) is not None


def test_the_neumann_series_has_a_remainder_and_ends_for_a_nilpotent_operator():
    R = oa.inverse(1 - A)
    for order in (1, 2, 5):
        theorem = oa.neumann(A, order)
        assert theorem.rhs == sum((A**k for k in range(order)), start=0 * A) + A**order @ R
        assert holds(theorem)
    finite = oa.neumann(A, 3, nilpotent=True)
    assert finite.rhs == 1 + A + A @ A
    assert finite.hypotheses == {oa.Inverse(1 - A), oa.Nilpotent(A, 3)}
    assert holds(oa.neumann(A, 2, nilpotent=True), TRIANGULAR)
    assert not holds(oa.neumann(A, 2, nilpotent=True))
    with pytest.raises(oa.NotLinearError):
        oa.neumann(F, 2)
    with pytest.raises(oa.InputError, match="up to a positive order"):
        oa.neumann(A, 0)


def test_push_through_needs_the_map_that_is_pushed_to_be_linear():
    assert holds(oa.push_through(A, B))
    assert holds(oa.push_through(A, F), TRIANGULAR) and holds(oa.push_through(A + C, B - C))
    with pytest.raises(oa.NotLinearError):
        oa.push_through(F, A)
    R, Q = oa.inverse(1 - A @ F), oa.inverse(1 - F @ A)
    assert counterexample(F @ R, Q @ F, interpretations=TRIANGULAR) is not None


def test_chosen_vertices_are_resummed_into_a_dressed_propagator():
    theorem = oa.resummation(A, B + C)
    G0, R = oa.inverse(1 - A), oa.inverse(1 - A - B - C)
    assert oa.expand(theorem.rhs).rhs == G0 + G0 @ B @ R + G0 @ C @ R
    assert holds(theorem) and holds(oa.resummation(A @ B + C, C @ A))
    assert holds(oa.resummation(A, F), TRIANGULAR)
    with pytest.raises(oa.NotLinearError):
        oa.resummation(F, A)
    wrong = G0 + R @ B @ R + R @ C @ R
    assert counterexample(theorem.lhs, wrong) is not None


def test_dysons_equation_with_respect_to_a_projector():
    theorem = oa.dyson_equation(A, P)
    R, D = oa.inverse(1 - A), oa.inverse(1 - (1 - P) @ A)
    assert (theorem.lhs, theorem.rhs) == (R, D + D @ P @ A @ R)
    composite = oa.dyson_equation(A @ B + C, P + B)
    assert composite.lhs == oa.inverse(1 - A @ B - C)
    assert composite.hypotheses == {oa.Inverse(1 - A @ B - C), oa.Inverse(1 - (1 - P - B) @ (A @ B + C))}
    assert holds(theorem) and holds(composite)
    assert counterexample(R, D + R @ P @ A @ R) is not None


def test_the_inverse_of_a_product_reverses_the_order():
    theorem = oa.inverse_of_product(A, B)
    assert (theorem.lhs, theorem.rhs) == (oa.inverse(A @ B), oa.inverse(B) @ oa.inverse(A))
    assert theorem.hypotheses == {oa.Inverse(A), oa.Inverse(B), oa.Inverse(A @ B)}
    assert holds(theorem) and holds(oa.inverse_of_product(1 - F, 1 - G), TRIANGULAR)
    assert counterexample(theorem.lhs, oa.inverse(A) @ oa.inverse(B)) is not None


def test_an_inverse_between_two_operators_cancels_them():
    """`A (B A)^-1 B = 1` for A and B with inverses."""
    opened = cong(compose, A, cong(compose, oa.inverse_of_product(B, A), B))
    cancelled = cong(compose, assume(oa.Inverse(A)), cong(compose, assume(oa.Inverse(B), "left"), Identity()))
    assert opened.lhs == A @ oa.inverse(B @ A) @ B
    assert trans(opened, cancelled).rhs == Identity()
    assert sym(opened).rhs == opened.lhs


@pytest.mark.parametrize("scale", [oa.parameter("g"), -1, 2, 0], ids=str)
def test_theorems_take_multiples_of_operators_and_zero(scale):
    A, B, C, D = oa.atoms("A B C D", kind="linear")
    V, L = oa.family("V", kind="linear"), oa.symbol("L")
    scaled = scale * B
    both = oa.direct_sum(oa.X, oa.X)
    schur = oa.schur_complement(A, scaled, C, D)
    assert schur.lhs is oa.inverse(both.operator({(0, 0): A, (0, 1): scaled, (1, 0): C, (1, 1): D}))
    energy = oa.self_energy(A, scaled, C, D)
    assert energy.rhs is oa.inverse(1 - A - scaled @ oa.inverse(1 - D) @ C)
    pushed = oa.push_through(A, scaled)
    assert pushed.rhs is oa.inverse(1 - A @ scaled) @ A
    series = oa.dyson_theorem(lambda l: scale * V[l], L)
    assert counterexample(oa.instantiate(series, {L: 3}).lhs, series.rhs, environment={"L": 3, "g": 5}) is None
    states = oa.network_states(oa.network([A, scaled]))
    assert counterexample(pushed.lhs, pushed.rhs, environment={"g": 5}) is None
    assert len(oa.expand(states.rhs).rhs.terms) == (3 if scale != 0 else 2)
