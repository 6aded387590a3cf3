"""A paper's own notation in every formula, tables in every form, bodies of articles for `\\input`."""

import copy
import pickle
import re
import subprocess
from dataclasses import FrozenInstanceError, dataclass
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from test_rendering import compile_with_pdflatex

import opalgebra as oa
from opalgebra.display import Tabulated
from opalgebra.render import notation as letters
from opalgebra.render.series_latex import series_legend
from opalgebra.render.table import tabular

V = oa.family("V", kind="linear")
W = oa.family("W", kind="nonlinear")
A, B = oa.atoms("A B", kind="linear")
F, x = oa.Atom("F", kind="nonlinear"), oa.state("x")
head = oa.Atom("A2_1", kind="attention")
hats = oa.Notation(operator=r"\hat", index="superscript")
units = oa.Notation(identity=r"\mathbb{1}")
names = oa.Notation(letters={"A": r"\mathcal{A}", "mlp": r"\Phi"})


@pytest.mark.parametrize(
    ("value", "notation", "written"),
    [
        (V[3], hats, r"\hat{V}^{(3)}"),
        (head, hats, r"\hat{A}^{(2,1)}"),
        (oa.dressed(head, x), hats, r"\hat{A}^{(2,1)}\langle x\rangle"),
        (oa.source(oa.Atom("F3", kind="ffn"), oa.state("x2")), hats, r"f^{(3)}\langle x^{(2)}\rangle"),
        (oa.Atom("lambda_max3", kind="linear"), hats, r"\hat{\lambda}_{\mathrm{max}}^{(3)}"),
        (oa.inverse(V[3]), hats, r"(\hat{V}^{(3)})^{-1}"),
        (oa.adjoint(V[3]), hats, r"(\hat{V}^{(3)})^{\dagger}"),
        (oa.inverse(A), hats, r"{\hat{A}}^{-1}"),
        (oa.Nilpotent(V[3], 2), hats, r"{(\hat{V}^{(3)})}^{2} = 0"),
        (oa.Nilpotent(A, 2), oa.Notation(), r"{A}^{2} = 0"),
        (V[oa.symbol("l") + 1], hats, r"\hat{V}^{(l+1)}"),
        (1 + A, units, r"\mathbb{1} + A"),
        (2 - A @ B, units, r"2\,\mathbb{1} - A\,B"),
        (oa.Identity(), units, r"\mathbb{1}"),
        (A @ oa.Atom("mlp2", kind="linear"), names, r"\mathcal{A}\,\Phi_{2}"),
        (oa.expand((1 + F) @ x), hats, r"\vdash\; (1 + \hat{F})x = x + f\langle x\rangle + \hat{F}\langle x\rangle\,x"),
        (oa.transformer(2), hats,
         r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{2}\,"
         r"(1 + \hat{F}^{(l)}\,\hat{M}^{(l)})(1 + \hat{A}^{(l)}\,\hat{N}^{(l)})"),
        (oa.transformer(1, norms="absorbed"), units,
         r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{1}\,(\mathbb{1} + F_{l})(\mathbb{1} + A_{l})"),
    ],
)  # fmt: skip
def test_a_notation_is_kept_in_every_formula(value, notation, written):
    assert oa.latex(value, notation=notation) == written


def test_a_series_and_its_legend_share_a_notation():
    S = oa.transformer(2).dyson(counting="attention")
    formula, legend = oa.latex(S, notation=hats), series_legend(S, notation=hats)
    assert r"\hat{\bar{V}}^{(s_{k})} \cdots \hat{\bar{V}}^{(s_{2})}" in formula
    assert r"$\hat{\bar{V}}^{(s)} = \hat{V}^{(s)}\langle x^{(s-1)}\rangle$" in legend
    assert formula.startswith("x^{(4)} = ")
    assert r"v^{(s_{1})}" in formula and "$w^{(r)}$" in legend and r"U(s, 0)\,x^{(0)}" in legend
    assert r"\hat{\bar{U}}^{(a)}\cdots\hat{\bar{U}}^{(b+1)}" in legend


def test_a_derivation_keeps_the_notation():
    L = oa.symbol("L")
    text = oa.latex(oa.dyson_theorem(V, L), derivation=True, notation=hats)
    assert r"\hat{V}^{(" in text
    assert "V_{" not in text


def test_states_carry_no_hat_and_scalars_are_as_they_are():
    g = oa.parameter("g1")
    assert oa.latex(g * A @ x, notation=hats) == r"g_{1}\,\hat{A}\,x"


@pytest.mark.parametrize(
    ("choice", "refused"),
    [
        ({"operator": "hat"}, r"operator='hat' is no command such as '\hat' or '\mathbf'; leave it empty for none"),
        ({"operator": r"\hat{"}, r"operator='\\hat{' is no command such as '\hat' or '\mathbf'; leave it empty for none"),
        ({"index": "above"}, "index='above' is no place of an index; use 'subscript' or 'superscript'"),
        ({"identity": ""}, r"identity='' is no symbol; write one, as in '1' or r'\mathbb{1}'"),
        ({"letters": {"A": 1}}, r"letters={'A': 1} is no table of names; write {'A': r'\mathcal{A}'}"),
    ],
)
def test_a_choice_that_is_none_is_refused(choice, refused):
    with pytest.raises(oa.InputError, match=f"^{re.escape(refused)}$"):
        oa.Notation(**choice)


@pytest.mark.parametrize("use", [lambda n: oa.latex(A, notation=n), lambda n: oa.document([A], title="T", notation=n)])
def test_what_is_no_notation_is_refused(use):
    with pytest.raises(
        oa.InputError, match=re.escape(r"'hat' is no notation; write Notation(operator=r'\hat', index='superscript')")
    ):
        use("hat")


def test_a_notation_is_a_frozen_value():
    with pytest.raises(FrozenInstanceError):
        hats.index = "subscript"
    with pytest.raises(TypeError):
        names.letters["A"] = "B"
    assert pickle.loads(pickle.dumps(names)) == names == copy.deepcopy(names)
    assert hash(hats) == hash(oa.Notation(operator=r"\hat", index="superscript"))


@pytest.mark.tex
@pytest.mark.parametrize("notation", [hats, units, names, oa.Notation(operator=r"\mathbf", index="superscript", identity="I")])
def test_every_value_compiles_in_every_notation(notation, tmp_path):
    T = oa.transformer(2, 2)
    derived = oa.latex(oa.dyson_theorem(V, oa.symbol("L")), derivation=True, notation=notation)
    values = [
        T,
        T.operator,
        T.dyson(),
        T.dyson()[1],
        oa.inverse(V[2]),
        oa.adjoint(V[1] @ A),
        oa.expand((1 + F) @ (1 + W[2]) @ x),
    ]
    paper = oa.document([*values, series_legend(T.dyson(), notation=notation), derived], title="All", notation=notation)
    assert "Missing character" not in compile_with_pdflatex(paper, tmp_path)


def test_a_planted_mistake_in_the_place_of_an_index_is_found(monkeypatch):
    monkeypatch.setattr(letters, "_mark", lambda sign, parts: "")
    with pytest.raises(AssertionError):
        test_a_notation_is_kept_in_every_formula(
            oa.Atom("lambda_max3", kind="linear"), hats, r"\hat{\lambda}_{\mathrm{max}}^{(3)}"
        )


# Tables

results = oa.Table(
    ["name", "value", oa.Formula(r"$\|y\|$")],
    [["a_b & <c>", 1, 2.5e-9], [oa.Formula("$x$"), None, float("nan")], ["word", 20, float("inf")]],
    "50 % of it",
)


def test_a_table_for_a_terminal():
    assert str(results) == (
        "50 % of it\n"
        "name       value  $\\|y\\|$\n"
        "a_b & <c>      1  2.5e-09\n"
        "$x$                   nan\n"
        "word          20      inf"
    )


def test_a_table_for_a_paper():
    assert oa.latex(results) == tabular(results) == (
        "\\begin{tabular}{lrr}\n\\toprule\nname & value & $\\|y\\|$ \\\\\n\\midrule\n"
        "a\\_b \\& \\textless{}c\\textgreater{} & $1$ & $2.50\\cdot 10^{-9}$ \\\\\n"
        "$x$ &  & -- \\\\\nword & $20$ & $\\infty$ \\\\\n\\bottomrule\n\\end{tabular}"
    )  # fmt: skip


class Cells(HTMLParser):
    """The texts of the cells, and the tags."""

    def __init__(self, source):
        super().__init__()
        self.texts, self.tags = [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_a_table_for_a_notebook():
    parsed = Cells(results._repr_html_())
    assert parsed.texts[:5] == ["50 % of it", "name", "value", r"$\|y\|$", "a_b & <c>"]
    assert parsed.tags.count("tr") == 4
    assert parsed.tags.count("td") == 9


def test_the_cells_of_a_row_are_counted():
    with pytest.raises(oa.InputError, match=r"^row 1 has 2 cells for 1 headers; give each header one$"):
        oa.Table(["a"], [[1], [1, 2]])


@dataclass(frozen=True)
class Found(Tabulated):
    value: float
    at: np.ndarray
    long: torch.Tensor
    root: complex
    converged: bool
    left: None = None


def test_a_record_without_a_table_of_its_own_shows_its_fields():
    found = Found(0.5, np.array([[0.25, -1.0]]), torch.zeros(2, 4), 1.5 - 2j, True)
    assert str(oa.table(found)) == (
        "           Found\n"
        "value      0.5\n"
        "at         [[0.25, -1]]\n"
        "long       2 x 4 float32\n"
        "root       1.5-2j\n"
        "converged  True\n"
        "left"
    )


@pytest.mark.parametrize("value", [A, 3, Found])
def test_what_is_no_result_has_no_table(value):
    with pytest.raises(TypeError, match="has no table; pass a result, or Table"):
        oa.table(value)


@pytest.mark.tex
def test_the_body_of_an_article_is_for_input(tmp_path):
    part = oa.document(["We have", A @ B, "and", results], title="Never shown")
    path = part.save(tmp_path / "part.tex", fragment=True)
    assert "documentclass" not in path.read_text()
    whole = oa.document([r"\input{part}"], title="Whole")
    assert "Missing character" not in compile_with_pdflatex(whole, tmp_path)
    if subprocess.run(["which", "pdftotext"], capture_output=True, check=False).returncode == 0:
        subprocess.run(["pdftotext", tmp_path / "paper.pdf"], check=True)
        assert "50 % of it" in (tmp_path / "paper.txt").read_text()


def test_a_document_says_what_it_has():
    assert repr(oa.document([A, "and"], title="Two")) == "Document('Two', 2 items)"


# Pictures in formulas and articles

S = oa.transformer(2).dyson()
d = oa.Diagram(S.term(2, 0))


@pytest.mark.parametrize("drawn", [d, oa.token_diagram(d, ["a", "b"]), oa.picture_of_order(S, 1)])
def test_what_has_a_picture_is_shown_in_notebooks_and_stands_in_formulas(drawn):
    assert drawn._repr_svg_() == oa.svg(drawn)
    assert oa.latex(drawn) == rf"\vcenter{{\hbox{{{oa.tikz(drawn)}}}}}"


def test_an_article_loads_tikz_where_it_has_pictures_alone():
    assert "tikz" not in str(oa.document([A], title="None"))
    assert r"\usetikzlibrary{decorations.pathmorphing}" in str(oa.document([d], title="One"))


@pytest.mark.tex
def test_a_series_with_diagrams_inline_compiles(tmp_path):
    inline = " + ".join(oa.latex(oa.Diagram(S.term(1, rank))) for rank in range(S.count(1)))
    items = [
        "The first order is",
        rf"\[ y_1 = {inline} \]",
        oa.picture_of_order(S, 2),
        "and",
        d,
        oa.token_diagram(d, ["a_1", "b"]),
    ]
    assert "Overfull" not in compile_with_pdflatex(oa.document(items, title="Diagrams"), tmp_path)
