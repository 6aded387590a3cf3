"""Gradings count vertices, couplings change the model, and coefficients are those of a power series.

The series is checked at `g = p` modulo `p^(n+1)`, where the terms of higher orders vanish and no others do: an operator is
evaluated there straight from its nodes, and must be the sum of `p^k` times the values of its coefficients.
"""

from fractions import Fraction
from importlib import import_module
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from meaning import PRIME, Interpretation, add, apply, counterexample, scale
from strategies import LINEAR, NONLINEAR, build, trees
from varying import DIMENSIONS, common, exists, leaves, modulo

import opalgebra as oa
from opalgebra.coupling import coupling, grading
from opalgebra.expr import Atom, Compose, Dressed, Identity, Source, Zero, linear_combination
from opalgebra.powers import coefficients
from opalgebra.space import FEATURES, ONE, POSITIONS, K, X

module, powers = (import_module(f"opalgebra.{name}") for name in ("coupling", "powers"))
P, F = POSITIONS, FEATURES
g, h, l, L, m, n = oa.parameter("g"), oa.parameter("h"), *map(oa.symbol, "lLmn")
A, B, C = oa.atoms("A B C", kind="linear")
G, H = oa.atoms("G H", kind="nonlinear")
V, W = (oa.family(letter, kind="linear") for letter in "VW")
x, y = oa.state("x"), oa.state("y")
ENVIRONMENT = {"L": 3, "m": 1, "n": 2, "h": 5}


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


# Gradings and couplings


class Graded(Interpretation):
    """The model in which some atoms, and their dressings and sources, have a factor, and backgrounds are as without it."""

    def factored(self, chosen, factor):
        self.chosen, self.factor, self.plain = chosen, factor, Interpretation(self.seed, self.dimensions)
        return self

    def _value(self, operator, argument, known):
        match operator:
            case Atom():
                value = self.plain.value(operator, argument, known)
            case Dressed():
                value = apply(self.split(operator.operator, self.plain.value(operator.state, (), known)), argument)
            case Source():
                value = self.plain.value(operator, argument, known)
            case _:
                return super()._value(operator, argument, known)
        vertex = operator if isinstance(operator, Atom) else operator.operator
        return scale(self.factor if vertex in self.chosen else 1, value)


def coupled(seed, chosen, factor):
    """The model in which some atoms, and so their dressings, have a factor."""
    plain = Interpretation(seed)

    def map_of(atom):
        return lambda vector: scale(factor, plain.atom(atom, vector))

    def split_of(atom):
        return lambda state: tuple(scale(factor, row) for row in plain.split(atom, state))

    return Interpretation(seed, splits={a: split_of(a) for a in chosen}, maps={a: map_of(a) for a in chosen})


CHOSEN = st.sets(st.sampled_from([*LINEAR[:3], *NONLINEAR]), min_size=1)
TREES = st.one_of(trees(X, X), trees(ONE, X))


def changes_a_meaning(scaled, model_of, operator, chosen):
    """Where an operator with a factor in it differs from the same operator in a model with the factor; None otherwise."""
    found = scaled(operator, g, chosen)
    for seed in (1, 2):
        plain, other = Interpretation(seed), model_of(seed, chosen, 3)
        point = plain.point(operator.domain, 0)
        if plain.value(found, point, {"g": 3}) != other.value(operator, point):
            return f"{found} is not {operator} with a factor at {chosen}"
    return None


def graded(seed, chosen, factor):
    return Graded(seed).factored(chosen, factor)


@given(TREES.map(build), CHOSEN)
def test_a_grading_gives_acting_vertices_a_factor_and_leaves_backgrounds_alone(operator, chosen):
    assert changes_a_meaning(grading, graded, operator, chosen) is None


@given(TREES.map(build), CHOSEN)
def test_a_coupling_means_the_operator_in_the_model_with_the_coupled_maps(operator, chosen):
    assert changes_a_meaning(coupling, coupled, operator, chosen) is None


