"""One interface to all methods: what it gives is what each gives, beside the partial sum, and on a real model as measured."""

import math
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
import torch
from models.families import inputs, tiny

import opalgebra as oa
from opalgebra.analysis import (
    aitken,
    extrapolate_depth,
    levin,
    mpe,
    pade,
    recovery,
    resum,
    richardson,
    rre,
    topological_epsilon,
    vector_epsilon,
    wynn_epsilon,
)

module = import_module("opalgebra.analysis.resummation")
LOG = [(-1) ** k / (k + 1) for k in range(14)]
SEQUENCE = {"wynn_epsilon": wynn_epsilon, "aitken": aitken, "levin": levin, "richardson": richardson}
VECTORS = {"vector_epsilon": vector_epsilon, "mpe": mpe, "rre": rre}


@pytest.mark.parametrize("method", SEQUENCE)
def test_numbers_go_to_the_function_of_the_methods_name(method):
    found, own = resum(LOG, method=method), SEQUENCE[method](list(np.cumsum(LOG)))
    assert found.value == own.value
    assert found.partial_sum == pytest.approx(sum(LOG)) and found.orders == 14


@pytest.mark.parametrize("method", [*VECTORS, "topological_epsilon"])
def test_vectors_and_matrices_go_to_the_function_of_the_methods_name(method):
    terms = np.array([[[2.0**k, -(0.5**k)], [(-3.0) ** k, 1.0 * (k == 0)]] for k in range(8)])
    sums = np.cumsum(terms.reshape(8, 4), axis=0)
    own = topological_epsilon(sums, terms[-1].ravel()) if method == "topological_epsilon" else VECTORS[method](sums)
    found = resum(terms, method=method)
    assert np.array_equal(found.value.ravel(), own.value) and found.value.shape == found.partial_sum.shape == (2, 2)
    assert found.converged == own.converged
    tensor = resum(torch.from_numpy(terms).reshape(8, 4), method=method)
    assert np.array_equal(tensor.value, own.value)


@pytest.mark.parametrize("method", ["wynn_epsilon", "aitken", "levin", "pade", "borel_pade"])
def test_a_method_of_numbers_takes_every_entry_by_itself(method):
    terms = np.array([LOG, [0.5**k for k in range(14)]]).T
    both = resum(terms, method=method)
    each = [resum(terms[:, k], method=method) for k in (0, 1)]
    assert np.array_equal(both.value, [one.value for one in each])
    assert both.error == pytest.approx(math.hypot(*(one.error for one in each)))


def test_exact_series_have_exact_sums():
    terms = [Fraction(-2) ** k for k in range(5)]
    assert resum(terms, method="wynn_epsilon").value == Fraction(1, 3)
    assert resum(terms, method="pade").value == 1 / 3


@pytest.mark.parametrize("method", ["pade", "borel_pade"])
def test_methods_of_power_series_are_their_functions_at_one(method):
    euler = [(-1.0) ** k * math.factorial(k) for k in range(9)]
    found = resum(euler, method=method)
    if method == "pade":
        assert found.value == pade(euler, 4, 4)(1)
    else:
        assert abs(found.value - 0.5963473623231941) < 1e-14
    assert abs(found.value - 0.5963473623231941) <= found.error


def test_it_says_when_the_partial_sum_is_better():
    exponential = [1 / math.factorial(k) for k in range(14)]
    worse = resum(exponential, method="richardson", exact=math.e)
    assert worse.is_worse and repr(worse).endswith("resummation is worse than the partial sum")
    better = resum(LOG, exact=math.log(2))
    assert not better.is_worse and "worse" not in repr(better)
    assert better.deviation == abs(better.value - math.log(2)) / math.log(2)
    blind = resum(LOG)
    assert blind.deviation is None and not blind.is_worse and "estimated error" in repr(blind)
    assert resum(exponential, method="richardson").is_worse


def test_planted_verdict_by_the_other_comparison_is_found(monkeypatch):
    monkeypatch.setattr(module.Resummation, "is_worse", property(lambda self: self.deviation <= self.partial_deviation))
    with pytest.raises(AssertionError):
        test_it_says_when_the_partial_sum_is_better()


@pytest.mark.parametrize("method", module.METHODS)
def test_logarithmic_convergence_is_reported_as_failure(method):
    n = np.arange(2, 26)
    assert not resum(1 / (n * np.log(n) ** 2), method=method).converged
    assert not resum((1 / (n * np.log(n) ** 2)).astype("float32"), method=method).converged


