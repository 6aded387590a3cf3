"""A token-resolved diagram on its lattice: positions across, depth upwards, what acts at a depth named on the left.

Attention runs from the token that is read, below, to the one that is written, above; in a causal model it never runs to the
left. With weights the width of a line is its share of the largest weight; positive ones are blue, negative ones orange and
dashed, and those below a hundredth of the largest are left out, as is what only they would join.
"""

from opalgebra.diagram import Line, Node
from opalgebra.render.feynman import ATTENTION, MARKS, belongs, line_label
from opalgebra.render.label import CELL, LINE, Label, cells_of, name_label, roman, source_label, words
from opalgebra.render.layout import BLACK, Caption, Mark, Picture, Stroke
from opalgebra.space import Kind
from opalgebra.worldlines import Hop, TokenDiagram, connected, is_moving

POSITIVE, NEGATIVE, FAINT = "#0072B2", "#D55E00", "#888888"
SHOWN, STRONG = 0.01, 0.1
THINNEST, THICKEST = 0.4, 3.2
SMALL, FLAT, FEW = 8.0, 1.2, 8


def lattice_picture(resolved: TokenDiagram, *, in_cells: bool = False) -> Picture:
    """The picture of a token-resolved diagram, with tokens turned upwards, or written across in cells of a terminal."""
    return _Lattice(resolved, in_cells).picture


class _Lattice:
    def __init__(self, resolved: TokenDiagram, in_cells: bool) -> None:
        self.resolved, self.in_cells = resolved, in_cells
        self.names = [words(token.strip() or token) for token in resolved.tokens]
        widest = max(map(cells_of, self.names)) + 2 if in_cells else 4 if len(self.names) <= FEW else 2
        self.pitch = widest // 2 * 2 * CELL
        self.largest = max((abs(hop.weight) for hop in resolved.hops if hop.weight is not None), default=0.0)
        self.shown = connected([[hop for hop in hops if self.share(hop) >= SHOWN] for hops in resolved.steps])
        self.strokes: list[Stroke] = []
        self.marks: dict[tuple[str, tuple[float, float]], Mark] = {}
        self.captions: list[Caption] = []
        self.top, self.is_double = 0.0, False

    @property
    def picture(self) -> Picture:
        diagram = self.resolved.diagram
        for step, hops in enumerate(self.shown):
            part = diagram.lines[step // 2] if step % 2 else diagram.nodes[step // 2]
            rows = self.rows(step, part)
            self.is_double = isinstance(part, Line) and (bool(part.norms) or belongs(*diagram.nodes[step // 2 : step // 2 + 2]))
            for hop in hops:
                self.draw(hop, part, rows)
            self.name(part, self.top + LINE * (rows // 2))
            self.top += rows * LINE
        ghosts = [Stroke((x, 0.0), (x, self.top), "ghost", width=0.4) for x in map(self.across, range(len(self.names)))]
        self.name_tokens()
        self.name_readout()
        strokes = sorted(self.strokes, key=lambda stroke: stroke.width)
        return Picture((*ghosts, *strokes), tuple(self.marks.values()), tuple(self.captions), self.title())

    def title(self) -> str:
        names = " ".join(atom.name for atom in reversed(self.resolved.diagram.vertices)) or "propagator"
        total = self.resolved.contribution
        return f"{names} on tokens" + ("" if total is None else f", contribution {total:+.3g}")

    def across(self, position: int) -> float:
        return position * self.pitch

    def rows(self, step: int, part: Node | Line) -> int:
        """How many rows a step rises."""
        if is_moving(self.resolved.diagram, step):
            return 4
        if isinstance(part, Node):
            return 0
        return 4 if part.kind == "resummed" else 2

    def share(self, hop: Hop) -> float:
        """The weight of a hop over the largest; 1 without weights."""
        return 1.0 if hop.weight is None or not self.largest else abs(hop.weight) / self.largest

    def colour(self, hop: Hop) -> str:
        return BLACK if hop.weight is None else POSITIVE if hop.weight >= 0 else NEGATIVE

    def draw(self, hop: Hop, part: Node | Line, rows: int) -> None:
        lower = (self.across(hop.source), self.top)
        upper = (self.across(hop.target), self.top + rows * LINE)
        colour = self.colour(hop)
        if rows:
            width = 0.6 if hop.weight is None else THINNEST + (THICKEST - THINNEST) * self.share(hop)
            is_wave = isinstance(part, Node) and part.kind == ATTENTION
            style = "wave" if is_wave else "double" if self.is_double else "plain"
            width = width / 2 if self.is_double else width
            negative = hop.weight is not None and hop.weight < 0
            self.strokes.append(Stroke(lower, upper, style, False, width, colour, negative, FLAT))
        if isinstance(part, Line):
            middle = (lower[0], (lower[1] + upper[1]) / 2)
            if part.kind == "resummed" and hop.source == hop.target and self.share(hop) >= STRONG:
                self.mark("shaded", middle, colour)
        elif rows:
            self.mark("dot", lower, colour)
            self.mark("dot", upper, colour)
        else:
            self.mark(self.sign(part), lower, colour)

    def sign(self, node: Node) -> str:
        if node.kind == "out":
            return "end" if self.resolved.readout is None else "detector"
        if node.kind == "in":
            return "end" if node.atom is None else "state"
        return "source" if node.kind == "source" else MARKS[Kind(node.kind)]

    def mark(self, kind: str, at: tuple[float, float], colour: str) -> None:
        self.marks.setdefault((kind, at), Mark(kind, at, colour))

    def name(self, part: Node | Line, height: float) -> None:
        """The label of a step on the left."""
        label = line_label(part) if isinstance(part, Line) else self.node_label(part)
        if label:
            colour = FAINT if isinstance(part, Line) else BLACK
            self.captions.append(Caption(label, (-2 * CELL, height), "end", SMALL, colour=colour))

    def node_label(self, node: Node) -> Label:
        if node.kind == "out":
            return roman("out") if self.resolved.readout is None else ()
        if node.atom is None:
            return roman("in") if node.kind == "in" else ()
        if node.kind == "source":
            return source_label(node.atom, frozenset(atom.base for atom in self.resolved.diagram.vertices))
        return name_label(node.atom)

    def name_tokens(self) -> None:
        """The tokens below; those where no strong hop begins or ends are faint."""
        strong = {at for hops in self.shown for hop in hops if self.share(hop) >= STRONG for at in (hop.source, hop.target)}
        for position, name in enumerate(self.names):
            colour = BLACK if position in strong else FAINT
            if self.in_cells:
                self.captions.append(Caption(name, (self.across(position), -LINE), "middle", SMALL, colour=colour))
            else:
                at = (self.across(position), -0.6 * LINE)
                self.captions.append(Caption(name, at, size=SMALL, is_turned=True, colour=colour))

    def name_readout(self) -> None:
        """What is measured, and how much of it there is, above the picture."""
        readout, total = self.resolved.readout, self.resolved.contribution
        label = () if readout is None else words(readout)
        if total is not None:
            label = (*label, *roman(": " if label else ""), *roman(f"{total:+#.3g}".rstrip(".").replace("-", "−")))
        if label:
            right = self.across(len(self.names) - 1) + CELL
            self.captions.append(Caption(label, (right, self.top + LINE), "end", SMALL))
