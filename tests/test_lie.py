"""Lie series against exact matrices, Goldberg's closed form, published coefficients, and what they must refuse."""

from fractions import Fraction
from importlib import import_module
from itertools import groupby, product
from math import prod
from random import Random

import pytest
from triangular import combined, exponential, logarithm, one, random_matrix, times, value

import opalgebra as oa
from opalgebra._words import series
from opalgebra._words.reading import alphabet_of, read
from opalgebra.expr import Zero, terms

lie, magnus_module = (import_module(f"opalgebra.{name}") for name in ("lie", "magnus"))
A, B, C, D = oa.atoms("A B C D", kind="linear")
F = oa.Atom("F", kind="nonlinear")
V = oa.family("V", kind="linear")
l, L = oa.symbol("l"), oa.symbol("L")
half = Fraction(1, 2)


def c(*operators):
    """The right-nested commutator."""
    return operators[0] if len(operators) == 1 else oa.commutator(operators[0], c(*operators[1:]))


def exp(operator):
    return oa.function("exp", operator)


def matrices(size, *names, seed=0):
    random = Random(seed)
    return {name: random_matrix(random, size) for name in names}


def word_coefficients(operator, *letters):
    """The coefficients of the words of an operator, words as tuples of the places of their letters."""
    alphabet = alphabet_of(operator)
    places = {alphabet.numbers[letter]: place for place, letter in enumerate(letters) if letter in alphabet.numbers}
    return {tuple(places[n] for n in word): c for word, c in read(operator, alphabet).terms()}


# Baker, Campbell, Hausdorff


@pytest.mark.parametrize("order", range(1, 9))
def test_bch_is_the_logarithm_of_exact_exponentials(order):
    assert bch_is_wrong(order) is False


def bch_is_wrong(order):
    of = matrices(order + 1, A, B, seed=order)
    wanted = logarithm(times(exponential(of[A]), exponential(of[B])))
    return value(oa.bch(A, B, order=order), of, order + 1) != wanted


