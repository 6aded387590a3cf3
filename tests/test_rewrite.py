"""Substitution, replacement and collection: contiguous subwords only, spaces and kinds kept, meaning kept or instantiated."""

from importlib import import_module
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from meaning import Interpretation, counterexample
from strategies import LINEAR, NONLINEAR, Y, build, maps, operators, states, trees

import opalgebra as oa
from opalgebra import kernel
from opalgebra.atoms import atoms
from opalgebra.dressing import dressing
from opalgebra.expand import expand
from opalgebra.expr import Compose, Operator, Zero, factors, linear_combination, ordered_product, postorder, terms
from opalgebra.rewrite import collect, replace, substitute
from opalgebra.space import ONE, X

rewrite = import_module("opalgebra.rewrite")

A, B, C, D, E = atoms("A B C D E", kind="linear")
F, G = atoms("F G", kind="nonlinear")
V = oa.family("V", kind="linear")
W, U = oa.wildcard("W"), oa.wildcard("U")
x, y = oa.state("x"), oa.state("y")


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def assert_search_finds(broken, examples):
    """A fixed random search over the examples meets one that `broken` reports."""
    once = settings(max_examples=2000, phases=[Phase.generate], database=None, deadline=None)
    find(examples, lambda example: broken(example) is not None, settings=once, random=Random(0))


# Substitution: which factors


def test_only_adjacent_factors_are_substituted():
    assert substitute(A @ B @ C, {A @ C: D}) == A @ B @ C
    assert substitute(A @ C @ B, {A @ C: D}) == D @ B
    assert substitute(B @ A @ C, {A @ C: D}) == B @ D
    assert substitute(C @ A, {A @ C: D}) == C @ A


def test_a_word_is_found_inside_longer_words_and_more_than_once():
    assert substitute(E @ A @ C @ B @ A @ C, {A @ C: D}) == E @ D @ B @ D
    assert substitute(A @ A @ A @ A @ A, {A @ A: D}) == D @ D @ A


def test_the_longest_of_several_patterns_wins_and_the_leftmost_place():
    assert substitute(A @ B @ C, {A @ B: D, A @ B @ C: E, B @ C: A}) == E
    assert substitute(A @ B @ C, {A @ B: D, B @ C: E}) == D @ C
    assert substitute(A @ B @ B, {A: D, A @ B @ C: E}) == D @ B @ B


def test_substitution_is_simultaneous_and_not_repeated():
    assert substitute(A @ B, {A: B, B: A}) == B @ A
    assert substitute(A @ A @ B, {A @ B: B}) == A @ B
    assert substitute(A, {A: A @ A}) == A @ A


def test_terms_and_factors_that_are_sums_are_visited():
    assert substitute(2 * A @ C + F @ (1 + A @ C) @ B, {A @ C: D}) == 2 * D + F @ (1 + D) @ B
    assert substitute((A + B) @ C, {A + B: D}) == D @ C
    assert substitute((A + B + C) @ C, {A + B: D}) == (A + B + C) @ C
    assert substitute(A @ C - D, {A @ C: D}) == Zero()


def test_nothing_moves_through_a_nonlinear_map():
    assert substitute(F @ (A + B), {F @ A: D}) == F @ (A + B)
    assert substitute(-A @ B @ A, {B @ B: D}) == -A @ B @ A
    assert substitute(F @ (2 * A), {F @ A: D}) == F @ (2 * A)


def test_an_operator_with_no_pattern_in_it_is_itself():
    for operator in (A, x, y + A @ F @ x, oa.dressed(F, x) @ A, Zero(), oa.Identity()):
        assert substitute(operator, {E: D}) is operator
        assert substitute(operator, {}) is operator


def test_replacements_may_be_multiples_sums_zero_and_the_identity():
    assert substitute(B @ A @ C, {A: oa.Identity()}) == B @ C
    assert substitute(A @ B, {A: Zero()}) == Zero()
    assert substitute(A @ B, {A: 2 * C + D}) == (2 * C + D) @ B
    assert substitute(A @ B, {A: 2 * C}) == 2 * C @ B
    assert substitute(F @ x, {x: x + y}) == F @ (x + y)


