"""Products and sums over an index: what they mean at every length, that indices are bound, and how they print."""

import pickle
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meaning import Interpretation, counterexample

import opalgebra as oa
from opalgebra import kernel
from opalgebra.expr import Compose, at, compose
from opalgebra.facts import Equal
from opalgebra.indexed import IndexedSum, OrderedProduct, OrderedSum
from opalgebra.kernel import assume, cong, induction, refl, sym, trans, under
from opalgebra.parse import parse
from opalgebra.render.latex import latex
from opalgebra.render.text import unicode
from opalgebra.scalar import Symbol
from opalgebra.space import ONE, X

l, m, n, L, M = map(oa.symbol, "l m n L M".split())
g, p = oa.parameter("g"), oa.parameter("p", positive=True)
V, W = oa.family("V", kind="linear"), oa.family("W", kind="linear")
F, y = oa.family("F", kind="nonlinear"), oa.family("y", kind="state")
x = oa.state("x")
A = oa.Atom("A", kind="linear")
C = oa.Atom("C", kind="nonlinear")


def natural(name):
    return Symbol(name, "natural")


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def differs(lhs, rhs, **lengths):
    return counterexample(lhs, rhs, environment={"g": 5, "L": 3, "M": 2, "l": 4, "n": 2, "m": 1, **lengths})


bodies = st.sampled_from(
    [
        V[l],
        1 + V[l],
        1 + F[l],
        F[l],
        F[l] @ V[l + 1],
        2 * V[l] - l * A,
        g * F[l] + C,
        A,
        C @ (1 + V[l]),
        V[l] @ F[l] @ C,
        V[M] @ F[l],
    ]
)
bounds = st.sampled_from([0, 1, 2, L, L + 1, L - 1, M, 2 * M, L + M])
lowers = st.sampled_from([0, 1, 2, L, M, M + 1])
lengths = st.fixed_dictionaries({"L": st.integers(0, 4), "M": st.integers(0, 3)})
linear_bodies = st.sampled_from([V[l], 1 + V[l], V[l + 1] @ A, 2 * V[l] - l * A, g * V[l], A])


@st.composite
def indexed(draw):
    """A product or sum over an index, nested in some."""
    body = draw(bodies)
    if draw(st.booleans()):
        inner = draw(st.sampled_from([oa.ordered_product(1 + F[m], m, 1, l), oa.indexed_sum(V[m], m, l, L)]))
        body = body @ inner if draw(st.booleans()) else body + inner
    if draw(st.booleans()):
        return oa.ordered_product(body, l, draw(lowers), draw(bounds))
    return oa.indexed_sum(body, l, draw(lowers), draw(bounds))


# Meaning


@given(bodies, lowers, bounds, lengths)
@settings(max_examples=60)
def test_a_product_or_sum_means_its_factors_or_terms_written_out(body, lower, upper, values):
    model, point = Interpretation(3), Interpretation(3).point(X, 0)
    known = {"g": 5, "n": 2, "m": 1, **values}
    first, last = (int(at_number(bound, known)) for bound in (lower, upper))
    product, total = point, (0, 0)
    for index in range(first, last + 1):
        product = model.value(body, product, {**known, "l": index})
        term = model.value(body, point, {**known, "l": index})
        total = tuple((a + b) % 2_147_483_647 for a, b in zip(total, term))
    assert model.value(oa.ordered_product(body, l, lower, upper), point, known) == product
    assert model.value(oa.indexed_sum(body, l, lower, upper), point, known) == total


def at_number(bound, known):
    return bound if isinstance(bound, int) else bound.at({natural(name): value for name, value in known.items()})


@given(indexed(), lengths)
@settings(max_examples=60)
def test_numbers_for_lengths_give_what_the_symbols_mean(operator, values):
    written = at(operator, {natural(name): oa.symbol("l") * 0 + value for name, value in values.items()})
    assert {found.name for found in written.symbols} <= {"g", "l"}
    assert counterexample(operator, written, environment={"g": 5, "l": 2, **values}) is None