@given(TREES.map(build), CHOSEN)
def test_both_are_the_operator_at_one(operator, chosen):
    for scaled in (grading, coupling):
        assert oa.instantiate(scaled(operator, g, chosen), {g: 1}) == operator


@given(trees(ONE, X).map(build), CHOSEN)
def test_a_coupling_keeps_the_equation_of_dressing(state, chosen):
    theorem = oa.expand(state, limit=None)
    sides = (coupling(side, g, chosen) for side in (theorem.lhs, theorem.rhs))
    assert counterexample(*sides, points=1, environment={"g": 3}) is None


def test_a_grading_and_a_coupling_differ_in_backgrounds_alone():
    operator = oa.dressed(G, H @ x) @ A @ x + oa.source(G, H @ x)
    assert grading(operator, g, [G, H]) == g * operator
    assert coupling(operator, g, [G, H]) == g * (oa.dressed(G, g * H @ x) @ A @ x + oa.source(G, g * H @ x))
    assert grading(G @ A @ H @ x, g, [G, H]) == coupling(G @ A @ H @ x, g, [G, H])


def test_the_graded_series_of_a_state_is_not_its_series_in_the_coupling():
    state = (1 + H) @ (1 + G) @ x
    series = oa.expand(state).rhs
    counted, changed = grading(series, g, [G, H]), coupling(series, g, [G, H])
    assert counterexample(changed, coupling(state, g, [G, H]), environment={"g": 3}) is None
    assert counterexample(counted, changed, environment={"g": 1}) is None
    assert counterexample(counted, changed, environment={"g": 3}) is not None
    assert coefficients(counted, g, 2).is_exact
    assert "use grading" in refused(oa.InputError, lambda: coefficients(changed, g, 2))


def test_a_grading_does_not_keep_the_equation_of_dressing():
    state = H @ G @ x
    assert counterexample(grading(state, g, G), grading(oa.expand(state).rhs, g, G), environment={"g": 3}) is not None


def test_families_are_scaled_under_an_index_and_in_every_node():
    square = oa.commutator(oa.inverse(1 - V[1]), oa.adjoint(V[2]) + oa.function("exp", V[3]))
    scaled = oa.commutator(oa.inverse(1 - g * V[1]), g * oa.adjoint(V[2]) + oa.function("exp", g * V[3]))
    assert grading(square, g, V) == coupling(square, g, V) == scaled
    product = oa.ordered_product(1 + V[l] @ oa.ordered_sum(V[m] + W[l], m, L, n), l, 1, L)
    assert grading(product, g, V) == oa.ordered_product(1 + g * V[l] @ oa.ordered_sum(g * V[m] + W[l], m, L, n), l, 1, L)
    background = oa.dressed(G, oa.ordered_product(1 + V[l], l, 1, L) @ x)
    assert grading(background, g, V) == background
    assert coupling(background, g, V) == oa.dressed(G, oa.ordered_product(1 + g * V[l], l, 1, L) @ x)


@pytest.mark.parametrize("scaled", [grading, coupling])
def test_vertices_and_parameters_are_what_they_must_be(scaled):
    product = oa.ordered_product(1 + V[l], l, 1, L)
    assert "may be V3 or not" in refused(oa.InputError, lambda: scaled(product, g, V[3]))
    assert "may be any of its family" in refused(oa.InputError, lambda: scaled(A, g, V[l]))
    assert "is no atom" in refused(oa.InputError, lambda: scaled(A @ B, g, A @ B))
    assert "another kind" in refused(oa.InputError, lambda: scaled(G, g, oa.Atom("G", kind="ffn")))
    assert "natural number" in refused(oa.InputError, lambda: scaled(A, L, A))
    assert "is no operator" in refused(oa.InputError, lambda: scaled(2, g, A))


COUNTED = {"all": ("attention", "ffn"), "attention": ("attention",), "ffn": ("ffn",)}


