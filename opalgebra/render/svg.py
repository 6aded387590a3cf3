"""Pictures as SVG: one stand-alone file of text without scripts, fonts or references to anything outside it."""

from collections.abc import Callable, Iterable
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from opalgebra.render.label import SHIFTS, SMALLER, Label, Run
from opalgebra.render.layout import GHOST, ROUND, WHITE, Caption, Mark, Point, Stroke
from opalgebra.render.pictures import picture

Place = Callable[[Point], str]

FONT = "'Latin Modern Math','STIX Two Text','Times New Roman',Times,serif"
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
        f'<rect width="{width}" height="{height}" fill="{WHITE}"/>\n'
    )
    return head + "\n".join(body) + "\n</svg>\n"


def _number(length: float) -> str:
    return f"{length + 0.0:.2f}".rstrip("0").rstrip(".")


def _text(words: str) -> str:
    """Text of XML, which has no control characters."""
    return escape("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in words))


def _stroke(stroke: Stroke, place: Place) -> str:
    colour = GHOST if stroke.style == "ghost" else stroke.colour
    dashes = ' stroke-dasharray="3 2"' if stroke.is_dashed else ""
    pen = f'stroke="{colour}" stroke-width="{_number(stroke.pen)}"{dashes}'
    if stroke.style == "wave":
        start, *rest = map(place, stroke.bows)
        curves = " ".join(f"Q{control} {end}" for control, end in zip(rest[::2], rest[1::2]))
        found = f'<path class="wave" d="M{start} {curves}" {pen}/>'
    else:
        found = f'<path class="{stroke.style}" d="{" ".join(_path(rail, place) for rail in stroke.rails)}" {pen}/>'
    return found + (f'<path class="arrow" d="{_path(stroke.arrow, place)} Z" fill="{colour}"/>' if stroke.has_arrow else "")


def _path(points: Iterable[Point], place: Place) -> str:
    return "M" + " L".join(map(place, points))


def _mark(mark: Mark, place: Place) -> str:
    (x, y), r = mark.at, _number(mark.radius)
    look = f'class="{mark.kind}" stroke="{mark.colour}" stroke-width="{mark.pen}"'
    if mark.kind in ROUND:
        across, down = place(mark.at).split(",")
        return f'<circle {look} cx="{across}" cy="{down}" r="{r}" fill="{ROUND[mark.kind] or mark.colour}"/>'
    if mark.kind == "detector":
        left, right = place((x - mark.radius, y)), place((x + mark.radius, y))
        return f'<path {look} d="M{left} A{r},{r} 0 0 1 {right} Z" fill="{WHITE}"/>'
    if mark.is_filled:
        return "".join(f'<path {look} d="{_path(line, place)} Z" fill="{mark.colour}"/>' for line in mark.lines)
    return f'<path {look} d="{" ".join(_path(line, place) for line in mark.lines)}"/>'


def _caption(caption: Caption, place: Place) -> str:
    x, y = caption.at
    drop = BASELINE * caption.size
    anchor = "end" if caption.is_turned else caption.anchor
    at = place((x + drop, y) if caption.is_turned else (x, y - drop))
    left, down = at.split(",")
    turn = f' transform="rotate(-90 {left} {down})"' if caption.is_turned else ""
    look = f'text-anchor="{anchor}" font-size="{_number(caption.size)}" fill="{caption.colour}"{turn} xml:space="preserve"'
    return f'<text x="{left}" y="{down}" {look}>{_runs(caption.label, caption.size)}</text>'


def _runs(label: Label, size: float) -> str:
    """The runs as spans; what stands below or above the line is shifted back after it."""
    found, shift = "", 0.0
    for run in label:
        level = -SHIFTS[run.level] * size
        move = f' dy="{_number(level - shift)}"' if abs(level - shift) > 1e-9 else ""
        shift = level
        found += f"<tspan{move}{_style(run, size)}>{_text(run.text)}</tspan>"
    return found


def _style(run: Run, size: float) -> str:
    italic = ' font-style="italic"' if run.style == "variable" else ""
    smaller = f' font-size="{_number(SMALLER * size)}"' if run.level else ""
    return italic + smaller
