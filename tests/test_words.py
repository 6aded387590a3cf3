"""The engine of words against a dictionary of tuples: products, cuts, sums, ranks, exactness, limits and interruption."""

import gc
import tracemalloc
from fractions import Fraction
from importlib import import_module
from itertools import combinations, pairwise, product
from math import ceil, comb
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import opalgebra as oa
from opalgebra._words import block, graded, integers, ordered, packing, small
from opalgebra._words.brackets import nested_commutators
from opalgebra._words.graded import Words
from opalgebra._words.lyndon import expanded, is_lyndon, lyndon_coordinates, lyndon_words
from opalgebra._words.ordered import ordered_product
from opalgebra._words.packing import Alphabet
from opalgebra._words.reading import alphabet_of, read, written
from opalgebra._words.series import exponential, logarithm

brackets = import_module("opalgebra._words.brackets")


def alphabet(size, weights=None):
    return Alphabet(tuple(range(size)), tuple(weights) if weights else ((1,),) * size)


def multiply(left, right):
    """The product of two sums of words, word by word."""
    total = {}
    for (u, a), (v, b) in product(left.items(), right.items()):
        total[u + v] = total.get(u + v, 0) + Fraction(a) * b
    return {word: c for word, c in total.items() if c}


def weight(letters, word):
    return tuple(map(sum, zip(*(letters.weights[number] for number in word)))) or (0,) * letters.gradings


def below(letters, terms, cut):
    return {w: c for w, c in terms.items() if all(m is None or g <= m for g, m in zip(weight(letters, w), cut))}


def random_terms(random, letters, count, longest, largest=9):
    words = {tuple(random.randrange(letters) for _ in range(random.randint(0, longest))) for _ in range(count)}
    return {word: Fraction(random.choice((-1, 1)) * random.randint(1, largest), random.randint(1, 7)) for word in words}


@st.composite
def sums(draw):
    size = draw(st.integers(1, 5))
    gradings = draw(st.integers(1, 3))
    weights = [tuple(draw(st.integers(0, 2)) for _ in range(gradings)) for _ in range(size)]
    word = st.lists(st.integers(0, size - 1), max_size=4).map(tuple)
    number = st.fractions(-5, 5, max_denominator=6) | st.sampled_from([Fraction(2**62), Fraction(1, 3**41), Fraction(-(2**63))])
    terms = st.dictionaries(word, number.filter(bool), max_size=12)
    cut = draw(st.none() | st.tuples(*[st.none() | st.integers(0, 6)] * gradings))
    return alphabet(size, weights), draw(terms), draw(terms), cut


@given(sums())
def test_products_sums_and_commutators_are_those_of_the_dictionaries(case):
    letters, left, right, cut = case
    assert wrong(letters, left, right, cut) is None


def wrong(letters, left, right, cut=None):
    """The name of what differs from the same by dictionaries, None for nothing."""
    first, second = Words.of(letters, left), Words.of(letters, right)
    limits = cut or (None,) * letters.gradings
    there, back = (below(letters, terms, limits) for terms in (multiply(left, right), multiply(right, left)))
    difference = {w: there.get(w, 0) - back.get(w, 0) for w in there | back}
    total = {w: left.get(w, 0) / Fraction(3) - right.get(w, 0) for w in left | right}
    checks = {
        "of": (first, left),
        "product": (graded.product(first, second, cut=cut), there),
        "commutator": (graded.commutator(first, second, cut=cut), difference),
        "combination": (graded.combination([(Fraction(1, 3), first), (-1, second)]), total),
        "scaled": (first.scaled(Fraction(-2, 3)), {w: c * Fraction(-2, 3) for w, c in left.items()}),
        "small": (Words.of(letters, below(letters, small.multiplied(left, right), limits)), there),
        "cut": (first.cut(cut), below(letters, left, limits)),
    }
    for name, (found, wanted) in checks.items():
        terms = list(found.terms())
        kept = {w: c for w, c in wanted.items() if c}
        if dict(terms) != kept or len(terms) != len(kept) or found.count != len(kept):
            return name
        if any(list(found.terms(key)) != sorted(found.terms(key)) for key in found.blocks):
            return f"order of {name}"
    return None


