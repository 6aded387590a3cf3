"""Figures of non-normality: pseudospectra, exponents, spectra of heads, saturation. Needs the `plot` extra.

Each function draws on axes that it is given, at the width of a column, and colours are distinguishable with any colour vision.
Eigenvalues and steps have no unit; exponents and entropies are in nats, angles in radians.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from opalgebra.analysis import HeadSpectra, ModelExponents, Pseudospectrum, RankCollapse, Saturation
from opalgebra.plot import COLOURS, MARKERS, figure_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEQUENCE = "viridis"
MOST = 10
"""Contours that can be told apart at the width of a column."""
BASELINE = "0.55"
SHADE = "0.85"
PERCENTILES = (1, 99)


def draw_pseudospectrum(axes: "Axes", result: Pseudospectrum, *, levels: Any = None) -> None:
    """Contours of log10 eps with their colour bar, and the eigenvalues, or Ritz values, as dots; both axes in one scale.

    levels: of log10 eps; by default quarters of a decade, or as many more as leave ten lines.
    """
    z, logs = result.z, np.log10(np.maximum(result.sigma_min, np.finfo(float).tiny))
    drawn = _levels(logs) if levels is None else sorted(levels)
    if len(drawn):
        lines = axes.contour(z.real, z.imag, logs, levels=drawn, cmap=SEQUENCE, linewidths=1)
        if len(drawn) > 1:
            _bar(axes, lines, r"$\log_{10}\,\varepsilon$", ticks=drawn[:: 1 + len(drawn) // 6])
    axes.plot(result.eigenvalues.real, result.eigenvalues.imag, ".", color="black", markersize=2.5)
    axes.set(xlabel=r"$\mathrm{Re}\,z$", ylabel=r"$\mathrm{Im}\,z$", aspect="equal")
    axes.set(xlim=(z.real.min(), z.real.max()), ylim=(z.imag.min(), z.imag.max()))
    _sized(axes)


def _bar(axes: Any, of: Any, label: str, **options: Any) -> None:
    bar = axes.figure.colorbar(of, ax=axes, pad=0.02, **options)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)
    for line in bar.ax.collections if options else ():
        line.set_linewidth(3)


def _levels(logs: Any) -> Any:
    """Multiples of a step between the least and the largest value, the step a multiple of a quarter."""
    least, largest = float(logs.min()), float(logs.max())
    least = max(least, largest - 16)
    step = 0.25 * max(1, int(np.ceil((largest - least) / (0.25 * MOST))))
    return np.arange(np.ceil(least / step), np.floor(largest / step) + 1) * step


def draw_exponents(axes: "Axes", result: ModelExponents) -> None:
    """The leading finite-depth exponents with their errors, and the range of those of the Gaussian twins."""
    index = np.arange(1, len(result.own.exponents) + 1)
    factors = result.own.log_singular_values[0] / result.own.exponents[0]
    axes.fill_between(index, result.baseline.min(0), result.baseline.max(0), color=SHADE, label="Gaussian twins, range")
    axes.plot(index, result.baseline.mean(0), color=BASELINE, linewidth=1, linestyle="--", label="their mean")
    error = result.own.error / factors
    style = {"color": COLOURS[0], "marker": MARKERS[0], "markersize": 3.5, "linewidth": 1}
    axes.errorbar(index, result.own.exponents, yerr=error, label="model", **style)
    axes.set(xlabel="index $i$", ylabel=r"exponent $\mu_i$ (nats per stage)", xticks=index)
    _finish(axes)


def draw_heads(axes: "Axes", result: HeadSpectra) -> None:
    """The moduli of each head's eigenvalues in decreasing order, a line a head coloured by its layer, beside the ensemble."""
    moduli = -np.sort(-np.abs(result.eigenvalues), axis=-1)
    null = -np.sort(-np.abs(result.ensemble.eigenvalues), axis=-1)
    index = np.arange(1, moduli.shape[-1] + 1)
    import matplotlib

    colours = matplotlib.colormaps["cividis"]
    norm = matplotlib.colors.Normalize(result.layers.min(), result.layers.max())
    for layer, rows in zip(result.layers, moduli):
        axes.plot(index, rows.T, color=colours(norm(layer)), linewidth=0.5, alpha=0.6)
    low, high = np.percentile(null, PERCENTILES, axis=0)
    axes.fill_between(index, low, high, color=COLOURS[1], alpha=0.8, linewidth=0, zorder=3, label="Gaussian, 98 % of draws")
    axes.set(xlabel="rank of the eigenvalue", ylabel=r"$|\lambda|\,\sqrt{d}\,/\,\|A\|_F$", yscale="log", ylim=(0.02, None))
    name = r"$W_O W_V$" if result.kind == "ov" else r"$W_Q^T W_K$"
    axes.set_title(f"{name}, every head", fontsize=8)
    _bar(axes, matplotlib.cm.ScalarMappable(norm, colours), "layer")
    _finish(axes)