def test_a_product_of_ten_thousand_factors_is_substituted():
    product = ordered_product([A, B, C] * 3334)
    assert substitute(product, {C @ B: D}) == ordered_product([A, D] * 3334)
    assert substitute(product, {product: D}) == D
    assert len(factors(substitute(product, {A: A @ A, B: oa.Identity()}))) == 3 * 3334
    state = x
    for layer in range(1, 5001):
        state = (1 + V[layer % 7]) @ state
    assert substitute(state, {V[3]: D}) == substitute(substitute(state, {V[3]: E}), {E: D})


# Substitution: backgrounds


def test_backgrounds_are_left_alone_unless_asked_for():
    operator = oa.dressed(F, A @ x) @ A @ x + oa.source(F, A @ x)
    assert substitute(operator, {A: B}) == oa.dressed(F, A @ x) @ B @ x + oa.source(F, A @ x)
    assert substitute(operator, {A: B}, backgrounds=True) == oa.dressed(F, B @ x) @ B @ x + oa.source(F, B @ x)
    assert substitute(operator, {F: G}) == operator


def test_a_dressed_atom_that_is_replaced_is_dressed_anew():
    operator = oa.dressed(F, x) @ x + oa.source(F, x)
    assert substitute(operator, {F: G}, backgrounds=True) == oa.dressed(G, x) @ x + oa.source(G, x)
    assert substitute(operator, {F: A}, backgrounds=True) == A @ x
    linear, left_over = dressing(F @ G + A, y)
    assert substitute(operator, {F: F @ G + A, x: y}, backgrounds=True) == linear @ y + left_over


def test_a_dressing_can_itself_be_a_pattern():
    assert substitute(A @ oa.dressed(F, x) @ A, {oa.dressed(F, x): D}) == A @ D @ A
    assert substitute(A @ oa.source(F, x), {A @ oa.source(F, x): y}) == y


def test_backgrounds_nested_a_thousand_deep_are_rebuilt():
    state = x
    for layer in range(1, 1001):
        state = oa.dressed(F, state) @ state + V[layer] @ x
    replaced = substitute(state, {F: G, x: y}, backgrounds=True)
    assert {atom.name for atom in replaced.atoms} == {"G", "y", *(f"V{layer}" for layer in range(1, 1001))}
    assert substitute(replaced, {G: F, y: x}, backgrounds=True) is state


class UnderAnIndex(Operator):
    """A node with a body under a bound index."""

    __slots__ = ()

    @property
    def bodies(self):
        return self.fields


def test_what_stands_under_an_index_is_not_substituted_in_part():
    node = UnderAnIndex._intern((V[1],), X, X, True)
    assert substitute(node @ V[2], {V[2]: A}) == node @ A
    assert substitute(node @ B, {B: A}, backgrounds=True) == node @ A
    assert refused(oa.InputError, lambda: substitute(node @ V[2], {V[2]: A}, backgrounds=True)) == (
        "V2 cannot be substituted in backgrounds and all, for V also stands under an index, where it may be any of its "
        "family; give the bounds of the index values first"
    )


# Substitution: what is refused


def test_a_replacement_of_other_spaces_is_refused():
    assert refused(oa.SpaceError, lambda: substitute(A, {A: x})) == (
        "A maps X to X and cannot be replaced by x, which maps 1 to X; replace it by a map of the same spaces"
    )


def test_a_linear_pattern_is_not_replaced_by_a_nonlinear_map():
    assert refused(oa.NotLinearError, lambda: substitute(A @ B, {A @ B: F})) == (
        "A @ B is linear and cannot be replaced by F, which is not known to be linear; what holds for the one need not hold "
        "for the other: declare the atoms of the replacement with kind='linear' if they are"
    )
    assert substitute(F @ A, {F: A}) == A @ A


