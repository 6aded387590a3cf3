"""Theorems as statements about SmolLM2: their atoms are the model's, and what they say is checked on its real weights."""

from itertools import pairwise

import pytest
import torch
from conftest import PROMPT

import opalgebra as oa
from opalgebra.expr import compose
from opalgebra.kernel import cong
from opalgebra.numeric.faithful import faithful
from opalgebra.numeric.roundoff import probable

LAMBDA = 5.3
"""For a failure probability of 1e-6, in a rounding error of LAMBDA sqrt(m) u for m operations."""
UNIT = 2.0**-53


def holds(theorem, bound):
    """The verdict; a check that would have missed a relative error of 1e-6 is none."""
    report = oa.verify(theorem, bound)
    assert report.would_catch.median.error < 1e-6
    return report.holds


@pytest.fixture(scope="module")
def stages(bound):
    return [stage.factor - 1 for stage in bound.T.stages]


def test_one_layer_of_nonlinear_blocks_expands_exactly(bound, stages):
    A, F, x = oa.Atom("A", kind="nonlinear"), oa.Atom("F", kind="nonlinear"), oa.state("x")
    theorem = oa.instantiate(oa.expand((1 + F) @ (1 + A) @ x), {A: stages[0], F: stages[1], x: bound.T.x[0]})
    assert holds(theorem, bound)
    wrong = oa.equation(theorem.lhs, theorem.rhs - oa.source(stages[1], bound.T.x[1]) - 1e-3 * bound.T.x[0])
    assert holds(wrong, bound) is False


def test_the_orders_add_up_to_the_state_and_are_those_of_the_report(bound):
    series, orders = bound.T.dyson(counting="attention"), bound.orders(counting="attention")
    final = bound.evaluate(bound.T.x[60]).norm(dim=-1)
    allowed = probable(sum(stage.inner for stage in bound.frozen), torch.float64) * torch.as_tensor(orders.condition)
    for order in range(4):
        size = bound.evaluate(series.unexpanded[order]).norm(dim=-1) / final
        assert ((size - torch.as_tensor(orders.norms[order])).abs() <= allowed).all()
        assert (allowed < 1e-3 * size).all()


@pytest.mark.slow
def test_the_theorem_of_the_whole_series_holds(bound):
    for counting in ("attention", "all"):
        assert holds(bound.T.dyson(counting=counting).theorem(), bound)


def test_telescoping_takes_the_networks_out_one_layer_after_the_other(bound):
    """Four stages of two layers against the same with the feed-forward networks left out."""
    A, B, L, x = oa.family("A", kind="linear"), oa.family("B", kind="linear"), oa.symbol("L"), bound.T.x
    theorem = oa.instantiate(oa.telescoping(A, B, L), {L: 4})
    factors = {A[s + 1]: oa.dressed(bound.T.stages[s].factor, x[s]) for s in range(4)}
    without = {B[s + 1]: factors[A[s + 1]] if s % 2 == 0 else oa.Identity() for s in range(4)}
    assert holds(cong(compose, oa.instantiate(theorem, {**factors, **without}), x[0]), bound)


def test_heads_in_sequence_are_a_virtual_head(smollm2):
    bound = oa.bind(smollm2, PROMPT, heads=True)
    early, late = (
        oa.dressed(bound.T.head[layer, head], bound.T.stages[2 * layer - 2].norm @ bound.T.x[2 * layer - 2])
        for layer, head in ((1, 0), (2, 4))
    )
    theorem = oa.simplify(late @ early, facts=oa.frozen_forms(late @ early))
    assert len(theorem.hypotheses) == 2 and theorem.rhs is not theorem.lhs
    assert holds(cong(compose, theorem, bound.T.x[0]), bound)
    elsewhere = oa.dressed(bound.T.head[2, 4], bound.T.x[2])
    wrong = oa.simplify(elsewhere, facts=oa.frozen_forms(elsewhere))
    assert holds(cong(compose, wrong, bound.T.x[0]), bound) is False


def patterns(smollm2):
    """The attention patterns of every layer (heads, tokens, tokens), as the model itself gives them."""
    ids = torch.tensor([smollm2.token_ids(PROMPT)])
    with faithful(smollm2.network) as network:
        return [layer[0] for layer in network(ids, output_attentions=True, use_cache=False).attentions]


