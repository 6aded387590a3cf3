"""Float64 that is float64 for every family, shorter dtypes within their own rounding, and what a model rounds as a row."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from models.families import ENCODERS, FAMILIES, MODELS, inputs, tiny

import opalgebra as oa
from opalgebra.numeric.faithful import full_precision
from opalgebra.numeric.roundoff import unit_roundoff
from opalgebra.testing import plant

SHORT = (torch.float32, torch.bfloat16, torch.float16)
ROUNDING = 1e-12


@pytest.mark.parametrize("family", FAMILIES)
def test_float64_errs_by_a_few_units_of_float64(family):
    for seed in range(2):
        result = oa.bind(tiny(family, seed, layers=4), inputs(family, tokens=9, seed=seed)).orders()
        assert (result.rounding / result.condition).max() <= 5e-15


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_float64_errs_by_a_few_units_of_float64_on_more_models(family):
    for seed in range(2, 40):
        result = oa.bind(tiny(family, seed, layers=4), inputs(family, tokens=9, seed=seed)).orders()
        assert (result.rounding / result.condition).max() <= 5e-15


def plain_last_state(network, ids):
    """The last hidden state of the bare forward, without anything of the library."""
    if isinstance(network, torch.nn.TransformerEncoder):
        return network(ids)
    return network(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states[-1]


TRULY_DOUBLE = ("gpt2", "gpt2 scaled by layer", "bert", "bert decoder", *ENCODERS)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ENCODERS])
def test_a_cast_to_float64_alone_leaves_float32_in_every_family_with_its_own_norm_or_softmax(family):
    """Where the bare forward is off by float32 rounding, the binding's reference is not."""
    network, ids = tiny(family), inputs(family)
    if family == "mixtral":
        network.set_experts_implementation("eager")
    binding = oa.bind(network, ids)
    own = (
        binding.readout.maps[0](binding.reference.states[-1]) if not family.startswith("bert") else binding.reference.states[-1]
    )
    difference = (plain_last_state(network, ids) - own).norm() / own.norm()
    assert (difference < 1e-13) == (family in TRULY_DOUBLE)
    assert difference < 1e-5


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_shorter_models_are_within_their_own_rounding(family, dtype):
    network, ids = tiny(family, dtype=dtype), inputs(family)
    binding = oa.bind(network, ids)
    assert binding.dtype == dtype and binding.deviation < 1
    report, result = oa.verify(binding.T.dyson(), binding), binding.orders()
    assert report.holds is (True if dtype == torch.float32 else None)
    assert report.residual <= report.bound
    assert result.rounding.max() > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_accumulated_in_float32_is_that_in_float64_to_float32_rounding(family):
    network, ids = tiny(family, dtype=torch.bfloat16), inputs(family)
    single, double = (oa.bind(network, ids, accumulate=accumulate) for accumulate in (torch.float32, "float64"))
    assert single.dtype == torch.float32 and "bfloat16 accumulated in float32" in repr(single)
    assert single.orders().parts.dtype == torch.float32
    assert np.allclose(single.orders().norms, double.orders().norms, rtol=0, atol=1e-3 * double.orders().norms.max())
    assert oa.verify(single.T.dyson(), single).residual <= oa.verify(double.T.dyson(), double).bound


