"""Pictures as TikZ, for plain pdflatex: `\\usepackage{tikz}` and one of its own libraries, which `PREAMBLE` names.

The picture is one `tikzpicture` in points with named styles, so that a paper can restyle attention or norms in one place.
"""

from collections.abc import Iterable
from typing import Any

from opalgebra.errors import LimitError
from opalgebra.render.label import latex_of
from opalgebra.render.layout import (
    AMPLITUDE,
    BLACK,
    GHOST,
    PEN,
    RADII,
    ROUND,
    WAVELENGTH,
    WHITE,
    Caption,
    Mark,
    Picture,
    Point,
    Stroke,
)
from opalgebra.render.pictures import picture

PREAMBLE = "\\usepackage{tikz}\n\\usetikzlibrary{decorations.pathmorphing}"
WIDEST = 16_000.0


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
            f"TikZ of a picture {max(shown.size):,.0f} points long was asked, and TeX measures up to {WIDEST:,.0f}; "
            "draw a part of it, or use svg"
        )
    parts: list[Stroke | Mark | Caption] = [*shown.strokes, *shown.marks, *shown.captions]
    found = sorted({part.colour for part in parts} - {BLACK})
    colours = {colour: f"opalgebra{colour[1:].upper()}" for colour in found}
    defined = [f"\\definecolor{{{name}}}{{HTML}}{{{colour[1:].upper()}}}" for colour, name in colours.items()]
    lines = (_line(part, colours) for part in parts)
    return "\n".join([*defined, _head(shown), *(f"  {line}" for line in lines), "\\end{tikzpicture}"])


def _head(shown: Picture) -> str:
    """The beginning of the environment, with the styles that the picture uses."""
    wave = f"decorate, decoration={{snake, amplitude={AMPLITUDE}pt, segment length={WAVELENGTH}pt}}"
    ghost = f"line width=0.4pt, draw=black!{_ink(GHOST)}"
    pen = f"line width={PEN}pt"
    styles = {"plain": pen, "double": pen, "thick": f"line width={3 * PEN:.1f}pt", "ghost": ghost, "wave": f"{pen}, {wave}"}
    used = {stroke.style for stroke in shown.strokes}
    own = [f"{style}/.style={{{look}}}" for style, look in styles.items() if style in used]
    own += [f"{kind}/.style={{{_circle(kind, fill)}}}" for kind, fill in ROUND.items() if kind in {m.kind for m in shown.marks}]
    own.append("label/.style={inner sep=0pt, outer sep=0pt, text height=1.6ex, text depth=0.4ex}")
    return "\\begin{tikzpicture}[x=1pt, y=1pt, line cap=round,\n  " + ",\n  ".join(own) + "]"


def _circle(kind: str, fill: str | None) -> str:
    size = 2 * RADII[kind] - PEN
    look = "fill" if fill is None else f"fill=black!{_ink(fill)}"
    return f"circle, draw, line width={PEN}pt, {look}, inner sep=0pt, outer sep=0pt, minimum size={size:.1f}pt"


def _ink(grey: str) -> int:
    """How much black a grey has, in per cent."""
    return round(100 - int(grey[1:3], 16) / 2.55)


def _point(point: Point) -> str:
    return f"({_number(point[0])}, {_number(point[1])})"


def _path(points: Iterable[Point]) -> str:
    return " -- ".join(map(_point, points))


def _number(length: float) -> str:
    return f"{length + 0.0:.2f}".rstrip("0").rstrip(".")


def _line(part: Stroke | Mark | Caption, colours: dict[str, str]) -> str:
    if isinstance(part, Stroke):
        return _stroke(part, colours)
    return _mark(part, colours) if isinstance(part, Mark) else _caption(part, colours)


def _stroke(stroke: Stroke, colours: dict[str, str]) -> str:
    options = [stroke.style]
    if stroke.style != "ghost" and stroke.width != PEN:
        options.append(f"line width={_number(stroke.pen)}pt")
    if stroke.colour in colours:
        options.append(f"draw={colours[stroke.colour]}")
    if stroke.style == "wave" and stroke.amplitude != AMPLITUDE:
        options.append(f"decoration={{amplitude={_number(stroke.amplitude)}pt}}")
    if stroke.is_dashed:
        options.append("dash pattern=on 3pt off 2pt")
    lines = [f"\\draw[{', '.join(options)}] {_path(rail)};" for rail in stroke.rails]
    if stroke.has_arrow:
        own = f"[{colours[stroke.colour]}]" if stroke.colour in colours else ""
        lines.append(f"\\fill{own} {_path(stroke.arrow)} -- cycle;")
    return " ".join(lines)


def _mark(mark: Mark, colours: dict[str, str]) -> str:
    own = f", draw={colours[mark.colour]}" if mark.colour in colours else ""
    if own and (mark.is_filled or ROUND.get(mark.kind, WHITE) is None):
        own += f", fill={colours[mark.colour]}"
    if mark.kind in ROUND:
        return f"\\node[{mark.kind}{own}] at {_point(mark.at)} {{}};"
    if mark.kind == "detector":
        (x, y), r = mark.at, mark.radius
        arc = f"arc[start angle=0, end angle=180, radius={_number(r)}pt]"
        return f"\\draw[line width={PEN}pt, fill=white{own}] {_point((x + r, y))} {arc} -- cycle;"
    if mark.is_filled:
        return " ".join(f"\\fill[black{own}] {_path(line)} -- cycle;" for line in mark.lines)
    return " ".join(f"\\draw[line width={mark.pen}pt{own}] {_path(line)};" for line in mark.lines)


def _caption(caption: Caption, colours: dict[str, str]) -> str:
    anchor = "east" if caption.is_turned else {"start": "west", "middle": "center", "end": "east"}[caption.anchor]
    turn = ", rotate=90" if caption.is_turned else ""
    own = f", text={colours[caption.colour]}" if caption.colour in colours else ""
    size = f"\\fontsize{{{_number(caption.size)}}}{{{_number(1.2 * caption.size)}}}\\selectfont "
    return f"\\node[label, anchor={anchor}{turn}{own}] at {_point(caption.at)} {{{size}{latex_of(caption.label)}}};"