@pytest.mark.parametrize("counting", COUNTED)
@pytest.mark.parametrize("shape", [{}, {"norm": "post"}, {"norm": "sandwich"}, {"parallel": True}, {"heads": 2}], ids=str)
def test_the_grading_of_the_dressed_stack_has_the_orders_of_its_dyson_series(shape, counting):
    T = oa.transformer(layers=2, **shape)
    S, state = T.dyson(counting=counting), T.x[0]
    dressed, left_over = oa.dressed(T.operator, state), oa.source(T.operator, state)
    kinds = [atom for atom in T.operator.atoms if atom.kind in COUNTED[counting]]
    found = coefficients(grading(dressed @ state + left_over, g, kinds), g, S.max_order)
    alone = coefficients(grading(dressed, g, kinds), g, S.max_order)
    assert found.is_exact and not found.hypotheses
    for order, (total, operator) in enumerate(zip(found.terms, alone.terms)):
        assert counterexample(total, S[order], points=1, interpretations=[Interpretation(1)]) is None
        if counting == "all" and not shape:
            assert oa.expand(total).rhs == oa.expand(S[order]).rhs
            assert len(oa.expand(operator).rhs.fields if order not in (0, 4) else [1]) == S.count(order)


# Coefficients


def broken(operator, order, *, seed=1):
    """Where coefficients do not add up to the operator modulo `g^(order + 1)`; None when they do, or a hypothesis fails."""
    found = coefficients(operator, g, order)
    with modulo(PRIME ** (order + 1)):
        model = Interpretation(seed, DIMENSIONS)
        point = model.point(operator.domain, 0)
        try:
            if not all(exists(model, fact.operator, ENVIRONMENT) for fact in found.hypotheses):
                return None
            left = model.value(operator, point, {**ENVIRONMENT, "g": PRIME})
            values = [model.value(term, point, ENVIRONMENT) for term in found.terms]
            far = model.value(operator, point, {**ENVIRONMENT, "g": 2}) if found.is_exact else None
        except ValueError:
            return None
        right = add(*(scale(PRIME**power, value) for power, value in enumerate(values)))
        if left != right:
            return f"{operator} is {left}, and the sum of its coefficients {right}"
        if far not in (None, add(*(scale(2**power, value) for power, value in enumerate(values)))):
            return f"{operator} is not the sum of its coefficients at g = 2"
    return None


@st.composite
def operators(draw, domain, codomain, depth, is_linear=True, varies=True, indices=()):
    """Operators between two spaces, linear or any, that have a series in g where `varies`, and do not depend on g otherwise."""

    def below(domain, codomain, is_linear=is_linear, varies=varies, indices=indices):
        return draw(operators(domain, codomain, depth - 1, is_linear, varies, indices))

    square = domain == codomain
    kinds = []
    if is_linear:
        kinds += ["trace"] * 2 * (len(domain.factors) == len(codomain.factors) < 2)
        kinds += ["inverse", "words", "product"] * 3 * square + ["commutator", "function"] * square
        kinds += ["tensor", "adjoint", "transpose", "dressed"]
    outer = "linear compose" if is_linear else "compose"
    kinds += ["indexed_sum"] * (domain != ONE) + ["linear compose", "sum", outer, "sum", "leaf"]
    kind = draw(st.sampled_from(kinds)) if depth else "leaf"
    if kind == "sum":
        numbers = [1, -1, Fraction(1, 3), h, *([g, g**2 - 2, (1 + h) * g] if varies else [])]
        pairs = [(draw(st.sampled_from(numbers)), below(domain, codomain)) for _ in range(draw(st.integers(1, 2)))]
        return linear_combination(pairs, domain, codomain)
    built = common(draw, kind, domain, codomain, below)
    if built is not None:
        return built
    if kind == "inverse":
        start = draw(st.sampled_from([Identity(domain), 2 * Identity(domain), below(domain, codomain, varies=False)]))
        return oa.inverse(start - (g if varies else 1) * below(domain, codomain))
    if kind in ("words", "product", "indexed_sum"):
        index = oa.symbol("ijk"[depth - 1])
        body = below(domain, codomain, indices=(*indices, index), varies=varies and kind == "indexed_sum")
        factor = draw(st.sampled_from([g, h * g, g**2])) if varies else 1
        upper = draw(st.sampled_from([2, 3, L]))
        if kind == "words":
            order, line = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([None, body]))
            return oa.ordered_sum(factor * body, index, upper, order, line)
        lower = draw(st.sampled_from([0, 1, 2, m]))
        if kind == "product":
            start = draw(st.sampled_from([Identity(domain), below(domain, codomain, indices=(*indices, index), varies=False)]))
            return oa.ordered_product(start + factor * body, index, lower, upper)
        return oa.indexed_sum(body, index, lower, upper)
    number = draw(st.sampled_from([g, 1 + 2 * g, 1, g**2 - h])) if varies else 1
    return number * draw(leaves(domain, codomain, is_linear, False, indices))


