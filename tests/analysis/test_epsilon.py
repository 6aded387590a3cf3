"""Epsilon algorithms against exact rationals, Pade approximants, turned and scaled sequences, and known sums."""

from fractions import Fraction
from importlib import import_module
from itertools import accumulate

import numpy as np
import pytest
import torch
from analysis.series import COSINES, LOGARITHMIC, RESOLVENT, alternating, cosines, divergent, logarithmic

import opalgebra as oa
from opalgebra.analysis import pade, topological_epsilon, vector_epsilon, wynn_epsilon

module = import_module("opalgebra.analysis.epsilon")
sequences = import_module("opalgebra.analysis.sequences")

COLUMNS = {
    0: "1 1/2 5/6 7/12 47/60 37/60 319/420",
    1: "7/10 29/42 25/36 457/660 541/780",
    2: "52/75 341/492 2537/3660",
    3: "1073/1548",
}


def columns(values):
    start = sequences.Noisy.of(sequences.members(values, axes=1))
    return [column.values[:, 0] for column in module.even_columns(start)]


def test_the_even_columns_of_the_logarithm_of_two_are_exact():
    for number, column in enumerate(columns(alternating(7))):
        assert column.tolist() == list(map(Fraction, COLUMNS[number].split()))
    assert wynn_epsilon(alternating(7)).value == Fraction(1073, 1548)
    assert wynn_epsilon(alternating(11)).value == Fraction(37981, 54795)


