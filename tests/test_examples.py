"""Every example runs and prints what stands beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

SLOW = ("non_normality", "resummation", "strongest_diagrams")
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow, pytest.mark.models] if path.stem in SLOW else [])
    for path in sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
]


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example_prints_what_stands_beside_it(path, tmp_path):
    finished = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert finished.stdout == path.with_suffix(".txt").read_text(encoding="utf-8")
    assert finished.stderr == ""