@pytest.mark.parametrize(("size", "length"), [(2, 140), (20, 30), (3, 63), (70, 25), (65, 40), (1, 100), (2**31, 5)])
def test_words_of_several_limbs(size, length):
    """Letters above 64, and words above 64 bits: packing, concatenation, order and ranks."""
    random = Random(size)
    letters = Alphabet(range(size), ((1,),) if size > 100 else ((1,),) * size) if size > 100 else alphabet(size)
    words = sorted({tuple(random.randrange(size) for _ in range(length)) for _ in range(40)})
    codes = letters.packed(np.array(words), length)
    assert codes.shape == (letters.limbs(length), len(words))
    assert [tuple(word) for word in letters.unpacked(codes, length).tolist()] == words
    assert packing.is_increasing(codes) or len(words) == 1
    shuffled = np.array(random.sample(range(len(words)), len(words)))
    assert packing.sorting(codes[:, shuffled]).tolist() == np.argsort(shuffled).tolist()
    for cutting in range(length + 1):
        left, right = (letters.packed(np.array(part).reshape(len(words), -1), part_length) for part, part_length in (
            ([word[:cutting] for word in words], cutting), ([word[cutting:] for word in words], length - cutting)))  # fmt: skip
        assert (letters.joined(left, right, cutting, length - cutting) == codes).all()


def test_long_words_are_multiplied_and_ranked():
    letters, random = alphabet(65), Random(3)
    left, right = (
        {tuple(random.randrange(65) for _ in range(length)): Fraction(random.randint(1, 9)) for length in lengths}
        for lengths in ([0, 9, 10, 11, 11, 25], [0, 3, 10, 10, 12, 25])
    )
    assert wrong(letters, left, right) is None
    found = graded.product(Words.of(letters, left), Words.of(letters, right))
    for key in found.blocks:
        for rank, (word, c) in enumerate(found.terms(key)):
            assert found.rank(word) == rank
            assert found.term(key, rank) == (word, c)
            assert found.coefficient(word) == c


def test_filters_and_ranks_of_words_that_are_not_there():
    letters = alphabet(3)
    words = Words.of(letters, {(0, 1): 2, (2, 1): 3, (1,): 1})
    assert dict(words.filtered(lambda found: (found == 1).all(axis=1)).terms()) == {(1,): 1}
    assert words.rank((1, 1)) is None
    assert words.rank((1, 1, 1)) is None
    assert words.coefficient((0, 0)) == 0
    with pytest.raises(oa.InputError, match="rank 2 was asked of 2 words; ranks count from 0"):
        words.term((2, (2,)), 2)
    with pytest.raises(oa.InputError, match="rank 0 was asked of 0 words"):
        words.term((7, (7,)), 0)


# Exactness


@pytest.mark.parametrize("largest", [2**31, 2**62, 2**63 - 1, 2**63, 10**30])
def test_coefficients_of_any_size_are_exact(largest):
    random = Random(1)
    for size, longest in ((2, 3), (5, 4), (30, 2)):
        left, right = ({w: c * largest for w, c in random_terms(random, size, 30, longest).items()} for _ in range(2))
        assert wrong(alphabet(size), left, right) is None
        doubled = {w: Fraction(largest) for w in left}
        assert wrong(alphabet(size), doubled, {w: -c for w, c in doubled.items()}) is None


def test_a_sum_that_overflows_on_the_way_and_not_at_the_end():
    letters = alphabet(2)
    big = Words.of(letters, {(0,): 2**63 - 1, (1,): -(2**63)})
    assert big.blocks[1, (1,)].integers.dtype == object
    total = graded.combination([(1, big), (1, big), (-1, big)])
    assert dict(total.terms()) == dict(big.terms())
    back = graded.combination([(1, big), (-1, big.scaled(Fraction(1, 2))), (Fraction(-1, 2), big)])
    assert not back.blocks
    small_again = graded.combination([(1, big), (-1, Words.of(letters, {(0,): 2**63 - 2, (1,): -(2**63) + 1}))])
    assert small_again.blocks[1, (1,)].integers.dtype == np.int64


def test_a_column_of_the_most_negative_number_has_its_bound():
    assert integers.bound(np.array([-(2**63), 5])) == 2**63
    assert integers.scaled(np.array([-(2**63)]), -1).tolist() == [2**63]