@pytest.mark.parametrize("count", [3, 5, 7, 9])
def test_the_table_is_the_pade_table(count):
    """eps_2k^(0) of the partial sums of c is the approximant of type (k, k) of c at 1."""
    terms = [Fraction(n * n + 1, 3**n * (n + 2)) for n in range(count)]
    assert wynn_epsilon(list(accumulate(terms))).value == pade(terms, count // 2, count // 2)(1)


def isolated():
    """An isolated zero term, whose neighbours agree; the series is 1/(1 - 1/4) with zeros between."""
    terms = [Fraction(1, 4 ** (n // 2)) if n % 2 == 0 else Fraction(0) for n in range(8)]
    assert wynn_epsilon(list(accumulate(terms))).value == Fraction(4, 3)
    assert abs(wynn_epsilon(np.cumsum([float(term) for term in terms])).value - 4 / 3) < 1e-14


def nearly_isolated(size=1e-9):
    """A term that is nearly zero: the plain rule would subtract 1e9 twice on its way, and square the loss a column later."""
    terms = [Fraction(1), Fraction(1, 2), Fraction(size), *(Fraction(1, k) for k in (5, 11, 17, 23, 29, 31))]
    exact, found = columns(list(accumulate(terms))), columns(np.array([float(s) for s in accumulate(terms)]))
    for number in (2, 3, 4):
        assert (abs(found[number] - exact[number].astype(float)) < 1e-13 * abs(exact[number]).astype(float)).all()


def test_isolated_singular_entries_are_passed_by():
    isolated()
    nearly_isolated()


def no_singular_rule(north, south, west, centre):
    return module.Column(centre.values, centre.noise, np.ones_like(centre.infinite))


@pytest.mark.parametrize("check", [isolated, nearly_isolated])
def test_planted_table_without_the_singular_rule_is_found(monkeypatch, check):
    monkeypatch.setattr(module, "_singular", no_singular_rule)
    with pytest.raises(AssertionError):
        check()


def test_constant_sequences_give_the_constant():
    for values in ([5.0] * 4, [5] * 3, torch.full((6,), 5.0), [5.0 + 0j] * 5):
        found = wynn_epsilon(values)
        assert found.value == 5 and found.converged
    same = vector_epsilon(np.full((5, 3), 2.5))
    assert (same.value == 2.5).all() and same.converged


def geometric_mixture(components, parts, members, *, seed=0, dtype=complex):
    """x + sum of geometric sequences along random directions: the limit, and the members."""
    generator = np.random.default_rng(seed)
    shape = (parts, components)
    directions = generator.standard_normal(shape) + (1j * generator.standard_normal(shape) if dtype is complex else 0)
    ratios = generator.uniform(0.3, 1.4, parts) * (np.exp(1j * generator.uniform(1, 5, parts)) if dtype is complex else -1)
    limit = generator.standard_normal(components).astype(dtype)
    return limit, limit + np.power.outer(ratios, np.arange(members)).T @ directions


def vectors_are_exact(dtype):
    limit, members = geometric_mixture(6, 3, 9, dtype=dtype)
    for found in (vector_epsilon(members), topological_epsilon(members, np.arange(1.0, 7.0) + (1j if dtype is complex else 0))):
        assert np.linalg.norm(found.value - limit) < 1e-9
        assert found.converged and np.linalg.norm(found.value - limit) < 10 * found.error


@pytest.mark.parametrize("dtype", [float, complex])
def test_sums_of_geometric_sequences_are_summed_exactly(dtype):
    vectors_are_exact(dtype)


def test_planted_inverse_without_conjugation_is_found(monkeypatch):
    def careless(values, where):
        square = np.where(where, (values**2).sum(-1), 1.0)
        return np.where(where[..., None], values / square[..., None], 0)

    turns_with_the_sequence(complex)
    monkeypatch.setattr(module, "_reciprocal", careless)
    turns_with_the_sequence(float)
    with pytest.raises(AssertionError):
        turns_with_the_sequence(complex)


def test_a_divergent_neumann_series_is_the_resolvent():
    """Seven terms give it, and two more show it."""
    for found in (vector_epsilon(divergent(7)), topological_epsilon(divergent(7), [1.0, 1.0, 1.0])):
        assert np.abs(found.value - RESOLVENT).max() < 1e-9 and not found.converged
    for found in (vector_epsilon(divergent(9)), topological_epsilon(divergent(9), [1.0, 1.0, 1.0])):
        assert np.abs(found.value - RESOLVENT).max() < 1e-9 and found.converged


def turns_with_the_sequence(dtype):
    """Seven members of a mixture that nine would sum: an estimate that is no limit."""
    generator = np.random.default_rng(1)
    square, other = generator.standard_normal((2, 5, 5))
    turn = np.linalg.qr(square + (1j * other if dtype is complex else 0))[0]
    members = geometric_mixture(5, 4, 7, dtype=dtype)[1]
    plain = vector_epsilon(members).value
    assert np.allclose(vector_epsilon(members @ turn.T).value, turn @ plain, rtol=1e-8)
    shift = generator.standard_normal(5)
    assert np.allclose(vector_epsilon(members + shift).value, plain + shift, rtol=1e-8)
    for scale in (1e-100, 1e-8, 1e8, 1e100):
        assert np.allclose(vector_epsilon(scale * members).value / scale, plain, rtol=1e-8)


@pytest.mark.parametrize("dtype", [float, complex])
def test_vector_epsilon_turns_shifts_and_scales_with_the_sequence(dtype):
    turns_with_the_sequence(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_short_dtypes_stop_at_their_noise_and_say_so(dtype):
    """Done in float32 itself the table is NaN from eps_6 on."""
    found = wynn_epsilon(np.array([float(s) for s in alternating(60)]).astype(dtype))
    assert found.converged and abs(found.value - np.log(2)) <= found.error
    unit = np.finfo(dtype).eps / 2
    assert found.noise < 100 * unit and found.error < 200 * unit


def test_the_noise_is_of_the_size_of_the_error_that_rounding_makes():
    """Against the exact table: over 20 tables the error is below 10 times the noise, and mostly above a hundredth of it."""
    ratios = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        terms = [Fraction(int(x), 64) for x in generator.integers(1, 200, 13)]
        signs = [Fraction((-1) ** n * 2, 3**n) for n in range(13)]
        exact = sequences.Noisy.of(sequences.members(list(accumulate(a * b for a, b in zip(terms, signs))), axes=1))
        rounded = sequences.Noisy.of(sequences.members(exact.values[:, 0].astype(float), axes=1))
        for true, found in zip(module.even_columns(exact)[1:], module.even_columns(rounded)[1:]):
            errors = [abs(Fraction(float(a)) - b) for a, b in zip(found.values[:, 0], true.values[:, 0])]
            ratios += (np.array(errors, dtype=float) / found.noise).tolist()
    assert max(ratios) < 10
    assert np.median(ratios) > 1e-2


@pytest.mark.parametrize("count", [8, 12, 20, 40, 100])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_logarithmic_convergence_is_reported_as_failure(count, dtype):
    for sums in (logarithmic(count), np.cumsum(1 / np.arange(1.0, count + 1) ** 2), np.cumsum(1 / np.arange(1.0, count + 1))):
        found = wynn_epsilon(sums.astype(dtype))
        assert not found.converged
    found = wynn_epsilon(logarithmic(count).astype(dtype))
    assert abs(found.value - LOGARITHMIC) < 4 * found.error
    pair = np.stack([logarithmic(count), 2 * logarithmic(count) + 1], axis=-1).astype(dtype)
    assert not vector_epsilon(pair).converged
    assert not topological_epsilon(pair, [1.0, 0.0]).converged


def test_planted_judgement_without_tails_takes_a_logarithmic_sum_for_converged(monkeypatch):
    sums = np.cumsum(1 / np.arange(1.0, 201) ** 2).astype("float32")
    assert not wynn_epsilon(sums, tolerance=2e-3).converged
    monkeypatch.setattr(sequences, "power_tails", lambda start: np.zeros(start.noise.shape[1:]))
    assert wynn_epsilon(sums, tolerance=2e-3).converged


@pytest.mark.parametrize("count", [10, 11, 12, 20, 40, 100, 300])
def test_a_zero_term_is_no_sign_of_convergence(count):
    found = wynn_epsilon(cosines(count))
    assert not found.converged
    assert abs(found.value - COSINES) < 20 * found.error


def test_what_is_refused():
    for act, text in (
        (lambda: wynn_epsilon([1.0, np.nan, 2.0]), "the sequence is nan at index 1; leave out what is not finite"),
        (lambda: vector_epsilon(torch.tensor([[1.0, 2.0], [3.0, float("inf")]])), r"the sequence is inf at index \(1, 1\)"),
        (lambda: wynn_epsilon([[1.0, 2.0]]), "has the shape .1, 2., but a sequence of numbers is expected"),
        (lambda: vector_epsilon([1.0, 2.0]), "a sequence of vectors .members, components. is expected"),
        (lambda: wynn_epsilon([]), "has 0 members, and 1 are needed"),
        (lambda: wynn_epsilon(["a", "b"]), "give floating numbers, or integers and Fractions"),
        (lambda: topological_epsilon(np.ones((3, 2)), [1.0]), "the covector has the shape .1,., but the vectors have .2,."),
        (lambda: wynn_epsilon([1.0, 2.0], tolerance=0), "tolerance=0 is no positive number"),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()
