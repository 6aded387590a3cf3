"""Known values of non-normality, random matrices and products, each from a closed form, high precision or a published table."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest

from opalgebra.analysis import (
    all_real_probability,
    birkhoff,
    circular_law,
    circular_law_moments,
    collapse_bound,
    depth_exponents,
    distance_to_instability,
    dobrushin,
    effective_rank,
    eigenvalues,
    elliptic,
    elliptic_law,
    expected_real_eigenvalues,
    ginibre,
    ginibre_exponents,
    ginibre_radius,
    henrici,
    kreiss_constant,
    lyapunov_spectrum,
    marchenko_pastur_moments,
    marchenko_pastur_support,
    numerical_range,
    pseudospectral_abscissa,
    pseudospectral_radius,
    pseudospectrum,
    radial_moment,
    rank_residual,
    rider_edge,
    saturation,
    spacing_ratios,
    transient_growth,
    vector_growth,
)

PROBLEMS = {problem["id"]: problem for problem in json.loads((Path(__file__).parent / "non_normality.json").read_text())}
TESTS = {}
SIGMAS = 5
"""Statistical tests have fixed seeds; their bounds are this many standard errors."""


def solves(name):
    """Registers the test of one problem."""

    def register(test):
        assert name not in TESTS
        TESTS[name] = test
        return test

    return register


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem(name):
    problem = PROBLEMS[name]
    tolerance = 1e-13 if problem["tol"] == "exact" else problem["tol"]
    TESTS[name](problem["inputs"], problem["value"], tolerance)


def close(found, value, tolerance):
    np.testing.assert_allclose(found, value, rtol=tolerance, atol=tolerance)


def grcar(n, k):
    return np.triu(np.tril(np.ones((n, n)), k)) - np.eye(n, k=-1)


def complex_of(pairs):
    return np.array([complex(*pair) for pair in pairs])


@solves("A01_J2_resolvent")
def _(inputs, value, tolerance):
    for M, expected in zip(inputs["M"], value):
        points = inputs["r"] * np.exp(1j * np.linspace(0, 6, 7))
        close(pseudospectrum([[0, M], [0, 0]], points).sigma_min, [expected] * 7, tolerance)


@solves("A02_J2_psradius")
def _(inputs, value, tolerance):
    for eps, expected in zip(inputs["eps"], value):
        close(pseudospectral_radius([[0, 1], [0, 0]], eps).value, expected, tolerance)
    for a in (0.3, -2.0):
        close(pseudospectral_abscissa([[a, 7], [0, a]], 0.1).value, a + (0.1 * 7.1) ** 0.5, tolerance)


@solves("A03_shifted_abscissa")
def _(inputs, value, tolerance):
    A = [[-1, inputs["M"]], [0, -1]]
    close([pseudospectral_abscissa(A, eps).value for eps in inputs["eps"]], value["abscissa"], tolerance)
    close(distance_to_instability(A).value, value["stability_radius"], tolerance)


@solves("A04_jordan_psradius")
def _(inputs, value, tolerance):
    for n in inputs["n"]:
        for eps in inputs["eps"]:
            A, expected = np.eye(n, k=1), value[str(n)][eps]
            close(pseudospectral_radius(A, float(eps)).value, expected, tolerance)
            close(pseudospectral_abscissa(A, float(eps)).value, expected, tolerance)


@solves("A06_numerical_radius_jordan")
def _(inputs, value, tolerance):
    for n, expected in zip(inputs["n"], value):
        found = numerical_range(np.eye(n, k=1), points=16)
        close([found.radius, found.abscissa], [expected] * 2, tolerance)
        assert found.converged


@solves("A11_gallery5")
def _(inputs, value, tolerance):
    A = np.array(inputs["A"])
    growth = transient_growth(A)
    assert (growth.norms[value["nilpotency"]], growth.error[value["nilpotency"]]) == (0, 0)
    assert (growth.norms[: value["nilpotency"]] > 0).all()
    found = eigenvalues(A)
    assert np.abs(found.values).max() > 1e-2 and not found.converged.any()
    assert (np.abs(found.values - value["spectral_radius"]) <= found.error).all()
    assert pseudospectrum(A, [0.0]).sigma_min[0] <= pseudospectrum(A, [0.0]).error[0]


@solves("A14_transient_powers")
def _(inputs, value, tolerance):
    growth = transient_growth(inputs["A"])
    assert growth.k == value["k"] and growth.converged
    assert growth.lower <= value["norm"] <= growth.upper
    close([growth.lower, growth.upper], [value["norm"]] * 2, tolerance)
    close(growth.norms[9:11], [value["norm_k9"], value["norm_k10"]], tolerance)


@solves("A15_grcar100_ps")
def _(inputs, value, tolerance):
    A = grcar(inputs["n"], inputs["k"])
    for eps in inputs["eps"]:
        expected = value[eps]
        for kind, search in (("abscissa", pseudospectral_abscissa), ("radius", pseudospectral_radius)):
            found = search(A, float(eps))
            close(found.value, expected[kind], tolerance)
            # The value is stationary in the place, which is known to the square root of its precision only.
            assert abs(complex(found.at.real, abs(found.at.imag)) - complex(*expected[f"{kind}_at"])) < 3e-6
            assert abs(found.value - expected[kind]) <= found.error


@solves("A17_grcar100_numabs")
def _(inputs, value, tolerance):
    A = grcar(inputs["n"], inputs["k"])
    found = numerical_range(A, points=16)
    close(found.abscissa, value["numerical_abscissa"], tolerance)
    assert found.radius >= found.abscissa and found.radius >= value["norm2"] / 2
    close(pseudospectrum(A, [0.0]).norm, value["norm2"], tolerance)


@solves("A18_demmel3")
def _(inputs, value, tolerance):
    found = distance_to_instability(inputs["A"])
    close(found.value / value["distance"], 1, tolerance)
    # At a minimum of relative curvature about 1, an error e of the value hides the place by e^(1/2) of its size.
    assert abs(abs(found.at.imag) - value["omega"]) < tolerance**0.5


@solves("A19_normal_circulant")
def _(inputs, value, tolerance):
    A = np.roll(np.eye(inputs["n"]), 1, axis=0)
    found = pseudospectrum(A, complex_of(inputs["z"]))
    assert (np.abs(found.sigma_min - value) <= found.error).all()
    # The iteration leaves a relative error of 1e-6 at most, and its square where the next singular value is apart.
    close(found.sigma_min, value, 1e-9)
    close(henrici(A), 0, 10 * tolerance)


@solves("A21_grcar32_sigmin")
def _(inputs, value, tolerance):
    found = pseudospectrum(grcar(inputs["n"], inputs["k"]), complex_of(inputs["z"]))
    close(found.sigma_min / value, np.ones(5), tolerance)
    with mpmath.workdps(30):
        exact = mpmath.svd_r(mpmath.matrix(grcar(inputs["n"], inputs["k"]).tolist()), compute_uv=False)[inputs["n"] - 1]
    close(float(exact), value[0], 1e-15)


@solves("B01_circular_moments")
def _(inputs, value, tolerance):
    close(circular_law_moments(max(inputs["k"])), value["m2k"], tolerance)
    close(radial_moment(1), value["mean_abs"], tolerance)
    close(circular_law([0.5, 2.0]), [0.25, 1.0], tolerance)
    # |lambda|^2k summed over n eigenvalues varies by O(1): 1/n is far above the error of the mean, and the bias is O(1/n).
    moduli = np.abs(np.linalg.eigvals(ginibre(500, "complex", seed=0)))
    close([(moduli**power).mean() for power in (2, 4)], value["m2k"][:2], 10 / 500)


@solves("B02_ginibre_radius")
def _(inputs, value, tolerance):
    close([ginibre_radius(n).median for n in inputs["n"]], [value["median10"], value["median100"]], tolerance)
    close(ginibre_radius(10).mean, value["mean10"], tolerance)
    random = np.random.default_rng(0)
    radii = [np.abs(np.linalg.eigvals(ginibre(10, "complex", seed=random))).max() for _ in range(400)]
    assert abs(np.mean(radii) - value["mean10"]) < SIGMAS * np.std(radii) / 20
    assert abs(np.mean(np.array(radii) < value["median10"]) - 0.5) < SIGMAS * 0.5 / 20


@solves("B03_rider_edge")
def _(inputs, value, tolerance):
    found = rider_edge(inputs["n"])
    close([found.gamma, found.centre], [value["gamma_n"], value["centre"]], tolerance)
    close(found.scale, (4 * 1000 * value["gamma_n"]) ** -0.5, tolerance)


@solves("B04_ginibre_henrici")
def _(inputs, value, tolerance):
    n, random = inputs["n"], np.random.default_rng(0)
    draws = [ginibre(n, "complex", seed=random, variance=1.0) for _ in range(400)]
    departures = np.array([henrici(A) ** 2 for A in draws])
    sums = np.array([(np.abs(eigenvalues(A).values) ** 2).sum() for A in draws])
    for figures, expected in ((departures, value["henrici2"]), (sums, value["sum_abs2"])):
        assert abs(figures.mean() - expected) < SIGMAS * figures.std() / 20


@solves("B05_real_eigs")
def _(inputs, value, tolerance):
    close([expected_real_eigenvalues(n) for n in inputs["n"]], value["E"], tolerance)
    close([all_real_probability(n) for n in (2, 3, 4)], value["all_real"], tolerance)
    random = np.random.default_rng(0)
    counts = np.array([(np.linalg.eigvals(ginibre(5, seed=random)).imag == 0).sum() for _ in range(2000)])
    assert abs(counts.mean() - value["E"][4]) < SIGMAS * counts.std() / 2000**0.5


@solves("B06_marchenko_pastur")
def _(inputs, value, tolerance):
    for c, name in ((1, "c=1 moments"), (0.5, "c=1/2 moments")):
        close(marchenko_pastur_moments(c, 6), value[name], tolerance)
    half, square = marchenko_pastur_support(0.5), marchenko_pastur_support(1)
    close([half.lower, half.upper], value["edges c=1/2"], tolerance)
    close([square.lower, square.upper], value["edges c=1"], tolerance)
    close(marchenko_pastur_support(2).atom, value["atom at 0 for c=2"], tolerance)


@solves("B09_elliptic_law")
def _(inputs, value, tolerance):
    for tau, axes in zip(inputs["tau"], value):
        close(elliptic_law(tau), axes, tolerance)
        values = np.linalg.eigvals(elliptic(600, tau, seed=1))
        # Beyond the edge of the ellipse eigenvalues fall off within n^(-1/2).
        close([values.real.max(), values.imag.max()], axes, 2 / 600**0.5)


@solves("B11_spacing_ratio")
def _(inputs, value, tolerance):
    random = np.random.default_rng(0)
    draws = [np.linalg.eigvals(ginibre(300, "complex", seed=random)) for _ in range(8)]
    found = [spacing_ratios(values, where=np.abs(values) < 0.8) for values in draws]
    close([np.mean([f.mean_modulus for f in found]), np.mean([f.mean_cosine for f in found])], value["ginibre"], tolerance)
    uniform = spacing_ratios(random.uniform(size=4000) + 1j * random.uniform(size=4000))
    close([uniform.mean_modulus, uniform.mean_cosine], value["poisson"], tolerance)


@solves("D01_newman_real")
def _(inputs, value, tolerance):
    for d in inputs["d"]:
        close(ginibre_exponents(d).exponents, value["mu"][str(d)], tolerance)
    for d in (1, 2):
        close(ginibre_exponents(d).variances, value["var"][str(d)], tolerance)
    random = np.random.default_rng(0)
    found = lyapunov_spectrum((random.standard_normal((2, 2)) for _ in range(4000)), discard=10)
    assert (np.abs(found.exponents - value["mu"]["2"]) < SIGMAS * found.error).all() and found.converged.all()
    # The estimated errors are those of the exact variance, to the accuracy of a variance from about 60 blocks.
    close(found.error, (np.array(value["var"]["2"]) / 4000) ** 0.5, 0.5)


@solves("D02_newman_complex")
def _(inputs, value, tolerance):
    for d in ("1", "2", "4"):
        close(ginibre_exponents(int(d), "complex").exponents, value["mu"][d], tolerance)
    wide = ginibre_exponents(768, "complex", variance=1 / 768).exponents
    close([wide[0], wide[-1]], [value["mu1_768_normalised"], value["mu768_768_normalised"]], tolerance)
    random = np.random.default_rng(1)
    found = lyapunov_spectrum((ginibre(2, "complex", seed=random, variance=1.0) for _ in range(2000)), discard=10)
    assert (np.abs(found.exponents - value["mu"]["2"]) < SIGMAS * found.error).all()


@solves("D03_triangle_law")
def _(inputs, value, tolerance):
    close(ginibre_exponents(inputs["d"]).exponents.sum(), value, tolerance)
    wide = np.sort(np.exp(2 * ginibre_exponents(2000, variance=1 / 2000).exponents))
    close(wide, (np.arange(2000) + 0.5) / 2000, 1 / 2000)


@solves("D04_vector_growth")
def _(inputs, value, tolerance):
    for n, mean, variance in zip(inputs["n"], value["mean"], value["var"]):
        close(vector_growth(n), (mean, variance), tolerance)


@solves("D05_periodic_product")
def _(inputs, value, tolerance):
    found = lyapunov_spectrum([inputs["A"], inputs["B"]] * 50, discard=60)
    close(found.exponents, value["exponents"], tolerance)
    close(2 * np.log(value["jsr"]), np.log(np.abs(eigenvalues(np.array(inputs["A"]) @ inputs["B"]).values[0])), tolerance)
    alone = lyapunov_spectrum([inputs["A"]] * 4000, discard=3000)
    assert (np.abs(alone.exponents) < 1e-3).all()


@solves("D06_cat_map")
def _(inputs, value, tolerance):
    close(lyapunov_spectrum([inputs["A"]] * 60, discard=30).exponents, value, tolerance)
    close(depth_exponents([inputs["A"]] * 60).exponents, value, tolerance)


@solves("D07_random_fibonacci")
def _(inputs, value, tolerance):
    random = np.random.default_rng(0)
    steps = ([[0, 1], [sign, 1]] for sign in random.choice([-1, 1], size=20_000))
    found = lyapunov_spectrum(steps, 1, discard=100)
    assert abs(found.exponents[0] - value) < SIGMAS * found.error[0] and found.error[0] < 5e-3


@solves("D08_log_overflow")
def _(inputs, value, tolerance):
    turn = 2 * np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    found = depth_exponents([turn] * inputs["L"])
    close(found.log_singular_values, [value] * 2, tolerance)
    assert (np.abs(found.log_singular_values - value) <= found.error).all()


@solves("D09_markov_collapse")
def _(inputs, value, tolerance):
    P, X = np.array(inputs["P"]), np.array([[1.0, -2.0], [3.0, 0.5]])
    assert abs(dobrushin(P) - value["dobrushin"]) < tolerance and abs(birkhoff(P) - value["birkhoff"]) < tolerance
    close(np.sort(np.abs(eigenvalues(P).values)), [value["lambda2"], 1], tolerance)
    carried = np.linalg.matrix_power(P, inputs["L"])
    close(carried, np.tile(value["pi"], (2, 1)), value["res_ratio"])
    for norm in ("frobenius", "composite"):
        close(rank_residual(carried @ X, norm=norm) / rank_residual(X, norm=norm), value["res_ratio"], tolerance)


@solves("D11_dong_bound")
def _(inputs, value, tolerance):
    for residual in inputs["res0"]:
        found = [
            collapse_bound(residual, L, beta=inputs["beta"], gamma=inputs["gamma"], size=inputs["d_qk"]) for L in inputs["L"]
        ]
        close(np.array(found) / value[str(residual)], np.ones(3), tolerance)


@solves("D12_imag_time")
def _(inputs, value, tolerance):
    times = [*inputs["t"], 40.0]
    flow = np.array([[1.0, np.exp(-t)] for t in times]) / 2**0.5
    angle = saturation(flow).to_end[:-1]
    close(np.tan(angle), value["tan"], 1e-14 + np.exp(-40))
    close(np.sin(angle) ** 2, value["energy"], 1e-14 + np.exp(-40))


@solves("D13_uniform_attention")
def _(inputs, value, tolerance):
    n = inputs["n"]
    X = np.random.default_rng(0).standard_normal((n, 3))
    close(rank_residual(np.full((n, n), 1 / n) @ X), value["res_uniform"], tolerance)
    close(rank_residual(np.eye(n) @ X) / rank_residual(X), value["contraction_identity"], tolerance)
    assert (dobrushin(np.full((n, n), 1 / n)), dobrushin(np.eye(n))) == (0, 1)


@solves("D14_effective_rank")
def _(inputs, value, tolerance):
    for kind, expected in value.items():
        close(effective_rank(inputs["s"], kind=kind), expected, tolerance)


@solves("F10_henon")
def _(inputs, value, tolerance):
    a, b = inputs["a"], inputs["b"]

    def tangents():
        x, y = 0.1, 0.1
        for _ in range(20_000):
            yield [[-2 * a * x, 1], [b, 0]]
            x, y = 1 - a * x * x + y, b * x

    found = lyapunov_spectrum(tangents(), discard=100)
    close(found.exponents.sum(), value["sum"], 1e-12)
    assert abs(found.exponents[0] - value["top"]) < tolerance + SIGMAS * found.error[0]


@solves("F11_kreiss_definitions")
def _(inputs, value, tolerance):
    found = kreiss_constant(inputs["A"])
    close(found.value, value["K"], tolerance)
    # At the maximum, the place is known to the square root of the precision of the value.
    assert found.converged and abs(found.at - value["at"]) < 1e-6
    growth = transient_growth(inputs["A"])
    close([growth.lower, growth.k], [26.936218, 6], 1e-7)
    vectors = np.linalg.eig(inputs["A"])[1]
    close(np.linalg.cond(vectors), 200.0050, 1e-6)
    assert found.value < growth.lower < np.linalg.cond(vectors)
