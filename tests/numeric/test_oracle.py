"""The oracle gives the orders of networks of every build without an adapter, and tells wrong adapters from right ones."""

import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from numeric import oracle as dense
from numeric.models import VOCABULARY, examples, llamas, tiny_llama, token_ids, word_tokenizer
from numeric.networks import ENCODERS, FAMILIES, SIZES, altered, family, network_and_input, randomised

import opalgebra as oa
from opalgebra import models
from opalgebra.errors import InputError, ModelError
from opalgebra.models.load import Model
from opalgebra.numeric.agreement import agreement
from opalgebra.numeric.oracle import COUNTINGS, oracle_orders, silent
from opalgebra.numeric.replay import _activated, record
from opalgebra.series import counter
from opalgebra.testing import check_model, plant

EVERY = [*FAMILIES, *ENCODERS]
SPLITS = st.fixed_dictionaries({"attention": st.sampled_from(["frozen", "source"]), "ffn": st.sampled_from(["gate", "source"])})
# Four blocks sum fewer than 700 dimensions, so that rounding takes sums apart by 5.4 * 26 * 1.1e-16 of their terms with
# probability 1e-6; what is seen stays below a third of it.
SUM = 5e-15
IDS = torch.tensor([[5, 11, 23, 7], [2, 36, 2, 9]])


def walk(recording, counted):
    """(orders, ...) parts and sources, each selection of vertices run on its own, vertex by vertex."""
    numbers = [number for number, vertex in enumerate(recording.vertices) if counted(vertex)]
    nothing, silence = torch.zeros_like(recording.initial), silent(recording, numbers)
    rest, rest_made = recording.run(nothing, silence)
    shape = (len(numbers) + 1, *nothing.shape)

    def add(parts, order, last, made, after):
        parts[order] += last
        for number in numbers:
            if number > after:
                further, gave = recording.run(nothing, silence | {number: made[number]})
                moved = [one - other for one, other in zip(gave, rest_made)]
                add(parts, order + 1, further - rest, moved, number)

    born, sources = nothing.new_zeros(shape), nothing.new_zeros(shape)
    last, made = recording.run(recording.initial, silence)
    add(born, 0, last - rest, [one - other for one, other in zip(made, rest_made)], -1)
    add(sources, 0, rest, rest_made, -1)
    return born + sources, sources


def padded(parts, count):
    return torch.cat([parts, parts.new_zeros((count - len(parts), *parts.shape[1:]))])


@pytest.mark.parametrize("name", EVERY)
def test_the_orders_add_up_to_the_last_state_of_the_network_and_are_the_sums_over_all_selections(name):
    network, given = network_and_input(name)
    recording = record(network, given)
    assert [(v.kind, v.layer) for v in recording.vertices] == [(k, layer) for layer in (1, 2) for k in ("attention", "ffn")]
    for counting, counted in COUNTINGS.items():
        found = oracle_orders(recording, counting)
        assert (found.error / found.condition).max() < SUM
        same_as_walk(found, counted)


def same_as_walk(found, counted):
    recording = found.recording
    parts, sources = walk(recording, counted)
    scale = found.condition.max() * recording.final.norm(dim=-1).max()
    assert (padded(found.parts, len(parts)) - parts).abs().max() < SUM * scale
    assert (padded(found.sources, len(parts)) - sources).abs().max() < SUM * scale


@pytest.mark.parametrize("constant", ["attention", "ffn"])
@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "gemma2", "bert", "encoder"])
def test_a_vertex_that_is_a_source_passes_nothing_on(name, constant):
    network, given = network_and_input(name)
    recording = record(network, given, constant=[constant])
    found = oracle_orders(recording)
    assert (found.error / found.condition).max() < SUM
    same_as_walk(found, COUNTINGS["all"])
    assert not oracle_orders(recording, constant).parts[2:].any()


def test_a_hidden_unit_at_zero_has_the_slope_of_its_activation():
    network, given = network_and_input("encoder")
    network.layers[0].linear1.weight[:3] = 0
    network.layers[0].linear1.bias[:3] = 0
    recording = record(network, given)
    units = next(item for item in recording.applied if item.kind == "activation")
    moved = _activated(units, torch.ones_like(units.kept))
    assert torch.equal(moved[..., :3], torch.full_like(moved[..., :3], 0.5)) and (moved[..., 3:] != 0.5).all()
    assert (oracle_orders(recording).error < SUM * 10).all()


