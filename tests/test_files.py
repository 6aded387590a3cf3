"""A result appears whole under its name or not at all."""

import os
import stat

import pytest

import opalgebra as oa
from opalgebra.files import write_text, write_whole


def test_a_result_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "deep" / "result.txt"
    assert write_text(path, "first: ₁\n") == path
    write_text(path, "second\n")
    assert path.read_text(encoding="utf-8") == "second\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(path.parent) == ["result.txt"]


@pytest.mark.parametrize("failure", [ValueError("broken"), KeyboardInterrupt()])
def test_after_a_failure_the_old_result_stands_and_nothing_else(tmp_path, failure):
    path = write_text(tmp_path / "result.txt", "old")

    def half(beside):
        beside.write_text("ne")
        raise failure

    with pytest.raises(type(failure)):
        write_whole(path, half)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.txt"]


def test_the_temporary_file_has_the_ending_of_the_result(tmp_path):
    seen = []
    write_whole(tmp_path / "figure.svg", lambda beside: seen.append(beside.suffix) or beside.write_text(""))
    assert seen == [".svg"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(oa.InputError) as raised:
        write_text(tmp_path / "file" / "result.txt", "")
    assert str(raised.value) == f"{tmp_path}/file/result.txt cannot be written (File exists); choose another place"
    (tmp_path / "folder").mkdir()
    with pytest.raises(oa.InputError) as raised:
        write_text(tmp_path / "folder", "")
    assert str(raised.value) == f"{tmp_path}/folder cannot be written (Is a directory); choose another place"
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
