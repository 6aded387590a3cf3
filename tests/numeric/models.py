"""Random Llama models in which every block matters, and Hypothesis strategies over them and their inputs.

A fresh model has unit norm weights, no biases and weights so small that attention is uniform and blocks hardly move the
state: it hides most mistakes. Here norm weights and biases are random, attention logits have a standard deviation near
2, and a block moves the state by about its own length.
"""

import torch
import transformers
from hypothesis import settings
from hypothesis import strategies as st

VOCABULARY = 37
CONTEXT = 64
ROPE = {
    "default": {"rope_type": "default", "rope_theta": 10_000.0},
    "linear": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "rope_theta": 500.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}


def tiny_llama(
    seed: int = 0,
    *,
    layers: int = 3,
    heads: int = 4,
    key_heads: int = 2,
    head_dim: int = 6,
    width: int = 20,
    hidden: int = 28,
    rope: str = "default",
    attention_bias: bool = False,
    mlp_bias: bool = False,
    tied: bool = False,
    epsilon: float = 1e-3,
    dtype: torch.dtype = torch.float64,
) -> transformers.LlamaForCausalLM:
    """A random Llama model; `head_dim` need not be `width / heads`."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        head_dim=head_dim,
        rms_norm_eps=epsilon,
        max_position_embeddings=CONTEXT,
        rope_parameters=dict(ROPE[rope]),
        attention_bias=attention_bias,
        mlp_bias=mlp_bias,
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
        for name, weight in network.named_parameters():
            weight.copy_(_random(name, weight))
    return network.to(dtype)


def _random(name: str, weight: torch.Tensor) -> torch.Tensor:
    values = torch.randn_like(weight)
    if "norm" in name:
        return 1 + 0.5 * values
    if name.endswith("bias"):
        return 0.5 * values
    if "embed" in name:
        return values
    gain = 1.5 if "q_proj" in name or "k_proj" in name or "mlp" in name else 1.0
    return gain * values / weight.shape[1] ** 0.5


@st.composite
def llamas(draw, *, layers=st.integers(1, 3), dtype: torch.dtype = torch.float64, biases: bool | None = None):
    """Models of all sizes, groupings, rotary tables and biases; `biases` forces them on or off."""
    key_heads, group = draw(st.sampled_from([(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)]))
    bias = st.booleans() if biases is None else st.just(biases)
    return tiny_llama(
        draw(st.integers(0, 2**20)),
        layers=draw(layers),
        heads=key_heads * group,
        key_heads=key_heads,
        head_dim=draw(st.sampled_from([2, 4, 6])),
        width=draw(st.sampled_from([width for width in (5, 6, 8, 12, 16, 18) if width % (key_heads * group) == 0])),
        hidden=draw(st.sampled_from([3, 8, 20])),
        rope=draw(st.sampled_from(sorted(ROPE))),
        attention_bias=draw(bias),
        mlp_bias=draw(bias),
        tied=draw(st.booleans()),
        epsilon=draw(st.sampled_from([1e-6, 1e-3, 0.1])),
        dtype=dtype,
    )


def token_ids(*, batch=st.integers(1, 2), tokens=st.integers(1, 5), vocabulary: int = VOCABULARY):
    """Integer arrays (batch, tokens)."""
    return st.tuples(batch, tokens).flatmap(
        lambda shape: st.lists(st.integers(0, vocabulary - 1), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
            lambda flat: torch.tensor(flat).view(shape)
        )
    )


def examples(count: int) -> settings:
    """`count` examples in a profile with Hypothesis's usual hundred, and in proportion in others."""
    return settings(max_examples=max(1, count * settings.default.max_examples // 100))


def word_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Text split at spaces: the word `w5` is token 5, any other word token 0."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    words = Tokenizer(WordLevel({f"w{index}": index for index in range(VOCABULARY)}, unk_token="w0"))
    words.pre_tokenizer = WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words)
