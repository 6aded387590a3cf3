"""Pictures as SVG: one stand-alone file of text without scripts, fonts or references to anything outside it."""

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from opalgebra.files import write_text
from opalgebra.render.label import SMALLER, Label, Run
from opalgebra.render.layout import RADII, Caption, Mark, Picture, Point, Stroke
from opalgebra.render.pictures import picture

FONT = "'Latin Modern Math','STIX Two Text','Times New Roman',Times,serif"
PEN = 0.8
GHOST = "#bbbbbb"
SHADE = "#cccccc"
BASELINE = 0.33


def svg(value: Any) -> str:
    """The picture of a diagram, a token-resolved diagram or a row of them, as the text of an SVG file on white.

    Errors as `picture`. It is valid XML, has a title for readers who do not see it, and is the same text each time.

    >>> import opalgebra as oa
    >>> oa.svg(oa.Diagram(oa.transformer(1).dyson().term(1, 0)))[:38]
    '<?xml version="1.0" encoding="UTF-8"?>'
    """
    shown = picture(value)
    left, top = shown.box.left, shown.box.top
    width, height = map(_number, shown.size)

    def place(point: Point) -> str:
        return f"{_number(point[0] - left)},{_number(top - point[1])}"

    body = [
        *(_stroke(stroke, place) for stroke in shown.strokes),
        *(_mark(mark, place) for mark in shown.marks),
        *(_caption(caption, place) for caption in shown.captions),
    ]
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}pt" height="{height}pt" '
        f'viewBox="0 0 {width} {height}" font-family={quoteattr(FONT)} fill="none" stroke-linecap="round">\n'
        f"<title>{_text(shown.title)}</title>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
    )
    return head + "\n".join(body) + "\n</svg>\n"


def save_svg(value: Any, path: Any) -> Any:
    """Writes `svg(value)` under a path, whole or not at all; gives the path."""
    return write_text(path, svg(value))


def _number(length: float) -> str:
    return f"{length + 0.0:.2f}".rstrip("0").rstrip(".")


def _text(words: str) -> str:
    """Text of XML, which has no control characters."""
    return escape("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in words))


def _stroke(stroke: Stroke, place: Any) -> str:
    colour = GHOST if stroke.style == "ghost" else stroke.colour
    dashes = ' stroke-dasharray="3 2"' if stroke.is_dashed else ""
    width = stroke.width * (3 if stroke.style == "thick" else 1)
    pen = f'stroke="{colour}" stroke-width="{_number(width)}"{dashes}'
    if stroke.style == "wave":
        start, *rest = map(place, stroke.bows)
        curves = " ".join(f"Q{control} {end}" for control, end in zip(rest[::2], rest[1::2]))
        found = f'<path class="wave" d="M{start} {curves}" {pen}/>'
    else:
        lines = " ".join(f"M{place(start)} L{place(end)}" for start, end in stroke.rails)
        found = f'<path class="{stroke.style}" d="{lines}" {pen}/>'
    if stroke.has_arrow:
        found += f'<path class="arrow" d="M{" L".join(map(place, stroke.arrow))} Z" fill="{colour}"/>'
    return found


def _mark(mark: Mark, place: Any) -> str:
    (x, y), r = mark.at, RADII[mark.kind]
    pen = f'stroke="{mark.colour}" stroke-width="{PEN}"'
    kind = f'class="{mark.kind}"'
    reach = r - PEN / 2

    def line(*points: Point) -> str:
        return "M" + " L".join(place((x + right, y + up)) for right, up in points)

    if mark.kind in ("dot", "ffn", "norm", "blob", "shaded"):
        fill = {"norm": "#ffffff", "blob": SHADE, "shaded": SHADE}.get(mark.kind, mark.colour)
        at, size = place(mark.at).split(","), _number(reach)
        return f'<circle {kind} cx="{at[0]}" cy="{at[1]}" r="{size}" fill="{fill}" {pen}/>'
    if mark.kind in ("linear", "nonlinear"):
        side = reach if mark.kind == "nonlinear" else reach * 0.9
        corners = ((0, side), (side, 0), (0, -side), (-side, 0))
        if mark.kind == "linear":
            corners = ((side, side), (side, -side), (-side, -side), (-side, side))
        return f'<path {kind} d="{line(*corners)} Z" fill="{mark.colour}" {pen}/>'
    if mark.kind == "source":
        arm = reach * 0.9
        return f'<path {kind} d="{line((-arm, -arm), (arm, arm))} {line((-arm, arm), (arm, -arm))}" {pen}/>'
    if mark.kind == "detector":
        bow = f"A{_number(reach)},{_number(reach)} 0 0 1"
        return f'<path {kind} d="{line((-reach, 0))} {bow} {place((x + reach, y))} Z" fill="#ffffff" {pen}/>'
    thick = 1.8 if mark.kind == "state" else PEN
    return f'<path {kind} d="{line((-reach, 0), (reach, 0))}" stroke="{mark.colour}" stroke-width="{thick}"/>'


def _caption(caption: Caption, place: Any) -> str:
    x, y = caption.at
    drop = BASELINE * caption.size
    anchor = "end" if caption.is_turned else caption.anchor
    at = place((x + drop, y) if caption.is_turned else (x, y - drop))
    left, down = at.split(",")
    turn = f' transform="rotate(-90 {left} {down})"' if caption.is_turned else ""
    return (
        f'<text x="{left}" y="{down}" text-anchor="{anchor}" font-size="{_number(caption.size)}" fill="{caption.colour}"{turn} xml:space="preserve">'
        f"{_runs(caption.label, caption.size)}</text>"
    )


def _runs(label: Label, size: float) -> str:
    """The runs as spans; what stands below or above the line is shifted back after it."""
    found, shift = "", 0.0
    for run in label:
        level = {-1: 0.22, 0: 0.0, 1: -0.36}[run.level] * size
        move = f' dy="{_number(level - shift)}"' if abs(level - shift) > 1e-9 else ""
        shift = level
        found += f"<tspan{move}{_style(run, size)}>{_text(run.text)}</tspan>"
    return found


def _style(run: Run, size: float) -> str:
    italic = ' font-style="italic"' if run.style == "variable" else ""
    smaller = f' font-size="{_number(SMALLER * size)}"' if run.level else ""
    return italic + smaller
