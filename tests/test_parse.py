"""Text to operator and back: round trips, refusals word by word, and input of any size and depth without recursion."""

from fractions import Fraction
from string import printable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import operators, states

import opalgebra as oa
from opalgebra.atoms import atoms
from opalgebra.errors import OpalgebraError
from opalgebra.expr import linear_combination, ordered_product, terms
from opalgebra.parse import MAX_LENGTH, parse
from opalgebra.space import ONE, K, Space, X

A, B, C = atoms("A B C", kind="linear")
F, G = atoms("F G", kind="nonlinear")
x, y = oa.state("x"), oa.state("y")
Y = Space("hidden")
DEEP = 100_000


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


# Round trips


@given(st.one_of(operators(), states(4)))
def test_what_repr_prints_is_read_back_to_an_equal_operator(operator):
    assert parse(repr(operator)) is operator


@given(st.one_of(operators(), states(4)))
def test_what_str_prints_is_read_back_with_the_atoms(operator):
    if operator.domain != operator.codomain or operator.atoms or operator.domain == X:
        assert parse(str(operator), atoms=operator.atoms) is operator


@given(st.text(alphabet="Vab_01λ²٣é", min_size=1, max_size=8), st.sampled_from(["linear", "nonlinear", "attention"]))
def test_any_name_that_an_atom_accepts_is_read_back(name, kind):
    try:
        atom = oa.Atom(name, kind=kind)
    except oa.InputError:
        return
    assert parse(repr(atom)) is atom
    assert parse(f"2*{atom} @ {atom}", atoms=[atom]) is 2 * atom @ atom


@given(st.fractions())
def test_any_fraction_is_read_back(value):
    assert parse(repr(value * A)) is value * A
    assert parse(repr(value + A)) is value + A


def test_a_float_is_read_back_at_its_exact_binary_value():
    assert parse(repr(0.1 * A)) is 0.1 * A
    assert parse(repr(5e-324 * A + 1.7e308 * B)) is 5e-324 * A + 1.7e308 * B


def test_the_states_of_a_transformer_and_their_series_are_read_back():
    T = oa.transformer(3, heads=2)
    for operator in (T.operator, T.x[6], T.dyson()[2], T.dyson(counting="ffn")[1], oa.expand(T.x[3]).rhs):
        assert parse(repr(operator)) is operator
        assert parse(str(operator), atoms=operator.atoms) is operator


# Grammar


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A", A),
        ("  A\n@\tB ", A @ B),
        ("A @ B @ C", A @ B @ C),
        ("(A @ B) @ C", A @ B @ C),
        ("A @ (B @ C)", A @ B @ C),
        ("A + B - C", A + B - C),
        ("-A + B", B - A),
        ("+A", A),
        ("A - (B - C)", A - B + C),
        ("-(A + B)", -(A + B)),
        ("-(A - (B - (C - 1)))", -A + B - C + 1),
        ("-((-A))", A),
        ("(A + 1) - (1 - B)", A + B),
        ("2*(A - (B + 1)) - (A)", A - 2 * B - 2),
        ("(1 + 1) @ A - (2*A)", oa.Zero()),
        ("2*A @ B", 2 * (A @ B)),
        ("2*(A + B)", 2 * A + 2 * B),
        ("1/2*A", Fraction(1, 2) * A),
        ("2/4*A", Fraction(1, 2) * A),
        ("0.1*A", Fraction(1, 10) * A),
        ("0*A", oa.Zero()),
        ("1 + A", 1 + A),
        ("A + 1 - 2", A - 1),
        ("1/2 - A", Fraction(1, 2) - A),
        ("2 @ A", 2 * A),
        ("A @ 2", A @ (2 * oa.Identity())),
        ("(1 + B) @ (1 + A)", (1 + B) @ (1 + A)),
        ("1", oa.Identity()),
        ("0", oa.Zero()),
        ("3 - 1", 2 * oa.Identity()),
        ("A - A", oa.Zero()),
        ("A @ 1", A),
        ("1 - 1 + A", A),
    ],
)
def test_expressions_with_linear_names(written, meant):
    assert parse(written, kind="linear") is meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("F<x> @ x where F: nonlinear, x: state", oa.dressed(F, x) @ x),
        ("source(F, x) where F: nonlinear, x: state", oa.source(F, x)),
        ("F<x1> where x1 = (1 + G) @ x, F, G: nonlinear, x: state", oa.dressed(F, (1 + G) @ x)),
        ("F<s> where F, G: nonlinear, x: state, s = G @ t, t = x", None),
        ("one(hidden)", oa.Identity(Y)),
        ("one(positions*features)", oa.Identity()),
        ("one(X)", oa.Identity()),
        ("one(K)", oa.Identity(K)),
        ("zero(1, X)", oa.Zero(ONE, X)),
        ("zero(X, hidden)", oa.Zero(X, Y)),
        ("E where E: linear X -> hidden", oa.Atom("E", kind="linear", codomain=Y)),
        ("h where h: state hidden", oa.state("h", codomain=Y)),
        ("1 + D where D: linear hidden -> hidden", 1 + oa.Atom("D", kind="linear", domain=Y, codomain=Y)),
        ("A<x> where A: linear, x: state", A),
        ("A1 where A1: attention", oa.Atom("A1", kind="attention")),
        ("where1 @ one2 where where1, one2: linear", oa.Atom("where1", kind="linear") @ oa.Atom("one2", kind="linear")),
    ],
)
def test_declarations_dressings_and_definitions(written, meant):
    if meant is None:
        assert refused(oa.InputError, lambda: parse(written)).startswith("t is not declared")
    else:
        assert parse(written) is meant


