"""To SymPy and back keeps the meaning through every law of SymPy's free algebra; what would not is refused by name."""

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from random import Random

import pytest
import sympy
import test_structure as structure
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from meaning import Interpretation, counterexample
from strategies import maps, operators, states
from sympy import transpose
from sympy.physics.quantum import AntiCommutator, Commutator, Dagger, TensorProduct

import opalgebra as oa
from opalgebra import cas, letters
from opalgebra.cas import DEEPEST, from_sympy, to_sympy
from opalgebra.errors import OpalgebraError
from opalgebra.expr import Compose, Sum, Zero, factors, linear_combination, postorder
from opalgebra.scalar import parameter, symbol
from opalgebra.space import FEATURES, ONE, K, Space, X

A, B, C = oa.atoms("A B C", kind="linear")
F, G = oa.atoms("F G", kind="nonlinear")
x, y = oa.state("x"), oa.state("y")
Y = Space("hidden")
D = oa.Atom("D", kind="linear", domain=Y, codomain=Y)
UP, DOWN = oa.Atom("U", kind="linear", codomain=Y), oa.Atom("W", kind="linear", domain=Y)
a, b, c = sympy.symbols("A B C", commutative=False)
t, g = sympy.Symbol("t"), sympy.Symbol("g", real=True)
n, v = sympy.Symbol("n", integer=True, nonnegative=True), sympy.IndexedBase(sympy.Symbol("V", commutative=False))
V, l, L = oa.family("V", kind="linear"), symbol("l"), symbol("L")


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def has_nonlinear_left(operator):
    """Whether a map that is not known to be linear stands to the left of another factor, anywhere outside backgrounds."""
    return any(isinstance(node, Compose) and not node.left.is_linear for node in postorder(operator, backgrounds=False))


def is_as_sympy_writes_it(operator):
    """Whether no factor behind another one is zero or has a coefficient, so that SymPy moves nothing."""
    products = [node for node in postorder(operator, backgrounds=False) if isinstance(node, Compose)]
    behind = [factor for product in products for factor in factors(product)[1:]]
    return not any(isinstance(factor, Zero) or (isinstance(factor, Sum) and len(factor.terms) == 1) for factor in behind)


def in_sympy(operator):
    """The SymPy form, or None for what is refused."""
    try:
        return to_sympy(operator)
    except (oa.NotLinearError, oa.SpaceError):
        return None


def broken_expansion(operator):
    """Where SymPy's expansion, read back, differs in meaning; None when it agrees or is refused."""
    expression = in_sympy(operator)
    if expression is None:
        return None
    expanded = sympy.expand(expression)
    back = Zero(operator.domain, operator.codomain) if expanded == 0 else from_sympy(expanded, operator.atoms)
    return counterexample(operator, back)


# Round trips and meaning


@given(st.one_of(maps(), maps().map(lambda operator: oa.expand(operator).rhs), operators()))
def test_what_is_not_refused_is_read_back(operator):
    expression = in_sympy(operator)
    if expression is not None and is_as_sympy_writes_it(operator):
        assert from_sympy(expression, atoms=operator.atoms) is operator


@given(states())
def test_the_expansion_of_a_state_is_read_back_with_its_dressings_and_sources(state):
    expansion = oa.expand(state).rhs
    if expansion != Zero(ONE, X):
        assert from_sympy(to_sympy(expansion), atoms=expansion.atoms) is expansion


@given(operators())
def test_refused_is_a_nonlinear_map_to_the_left_of_another_factor_and_a_number_on_another_space(operator):
    if has_nonlinear_left(operator):
        assert "is not known to be linear" in refused(oa.NotLinearError, lambda: to_sympy(operator))
    elif (operator.domain, operator.codomain) == (X, X):
        assert to_sympy(operator) is not None
    elif in_sympy(operator) is None:
        assert "it is a mere number" in refused(oa.SpaceError, lambda: to_sympy(operator))


@given(st.one_of(maps(), operators()))
def test_going_to_sympy_and_back_keeps_the_meaning(operator):
    expression = in_sympy(operator)
    if expression is not None:
        assert counterexample(operator, from_sympy(expression, operator.atoms)) is None


@given(st.one_of(maps(), operators()))
def test_the_expansion_of_sympy_keeps_the_meaning(operator):
    assert broken_expansion(operator) is None


