"""Repeated subwords: the order of factors is kept, counts are those of occurrences apart, and abbreviation can be undone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Y, maps, operators

import opalgebra as oa
from opalgebra.atoms import atoms
from opalgebra.expr import Atom, Compose, factors, linear_combination, ordered_product
from opalgebra.rewrite import substitute
from opalgebra.subwords import abbreviate, common_subwords

a, b, c, d = atoms("a b c d", kind="linear")
F, G = atoms("F G", kind="nonlinear")
x = oa.state("x")


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def word(text):
    """The composition of atoms with these letters for names, from left to right."""
    return ordered_product([Atom(letter, kind="linear") for letter in reversed(text)])


def test_the_order_of_the_factors_is_kept():
    assert common_subwords(a @ b @ a @ b) == {a @ b: 2}
    assert common_subwords(a @ b @ b @ a) == {}
    assert common_subwords(a @ b + b @ a) == {}
    assert common_subwords(a @ b @ c + d @ a @ b) == {a @ b: 2}


def test_only_contiguous_factors_are_a_subword():
    assert common_subwords(a @ c @ b + a @ d @ b) == {}
    assert common_subwords(a @ (b + c) @ d + a @ d) == {}


def test_what_always_stands_in_a_longer_repeated_subword_is_left_out():
    assert common_subwords(word("abcdabcd")) == {word("abcd"): 2}
    assert common_subwords(word("abcab") @ F @ word("abc")) == {word("abc"): 2, word("ab"): 3}


def test_overlapping_occurrences_count_once():
    assert common_subwords(a @ a @ a) == {}
    assert common_subwords(a**4) == {a @ a: 2}
    assert common_subwords(word("ababa")) == {a @ b: 2, b @ a: 2}


def test_those_that_save_most_come_first():
    found = common_subwords(word("abab") @ F @ word("abcdcdcd") @ G @ word("cdcd"))
    assert next(iter(found)) == c @ d
    savings = [(times - 1) * (len(factors(subword)) - 1) for subword, times in found.items()]
    assert savings == sorted(savings, reverse=True)


def test_factors_that_are_sums_are_letters_and_are_looked_into():
    assert common_subwords((a + b) @ c + d @ (a + b) @ c) == {(a + b) @ c: 2}
    assert common_subwords(F @ (a @ b + c) @ G @ (1 + a @ b)) == {a @ b: 2}
    assert common_subwords(F @ x + a @ F @ x) == {F @ x: 2}


def test_shared_words_count_as_often_as_they_are_written():
    inner = 1 + a @ b
    assert common_subwords(inner @ inner) == {a @ b: 2}
    assert common_subwords(F @ inner @ F @ inner) == {F @ inner: 2, a @ b: 2}


def test_backgrounds_are_not_entered():
    assert common_subwords(oa.dressed(F, a @ b @ x) @ a @ b) == {}
    letter = oa.dressed(F, x)
    assert common_subwords(letter @ a @ c @ letter @ a) == {letter @ a: 2}


def test_the_least_length_can_be_chosen():
    assert common_subwords(word("abcab") @ F @ word("abc"), min_length=3) == {word("abc"): 2}
    for length in (1, 0, -1, 2.0, True):
        assert refused(oa.InputError, lambda length=length: common_subwords(a, min_length=length)) == (
            f"min_length={length!r}: a repeated subword has at least 2 factors; use a whole number from 2 on"
        )


def test_ten_thousand_factors_are_searched():
    assert next(iter(common_subwords(ordered_product([a, b] * 5000)).values())) > 1
    distinct = ordered_product(oa.Atom(f"V{number}", kind="linear") for number in range(5000))
    assert common_subwords(distinct @ distinct) == {distinct: 2}
    assert common_subwords(distinct) == {}
    definitions, short = abbreviate(distinct @ distinct)
    assert short == oa.Atom("U1", kind="linear") ** 2
    assert definitions == {oa.Atom("U1", kind="linear"): distinct}


def occurrences(text, piece):
    """How often a piece is written in a text without overlaps, from the left."""
    return text.count(piece)


def repeated(texts, minimum=2):
    """Every piece of some texts written twice or more without overlaps, by trying all."""
    pieces = {text[i:j] for text in texts for i in range(len(text)) for j in range(i + minimum, len(text) + 1)}
    counts = {piece: sum(occurrences(text, piece) for text in texts) for piece in pieces}
    return {piece: times for piece, times in counts.items() if times > 1}


texts = st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=3, unique=True)


@given(texts)
def test_subwords_and_counts_are_those_of_trying_all_pieces(found):
    operator = linear_combination((1, word(text)) for text in found)
    listed = {"".join(f.name for f in factors(piece)): times for piece, times in common_subwords(operator).items()}
    expected = repeated(found)
    assert listed.items() <= expected.items()
    for piece, times in expected.items():
        longer = [other for other, count in listed.items() if piece in other and count == times]
        assert longer, piece


@given(operators())
def test_an_abbreviation_is_undone_by_substituting_the_definitions(operator):
    definitions, short = abbreviate(operator)
    assert substitute(short, definitions) is operator
    assert not set(definitions) & set(operator.atoms)
    assert (short.domain, short.codomain, short.is_linear) == (operator.domain, operator.codomain, operator.is_linear)


@given(texts)
def test_every_definition_is_used_and_some_is_made_where_something_is_repeated(found):
    operator = linear_combination((1, word(text)) for text in found)
    definitions, short = abbreviate(operator)
    assert substitute(short, definitions) is operator
    assert bool(definitions) == bool(repeated(found))
    letters = [letter for _, term in oa.expr.terms(short) for letter in factors(term)]
    assert all(letters.count(name) > 1 for name in definitions)


def test_abbreviations_keep_spaces_and_kinds():
    into, out = oa.Atom("P", kind="linear", codomain=Y), oa.Atom("R", kind="nonlinear", domain=Y)
    definitions, short = abbreviate(into @ a @ out @ into @ a @ G @ x + into @ a @ c @ G @ x)
    assert {str(name): str(found) for name, found in definitions.items()} == {"U1": "P @ a", "u1": "G @ x"}
    kinds = {str(name): (name.kind, name.domain, name.codomain) for name in definitions}
    assert kinds == {"U1": ("linear", oa.X, Y), "u1": ("state", oa.ONE, oa.X)}
    assert substitute(short, definitions) == into @ a @ out @ into @ a @ G @ x + into @ a @ c @ G @ x


def test_new_names_avoid_those_in_use_also_in_backgrounds():
    background = oa.Atom("U1", kind="nonlinear") @ x
    definitions, short = abbreviate(oa.dressed(F, background) @ a @ b @ a @ b)
    assert [str(name) for name in definitions] == ["U2"]
    assert substitute(short, definitions) == oa.dressed(F, background) @ a @ b @ a @ b


def test_nothing_repeated_gives_the_operator_and_no_definitions():
    for operator in (a, a @ b, 1 + a @ F @ b, x, oa.Zero()):
        assert abbreviate(operator) == ({}, operator)


@given(maps())
def test_abbreviating_never_makes_an_expression_longer(operator):
    def size(found):
        return sum(len(factors(node)) - 1 for node in oa.expr.postorder(found, backgrounds=False) if isinstance(node, Compose))

    _, short = abbreviate(operator)
    assert size(short) <= size(operator)


def test_planted_sorting_of_factors_is_seen():
    def sorting(operator):
        return common_subwords(word("".join(sorted(letter.name for letter in factors(operator)))))

    assert sorting(a @ a @ b @ b) == common_subwords(a @ a @ b @ b)
    assert sorting(a @ b @ a @ b) != common_subwords(a @ b @ a @ b)
    assert repeated(["abab"]) == {"ab": 2}
