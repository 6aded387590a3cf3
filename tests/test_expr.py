"""Expressions: interning and equality, exact coefficients, every refusal word by word, size, and pickling between processes."""

import copy
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from strategies import maps, operators, states

import opalgebra as oa
from opalgebra.atoms import atoms
from opalgebra.expr import (
    Compose,
    Dressed,
    Operator,
    Source,
    Sum,
    compose,
    factors,
    from_table,
    linear_combination,
    ordered_product,
    postorder,
    table,
    terms,
)
from opalgebra.parse import parse
from opalgebra.space import FEATURES, ONE, POSITIONS, K, Kind, Space, X

A, B, C = atoms("A B C", kind="linear")
F, G = atoms("F G", kind="nonlinear")
x, y = oa.state("x"), oa.state("y")
Y = Space("hidden")
E = oa.Atom("E", kind="linear", domain=X, codomain=Y)


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


# Equality


def test_equal_expressions_are_one_object():
    assert oa.Atom("A", kind="linear") is A
    assert (A + B) @ F is (B + A) @ F
    assert A @ (B @ C) is (A @ B) @ C
    assert len({A + B, B + A, A @ B, B @ A}) == 3


def test_kind_and_spaces_are_part_of_equality():
    linear, nonlinear = oa.Atom("V", kind="linear"), oa.Atom("V", kind="nonlinear")
    elsewhere = oa.Atom("V", kind="linear", domain=Y, codomain=Y)
    assert len({linear, nonlinear, elsewhere, oa.Atom("V", kind="attention")}) == 4


@given(operators())
def test_equality_is_identity_through_pickling_and_copying(operator):
    assert pickle.loads(pickle.dumps(operator)) is operator
    assert copy.deepcopy(operator) is operator
    assert copy.copy(operator) is operator
    assert from_table(table(operator)) is operator


@given(maps(2), maps(2))
def test_equal_digests_mean_equal_operators(first, second):
    assert (first.digest == second.digest) == (first == second)


def test_operators_are_immutable():
    for operator in (A, A + B, A @ B, oa.dressed(F, x), oa.source(F, x), oa.Identity(), oa.Zero()):
        assert refused(AttributeError, lambda it=operator: setattr(it, "fields", ())) == (
            "operators are immutable: fields cannot be set"
        )
        assert (
            refused(AttributeError, lambda it=operator: setattr(it, "new", 1)) == "operators are immutable: new cannot be set"
        )


def test_an_operator_is_not_equal_to_a_number():
    assert oa.Identity() != 1
    assert oa.Zero() != 0


# Laws of the constructors


def test_sums_are_collected_flat_and_without_zeros():
    assert A + A == 2 * A
    assert A - A is oa.Zero()
    assert (A + B) - (A + 2 * B) == -B
    assert 2 * (A + 3 * B) == 2 * A + 6 * B
    assert A + oa.Zero() == A
    assert 0 * F is oa.Zero()
    assert 1 * F == F
    assert {term: c for c, term in terms(2 * A - B)} == {A: 2, B: -1}


def test_a_scalar_in_a_sum_is_a_multiple_of_the_identity():
    assert 1 + A == A + 1 == A + oa.Identity()
    assert 0 + A == A == A + 0 == A - 0
    assert 1 - A == -(A - 1)
    assert 2 - A is 2 * oa.Identity() - A
    assert E + 0 == E
    assert x + 0 == x


def test_composition_uses_the_unit_zero_from_the_left_and_scalars_from_the_left():
    assert oa.Identity() @ F == F == F @ oa.Identity()
    assert oa.Zero() @ F == oa.Zero()
    assert (2 * A) @ F == 2 * (A @ F)
    assert (2 * F) @ (3 * G) == 2 * (F @ (3 * G))


def test_composition_keeps_what_would_need_linearity():
    assert isinstance(F @ oa.Zero(), Compose)
    assert isinstance(A @ oa.Zero(), Compose)
    assert F @ (2 * A) != 2 * (F @ A)
    assert F @ (A + B) != F @ A + F @ B
    assert (A + B) @ C != A @ C + B @ C


def test_compositions_are_right_nested_pairs():
    product = (A @ B) @ (C @ F)
    assert (product.left, product.right) == (A, B @ C @ F)
    assert factors(product) == [A, B, C, F]
    assert factors(A) == [A]


def test_an_ordered_product_starts_from_the_right():
    assert ordered_product([A, B, C]) == C @ B @ A
    assert oa.ordered_product([], space=Y) == oa.Identity(Y)
    assert oa.ordered_product([A], space=Y) == A


