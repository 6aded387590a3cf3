"""Aitken's, Levin's and Richardson's transformations on series whose sums are known from elsewhere."""

from fractions import Fraction
from importlib import import_module
from itertools import accumulate

import mpmath
import numpy as np
import pytest
from analysis.series import COSINES, GOMPERTZ, LOGARITHMIC, alternating, cosines, factorials, logarithmic, squares

import opalgebra as oa
from opalgebra.analysis import aitken, levin, richardson

module = import_module("opalgebra.analysis.transforms")
ALL = (aitken, levin, richardson)


def test_levin_of_twenty_partial_sums_of_eulers_series():
    found = levin(list(accumulate(factorials(20))))
    assert abs(found.value - 0.5963473623276955050170833) < 1e-15
    assert abs(found.value - GOMPERTZ) <= found.error and found.converged
    rounded = levin(np.array(list(accumulate(factorials(20))), dtype=float))
    assert abs(rounded.value - GOMPERTZ) <= rounded.error


def richardson_of_zeta():
    found = richardson(squares(20))
    assert abs(found.value - 1.644934066823762276769057) < 1e-15
    assert abs(found.value - np.pi**2 / 6) <= found.error and found.converged


def test_richardson_of_twenty_partial_sums_of_zeta():
    richardson_of_zeta()
    for dtype in ("float64", "float32"):
        rounded = richardson(np.array(squares(20), dtype=float).astype(dtype))
        assert abs(rounded.value - np.pi**2 / 6) <= rounded.error


def test_trotters_product_and_its_first_error_come_from_products_of_up_to_24_factors():
    """`(e^(X/n) e^(Y/n))^n` of X = [[0, 1], [0, 0]] and X^T is rational; its limit is e^(X + Y), its error [X, Y]/2n."""
    corners = []
    for n in range(1, 25):
        step = np.array([[1 + Fraction(1, n * n), Fraction(1, n)], [Fraction(1, n), Fraction(1)]], dtype=object)
        corners.append(np.linalg.matrix_power(step, n))
    cosine, sine = map(Fraction, ("1.543080634815243778477906", "1.175201193643801456882382"))
    for (i, j), limit in np.ndenumerate(np.array([[cosine, sine], [sine, cosine]])):
        assert abs(richardson([corner[i, j] for corner in corners]).value - float(limit)) < 1e-12
    errors = [n * (corner[0, 0] - cosine) for n, corner in enumerate(corners, start=1)]
    assert abs(richardson(errors).value - 0.5876005968219007284411909) < 1e-12


def test_planted_member_left_out_is_found(monkeypatch):
    right = mpmath.richardson
    monkeypatch.setattr(module.mpmath, "richardson", lambda members: right(members[1:]))
    with pytest.raises(AssertionError):
        richardson_of_zeta()


def test_aitken_is_exact_for_one_geometric_sequence():
    assert aitken([1 + 3 * Fraction(-7, 5) ** n for n in range(3)]).value == 1
    z = 0.4 + 0.7j
    found = aitken(np.cumsum(z ** np.arange(5)))
    assert abs(found.value - 1 / (1 - z)) < 1e-14 and found.converged


def test_aitken_once_is_the_first_column_of_wynn():
    start = module.Noisy(np.array(alternating(7), dtype=object)[:, None], np.zeros(7))
    (once,) = module.aitken_trail(module.Noisy(start.values[:3], start.noise[:3])).values[-1]
    assert once == Fraction(7, 10)


@pytest.mark.parametrize("transform", ALL)
def test_complex_series(transform):
    if transform is richardson:
        n = np.arange(1, 21)
        found, limit = richardson(2 + 1j + (3 - 1j) / n + 0.2j / n**2), 2 + 1j
    else:
        z, n = 0.3 + 0.7j, np.arange(1, 31)
        found, limit = transform(np.cumsum(z**n / n)), -np.log(1 - z)
    assert abs(found.value - limit) <= 10 * found.error and found.converged


@pytest.mark.parametrize("transform", ALL)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [8, 13, 20, 40])
def test_logarithmic_convergence_that_is_not_theirs_is_reported_as_failure(transform, dtype, count):
    found = transform(logarithmic(count).astype(dtype))
    assert not found.converged
    assert abs(found.value - LOGARITHMIC) > 1e-3
    assert not transform(np.cumsum(1 / np.arange(1.0, count + 1)).astype(dtype)).converged


@pytest.mark.parametrize("transform", ALL)
@pytest.mark.parametrize("count", [10, 11, 20, 40, 100])
def test_a_zero_term_is_no_sign_of_convergence(transform, count):
    assert not transform(cosines(count)).converged
    assert abs(transform(cosines(40)).value - COSINES) > 1e-4


@pytest.mark.parametrize("transform", ALL)
def test_constant_sequences_give_the_constant(transform):
    for values in ([5.0] * 6, [5] * 6, [0.0] * 5):
        found = transform(values)
        assert found.value == values[0] and found.converged


@pytest.mark.parametrize("variant", ["u", "t", "v"])
def test_the_variants_of_levin_sum_an_alternating_series(variant):
    found = levin(alternating(14), variant=variant)
    assert abs(found.value - np.log(2)) <= found.error < 1e-9 and found.converged


def test_what_is_refused():
    with pytest.raises(oa.InputError, match="variant='w' is not known; use 'u', 't' or 'v'"):
        levin([1.0, 2.0], variant="w")
    for transform in ALL:
        with pytest.raises(oa.InputError, match="the sequence is nan at index 2"):
            transform([1.0, 2.0, np.nan])
