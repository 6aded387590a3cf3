"""Padding on the left, on the right and between, batches, positions and windows: real tokens are as if alone."""

import numpy as np
import pytest
import torch
from models.families import ENCODERS, FAMILIES, MODELS, WINDOW, inputs, tiny
from numeric.models import word_tokenizer

import opalgebra as oa
from opalgebra.numeric.faithful import faithful
from opalgebra.testing import plant

# Two chains as in test_families, of other shapes, so that products are summed in another order.
ROUNDING = 1e-12
WINDOWED = ("mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "mixtral")
MASKS = {
    "left": [[1] * 9, [0, 0, 0, 1, 1, 1, 1, 1, 1]],
    "right": [[1] * 9, [1, 1, 1, 1, 1, 1, 0, 0, 0]],
    "between": [[1] * 9, [1, 1, 0, 0, 1, 1, 1, 0, 1]],
}


@pytest.mark.parametrize("where", MASKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_padded_row_has_the_figures_of_the_row_alone(family, where):
    mask, network, ids = torch.tensor(MASKS[where], dtype=torch.bool), tiny(family), inputs(family, tokens=9)
    padded = oa.bind(network, ids, mask=mask)
    assert padded.deviation < 1
    result = padded.orders(counting="attention")
    report = oa.verify(padded.T.dyson(counting="attention"), padded)
    assert report.holds is True
    for row, keep in enumerate(mask):
        size = padded.reference.states[-1][row, keep].norm()
        assert (result.parts.sum(0)[row, keep] - padded.reference.states[-1][row, keep]).norm() < ROUNDING * size
        assert np.isnan(result.norms[row][:, ~keep]).all() and np.isnan(result.condition[row, ~keep]).all()
        assert np.isfinite(result.norms[row][:, keep]).all()
        if family in WINDOWED and where == "between" and row:
            continue
        alone = oa.bind(network, ids[row : row + 1, keep]).orders(counting="attention")
        assert (alone.parts[:, 0] - result.parts[:, row, keep]).norm() < ROUNDING * alone.parts.norm() * len(alone.parts)
        assert np.abs(alone.norms[0] - result.norms[row][:, keep]).max() < ROUNDING * alone.norms.max() * 10
        if family in MODELS:
            one, other = alone.logits(7), result.logits(7)
            assert np.abs(one.orders[0] - other.orders[row]).max() < ROUNDING * np.abs(one.orders).sum()
            assert abs(one.model[0] - other.model[row]) < ROUNDING * np.abs(one.orders).sum()


def test_a_window_counts_padding_between_tokens_as_the_model_itself_does():
    network, ids = tiny("mistral"), inputs("mistral", batch=1, tokens=9)
    mask = torch.tensor(MASKS["between"][1:], dtype=torch.bool)
    padded, alone = oa.bind(network, ids, mask=mask), oa.bind(network, ids[:, mask[0]])
    assert oa.verify(padded.T.dyson(), padded).holds is True
    difference = padded.reference.states[-1][0, mask[0]] - alone.reference.states[-1][0]
    assert difference.norm() > 1e-2 * alone.reference.states[-1].norm()


@pytest.mark.parametrize("family", FAMILIES)
def test_what_stands_at_padded_positions_changes_nothing(family):
    network, ids = tiny(family), inputs(family, tokens=9)
    mask = torch.tensor(MASKS["left"], dtype=torch.bool)
    other = torch.where(mask if family in MODELS else mask[..., None], ids, inputs(family, tokens=9, seed=5))
    one, two = (oa.bind(network, each, mask=mask).orders() for each in (ids, other))
    assert not torch.equal(ids, other)
    assert (one.parts[:, mask] - two.parts[:, mask]).norm() <= ROUNDING * one.parts[:, mask].norm()
    assert np.array_equal(np.isnan(one.norms), np.isnan(two.norms))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_is_its_rows_and_rows_do_not_see_each_other(family):
    network, ids = tiny(family), inputs(family, batch=3, tokens=6)
    together = oa.bind(network, ids).orders()
    for row in range(3):
        alone = oa.bind(network, ids[row : row + 1]).orders()
        assert (alone.parts[:, 0] - together.parts[:, row]).norm() < ROUNDING * alone.parts.norm()


@pytest.mark.parametrize("tokens", [1, 2, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 1])
@pytest.mark.parametrize("family", WINDOWED)
def test_prompts_around_the_window_are_those_of_the_model(family, tokens):
    network, ids = tiny(family), inputs(family, tokens=tokens)
    binding = oa.bind(network, ids)
    assert oa.verify(binding.T.dyson(), binding).holds is True
    wide = oa.bind(tiny(family, sliding_window=40), ids).reference.states[-1]
    differs = (wide - binding.reference.states[-1]).abs().amax((0, 2)) > 1e-6
    assert differs.tolist() == [token >= WINDOW for token in range(tokens)]


@pytest.mark.parametrize("family", MODELS)
def test_given_positions_are_used_and_do_not_split_the_text(family):
    network, ids = tiny(family), inputs(family, batch=1, tokens=6)
    shifted = oa.bind(network, ids, positions=[[3, 4, 5, 6, 7, 8]])
    jumping = oa.bind(network, ids, positions=[[0, 1, 2, 10, 11, 12]])
    plain = oa.bind(network, ids)
    for binding in (shifted, jumping):
        assert binding.deviation < 1 and oa.verify(binding.T.dyson(), binding).holds is True
    moved = (shifted.reference.states[-1] - plain.reference.states[-1]).norm() / plain.reference.states[-1].norm()
    assert (moved > 1e-3) == (family.startswith(("gpt2", "bert")))
    last = (jumping.reference.states[-1] - plain.reference.states[-1])[0, 3:].norm()
    assert last > 1e-3 * plain.reference.states[-1].norm()


def test_without_a_mask_transformers_takes_a_jump_for_another_text():
    """What the binding avoids: the same positions without a mask hide the first half from the second."""
    network, ids = tiny("llama"), inputs("llama", batch=1, tokens=6)
    positions = torch.tensor([[0, 1, 2, 10, 11, 12]])
    binding = oa.bind(network, ids, positions=positions)
    with faithful(network):
        packed = network(input_ids=ids, position_ids=positions, use_cache=False).logits
        whole = network(input_ids=ids, position_ids=positions, attention_mask=torch.ones_like(ids), use_cache=False).logits
    assert (packed - whole).abs().max() > 0.1
    assert torch.equal(binding.reference.logits, whole)


def test_the_plain_forward_in_float64_is_not_a_number_where_the_faithful_one_is():
    """The mask of a float64 model overflows in its float32 softmax: rows of padding alone become NaN, then everything."""
    network, ids = tiny("llama"), inputs("llama", tokens=9)
    mask = torch.tensor(MASKS["left"])
    plain = network(input_ids=ids, attention_mask=mask, use_cache=False).logits
    assert plain[1, 3:].isnan().any()
    result = oa.bind(network, ids, mask=mask).orders()
    assert np.isfinite(result.norms[:, :, 3:]).all()


def test_padding_that_the_model_is_told_of_matters():
    network, ids = tiny("gpt2"), inputs("gpt2", tokens=9)
    mask = torch.tensor(MASKS["left"], dtype=torch.bool)
    told, untold = oa.bind(network, ids, mask=mask), oa.bind(network, ids)
    difference = (told.reference.states[-1] - untold.reference.states[-1])[1, 3:].norm()
    assert difference > 1e-2 * told.reference.states[-1].norm()


def test_the_report_leaves_padded_positions_out():
    network, ids, mask = tiny("llama"), inputs("llama", tokens=9), torch.tensor(MASKS["left"])
    binding = oa.bind(network, ids, mask=mask)
    report = oa.verify(binding.T.dyson(), binding)
    assert report.per_position[1][:3] == [0.0, 0.0, 0.0] and all(report.per_position[1][4:])
    for caught in (report.would_catch.median, report.would_catch.worst):
        vertex = next(v for stage in binding.T.stages for v in stage.vertices if v.name == caught.vertex)
        assert oa.verify(binding.T.dyson(), plant(binding, vertex, 1.5 * caught.error)).holds is False
    binding.reference.states[-1][1, 1] += 1.0
    assert oa.verify(binding.T.dyson(), binding).holds is True
    binding.reference.states[-1][1, 4] += 1e-9
    assert oa.verify(binding.T.dyson(), binding).holds is False


def test_plain_data_has_none_at_padded_positions():
    binding = oa.bind(tiny("llama"), inputs("llama", tokens=9), mask=MASKS["left"])
    plain = binding.orders().to_dict()
    assert plain["condition"][1][:3] == [None, None, None] and plain["norms"][1][0][2] is None
    assert all(isinstance(value, float) for value in plain["condition"][1][3:])


def refusal(*arguments, **options) -> str:
    with pytest.raises(oa.InputError) as caught:
        oa.bind(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mask": [[1, 1, 1]]}, "a mask is 1 at tokens and 0 at padding, of shape (2, 4); this one is torch.int64 of shape "
         "(1, 3)"),
        ({"mask": [[1, 1, 1, 2]] * 2}, "a mask is 1 at tokens and 0 at padding, of shape (2, 4); this one is torch.int64 of "
         "shape (2, 4)"),
        ({"mask": [[1] * 4, [0] * 4]}, "a row of the mask has no token; leave that row out"),
        ({"mask": "left"}, "the input is a str that is no array of ones and zeros; give a mask (batch, tokens)"),
        ({"positions": [[0, 1, 2, -1]] * 2}, "positions are natural numbers of shape (2, 4); these are torch.int64 of shape "
         "(2, 4)"),
        ({"positions": [[0.0, 1.0, 2.0, 3.0]] * 2}, "positions are natural numbers of shape (2, 4); these are torch.float32 of "
         "shape (2, 4)"),
        ({"positions": [[0, 1, 2, 64]] * 2}, "positions run from 0 to 63, but the input has 64"),
    ],
)  # fmt: skip
def test_masks_and_positions_that_are_none_are_refused(options, text):
    assert refusal(tiny("llama"), inputs("llama", tokens=4), **options) == text


