"""Every proof runs, and proves what expansion gives on its own."""

import runpy
from pathlib import Path

import pytest

import opalgebra as oa

PROOFS = sorted((Path(__file__).parent.parent / "proofs").glob("*.py"))


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.stem)
def test_each_proof_gives_a_theorem_without_hypotheses(path):
    theorem = runpy.run_path(str(path))[path.stem]()
    assert isinstance(theorem, oa.Theorem)
    assert not theorem.hypotheses


def test_one_layer_by_hand_is_the_expansion():
    path = next(path for path in PROOFS if path.stem == "one_layer")
    theorem = runpy.run_path(str(path))["one_layer"]()
    assert theorem.rhs is oa.expand(theorem.lhs).rhs
    assert len(theorem.rhs.terms) == 7
