"""The rounding estimates hold where they are meant to, and the worst case holds where the estimate does not."""

import math
from fractions import Fraction

import pytest
import torch

from opalgebra.numeric import roundoff


def test_lambda_is_the_quantile_of_its_failure_probability():
    assert 2 * math.exp(-(roundoff.LAMBDA**2) / 2) == pytest.approx(roundoff.FAILURE, rel=1e-12)


@pytest.mark.parametrize("dtype, bits", [(torch.float64, 53), (torch.float32, 24), (torch.bfloat16, 8), (torch.float16, 11)])
def test_unit_roundoff_is_half_the_gap_above_one(dtype, bits):
    assert roundoff.unit_roundoff(dtype) == 2.0**-bits


@pytest.mark.parametrize("length", [10, 1000])
def test_sums_of_random_numbers_err_less_than_the_estimate(length):
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(2000, length, generator=generator, dtype=torch.float64).float()
    total = numbers[:, 0].clone()
    for column in numbers[:, 1:].T:
        total += column
    error = (total.double() - numbers.double().sum(1)).abs() / numbers.double().abs().sum(1)
    assert error.max() <= roundoff.probable(length, torch.float32)
    assert error.max() > roundoff.unit_roundoff(torch.float32) / 10


def test_a_biased_sum_breaks_the_estimate_and_not_the_worst_case():
    """Adding 1 to 2^24 rounds down each time, so that errors add up instead of cancelling."""
    ones = 200
    total = torch.tensor(2.0**24)
    for _ in range(ones):
        total = total + 1.0
    exact = Fraction(2**24 + ones)
    error = abs(Fraction(total.item()) - exact) / exact
    assert roundoff.probable(ones, torch.float32) < error < roundoff.worst_case(ones, torch.float32)


def test_the_worst_case_is_infinite_when_nothing_is_known():
    assert roundoff.worst_case(256, torch.bfloat16) == math.inf