@given(maps().filter(lambda operator: in_sympy(operator) is not None))
def test_the_expansion_of_sympy_is_the_expansion_here(operator):
    assert from_sympy(sympy.expand(to_sympy(operator)), operator.atoms) is oa.expand(operator).rhs


@given(maps(2), maps(2), maps(2))
def test_what_sympy_makes_of_sums_and_products_is_what_they_are_here(first, second, third):
    if first.is_linear and None not in (forms := [in_sympy(operator) for operator in (first, second, third)]):
        atoms = {*first.atoms, *second.atoms, *third.atoms}
        built = from_sympy(forms[0] * (forms[1] - 2 * forms[2]), atoms)
        assert counterexample(built, first @ (second - 2 * third)) is None


@given(
    maps().filter(lambda operator: in_sympy(operator) is not None), st.sampled_from([sympy.factor_terms, sympy.collect_const])
)
def test_other_rewritings_of_sympy_keep_the_meaning_too(operator, rewrite):
    assert counterexample(operator, from_sympy(rewrite(to_sympy(operator)), operator.atoms)) is None


def test_the_forms_themselves():
    assert to_sympy(A) == a
    assert to_sympy(A @ B) == a * b != b * a
    assert to_sympy(2 * A @ (1 + B) @ B @ B) == 2 * a * (1 + b) * b**2
    assert to_sympy(Fraction(1, 3) * A - B + 1) == a / 3 - b + 1
    assert to_sympy(oa.Identity()) == 1
    assert to_sympy(Zero()) == 0
    assert to_sympy(A**3) == a**3
    assert sympy.expand((to_sympy(A) + 1) * to_sympy(F)) == to_sympy(A @ F + F)
    assert sympy.srepr(to_sympy(x)) == "Symbol('x', commutative=False)"
    assert str(to_sympy(oa.dressed(F, x) @ x + oa.source(F, x))) == "F<x>*x + source(F, x)"
    named = oa.dressed(F, (1 + A) @ x)
    assert " where " in str(named)
    assert str(to_sympy(named)) == f"({named})"


def test_nonlinear_maps_and_states_may_stand_rightmost():
    f, state = sympy.Symbol("F", commutative=False), sympy.Symbol("x", commutative=False)
    assert to_sympy(A @ (B @ F + 2)) == a * (b * f + 2)
    assert from_sympy(sympy.expand(a * (b * f + 2)), [F]) is A @ B @ F + 2 * A
    assert from_sympy(sympy.expand((a + 1) * (b + 2) * state), [x]) is oa.expand((A + 1) @ (B + 2) @ x).rhs


def test_other_spaces_pass_and_are_checked_on_the_way_back():
    operator = DOWN @ (2 + D) @ UP + A
    expression = to_sympy(operator)
    assert from_sympy(expression, operator.atoms) is operator
    assert from_sympy(sympy.expand(expression), operator.atoms) is 2 * DOWN @ UP + DOWN @ D @ UP + A
    assert from_sympy(to_sympy(3 + D), [D]) is 3 + D
    up, down = to_sympy(UP), to_sympy(DOWN)
    message = "A acts on X, but U maps to hidden; compose maps whose spaces fit"
    assert refused(oa.SpaceError, lambda: from_sympy(a * up, [UP])) == message
    message = "U maps X to hidden; only a map of a space to itself has powers"
    assert refused(oa.SpaceError, lambda: from_sympy(up * up, [UP])) == message
    assert refused(oa.SpaceError, lambda: from_sympy(1 + down, [DOWN])).startswith("1 in a sum is 1 times the identity")


def test_a_number_without_neighbours_is_a_multiple_of_the_identity_of_x():
    assert from_sympy(sympy.Integer(3)) is 3 * oa.Identity()
    assert from_sympy(sympy.Integer(0)) is Zero()
    assert from_sympy(sympy.Rational(-2, 6)) is Fraction(-1, 3) * oa.Identity()
    for operator in (oa.Identity(K), Zero(ONE, X), 2 * oa.Identity(Y)):
        message = refused(oa.SpaceError, lambda operator=operator: to_sympy(operator))
        assert message == (
            f"{operator} maps {operator.domain} to {operator.codomain}, but in SymPy it is a mere number, which is read back "
            "as a map of X to X; convert the terms around it instead"
        )


