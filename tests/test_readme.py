"""The session in the README prints what the README says; digits that rounding decides are compared by size."""

import doctest
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?e-\d+")
NOISE = 1e-9
FACTOR = 30


class Session(doctest.OutputChecker):
    """Text is compared exactly, numbers in scientific notation to a per cent, those below `NOISE` to a factor."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if not super().check_output(NUMBER.sub("#", want), NUMBER.sub("#", got), optionflags):
            return False
        pairs = zip(map(float, NUMBER.findall(want)), map(float, NUMBER.findall(got)), strict=True)
        return all(self.close(*pair) for pair in pairs)

    def close(self, want: float, got: float) -> bool:
        factor = FACTOR if want < NOISE else 1.01
        return want / factor <= got <= want * factor


def failures(text: str) -> int:
    runner = doctest.DocTestRunner(Session(), verbose=False)
    runner.run(doctest.DocTestParser().get_doctest(text, {}, "README.md", str(README), 0))
    return runner.failures


@pytest.mark.models
def test_the_readme_session_prints_what_the_readme_says():
    assert failures(README.read_text(encoding="utf-8")) == 0


def test_a_wrong_number_or_word_in_a_session_is_seen(capsys):
    right = ">>> print('holds 6.79e-14 3.21e-02')\n"
    assert failures(right + "holds 1.20e-13 3.21e-02\n") == 0
    assert failures(right + "holds 6.79e-11 3.21e-02\n") == 1
    assert failures(right + "holds 6.79e-14 3.29e-02\n") == 1
    assert failures(right + "fails 6.79e-14 3.21e-02\n") == 1


def test_the_figure_of_the_readme_exists():
    figures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert figures and all((README.parent / figure).is_file() for figure in figures)
