"""The analytic facts that proofs take as hypotheses, checked on the functions of which they are said, and on wrong ones."""

import numpy as np
import pytest

import opalgebra as oa
from opalgebra.testing import check_fact

TOKENS, FEATURES = 5, 6
SHAPE = (TOKENS, FEATURES)
RANDOM = np.random.default_rng(2)
GAIN, SHIFT = RANDOM.normal(size=FEATURES) + 1.5, RANDOM.normal(size=FEATURES)
SCALES = np.exp(RANDOM.normal(size=(TOKENS, 1)))
N, M = oa.atoms("N M", kind="nonlinear")
D = oa.Atom("D", kind="linear")


def rms_norm(eps):
    return lambda x: GAIN * x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)


def layer_norm(eps):
    def norm(x):
        centred = x - x.mean(axis=-1, keepdims=True)
        return GAIN * centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps) + SHIFT

    return norm


def softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("norm", [rms_norm, layer_norm])
def test_a_norm_of_a_rescaled_stream_is_the_norm_with_another_epsilon(norm):
    fact = oa.Equal(N @ (3 * oa.Identity()), M)
    assert check_fact(fact, {N: norm(1e-2), M: norm(1e-2 / 9)}, shape=SHAPE, largest=10).holds is True
    assert check_fact(fact, {N: norm(1e-2), M: norm(1e-2)}, shape=SHAPE, largest=10).holds is False
    assert check_fact(fact, {N: norm(1e-2), M: norm(1e-2 / 3)}, shape=SHAPE, largest=10).holds is False


@pytest.mark.parametrize("norm", [rms_norm, layer_norm])
def test_at_epsilon_zero_a_norm_does_not_see_positive_scales_of_tokens(norm):
    fact = oa.Equal(N @ D, N)
    assert check_fact(fact, {N: norm(0), D: lambda x: SCALES * x}, shape=SHAPE, largest=10).holds is True
    assert check_fact(fact, {N: norm(1e-2), D: lambda x: SCALES * x}, shape=SHAPE, largest=10).holds is False
    assert check_fact(fact, {N: norm(0), D: lambda x: -SCALES * x}, shape=SHAPE, largest=10).holds is False


def test_softmax_does_not_see_a_common_shift():
    S = oa.Atom("S", kind="nonlinear")
    shift = oa.Atom("T", kind="nonlinear")
    fact = oa.Equal(S @ (1 + shift), S)
    common = lambda x: np.broadcast_to(np.tanh(x.sum(axis=-1, keepdims=True)), x.shape)  # noqa: E731
    assert check_fact(fact, {S: softmax, shift: common}, shape=SHAPE, largest=3).holds is True
    assert check_fact(fact, {S: softmax, shift: lambda x: np.tanh(x)}, shape=SHAPE, largest=3).holds is False


def test_the_mean_is_idempotent():
    mean = oa.Atom("M", kind="linear")
    average = lambda x: np.broadcast_to(x.mean(axis=-1, keepdims=True), x.shape)  # noqa: E731
    assert check_fact(oa.Idempotent(mean), {mean: average}, shape=SHAPE).holds is True
    assert check_fact(oa.Idempotent(mean), {mean: lambda x: 1.01 * average(x)}, shape=SHAPE).holds is False
