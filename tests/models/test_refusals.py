"""What a family's adapter does not know is refused by name: heads, attributes, layers, families."""

import warnings

import pytest
import torch
import transformers
from models.families import ENCODERS, FAMILIES, MODELS, inputs, tiny

import opalgebra as oa
from opalgebra.models import FAMILIES as ADAPTERS
from opalgebra.models import UNREAD

TITLES = {
    "llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma2": "Gemma 2", "gemma3": "Gemma 3",
    "gpt2": "GPT-2", "neox parallel": "GPT-NeoX", "phi3": "Phi-3", "olmo2": "OLMo-2", "mixtral": "Mixtral", "bert": "BERT",
}  # fmt: skip


def refusal(network, ids) -> str:
    with pytest.raises(oa.ModelError) as caught:
        oa.bind(network, ids)
    text = str(caught.value)
    assert len(text.splitlines()) == 1 and text[-1] != "."
    return text


@pytest.mark.parametrize("attribute", ["residual_multiplier", "attn_output_gate", "is_causal", "quantization_config"])
@pytest.mark.parametrize("family", TITLES)
def test_an_unknown_attribute_is_refused_by_name(family, attribute):
    network = tiny(family)
    setattr(network.config, attribute, False if attribute == "is_causal" else 2.0)
    if attribute == "quantization_config":
        network.config.quantization_config = {"quant_method": "none"}
    assert refusal(network, inputs(family)) == (
        f"the configuration of {type(network).__name__} has {attribute!r}, which the {TITLES[family]} adapter does not know; "
        "remove it if it does not change the forward pass"
    )


VALUES = [
    ("llama", "pretraining_tp", 2, "1"),
    ("qwen2", "use_mrope", True, "False"),
    ("gemma2", "use_bidirectional_attention", True, "None"),
    ("gemma3", "use_bidirectional_attention", True, "False"),
    ("phi3", "lm_head_bias", True, "False"),
    ("gpt2", "reorder_and_upcast_attn", True, "False"),
    ("gpt2", "add_cross_attention", True, "False"),
    ("bert", "add_cross_attention", True, "False"),
    ("bert", "chunk_size_feed_forward", 2, "0"),
    ("bert", "position_embedding_type", "relative_key", "'absolute'"),
]


@pytest.mark.parametrize(("family", "attribute", "value", "known"), VALUES)
def test_a_value_that_changes_the_forward_pass_is_refused_by_name(family, attribute, value, known):
    network = tiny(family)
    setattr(network.config, attribute, value)
    assert refusal(network, inputs(family)) == (
        f"the configuration of {type(network).__name__} has {attribute}={value!r}, which changes the forward pass in a way "
        f"that the {TITLES[family]} adapter does not know; it reads models with {attribute}={known}"
    )


HEADS = {
    "llama": ("LlamaForSequenceClassification", "LlamaModel or LlamaForCausalLM"),
    "mistral": ("MistralForTokenClassification", "MistralModel or MistralForCausalLM"),
    "gemma2": ("Gemma2ForSequenceClassification", "Gemma2Model or Gemma2ForCausalLM"),
    "gpt2": ("GPT2ForSequenceClassification", "GPT2Model or GPT2LMHeadModel"),
    "neox parallel": ("GPTNeoXForQuestionAnswering", "GPTNeoXModel or GPTNeoXForCausalLM"),
    "bert": ("BertForQuestionAnswering", "BertModel, BertForMaskedLM or BertLMHeadModel"),
}


@pytest.mark.parametrize("family", HEADS)
def test_another_head_is_refused(family):
    name, known = HEADS[family]
    network = getattr(transformers, name)(tiny(family).config)
    assert refusal(network, inputs(family)) == (
        f"{name} is a {TITLES[family]} model with a head or class that is not known; pass a {known}"
    )


BARE = {"gpt2": "transformer", "neox parallel": "gpt_neox", "bert": "bert"}


@pytest.mark.parametrize("family", TITLES)
def test_the_bare_stack_of_layers_binds_without_logits(family):
    network, ids = tiny(family), inputs(family)
    bare = getattr(network, BARE.get(family, "model"))
    binding, whole = oa.bind(bare, ids), oa.bind(network, ids)
    assert torch.equal(binding.states, whole.states)
    with pytest.raises(oa.InputError, match=r"has no unembedding and so no logits; bind a model with a language head$"):
        binding.orders().logits(3)