def test_floats_are_read_at_their_exact_binary_value():
    assert from_sympy(0.1 * a) is Fraction(0.1) * A
    assert from_sympy(sympy.Float("0.1", 50) * a).terms[0][0] != Fraction(0.1)
    assert from_sympy(-sympy.Float(2.0**70) + a) is A - 2**70
    assert from_sympy(sympy.Float(0.0)) is Zero()


def test_commutators_are_kept_as_entered_both_ways():
    assert to_sympy(oa.commutator(A, B)) == Commutator(a, b)
    assert from_sympy(Commutator(a, b)) is oa.commutator(A, B)
    assert from_sympy(to_sympy(oa.commutator(B, A))) is -oa.commutator(A, B)
    assert from_sympy(Commutator(2 * a + 1, b) ** 2) is oa.commutator(B, 2 * A + 1) ** 2
    assert from_sympy(Commutator(Commutator(a, b), c)) is -oa.commutator(C, oa.commutator(A, B))
    assert from_sympy(Commutator(a, b).doit()) is A @ B - B @ A
    f = to_sympy(F)
    assert refused(oa.NotLinearError, lambda: from_sympy(Commutator(a, f), [F])).startswith("the commutator of F was asked")


def test_a_reported_identity_of_nested_commutators_holds():
    nested = Commutator(Commutator(Commutator(a, b), a), b) - Commutator(Commutator(Commutator(a, b), b), a)
    assert oa.expand(from_sympy(nested)).rhs is Zero()


def test_powers_go_both_ways():
    assert from_sympy((a + b) ** 2) is (A + B) @ (A + B)
    assert from_sympy((a * b) ** 3 * a) is oa.ordered_product([A, B, A, B, A, B, A][::-1])
    assert from_sympy(sympy.Pow(a, 0, evaluate=False)) is oa.Identity()
    assert from_sympy(sympy.Pow(to_sympy(F), 1, evaluate=False), [F]) is F


def test_unevaluated_products_are_read_as_written():
    assert from_sympy(sympy.Mul(2, a, 3, b, evaluate=False)) is 6 * A @ B
    assert from_sympy(sympy.Mul(2, 3, evaluate=False)) is 6 * oa.Identity()
    assert from_sympy(sympy.Add(1, 2, evaluate=False)) is 3 * oa.Identity()


def test_unknown_noncommutative_symbols_are_linear_atoms_on_x():
    v = sympy.Symbol("V3", commutative=False)
    assert from_sympy(v * a, atoms=[F]) is oa.family("V", kind="linear")[3] @ A


def test_dressings_and_sources_are_read_with_the_given_atoms_alone():
    symbol = to_sympy(oa.dressed(F, x))
    assert from_sympy(symbol, [F, x]) is oa.dressed(F, x)
    assert refused(oa.InputError, lambda: from_sympy(symbol, [x])) == (
        "F is not declared; add 'where F: linear' to the text or pass atoms="
    )
    composed = oa.source(F, (1 + A @ G) @ x)
    assert from_sympy(to_sympy(composed), composed.atoms) is composed


# Adjoints, inverses, tensor products, traces, functions; symbols


def broken_structure(tree, facts=()):
    """Where a tree of structured linear maps, sent to SymPy, expanded there and read back, differs in meaning."""
    operator = structure.build(tree)
    try:
        expression = to_sympy(operator, facts)
    except oa.SpaceError:
        return None
    for changed in (expression, sympy.expand(expression)):
        back = Zero(operator.domain, operator.codomain) if changed == 0 else from_sympy(changed, operator.atoms)
        wrong = counterexample(operator, back, interpretations=[structure.MODEL], points=1)
        if wrong:
            return wrong
    return None


@given(structure.TREES)
def test_structured_maps_keep_their_meaning_through_sympy(tree):
    assert broken_structure(tree) is None


@given(structure.TREES)
def test_inverses_that_facts_declare_are_powers_with_the_same_meaning(tree):
    atoms = structure.build(tree).atoms
    assert broken_structure(tree, [oa.Inverse(atom) for atom in atoms if atom.domain == atom.codomain]) is None