@pytest.mark.parametrize("pattern", [2 * A, oa.Identity(), Zero(), -A])
def test_what_is_no_factor_is_refused_as_a_pattern(pattern):
    text = f"{pattern} cannot be substituted, for it is no factor of a word; name an atom, a word such as A @ B, or a sum"
    assert refused(oa.InputError, lambda: substitute(A, {pattern: D})) == text


def test_what_is_no_operator_is_refused():
    assert refused(oa.InputError, lambda: substitute(A, {"A": D})) == (
        "'A' cannot be substituted, for it is no operator; name an atom, a word such as A @ B, or a sum"
    )
    assert refused(oa.InputError, lambda: substitute(A, {A: 2})) == (
        "A cannot be replaced by 2, which is no operator; write c * Identity() for a scalar c"
    )


# Substitution: meaning


class Instance(Interpretation):
    """The interpretation in which some atoms, their dressings included, mean what plain trees mean in `base`."""

    def __init__(self, base, meanings):
        super().__init__(base.seed)
        self.base, self.meanings = base, meanings

    def atom(self, atom, argument):
        if atom in self.meanings:
            return self.base.tree(self.meanings[atom], argument)
        return self.base.atom(atom, argument)

    def split(self, atom, state):
        if atom not in self.meanings:
            return self.base.split(atom, state)
        linear, _ = self.base.tree_dressing(self.meanings[atom], state)
        size = len(state)
        columns = [linear(tuple(int(i == j) for i in range(size))) for j in range(size)]
        return tuple(zip(*columns))


def instantiated(example):
    """Where an operator, its atoms meaning their replacements, differs from what substitution gives; None where it agrees."""
    operator, meanings = example
    replaced = rewrite.substitute(operator, {atom: build(tree) for atom, tree in meanings.items()}, backgrounds=True)
    for seed in (1, 2):
        base = Interpretation(seed)
        instance = Instance(base, meanings)
        for number in range(2):
            argument = base.point(operator.domain, number)
            if instance.value(operator, argument) != base.value(replaced, argument):
                return f"{operator} is not {replaced} where {meanings}"
    return None


@st.composite
def instances(draw, examples):
    """An operator and plain trees for some of its atoms, linear ones for linear atoms."""
    operator = draw(examples)
    chosen = draw(st.lists(st.sampled_from(operator.atoms), max_size=3, unique=True)) if operator.atoms else []
    meanings = {}
    for atom in chosen:
        fitting = trees(atom.domain, atom.codomain, 2)
        meanings[atom] = draw(fitting.filter(lambda tree: build(tree).is_linear) if atom.is_linear else fitting)
    return operator, meanings


@given(instances(operators()))
def test_substituting_for_atoms_instantiates_the_meaning(example):
    assert instantiated(example) is None


@given(instances(st.one_of(maps(2), states(2))))
def test_substituting_into_both_sides_of_a_theorem_gives_a_true_equation(example):
    operator, meanings = example
    theorem = expand(operator)
    replacements = {atom: build(tree) for atom, tree in meanings.items()}
    sides = [substitute(side, replacements, backgrounds=True) for side in (theorem.lhs, theorem.rhs)]
    assert counterexample(*sides) is None


def subword_replaced(example, rule=None):
    """Where an operator differs from what it becomes when one of its words is given a name; None where it agrees."""
    operator, word = example
    name = oa.Atom("S_", kind=word.kind, domain=word.domain, codomain=word.codomain)
    replaced = (rule or substitute)(operator, {word: name})
    models = [Instance(Interpretation(seed), {name: ("leaf", word)}) for seed in (1, 2)]
    return counterexample(operator, replaced, interpretations=models, points=2)


