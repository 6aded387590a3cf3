"""Models: weights from a package, a folder, the hub or memory, and one adapter for each architecture."""

FAMILIES = {
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "gpt2": "gpt2",
    "gpt_neox": "neox",
    "phi3": "phi3",
    "olmo2": "olmo2",
    "mixtral": "mixtral",
    "bert": "bert",
    "torch.nn.TransformerEncoder": "encoder",
}
"""The module here that reads each `model_type` of transformers; naming them needs no torch."""

_MULTIPLIERS = "its embedding_multiplier, attention_multiplier, residual_multiplier and logits_scaling change the forward pass"
UNREAD = {
    "bloom": "its attention and feed-forward modules add the residual themselves, so that their outputs are no contributions",
    "mpt": "its feed-forward module adds the residual itself, so that its output is no contribution",
    "dbrx": "its attention block contains norms and the residual",
    "granite": _MULTIPLIERS,
    "granitemoe": _MULTIPLIERS,
    "falcon_h1": "its multipliers and its state-space mixers change the forward pass",
    "qwen3_next": "its attention is gated and its linear attention is recurrent",
    "gemma3": "it reads images too; pass its language model",
    "gpt_oss": "its attention has sinks",
    "glm4": "its norms after the branches are not read here",
}
"""Why some well-known families are not read."""
