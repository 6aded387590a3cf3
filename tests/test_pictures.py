"""Pictures: no overlap and no line through a label in what is drawn, in every skin; what is drawn is the diagram."""

import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache
from itertools import pairwise

import gallery
import pytest

import opalgebra as oa
from opalgebra.render import feynman, label, lattice, layout
from opalgebra.render.axes import draw
from opalgebra.render.tikz import PREAMBLE

GALLERY = gallery.pictures()
SVG = "{http://www.w3.org/2000/svg}"
STROKES = set(layout.STYLES)
x = oa.state("x")


def refused(act):
    with pytest.raises(oa.OpalgebraError) as caught:
        act()
    return str(caught.value)


# What is drawn, read from the SVG alone


@cache
def measured(text, size, italic):
    """(width, height above the base, depth below) of a text in the widest of the common serif faces."""
    pytest.importorskip("matplotlib")
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.33 * size * len(text), 0.0, 0.0
    font = FontProperties(family="DejaVu Serif", style="italic" if italic else "normal")
    box = TextPath((0, 0), text.replace("$", r"\$"), size=size, prop=font).get_extents()
    return box.x1, box.y1, -box.y0


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", text)]


def around(points, reach=0.0):
    across, down = zip(*points)
    return min(across) - reach, min(down) - reach, max(across) + reach, max(down) + reach


def drawn(svg):
    """(strokes, marks, texts) of an SVG: polylines with half their pens, boxes, boxes with their words."""
    strokes, marks, texts = [], [], []
    for element in ElementTree.fromstring(svg.encode()):
        kind = element.get("class")
        if element.tag == f"{SVG}circle":
            at, reach = (float(element.get("cx")), float(element.get("cy"))), float(element.get("r"))
            marks.append((kind, around([at], reach + float(element.get("stroke-width")) / 2)))
        elif element.tag == f"{SVG}text":
            texts.append(words_of(element))
        elif element.tag == f"{SVG}path" and kind != "arrow":
            pen = float(element.get("stroke-width")) / 2
            if kind in STROKES:
                strokes += [(kind, points, pen) for points in polylines(element.get("d"))]
            elif kind == "detector":
                left, base, reach = numbers(element.get("d"))[:3]
                marks.append((kind, (left - pen, base - reach - pen, left + 2 * reach + pen, base + pen)))
            else:
                marks.append((kind, around([p for points in polylines(element.get("d")) for p in points], pen)))
    return strokes, marks, texts


def polylines(path):
    """The points of each part of a path, with those of a curve at its ends and in its middle."""
    found = []
    for part in path.split("M")[1:]:
        start, *curves = part.split("Q")
        flat = numbers(start)
        points = list(zip(flat[::2], flat[1::2]))
        for curve in curves:
            (a, b), (u, v, p, q) = points[-1], numbers(curve)
            points += [((a + 2 * u + p) / 4, (b + 2 * v + q) / 4), (p, q)]
        found.append(points)
    return found


def words_of(element):
    """The box of a text, from where it is anchored and how wide its spans are."""
    size = float(element.get("font-size"))
    left, base = float(element.get("x")), float(element.get("y"))
    right, top, bottom, shift = 0.0, 0.0, 0.0, 0.0
    for span in element:
        shift += float(span.get("dy", 0))
        own = float(span.get("font-size", size))
        width, above, below = measured(span.text, own, span.get("font-style") == "italic")
        right, top, bottom = right + width, max(top, above - shift), max(bottom, below + shift)
    start = {"start": 0.0, "middle": -right / 2, "end": -right}[element.get("text-anchor")]
    words = "".join(span.text for span in element)
    if element.get("transform"):
        return words, (left - top, base, left + bottom, base + right) if start == 0 else (
            left - top, base, left + bottom, base - start)  # fmt: skip
    return words, (left + start, base - top, left + start + right, base + bottom)


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def runs_through(points, pen, box):
    """Whether a polyline comes into a box: by small steps along it."""
    wide = (box[0] - pen, box[1] - pen, box[2] + pen, box[3] + pen)
    for (a, b), (u, v) in pairwise(points):
        steps = int(max(abs(u - a), abs(v - b)) / 0.25) + 1
        for step in range(steps + 1):
            p, q = a + (u - a) * step / steps, b + (v - b) * step / steps
            if wide[0] < p < wide[2] and wide[1] < q < wide[3]:
                return True
    return False