@pytest.mark.parametrize("name", EVERY)
def test_the_recorded_last_state_is_the_one_that_the_network_hands_on(name):
    network, given = network_and_input(name)
    seen = []
    stacks = (torch.nn.ModuleList, torch.nn.Sequential)
    layers = next(module for module in network.modules() if isinstance(module, stacks) and len(module) == 2)
    handle = layers[-1].register_forward_hook(lambda module, positional, output: seen.append(output))
    recording = record(network, given)
    handle.remove()
    assert torch.equal(recording.final, seen[0][0] if isinstance(seen[0], tuple) else seen[0])
    last, made = recording.run(recording.initial, {})
    assert ((last - recording.final).norm() / last.norm()) < SUM and len(made) == 4


def test_stages_side_by_side_are_passed_once_a_layer():
    for name, orders in (("gpt_neox", 3), ("falcon", 3), ("llama", 5)):
        network, given = network_and_input(name)
        assert len(oracle_orders(record(network, given)).parts) == orders
    sequential = family("gpt_neox", use_parallel_residual=False)
    assert len(oracle_orders(record(sequential, IDS)).parts) == 5


@examples(6)
@given(llamas(layers=st.integers(1, 2)), token_ids(tokens=st.integers(2, 4)), SPLITS, st.sampled_from(sorted(COUNTINGS)))
def test_the_orders_are_those_of_dense_matrices_made_from_the_weights(network, ids, split, counting):
    constant = [kind for kind, choice in split.items() if choice == "source"]
    found = oracle_orders(record(network, ids, constant=constant), counting)
    noted = dense.record(network, ids)
    letter = {"attention": "A", "ffn": "F"}.get(counting, "")
    for row in range(len(ids)):
        stages = dense.dense_stages(network, noted, row, **split)
        parts, sources = dense.brute_force(noted.states[0][row], stages, lambda name: name.startswith(letter))
        scale = np.linalg.norm(parts, axis=1).sum()
        for ours, theirs in ((found.parts, parts), (found.sources, sources)):
            by_hand = theirs.reshape(len(parts), *found.parts.shape[2:])
            assert np.abs(padded(ours, len(parts))[:, row].numpy() - by_hand).max() < 1e-13 * scale


@examples(6)
@given(llamas(), token_ids(tokens=st.integers(2, 6)), SPLITS)
def test_the_binding_of_any_llama_agrees_with_its_own_modules(network, ids, split):
    found = check_model(network, ids, split=split)
    assert all(part.holds is True and part.residual < part.bound / 3 for part in found.agreements)
    assert found.first_difference is None


@pytest.mark.parametrize(
    "name", [name for name in FAMILIES if getattr(transformers, FAMILIES[name][1]).model_type in models.FAMILIES]
)
def test_every_family_with_an_adapter_agrees(name):
    found = check_model(family(name))
    assert found.holds is True, str(found)


def test_a_float32_network_is_checked_in_float32():
    found = check_model(tiny_llama(2, dtype=torch.float32))
    assert found.holds is True and found.dtype == "float32"
    assert min(found.would_catch.values()) > 1e-8


def moved(value, generator):
    """The tensor, or the first of a tuple, with random relative errors of a millionth."""
    if isinstance(value, tuple):
        return (moved(value[0], generator), *value[1:])
    return value * (1 + 1e-6 * torch.randn(value.shape, generator=generator, dtype=value.dtype))


@pytest.mark.parametrize("name", ["llama", "mixtral", "gpt2", "bert", "encoder", "written out"])
def test_every_frozen_quantity_matters(name):
    network, given = network_and_input(name)
    recording, generator = record(network, given), torch.Generator().manual_seed(2)
    inside = [item for item in recording.applied if recording.layers[0].holds(item.time)]
    renormalised = [item for item in inside if name == "mixtral" and item.of == "softmax" and item.kind == "choice"]
    assert len(inside) >= 4
    for item in inside:
        changed = replace(item, kept=moved(item.kept, generator), args=(moved(item.args[0], generator), *item.args[1:]))
        applied = tuple(changed if other is item else other for other in recording.applied)
        if item in renormalised:  # what is chosen among them is recorded on its own
            assert (oracle_orders(replace(recording, applied=applied)).error < SUM * 10).all()
        else:
            with pytest.raises(ModelError, match=f"{type(network).__name__} do not add up to its own last state: they miss"):
                oracle_orders(replace(recording, applied=applied))


