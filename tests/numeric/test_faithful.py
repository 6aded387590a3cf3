"""The model's own forward computes in float64 inside `faithful`, checked against a forward written here from the
papers, and nothing of the model or of the process is changed afterwards.
"""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import transformers

from opalgebra.errors import ModelError
from opalgebra.numeric import faithful as module_under_test
from opalgebra.numeric.faithful import faithful, reference

ROPE = {
    "default": {"rope_type": "default", "rope_theta": 10_000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0},
    # wavelengths of the eight frequencies: 6, 20, 63, 199 ...; kept below 64 / 4, divided above 64 / 1, blended between
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 10_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}
LAYERS, WIDTH, HEADS, KEY_HEADS, HEAD_WIDTH, HIDDEN = 3, 48, 6, 2, 16, 96
BATCH, TOKENS, VOCABULARY = 2, 11, 61

# Two float64 forwards each err by about lambda sqrt(m) u (Higham and Mary 2019, Theorem 2.4), where m is the sum of the
# inner dimensions along the depth: per layer two norms (48 each), qkv (48), scores (16), weighted values (11), output
# (96), up or gate (48) and down (96), and lambda = sqrt(2 ln(2 / 1e-6)) = 5.4 for a failure probability of 1e-6. With
# m = 3 * 411 + 96: 5.4 * 36.5 * 1.1e-16 = 2.2e-14, 4.4e-14 for two. Below 1e-13 no float32 rounding has room.
TWO_DOUBLE_FORWARDS = 1e-13
# One float32 rounding of a norm is a relative error of 6e-8; a sixtieth of it is already visible.
A_FLOAT32_ROUNDING = 1e-9


DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 2.0}


def llama(rope: dict = ROPE["default"], positions: int = 512, **changes):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        head_dim=HEAD_WIDTH,
        rms_norm_eps=1e-5,
        max_position_embeddings=positions,
        rope_parameters=dict(rope),
        **changes,
    )
    return randomised(transformers.LlamaForCausalLM(config))


