"""Text, Unicode and LaTeX of every node and value, word by word; documents that plain pdflatex really compiles."""

import re
import shutil
import subprocess
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import operators, states

import opalgebra as oa
from opalgebra import display as hooks
from opalgebra import kernel
from opalgebra.atoms import atoms
from opalgebra.expand import expand
from opalgebra.expr import Compose, Dressed, Source, linear_combination, postorder
from opalgebra.render.document import display, document
from opalgebra.render.escaping import escape
from opalgebra.render.latex import latex
from opalgebra.render.lines import broken
from opalgebra.render.series_latex import series_legend
from opalgebra.render.table import Formula, Table
from opalgebra.render.text import text, unicode
from opalgebra.render.writing import name_backgrounds, sorted_terms
from opalgebra.space import ONE, K, Space, X

A, B = atoms("A B", kind="linear")
F, G = atoms("F G", kind="nonlinear")
V = oa.family("V", kind="linear")
W = oa.family("W", kind="nonlinear")
x, y, x1 = oa.state("x"), oa.state("y"), oa.state("x1")
Y = Space("hidden")
E = oa.Atom("E", kind="linear", domain=X, codomain=Y)
D = oa.Atom("D", kind="linear", domain=Y, codomain=Y)
h = oa.state("h", codomain=Y)
bra = oa.Atom("b", kind="linear", domain=X, codomain=K)
head = oa.Atom("A2_1", kind="attention")
gamma = oa.Atom("Gamma3", kind="norm")
named = oa.Atom("foo_bar", kind="nonlinear")
thirty = linear_combination((1, V[n]) for n in range(1, 31))


@pytest.mark.parametrize(
    ("operator", "ascii_", "unicode_", "latex_"),
    [
        (A, "A", "A", "A"),
        (V[10], "V10", "V₁₀", "V_{10}"),
        (head, "A2_1", "A₂,₁", "A_{2,1}"),
        (gamma, "Gamma3", "Gamma₃", r"\Gamma_{3}"),
        (named, "foo_bar", "foo_bar", r"\mathrm{foo}_{\mathrm{bar}}"),
        (oa.state("_x"), "_x", "_x", r"\__{\mathrm{x}}"),
        (oa.Atom("mlp3", kind="ffn"), "mlp3", "mlp₃", r"\mathrm{mlp}_{3}"),
        (oa.Atom("Ω2", kind="linear"), "Ω2", "Ω₂", r"\Omega_{2}"),
        (oa.Atom("λ", kind="linear"), "λ", "λ", r"\lambda"),
        (oa.Atom("aλ漢", kind="linear"), "aλ漢", "aλ漢", r"\mathrm{a}{\lambda}\mathrm{[U+6F22]}"),
        (oa.Identity(), "1", "1", "1"),
        (oa.Identity(Y), "one(hidden)", "1", "1"),
        (oa.Zero(), "0", "0", "0"),
        (oa.Zero(ONE, X), "zero(1, X)", "0", "0"),
        (oa.Zero(X, Y), "zero(X, hidden)", "0", "0"),
        (-A, "-A", "-A", "-A"),
        (2 * A, "2*A", "2 A", r"2\,A"),
        (Fraction(1, 2) * A, "1/2*A", "(1/2) A", r"\tfrac{1}{2}\,A"),
        (Fraction(-3, 4) * A @ B, "-3/4*A @ B", "-(3/4) A B", r"-\tfrac{3}{4}\,A\,B"),
        (2 * oa.Identity(), "2", "2", "2"),
        (-2 * oa.Identity(Y), "-2*one(hidden)", "-2", "-2"),
        (A + B, "A + B", "A + B", "A + B"),
        (1 - A, "1 - A", "1 - A", "1 - A"),
        (Fraction(1, 2) - D, "1/2 - D", "(1/2) - D", r"\tfrac{1}{2} - D"),
        (A @ B, "A @ B", "A B", r"A\,B"),
        ((A + B) @ (A - B), "(A + B) @ (A - B)", "(A + B)(A - B)", "(A + B)(A - B)"),
        ((A + B) @ F @ x, "(A + B) @ F @ x", "(A + B)F x", r"(A + B)F\,x"),
        (F @ (2 * A), "F @ (2*A)", "F(2 A)", r"F(2\,A)"),
        (F @ (-A), "F @ (-A)", "F(-A)", "F(-A)"),
        (F @ oa.Zero(), "F @ 0", "F 0", r"F\,0"),
        (A - 2 * (A @ B), "A - 2*A @ B", "A - 2 A B", r"A - 2\,A\,B"),
        (oa.dressed(F, x), "F<x>", "F⟨x⟩", r"F\langle x\rangle"),
        (oa.dressed(F, G @ x), "F<G @ x>", "F⟨G x⟩", r"F\langle G\,x\rangle"),
        (oa.dressed(head, x), "A2_1<x>", "A₂,₁⟨x⟩", r"A_{2,1}\langle x\rangle"),
        (oa.source(F, x), "source(F, x)", "f⟨x⟩", r"f\langle x\rangle"),
        (oa.source(head, x), "source(A2_1, x)", "a₂,₁⟨x⟩", r"a_{2,1}\langle x\rangle"),
        (oa.source(gamma, x), "source(Gamma3, x)", "s_Gamma₃⟨x⟩", r"s_{\mathrm{Gamma},3}\langle x\rangle"),
        (h + E @ x, "h + E @ x", "h + E x", r"h + E\,x"),
        (bra @ x, "b @ x", "b x", r"b\,x"),
    ],
)
def test_every_node_in_every_notation(operator, ascii_, unicode_, latex_):
    assert (str(operator), unicode(operator), latex(operator)) == (ascii_, unicode_, latex_)