def goldberg(word):
    """The coefficient of a word in log(exp x_0 exp x_1): the integral from 0 to 1 of t^p (t - 1)^q prod G_s(t) over the runs s.

    p = floor(m/2), q = floor((m - 1)/2) for m runs, `G_1 = 1, s G_s = d/dt (t (t - 1) G_{s - 1})`; a word that begins with x_1
    has the sign (-1)^(n - 1) besides. Duke Math. J. 23 (1956) 13.
    """

    def by(p, q):
        out = [Fraction(0)] * (len(p) + len(q) - 1)
        for i, a in enumerate(p):
            for j, b in enumerate(q):
                out[i + j] += a * b
        return out

    def g(s):
        if s == 1:
            return [Fraction(1)]
        inside = by([Fraction(0), Fraction(-1), Fraction(1)], g(s - 1))
        return [k * a / s for k, a in enumerate(inside)][1:]

    runs = [len(list(run)) for _, run in groupby(word)]
    polynomial = [Fraction(1)]
    for factor in [[0, 1]] * (len(runs) // 2) + [[-1, 1]] * ((len(runs) - 1) // 2) + [g(s) for s in runs]:
        polynomial = by(polynomial, [Fraction(a) for a in factor])
    integral = sum(a / (k + 1) for k, a in enumerate(polynomial))
    return integral * (-1) ** (len(word) - 1) if word[0] == 1 else integral


def test_every_word_of_bch_to_order_8_has_goldbergs_coefficient():
    found = word_coefficients(oa.bch(A, B, order=8), A, B)
    wanted = {word: goldberg(word) for n in range(1, 9) for word in product((0, 1), repeat=n)}
    assert found == {word: number for word, number in wanted.items() if number}


def test_bch_in_published_nested_commutators():
    """Orders 1 to 5 as in print; above order 4 the form is not unique, so words are compared."""
    published = A + B + sum(
        (
            half * c(A, B),
            Fraction(1, 12) * (c(A, A, B) + c(B, B, A)),
            Fraction(-1, 24) * c(B, A, A, B),
            Fraction(-1, 720) * (c(B, B, B, B, A) + c(A, A, A, A, B)),
            Fraction(1, 360) * (c(A, B, B, B, A) + c(B, A, A, A, B)),
            Fraction(1, 120) * (c(B, A, B, A, B) + c(A, B, A, B, A)),
        ),
        start=0 * A,
    )  # fmt: skip
    found = oa.bch(A, B, order=5)
    assert word_coefficients(found, A, B) == word_coefficients(published, A, B)
    assert oa.lyndon_form(published).rhs == found
    assert oa.bch(A, B, order=2) == A + B + half * c(A, B)
    assert oa.bch(A, B, order=3) - oa.bch(A, B, order=2) == Fraction(1, 12) * (c(A, A, B) + oa.commutator(c(A, B), B))


def test_symmetric_bch_has_odd_orders_alone():
    found = oa.symmetric_bch(A, B, order=5)
    assert word_coefficients(found, A, B).keys() <= {w for n in (1, 3, 5) for w in product((0, 1), repeat=n)}
    third = word_coefficients(oa.symmetric_bch(A, B, order=3) - A - B, A, B)
    assert third == word_coefficients(Fraction(-1, 24) * c(A, A, B) + Fraction(1, 12) * c(B, B, A), A, B)
    assert oa.symmetric_bch(A, B, order=4) == oa.symmetric_bch(A, B, order=3)
    of = matrices(7, A, B)
    ends = exponential(combined((half, of[A])))
    assert value(oa.symmetric_bch(A, B, order=6), of, 7) == logarithm(times(ends, times(exponential(of[B]), ends)))


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_the_exponents_of_zassenhaus_multiply_to_the_exponential_of_the_sum(order):
    exponents = oa.zassenhaus(A, B, order=order)
    assert exponents[:2] == (A, B)
    assert len(exponents) == order + 1
    of = matrices(order + 1, A, B)
    total = one(order + 1)
    for exponent in exponents:
        total = times(total, exponential(value(exponent, of, order + 1)))
    assert total == exponential(combined((1, of[A]), (1, of[B])))
    for degree, exponent in enumerate(exponents[2:], 2):
        assert {len(word) for word in word_coefficients(exponent, A, B)} == {degree}


def test_series_of_sums_multiples_and_equal_operators():
    of = matrices(5, A, B, C)
    for left, right in ((A + 2 * B, C - A), (half * A, -3 * B), (A @ B, C), (A, A), (oa.commutator(A, B), A)):
        exact = logarithm(times(*(exponential(value(side, of, 5)) for side in (left, right))))
        assert value(oa.bch(left, right, order=4), of, 5) == exact
    assert oa.bch(A, A, order=6) == 2 * A
    assert oa.bch(A, -A, order=6) == Zero()
    assert oa.bch(A, 0 * A, order=3) == A
    g = oa.parameter("g")
    assert oa.bch(g * A, B, order=2) == g * A + B + half * g * c(A, B)


def test_order_zero_is_zero():
    assert oa.bch(A, B, order=0) == oa.symmetric_bch(A, B, order=0) == oa.magnus((1 + A) @ (1 + B), order=0) == Zero()
    with pytest.raises(oa.InputError, match="the Zassenhaus formula was asked up to order 0, but it begins with A and B"):
        oa.zassenhaus(A, B, order=0)


def test_known_closed_forms():
    """Nilpotent of class 2: it ends at order 2. [X, Y] = Y: the coefficient of Y is 1/(1 - 1/e), order by order B_k/k!."""
    of = {A: ((0, 1, 0), (0, 0, 0), (0, 0, 0)), B: ((0, 0, 0), (0, 0, 1), (0, 0, 0))}
    of = {name: tuple(tuple(map(Fraction, row)) for row in m) for name, m in of.items()}
    assert value(oa.bch(A, B, order=6), of, 3) == ((0, 1, half), (0, 0, 1), (0, 0, 0))
    affine = {A: ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(0))), B: ((Fraction(0), Fraction(1)), (Fraction(0),) * 2)}
    bernoulli = [1, half, Fraction(1, 12), 0, Fraction(-1, 720), 0, Fraction(1, 30240), 0]
    for order in range(1, 9):
        assert value(oa.bch(A, B, order=order), affine, 2) == ((1, sum(bernoulli[:order])), (0, 0))


