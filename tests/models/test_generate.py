"""While a model generates: each new column is that of the whole text bound anew, and the tokens are the model's own."""

import numpy as np
import pytest
import torch
from families import ENCODERS, MODELS, VOCABULARY, inputs, tiny

import opalgebra as oa
from opalgebra.models import generate as module
from opalgebra.numeric import streaming
from opalgebra.numeric.attention import Past
from opalgebra.numeric.faithful import faithful

CAUSAL = [family for family in MODELS if family != "bert"]
NEW = 5
ASKED = [
    {},
    {"counting": "attention"},
    {"counting": "ffn", "split": "tangent"},
    {"order": 2},
    {"counting": lambda vertex: vertex.head in (0, 2), "heads": True},
    {"heads": True, "order": 2},
    {"split": {"attention": "source"}, "heads": True},
    {"split": {"attention": "source", "ffn": "source"}},
]


def at_the_end(network, ids, *, counting="all", order=None, **binding):
    return oa.bind(network, ids, **binding).orders(counting=counting, order=order)


def texts(ids, steps):
    """The whole text at each step."""
    for step in steps:
        ids = torch.cat([ids, torch.tensor(step.token)[:, None]], dim=1)
        yield ids, step


def assert_same_column(step, whole, bound):
    size = whole.binding.reference.states[-1][:, -1].norm(dim=-1)
    difference = (step.column.parts[:, :, -1] - whole.parts[:, :, -1]).norm(dim=-1)
    assert (difference <= 2 * bound * size).all()
    for name in ("norms", "source_norms", "partial_errors"):
        assert np.allclose(getattr(step, name), getattr(whole, name)[..., -1], rtol=0, atol=2 * bound.max()), name
    assert np.allclose(step.condition, whole.condition[..., -1], rtol=1e-9)


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: " ".join(asked) or "all")
@pytest.mark.parametrize("family", CAUSAL)
def test_every_new_column_is_that_of_the_whole_text(family, asked):
    network, ids = tiny(family, seed=1, layers=3), inputs(family, tokens=7)
    for text, step in texts(ids, oa.generate(network, ids, tokens=NEW, **asked)):
        whole = at_the_end(network, text, **asked)
        assert_same_column(step, whole, torch.tensor(2e-13))
        assert step.position == text.shape[1] - 1
        mine, its = step.logits(5, minus=7), whole.logits(5, minus=7)
        assert np.allclose(mine.orders, its.orders, atol=1e-12) and np.allclose(mine.model, its.model, atol=1e-12)
        if "order" in asked:
            assert step.bound is None and step.rounding is None
        else:
            assert (step.rounding <= step.bound).all() and (step.bound < 1e-12).all()


@pytest.mark.parametrize("family", CAUSAL)
def test_the_tokens_and_the_logits_by_order_are_those_of_the_model_itself(family):
    network, ids = tiny(family, seed=2, layers=2), inputs(family, batch=3, tokens=4)
    steps = list(oa.generate(network, ids, counting="attention", tokens=NEW))
    text = ids
    for step in steps:
        with faithful(network):
            logits = network(input_ids=text, use_cache=False).logits[:, -1]
        assert step.token == logits.argmax(-1).tolist()
        assert np.allclose(step.chosen.orders.sum(-1) + step.chosen.readout_bias, step.chosen.model, atol=1e-12)
        assert np.allclose(step.chosen.capped, logits.max(-1).values, atol=1e-12)
        text = torch.cat([text, torch.tensor(step.token)[:, None]], dim=1)


def test_no_token_is_read_twice(monkeypatch):
    network, ids, read, kept = tiny("gemma2", layers=3), inputs("gemma2", batch=1, tokens=9), [], []
    network.get_input_embeddings().register_forward_hook(lambda layer, given, gave: read.append(given[0].shape[1]))
    own = Past.extended

    def noted(self, name, new):
        kept.append(new.shape[-2])
        return own(self, name, new)

    monkeypatch.setattr(Past, "extended", noted)
    steps = oa.generate(network, ids, tokens=3)
    next(steps)
    read.clear(), kept.clear()
    next(steps)
    assert set(read) == {1} and set(kept) == {1}


def test_a_prompt_read_in_pieces_is_the_same(monkeypatch):
    network, ids = tiny("mistral", layers=3), inputs("mistral", tokens=11)
    whole = list(oa.generate(network, ids, tokens=3))
    monkeypatch.setattr(module, "PIECE", 4)
    for one, other in zip(whole, oa.generate(network, ids, tokens=3), strict=True):
        assert one.token == other.token
        assert torch.allclose(one.column.parts, other.column.parts, atol=1e-12)


def test_other_tokens_may_be_chosen():
    network, ids = tiny("qwen2"), inputs("qwen2", tokens=4)
    seen = []

    def least(logits):
        seen.append(logits)
        return logits.argmin()

    steps = list(oa.generate(network, ids, tokens=2, choose=least))
    assert steps[0].token == [int(logits.argmin()) for logits in seen[:2]]
    assert seen[0].shape == (VOCABULARY,) and seen[0].dtype == np.float64
    assert np.allclose(steps[0].chosen.capped, [logits.min() for logits in seen[:2]])
    for wrong, what in ((lambda logits: 0.5, "0.5"), (lambda logits: VOCABULARY, "ids of"), (lambda logits: None, "None")):
        with pytest.raises(oa.InputError, match=what):
            next(oa.generate(network, ids, choose=wrong))


