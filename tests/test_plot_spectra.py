"""Figures of non-normality show what they are given, with labels and units, and are files of any format."""

import numpy as np
import pytest
from models.families import inputs, tiny

import opalgebra as oa
from opalgebra import analysis
from opalgebra.plot import figure_class, save_figure
from opalgebra.plot_spectra import draw_exponents, draw_pseudospectrum, draw_saturation, non_normality_figure


@pytest.fixture(scope="module")
def page():
    bound = oa.bind(tiny("llama"), inputs("llama", batch=1))
    spectra = {f"layer {n}": analysis.krylov_pseudospectrum(analysis.dressed_layer(bound, n), n=8) for n in (1, 2)}
    spectra["head"] = analysis.pseudospectrum(analysis.ginibre(5, seed=0), n=8)
    exponents = analysis.model_exponents(bound, 2, draws=2, sweeps=2)
    heads = tuple(analysis.head_spectra(bound, kind, draws=19) for kind in ("ov", "qk"))
    along = analysis.saturation(bound)
    own = analysis.Saturation(along.step[0], along.turn[0], along.to_end[0], along.entropy[0])
    return spectra, exponents, heads, own, analysis.rank_collapse(bound)


def axes():
    return figure_class()().subplots()


def test_a_page_is_labelled_with_units_and_saved(page, tmp_path):
    figure = non_normality_figure(*page, title="tiny")
    labels = {panel.get_ylabel() for panel in figure.axes} | {panel.get_xlabel() for panel in figure.axes}
    for label in (
        r"$\mathrm{Im}\,z$",
        "exponent $\\mu_i$ (nats per stage)",
        "step (no unit), angle (rad)",
        "entropy of the lens (nats)",
        r"$\log_{10}\,\varepsilon$",
        "layer",
        "stage $s$",
        "rank of the eigenvalue",
    ):
        assert label in labels
    for ending in ("pdf", "png", "svg"):
        assert save_figure(figure, tmp_path / f"page.{ending}").stat().st_size > 10_000


def test_contours_lie_where_the_levels_are():
    panel, x = axes(), np.linspace(-1, 1, 101)
    draw_pseudospectrum(panel, analysis.pseudospectrum([[0.0, 1.0], [0.0, 0.0]], x + 1j * x[:, None]), levels=[-1.0])
    (path,) = panel.collections[0].get_paths()
    np.testing.assert_allclose(np.hypot(*path.vertices.T), 0.11**0.5, rtol=1e-2)
    assert panel.get_aspect() == 1


def test_lines_are_the_figures(page):
    panel = axes()
    draw_exponents(panel, page[1])
    np.testing.assert_array_equal(panel.lines[1].get_ydata(), page[1].own.exponents)
    panel = axes()
    draw_saturation(panel, page[3])
    np.testing.assert_array_equal(panel.lines[0].get_ydata(), page[3].step[-1])