def test_the_leading_error_of_a_trotter_product():
    """(exp(A/n) exp(B/n))^n = exp(A + B + [A, B]/(2n) + ...), for n a symbol of its own."""
    step = oa.parameter("h", positive=True)
    found = oa.expand(1 / step * oa.bch(step * A, step * B, order=2), unfold=False).rhs
    assert found == A + B + half * step * c(A, B)


# Normal form


def test_jacobi_and_antisymmetry_hold_by_normal_form():
    for operators in ((A, B, C), (A, c(B, C), D), (B, A, c(A, c(A, B)))):
        x, y, z = operators
        theorem = oa.lyndon_form(c(x, y, z) + c(y, z, x) + c(z, x, y))
        assert theorem.rhs == Zero()
        assert not theorem.hypotheses
    assert oa.lyndon_form(c(A, B) + c(B, A)).rhs == Zero()
    reported = oa.commutator(c(c(c(A, B), A), B), A) - oa.commutator(c(c(c(A, B), B), A), A)
    assert oa.lyndon_form(c(c(c(A, B), A), B) - c(c(c(A, B), B), A)).rhs == Zero()
    assert oa.lyndon_form(reported).rhs == Zero()


def test_the_normal_form_is_one_for_all_ways_to_write_a_lie_polynomial():
    random = Random(7)

    def nested(letters):
        if len(letters) == 1:
            return letters[0]
        cutting = random.randint(1, len(letters) - 1)
        return oa.commutator(nested(letters[:cutting]), nested(letters[cutting:]))

    for _ in range(8):
        polynomial = sum(
            (random.randint(1, 5) * nested(random.choices((A, B, C), k=random.randint(1, 5))) for _ in range(4)), 0 * A
        )
        theorem = oa.lyndon_form(polynomial)
        assert theorem.lhs == polynomial
        assert oa.expand(theorem.rhs).rhs == oa.expand(polynomial).rhs
        assert oa.lyndon_form(oa.expand(polynomial).rhs).rhs == theorem.rhs
        for _, term in terms(theorem.rhs):
            assert oa.lyndon_form(term).rhs == term


def test_dynkins_map_multiplies_a_lie_polynomial_by_its_degree():
    for degree in (2, 3, 4, 5):
        part = oa.bch(A, B, order=degree) - oa.bch(A, B, order=degree - 1)
        found = sum((number * left_nested(word) for word, number in word_coefficients(part, A, B).items()), start=0 * A)
        assert oa.lyndon_form(found).rhs == oa.lyndon_form(degree * part).rhs


def left_nested(word):
    found = (A, B)[word[0]]
    for letter in word[1:]:
        found = oa.commutator(found, (A, B)[letter])
    return found


def test_a_commutator_of_sums_in_normal_form():
    first, second, third, fourth = oa.atoms("A1 A2 B1 B2", kind="linear")
    found = oa.lyndon_form(oa.commutator(first + second, third + fourth)).rhs
    assert found == sum((oa.commutator(a, b) for a in (first, second) for b in (third, fourth)), start=0 * A)


# Magnus


def closed_form(letters):
    """(-1)^a a! d! / n!, a the weak ascents of a word from left to right, later layers to the left."""
    factorial = lambda n: prod(range(1, n + 1))  # noqa: E731
    ascents = sum(first <= second for first, second in zip(letters, letters[1:]))  # noqa: RUF007
    return Fraction((-1) ** ascents * factorial(ascents) * factorial(len(letters) - 1 - ascents), factorial(len(letters)))


@pytest.mark.parametrize("form", ["words", "commutators"])
def test_the_logarithm_of_layers_in_closed_form(form):
    letters = [V[k] for k in range(1, 5)]
    found = word_coefficients(oa.magnus(oa.ordered_product(1 + v for v in letters), order=4, form=form), *letters)
    assert found == {word: closed_form(word) for n in range(1, 5) for word in product(range(4), repeat=n)}


