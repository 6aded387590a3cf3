"""Pictures on axes of matplotlib, which the `plot` extra brings. All is drawn in units of the data, so that nothing collides at
any size of the axes: labels are outlines of letters and not text that keeps its size.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from opalgebra.errors import InputError
from opalgebra.render.label import SHIFTS, SMALLER, Label, spelled
from opalgebra.render.layout import GHOST, ROUND, WHITE, Caption, Mark, Picture, Point, Stroke
from opalgebra.render.pictures import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(value: Any, ax: "Axes") -> "Axes":
    """Draws the picture of a diagram, a token-resolved diagram or a row of them; the axes lose their frame and keep its shape.

    Errors as `picture`; InputError for what are no axes, or without matplotlib.
    """
    shown = picture(value)
    try:
        from matplotlib.axes import Axes
    except ImportError as error:
        raise InputError("drawing on axes needs matplotlib; run `pip install 'opalgebra[plot]'`, or use svg") from error
    if not isinstance(ax, Axes):
        raise InputError(f"{type(ax).__name__} is no matplotlib axes; draw(d, ax) draws on those that plt.subplots() returns")
    box = shown.box
    ax.set(xlim=(box.left, box.right), ylim=(box.bottom, box.top), aspect="equal")
    ax.set_axis_off()
    _Drawing(ax, shown).draw()
    return ax


FACES = ["STIXGeneral", "DejaVu Serif"]


class _Drawing:
    def __init__(self, ax: Any, shown: Picture) -> None:
        self.ax, self.shown = ax, shown
        ax.apply_aspect()
        corners = ax.transData.transform([(0, 0), (1, 0)])
        self.point = float(corners[1][0] - corners[0][0]) * 72 / ax.figure.dpi

    def draw(self) -> None:
        for place, stroke in enumerate(self.shown.strokes):
            self.stroke(stroke, 2 + place * 1e-6)
        for mark in self.shown.marks:
            self.mark(mark)
        for caption in self.shown.captions:
            self.caption(caption)

    def path(self, points: list[Point], codes: list[str], order: float, **style: Any) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        named = {"M": Path.MOVETO, "L": Path.LINETO, "Q": Path.CURVE3, "Z": Path.CLOSEPOLY}
        style = {"facecolor": "none", "edgecolor": "none", "capstyle": "round", **style}
        style["linewidth"] = style.get("linewidth", 0.0) * self.point
        self.ax.add_artist(PathPatch(Path(points, [named[code] for code in codes]), zorder=order, **style))

    def stroke(self, stroke: Stroke, order: float) -> None:
        colour = GHOST if stroke.style == "ghost" else stroke.colour
        pen: dict[str, Any] = {"edgecolor": colour, "linewidth": stroke.pen}
        if stroke.is_dashed:
            pen |= {"linestyle": (0, (3 / stroke.width, 2 / stroke.width)), "capstyle": "butt"}
        if stroke.style == "wave":
            bows = list(stroke.bows)
            self.path(bows, ["M", *["Q"] * (len(bows) - 1)], order, **pen)
        else:
            for rail in stroke.rails:
                self.path(list(rail), ["M", "L"], order, **pen)
        if stroke.has_arrow:
            corners = list(stroke.arrow)
            self.path([*corners, corners[0]], ["M", "L", "L", "Z"], order, facecolor=colour)

    def mark(self, mark: Mark) -> None:
        from matplotlib.patches import Circle, Wedge

        pen = {"edgecolor": mark.colour, "linewidth": mark.pen * self.point, "zorder": 3}
        if mark.kind in ROUND:
            self.ax.add_artist(Circle(mark.at, mark.radius, facecolor=ROUND[mark.kind] or mark.colour, **pen))
        elif mark.kind == "detector":
            self.ax.add_artist(Wedge(mark.at, mark.radius, 0, 180, facecolor=WHITE, **pen))
        for line in mark.lines:
            if mark.is_filled:
                self.path([*line, line[0]], ["M", *"L" * (len(line) - 1), "Z"], 3, facecolor=mark.colour)
            else:
                self.path(list(line), ["M", "L"], 3, edgecolor=mark.colour, linewidth=mark.pen)

    def caption(self, caption: Caption) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.transforms import Affine2D

        letters, wide = outline(caption.label, caption.size)
        (x, y), drop = caption.at, 0.33 * caption.size
        place = Affine2D().translate(-wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[_anchor(caption)], -drop)
        if caption.is_turned:
            place = place.rotate_deg(90)
        path = place.translate(x, y).transform_path(letters)
        self.ax.add_artist(PathPatch(path, facecolor=caption.colour, edgecolor="none", zorder=4, snap=False))


@lru_cache(maxsize=4096)
def outline(label: Label, size: float) -> tuple[Any, float]:
    """The outline of a label from the origin, and its width; the faces come with matplotlib and look like Times."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath, text_to_path

    parts, right = [], 0.0
    for run in label:
        own = size * (SMALLER if run.level else 1.0)
        font = FontProperties(family=FACES, style="italic" if run.style == "variable" else "normal", size=own)
        text = spelled(run.text).replace("$", r"\$")
        if text.strip():
            parts.append(TextPath((right, SHIFTS[run.level] * size), text, size=own, prop=font))
        right += float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])
    return Path.make_compound_path(*parts), right


def _anchor(caption: Caption) -> str:
    return "end" if caption.is_turned else caption.anchor
