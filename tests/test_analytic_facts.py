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


def rotations(positions):
    """The rotation of each position, of two planes with their own frequencies."""
    found = []
    for position in range(positions):
        angles = position * np.array([1.0, 0.1])
        plane = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
        found.append(np.block([[plane[0], np.zeros((2, 2))], [np.zeros((2, 2)), plane[1]]]))
    return found


def causal_pattern(query, key, turns):
    """The causal softmax of `x_i W_Q^T R_i^T R_j W_K x_j`, from queries and keys as a model computes them."""
    states = RANDOM_STATES
    queries = np.array([turn @ query @ state for turn, state in zip(turns, states)])
    keys = np.array([turn @ key @ state for turn, state in zip(turns, states)])
    logits = queries @ keys.T / 2
    return softmax(np.where(np.tri(TOKENS) > 0, logits, -np.inf))


RANDOM_STATES = RANDOM.normal(size=SHAPE)


@pytest.mark.parametrize(("rotary", "commutes", "holds"), [(False, False, True), (True, True, True), (True, False, False)])
def test_a_pattern_depends_only_on_its_kernels(rotary, commutes, holds):
    heads, size, random = 3, 4, np.random.default_rng(7)
    turns = rotations(TOKENS) if rotary else [np.eye(size)] * TOKENS
    blocks = [s * np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for s, a in ((1.5, 0.7), (0.8, 2.0))]
    M = np.kron(np.diag([1.0, 0]), blocks[0]) + np.kron(np.diag([0, 1.0]), blocks[1])
    M = M if commutes else np.eye(size) + random.normal(size=(size, size)) / 3
    key = random.normal(size=(size, FEATURES)) / 2
    queries = [random.normal(size=(size, FEATURES)) / 2 for _ in range(heads)]
    patterns = {h: causal_pattern(query, key, turns) for h, query in enumerate(queries)}
    turned = {h: causal_pattern(M @ query, np.linalg.inv(M).T @ key, turns) for h, query in enumerate(queries)}
    a, b = (oa.family(name, kind="linear", domain=oa.POSITIONS, codomain=oa.POSITIONS) for name in "ab")
    h = oa.symbol("h")
    functions = {
        family: {k: (lambda y, pattern=pattern: pattern @ y) for k, pattern in found.items()}
        for family, found in ((a, patterns), (b, turned))
    }
    assert check_fact(oa.Every(b[h], a[h], h), functions, shape={oa.POSITIONS: (TOKENS,)}).holds is holds
