"""The memory of a run: chunks change nothing, the peak is what torch's own profiler sees, and a budget is kept."""

import pytest
import torch
from families import FAMILIES, MODELS, inputs, tiny

import opalgebra as oa
from opalgebra.numeric import memory, stages
from opalgebra.numeric.orders import kept_orders, ladders, steps_of
from opalgebra.numeric.stages import Step

ASKED = [("all", None), ("attention", None), ("ffn", 2), ("all", 3), (lambda vertex: vertex.layer % 2, None)]
LARGE = ["llama", "llama with biases", "gpt2", "gemma2", "bert", "neox parallel", "mixtral", "encoder post-norm"]


def allocated(run):
    """The bytes that torch's allocator gave out at most during a run, as its profiler saw them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def large(family, **options):
    """A binding at so many tokens that states are most of what is allocated."""
    return oa.bind(tiny(family, seed=3, layers=6), inputs(family, batch=4, tokens=60), check=False, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_change_nothing(family):
    M = oa.bind(tiny(family, seed=2, layers=3), inputs(family))
    for counting, order in ASKED:
        steps = steps_of(M, counting)
        whole = ladders(M.states[0], steps, order)
        for chunk in (1, 2, 3, 5):
            for one, other in zip(whole, ladders(M.states[0], steps, order, chunk=chunk)):
                assert one.filled == other.filled and torch.allclose(one.parts, other.parts, rtol=1e-12, atol=1e-13)


def test_lower_orders_first_would_be_seen(monkeypatch):
    M = oa.bind(tiny("neox parallel", seed=2, layers=4), inputs("neox parallel"))
    steps = steps_of(M, "all")
    whole = ladders(M.states[0], steps, None)[0]
    own = Step._carry_chunk
    waiting = []

    def ascending(self, parts, low, high, risen):
        waiting.append((low, high))
        if low == 0:
            for pair in reversed(waiting):
                own(self, parts, *pair, risen)
            waiting.clear()

    monkeypatch.setattr(stages.Step, "_carry_chunk", ascending)
    assert torch.allclose(ladders(M.states[0], steps, None)[0].parts, whole.parts)
    assert not torch.allclose(ladders(M.states[0], steps, None, chunk=1)[0].parts, whole.parts, rtol=1e-3)


@pytest.mark.parametrize("family", LARGE)
def test_the_peak_is_predicted(family):
    M = large(family)
    for counting, order in (("all", None), ("attention", None), ("all", 2)):
        predicted = M.peak_memory(counting=counting, order=order)
        real = allocated(lambda counting=counting, order=order: M.orders(counting=counting, order=order))
        assert real / predicted == pytest.approx(1, abs=0.1), (counting, order)


@pytest.mark.parametrize("options, least", [({"split": "jacobian"}, 0.75), ({"split": "tangent"}, 0.9), ({"heads": True}, 0.9)])
def test_the_peak_is_predicted_under_every_split_and_of_derivatives_bounded(options, least):
    M = large("llama with biases", **options)
    assert least <= allocated(M.orders) / M.peak_memory() <= 1.02


@pytest.mark.parametrize("family", LARGE)
def test_a_budget_is_kept(family):
    M = large(family)
    whole, free = M.peak_memory(), M.orders()
    least = int(0.6 * whole)
    for budget in (least, int(0.7 * whole), int(0.85 * whole)):
        steps = steps_of(M, "all")
        plan = memory.plan(steps, M.states[0], kept_orders(steps, None), budget)
        assert plan.peak <= budget < whole and plan.chunk < len(free.parts)
        found = []
        assert allocated(lambda budget=budget, found=found: found.append(M.orders(memory=budget))) <= 1.02 * budget
        assert torch.allclose(found[0].parts, free.parts, rtol=1e-12, atol=1e-13)


def test_what_does_not_fit_is_refused_before_anything_is_taken():
    M = large("llama")

    def refused():
        with pytest.raises(oa.LimitError, match=r"13 orders of 4 x 60 tokens take [\d,]+ bytes, one at a time, and 10,000 are"):
            M.orders(memory=10_000)

    assert allocated(refused) < 20_000
    assert allocated(M.peak_memory) < 20_000
    for wrong in (0, -1, 2.5, "1GB", True):
        with pytest.raises(oa.InputError, match="budget"):
            M.orders(memory=wrong)


def test_what_is_free_bounds_a_run(monkeypatch):
    M = large("llama")
    monkeypatch.setattr(memory, "free", lambda device: 10_000)
    with pytest.raises(oa.LimitError, match="9,000 are free"):
        M.orders()


def test_free_memory_is_some():
    assert 2**24 < memory.free(torch.device("cpu")) < 2**44


def test_a_model_without_sources_has_one_ladder():
    assert not any(step.is_birthplace for step in steps_of(large("llama"), "all"))
    for family in set(MODELS) - {"llama", "mistral", "phi3", "mixtral", "qwen2", "gemma2", "qwen3", "gemma3", "olmo2"}:
        assert any(step.is_birthplace for step in steps_of(large(family), "all")), family
