"""Tensor products, traces, adjoints, inverses, commutators and functions mean what their matrices mean.

A plain tree is turned into an operator by the library and into a matrix by Kronecker products, sums over the diagonal and
transposition; of the two, one must be the meaning of the other, however the constructors have rearranged the tree.
"""

from fractions import Fraction
from importlib import import_module
from operator import mul
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from meaning import PRIME, Interpretation, counterexample, inverted, kronecker, random_matrix, residue, times, transposed
from varying import cuts

import opalgebra as oa
from opalgebra.expr import Compose, Identity, Zero, factors, linear_combination
from opalgebra.space import FEATURES, POSITIONS, K, Space, X

tensor_module, trace_module = (import_module(f"opalgebra.{name}") for name in ("tensor", "trace"))

P, F = POSITIONS, FEATURES
SPACES = (K, P, F, X, P * F * F)
MODEL = Interpretation(1, {"positions": 2, "features": 2})


def letters(domain, codomain):
    between = "_".join([*domain.factors, "to", *codomain.factors, ""])
    names = "AB" if domain == codomain else "L"
    return [oa.Atom(f"{name}_{between}", kind="linear", domain=domain, codomain=codomain) for name in names]


def leaf(domain, codomain):
    fitting = [*letters(domain, codomain), *([Identity(domain)] * 2 if domain == codomain else [])]
    return st.sampled_from([*fitting, *fitting, Zero(domain, codomain)]).map(lambda operator: ("leaf", operator))


@st.composite
def trees(draw, domain, codomain, depth):
    """Plain trees of linear maps between two spaces."""
    choices = ["leaf", "sum", "compose", "tensor", "tensor", "compose", "adjoint", "transpose"]
    if len(domain.factors) == len(codomain.factors):
        choices.append("trace")
    if domain == codomain:
        choices += ["commutator", "inverse", "function"]
    what = draw(st.sampled_from(choices)) if depth else "leaf"
    if what == "leaf":
        return draw(leaf(domain, codomain))
    if what == "sum":
        term = st.tuples(st.sampled_from((1, 2, -1, Fraction(1, 3))), trees(domain, codomain, depth - 1))
        return ("sum", tuple(draw(st.lists(term, min_size=1, max_size=2))))
    if what == "compose":
        middle = draw(st.sampled_from((domain, codomain, *SPACES)))
        return ("compose", draw(trees(middle, codomain, depth - 1)), draw(trees(domain, middle, depth - 1)))
    if what == "tensor":
        first, second, third, fourth = draw(st.sampled_from(cuts(domain, codomain)))
        return ("tensor", draw(trees(first, second, depth - 1)), draw(trees(third, fourth, depth - 1)))
    if what in ("adjoint", "transpose"):
        return (what, draw(trees(codomain, domain, depth - 1)))
    if what == "trace":
        place = draw(st.integers(0, len(domain.factors)))
        name = draw(st.sampled_from(("positions", "features")))
        wide = [Space(*space.factors[:place], name, *space.factors[place:]) for space in (domain, codomain)]
        return ("trace", place, wide, draw(trees(*wide, depth - 1)))
    if what == "commutator":
        return (what, draw(trees(domain, domain, depth - 1)), draw(trees(domain, domain, depth - 1)))
    return (what, draw(trees(domain, domain, depth - 1)))


def build(tree):
    match tree:
        case ("leaf", operator):
            return operator
        case ("sum", terms):
            first = build(terms[0][1])
            return linear_combination([(c, build(term)) for c, term in terms], first.domain, first.codomain)
        case ("compose", left, right):
            return build(left) @ build(right)
        case ("tensor", left, right):
            return oa.tensor(build(left), build(right))
        case ("trace", place, _, inside):
            return oa.trace(build(inside), place)
        case ("commutator", left, right):
            return oa.commutator(build(left), build(right))
        case ("function", inside):
            return oa.function("exp", build(inside))
        case (name, inside):
            return getattr(oa, name)(build(inside))