def collisions(value):
    """What overlaps, what runs through a label, and what is cut off, in the SVG of a value."""
    svg = oa.svg(value)
    strokes, marks, texts = drawn(svg)
    boxes = [*marks, *texts]
    found = [(one, other) for place, (one, here) in enumerate(boxes) for other, there in boxes[:place] if overlap(here, there)]
    found += [(kind, words) for kind, points, pen in strokes for words, box in texts if runs_through(points, pen, box)]
    width, height = numbers(ElementTree.fromstring(svg.encode()).get("viewBox"))[2:]
    outside = [name for name, box in boxes if box[0] < 0 or box[1] < 0 or box[2] > width or box[3] > height]
    return found + outside


def random_diagram(seed):
    """A diagram of any architecture, size and counting: of a term, a state, a source, or transposed."""
    draw = random.Random(seed)
    T = oa.transformer(
        draw.choice([1, 2, 3, 4, 12]),
        draw.choice([None, 1, 3, 12]),
        norm=draw.choice(["pre", "post", "sandwich", "branch"]),
        parallel=draw.random() < 0.3,
        norms=draw.choice(["explicit", "explicit", "absorbed"]),
        biases=draw.random() < 0.5,
    )
    S = T.dyson(counting=draw.choice(["all", "attention", "ffn", lambda vertex: vertex.layer != 2]))
    order = draw.randint(0, min(S.max_order, 12))
    births = [(stage, emitter, left) for stage, emitter, left in S.births(order) if S._count(stage.number, left)]
    if births and draw.random() < 0.3:
        stage, emitter, left = draw.choice(births)
        chosen = S._selection(stage.number, left, draw.randrange(S._count(stage.number, left)))
        return oa.Diagram(S.propagator(chosen, stage.number) @ S.born(stage, emitter))
    d = oa.Diagram(S.term(order, draw.randrange(S.count(order))))
    return draw.choice([d, d.transposed, oa.Diagram(d.to_term() @ x)])


@pytest.mark.parametrize("start", range(0, 120, 10))
def test_nothing_overlaps_in_random_diagrams(start):
    for seed in range(start, start + 10):
        d = random_diagram(seed)
        assert collisions(d) == [], d
        if not d.is_transposed and seed % 3 == 0:
            many = random.Random(seed).choice([1, 2, 5, 9])
            assert collisions(oa.token_diagram(d, many, is_causal=seed % 2 == 0)) == [], d


@pytest.mark.parametrize("name", GALLERY)
def test_nothing_overlaps_in_the_gallery(name):
    assert collisions(GALLERY[name]) == []


def test_nothing_overlaps_in_rows_and_grids():
    drawn_ones = [random_diagram(seed) for seed in (3, 14, 15, 92, 65)]
    assert collisions(oa.picture_grid([*drawn_ones, *GALLERY.values()], columns=3)) == []
    assert collisions(oa.picture_row(["x =", drawn_ones[0], "+ 12", *drawn_ones[1:], "−"])) == []


@pytest.mark.parametrize("error", ["labels on lines", "no rows between nodes", "narrow waves", "no margin"])
def test_planted_errors_are_seen(monkeypatch, error):
    own = layout.Caption
    if error == "labels on lines":
        monkeypatch.setattr(feynman, "Caption", lambda text, at, *rest: own(text, (at[0] - 12, at[1]), *rest))
    elif error == "no rows between nodes":
        monkeypatch.setattr(feynman.Leg, "rows", 0)
    elif error == "narrow waves":
        monkeypatch.setattr(feynman, "_span", lambda text: 6.0)
    else:
        monkeypatch.setattr(layout.Picture, "box", layout.Box(0.0, 0.0, 30.0, 30.0))
    assert collisions(GALLERY["a term on a state, norms before vertices"])


def test_lines_through_tokens_are_seen(monkeypatch):
    own = layout.Caption
    monkeypatch.setattr(lattice, "Caption", lambda text, at, *rest, **more: own(text, (at[0], at[1] + 24), *rest, **more))
    assert collisions(GALLERY["on a lattice"])


def mathtext(shown):
    """A label as a formula of matplotlib, which sets it as TeX does."""
    found = ""
    for run in shown:
        text = run.text.replace("$", r"\$")
        body = text if run.style == "variable" else rf"\mathrm{{{text}}}".replace(" ", r"\ ")
        found += text if run.style == "text" else f"${'_^'[run.level > 0] if run.level else ''}{{{body}}}$"
    return found


LETTERS = "A M W F Gate theta theta_out1 mlp_W A12_11 V_ö Ω".split()


