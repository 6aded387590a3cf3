"""Probabilities and their shares; the logit lens and frozen logits, two functions with one value at the last depth."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from models.families import inputs, tiny

import opalgebra as oa
from opalgebra.analysis import frozen_logits, logit_lens, measurement
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.readout import Readout

FAMILIES = ("llama", "gpt2", "gemma2", "bert", "olmo2")
LAMBDA, UNIT, INNER = 5.3, 2.0**-53, 500
"""For a failure probability of 1e-6, of at most INNER operations along the way to a logit of these models."""


def rounding(logits):
    """What the largest of some logits makes of rounding, at every one of them."""
    return {"rtol": 0, "atol": LAMBDA * INNER**0.5 * UNIT * float(abs(logits).max())}


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_at_the_last_depth_both_are_the_models_logits(family):
    network, ids = tiny(family), inputs(family)
    bound = oa.bind(network, ids)
    own = bound.reference
    uncapped = own.logits if own.uncapped is None else own.uncapped
    np.testing.assert_allclose(logit_lens(bound)[:, -1], own.logits[:, -1], **rounding(own.logits))
    np.testing.assert_allclose(frozen_logits(bound)[:, -1], uncapped[:, -1], **rounding(uncapped))
    assert logit_lens(bound).shape == (2, len(bound.T.stages) + 1, own.logits.shape[-1])


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_lens_is_what_the_model_itself_says_when_it_ends_early(family):
    network, ids = tiny(family), inputs(family)
    lens = logit_lens(oa.bind(network, ids))
    layers = network.model.layers if family == "llama" else network.transformer.h
    del layers[1:]
    with faithful(network):
        early = network(ids, use_cache=False).logits[:, -1]
    np.testing.assert_allclose(lens[:, 2], early, **rounding(early))


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_logits_are_the_sum_of_what_the_stages_contributed(family):
    bound = oa.bind(tiny(family), inputs(family))
    gap = bound.orders().logits(5, minus=7)
    frozen = frozen_logits(bound)
    expected = gap.orders.sum(-1) + gap.readout_bias
    size = abs(gap.orders).sum(-1) + abs(gap.readout_bias)
    assert (abs(frozen[:, -1, 5] - frozen[:, -1, 7] - expected) <= LAMBDA * INNER**0.5 * UNIT * size).all()


def test_a_step_of_frozen_logits_is_the_update_of_the_stream_at_the_last_scale():
    """By hand, for a norm by the root mean square: `(x_s - x_{s-1}) w W_U / rms(x_L)`."""
    network = tiny("llama")
    bound = oa.bind(network, inputs("llama"))
    states, norm = bound.reference.states[:, :, -1], network.model.norm
    scale = 1 / (states[-1].square().mean(-1, keepdim=True) + norm.variance_epsilon).sqrt()
    expected = ((states[1:] - states[:-1]) * scale * norm.weight) @ network.lm_head.weight.T
    frozen = frozen_logits(bound)
    steps = np.moveaxis(frozen[:, 1:] - frozen[:, :-1], 1, 0)
    np.testing.assert_allclose(steps, expected, **rounding(frozen))
    lens = logit_lens(bound)
    assert abs(np.moveaxis(lens[:, 1:] - lens[:, :-1], 1, 0) - expected.numpy()).max() > 1e-2


def test_a_clear_early_state_is_seen_by_the_lens_alone():
    """A state that is small and all for one word: certain by its own norm, nothing by the scale of a large last state."""
    network = tiny("llama")
    ids = inputs("llama", batch=1)
    word = network.lm_head.weight.argmax() // network.lm_head.weight.shape[1]
    with torch.no_grad():
        network.model.embed_tokens.weight[ids[0, -1]] = 1e-2 * network.lm_head.weight[word] / network.model.norm.weight
        network.lm_head.weight *= 20
        for layer in network.model.layers:
            layer.mlp.down_proj.weight *= 1e3
    bound = oa.bind(network, ids, check=False)
    lens, frozen = softmax(logit_lens(bound)[0, 0]), softmax(frozen_logits(bound)[0, 0])
    assert lens[word] > 0.99
    assert frozen[word] < 0.2 and np.ptp(frozen) < 0.2


def test_positions_padding_and_refusals():
    network, ids = tiny("llama"), inputs("llama")
    mask = torch.ones_like(ids)
    mask[0, -2:] = 0
    bound = oa.bind(network, ids, mask=mask)
    np.testing.assert_array_equal(logit_lens(bound)[0], logit_lens(bound, position=4)[0])
    np.testing.assert_array_equal(logit_lens(bound)[1], logit_lens(bound, position=6)[1])
    assert (logit_lens(bound)[0] != logit_lens(bound, position=6)[0]).any()
    for act, text in (
        (lambda: logit_lens(bound, position=7), "position 7 was asked of 7 tokens"),
        (lambda: frozen_logits(network), "LlamaForCausalLM is no bound model; bind one at an input"),
        (lambda: logit_lens(oa.bind(network.model, ids)), "has no unembedding and so no logits"),
    ):
        with pytest.raises(oa.InputError, match=text):
            act()


def test_probabilities_and_entropy_are_the_models_own():
    for family in FAMILIES:
        bound = oa.bind(tiny(family), inputs(family))
        found, own = measurement(bound), bound.reference.logits[:, -1].numpy()
        assert np.allclose(found.probabilities, softmax(own), rtol=1e-12)
        assert np.allclose(found.entropy, -(softmax(own) * np.log(softmax(own))).sum(-1), rtol=1e-10)
    flat = replace(bound.readout, unembedding=0 * bound.readout.unembedding, bias=None)
    assert np.allclose(measurement(replace(bound, readout=flat)).entropy, np.log(found.probabilities.shape[-1]))


def shares(family, counting):
    bound = oa.bind(tiny(family), inputs(family))
    found = measurement(bound, counting=counting)
    gap = bound.orders(counting=counting).logits(5, minus=7)
    size = abs(gap.orders).sum(-1).max() + 1
    assert abs(found.by_order[..., 5] - found.by_order[..., 7] - gap.orders).max() < 1e-12 * size
    frozen = frozen_logits(bound)
    assert abs(np.cumsum(found.by_block, axis=1) + found.readout_bias[:, None] - frozen).max() < 1e-12 * abs(frozen).max()
    own = bound.reference.logits if bound.reference.uncapped is None else bound.reference.uncapped
    for part in (found.by_order, found.by_block):
        assert abs(part.sum(1) + found.readout_bias - own[:, -1].numpy()).max() < 1e-11 * abs(found.by_order).max()
    assert found.by_block.shape[1] == len(bound.T.stages) + 1 and found.counting == counting


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("counting", ["all", "attention"])
def test_shares_by_order_and_by_block_add_up_to_the_logits(family, counting):
    shares(family, counting)


def test_planted_norm_that_is_not_frozen_is_found(monkeypatch):
    right = Readout.frozen
    monkeypatch.setattr(Readout, "frozen", lambda self, state: right(self, state / 2))
    with pytest.raises(AssertionError):
        shares("llama", "all")


def test_a_measurement_at_a_position_is_that_of_the_shorter_text():
    network, ids = tiny("llama"), inputs("llama")
    early, whole = measurement(oa.bind(network, ids), 3), measurement(oa.bind(network, ids[:, :4]))
    assert np.allclose(early.probabilities, whole.probabilities, rtol=1e-12)
    assert np.allclose(early.by_order, whole.by_order, atol=1e-12)
    with pytest.raises(oa.InputError, match="position 9 was asked of 7 tokens"):
        measurement(oa.bind(network, ids), 9)
    with pytest.raises(oa.InputError, match="has no unembedding and so no logits"):
        measurement(oa.bind(network.model, ids))
