"""Tiny random models of every family in which every block matters: random norm weights and biases, sharp attention.

A fresh model has unit norm weights, no biases and weights so small that attention is uniform and blocks hardly move the
state: it hides most mistakes.
"""

import warnings

import torch
import transformers

VOCABULARY = 37
CONTEXT = 64
WINDOW = 4
_DECODER = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "rms_norm_eps": 1e-5,
}  # fmt: skip
_SLIDING = {"use_sliding_window": True, "sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_NEOX = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 3, "bos_token_id": 1,
    "max_position_embeddings": CONTEXT, "eos_token_id": 2, "hidden_act": "gelu",
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
}  # fmt: skip
_BERT = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 3, "layer_norm_eps": 1e-5,
    "max_position_embeddings": CONTEXT,
}  # fmt: skip
_GEMMA = {**_DECODER, "head_dim": 8, "query_pre_attn_scalar": 6, "sliding_window": WINDOW, "attention_bias": True,
          "layer_types": ["sliding_attention", "full_attention"]}  # fmt: skip

MODELS = {
    "llama": ("Llama", "ForCausalLM", _DECODER),
    "llama with biases": ("Llama", "ForCausalLM", {**_DECODER, "head_dim": 8, "attention_bias": True, "mlp_bias": True}),
    "mistral": ("Mistral", "ForCausalLM", {**_DECODER, "head_dim": 8, "sliding_window": WINDOW}),
    "qwen2": ("Qwen2", "ForCausalLM", {**_DECODER, **_SLIDING}),
    "qwen3": ("Qwen3", "ForCausalLM", {**_DECODER, **_SLIDING, "head_dim": 10, "attention_bias": True}),
    "gemma2": ("Gemma2", "ForCausalLM", {**_GEMMA, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 3.0}),
    "gemma3": ("Gemma3", "ForCausalLM", _GEMMA),
    "gpt2": ("GPT2", "LMHeadModel", {
        "vocab_size": VOCABULARY, "n_embd": 24, "n_inner": 20, "n_head": 3, "n_positions": CONTEXT, "bos_token_id": 1,
        "eos_token_id": 2,
    }),
    "gpt2 scaled by layer": ("GPT2", "LMHeadModel", {
        "vocab_size": VOCABULARY, "n_embd": 24, "n_head": 3, "n_positions": CONTEXT, "bos_token_id": 1, "eos_token_id": 2,
        "scale_attn_by_inverse_layer_idx": True, "activation_function": "relu",
    }),
    "neox parallel": ("GPTNeoX", "ForCausalLM", _NEOX),
    "neox sequential": ("GPTNeoX", "ForCausalLM", {**_NEOX, "use_parallel_residual": False}),
    "phi3": ("Phi3", "ForCausalLM", {
        **_DECODER, "sliding_window": WINDOW, "original_max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.75},
        "hidden_size": 32,
    }),
    "olmo2": ("Olmo2", "ForCausalLM", {**_DECODER, "attention_bias": True}),
    "mixtral": ("Mixtral", "ForCausalLM", {
        **_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": WINDOW,
    }),
    "bert": ("Bert", "ForMaskedLM", _BERT),
    "bert decoder": ("Bert", "LMHeadModel", {**_BERT, "is_decoder": True}),
}  # fmt: skip
ENCODERS = {
    "encoder post-norm": {},
    "encoder pre-norm": {"norm_first": True, "activation": "gelu", "batch_first": True},
    "encoder without biases": {"bias": False, "batch_first": True},
}
FAMILIES = (*MODELS, *ENCODERS)


def tiny(family: str, seed: int = 0, *, layers: int = 2, dtype: torch.dtype = torch.float64, **changes) -> torch.nn.Module:
    """A random model of a family, in evaluation mode."""
    torch.manual_seed(seed)
    if family in ENCODERS:
        return _randomised(_encoder(layers, {**ENCODERS[family], **changes})).to(dtype)
    name, head, settings = MODELS[family]
    config = getattr(transformers, {"Gemma3": "Gemma3TextConfig"}.get(name, f"{name}Config"))
    settings = {**settings, "n_layer" if name == "GPT2" else "num_hidden_layers": layers, **changes}
    if "layer_types" in settings:
        settings["layer_types"] = [settings["layer_types"][index % 2] for index in range(layers)]
    network = getattr(transformers, f"{name}{head}")(config(**settings, attn_implementation="eager"))
    return _randomised(network).to(dtype)


def _encoder(layers: int, settings: dict) -> torch.nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.nn.TransformerEncoderLayer(24, 4, 20, **settings)
        norm = torch.nn.LayerNorm(24) if settings.get("norm_first") else None
        return torch.nn.TransformerEncoder(layer, layers, norm)


@torch.no_grad()
def _randomised(network: torch.nn.Module) -> torch.nn.Module:
    network.eval().requires_grad_(False).double()
    centre = 0.0 if "Gemma" in type(network).__name__ else 1.0
    for name, weight in network.named_parameters():
        values = torch.randn_like(weight)
        if weight.ndim == 1 and name.endswith("weight"):
            weight.copy_(centre + 0.5 * values)
        elif weight.ndim == 1:
            weight.copy_(0.5 * values)
        elif any(part in name for part in ("embed", "wte", "wpe", "decoder")):
            weight.copy_(values)
        else:
            inputs = weight.shape[0] if any(part in name for part in ("c_attn", "c_proj", "c_fc")) else weight.shape[-1]
            sharp = any(part in name for part in ("q_proj", "k_proj", "qkv", "query", "key", "c_attn", "in_proj", "gate"))
            weight.copy_((1.5 if sharp else 1.0) * values / inputs**0.5)
    return network


def inputs(family: str, batch: int = 2, tokens: int = 7, seed: int = 0) -> torch.Tensor:
    """Token ids (batch, tokens), or vectors (batch, tokens, features) for an encoder of torch."""
    generator = torch.Generator().manual_seed(seed)
    if family in ENCODERS:
        return torch.randn(batch, tokens, 24, generator=generator, dtype=torch.float64)
    return torch.randint(3, VOCABULARY, (batch, tokens), generator=generator)