def draw_saturation(axes: "Axes", result: Saturation, *, token: int = -1) -> None:
    """Step size and angle to the last state of a token along depth; on a second axis the entropy of its read-out, if any."""
    step, to_end = result.step[token], result.to_end[token]
    depth = np.arange(len(to_end))
    axes.semilogy(depth[1:], step, color=COLOURS[0], linewidth=1, label=r"step $\|x_s - x_{s-1}\|/\|x_{s-1}\|$")
    axes.semilogy(depth[:-1], to_end[:-1], color=COLOURS[1], linewidth=1, linestyle="--", label="angle to the last (rad)")
    figures = np.concatenate((step, to_end[:-1]))
    figures = np.log10(figures[figures > 0])
    decades = (10 ** np.floor(figures.min()), 10 ** np.ceil(figures.max()))
    axes.set(xlabel="stage $s$", ylabel="step (no unit), angle (rad)", ylim=decades)
    if result.entropy is not None:
        other = axes.twinx()
        other.plot(depth, result.entropy[token], color=COLOURS[2], linewidth=1, linestyle=":")
        other.set_ylabel("entropy of the lens (nats)", color=COLOURS[2])
        other.spines["top"].set_visible(False)
        _sized(other)
        axes.plot([], [], color=COLOURS[2], linewidth=1, linestyle=":", label="entropy (right axis)")
    _finish(axes, above=True)


def draw_collapse(axes: "Axes", result: RankCollapse) -> None:
    """The residual to rank one of the states along depth, and Dobrushin's coefficient of every pattern."""
    depth = np.arange(len(result.residual))
    axes.plot(depth, result.residual, color=COLOURS[0], linewidth=1, label=r"residual $\|X - 1x^T\|_F/\|X\|_F$")
    stages = (len(depth) - 1) / len(result.layers)
    for head in range(result.dobrushin.shape[1]):
        label = "Dobrushin, each head" if head == 0 else None
        places = stages * (result.layers - 1) + 1
        axes.plot(places, result.dobrushin[:, head], "D", color=COLOURS[3], markersize=1.8, alpha=0.7, label=label)
    axes.set(xlabel="stage $s$", ylabel="residual, coefficient (no unit)", ylim=(0, 1.05))
    _finish(axes, above=True)


def non_normality_figure(
    spectra: dict[str, Pseudospectrum],
    exponents: ModelExponents,
    heads: tuple[HeadSpectra, HeadSpectra],
    along: Saturation,
    collapse: RankCollapse,
    *,
    title: str = "",
) -> "Figure":
    """A page in two columns: three pseudospectra by their titles, exponents, the two kinds of heads, saturation and collapse.

    InputError without matplotlib.
    """
    figure: Any = figure_class()(figsize=(7.0, 9.2), layout="constrained")
    panels = figure.subplots(4, 2)
    for axes, (name, result) in zip(panels.flat, spectra.items()):
        draw_pseudospectrum(axes, result)
        axes.set_title(name, fontsize=8)
    draw_exponents(panels.flat[len(spectra)], exponents)
    for axes, result in zip(panels[2], heads):
        draw_heads(axes, result)
    draw_saturation(panels[3, 0], along)
    draw_collapse(panels[3, 1], collapse)
    figure.suptitle(title, fontsize=9)
    return figure  # type: ignore[no-any-return]


def _finish(axes: Any, *, above: bool = False) -> None:
    """Sizes, and a legend inside or above the panel."""
    axes.spines["top"].set_visible(False)
    place = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "borderpad": 0.0} if above else {}
    axes.legend(frameon=False, fontsize=7, **place)
    _sized(axes)


def _sized(axes: Any) -> None:
    """Labels of 8 and ticks of 7 points: readable at the width of a column."""
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_fontsize(8)
    axes.tick_params(labelsize=7)
    if axes.get_xlabel().startswith("stage"):
        axes.xaxis.get_major_locator().set_params(integer=True)
