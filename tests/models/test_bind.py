"""Binding takes what it should, refuses the rest by name, checks every block against the model, and changes nothing."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from models.families import tiny
from numeric.models import examples, llamas, tiny_llama, token_ids, word_tokenizer

import opalgebra as oa
from opalgebra.errors import InputError, ModelError
from opalgebra.models import family, llama
from opalgebra.numeric.attention import Rotary
from opalgebra.numeric.stages import StageMaps

IDS = [[5, 11, 23, 7], [2, 36, 2, 19]]


def refusal(error, *arguments, **options) -> str:
    with pytest.raises(error) as caught:
        oa.bind(*arguments, **options)
    text = str(caught.value)
    assert len(text.splitlines()) == 1 and text[-1] != "."
    return text


def text_model(**changes):
    return oa.load(tiny_llama(**changes), tokenizer=word_tokenizer())


@pytest.mark.parametrize(
    "ids", [IDS, tuple(map(tuple, IDS)), np.array(IDS), np.array(IDS, dtype=np.uint16), torch.tensor(IDS, dtype=torch.int32)]
)
def test_token_ids_come_as_lists_numpy_or_torch(ids):
    binding = oa.bind(tiny_llama(layers=1), ids)
    assert binding.ids.dtype == torch.long and binding.ids.tolist() == IDS
    assert binding.has_batch and binding.tokens == 4
    assert binding.token_texts == [["5", "11", "23", "7"], ["2", "36", "2", "19"]]


def test_a_text_is_read_by_the_tokenizer_and_has_no_batch_axis():
    binding = oa.bind(text_model(layers=1), "w5 w11 w23 w7")
    assert binding.ids.tolist() == IDS[:1] and not binding.has_batch
    assert binding.token_texts == ["w5", "w11", "w23", "w7"]
    assert torch.equal(binding.states, oa.bind(tiny_llama(layers=1), IDS[:1]).states)


def test_the_printed_form_names_model_input_split_dtype_and_self_check():
    binding = oa.bind(tiny_llama(layers=1), IDS, split="source")
    assert repr(binding).startswith(
        "Binding(LlamaForCausalLM, (2, 4) tokens, 2 stages, split: attention frozen, ffn source, float64, cpu, self-check "
    )
    assert 0 < binding.deviation < 1
    unchecked = oa.bind(tiny_llama(layers=1), IDS, check=False)
    assert unchecked.deviation is None and "not self-checked" in repr(unchecked)


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("gate", {"attention": "frozen", "ffn": "gate"}),
        ("source", {"attention": "frozen", "ffn": "source"}),
        ({"attention": "source"}, {"attention": "source", "ffn": "gate"}),
        ({"attention": "source", "ffn": "source"}, {"attention": "source", "ffn": "source"}),
    ],
)
def test_a_word_names_the_split_of_the_network_and_a_mapping_names_both(split, expected):
    assert oa.bind(tiny_llama(layers=1), IDS, split=split).split == expected


@pytest.mark.parametrize(("split", "kind"), [("tangents", "ffn"), ("frozen", "ffn"), ("Gate", "ffn")])
def test_an_unknown_split_is_refused_by_name(split, kind):
    options = "use attention: frozen, source; ffn: gate, tangent, source; or split='jacobian' for everything"
    network = tiny_llama(layers=1)
    assert refusal(InputError, network, IDS, split=split) == f"split {kind}={split!r} is not known; {options}"
    assert refusal(InputError, network, IDS, split={"ffn": split}) == f"split ffn={split!r} is not known; {options}"
    assert refusal(InputError, network, IDS, split={"attention": split + "s"}).startswith(f"split attention={split + 's'!r} ")
    assert refusal(InputError, network, IDS, split={"mlp": "gate"}) == f"split mlp='gate' is not known; {options}"
    assert refusal(InputError, network, IDS, split={"ffn": "jacobian"}) == f"split ffn='jacobian' is not known; {options}"


def test_a_frozen_factor_that_nothing_has_is_refused_by_name():
    network, gpt2 = tiny_llama(layers=1), tiny("gpt2")
    assert refusal(InputError, network, IDS, gated="down") == "gated='down' is not known; use 'gate', 'up', 'half'"
    assert refusal(InputError, network, IDS, gated="up", split="jacobian") == (
        "gated='up' freezes a factor, and split='jacobian' differentiates both; leave gated= out"
    )
    assert refusal(InputError, network, IDS, gated="up", split="source") == (
        "gated='up' names a factor that ffn='gate' freezes, but ffn='source'; use ffn='gate'"
    )
    assert refusal(InputError, gpt2, IDS, gated="up") == "gated='up': GPT2LMHeadModel has no gated units; leave gated= out"


def test_a_split_that_is_neither_a_word_nor_a_mapping_is_refused():
    text = "split=None is not known; use a name such as 'gate', or a mapping of 'attention' and 'ffn'"
    assert refusal(InputError, tiny_llama(layers=1), IDS, split=None) == text


@pytest.mark.parametrize("empty", ["", "   ", [], [[]], np.zeros((0, 3), dtype=int), torch.zeros(2, 0, dtype=torch.long)])
def test_an_empty_input_is_refused(empty):
    assert refusal(InputError, text_model(layers=1), empty) == "the prompt is empty; give at least one token"


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        ([[1.0, 2.0]], "torch.float32 of shape (1, 2)"),
        (np.array([[1.0]]), "torch.float64 of shape (1, 1)"),
        ([[True, False]], "torch.bool of shape (1, 2)"),
        ([1, 2], "torch.int64 of shape (2,)"),
        (torch.zeros(1, 2, 3, dtype=torch.long), "torch.int64 of shape (1, 2, 3)"),
        (7, "torch.int64 of shape ()"),
    ],
)
def test_ids_that_are_no_table_of_integers_are_refused(ids, what):
    assert refusal(InputError, tiny_llama(layers=1), ids) == f"token ids are integers (batch, tokens), not {what}"


@pytest.mark.parametrize(
    ("input", "kind"), [([[1, 2], [3]], "list"), ([["a"]], "list"), ({"input_ids": [[1]]}, "dict")]
)
def test_an_input_that_is_no_array_is_refused(input, kind):
    assert refusal(InputError, tiny_llama(layers=1), input) == (
        f"the input is a {kind} that is no array of integers; give a text, or token ids (batch, tokens) with rows of the same "
        "length"
    )


@pytest.mark.parametrize(
    ("ids", "range"), [([[0, 37]], "0 to 37"), ([[-1, 36]], "-1 to 36"), ([[3], [10**12]], f"3 to {10**12}")]
)
def test_ids_outside_the_vocabulary_are_refused(ids, range):
    text = f"token ids run from 0 to 36, but the input has {range}"
    assert refusal(InputError, tiny_llama(layers=1), ids) == text


def test_an_input_longer_than_the_model_reads_is_refused():
    text = "the prompt has 65 tokens and LlamaForCausalLM reads at most 64; shorten it"
    assert refusal(InputError, text_model(layers=1), [[1] * 65]) == text
    assert refusal(InputError, text_model(layers=1), "w1 " * 65) == text
    assert oa.bind(text_model(layers=1), "w1 " * 64).tokens == 64


def test_a_text_for_a_model_without_a_tokenizer_is_refused():
    assert refusal(InputError, tiny_llama(layers=1), "w1") == (
        "LlamaForCausalLM has no tokenizer to read a text; pass token ids, or tokenizer= to load"
    )


KNOWN = (
    "families known here: llama, mistral, qwen2, qwen3, gemma2, gemma3_text, gpt2, gpt_neox, phi3, olmo2, mixtral, bert, "
    "torch.nn.TransformerEncoder"
)


def test_another_family_is_refused_by_name():
    config = transformers.OPTConfig(
        vocab_size=37, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, ffn_dim=8, word_embed_proj_dim=8
    )
    assert refusal(ModelError, transformers.OPTForCausalLM(config), IDS) == (
        f"OPTForCausalLM is of the family 'opt', which no adapter reads; {KNOWN}"
    )
    assert refusal(ModelError, torch.nn.Linear(2, 2), IDS) == (
        f"Linear is of the class Linear, which no adapter reads; {KNOWN}"
    )


def test_a_llama_with_another_head_is_refused():
    network = transformers.LlamaForSequenceClassification(tiny_llama(layers=1).config)
    assert refusal(ModelError, network, IDS) == (
        "LlamaForSequenceClassification is a Llama model with a head or class that is not known; pass a LlamaModel or "
        "LlamaForCausalLM"
    )


def test_a_configuration_that_says_more_than_the_adapter_knows_is_refused():
    network = tiny_llama(layers=1)
    network.config.logit_multiplier = 2.0
    assert refusal(ModelError, network, IDS) == (
        "the configuration of LlamaForCausalLM has 'logit_multiplier', which the Llama adapter does not know; remove it if it "
        "does not change the forward pass"
    )
    network = tiny_llama(layers=1)
    network.config.pretraining_tp = 2
    assert refusal(ModelError, network, IDS) == (
        "the configuration of LlamaForCausalLM has pretraining_tp=2, which changes the forward pass in a way that the Llama "
        "adapter does not know; it reads models with pretraining_tp=1"
    )


def test_attributes_that_no_forward_reads_are_accepted():
    network = tiny_llama(layers=1)
    network.config.is_llama_config, network.config.rope_interleaved = True, False
    network.config._something_private = 1
    assert oa.bind(network, IDS).deviation < 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_not_finite_is_refused_naming_where(value):
    names = [name for name, _ in tiny_llama(layers=2, attention_bias=True, mlp_bias=True).named_parameters()]
    assert len(names) == 2 * 16 + 3
    for name in names:
        network = tiny_llama(layers=2, attention_bias=True, mlp_bias=True)
        weight = network.get_parameter(name)
        place = tuple(size - 1 for size in weight.shape)
        weight[place] = value
        assert refusal(ModelError, network, IDS) == (
            f"the weight {name} of LlamaForCausalLM is {value} at index {place}; mend the weights and load again"
        )


def test_large_weights_whose_sum_overflows_are_finite():
    network = tiny_llama(layers=1)
    network.lm_head.weight[:2] = torch.finfo(torch.float64).max
    assert oa.bind(network, IDS, check=False).states.isfinite().all()


def test_a_model_without_an_unembedding_binds_and_has_no_logits():
    network = tiny_llama(layers=2)
    bare, whole = oa.bind(network.model, IDS), oa.bind(network, IDS)
    assert torch.equal(bare.states, whole.states) and bare.reference.logits is None
    with pytest.raises(InputError) as caught:
        bare.orders().logits(3)
    assert str(caught.value) == "LlamaModel has no unembedding and so no logits; bind a model with a language head"


def test_the_architecture_has_the_layers_and_heads_of_the_model():
    network = tiny_llama(layers=3, heads=4)
    for heads, count in ((False, None), (True, 4)):
        expected = oa.transformer(layers=3, heads=count)
        assert expected == oa.bind(network, IDS, heads=heads).T


@examples(40)
@given(st.sampled_from([torch.float64, torch.float32, torch.bfloat16]), st.data())
def test_the_self_check_passes_every_right_model(dtype, data):
    network, ids = data.draw(llamas(dtype=dtype)), data.draw(token_ids(tokens=st.integers(1, 12)))
    binding = oa.bind(network, ids)
    assert binding.dtype == dtype and binding.deviation <= 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_self_check_passes_a_longer_model_in_every_dtype(dtype):
    network = tiny_llama(3, layers=8, heads=8, key_heads=4, head_dim=16, width=64, hidden=160, rope="llama3", dtype=dtype)
    assert oa.bind(network, [list(range(30)), list(range(7, 37))]).deviation <= 1


def change_stage(monkeypatch, stage, change):
    """The adapter reads the model with one pair of maps (norm, vertex) changed, while the model itself stays right."""
    right = llama.read

    def wrong(network, prompt, choices):
        parts = right(network, prompt, choices)
        maps = list(parts.maps)
        (branch,) = maps[stage - 1].branches
        before, vertex = change(branch.before, branch.vertex)
        maps[stage - 1] = StageMaps((replace(branch, before=before, vertex=vertex),))
        return replace(parts, maps=maps)

    monkeypatch.setattr(llama, "read", wrong)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("stage", range(1, 7))
def test_a_wrong_norm_weight_is_named_by_its_block(stage, dtype, monkeypatch):
    network = tiny_llama(layers=3, dtype=dtype)
    layer, kind = network.model.layers[(stage - 1) // 2], ("ffn", "attention")[stage % 2]
    module = layer.input_layernorm if stage % 2 else layer.post_attention_layernorm
    right = family.rms_norm
    ones = torch.ones_like(module.weight)

    def wrong(norm, **options):
        return replace(right(norm, **options), weight=ones) if norm is module else right(norm, **options)

    monkeypatch.setattr(family, "rms_norm", wrong)
    text = refusal(ModelError, network, IDS)
    place = f"the {kind} of layer {(stage + 1) // 2} (stage {stage})"
    assert text.startswith(f"the self-check failed at {place}: it differs from the model's own forward by ")
    assert text.endswith(
        "; the adapter does not describe this model, or its numbers leave the range of the dtype (check=False binds it all "
        "the same)"
    )
    binding = oa.bind(network, IDS, check=False)
    assert oa.verify(binding.T.dyson(), binding).holds is False


def square(matrix):
    assert matrix.shape[0] == matrix.shape[1]
    return matrix.T.contiguous()


def rotary(attention, theta):
    """The rotary tables of another base."""
    _, tokens, size = attention.rotary.cosine.shape
    frequency = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = (torch.arange(tokens, dtype=torch.float64)[:, None] * frequency).repeat(1, 2)[None]
    return replace(attention, rotary=Rotary(angle.cos(), angle.sin()))


def turned(attention, **projections):
    """The attention with weights or biases of some of its projections replaced."""
    return replace(attention, **{name: replace(getattr(attention, name), **new) for name, new in projections.items()})


ATTENTION_MISTAKES = {
    "rotary base": lambda norm, vertex: (norm, rotary(vertex, 10_001.0)),
    "no rotary embedding": lambda norm, vertex: (norm, rotary(vertex, 1e300)),
    "sine reversed": lambda norm, vertex: (norm, replace(vertex, rotary=Rotary(vertex.rotary.cosine, -vertex.rotary.sine))),
    "scaling": lambda norm, vertex: (norm, replace(vertex, scaling=vertex.scaling * (1 + 1e-6))),
    "query transposed": lambda norm, vertex: (
        norm,
        turned(vertex, query={"weight": square(vertex.query.matrix).view_as(vertex.query.weight)}),
    ),
    "output transposed": lambda norm, vertex: (norm, replace(vertex, output=square(vertex.output))),
    "query and key exchanged": lambda norm, vertex: (norm, replace(vertex, query=vertex.key, key=vertex.query)),
    "no value bias": lambda norm, vertex: (norm, turned(vertex, value={"bias": None})),
    "no output bias": lambda norm, vertex: (norm, replace(vertex, output_bias=None)),
    "no query bias": lambda norm, vertex: (norm, turned(vertex, query={"bias": None})),
}
FFN_MISTAKES = {
    "activation": lambda norm, vertex: (norm, replace(vertex, activation=torch.nn.functional.gelu)),
    "gate and up exchanged": lambda norm, vertex: (norm, replace(vertex, gate=vertex.up, up=vertex.gate)),
    "gate transposed": lambda norm, vertex: (norm, replace(vertex, gate=square(vertex.gate))),
    "up transposed": lambda norm, vertex: (norm, replace(vertex, up=square(vertex.up))),
    "down transposed": lambda norm, vertex: (norm, replace(vertex, down=square(vertex.down))),
    "no gate bias": lambda norm, vertex: (norm, replace(vertex, gate_bias=None)),
    "no down bias": lambda norm, vertex: (norm, replace(vertex, down_bias=None)),
}
NORM_MISTAKES = {
    "epsilon": lambda norm, vertex: (replace(norm, epsilon=norm.epsilon * 1.001), vertex),
    "norm weight plus one": lambda norm, vertex: (replace(norm, weight=norm.weight + 1), vertex),
    "norm weight left out": lambda norm, vertex: (replace(norm, weight=torch.ones_like(norm.weight)), vertex),
}
MISTAKES = {
    **{("attention", name): change for name, change in {**ATTENTION_MISTAKES, **NORM_MISTAKES}.items()},
    **{("ffn", name): change for name, change in {**FFN_MISTAKES, **NORM_MISTAKES}.items()},
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=" ".join)
@pytest.mark.parametrize("seed", range(3))
def test_every_planted_mistake_is_caught_by_the_self_check_on_random_models(mistake, seed, monkeypatch):
    kind = mistake[0]
    layer = 1 + seed % 2
    stage = 2 * layer - (kind == "attention")
    network = tiny_llama(
        seed, layers=2, heads=4, key_heads=4, head_dim=4, width=16, hidden=16, attention_bias=True, mlp_bias=True
    )
    change_stage(monkeypatch, stage, MISTAKES[mistake])
    assert f"the self-check failed at the {kind} of layer {layer} (stage {stage})" in refusal(ModelError, network, IDS)


def test_value_heads_that_serve_the_wrong_queries_are_caught(monkeypatch):
    def tiled(norm, vertex):
        order = torch.arange(4).view(2, 2).T.flatten()
        output = vertex.output.unflatten(1, (4, -1))[:, order].flatten(1)
        return norm, replace(turned(vertex, query={"weight": vertex.query.weight[order]}), output=output)

    change_stage(monkeypatch, 3, tiled)
    text = refusal(ModelError, tiny_llama(layers=2, heads=4, key_heads=2), IDS)
    assert text.startswith("the self-check failed at the attention of layer 2 (stage 3)")


def test_two_layers_that_are_exchanged_are_caught(monkeypatch):
    right = llama.read

    def exchanged(network, prompt, choices):
        parts = right(network, prompt, choices)
        return replace(parts, maps=[*parts.maps[2:4], *parts.maps[:2], *parts.maps[4:]])

    monkeypatch.setattr(llama, "read", exchanged)
    assert "attention of layer 1 (stage 1)" in refusal(ModelError, tiny_llama(layers=3), IDS)


def attributes(network):
    modules = list(network.modules())
    hooks = [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in modules]
    grads = [parameter.requires_grad for parameter in network.parameters()]
    return [module.training for module in modules], hooks, grads, network.config._attn_implementation


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_model_is_left_as_it_was(training, attention):
    network = tiny_llama(layers=2, attention_bias=True, mlp_bias=True)
    expected = oa.bind(network, IDS)
    for layer in network.model.layers:
        layer.self_attn.attention_dropout = 0.5
    network.set_attn_implementation(attention)
    network.train(training).requires_grad_(True)
    network.model.layers[0].eval()
    before, weights = attributes(network), {name: value.clone() for name, value in network.state_dict().items()}
    binding = oa.bind(network, IDS)
    binding.orders().logits(3)
    assert attributes(network) == before
    assert network.state_dict().keys() == weights.keys()
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    assert torch.equal(binding.reference.logits, expected.reference.logits)


def test_the_model_is_left_as_it_was_by_a_failed_check(monkeypatch):
    network = tiny_llama(layers=2).train()
    network.set_attn_implementation("sdpa")
    before = attributes(network)
    change_stage(monkeypatch, 2, FFN_MISTAKES["activation"])
    refusal(ModelError, network, IDS)
    assert attributes(network) == before


def test_weights_are_the_model_s_own_memory():
    network = tiny_llama(layers=2, attention_bias=True, mlp_bias=True)
    own = {parameter.data_ptr() for parameter in network.parameters()}
    binding = oa.bind(network, IDS)
    held = [value for maps in binding.maps for value in tensors(maps)] + tensors(binding.readout)
    assert len(held) == 2 * 16 + 2
    assert {value.data_ptr() for value in held} < own


def tensors(part):
    """Every weight in a map, rotary tables and masks apart."""
    if isinstance(part, torch.Tensor):
        return [part]
    if isinstance(part, tuple):
        return [value for each in part for value in tensors(each)]
    if not is_dataclass(part) or isinstance(part, Rotary):
        return []
    return [value for field in fields(part) if field.name != "visible" for value in tensors(getattr(part, field.name))]


def test_an_unembedding_that_does_something_else_fails_the_self_check():
    network = tiny_llama()
    handle = network.lm_head.register_forward_hook(lambda module, inputs, output: output / 2)
    assert refusal(ModelError, network, IDS).startswith("the self-check failed at the unembedding: it differs from ")
    handle.remove()
    assert oa.bind(network, IDS).deviation < 1


def test_a_row_of_zeros_in_the_embedding_is_bound():
    network = tiny_llama()
    network.model.embed_tokens.weight[0].zero_()
    M = oa.bind(network, torch.tensor([[0, 3, 0]]))
    assert M.deviation < 1
    assert oa.verify(M.T.dyson(), M).holds is True


def test_threads_may_bind_one_model_at_once():
    from concurrent.futures import ThreadPoolExecutor

    network = tiny_llama()
    expected = oa.bind(network, IDS).orders().norms
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: oa.bind(network, IDS).orders().norms, range(12)))
    assert all((norms == expected).all() for norms in found)
    assert torch.get_default_dtype() == torch.float32
