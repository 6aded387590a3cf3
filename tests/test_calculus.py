"""Derivatives mean the coefficient of a small change, which here is exact: modulo `p^2`, a change by p squares to zero.

An operator is evaluated at `t + p` with the atoms that depend on t changed by p times their derivatives, straight from the
nodes; what it has changed by must be p times the value of its derivative at t.
"""

from fractions import Fraction
from importlib import import_module
from random import Random

import meaning
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from meaning import Interpretation, add, scale
from varying import DIMENSIONS, SPACES, common, exists, families, leaves, linear, modulo, nonlinear

import opalgebra as oa
from opalgebra.calculus import derivative
from opalgebra.expr import Identity, Zero, linear_combination
from opalgebra.space import FEATURES, ONE, POSITIONS, K, X

calculus = import_module("opalgebra.calculus")
PRIME = meaning.PRIME
ENVIRONMENT = {"L": 3, "m": 1, "n": 2}

P, F = POSITIONS, FEATURES
t, L, m, n = oa.parameter("t", positive=True), *map(oa.symbol, "Lmn")


def changed(model, changes, environment, step):
    """The model in which each atom is its value plus a step times its derivative."""

    def moved(atom, change):
        return lambda vector: add(model.atom(atom, vector), scale(step, model.value(change, vector, environment)))

    return Interpretation(
        model.seed, DIMENSIONS, model.splits, {**model.maps, **{atom: moved(atom, d) for atom, d in changes.items()}}
    )


def broken(operator, changes, *, at=7):
    """Where a derivative differs from the change that it should be; None when it does not. The hypotheses are assumed."""
    found = derivative(operator, t, changes)
    environment = {**ENVIRONMENT, "t": at}
    with modulo(PRIME**2):
        model = Interpretation(1, DIMENSIONS)
        try:
            if not all(exists(model, fact.operator, environment) for fact in found.hypotheses):
                return None
            later = changed(model, members(changes), environment, PRIME)
            point = model.point(operator.domain, 0)
            before = model.value(operator, point, environment)
            after = later.value(operator, point, {**environment, "t": at + PRIME})
            right = scale(PRIME, model.value(found.value, point, environment))
        except ValueError:
            return None
        left = add(after, scale(-1, before))
        return None if left == right else f"{operator} changes by {left}, not {right}, and {found.value} was its derivative"


def members(changes):
    """The derivatives by atom, those of the first members of families too."""
    return {
        atom: change
        for letter, d in changes.items()
        for atom, change in ([(letter, d)] if isinstance(letter, oa.Atom) else [(letter[i], d[i]) for i in range(9)])
    }


PAIRS = [(one, other) for one in SPACES for other in SPACES]
CHANGES = {
    **{linear("S", *pair): linear("R", *pair) + t * linear("S", *pair) for pair in PAIRS},
    **{nonlinear("H", *pair): nonlinear("H", *pair) + 2 * nonlinear("J", *pair) for pair in PAIRS},
    **{nonlinear("y", ONE, space): nonlinear("z", ONE, space) for space in SPACES},
    **{families("U", space): families("W", space) for space in SPACES},
}


@st.composite
def operators(draw, domain, codomain, depth, is_linear=True, varies=True, indices=()):
    """Operators between two spaces that have a derivative; linear ones, or any; those that depend on t, or not."""

    def below(domain, codomain, is_linear=is_linear, varies=varies, indices=indices):
        return draw(operators(domain, codomain, depth - 1, is_linear, varies, indices))

    square = domain == codomain
    kinds = []
    if is_linear:
        kinds += ["trace"] * 3 * (len(domain.factors) == len(codomain.factors) < 2)
        kinds += ["inverse", "ordered_product", "ordered_sum"] * 3 * square + ["commutator", "function"] * square
        kinds += ["tensor", "adjoint", "transpose", "dressed"]
    outer = "linear compose" if is_linear else "compose"
    kinds += ["indexed_sum"] * (domain != ONE) + ["linear compose", "sum", outer, "sum", "leaf"]
    kind = draw(st.sampled_from(kinds)) if depth else "leaf"
    if kind == "sum":
        numbers = [1, -1, Fraction(1, 3), *([t, t**2 - 1, 2 / t] if varies else [])]
        pairs = [(draw(st.sampled_from(numbers)), below(domain, codomain)) for _ in range(draw(st.integers(1, 2)))]
        return linear_combination(pairs, domain, codomain)
    built = common(draw, kind, domain, codomain, below)
    if built is not None:
        return built
    if kind == "inverse":
        return oa.inverse(below(domain, codomain))
    if kind in ("ordered_product", "ordered_sum", "indexed_sum"):
        index = oa.symbol("ijk"[depth - 1])
        body = below(domain, codomain, indices=(*indices, index))
        lower = draw(st.sampled_from([0, 1, m]))
        if kind == "ordered_sum":
            line = draw(st.sampled_from([None, oa.Identity(domain), below(domain, codomain, indices=(*indices, index))]))
            return oa.ordered_sum(body, index, draw(st.sampled_from([2, 3, L])), draw(st.sampled_from([1, 2, n])), line)
        return getattr(oa, kind)(body, index, lower, draw(st.sampled_from([2, 3, L])))
    return draw(leaves(domain, codomain, is_linear, varies, indices))


