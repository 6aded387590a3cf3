"""The demonstration writes what it says, from the model's real numbers, and its article compiles."""

import csv
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

import opalgebra as oa
from opalgebra import report
from opalgebra.render.table import number
from opalgebra.report import demo

ALL = [3.23e-3, 4.15e-2, 1.73e-1, 6.78e-1, 2.02, 4.60, 9.02, 14.5, 19.7, 22.5]
ATTENTION = [9.50e-2, 3.34e-1, 3.57e-1, 2.01e-1, 8.14e-2, 2.88e-2, 1.02e-2]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of one run, and what it said."""
    folder, lines = tmp_path_factory.mktemp("demo"), []
    demo(folder, say=lines.append)
    return folder, "\n".join(lines)


@pytest.mark.models
def test_the_table_of_orders_has_the_known_numbers(written):
    folder, _ = written
    with (folder / "orders.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["token"] == "13"]
    for label, expected in (("counting all", ALL), ("counting attention", ATTENTION)):
        norms = [float(row["norm"]) for row in rows if row["series"] == label]
        assert norms[: len(expected)] == pytest.approx(expected, rel=0.01)
        assert len(norms) == (61 if label == "counting all" else 31)
    assert {row["text"] for row in rows} == {" to"}


@pytest.mark.models
def test_what_it_says_has_the_orders_and_the_verdicts(written):
    folder, said = written
    assert "    0     3.234e-03    1.000e+00     9.499e-02    9.306e-01     3.234e-03    1.000e+00\n" in said
    assert "\ncond.         188.1 " in said
    assert "\nDyson series counting all: holds\n" in said
    assert "\nDyson series counting attention: holds\n" in said
    assert "\nlayer 2 in the wrong order: does not hold, residual " in said
    assert "\nhead 3 of layer 8 left out: does not hold, residual " in said
    assert said.endswith(f"written: {folder}/report.tex, orders.csv, orders.svg")


@pytest.mark.models
def test_only_the_three_results_are_left(written):
    assert {"report.tex", "orders.csv", "orders.svg"} <= {path.name for path in written[0].iterdir()}
    assert not [path for path in written[0].iterdir() if path.name.startswith(".")]


@pytest.mark.models
def test_the_figure_in_the_readme_is_the_one_that_the_demonstration_makes(written):
    """The same drawing; coordinates are left out, since rounding moves their last digits."""

    def drawing(path):
        lines = path.read_text().splitlines()
        return [line for line in lines if line.lstrip().startswith(("<g id", "<use")) and " x=" not in line]

    committed = Path(__file__).parent.parent / "examples" / "orders.svg"
    assert drawing(written[0] / "orders.svg") == drawing(committed)


@pytest.mark.models
@pytest.mark.tex
def test_the_article_compiles_without_overfull_lines(written, tmp_path):
    assert shutil.which("pdflatex"), "install texlive-latex-base, texlive-latex-recommended and texlive-pictures"
    shutil.copy(written[0] / "report.tex", tmp_path)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout[-2000:]
    assert "Overfull" not in finished.stdout
    assert (tmp_path / "report.pdf").stat().st_size > 10_000


@pytest.mark.models
def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(oa.InputError, match="cannot be written"):
        demo(tmp_path / "file", say=lambda line: None)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "value, latex",
    [(1.0, "$1.00$"), (0.0323, r"$3.23\cdot 10^{-2}$"), (-188.1, r"$-1.88\cdot 10^{2}$"), (0.0, "$0.00$")],
)
def test_numbers_in_tables(value, latex):
    assert number(value) == latex


def test_the_prompt_is_the_one_of_the_known_numbers():
    assert report.PROMPT == "When Mary and John went to the store, John gave a drink to"
