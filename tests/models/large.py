"""A random Llama of a billion parameters in which every block matters, made on a device."""

import torch
import transformers

VOCABULARY = 32_000


def billion(device: str, seed: int = 0) -> transformers.LlamaForCausalLM:
    """The shape of a Llama 3.2 1B with random norm weights, float32; 4.2 GB."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=2048, tie_word_embeddings=True, attn_implementation="eager",
    )  # fmt: skip
    with torch.device(device):
        network = transformers.LlamaForCausalLM(config)
    network.eval().requires_grad_(False)
    generator = torch.Generator(device).manual_seed(seed)
    for name, weight in network.named_parameters():
        if weight.ndim == 1:
            weight.normal_(1.0, 0.3, generator=generator)
        else:
            sharp = 1.5 if any(part in name for part in ("q_proj", "k_proj", "gate_proj")) else 1.0
            weight.normal_(0.0, 1.0 if "embed" in name else sharp / weight.shape[1] ** 0.5, generator=generator)
    return network
