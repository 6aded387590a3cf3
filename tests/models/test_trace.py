"""Traces: bound without the model they give its binding to the last digit, of every family; changed files are refused."""

import json
import subprocess
import sys

import pytest
import torch
from families import FAMILIES, VOCABULARY, inputs, tiny
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import opalgebra as oa
from opalgebra.numeric.activations import ACTIVATIONS, name_of
from opalgebra.numeric.roundoff import probable

IDS = torch.tensor([[3, 11, 7, 30, 5, 2, 19], [8, 8, 1, 25, 14, 9, 4]])
MASK = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]])


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def saved(network, given, path, **options):
    oa.record(network, given, **options).save(path)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_a_trace_is_bound_as_the_model_of_every_family(family, tmp_path):
    network = tiny(family, seed=3)
    given = inputs(family)
    trace = oa.Trace.load(saved(network, given, tmp_path / "run.safetensors"))
    for options in ({}, {"split": "tangent", "heads": True}, {"split": {"attention": "source", "ffn": "source"}}):
        model, alone = oa.bind(network, given, **options), oa.bind(trace, **options)
        assert alone.T == model.T and alone.deviation <= 1
        for counting in ("all", "attention"):
            one, other = model.orders(counting=counting), alone.orders(counting=counting)
            for figures in ("norms", "source_norms"):
                found, expected = (torch.as_tensor(getattr(orders, figures)) for orders in (other, one))
                inner = sum(stage.inner for stage in model.frozen)
                allowed = probable(inner, torch.float64) * torch.as_tensor(one.condition)[:, None]
                assert ((found - expected).abs() <= allowed).all()
        assert oa.verify(alone.T.dyson(), alone).holds


def test_padding_positions_and_logits_are_kept(tmp_path):
    network = tiny("llama")
    positions = torch.arange(7).expand(2, 7) + torch.tensor([[0], [3]])
    path = saved(network, IDS, tmp_path / "run.safetensors", mask=MASK, positions=positions)
    model, alone = oa.bind(network, IDS, mask=MASK, positions=positions), oa.bind(oa.Trace.load(path))
    one, other = model.orders(), alone.orders()
    torch.testing.assert_close(torch.as_tensor(other.norms), torch.as_tensor(one.norms), equal_nan=True)
    torch.testing.assert_close(torch.as_tensor(other.logits(5).orders), torch.as_tensor(one.logits(5).orders))
    assert alone.token_texts == [[str(index) for index in row] for row in IDS.tolist()]
    message = refused(oa.InputError, lambda: alone.orders().logits("a"))
    assert message == "'a' is 0 tokens of the recorded LlamaForCausalLM; give an id"


def test_a_trace_needs_neither_the_model_nor_transformers(tmp_path):
    path = saved(tiny("gemma2"), IDS, tmp_path / "run.safetensors")
    program = (
        "import sys, opalgebra as oa\n"
        f"M = oa.bind(oa.Trace.load({str(path)!r}))\n"
        "assert oa.verify(M.T.dyson(), M).holds\n"
        "assert 'transformers' not in sys.modules and 'huggingface_hub' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr == ""


def test_weights_by_reference_are_loaded_and_compared(tmp_path):
    network = tiny("qwen2")
    folder = tmp_path / "model"
    network.save_pretrained(folder)
    path = tmp_path / "run.safetensors"
    model = oa.load(folder)
    trace = oa.record(model, IDS, weights="reference")
    assert repr(trace).endswith("weights by reference, float64, recorded on " + trace.made["device"] + ")")
    trace.save(path)
    assert path.stat().st_size < (folder / "model.safetensors").stat().st_size
    bound = oa.bind(oa.Trace.load(path), split="tangent")
    torch.testing.assert_close(
        torch.as_tensor(bound.orders().norms), torch.as_tensor(oa.bind(model, IDS, split="tangent").orders().norms)
    )
    with torch.no_grad():
        network.model.layers[1].mlp.up_proj.weight[3, 2] += 1e-9
    network.save_pretrained(folder)
    assert refused(oa.ModelError, lambda: oa.bind(oa.Trace.load(path))) == (
        f"{folder} has other weights than the run that was recorded; record it anew"
    )


@pytest.fixture
def whole(tmp_path):
    return saved(tiny("llama with biases"), IDS, tmp_path / "run.safetensors")


def rewritten(path, change):
    """The file with its tensors and header changed, and no longer the digest of what it holds."""
    with safe_open(str(path), framework="pt") as file:
        header = json.loads(file.metadata()["opalgebra"])
    tensors = load_file(str(path))
    change(tensors, header)
    save_file(tensors, str(path), metadata={"opalgebra": json.dumps(header)})


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, header: tensors["states"].view(-1)[5].add_(1e-15),
        lambda tensors, header: tensors["part3"].view(-1)[0].mul_(1.0000001),
        lambda tensors, header: tensors.update(ids=tensors["ids"] + 1),
        lambda tensors, header: tensors.pop("logits"),
        lambda tensors, header: header.update(model="another"),
        lambda tensors, header: header["made"].update(device="cuda"),
        lambda tensors, header: header.pop("digest"),
    ],
)
def test_a_changed_trace_is_refused(change, whole):
    rewritten(whole, change)
    assert refused(oa.InputError, lambda: oa.Trace.load(whole)) == (
        f"{whole} was changed after it was written, for its digest is another; record it anew"
    )