def test_generations_do_not_disturb_one_another_nor_the_model():
    network, ids = tiny("phi3").train(), inputs("phi3")
    alone = [step.token for step in oa.generate(network, ids, tokens=4)]
    one, other = oa.generate(network, ids, tokens=4), oa.generate(network, ids.flip(1), tokens=4)
    mixed = []
    for step in one:
        mixed.append(step.token)
        next(other)
    assert mixed == alone
    abandoned = oa.generate(network, ids)
    next(abandoned)
    assert network.training and torch.get_default_dtype() == torch.float32
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shorter_dtypes(dtype):
    network, ids = tiny("llama", seed=5, dtype=dtype), inputs("llama")
    for text, step in texts(ids, oa.generate(network, ids, tokens=3)):
        assert step.column.parts.dtype == dtype and (step.rounding <= step.bound).all()
        whole = at_the_end(network, text)
        assert np.allclose(step.norms, whole.norms[..., -1], rtol=0, atol=2 * step.bound.max())


OWN = Past.extended


def values_of_others(self, name, new):
    return OWN(self, name, new) if name == "keys" else OWN(self, name, new).roll(1, -2)


def keys_of_others(self, name, new):
    return OWN(self, name, new).roll(1, -2) if name == "keys" else OWN(self, name, new)


@pytest.mark.parametrize("wrong", [values_of_others, keys_of_others])
def test_what_is_kept_wrongly_is_seen(monkeypatch, wrong):
    network, ids = tiny("llama with biases", seed=6, layers=3), inputs("llama with biases")
    monkeypatch.setattr(Past, "extended", wrong)
    with pytest.raises(oa.ModelError, match="do not sum to the model's own state"):
        next(oa.generate(network, ids))
    unchecked = next(oa.generate(network, ids, check=False))
    assert (unchecked.rounding > unchecked.bound).any()


def test_readers_that_are_mixed_up_are_seen(monkeypatch):
    network, ids = tiny("gpt2", seed=6, layers=3), inputs("gpt2")
    readers = streaming.Readers
    monkeypatch.setattr(streaming, "Readers", lambda own, initial, sources, born: readers(own, initial, initial, born))
    with pytest.raises((oa.ModelError, RuntimeError)):
        list(oa.generate(network, ids, tokens=2))


@pytest.mark.parametrize("asked, says", [
    ({"split": "jacobian"}, "jacobian"),
    ({"tokens": 0}, "positive"),
    ({"tokens": 2.5}, "positive"),
    ({"tokens": 60}, "reads at most 64"),
    ({"counting": "norms"}, "counting"),
    ({"order": -1}, "order"),
    ({"heads": 2}, "heads"),
    ({"split": "soft"}, "soft"),
])  # fmt: skip
def test_what_cannot_be_asked_is_refused_before_the_model_runs(asked, says):
    network = tiny("llama")
    network.register_forward_pre_hook(lambda *given: pytest.fail("the model ran"))
    with pytest.raises(oa.InputError, match=says):
        oa.generate(network, inputs("llama"), **asked)


def test_models_that_generate_nothing_are_refused():
    with pytest.raises(oa.InputError, match="both sides"):
        next(oa.generate(tiny("bert"), inputs("bert")))
    with pytest.raises(oa.InputError, match="no unembedding"):
        oa.generate(tiny("llama").model, inputs("llama"))
    with pytest.raises(oa.InputError, match="no unembedding"):
        oa.generate(tiny(next(iter(ENCODERS))), inputs("llama"))
    with pytest.raises(oa.InputError, match="trace"):
        oa.generate(oa.record(tiny("llama"), inputs("llama")), inputs("llama"))
    with pytest.raises(oa.InputError, match="empty"):
        oa.generate(tiny("llama"), torch.zeros((1, 0), dtype=torch.long))


@pytest.mark.models
def test_a_text_goes_on_without_a_batch_axis(smollm2):
    steps = list(oa.generate(smollm2, "The capital of France is", counting="attention", tokens=3))
    assert "".join(step.text for step in steps).startswith(" Paris")
    first = steps[0]
    assert first.position == 5 and first.norms.shape == (31,) and isinstance(first.token, int)
    assert first.condition.shape == () and first.rounding <= first.bound
    assert repr(first) == "Generated(' Paris' at position 5: 31 orders)"
    assert first.chosen.orders.shape == (31,) and abs(first.chosen.rounding) < 1e-8
    assert oa.table(first).rows[0][0] == 0


@pytest.mark.slow
@pytest.mark.models
def test_32_new_tokens_of_a_real_model_against_the_whole_text_at_every_step(smollm2):
    ids = torch.tensor([smollm2.token_ids("When Mary and John went to the store, John gave a drink to")])
    for text, step in texts(ids, oa.generate(smollm2, ids, tokens=32)):
        assert (step.rounding <= step.bound).all()
        assert_same_column(step, at_the_end(smollm2, text, check=False), torch.tensor(step.bound))
