"""The one layout behind every skin: where strokes, marks and captions of a picture stand. Depth is time and runs upwards.

A picture is a value in units of a printer's point, x to the right and y upwards. What is placed lies on a grid of cells of a
terminal, `CELL` wide and `LINE` high, so that the same layout is text too. The laws, which hold for every picture:

    no two boxes of marks and captions overlap;    no stroke runs through the box of a caption;

where boxes bound what any skin draws. Strokes are straight; a wave follows its own. In the manner of Feynman diagrams:

    plain, double, thick    a bare propagator; one dressed by norms; the full one
    wave                    attention: from the position that is read to the one that is written
    dot, ffn                an end of attention; a feed-forward network, which acts on a token alone
    linear, nonlinear       another vertex
    norm                    a norm
    blob, shaded            vertices resummed in a propagator; the same where room is scarce
    source, state           where a path begins: at a source that a vertex leaves over; in a state
    end, detector           an open end; a measurement
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from opalgebra.display import Drawn
from opalgebra.errors import InputError
from opalgebra.render.label import CELL, LINE, SIZE, Label, width_of

Point = tuple[float, float]
RADII = {
    "dot": 2.0, "ffn": 3.4, "linear": 3.2, "nonlinear": 4.2, "norm": 3.0, "blob": 6.0, "shaded": 4.0, "source": 3.6,
    "state": 5.0, "end": 3.0, "detector": 6.0,
}  # fmt: skip
WHITE, SHADE, GHOST = "#ffffff", "#cccccc", "#cccccc"
ROUND = {"dot": None, "ffn": None, "norm": WHITE, "blob": SHADE, "shaded": SHADE}
PEN = 0.8
STYLES = ("plain", "double", "thick", "wave", "ghost")
BLACK = "#000000"
AMPLITUDE, WAVELENGTH = 2.0, 6.0
GAP = 1.6
MARGIN = 4.0


@dataclass(frozen=True)
class Box:
    """An upright rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    @staticmethod
    def around(boxes: Iterable["Box"]) -> "Box":
        """The smallest box around some; at the origin for none."""
        sides = list(boxes)
        if not sides:
            return Box(0.0, 0.0, 0.0, 0.0)
        return Box(
            min(b.left for b in sides), min(b.bottom for b in sides), max(b.right for b in sides), max(b.top for b in sides)
        )


@dataclass(frozen=True)
class Stroke:
    """A straight line of a style, with an arrow in its middle or none, drawn by a pen of some width, dashed or not."""

    start: Point
    end: Point
    style: str = "plain"
    has_arrow: bool = False
    width: float = PEN
    colour: str = BLACK
    is_dashed: bool = False
    amplitude: float = AMPLITUDE

    @property
    def box(self) -> Box:
        reach = {"wave": self.amplitude, "double": self.apart / 2}.get(self.style, 0.0) + self.pen / 2
        (x, y), (u, v) = self.start, self.end
        return Box(min(x, u) - reach, min(y, v) - reach, max(x, u) + reach, max(y, v) + reach)

    @property
    def pen(self) -> float:
        """The width of what is drawn: three times that of the others for a thick line."""
        return self.width * (3 if self.style == "thick" else 1)

    @property
    def apart(self) -> float:
        """How far the two lines of a double one are from each other."""
        return GAP + self.width

    @property
    def length(self) -> float:
        return float(((self.end[0] - self.start[0]) ** 2 + (self.end[1] - self.start[1]) ** 2) ** 0.5)

    def at(self, share: float, aside: float = 0.0) -> Point:
        """The point at a share of the way, moved aside to the left of the direction."""
        (x, y), (u, v) = self.start, self.end
        along = ((u - x) / self.length, (v - y) / self.length) if self.length else (0.0, 0.0)
        return x + share * (u - x) - aside * along[1], y + share * (v - y) + aside * along[0]

    @property
    def rails(self) -> tuple[tuple[Point, Point], ...]:
        """The straight lines that are drawn: two side by side for a double line."""
        asides = (-self.apart / 2, self.apart / 2) if self.style == "double" else (0.0,)
        return tuple((self.at(0.0, aside), self.at(1.0, aside)) for aside in asides)

    @property
    def bows(self) -> tuple[Point, ...]:
        """A wave as a chain of quadratic curves: start, then the control point and the end of each."""
        halves = max(2, 2 * round(self.length / WAVELENGTH))
        points = [self.start]
        for half in range(halves):
            side = 2 * self.amplitude if half % 2 else -2 * self.amplitude
            points += [self.at((half + 0.5) / halves, side), self.at((half + 1) / halves)]
        return tuple(points)

    @property
    def arrow(self) -> tuple[Point, Point, Point]:
        """The corners of the arrow head, the tip first."""
        size = 4.5 if self.style == "thick" else 3.0
        half = size / self.length if self.length else 0.0
        return self.at(0.5 + half), self.at(0.5 - half, 0.8 * size), self.at(0.5 - half, -0.8 * size)