@pytest.mark.parametrize(
    ("operator", "declared"),
    [
        (A @ F + B, "B + A @ F where A, B: linear, F: nonlinear"),
        (oa.dressed(F, x) @ x, "F<x> @ x where F: nonlinear, x: state"),
        (head @ gamma, "A2_1 @ Gamma3 where A2_1: attention, Gamma3: norm"),
        (D @ E, "D @ E where E: linear X -> hidden, D: linear hidden -> hidden"),
        (h + E @ x, "h + E @ x where E: linear X -> hidden, x: state, h: state hidden"),
        (bra @ x, "b @ x where b: linear X -> K, x: state"),
        (oa.Identity(), "1"),
    ],
)
def test_repr_declares_the_atoms(operator, declared):
    assert repr(operator) == declared


# Order


def test_terms_are_sorted_by_grade_and_then_by_numeric_depth():
    assert str(V[2] + V[10] + V[1] @ V[3] + V[1] @ V[2] + 1) == "1 + V2 + V10 + V1 @ V2 + V1 @ V3"
    assert str(V[10] @ V[2] + V[2] @ V[10] + V[9] @ V[11]) == "V2 @ V10 + V9 @ V11 + V10 @ V2"
    assert [term for _, term in sorted_terms(A @ B + B + 3)] == [oa.Identity(), B, A @ B]


def test_dressings_stand_after_atoms_and_before_sources():
    assert str(oa.source(F, x) + oa.dressed(F, x) @ x + F @ x + x) == "x + source(F, x) + F @ x + F<x> @ x"


# Backgrounds


def test_a_shared_background_is_named_once():
    s = (1 + F) @ x
    theorem = expand((1 + G) @ s)
    assert str(theorem) == (
        "|- (1 + G) @ x1 = x + source(F, x) + source(G, x1) + F<x> @ x + G<x1> @ x + G<x1> @ source(F, x) "
        "+ G<x1> @ F<x> @ x where x1 = (1 + F) @ x"
    )
    assert latex(theorem) == (
        r"\vdash\; (1 + G)x_{1} = x + f\langle x\rangle + g\langle x_{1}\rangle + F\langle x\rangle\,x + "
        r"G\langle x_{1}\rangle\,x + G\langle x_{1}\rangle\,f\langle x\rangle + "
        r"G\langle x_{1}\rangle\,F\langle x\rangle\,x \quad\text{where}\quad x_{1} = (1 + F)x"
    )
    assert unicode(theorem) == (
        "⊢ (1 + G)x₁ = x + f⟨x⟩ + g⟨x₁⟩ + F⟨x⟩ x + G⟨x₁⟩ x + G⟨x₁⟩ f⟨x⟩ + G⟨x₁⟩ F⟨x⟩ x where x₁ = (1 + F)x"
    )


