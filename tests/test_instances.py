"""Other maps for atoms: the expression then means what it means when its atoms are interpreted as these maps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meaning import Interpretation, counterexample
from strategies import LINEAR, NONLINEAR, operators, states

import opalgebra as oa
from opalgebra import instances, kernel
from opalgebra.atoms import Family
from opalgebra.instances import choices_of, instance

A, B, C = oa.atoms("A B C", kind="linear")
F, G, H = oa.atoms("F G H", kind="nonlinear")
x, y = oa.state("x"), oa.state("y")
V, W = oa.family("V", kind="linear"), oa.family("W", kind="linear")
U = oa.family("U", kind="nonlinear")
l, m, L, M = map(oa.symbol, "lmLM")
g = oa.parameter("g")
PROBE = oa.state("probe")


class Chosen(Interpretation):
    """A model in which atoms are interpreted as operators of another model with the same seed, dressings included."""

    def __init__(self, seed, chosen, environment=None):
        super().__init__(seed)
        self.chosen, self.environment = chosen, environment or {}

    def other(self, atom):
        for key, value in self.chosen.items():
            if key == atom:
                return value
            if isinstance(key, Family) and atom.indices and key[atom.indices] is atom:
                return value(*atom.indices)
        return None

    def atom(self, atom, argument):
        found = self.other(atom)
        return (
            super().atom(atom, argument)
            if found is None
            else Interpretation(self.seed).value(found, argument, self.environment)
        )

    def split(self, atom, state):
        found = self.other(atom)
        if found is None:
            return super().split(atom, state)
        model = Interpretation(self.seed, maps={PROBE: lambda _: state})
        return model.matrix(oa.dressed(found, PROBE), self.environment)


def differs(operator, chosen, environment=None):
    """Where the instance does not mean what the operator means in the model of the chosen maps."""
    made = instance(operator, choices_of(chosen, [operator]))
    plain, model = Interpretation(3), Chosen(3, chosen, environment)
    points = [()] if operator.is_state else [plain.point(operator.domain, number) for number in range(2)]
    return any(plain.value(made, point, environment) != model.value(operator, point, environment) for point in points)


LINEAR_VALUES = st.sampled_from([2 * A, A @ B, 1 + B, oa.Zero(), oa.Identity(), oa.commutator(A, B), oa.dressed(F, x) @ A])
VALUES = st.one_of(LINEAR_VALUES, st.sampled_from([F + A, F @ G, 2 * F @ (1 + G), G @ (F + F @ A)]))


@given(st.one_of(operators(), states(3)), st.data())
def test_an_instance_means_what_the_expression_means_of_the_chosen_maps(operator, data):
    atoms = [atom for atom in operator.atoms if atom in LINEAR or atom in NONLINEAR]
    chosen = {atom: data.draw(LINEAR_VALUES if atom in LINEAR else VALUES) for atom in atoms if data.draw(st.booleans())}
    assert not differs(operator, chosen)


P = oa.ordered_product(1 + U[l], l, 1, L)
INDEXED = [
    P,
    P @ x,
    oa.dressed(F, P @ x) @ P,
    oa.indexed_sum(V[l] @ oa.ordered_product(1 + V[m], m, 1, l), l, 1, L),
    oa.indexed_sum(oa.indexed_sum(V[l + m] @ U[m], m, 1, l), l, 1, L) @ V[3],
    oa.ordered_sum(V[l] + A, l, L, 2),
    oa.ordered_sum(V[l] + A, l, L, 2, 1 + oa.indexed_sum(U[m] @ V[l], m, 1, l)),
]


@pytest.mark.parametrize("operator", INDEXED, ids=str)
@pytest.mark.parametrize(
    "chosen",
    [
        {V: lambda i: oa.indexed_sum(W[l + i], l, 1, 2 + M)},
        {V: lambda i: i * W[i + 1] + A, U: lambda i: U[i] @ F},
        {U: lambda i: V[i] @ oa.ordered_product(1 + U[m + i], m, 1, M), A: B, x: F @ x + y},
        {F: G @ G, x: y},
    ],
)
def test_families_are_given_under_binders_and_no_index_is_captured(operator, chosen):
    assert not differs(operator, chosen, {"L": 3, "M": 2})


def test_a_bound_index_that_would_be_captured_is_caught_by_the_test_of_meaning(monkeypatch):
    monkeypatch.setattr(instances, "fresh_names", lambda taken, count: ["m", "k"][:count])
    assert differs(INDEXED[4], {V: lambda i: i * W[i + 1] + m * A}, {"L": 3, "m": 5})


def test_backgrounds_that_are_forgotten_are_caught_by_the_test_of_meaning(monkeypatch):
    monkeypatch.setattr(instances, "dressed", lambda operator, state: oa.dressed(operator, x))
    assert differs(oa.dressed(F, G @ x), {F: F @ G, G: A})


def test_a_theorem_is_instantiated_with_its_hypotheses():
    theorem = oa.resolvent_identity(F)
    given_one = oa.instantiate(theorem, {F: g * A})
    assert given_one.lhs is oa.inverse(1 - g * A)
    assert given_one.hypotheses == {oa.Inverse(1 - g * A)}
    assert oa.instantiate(kernel.assume(oa.Commute(V, A), V[1]), {V: W}).hypotheses == {oa.Commute(W, A)}
    declared = kernel.left_dist(F, A + B, [oa.Linear(F)])
    assert oa.instantiate(declared, {F: C}).hypotheses == frozenset()
    assert oa.instantiate(declared, {F: G}).hypotheses == {oa.Linear(G)}
    with pytest.raises(oa.InputError, match="is no atom; declare its atoms linear"):
        oa.instantiate(declared, {F: G @ G})


def test_symbols_and_atoms_are_given_together():
    theorem = oa.dyson_theorem(V, L)
    three = oa.instantiate(theorem, {L: 3, V: lambda l: g * W[l]})
    assert three.lhs is (1 + g * W[3]) @ (1 + g * W[2]) @ (1 + g * W[1])
    assert counterexample(three.lhs, three.rhs, environment={"g": 7}) is None


def test_the_counts_follow_from_the_dyson_theorem():
    z = oa.parameter("z")
    counted = oa.instantiate(oa.dyson_theorem(V, L), {V: z * oa.Identity(), L: 5})
    assert counted.lhs is sum(oa.binomial(5, n) * z**n for n in range(6)) * oa.Identity()


@pytest.mark.parametrize(
    ("value", "chosen", "error", "message"),
    [
        (A, {A: F}, oa.NotLinearError, "A is linear and cannot be F, which is not known to be linear; what holds need not"),
        (A, {A: oa.Atom("E", kind="linear", codomain=oa.Space("Y"))}, oa.SpaceError, "A maps X to X and cannot be E"),
        (A, {A: 5}, oa.InputError, "5 is no operator"),
        (A, {"A": B}, oa.InputError, "A is no single symbol"),
        (A @ B, {A @ B: C}, oa.InputError, "is no single symbol"),
        (V[l], {V[3]: A}, oa.InputError, r"V3 cannot be given alone, for V\[l\] may be it; give the family V"),
        (V[l], {V[l]: A}, oa.InputError, "is no atom and no family, and only these and symbols have values"),
        (V[1] @ V[1, 2], {V: A}, oa.InputError, "members of V have 1 and 2 indices"),
        (V[1], {V: 5}, oa.InputError, "5 is no operator"),
        (kernel.assume(oa.Commute(V, A), V[1]), {V: B}, oa.InputError, "about the family V, and B makes no family"),
        (kernel.assume(oa.Commute(V, A), V[1]), {V[1]: B}, oa.InputError, "a member of V cannot be given alone"),
        (P, {U: lambda i: P.body}, oa.InputError, "has an index that a product or sum binds"),
        (kernel.assume(oa.Commute(A, B)), {x: A}, oa.SpaceError, "x maps 1 to X and cannot be A"),
    ],
)  # fmt: skip
def test_what_is_no_instance_is_refused(value, chosen, error, message):
    with pytest.raises(error, match=message):
        oa.instantiate(value, chosen)