def size(space):
    return 2 ** len(space.factors)


def matrix(tree):
    match tree:
        case ("leaf", operator):
            return MODEL.matrix(operator, {})
        case ("sum", terms):
            parts = [(residue(c), matrix(term)) for c, term in terms]
            return combined(*parts)
        case ("compose", left, right):
            return times(matrix(left), matrix(right))
        case ("tensor", left, right):
            return kronecker(matrix(left), matrix(right))
        case ("transpose", inside):
            return transposed(matrix(inside))
        case ("adjoint", inside):
            operator = build(inside)
            form = MODEL.form
            return times(inverted(form(operator.domain)), times(transposed(matrix(inside)), form(operator.codomain)))
        case ("trace", place, (domain, codomain), inside):
            return diagonal(matrix(inside), size(Space(*codomain.factors[:place])), size(Space(*domain.factors[:place])))
        case ("commutator", left, right):
            one, other = times(matrix(left), matrix(right)), times(matrix(right), matrix(left))
            return combined((1, one), (-1, other))
        case ("inverse", inside):
            return inverted(matrix(inside))
        case ("function", inside):
            whole = matrix(inside)
            return random_matrix(Random(f"{MODEL.seed} exp {whole}"), len(whole), len(whole))


def combined(*parts):
    """A linear combination of matrices."""
    rows = zip(*(matrix for _, matrix in parts))
    scalars = [c for c, _ in parts]
    return tuple(tuple(sum(map(mul, scalars, entries)) % PRIME for entries in zip(*row)) for row in rows)


def diagonal(whole, rows_before, columns_before):
    """The sum of the two diagonal blocks of a factor of dimension 2 with other factors before and behind it."""
    rows_behind, columns_behind = len(whole) // (2 * rows_before), len(whole[0]) // (2 * columns_before)
    return tuple(
        tuple(
            sum(whole[(a * 2 + i) * rows_behind + b][(c * 2 + i) * columns_behind + d] for i in (0, 1)) % PRIME
            for c in range(columns_before)
            for d in range(columns_behind)
        )
        for a in range(rows_before)
        for b in range(rows_behind)
    )


TREES = st.tuples(st.sampled_from(SPACES[:4]), st.sampled_from(SPACES[:4])).flatmap(lambda spaces: trees(*spaces, 3))


def broken(tree):
    """Where the operator built from a tree differs in meaning from the matrix of the tree; None when they agree."""
    operator, right = build(tree), matrix(tree)
    found = MODEL.matrix(operator, {})
    return None if found == right else f"{tree} was built as {operator.digest.hex()}"


@settings(max_examples=400)
@given(TREES)
def test_what_is_built_means_what_was_asked(tree):
    assert broken(tree) is None


def assert_search_finds(examples=TREES):
    """A fixed random search over trees meets one that `broken` reports."""
    once = settings(max_examples=3000, phases=[Phase.generate], database=None, deadline=None)
    find(examples, lambda tree: broken(tree) is not None, settings=once, random=Random(0))


@given(TREES)
def test_expanding_keeps_the_meaning(tree):
    theorem = oa.expand(build(tree))
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=[MODEL], points=1) is None


@given(TREES)
def test_what_is_printed_is_read_back(tree):
    operator = build(tree)
    assert oa.parse(repr(operator)) == operator
    assert oa.parse(str(operator), atoms=operator.atoms) == operator
    assert oa.latex(operator)


A, B = (oa.Atom(name, kind="linear", domain=P, codomain=P) for name in "AB")
W, U = (oa.Atom(name, kind="linear", domain=F, codomain=F) for name in "WU")
M, N = oa.atoms("M N", kind="linear")
G = oa.Atom("G", kind="nonlinear")
x = oa.state("x")