def test_a_text_has_neither_mask_nor_positions_and_vectors_have_no_positions():
    model = oa.load(tiny("llama"), tokenizer=word_tokenizer())
    text = "mask= and positions= belong to token ids (batch, tokens); a text has neither"
    assert refusal(model, "w5 w6", mask=[[1, 1]]) == text
    assert refusal(model, "w5 w6", positions=[[0, 1]]) == text
    encoder, vectors = tiny("encoder post-norm"), inputs("encoder post-norm", tokens=3)
    assert refusal(encoder, vectors, positions=[[0, 1, 2]] * 2) == (
        "TransformerEncoder has no positions of its own; leave positions= out"
    )
    assert refusal(encoder, [[1, 2, 3]]) == (
        "TransformerEncoder has no embedding and reads vectors (batch, tokens, features), not torch.int64 of shape (1, 3)"
    )
    assert refusal(encoder, vectors[:, :0]) == "the prompt is empty; give at least one token"


@pytest.mark.parametrize("family", [*ENCODERS, "llama", "bert"])
def test_the_model_is_left_as_it_was(family):
    network, ids = tiny(family).train(), inputs(family, tokens=9)
    fast = torch.backends.mha.get_fastpath_enabled()
    oa.bind(network, ids, mask=MASKS["right"])
    assert network.training and torch.backends.mha.get_fastpath_enabled() == fast
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in network.modules())


def test_experts_are_computed_one_at_a_time_and_the_choice_is_restored():
    network, ids = tiny("mixtral"), inputs("mixtral")
    network.set_experts_implementation("grouped_mm")
    with pytest.raises(RuntimeError):
        network(input_ids=ids, use_cache=False)
    assert oa.bind(network, ids).deviation < 1
    assert network.config._experts_implementation == "grouped_mm"