@st.composite
def with_a_word(draw):
    """An operator and a word, often one of its own."""
    operator = draw(operators())
    own = [node for node in postorder(operator, backgrounds=False) if isinstance(node, Compose)]
    letters = [factor for node in own for factor in factors(node)]
    if not own:
        return operator, draw(st.sampled_from(LINEAR))
    word = factors(draw(st.sampled_from(own)))
    first = draw(st.integers(0, len(word) - 1))
    subword = ordered_product(reversed(word[first : draw(st.integers(first + 1, len(word)))]))
    if isinstance(subword, oa.Identity | Zero) or (len(terms(subword)) == 1 and terms(subword)[0] != (1, subword)):
        return operator, letters[0] if letters[0] in LINEAR else LINEAR[0]
    return operator, subword


@given(with_a_word())
def test_naming_a_subword_keeps_the_meaning(example):
    assert subword_replaced(example) is None


def test_planted_substitution_of_factors_that_are_not_adjacent_is_found():
    def scattered(operator, replacements):
        ((word, name),) = replacements.items()
        wanted, left = factors(word), factors(operator)
        if len(wanted) == 2 and wanted[0] in left and wanted[1] in left[left.index(wanted[0]) + 1 :]:
            place = left.index(wanted[0])
            left.remove(wanted[1])
            left[place] = name
        return ordered_product(reversed(left))

    assert subword_replaced((A @ C @ B, A @ C), scattered) is None
    assert subword_replaced((A @ B @ C, A @ C), scattered) is not None
    assert subword_replaced((A @ B @ C, A @ C)) is None


def test_planted_substitution_that_reorders_factors_is_found():
    def sorting(operator, replacements):
        replaced = substitute(operator, replacements)
        word = factors(replaced)
        if all((factor.domain, factor.codomain) == (X, X) for factor in word):
            return ordered_product(sorted(word, key=lambda factor: factor.digest))
        return replaced

    assert_search_finds(lambda example: subword_replaced(example, sorting), with_a_word())


def test_planted_background_that_keeps_the_replaced_atom_is_found(monkeypatch):
    original = rewrite.substitute
    monkeypatch.setattr(rewrite, "substitute", lambda operator, found, backgrounds: original(operator, found))
    assert instantiated((oa.dressed(F, A @ x), {B: ("leaf", C)})) is None
    assert instantiated((oa.dressed(F, A @ x), {A: ("leaf", C)})) is not None
    assert instantiated((oa.dressed(F, A @ x), {F: ("leaf", G)})) is not None
    assert_search_finds(instantiated, instances(states()))


def test_planted_dressing_of_a_replacement_at_the_wrong_state_is_found(monkeypatch):
    def wrong_stage(operator, state):
        return ordered_product([oa.dressed(factor, state) for factor in reversed(factors(operator))])

    composite = ("compose", ("leaf", F), ("leaf", G))
    assert instantiated((oa.dressed(F, x), {F: composite})) is None
    monkeypatch.setattr(rewrite, "dressed", wrong_stage)
    assert instantiated((oa.dressed(F, x), {F: ("leaf", G)})) is None
    assert instantiated((oa.dressed(F, x), {F: composite})) is not None


def test_planted_rule_that_carries_one_split_over_to_an_equal_map_is_found():
    """F and G are the same map, but their splits differ: F = G rewrites F @ x and not F<x>."""

    class Twins(Interpretation):
        def atom(self, atom, argument):
            return super().atom(G if atom == F else atom, argument)

    twins = [Twins(1), Twins(2)]
    operator = F @ x + oa.dressed(F, x) @ y
    assert counterexample(operator, substitute(operator, {F: G}), interpretations=twins) is None
    assert counterexample(operator, substitute(operator, {F: G}, backgrounds=True), interpretations=twins) is not None


# Replacement of patterns


def test_a_pattern_is_replaced_with_its_subwords_put_in():
    assert replace(A @ B @ B @ A, A @ W @ A, W @ C) == B @ B @ C
    assert replace(E @ A @ B, A @ W, W @ A) == E @ B @ A
    assert replace(F @ (A @ B + C), A @ W, W) == F @ (B + C)
    assert replace((A + B) @ C + D @ C, W @ C, W) == (A + B) + D