OPERATORS = st.one_of(
    st.sampled_from([(F, F), (X, X), (P, P), (F, X), (K, K)]).flatmap(lambda pair: operators(*pair, 3)),
    st.sampled_from([(X, X), (F, F), (P, K), (ONE, X)]).flatmap(lambda pair: operators(*pair, 3, is_linear=False)),
)


@settings(max_examples=250)
@given(OPERATORS, st.integers(2, 1000))
def test_a_derivative_is_the_coefficient_of_a_small_change(operator, at):
    try:
        assert broken(operator, CHANGES, at=at) is None
    except oa.InputError as refusal:
        assert "invertible, for every" in str(refusal)


S, R, A, B = oa.atoms("S R A B", kind="linear")
G, H, J = oa.atoms("G H J", kind="nonlinear")
U, V, W = (oa.family(letter, kind="linear") for letter in "UVW")
x, y, z, l = oa.state("x"), oa.state("y"), oa.state("z"), oa.symbol("l")
FREE = {S: R, H: J, y: z, U: W}


def of(operator, changes=FREE):
    return derivative(operator, t, changes).value


def refused(error, operator, changes=FREE):
    with pytest.raises(error) as caught:
        derivative(operator, t, changes)
    return str(caught.value)


def test_the_derivative_of_a_square_is_no_multiple_of_one_order():
    assert of(S @ S) == R @ S + S @ R
    assert of(S @ S) != 2 * (S @ R)
    assert of(S @ S @ S) == R @ S @ S + S @ (R @ S + S @ R)


def test_coefficients_are_differentiated_and_other_atoms_are_constant():
    assert of(t**3 * A + 2 * B + (1 / t) * S) == 3 * t**2 * A + (1 / t) * R - (1 / t**2) * S
    assert of(A @ B @ x) == Zero(ONE, X)
    assert of(Identity(X)) == of(Zero()) == Zero()


def test_a_nonlinear_map_of_what_is_constant_has_a_derivative():
    assert of(H @ G @ x) == J @ G @ x
    assert of((t * G + H) @ x) == (G + J) @ x
    assert of(A @ H @ x + B @ y) == A @ J @ x + B @ z


def test_a_nonlinear_map_of_what_depends_on_the_parameter_is_refused():
    for operator in (G @ y, G @ (t * A), H @ S, oa.inverse(G + t * A), oa.ordered_product(G + t * V[l], l, 1, L)):
        assert "tangent" in refused(oa.NotLinearError, operator)


def test_the_derivative_of_an_inverse_has_the_inverse_on_both_sides_and_a_hypothesis():
    found = derivative(oa.inverse(S), t, FREE)
    assert found.value == -1 * (oa.inverse(S) @ R @ oa.inverse(S))
    assert found.hypotheses == {oa.Inverse(S)}
    assert derivative(oa.inverse(A) @ S, t, FREE).hypotheses == frozenset()


def test_an_inverse_that_does_not_exist_breaks_the_hypothesis_and_not_the_rule():
    assert "1 - t*V[l] invertible, for every l" in refused(oa.InputError, oa.ordered_product(oa.inverse(1 - t * V[l]), l, 1, L))
    free_index = oa.inverse(1 - t * V[l]) @ oa.ordered_product(1 + t * V[m], m, 1, L)
    assert derivative(free_index, t).hypotheses == {oa.Inverse(1 - t * V[l])}


