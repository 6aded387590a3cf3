"""Real weights: SmolLM2 and MiniLM sum to their own forward to the last digits, with every split and with padding."""

import numpy as np
import pytest
import torch
from conftest import PROMPT

import opalgebra as oa

pytestmark = pytest.mark.models

# What is asked of float64, every vertex counted. Counting fewer, what cancels inside the resummed stages is in no condition
# number, so that the same error is over a smaller one: there the rounding estimate of the report decides.
BAR = 1e-14


@pytest.fixture(scope="module")
def minilm():
    """all-MiniLM-L6-v2 with its real weights, in float64."""
    return oa.load("minilm")


def test_smollm2_sums_to_its_own_state_at_every_token(bound):
    result = bound.orders()
    assert (result.rounding / result.condition).max() <= BAR


@pytest.mark.parametrize("split", ["gate", "tangent", "source", "jacobian"])
def test_minilm_sums_to_its_own_state_at_every_token(minilm, split):
    binding = oa.bind(minilm, PROMPT, split=split, heads=split != "jacobian")
    heads = "" if split == "jacobian" else ", 12 heads each"
    assert str(binding.T) == f"post-norm bidirectional Transformer: 6 layers{heads}, 12 stages"
    result = binding.orders()
    assert (result.rounding / result.condition).max() <= BAR
    assert oa.verify(binding.T.dyson(), binding).holds is True


def test_the_condition_of_minilm_is_the_published_one(minilm):
    condition = oa.bind(minilm, PROMPT).orders().condition
    assert condition.min() > 2.8 and condition.max() < 8.2


def test_the_sentence_vector_of_minilm_is_the_mean_of_the_summed_orders(minilm):
    binding = oa.bind(minilm, PROMPT)
    with torch.no_grad():
        own = minilm.network(input_ids=binding.ids).last_hidden_state.mean(1)
    summed = binding.orders().parts.sum(0).mean(1)
    assert torch.nn.functional.cosine_similarity(own, summed).item() > 1 - 1e-12
    assert (own - summed).norm() < 1e-12 * own.norm()


def test_a_padded_batch_of_minilm_is_its_rows(minilm):
    texts = [PROMPT, "The capital of France is Paris."]
    rows = [minilm.token_ids(text) for text in texts]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    result = oa.bind(minilm, ids, mask=mask).orders()
    for at, text in enumerate(texts):
        alone = oa.bind(minilm, text).orders()
        tokens = len(rows[at])
        assert np.abs(result.norms[at][:, :tokens] - alone.norms).max() < 1e-11 * alone.norms.max()
    assert np.nanmax(result.rounding / result.condition) <= BAR


def test_left_padding_leaves_smollm2_as_it_is(smollm2, bound):
    ids, pads = bound.ids, 5
    padded = torch.cat([ids.new_full((1, pads), 2), ids], 1)
    mask = torch.tensor([[0] * pads + [1] * ids.shape[1]])
    result, alone = oa.bind(smollm2, padded, mask=mask).orders(), bound.orders()
    assert np.abs(result.norms[0][:, pads:] - alone.norms).max() < 1e-11 * alone.norms.max()
    assert (result.rounding[0, pads:] / result.condition[0, pads:]).max() <= BAR


def test_a_shorter_smollm2_rounds_as_much_as_its_dtype_and_the_row_says_how_much(smollm2, bound):
    short = oa.load(smollm2.network, dtype=torch.float32)
    result = oa.bind(short, bound.ids, accumulate="float64").orders(counting="attention")
    assert 1e-8 < result.rounding.max() < 1e-4
    total = result.parts.sum(0) + result.remainder
    own = result.binding.reference.states[-1].double()
    assert (total - own).norm() <= 1e-14 * result.parts.norm() * len(result.parts)