@pytest.mark.parametrize("form", ["words", "commutators"])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_magnus_is_the_logarithm_of_exact_layers(form, order):
    letters = [V[k] for k in range(1, 4)]
    of = matrices(order + 1, *letters, seed=order)
    first, second, third = letters
    products = (
        [1 + first, 1 + second, 1 + third],
        [exp(first), exp(second), exp(third)],
        [exp(first), 1 + second, exp(third)],
        [1 + first, 1 + second, 1 + first],
        [1 - 2 * first, exp(half * second), 1 + first],
    )
    for factors in products:
        layers = oa.ordered_product(factors)
        found = oa.magnus(layers, order=order, form=form)
        assert value(found, of, order + 1) == logarithm(value(layers, of, order + 1))


def test_powers_of_one_layer_commute():
    assert oa.magnus((1 + A) @ (1 - A), order=6) == -1 * A @ A - half * A @ A @ A @ A - Fraction(1, 3) * oa.ordered_product(
        [A] * 6
    )
    again = oa.magnus((1 + A) @ (1 + B) @ (1 + A), order=5)
    assert oa.expand(again).rhs == oa.magnus((1 + A) @ (1 + B) @ (1 + A), order=5, form="words")
    assert not any(word == oa.commutator(A, A @ A) for _, word in terms(again))


def test_a_layer_is_not_taken_apart():
    """With W for what one layer adds, the series is that of W, whatever it is made of."""
    W = oa.Atom("W", kind="linear")
    whole = oa.magnus((1 + W) @ exp(B), order=3)
    parts = A @ C - 2 * B
    assert oa.expand(oa.magnus((1 + parts) @ exp(B), order=3)).rhs == oa.expand(oa.substitute(whole, {W: parts})).rhs


def test_layers_and_exponentials_differ_by_squares():
    """O_2 of 1 + V has -1/2 sum of V_l^2 beside the commutators that exponentials have too."""
    letters = [V[k] for k in range(1, 5)]
    brackets = sum((half * c(letters[i], letters[j]) for i in range(4) for j in range(i)), start=0 * A)
    squares = sum((v @ v for v in letters), start=0 * A)
    residual, exact = (oa.magnus(oa.ordered_product(layer(v) for v in letters), order=2) - sum(letters, start=0 * A)
                       for layer in (lambda v: 1 + v, exp))  # fmt: skip
    assert oa.expand(exact - brackets).rhs == Zero()
    assert oa.expand(residual - brackets + half * squares).rhs == Zero()


def test_magnus_of_any_length_at_every_length():
    symbolic = oa.magnus(oa.ordered_product(1 + V[l], l, 1, L), order=4)
    shifted = oa.magnus(oa.ordered_product(1 + V[l], l, 3, L + 2), order=3)
    for length in (1, 2, 3):
        layers = oa.ordered_product(1 + V[k] for k in range(1, length + 1))
        later = oa.ordered_product(1 + V[k] for k in range(3, length + 3))
        assert unfolded(oa.instantiate(symbolic, {L: length})) == oa.magnus(layers, order=4, form="words")
        assert unfolded(oa.instantiate(shifted, {L: length})) == oa.magnus(later, order=3, form="words")


def unfolded(operator):
    """Ordered sums over numbers of layers as words."""
    from opalgebra.expr import postorder
    from opalgebra.indexed import OrderedSum

    sums = {}
    for node in postorder(operator, backgrounds=False, bodies=True):
        if isinstance(node, OrderedSum):
            choices = [word for word in product(range(1, node.upper + 1), repeat=node.order) if list(word) == sorted(set(word))]
            sums[node] = sum((oa.ordered_product(map(node.opened, word)) for word in choices), start=0 * A)
    return oa.expand(oa.substitute(operator, sums) if sums else operator).rhs


def test_magnus_of_a_single_layer_and_of_none():
    assert oa.magnus(1 + A, order=3) == A - half * A @ A + Fraction(1, 3) * A @ A @ A
    assert oa.magnus(exp(A), order=5) == A
    assert oa.magnus(1 + 0 * A, order=3) == Zero()
    assert oa.magnus((1 + A) @ (1 + A), order=2) == 2 * A - A @ A


# Refusals


