"""Pictures as TikZ, for plain pdflatex: `\\usepackage{tikz}` and one of its own libraries, which `PREAMBLE` names.

The picture is one `tikzpicture` in points with named styles, so that a paper can restyle attention or norms in one place.
"""

from typing import Any

from opalgebra.errors import LimitError
from opalgebra.render.label import SIZE, latex_of
from opalgebra.render.layout import AMPLITUDE, BLACK, RADII, WAVELENGTH, Caption, Mark, Picture, Stroke
from opalgebra.render.pictures import picture

PREAMBLE = "\\usepackage{tikz}\n\\usetikzlibrary{decorations.pathmorphing}"
WIDEST = 16_000.0
PEN = 0.8
_FORMS = {
    "dot": "circle, fill", "ffn": "circle, fill", "norm": "circle, draw, fill=white", "blob": "circle, draw, fill=black!20",
    "shaded": "circle, draw, fill=black!20", "linear": "rectangle, fill", "nonlinear": "rectangle, fill, rotate=45",
}  # fmt: skip
_SIDE = {"linear": 0.9, "nonlinear": 0.7}


def tikz(value: Any) -> str:
    """The picture of a diagram, a token-resolved diagram or a row of them, as a `tikzpicture`. `PREAMBLE` is what it needs.

    Errors as `picture`; LimitError for a picture that is larger than TeX can measure.

    >>> import opalgebra as oa
    >>> print(oa.tikz(oa.Diagram(oa.transformer(1).dyson().term(1, 0))).splitlines()[-1])
    \\end{tikzpicture}
    """
    shown = picture(value)
    if max(shown.size) > WIDEST:
        raise LimitError(
            f"a picture {max(shown.size):,.0f} points long was to be drawn in TikZ, and TeX measures no more than {WIDEST:,.0f}; "
            "draw a part of it, or use svg"
        )
    colours = _colours(shown)
    parts = [*shown.strokes, *shown.marks, *shown.captions]
    lines = [_line(part, colours) for part in parts]
    defined = [f"\\definecolor{{{name}}}{{HTML}}{{{colour[1:].upper()}}}" for colour, name in colours.items()]
    return "\n".join([*defined, _head(shown), *(f"  {line}" for line in lines), "\\end{tikzpicture}"])


def _head(shown: Picture) -> str:
    used = {stroke.style for stroke in shown.strokes} | {mark.kind for mark in shown.marks}
    styles = {
        "plain": f"line width={PEN}pt",
        "double": f"line width={PEN}pt",
        "thick": f"line width={3 * PEN}pt",
        "ghost": "line width=0.4pt, draw=black!30",
        "wave": f"line width={PEN}pt, decorate, decoration={{snake, amplitude={AMPLITUDE}pt, segment length={WAVELENGTH}pt}}",
    }  # fmt: skip
    own = [f"{style}/.style={{{styles[style]}}}" for style in styles if style in used]
    own += [f"{kind}/.style={{{_form(kind)}}}" for kind in _FORMS if kind in used]
    own.append(r"label/.style={inner sep=0pt, outer sep=0pt, text height=1.6ex, text depth=0.4ex}")
    return "\\begin{tikzpicture}[x=1pt, y=1pt, line cap=round,\n  " + ",\n  ".join(own) + "]"


def _form(kind: str) -> str:
    wide = 2 * RADII[kind] * _SIDE.get(kind, 1.0) - (PEN if "draw" in _FORMS[kind] else 0.0)
    return f"{_FORMS[kind]}, inner sep=0pt, outer sep=0pt, minimum size={wide:.2f}pt"


def _colours(shown: Picture) -> dict[str, str]:
    found = sorted({part.colour for part in (*shown.strokes, *shown.marks, *shown.captions)} - {BLACK})
    return {colour: f"opalgebra{colour[1:].upper()}" for colour in found}


def _point(point: tuple[float, float]) -> str:
    return f"({_number(point[0])}, {_number(point[1])})"


def _number(length: float) -> str:
    return f"{length + 0.0:.2f}".rstrip("0").rstrip(".")


def _line(part: Stroke | Mark | Caption, colours: dict[str, str]) -> str:
    if isinstance(part, Stroke):
        return _stroke(part, colours)
    return _mark(part, colours) if isinstance(part, Mark) else _caption(part, colours)


def _stroke(stroke: Stroke, colours: dict[str, str]) -> str:
    options = [stroke.style]
    if stroke.style != "ghost" and stroke.width != PEN:
        options.append(f"line width={_number(stroke.width * (3 if stroke.style == 'thick' else 1))}pt")
    if stroke.colour in colours:
        options.append(f"draw={colours[stroke.colour]}")
    if stroke.style == "wave" and stroke.amplitude != AMPLITUDE:
        options.append(f"decoration={{amplitude={_number(stroke.amplitude)}pt}}")
    if stroke.is_dashed:
        options.append("dash pattern=on 3pt off 2pt")
    lines = "".join(f"\\draw[{', '.join(options)}] {_point(start)} -- {_point(end)}; " for start, end in stroke.rails)
    if stroke.has_arrow:
        own = f"[{colours[stroke.colour]}]" if stroke.colour in colours else ""
        lines += f"\\fill{own} {' -- '.join(map(_point, stroke.arrow))} -- cycle;"
    return lines.strip()


def _mark(mark: Mark, colours: dict[str, str]) -> str:
    r = RADII[mark.kind] - PEN / 2
    own = f", color={colours[mark.colour]}" if mark.colour in colours else ""
    (x, y), at = mark.at, _point(mark.at)
    if mark.kind in _FORMS:
        return f"\\node[{mark.kind}{own}] at {at} {{}};"
    if mark.kind == "source":
        arm = 0.9 * r
        ends = [((x - arm, y - arm), (x + arm, y + arm)), ((x - arm, y + arm), (x + arm, y - arm))]
        crossed = " ".join(f"{_point(start)} -- {_point(end)}" for start, end in ends)
        return f"\\draw[line width={PEN}pt{own}] {crossed};"
    if mark.kind == "detector":
        left, right = _point((x - r, y)), _point((x + r, y))
        return f"\\draw[line width={PEN}pt, fill=white{own}] {right} arc[start angle=0, end angle=180, radius={r:.2f}pt] -- {left} -- cycle;"
    thick = 1.8 if mark.kind == "state" else PEN
    return f"\\draw[line width={thick}pt{own}] {_point((x - r, y))} -- {_point((x + r, y))};"


def _caption(caption: Caption, colours: dict[str, str]) -> str:
    anchor = "east" if caption.is_turned else {"start": "west", "middle": "center", "end": "east"}[caption.anchor]
    options = ["label", f"anchor={anchor}"]
    if caption.is_turned:
        options.append("rotate=90")
    if caption.colour in colours:
        options.append(f"text={colours[caption.colour]}")
    size = f"\\fontsize{{{_number(caption.size)}}}{{{_number(1.2 * caption.size)}}}\\selectfont "
    return f"\\node[{', '.join(options)}] at {_point(caption.at)} {{{size}{latex_of(caption.label)}}};"
