"""What users of other tools ran into, in small: attention implementations, tied weights, embedding scales, row sums."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from models.families import ENCODERS, FAMILIES, MODELS, inputs, tiny

import opalgebra as oa
from opalgebra.numeric.faithful import faithful

ROUNDING = 1e-12


@pytest.mark.parametrize("family", [family for family in MODELS if family != "gemma2"])
def test_another_attention_implementation_is_switched_to_eager_and_back(family):
    network, ids = tiny(family), inputs(family)
    expected = oa.bind(network, ids).reference
    network.set_attn_implementation("sdpa")
    found = oa.bind(network, ids)
    assert torch.equal(found.reference.states, expected.states) and found.deviation < 1
    assert network.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_in_training_is_bound_in_evaluation_and_left_in_training(family):
    network, ids = tiny(family), inputs(family)
    expected = oa.bind(network, ids)
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
        if hasattr(module, "attention_dropout") and isinstance(module.attention_dropout, float):
            module.attention_dropout = 0.5
    network.train()
    assert torch.equal(oa.bind(network, ids).states, expected.states) and network.training


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_read_in_place_and_never_changed(family):
    network, ids = tiny(family), inputs(family)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    storages = {value.untyped_storage().data_ptr() for value in network.parameters()}
    for options in ({"heads": True}, {"split": "jacobian"}):
        binding = oa.bind(network, ids, **options)
        binding.orders()
    held = [value for maps in oa.bind(network, ids).maps for value in weights(maps)]
    assert held and all(value.untyped_storage().data_ptr() in storages for value in held)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert {value.untyped_storage().data_ptr() for value in network.parameters()} == storages


def weights(part, name=""):
    """Every weight that a map holds, rotary tables, masks and choices apart."""
    if isinstance(part, torch.Tensor):
        return [part] if part.is_floating_point() and name not in ("cosine", "sine") else []
    if isinstance(part, tuple):
        return [value for each in part for value in weights(each)]
    held = vars(part).items() if hasattr(part, "__dataclass_fields__") else ()
    return [value for field, each in held for value in weights(each, field)]


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "gemma3", "bert"])
def test_tied_weights_stay_one_memory(family):
    network, ids = tiny(family), inputs(family)
    binding = oa.bind(network, ids)
    embedding = network.get_input_embeddings().weight
    assert binding.readout.unembedding.data_ptr() == embedding.data_ptr() == network.get_output_embeddings().weight.data_ptr()


@pytest.mark.parametrize("family", MODELS)
def test_the_last_state_is_the_one_before_the_final_norm(family):
    network, ids = tiny(family), inputs(family)
    binding = oa.bind(network, ids)
    with faithful(network):
        hidden = network(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    own = binding.reference.states[-1]
    if family.startswith("bert"):
        assert torch.equal(hidden[-1], own)
    else:
        assert (hidden[-1] - own).norm() > 0.1 * own.norm()
        assert (binding.readout.maps[0](own) - hidden[-1]).norm() < ROUNDING * hidden[-1].norm()
    assert torch.equal(hidden[0], binding.reference.states[0])


@pytest.mark.parametrize("family", ["gemma2", "gemma3"])
def test_the_first_state_is_the_scaled_embedding_that_the_module_gives(family):
    network, ids = tiny(family), inputs(family)
    binding, raw = oa.bind(network, ids), network.model.embed_tokens.weight[ids]
    scale = float(network.model.embed_tokens.embed_scale)
    assert torch.equal(binding.evaluate(binding.T.x[0]), raw * scale)
    assert abs(scale - 24**0.5) < 1e-6 and scale != 24**0.5
    assert (binding.evaluate(binding.T.x[0]) - raw).norm() > raw.norm()


def test_positions_are_in_the_first_state_of_absolute_position_models():
    for family in ("gpt2", "bert"):
        network, ids = tiny(family), inputs(family)
        binding = oa.bind(network, ids)
        if family == "gpt2":
            expected = network.transformer.wte(ids) + network.transformer.wpe(torch.arange(7))
        else:
            expected = network.bert.embeddings(ids)
        assert torch.equal(binding.evaluate(binding.T.x[0]), expected)


@pytest.mark.parametrize("family", MODELS)
def test_no_cache_is_built(family):
    network, ids = tiny(family), inputs(family)
    network.config.use_cache = True
    seen = []
    handle = network.register_forward_hook(lambda module, given, output: seen.append(output))
    oa.bind(network, ids)
    handle.remove()
    assert seen and all(getattr(output, "cache", None) is None for output in seen)


def test_the_share_of_the_value_bias_is_that_of_the_row_sums_as_they_are():
    network, ids = tiny("gpt2"), inputs("gpt2")
    binding = oa.bind(network, ids)
    (branch,) = binding.frozen[0].branches
    whole = branch.vertex
    smaller = replace(whole, pattern=0.9 * whole.pattern)
    value_part = whole.source - whole.common
    assert (smaller.source - smaller.common - 0.9 * value_part).norm() < ROUNDING * value_part.norm()
    rows = whole.pattern.sum(-1)
    assert (rows - 1).abs().max() < 1e-14
    parts = [whole.restricted([head]) for head in range(3)]
    assert (sum(part.source for part in parts) - value_part).norm() < ROUNDING * value_part.norm()
    assert all(part.source.norm() > 0.1 * value_part.norm() for part in parts)


def test_float32_row_sums_are_not_one_and_enter_as_they_are():
    network, ids = tiny("bert", dtype=torch.float32), inputs("bert", tokens=24)
    binding = oa.bind(network, ids)
    patterns = [branch.vertex.pattern for stage in binding.frozen[::2] for branch in stage.branches]
    assert 0 < max((pattern.sum(-1) - 1).abs().max() for pattern in patterns) < 1e-6
    assert oa.verify(binding.T.dyson(), binding).holds is True


@pytest.mark.parametrize("family", ["qwen2", "gemma2", "llama", "gpt2"])
def test_every_head_is_the_model_s_own_pattern_with_the_values_of_its_group(family):
    network, ids = tiny(family), inputs(family)
    binding = oa.bind(network, ids, heads=True)
    with faithful(network):
        pattern = network(input_ids=ids, output_attentions=True, use_cache=False).attentions[1]
    stage = binding.T.stages[2]
    read = binding.evaluate(stage.norm @ binding.T.x[2])
    layer = network.transformer.h[1].attn if family == "gpt2" else network.model.layers[1].self_attn
    size, count = layer.head_dim, pattern.shape[1]
    for head in range(count):
        if family == "gpt2":
            rows = layer.c_attn.weight[:, 48 + head * size : 48 + (head + 1) * size]
            values = read @ rows + layer.c_attn.bias[48 + head * size : 48 + (head + 1) * size]
            expected = pattern[:, head] @ values @ layer.c_proj.weight[head * size : (head + 1) * size]
        else:
            group = slice(head // 2 * size, (head // 2 + 1) * size)
            bias = 0 if layer.v_proj.bias is None else layer.v_proj.bias[group]
            values = read @ layer.v_proj.weight[group].T + bias
            expected = pattern[:, head] @ values @ layer.o_proj.weight[:, head * size : (head + 1) * size].T
        found = binding.evaluate(binding.T.head[2, head] @ stage.norm @ binding.T.x[2])
        assert (found - expected).norm() < ROUNDING * expected.norm()


@pytest.mark.parametrize("family", ["gemma2", "gemma3", "olmo2"])
def test_the_contribution_of_a_block_is_what_the_residual_stream_gains(family):
    """With a norm after the block, the block's module output is another thing."""
    network, ids = tiny(family), inputs(family)
    binding, outputs = oa.bind(network, ids), []
    handle = network.model.layers[0].self_attn.register_forward_hook(lambda module, given, output: outputs.append(output[0]))
    with faithful(network):
        network(input_ids=ids, use_cache=False)
    handle.remove()
    stage = binding.T.stages[0]
    gained = binding.evaluate(stage.branch(stage.vertices) @ binding.T.x[0])
    own = binding.reference.states[1] - binding.reference.states[0]
    assert (gained - own).norm() < ROUNDING * binding.reference.states[1].norm()
    assert (outputs[0] - own).norm() > 0.1 * own.norm()


