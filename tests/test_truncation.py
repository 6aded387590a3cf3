"""Truncations, exponentials and logarithms by one or several grades, against exact matrices and the whole expansion."""

from fractions import Fraction
from importlib import import_module
from random import Random

import pytest
from triangular import exponential, logarithm, random_matrix, value

import opalgebra as oa
from opalgebra.expr import Zero, factors, terms

module = import_module("opalgebra.truncation")
A, B, C = oa.atoms("A B C", kind="linear")
F = oa.Atom("F", kind="nonlinear")
T = oa.transformer(layers=2, heads=2)
S = T.dyson()


def dressed_product():
    """The product of a Transformer's stages, each dressed by the state before it, and its letters."""
    return oa.ordered_product(1 + S.dressed_vertex(stage, stage.maps) for stage in S.stages if stage.maps)


def vertices(word, kind):
    return sum(str(letter.operator.kind) == kind for letter in factors(word) if hasattr(letter, "operator"))


@pytest.mark.parametrize("order", [{"attention": 1, "ffn": 2}, {"attention": 2, "ffn": 0}, {"ffn": 1}, {"attention": 0}])
def test_several_grades_at_once_are_those_of_the_whole_expansion(order):
    assert wrong_words(order) is False


def wrong_words(order):
    product = dressed_product()
    whole = oa.expand(product).rhs
    kept = [(c, word) for c, word in terms(whole) if all(vertices(word, kind) <= most for kind, most in order.items())]
    assert 0 < len(kept) < len(terms(whole))
    return set(terms(oa.truncation(product, order=order))) != set(kept)


def test_norms_never_count_and_heads_can_be_chosen():
    product = dressed_product()
    single = [term for _, term in terms(oa.expand(product).rhs) if vertices(term, "attention") + vertices(term, "ffn") == 1]
    assert oa.truncation(product, order=1) == 1 + sum(single, start=0 * A)
    chosen = oa.truncation(product, order={lambda vertex: vertex.head == 1: 0, "ffn": 0})
    letters = {letter.operator for _, word in terms(chosen) for letter in factors(word) if hasattr(letter, "operator")}
    assert {letter.head for letter in letters if letter.kind == "attention"} == {0}
    assert not [letter for letter in letters if letter.kind == "ffn"]


@pytest.mark.parametrize("order", range(6))
def test_exponentials_and_logarithms_of_exact_matrices(order):
    random, size = Random(order), order + 1
    of = {name: random_matrix(random, size) for name in (A, B, C)}
    exponent = A - Fraction(2, 3) * B + C @ A
    product = (1 + A) @ (1 - 2 * B) @ (1 + B @ C + A)
    assert value(oa.exponential(exponent, order=order), of, size) == exponential(value(exponent, of, size))
    assert value(oa.logarithm(product, order=order), of, size) == logarithm(value(product, of, size))
    assert oa.logarithm(oa.exponential(exponent, order=order), order=order) == oa.truncation(exponent, order=order)


def test_small_cases():
    assert oa.exponential(0 * A, order=3) == oa.Identity()
    assert oa.logarithm(1 + 0 * A, order=3) == Zero()
    assert oa.truncation(A, order=0) == Zero()
    assert oa.truncation(3 + A, order=0) == 3 * oa.Identity()
    R = oa.Atom("R", kind="linear", domain=oa.FEATURES)
    inverse = oa.inverse(1 + oa.Atom("Q", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES))
    assert oa.truncation((1 + A) @ R @ inverse, order=2) == R @ inverse


def test_what_they_refuse():
    V, R = oa.family("V", kind="linear"), oa.Atom("R", kind="linear", domain=oa.FEATURES)
    deep = oa.ordered_product(1 + V[k] for k in range(64))
    for error, act, text in (
        (oa.NotLinearError, lambda: oa.truncation(A + F, order=1), "not known to be linear, and a truncation needs it"),
        (oa.NotLinearError, lambda: oa.exponential(F, order=1), "and an exponential needs it to be"),
        (oa.NotLinearError, lambda: oa.logarithm(1 + F, order=1), "and a logarithm needs it to be"),
        (oa.InputError, lambda: oa.truncation(A, order=-1), "order=-1: a truncation goes up to a natural number"),
        (oa.InputError, lambda: oa.truncation(A, order={"heads": 1}), "counting='heads' is unknown"),
        (oa.InputError, lambda: oa.truncation(A, order={"all": None}), "goes up to a natural number"),
        (oa.InputError, lambda: oa.logarithm(A, order=1), "the logarithm of a sum with the constant 0 was asked"),
        (oa.InputError, lambda: oa.exponential(1 + A, order=2), "has powers that the cut (2,) never ends"),
        (oa.InputError, lambda: oa.exponential(A, order={"attention": 2}), "has powers that the cut (2,) never ends"),
        (oa.InputError, lambda: oa.truncation(oa.parameter("g") * A, order=1), "has a symbol; give it a value"),
        (oa.SpaceError, lambda: oa.exponential(R, order=1), "maps of one space"),
        (oa.LimitError, lambda: oa.truncation(deep, order=32), "words, which take"),
        (oa.LimitError, lambda: oa.truncation(deep, order=1, limit=64), "forms 65 words"),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            act()
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_planted_mistake_is_seen(monkeypatch):
    """Counting with the predicates of the gradings exchanged."""
    real = module.counter
    other = {"attention": "ffn", "ffn": "attention"}
    monkeypatch.setattr(module, "counter", lambda counting: real(other[counting]))
    assert wrong_words({"attention": 1, "ffn": 2})