def test_replacement_takes_the_shortest_subwords_goes_on_behind_them_and_does_not_repeat():
    assert replace(A @ B @ C @ B @ C, A @ W @ C, D) == D @ B @ C
    assert replace(A @ B @ A @ B, A @ W, W @ A @ A) == B @ A @ A @ B @ A @ A
    assert replace(A @ B @ A, W @ W, D) == A @ B @ A
    assert replace(C @ A @ B @ A @ B, W @ W, W) == C @ A @ B


def test_what_does_not_match_stays_and_backgrounds_too():
    assert replace(A @ B, B @ W, W) == A @ B
    operator = oa.dressed(F, A @ B @ x) @ x
    assert replace(operator, A @ W, W) is operator
    assert replace(-A @ B @ A, B @ W, W @ B) == -A @ A @ B


def test_a_whole_sum_is_replaced():
    assert replace(F @ (A @ B - B @ A), W @ U - U @ W, Zero()) == F @ Zero()
    assert replace(A @ B - B @ A + C, W @ U - U @ W, Zero()) == A @ B - B @ A + C


def test_the_spaces_and_kinds_of_a_replacement_are_checked():
    assert refused(oa.SpaceError, lambda: replace(B, A @ W, x)) == (
        "A @ W maps X to X and cannot be replaced by x, which maps 1 to X; replace it by a map of the same spaces"
    )
    assert replace(A @ G, A @ W, F) == F
    assert refused(oa.NotLinearError, lambda: replace(A @ B, A @ W, F)).startswith(
        "A @ B is linear and cannot be replaced by F"
    )
    assert refused(oa.InputError, lambda: replace(A @ B, A @ W, U)) == (
        "the replacement U has the wildcard U, which A @ W lacks; use it in the pattern too"
    )
    assert refused(oa.InputError, lambda: replace(A @ B, 2 * W, W)) == (
        "2*W cannot be replaced, for it is no factor of a word; name an atom, a word such as A @ B, or a sum"
    )


def test_a_product_of_ten_thousand_factors_is_replaced():
    assert replace(ordered_product([B, A] * 5000), A @ W, W) == ordered_product([B] * 5000)
    assert replace(ordered_product([A, *[B] * 9998, C]), C @ W @ A, W) == ordered_product([B] * 9998)
    assert replace(ordered_product([C, *[B] * 9999]), W @ A, W) == ordered_product([C, *[B] * 9999])


@given(maps(), st.sampled_from([A, LINEAR[0], NONLINEAR[0]]))
def test_replacing_by_an_instance_of_a_law_keeps_the_meaning(operator, factor):
    assert counterexample(operator, replace(operator, factor @ W, factor @ W + 0 * factor)) is None
    kept = replace(operator, factor @ W, (factor @ W + W) - W)
    assert kept == operator


# Collection


def test_collection_on_the_right_holds_for_all_maps():
    assert collect(A @ C + B @ C, C).rhs == (A + B) @ C
    assert collect(F @ G + A @ G, G).rhs == (F + A) @ G
    assert collect(A @ C + B, C).rhs == A @ C + B
    assert collect(A @ C + 2 * B @ C + D, C).rhs == (A + 2 * B) @ C + D


def test_collection_on_the_left_is_for_linear_factors():
    assert collect(C @ A + C @ B, C, side="left").rhs == C @ (A + B)
    assert collect(C @ F + C @ G @ A + D, C, side="left").rhs == C @ (F + G @ A) + D
    assert collect(F @ A + F @ B, F, side="left").rhs == F @ A + F @ B