def test_powers_are_repeated_composition():
    assert A**3 == A @ A @ A
    assert (1 + A) ** 2 == (1 + A) @ (1 + A)
    assert A**1 == A
    assert A**0 is oa.Identity()


def test_linearity_is_computed_from_the_kinds_of_the_atoms():
    assert (A + 2 * B @ C).is_linear
    assert not (A + F).is_linear
    assert not (A @ F).is_linear
    assert oa.dressed(F, F @ x).is_linear
    assert oa.Zero().is_linear
    assert oa.Identity().is_linear
    assert not x.is_linear
    assert not oa.Zero(ONE, X).is_linear


def test_kinds():
    assert [operator.kind for operator in (A + B, F + A, F @ x, oa.dressed(F, x), oa.source(F, x))] == [
        "linear", "nonlinear", "state", "linear", "state",
    ]  # fmt: skip
    assert oa.Atom("A1", kind="attention").kind is Kind.ATTENTION
    assert oa.Atom("A1", kind=Kind.FFN).kind == "ffn"
    assert not any(oa.Atom("A1", kind=kind).is_linear for kind in ("nonlinear", "attention", "ffn", "norm"))


def test_spaces_of_every_node():
    assert (E.domain, E.codomain) == (X, Y)
    assert ((E @ F).domain, (E @ F).codomain) == (X, Y)
    assert ((E @ x).domain, (E @ x).codomain) == (ONE, Y)
    assert (oa.dressed(F, x).domain, oa.source(F, x).domain) == (X, ONE)
    assert (x.is_state, (F @ x).is_state, F.is_state) == (True, True, False)


def test_dressings_are_nodes_on_nonlinear_atoms_alone():
    assert isinstance(oa.dressed(F, x), Dressed)
    assert isinstance(oa.source(F, x), Source)
    assert oa.dressed(A, x) == A
    assert oa.source(A, x) == oa.Zero(ONE, X)
    assert oa.dressed(2 * F + A, x) == 2 * oa.dressed(F, x) + A
    assert oa.dressed(F @ G, x) == oa.dressed(F, G @ x) @ oa.dressed(G, x)
    assert oa.source(F @ G, x) == oa.dressed(F, G @ x) @ oa.source(G, x) + oa.source(F, G @ x)
    assert oa.source(F @ A, x) == oa.source(F, A @ x)


# Names


@pytest.mark.parametrize(
    ("name", "base", "indices"),
    [
        ("F", "F", ()),
        ("V3", "V", (3,)),
        ("A2_1", "A", (2, 1)),
        ("A2_10_3", "A", (2, 10, 3)),
        ("V0", "V", (0,)),
        ("V03", "V0", (3,)),
        ("V1_02", "V1_0", (2,)),
        ("foo_bar", "foo_bar", ()),
        ("foo_bar7", "foo_bar", (7,)),
        ("W_1", "W_", (1,)),
        ("_x", "_x", ()),
        ("_1", "_", (1,)),
        ("V1\u0663", "V1\u0663", ()),
        ("\u03a92", "\u03a9", (2,)),
    ],
)
def test_a_name_ends_in_its_indices(name, base, indices):
    atom = oa.Atom(name, kind="linear")
    assert (atom.name, atom.base, atom.indices) == (name, base, indices)
    assert atom.layer == (indices[0] if indices else None)
    assert atom.head == (indices[1] if len(indices) > 1 else None)


def test_families_are_atoms_with_an_index():
    V = oa.family("V", kind="linear")
    assert V[3] == oa.Atom("V3", kind="linear")
    assert V[2, 1] == oa.Atom("V2_1", kind="linear")
    assert V[2, 1].indices == (2, 1)
    assert repr(V) == "family('V', kind='linear')"
    assert oa.family("E", kind="linear", domain=X, codomain=Y)[1].codomain == Y


def test_atoms_are_listed_by_name_and_numeric_index_backgrounds_included():
    V = oa.family("V", kind="nonlinear")
    operator = V[10] @ V[2] + oa.dressed(F, A @ y) @ V[1] + 2 * V[1]
    assert [atom.name for atom in operator.atoms] == ["A", "F", "V1", "V2", "V10", "y"]
    assert oa.Identity().atoms == ()


# Exact scalars


def test_a_float_is_taken_at_its_exact_binary_value():
    assert terms(0.1 * A) == ((Fraction(3602879701896397, 36028797018963968), A),)
    assert 0.1 * A + 0.2 * A != 0.3 * A
    assert 0.5 * A is Fraction(1, 2) * A