def test_nonlinear_operators_are_refused():
    advice = "needs it to be; on a state, dress it first, or declare its atoms with kind='linear' if they are"
    for act, of in (
        (lambda: oa.bch(A, F, order=2), "F is not known to be linear, and the Baker-Campbell-Hausdorff series"),
        (lambda: oa.symmetric_bch(F, A, order=2), "the symmetric Baker-Campbell-Hausdorff series"),
        (lambda: oa.zassenhaus(A, F @ A, order=2), "F @ A is not known to be linear, and the Zassenhaus formula"),
        (lambda: oa.magnus((1 + F) @ (1 + A), order=2), "the Magnus series"),
        (lambda: oa.lyndon_form(A + F), "the normal form of commutators"),
        (lambda: oa.bch(oa.state("x"), A, order=1), "x is not known to be linear"),
    ):
        with pytest.raises(oa.NotLinearError) as caught:
            act()
        assert of in str(caught.value)
        assert str(caught.value).endswith(advice)


def test_other_refusals():
    many = oa.ordered_product(1 + V[k] for k in range(50))
    rectangular = oa.Atom("R", kind="linear", domain=oa.FEATURES)
    for error, act, text in (
        (oa.SpaceError, lambda: oa.bch(rectangular, rectangular, order=1), "it needs maps of one space to itself"),
        (oa.InputError, lambda: oa.bch(A, B, order=-1), "order=-1: the Baker-Campbell-Hausdorff series is written up to"),
        (oa.InputError, lambda: oa.bch(A, B, order=2.5), "order=2.5: "),
        (oa.InputError, lambda: oa.bch(A, 3, order=2), "3 is no operator"),
        (oa.InputError, lambda: oa.magnus((1 + A) @ B, order=2), "needs layers 1 + V or exp(V), and B is neither"),
        (oa.InputError, lambda: oa.magnus(2 + A, order=2), "is neither; put each layer into one factor"),
        (oa.InputError, lambda: oa.magnus(1 + A, order=2, form="tree"), "form='tree' is unknown; use commutators or words"),
        (oa.InputError, lambda: oa.magnus(oa.ordered_product(exp(V[l]), l, 1, L), order=2), "give the length a value"),
        (oa.InputError, lambda: oa.lyndon_form(A @ B), "A @ B has no normal form of commutators"),
        (oa.InputError, lambda: oa.lyndon_form(1 + A), "has no normal form of commutators"),
        (oa.InputError, lambda: oa.lyndon_form(oa.parameter("g") * A), "whose coefficient g has a symbol; give it a value"),
        (oa.LimitError, lambda: oa.bch(A, B, order=40), "words, which take"),
        (oa.LimitError, lambda: oa.magnus(many, order=12, form="words"), "ask a lower order"),
        (oa.LimitError, lambda: oa.magnus(many, order=12), "ask a lower order"),
        (oa.LimitError, lambda: oa.magnus((1 + A) @ (1 + B), order=3, form="words", limit=3), "and the limit is 3"),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            act()
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)


# Planted mistakes


def test_a_wrong_order_of_the_exponentials_is_seen(monkeypatch):
    real = lie._log_of_exponentials
    monkeypatch.setattr(lie, "_log_of_exponentials", lambda factors, *rest: real(factors[::-1], *rest))
    assert bch_is_wrong(2)


def test_a_wrong_sign_of_the_logarithm_leaves_no_lie_polynomial(monkeypatch):
    real = series.power_series
    monkeypatch.setattr(series, "power_series", lambda numbers, *a, **k: real([abs(n) for n in numbers], *a, **k))
    with pytest.raises(oa.InputError, match="no sum of commutators and letters has these words"):
        oa.bch(A, B, order=2)


def test_a_commutator_turned_round_is_seen(monkeypatch):
    monkeypatch.setattr(lie, "commutator", lambda left, right: oa.commutator(right, left))
    assert bch_is_wrong(3)


def test_an_exponential_taken_for_a_layer_is_seen(monkeypatch):
    real = magnus_module._layer
    monkeypatch.setattr(magnus_module, "_layer", lambda factor: [(*v, not exponential) for *v, exponential in real(factor)])
    found = oa.magnus((1 + V[1]) @ (1 + V[2]), order=2, form="words")
    assert word_coefficients(found, V[2], V[1]) != {w: closed_form(w) for n in (1, 2) for w in product(range(2), repeat=n)}