def test_operators_on_different_factors_commute_and_tensor_products_compose_factor_by_factor():
    on_tokens, on_features = oa.tensor(A, Identity(F)), oa.tensor(Identity(P), W)
    assert on_tokens @ on_features == on_features @ on_tokens == oa.tensor(A, W)
    assert oa.tensor(A, W) @ oa.tensor(B, U) == oa.tensor(A @ B, W @ U)
    assert oa.tensor(A, W) @ oa.tensor(B, U) != oa.tensor(B, U) @ oa.tensor(A, W)
    assert oa.expand(on_tokens @ on_features - on_features @ on_tokens).rhs == Zero()


def test_one_order_is_kept_on_three_factors_with_an_operator_across_two():
    across = oa.Atom("T", kind="linear", domain=P * F, codomain=P * F)
    first, last = oa.tensor(A, Identity(F * P)), oa.tensor(Identity(P * F), B)
    middle = oa.tensor(across, Identity(P))
    assert last @ middle @ first == middle @ last @ first == middle @ first @ last == last @ (middle @ first)
    assert middle @ first != first @ middle


def test_tensor_products_are_associative_with_the_scalars_as_unit():
    assert oa.tensor(oa.tensor(A, W), B) == oa.tensor(A, oa.tensor(W, B)) == oa.tensor(A, W, B)
    assert oa.tensor(A, Identity(K)) == A == oa.tensor(Identity(K), A)
    assert oa.tensor(Identity(P), Identity(F)) == Identity(X)


def test_only_linear_maps_between_vector_spaces_have_tensor_products():
    with pytest.raises(oa.NotLinearError, match="dress it on a state first"):
        oa.tensor(G, A)
    with pytest.raises(oa.SpaceError, match="the one-point space has no tensor products"):
        oa.tensor(x, A)


def test_traces_are_cyclic_and_partial_traces_take_out_what_acts_elsewhere():
    assert oa.trace(M @ N) - oa.trace(N @ M) == Zero(K, K)
    assert oa.trace(oa.tensor(A, W), "features") == oa.tensor(oa.trace(W), A)
    around = oa.tensor(A, Identity(F)) @ M @ oa.tensor(B, Identity(F))
    assert oa.trace(around, "features") == A @ oa.trace(M, "features") @ B
    assert oa.trace(oa.trace(M, "features")) == oa.trace(M)
    with pytest.raises(oa.NotLinearError, match="G has no trace"):
        oa.trace(G)


def test_adjoints_and_transposes_reverse_the_order():
    for turned in (oa.adjoint, oa.transpose):
        assert turned(M @ N) == turned(N) @ turned(M)
        assert turned(turned(M)) == M
        assert turned(oa.tensor(A, W)) == oa.tensor(turned(A), turned(W))
        with pytest.raises(oa.NotLinearError, match="was asked"):
            turned(G)


def test_the_adjoint_of_a_product_over_an_index_runs_the_other_way():
    V, l, L = oa.family("V", kind="linear"), oa.symbol("l"), oa.symbol("L")
    backwards = oa.adjoint(oa.ordered_product(1 + V[l], l, 1, L))
    written = oa.adjoint(oa.ordered_product(1 + V[l], l, 1, 3))
    assert oa.instantiate(backwards, {L: 3}) == written
    assert written == (1 + oa.adjoint(V[1])) @ (1 + oa.adjoint(V[2])) @ (1 + oa.adjoint(V[3]))


def test_commutators_are_kept_as_entered_and_unfolded_by_expand():
    assert str(oa.commutator(N, M)) == "commutator(N, M)"
    assert oa.expand(oa.commutator(M, N)).rhs == M @ N - N @ M
    nested = oa.commutator(oa.commutator(oa.commutator(M, N), M), N) - oa.commutator(oa.commutator(oa.commutator(M, N), N), M)
    assert oa.expand(nested).rhs == Zero()
    with pytest.raises(oa.NotLinearError, match="Jacobi"):
        oa.commutator(M, G)


def test_a_commutator_of_sums_is_four_commutators_in_one_call():
    a1, a2, b1, b2 = oa.atoms("a1 a2 b1 b2", kind="linear")
    expansion = oa.expand(oa.commutator(a1 + a2, b1 + b2), unfold=False).rhs
    assert expansion == sum((oa.commutator(a, b) for a in (a1, a2) for b in (b1, b2)), start=Zero())