def test_functions_of_what_depends_on_the_parameter_are_refused_and_duhamel_is_named():
    for operator in (oa.function("exp", S), oa.function("exp", t * A + t**2 * B), A @ oa.function("exp", t * A)):
        assert "Duhamel's integral" in refused(oa.InputError, operator)
    assert of(S @ oa.function("exp", A)) == R @ oa.function("exp", A)


def test_backgrounds_and_vertices_that_depend_on_the_parameter_are_refused():
    for operator in (oa.dressed(G, y), oa.source(G, t * x), oa.dressed(H, x), oa.source(G, A @ y)):
        assert "a split is an arbitrary function" in refused(oa.InputError, operator)
    assert of(t * oa.dressed(G, x) @ y) == oa.dressed(G, x) @ y + t * oa.dressed(G, x) @ z


def test_products_and_sums_over_an_index_sum_over_the_place_of_the_change():
    product = oa.ordered_product(1 + U[l], l, m, L)
    later, earlier = oa.ordered_product(1 + U[l], l, n + 1, L), oa.ordered_product(1 + U[l], l, m, n - 1)
    assert of(product) == oa.indexed_sum(later @ W[n] @ earlier, n, m, L)
    assert of(oa.indexed_sum(t * U[l], l, 1, L)) == oa.indexed_sum(U[l] + t * W[l], l, 1, L)
    assert of(oa.ordered_product(1 + V[l], l, 1, L)) == Zero()


def test_bound_indices_do_not_capture_the_indices_of_given_derivatives():
    changes = {S: V[l]}
    found = of(oa.ordered_product(1 + S @ A, m, 1, L), changes)
    assert oa.symbol("l").symbols <= found.symbols
    for operator in (oa.ordered_product(S @ V[n], n, 1, L), oa.ordered_sum(S, n, L, 2), oa.indexed_sum(S @ V[n], n, 1, L)):
        at_two = oa.instantiate(of(operator, changes), {l: 2})
        assert at_two == of(operator, {S: V[2]})


BODIES = (1 + U[l], t * V[l] @ S, S, U[l] - t**2 * oa.indexed_sum(V[m] @ U[l], m, 1, l))


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_words_of_any_length_have_the_derivative_of_their_written_sum(body):
    changes = {S: A, U: W}
    for operator in (
        oa.ordered_product(body, l, 2, L),
        oa.ordered_sum(body, l, L, n),
        oa.ordered_sum(body, l, L, 1),
        oa.ordered_sum(body, l, 3, 3),
        oa.ordered_sum(body, l, L, n, W[l]),
        oa.ordered_sum(W[l], l, L, 1, body),
        oa.ordered_sum(body, l, 3, 2, body),
        oa.ordered_product(oa.ordered_sum(body, l, m + 1, 2), m, 1, n),
    ):
        assert broken(operator, changes) is None


def test_a_parameter_and_letters_are_what_they_must_be():
    with pytest.raises(oa.InputError, match="L stands for a natural number"):
        derivative(A, L)
    with pytest.raises(oa.InputError, match="is no operator"):
        derivative(2, t)
    assert "may be any of its family" in refused(oa.InputError, A, {V[l]: A})
    assert "may be V3 or not" in refused(oa.InputError, V[l], {V[3]: A})
    assert "may be V3 or not" in refused(oa.InputError, oa.ordered_product(1 + V[l], l, 1, L), {V[3]: A})
    assert "another kind or between other spaces" in refused(oa.InputError, S, {oa.Atom("S", kind="nonlinear"): A})
    assert "another kind" in refused(oa.InputError, V[l], {oa.family("V", kind="nonlinear"): V})
    assert "is linear" in refused(oa.NotLinearError, S, {S: G})
    assert "different spaces" in refused(oa.SpaceError, S, {S: x})
    assert "a family for a family" in refused(oa.InputError, U[1], {U: A})
    assert "is no atom" in refused(oa.InputError, S @ S, {S @ S: A})


def test_a_product_of_many_factors_has_a_derivative_of_its_size():
    long = oa.ordered_product(1 + t * V[i] for i in range(2000))
    assert len(of(long).atoms) == 2000


