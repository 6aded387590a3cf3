"""Pictures as Unicode text for a terminal: the same layout, a cell of the grid a character."""

from collections.abc import Iterator
from typing import Any

from opalgebra.render.label import CELL, LINE, cells, unicode_of
from opalgebra.render.layout import Caption, Picture, Point, Stroke
from opalgebra.render.pictures import picture

_UPRIGHT = {"plain": "│", "double": "║", "thick": "┃", "ghost": "┊", "wave": "∿"}
_SLANTED = {"plain": "·", "double": ":", "thick": "▪", "wave": "∿"}
_ARROWS = {"plain": "↑↓", "double": "⇑⇓", "thick": "⬆⬇"}
_MARKS = {
    "dot": "•", "ffn": "●", "linear": "■", "nonlinear": "◆", "norm": "○", "blob": "◍", "shaded": "◍", "source": "×",
    "state": "┴", "end": "╵", "detector": "◠",
}  # fmt: skip

Place = tuple[int, int]


def terminal(value: Any) -> str:
    """The picture of a diagram, a token-resolved diagram or a row of them, in characters; errors as `picture`.

    >>> import opalgebra as oa
    >>> print(oa.terminal(oa.Diagram(oa.transformer(1, norms="absorbed").dyson().term(1, 1))))
    out
     ╷
     ↑
     ● F₁
     ↑
     ╵
    in
    """
    shown = picture(value, in_cells=True)
    canvas: dict[Place, str] = {}
    for stroke in shown.strokes:
        canvas.update(_stroke(stroke))
    tops = {_place(max(stroke.start, stroke.end, key=lambda point: point[1])) for stroke in shown.strokes}
    for mark in shown.marks:
        place = _place(mark.at)
        canvas[place] = "╷" if mark.kind == "end" and place in tops else _MARKS[mark.kind]
    for caption in shown.captions:
        canvas.update(_caption(caption))
    return _lines(canvas, shown)


def _place(point: Point) -> Place:
    return round(point[0] / CELL), round(point[1] / LINE)


def _stroke(stroke: Stroke) -> Iterator[tuple[Place, str]]:
    (column, row), (right, top) = _place(stroke.start), _place(stroke.end)
    steps = max(abs(right - column), abs(top - row))
    signs = _UPRIGHT if column == right else _SLANTED
    for step in range(steps + 1):
        share = step / max(steps, 1)
        yield (round(column + (right - column) * share), round(row + (top - row) * share)), signs[stroke.style]
    if stroke.has_arrow and steps > 1:
        yield ((column + right) // 2, (row + top) // 2), _ARROWS[stroke.style][top < row]


def _caption(caption: Caption) -> Iterator[tuple[Place, str]]:
    text = unicode_of(caption.label)
    width = sum(map(cells, text))
    column, row = _place(caption.at)
    column -= {"start": 0, "middle": width // 2, "end": width}[caption.anchor]
    for character in text:
        yield (column, row), character
        for hidden in range(1, cells(character)):
            yield (column + hidden, row), ""
        column += cells(character)


def _lines(canvas: dict[Place, str], shown: Picture) -> str:
    columns, rows = [column for column, _ in canvas], [row for _, row in canvas]
    lines = []
    for row in range(max(rows), min(rows) - 1, -1):
        line = "".join(canvas.get((column, row), " ") for column in range(min(columns), max(columns) + 1))
        lines.append(line.rstrip())
    return "\n".join(lines)