def test_an_inverse_is_a_power_only_when_a_fact_says_that_it_exists():
    word = A @ oa.inverse(A) @ B
    assert str(to_sympy(word)) == "A*inverse(A)*B"
    assert to_sympy(word, [oa.Inverse(A)]) == b
    assert to_sympy(oa.inverse(A @ B) @ oa.inverse(B), [oa.Inverse(B), oa.Inverse(A @ B)]) == to_sympy(oa.inverse(A @ B)) / b
    singular = Interpretation(1, maps={A: lambda vector: (vector[0], 0)})
    for power in (1, 3):
        assert from_sympy(a**-power) is oa.inverse(A) ** power
    assert from_sympy((a * b) ** -1) is oa.inverse(A @ B)
    assert from_sympy((2 - a) ** -1 * b) is oa.inverse(2 - A) @ B
    assert counterexample(word, from_sympy(to_sympy(word), word.atoms), interpretations=[singular]) is None
    assert from_sympy(to_sympy(oa.inverse(UP), [oa.Inverse(UP)]), [UP]) is oa.inverse(UP)
    assert refused(oa.NotLinearError, lambda: from_sympy(to_sympy(F) ** -1, [F])).startswith("F stands to the left")


def test_adjoints_and_transposes_of_letters_are_those_of_sympy():
    assert to_sympy(oa.adjoint(A @ B)) == Dagger(b) * Dagger(a)
    assert from_sympy(Dagger(a * (b + 2))) is oa.adjoint(A @ (B + 2))
    assert from_sympy(sympy.adjoint(a)) is oa.adjoint(A)
    assert to_sympy(oa.transpose(A @ B)) == transpose(b) * transpose(a)
    assert from_sympy(transpose(a * Commutator(a, b))) is oa.transpose(A @ oa.commutator(A, B))
    assert from_sympy(to_sympy(oa.adjoint(UP)), [UP]) is oa.adjoint(UP)
    for mixed in (oa.adjoint(oa.transpose(A)), oa.transpose(oa.adjoint(A))):
        assert from_sympy(to_sympy(mixed), [A]) is mixed
    assert to_sympy(oa.adjoint(oa.transpose(A))) != to_sympy(oa.transpose(oa.adjoint(A)))
    assert to_sympy(oa.adjoint(A)) != a


def test_tensor_products_of_sympy_are_read_and_here_are_letters():
    first, second = structure.A, structure.W
    left, right = to_sympy(first), to_sympy(second)
    product = TensorProduct(left, right) * TensorProduct(left, right + left)
    message = refused(oa.SpaceError, lambda: from_sympy(product, [first, second]))
    assert "cannot be added" in message
    assert from_sympy(TensorProduct(2 * left, right), [first, second]) is 2 * oa.tensor(first, second)
    one = sympy.Symbol("one(features)", commutative=False)
    assert from_sympy(TensorProduct(left, one), [first]) is oa.tensor(first, oa.Identity(FEATURES))
    squared = (1 + oa.tensor(first, second)) ** 2
    assert from_sympy(sympy.expand(to_sympy(squared)), squared.atoms) is oa.expand(squared).rhs


def test_functions_are_letters_of_which_sympy_knows_nothing():
    exponential = oa.function("exp", A)
    assert to_sympy(exponential @ exponential) == sympy.Symbol("function(exp, A)", commutative=False) ** 2
    assert sympy.exp(a) * sympy.exp(a) == sympy.exp(2 * a)
    assert from_sympy(to_sympy(exponential @ exponential), [A]) is exponential @ exponential


COUPLING, POSITIVE = parameter("g"), parameter("h", positive=True)
SYMBOLIC = [
    A + COUPLING * B,
    (COUPLING**2 / POSITIVE - 1) * A @ (L * B + 1),
    l * V[l] @ V[l + 1],
    oa.family("W", kind="linear", codomain=Y)[2 * l, 3] @ V[L],
    A @ oa.ordered_product(1 + COUPLING * V[l], l, 1, L),
    L * oa.indexed_sum(V[l] @ A, l, 1, L + 1) @ oa.ordered_sum(V[l], l, L, 2),
    oa.inverse(1 - COUPLING * L * V[l]) + oa.adjoint(V[l]),
    oa.function("log", POSITIVE * V[l]) @ oa.commutator(A, V[l]),
    A @ oa.dressed(F, COUPLING * V[l] @ x),
    A @ oa.ordered_product(1 + F @ V[l], l, 1, L),
]