@pytest.mark.parametrize("family", MODELS)
def test_parts_add_up_with_their_signs(family):
    """Every figure is additive: embedding, each source, each order, and what rounding leaves."""
    binding = oa.bind(tiny(family), inputs(family), heads=True)
    result = binding.orders(counting="attention")
    total = result.parts.sum(0) + result.remainder
    assert (total - binding.reference.states[-1]).abs().max() <= 1e-15 * result.parts.abs().sum(0).max()
    table = result.to_pandas()
    assert table.index.names == ["batch", "order", "token"]
    assert table.loc[(1, 2, 6), "norms"] == result.norms[1, 2, 6]


@pytest.mark.parametrize("family", ENCODERS)
def test_an_encoder_with_padding_on_the_right_is_not_packed(family):
    network, vectors = tiny(family), inputs(family, tokens=9)
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5], dtype=torch.bool)
    binding = oa.bind(network, vectors, mask=mask)
    assert binding.reference.states.shape == (5, 2, 9, 24)
    assert np.isfinite(binding.orders().norms[1, :, :4]).all()


def test_a_kernel_put_in_place_of_a_modules_forward_is_compared_by_its_values():
    """As kernels of a hub are swapped in: an equal one changes nothing, another is named by the self-check."""
    network, ids = tiny("llama"), inputs("llama")
    expected = oa.bind(network, ids).orders()
    norm = network.model.layers[1].input_layernorm

    def kernel(epsilon):
        return lambda states: norm.weight * (states / (states.square().mean(-1, keepdim=True) + epsilon).sqrt())

    norm.forward = kernel(norm.variance_epsilon)
    np.testing.assert_allclose(oa.bind(network, ids).orders().norms, expected.norms, rtol=ROUNDING)
    norm.forward = kernel(norm.variance_epsilon * 1.001)
    with pytest.raises(oa.ModelError, match=r"the self-check failed at the attention of layer 2 \(stage 3\)"):
        oa.bind(network, ids)


@pytest.mark.parametrize("family", ["llama", "gpt2", "mixtral"])
def test_the_neurons_of_a_network_are_never_laid_out_one_by_one(family):
    """No array of all orders has an axis of neurons and one of features: the largest has the orders of the hidden units."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                largest.append(result.numel())
            return result

    network, ids = tiny(family, layers=4), inputs(family, batch=1)
    bound = oa.bind(network, ids)
    orders, tokens, features, hidden = 9, ids.shape[1], 24, 20
    with Sizes():
        bound.orders()
    assert max(largest) <= orders * tokens * max(features, hidden, 4 * tokens)