@pytest.mark.parametrize("family", ["cm", "stix", "dejavuserif"])
def test_no_label_is_wider_than_its_box_in_the_faces_of_papers(family):
    pytest.importorskip("matplotlib")
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    from opalgebra.render.axes import outline

    labels = [label.name_label(oa.Atom(name, kind="linear"), is_transposed=turn) for name in LETTERS for turn in (False, True)]
    labels += [label.families(oa.transformer(30, 9).dyson().stages[n].vertices) for n in (0, 1)]
    labels += [label.words(text) for text in (*gallery.TOKENS[:7], "WWW@MM%", "iiiill", "…")] + [label.roman("+ (L² − L)/2")]
    prop = FontProperties(family="DejaVu Serif", math_fontfamily=family)
    for shown in labels:
        formula = TextPath((0, 0), mathtext(shown), size=10, prop=prop).get_extents()
        assert formula.x1 <= label.width_of(shown, 10), shown
        assert outline(shown, 10)[1] <= label.width_of(shown, 10), shown
    assert TextPath((0, 0), "WWWW", size=10, prop=prop).get_extents().x1 > 4 * label.CELL


# The skins show the same


def labels_of(value):
    return [caption.label for caption in oa.picture(value).captions]


@pytest.mark.parametrize("name", GALLERY)
def test_svg_is_whole_and_the_same_each_time(name):
    svg = oa.svg(GALLERY[name])
    root = ElementTree.fromstring(svg.encode())
    assert svg == oa.svg(GALLERY[name])
    assert root.tag == f"{SVG}svg" and root.find(f"{SVG}title").text == oa.picture(GALLERY[name]).title != ""
    shown = ["".join(span.text for span in text) for text in root.iter(f"{SVG}text")]
    assert shown == ["".join(run.text for run in found) for found in labels_of(GALLERY[name])]
    assert "href" not in svg and "<script" not in svg


def test_indices_of_svg_are_spans_below_the_line():
    svg = oa.svg(GALLERY["heads of a deep model"])
    assert (
        '<tspan font-style="italic">A</tspan><tspan dy="2.2" font-size="7">29,2</tspan></text>' in svg
        and '<tspan dy="-2.2">…</tspan><tspan font-style="italic">F</tspan>' in svg
    )


def test_words_are_escaped_in_svg():
    d = oa.Diagram(oa.transformer(1).dyson().term(1, 0))
    svg = oa.svg(oa.token_diagram(d, ['<b>"&\x07', "]]>"]))
    shown = ["".join(text.itertext()) for text in ElementTree.fromstring(svg.encode()).iter(f"{SVG}text")]
    assert '<b>"&\\x07' in shown and "]]>" in shown


@pytest.mark.parametrize("name", GALLERY)
def test_every_label_is_whole_in_a_terminal(name):
    lines = oa.terminal(GALLERY[name]).splitlines()
    for found in oa.picture(GALLERY[name], in_cells=True).captions:
        assert any(label.unicode_of(found.label).strip() in line for line in lines)
    assert not any(line != line.rstrip() for line in lines)


def test_a_term_in_a_terminal():
    S = oa.transformer(2).dyson()
    assert (
        "\n" + oa.terminal(S.term(2, 1) @ x)
        == """
                out
                 ╷
            A₂   ↑
         •∿∿∿∿∿∿∿•
         ⇑
         ○ N₂
    A₁   ↑
 •∿∿∿∿∿∿∿•
 ⇑
 ○ N₁
 ↑
 ┴
 x""".replace("\n ", "\n")
    )


def test_ends_are_half_lines_towards_their_propagator():
    """Read from the text itself: a line ends below where it comes from above, and above where it comes from below."""
    rows = oa.terminal(oa.picture_of_order(oa.transformer(3).dyson(), 2)).splitlines()
    at = {(row, column): sign for row, line in enumerate(rows) for column, sign in enumerate(line)}
    ends = {"╵": -1, "╷": 1}
    found = [(place, ends[sign]) for place, sign in at.items() if sign in ends]
    assert len(found) == 8
    for (row, column), towards in found:
        assert at.get((row + towards, column)) == "↑"
        assert at.get((row - towards, column), " ") == " "


def test_an_order_in_a_terminal():
    S = oa.transformer(3, norms="absorbed").dyson()
    assert oa.terminal(oa.picture_of_order(S, 1)) == (
        "                ╷         ╷\n"
        "             A  ↑         ↑\n"
        "S₁ = 3    •∿∿∿∿∿•  + 3    ● F\n"
        "          ↑               ↑\n"
        "          ╵               ╵"
    )