@pytest.mark.parametrize("operator", SYMBOLIC, ids=range(len(SYMBOLIC)))
def test_symbols_go_both_ways_and_values_put_in_by_sympy_reach_every_letter(operator):
    expression = to_sympy(operator)
    assert from_sympy(expression, operator.atoms) is operator
    assert counterexample(operator, from_sympy(sympy.expand(expression), operator.atoms), environment=VALUES) is None
    put = {letters.scalar_symbol(found): value for found in operator.symbols for value in [VALUES[found.name]]}
    meant = oa.instantiate(operator, {found: VALUES[found.name] for found in operator.symbols})
    assert counterexample(meant, from_sympy(expression.subs(put), operator.atoms)) is None


VALUES = {"l": 2, "L": 3, "g": 5, "h": 7}


def test_scalar_symbols_have_the_assumptions_of_their_sorts_and_no_others_are_read():
    assert to_sympy(COUPLING * A) == g * a
    assert to_sympy(POSITIVE * A) == sympy.Symbol("h", positive=True) * a
    assert to_sympy(L * A) == sympy.Symbol("L", integer=True, nonnegative=True) * a
    h = sympy.Symbol("h", positive=True)
    assert from_sympy((g + 1) ** 2 * a / h) is (COUPLING + 1) ** 2 / POSITIVE * A
    assert "may be zero" in refused(oa.InputError, lambda: from_sympy(a / g))
    assert "commutes, but is no number" in refused(oa.InputError, lambda: from_sympy(sympy.Symbol("g", integer=True) * a))
    below = to_sympy(oa.ordered_product(1 + V[l], l, 1, L)).subs(sympy.Symbol("L", integer=True, nonnegative=True), -2)
    assert "may not be" in refused(oa.InputError, lambda: from_sympy(below, [V[l]]))
    assert refused(oa.LimitError, lambda: from_sympy(g**5_000 * a)) == (
        "a power of a scalar would be more than 4,000; use a smaller exponent"
    )


def test_members_of_a_family_keep_their_order_and_take_the_kind_of_the_given_atoms():
    assert to_sympy(V[l] @ V[l + 1]) != to_sympy(V[l + 1] @ V[l])
    nonlinear = oa.family("V", kind="nonlinear")
    assert from_sympy(v[n + 1] * v[3]) is V[symbol("n") + 1] @ V[3]
    assert from_sympy(v[3], [nonlinear[1]]) is nonlinear[3]
    assert refused(oa.InputError, lambda: to_sympy(V[l] @ nonlinear[L])) == (
        "V names 2 different families, and in SymPy a name is one; rename one of them"
    )


def test_the_reasons_against_sums_of_sympy_hold():
    assert sympy.Sum(v[n], (n, 3, 1)).doit() == -v[2]
    moved = sympy.simplify(sympy.Sum(v[n] * a, (n, 1, sympy.Symbol("N"))) * b + c)
    assert moved == b * sympy.Sum(v[n] * a, (n, 1, sympy.Symbol("N"))) + c


# Refusals word by word

KNOWN = (
    "use noncommutative symbols, alone or Indexed, rational numbers, real symbols, sums, products, integer powers, "
    "commutators, adjoints, transposes and tensor products"
)


@pytest.mark.parametrize(
    ("operator", "left"),
    [
        (F @ (A + B), "F"),
        (F @ A, "F"),
        (F @ F, "F"),
        (F @ x, "F"),
        (A @ (1 + F) @ B, "1 + F"),
        (A + B @ (2 * F) @ Zero(), "F"),
        (C @ (A @ F @ (2 * B) + 1), "F"),
        (oa.inverse(F) @ A, "inverse(F)"),
        (oa.ordered_product(1 + F @ V[l], l, 1, L) @ A, "ordered_product(1 + F @ V[l], l, 1, L)"),
    ],
)
def test_a_nonlinear_map_to_the_left_of_another_factor_is_refused(operator, left):
    assert refused(oa.NotLinearError, lambda: to_sympy(operator)) == (
        f"{left} stands to the left of another factor, but is not known to be linear, and SymPy distributes every product; "
        "on a state, dress it first (expand does), or declare it with kind='linear' if it is"
    )


