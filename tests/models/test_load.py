"""A name, a folder or a model object becomes one record; what cannot be read is refused on one line that says what to do."""

import json
import shutil

import pytest
import torch
import transformers
from numeric.models import tiny_llama, word_tokenizer

import opalgebra as oa
from opalgebra.errors import InputError, ModelError

IDS = [[5, 11, 23]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model in float32 and its tokenizer."""
    folder = tmp_path_factory.mktemp("saved") / "tiny"
    tiny_llama(1, dtype=torch.float32).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def copied(saved, tmp_path):
    """A copy of that folder to be spoilt."""
    return shutil.copytree(saved, tmp_path / "copied")


def configured(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder


def refusal(error, *arguments, **options) -> str:
    with pytest.raises(error) as caught:
        oa.load(*arguments, **options)
    text = str(caught.value)
    assert len(text.splitlines()) == 1 and not text.endswith(".")
    return text


def same_weights(one, other) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == other_name and torch.equal(value.double(), twin.double()) for (name, value), (other_name, twin) in pairs)


def test_a_model_object_is_taken_as_it_is():
    network, tokenizer = tiny_llama(dtype=torch.float32).train(), word_tokenizer()
    model = oa.load(network, tokenizer=tokenizer)
    assert model.network is network and model.tokenizer is tokenizer and model.name == "LlamaForCausalLM"
    assert network.training and oa.load(network).tokenizer is None
    assert oa.load(network, dtype=torch.float32, device="cpu").network is network
    assert repr(model) == "Model(LlamaForCausalLM: LlamaForCausalLM, 10,980 parameters, float32, cpu)"


@pytest.mark.parametrize("dtype", ["float64", torch.float64, "bfloat16", torch.float16])
def test_another_dtype_gives_a_converted_copy_and_leaves_the_object_unchanged(dtype):
    network = tiny_llama(dtype=torch.float32)
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    model = oa.load(network, dtype=dtype)
    wished = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    assert model.network is not network
    assert {value.dtype for value in model.network.parameters()} == {wished}
    assert {value.dtype for value in network.parameters()} == {torch.float32}
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())
    own = {value.data_ptr() for value in network.parameters()}
    assert not own & {value.data_ptr() for value in model.network.parameters()}


def test_a_converted_float32_model_computes_in_float64():
    network = tiny_llama(2, dtype=torch.float32)
    model = oa.load(network, dtype="float64")
    binding = oa.bind(model, IDS)
    assert binding.dtype == torch.float64 and binding.deviation < 1
    assert oa.bind(network, IDS).dtype == torch.float32


def test_tied_weights_stay_tied_in_a_converted_copy():
    model = oa.load(tiny_llama(tied=True, dtype=torch.float32), dtype="float64")
    assert model.network.lm_head.weight is model.network.model.embed_tokens.weight


def test_another_device_gives_a_copy_there():
    network = tiny_llama(dtype=torch.float32)
    model = oa.load(network, device="meta")
    assert {value.device.type for value in model.network.parameters()} == {"meta"}
    assert {value.device.type for value in network.parameters()} == {"cpu"}


def test_a_module_without_parameters_is_refused():
    text = "cannot use ReLU: it has no parameters; give a Transformer's model object"
    assert refusal(ModelError, torch.nn.ReLU()) == text


@pytest.mark.parametrize("dtype", ["int8", "double precision", torch.int64, torch.complex64])
def test_a_dtype_that_no_model_has_is_refused(dtype, saved):
    text = f"dtype {str(dtype)!r} is not a floating dtype of a model; give one of float64, float32, bfloat16, float16"
    assert refusal(InputError, tiny_llama(layers=1), dtype=dtype) == text
    assert refusal(InputError, saved, dtype=dtype) == text


@pytest.mark.parametrize("source", ["object", "folder"])
def test_a_device_that_is_not_here_is_refused(source, saved):
    text = refusal(InputError, saved if source == "folder" else tiny_llama(layers=1), device="nowhere")
    assert text.startswith("device 'nowhere' cannot hold float64 here (")
    assert text.endswith("); give device='cpu', or a dtype that this device has")


@pytest.mark.parametrize("kind", [str, lambda folder: folder])
def test_a_folder_gives_float64_eager_attention_evaluation_no_gradients_and_its_tokenizer(kind, saved):
    model = oa.load(kind(saved))
    assert same_weights(model.network, tiny_llama(1, dtype=torch.float32))
    assert {value.dtype for value in model.network.parameters()} == {torch.float64}
    assert not any(value.requires_grad for value in model.network.parameters())
    assert not any(module.training for module in model.network.modules())
    assert model.network.config._attn_implementation == "eager" and model.name == str(saved)
    assert model.token_ids("w5 w11") == [5, 11] and model.token_texts([5, 11]) == ["w5", "w11"]
    assert oa.bind(kind(saved), "w5 w11 w23").ids.tolist() == IDS
    assert {value.dtype for value in oa.load(saved, dtype="float32").network.parameters()} == {torch.float32}


def test_a_tokenizer_that_is_given_replaces_the_one_found(saved):
    tokenizer = word_tokenizer()
    assert oa.load(saved, tokenizer=tokenizer).tokenizer is tokenizer


def test_a_folder_without_a_tokenizer_has_none(copied):
    for file in copied.glob("tokenizer*"):
        file.unlink()
    assert oa.load(copied).tokenizer is None


def test_a_folder_of_the_base_model_is_loaded_without_a_head(tmp_path):
    tiny_llama(3, dtype=torch.float32).model.save_pretrained(tmp_path)
    model = oa.load(tmp_path)
    assert type(model.network) is transformers.LlamaModel
    assert oa.bind(model, IDS).reference.logits is None


def test_loading_leaves_the_settings_of_the_other_library_alone(saved, capfd):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    oa.load(saved)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["nosuchmodel", "nobody/nothing", "./no/such/folder"])
def test_an_unknown_name_is_refused_with_what_could_be_given(name):
    assert refusal(ModelError, name) == (
        f"cannot load {name!r}: it is not a known name ('smollm2', 'minilm') nor a local folder, and the Hugging Face hub has "
        "no such model or cannot be reached; give one of these names, a folder written by save_pretrained, a hub id, or a "
        "model object"
    )


def test_a_folder_without_a_configuration_is_refused(tmp_path):
    assert refusal(ModelError, tmp_path) == (
        f"cannot load {str(tmp_path)!r}: the folder has no config.json; give a folder written by save_pretrained"
    )


def test_a_configuration_that_is_no_json_is_refused(copied):
    (copied / "config.json").write_text("{not json")
    assert refusal(ModelError, copied) == (
        f"cannot load {str(copied)!r}: its config.json cannot be read; give a folder written by save_pretrained"
    )


def test_a_configuration_that_contradicts_itself_is_refused(copied):
    text = refusal(ModelError, configured(copied, num_attention_heads=3))
    assert text.startswith(f"cannot load {str(copied)!r}: its configuration contradicts itself (")
    assert "(20)" in text and "(3)" in text


def test_an_architecture_that_transformers_does_not_know_is_refused(copied):
    version = transformers.__version__
    text = refusal(ModelError, configured(copied, model_type="nosuch"))
    assert text.startswith(f"cannot load {str(copied)!r}: transformers {version} does not know its architecture (")
    assert "nosuch" in text and text.endswith("; save it from a model class of transformers, or upgrade transformers")


@pytest.mark.parametrize("architecture", ["OwnLlama", "LlamaConfig", "logging"])
def test_a_class_that_transformers_does_not_have_is_refused_and_no_code_is_run(architecture, copied):
    (copied / "own.py").write_text("raise SystemExit('code of a repository was run')")
    folder = configured(copied, architectures=[architecture], auto_map={"AutoModelForCausalLM": f"own.{architecture}"})
    assert refusal(ModelError, folder) == (
        f"cannot load {str(folder)!r}: its class {architecture} is not part of transformers {transformers.__version__}, and "
        "code of a repository is never run; load it yourself and give the model object"
    )


def unreadable(folder) -> str:
    return f"cannot load {str(folder)!r}: the weights in {folder} cannot be read ("


def test_weights_in_a_pickle_are_refused(copied):
    (copied / "model.safetensors").unlink()
    torch.save(tiny_llama(1, dtype=torch.float32).state_dict(), copied / "pytorch_model.bin")
    text = refusal(ModelError, copied)
    assert text.startswith(unreadable(copied)) and text.endswith("); only safetensors files are read")


def test_a_folder_without_weights_is_refused(copied):
    (copied / "model.safetensors").unlink()
    assert refusal(ModelError, copied).startswith(unreadable(copied))


@pytest.mark.parametrize("kept", [0, 4, 100, 5000, -1])
def test_a_broken_weights_file_is_refused_on_one_line(kept, copied):
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    text = refusal(ModelError, copied)
    assert text.startswith(unreadable(copied)) and text.endswith("); only safetensors files are read")


def test_weights_that_are_no_safetensors_are_refused_on_one_line(copied):
    (copied / "model.safetensors").write_bytes(b"these are no weights, only words" * 99)
    assert refusal(ModelError, copied).startswith(unreadable(copied))


def test_a_weight_that_the_files_lack_is_refused_and_not_left_random(copied):
    assert refusal(ModelError, configured(copied, num_hidden_layers=4)) == (
        f"cannot load {str(copied)!r}: the files in {copied} do not have the weight model.layers.3.input_layernorm.weight, nor "
        "8 others; the configuration and the weights do not belong together"
    )


def test_a_weight_of_another_shape_is_refused(copied):
    assert refusal(ModelError, configured(copied, intermediate_size=30)) == (
        f"cannot load {str(copied)!r}: the files in {copied} do not have the weight model.layers.0.mlp.down_proj.weight as "
        "(20, 30), only as (20, 28), nor 8 others; the configuration and the weights do not belong together"
    )


def test_without_transformers_a_name_is_refused_with_the_command_that_installs_it(saved, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    assert refusal(ModelError, saved) == (
        f"cannot load {str(saved)!r}: this needs transformers, safetensors and gguf; run `pip install 'opalgebra[models]'`"
    )


@pytest.mark.models
def test_a_known_name_gives_real_weights_and_their_tokenizer(smollm2):
    assert repr(smollm2) == "Model(smollm2: LlamaForCausalLM, 134,515,008 parameters, float64, cpu)"
    assert smollm2.network.lm_head.weight is smollm2.network.model.embed_tokens.weight
    assert smollm2.token_id(" Mary") == smollm2.token_ids("When Mary")[1]
    with pytest.raises(InputError) as caught:
        smollm2.token_id(" Mary and John")
    assert str(caught.value) == "' Mary and John' is 3 tokens of smollm2; give a text that is one token, or an id"
