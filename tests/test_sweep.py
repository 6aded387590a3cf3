"""A sweep: each prompt has its result once, whatever computes it and however often it is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import swept
import torch

import opalgebra as oa

HERE = Path(__file__).parent
PROMPTS = ["Mary", "John and Mary", "", "Mary", "Zoë"]


class Backwards(Executor):
    """The last that was submitted is done first; `times` is how often each task is run."""

    def __init__(self, times=1):
        self.waiting, self.times = [], times

    def submit(self, function, /, *arguments, **named):
        future = Future()
        self.waiting.append((future, function, arguments))
        if len(self.waiting) == len(PROMPTS):
            for future_, function_, given in reversed(self.waiting):
                for _ in range(self.times):
                    result = function_(*given)
                future_.set_result(result)
        return future


def refused(act, error=oa.InputError):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def journal_of(path):
    return path.with_name(f".{path.name}.journal")


def test_results_are_in_the_order_of_the_prompts():
    assert oa.sweep(len, PROMPTS) == [4, 13, 0, 4, 3]
    assert oa.sweep(len, (prompt for prompt in PROMPTS)) == [4, 13, 0, 4, 3]
    assert oa.sweep(sum, [[1, 2], [3]]) == [3, 3]


@pytest.mark.parametrize("executor", [lambda: ThreadPoolExecutor(3), lambda: ProcessPoolExecutor(2), Backwards, lambda: None])
def test_every_executor_writes_the_same_file(executor, tmp_path):
    oa.sweep(swept.length, PROMPTS, path=tmp_path / "here.jsonl")
    there = tmp_path / "new folder" / "there.jsonl"
    found = oa.sweep(swept.length, PROMPTS, executor(), path=there)
    assert found == [swept.length(prompt) for prompt in PROMPTS]
    assert there.read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    assert [path.name for path in there.parent.iterdir()] == ["there.jsonl"]


def test_the_file_says_what_it_is_of(tmp_path):
    path = tmp_path / "run.jsonl"
    oa.sweep(swept.length, PROMPTS, path=path)
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert header["sweep"] == "swept.length" and header["prompts"] == 5 and len(header["sha256"]) == 64
    assert [line["prompt"] for line in lines] == PROMPTS and [line["number"] for line in lines] == list(range(5))


def test_results_that_finish_in_another_order_are_put_in_order():
    assert oa.sweep(swept.slowly, range(30), ThreadPoolExecutor(8)) == [n * n for n in range(30)]


def test_a_sweep_that_was_stopped_goes_on_where_it_was(tmp_path):
    path, calls = tmp_path / "run.jsonl", []

    def at_most(limit):
        def function(prompt):
            calls.append(prompt)
            if len(calls) > limit:
                raise RuntimeError("stopped")
            return prompt / 3

        function.__qualname__ = "function"
        return function

    said = refused(lambda: oa.sweep(at_most(12), range(30), path=path))
    assert said == "the sweep stopped at prompt 12, 12: RuntimeError: stopped"
    assert not path.exists() and len(journal_of(path).read_text().splitlines()) == 13
    assert oa.sweep(at_most(100), range(30), path=path) == [n / 3 for n in range(30)]
    assert calls == [*range(13), *range(12, 30)] and not journal_of(path).exists()
    assert oa.sweep(at_most(0), range(30), path=path) == [n / 3 for n in range(30)]
    assert len(calls) == 31


def test_a_last_line_that_was_cut_off_is_computed_again(tmp_path):
    path = tmp_path / "run.jsonl"
    refused(lambda: oa.sweep(swept.fails, range(20), path=path))
    journal = journal_of(path)
    for cut in range(1, 25):
        kept = journal.read_bytes()
        journal.write_bytes(kept[:-cut])
        refused(lambda: oa.sweep(swept.fails, range(20), path=path))
        assert journal.read_bytes() == kept


def test_a_process_that_was_killed_loses_nothing(tmp_path):
    notes, path = tmp_path / "notes", tmp_path / "run.jsonl"
    notes.mkdir()
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from functools import partial; import swept, opalgebra as oa\n"
        "oa.sweep(partial(swept.noted, folder=sys.argv[2]), range(60), path=sys.argv[3])"
    )
    running = subprocess.Popen([sys.executable, "-c", program, str(HERE), str(notes), str(path)])
    while len(list(notes.iterdir())) < 20:
        time.sleep(0.005)
        assert running.poll() is None
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = len(journal_of(path).read_text().splitlines()) - 1
    assert 18 <= done < 60 and not path.exists()
    assert oa.sweep(partial(swept.noted, folder=str(notes)), range(60), path=path) == [n / 3 for n in range(60)]
    begun = [len((notes / f"{n}").read_text().splitlines()) for n in range(60)]
    assert begun[:done] == [1] * done and sum(begun) <= 61


def test_a_lost_worker_stops_the_sweep_and_loses_nothing(tmp_path):
    path = tmp_path / "run.jsonl"
    with ProcessPoolExecutor(1) as pool:
        assert "resumes" in refused(lambda: oa.sweep(swept.dies, range(20), pool, path=path))
    kept = journal_of(path).read_text().splitlines()[1:]
    assert [json.loads(line)["number"] for line in kept] == list(range(len(kept))) and len(kept) <= swept.TROUBLE


@pytest.mark.parametrize("executor", [lambda: None, lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2)])
def test_a_failure_names_its_prompt(executor):
    said = refused(lambda: oa.sweep(swept.fails, range(20), executor()))
    assert said == "the sweep stopped at prompt 7, 7: ValueError: seven is too much"


class Figures:
    def to_dict(self):
        return {"norms": np.array([[1.5, 2.0]]), "name": "x", "none": None}


def test_results_are_plain():
    assert oa.sweep(lambda prompt: Figures(), ["a"]) == [{"norms": [[1.5, 2.0]], "name": "x", "none": None}]
    assert oa.sweep(lambda prompt: (np.float64(0.1), np.int64(3), True), ["a"]) == [[0.1, 3, True]]


@pytest.mark.parametrize("result, says", [
    (float("nan"), "the result of prompt 1 is nan"),
    ({"norms": [1.0, float("inf")]}, "the result of prompt 1, norms, item 1 is inf"),
    ({"a": {2: 1}}, "prompt 1, a has the key 2"),
    (object(), "prompt 1 is a object"),
    (1j, "complex"),
])  # fmt: skip
def test_what_json_does_not_hold_is_named(result, says):
    assert says in refused(lambda: oa.sweep(lambda prompt: result if prompt else 0, [0, 1]))


def test_bad_input():
    assert "at least one" in refused(lambda: oa.sweep(len, []))
    assert "no executor" in refused(lambda: oa.sweep(len, ["a"], 4))
    assert "prompt 0 is a set" in refused(lambda: oa.sweep(len, [{1}]))


def test_the_file_of_another_sweep_is_left_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    oa.sweep(swept.length, PROMPTS, path=path)
    before = path.read_bytes()
    for function, prompts in ((len, PROMPTS), (swept.length, PROMPTS[:4]), (partial(swept.length), PROMPTS)):
        assert "not of this sweep" in refused(lambda function=function, prompts=prompts: oa.sweep(function, prompts, path=path))
    refused(lambda: oa.sweep(swept.fails, range(20), path=tmp_path / "other.jsonl"))
    kept = journal_of(tmp_path / "other.jsonl").read_bytes()
    assert "not of this sweep" in refused(lambda: oa.sweep(swept.slowly, range(20), path=tmp_path / "other.jsonl"))
    assert path.read_bytes() == before and journal_of(tmp_path / "other.jsonl").read_bytes() == kept


def test_damage_is_seen(tmp_path):
    path = tmp_path / "run.jsonl"
    refused(lambda: oa.sweep(swept.fails, range(20), path=path))
    header, *lines = journal_of(path).read_text().splitlines()
    for damaged in ([*lines, lines[0]], [lines[0][:-3], *lines[1:]], [*lines, '{"number": 20, "result": 1}']):
        journal_of(path).write_text("\n".join([header, *damaged, ""]))
        assert "damaged" in refused(lambda: oa.sweep(swept.fails, range(20), path=path))
    path = tmp_path / "whole.jsonl"
    oa.sweep(swept.length, PROMPTS, path=path)
    header, *lines = path.read_text().splitlines()
    for damaged in (lines[1:], [lines[1], lines[0], *lines[2:]], [*lines, lines[0]]):
        path.write_text("\n".join([header, *damaged, ""]))
        assert "damaged" in refused(lambda: oa.sweep(swept.length, PROMPTS, path=path))


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(lambda: oa.sweep(len, ["a"], path=tmp_path / "file" / "run.jsonl"))


def test_a_bar_is_shown_when_asked(capsys):
    oa.sweep(len, PROMPTS, progress=True)
    assert "5/5" in capsys.readouterr().err
    oa.sweep(len, PROMPTS, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_dask_worker_is_killed_in_the_middle_of_200_prompts(tmp_path, monkeypatch):
    from dask.distributed import Client, LocalCluster

    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE / "models"), *sys.path]))
    monkeypatch.setenv("SWEPT_NOTES", str(there))
    monkeypatch.syspath_prepend(str(HERE / "models"))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        ThreadPoolExecutor(1) as beside,
    ):
        path = there.with_suffix(".jsonl")
        running = beside.submit(oa.sweep, swept.orders, range(200), client.get_executor(), path=path)
        while len(list(there.iterdir())) < 60:
            time.sleep(0.01)
            assert not running.done()
        victim = next(iter(cluster.workers.values())).pid
        os.kill(victim, signal.SIGKILL)
        assert len(list(there.iterdir())) < 190
        found = running.result(timeout=500)
    assert any(str(victim) in note.read_text().split() for note in there.iterdir())
    monkeypatch.setenv("SWEPT_NOTES", str(here))
    threads = torch.get_num_threads()
    try:
        assert oa.sweep(swept.orders, range(200), path=here.with_suffix(".jsonl")) == found
    finally:
        torch.set_num_threads(threads)
    assert here.with_suffix(".jsonl").read_bytes() == path.read_bytes()
    assert len(path.read_text().splitlines()) == 201 and len(list(here.iterdir())) == len(list(there.iterdir())) == 200
