"""Each array function equals the module of the model that it describes, and its dressing is linear and exact."""

import itertools
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numeric.models import ROPE, examples, llamas, tiny_llama

from opalgebra.errors import InputError
from opalgebra.models import llama
from opalgebra.models.family import Prompt
from opalgebra.numeric.attention import FrozenAttention
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.maps import Constant
from opalgebra.numeric.roundoff import probable

# One block sums fewer than 200 dimensions (features, hidden units, heads times size, tokens): two float64 evaluations each
# err by lambda sqrt(m) u = 5.4 * 14 * 1.1e-16 = 8e-15 of what they sum, and softmax amplifies an error of its logits, which
# stay below 20 here: 120 times this.
ROUNDING = 1e-12
MISTAKE = 1e-3

SPLITS = [{"attention": "frozen", "ffn": "gate"}, {"attention": "source", "ffn": "source"}]


def random_states(network, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    dtype = network.model.norm.weight.dtype
    return torch.randn(*shape, network.config.hidden_size, generator=generator, dtype=torch.float64).to(dtype)


def modules_and_maps(network, tokens, split=SPLITS[0]):
    """(kind, function that calls the model's own module, the map) of every norm, attention and feed-forward network."""
    parts = llama.read(network, Prompt(torch.zeros(1, tokens, dtype=torch.long), None, None), {**split, "gated": "gate"})
    mask = torch.full((tokens, tokens), torch.finfo(torch.float64).min, dtype=torch.float64).triu(1)[None, None]

    def attention(module, state):
        positions = torch.arange(tokens)[None]
        tables = network.model.rotary_emb(state, positions)
        return module(hidden_states=state, position_embeddings=tables, attention_mask=mask)[0]

    def called(function, state):
        with faithful(network):
            return function(state)

    found = []
    for index, layer in enumerate(network.model.layers):
        (first,), (second,) = (maps.branches for maps in parts.maps[2 * index : 2 * index + 2])
        found += [
            ("norm", partial(called, layer.input_layernorm), first.before),
            ("norm", partial(called, layer.post_attention_layernorm), second.before),
            ("attention", partial(called, partial(attention, layer.self_attn)), first.vertex),
            ("ffn", partial(called, layer.mlp), second.vertex),
        ]
    return [*found, ("norm", partial(called, network.model.norm), *parts.readout.maps)]


def dressed_value(function, state):
    affine = function.freeze(state)
    return affine(state) if affine.source is None else affine(state) + affine.source


@examples(40)
@given(llamas(layers=st.just(1)), st.integers(1, 2), st.integers(1, 6), st.integers(0, 2**20))
def test_every_map_equals_the_module_of_the_model_on_random_states(network, batch, tokens, seed):
    state = random_states(network, batch, tokens, seed=seed)
    for kind, module, function in modules_and_maps(network, tokens):
        expected, scale = module(state), function.rounding_scale(state)
        difference = (function(state) - expected).norm(dim=-1)
        assert (difference <= probable(function.inner, torch.float64) * scale).all(), kind
        assert difference.max() <= ROUNDING * scale.max(), kind


@pytest.mark.parametrize("rope", ROPE)
def test_heads_wider_than_their_share_of_the_features_and_grouped_keys_agree(rope):
    network = tiny_llama(
        1, layers=1, heads=6, key_heads=2, head_dim=10, width=12, rope=rope, attention_bias=True, mlp_bias=True
    )
    state = random_states(network, 2, 9)
    for kind, module, function in modules_and_maps(network, 9):
        assert (function(state) - module(state)).norm() < ROUNDING * function.rounding_scale(state).norm(), kind


@examples(25)
@given(llamas(layers=st.just(1)), st.integers(1, 5), st.integers(0, 2**20), st.sampled_from(SPLITS))
def test_a_dressing_is_linear_and_with_its_source_gives_the_map_back(network, tokens, seed, split):
    state, one, other = (random_states(network, 2, tokens, seed=seed + n) for n in range(3))
    for kind, module, function in modules_and_maps(network, tokens, split):
        affine = function.freeze(state)
        scale = function.rounding_scale(state).max()
        assert (dressed_value(function, state) - module(state)).abs().max() <= ROUNDING * scale, kind
        size = sum(affine(each).norm() for each in (one, other)) + scale
        assert (affine(one + other) - affine(one) - affine(other)).norm() <= ROUNDING * size, kind
        assert (affine(-3 * one) + 3 * affine(one)).norm() <= ROUNDING * size, kind
        assert not affine(torch.zeros_like(one)).any(), kind
        if kind != "norm" and split["attention"] == "source":
            assert isinstance(affine, Constant) and affine.is_constant
            assert not affine(one).any()


def test_a_map_itself_is_not_linear():
    network = tiny_llama(2, layers=1)
    one, other = (random_states(network, 1, 4, seed=seed) for seed in (1, 2))
    for kind, _, function in modules_and_maps(network, 4):
        sums = (function(one + other) - function(one) - function(other)).norm()
        assert sums > MISTAKE * function(one + other).norm(), kind


def test_a_dressing_acts_on_every_leading_axis_and_adds_to_what_is_there():
    network = tiny_llama(3, layers=1, attention_bias=True, mlp_bias=True)
    state, moved, there = (random_states(network, *shape, seed=3) for shape in [(2, 5), (4, 3, 2, 5), (4, 3, 2, 5)])
    for kind, _, function in modules_and_maps(network, 5):
        affine = function.freeze(state)
        together = affine(moved)
        assert together.shape == moved.shape
        for at in itertools.product(range(4), range(3)):
            assert (together[at] - affine(moved[at])).norm() <= ROUNDING * together.norm(), kind
        out = there.clone()
        affine.add_to(out, moved)
        assert (out - there - together).norm() <= ROUNDING * (together.norm() + there.norm()), kind


def test_a_dressed_attention_is_causal_and_a_dressed_norm_and_network_act_on_each_token_alone():
    network = tiny_llama(4, layers=1)
    state, moved = random_states(network, 1, 5, seed=1), random_states(network, 1, 5, seed=2)
    for kind, _, function in modules_and_maps(network, 5):
        affine = function.freeze(state)
        for t in range(5):
            alone = torch.zeros_like(moved)
            alone[:, t] = moved[:, t]
            reached = affine(alone)[0].abs().amax(-1) > 0
            expected = torch.arange(5) >= t if kind == "attention" else torch.arange(5) == t
            assert torch.equal(reached, expected), (kind, t)


@pytest.mark.parametrize(("heads", "key_heads"), [(1, 1), (6, 2), (4, 4), (6, 3)])
def test_heads_sum_to_the_whole_attention_bare_and_dressed(heads, key_heads):
    network = tiny_llama(5, layers=1, heads=heads, key_heads=key_heads, head_dim=4, width=12)
    state, moved = random_states(network, 2, 5, seed=1), random_states(network, 3, 2, 5, seed=2)
    function = next(found for kind, _, found in modules_and_maps(network, 5) if kind == "attention")
    frozen = function.freeze(state)
    assert isinstance(frozen, FrozenAttention)
    each = [function.restricted([head]) for head in range(heads)]
    assert (sum(head(state) for head in each) - function(state)).norm() <= ROUNDING * function(state).norm() * heads
    for groups in ([[head] for head in range(heads)], [[0], list(range(1, heads))], [list(range(heads))]):
        parts = [frozen.restricted(group) for group in groups if group]
        assert (sum(part(moved) for part in parts) - frozen(moved)).norm() <= ROUNDING * frozen(moved).norm() * heads
    for head, alone in enumerate(each):
        part = frozen.restricted([head])
        assert (alone(state) - part(state)).norm() <= ROUNDING * function(state).norm()
        assert (alone.freeze(state)(moved) - part(moved)).norm() <= ROUNDING * frozen(moved).norm()
        if heads > 1:
            assert (part(moved) - frozen.restricted([(head + 1) % heads])(moved)).norm() > MISTAKE * part(moved).norm()


def test_one_head_reads_its_own_value_head():
    network = tiny_llama(6, layers=1, heads=4, key_heads=2, head_dim=6)
    state = random_states(network, 1, 4)
    attention = network.model.layers[0].self_attn
    function = next(found for kind, _, found in modules_and_maps(network, 4) if kind == "attention")
    before = [function.restricted([head])(state) for head in range(4)]
    attention.v_proj.weight[:6] = 0
    after = [function.restricted([head])(state) for head in range(4)]
    assert [bool(value.any()) for value in after] == [False, False, True, True]
    assert torch.equal(before[2], after[2]) and torch.equal(before[3], after[3])


def test_heads_and_the_output_bias_that_belongs_to_none_sum_to_the_attention():
    network = tiny_llama(7, layers=1, heads=4, key_heads=2, attention_bias=True)
    state = random_states(network, 2, 4)
    function = next(found for kind, _, found in modules_and_maps(network, 4) if kind == "attention")
    frozen = function.freeze(state)
    bias = network.model.layers[0].self_attn.o_proj.bias
    assert torch.equal(function.common, bias) and torch.equal(frozen.common, bias.expand_as(state))
    for whole, value in ((function, lambda part: part(state)), (frozen, lambda part: part.whole(state))):
        for groups in ([[0], [1], [2], [3]], [[0, 2], [1, 3]], [[0, 1, 2, 3]]):
            parts = [whole.restricted(group) for group in groups]
            assert all(part.common is None for part in parts)
            total = sum(value(part) for part in parts) + bias
            assert (total - value(whole)).norm() <= ROUNDING * value(whole).norm()


def test_only_attention_has_heads():
    network = tiny_llama(7, layers=1)
    state = random_states(network, 1, 4)
    for kind, _, function in modules_and_maps(network, 4):
        for part in (function, function.freeze(state)) if kind != "attention" else ():
            with pytest.raises(InputError) as caught:
                part.restricted([0])
            assert str(caught.value) == "a map that is no attention has no heads; take some of attention alone"


def test_inner_counts_the_summed_dimensions_of_one_application():
    network = tiny_llama(8, layers=1, heads=4, key_heads=2, head_dim=6, width=20, hidden=28)
    expected = {"norm": 20 + 4, "attention": 20 + 6 + 5 + 24, "ffn": 20 + 28}
    for kind, _, function in modules_and_maps(network, 5):
        assert function.inner == expected[kind]
        assert function.freeze(random_states(network, 1, 5)).inner == expected[kind]


def test_weights_are_the_tensors_of_the_model():
    network = tiny_llama(9, layers=1, attention_bias=True, mlp_bias=True)
    own = {weight.data_ptr() for weight in network.parameters()}
    for kind, _, function in modules_and_maps(network, 5):
        parts = [function, function.query, function.key, function.value] if kind == "attention" else [function]
        named = [(name, value) for part in parts for name, value in vars(part).items() if isinstance(value, torch.Tensor)]
        weights = [value for name, value in named if name != "visible"]
        assert weights and all(value.data_ptr() in own for value in weights), kind


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shorter_dtypes_stay_within_the_rounding_estimate_of_the_block(dtype):
    network = tiny_llama(10, layers=2, attention_bias=True, mlp_bias=True, dtype=dtype)
    exact = tiny_llama(10, layers=2, attention_bias=True, mlp_bias=True)
    exact.load_state_dict(network.state_dict())
    state = random_states(network, 2, 6)
    for (kind, _, short), (_, module, long) in zip(modules_and_maps(network, 6), modules_and_maps(exact, 6)):
        difference = (short(state).double() - module(state.double())).norm(dim=-1)
        bound = probable(long.inner, dtype) * long.rounding_scale(state.double())
        assert (difference <= bound).all(), kind
        assert difference.max() > 0, kind