@given(indexed(), lengths)
@settings(max_examples=40)
def test_distribution_and_dressing_hold_around_indexed_operators(operator, values):
    known = {"g": 5, "l": 2, **values}
    for side in (oa.expand((operator + A) @ (1 + operator)), oa.expand(operator @ x), oa.expand((1 + C) @ operator @ x)):
        assert counterexample(side.lhs, side.rhs, environment=known) is None


def test_the_expansion_of_a_nonlinear_product_on_a_state_is_linear_in_the_state():
    theorem = oa.expand(oa.ordered_product(1 + F[l], l, 1, L) @ x)
    assert differs(theorem.lhs, theorem.rhs) is None
    for _, term in theorem.rhs.terms:
        assert term.is_state
        assert isinstance(term, IndexedSum) or (isinstance(term, Compose) and term.left.is_linear and term.right is x)


def test_planted_error_of_dressing_every_factor_by_the_first_state_is_found():
    theorem = oa.expand(oa.ordered_product(1 + F[l], l, 1, L) @ x)
    wrong = oa.ordered_product(1 + oa.dressed(F[l], x), l, 1, L) @ x
    right = next(term for _, term in theorem.rhs.terms if isinstance(term, Compose))
    assert differs(theorem.lhs, theorem.rhs - right + wrong) is not None


@pytest.mark.parametrize("order", [0, 1, 2, 3, n, n + 1, L])
@pytest.mark.parametrize("length", [0, 1, 3, 4])
def test_an_ordered_sum_means_every_increasing_word(order, length):
    total = oa.ordered_sum(1 + V[l], l, L, order)
    known = {"L": length, "n": 2}
    assert differs(total, total, **known) is None
    size = order if isinstance(order, int) else int(at_number(order, known))
    words = [()]
    for index in range(1, length + 1):
        words += [(*word, index) for word in words]
    explicit = 0 * A
    for word in words:
        if len(word) == size:
            explicit = explicit + oa.ordered_product([1 + V[index] for index in word], space=X)
    assert differs(total, explicit, **known) is None


# Bound indices


def test_expressions_that_differ_in_bound_names_alone_are_one_object():
    assert oa.ordered_product(1 + V[l], l, 1, L) is oa.ordered_product(1 + V[m], m, 1, L)
    assert oa.indexed_sum(V[l] @ oa.indexed_sum(V[m], m, 1, l), l, 1, L) is oa.indexed_sum(
        V[n] @ oa.indexed_sum(V[l], l, 1, n), n, 1, L
    )
    assert oa.indexed_sum(V[l] @ W[m], l, 1, L) is not oa.indexed_sum(V[m] @ W[m], m, 1, L)


def test_a_bound_index_is_no_symbol_of_the_operator():
    assert oa.indexed_sum(V[l] @ W[m], l, 1, L).symbols == {natural("m"), natural("L")}


def test_a_free_symbol_is_never_captured():
    inner = oa.indexed_sum(V[l] @ W[m], l, 1, L)
    renamed = at(inner, {natural("m"): l})
    assert renamed is oa.indexed_sum(V[n] @ W[l], n, 1, L)
    assert renamed is not oa.indexed_sum(V[l] @ W[l], l, 1, L)
    outer = oa.indexed_sum(inner, m, 1, L)
    assert outer is oa.indexed_sum(oa.indexed_sum(V[l] @ W[n], l, 1, L), n, 1, L)
    assert differs(outer, oa.indexed_sum(V[l], l, 1, L) @ oa.indexed_sum(W[l], l, 1, L)) is None


def test_two_symbols_are_never_assumed_to_differ():
    assert V[l] @ W[m] != W[m] @ V[l]
    both = at(V[l] - V[m], {natural("l"): n, natural("m"): n})
    assert both == oa.Zero()


def test_nodes_written_out_inside_give_the_same_object_as_writing_them_out_first():
    symbolic = oa.indexed_sum(oa.ordered_product(1 + V[m], m, 1, M) @ W[l], l, 1, L)
    direct = oa.indexed_sum(oa.ordered_product(1 + V[m], m, 1, 2) @ W[l], l, 1, L)
    assert at(symbolic, {natural("M"): oa.symbol("l") * 0 + 2}) is direct


