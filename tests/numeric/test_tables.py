"""Results as tables: the numbers in the cells are those of the result, at the token that the caption names."""

import pytest
import torch
from numeric.models import tiny_llama

import opalgebra as oa
from opalgebra.testing import check_model

IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 36]])


@pytest.fixture(scope="module")
def M():
    return oa.bind(tiny_llama(), IDS)


@pytest.fixture(scope="module")
def one():
    return oa.bind(tiny_llama(), IDS[:1])


def test_the_table_of_orders_is_that_of_the_last_token(bound):
    R = bound.orders(counting="attention", order=3)
    table = oa.table(R)
    assert list(table.headers) == ["order", "norm", "source-born", "error of the partial sum"]
    assert [row[1:] for row in table.rows] == [
        [R.norms[k, -1], R.source_norms[k, -1], R.partial_errors[k, -1]] for k in range(len(R.norms))
    ]
    assert "counting attention" in table.caption
    assert R._repr_html_().count("<tr>") == 1 + len(R.norms)
    assert oa.latex(R).startswith(r"\begin{tabular}{rrrr}")


def test_a_batch_has_a_row_for_each_of_its_rows(M):
    R = M.orders()
    rows = oa.table(R).rows
    assert [row[:2] for row in rows] == [[row, k] for row in range(2) for k in range(R.norms.shape[1])]
    assert rows[-1][2] == R.norms[1, -1, -1]


def test_padding_is_not_the_last_token():
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    R = oa.bind(tiny_llama(), IDS, mask=mask).orders()
    assert oa.table(R).rows[-1][2] == R.norms[1, -1, 2]


def test_the_table_of_logits_adds_up(bound):
    logits = bound.orders().logits(" Mary", minus=" John")
    rows = oa.table(logits).rows
    *orders, (_, bias), (last, model) = rows
    assert last == "model"
    assert sum(value for _, value in orders) + bias + float(logits.rounding) == pytest.approx(model, rel=1e-12)


def test_logits_of_a_batch_are_many_tables(M):
    with pytest.raises(oa.InputError, match=r"^there are 2 rows of logits; make the table of each"):
        oa.table(M.orders().logits(3))


def test_reports_are_tables(one):
    report = oa.verify(one.T.dyson(), one)
    table = oa.table(report)
    assert table.headers[1] == report.what
    assert ("residual", report.residual) in table.rows
    assert "cannot" not in oa.latex(report)
    assert "<table>" in report._repr_html_()
    assert "float64" in str(oa.table(check_model(tiny_llama(), IDS)))
