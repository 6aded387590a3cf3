"""The freedom of basis of queries, keys and values on real weights: what is proved of the kernels keeps the logits."""

import torch
from conftest import PROMPT

LAYER, PAIRS = 7, 32
LAMBDA = 5.3
"""For a failure probability of 1e-6, in a rounding error of LAMBDA sqrt(m) u for m operations."""


def commuting(random):
    """A map of a head that commutes with all rotations of the pairs (i, i + 32)."""
    a, b = (torch.diag(torch.rand(PAIRS, generator=random, dtype=torch.float64) + 0.5) for _ in range(2))
    return torch.cat([torch.cat([a, -b], 1), torch.cat([b, a], 1)])


def general(random):
    size = 2 * PAIRS
    return torch.eye(size, dtype=torch.float64) + 0.1 * torch.randn(size, size, generator=random, dtype=torch.float64)


def change_of_logits(smollm2, change):
    """The largest change of a logit over the largest logit, when one layer's attention is changed, and put back."""
    module, ids = smollm2.network, torch.tensor([smollm2.token_ids(PROMPT)])
    attention = module.model.layers[LAYER].self_attn
    kept = {name: weight.clone() for name, weight in attention.state_dict().items()}
    with torch.no_grad():
        before = module(ids).logits
        change(attention)
        after = module(ids).logits
        attention.load_state_dict(kept)
        assert torch.equal(module(ids).logits, before)
    return float((after - before).abs().max() / before.abs().max())


def rounding(smollm2, bound, maps):
    """What rounding may change: all inner dimensions of the model, its condition, and that of the maps put in."""
    config = smollm2.network.config
    inner = config.num_hidden_layers * (3 * config.hidden_size + 2 * config.intermediate_size)
    condition = float(bound.orders().condition.max()) * max(float(torch.linalg.cond(m)) for m in maps)
    return LAMBDA * inner**0.5 * torch.finfo(torch.float64).eps / 2 * condition


def turn_queries_and_keys(maps):
    """`W_Q -> M W_Q` of every query head and `W_K -> M^-T W_K`, one M for each key head."""

    def change(attention):
        weights = attention.q_proj.weight, attention.k_proj.weight
        queries, keys = (weight.view(-1, 2 * PAIRS, weight.shape[1]) for weight in weights)
        group = queries.shape[0] // keys.shape[0]
        for head in range(keys.shape[0]):
            keys[head] = torch.linalg.inv(maps[head]).T @ keys[head]
            for query in range(head * group, (head + 1) * group):
                queries[query] = maps[head] @ queries[query]

    return change


def turn_values(maps):
    """`W_V -> M W_V` and `W_O -> W_O M^-1` for every output head of its group."""

    def change(attention):
        values = attention.v_proj.weight.view(-1, 2 * PAIRS, attention.v_proj.weight.shape[1])
        outputs = attention.o_proj.weight.view(attention.o_proj.weight.shape[0], -1, 2 * PAIRS)
        group = outputs.shape[1] // values.shape[0]
        for head in range(values.shape[0]):
            values[head] = maps[head] @ values[head]
            for output in range(head * group, (head + 1) * group):
                outputs[:, output] = outputs[:, output] @ torch.linalg.inv(maps[head])

    return change


def three(make):
    random = torch.Generator().manual_seed(3)
    return [make(random) for _ in range(3)]


def test_maps_that_commute_with_the_rotations_leave_the_logits_as_they_are(smollm2, bound):
    maps = three(commuting)
    assert change_of_logits(smollm2, turn_queries_and_keys(maps)) < rounding(smollm2, bound, maps) < 1e-9


def test_a_general_map_under_rotary_positions_changes_the_logits(smollm2):
    assert change_of_logits(smollm2, turn_queries_and_keys(three(general))) > 1e-3


def test_every_map_of_the_values_leaves_the_logits_as_they_are(smollm2, bound):
    maps = three(general)
    assert change_of_logits(smollm2, turn_values(maps)) < rounding(smollm2, bound, maps) < 1e-9


def test_an_output_that_is_not_turned_back_changes_the_logits(smollm2):
    maps = three(general)

    def forgetful(attention):
        kept = attention.o_proj.weight.clone()
        turn_values(maps)(attention)
        attention.o_proj.weight.copy_(kept)

    assert change_of_logits(smollm2, forgetful) > 1e-3