# Bounds


def test_bounds_that_differ_by_a_number_are_written_out():
    assert oa.ordered_product(1 + V[l], l, 1, 3) == (1 + V[3]) @ (1 + V[2]) @ (1 + V[1])
    assert oa.ordered_product(V[l], l, L, L + 1) == V[L + 1] @ V[L]
    assert oa.ordered_product(V[l], l, L + 1, L) == oa.Identity()
    assert oa.indexed_sum(V[l], l, 1, 0) == oa.Zero()
    assert oa.indexed_sum(y[l], l, 1, 2) == y[1] + y[2]
    assert oa.ordered_sum(V[l], l, L, 0) == oa.Identity()
    assert oa.ordered_sum(V[l], l, L, L + 1) == oa.Zero()
    assert isinstance(oa.ordered_sum(V[l], l, 96, 3), OrderedSum)


def test_the_first_factor_acts_first_in_the_list_form_too():
    assert oa.ordered_product(1 + V[index] for index in (1, 2)) == (1 + V[2]) @ (1 + V[1])
    assert oa.ordered_product([], space=X) == oa.Identity()


def test_counts_are_polynomials_in_the_length():
    assert str(oa.binomial(L, 3)) == "1/6*L^3 - 1/2*L^2 + 1/3*L"
    assert [oa.binomial(L, 2).at({natural("L"): value}) for value in range(5)] == [0, 0, 1, 3, 6]
    assert oa.binomial(5, 2) == 10