def test_functions_of_operators_are_opaque():
    assert oa.function("log", M @ N) != oa.function("log", M) + oa.function("log", N)
    assert oa.expand(oa.function("exp", (M + N) @ M)).rhs == oa.function("exp", M @ M + N @ M)


# Planted bugs: each is a wrong law, and the check above is seen to find it.


def test_planted_tensor_product_that_forgets_the_order_of_a_block_is_found(monkeypatch):
    layer = tensor_module.layer

    def careless(given):
        blocks = list(given)
        square = [isinstance(block, Compose) and block.domain == block.codomain == P for block in blocks]
        return layer([oa.ordered_product(factors(b)) if turn else b for b, turn in zip(blocks, square)])

    monkeypatch.setattr(tensor_module, "layer", careless)
    assert broken(("tensor", ("compose", ("leaf", A), ("leaf", B)), ("leaf", W))) is not None
    assert_search_finds()


def test_planted_block_that_falls_through_another_is_found(monkeypatch):
    gap = tensor_module._gap

    def falling(head, letter, leg):
        found = gap(head, letter, leg)
        return found and (found[0], [Identity(unit.codomain) for unit in found[1]], *found[2:])

    monkeypatch.setattr(tensor_module, "_gap", falling)
    tree = ("compose", ("tensor", ("leaf", A), ("leaf", W)), ("tensor", ("leaf", B), ("leaf", U)))
    assert broken(tree) is not None
    assert_search_finds()


def test_planted_partial_trace_that_takes_out_everything_is_found(monkeypatch):
    def separated(factor, over, *, below=False):
        end = factor.domain if below else factor.codomain
        return Identity(trace_module._without(end, over)), Identity(end), Identity(end)

    monkeypatch.setattr(trace_module, "_separated", separated)
    inside = ("compose", ("leaf", M), ("compose", ("tensor", ("leaf", A), ("leaf", W)), ("leaf", N)))
    assert broken(("trace", 1, [P * F, P * F], inside)) is not None


def test_planted_commutator_of_nonlinear_maps_would_break_bilinearity():
    left, right = (M + N) @ G - G @ (M + N), (M @ G - G @ M) + (N @ G - G @ N)
    assert counterexample(left, right) is not None


def test_a_trace_takes_round_what_acts_on_the_traced_factor_when_the_open_one_changes():
    one, two, three = (Space(name) for name in ("one", "two", "three"))
    M = oa.Atom("M", kind="linear", domain=two * three, codomain=one * three)
    W = oa.Atom("W", kind="linear", domain=three, codomain=three)
    left, right = oa.tensor(Identity(one), W) @ M, M @ oa.tensor(Identity(two), W)
    assert oa.trace(left, 1) == oa.trace(right, 1)
    assert oa.trace(left, 1) != oa.trace(M, 1)
    whole = MODEL.matrix(left, {})
    assert MODEL.matrix(oa.trace(left, 1), {}) == diagonal(whole, 2, 2)


def test_multiples_and_zeros_in_the_words_of_tensor_products_and_traces_are_taken_out():
    a, w = letters(P, P)[0], letters(F, F)[0]
    A, B = letters(X, X)
    for built, right in (
        (oa.tensor(A @ (3 * B), w), 3 * oa.tensor(A @ B, w)),
        (oa.tensor(oa.tensor(a, w) @ (3 * A), a), 3 * oa.tensor(oa.tensor(a, w) @ A, a)),
        (oa.tensor(A @ Zero(), w), Zero(X * F, X * F)),
        (oa.tensor(oa.tensor(a, w) @ Zero(), a), Zero(X * P, X * P)),
        (oa.trace(A @ (2 * B)), 2 * oa.trace(A @ B)),
        (oa.trace(A @ B @ Zero()), Zero(K, K)),
    ):
        assert built is right
        assert oa.parse(repr(built)) is built