@pytest.mark.parametrize(
    "written", [lambda f: f * a, lambda f: f**2, lambda f: sympy.expand(f * (a + b)), lambda f: (1 + f) * f]
)
def test_products_of_a_nonlinear_map_that_sympy_made_are_refused_on_the_way_back(written):
    expression = written(to_sympy(F))
    assert "is not known to be linear, and SymPy distributes every product" in refused(
        oa.NotLinearError, lambda: from_sympy(expression, [F])
    )


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("A + B", "from_sympy reads SymPy expressions, not str; for text, use parse"),
        (2, "from_sympy reads SymPy expressions, not int; for text, use parse"),
        (A, "from_sympy reads SymPy expressions, not Atom; for text, use parse"),
        (
            t * a,
            "t commutes, but is no number of a known sort; declare Symbol('t', real=True), or instead positive=True, or "
            "integer=True and nonnegative=True; an operator has commutative=False",
        ),
        (a**t, "a power here is an integer, not SymPy's Symbol; there are no roots here yet"),
        (sympy.sqrt(a), "a power here is an integer, not SymPy's Half; there are no roots here yet"),
        (sympy.sqrt(2) * a, "a power here is an integer, not SymPy's Half; there are no roots here yet"),
        ((1 + g) ** -1 * a, "(g + 1)**-1 is no Laurent polynomial; only a single term has negative powers"),
        (sympy.Pow(2, 3, evaluate=False), "a power of a number was left unevaluated; give the number, for example by doit()"),
        (
            sympy.exp(a),
            "SymPy's exp has no meaning as an operator here; SymPy merges exp(A)*exp(A) into exp(2*A), and here nothing is "
            "assumed of a function; use function('exp', A)",
        ),
        (
            transpose(Dagger(a)),
            "SymPy's conjugate has no meaning as an operator here; SymPy's conjugate is an adjoint of a transpose in either "
            "order, and here the two may differ; use adjoint",
        ),
        (sympy.log(a * b), f"SymPy's log has no meaning as an operator here; {KNOWN}"),
        (sympy.Function("f", commutative=False)(n), f"SymPy's f has no meaning as an operator here; {KNOWN}"),
        (
            sympy.Sum(a, (n, 1, 3)),
            "SymPy's Sum has no meaning as an operator here; SymPy moves noncommuting factors across a Sum, and its empty "
            "sums are not 0; use indexed_sum",
        ),
        (
            sympy.Product(a, (n, 1, 3)),
            "SymPy's Product has no meaning as an operator here; SymPy's Product has no order for factors that do not commute; "
            "use ordered_product",
        ),
        (
            TensorProduct(1, a),
            "a number in a TensorProduct is a multiple of the identity of a space that SymPy does not name; write the identity "
            "of positions, say, as Symbol('one(positions)', commutative=False)",
        ),
        (
            sympy.IndexedBase("V")[n],
            "V[n] is no operator; its base is to be IndexedBase(Symbol('V', commutative=False))",
        ),
        (v[a], "V is applied to the operator A, but only scalars are indices and lengths"),
        (v[g], "V[g]: an index is a natural number or made of symbols for them; use V[3] or symbol('l')"),
        (
            sympy.Symbol("#1", integer=True, nonnegative=True) * a,
            "'#1' is no name of a symbol; use letters and digits, as in L or g2",
        ),
        (
            sympy.Symbol("inverse(V[l] @ A)", commutative=False),
            "V[] is not declared; add 'where V[]: linear' to the text or pass atoms=",
        ),
        (sympy.Derivative(a, t), f"SymPy's Derivative has no meaning as an operator here; {KNOWN}"),
        (sympy.MatrixSymbol("M", 2, 2), f"SymPy's MatrixSymbol has no meaning as an operator here; {KNOWN}"),
        (sympy.eye(2).as_immutable(), f"SymPy's ImmutableDenseMatrix has no meaning as an operator here; {KNOWN}"),
        (AntiCommutator(a, b), f"SymPy's AntiCommutator has no meaning as an operator here; {KNOWN}"),
        (sympy.pi * a, f"SymPy's Pi has no meaning as an operator here; {KNOWN}"),
        (sympy.I * a, f"SymPy's ImaginaryUnit has no meaning as an operator here; {KNOWN}"),
        (sympy.nan, f"SymPy's NaN has no meaning as an operator here; {KNOWN}"),
        (sympy.oo, f"SymPy's Infinity has no meaning as an operator here; {KNOWN}"),
        (sympy.Dummy("A", commutative=False), f"SymPy's Dummy has no meaning as an operator here; {KNOWN}"),
        (sympy.Eq(a, b), f"SymPy's Equality has no meaning as an operator here; {KNOWN}"),
        (
            a + sympy.Symbol("A", commutative=False, hermitian=True),
            "two symbols with different assumptions are named A; rename one of them",
        ),
        (
            sympy.Symbol("A + B", commutative=False),
            "'A + B' is no name of an operator; use letters and then indices, as in V3 or A2_1",
        ),
        (
            sympy.Symbol("__import__('os')", commutative=False),
            "the expression makes no sense from character 11 on (\"('os')\"); write it as in A @ (1 + B)",
        ),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_name(expression, message):
    assert refused(oa.InputError, lambda: from_sympy(expression, atoms=[A, B])) == message