def test_cancelling_coefficients_leave_no_word():
    letters, random = alphabet(3), Random(2)
    for longest in (2, 6):
        terms = random_terms(random, 3, 40, longest)
        words = Words.of(letters, terms)
        assert not graded.combination([(1, words), (-1, words)]).blocks
        assert graded.commutator(words, words).count == 0
        assert words.is_equal(Words.of(letters, dict(reversed(terms.items()))))
        assert not words.is_equal(words.scaled(2))


def test_columns_in_any_order_are_collected():
    letters = alphabet(4, [(1, 0), (0, 1), (1, 1), (0, 0)])
    random = Random(5)
    listed = [tuple(random.randrange(4) for _ in range(3)) for _ in range(500)]
    numbers = [random.choice([1, -1, 2**62]) for _ in listed]
    wanted = {}
    for word, number in zip(listed, numbers):
        wanted[word] = wanted.get(word, 0) + Fraction(number, 6)
    found = Words.from_columns(letters, listed, numbers, 6)
    assert dict(found.terms()) == {w: c for w, c in wanted.items() if c}
    assert found.counts == Words.of(letters, {w: c for w, c in wanted.items() if c}).counts
    with pytest.raises(oa.InputError, match="columns of words are an array"):
        Words.from_columns(letters, listed, numbers[1:], 6)
    with pytest.raises(oa.InputError, match="columns of words are an array"):
        Words.from_columns(letters, listed, [0.5] * 500)


# Ordered products


@st.composite
def factor_lists(draw):
    size = draw(st.integers(1, 7))
    gradings = draw(st.integers(1, 2))
    weights = [tuple(draw(st.integers(0, 2)) for _ in range(gradings)) for _ in range(size)]
    letters = list(range(size)) if draw(st.booleans()) else draw(st.permutations(range(size)))
    number = st.fractions(-3, 3, max_denominator=4) | st.just(Fraction(2**61))
    factors = []
    while letters and len(factors) < 5:
        own, letters = letters[: draw(st.integers(1, 2))], letters[2:] if draw(st.booleans()) else letters[1:]
        word = st.lists(st.sampled_from(own), min_size=1, max_size=2).map(tuple)
        factor = {word: c for word, c in draw(st.dictionaries(word, number, max_size=3)).items() if c}
        constant = draw(st.sampled_from([1, 1, 1, Fraction(2, 3), 0]))
        factors.append(factor | ({(): constant} if constant else {}))
    cut = draw(st.none() | st.tuples(*[st.none() | st.integers(0, 4)] * gradings))
    return alphabet(size, weights), factors, cut


@given(factor_lists())
def test_ordered_products_are_those_of_the_dictionaries(case):
    assert wrongly_ordered(*case) is None


def wrongly_ordered(letters, factors, cut=None):
    wanted = {(): Fraction(1)}
    for factor in factors:
        wanted = multiply(factor, wanted)
    wanted = below(letters, wanted, cut or (None,) * letters.gradings)
    found = ordered_product(letters, factors, cut=cut)
    terms = list(found.terms())
    if dict(terms) != wanted or len(terms) != len(wanted):
        return dict(terms), wanted
    if any(list(found.terms(key)) != sorted(found.terms(key)) for key in found.blocks):
        return "order"
    return None


def layers(count):
    return [{(): 1, (number,): 1} for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 12])
def test_every_grade_of_a_product_of_layers(count):
    letters = alphabet(count)
    words = ordered_product(letters, layers(count))
    assert words.count == 2**count
    for k in range(count + 1):
        key = k, (k,)
        assert [word for word, c in words.terms(key) if c == 1] == sorted(w[::-1] for w in combinations(range(count), k))
    assert ordered_product(letters, layers(count), cut=(0,)).count == 1


def test_an_empty_product_is_the_empty_word():
    for size in (0, 1, 3):
        words = ordered_product(alphabet(size), [], cut=(0,))
        assert dict(words.terms()) == {(): 1}
    assert not Words.zero(alphabet(0)).blocks


def test_a_product_of_a_hundred_letters():
    letters = alphabet(100)
    words = ordered_product(letters, layers(100), cut=(3,))
    assert words.count == sum(comb(100, k) for k in range(4))
    assert words.term((3, (3,)), 0) == ((2, 1, 0), 1)
    assert words.term((3, (3,)), comb(100, 3) - 1) == ((99, 98, 97), 1)