def hooks(network):
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules())


def test_a_check_leaves_the_network_as_it_was():
    network = tiny_llama(9).train()
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    check_model(network)
    with pytest.raises(ModelError):
        record(network.lm_head, torch.zeros(1, 2, 20, dtype=torch.float64))
    assert network.training and hooks(network) == 0 and torch.backends.mha.get_fastpath_enabled()
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())


# Planted bugs. Each of them is a way in which an adapter can be wrong.


class Adapter:
    """A binding as an adapter would give it, for families without one: orders of a network that it takes for the real one."""

    has_batch = True

    def __init__(self, network, ids, name, *, swapped=False):
        _, _, _, norm, parallel = FAMILIES[name]
        self.ids, self.recording, self.swapped = ids, record(network, ids), swapped
        self.T = oa.transformer(2, norm=norm, parallel=parallel)
        self.split, self.model = {"attention": "frozen", "ffn": "gate"}, SimpleNamespace(name=name)

    def orders(self, *, counting="all", order=None):
        chosen = counter(counting)
        branches = [(stage, branch) for stage in self.T.stages for branch in stage.branches]
        counted = {(str(branch.kind), stage.layer): chosen(branch.vertices[0]) for stage, branch in branches}
        found = oracle_orders(self.recording, lambda vertex: counted[vertex.kind, vertex.layer])
        kept = slice(None if order is None else order + 1)
        return SimpleNamespace(parts=found.parts[kept], source_norms=found.source_norms[kept].movedim(0, 1).numpy())


@pytest.mark.parametrize(
    "name, suffix, change",
    [
        ("qwen3", "q_norm.weight", torch.ones_like),
        ("qwen2", "k_proj.bias", lambda bias: bias.roll(3)),
        ("gpt2", "ln_1.bias", torch.zeros_like),
        ("gpt2", "attn.c_proj.weight", lambda weight: weight.roll(3, 0)),
        ("gpt_neox", "post_attention_layernorm.bias", torch.zeros_like),
        ("gpt_neox", "attention.dense.bias", torch.zeros_like),
        ("gemma2", "post_attention_layernorm.weight", lambda weight: weight - 1),
        ("olmo2", "post_feedforward_layernorm.weight", torch.ones_like),
        ("mixtral", "gate.weight", lambda weight: weight.flip(0)),
        ("bert", "attention.self.value.bias", torch.zeros_like),
        ("bert", "attention.output.LayerNorm.bias", torch.zeros_like),
    ],
)
def test_an_adapter_that_reads_a_parameter_wrongly_is_found_in_its_layer(name, suffix, change):
    network, ids = network_and_input(name)
    assert agreement(network, Adapter(network, ids, name), ["all"]).holds is True
    found = agreement(network, Adapter(altered(network, suffix, change), ids, name), ["all"])
    assert found.holds is False
    assert ("norms on the stream" if name == "bert" else "of layer 1 (stage") in found.first_difference


def bound_llama(seed=1, **changes):
    network = tiny_llama(seed, layers=2, attention_bias=True, mlp_bias=True, **changes)
    return network, oa.bind(network, IDS, check=False)


def refrozen(binding, stage, **parts):
    """The binding with other dressings in the branch of a stage."""
    frozen = list(binding.frozen)
    (branch,) = frozen[stage].branches
    frozen[stage] = replace(frozen[stage], branches=(replace(branch, **parts),))
    return replace(binding, frozen=frozen, known_dressings={})


def vertex_of(binding, stage):
    return binding.frozen[stage].branches[0].vertex


def perturbed_pattern(binding):
    vertex = vertex_of(binding, 2)
    return refrozen(binding, 2, vertex=replace(vertex, pattern=vertex.pattern * (1 + 1e-9 * torch.rand_like(vertex.pattern))))


def swapped_heads(binding):
    vertex = vertex_of(binding, 2)
    return refrozen(binding, 2, vertex=replace(vertex, output=vertex.output.roll(6, 1)))