def test_backgrounds_are_defined_from_the_inside_out():
    s1 = (1 + W[1]) @ x
    s2 = (1 + W[2]) @ s1
    assert str(oa.dressed(W[3], s2) @ oa.dressed(W[2], s1)) == ("W3<x2> @ W2<x1> where x1 = (1 + W1) @ x, x2 = (1 + W2) @ x1")
    assert str(oa.dressed(F, G @ s2)) == "F<G @ x2> where x2 = (1 + W2) @ (1 + W1) @ x"


def test_other_composite_backgrounds_are_named_s():
    assert str(oa.dressed(F, x + y)) == "F<s0> where s0 = x + y"
    assert str(oa.dressed(F, 2 * x)) == "F<s0> where s0 = 2*x"
    assert str(oa.dressed(F, A @ B @ (x + y))) == "F<A @ s1> where s1 = B @ (x + y)"
    assert str(oa.dressed(F, oa.source(G, x))) == "F<s0> where s0 = source(G, x)"


def test_names_of_backgrounds_avoid_the_atoms():
    s = (1 + G) @ x
    assert str(oa.dressed(F, s) @ x1) == "F<x1_1> @ x1 where x1_1 = (1 + G) @ x"
    taken = oa.state("x1_1")
    assert str(oa.dressed(F, s) @ (x1 + taken)) == "F<x1_2> @ (x1 + x1_1) where x1_2 = (1 + G) @ x"
    assert str(oa.dressed(F, s) @ x + oa.dressed(G, (1 + F) @ x) @ x) in (
        "F<x1> @ x + G<x1_1> @ x where x1 = (1 + G) @ x, x1_1 = (1 + F) @ x",
        "F<x1_1> @ x + G<x1> @ x where x1 = (1 + F) @ x, x1_1 = (1 + G) @ x",
    )


@given(operators())
def test_every_composite_background_has_one_name_of_its_own(operator):
    names = name_backgrounds(operator)
    assert len(set(names.values())) == len(names)
    written = {base + "_".join(map(str, indices)) for base, indices in names.values()}
    assert not written & {atom.name for atom in operator.atoms}
    for node in postorder(operator, backgrounds=True):
        if isinstance(node, Dressed | Source):
            inner = node.state
            if isinstance(inner, Compose) and isinstance(inner.left, oa.Atom):
                inner = inner.right
            assert isinstance(inner, oa.Atom) or inner in names


@given(states())
def test_a_definition_uses_only_names_defined_before_it(state):
    _, _, where = str(state).partition(" where ")
    seen = {atom.name for atom in state.atoms} | {"source", "zero", "one", "X", "K", "hidden"}
    for clause in filter(None, where.split(", ")):
        name, equals, body = clause.partition(" = ")
        words = set(re.findall(r"[^\W\d]\w*", body if equals else clause))
        assert words <= seen
        if equals:
            seen.add(name)


def test_a_source_never_looks_like_the_dressing_of_another_map():
    f = oa.Atom("f", kind="nonlinear")
    operator = oa.dressed(f, x) @ x + oa.source(F, x) + oa.source(f, x)
    assert unicode(operator) == "s_F⟨x⟩ + s_f⟨x⟩ + f⟨x⟩ x"
    assert latex(operator) == r"s_{\mathrm{F}}\langle x\rangle + s_{\mathrm{f}}\langle x\rangle + f\langle x\rangle\,x"


# Long sums


def test_the_middle_of_a_long_sum_is_elided_in_displays_and_never_in_text():
    first, last = range(1, 13), range(19, 31)
    assert str(thirty) == " + ".join(f"V{n}" for n in range(1, 31))
    assert latex(thirty) == (
        " + ".join(f"V_{{{n}}}" for n in first)
        + r" + \underbrace{\cdots}_{6\ \text{terms}} + "
        + " + ".join(f"V_{{{n}}}" for n in last)
    )
    assert "V₁₂ + ⋯ 6 terms ⋯ + V₁₉" in unicode(thirty)
    assert "⋯" not in unicode(linear_combination((1, V[n]) for n in range(1, 25)))