def test_fractions_are_exact():
    third = Fraction(1, 3) * A
    assert third + third + third == A
    assert 5e-324 * A is Fraction(1, 2**1074) * A


def test_booleans_and_texts_are_no_scalars():
    for value in (True, "2", None, [1]):
        assert refused(TypeError, lambda it=value: it * A).startswith(("unsupported operand", "can't multiply"))
        assert refused(TypeError, lambda it=value: A + it).startswith("unsupported operand")


def test_composition_with_something_else_is_a_type_error():
    assert refused(TypeError, lambda: A @ "B").startswith("unsupported operand type(s) for @")


def test_numbers_of_numpy_and_sympy_are_exact_scalars():
    import numpy as np
    import sympy

    for two in (np.int64(2), np.uint8(2), np.float64(2), np.float32(2), sympy.Integer(2)):
        assert two * A is 2 * A
        assert A + two is A + 2
        assert all(type(c.numerator) is int for c, _ in terms(two * A + B))
    assert np.float32(0.1) * A is Fraction(float(np.float32(0.1))) * A
    assert sympy.Rational(1, 3) * A is Fraction(1, 3) * A
    assert np.int64(2**62) * (2 * A) is 2**63 * A
    with pytest.raises(oa.InputError, match="is no scalar"):
        np.float32("inf") * A


# Refusals word by word


@pytest.mark.parametrize("node", [Operator, Sum, Compose, Dressed, Source])
def test_nodes_are_not_built_by_their_class(node):
    message = f"{node.__name__} is built by @, +, dressed and source, not by its class; use those"
    assert refused(oa.InputError, lambda: node(A, B)) == message


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda: A * 2,
            oa.InputError,
            "'*' multiplies by a scalar on the left and is not composition; write 2 * A, or A @ B",
        ),
        (
            lambda: A * B,
            oa.InputError,
            "'*' multiplies by a scalar on the left and is not composition; write 2 * A, or A @ B",
        ),
        (lambda: A**-1, oa.InputError, "a power of an operator is a natural number, not -1; use repeated @"),
        (lambda: A**0.5, oa.InputError, "a power of an operator is a natural number, not 0.5; use repeated @"),
        (
            lambda: oa.Identity(ONE),
            oa.SpaceError,
            "an identity of the one-point space was asked, but that is no space of vectors; use a state",
        ),
        (
            lambda: oa.Atom("V", kind="bosonic"),
            oa.InputError,
            "V: the kind 'bosonic' is unknown; use one of linear, nonlinear, state, attention, ffn, norm",
        ),
        (
            lambda: oa.Atom("V", kind="linear", domain=ONE),
            oa.SpaceError,
            "V: 1 -> X is no linear operator; only a state is a map out of ONE",
        ),
        (
            lambda: oa.Atom("x", kind="state", domain=Y),
            oa.SpaceError,
            "x: hidden -> X is no state operator; only a state is a map out of ONE",
        ),
        (
            lambda: oa.Atom("V", kind="linear", codomain=ONE),
            oa.SpaceError,
            "V: X -> 1 is no linear operator; only a state is a map out of ONE",
        ),
        (
            lambda: oa.Atom("3V", kind="linear"),
            oa.InputError,
            "'3V' is no name of an operator; use letters and then indices, as in V3 or A2_1",
        ),
        (
            lambda: oa.Atom("", kind="linear"),
            oa.InputError,
            "'' is no name of an operator; use letters and then indices, as in V3 or A2_1",
        ),
        (
            lambda: oa.Atom("where", kind="linear"),
            oa.InputError,
            "'where' is no name of an operator; use letters and then indices, as in V3 or A2_1",
        ),
        (
            lambda: oa.Atom(3, kind="linear"),
            oa.InputError,
            "3 is no name of an operator; use letters and then indices, as in V3 or A2_1",
        ),
        (
            lambda: oa.Atom("V" * 201, kind="linear"),
            oa.InputError,
            "'VVVVVVVVVVVVVVVVVVVV'... has 201 characters; a name has at most 200",
        ),
        (
            lambda: 1 + x,
            oa.SpaceError,
            "1 in a sum is 1 times the identity, but x maps 1 to X; add an operator or state with these spaces",
        ),
        (
            lambda: x - 2,
            oa.SpaceError,
            "2 in a sum is 2 times the identity, but x maps 1 to X; add an operator or state with these spaces",
        ),
        (
            lambda: E + 1,
            oa.SpaceError,
            "1 in a sum is 1 times the identity, but E maps X to hidden; add an operator or state with these spaces",
        ),
        (
            lambda: A + x,
            oa.SpaceError,
            "x maps 1 to X and cannot be added to a map from X to X; the spaces of a sum are equal",
        ),
        (lambda: A @ E, oa.SpaceError, "A acts on X, but E maps to hidden; compose maps whose spaces fit"),
        (lambda: x @ A, oa.SpaceError, "x acts on 1, but A maps to X; compose maps whose spaces fit"),
        (lambda: E**0, oa.SpaceError, "E maps X to hidden; only a map of a space to itself has powers"),
        (lambda: x**1, oa.SpaceError, "x maps 1 to X; only a map of a space to itself has powers"),
        (
            lambda: oa.ordered_product([]),
            oa.SpaceError,
            "an empty product is the identity of a space that was not named; pass space=",
        ),
        (
            lambda: float("nan") * A,
            oa.InputError,
            "a coefficient must be finite, not nan; use a number",
        ),
        (
            lambda: A + float("-inf"),
            oa.InputError,
            "a coefficient must be finite, not -inf; use a number",
        ),
        (
            lambda: Space("two words"),
            oa.SpaceError,
            "the factors of a space are named by identifiers, not by ('two words',); rename them",
        ),
        (
            lambda: Space("1", "features"),
            oa.SpaceError,
            "the factors of a space are named by identifiers, not by ('1', 'features'); rename them",
        ),
        (
            lambda: ONE * X,
            oa.SpaceError,
            "the one-point space is no vector space and takes part in no tensor product; use K",
        ),
        (
            lambda: X * ONE,
            oa.SpaceError,
            "the one-point space is no vector space and takes part in no tensor product; use K",
        ),
        (
            lambda: oa.family("V", kind="linear")["l"],
            oa.InputError,
            "V['l']: an index is a natural number or made of symbols for them; use V[3] or symbol('l')",
        ),
        (
            lambda: oa.family("V", kind="linear")[2, -1],
            oa.InputError,
            "V[-1]: an index is a natural number or made of symbols for them; use V[3] or symbol('l')",
        ),
        (
            lambda: oa.dressed(F, A),
            oa.SpaceError,
            "F was to be dressed by A, which maps X to X; a background is a state: apply the map to a state first",
        ),
        (
            lambda: oa.source(F, 1 + A),
            oa.SpaceError,
            "F was to be dressed by 1 + A, which maps X to X; a background is a state: apply the map to a state first",
        ),
        (
            lambda: oa.dressed(F, E @ x),
            oa.SpaceError,
            "F acts on X, but the state E @ x lies in hidden",
        ),
    ],
)  # fmt: skip
def test_refusals_say_what_was_asked_what_blocks_it_and_what_to_do(act, error, message):
    assert refused(error, act) == message