def tiled_value_heads(binding):
    vertex = vertex_of(binding, 2)
    return refrozen(binding, 2, vertex=replace(vertex, pattern=vertex.pattern.transpose(1, 2)))


def another_gate(binding):
    vertex = vertex_of(binding, 3)
    ((gate, weight),) = vertex.paths
    return refrozen(binding, 3, vertex=replace(vertex, paths=((gate.roll(1, 1), weight),)))


def norm_of_another_state(binding):
    return refrozen(binding, 2, before=binding.maps[2].branches[0].before.freeze(binding.states[1]))


def lost_source(binding):
    return refrozen(binding, 3, vertex=replace(vertex_of(binding, 3), source=None))


@pytest.mark.parametrize(
    "mistake, where",
    [
        (perturbed_pattern, "attention of layer 2 (stage 3)"),
        (swapped_heads, "attention of layer 2 (stage 3)"),
        (tiled_value_heads, "attention of layer 2 (stage 3)"),
        (another_gate, "ffn of layer 2 (stage 4)"),
        (norm_of_another_state, "attention of layer 2 (stage 3)"),
        (lost_source, "ffn of layer 2 (stage 4)"),
    ],
)
def test_a_dressing_that_is_wrong_is_found_at_its_stage(mistake, where):
    network, binding = bound_llama()
    assert agreement(network, binding, ["all"]).holds is True
    found = agreement(network, mistake(binding))
    assert found.holds is False and where in found.first_difference
    assert "does not hold" in str(found) and f"first difference: {where}" in str(found)


@dataclass
class Altered:
    """A binding whose orders are altered before they are handed out."""

    binding: object
    change: object

    def __getattr__(self, name):
        return getattr(self.binding, name)

    def orders(self, *, counting="all", order=None):
        found = self.binding.orders(counting=counting, order=order)
        if not isinstance(counting, str) or order is not None:
            return found
        parts, sources = found.parts.clone(), torch.as_tensor(found.source_norms).clone()
        self.change(parts, sources)
        return SimpleNamespace(parts=parts, source_norms=sources.numpy())


def exchange(parts, sources):
    parts[[1, 2]] = parts[[2, 1]]


def sources_an_order_late(parts, sources):
    sources[:] = sources.roll(1, 1)


def one_token(parts, sources):
    parts[2, 1, 3, 0] += 1e-9


@pytest.mark.parametrize(
    "change, place",
    [
        (exchange, {"what": "order"}),
        (sources_an_order_late, {"what": "sources of order"}),
        (one_token, {"what": "order", "order": 2, "row": 1, "token": 3}),
    ],
)
def test_an_order_that_is_wrong_is_found_at_its_place_where_no_state_is_wrong(change, place):
    network, binding = bound_llama()
    found = agreement(network, Altered(binding, change))
    assert found.holds is False and found.first_difference is None
    for part in found.agreements:
        assert part.holds is False and place.items() <= vars(part).items()


def test_a_hook_that_changes_a_block_is_found():
    network = tiny_llama(4)
    changed = network.model.layers[1].mlp
    handle = changed.register_forward_hook(lambda module, positional, output: output * (1 + 1e-9))
    found = check_model(network)
    handle.remove()
    assert found.holds is False and "ffn of layer 2 (stage 4)" in found.first_difference
    assert check_model(network).holds is True


def test_what_the_record_says_it_would_catch_is_caught():
    network, binding = bound_llama()
    caught = agreement(network, binding, ["all"]).would_catch
    assert list(caught) == [f"{kind} of layer {layer}" for layer in (1, 2) for kind in ("attention", "feed-forward network")]
    for name, vertex in zip(caught, [vertex for stage in binding.T.stages for vertex in stage.vertices]):
        assert agreement(network, plant(binding, vertex, 3 * caught[name]), ["all"]).holds is False
        assert agreement(network, plant(binding, vertex, caught[name] / 100), ["all"]).holds is True


# What cannot be told is said.