OPERATORS = st.one_of(
    st.sampled_from([(F, F), (X, X), (P, P), (F, X), (K, K)]).flatmap(lambda pair: operators(*pair, 3)),
    st.sampled_from([(X, X), (F, F), (P, K), (ONE, X)]).flatmap(lambda pair: operators(*pair, 3, is_linear=False)),
)
REFUSALS = ("invertible, for every", "begins with a negative power", "is written for products of U + g B")


@settings(max_examples=500)
@given(OPERATORS, st.integers(0, 4))
def test_coefficients_add_up_to_the_operator_as_far_as_they_go(operator, order):
    try:
        assert broken(operator, order) is None
    except oa.InputError as refusal:
        assert any(why in str(refusal) for why in REFUSALS), refusal


def of(operator, order):
    return coefficients(operator, g, order).terms


def test_products_keep_the_order_of_their_letters():
    assert of((1 + g * A) @ (1 + g * B) @ x, 2) == (x, A @ x + B @ x, A @ B @ x)
    assert of(oa.commutator(A + g * B, A + g * C), 1) == (Zero(), oa.commutator(A, C) + oa.commutator(B, A))
    assert of(oa.tensor(1 + g * A, 1 + g * B), 2)[1] == oa.tensor(A, Identity(X)) + oa.tensor(Identity(X), B)
    assert of(A, 2) == (A, Zero(), Zero())


def test_a_series_says_whether_it_is_all():
    operator = (1 + g * A) @ (1 + g**2 * B)
    assert [coefficients(operator, g, order).is_exact for order in range(5)] == [False, False, False, True, True]
    assert coefficients(A, g, 0).is_exact
    assert not coefficients(oa.inverse(1 - g * A), g, 9).is_exact
    assert coefficients(oa.ordered_sum(g * V[l], l, L, 3), g, 3).is_exact


def test_a_nonlinear_map_may_stand_where_it_acts_on_what_is_constant():
    assert of((1 + g * G) @ H @ x, 1) == (H @ x, G @ H @ x)
    assert of((1 + g * G) @ Zero(ONE, X), 1) == (Zero(ONE, X), G @ Zero(ONE, X))
    for operator in (G @ (x + g * y), (1 + g * G) @ (1 + g * H), oa.inverse(1 - g * G), oa.ordered_product(1 + g * G, l, 1, L)):
        assert "needs a linear map" in refused(oa.NotLinearError, lambda: of(operator, 1))  # noqa: B023


def test_an_inverse_is_expanded_about_what_is_left_without_the_parameter():
    found = coefficients(oa.inverse(A - g * B), g, 2)
    line = oa.inverse(A)
    assert found.terms == (line, line @ B @ line, line @ B @ line @ B @ line)
    assert found.hypotheses == {oa.Inverse(A)}
    assert coefficients(oa.inverse(2 - g * A), g, 1).hypotheses == frozenset()
    assert "begins with a negative power" in refused(oa.InputError, lambda: of(oa.inverse(g * A), 1))
    assert "for every l" in refused(oa.InputError, lambda: of(oa.indexed_sum(oa.inverse(V[l] - g * A), l, 1, L), 1))