def randomised(network):
    """Weights large enough that attention is far from uniform; norm weights away from one, biases away from zero."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in network.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.3 * noise if parameter.dim() == 1 and "weight" in name else 0.2 * noise
    return network.double()


def identifiers(vocabulary: int = VOCABULARY) -> torch.Tensor:
    return torch.randint(0, vocabulary, (BATCH, TOKENS), generator=torch.Generator().manual_seed(2))


def llama_points(network) -> list:
    layers = [point for layer in network.model.layers for point in (layer.input_layernorm, layer.post_attention_layernorm)]
    return [*layers, network.model.norm]


def relative(found, expected) -> float:
    return float(np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected))


def frequencies(rope: dict) -> np.ndarray:
    frequency = rope["rope_theta"] ** (-np.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
    if rope["rope_type"] == "linear":
        return frequency / rope["factor"]
    if rope["rope_type"] == "llama3":
        turns = rope["original_max_position_embeddings"] * frequency / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        kept = np.clip((turns - low) / (high - low), 0, 1)
        return kept * frequency + (1 - kept) * frequency / rope["factor"]
    return frequency


def independent_llama(network, ids, rope: dict, groups=np.repeat) -> tuple[np.ndarray, np.ndarray]:
    """(states, logits) by NumPy in float64.

    RMSNorm: Zhang and Sennrich 2019; rotary positions: Su et al. 2021; grouped queries: Ainslie et al. 2023; SwiGLU:
    Shazeer 2020.
    """
    weight = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    angle = np.arange(ids.shape[1])[:, None] * frequencies(rope)
    rotation = np.exp(1j * angle)

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight[name + ".weight"]

    def heads(x, count):
        return x.reshape(*x.shape[:2], count, HEAD_WIDTH).transpose(0, 2, 1, 3)

    def rotated(x):
        half = HEAD_WIDTH // 2
        pair = (x[..., :half] + 1j * x[..., half:]) * rotation
        return np.concatenate([pair.real, pair.imag], -1)

    x = weight["model.embed_tokens.weight"][ids.numpy()]
    states = [x]
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        y = norm(x, prefix + "input_layernorm")
        query, key, value = (y @ weight[f"{prefix}self_attn.{part}_proj.weight"].T for part in "qkv")
        query, key, value = rotated(heads(query, HEADS)), rotated(heads(key, KEY_HEADS)), heads(value, KEY_HEADS)
        key, value = (groups(part, HEADS // KEY_HEADS, axis=1) for part in (key, value))
        score = query @ key.transpose(0, 1, 3, 2) / math.sqrt(HEAD_WIDTH)
        score = np.where(np.tri(ids.shape[1], dtype=bool), score, -np.inf)
        pattern = np.exp(score - score.max(-1, keepdims=True))
        pattern /= pattern.sum(-1, keepdims=True)
        mixed = (pattern @ value).transpose(0, 2, 1, 3).reshape(*ids.shape, HEADS * HEAD_WIDTH)
        x = x + mixed @ weight[prefix + "self_attn.o_proj.weight"].T
        states.append(x)
        y = norm(x, prefix + "post_attention_layernorm")
        gate, up = (y @ weight[f"{prefix}mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weight[prefix + "mlp.down_proj.weight"].T
        states.append(x)
    return np.stack(states), norm(x, "model.norm") @ weight["lm_head.weight"].T


def tiled(part, count, axis):
    return np.concatenate([part] * count, axis=axis)


@pytest.mark.parametrize("rope", ROPE)
def test_llama_agrees_with_an_independent_forward_in_float64_only_when_faithful(rope):
    network, ids = llama(ROPE[rope]), identifiers()
    states, logits = independent_llama(network, ids, ROPE[rope])

    found = reference(network, ids, llama_points(network))
    plain = network(input_ids=ids, use_cache=False).logits.detach()

    assert found.states.shape == (2 * LAYERS + 1, BATCH, TOKENS, WIDTH)
    assert found.states.dtype == found.logits.dtype == torch.float64
    assert max(relative(one, other) for one, other in zip(found.states, states)) < TWO_DOUBLE_FORWARDS
    assert relative(found.logits, logits) < TWO_DOUBLE_FORWARDS
    assert relative(plain, logits) > A_FLOAT32_ROUNDING


def test_the_comparison_sees_heads_in_the_wrong_order():
    network, ids = llama(), identifiers()
    states, _ = independent_llama(network, ids, ROPE["default"], groups=tiled)
    found = reference(network, ids, llama_points(network))
    assert relative(found.states[1], states[1]) > 1e-2


@pytest.mark.parametrize("part", ["_rotary_in_float64", "_ServeFloat64"])
def test_the_comparison_sees_each_part_that_is_left_out(part, monkeypatch):
    network, ids = llama(), identifiers()
    states, _ = independent_llama(network, ids, ROPE["default"])
    monkeypatch.setattr(module_under_test, part, lambda *arguments: nullcontext())
    monkeypatch.setattr(module_under_test, "_RefuseShorter", nullcontext)
    found = reference(network, ids, llama_points(network))
    assert relative(found.states[-1], states[-1]) > A_FLOAT32_ROUNDING


def families():
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
    }
    grouped = dict(sizes)
    plain = {key: value for key, value in sizes.items() if key not in ("num_key_value_heads", "head_dim")}
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return {
        "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**grouped, sliding_window=4)),
        "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**grouped)),
        "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**grouped)),
        "gemma2": lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**grouped, **special)),
        "gemma3": lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**grouped, **special)),
        "neox": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**plain)),
        "gpt2": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=32, **special)
        ),
        "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**plain, max_position_embeddings=32)),
    }


@pytest.mark.parametrize("family", families())
def test_every_tensor_of_every_family_is_float64(family):
    torch.manual_seed(0)
    network = randomised(families()[family]())
    dtypes = []

    def note(module, positional, output):
        values = output if isinstance(output, tuple) else (output,)
        dtypes.extend(value.dtype for value in values if isinstance(value, torch.Tensor) and value.is_floating_point())

    handles = [module.register_forward_hook(note) for module in network.modules()]
    with faithful(network):
        logits = network(input_ids=identifiers(), use_cache=False).logits
    for handle in handles:
        handle.remove()

    assert len(dtypes) > 20
    assert set(dtypes) == {torch.float64}
    assert torch.isfinite(logits).all()

    network.set_attn_implementation("eager")
    plain = network.eval()(input_ids=identifiers(), use_cache=False).logits.detach()
    if family in ("gpt2", "bert"):  # written without float32 casts: the context adds nothing and changes nothing
        assert torch.equal(plain, logits)
    else:
        assert A_FLOAT32_ROUNDING < relative(plain, logits.numpy()) < 1e-4


def condition_of(network) -> dict:
    """All that the context touches, as values that compare."""
    rotary = [(name, module) for name, module in network.named_modules() if "rotary" in type(module).__name__.lower()]
    backends = torch.backends
    owners = (backends, backends.cudnn, backends.cuda.matmul, backends.cudnn.conv, backends.mkldnn.matmul)
    return {
        "tables": [
            (name, key, id(buffer), buffer.dtype, buffer.numpy().tobytes())
            for name, module in rotary
            for key, buffer in module.named_buffers()
        ],
        "rotary": [{key: id(value) for key, value in vars(module).items() if key != "training"} for _, module in rotary],
        "attention": network.config._attn_implementation,
        "training": [module.training for module in network.modules()],
        "hooks": [
            sum(len(value) for key, value in vars(module).items() if "hook" in key and isinstance(value, dict))
            for module in network.modules()
        ],
        "modules": [id(module) for module in network.modules()],
        "parameters": [(id(value), value.dtype, value.requires_grad) for value in network.parameters()],
        "buffers": [(name, value.dtype) for name, value in network.named_buffers()],
        "process": (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")),
        "precision": [getattr(owner, "fp32_precision", None) for owner in owners],
        "served": (torch.zeros(1).float().dtype, torch.zeros(1, dtype=torch.float32).dtype),
    }


class Interrupted(Exception):
    pass


def trained_in_part(network):
    network.train()
    network.model.layers[1].eval()
    return network


@pytest.mark.parametrize(
    "make",
    [
        lambda: trained_in_part(llama(ROPE["llama3"])),
        lambda: trained_in_part(llama()).float(),
        lambda: trained_in_part(llama(DYNAMIC, attention_dropout=0.1)),
        lambda: randomised(families()["gemma3"]()),
        lambda: randomised(families()["bert"]()),
    ],
    ids=["float64", "float32", "dynamic", "gemma3", "bert"],
)
def test_everything_is_restored_after_an_exception_too(make):
    network = make()
    before = condition_of(network)
    with faithful(network) as inside:
        assert inside is network
        assert network.config._attn_implementation == "eager"
        assert not any(module.training for module in network.modules())
        assert not torch.is_grad_enabled()
        network(input_ids=identifiers(), use_cache=False)
    assert condition_of(network) == before

    with pytest.raises(Interrupted), faithful(network):
        network(input_ids=identifiers(), use_cache=False)
        raise Interrupted
    assert condition_of(network) == before

    with pytest.raises(IndexError):
        reference(network, torch.full((1, 3), VOCABULARY), list(network.modules())[-1:])
    assert condition_of(network) == before


def test_a_table_that_the_forward_rewrites_is_put_back():
    network = llama(DYNAMIC, positions=4)
    rotary = network.model.rotary_emb
    before = condition_of(network)
    with faithful(network):
        network(input_ids=identifiers(), use_cache=False)
        assert not torch.allclose(rotary.inv_freq, rotary.original_inv_freq)
    assert condition_of(network) == before


def test_hooks_on_a_rotary_module_still_run_inside():
    network, seen = llama(), []
    network.model.rotary_emb.register_forward_hook(lambda module, positional, output: seen.append(output[0].dtype))
    with faithful(network):
        network(input_ids=identifiers(), use_cache=False)
    assert seen == [torch.float64]


def test_a_float32_model_keeps_its_arithmetic():
    network = llama().float().eval()
    network.set_attn_implementation("eager")
    plain = network(input_ids=identifiers(), use_cache=False).logits.detach()
    with faithful(network):
        assert torch.zeros(1).double().float().dtype == torch.float32
        inside = network(input_ids=identifiers(), use_cache=False).logits
    assert inside.dtype == torch.float32
    assert torch.equal(inside, plain)


def test_every_way_to_ask_for_float32_gives_float64():
    source = torch.arange(3)
    with faithful(torch.nn.Linear(1, 1).double()):
        asked = [
            source.float(),
            source.to(torch.float32),
            source.to("cpu", torch.float32),
            source.to(dtype=torch.float32),
            source.type(torch.float32),
            source.type("torch.FloatTensor"),
            torch.zeros(2, dtype=torch.float32),
            torch.tensor([0.1]),
            source / 3,
            torch.softmax(source.double(), 0, dtype=torch.float32),
            torch.nn.functional.softmax(source.double(), dim=0, dtype=torch.float32),
        ]
        complex_numbers = [source.to(torch.complex64), source.cfloat()]
    assert {value.dtype for value in asked} == {torch.float64}
    assert {value.dtype for value in complex_numbers} == {torch.complex128}
    assert asked[7].item() == 0.1


def set_by_the_older_switch():
    torch.set_float32_matmul_precision("medium")


def set_by_the_general_switch():
    torch.backends.fp32_precision = "tf32"


def set_by_the_special_switch():
    torch.backends.cuda.matmul.fp32_precision = "tf32"


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="this torch has the older switches only")
@pytest.mark.parametrize("choose", [set_by_the_older_switch, set_by_the_general_switch, set_by_the_special_switch])
def test_tf32_is_off_inside_and_as_it_was_afterwards(choose):
    backends = torch.backends
    owners = (backends, backends.cuda.matmul, backends.cudnn.conv, backends.mkldnn, backends.mkldnn.matmul)
    network = torch.nn.Linear(1, 1)
    start = [owner.fp32_precision for owner in owners]
    try:
        choose()
        before = [owner.fp32_precision for owner in owners]
        with faithful(network):
            assert {owner.fp32_precision for owner in owners} <= {"ieee", "none"}
        assert [owner.fp32_precision for owner in owners] == before
        assert {"tf32", "bf16"} & set(before)
    finally:
        for owner, precision in zip(owners, start):
            owner.fp32_precision = precision
        torch.set_float32_matmul_precision("highest")


def test_a_table_rounded_to_bfloat16_is_refused_by_name():
    network = llama().bfloat16().double()
    with pytest.raises(ModelError) as caught, faithful(network):
        pass
    assert str(caught.value) == (
        "cannot run faithfully in float64: inv_freq of the rotary module 'model.rotary_emb' (LlamaRotaryEmbedding) is "
        "not what its configuration gives, beyond float32 rounding; load the model anew with dtype=torch.float64 (a cast "
        "through bfloat16 or float16 rounds the table)"
    )
    assert network.config._attn_implementation == "sdpa"
    assert torch.get_default_dtype() == torch.float32


def test_a_table_of_another_base_and_another_scaling_is_refused():
    network = llama()
    network.model.rotary_emb.attention_scaling = 1.1
    with pytest.raises(ModelError, match=r"^cannot run faithfully in float64: attention_scaling of"), faithful(network):
        pass
    network = llama()
    network.config.rope_parameters["rope_theta"] = 10_100.0
    with pytest.raises(ModelError, match=r"inv_freq of the rotary module 'model\.rotary_emb'"), faithful(network):
        pass


def test_a_model_in_part_float64_is_refused():
    network = llama()
    network.model.norm.float()
    with pytest.raises(ModelError) as caught, faithful(network):
        pass
    assert str(caught.value) == (
        "cannot run LlamaForCausalLM faithfully in float64: its parameter 'model.norm.weight' is float32 while others "
        "are float64; cast the whole model with .double()"
    )


class HiddenFloat32(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.constant = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float32)

    def forward(self, x):
        return x * self.scale * self.constant.sin()


def test_a_float32_constant_that_no_call_names_is_refused():
    network = HiddenFloat32()
    with pytest.raises(ModelError) as caught, faithful(network):
        network(torch.ones(3, dtype=torch.float64))
    assert str(caught.value) == (
        "cannot run faithfully in float64: the operation aten.sin.default returned float32, from a shorter constant or "
        "cast that no call names; run the model in float32 instead"
    )


def test_reference_is_the_forward_itself():
    network, ids = llama(), identifiers()
    found = reference(network, ids, llama_points(network))
    with faithful(network):
        assert torch.equal(found.states[0], network.model.embed_tokens(ids))
        assert torch.equal(network.lm_head(network.model.norm(found.states[-1])), found.logits)
    assert not found.states.requires_grad


def test_reference_without_unembedding_has_no_logits():
    network = llama().model
    found = reference(network, identifiers(), [network.layers[0].input_layernorm, network.norm])
    assert found.logits is None
    assert found.states.shape == (2, BATCH, TOKENS, WIDTH)


def test_points_that_do_not_run_once_in_order_are_refused():
    network = llama()
    points = llama_points(network)
    with pytest.raises(ModelError) as caught:
        reference(network, identifiers(), [points[0], torch.nn.LayerNorm(WIDTH)])
    assert str(caught.value) == (
        "cannot record the residual stream: the forward never called point 1 (LayerNorm); give each module that reads "
        "the stream once, in order of execution"
    )
    with pytest.raises(ModelError, match="called the 2 points in the order"):
        reference(network, identifiers(), [points[2], points[1]])
    with pytest.raises(ModelError, match="a module is given twice"):
        reference(network, identifiers(), [points[1], points[1]])
    with pytest.raises(ModelError, match="no point is given"):
        reference(network, identifiers(), [])
    assert all(not point._forward_pre_hooks for point in points)


def test_a_state_that_is_not_finite_is_named():
    network, ids = llama(), identifiers()
    network.model.layers[1].self_attn.o_proj.weight.data[5, 7] = math.nan
    with pytest.raises(ModelError) as caught:
        reference(network, ids, llama_points(network))
    assert str(caught.value) == (
        "the model's own forward is not finite: NaN or infinity in the state after stage 3 (0 is the embedding) at "
        "token 0 of row 0; check the weights and the dtype (float64)"
    )
    network = llama()
    row, token = 0, 6
    network.model.embed_tokens.weight.data[ids[row, token], 3] = math.inf
    first = int((ids[row] == ids[row, token]).nonzero()[0])
    with pytest.raises(ModelError, match=rf"after stage 0 \(0 is the embedding\) at token {first} of row 0;"):
        reference(network, ids, llama_points(network))
