"""Every example runs and prints what stands beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SLOW = {"non_normality"}


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.slow if path.stem in SLOW else (), id=path.stem) for path in EXAMPLES]
)
def test_an_example_prints_what_stands_beside_it(path):
    finished = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert finished.stdout == path.with_suffix(".txt").read_text(encoding="utf-8")
    assert finished.stderr == ""