@pytest.mark.parametrize("dtype", SHORT, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_model_rounds_is_a_row_of_its_own(family, dtype):
    network, ids = tiny(family, dtype=dtype), inputs(family)
    binding = oa.bind(network, ids, accumulate="float64")
    assert binding.dtype == torch.float64 and binding.arithmetic == dtype
    name = str(dtype).removeprefix("torch.")
    assert f", {name} accumulated in float64, cpu" in repr(binding)
    result = binding.orders()
    assert result.parts.dtype == torch.float64
    own = binding.reference.states[-1].double()
    assert (result.parts.sum(0) + result.remainder - own).norm() <= 1e-15 * own.norm() * len(result.parts)
    rounding = result.remainder.norm(dim=-1) / own.norm(dim=-1)
    assert np.allclose(result.rounding, rounding, rtol=1e-6) and rounding.max() > unit_roundoff(dtype) / 4
    assert result.to_dict()["rounding"] == result.rounding.tolist()
    report = oa.verify(binding.T.dyson(), binding)
    assert report.dtype == f"{name} accumulated in float64" and report.residual <= report.bound
    if family in MODELS:
        logits = result.logits(7)
        assert np.abs(logits.rounding).max() > 0
        assert np.allclose(logits.orders.sum(1) + logits.readout_bias + logits.rounding, logits.model)


@pytest.mark.parametrize("family", FAMILIES)
def test_accumulated_in_float64_the_frozen_stages_are_those_of_the_same_model_in_float64(family):
    """The weights are the shorter ones, exactly, and so is what they make of the recorded states."""
    network, ids = tiny(family, dtype=torch.bfloat16), inputs(family)
    short = oa.bind(network, ids, accumulate="float64", check=False)
    state = short.reference.states[0].double()
    own = {parameter.data_ptr() for parameter in network.parameters()}
    long = tiny(family).double()
    long.load_state_dict({name: value.double() for name, value in network.state_dict().items()}, strict=False)
    expected = oa.bind(long, ids.double() if ids.is_floating_point() else ids, check=False).maps[0](state)
    rotated = family not in ("gpt2", "gpt2 scaled by layer", "bert", "bert decoder", *ENCODERS)
    assert (short.maps[0](state) - expected).norm() <= (3e-2 if rotated else ROUNDING) * expected.norm()
    assert {parameter.data_ptr() for parameter in network.parameters()} == own


def test_the_experts_of_a_token_are_those_that_the_model_chose_where_rounding_leaves_the_choice_open():
    network, ids = tiny("mixtral", dtype=torch.bfloat16), inputs("mixtral")
    experts = oa.bind(network, ids).maps[1].branches[0].vertex
    state = torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    _, best = replace(experts, own=None).routes(state)
    logits = torch.nn.functional.linear(state.view(-1, 24), experts.router).float()
    order = logits.argsort(descending=True)
    reach = experts.router.norm(dim=-1).max().float() * state.view(-1, 24).float().norm(dim=-1)
    gap = (logits.gather(1, order[:, 1:2]) - logits.gather(1, order[:, 2:3]))[:, 0] / reach
    third = order[:, [0, 2]]
    for slack in (0.0, gap.median().item(), 1.0):
        weights, chosen = replace(experts, own=third, slack=slack).routes(state)
        expected = torch.where((gap <= slack)[:, None], third, best)
        assert torch.equal(chosen.sort().values, expected.sort().values)
        assert (weights.float().sum(-1) - 1).abs().max() < 1e-2
    assert experts.own.shape == (14, 2) and experts.slack < 0.25


@pytest.mark.parametrize("accumulate", [None, "float64"])
def test_no_expert_is_exchanged_by_rounding(accumulate):
    for seed in range(8):
        binding = oa.bind(tiny("mixtral", seed, dtype=torch.bfloat16), inputs("mixtral", tokens=12), accumulate=accumulate)
        result = binding.orders()
        assert (result.rounding / result.condition).max() < 3e-2


def test_a_truncation_has_no_row_of_rounding():
    binding = oa.bind(tiny("llama"), inputs("llama"))
    assert binding.orders(order=2).rounding is None and binding.orders(order=2).to_dict()["rounding"] is None
    assert np.array_equal(binding.orders(order=4).rounding, binding.orders().rounding)
    assert np.array_equal(binding.orders().rounding, binding.orders().partial_errors[:, -1])


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2"])
def test_an_error_above_rounding_is_seen_in_float32(family):
    binding = oa.bind(tiny(family, dtype=torch.float32), inputs(family))
    series = binding.T.dyson()
    caught = oa.verify(series, binding).would_catch.worst
    vertex = next(v for stage in binding.T.stages for v in stage.vertices if v.name == caught.vertex)
    assert caught.error < 1e-2
    assert oa.verify(series, plant(binding, vertex, 2 * caught.error)).holds is False


def test_another_dtype_to_accumulate_in_is_refused():
    with pytest.raises(oa.InputError) as caught:
        oa.bind(tiny("llama"), inputs("llama"), accumulate="bfloat16")
    assert str(caught.value) == (
        "accumulate='bfloat16' is not known; use 'float64' or 'float32', or leave it out for the model's own dtype"
    )
    with pytest.raises(oa.InputError, match=r"computes in torch\.float64, longer than torch\.float32 to accumulate in"):
        oa.bind(tiny("llama"), inputs("llama"), accumulate="float32")


def test_shorter_products_are_off_while_verifying_and_the_report_says_so():
    binding = oa.bind(tiny("llama", dtype=torch.float32), inputs("llama"))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        report = oa.verify(binding.T.dyson(), binding)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert report.tf32 is False and report.to_dict()["tf32"] is False


def test_shorter_products_are_noticed():
    from opalgebra.numeric.faithful import tf32

    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert tf32() is True
        with full_precision():
            assert tf32() is False
    finally:
        torch.set_float32_matmul_precision(before)