def test_declarations_may_follow_definitions_that_use_them():
    assert parse("F<t> where t = G @ x, x: state, F, G: nonlinear") is oa.dressed(F, G @ x)


def test_given_atoms_win_over_the_default_kind():
    assert parse("F @ A", atoms=[F], kind="linear") is F @ A


def test_a_declaration_in_the_text_wins_over_a_given_atom():
    assert parse("A where A: nonlinear", atoms=[A]) is oa.Atom("A", kind="nonlinear")


# Refusals word by word

END = "the expression ends too early; write it as in A @ (1 + B)"


def from_character(place, found):
    return f"the expression makes no sense from character {place} on ({found!r}); write it as in A @ (1 + B)"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", END),
        ("   ", END),
        ("A @", END),
        ("(A", END),
        ("A +", END),
        ("F<x", END),
        ("A where", END),
        ("A where A:", END),
        ("A $ B", from_character(3, "$ B")),
        ("A @@ B", from_character(4, "@ B")),
        ("A B", from_character(3, "B")),
        (
            "A * B",
            "'*' multiplies by a scalar, and A is none; write 2*A, or A @ B, or declare a parameter by 'where A: real'",
        ),
        ("2 A", from_character(3, "A")),
        ("A)", from_character(2, ")")),
        ("()", from_character(2, ")")),
        ("A ** 2", from_character(4, "* 2")),
        ("1/0*A", from_character(2, "/0*A")),
        ("A = B", from_character(3, "= B")),
        ("A; B", from_character(2, "; B")),
        ("@ A", from_character(1, "@ A")),
        ("A + + B", from_character(5, "+ B")),
        ("3V", from_character(2, "V")),
        ("one()", from_character(5, ")")),
        ("(1 + A) @ (1 + B) % and the rest of a long text", from_character(19, "% and the re")),
        ("__import__('os').system('true')", from_character(11, "('os').syste")),
        ("A.__class__", from_character(2, ".__class__")),
        ("lambda: A", from_character(7, ": A")),
        ("[A for A in ()]", from_character(1, "[A for A in ")),
    ],
)
def test_text_that_makes_no_sense_is_refused_with_its_place(written, message):
    assert refused(oa.InputError, lambda: parse(written, kind="linear")) == message


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ("B", oa.InputError, "B is not declared; add 'where B: linear' to the text or pass atoms="),
        (
            "A where A: bosonic",
            oa.InputError,
            "A: the kind 'bosonic' is unknown; use one of linear, nonlinear, state, attention, ffn, norm",
        ),
        (
            "A @ A where A: linear, A: nonlinear",
            oa.InputError,
            "A is declared 2 times; a text has one meaning for a name, so rename one of them",
        ),
        (
            "A where A = B, A, B: linear",
            oa.InputError,
            "A is declared 2 times; a text has one meaning for a name, so rename one of them",
        ),
        (
            "A where A: linear 2 -> X",
            oa.SpaceError,
            "the factors of a space are named by identifiers, not by ('2',); rename them",
        ),
        (
            "one(1)",
            oa.SpaceError,
            "an identity of the one-point space was asked, but that is no space of vectors; use a state",
        ),
        (
            "A @ h where A: linear, h: state hidden",
            oa.SpaceError,
            "A acts on X, but h maps to hidden; compose maps whose spaces fit",
        ),
        (
            "A + x where A: linear, x: state",
            oa.SpaceError,
            "x maps 1 to X and cannot be added to a map from X to X; the spaces of a sum are equal",
        ),
        (
            "1 + x where x: state",
            oa.SpaceError,
            "1 in a sum is 1 times the identity, but x maps 1 to X; add an operator or state with these spaces",
        ),
        (
            "A<B> where A, B: linear",
            oa.SpaceError,
            "A was to be dressed by B, which maps X to X; a background is a state: apply the map to a state first",
        ),
    ],
)
def test_text_that_names_nothing_is_refused_as_the_expression_would_be(written, error, message):
    assert refused(error, lambda: parse(written)) == message


def test_two_given_atoms_with_one_name_are_refused():
    other = oa.Atom("A", kind="nonlinear")
    message = "A is declared 2 times; a text has one meaning for a name, so rename one of them"
    assert refused(oa.InputError, lambda: parse("A", atoms=[A, other])) == message
    assert parse("A", atoms=[A, A]) is A
    assert refused(oa.InputError, lambda: parse(repr(A @ other))) == message


TOKENS = [*"AFxB()<>@+-*/.,=:", "1", "2", "1/2", "0", "where", "source", "one", "zero", "linear", "state", "->", "X", "K"]


