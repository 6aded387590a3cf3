"""Matching: every match puts back the operator, none is missed, the shortest come first, and nothing matches out of order."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BETWEEN, LINEAR, NONLINEAR, Y, maps

import opalgebra as oa
from opalgebra.atoms import atoms
from opalgebra.expr import Compose, factors, ordered_product
from opalgebra.matching import match, matches, wildcard
from opalgebra.rewrite import substitute

A, B, C, D = atoms("A B C D", kind="linear")
F, G = atoms("F G", kind="nonlinear")
W, U = wildcard("W"), wildcard("U")
x, y = oa.state("x"), oa.state("y")


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def put_in(pattern, found):
    """The pattern with what its wildcards stand for."""
    return substitute(pattern.operator, {key.operator: subword for key, subword in found.items()})


def test_a_wildcard_stands_for_one_or_more_contiguous_factors():
    assert match(W @ C, A @ B @ C) == {W: A @ B}
    assert match(A @ W, A @ B @ C) == {W: B @ C}
    assert match(A @ W @ C, A @ B @ B @ C) == {W: B @ B}
    assert match(W @ C, C) is None
    assert match(W @ A, A @ B) is None
    assert match(W, A @ (B + C)) == {W: A @ (B + C)}


def test_the_same_wildcard_stands_for_the_same_operator():
    assert match(W @ A @ W, B @ C @ A @ B @ C) == {W: B @ C}
    assert match(W @ A @ W, B @ C @ A @ C @ B) is None
    assert match(W @ U - U @ W, A @ B - B @ A) is not None
    assert match(W @ U - U @ W, A @ B - A @ C) is None


def test_matches_come_with_the_shortest_subwords_first():
    assert list(matches(W @ U, A @ B @ C)) == [{W: A, U: B @ C}, {W: A @ B, U: C}]
    assert list(matches(W @ W @ U, A @ A @ A @ A @ A)) == [{W: A, U: A @ A @ A}, {W: A @ A, U: A}]


def test_a_pattern_without_wildcards_matches_itself():
    assert match(A @ B, A @ B) == {}
    assert match(A @ B, B @ A) is None
    assert match(A, A @ B) is None


def test_a_factor_that_is_a_sum_is_matched_whole_or_term_by_term():
    assert match(F @ W, F @ (A + B)) == {W: A + B}
    assert match(F @ (W + B), F @ (A + B)) == {W: A}
    assert match(1 + W @ A, 1 + B @ C @ A) == {W: B @ C}
    assert match(1 + W, 1 + A + B) is None
    assert match(2 * W + A, 2 * B + A) == {W: B}
    assert match(2 * W + A, 3 * B + A) is None
    assert match((1 + W) @ (1 + W), (1 + A) @ (1 + A)) == {W: A}
    assert match((1 + W) @ (1 + W), (1 + A) @ (1 + B)) is None


def test_terms_are_matched_in_every_way_and_factors_in_one():
    assert sorted(str(found[W]) for found in matches(W + A @ U, A @ B + A @ C)) == ["A @ B", "A @ C"]
    assert len(list(matches(W + U, A + B))) == 2
    assert len(list(matches(W @ U, A @ B))) == 1


def test_kinds_are_respected():
    L = wildcard("L", kind="linear")
    assert match(L @ C, A @ F @ C) is None
    assert match(L @ W, A @ B @ F) == {L: A, W: B @ F}
    assert match(W @ L, F @ A @ B) == {W: F, L: A @ B}
    assert match(W @ L, A @ F) is None
    N, S = wildcard("N", kind="norm"), wildcard("S", kind="state")
    norm, ffn = oa.Atom("N1", kind="norm"), oa.Atom("F1", kind="ffn")
    assert match(W @ N, ffn @ norm) == {W: ffn, N: norm}
    assert match(W @ N, norm @ ffn) is None
    assert match(N, norm @ norm) is None
    assert match(W @ S, F @ A @ x) == {W: F, S: A @ x}
    assert match(W @ S, F @ A) is None


def test_spaces_are_respected():
    into, out = oa.Atom("P", kind="linear", codomain=Y), oa.Atom("R", kind="linear", domain=Y)
    inner = wildcard("H", domain=Y, codomain=Y)
    assert match(out @ inner @ into, out @ into @ out @ into) == {inner: into @ out}
    assert match(W @ W, out @ into @ out @ into) == {W: out @ into}
    assert match(W, into) is None
    assert match(W @ U, out @ into) is None


def test_backgrounds_are_matched_as_they_are():
    assert match(oa.dressed(F, x) @ W, oa.dressed(F, x) @ A) == {W: A}
    assert match(oa.dressed(F, x) @ W, oa.dressed(F, y) @ A) is None


def test_wildcards_are_combined_as_operators_are():
    assert str(A @ W + 2 * W - W @ A) == str(A @ W.operator + 2 * W.operator - W.operator @ A)
    assert str(-W + 1) == "1 - W"
    assert str(1 - W) == "1 - W"
    assert str(A - W) == "A - W"
    assert repr(A @ W @ U) == "A @ W @ U for any U, W"


def test_a_wildcard_that_cancels_is_none():
    assert match(A + W - W, A) == {}
    assert refused(oa.InputError, lambda: oa.replace(A, A + W - W, W)).startswith(
        "the replacement W has the wildcard W, which A"
    )


def test_a_wildcard_is_never_confused_with_an_operator_of_its_name():
    named = oa.Atom("W", kind="nonlinear")
    assert refused(oa.InputError, lambda: named @ W) == (
        "W is a wildcard and also an operator of the pattern; give the wildcard another name"
    )
    assert refused(oa.InputError, lambda: W + named @ A).startswith("W is a wildcard and also an operator")
    assert match(W @ A, named @ B @ A) == {W: named @ B}
    assert oa.replace(F @ B, F @ W, named) == named
    assert oa.replace(A @ named @ B, A @ W, W @ W) == named @ named @ B
    assert oa.substitute(named, {named: A}) == A


def test_what_is_no_pattern_is_refused():
    assert refused(oa.InputError, lambda: match("W", A)) == "'W' is no pattern; build one from operators and wildcards"
    assert refused(oa.SpaceError, lambda: x @ W) == "x acts on 1, but W maps to X; compose maps whose spaces fit"


def test_ten_thousand_factors_are_matched():
    word = ordered_product([A, *[B] * 9998, C])
    assert match(C @ W @ A, word) == {W: ordered_product([B] * 9998)}
    assert match(W @ U, word)[W] is C
    assert match(word, word) == {}
    assert match(word @ W, word @ D) == {W: D}
    assert match(W @ A @ U, word) is None


def test_a_word_of_wildcards_takes_no_step_in_vain():
    variables = [wildcard(f"W{number}") for number in range(1, 40)]
    pattern = A @ variables[0]
    for variable in variables[1:]:
        pattern = pattern @ variable
    word = A @ ordered_product([B] * 200)
    assert len(match(pattern, word, limit=100)) == 39
    assert match(pattern @ A, word, limit=0) is None


def test_a_search_that_grows_out_of_hand_is_refused():
    letters = ordered_product(oa.family("V", kind="linear")[number] for number in range(200))
    assert refused(oa.LimitError, lambda: match(W @ U @ W, letters, limit=1000)) == (
        "matching W @ U @ W takes more steps than the limit allows; name more factors in the pattern, repeat fewer wildcards, "
        "or pass a larger limit="
    )
    assert match(W @ U @ W, letters, limit=None) is None
    assert match(W @ U @ W, letters) is None


# Against every way of cutting a word


def brute_force(items, letters):
    """Every way to cut `letters` into nonempty pieces for the items, shortest pieces first, by trying all."""

    def cut(items, letters, found):
        if not items:
            return [found] if not letters else []
        first, *later = items
        if first not in "WU":
            return cut(later, letters[1:], found) if letters[:1] == first else []
        answers = []
        for length in range(1, len(letters) + 1):
            if found.get(first, letters[:length]) == letters[:length]:
                answers += cut(later, letters[length:], {**found, first: letters[:length]})
        return answers

    return cut(list(items), letters, {})


NAMES = {"A": A, "B": B, "F": F, "W": W, "U": U}


def product(names):
    first, *others = [NAMES[name] for name in names]
    for other in others:
        first = first @ other
    return first


@given(st.text("ABWU", min_size=1, max_size=5), st.text("ABF", min_size=1, max_size=8))
def test_the_matches_of_a_word_are_all_ways_of_cutting_it(items, letters):
    found = [{key.operator.name: found[key] for key in found} for found in matches(product(items), product(letters))]
    assert found == [{key: product(piece) for key, piece in cut.items()} for cut in brute_force(items, letters)]


@st.composite
def generalised(draw):
    """An operator, and a pattern in which wildcards replace some of its factors."""
    operator = draw(maps())
    chosen = {}
    for atom in operator.atoms:
        if draw(st.booleans()) and atom.domain != oa.ONE and atom in (*LINEAR, *NONLINEAR, *BETWEEN):
            chosen[atom] = wildcard(f"Z_{atom.name}", kind=atom.kind, domain=atom.domain, codomain=atom.codomain)
    return operator, oa.matching.Pattern(
        substitute(operator, {atom: found.operator for atom, found in chosen.items()}),
        frozenset(found.operator for found in chosen.values()),
    )


@given(generalised())
def test_a_pattern_made_from_an_operator_matches_it_and_gives_it_back(example):
    operator, pattern = example
    found = list(islice(matches(pattern, operator), 5))
    assert found
    assert all(put_in(pattern, one) is operator for one in found)


@given(maps(), maps())
def test_a_wildcard_and_a_factor_match_exactly_the_words_that_end_in_it(left, right):
    operator = left @ right
    found = match(W @ A, operator)
    word = factors(operator)
    expected = isinstance(operator, Compose) and word[-1] is A and ordered_product(reversed(word[:-1])).domain == oa.X
    assert (found is not None) == expected
    if found is not None:
        assert found[W] @ A is operator


def test_planted_matching_out_of_order_is_seen():
    def unordered(items, letters):
        return sorted(items) == sorted(letters)

    assert unordered("AB", "BA")
    assert match(product("AB"), product("BA")) is None
    assert brute_force("AB", "BA") == []