def test_two_gradings_at_once():
    """Attention at most twice and feed-forward networks at most once, in 4 layers of both."""
    letters = Alphabet(tuple(range(8)), ((1, 0), (0, 1)) * 4)
    words = ordered_product(letters, layers(8), cut=(2, 1))
    assert words.count == (1 + 4 + 6) * (1 + 4)
    assert max(key[1] for key in words.blocks) == (2, 1)
    heads = Alphabet(tuple(range(8)), ((1, 1), (0, 0)) * 4)
    assert ordered_product(heads, layers(8), cut=(None, 1)).count == (1 + 4) * 2**4


# Series, brackets, Lyndon words


def test_the_logarithm_of_a_product_of_layers_in_closed_form():
    """The coefficient of a word of n letters is (-1)^a a! d! / n! with a weak ascents and d descents, from left to right."""
    factorials = [1, 1, 2, 6, 24]
    letters = alphabet(5)
    words = dict(logarithm(ordered_product(letters, layers(5), cut=(4,)), cut=(4,)).terms())
    assert len(words) == 5 + 25 + 125 + 625
    for word, c in words.items():
        ascents = sum(a <= b for a, b in pairwise(word))
        descents = len(word) - 1 - ascents
        assert c == Fraction((-1) ** ascents * factorials[ascents] * factorials[descents], factorials[len(word)])


def test_logarithm_and_exponential_undo_each_other():
    letters = alphabet(4, [(1, 0), (0, 1), (1, 1), (2, 0)])
    terms = {w: c for w, c in random_terms(Random(4), 4, 12, 2).items() if w}
    words, cut = Words.of(letters, terms), (3, 2)
    assert logarithm(exponential(words, cut=cut), cut=cut).is_equal(words.cut(cut))
    ones = alphabet(4)
    words = Words.of(ones, terms)
    assert logarithm(exponential(words, cut=(5,)), cut=(5,)).is_equal(words.cut((5,)))


def test_series_that_never_end_are_refused():
    letters = alphabet(2, [(1, 0), (0, 1)])
    words = Words.of(letters, {(0,): 1, (1,): 1})
    with pytest.raises(oa.InputError, match=r"a word of grade \(0, 1\) has powers that the cut \(3, None\) never ends"):
        exponential(words, cut=(3, None))
    with pytest.raises(oa.InputError, match="the logarithm of a sum with the constant 0 was asked; divide by it first"):
        logarithm(words, cut=(3, 3))


def bracketed(word):
    """[l_1, [l_2, ...]] by dictionaries."""
    if len(word) == 1:
        return {word: Fraction(1)}
    inner, letter = bracketed(word[1:]), {word[:1]: Fraction(1)}
    there, back = multiply(letter, inner), multiply(inner, letter)
    return {w: there.get(w, 0) - back.get(w, 0) for w in there | back if there.get(w, 0) != back.get(w, 0)}


@pytest.mark.parametrize(("size", "length", "count"), [(2, 5, 30), (8, 4, 200), (9, 5, 10), (70, 3, 20), (3, 1, 3)])
def test_nested_commutators_in_bulk(size, length, count):
    assert wrongly_bracketed(size, length, count) is None


def wrongly_bracketed(size, length, count):
    random = Random(size)
    terms = {
        tuple(random.randrange(size) for _ in range(length)): Fraction(random.choice((2**62, 3, -5)), 4) for _ in range(count)
    }
    wanted = {}
    for word, c in terms.items():
        for other, share in bracketed(word).items():
            wanted[other] = wanted.get(other, 0) + c * share
    found = dict(nested_commutators(Words.of(alphabet(size), terms)).terms())
    return None if found == {w: c for w, c in wanted.items() if c} else found


def test_the_number_of_lyndon_words_is_witts():
    witt = {2: [2, 1, 2, 3, 6, 9, 18, 30], 3: [3, 3, 8, 18, 48, 116, 312, 810]}
    for letters, numbers in witt.items():
        for length, number in enumerate(numbers, 1):
            words = list(lyndon_words(letters, length))
            assert len(words) == len(set(words)) == number
            assert words == sorted(words)
            assert all(is_lyndon(word) and len(word) == length for word in words)
        assert sum(map(is_lyndon, product(range(letters), repeat=6))) == numbers[5]
    assert not list(lyndon_words(2, 0))


