"""Real tensors on a device: MiniLM's own weights, and a random Llama of a billion parameters, under drawn questions.

The same properties run on the CPU, the large model there only among the slow tests. OPALGEBRA_MINILM names a folder with MiniLM
where its package is not installed.
"""

import os
from functools import cache

import numpy as np
import pytest
import torch
from conftest import PROMPT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from large import VOCABULARY, billion

import opalgebra as oa
from opalgebra.numeric.roundoff import probable
from opalgebra.testing import check_model, plant

on_gpu = pytest.mark.gpu
SMALL = [pytest.param("cpu", marks=pytest.mark.models), pytest.param("cuda", marks=on_gpu)]
LARGE = [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("cuda", marks=on_gpu)]
COUNTINGS = {
    "all": "all",
    "attention": "attention",
    "ffn": "ffn",
    "even layers": lambda vertex: vertex.layer % 2 == 0,
    "some heads": lambda vertex: vertex.head in (0, 3, 5),
}
SPLITS = ["gate", "tangent", "source", {"attention": "source", "ffn": "gate"}, {"attention": "frozen", "ffn": "source"}]


def examples(number):
    return settings(max_examples=number, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@cache
def minilm(device, dtype=torch.float64):
    return oa.load(os.environ.get("OPALGEBRA_MINILM", "minilm"), device=device, dtype=dtype)


@cache
def large(device):
    return oa.load(billion(device))


@st.composite
def questions(draw, vocabulary, longest, rows=2):
    """Token ids, what is counted, a split, and whether heads are vertices."""
    tokens = draw(st.integers(1, longest))
    row = st.lists(st.integers(0, vocabulary - 1), min_size=tokens, max_size=tokens)
    ids = torch.tensor(draw(st.lists(row, min_size=1, max_size=rows)))
    counting = draw(st.sampled_from(sorted(COUNTINGS)))
    return ids, COUNTINGS[counting], draw(st.sampled_from(SPLITS)), counting == "some heads" or draw(st.booleans())


def assert_sums_to_the_model(M, counting):
    report = oa.verify(M.T.dyson(counting=counting), M)
    assert report.holds is not False and report.residual <= report.bound and report.tf32 is False
    assert report.device == str(M.states.device)
    return report


def assert_same(M, one, other, every):
    """Parts (..., batch, tokens, features) that two ways of adding up every part give, to the rounding of both."""
    allowed = 2 * probable(sum(stage.inner for stage in M.frozen), M.dtype) * every.norm(dim=-1).sum(0)
    assert ((one - other).norm(dim=-1) <= allowed).all()


def assert_terms_and_truncations_are_the_orders(M, counting, order, highest):
    """Every selection and source of an order, each evaluated alone, against the part that one pass over depth gives; and a
    pass up to another order against the first parts.
    """
    S, x, parts = M.T.dyson(counting=counting), M.T.x[0], M.orders(counting=counting).parts
    total = torch.zeros_like(M.states[0])
    for state in (*(S.term(order, index) @ x for index in range(S.count(order))), *S.sources(order)):
        total += M.evaluate(state)
    assert_same(M, total, parts[order], parts)
    assert_same(M, M.orders(counting=counting, order=highest).parts, parts[: highest + 1], parts)


def few(S):
    """The orders that have few terms."""
    return [order for order in (0, 1, S.max_order) if S.count(order) <= 32]


@pytest.mark.parametrize("device", SMALL)
@examples(6)
@given(data=st.data())
def test_minilm_under_drawn_questions(device, data):
    ids, counting, split, heads = data.draw(questions(30_000, 9))
    M = oa.bind(minilm(device), ids, split=split, heads=heads)
    assert M.states.device.type == device and M.deviation <= 1
    assert assert_sums_to_the_model(M, counting).holds is True
    order, highest = data.draw(st.sampled_from(few(M.T.dyson(counting=counting)))), data.draw(st.integers(0, 3))
    assert_terms_and_truncations_are_the_orders(M, counting, order, highest)


@pytest.mark.parametrize("device", LARGE)
@examples(4)
@given(data=st.data())
def test_a_billion_parameters_under_drawn_questions(device, data):
    ids, counting, split, heads = data.draw(questions(VOCABULARY, 6, rows=1))
    M = oa.bind(large(device), ids, split=split, heads=heads)
    assert M.states.device.type == device and M.dtype == torch.float32
    assert_sums_to_the_model(M, counting)
    order, highest = data.draw(st.sampled_from(few(M.T.dyson(counting=counting)))), data.draw(st.integers(0, 3))
    assert_terms_and_truncations_are_the_orders(M, counting, order, highest)


@pytest.mark.parametrize("device", SMALL)
def test_the_model_s_own_modules_give_the_orders_of_minilm(device):
    assert check_model(minilm(device)).holds is True


@pytest.mark.parametrize("device", SMALL)
def test_a_planted_error_is_caught(device):
    M = oa.bind(minilm(device), PROMPT)
    caught = oa.verify(M.T.dyson(), M).would_catch.worst
    vertex = next(vertex for stage in M.T.stages for vertex in stage.vertices if vertex.name == caught.vertex)
    assert oa.verify(M.T.dyson(), plant(M, vertex, 2 * caught.error)).holds is False
    assert oa.verify(M.T.dyson(), plant(M, vertex, caught.error / 1e3)).holds is True


@pytest.mark.parametrize("device", SMALL)
def test_float32_and_half_precision_accumulated_in_either(device):
    for dtype, accumulate in ((torch.float32, None), (torch.float32, "float64"), (torch.bfloat16, "float32")):
        M = oa.bind(minilm(device, dtype), PROMPT, accumulate=accumulate)
        report = oa.verify(M.T.dyson(), M)
        assert report.residual <= report.bound
        assert M.orders().parts.dtype == (getattr(torch, accumulate) if accumulate else dtype)


@pytest.mark.parametrize("device", SMALL)
def test_float32_products_are_not_shortened_while_verifying(device):
    before = torch.backends.cuda.matmul.allow_tf32
    M = oa.bind(minilm(device, torch.float32), PROMPT)
    expected = oa.verify(M.T.dyson(), M).residual
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        M = oa.bind(minilm(device, torch.float32), PROMPT)
        report = oa.verify(M.T.dyson(), M)
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert report.tf32 is False and report.holds is True and report.residual < 3 * expected < 1e-5


@pytest.mark.parametrize("device", LARGE)
def test_a_budget_is_kept_by_a_billion_parameters(device):
    M = oa.bind(large(device), torch.arange(1, 65)[None], check=False)
    whole, budget = M.peak_memory(), int(0.6 * M.peak_memory())
    assert M.peak_memory(memory=budget) <= budget < whole
    free = M.orders()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    found = M.orders(memory=budget)
    if device == "cuda":
        assert torch.cuda.max_memory_allocated() - before <= 1.05 * budget
    assert np.allclose(found.norms, free.norms, rtol=1e-4, atol=1e-5 * free.norms.max())


@pytest.mark.parametrize("device", LARGE)
def test_a_billion_parameters_generate(device):
    for step in oa.generate(large(device), torch.arange(1, 9)[None], counting="attention", tokens=3):
        assert (step.rounding <= step.bound).all()