def test_tikz_is_one_picture_with_named_styles():
    code = oa.tikz(GALLERY["a term on a state, norms before vertices"])
    lines = code.splitlines()
    assert lines[0] == "\\begin{tikzpicture}[x=1pt, y=1pt, line cap=round," and lines[-1] == "\\end{tikzpicture}"
    assert "  \\draw[wave] (0, 48) -- (48, 48);" in lines
    assert "  \\node[label, anchor=center] at (24, 60) {\\fontsize{10}{12}\\selectfont $A_{1}$};" in lines
    assert code.count("{") == code.count("}") and PREAMBLE.startswith("\\usepackage{tikz}")


def test_what_tex_cannot_measure_is_refused():
    S = oa.transformer(400).dyson(counting="attention")
    d = oa.Diagram(S.propagator(tuple(S.counted[place][0] for place in range(0, 800, 2))))
    assert refused(lambda: oa.tikz(d)).endswith(
        "points long was asked, and TeX measures up to 16,000; draw a part of it, or use svg"
    )
    assert oa.svg(d)


@pytest.mark.tex
def test_every_picture_compiles_with_plain_pdflatex(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    V, odd = oa.family("V", kind="linear"), "foo_bar Ω é2 漢 Theta_x _1 V_".split()
    named = {name: oa.Diagram(oa.Atom(name, kind="linear") @ V[1] @ x) for name in odd}
    (tmp_path / "gallery.tex").write_text(gallery.article({**GALLERY, **named}), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "gallery.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    log = (tmp_path / "gallery.log").read_text(encoding="latin-1")
    assert done.returncode == 0, log[-2000:]
    assert "Missing character" not in log and "Overfull" not in log


@pytest.fixture
def axes():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(4, 4)).subplots()


@pytest.mark.parametrize("name", GALLERY)
def test_axes_hold_every_stroke_mark_and_label_and_nothing_outside(axes, name):
    shown = oa.picture(GALLERY[name])
    assert oa.draw(GALLERY[name], axes) is axes
    rails = sum(1 if stroke.style == "wave" else len(stroke.rails) for stroke in shown.strokes)
    arrows = sum(stroke.has_arrow for stroke in shown.strokes)
    marks = sum(2 if mark.kind == "source" else 1 for mark in shown.marks)
    assert len(axes.patches) == rails + arrows + marks + len(shown.captions)
    box = shown.box
    assert (axes.get_xlim(), axes.get_ylim()) == ((box.left, box.right), (box.bottom, box.top))
    for patch in axes.patches:
        extent = patch.get_path().get_extents(patch.get_patch_transform())
        assert box.left <= extent.x0 and extent.x1 <= box.right and box.bottom <= extent.y0 and extent.y1 <= box.top
    axes.figure.canvas.draw()


def test_drawing_on_something_else_is_refused(axes, monkeypatch):
    d = GALLERY["heads of a deep model"]
    assert refused(lambda: draw(d, axes.figure)) == (
        "Figure is no matplotlib axes; draw(d, ax) draws on those that plt.subplots() returns"
    )
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    assert refused(lambda: draw(d, axes)) == (
        "drawing on axes needs matplotlib; run `pip install 'opalgebra[plot]'`, or use svg"
    )


# What is drawn is the diagram


@pytest.mark.parametrize("seed", range(40))
def test_marks_and_waves_are_those_of_the_diagram(seed):
    d = random_diagram(seed)
    shown = oa.picture(d)
    kinds = [node.kind for node in d.nodes]
    assert sum(stroke.style == "wave" for stroke in shown.strokes) == kinds.count("attention")
    for kind in ("ffn", "norm", "source", "linear", "nonlinear"):
        assert sum(mark.kind == kind for mark in shown.marks) == kinds.count(kind)
    assert sum(mark.kind == "blob" for mark in shown.marks) == sum(line.kind == "resummed" for line in d.lines)
    heights = [mark.at[1] for mark in shown.marks if mark.kind != "blob"]
    assert heights == sorted(heights)
    columns = [mark.at[0] for mark in shown.marks]
    assert columns == sorted(columns)
    down = [stroke.end[1] < stroke.start[1] for stroke in shown.strokes if stroke.style != "wave"]
    assert set(down) == {d.is_transposed}


@pytest.mark.parametrize("counting", ["all", "attention"])
@pytest.mark.parametrize("order", range(4))
def test_an_order_shows_each_topology_with_its_multiplicity(order, counting):
    S = oa.transformer(3, heads=2).dyson(counting=counting)
    shown, found = oa.picture_of_order(S, order), oa.topologies(S, order)
    waves = sum(word.count("attention") for word in found)
    assert sum(stroke.style == "wave" for stroke in shown.strokes) == waves
    assert sum(mark.kind == "ffn" for mark in shown.marks) == sum(word.count("ffn") for word in found)
    digits = [int(number) for number in re.findall(r"\d+", shown.title.removeprefix(f"Order {order}"))]
    assert digits == [times for times in found.values() if times != 1]
    assert any(mark.kind == "blob" for mark in shown.marks) == (counting == "attention")


def test_an_order_is_no_wider_than_a_line_of_an_article():
    S = oa.transformer(5).dyson()
    assert oa.picture_of_order(S, 4).size[0] < 375


def test_dysons_equation_has_a_thick_line_for_the_full_propagator_alone():
    shown = oa.picture_of_dyson_equation("D", "D_0", "Π")
    assert [stroke.style for stroke in shown.strokes] == ["thick", "plain", "thick", "plain"]
    assert [label.unicode_of(found.label) for found in shown.captions] == ["D", "=", "D₀", "+", "D", "Π", "D₀"]
    assert sum(mark.kind == "blob" for mark in shown.marks) == 1
    full = [stroke for stroke in shown.strokes if stroke.style == "thick"][-1]
    free = [stroke for stroke in shown.strokes if stroke.style == "plain"][-1]
    assert full.end[1] <= free.start[1] and full.end[0] == free.start[0]


def test_labels():
    def forms(shown):
        return label.unicode_of(shown), label.latex_of(shown)

    def named(name):
        return forms(label.name_label(oa.Atom(name, kind="linear")))

    assert named("A12_3") == ("A₁₂,₃", "$A_{12,3}$")
    assert named("theta_out1") == ("θ_out,1", r"$\theta _{\mathrm{out,1}}$")
    assert named("Gate") == ("Gate", r"$\mathrm{Gate}$")
    assert forms(label.words(" 5% of a_b\n")) == (" 5% of a_b\\n", r" 5\% of a\_b\textbackslash{}n")
    assert forms(label.words(" ")) == ("␣", r"\textvisiblespace{}")
    assert forms(label.words("漢")) == ("漢", "[U+6F22]")
    assert label.cells_of(label.words("漢")) == 2
    assert label.words("") == ()
    atoms = [oa.family("F", kind="ffn")[n] for n in (3, 1, 2)]
    assert label.unicode_of(label.families(atoms)) == "F₁…F₃"
    assert label.unicode_of(label.families(atoms[:2])) == "F₁, F₃"


def test_what_has_no_picture_is_refused():
    S = oa.transformer(1).dyson()
    assert refused(lambda: oa.svg(S)) == (
        "Series has no picture; draw a Diagram, a TokenDiagram, a term, or what a function picture_... returns"
    )
    assert refused(lambda: oa.picture_row("ab")) == (
        "a list of pictures was asked of a str; give them in brackets, as in [d, '+', e]"
    )
    assert refused(lambda: oa.picture_grid([])) == "a grid of no pictures was asked; give at least one"
    assert refused(lambda: oa.picture_grid([S.term(1, 0)], columns=0)) == (
        "columns=0: a grid of pictures has a positive number of columns"
    )
    assert refused(lambda: oa.picture_of_topologies({})) == (
        "a picture of no topologies was asked; give the mapping that topologies(series, order) returns"
    )
    assert refused(lambda: oa.picture_of_topologies({("spin",): 2})) == (
        "('spin',): 2 is no topology with a multiplicity; use those of topologies(series, order)"
    )
    assert refused(lambda: oa.picture_of_dyson_equation("")) == (
        "'' is no name of a propagator; use a letter such as 'G', or with an index 'G_0'"
    )


def test_a_picture_is_a_frozen_value():
    shown = oa.picture(GALLERY["heads of a deep model"])
    assert shown == oa.picture(GALLERY["heads of a deep model"]) and replace(shown) == shown
    with pytest.raises(AttributeError):
        shown.title = "another"


def test_drawing_loads_nothing_heavy():
    program = (
        "import sys, opalgebra as oa\n"
        "d = oa.Diagram(oa.transformer(2).dyson().term(2, 0))\n"
        "oa.svg(d), oa.tikz(d), oa.terminal(d), oa.svg(oa.token_diagram(d, 3))\n"
        "oa.tikz(oa.picture_of_order(oa.transformer(2).dyson(), 2))\n"
        "print(sorted({'torch', 'numpy', 'sympy', 'networkx', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
