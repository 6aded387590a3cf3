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


def test_the_logits_of_a_batch_have_a_column_each(M):
    logits = M.orders().logits(3)
    table = oa.table(logits)
    assert list(table.headers) == ["order", "row 0", "row 1"]
    assert list(table.rows[-1]) == ["model", *logits.model]
    assert [row[2] for row in table.rows[:-2]] == logits.orders[1].tolist()


def test_reports_are_tables(one):
    report = oa.verify(one.T.dyson(), one)
    table = oa.table(report)
    assert table.headers[1] == report.what
    assert ("residual", report.residual) in table.rows
    assert "cannot" not in oa.latex(report)
    assert "<table>" in report._repr_html_()
    assert "float64" in str(oa.table(check_model(tiny_llama(), IDS)))


def test_every_value_has_a_display_for_notebooks(M, one):
    """Every kind of value that public functions give: a formula, a table or a picture."""
    V, A, F, x = oa.family("V", kind="linear"), oa.Atom("A", kind="linear"), oa.Atom("F", kind="nonlinear"), oa.state("x")
    T, g = oa.transformer(2), oa.parameter("g")
    S = T.dyson()
    R = one.orders()
    formulas = [
        V, A, F @ x, g**2 + 1, oa.wildcard("p") @ A, oa.Linear(F), oa.equation(A, V[1]), oa.expand(F @ x), T, S, S.term(1, 0),
        oa.calc(A), oa.coefficients(oa.inverse(1 - g * A), g, 2), oa.derivative(g * A, g), oa.dyson_theorem(V, oa.symbol("L")),
    ]  # fmt: skip
    diagram = oa.Diagram(S.term(1, 0))
    pictures = [diagram, oa.token_diagram(diagram, 3), oa.picture_of_order(S, 1)]
    trace = oa.record(tiny_llama(), IDS)
    tables = [M, R, R.logits(3, minus=4), oa.verify(one.T.dyson(), one), oa.load(tiny_llama()), trace, oa.Table(["a"], [[1]])]
    for value in formulas:
        assert value._repr_latex_() == rf"$\displaystyle {oa.latex(value)}$"
    for value in pictures:
        assert value._repr_svg_().startswith("<?xml")
    for value in tables:
        assert value._repr_html_().startswith("<table>")
        assert str(oa.table(value))
    for value in [*formulas, *pictures, *tables]:
        assert "object at 0x" not in repr(value)