@pytest.mark.parametrize(
    ("operator", "given", "ascii", "shown", "formula"),
    [
        (
            S @ S, {S: R},
            "[d/dt S = R] d/dt (S @ S) = R @ S + S @ R",
            "[d/dt S = R] d/dt (S S) = R S + S R",
            r"\tfrac{d}{dt}\,(S\,S) = R\,S + S\,R \quad\text{if}\quad \tfrac{d}{dt}\,S = R",
        ),
        (
            oa.inverse(1 - t * S), {},
            "[1 - t*S invertible] d/dt inverse(1 - t*S) = inverse(1 - t*S) @ S @ inverse(1 - t*S)",
            "[1 - t S invertible] d/dt (1 - t S)⁻¹ = (1 - t S)⁻¹ S (1 - t S)⁻¹",
            r"\tfrac{d}{dt}\,{(1 - t\,S)}^{-1} = {(1 - t\,S)}^{-1}\,S\,{(1 - t\,S)}^{-1}"
            r" \quad\text{if}\quad {(1 - t\,S)}^{-1}\ \text{exists}",
        ),
        (
            U[1] @ A, {U: W},
            "[d/dt U[l] = W[l]] d/dt (U1 @ A) = W1 @ A",
            "[d/dt U_l = W_l] d/dt (U₁ A) = W₁ A",
            r"\tfrac{d}{dt}\,(U_{1}\,A) = W_{1}\,A \quad\text{if}\quad \tfrac{d}{dt}\,U_{l} = W_{l}",
        ),
        (A, {}, "d/dt A = 0", "d/dt A = 0", r"\tfrac{d}{dt}\,A = 0"),
    ],
)  # fmt: skip
def test_a_derivative_is_written_with_what_it_rests_on(operator, given, ascii, shown, formula):
    found = derivative(operator, t, given)
    assert (str(found), repr(found), oa.latex(found)) == (ascii, shown, formula)
    assert hash(found) == hash(derivative(operator, t, given))


# Planted bugs: each is a wrong law, and the check above is seen to find it.


def assert_search_finds(examples=OPERATORS):
    """A fixed random search over operators meets one that `broken` reports."""

    def wrong(operator):
        try:
            return broken(operator, CHANGES) is not None
        except oa.OpalgebraError:
            return False

    once = settings(max_examples=3000, phases=[Phase.generate], database=None, deadline=None)
    find(examples, wrong, settings=once, random=Random(0))


def test_planted_product_rule_that_commutes_is_found(monkeypatch):
    def commuting(self, node):
        outer, inner = (yield self.of(node.left)), (yield self.of(node.right))
        square = node.left.domain == node.left.codomain == node.right.domain and node.left.is_linear
        return outer @ node.right + (inner @ node.left if square else node.left @ inner)

    monkeypatch.setattr(calculus._Rules, "_product", commuting)
    assert of(S @ S) == 2 * R @ S
    assert broken(S @ S, {S: R}) is not None
    assert_search_finds()


def test_planted_chain_rule_through_a_nonlinear_map_is_found(monkeypatch):
    monkeypatch.setattr(calculus._Rules, "_need_linear", lambda self, node, part: None)
    assert broken(G @ y, {y: z}) is not None


def test_planted_inverse_rule_without_its_sign_is_found(monkeypatch):
    inverse = calculus._Rules._inverse

    def unsigned(self, node):
        found = yield from inverse(self, node)
        return -1 * found

    monkeypatch.setattr(calculus._Rules, "_inverse", unsigned)
    assert broken(oa.inverse(S), {S: R}) is not None
    assert_search_finds()


def test_planted_product_that_turns_its_factors_round_is_found(monkeypatch):
    def turned(node, inside, index):
        later, earlier = node.between(index + 1, node.upper), node.between(node.lower, index - 1)
        return oa.indexed_sum(earlier @ inside @ later, index, node.lower, node.upper)

    monkeypatch.setattr(calculus, "_places", turned)
    assert broken(oa.ordered_product(1 + U[l], l, 1, L), {U: W}) is not None
    assert_search_finds()


def test_planted_sum_of_words_that_forgets_to_shift_is_found(monkeypatch):
    words = calculus.ordered_sum

    def unshifted(body, index, upper, order, line):
        return words(oa.instantiate(body, dict.fromkeys(body.symbols - index.symbols, 0)), index, upper, order, line)

    monkeypatch.setattr(calculus, "ordered_sum", unshifted)
    assert broken(oa.ordered_sum(U[l], l, L, 2), {U: W}) is not None


def test_planted_derivative_that_leaves_the_line_alone_is_found(monkeypatch):
    words = calculus._words
    monkeypatch.setattr(calculus, "_words", lambda node, inside, index, order: words(node, inside, index, node.order - 1))
    assert broken(oa.ordered_sum(V[l], l, L, 2, U[l]), {U: W}) is not None
