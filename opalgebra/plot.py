"""Figures of series: the size of each order, and what is left after summing up to it. Needs the `plot` extra."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opalgebra.errors import InputError
from opalgebra.files import write_whole
from opalgebra.numeric.orders import Orders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinguishable with any colour vision; each line also has a marker of its own.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
# Errors end at the rounding of float64, whose digits differ from machine to machine.
FLOOR = 1e-16


def orders_figure(results: Mapping[str, Orders], *, position: int = -1) -> "Figure":
    """Two panels on a log scale at one token: |y_n| / |x_L| by order n, and |sum_{m<=n} y_m - x_L| / |x_L|.

    results: a label for each Orders. InputError for inputs with a batch axis, or without matplotlib.
    """
    figure: Any = figure_class()(figsize=(7.2, 3.0), layout="constrained")
    sizes, errors = figure.subplots(1, 2)
    for (label, result), colour, marker in zip(results.items(), COLOURS, MARKERS):
        if result.norms.ndim != 2:
            raise InputError("a figure of orders shows one input; bind a text, or one row of token ids")
        style = {"color": colour, "marker": marker, "markersize": 3, "linewidth": 1, "label": label}
        sizes.semilogy(result.norms[:, position], **style)
        errors.semilogy(result.partial_errors[:, position], **style)
    sizes.set(xlabel="order $n$", ylabel=r"$\|y_n\|\,/\,\|x_L\|$", title="size of each order")
    errors.set(xlabel="order $n$", ylabel=r"$\|\sum_{m\leq n} y_m - x_L\|\,/\,\|x_L\|$", title="error of the partial sum")
    errors.set_ylim(bottom=FLOOR)
    for axes in (sizes, errors):
        axes.axhline(1, color="0.6", linewidth=0.8, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
    errors.legend(frameon=False, fontsize=8)
    return figure  # type: ignore[no-any-return]


def save_figure(figure: "Figure", path: str | Path) -> Path:
    """Writes the figure, in the format of the path's ending, whole or not at all; the same bytes each time."""
    import matplotlib

    path = Path(path)
    undated: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "opalgebra"}):
        return write_whole(path, lambda beside: figure.savefig(beside, metadata=undated.get(path.suffix)))


def figure_class() -> Any:
    """Matplotlib's Figure, which needs no display. InputError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("a figure needs matplotlib; run `pip install 'opalgebra[plot]'`") from error
    return Figure