def test_on_a_fresh_model_norm_weights_and_biases_cannot_be_told_from_none():
    arguments = {name: value for name, value in SIZES.items() if name != "attn_implementation"}
    fresh = transformers.LlamaForCausalLM(transformers.LlamaConfig(**arguments, attention_bias=True)).double()
    found = check_model(fresh)
    assert found.holds is None and all(part.holds is True for part in found.agreements)
    assert found.verdict == found.to_dict()["verdict"] == "cannot tell"
    assert found.cannot_tell == (
        "model.layers.0.input_layernorm.weight and 3 more: all 1, so that leaving it out is not seen; give random values to "
        "norms and biases",
        "model.layers.0.self_attn.q_proj.bias and 7 more: all 0, so that leaving it out is not seen; give random values to "
        "norms and biases",
    )
    assert str(found).endswith("\n".join(f"  cannot tell: {part}" for part in found.cannot_tell))
    deaf = altered(fresh.requires_grad_(False), "input_layernorm.weight", torch.ones_like)
    assert agreement(fresh, oa.bind(deaf, IDS)).holds is None


def test_a_block_below_rounding_cannot_be_told():
    network = altered(tiny_llama(5), "o_proj.weight", lambda weight: 1e-20 * weight)
    found = check_model(network)
    assert found.holds is None and found.would_catch["attention of layer 1"] > 1
    assert found.cannot_tell == ("the attention of layer 1: it moves the last state by less than rounding",)


def test_orders_below_rounding_are_named():
    network = tiny_llama(5)
    for name, weight in network.named_parameters():
        if "down_proj" in name or "o_proj" in name:
            weight.mul_(1e-4)
    found = check_model(network)
    assert found.holds is True
    assert found.agreements[0].too_small == (4, 5, 6) and "orders too small to tell: 4 to 6" in str(found)


def test_one_token_says_nothing_of_queries_and_keys_nor_of_experts_that_it_did_not_choose():
    found = check_model(tiny_llama(5), IDS[:1, :1])
    assert found.holds is None and found.cannot_tell[0] == (
        "queries, keys and positions of layer 1: its attention is uniform; give more tokens"
    )
    network, ids = family("mixtral"), IDS[:1, :1]
    experts = [text for text in agreement(network, Adapter(network, ids, "mixtral")).cannot_tell if "experts" in text]
    assert len(experts) == 2 and experts[0].endswith("of layer 1: no token chose them; give more tokens")


def test_too_short_a_dtype_tells_nothing():
    assert check_model(tiny_llama(6, dtype=torch.bfloat16)).holds is None


# Refusals.


class Layer(torch.nn.TransformerEncoderLayer):
    """A layer with a second feed-forward network in a module of its own."""

    def __init__(self):
        super().__init__(16, 4, 18, batch_first=True)
        self.more = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Linear(16, 16))

    def _ff_block(self, x):
        return super()._ff_block(x) + self.more(x)


class Changing(torch.nn.Module):
    """A network with another activation at every other call."""

    def __init__(self):
        super().__init__()
        self.calls, self.layer = 0, torch.nn.TransformerEncoderLayer(16, 4, 18, batch_first=True)

    def forward(self, x):
        self.calls += 1
        self.layer.activation = torch.relu if self.calls % 2 else torch.tanh
        return self.layer(x)


def hugging(name, **arguments):
    config = getattr(transformers, name.replace("ForCausalLM", "Config").replace("ForConditionalGeneration", "Config"))
    return getattr(transformers, name)(config(vocab_size=VOCABULARY, **arguments))