@pytest.mark.parametrize(
    ("error", "act", "message"),
    [
        (
            oa.InputError,
            lambda: oa.ordered_product(1 + V[l]),
            "an ordered product of one body needs its index and bounds; write ordered_product(1 + V[l], l, 1, L)",
        ),
        (
            oa.InputError,
            lambda: oa.ordered_product(1 + V[l], l, 1, l),
            "the bounds 1, l contain the index l itself; use another symbol",
        ),
        (
            oa.InputError,
            lambda: oa.indexed_sum(V[l], l + 1, 1, L),
            "l + 1 is no index; use a symbol for natural numbers, as in l = symbol('l')",
        ),
        (
            oa.InputError,
            lambda: oa.indexed_sum(V[l], g, 1, L),
            "g is no index; use a symbol for natural numbers, as in l = symbol('l')",
        ),
        (
            oa.InputError,
            lambda: oa.indexed_sum(V[l], l, 1, 0.5),
            "0.5 is no bound of a product or sum; use an integer or a symbol such as L = symbol('L')",
        ),
        (
            oa.SpaceError,
            lambda: oa.ordered_product(y[l], l, 1, L),
            "y[l] maps 1 to X; only maps of a space to itself have ordered products",
        ),
        (
            oa.LimitError,
            lambda: oa.ordered_product(A, l, 1, 10**9),
            "1,000,000,000 factors or terms would be written out, more than 20,000; use a symbol for the length",
        ),
        (
            oa.InputError,
            lambda: V[g],
            "V[g]: an index is a natural number or made of symbols for them; use V[3] or symbol('l')",
        ),
        (
            oa.InputError,
            lambda: oa.family("V3", kind="linear"),
            "'V3' ends in an index and names no family; use a name without digits at its end",
        ),
        (
            oa.NotLinearError,
            lambda: oa.dressed(oa.ordered_sum(F[l], l, L, 2), x),
            "ordered_sum(F[l], l, L, 2) is not known to be linear and has no dressing; give its length and order values",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(error, act, message):
    assert refused(error, act) == message


# Printing and parsing


@pytest.mark.parametrize(
    ("operator", "ascii", "pretty", "tex"),
    [
        (
            oa.ordered_product(1 + V[l], l, 1, L),
            "ordered_product(1 + V[l], l, 1, L) where V[]: linear",
            "∏←(l=1..L) (1 + V_l)",
            r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{L}\,(1 + V_{l})",
        ),
        (
            oa.ordered_sum(V[m], m, L, n),
            "ordered_sum(V[l], l, L, n) where V[]: linear",
            "∑(1≤l₁<⋯<l_n≤L) V_{l_n} ⋯ V_{l_1}",
            r"\sum_{1 \le l_{1} < \cdots < l_{n} \le L} V_{l_{n}} \cdots V_{l_{1}}",
        ),
        (
            oa.ordered_sum(V[l], l, L + 1, 2),
            "ordered_sum(V[l], l, L + 1, 2) where V[]: linear",
            "∑(1≤l₁<l₂≤L + 1) V_{l_2} V_{l_1}",
            r"\sum_{1 \le l_{1} < l_{2} \le L+1} V_{l_{2}}\,V_{l_{1}}",
        ),
        (
            oa.ordered_sum(V[l], l, L, 2, 1 + V[l + 1]),
            "ordered_sum(V[l], l, L, 2, 1 + V[l + 1]) where V[]: linear",
            "∑(S⊆1..L, |S|=2) ∏←(l=1..L) {V_l for l∈S, 1 + V_{l+1} else}",
            r"\sum_{\substack{S \subseteq \{1, \ldots, L\} \\ |S| = 2}} "
            r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{L}\,\lbrace V_{l} \text{ for } l \in S,\; "
            r"1 + V_{l+1} \text{ else}\rbrace",
        ),
        (
            oa.indexed_sum(V[m] @ oa.ordered_product(1 + V[l], l, m + 1, L), m, 1, L) @ A,
            "sum(V[m] @ ordered_product(1 + V[l], l, m + 1, L), m, 1, L) @ A where A, V[]: linear",
            "(∑(m=1..L) V_m (∏←(l=m + 1..L) (1 + V_l))) A",
            r"(\sum_{m=1}^{L} V_{m}\,(\mathop{\overleftarrow{\prod}}\limits_{l=m+1}^{L}\,(1 + V_{l})))\,A",
        ),
        (
            (p + 1) * V[l] - p**-2 * A + p,
            "p - p^-2*A + (p + 1)*V[l] where A, V[]: linear, p: positive",
            "p - p^-2 A + (p + 1) V_l",
            r"p - p^{-2}\,A + (p + 1)\,V_{l}",
        ),
    ],
)
def test_every_form_of_an_indexed_operator(operator, ascii, pretty, tex):
    assert repr(operator) == ascii
    assert unicode(operator) == pretty
    assert latex(operator) == tex
    assert parse(ascii) is operator
    assert pickle.loads(pickle.dumps(operator)) is operator


@given(indexed())
@settings(max_examples=60)
def test_what_is_printed_is_read_back(operator):
    assert parse(repr(operator)) is operator
    symbols = [oa.symbol(s.name) if s.sort == "natural" else p if s.sort == "positive" else g for s in operator.symbols]
    assert parse(str(operator), atoms=[*operator.atoms, *symbols]) is operator


def test_a_bound_index_prints_as_a_letter_that_is_not_taken():
    assert str(oa.indexed_sum(V[m] @ W[l], m, 1, L)) == "sum(V[m] @ W[l], m, 1, L)"
    assert str(oa.indexed_sum(V[n] @ W[l] @ W[m], n, 1, L)) == "sum(V[n] @ W[l] @ W[m], n, 1, L)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("V[l] where V: linear", "V is declared as one operator and has no members; declare V[] for a family"),
        ("V where V[]: linear", "V is a family of operators; give it an index, as in V[1]"),
        ("V[l]", "V[] is not declared; add 'where V[]: linear' to the text or pass atoms="),
        ("A^2 where A: linear", "A^2: only scalar symbols have powers, of at most four digits; write A @ A"),
        (
            "A*B where A, B: linear",
            "'*' multiplies by a scalar, and A is none; write 2*A, or A @ B, or declare a parameter by 'where A: real'",
        ),
        ("sum(V[l], l, 1, l) where V[]: linear", "the bounds 1, l contain the index l itself; use another symbol"),
    ],
)
def test_text_about_indices_that_makes_no_sense_is_refused(text, message):
    assert refused(oa.InputError, lambda: parse(text)).startswith(message)


# Rules of the kernel


@given(bodies, st.sampled_from([(1, L + 1), (0, L), (L, L + M), (M, 2 * M), (2, L + 2)]), st.booleans(), lengths)
@settings(max_examples=60)
def test_the_recursions_of_products_and_sums_hold(body, ends, lower, values):
    for binder in (oa.ordered_product(body, l, *ends), oa.indexed_sum(body, l, *ends)):
        theorem = oa.unfold(binder, lower=lower)
        assert counterexample(theorem.lhs, theorem.rhs, environment={"g": 5, **values}) is None


@given(
    linear_bodies,
    st.none() | linear_bodies,
    st.sampled_from([(L + 1, n + 1), (L + M + 1, 2), (L + 1, L + 1), (4, 3)]),
    lengths,
)
@settings(max_examples=80)
def test_the_recursion_of_ordered_sums_holds(body, line, ends, values):
    theorem = oa.unfold(oa.ordered_sum(body, l, *ends, line))
    assert counterexample(theorem.lhs, theorem.rhs, environment={"g": 5, "n": 1, **values}) is None


@given(bodies, st.sampled_from([(2, L), (M + 2, L + M)]), st.integers(-2, 2), lengths)
@settings(max_examples=40)
def test_reindexing_changes_nothing(body, ends, shift, values):
    for binder in (oa.ordered_product(body, l, *ends), oa.indexed_sum(body, l, *ends)):
        theorem = oa.reindex(binder, shift)
        assert counterexample(theorem.lhs, theorem.rhs, environment={"g": 5, **values}) is None


splits = st.sampled_from([(1, L + 1, L + M + 1), (0, M, L + M), (1, 1, L + 1), (1, L, L + M), (L + 1, L, L + M)])


@given(bodies, splits, lengths)
@settings(max_examples=40)
def test_a_product_or_sum_splits_at_a_depth(body, ends, values):
    lower, depth, upper = ends
    for binder in (oa.ordered_product(body, l, lower, upper), oa.indexed_sum(body, l, lower, upper)):
        theorem = oa.split(binder, depth)
        assert counterexample(theorem.lhs, theorem.rhs, environment={"g": 5, **values}) is None


@given(st.sampled_from([V[l] - 2 * F[l], l * V[l] + g * F[l] + A, F[l] @ C + l, 0 * A]), lengths)
@settings(max_examples=40)
def test_sums_pass_through_sums_and_maps(body, values):
    total = IndexedSum._rebuilt(at(body, {natural("l"): bound(1)}), 1, 1, L)
    known = {"g": 5, **values}
    for theorem in (
        kernel.sum_of_sums(total),
        kernel.sum_right(total, C @ (1 + V[2])),
        kernel.sum_left(2 * A + V[l], total),
    ):
        assert counterexample(theorem.lhs, theorem.rhs, environment={"l": 3, **known}) is None


def bound(level):
    from opalgebra.expr import bound_symbol
    from opalgebra.scalar import scalar_of

    return scalar_of(bound_symbol(level))


def test_a_nonlinear_map_does_not_pass_into_a_sum():
    total = oa.indexed_sum(V[l], l, 1, L)
    message = refused(oa.NotLinearError, lambda: kernel.sum_left(C, total))
    assert message == "C @ sum(V[l], l, 1, L) cannot be distributed: C is not known to be linear; dress it first"
    assert differs(C @ total, oa.indexed_sum(C @ V[l], l, 1, L)) is not None


def test_equal_bodies_give_equal_products():
    law = kernel.right_dist(V[l] + F[l], C)
    for binder in (oa.ordered_product(A, m, 1, L), oa.indexed_sum(A, m, 1, L)):
        theorem = under(law, binder, natural("l"))
        assert differs(theorem.lhs, theorem.rhs) is None


def test_the_recursion_of_ordered_sums_is_refused_for_nonlinear_maps_where_it_is_false():
    words = oa.ordered_sum(F[l], l, L + 1, 2)
    assert refused(oa.NotLinearError, lambda: oa.unfold(words)) == (
        "ordered_sum(F[l], l, L + 1, 2) cannot be unfolded: its body is not known to be linear; dress it first"
    )
    assert differs(words, oa.ordered_sum(F[l], l, L, 2) + F[L + 1] @ oa.ordered_sum(F[l], l, L, 1)) is not None


def test_planted_wrong_recursions_are_found():
    product, total, words = (
        oa.ordered_product(1 + F[l], l, 1, L + 1), oa.indexed_sum(F[l], l, 1, L + 1), oa.ordered_sum(V[l], l, L + 1, 2),
    )  # fmt: skip
    U = oa.family("U", kind="linear")
    with_line = oa.ordered_sum(V[l], l, L + 1, 2, U[l])
    wrong = [
        (product, oa.ordered_product(1 + F[l], l, 1, L) @ (1 + F[L + 1])),
        (product, (1 + F[L + 2]) @ oa.ordered_product(1 + F[l], l, 1, L)),
        (total, oa.indexed_sum(F[l], l, 1, L)),
        (total, oa.indexed_sum(F[l + 1], l, 1, L + 1)),
        (words, oa.ordered_sum(V[l], l, L, 2) + oa.ordered_sum(V[l], l, L, 1) @ V[L + 1]),
        (words, oa.ordered_sum(V[l], l, L, 2) + V[L + 1] @ oa.ordered_sum(V[l], l, L + 1, 1)),
        (with_line, oa.ordered_sum(V[l], l, L, 2, U[l]) + V[L + 1] @ oa.ordered_sum(V[l], l, L, 1, U[l])),
        (with_line, U[L + 1] @ oa.ordered_sum(V[l], l, L, 2, U[l]) + V[L + 1] @ oa.ordered_sum(V[l], l, L, 1)),
        (with_line, U[L + 1] @ oa.ordered_sum(V[l], l, L, 2, U[l]) + V[L + 1] @ oa.ordered_sum(U[l], l, L, 1, V[l])),
    ]
    assert all(differs(lhs, rhs) is not None for lhs, rhs in wrong)


def test_a_recursion_that_an_empty_product_breaks_is_refused():
    P = oa.ordered_product(1 + V[l], l, 1, L)
    assert refused(oa.InputError, lambda: oa.unfold(P)) == (
        "ordered_product(1 + V[l], l, 1, L) cannot be unfolded: the upper bound minus the lower is L - 1 and may be negative; "
        "make the length L + 1"
    )
    assert differs(P, (1 + V[L]) @ oa.ordered_product(1 + V[l], l, 1, L - 1), L=0) is not None
    grown = oa.unfold(oa.ordered_product(1 + V[l], l, 1, L + 1))
    assert refused(oa.InputError, lambda: oa.instantiate(grown, {natural("L"): L - 1})) == (
        "L = L - 1 was asked, but L is natural and L - 1 may not be"
    )
    assert refused(oa.InputError, lambda: oa.reindex(P, 2)) == (
        "reindexed by 2, ordered_product(1 + V[l], l, 1, L) would start at -1; an index is a natural number"
    )
    assert refused(oa.InputError, lambda: oa.split(P, M)) == (
        "ordered_product(1 + V[l], l, 1, L) cannot be split at M: M and L - M are not surely natural numbers"
    )


def test_instantiation_keeps_truth_and_rewrites_hypotheses():
    claim = Equal(oa.ordered_product(V[l], l, 1, L), W[L])
    theorem = oa.instantiate(assume(claim), {natural("L"): M + 1})
    assert theorem.hypotheses == {Equal(oa.ordered_product(V[l], l, 1, M + 1), W[M + 1])}
    grown = oa.unfold(oa.ordered_product(1 + F[l], l, 1, L + 1))
    for value in range(4):
        number = oa.instantiate(grown, {natural("L"): oa.symbol("l") * 0 + value})
        assert counterexample(number.lhs, number.rhs) is None


def test_a_hypothesis_is_never_lost():
    theorem = assume(Equal(V[l], W[l]))
    assert refused(oa.InputError, lambda: under(theorem, oa.indexed_sum(A, m, 1, L), natural("l"))) == (
        "l is free in a hypothesis, so the equation is not known for every l"
    )
    assert str(trans(theorem, sym(theorem))) == "|- [V[l] = W[l]] V[l] = V[l]"
    assert cong(compose, theorem, refl(A)).hypotheses == theorem.hypotheses
    assert pickle.loads(pickle.dumps(theorem)).hypotheses == theorem.hypotheses


def test_induction_needs_base_and_step_of_one_claim():
    claim = Equal(oa.ordered_product(A, l, 1, L), W[L])
    first = assume(claim.at({natural("L"): oa.symbol("l") * 0}))
    step = trans(oa.unfold(oa.ordered_product(A, l, 1, L + 1)), cong(compose, refl(A), assume(claim)))
    assert refused(oa.InputError, lambda: induction(first, step, natural("L"))) == (
        "the claim at L + 1 is ordered_product(A, l, 1, L + 1) = W[L + 1], but the premise proves "
        "ordered_product(A, l, 1, L + 1) = A @ W[L]"
    )
    assert refused(oa.InputError, lambda: induction(first, refl(A), natural("L"))) == (
        "the step has 0 hypotheses with L; induction needs one, the claim"
    )
    recursion = assume(Equal(A @ W[M], W[M + 1]))
    whole = trans(step, oa.instantiate(recursion, {natural("M"): L}))
    assert refused(oa.InputError, lambda: induction(first, whole, natural("L"))) == (
        "the step has 2 hypotheses with L; induction needs one, the claim"
    )
    assert refused(oa.InputError, lambda: induction(refl(A), step, natural("L"))).startswith("the claim at 0 is 1 = W0, ")


def test_induction_proves_that_powers_add():
    """A^(L) A = A A^(L), for every length."""
    power = lambda length: oa.ordered_product(A, l, 1, length)  # noqa: E731
    claim = Equal(power(L) @ A, A @ power(L))
    upper = oa.unfold(power(L + 1))
    step = trans(cong(compose, upper, refl(A)), cong(compose, refl(A), assume(claim)))
    step = trans(step, cong(compose, refl(A), sym(upper)))
    theorem = induction(refl(A), step, natural("L"))
    assert not theorem.hypotheses
    assert (theorem.lhs, theorem.rhs) == (claim.lhs, claim.rhs)
    assert differs(theorem.lhs, theorem.rhs) is None


# The Dyson series of symbolic length


def test_the_dyson_theorem_is_proved_without_hypotheses():
    theorem = oa.dyson_theorem(V, L)
    assert not theorem.hypotheses
    assert theorem.lhs is oa.ordered_product(1 + V[l], l, 1, L)
    assert theorem.rhs is oa.indexed_sum(oa.ordered_sum(V[l], l, L, n), n, 0, L)
    for length in range(5):
        assert differs(theorem.lhs, theorem.rhs, L=length) is None


def test_the_dyson_theorem_with_a_line_resums_what_is_not_counted():
    U = oa.family("U", kind="linear")
    theorem = oa.dyson_theorem(V, L, line=U)
    assert not theorem.hypotheses
    assert theorem.lhs is oa.ordered_product(U[l] + V[l], l, 1, L)
    assert theorem.rhs is oa.indexed_sum(oa.ordered_sum(V[l], l, L, n, U[l]), n, 0, L)
    for length in range(5):
        assert differs(theorem.lhs, theorem.rhs, L=length) is None
    wrong = oa.indexed_sum(oa.ordered_sum(V[l], l, L, n, U[l + 1]), n, 0, L)
    assert differs(theorem.lhs, wrong, L=3) is not None


def test_an_ordered_sum_with_a_line_of_other_spaces_is_refused():
    other = oa.Atom("E", kind="linear", domain=oa.K, codomain=oa.K)
    assert refused(oa.SpaceError, lambda: oa.ordered_sum(V[l], l, L, 2, other)) == (
        "E maps K to K and cannot stand where V[l] was not chosen; give a map of the same space"
    )


def test_the_dyson_theorem_at_a_number_is_the_expansion():
    theorem = oa.instantiate(oa.dyson_theorem(V, L), {L: 3})
    assert theorem.lhs is oa.instantiate(oa.ordered_product(1 + V[l], l, 1, L), {L: 3})
    assert refused(oa.InputError, lambda: oa.instantiate(theorem, {L: -1})) == (
        "L = -1 was asked, but L is natural and -1 may not be"
    )
    assert refused(oa.InputError, lambda: oa.instantiate(theorem, {L + 1: 3})) == (
        "L + 1 is no single symbol; use one such as L = symbol('L')"
    )
    expansion = oa.expand(theorem.lhs)
    assert len(expansion.rhs.terms) == 8
    assert counterexample(theorem.rhs, expansion.rhs) is None


def test_the_dyson_theorem_of_a_dressed_nonlinear_network_of_any_depth():
    def vertex(depth):
        return oa.dressed(F[depth], oa.ordered_product(1 + F[m], m, 1, depth - 1) @ x)

    series = oa.dyson_theorem(vertex, L)
    expansion = oa.expand(oa.ordered_product(1 + F[l], l, 1, L) @ x)
    dressed_line = next(term for _, term in expansion.rhs.terms if isinstance(term, Compose))
    assert dressed_line.left is series.lhs
    for length in range(4):
        assert differs(series.lhs, series.rhs, L=length) is None


def test_the_dyson_theorem_is_refused_for_nonlinear_operators():
    for refusal in (lambda: oa.dyson_theorem(F, L), lambda: oa.dyson_theorem(V, L, line=F)):
        assert refused(oa.NotLinearError, refusal).startswith(
            "F[L] is not known to be linear, and the Dyson series of a product needs it to be; on a state, dress it first"
        )
    body = oa.indexed_sum(oa.ordered_sum(F[l], l, L, n), n, 0, L)
    assert differs(oa.ordered_product(1 + F[l], l, 1, L), body) is not None
    assert refused(oa.InputError, lambda: oa.dyson_theorem(V, L + 1)) == (
        "L + 1 is no single symbol; use one such as L = symbol('L')"
    )


def test_classes_are_not_constructors():
    for kind in (OrderedProduct, IndexedSum, OrderedSum):
        with pytest.raises(oa.InputError):
            kind(V[l])
    assert oa.indexed_sum(y[l], l, 1, L).domain == ONE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "sum(sum(sum(V[l, m, n], l, 1, 100), m, 1, 100), n, 1, 100) where V[]: linear",
            "what is written would take too many steps to build",
        ),
        (
            "ordered_product(ordered_product(V[l, m], l, 1, 1000), m, 1, 1000) where V[]: linear",
            "what is written would take too many steps to build",
        ),
        (
            "*".join(["(1 + g + h + k)"] * 40) + "*A where A: linear, g, h, k: real",
            "what is written would take too many steps to build",
        ),
    ],
)
def test_short_texts_of_huge_expressions_are_refused_at_once(text, message):
    assert refused(oa.LimitError, lambda: parse(text)).startswith(message)


def test_a_bound_index_is_printed_by_a_name_that_nothing_else_in_it_has():
    i = oa.symbol("i")
    for operator in (
        oa.indexed_sum(V[i], i, 1, oa.symbol("l")),
        oa.indexed_sum(oa.indexed_sum(l * V[i], i, 1, l), l, 1, L),
        oa.indexed_sum(oa.Atom("l", kind="linear") @ V[i], i, 1, L),
        oa.ordered_product(oa.family("l", kind="linear")[i], i, 1, oa.symbol("m")),
    ):
        assert parse(repr(operator)) is operator


def test_an_ordered_sum_of_negative_order_is_zero():
    n = oa.symbol("n")
    words = oa.instantiate(oa.ordered_sum(V[l], l, L, n - 1), {n: 0})
    assert words == oa.Zero()


def test_a_family_is_a_value_that_has_no_end_to_iterate_to():
    assert oa.family("V", kind="linear") == V and hash(oa.family("V", kind="linear")) == hash(V)
    with pytest.raises(FrozenInstanceError):
        V.name = "W"
    with pytest.raises(TypeError, match="not iterable"):
        list(V)
    with pytest.raises(oa.InputError, match="ends in an index"):
        oa.family("V1_", kind="linear")