def test_a_product_over_an_index_has_the_terms_of_dysons_series():
    found = of(oa.ordered_product(1 + g * V[l], l, 1, L), 3)
    assert found == tuple(oa.ordered_sum(V[l], l, L, order) for order in range(4))
    moved = of(oa.ordered_product(1 + g**2 * V[l], l, m, L), 3)
    assert moved == (Identity(X), Zero(), oa.ordered_sum(V[l + m - 1], l, L - m + 1, 1), Zero())
    assert of(grading(oa.ordered_product(1 + V[l], l, 1, L), g, V), 2) == found[:3]
    resummed = of(oa.ordered_product(A + W[l] + g * V[l], l, 1, L), 2)
    assert resummed == tuple(oa.ordered_sum(V[l], l, L, order, A + W[l]) for order in range(3))
    for operator in (
        oa.ordered_sum(g * V[l], l, L, 2, 1 + g * W[l]),
        oa.ordered_product(1 + g * V[l] + g**2 * W[l], l, 1, L),
        oa.ordered_sum(1 + g * V[l], l, L, 2),
        oa.ordered_sum(g * V[l], l, L, n),
    ):
        assert "is written for products of U + g B" in refused(oa.InputError, lambda: of(operator, 2))  # noqa: B023


@pytest.mark.parametrize("upper", [3, L])
@pytest.mark.parametrize("lower", [0, 1, 2, m])
def test_products_over_any_range_have_the_series_of_their_written_product(lower, upper):
    for body in (1 + g * V[l], W[l] + g * V[l], 1 + h * g**2 * V[l] @ V[l + 1], 1 + g * oa.indexed_sum(V[m] @ V[l], m, 1, l)):
        assert broken(oa.ordered_product(body, l, lower, upper), 3) is None


def test_what_has_no_series_is_refused():
    p = oa.parameter("p", positive=True)
    assert "negative power" in refused(oa.InputError, lambda: coefficients(A + (1 / p) * B, p, 2))
    for operator, why in (
        (oa.function("exp", g * A), "no law gives for FunctionOf"),
        (oa.dressed(G, g * x), "use grading"),
        (oa.source(G, g * A @ x), "use grading"),
    ):
        assert why in refused(oa.InputError, lambda: of(operator, 2))  # noqa: B023
    assert "natural number" in refused(oa.InputError, lambda: of(A, -1))
    assert "natural number" in refused(oa.InputError, lambda: coefficients(A, L, 1))
    assert "is no operator" in refused(oa.InputError, lambda: of(2, 1))


def test_too_many_terms_are_refused_with_their_number_before_they_are_written():
    long = oa.ordered_product(1 + g * V[i] for i in range(100))
    assert len(coefficients(long, g, 2).terms[2].atoms) == 100
    assert "the limit is 1,000" in refused(oa.LimitError, lambda: coefficients(long, g, 2, limit=1000))
    assert "1,000,000,000,001 terms" in refused(oa.LimitError, lambda: of(A, 10**12))


@pytest.mark.parametrize(
    ("operator", "order", "ascii", "shown", "formula"),
    [
        (
            (1 + g * A) @ (1 + g * B), 2,
            "(1 + g*A) @ (1 + g*B) = 1 + g*(A + B) + g^2*A @ B",
            "(1 + g A)(1 + g B) = 1 + g (A + B) + g^2 A B",
            r"(1 + g\,A)(1 + g\,B) = 1 + g\,(A + B) + g^{2}\,A\,B",
        ),
        (
            oa.inverse(A + g * B), 1,
            "[A invertible] inverse(A + g*B) = inverse(A) - g*inverse(A) @ B @ inverse(A) + O(g^2)",
            "[A invertible] (A + g B)⁻¹ = A⁻¹ - g A⁻¹ B A⁻¹ + O(g^2)",
            r"{(A + g\,B)}^{-1} = {A}^{-1} - g\,{A}^{-1}\,B\,{A}^{-1} + O(g^{2})"
            r" \quad\text{if}\quad {A}^{-1}\ \text{exists}",
        ),
        (
            g * oa.dressed(G, (1 + G) @ x) @ x, 0,
            "g*G<x1> @ x = zero(1, X) + O(g) where x1 = (1 + G) @ x", None, None,
        ),
        (0 * A, 1, "0 = 0", "0 = 0", "0 = 0"),
    ],
)  # fmt: skip
def test_a_series_is_written_as_a_sum_of_powers_where_it_holds(operator, order, ascii, shown, formula):
    found = coefficients(operator, g, order)
    assert str(found) == ascii
    assert shown is None or repr(found) == shown
    assert formula is None or oa.latex(found) == formula
    assert formula is None or found._repr_latex_() == f"$\\displaystyle {formula}$"


