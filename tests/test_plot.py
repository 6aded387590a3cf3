"""Figures show the numbers of the result, and are the same bytes each time."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import torch
from numeric.models import tiny_llama, word_tokenizer

import opalgebra as oa
from opalgebra import plot
from opalgebra.plot import orders_figure, save_figure


@pytest.fixture(scope="module")
def results():
    M = oa.bind(oa.load(tiny_llama(), tokenizer=word_tokenizer()), "w1 w2 w3")
    return {f"counting {counting}": M.orders(counting=counting) for counting in ("all", "attention")}


def test_each_line_is_the_numbers_of_its_result(results):
    sizes, errors = orders_figure(results, position=1).axes
    for index, (label, result) in enumerate(results.items()):
        np.testing.assert_array_equal(sizes.lines[index].get_ydata(), result.norms[:, 1])
        np.testing.assert_array_equal(errors.lines[index].get_ydata(), result.partial_errors[:, 1])
        assert errors.lines[index].get_label() == label
    assert sizes.get_yscale() == errors.get_yscale() == "log"
    assert sizes.get_xlabel() == errors.get_xlabel() == "order $n$"


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_a_figure_is_written_whole_and_the_same_each_time(results, tmp_path, ending):
    first = save_figure(orders_figure(results), tmp_path / f"a.{ending}").read_bytes()
    second = save_figure(orders_figure(results), tmp_path / f"b.{ending}").read_bytes()
    assert first == second
    if ending == "svg":
        assert ElementTree.fromstring(first).tag.endswith("svg")


def test_results_with_a_batch_axis_are_refused():
    result = oa.bind(tiny_llama(), torch.tensor([[1, 2]])).orders()
    with pytest.raises(oa.InputError) as raised:
        orders_figure({"all": result})
    assert str(raised.value) == "a figure of orders shows one input; bind a text, or one row of token ids"


def test_without_matplotlib_the_command_that_installs_it_is_named(results, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(oa.InputError) as raised:
        plot.orders_figure(results)
    assert str(raised.value) == "a figure needs matplotlib; run `pip install 'opalgebra[plot]'`"
