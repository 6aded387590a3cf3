"""Models spread over devices give the numbers that they give on one, each stage where its weights are."""

import warnings
from functools import cache

import numpy as np
import pytest
import torch
from devices import CPU, FIRST, SECOND, Pretended, in_two, really, spread
from families import ENCODERS, FAMILIES, inputs, tiny
from uses import DIFFERENTIATED, ONE_ROW, USES, numbers

import opalgebra as oa
from opalgebra.models import bind, llama
from opalgebra.models.family import placed
from opalgebra.models.prompt import prompt_of
from opalgebra.numeric import memory
from opalgebra.numeric import orders as orders_module
from opalgebra.numeric.maps import device_of, tensors
from opalgebra.numeric.roundoff import probable

PLACES = {"one": lambda name: FIRST, "two": lambda name: (FIRST, SECOND)[in_two(name)]}
GPU = {
    "one": lambda name: FIRST,
    "two": lambda name: (CPU, FIRST)[in_two(name)],
    "back": lambda name: (FIRST, CPU)[in_two(name)],
}


@pytest.fixture(autouse=True)
def room(request, monkeypatch):
    """What is free on a device that is pretended."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setattr(memory, "free", lambda device: 2**30)


def asked(use):
    """What is asked, and the input it is asked of."""
    return (USES | ONE_ROW | DIFFERENTIATED)[use], inputs("llama", 1 if use in ONE_ROW else 2)


def model():
    return tiny("llama with biases", layers=3)


@cache
def on_the_cpu(use):
    ask, ids = asked(use)
    return numbers(ask(oa.bind(model(), ids)))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_on_two_devices_is_the_model_on_one(family):
    ids = inputs(family)
    one = oa.bind(tiny(family), ids)
    orders = {counting: one.orders(counting=counting) for counting in ("all", "attention")}
    with Pretended():
        network = spread(tiny(family), PLACES["two"])
        own = {parameter.data_ptr() for parameter in network.parameters()}
        two = oa.bind(network, ids)
        assert two.devices == "cuda:0, cuda:1" and ", cuda:0, cuda:1, " in repr(two)
        for number, maps in enumerate(two.maps):
            assert {tensor.device for tensor in tensors(maps)} == {PLACES["two"](f".{two.T.stages[number].layer - 1}.")}
            assert own & {tensor.data_ptr() for tensor in tensors(maps)}
        for counting, expected in orders.items():
            found = two.orders(counting=counting)
            assert found.parts.device == FIRST and torch.equal(found.parts.cpu(), expected.parts)
            assert (found.norms == expected.norms).all()
        report = oa.verify(two.T.dyson(), two)
        assert report.holds is True and report.device == "cuda:0, cuda:1"
        if family not in ENCODERS:
            assert (found.logits(5, minus=7).orders == expected.logits(5, minus=7).orders).all()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("use", USES | ONE_ROW)
def test_whatever_is_asked_of_a_binding_is_answered_on_other_devices(use, place):
    ask, ids = asked(use)
    with Pretended():
        found = numbers(ask(oa.bind(spread(model(), PLACES[place]), ids)))
    assert len(found) == len(on_the_cpu(use)) > 0
    for one, other in zip(found, on_the_cpu(use)):
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


@pytest.mark.parametrize("family", ["llama with biases", "gemma2", "gpt2"])
def test_a_model_on_two_devices_generates_what_it_does_on_one(family):
    ids = inputs(family)
    expected = list(oa.generate(tiny(family), ids, tokens=3))
    with Pretended():
        found = list(oa.generate(spread(tiny(family), PLACES["two"]), ids, tokens=3))
        assert all(step.column.parts.device == FIRST for step in found)
    for one, other in zip(found, expected, strict=True):
        assert one.token == other.token and (one.norms == other.norms).all()
        assert (one.chosen.orders == other.chosen.orders).all() and (one.rounding == other.rounding).all()


def test_on_one_device_nothing_is_copied():
    loaded = oa.load(model())
    prompt = prompt_of(loaded, inputs("llama"), None, None)
    parts = llama.read(loaded.network, prompt, {"attention": "frozen", "ffn": "gate", "gated": "gate"})
    again = placed(parts)
    before, after = list(tensors((*parts.maps, parts.readout))), list(tensors((*again.maps, again.readout)))
    assert len(before) > 40 and all(one is other for one, other in zip(before, after, strict=True))


def test_what_stages_share_is_moved_once_for_each_device():
    with Pretended():
        M = oa.bind(spread(tiny("llama", layers=4), PLACES["two"]), inputs("llama"))
        attention = [branch.vertex for maps in M.maps for branch in maps.branches][::2]
        assert [device_of(own) for own in attention] == [FIRST, SECOND, SECOND, SECOND]
        assert len({id(own.visible) for own in attention}) == len({id(own.rotary.cosine) for own in attention}) == 2


def test_a_stage_that_is_itself_spread_is_gathered():
    ids = inputs("llama")
    expected = oa.bind(tiny("llama"), ids).orders().parts
    with Pretended():
        M = oa.bind(spread(tiny("llama"), lambda name: SECOND if "layernorm" in name else FIRST), ids)
        assert all({tensor.device for tensor in tensors(maps)} == {FIRST} for maps in M.maps)
        assert torch.equal(M.orders().parts.cpu(), expected)


@pytest.mark.parametrize("mistake", ["masks stay", "parts stay"])
def test_a_tensor_on_the_wrong_device_is_seen(mistake, monkeypatch):
    if mistake == "masks stay":
        monkeypatch.setattr(bind, "placed", lambda parts: parts)
    else:
        monkeypatch.setattr(orders_module, "beside", lambda part, states: states)
    with Pretended(), pytest.raises(RuntimeError, match="to be on the same device, but found"):
        oa.bind(spread(model(), PLACES["two"]), inputs("llama")).orders()


def test_pretended_devices_behave_as_devices_do():
    here = torch.arange(6.0).view(2, 3)
    with Pretended():
        there = here.to("cuda:1")
        assert (there.device, here.device, there.to("cpu").device) == (SECOND, CPU, CPU)
        assert there.to(SECOND) is there and there.to(torch.float64).device == SECOND and here.to(there).device == SECOND
        results = (there.T, there[0], there.sum(), there.chunk(2)[1], there @ there.T, torch.zeros_like(there))
        assert {result.device for result in (*results, there.new_zeros(2), torch.arange(3, device=there.device))} == {SECOND}
        assert there[torch.tensor([1])].device == SECOND and (there * torch.tensor(2.0)).device == SECOND
        there[0] = here[1]
        assert torch.equal(there.cpu()[0], here[1])
        for act in (lambda: there + here, lambda: torch.stack([there, there.to("cuda:0")]), lambda: here * there.sum()):
            with pytest.raises(RuntimeError, match="on the same device, but found"):
                act()
        with pytest.raises(TypeError, match="can't convert cuda:1 device type tensor to numpy"):
            there.numpy()


def test_a_trace_of_two_devices_is_bound_on_one(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    ids, path = inputs("gemma3"), tmp_path / "run.safetensors"
    expected = oa.bind(tiny("gemma3"), ids)
    with Pretended():
        trace = oa.record(spread(tiny("gemma3"), PLACES["two"]), ids)
        assert trace.made["device"] == "cuda a GPU"
        found = oa.bind(trace)
        assert found.devices == "cuda:0, cuda:1" and torch.equal(found.orders().parts.cpu(), expected.orders().parts)
        trace.save(path)
    loaded = oa.bind(oa.Trace.load(path))
    assert loaded.devices == "cpu"
    torch.testing.assert_close(loaded.orders().parts, expected.orders().parts, rtol=1e-12, atol=1e-12)
    with Pretended():
        there = oa.bind(oa.Trace.load(path, device="cuda:1"))
        assert there.devices == "cuda:1"
        torch.testing.assert_close(there.orders().parts.cpu(), expected.orders().parts, rtol=1e-12, atol=1e-12)


def dispatched(network, device_map, **options):
    accelerate = pytest.importorskip("accelerate")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return accelerate.dispatch_model(network, device_map, **options)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ENCODERS])
def test_a_model_with_the_hooks_of_accelerate_is_the_model(family):
    ids = inputs(family)
    network = dispatched(tiny(family), {"": "cpu"}, force_hooks=True)
    assert any(hasattr(module, "_hf_hook") for module in network.modules())
    found, expected = oa.bind(network, ids), oa.bind(tiny(family), ids)
    assert torch.equal(found.orders().parts, expected.orders().parts) and found.deviation == expected.deviation
    assert all(hasattr(module, "_hf_hook") == ("forward" in module.__dict__) for module in network.modules())


@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_offloaded_weights_are_refused(where, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    network = tiny("llama")
    if where == "cpu":
        accelerate.cpu_offload(network, execution_device=CPU)
        name = "model.embed_tokens.weight"
    else:
        layers = {f"model.layers.{index}": place for index, place in enumerate(("cpu", "disk"))}
        rest = dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"), "cpu")
        dispatched(network, layers | rest, offload_dir=tmp_path)
        name = "model.layers.1.self_attn.q_proj.weight"
    with pytest.raises(oa.ModelError) as caught:
        oa.bind(network, inputs("llama"))
    assert str(caught.value) == (
        f"{name} of LlamaForCausalLM is not in memory but offloaded or never loaded (its device is 'meta'), and binding reads "
        "weights in place; load the model with a device_map that names no 'disk', and no 'cpu' beside a GPU"
    )


@pytest.fixture
def folder(tmp_path):
    tiny("qwen3").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_is_loaded_by_a_device_map(folder):
    pytest.importorskip("accelerate")
    for device_map in ("cpu", {"": "cpu"}):
        loaded = oa.load(folder, device_map=device_map)
        assert repr(loaded).endswith("float64, cpu)")
        assert torch.equal(oa.bind(loaded, inputs("qwen3")).states, oa.bind(oa.load(folder), inputs("qwen3")).states)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": "cpu"}, "device= was given too"),
        ({}, "a model object is where it is"),
    ],
)
def test_a_device_map_is_refused_where_it_says_nothing(options, text, folder):
    with pytest.raises(oa.InputError) as caught:
        oa.load(folder if options else model(), device_map="auto", **options)
    assert str(caught.value) == (f"device_map= says where modules of a model are loaded, and {text}; leave one of the two out")


def test_a_device_map_that_cannot_be_followed_is_named(folder):
    with pytest.raises(oa.ModelError) as caught:
        oa.load(folder, device_map="banana")
    text = str(caught.value)
    assert text.startswith(f"cannot load {str(folder)!r} spread by device_map='banana' (") and "\n" not in text
    assert text.endswith("); give 'auto', or a mapping of its modules to devices that are here, with accelerate installed")


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["two", "back"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_over_cpu_and_gpu_is_the_model_on_the_cpu(family, place):
    ids = inputs(family)
    expected = oa.bind(tiny(family), ids)
    found = oa.bind(spread(tiny(family), GPU[place], really), ids)
    assert set(found.devices.split(", ")) == {"cpu", "cuda:0"}
    inner = 2 * sum(stage.inner for stage in expected.frozen)
    for counting in ("all", "attention"):
        one, other = (M.orders(counting=counting) for M in (found, expected))
        allowed = probable(inner, torch.float64) * torch.as_tensor(other.condition)[:, None]
        assert (torch.as_tensor(one.norms - other.norms).abs() <= allowed).all()
    assert oa.verify(found.T.dyson(), found).holds is True


@pytest.mark.gpu
def test_a_model_dispatched_over_cpu_and_gpu_is_the_model_on_the_cpu():
    layers = {"model.layers.0": "cpu", "model.layers.1": 0}
    rest = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": 0, "lm_head": 0}
    network = dispatched(tiny("llama"), layers | rest, main_device="cpu")
    M = oa.bind(network, inputs("llama"))
    assert M.devices == "cpu, cuda:0" and oa.verify(M.T.dyson(), M).holds is True
    expected = oa.bind(tiny("llama"), inputs("llama"))
    assert np.abs(M.orders().norms - expected.orders().norms).max() <= 1e-12 * expected.orders().condition.max()


@pytest.mark.gpu
@pytest.mark.parametrize("place", GPU)
@pytest.mark.parametrize("use", USES | ONE_ROW | DIFFERENTIATED)
def test_whatever_is_asked_of_a_binding_is_answered_on_a_gpu(use, place):
    """Two devices round differently, and iterations carry that further than one product; a wrong tensor is off by far more."""
    ask, ids = asked(use)
    found = numbers(ask(oa.bind(spread(model(), GPU[place], really), ids)))
    assert len(found) == len(on_the_cpu(use)) > 0
    for one, other in zip(found, on_the_cpu(use)):
        assert np.allclose(one, other, rtol=1e-6, atol=1e-9, equal_nan=True)