def test_what_is_no_operator_is_refused():
    assert refused(oa.InputError, lambda: to_sympy(oa.expand(A))) == (
        "to_sympy takes an operator, not Theorem; of a theorem, give .lhs or .rhs"
    )


def test_two_atoms_of_one_name_are_refused_in_both_directions():
    other = oa.Atom("A", kind="nonlinear")
    message = "A names 2 different atoms, and in SymPy a name is one symbol; rename one of them"
    assert refused(oa.InputError, lambda: to_sympy(B @ A + other)) == message
    assert refused(oa.InputError, lambda: from_sympy(b, atoms=[A, other])) == message
    assert from_sympy(a, atoms=[A, A]) is A


# Size and depth


def test_ten_thousand_factors_go_both_ways():
    word = oa.ordered_product([A, B] * 5_000)
    assert from_sympy(to_sympy(word)) is word
    V = oa.family("V", kind="linear")
    product = oa.ordered_product(1 + V[n] for n in range(10_000))
    assert from_sympy(to_sympy(product)) is product


def test_two_thousand_terms_go_both_ways():
    V = oa.family("V", kind="linear")
    total = linear_combination((n + 1, V[n] @ V[n + 1]) for n in range(2_000))
    assert from_sympy(to_sympy(total)) is total


def test_sums_nested_beyond_what_sympy_walks_are_refused_and_others_are_expanded():
    nested = A
    for _ in range(DEEPEST):
        nested = 1 + B @ nested
    assert from_sympy(to_sympy(nested)) is nested
    assert from_sympy(sympy.expand(to_sympy(nested))) is oa.expand(nested).rhs
    for depth in (1, 10_000):
        for _ in range(depth):
            nested = 1 + B @ nested
        assert refused(oa.LimitError, lambda nested=nested: to_sympy(nested)) == (
            "sums and commutators are nested more than 64 deep, and SymPy recurses; expand the operator first"
        )


def test_shared_parts_do_not_hide_how_deep_sums_are_nested():
    levels = [A]
    for _ in range(DEEPEST + 20):
        levels.append(1 + B @ levels[-1])
    total = linear_combination((1, C @ level) for level in levels[1:])
    assert "nested more than 64 deep" in refused(oa.LimitError, lambda: to_sympy(total))


def test_sympy_is_loaded_when_it_is_needed():
    program = "import sys, opalgebra.cas; print('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_deep_expression_of_sympy_is_read_without_recursion():
    expression, meant = a, A
    for _ in range(600):
        expression, meant = 1 + b * expression, 1 + B @ meant
    assert from_sympy(expression) is meant


@pytest.mark.parametrize(
    "power", [a**200_001, (a * b) ** 100_001, a ** sympy.Integer(10) ** 5000, (1 + a**1000 * b) ** 200_001]
)
def test_a_power_beyond_the_limit_is_refused(power):
    assert refused(oa.LimitError, lambda: from_sympy(power)) == (
        "a power would have more than 200,000 factors; use a smaller exponent"
    )


def test_numbers_beyond_the_limit_are_refused():
    message = "a coefficient would have more than 1,000 digits; use scalars with fewer"
    for number in (sympy.Float("1e100000"), sympy.Float("1e-100000"), sympy.Integer(10) ** 1000):
        assert refused(oa.LimitError, lambda number=number: from_sympy(number * a)) == message