@pytest.mark.parametrize(
    "scalar",
    [10**1000, Fraction(1, 10**1000), -(10**5000), Fraction(10**5000, 3)],
    ids=["1e1000", "1e-1000", "-1e5000", "1e5000/3"],
)
def test_a_coefficient_too_long_to_be_written_is_refused_when_it_is_made(scalar):
    message = "a coefficient would have more than 1,000 digits; use scalars with fewer"
    assert refused(oa.LimitError, lambda: scalar * A) == message
    half = 10**999 * A
    assert refused(oa.LimitError, lambda: 10 * half) == message
    assert parse(str(half), atoms=[A]) == half


def test_every_error_of_the_library_has_one_base():
    for error in (oa.InputError, oa.LimitError, oa.ModelError, oa.NotLinearError, oa.SpaceError):
        assert issubclass(error, oa.OpalgebraError)


# Spaces


def test_spaces_are_products_of_named_factors():
    assert X == POSITIONS * FEATURES == Space("positions", "features")
    assert K * X == X == X * K
    assert [str(space) for space in (ONE, K, X, Y, Y * POSITIONS)] == ["1", "K", "X", "hidden", "hidden*positions"]
    assert repr(X) == "X"
    assert len({ONE, K, X, Space("positions", "features")}) == 3


@pytest.mark.parametrize("name", ["X", "K"])
def test_a_space_never_prints_as_another(name):
    with pytest.raises(oa.SpaceError):
        Space(name)


# Size

MANY = 10_000