def test_brackets_of_lyndon_words_begin_with_the_word_and_are_independent():
    for word in lyndon_words(3, 5):
        terms = expanded(word, {})
        assert min(terms) == word
        assert terms[word] == 1
        assert lyndon_coordinates(terms) == {word: 1}


def test_coordinates_in_the_lyndon_basis_are_unique():
    random = Random(6)
    basis = [word for length in (1, 2, 3, 4) for word in lyndon_words(3, length)]
    wanted = {word: Fraction(random.randint(1, 9), random.randint(1, 9)) for word in random.sample(basis, 15)}
    total = small.combined((c, expanded(word, {})) for word, c in wanted.items())
    assert lyndon_coordinates(total) == wanted
    for terms in ({(0, 1): 1}, {(): 1}, {(0, 0): 2}, total | {(2, 2, 2): Fraction(1)}):
        with pytest.raises(oa.InputError, match="no sum of commutators and letters"):
            lyndon_coordinates(terms)


# Operators

A, B, C = oa.atoms("A B C", kind="linear")
V = oa.family("V", kind="linear")


@pytest.mark.parametrize(
    "operator",
    [
        A, 0 * A, 1 + 0 * A, 2 * A @ B - B @ A, (1 + A) @ (2 - B) @ (A + B + C), oa.commutator(A + B, oa.commutator(B, C) @ A),
        oa.ordered_product(1 + V[l] for l in range(1, 9)), oa.ordered_product([A + B + C] * 6),
        sum((k * oa.commutator(V[k], oa.commutator(V[k + 1], V[k + 2])) for k in range(5)), start=A @ B),
        oa.inverse(1 - A) @ (1 + A) @ oa.function("exp", B), (A + B) @ oa.ordered_product([1 + A, 1 + B, 1 + C] * 3) @ (A - C),
    ],
    ids=str,
)  # fmt: skip
def test_reading_an_operator_is_expanding_it(operator):
    letters = alphabet_of(operator)
    assert written(read(operator, letters), operator) == oa.expand(operator).rhs
    for order in (0, 1, 3):
        short = read(operator, letters, cut=(order,))
        assert short.is_equal(read(operator, letters).cut((order,)))


def test_a_product_of_ten_thousand_factors_is_read():
    operator = oa.ordered_product([V[l] for l in range(300)] * 10)
    words = read(operator, alphabet_of(operator))
    assert written(words, operator) == operator
    long = oa.ordered_product(1 + V[l] for l in range(10_000))
    assert read(long, alphabet_of(long), cut=(1,)).count == 10_001


def test_what_is_not_linear_or_has_symbols_is_no_sum_of_words():
    F = oa.Atom("F", kind="nonlinear")
    with pytest.raises(oa.NotLinearError, match="F is not known to be linear; dress it on a state first"):
        alphabet_of(A + F @ A)
    g = oa.parameter("g")
    with pytest.raises(oa.InputError, match=r"whose coefficient g has a symbol; give it a value"):
        read(A + g * B, alphabet_of(A + g * B))


# Limits and interruption


def test_too_many_words_are_refused_with_their_number_and_memory_before_they_are_formed():
    letters = alphabet(200)
    with pytest.raises(oa.LimitError) as caught:
        ordered_product(letters, layers(40))
    size = sum(comb(40, length) * 8 * (1 + max(1, ceil(length / 8))) for length in range(41))
    assert str(caught.value) == (
        f"the expansion forms 1,099,511,627,776 words, which take {size / 1e12:.1f} TB, and the limit is 10,000,000; ask a "
        "lower order, or raise limit="
    )
    size = sum(comb(200, length) * 8 * (1 + max(1, ceil(length / 8))) for length in range(201))
    with pytest.raises(oa.LimitError, match=rf"forms about 10\^60 words, which take about 10\^{len(str(size)) - 13} TB"):
        ordered_product(letters, layers(200))
    with pytest.raises(oa.LimitError, match=r"forms 11 words, which take 0\.2 kB, and the limit is 10;"):
        ordered_product(letters, layers(10), cut=(1,), limit=10)
    assert ordered_product(letters, layers(10), cut=(1,), limit=11).count == 11
    words = Words.of(letters, {(k,): 1 for k in range(200)})
    with pytest.raises(oa.LimitError, match=r"forms 40,000 words, which take 640\.0 kB"):
        graded.product(words, words, limit=39_999)
    with pytest.raises(oa.LimitError, match="forms 80,000 words"):
        nested_commutators(graded.product(words, words), limit=79_999)
    assert graded.product(words, words, limit=None).count == 40_000


