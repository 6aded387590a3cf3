"""Pade approximants against exact rationals, Gauss quadrature, mpmath, and rational functions with noisy coefficients."""

from fractions import Fraction
from importlib import import_module
from itertools import pairwise
from math import comb, log, sqrt

import mpmath
import numpy as np
import pytest
from analysis.series import anharmonic, factorials
from hypothesis import given
from hypothesis import strategies as st

import opalgebra as oa
from opalgebra.analysis import pade

module = import_module("opalgebra.analysis.rational")
LOG = [Fraction(0)] + [Fraction((-1) ** (k + 1), k) for k in range(1, 11)]


def inverse(q, count):
    """Coefficients of 1/q, q[0] not zero."""
    found = []
    for k in range(count):
        found.append((Fraction(k == 0) - sum(q[j] * found[k - j] for j in range(1, min(k, len(q) - 1) + 1))) / q[0])
    return found


def logarithm():
    values = [pade(LOG, n, n)(1) for n in range(1, 6)]
    assert values == [Fraction(x) for x in "2/3 9/13 131/189 445/642 34997/50490".split()]
    with mpmath.workdps(30):
        difference = mpmath.mpf(34997) / 50490 - mpmath.log(2)
    assert abs(float(difference) + 2.270690510343584966948749e-8) < 1e-24


def test_the_diagonal_of_the_logarithm():
    logarithm()
    for n in range(1, 6):
        assert abs(pade([float(c) for c in LOG], n, n)(1) - float(pade(LOG, n, n)(1))) < 1e-13
    assert abs(pade(LOG, 5, 5)(1.0) - log(2)) < 3e-8


def test_planted_division_that_stops_one_step_late_is_found(monkeypatch):
    right = module._exact
    monkeypatch.setattr(module, "_exact", lambda c, m: right(c, max(m - 1, 0)))
    with pytest.raises(AssertionError):
        logarithm()


def test_poles_of_a_stieltjes_series_are_gauss_nodes():
    """log(1 + z)/z is the integral of 1/(1 + x z) over x in [0, 1]."""
    series = [Fraction((-1) ** k, k + 1) for k in range(12)]
    found = pade(series, 1, 2)
    assert found.p.tolist() == [1, Fraction(1, 2)] and found.q.tolist() == [1, 1, Fraction(1, 6)]
    assert np.allclose(found.poles, [-3 - sqrt(3), -3 + sqrt(3)], rtol=1e-13)
    for n in (2, 3, 4):
        nodes = (1 + np.polynomial.legendre.leggauss(n)[0]) / 2
        assert np.allclose(np.sort(pade(series, n - 1, n).poles.real), np.sort(-1 / nodes), rtol=1e-10)


def test_bounds_of_eulers_series():
    terms = factorials(41)
    lower = [pade(terms, n - 1, n)(1) for n in range(1, 6)]
    upper = [pade(terms, n, n)(1) for n in range(1, 6)]
    assert lower == [Fraction(x) for x in "1/2 4/7 10/17 124/209 460/773".split()]
    assert upper == [Fraction(x) for x in "2/3 8/13 44/73 100/167 2420/4051".split()]
    assert abs(float(pade(terms, 20, 20)(1)) - 0.596347558036200386927576) < 1e-15


def test_bakers_square_root():
    """Of (1 + 2x)/(1 + x), at x = 10."""
    quotient = [Fraction(1)] + [Fraction((-1) ** (k + 1)) for k in range(1, 7)]
    root = [Fraction(1)]
    for k in range(1, 7):
        root.append((quotient[k] - sum(root[j] * root[k - j] for j in range(1, k))) / 2)
    assert pade(root, 3, 3)(10) == Fraction(36163, 26173)
    assert abs(pade([float(c) for c in root], 3, 3)(10.0) - 36163 / 26173) < 1e-12


ANHARMONIC = "1/2 3/4 -21/8 333/16 -30885/128 916731/256 -65518401/1024 2723294673/2048 -1030495099053/32768".split()
ENERGY = 0.803770651234273769354086


def test_the_anharmonic_oscillator_between_its_bounds():
    series = anharmonic(41)
    assert series[:9] == list(map(Fraction, ANHARMONIC))
    assert series[12] == Fraction(-116344863173284543665, 4194304)
    known = {
        (5, 5): 0.7897714267313795974883286, (6, 5): 0.8168880206455572745585441, (10, 10): 0.8018661105637750730550218,
        (11, 10): 0.8055476934366997689031409, (20, 20): 0.8036686486798706483114282, (21, 20): 0.8038670675217752484114778,
    }  # fmt: skip
    for (m, n), value in known.items():
        assert abs(float(pade(series, m, n)(1)) - value) < 1e-15
        assert (value < ENERGY) == (m == n)


def test_a_rational_function_is_found_from_coefficients_of_a_fourier_transform():
    points = np.exp(2j * np.pi * np.arange(64) / 64)
    taylor = np.fft.fft((points**4 - 3) / ((points + 3.2) * (points - 2.2))).real / 64
    found = pade(taylor, 10, 10)
    assert found.type == (4, 2)
    assert np.abs(found.poles - [-3.2, 2.2]).max() < 1e-10