def test_every_pattern_obeys_the_equation_of_its_diagonal(smollm2):
    """prod_t (A - a_t) = 0; a wrong diagonal, or a pattern that sees the future, does not."""
    for layer in patterns(smollm2)[::7]:
        tokens = layer.shape[-1]
        one = torch.eye(tokens, dtype=layer.dtype)
        diagonal = layer.diagonal(dim1=-2, dim2=-1)

        def product(pattern, values, one=one):
            found, size = one, one.abs()
            for t in range(values.shape[-1]):
                factor = pattern - values[:, t, None, None] * one
                found, size = factor @ found, factor.abs() @ size
            return found, size

        found, size = product(layer, diagonal)
        bound = LAMBDA * tokens * UNIT * size
        assert (found.abs() <= bound).all()
        leaking = layer + 1e-3 * torch.ones_like(layer).triu(1)
        assert (product(leaking, diagonal)[0].abs() > bound).any()


def test_the_model_is_causal_with_its_nonlinear_blocks(smollm2, bound):
    """P_t x_L of the whole prompt is x_L of its first t + 1 tokens: causality is closed under all layers together."""
    ids = torch.tensor([smollm2.token_ids(PROMPT)])
    whole = bound.reference.states[-1][0]
    for tokens in (1, 6, 13):
        prefix = oa.bind(smollm2, ids[:, :tokens], check=False).reference.states[-1][0]
        rounding = LAMBDA * 60 * 2000**0.5 * UNIT * bound.orders().condition[:tokens].max()
        assert ((whole[:tokens] - prefix).norm(dim=-1) <= rounding * prefix.norm(dim=-1)).all()
        assert (whole[tokens : tokens + 1] - prefix[-1:]).norm() > 1e-3 * prefix[-1].norm()


def test_the_product_of_the_z_factors_depends_on_the_ends_alone(bound):
    states = bound.reference.states[:, 0]
    rms = states.square().mean(-1).sqrt()
    product = torch.ones_like(rms[0])
    for before, after in pairwise(rms):
        product = product * before / after
    torch.testing.assert_close(product, rms[0] / rms[-1], rtol=LAMBDA * 120 * UNIT, atol=0)
    z = states / rms[..., None]
    for layer in (1, 17, 60):
        update = states[layer] - states[layer - 1]
        right = (rms[layer - 1] / rms[layer])[:, None] * (z[layer - 1] + update / rms[layer - 1][:, None])
        size = (rms[layer - 1] / rms[layer])[:, None] * (z[layer - 1].abs() + (update / rms[layer - 1][:, None]).abs())
        assert ((z[layer] - right).abs() <= LAMBDA * (3 * 576) ** 0.5 * UNIT * size).all()
        assert ((z[layer] - z[layer - 1]).abs() > LAMBDA * (3 * 576) ** 0.5 * UNIT * size).any()


def test_a_common_shift_of_all_logits_changes_no_probability(bound):
    logits = bound.reference.logits[0]
    shift = 3 * bound.reference.states[-1][0].sum(-1, keepdim=True).tanh()
    before, after = torch.softmax(logits, -1), torch.softmax(logits + shift, -1)
    size = logits.abs().max() + shift.abs().max()
    assert ((before - after).abs() <= 8 * LAMBDA * UNIT * size * before).all()
    assert (before - torch.softmax(logits * 1.01, -1)).abs().max() > 1e-4


def test_positive_scales_of_tokens_pass_a_norm_without_epsilon_and_move_it_otherwise(smollm2):
    """N_eps(c x) = N_{eps/c^2}(x) with the model's own norm, its epsilon changed for the moment."""
    norm = smollm2.network.model.layers[3].input_layernorm
    x = torch.randn(5, 576, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 1e-3
    epsilon = norm.variance_epsilon

    def normed(states, value):
        norm.variance_epsilon = value
        try:
            with faithful(smollm2.network):
                return norm(states)
        finally:
            norm.variance_epsilon = epsilon

    rounding = {"rtol": LAMBDA * 576**0.5 * 4 * UNIT, "atol": 0}
    torch.testing.assert_close(normed(3 * x, epsilon), normed(x, epsilon / 9), **rounding)
    torch.testing.assert_close(normed(torch.arange(1, 6)[:, None] * x, 0.0), normed(x, 0.0), **rounding)
    assert (normed(3 * x, epsilon) - normed(x, epsilon)).abs().max() > 1e-2
