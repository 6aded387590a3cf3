"""One term as a Feynman diagram: a path that runs upwards in depth and moves to the next column at each attention.

A column stands for a position that is summed over; which one, the term does not say (`token_diagram` does). Between a norm and
the vertex that it belongs to the propagator is double. A blob on a propagator stands for what is resummed in it, named beside.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from opalgebra.diagram import Diagram, Line, Node
from opalgebra.expr import Atom
from opalgebra.render.label import CELL, LINE, SIZE, Label, families, name_label, roman, source_label, width_of
from opalgebra.render.layout import Caption, Mark, Picture, Point, Stroke
from opalgebra.space import Kind

ATTENTION = "attention"
MARKS = {Kind.FFN: "ffn", Kind.NORM: "norm", Kind.NONLINEAR: "nonlinear", Kind.LINEAR: "linear"}


@dataclass(frozen=True)
class Stop:
    """What stands on a path: a mark, or attention, which moves the path to the next column."""

    kind: str
    label: Label = ()


@dataclass(frozen=True)
class Leg:
    """The propagator between two stops, longer by some spare rows."""

    style: str = "plain"
    label: Label = ()
    has_blob: bool = False
    spare: int = 0

    @property
    def rows(self) -> int:
        return (4 if self.has_blob else 2) + self.spare


def path_picture(stops: Sequence[Stop], legs: Sequence[Leg], *, title: str, is_reversed: bool = False) -> Picture:
    """Stops from below to above with the legs between them; a reversed path has its arrows downwards."""
    strokes: list[Stroke] = []
    marks: list[Mark] = []
    captions: list[Caption] = []
    column, row = 0.0, 0.0
    for place, stop in enumerate(stops):
        if place:
            leg = legs[place - 1]
            top = row + leg.rows * LINE
            found = _leg(leg, (column, row), (column, top), is_reversed)
            strokes, marks, captions = [*strokes, *found.strokes], [*marks, *found.marks], [*captions, *found.captions]
            row = top
        if stop.kind == ATTENTION:
            right = column + _span(stop.label)
            strokes.append(Stroke((column, row), (right, row), "wave"))
            marks += [Mark("dot", (column, row)), Mark("dot", (right, row))]
            captions.append(Caption(stop.label, ((column + right) / 2, row + LINE), "middle"))
            column = right
            continue
        marks.append(Mark(stop.kind, (column, row)))
        if not stop.label:
            continue
        if stop.kind in ("end", "state", "detector"):
            captions.append(Caption(stop.label, (column, row + LINE * (1 if place else -1)), "middle"))
        else:
            captions.append(Caption(stop.label, (column + 2 * CELL, row)))
    return Picture(tuple(strokes), tuple(marks), tuple(captions), title)


def _span(label: Label) -> float:
    """The width of a wave with its label above it, a whole number of cells to either side of the middle."""
    wide = width_of(label, SIZE) + 4 * CELL
    return 2 * CELL * max(3, -(-wide // (2 * CELL)))


def _leg(leg: Leg, lower: Point, upper: Point, is_reversed: bool) -> Picture:
    ends = (upper, lower) if is_reversed else (lower, upper)
    middle = (lower[0], (lower[1] + upper[1]) / 2)
    beside = (Caption(leg.label, (middle[0] + 2 * CELL, middle[1])),) if leg.label else ()
    if not leg.has_blob:
        return Picture((Stroke(*ends, leg.style, has_arrow=True),), (), beside)
    halves = (Stroke(ends[0], middle, leg.style), Stroke(middle, ends[1], leg.style))
    return Picture(halves, (Mark("blob", middle),), beside)


def diagram_picture(diagram: Diagram) -> Picture:
    """The picture of a diagram. That of a transposed one reads downwards, from its open end at the top."""
    turned = diagram.is_transposed
    maps = frozenset(node.atom.base for node in diagram.nodes if node.atom is not None and node.kind != "in")
    stops = [_stop(node, maps, turned) for node in diagram.nodes]
    legs = [_line(line, *ends) for line, ends in zip(diagram.lines, pairwise(diagram.nodes))]
    names = ", ".join(_spoken(node) for node in diagram.nodes[1:-1])
    return path_picture(stops, legs, title=f"Diagram: {names or 'a propagator'}", is_reversed=turned)


def _spoken(node: Node) -> str:
    return node.kind if node.atom is None else f"{node.kind} {node.atom.name}"


def _stop(node: Node, maps: frozenset[str], turned: bool) -> Stop:
    atom = node.atom
    if node.kind in ("in", "out"):
        named = name_label(atom) if atom is not None else roman(_end(node.kind, turned))
        return Stop("end" if atom is None else "state", named)
    if atom is None:
        return Stop("linear")
    if node.kind == "source":
        return Stop("source", source_label(atom, maps))
    label = name_label(atom, is_transposed=turned)
    return Stop(ATTENTION, label) if node.kind == Kind.ATTENTION else Stop(MARKS[Kind(node.kind)], label)


def _end(kind: str, turned: bool) -> str:
    """The open ends of a transposed diagram are the other way round."""
    return {"in": "out", "out": "in"}[kind] if turned else kind


def _line(line: Line, before: Node, after: Node) -> Leg:
    if line.kind == "bare":
        return Leg("double" if belongs(before, after) else "plain")
    label = line_label(line)
    return Leg("double" if line.norms else "plain", label, has_blob=line.kind == "resummed")


def line_label(line: Line) -> Label:
    """What a propagator passes: vertices resummed in it, then norms."""
    groups: Iterable[tuple[Atom, ...]] = (line.resummed, line.norms)
    found: Label = ()
    for label in map(families, groups):
        found = (*found, *(roman("; ") if found and label else ()), *label)
    return found


def belongs(before: Node, after: Node) -> bool:
    """Whether one of two nodes is a norm that reads the other, or is read by it."""
    read = before.kind == Kind.NORM and before.stage is not None and before.end is not None and before.stage > before.end
    reads = after.kind == Kind.NORM and after.stage is not None and after.stage == after.end
    return read or reads