def test_the_middle_of_a_long_series_is_counted():
    found = coefficients(oa.inverse(1 - g * A), g, 40)
    assert " + ⋯ 17 terms ⋯ + g^29 A" in repr(found) and str(found).count("g^") == 40
    assert r" + \underbrace{\cdots}_{17\ \text{terms}} + g^{29}\,A" in oa.latex(found)


def test_coefficients_are_indexed_by_their_power():
    found = coefficients((1 + g * A) @ (1 + g * B), g, 2)
    assert [found[0], found[1], found[2]] == list(found) == list(found.terms)
    assert len(found) == 3
    for power in (3, -1, "a", slice(0, 2), True):
        message = refused(oa.InputError, lambda: found[power])  # noqa: B023
        assert message == f"the coefficient of g^{power} was asked, and these go from g^0 to g^2; ask a higher order"


# Planted bugs: each is a wrong law, and the checks above are seen to find it.


def assert_search_finds(examples=OPERATORS):
    """A fixed random search over operators meets one that `broken` reports."""

    def wrong(operator):
        try:
            return broken(operator, 3) is not None
        except oa.OpalgebraError:
            return False

    once = settings(max_examples=3000, phases=[Phase.generate], database=None, deadline=None)
    find(examples, wrong, settings=once, random=Random(0))


@pytest.mark.parametrize("scaled, model_of, confused", [(grading, graded, True), (coupling, coupled, False)])
def test_planted_confusion_of_grading_and_coupling_is_found(monkeypatch, scaled, model_of, confused):
    right = module._scaled
    monkeypatch.setattr(module, "_scaled", lambda *given, backgrounds: right(*given, backgrounds=confused))
    atom = NONLINEAR[0]
    operator = oa.dressed(atom, atom @ x) @ x
    assert changes_a_meaning(scaled, model_of, operator, {atom}) is not None
    once = settings(max_examples=3000, phases=[Phase.generate], database=None, deadline=None)

    def wrong(operator):
        return changes_a_meaning(scaled, model_of, operator, set(NONLINEAR)) is not None

    find(TREES.map(build), wrong, settings=once, random=Random(0))


def test_planted_product_that_commutes_is_found(monkeypatch):
    monkeypatch.setattr(Compose, "remade", lambda node, parts: parts[1] @ parts[0])
    assert broken((1 + g * A) @ (1 + g * B), 2) is not None


def test_planted_inverse_without_its_sign_is_found(monkeypatch):
    right = powers._Rules._inverse

    def unsigned(self, node):
        found = yield from right(self, node)
        return powers._Series({power: (-1) ** power * term for power, term in found.terms.items()}, found.degree)

    monkeypatch.setattr(powers._Rules, "_inverse", unsigned)
    assert broken(oa.inverse(1 - g * A), 1) is not None
    assert_search_finds()


def test_planted_range_that_is_not_moved_to_one_is_found(monkeypatch):
    monkeypatch.setattr(powers, "_from_one", lambda product, body, index: (body, product.upper))
    assert broken(oa.ordered_product(1 + g * V[l], l, 2, L), 2) is not None
    assert_search_finds()


def test_planted_square_that_counts_as_first_order_is_found(monkeypatch):
    right = powers._Rules._powers

    def flat(self, node, scalar):
        return {min(power, 1): coefficient for power, coefficient in right(self, node, scalar).items()}

    monkeypatch.setattr(powers._Rules, "_powers", flat)
    assert broken(A + g**2 * B, 2) is not None
    assert_search_finds()