def test_symbols_are_never_evaluated(monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("text was evaluated")

    expression = to_sympy(oa.dressed(F, A @ x) @ (x + B @ x))
    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr("builtins." + name, forbidden)
    monkeypatch.setattr(sympy, "sympify", forbidden)
    assert from_sympy(expression, [F, x, A]) is oa.dressed(F, A @ x) @ (x + B @ x)


# Planted bugs


def test_planted_conversion_that_lets_nonlinear_maps_through_gives_a_false_identity(monkeypatch):
    monkeypatch.setattr(cas, "_refuse_nonlinear", lambda left: None)
    assert broken_expansion(A @ (A + B)) is None
    assert from_sympy(sympy.expand(to_sympy(F @ (A + B))), [F]) is F @ A + F @ B
    assert broken_expansion(F @ (A + B)) is not None
    assert broken_expansion(F @ (2 * A)) is not None
    once = settings(max_examples=2000, phases=[Phase.generate], database=None, deadline=None)
    find(maps(), lambda operator: broken_expansion(operator) is not None, settings=once, random=Random(0))


def assert_a_structure_is_found_broken():
    once = settings(max_examples=2000, phases=[Phase.generate], database=None, deadline=None)
    find(structure.TREES, lambda tree: broken_structure(tree) is not None, settings=once, random=Random(0))


def test_planted_inverses_that_sympy_cancels_are_found():
    singular = Interpretation(1, maps={A: lambda vector: (vector[0], 0)})
    cancelled = from_sympy(to_sympy(A @ oa.inverse(A), [oa.Inverse(A)]))
    assert counterexample(A @ oa.inverse(A), cancelled, interpretations=[singular]) is not None


def test_planted_adjoint_that_commutes_with_the_transpose_is_found(monkeypatch):
    def exchanged(text, *, atoms):
        return oa.parse(text.replace("adjoint(transpose(", "transpose(adjoint("), atoms=atoms)

    monkeypatch.setattr(letters, "parse", exchanged)
    tree = ("adjoint", ("transpose", ("leaf", structure.M)))
    assert broken_structure(tree) is not None
    assert_a_structure_is_found_broken()


def test_planted_commutator_in_the_wrong_order_is_found(monkeypatch):
    monkeypatch.setattr(cas, "commutator", lambda left, right: oa.commutator(right, left))
    assert broken_structure(("commutator", ("leaf", structure.M), ("leaf", structure.N))) is not None
    assert_a_structure_is_found_broken()


def test_planted_letter_that_hides_its_symbols_is_found(monkeypatch):
    operator = L * oa.ordered_product(1 + V[l], l, 1, L)
    hidden = sympy.Symbol("L", integer=True, nonnegative=True)
    put = from_sympy(to_sympy(operator).subs(hidden, 3), operator.atoms)
    assert counterexample(oa.instantiate(operator, {L: 3}), put) is None
    monkeypatch.setattr(letters.Names, "function", lambda names, expression, values: oa.ordered_product(1 + V[l], l, 1, L))
    put = from_sympy(to_sympy(operator).subs(hidden, 3), operator.atoms)
    assert counterexample(oa.instantiate(operator, {L: 3}), put, environment={"L": 2}) is not None


def test_planted_product_in_the_wrong_order_is_found(monkeypatch):
    monkeypatch.setattr(cas, "ordered_product", lambda found: oa.ordered_product([*found][::-1]))
    assert broken_expansion(A @ B) is not None


def test_planted_conversion_that_accepts_one_name_for_two_atoms_gives_a_false_identity(monkeypatch):
    monkeypatch.setattr(letters, "Counter", lambda names: Counter())
    other = oa.Atom("A", kind="nonlinear")
    assert to_sympy(A - other) == 0
    assert counterexample(A - other, Zero()) is not None


def test_every_error_is_one_of_the_library():
    for expression in (
        sympy.exp(a),
        a**t,
        t,
        sympy.nan,
        sympy.Symbol("", commutative=False),
        sympy.Symbol("()", commutative=False),
    ):
        with pytest.raises(OpalgebraError):
            from_sympy(expression)
