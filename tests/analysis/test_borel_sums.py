"""Borel sums against closed forms: Gompertz' constant, Bessel functions, exact energies, and the residue of a pole."""

from fractions import Fraction
from importlib import import_module
from math import e, factorial, pi

import mpmath
import numpy as np
import pytest
from analysis.series import GOMPERTZ, anharmonic, factorials

import opalgebra as oa
from opalgebra.analysis import borel, borel_pade

module = import_module("opalgebra.analysis.borel_sums")


def euler():
    for terms in (factorials(8), np.array(factorials(8), dtype=float)):
        found = borel(terms, 1)
        assert abs(found.value - GOMPERTZ) < 1e-15 and found.converged
    assert abs(borel_pade(factorials(2), 0, 1, 1).value - GOMPERTZ) < 1e-15


def test_eulers_series():
    """Its Borel transform is 1/(1 + t), which type (0, 1) has exactly."""
    euler()


def test_planted_transform_by_the_wrong_factorial_is_found(monkeypatch):
    def shifted(values):
        return np.array([x / factorial(k + 1) for k, x in enumerate(values)], dtype=object)

    monkeypatch.setattr(module, "borel_transform", shifted)
    with pytest.raises(AssertionError):
        euler()


@pytest.mark.parametrize("z", [0.1, 2.0, 0.5j, 1 - 1j])
def test_eulers_series_at_other_points(z):
    """The sum is e^(1/z) E_1(1/z) / z."""
    exact = complex(mpmath.exp(1 / mpmath.mpmathify(z)) * mpmath.e1(1 / mpmath.mpmathify(z)) / mpmath.mpmathify(z))
    assert abs(borel(factorials(8), z).value - exact) < 1e-14


def test_the_anharmonic_oscillator():
    series = anharmonic(42)
    known = {5: 0.8031738769315917819808195, 10: 0.8037697438246062528414032, 20: 0.8037706481283732865704115}
    exact = 0.803770651234273769354086
    for n, value in known.items():
        found = borel_pade(series, n, n, 1)
        assert abs(found.value - value) < 1e-11 * value
        assert abs(found.value - exact) <= found.error
    assert abs(found.value - exact) < 4e-9
    weak = borel_pade(series, 20, 20, 0.1)
    assert abs(weak.value - 0.5591463271835195767154066) < 1e-14 and weak.converged


@pytest.mark.parametrize(("g", "value"), [(0.1, 0.8576085853444115978544175), (1.0, 0.6202825595952649434030291)])
def test_the_zero_dimensional_integral(g, value):
    """The integral of exp(-x^2/2 - g x^4), a Bessel function."""
    terms = [Fraction((-1) ** n * factorial(4 * n), 4**n * factorial(2 * n) * factorial(n)) for n in range(61)]
    assert terms[:5] == [1, -3, Fraction(105, 2), Fraction(-3465, 2), Fraction(675675, 8)]
    bessel = mpmath.exp(1 / (32 * g)) * mpmath.besselk(0.25, 1 / (32 * g)) / mpmath.sqrt(16 * mpmath.pi * g)
    assert abs(float(bessel) - value) < 1e-15
    found = borel(terms, g)
    assert abs(found.value - value) <= found.error
    assert found.error < {0.1: 1e-12, 1.0: 1e-5}[g]
    rounded = borel(np.array(terms[:13], dtype=float), g)
    assert abs(rounded.value - value) <= rounded.error


def test_a_pole_on_the_path_is_an_error_of_its_residue():
    """sum n! at 1: the principal value is -Ei(1)/e, and the two sides differ by 2 pi i / e."""
    found = borel([factorial(n) for n in range(8)], 1)
    assert abs(found.value - float(mpmath.ei(1) / mpmath.e)) < 1e-13
    assert abs(found.error - pi / e) < 1e-12
    assert not found.converged and isinstance(found.value, float)


def test_a_convergent_series_whose_transform_grows_is_not_claimed():
    """The transform e^(t/2) is no rational function: the sum 2 comes out to three digits, and is said to."""
    found = borel([0.5**k for k in range(30)], 1.0)
    assert abs(found.value - 2) < 2 * found.error < 1e-2 and not found.converged
    assert abs(borel([3.0, 1.0], 0.0).value - 3) < 1e-15


def test_what_is_refused():
    with pytest.raises(oa.InputError, match="a Borel sum was asked at z = inf; give a finite number"):
        borel([1.0, 2.0], np.inf)
    with pytest.raises(oa.InputError, match="the power series is nan at index 1"):
        borel([1.0, np.nan], 1.0)