@pytest.mark.parametrize("kept", [0, 7, 100, -1, 0.5, 0.99])
def test_a_truncated_trace_is_refused(kept, whole):
    data = whole.read_bytes()
    whole.write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])
    message = refused(oa.InputError, lambda: oa.Trace.load(whole))
    assert message.startswith(f"{whole} is no trace, or not a whole one (") and message.endswith("); record it anew")
    assert "\n" not in message


def test_any_flipped_byte_is_noticed(whole):
    data = bytearray(whole.read_bytes())
    for place in range(3, len(data), len(data) // 60):
        changed = bytearray(data)
        changed[place] ^= 0x10
        whole.write_bytes(changed)
        with pytest.raises(oa.InputError):
            oa.Trace.load(whole)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    assert refused(oa.InputError, lambda: oa.Trace.load(path)) == f"{path} is no file; save a trace there, or name another"
    save_file({"a": torch.ones(2)}, str(path))
    assert "it has no header of the format 'opalgebra trace'" in refused(oa.InputError, lambda: oa.Trace.load(path))
    save_file({"a": torch.ones(2)}, str(path), metadata={"opalgebra": "[" * 100_000})
    assert "is no trace, or not a whole one" in refused(oa.InputError, lambda: oa.Trace.load(path))
    header = {"format": "opalgebra trace", "version": 99}
    save_file({"a": torch.ones(2)}, str(path), metadata={"opalgebra": json.dumps(header)})
    assert "its version is 99, and 1 is read here" in refused(oa.InputError, lambda: oa.Trace.load(path))


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(maps=[{"class": "Popen", "fields": {"args": "true"}}]),
        lambda header: header.update(maps=[{"activation": "exec"}]),
        lambda header: header.update(maps=header["maps"][:1] * 3 + [{"tensor": "part999", "shape": [2]}]),
        lambda header: header["maps"][0]["fields"].update(extra=1),
        lambda header: header.pop("readout"),
        lambda header: header.update(texts=7),
    ],
)
def test_a_header_that_says_something_else_makes_nothing(change, whole, monkeypatch):
    from opalgebra.models import trace

    def consistent(tensors, header):
        change(header)
        header.pop("digest")
        header["digest"] = trace._digest(tensors, header)

    rewritten(whole, consistent)
    message = refused(oa.InputError, lambda: oa.Trace.load(whole))
    assert message.startswith(f"{whole} is no trace that is known here (") and "\n" not in message


def test_what_is_asked_wrongly_is_refused(whole):
    network = tiny("llama")
    trace = oa.Trace.load(whole)
    for act, text in (
        (lambda: oa.record(network, IDS, weights="all"), "weights='all' is not known; use 'blocks' or 'reference'"),
        (lambda: oa.bind(trace, IDS), "a trace has its own input; bind it alone, or record another"),
        (lambda: oa.bind(network), "a model is bound at an input; give a text, or token ids (batch, tokens)"),
        (lambda: oa.bind(trace, gated="all"), "gated='all' is not known; use 'gate', 'up', 'half'"),
        (lambda: trace.save("/proc/none/x.safetensors"), "cannot be written"),
    ):
        assert text in refused(oa.InputError, act)


def test_an_interrupted_save_leaves_the_old_file(whole, monkeypatch):
    before = whole.read_bytes()
    trace = oa.Trace.load(whole)

    def failing(tensors, name, metadata):
        with open(name, "wb") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", failing)
    assert "No space left on device" in refused(oa.InputError, lambda: trace.save(whole))
    assert whole.read_bytes() == before
    assert [path.name for path in whole.parent.iterdir()] == [whole.name]


def test_activations_are_recognised_by_their_values():
    from transformers.activations import ACT2FN

    known = {
        "relu": "relu", "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh", "quick_gelu": "quick_gelu", "relu2": "relu_squared", "tanh": "tanh",
    }  # fmt: skip
    for name, expected in known.items():
        assert name_of(ACT2FN[name]) == expected
    assert refused(oa.ModelError, lambda: name_of(torch.nn.ELU())) == (
        f"the activation ELU is none of {', '.join(ACTIVATIONS)}, so it cannot be stored by name; "
        "record with weights='reference'"
    )


def test_each_piece_of_memory_is_stored_once(tmp_path):
    network = tiny("llama", tie_word_embeddings=True)
    path = saved(network, IDS, tmp_path / "run.safetensors")
    stored = sum(tensor.numel() for name, tensor in load_file(str(path)).items() if name.startswith("part"))
    weights = sum(parameter.numel() for parameter in network.parameters())
    frozen = sum(IDS.numel() * size for size in (2 * 20, 2 * 4 * 7, 4 * 1)) + 2 * 7 * 6 + 7 * 7
    assert weights <= stored <= weights + frozen
    assert network.config.vocab_size == VOCABULARY