SMALL = {"vocab_size": 37, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
OTHERS = {
    "granite": lambda: transformers.GraniteForCausalLM(
        transformers.GraniteConfig(**SMALL, num_key_value_heads=1, residual_multiplier=0.2)
    ),
    "bloom": lambda: transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=37, hidden_size=8, n_layer=1, n_head=2)),
    "mpt": lambda: transformers.MptForCausalLM(
        transformers.MptConfig(vocab_size=37, d_model=8, n_layers=1, n_heads=2, max_seq_len=16)
    ),
    "glm4": lambda: transformers.Glm4ForCausalLM(
        transformers.Glm4Config(**SMALL, num_key_value_heads=1, head_dim=4, pad_token_id=0, eos_token_id=1)
    ),
}


@pytest.mark.parametrize("family", OTHERS)
def test_families_whose_module_outputs_are_no_contributions_are_refused_with_the_reason(family):
    network = OTHERS[family]()
    known = ", ".join(ADAPTERS)
    assert refusal(network, [[1, 2, 3]]) == (
        f"{type(network).__name__} is of the family {family!r}, which no adapter reads: {UNREAD[family]}; families known "
        f"here: {known}"
    )


def test_the_reasons_name_attributes_and_belong_to_families_that_are_not_read():
    assert not set(UNREAD) & set(ADAPTERS)
    assert all(name in UNREAD["granite"] for name in ("embedding_multiplier", "residual_multiplier", "logits_scaling"))


def encoder(change):
    network = tiny("encoder post-norm")
    change(network)
    return network


def another_layer(network):
    network.layers[1] = torch.nn.TransformerDecoderLayer(24, 4, 20)


def keys_of_its_own(network):
    network.layers[0].self_attn = torch.nn.MultiheadAttention(24, 4, add_bias_kv=True)


def values_of_another_size(network):
    network.layers[1].self_attn = torch.nn.MultiheadAttention(24, 4, kdim=24, vdim=20)


def zeros(network):
    network.layers[1].self_attn.add_zero_attn = True


def mixed(network):
    network.layers[1].norm_first = True


def another_norm(network):
    network.norm = torch.nn.RMSNorm(24)


ENCODER_CHANGES = [
    (another_layer, "layer 2 of the TransformerEncoder is a TransformerDecoderLayer, not torch's TransformerEncoderLayer"),
    (mixed, "layer 2 of the TransformerEncoder has another norm_first than the first"),
    (keys_of_its_own, "layer 1 of the TransformerEncoder adds keys of its own (add_bias_kv or add_zero_attn)"),
    (zeros, "layer 2 of the TransformerEncoder adds keys of its own (add_bias_kv or add_zero_attn)"),
    (values_of_another_size, "layer 2 of the TransformerEncoder has keys or values of another size (kdim or vdim)"),
]


@pytest.mark.parametrize(("change", "text"), ENCODER_CHANGES)
def test_layers_of_an_encoder_that_do_more_are_refused(change, text):
    assert refusal(encoder(change), inputs("encoder post-norm")) == f"{text}, which is not read here"


def test_another_norm_of_an_encoder_is_refused():
    assert refusal(encoder(another_norm), inputs("encoder post-norm")) == (
        "the norm of the TransformerEncoder is a RMSNorm, and only LayerNorm is read here"
    )


ROPES = [
    ("qwen2", {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}),
    ("llama", {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
    ("mistral", {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 32}),
    ("neox sequential", {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0, "partial_rotary_factor": 0.25}),
    ("phi3", {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75, "short_factor": [1.0, 1.5, 2.0],
              "long_factor": [2.0, 3.0, 5.0], "original_max_position_embeddings": 8}),
]  # fmt: skip


@pytest.mark.parametrize("tokens", [5, 20])
@pytest.mark.parametrize(("family", "rope"), ROPES)
def test_every_kind_of_rotary_table_is_the_model_s_own(family, rope, tokens):
    changes = {"original_max_position_embeddings": 8} if family == "phi3" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = tiny(family, rope_parameters=rope, **changes)
    binding = oa.bind(network, inputs(family, tokens=tokens))
    assert binding.deviation < 1 and oa.verify(binding.T.dyson(), binding).holds is True


@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_that_is_not_finite_is_named(family):
    network = tiny(family)
    for name in list(dict(network.named_parameters()))[::5]:
        weight = network.get_parameter(name)
        kept, place = weight.clone(), tuple(size - 1 for size in weight.shape)
        weight[place] = torch.nan
        assert refusal(network, inputs(family)) == (
            f"the weight {name} of {type(network).__name__} is nan at index {place}; mend the weights and load again"
        )
        weight.copy_(kept)


def test_every_family_is_tried_here():
    tried = {MODELS[family][0].lower() for family in MODELS}
    read = {name.removesuffix("_text").replace("_", "") for name in ADAPTERS if not name.startswith("torch")}
    assert tried == read and ENCODERS