BUILDS = [
    (
        lambda: hugging("BloomForCausalLM", hidden_size=16, n_layer=2, n_head=4),
        "cannot say how BloomForCausalLM is built: the attention of layer 1 is no module whose output is added to the stream; "
        "the oracle reads stacks of layers with one attention and one feed-forward network each, added to a stream",
    ),
    (
        lambda: hugging("MambaForCausalLM", hidden_size=16, num_hidden_layers=2),
        "cannot say how MambaForCausalLM is built: no softmax over tokens was seen in its forward;",
    ),
    (
        lambda: hugging("T5ForConditionalGeneration", d_model=16, d_kv=4, d_ff=18, num_layers=2, num_heads=4),
        "cannot say how T5ForConditionalGeneration is built: it has an encoder and a decoder;",
    ),
    (
        lambda: torch.nn.TransformerEncoder(Layer(), 2, enable_nested_tensor=False),
        "cannot say how TransformerEncoder is built: the feed-forward network of layer 1 is in more than one module;",
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build, message", BUILDS)
def test_a_network_of_which_it_cannot_say_how_it_is_built_is_refused(build, message):
    network = randomised(build())
    given = IDS if hasattr(network, "config") else torch.randn(2, 4, 16, dtype=torch.float64)
    with pytest.raises(ModelError) as refused:
        record(network, given)
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)


def test_a_forward_that_takes_another_path_is_refused():
    with pytest.raises(ModelError, match="Changing took another path when it was run again with its nonlinearities frozen"):
        oracle_orders(record(randomised(Changing()), torch.randn(2, 4, 16, dtype=torch.float64)))


@pytest.mark.filterwarnings("ignore")
def test_a_nonlinear_function_that_is_not_frozen_is_refused():
    network = randomised(
        hugging(
            "GptOssForCausalLM", hidden_size=16, intermediate_size=18, num_hidden_layers=1, num_attention_heads=4, head_dim=4,
            num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2, experts_implementation="eager",
        )
    )  # fmt: skip
    with pytest.raises(ModelError, match=r"the orders of GptOssForCausalLM do not add up .* a nonlinear function that is not"):
        oracle_orders(record(network, IDS))


def test_unknown_countings_splits_vertices_and_inputs_are_refused():
    network, binding = bound_llama()
    with pytest.raises(InputError, match="counting='norms' is unknown; use all, attention, ffn, or a predicate on vertices"):
        oracle_orders(record(network, IDS), "norms")
    with pytest.raises(InputError, match="the split ffn='tangent' cannot be checked; the oracle knows attention: frozen"):
        agreement(network, replace(binding, split={"ffn": "tangent"}))
    with pytest.raises(ModelError, match=r"has 6 vertices, attention 1 ffn 1 attention 2 ffn 2 \.\.\., and the binding has 4"):
        agreement(tiny_llama(1, layers=3), binding)
    with pytest.raises(InputError, match="encoder says nothing of its vocabulary; give token ids"):
        check_model(Model(network_and_input("encoder")[0], None, "encoder"))
    with pytest.raises(InputError, match="split ffn='other' is not known"):
        check_model(network, split="other")


def test_heads_as_vertices_have_the_orders_of_their_attention():
    network, ids = tiny_llama(7), IDS
    assert agreement(network, oa.bind(network, ids, heads=True)).holds is True


def test_a_text_is_an_input():
    found = check_model(Model(tiny_llama(8), word_tokenizer(), "words"), "w5 w7 w2 w9")
    assert found.holds is True and (found.rows, found.tokens) == (1, 4)


def test_the_oracle_loads_no_adapter_and_no_block():
    program = (
        "import sys, opalgebra.numeric.agreement\n"
        "print(*(name for name in sys.modules if name.startswith(('opalgebra.models', 'opalgebra.numeric'))))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    parts = ("", ".agreement", ".faithful", ".oracle", ".recording", ".replay", ".roundoff")
    assert sorted(loaded) == [f"opalgebra.numeric{part}" for part in parts]


# Real weights.


@pytest.mark.models
def test_the_orders_of_minilm_add_up_to_its_last_state_with_the_published_condition():
    model = oa.load("minilm")
    ids = torch.tensor([model.token_ids("When Mary and John went to the store, John gave a drink to")])
    found = oracle_orders(record(model.network, ids))
    assert len(found.parts) == 13 and (found.error < found.bound / 3).all()
    assert found.condition.min() > 2 and found.condition.max() < 10


@pytest.mark.models
@pytest.mark.slow
def test_smollm2_agrees_with_its_own_modules(smollm2, bound):
    found = agreement(smollm2.network, bound)
    assert found.holds is True and all(part.residual < part.bound / 3 for part in found.agreements)
    assert max(found.would_catch.values()) < 1e-7


@pytest.mark.models
@pytest.mark.slow
def test_the_orders_of_smollm2_are_the_published_ones(smollm2, bound):
    norms = oracle_orders(record(smollm2.network, bound.ids), "attention").norms[:7, 0, -1].numpy()
    published = [9.50e-2, 3.34e-1, 3.57e-1, 2.01e-1, 8.14e-2, 2.88e-2, 1.02e-2]
    assert np.abs(norms / published - 1).max() < 0.01