@pytest.mark.parametrize("method", module.METHODS)
def test_short_series_have_values_and_no_claims(method):
    for count in (1, 2):
        found = resum(LOG[:count], method=method)
        assert np.isfinite(found.value) and not found.converged


def test_tokens_of_a_model_are_series_of_vectors_by_themselves():
    network, ids = tiny("llama"), inputs("llama")
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    R = oa.bind(network, ids, mask=mask).orders()
    for method in ("vector_epsilon", "mpe"):
        found = resum(R, method=method, orders=5)
        assert found.value.shape == (2, 7, 24) and found.error.shape == found.is_worse.shape == (2, 7)
        own = VECTORS[method](np.cumsum(R.parts[:, 1, 3].numpy(), axis=0))
        assert np.allclose(found.value[1, 3], own.value, rtol=1e-9)
        assert np.isnan(found.deviation[0, :2]).all() and np.isfinite(found.deviation[0, 2:]).all()
        assert np.allclose(found.partial_deviation[:, 2:], R.partial_errors[:, 4, 2:])


def test_how_few_orders_recover_the_sum():
    found = recovery([0.5**k for k in range(40)], exact=2.0)
    assert found.needed(1e-3) == (3, 10)
    assert recovery([1.0, 1.0, 1.0], exact=5.0).needed(0.1) == (None, None)


def test_what_is_refused():
    R = oa.bind(tiny("llama"), inputs("llama")).orders()
    for act, text in (
        (lambda: resum(LOG, method="shanks"), "method='shanks' is not known; use 'vector_epsilon', 'topological_epsilon'"),
        (lambda: resum(LOG, orders=15), "orders=15 were asked of a series of 14; give 1 to 14"),
        (lambda: resum(np.ones((2, 2, 2, 2))), "a series has numbers, vectors or matrices as its terms"),
        (lambda: resum([[1.0, 2.0], [np.nan, 1.0]]), r"the series is nan at index \(1, 0\)"),
        (lambda: resum(LOG, exact=[1.0]), r"the exact sum has the shape \(1,\), and a term has \(\)"),
        (lambda: recovery(LOG), "recovery compares with the exact sum, which is not known"),
        (lambda: recovery(R), "recovery reads one row; bind a text, or one row of token ids"),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()


MEASURED = {17: (2.9e-2, 3.3), 25: (1.3e-4, 1.4e-2)}


@pytest.fixture(scope="module")
def counted(bound):
    return {counting: bound.orders(counting=counting) for counting in ("all", "attention")}


@pytest.mark.models
@pytest.mark.parametrize("orders", MEASURED)
def test_counting_every_block_of_smollm2_the_vector_epsilon_algorithm_gains_two_digits(counted, orders):
    found = resum(counted["all"], method="vector_epsilon", orders=orders)
    resummed, partial = MEASURED[orders]
    assert found.deviation[-1] == pytest.approx(resummed, rel=0.2)
    assert found.partial_deviation[-1] == pytest.approx(partial, rel=0.2)
    assert not found.is_worse[-1] and "worse" not in repr(found)
    size = np.linalg.norm(found.exact[-1])
    assert found.deviation[-1] * size < found.error[-1] < 20 * found.deviation[-1] * size


@pytest.mark.models
@pytest.mark.parametrize("method", ["vector_epsilon", "topological_epsilon", "mpe", "rre"])
def test_counting_attention_the_partial_sums_win_and_the_result_says_so(counted, method):
    for orders in (5, 9, 13, 17, 21):
        found = resum(counted["attention"], method=method, orders=orders)
        assert found.is_worse[-1]
        assert repr(found).endswith("resummation is worse than the partial sum")
    assert resum(counted["attention"], method=method, orders=9).deviation[-1] < 0.1


@pytest.mark.models
def test_from_how_few_orders_the_state_is_recovered(counted):
    assert recovery(counted["all"], orders=31).needed(1e-2) == (18, 26)
    assert recovery(counted["attention"]).needed(1e-2) == (7, 7)


@pytest.mark.models
def test_a_deeper_state_is_hardly_foretold_by_the_states_before_it(bound):
    """Layers of a trained model obey no recurrence: the state of 10 stages on is missed by about its own update."""
    states = bound.reference.states[:, 0, -1].numpy()
    found = extrapolate_depth(states[:41], 50)
    missed = np.linalg.norm(found.value - states[50]) / np.linalg.norm(states[50] - states[40])
    assert 0.3 < missed < 30 and not found.converged