def test_the_memory_that_an_error_tells_is_what_the_columns_take():
    letters = alphabet(20)
    words = ordered_product(letters, layers(20))
    counts = small.counts_of_product(letters, layers(20), None)
    assert counts == words.counts
    assert words.nbytes == sum(block.memory(letters, key[0], count) for key, count in counts.items()) <= 48 * 2**20


def test_an_interruption_leaves_nothing_behind(monkeypatch):
    letters = alphabet(18)
    before = ordered_product(letters, layers(18))
    real, calls = ordered._extended, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return real(*arguments)

    gc.collect()
    tracemalloc.start()
    held, _ = tracemalloc.get_traced_memory()
    monkeypatch.setattr(ordered, "_extended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ordered_product(letters, layers(18))
    monkeypatch.undo()
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left - held < 100_000
    assert ordered_product(letters, layers(18)).is_equal(before)


# Planted mistakes, each of which the comparisons above see


def planted_overflow(monkeypatch):
    monkeypatch.setattr(block, "fitting", lambda column, largest: column)
    with np.errstate(all="ignore"):
        return wrong(alphabet(30), {(0,): Fraction(2**62), (1,): Fraction(3)}, {(0,): Fraction(2**62 - 1), (0, 1): Fraction(7)})


def planted_shift(monkeypatch):
    real = Alphabet.joined
    monkeypatch.setattr(Alphabet, "joined", lambda self, u, v, n, m: real(self, u, v, n, m + (n + m > self.per_limb)))
    random = Random(3)
    terms = {tuple(random.randrange(20) for _ in range(9)): Fraction(1) for _ in range(5)}
    return wrong(alphabet(20), terms, terms)


def planted_unsorted_runs(monkeypatch):
    monkeypatch.setattr(block, "_merged", lambda codes, column: (codes, column))
    return wrong(alphabet(30), {(0,): 1, (0, 1): 1, (2, 3): 1}, {(1, 2): 1, (2,): 1, (3,): 5})


def planted_zeros(monkeypatch):
    monkeypatch.setattr(block, "_without_zeros", lambda length, codes, column: block.Block(length, codes, column))
    return wrong(alphabet(30), {(0,): Fraction(1)}, {(0,): Fraction(1, 3)})


def planted_cut(monkeypatch):
    monkeypatch.setattr(graded, "is_within", lambda grade, cut: cut is None or grade[0] <= cut[0])
    letters = alphabet(2, [(1, 0), (0, 1)])
    return wrong(letters, {(0,): 1, (1,): 1}, {(0,): 1, (1,): 1}, (2, 1))


def planted_prefix(monkeypatch):
    real = np.searchsorted
    monkeypatch.setattr(ordered.np, "searchsorted", lambda owners, wanted: real(owners, wanted, side="right"))
    return wrongly_ordered(alphabet(4), layers(4))


def planted_direction(monkeypatch):
    real = ordered._disjoint
    monkeypatch.setattr(ordered, "_disjoint", lambda letters, factors, cut: real(letters, factors[::-1], cut))
    return wrongly_ordered(alphabet(3), layers(3))


def planted_bracket(monkeypatch):
    monkeypatch.setattr(brackets, "is_dense", lambda *_: False)
    monkeypatch.setattr(
        brackets, "from_unsorted", lambda length, codes, column: block.from_unsorted(length, codes, abs(column))
    )
    return wrongly_bracketed(8, 4, 20)


@pytest.mark.parametrize(
    "mistake",
    [planted_overflow, planted_shift, planted_unsorted_runs, planted_zeros, planted_cut, planted_prefix, planted_direction,
     planted_bracket],
)  # fmt: skip
def test_planted_mistakes_are_seen(mistake, monkeypatch):
    assert mistake(monkeypatch) is not None