@given(st.lists(st.sampled_from(TOKENS), max_size=14).map(" ".join))
def test_any_sequence_of_tokens_is_read_or_refused_in_one_line(written):
    try:
        assert parse(written, atoms=[A, F, x]) is not None
    except OpalgebraError as error:
        assert "\n" not in str(error)


@given(st.text(alphabet=printable, max_size=40))
def test_any_printable_text_is_read_or_refused_in_one_line(written):
    try:
        assert parse(written, kind="linear") is not None
    except OpalgebraError as error:
        assert "\n" not in str(error)


# Size and depth


def test_a_text_beyond_the_limit_is_refused_at_once():
    assert refused(oa.InputError, lambda: parse("A" * (MAX_LENGTH + 1))) == (
        "the text has 1,000,001 characters; at most 1,000,000 are read"
    )


def test_a_hundred_thousand_brackets_are_read():
    assert parse("(" * DEEP + "A" + ")" * DEEP, kind="linear") is A


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("(" * DEEP, END),
        ("(" * DEEP + "A", END),
        ("F<" * DEEP, END),
        ("A" + ")" * DEEP, from_character(2, ")" * 12)),
        ("-" * DEEP, from_character(2, "-" * 12)),
    ],
    ids=["open", "unclosed", "dressings", "closed", "signs"],
)
def test_deep_nonsense_is_one_refusal(written, message):
    assert refused(oa.InputError, lambda: parse(written, kind="linear")) == message


def test_a_product_in_any_grouping_is_read_in_one_pass():
    many = 20_000
    assert parse("(" * many + "A" + " @ B)" * many, kind="linear") is ordered_product([*[B] * many, A])
    assert parse("A @ (" * many + "B" + ")" * many, kind="linear") is ordered_product([B, *[A] * many])


def test_a_sum_in_any_grouping_is_read_in_one_pass():
    V = oa.family("V", kind="linear")
    flat = linear_combination((1, V[n]) for n in range(2_000))
    left = "(" * 2_000 + "0" + "".join(f" + V{n})" for n in range(2_000))
    right = "".join(f"V{n} + (" for n in range(2_000)) + "0" + ")" * 2_000
    assert parse(left, kind="linear") is flat
    assert parse(right, kind="linear") is flat
    assert parse("A - (" * 20_000 + "B" + ")" * 20_000, kind="linear") is B


def test_deeply_nested_sums_are_read():
    nested = parse("F @ (1 + " * 5_000 + "A" + ")" * 5_000, atoms=[F, A])
    assert len(list(nested.atoms)) == 2
    assert parse(str(nested), atoms=nested.atoms) is nested


def test_deeply_nested_dressings_are_read():
    background = parse("(F<" * 3_000 + "x" + "> @ x)" * 3_000, atoms=[F, x])
    assert background.is_state
    assert parse(repr(background)) is background


def test_a_sum_of_many_terms_is_read_in_one_pass():
    V = oa.family("V", kind="linear")
    many = parse(" + ".join(f"V{n}" for n in range(10_000)), kind="linear")
    assert many is linear_combination((1, V[n]) for n in range(10_000))
    assert len(terms(many)) == 10_000


def test_numbers_and_names_of_any_length_are_read_or_refused():
    assert parse("9" * 1000 + "*A", kind="linear") is (10**1000 - 1) * A
    assert refused(oa.InputError, lambda: parse("9" * 1001 + "*A", kind="linear")) == from_character(1001, "9*A")
    assert "a name has at most 200" in refused(oa.InputError, lambda: parse("V" + "1_" * 100_000 + "x", kind="linear"))


def test_reading_never_evaluates(monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("text was evaluated")

    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr("builtins." + name, forbidden)
    assert parse("F<x> @ (1/2*x + A @ x) where F: nonlinear, A: linear, x: state") is oa.dressed(F, x) @ (0.5 * x + A @ x)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("g*A where A: linear", "g"),
        ("A + 2*g*A where A: linear", "g"),
        ("(1 - 2*g)*A where A: linear", "g"),
        ("((1 + g)*h)*A where A: linear, h: real", "g"),
        ("g^2*A where A: linear", "g"),
        ("2 + g^-1 where A: linear", "g"),
        ("A @ x where A: linear, x = g*y, y: state", "g"),
    ],
)
def test_an_unknown_name_where_a_scalar_stands_is_to_be_declared_as_real(written, name):
    message = refused(oa.InputError, lambda: parse(written))
    assert message == f"{name} is not declared; add 'where {name}: real' to the text or pass atoms="
    declared = f"{written}, {name}: {'positive' if '-1' in written else 'real'}"
    assert oa.parameter(name).symbols <= parse(declared).symbols or "positive" in declared


def test_an_unknown_name_where_an_operator_stands_is_to_be_declared_as_linear():
    for written in (
        "B @ A where A: linear",
        "2*B where A: linear",
        "g*(A + B) where A: linear, g: real",
        "B + 1 where A: linear",
    ):
        assert refused(oa.InputError, lambda: parse(written)).startswith("B is not declared; add 'where B: linear'")  # noqa: B023
