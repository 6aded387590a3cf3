"""Facts checked on functions of arrays: what has a property is found to have it, and what nearly has it is caught."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

import opalgebra as oa
from opalgebra import array_functions, conformance
from opalgebra.facts import Fact
from opalgebra.numeric import roundoff
from opalgebra.testing import assert_fact, check_fact

TOKENS, FEATURES, HIDDEN = 6, 8, 24
SHAPE = (TOKENS, FEATURES)
Y = oa.Space("hidden")
SHAPES = {oa.POSITIONS: (TOKENS,), oa.FEATURES: (FEATURES,), Y: (HIDDEN,)}

random = np.random.default_rng(11)
W, U = (random.normal(size=(FEATURES, FEATURES)) / 3 for _ in range(2))
UP, DOWN = random.normal(size=(FEATURES, HIDDEN)), random.normal(size=(HIDDEN, FEATURES))
MIX = random.normal(size=(TOKENS, TOKENS))
GAMMA = random.uniform(0.5, 1.5, size=FEATURES)
BIAS = random.normal(size=HIDDEN)
ROTATION, _ = np.linalg.qr(random.normal(size=(FEATURES, FEATURES)))
PROJECTION = ROTATION[:, :3] @ ROTATION[:, :3].T
SHIFT = ROTATION @ np.diag([1.0, 2, 0, 3, 0, 0, 1], 1) @ ROTATION.T

F, G = oa.atoms("F G", kind="nonlinear")
A, B, C = oa.atoms("A B C", kind="linear")
P, V = oa.family("P", kind="linear"), oa.family("V", kind="nonlinear")
x, l = oa.state("x"), oa.symbol("l")
EARLIER = oa.Every(P[l + 1] @ A, P[l + 1] @ A @ P[l], l)
PREFIXES = {t: (lambda a, t=t: np.vstack([a[: t + 1], 0 * a[t + 1 :]])) for t in range(3)}

M = oa.Atom("M", kind="linear", domain=oa.POSITIONS, codomain=oa.POSITIONS)
N = oa.Atom("N", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES)
UPWARDS = oa.Atom("U", kind="linear", domain=oa.FEATURES, codomain=Y)
DOWNWARDS = oa.Atom("D", kind="linear", domain=Y, codomain=oa.FEATURES)
BRA = oa.Atom("R", kind="linear", domain=oa.FEATURES, codomain=oa.K)
KET = oa.Atom("E", kind="linear", domain=oa.K, codomain=oa.FEATURES)


def relu(array):
    return np.maximum(array, 0)


def gelu(array):
    return 0.5 * array * (1 + np.tanh(math.sqrt(2 / math.pi) * (array + 0.044715 * array**3)))


def softmax(array):
    weights = np.exp(array - array.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def rms_norm(array, eps=1e-6):
    return GAMMA * array / np.sqrt((array**2).mean(-1, keepdims=True) + eps)


def mlp(array):
    return relu(array @ UP) @ DOWN


def attention(array, leak=0.0):
    """Causal attention; a leak lets the token at position 2 see the token at position 4 with a small weight."""
    scores = (array @ W) @ (array @ U).T
    weights = softmax(np.where(np.tri(len(array)) > 0, scores, -np.inf))
    weights[2, 4] += leak
    return weights @ array @ W


def convolution(array):
    """A causal convolution by Fourier transforms, whose rounding errors are not causal."""
    size = 2 * len(array)
    return np.fft.irfft(np.fft.rfft(array, size, axis=0) * np.fft.rfft(MIX[0], size)[:, None], size, axis=0)[: len(array)]


def as_float32(function):
    """The function as PyTorch computes it in single precision."""
    return lambda array: function(array.astype(np.float32)).astype(np.float32)


HOLDS = [
    (oa.Linear(F), {F: lambda a: a @ W}),
    (oa.Linear(F), {F: lambda a: MIX @ a @ W}),
    (oa.Linear(F), {F: lambda a: a - a.mean(-1, keepdims=True)}),
    (oa.Linear(F), {F: lambda a: np.fft.fft(a, axis=0).real}),
    (oa.Linear(V), {V: {1: lambda a: a @ W, 2: lambda a: 3 * a}}),
    (oa.Homogeneous(F), {F: mlp}),
    (oa.Homogeneous(F), {F: lambda a: a @ W}),
    (oa.Homogeneous(F), {F: lambda a: np.linalg.norm(a, axis=-1, keepdims=True) * GAMMA}),
    (oa.Homogeneous(1 + F @ G), {F: mlp, G: relu}),
    (oa.Equal(A @ B, C), {A: lambda a: a @ W, B: lambda a: a @ U, C: lambda a: a @ (U @ W)}),
    (oa.Equal(F @ (A + B), F @ C), {F: gelu, A: lambda a: 2 * a, B: lambda a: a @ W, C: lambda a: 2 * a + a @ W}),
    (oa.Equal(F @ x, A @ x), {F: relu, x: abs(MIX @ np.ones(SHAPE)), A: lambda a: a}),
    (oa.Equal(A @ B, oa.Zero()), {A: lambda a: a @ PROJECTION, B: lambda a: a - a @ PROJECTION}),
    (oa.Equal(oa.commutator(A, B), C), {A: lambda a: a @ W, B: lambda a: a @ U, C: lambda a: a @ (U @ W - W @ U)}),
    (oa.Commute(A, F), {A: lambda a: a[::-1], F: mlp}),
    (oa.Commute(A, F), {A: lambda a: 3 * a, F: mlp}),
    (oa.Commute(V, V), {V[1]: lambda a: a[::-1], V[2]: gelu, V[5]: lambda a: a[:, ::-1]}),
    (oa.Idempotent(A), {A: lambda a: a @ PROJECTION}),
    (oa.Idempotent(F), {F: relu}),
    (oa.Idempotent(F), {F: lambda a: np.sort(a, axis=-1)}),
    (oa.Idempotent(A @ B), {A: lambda a: a @ DOWN[:FEATURES], B: lambda a: a @ np.linalg.inv(DOWN[:FEATURES])}),
    (oa.Nilpotent(A, 5), {A: lambda a: a @ SHIFT}),
    (oa.Nilpotent(A, 3), {A: lambda a: np.vstack([a[2:], 0 * a[:2]])}),
    (oa.Inverse(A, B), {A: lambda a: a @ W, B: lambda a: np.linalg.solve(W.T, a.T).T}),
    (oa.Inverse(1 - A), {A: lambda a: a @ SHIFT, oa.inverse(1 - A): lambda a: a @ np.linalg.inv(np.eye(FEATURES) - SHIFT)}),
    (oa.Inverse(F, G), {F: lambda a: a**3 + a, G: lambda a: np.sinh(np.arcsinh(a * 27**0.5 / 2) / 3) * 2 / 3**0.5}),
    (oa.Adjoint(A, B), {A: lambda a: MIX @ a @ W, B: lambda a: MIX.T @ a @ W.T}),
    (oa.Adjoint(A, A), {A: lambda a: a @ PROJECTION}),
    (oa.Causal(F, P), {F: attention}),
    (oa.Causal(F, P), {F: mlp}),
    (oa.Causal(F, P), {F: lambda a: np.vstack([0 * a[:1], np.cumsum(a, axis=0)[:-1]])}),
    (oa.Causal(F, P), {F: convolution}),
    (oa.Causal(1 + F @ G, P), {F: attention, G: rms_norm}),
    (EARLIER, {P: PREFIXES, A: lambda a: np.vstack([0 * a[:1], a[:-1]])}),
]  # fmt: skip

CAUGHT = [
    (EARLIER, {P: PREFIXES, A: lambda a: np.vstack([0 * a[:1], a[:-1]]) + 1e-6 * a}),
    (oa.Linear(F), {F: lambda a: a @ W + 1e-6}),
    (oa.Linear(F), {F: lambda a: a @ W + 1e-9 * a**2}),
    (oa.Linear(F), {F: lambda a: abs(a) @ W}),
    (oa.Linear(F), {F: lambda a: np.ones(SHAPE)}),
    (oa.Linear(V), {V: {1: lambda a: a @ W, 2: relu}}),
    (oa.Homogeneous(F), {F: lambda a: relu(a @ UP + BIAS) @ DOWN}),
    (oa.Homogeneous(F), {F: lambda a: relu(a @ UP + 1e-9 * BIAS) @ DOWN}),
    (oa.Homogeneous(F), {F: gelu}),
    (oa.Homogeneous(F), {F: rms_norm}),
    (oa.Homogeneous(F), {F: lambda a: np.sign(a) * abs(a) ** 1.00001}),
    (oa.Equal(A @ B, C), {A: lambda a: a @ W, B: lambda a: a @ U, C: lambda a: a @ (W @ U)}),
    (oa.Equal(F @ x, A @ x), {F: relu, x: MIX @ np.ones(SHAPE), A: lambda a: a}),
    (oa.Equal(F, G), {F: gelu, G: relu}),
    (oa.Equal(F, G), {F: lambda a: np.ones(SHAPE), G: lambda a: 2 * np.ones(SHAPE)}),
    (oa.Equal(A @ B, oa.Zero()), {A: lambda a: a @ PROJECTION, B: lambda a: a - (1 - 1e-9) * a @ PROJECTION}),
    (oa.Commute(A, B), {A: lambda a: a @ W, B: lambda a: a @ (W @ W + 1e-5 * U)}),
    (oa.Commute(A, F), {A: lambda a: a @ W, F: relu}),
    (oa.Commute(V, V), {V[1]: lambda a: a[::-1], V[2]: gelu, V[5]: attention}),
    (oa.Idempotent(A), {A: lambda a: 1.001 * a @ PROJECTION}),
    (oa.Idempotent(F), {F: gelu}),
    (oa.Nilpotent(A, 4), {A: lambda a: np.vstack([a[1:], 0 * a[:1]])}),
    (oa.Nilpotent(A, 5), {A: lambda a: a @ (SHIFT + 1e-6 * W)}),
    (oa.Inverse(A, B), {A: lambda a: a @ W, B: lambda a: a @ (np.linalg.inv(W) + 1e-9)}),
    (oa.Inverse(1 - A), {A: lambda a: a @ SHIFT, oa.inverse(1 - A): lambda a: a + a @ SHIFT}),
    (oa.Adjoint(A, B), {A: lambda a: MIX @ a @ W, B: lambda a: MIX.T @ a @ W}),
    (oa.Adjoint(A, A), {A: lambda a: a @ (PROJECTION + 1e-9 * W)}),
    (oa.Causal(F, P), {F: lambda a: attention(a, leak=1e-6)}),
    (oa.Causal(F, P), {F: lambda a: np.vstack([a[1:] * 1e-9, 0 * a[:1]])}),
    (oa.Causal(F, P), {F: lambda a: a / np.linalg.norm(a)}),
    (oa.Causal(F, P), {F: lambda a: np.vstack([a[:-2], a[-2:-1] + 1e-7 * a[-1:], a[-1:]])}),
    (oa.Causal(F, P), {F: lambda a: np.vstack([1e-7 * a[-1:], a[1:]])}),
]  # fmt: skip


def given_names(value):
    return str(value) if isinstance(value, Fact) else "functions"


@pytest.mark.parametrize(("fact", "functions"), HOLDS, ids=given_names)
def test_a_function_that_has_the_property_is_found_to_have_it(fact, functions):
    report = check_fact(fact, functions, shape=SHAPE)
    assert report.holds is True, report
    assert report.residual <= report.bound <= report.would_catch < 1e-6
    assert report.counterexample is None
    assert report.total / 2 < report.compared <= report.total
    assert_fact(fact, functions, shape=SHAPE)


@pytest.mark.parametrize(("fact", "functions"), CAUGHT, ids=given_names)
def test_a_function_that_nearly_has_the_property_is_caught(fact, functions):
    report = check_fact(fact, functions, shape=SHAPE)
    assert report.holds is False, report
    assert report.residual > report.bound
    with pytest.raises(AssertionError, match="does not hold"):
        assert_fact(fact, functions, shape=SHAPE)


@pytest.mark.parametrize(("factor", "expected"), [(1, True), (1 + 1e-9, False)])
def test_facts_of_families_are_checked_of_members_with_the_same_indices(factor, expected):
    V, U = oa.family("V", kind="linear"), oa.family("U", kind="linear")
    inverse = factor * np.linalg.inv(W)
    functions = {V: {1: lambda a: a @ W, 2: lambda a: 2 * a}, U: {1: lambda a: a @ inverse, 2: lambda a: a / 2}}
    assert check_fact(oa.Inverse(V, U), functions, shape=SHAPE).holds is expected
    functions[U] = {1: lambda a: factor * a @ W.T, 2: lambda a: 2 * a}
    assert check_fact(oa.Adjoint(V, U), functions, shape=SHAPE).holds is expected


@pytest.mark.parametrize(("factor", "expected"), [(1, True), (1 + 1e-9, False)])
def test_a_form_is_checked_of_the_dressing_that_is_given(factor, expected):
    dressing = oa.dressed(F, x)
    fact = oa.Form(dressing, oa.tensor(M, N), "frozen")
    functions = {M: lambda a: MIX @ a, N: lambda a: a @ W, dressing: lambda a: factor * MIX @ a @ W}
    assert check_fact(fact, functions, shape=SHAPE).holds is expected
    with pytest.raises(oa.InputError, match="no function is given for F<x>; give it one of its own"):
        check_fact(fact, {M: lambda a: MIX @ a, N: lambda a: a @ W, F: mlp}, shape=SHAPE)


@pytest.mark.parametrize(
    ("fact", "functions"),
    [
        (oa.Linear(UPWARDS), {UPWARDS: lambda a: a @ UP}),
        (oa.Adjoint(UPWARDS, DOWNWARDS), {UPWARDS: lambda a: a @ UP, DOWNWARDS: lambda a: UP @ a}),
        (oa.Adjoint(BRA, KET), {BRA: lambda a: a @ GAMMA, KET: lambda a: a * GAMMA}),
        (
            oa.Inverse(UPWARDS @ DOWNWARDS + 1),
            {
                UPWARDS: lambda a: a @ UP,
                DOWNWARDS: lambda a: a @ DOWN,
                oa.inverse(UPWARDS @ DOWNWARDS + 1): lambda a: a - a @ DOWN @ np.linalg.solve(np.eye(FEATURES) + UP @ DOWN, UP),
            },
        ),
        (oa.Commute(oa.tensor(M, oa.Identity(oa.FEATURES)), F @ G), {M: lambda a: a[::-1], F: mlp, G: gelu}),
        (
            oa.Equal(A @ oa.tensor(M, KET) @ oa.tensor(M, BRA), C),
            {
                A: lambda a: 2 * a,
                M: lambda a: MIX @ a,
                BRA: lambda a: a @ GAMMA,
                KET: lambda a: a * GAMMA,
                C: lambda a: 2 * (MIX @ MIX @ a) @ np.outer(GAMMA, GAMMA),
            },
        ),
    ],
    ids=given_names,
)
def test_maps_between_other_spaces_and_side_by_side(fact, functions):
    report = check_fact(fact, functions, shape=SHAPES)
    assert report.holds is True, report
    name = next(iter(functions))
    wrong = functions | {name: lambda a: functions[name](a) + 1e-9 * functions[name](abs(a))}
    assert check_fact(fact, wrong, shape=SHAPES).holds is False


def test_projectors_of_the_user_say_which_positions_come_first():
    batched = {oa.X: (2, TOKENS, FEATURES)}
    projectors = {P: {t: lambda a, t=t: a * (np.arange(TOKENS) <= t)[:, None] for t in range(TOKENS)}}

    def batch(leak):
        return lambda a: np.stack([attention(one, leak) for one in a])

    assert check_fact(oa.Causal(F, P), {F: batch(0)} | projectors, shape=batched).holds is True
    assert check_fact(oa.Causal(F, P), {F: batch(1e-6)} | projectors, shape=batched).holds is False
    with pytest.raises(oa.InputError, match="no axis of X is known to be that of positions"):
        check_fact(oa.Causal(F, P), {F: batch(0)}, shape=(2, TOKENS, FEATURES))


def test_a_counterexample_fails_when_it_is_put_in():
    def function(array):
        return array @ W + 1e-6

    report = check_fact(oa.Linear(F), {F: function}, shape=SHAPE)
    a, b, one, other = (report.counterexample[name] for name in "abxy")
    difference = function(a * one + b * other) - a * function(one) - b * function(other)
    assert abs(difference).max() > 1e-7 * abs(1 - a - b)
    assert "F @ (a x + b y) = a F @ x + b F @ y fails in row" in str(report)
    report = check_fact(oa.Causal(F, P), {F: lambda a: attention(a, leak=1e-6)}, shape=SHAPE)
    assert report.counterexample["t"] in (2, 3)
    assert "what F gives up to t, whatever comes later, fails in row 2, t = " in report.reason


def layer(dtype):
    """A block as models have it: RMS norm with random weights, causal attention, a gated network; single precision inside."""
    generator = torch.Generator().manual_seed(3)
    query, key, up, gate, down = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) / 3
        for shape in [(FEATURES, FEATURES)] * 2 + [(FEATURES, HIDDEN)] * 2 + [(HIDDEN, FEATURES)]
    )
    weight = torch.rand(FEATURES, generator=generator).to(dtype) + 0.5

    def norm(state):
        single = state.float()
        return weight * (single * (single.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).to(state.dtype)

    def block(state):
        inside = norm(state)
        scores = (inside @ query) @ (inside @ key).T
        future = torch.ones_like(scores).triu(1).bool()
        state = state + torch.softmax(scores.masked_fill(future, -torch.inf), -1) @ inside
        inside = norm(state)
        return state + (torch.nn.functional.silu(inside @ gate) * (inside @ up)) @ down

    return block


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_functions_of_pytorch_get_tensors_of_the_dtype_asked_for(dtype):
    weight = torch.tensor(W, dtype=dtype, requires_grad=True)
    bias = 1e-4
    assert check_fact(oa.Linear(F), {F: lambda a: a @ weight}, shape=SHAPE, dtype=dtype).holds is True
    assert check_fact(oa.Linear(F), {F: lambda a: a @ weight + bias}, shape=SHAPE, dtype=dtype).holds is False
    assert check_fact(oa.Causal(F, P), {F: layer(dtype)}, shape=SHAPE, dtype=dtype).holds is True
    assert check_fact(oa.Homogeneous(F), {F: layer(dtype)}, shape=SHAPE, dtype=dtype).holds is False


@pytest.mark.parametrize(("fact", "functions"), HOLDS, ids=given_names)
def test_what_holds_is_not_called_wrong_in_single_precision(fact, functions):
    functions = {
        name: {index: as_float32(member) for index, member in value.items()} if isinstance(value, dict)
        else value if name == x else as_float32(value)
        for name, value in functions.items()
    }  # fmt: skip
    for dtype in ("float32", "float64"):
        report = check_fact(fact, functions, shape=SHAPE, dtype=dtype, examples=10)
        assert report.holds is not False, report


def test_a_function_of_lower_precision_is_judged_at_it():
    exact = check_fact(oa.Linear(F), {F: lambda a: a @ W}, shape=SHAPE)
    single = check_fact(oa.Linear(F), {F: as_float32(lambda a: a @ W)}, shape=SHAPE)
    ratio = roundoff.unit_roundoff(torch.float32) / roundoff.unit_roundoff(torch.float64)
    assert single.holds is exact.holds is True
    assert 0.1 < single.would_catch / exact.would_catch / ratio < 10
    assert check_fact(oa.Linear(F), {F: as_float32(lambda a: a @ W + 1e-9)}, shape=SHAPE).holds is True
    assert check_fact(oa.Linear(F), {F: as_float32(lambda a: a @ W + 1e-4)}, shape=SHAPE).holds is False


@pytest.mark.parametrize(
    ("inside", "catches"),
    [
        (lambda a: (a.astype(np.float32) @ W.astype(np.float32)).astype(np.float64), 1e-4),
        (lambda a: (a + 1e6) @ W - 1e6 * W.sum(0), 1e-3),
        (lambda a: np.round(a @ W, 8), 1e-3),
    ],
)
def test_a_function_that_rounds_inside_is_judged_at_its_noise(inside, catches):
    report = check_fact(oa.Linear(F), {F: inside}, shape=SHAPE, largest=10)
    assert report.holds is True, report
    assert 1e-9 < report.would_catch < catches
    wrong = check_fact(oa.Linear(F), {F: lambda a: inside(a) + catches}, shape=SHAPE, largest=10)
    assert wrong.holds is False, wrong


def undecided(fact, functions, **options):
    report = check_fact(fact, functions, **{"shape": SHAPE, **options})
    assert report.holds is None, report
    assert report.counterexample is None
    assert "cannot tell" in str(report)
    with pytest.raises(AssertionError, match="cannot tell"):
        assert_fact(fact, functions, **{"shape": SHAPE, **options})
    return report.reason


def zero(array):
    return 0 * array


def ones(array):
    return np.ones_like(array)


@pytest.mark.parametrize(
    ("fact", "functions"),
    [
        (oa.Linear(F), {F: zero}),
        (oa.Homogeneous(F), {F: zero}),
        (oa.Causal(F, P), {F: zero}),
        (oa.Causal(F, P), {F: ones}),
        (oa.Idempotent(F), {F: zero}),
        (oa.Idempotent(F), {F: ones}),
        (oa.Nilpotent(F, 2), {F: zero}),
        (oa.Adjoint(A, A), {A: zero}),
        (oa.Equal(F, G), {F: ones, G: ones}),
        (oa.Commute(F, G), {F: zero, G: zero}),
        (oa.Equal(A @ B, oa.Zero()), {A: zero, B: lambda a: a}),
        (oa.Equal(A @ x, B @ x), {A: zero, B: zero, x: np.ones(SHAPE)}),
    ],
    ids=given_names,
)
def test_functions_that_are_zero_or_ignore_their_argument_are_not_said_to_have_a_property(fact, functions):
    assert "what is compared is zero, constant, or lost in rounding" in undecided(fact, functions)


def test_where_nothing_could_fail_nothing_is_said():
    assert undecided(oa.Equal(F, F), {F: mlp}) == "both sides are one expression, so nothing could fail"
    assert undecided(oa.Commute(V, V), {V[1]: mlp}) == "both sides are one expression, so nothing could fail"
    assert undecided(oa.Causal(F, P), {F: mlp}, shape=(1, FEATURES)) == "both sides are one expression, so nothing could fail"


def test_nan_and_infinity_are_reported_with_their_place():
    def overflows(array):
        return np.where(np.arange(FEATURES) == 3, np.exp(array), array)

    reason = undecided(oa.Linear(F), {F: lambda a: np.where((np.arange(FEATURES) == 3) & (abs(a) > 100), np.nan, a)})
    assert reason.startswith("F gives nan at [") and ", 3] in example " in reason
    assert "F gives inf at [" in undecided(oa.Linear(F), {F: lambda a: np.log(np.exp(a))})
    assert check_fact(oa.Linear(F), {F: overflows}, shape=SHAPE).holds is False


def test_random_functions_and_half_precision_are_not_decided():
    noise = np.random.default_rng(1)
    reason = undecided(oa.Linear(F), {F: lambda a: a * (noise.random(a.shape) > 0.1)})
    assert "lost in rounding" in reason
    undecided(oa.Linear(F), {F: lambda a: a @ torch.tensor(W).bfloat16()}, dtype=torch.bfloat16)
    undecided(oa.Linear(F), {F: lambda a: a @ W.astype(np.float16)}, dtype=np.float16)


def test_a_check_that_sees_little_does_not_decide():
    def function(array):
        return np.where(np.arange(FEATURES) == 0, array, 0) * (np.arange(TOKENS) < 2)[:, None]

    assert undecided(oa.Linear(F), {F: function}) == "in most rows what is compared is zero, constant, or lost in rounding"


def test_a_function_gets_an_array_of_its_own():
    def overwrites(array):
        array *= 2
        return array

    def reuses(array, kept=np.empty(SHAPE)):
        kept[:] = array @ W
        return kept

    assert check_fact(oa.Equal(F + F, G), {F: overwrites, G: lambda a: 4 * a}, shape=SHAPE).holds is True
    assert check_fact(oa.Linear(F), {F: reuses}, shape=SHAPE).holds is True


def test_a_small_difference_at_one_position_is_seen_among_many():
    shape = (200, FEATURES)

    def function(array):
        result = array @ W
        result[117] += 1e-10
        return result

    report = check_fact(oa.Linear(F), {F: function}, shape=shape)
    assert report.holds is False
    assert "fails in row 117" in report.reason


def test_the_summed_dimensions_can_be_named():
    narrow = check_fact(oa.Linear(F), {F: lambda a: a @ W}, shape=SHAPE, inner=1)
    wide = check_fact(oa.Linear(F), {F: lambda a: a @ W}, shape=SHAPE, inner=10_000)
    assert narrow.holds is wide.holds is True
    assert 30 < wide.would_catch / narrow.would_catch < 300


def test_the_estimate_is_that_of_verification():
    assert conformance.LAMBDA == roundoff.LAMBDA


@pytest.mark.parametrize(
    ("text", "fact", "functions", "options"),
    [
        ("3 is no fact", 3, {}, {}),
        ("has symbols without values, n", oa.Nilpotent(A, oa.symbol("n")), {A: zero}, {}),
        ("no function is given for G", oa.Commute(F, G), {F: mlp}, {}),
        ("no function is given for a member of", oa.Linear(V), {F: mlp}, {}),
        ("no function is given for inverse(1 - F)", oa.Inverse(1 - F), {F: mlp}, {}),
        ("no function is given for adjoint(A)", oa.Equal(oa.adjoint(A), A), {A: lambda a: a}, {}),
        ("'F' has no function; give {F: f}", oa.Linear(F), {"F": mlp}, {}),
        ("no shape is given for hidden", oa.Linear(UPWARDS), {UPWARDS: lambda a: a @ UP}, {}),
        ("the shape (0, 3) of X", oa.Linear(F), {F: mlp}, {"shape": (0, 3)}),
        ("gives an array of shape (6, 24)", oa.Linear(F), {F: lambda a: a @ UP}, {}),
        ("and dtype int64", oa.Linear(F), {F: lambda a: a.astype(np.int64)}, {}),
        ("and dtype complex128", oa.Linear(F), {F: lambda a: a * 1j}, {}),
        ("and dtype None", oa.Linear(F), {F: lambda a: None}, {}),
        ("has symbols without values, g", oa.Equal(oa.parameter("g") * A, A), {A: lambda a: a}, {}),
        ("A is given as ndarray; give a map its function", oa.Linear(A), {A: W}, {}),
        ("'int32' has no floating-point numbers", oa.Linear(F), {F: mlp}, {"dtype": "int32"}),
        ("torch.int32 has no floating-point numbers", oa.Linear(F), {F: mlp}, {"dtype": torch.int32}),
        ("examples=0", oa.Linear(F), {F: mlp}, {"examples": 0}),
        ("inner=0", oa.Linear(F), {F: mlp}, {"inner": 0}),
        ("largest=1", oa.Linear(F), {F: mlp}, {"largest": 1}),
    ],
)
def test_what_cannot_be_checked_is_refused(text, fact, functions, options):
    with pytest.raises(oa.InputError) as caught:
        check_fact(fact, functions, **{"shape": SHAPE, **options})
    assert text in str(caught.value)


def mistaken(monkeypatch, name):
    """Plants a mistake in the checker."""
    if name == "an estimate that is too large":
        monkeypatch.setattr(conformance, "LAMBDA", 1e10)
    elif name == "noise that excuses everything":
        monkeypatch.setattr(conformance, "_noise", lambda *_: np.inf)
    elif name == "no estimate":
        monkeypatch.setattr(conformance, "LAMBDA", 1e-9)
    elif name == "later positions that do not change":
        monkeypatch.setattr(array_functions.ArrayFunctions, "projectors", lambda *_: {t: lambda a: a for t in range(5)})
    elif name == "the factors of a composition swapped":
        run = array_functions.ArrayFunctions._computed

        def swapped(self, node, at, known, nudge):
            if isinstance(node, type(A @ B)) and at is not None and node not in self.functions:
                left = yield self._applied(node.left, at, known, nudge)
                return (yield self._applied(node.right, left, known, nudge))
            return (yield run(self, node, at, known, nudge))

        monkeypatch.setattr(array_functions.ArrayFunctions, "_computed", swapped)


@pytest.mark.parametrize(
    "name",
    [
        "an estimate that is too large",
        "noise that excuses everything",
        "no estimate",
        "later positions that do not change",
        "the factors of a composition swapped",
    ],
)
def test_a_mistake_in_the_checker_is_seen_by_these_tests(monkeypatch, name):
    mistaken(monkeypatch, name)
    verdicts = [check_fact(fact, functions, shape=SHAPE, examples=8).holds for fact, functions in HOLDS + CAUGHT]
    assert verdicts != [True] * len(HOLDS) + [False] * len(CAUGHT)


def test_a_check_needs_no_pytorch():
    program = (
        "import sys, opalgebra as oa; from opalgebra.testing import check_fact\n"
        "F = oa.Atom('F', kind='nonlinear')\n"
        "print(check_fact(oa.Linear(F), {F: lambda x: 2 * x}, shape=(3, 4)).verdict, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "holds False"
