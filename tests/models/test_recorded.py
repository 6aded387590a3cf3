"""Traces that were recorded on some device once, this one or a GPU: bound, verified, and made again here."""

import sys
from pathlib import Path

import pytest
import torch

import opalgebra as oa

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "bench"))
import record_trace  # noqa: E402

AMPLIFIED = 25
TRACES = sorted(HERE.glob("trace_*.safetensors"))


def test_there_is_a_trace():
    assert TRACES and all(path.stat().st_size < 2_000_000 for path in TRACES)


@pytest.fixture(params=TRACES, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.mark.parametrize("split", ["gate", "tangent", "source"])
@pytest.mark.parametrize("counting", ["all", "attention", "ffn"])
def test_a_recorded_run_is_bound_and_verified(path, counting, split):
    M = oa.bind(oa.Trace.load(path), split=split)
    report = oa.verify(M.T.dyson(counting=counting), M)
    assert M.deviation <= 1 and report.holds is True and report.residual < 1e-13


def test_it_says_where_it_was_made(path):
    made = oa.Trace.load(path).made
    assert made["device"].split()[0] == path.stem.removeprefix("trace_")
    assert made["dtype"] == "float64" and {"opalgebra", "torch", "transformers"} <= made.keys()


def test_the_same_run_made_here_gives_the_same_numbers(path):
    """The model's own last state there against the one here. Stages amplify what patterns and gates round by a factor that no
    bound of the frozen product has, AMPLIFIED for both; another weight would be seen at 1e-3.
    """
    M, here = oa.bind(oa.Trace.load(path)), oa.bind(record_trace.model(), record_trace.ids())
    assert M.T == here.T and torch.equal(M.ids, here.ids)
    bounds = torch.tensor(oa.verify(here.T.dyson(), here).bounds)
    own, other = (binding.reference.states[-1] for binding in (M, here))
    assert ((own - other).norm(dim=-1) <= AMPLIFIED * bounds * other.norm(dim=-1)).all()
    assert AMPLIFIED * bounds.max() < 1e-10
    assert abs(M.orders(counting="attention").norms - here.orders(counting="attention").norms).max() < 1e-10


def test_a_changed_byte_is_refused(path, tmp_path):
    data = bytearray(path.read_bytes())
    data[-7] ^= 0x10
    (tmp_path / "changed.safetensors").write_bytes(data)
    with pytest.raises(oa.InputError, match="was changed after it was written"):
        oa.bind(oa.Trace.load(tmp_path / "changed.safetensors"))