def test_what_cannot_be_collected_stays_and_does_not_raise():
    assert collect(A @ B - B @ A, A, side="left").rhs == A @ B - B @ A
    assert collect(A @ B - B @ A, A).rhs == A @ B - B @ A
    for operator in (A, A @ B, Zero(), oa.Identity(), x, 3 * A, oa.dressed(F, x)):
        for side in ("left", "right"):
            for factor in (A, F, x, A @ B):
                theorem = collect(operator, factor, side=side)
                assert (theorem.lhs, theorem.rhs) == (operator, operator)


def test_a_factor_alone_gives_the_identity():
    assert collect(A @ C + C, C).rhs == (A + 1) @ C
    assert collect(C @ A - 3 * C, C, side="left").rhs == C @ (A - 3)
    assert collect(A @ x + x, x).rhs == (A + 1) @ x
    assert collect(x + y, x).rhs == x + y


def test_the_factor_may_be_a_word_or_a_sum():
    assert collect(A @ B @ C + D @ B @ C + C, B @ C).rhs == (A + D) @ B @ C + C
    assert collect(B @ C @ A + B @ C + B @ A, B @ C, side="left").rhs == B @ C @ (A + 1) + B @ A
    assert collect(A @ (B + C) + D @ (B + C), B + C).rhs == (A + D) @ (B + C)


def test_quotients_that_are_sums_are_joined_and_may_cancel():
    assert collect((A + B) @ C + D @ C, C).rhs == (A + B + D) @ C
    assert collect((A + B) @ C - A @ C, C).rhs == B @ C
    assert collect(3 * (A + B) @ C - 3 * A @ C - 3 * B @ C + D, C).rhs == D
    assert collect(C @ (A + B) + 2 * C @ D, C, side="left").rhs == C @ (A + B + 2 * D)


def test_collection_keeps_to_the_spaces():
    into = oa.Atom("P", kind="linear", codomain=Y)
    out = oa.Atom("R", kind="linear", domain=Y)
    assert collect(A @ out @ into + out @ into, into).rhs == (A @ out + out) @ into
    assert collect(into @ A + into, into, side="left").rhs == into @ (A + 1)
    assert collect(into @ x + into @ y, into, side="left").rhs == into @ (x + y)
    assert collect(into @ x + into @ A @ x, x).rhs == (into + into @ A) @ x


def test_collection_undoes_a_distribution_without_expanding_the_rest():
    stages = ordered_product(1 + V[layer] for layer in range(1, 61))
    assert collect(A @ stages + B @ stages, stages).rhs == (A + B) @ stages
    assert collect(stages @ A + stages @ B, stages, side="left").rhs == stages @ (A + B)


def test_a_sum_of_ten_thousand_terms_and_a_word_of_ten_thousand_factors_are_collected():
    total = linear_combination((1, V[layer]) for layer in range(10_000))
    assert collect(expand(total @ C).rhs, C).rhs == total @ C
    assert collect(expand(C @ total).rhs, C, side="left").rhs == C @ total
    word = ordered_product([A, B] * 5000)
    assert collect(C @ word + D @ word, word).rhs == (C + D) @ word


def test_what_is_no_factor_or_no_side_is_refused():
    assert refused(oa.InputError, lambda: collect(A, A, side="above")) == (
        "side='above': a factor is collected on a side of the terms; use 'left' or 'right'"
    )
    assert refused(oa.InputError, lambda: collect(A, 2 * A)) == (
        "2*A cannot be collected, for it is no factor of a word; name an atom, a word such as A @ B, or a sum"
    )


@st.composite
def collectable(draw):
    """A sum whose terms often have a factor at the same end, with that factor and side."""
    factor = draw(maps(1).filter(lambda found: len(terms(found)) != 1 or terms(found)[0] == (1, found)))
    if isinstance(factor, oa.Identity | Zero):
        factor = draw(st.sampled_from((*LINEAR, *NONLINEAR)))
    side = draw(st.sampled_from(["left", "right"]))
    total = draw(maps(1))
    for part in draw(st.lists(st.one_of(maps(1), st.just(oa.Identity())), min_size=1, max_size=4)):
        coefficient = draw(st.sampled_from([1, -1, 2]))
        total = total + coefficient * (factor @ part if side == "left" else part @ factor)
    return total, factor, side