def test_the_number_of_elided_terms_has_separators():
    many = linear_combination((1, V[n]) for n in range(1, 1101))
    assert r"\underbrace{\cdots}_{1{,}076\ \text{terms}}" in latex(many)
    assert "⋯ 1,076 terms ⋯" in unicode(many)


# Values


def test_an_equation_has_no_turnstile():
    statement = oa.equation(A @ B, B @ A)
    assert (str(statement), repr(statement), latex(statement)) == ("A @ B = B @ A", "A B = B A", r"A\,B = B\,A")


def test_a_theorem_has_a_turnstile():
    theorem = expand((A + B) @ F)
    assert str(theorem) == "|- (A + B) @ F = A @ F + B @ F"
    assert repr(theorem) == "⊢ (A + B)F = A F + B F"
    assert latex(theorem) == r"\vdash\; (A + B)F = A\,F + B\,F"


@pytest.mark.parametrize(
    ("architecture", "formula"),
    [
        (oa.transformer(2), r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{2}\,(1 + F_{l}\,M_{l})(1 + A_{l}\,N_{l})"),
        (oa.transformer(1, norms="absorbed"), r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{1}\,(1 + F_{l})(1 + A_{l})"),
        (
            oa.transformer(2, 3),
            r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{2}\,(1 + F_{l}\,M_{l})"
            r"(1 + {\textstyle\sum_{h=0}^{2}} A_{l,h}\,N_{l})",
        ),
        (
            oa.transformer(2, norm="post"),
            r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{2}\,M_{l}\,(1 + F_{l})N_{l}\,(1 + A_{l})",
        ),
        (
            oa.transformer(2, norm="sandwich", parallel=True),
            r"\mathop{\overleftarrow{\prod}}\limits_{l=1}^{2}\,(1 + P_{l}\,A_{l}\,N_{l} + Q_{l}\,F_{l}\,M_{l})",
        ),
    ],
)
def test_an_architecture_is_an_ordered_product_with_its_direction(architecture, formula):
    assert latex(architecture) == formula


def test_a_complete_series_in_latex():
    S = oa.transformer(2).dyson()
    assert latex(S) == (
        r"x_{4} = x_{0} + \sum_{k=1}^{4}\;\sum_{1 \le s_1 < \cdots < s_k \le 4} "
        r"\bar{V}_{s_{k}} \cdots \bar{V}_{s_{2}} \bigl(\bar{V}_{s_{1}} x_{0} + v_{s_{1}}\bigr)"
    )
    assert series_legend(S) == (
        r"Here $\bar{V}_{s} = V_{s}\langle x_{s-1}\rangle$ is the counted part of stage $s$, dressed by the state before it, "
        r"and $v_{s}$ its source."
    )


def test_a_series_with_a_resummed_part_in_latex():
    S = oa.transformer(2).dyson(counting="attention")
    assert latex(S) == (
        r"x_{4} = X(4) + \sum_{k=1}^{2}\;\sum_{1 \le s_1 < \cdots < s_k \le 4} "
        r"U(4, s_k)\,\bar{V}_{s_{k}} \cdots \bar{V}_{s_{2}}\, U(s_2 - 1, s_1) "
        r"\bigl(\bar{V}_{s_{1}} X(s_1 - 1) + v_{s_{1}}\bigr)"
    )
    assert series_legend(S).endswith(r"$X(s) = U(s, 0)\,x_{0} + \sum_{r \le s} U(s, r)\,w_{r}$.")


def test_a_series_whose_lines_pass_norms_has_propagators_even_when_all_is_counted():
    S = oa.transformer(1, norm="post").dyson()
    assert latex(S).startswith(r"x_{2} = X(2) + \sum_{k=1}^{2}")
    assert series_legend(S) == (
        r"Here $\bar{V}_{s} = V_{s}\langle x_{s-1}\rangle$ is the counted part of stage $s$, dressed by what it reads, norms "
        r"included, and $v_{s}$ its source; $\bar{U}_{r}$ is stage $r$ where nothing counted is chosen, dressed, and $w_{r}$ "
        r"its source, $U(a, b) = \bar{U}_{a}\cdots\bar{U}_{b+1}$, and $X(s) = U(s, 0)\,x_{0} + \sum_{r \le s} U(s, r)\,w_{r}$."
    )


def test_a_truncated_series_claims_no_equality():
    assert latex(oa.transformer(2).dyson(order=2)).startswith(r"x_{4} \approx x_{0} + \sum_{k=1}^{2}")
    assert latex(oa.transformer(2).dyson(order=4)).startswith("x_{4} = x_{0}")


@pytest.mark.parametrize("value", [3, "text", None, [A]])
def test_what_has_no_latex_form_is_refused(value):
    with pytest.raises(TypeError) as caught:
        latex(value)
    assert str(caught.value) == (
        f"{type(value).__name__} has no LaTeX form; pass an operator, theorem, equation, series or architecture"
    )


def test_other_values_are_their_own_text():
    assert (text(3), unicode(3.5), text("word")) == ("3", "3.5", "word")


# Display hooks


@pytest.mark.parametrize(
    "value",
    [A @ V[3], x, expand(F @ x), oa.equation(A, B), oa.transformer(2), oa.transformer(2).dyson(), kernel.refl(A)],
)
def test_notebooks_get_latex_and_terminals_unicode(value):
    pieces = []
    value._repr_pretty_(SimpleNamespace(text=pieces.append), False)
    assert pieces == [unicode(value)]
    assert value._repr_latex_() == rf"$\displaystyle {latex(value)}$"
    assert str(value) == text(value)


def test_the_registry_of_renderers_names_functions_that_exist():
    shown = {form: hooks.render(form, A) for form in hooks.RENDERERS if form not in ("html", "svg")}
    assert shown == {"text": "A", "unicode": "A", "declared": "A where A: linear", "latex": "A"}
    assert hooks.render("html", Table(["a"], [[1]])).startswith("<table>")
    assert hooks.render("svg", oa.transformer(1).dyson().term(1, 0)).startswith("<?xml")


# Documents


def test_escaping_plain_text():
    assert escape(r"50% of a_b & #1 {x} $2 ~ ^ \ <|>") == (
        r"50\% of a\_b \& \#1 \{x\} \$2 \textasciitilde{} \textasciicircum{} \textbackslash{} "
        r"\textless{}\textbar{}\textgreater{}"
    )
    assert escape('say "yes"\nnow') == "say ''yes'' now"
    assert escape("naïve Ørsted λ 漢") == "naïve [U+00D8]rsted [U+03BB] [U+6F22]"
    assert escape("\x00\x7f") == "[U+0000][U+007F]"


@given(st.text(max_size=40))
def test_escaped_text_has_only_characters_that_plain_latex_knows(given_text):
    for character in escape(given_text):
        assert (character.isascii() and character.isprintable()) or "\u00c0" <= character <= "\u017f"


@given(
    st.lists(st.sampled_from([*"(){}x+-= ,;\\", " + ", r"\langle ", r"\rangle", r" \quad\text{where}\quad ", r",\; "])).map(
        "".join
    ),
    st.integers(1, 60),
)
def test_breaking_a_formula_loses_and_reorders_nothing(formula, width):
    assert "".join("".join(broken(formula, width=width)).split()) == "".join(formula.split())


@given(operators(), st.integers(10, 80))
def test_breaking_a_real_formula_keeps_brackets_together(operator, width):
    formula = latex(operator)
    lines = broken(formula, width=width)
    assert "".join("".join(lines).split()) == "".join(formula.split())
    for line in lines:
        assert line.count("(") == line.count(")")
        assert line.count("{") == line.count("}")
        assert line.count(r"\langle") == line.count(r"\rangle")


def test_long_sums_are_broken_before_a_sign():
    lines = broken(latex(thirty), width=40)
    assert len(lines) > 2
    assert all(line.startswith("+ ") for line in lines[1:])


def test_a_displayed_value_starts_at_the_left():
    assert display(expand((A + B) @ F)) == "\\begin{align*}\n&\\vdash\\; (A + B)F = A\\,F + B\\,F\n\\end{align*}"
    assert display(A + B) == "\\begin{align*}\n&A + B\n\\end{align*}"


def test_large_brackets_are_never_torn_from_their_size():
    formula = latex(oa.transformer(2).dyson())
    for width in (5, 20, 40):
        assert not any(line.endswith((r"\bigl", r"\bigr")) for line in broken(formula, width=width))


def test_a_document_has_its_parts_in_order():
    source = str(
        document(
            ["We have", A @ B, "and so on.", "A new paragraph.", Table(["name", "value"], [["x", 1]], "Caption.")],
            title="Title",
        )
    )
    body = source[source.index(r"\begin{document}") :]
    assert source.startswith("\\documentclass[11pt]{article}\n")
    assert "\\title{Title}\n\\date{}\n" in source
    assert body == (
        "\\begin{document}\n\\maketitle\n\n"
        "We have\n\\begin{align*}\n&A\\,B\n\\end{align*}\nand so on.\n\nA new paragraph.\n\n"
        "\\begin{table}[htbp]\\centering\n\\caption{Caption.}\n\\begin{tabular}{lr}\n\\toprule\nname & value \\\\\n\\midrule\n"
        "x & $1$ \\\\\n\\bottomrule\n\\end{tabular}\n\\end{table}\n\n\\end{document}\n"
    )


def test_a_document_is_saved_as_it_is_written(tmp_path):
    paper = document([A], title="T")
    path = paper.save(tmp_path / "paper.tex")
    assert path == tmp_path / "paper.tex"
    assert path.read_text(encoding="utf-8") == str(paper)


def compile_with_pdflatex(paper, folder):
    """The log of a real run of plain pdflatex."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    paper.save(folder / "paper.tex")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"], cwd=folder, capture_output=True, check=False
    )
    log = (folder / "paper.log").read_text(encoding="latin-1")
    assert done.returncode == 0, log[-2000:]
    assert (folder / "paper.pdf").read_bytes().startswith(b"%PDF")
    return log


@pytest.mark.tex
def test_a_document_with_every_kind_of_value_compiles(tmp_path):
    T = oa.transformer(2, 2)
    values = [
        T, T.operator, T.x[4], T.dyson(), T.dyson(counting="ffn"), T.dyson(order=1), T.dyson()[1], oa.transformer(1).dyson()[2],
        expand((1 + F) @ (1 + G) @ x), oa.equation(A @ B, B @ A), thirty, Fraction(-3, 4) * A + 1, oa.Zero(ONE, X),
        oa.dressed(F, x + y) @ (x - y), expand((1 + V[3]) @ (1 + V[2]) @ (1 + V[1])), F @ (-A), h + E @ x, bra @ x,
    ]  # fmt: skip
    paragraphs = [
        series_legend(T.dyson()),
        series_legend(T.dyson(counting="ffn")),
        escape('Odd text: 50% of a_b & #1 {x} $2 ~ ^ \\ <|> "quoted" naïve ů λ 漢 \x00'),
        Table(["name", "value"], [["a_b", 1], [Formula("$c$"), 2e-9], ["d", None]], "A caption & more."),
    ]
    log = compile_with_pdflatex(document([*values, *paragraphs], title=escape("Every value: 100 %")), tmp_path)
    assert "Missing character" not in log


@pytest.mark.tex
def test_a_document_with_odd_names_compiles(tmp_path):
    names = "Gamma3 foo_bar A2_1 _x _ __ _1 x_ foo__bar2 N_gauss lambda2_3 Ω2 λ é2 漢 ²V e_é mlp V1_02 class_ Theta".split()
    values = []
    for name in names:
        atom = oa.Atom(name, kind="nonlinear")
        state = oa.state(f"{name}s")
        values.append(expand((1 + atom) @ (1 + atom @ A) @ state))
    assert "Missing character" not in compile_with_pdflatex(document(values, title="Odd names"), tmp_path)


def test_terms_are_printed_in_a_wished_order_and_the_others_behind_them_as_always():
    total = A @ B - B @ A + 2 * B + A + 3
    assert oa.text(total) == str(total) == "3 + A + 2*B + A @ B - B @ A"
    assert oa.text(total, order=[B @ A, 2 * B]) == "-B @ A + 2*B + 3 + A + A @ B"
    assert latex(F @ (A + B) + A, order=[F @ (A + B), B]) == "F(B + A) + A"
    assert oa.text(oa.equation(A + B, B @ A + A), order=[B, B @ A]) == "B + A = B @ A + A"
    assert oa.parse(oa.text(total, order=[B @ A]), atoms=[A, B]) == total
    with pytest.raises(oa.InputError, match="an order of print names terms of sums"):
        oa.text(total, order=["B"])


P0 = oa.Atom("P0", kind="linear")


def facts_and_theorems():
    """One fact of every kind, and theorems with few and with many hypotheses."""
    P, n = oa.family("P", kind="linear"), oa.symbol("n")
    stack = oa.transformer(1, heads=2)
    forms = oa.frozen_forms(oa.dressed(stack.operator, stack.x[0]))
    head = next(fact.dressing for fact in forms if isinstance(fact, oa.Form) and fact.dressing.operator.kind == "ffn")
    return [
        oa.Linear(F), oa.Equal(A @ B, A), oa.Commute(P, A @ B), oa.Homogeneous(F), oa.Idempotent(1 - A), oa.Nilpotent(A, n),
        oa.Inverse(1 - F), oa.Inverse(A, B), oa.Adjoint(A, A), oa.Causal(F, P), oa.Every(P[n] @ A, A @ P[n + 1], n),
        oa.Inverse(P), oa.Adjoint(P, P), *forms[:3], oa.simplify(head, facts=forms),
        oa.expand(F @ (A + B), facts=[oa.Linear(F)]), oa.schur_complement(*oa.atoms("A B C D", kind="linear")),
        oa.network_states(oa.network([F, F, F, F])), oa.self_energy(A, B, A, B),
    ]  # fmt: skip


def test_the_hypotheses_of_a_theorem_are_printed_with_it():
    theorem = oa.simplify(P0 @ (A + P0) @ P0, facts=[oa.Idempotent(P0)])
    assert str(theorem) == "|- [P0 idempotent] P0 @ (A + P0) @ P0 = P0 + P0 @ A @ P0"
    assert latex(theorem).startswith(r"P_{0}\ \text{idempotent} \;\vdash\; ")
    V = oa.family("V", kind="linear")
    assert latex(oa.Inverse(V)) == r"{V_{l}}^{-1}\ \text{exists}"
    assert latex(oa.Adjoint(V, V)) == r"{V_{l}}^{\dagger} = V_{l}"
    declared = oa.Form(oa.dressed(F, (1 + F) @ x), A, "frozen")
    form = oa.simplify(oa.dressed(F, (1 + F) @ x) @ x, facts=[declared])
    assert repr(form) == "⊢ [F⟨x₁⟩ = A for split: frozen] F⟨x₁⟩ x = A x where x₁ = (1 + F)x"
    assert latex(form) == (
        r"F\langle x_{1}\rangle = A\ \text{(frozen)} \;\vdash\; F\langle x_{1}\rangle\,x = A\,x \quad\text{where}\quad "
        r"x_{1} = (1 + F)x"
    )
    many = oa.network_states(oa.network([F] * 6))
    assert f"... {len(many.hypotheses)} hypotheses]" in repr(many)
    assert rf"\ldots\ ({len(many.hypotheses)}\ \text{{hypotheses}}) \;\vdash" in latex(many)
    assert "..." not in str(many)


@pytest.mark.tex
def test_a_document_with_every_fact_and_theorems_under_them_compiles(tmp_path):
    log = compile_with_pdflatex(document(facts_and_theorems(), title="Facts"), tmp_path)
    assert "Missing character" not in log


@pytest.mark.tex
def test_the_check_of_compilation_fails_on_a_wrong_document(tmp_path):
    with pytest.raises(AssertionError, match="Undefined control sequence"):
        compile_with_pdflatex(document([r"\nosuchmacro"], title="Wrong"), tmp_path)


def test_a_term_wider_than_a_line_is_broken_between_its_factors():
    word = oa.ordered_product([A] * 100)
    lines = broken(latex(word), width=40)
    assert len(lines) == 3
    assert "".join(lines).replace(" ", "") == latex(word).replace(" ", "")
    factored = oa.ordered_product([1 + A] * 100)
    assert max(map(len, broken(latex(factored), width=40))) < 60