@dataclass(frozen=True)
class Mark:
    """A sign at a point, of a kind in `RADII`: a circle (`ROUND`, with what fills it), straight lines, or the detector."""

    kind: str
    at: Point
    colour: str = BLACK

    @property
    def box(self) -> Box:
        (x, y), r = self.at, RADII[self.kind]
        return Box(x - r, y - r, x + r, y + r)

    @property
    def radius(self) -> float:
        """That of the middle of the pen."""
        return RADII[self.kind] - PEN / 2

    @property
    def pen(self) -> float:
        """The width of its lines."""
        return 1.8 if self.kind == "state" else PEN

    @property
    def is_filled(self) -> bool:
        """Whether the straight lines are the border of a filled shape."""
        return self.kind in ("linear", "nonlinear")

    @property
    def lines(self) -> tuple[tuple[Point, ...], ...]:
        """The straight lines of a square, a diamond, a cross or a bar; none for the others."""
        (x, y), r = self.at, self.radius
        a = 0.9 * r
        corners: dict[str, tuple[tuple[Point, ...], ...]] = {
            "linear": (((a, a), (a, -a), (-a, -a), (-a, a)),),
            "nonlinear": (((0.0, r), (r, 0.0), (0.0, -r), (-r, 0.0)),),
            "source": (((-a, -a), (a, a)), ((-a, a), (a, -a))),
            "state": (((-r, 0.0), (r, 0.0)),),
            "end": (((-r, 0.0), (r, 0.0)),),
        }
        return tuple(tuple((x + right, y + up) for right, up in line) for line in corners.get(self.kind, ()))


@dataclass(frozen=True)
class Caption:
    """A label in a box one line high that starts, is centred or ends at a point; turned, it runs upwards and ends there."""

    label: Label
    at: Point
    anchor: str = "start"
    size: float = SIZE
    is_turned: bool = False
    colour: str = BLACK

    @cached_property
    def box(self) -> Box:
        width, height = width_of(self.label, self.size), LINE * self.size / SIZE
        x, y = self.at
        if self.is_turned:
            return Box(x - height / 2, y - width, x + height / 2, y)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return Box(left, y - height / 2, left + width, y + height / 2)


@dataclass(frozen=True)
class Picture(Drawn):
    """What stands where. `title` says in words what is shown."""

    strokes: tuple[Stroke, ...] = ()
    marks: tuple[Mark, ...] = ()
    captions: tuple[Caption, ...] = ()
    title: str = ""

    @cached_property
    def box(self) -> Box:
        """The smallest box around everything, with a margin."""
        parts: tuple[Stroke | Mark | Caption, ...] = (*self.strokes, *self.marks, *self.captions)
        tight = Box.around(part.box for part in parts)
        return Box(tight.left - MARGIN, tight.bottom - MARGIN, tight.right + MARGIN, tight.top + MARGIN)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return self.box.right - self.box.left, self.box.top - self.box.bottom

    def shifted(self, right: float, up: float) -> "Picture":
        """The picture elsewhere."""

        def moved(point: Point) -> Point:
            return point[0] + right, point[1] + up

        return Picture(
            tuple(replace(stroke, start=moved(stroke.start), end=moved(stroke.end)) for stroke in self.strokes),
            tuple(replace(mark, at=moved(mark.at)) for mark in self.marks),
            tuple(replace(caption, at=moved(caption.at)) for caption in self.captions),
            self.title,
        )


def together(pictures: Sequence[Picture], title: str) -> Picture:
    """Pictures over each other, as they stand."""
    return Picture(
        tuple(stroke for picture in pictures for stroke in picture.strokes),
        tuple(mark for picture in pictures for mark in picture.marks),
        tuple(caption for picture in pictures for caption in picture.captions),
        title,
    )


def row_of(items: Iterable[Picture | Label], *, title: str) -> Picture:
    """Pictures and signs between them, from left to right, each centred on one height."""
    placed: list[Picture] = []
    right = 0.0
    for item in items:
        picture = item if isinstance(item, Picture) else Picture(captions=(Caption(item, (0.0, 0.0)),))
        box = picture.box
        placed.append(picture.shifted(_on_grid(right - box.left, CELL), _on_grid(-(box.bottom + box.top) / 2, LINE)))
        right = placed[-1].box.right + CELL
    return together(placed, title)


def stack_of(pictures: Iterable[Picture], *, title: str) -> Picture:
    """Pictures below each other, each beginning on the left."""
    placed: list[Picture] = []
    bottom = 0.0
    for picture in pictures:
        box = picture.box
        placed.append(picture.shifted(_on_grid(-box.left, CELL), -_on_grid(box.top - bottom, LINE)))
        bottom = placed[-1].box.bottom
    return together(placed, title)


def grid_of(pictures: Iterable[Picture], *, columns: int, title: str) -> Picture:
    """Pictures in rows of some columns, read from left to right and downwards; all cells have one size."""
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise InputError(f"columns={columns!r}: a grid of pictures has a positive number of columns")
    cells = list(pictures)
    if not cells:
        raise InputError("a grid of no pictures was asked; give at least one")
    width = max(_on_grid(cell.size[0] + CELL, CELL) for cell in cells)
    height = max(_on_grid(cell.size[1] + LINE, LINE) for cell in cells)
    placed = []
    for place, cell in enumerate(cells):
        right, down = place % columns * width, place // columns * height
        placed.append(cell.shifted(_on_grid(right - cell.box.left, CELL), _on_grid(-down - cell.box.top, LINE)))
    return together(placed, title)


def _on_grid(length: float, step: float) -> float:
    """The least multiple of a step that is not shorter."""
    return -(-length // step) * step
