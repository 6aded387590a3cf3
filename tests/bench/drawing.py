"""Seconds that each skin takes to draw a diagram with 50 vertices, its term read anew; the bar is one second.

Each line is `NAME ratio=MEASURED bar=BOUND`. Times are the best of several runs.
"""

import gc
import time
from collections.abc import Callable

from matplotlib.figure import Figure

import opalgebra as oa
from opalgebra.render.axes import outline

VERTICES = 50
REPEATS = 5


def main() -> None:
    series = oa.transformer(layers=VERTICES // 2).dyson()
    term = series.term(VERTICES, 0) @ series.states[0]
    assert len(oa.Diagram(term).vertices) == VERTICES
    skins: dict[str, Callable[[object], object]] = {
        "svg": oa.svg,
        "tikz": oa.tikz,
        "terminal": oa.terminal,
        "axes": on_axes,
        "tokens": lambda diagram: oa.svg(oa.token_diagram(diagram, 14)),
    }
    for name, skin in skins.items():
        print(f"{name}_of_{VERTICES}_vertices_in_seconds ratio={best(lambda skin=skin: skin(oa.Diagram(term))):.3f} bar=1.00")


def on_axes(diagram: object) -> object:
    """On new axes, with no outline of a label known from before."""
    outline.cache_clear()
    return oa.draw(diagram, Figure().subplots())


def best(run: Callable[[], object]) -> float:
    found = []
    for _ in range(REPEATS):
        gc.collect()
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    main()
