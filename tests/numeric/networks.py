"""Random tiny networks of many architectures in float64, in which norm weights, shifts and biases all matter."""

import copy

import torch
import transformers
from numeric.models import VOCABULARY

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 18,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "attn_implementation": "eager",
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = SIZES | {"num_key_value_heads": 2}
WIDE = GROUPED | {"head_dim": 6}
EXPERTS = {"num_local_experts": 3, "num_experts_per_tok": 2, "experts_implementation": "eager"}
GPT = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, "attn_implementation": "eager"}
GPT |= {"bos_token_id": 1, "eos_token_id": 2}

# name: class, configuration class, its arguments, norm, parallel
FAMILIES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", WIDE | {"attention_bias": True, "mlp_bias": True}, "pre", False),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED | {"sliding_window": 3}, "pre", False),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED, "pre", False),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", WIDE, "pre", False),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", GROUPED, "pre", False),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT, "pre", False),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES, "pre", True),
    "falcon": ("FalconForCausalLM", "FalconConfig", SIZES, "pre", True),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", WIDE | {"sliding_window": 3}, "sandwich", False),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", WIDE | {"sliding_window": 3}, "sandwich", False),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GROUPED, "branch", False),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", GROUPED | EXPERTS, "pre", False),
    "bert": ("BertModel", "BertConfig", SIZES, "post", False),
}
ENCODERS = {
    "encoder": {"activation": "gelu"},
    "encoder, norm first": {"norm_first": True},
    "encoder, tokens first": {"batch_first": False},
    "written out": None,
}


def randomised(network: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The network in evaluation mode and float64 with random parameters: no vector is zero or one."""
    generator = torch.Generator().manual_seed(seed)
    network.eval().requires_grad_(False).double()
    for name, weight in network.named_parameters():
        values = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        if weight.ndim == 1:
            values = 0.5 * values + (0 if name.endswith("bias") else 1)
        elif not any(part in name for part in ("emb", "wte", "wpe")):
            values = 1.3 * values / weight.shape[-1] ** 0.5
        weight.copy_(values)
    return network


def family(name: str, seed: int = 0, **changes) -> torch.nn.Module:
    network, config, arguments, *_ = FAMILIES[name]
    return randomised(getattr(transformers, network)(getattr(transformers, config)(**arguments | changes)), seed)


def encoder(name: str, seed: int = 0) -> torch.nn.Module:
    """A torch.nn.TransformerEncoder, or blocks written out, which read states."""
    if ENCODERS[name] is None:
        return randomised(torch.nn.Sequential(Block(), Block()), seed)
    arguments = {"batch_first": True} | ENCODERS[name]
    layer = torch.nn.TransformerEncoderLayer(16, 4, 18, **arguments)
    return randomised(torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), seed)


class Block(torch.nn.Module):
    """Grouped attention by PyTorch's fused function, its RMSNorm, activations as functions, a sum in place, a multiple."""

    def __init__(self):
        super().__init__()
        self.norm, self.second = torch.nn.RMSNorm(16, eps=1e-3), torch.nn.RMSNorm(16)
        self.attention, self.ffn = Attention(), Gated()

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        x += self.ffn(self.second(x)) * 0.7
        return x


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.write = torch.nn.Linear(16, 32), torch.nn.Linear(16, 16)

    def forward(self, x):
        heads = self.read(x).unflatten(-1, (8, 4)).transpose(1, 2)
        query, key, value = heads.split((4, 2, 2), dim=1)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.write(mixed.transpose(1, 2).flatten(-2))


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = torch.nn.Linear(16, 18), torch.nn.Linear(16, 18), torch.nn.Linear(18, 16)

    def forward(self, x):
        gate = self.gate(x)
        return self.down(gate * torch.sigmoid(1.7 * gate) + torch.nn.functional.silu(gate) * self.up(x))


def network_and_input(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """A network of a family or an encoder, and an input of two rows of four tokens."""
    generator = torch.Generator().manual_seed(1)
    if name in FAMILIES:
        return family(name), torch.randint(VOCABULARY, (2, 4), generator=generator)
    return encoder(name), torch.randn(2, 4, 16, generator=generator, dtype=torch.float64)


def altered(network: torch.nn.Module, suffix: str, change) -> torch.nn.Module:
    """A copy of the network with the first parameter of layer 1 whose name ends so changed."""
    copied = copy.deepcopy(network)
    name = next(name for name, _ in copied.named_parameters() if name.endswith(suffix) and ".0." in f".{name}")
    parameter = copied.get_parameter(name)
    parameter.copy_(change(parameter))
    return copied
