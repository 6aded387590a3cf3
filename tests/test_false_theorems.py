"""Ways to false equations that were open once, and certificates that cost too much: each is refused or true."""

import json
from operator import add

import pytest
from meaning import counterexample

import opalgebra as oa
from opalgebra import kernel
from opalgebra.scalar import the_symbol

V, W = oa.family("V", kind="linear"), oa.family("W", kind="linear")
A, B = oa.atoms("A B", kind="linear")
i, j, l, n, m, t, J, L, M = map(oa.symbol, ["i", "j", "l", "n", "m", "t", "J", "L", "M"])
BOUND = oa.indexed_sum(V[l], l, 1, L).body.indices[0]
CAPTURED = "has an index that a product or sum binds"


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def test_an_ordered_sum_of_more_places_than_there_are_is_zero_only_where_one_is_chosen():
    words = oa.ordered_sum(V[l], l, J - 1, j)
    assert oa.instantiate(words, {j: 0, J: 0}) is oa.Identity()
    assert oa.ordered_sum(V[l], l, J - 1, J) is not oa.Zero()
    assert oa.ordered_sum(V[l], l, J, J + 1) is oa.Zero() and oa.ordered_sum(V[l], l, J - 1, J + 1) is oa.Zero()
    theorem = kernel.unfold(oa.indexed_sum(words, j, 0, J))
    for length in range(4):
        found = kernel.instantiate(theorem, {J: length})
        assert counterexample(found.lhs, found.rhs) is None
        assert counterexample(theorem.lhs, theorem.rhs, environment={"J": length}) is None


def test_what_holds_for_every_index_is_not_used_where_the_index_may_be_negative():
    fact = oa.Every(oa.indexed_sum(A, l, 0, i), (i + 1) * A, i)
    assert refused(oa.InputError, lambda: kernel.assume(fact, t - 5)).endswith(
        "was to be used at t - 5, which may be negative; an index is a natural number"
    )


def at_bound_index():
    grown = kernel.cong(add, kernel.unfold(oa.indexed_sum(W[l, n], l, 1, L + 1)), -oa.indexed_sum(W[l, n], l, 1, L))
    return kernel.instantiate(kernel.under(grown, oa.indexed_sum(A, m, 1, M), the_symbol(m)), {n: BOUND})


def in_place_of_the_index_of_a_fact():
    fact = oa.Every(W[i, n], oa.Zero(), i)
    return kernel.instantiate(kernel.assume(fact, 3), {fact.index: n})


@pytest.mark.parametrize(
    "act",
    [
        at_bound_index,
        in_place_of_the_index_of_a_fact,
        lambda: kernel.assume(oa.Every(oa.indexed_sum(W[l, i], l, 1, L), oa.Zero(), i), BOUND),
        lambda: kernel.instantiate(kernel.refl(W[l, n]), {W: lambda p, q: V[p + BOUND]}),
        lambda: oa.instantiate(oa.indexed_sum(W[l, n], l, 1, L), {n: BOUND}),
        lambda: kernel.under(kernel.refl(A), oa.indexed_sum(V[l], l, 1, L), the_symbol(BOUND)),
    ],
)  # fmt: skip
def test_an_index_that_is_bound_is_no_value(act):
    assert CAPTURED in refused(oa.InputError, act)


def test_a_bound_index_is_no_bound_and_no_shift():
    total = oa.indexed_sum(V[l], l, 1, L)
    assert "have the index that it binds" in refused(oa.InputError, lambda: oa.ordered_product(V[l], l, 1, BOUND))
    assert "a shift is an integer" in refused(oa.InputError, lambda: kernel.reindex(total, -BOUND))


def test_a_nonlinear_map_of_scalars_is_no_block_of_a_tensor_product():
    F = oa.Atom("F", kind="nonlinear", domain=oa.K, codomain=oa.K)
    for total in (oa.trace(A) + oa.trace(B), oa.tensor(oa.trace(A), oa.trace(A)) + oa.trace(B)):
        theorem = kernel.right_dist(total, F)
        assert not theorem.rhs.is_linear
        assert counterexample(theorem.lhs, theorem.rhs) is None


def test_a_body_on_another_space_than_the_line_is_refused():
    scalar = kernel.refl(oa.Atom("a", kind="linear", domain=oa.K, codomain=oa.K))
    words = oa.ordered_sum(V[l], l, L, n, W[l])
    assert "cannot stand where a was not chosen" in refused(oa.SpaceError, lambda: kernel.under(scalar, words, the_symbol(m)))


X = ["positions", "features"]


def scalar(*powers, factor=1):
    return [[str(factor), [[name, "natural", exponent] for name, exponent in powers]]]


def atom(base, *indices):
    return ["Atom", base, list(indices), "linear", X, X]


def summed(name, exponent):
    atoms = [atom("V", scalar((name, exponent), factor=factor)) for factor in (1, 2, 3)]
    return [*atoms, ["Sum", [["1", place] for place in range(3)]]]


LONG = [["1", [["x", "natural", exponent]]] for exponent in range(1, 500)]
COSTLY = {
    "an index to a huge power": [
        atom("V", scalar(("#1", 99_999_999_999))),
        ["IndexedSum", 0, 1, "2", [*scalar(("n", 1)), ["2", []]]],
        ["unfold", 1, True],
    ],
    "a shift of high powers": [
        *summed("#1", 999), ["IndexedSum", 3, 1, "1", scalar(("n", 1))], ["reindex", 4, -1],
    ],
    "products of long values": [
        *[atom("V", scalar(("L", 1), ("M", 1), factor=factor)) for factor in range(1, 6)],
        ["Sum", [["1", place] for place in range(5)]], ["refl", 5],
        ["instantiate", 6, [[scalar(("L", 1)), LONG], [scalar(("M", 1)), LONG]]],
    ],
    "a distance to a high power": [
        *summed("d", 999), ["refl", 3], atom("A"), ["IndexedSum", 5, 1, "0", scalar(("n", 1))],
        ["under", 4, 6, scalar(("i", 1)), scalar(("d", 1))],
    ],
}  # fmt: skip


@pytest.mark.parametrize("rows", COSTLY.values(), ids=COSTLY)
def test_a_certificate_with_costly_scalars_is_refused_before_they_are_computed(rows):
    text = json.dumps({"format": "opalgebra certificate", "version": 1, "rows": rows})
    message = refused(oa.errors.LimitError, lambda: oa.check(text))
    assert "too many steps" in message or "more than 1,000 digits" in message