def broken_collection(example, rule=None):
    """Where the two sides of a collection differ in meaning; None where they agree."""
    operator, factor, side = example
    theorem = (rule or collect)(operator, factor, side=side)
    assert theorem.lhs is operator
    return counterexample(theorem.lhs, theorem.rhs)


@given(collectable())
def test_collection_keeps_the_meaning(example):
    assert broken_collection(example) is None
    assert isinstance(collect(example[0], example[1], side=example[2]), kernel.Theorem)


@given(maps(), st.sampled_from((*LINEAR, *NONLINEAR)), st.sampled_from(["left", "right"]))
def test_collection_in_any_operator_keeps_the_meaning(operator, factor, side):
    assert broken_collection((operator, factor, side)) is None


@given(collectable())
def test_what_is_collected_expands_to_the_same_as_before(example):
    theorem = collect(example[0], example[1], side=example[2])
    assert kernel.distribute(theorem.rhs).rhs == kernel.distribute(theorem.lhs).rhs


def test_planted_collection_on_the_left_for_a_nonlinear_factor_is_found():
    def careless(operator, factor, *, side):
        found = [(c, term, rewrite.without_beginning(factor, term)) for c, term in terms(operator)]
        inner = linear_combination((c, part) for c, _, part in found if part is not None)
        rest = linear_combination((c, term) for c, term, part in found if part is None)
        return oa.Equal(operator, factor @ inner + rest)

    assert broken_collection((A @ B + A @ C, A, "left"), careless) is None
    assert broken_collection((F @ B + F @ C, F, "left"), careless) is not None
    assert_search_finds(
        lambda example: broken_collection(example, careless), collectable().filter(lambda example: example[2] == "left")
    )


def test_planted_collection_of_a_factor_from_the_wrong_end_is_found():
    def commuting(operator, factor, *, side):
        quotients = [(c, factors(term)) for c, term in terms(operator)]
        inner = [(c, [f for f in word if f is not factor]) for c, word in quotients if factor in word]
        total = linear_combination((c, ordered_product(reversed(word), space=X)) for c, word in inner)
        rest = linear_combination((c, ordered_product(reversed(word))) for c, word in quotients if factor not in word)
        return oa.Equal(operator, total @ factor + rest)

    assert broken_collection((B @ A + C @ A, A, "right"), commuting) is None
    assert broken_collection((A @ B - B @ A, A, "right"), commuting) is not None
    assert broken_collection((A @ B - B @ A, A, "right")) is None


def test_states_are_collected_too():
    assert collect(A @ F @ x + B @ F @ x, F @ x).rhs == (A + B) @ F @ x
    assert collect(x + A @ x, x).lhs.domain == ONE


@pytest.mark.parametrize("place", [
    oa.inverse, oa.adjoint, oa.transpose, lambda e: oa.commutator(e, LINEAR[2]), lambda e: oa.function("exp", e),
    lambda e: oa.trace(e, "features"), lambda e: oa.tensor(e, oa.Identity(oa.FEATURES)),
])  # fmt: skip
def test_both_sides_of_a_theorem_may_be_substituted_into_wherever_an_atom_stands(place):
    A, B = LINEAR[:2]
    operator = place(1 - A @ B) @ place(A) if place(A).domain == place(A).codomain else place(A)
    replaced = substitute(operator, {A: A @ A + B}, backgrounds=True)
    assert operator != A @ A + B and replaced == (
        place(1 - (A @ A + B) @ B) @ place(A @ A + B) if place(A).domain == place(A).codomain else place(A @ A + B)
    )
    theorem = oa.resolvent_identity(A)
    lhs, rhs = (substitute(side, {A: B}, backgrounds=True) for side in (theorem.lhs, theorem.rhs))
    assert counterexample(lhs, rhs) is None