@pytest.fixture(scope="module")
def long_product():
    V = oa.family("V", kind="nonlinear")
    return ordered_product(1 + V[1 + n % 50] if n % 3 else V[1 + n % 50] for n in range(MANY))


def test_a_product_of_ten_thousand_factors_is_built_hashed_and_walked(long_product):
    assert len(factors(long_product)) == MANY
    assert hash(long_product) == hash(long_product @ oa.Identity())
    assert len(long_product.atoms) == 50
    assert sum(1 for _ in postorder(long_product, backgrounds=True)) == MANY - 1 + 50 + 51
    assert not long_product.is_linear


def test_a_product_of_ten_thousand_factors_survives_pickling(long_product):
    assert pickle.loads(pickle.dumps(long_product)) is long_product


def test_a_product_of_ten_thousand_factors_prints_and_parses_back(long_product):
    assert parse(str(long_product), atoms=long_product.atoms) is long_product
    assert parse(repr(long_product)) is long_product


def test_a_product_of_ten_thousand_factors_is_dressed(long_product):
    assert len(factors(oa.dressed(long_product, x))) == MANY


def test_deep_nesting_through_sums_prints_and_parses_back():
    nested = A
    for _ in range(5000):
        nested = F @ (B + nested)
    assert parse(str(nested), atoms=nested.atoms) is nested
    assert pickle.loads(pickle.dumps(nested)) is nested


def test_a_large_expression_is_freed_without_recursion():
    program = (
        "import opalgebra as oa; V = oa.family('V', kind='nonlinear')\n"
        "h = oa.state('x')\n"
        "for l in range(20_000): h = (1 + V[l]) @ h\n"
        "d = oa.dressed(V[1], h); del h, d\n"
        "from opalgebra.expr import Operator; import gc; gc.collect(); print(len(Operator._interned))"
    )
    assert run_python(program) == "0"


def nested_state(depth):
    V = oa.family("V", kind="nonlinear")
    state = x
    states = [state]
    for layer in range(1, depth + 1):
        state = (1 + V[layer]) @ state
        states.append(state)
    return oa.ordered_product([oa.dressed(V[layer], states[layer - 1]) for layer in range(1, depth + 1)]) @ x


def test_nested_backgrounds_print_in_linear_size():
    sizes = {depth: len(repr(nested_state(depth))) for depth in (500, 1000, 2000)}
    assert sizes[2000] < 2.2 * sizes[1000] < 2.2 * 2.2 * sizes[500]
    assert sizes[2000] < 150_000


def test_nested_backgrounds_of_depth_two_thousand_parse_back_and_survive_pickling():
    operator = nested_state(2000)
    assert parse(repr(operator)) is operator
    assert pickle.loads(pickle.dumps(operator)) is operator


# Between processes


def run_python(program, *, seed="0", stdin=None):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": seed},
        input=stdin,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def test_a_pickled_operator_is_interned_again_in_another_process():
    operator = oa.dressed(F @ (1 + Fraction(1, 3) * A), (1 + G) @ x) @ (y - 0.1 * x) + oa.source(F, y)
    program = (
        "import pickle, sys, opalgebra as oa\n"
        "operator = pickle.loads(sys.stdin.buffer.read())\n"
        "from opalgebra.parse import parse\n"
        "assert parse(repr(operator)) is operator\n"
        "print(operator.digest.hex(), repr(operator))"
    )
    assert run_python(program, stdin=pickle.dumps(operator)) == f"{operator.digest.hex()} {operator!r}"


def test_digests_and_the_order_of_terms_do_not_depend_on_the_hash_seed():
    program = (
        "import opalgebra as oa\n"
        "V = oa.family('V', kind='nonlinear')\n"
        "total = sum((l * V[l] @ V[12 - l] for l in range(1, 12)), oa.Zero())\n"
        "state = oa.dressed(total, (1 + V[1]) @ oa.state('x')) @ oa.state('y')\n"
        "print(total.digest.hex(), state.digest.hex(), repr(state), [str(t) for _, t in total.terms])"
    )
    assert len({run_python(program, seed=seed) for seed in ("0", "1", "4321")}) == 1


def test_the_order_of_terms_does_not_depend_on_the_order_of_creation():
    first = linear_combination([(1, A), (2, B), (3, C @ A)])
    assert first is linear_combination([(3, C @ A), (1, A), (2, B)])
    assert list(first.terms) == sorted(first.terms, key=lambda pair: pair[1].digest)


@given(states(2))
def test_composition_with_the_identity_changes_no_state(state):
    assert compose(oa.Identity(X), state) is state