def no_doublets():
    for seed in range(50):
        noisy = pade(np.ones(21) + 1e-10 * np.random.default_rng(seed).standard_normal(21), 10, 10, tolerance=1e-8)
        assert noisy.type == (0, 1) and abs(noisy.poles[0] - 1) < 1e-8


def test_noise_makes_no_doublets():
    no_doublets()
    assert pade(np.ones(21), 10, 10).type == (0, 1) and abs(pade(np.ones(21), 10, 10).poles[0] - 1) < 1e-14


def test_planted_equations_without_reduction_have_doublets(monkeypatch):
    monkeypatch.setattr(module, "_robust", lambda c, m, n, tolerance: module._plain(c, m, n))
    with pytest.raises(AssertionError):
        no_doublets()


@pytest.mark.parametrize("kind", [float, int])
def test_blocks_of_the_table(kind):
    assert pade([kind(5)], 0, 0)(3) == 5
    assert pade([kind(1), kind(0), kind(1)], 1, 1).type == (0, 0)
    assert pade([kind(1)] * 5, 2).type == (0, 1)
    assert pade([kind(0), kind(1)], 0, 1).p.tolist() == [0]
    assert pade([kind(1), kind(1)], 3, 2).type == (1, 0)


def test_complex_coefficients_are_not_conjugated():
    """1 + iz of type (0, 1) is 1/(1 - iz)."""
    found = pade(np.array([1.0, 1j]), 0, 1)
    assert np.abs(found.q - [1, -1j]).max() < 1e-15
    assert np.abs(found.poles - [-1j]).max() < 1e-15


def test_a_double_pole():
    """y^3 - 6 y^2 + 11.25 y - 6.25 = (y - 1)(y - 5/2)^2."""
    series = inverse([Fraction(-25, 4), Fraction(45, 4), Fraction(-6), Fraction(1)], 7)
    for coefficients in (series, [float(c) for c in series]):
        found = pade(coefficients, 0, 3)
        assert np.abs(np.sort(found.poles.real) - [1, 2.5, 2.5]).max() < 1e-6
        assert np.abs(found.poles.imag).max() < 1e-6


polynomials = st.lists(st.integers(-9, 9), min_size=1, max_size=4)


@given(polynomials, polynomials, st.integers(0, 3), st.integers(0, 3))
def test_a_rational_function_is_given_back_in_lowest_terms(top, bottom, m, n):
    q = [1, *bottom]
    series = inverse([Fraction(x) for x in q], 16)
    series = [sum(Fraction(top[j]) * series[k - j] for j in range(min(k, len(top) - 1) + 1)) for k in range(16)]
    found = pade(series, len(top) - 1 + m, len(q) - 1 + n)
    again = inverse(list(found.q), 16)
    assert [sum(found.p[j] * again[k - j] for j in range(min(k, len(found.p) - 1) + 1)) for k in range(16)] == series
    assert found.type[0] <= len(top) - 1 and found.type[1] <= len(q) - 1


def test_a_regular_type_agrees_with_mpmath():
    for seed, (m, n) in enumerate([(2, 2), (3, 2), (1, 3), (4, 4)]):
        c = np.random.default_rng(seed).standard_normal(m + n + 1)
        p, q = mpmath.pade([mpmath.mpf(x) for x in c], m, n)
        for found in (pade(c, m, n), pade(c, m, n, robust=False)):
            assert found.type == (m, n)
            assert np.allclose(found.q, [float(x) for x in q], rtol=1e-8, atol=1e-8)
            assert np.allclose(found.p, [float(x) for x in p], rtol=1e-8, atol=1e-8)


def test_the_approximant_agrees_with_the_series_as_far_as_it_must():
    c = [Fraction(comb(2 * k, k), k + 1) for k in range(9)]
    found = pade(c, 4, 4)
    product = [sum(found.q[j] * c[k - j] for j in range(min(k, 4) + 1)) for k in range(9)]
    assert product == [*found.p, *[0] * (9 - len(found.p))]
    assert all(a < b for a, b in pairwise(float(pade(c[: 2 * n + 1], n, n)(Fraction(1, 5))) for n in range(4)))


def test_values_at_arrays_and_poles():
    found = pade([1, 1, 1], 1, 1)
    assert found(2) == -1 and found(1) == np.inf
    assert np.allclose(found(np.array([0.5, -1.0])), [2, 0.5])


def test_what_is_refused():
    for act, text in (
        (lambda: pade([1.0, 2.0], 1, -1), r"type \(1, -1\) was asked of 2 coefficients; degrees are natural"),
        (lambda: pade([1.0], 2), r"type \(2, -2\)"),
        (lambda: pade([1.0, np.inf], 1, 0), "the power series is inf at index 1"),
        (lambda: pade([1.0, 1.0, 1.0, 1.0, 1.0], 2, 2, robust=False), r"the equations of type \(2, 2\) are singular"),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()
