"""Verification on the real SmolLM2: what holds, what is rejected on the same run, and the sensitivity that is claimed."""

from dataclasses import replace

import pytest
import torch

import opalgebra as oa
from opalgebra.expr import linear_combination
from opalgebra.models import family
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.norms import RMSNorm
from opalgebra.numeric.orders import undressed
from opalgebra.space import ONE, X
from opalgebra.testing import plant

pytestmark = pytest.mark.models

PROMPT = "When Mary and John went to the store, John gave a drink to"


def vertex_named(binding, name):
    return next(v for stage in binding.T.stages for v in stage.vertices if v.name == name)


@pytest.fixture(scope="module")
def reports(bound):
    return {counting: oa.verify(bound.T.dyson(counting=counting), bound) for counting in ("all", "attention", "ffn")}


def test_every_counting_holds_within_the_bound_and_twelve_digits(reports):
    for report in reports.values():
        assert report.holds is True
        assert report.residual <= report.bound
        assert max(report.per_position) < 1e-12


@pytest.mark.parametrize("text", ["word " * 8, "no no no no no no no no", "\n" * 40])
def test_repeated_tokens_which_amplify_rounding_hold_in_every_counting(smollm2, text):
    M = oa.bind(smollm2, text)
    for counting in ("all", "attention", "ffn"):
        report = oa.verify(M.T.dyson(counting=counting), M)
        assert report.holds is True
        assert max(report.per_position) < 1e-12


@pytest.mark.parametrize("counting", ["all", "attention"])
@pytest.mark.parametrize("which", ["median", "worst"])
def test_the_claimed_sensitivity_is_the_real_one(bound, reports, counting, which):
    caught = getattr(reports[counting].would_catch, which)
    vertex, series = vertex_named(bound, caught.vertex), bound.T.dyson(counting=counting)
    assert oa.verify(series, plant(bound, vertex, 1.2 * caught.error)).holds is False
    assert oa.verify(series, plant(bound, vertex, 0.8 * caught.error)).holds is True


def test_two_vertices_in_the_wrong_order_do_not_hold(bound):
    T = bound.T
    for layer in (1, 15, 30):
        attention, ffn = T.stages[2 * layer - 2], T.stages[2 * layer - 1]
        swapped = attention.factor @ ffn.factor @ T.x[2 * layer - 2]
        report = oa.verify(oa.equation(T.x[2 * layer], swapped), bound)
        assert report.holds is False
        assert report.residual > 1e6 * report.bound


def test_one_dropped_head_does_not_hold(smollm2):
    M = oa.bind(smollm2, PROMPT, heads=True)
    series = M.T.dyson()
    assert oa.verify(series, M).holds is True
    report = oa.verify(series, plant(M, M.T.head[8, 3], -1.0))
    assert report.holds is False
    assert report.residual > 1e6 * report.bound
    for layer in (1, 30):
        stage = M.T.stages[2 * layer - 2]
        for head in range(9):
            kept = tuple(vertex for vertex in stage.vertices if vertex is not M.T.head[layer, head])
            dropped = (1 + stage.branch(kept)) @ M.T.x[stage.number - 1]
            assert oa.verify(oa.equation(M.T.x[stage.number], dropped), M).holds is False


def test_the_undressed_recurrence_does_not_hold_at_any_order(bound):
    result = undressed(bound)
    assert len(result.partial_errors) == 61
    assert (result.partial_errors[:, -1] > 0.5).all()
    assert result.partial_errors[-1, -1] > 10


def test_the_undressed_recurrence_is_rejected_as_an_equation(smollm2):
    M = oa.bind(smollm2, "The store")
    series = M.T.dyson()
    literal = linear_combination(((1, part) for part in series.undressed), ONE, X)
    report = oa.verify(oa.equation(M.T.x[-1], literal), M)
    assert report.holds is False
    assert report.residual > 0.1


@pytest.fixture
def a_norm_weight_of_ones(smollm2, monkeypatch):
    """The adapter reads ones for the norm before the attention of layer 8; the model keeps its own."""
    wrong, read = smollm2.network.model.layers[7].input_layernorm, family.rms_norm

    def norm(module, **options):
        right = read(module, **options)
        return RMSNorm(torch.ones_like(right.weight), right.epsilon) if module is wrong else right

    monkeypatch.setattr(family, "rms_norm", norm)


def test_a_norm_weight_of_ones_fails_the_self_check(smollm2, a_norm_weight_of_ones):
    with pytest.raises(oa.ModelError, match=r"^the self-check failed at the attention of layer 8 \(stage 15\): it differs"):
        oa.bind(smollm2, PROMPT)


def test_without_the_self_check_a_norm_weight_of_ones_does_not_hold(smollm2, a_norm_weight_of_ones):
    M = oa.bind(smollm2, PROMPT, check=False)
    report = oa.verify(M.T.dyson(), M)
    assert report.holds is False
    assert report.residual > 1e6 * report.bound


def test_binding_and_model_agree_to_thirteen_digits(bound, smollm2):
    """The reference is read a second time here, by a hook of its own."""
    recorded = []
    handle = smollm2.network.model.norm.register_forward_pre_hook(lambda module, inputs: recorded.append(inputs[0].clone()))
    with faithful(smollm2.network) as network:
        network(input_ids=bound.ids, use_cache=False)
    handle.remove()
    last = recorded[0]
    error = (bound.states[-1] - last).norm(dim=-1) / last.norm(dim=-1)
    assert error.max() < 1e-13


def test_a_forward_in_float32_norms_is_seen(bound, smollm2):
    """`.double()` alone leaves norms, softmax and rotary tables in float32, and so a different last state."""
    recorded = []
    handle = smollm2.network.model.norm.register_forward_pre_hook(lambda module, inputs: recorded.append(inputs[0].clone()))
    with torch.no_grad():
        smollm2.network(input_ids=bound.ids, use_cache=False)
    handle.remove()
    states = bound.reference.states.clone()
    states[-1] = recorded[0]
    half_double = replace(bound, reference=replace(bound.reference, states=states))
    report = oa.verify(bound.T.dyson(), half_double)
    assert report.holds is False
    assert 1e-9 < report.residual < 1e-3
