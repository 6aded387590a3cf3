"""Non-normality against brute force: dense scans, random perturbations, every singular value; and bugs that these find."""

from importlib import import_module

import numpy as np
import pytest

from opalgebra.analysis import (
    LinearMap,
    contours,
    distance_to_instability,
    eigenvalues,
    ginibre,
    henrici,
    hermitian_parts,
    kreiss_constant,
    krylov_pseudospectrum,
    linear_map,
    numerical_range,
    pseudospectral_abscissa,
    pseudospectral_radius,
    pseudospectrum,
    transient_growth,
)

lanczos, criss_cross, transient, krylov, nonnormal = (
    import_module(f"opalgebra.analysis.{name}")
    for name in ("inverse_lanczos", "criss_cross", "transient", "krylov", "nonnormal")
)


def matrices():
    """Of several sizes and kinds, real and complex, near normal and far from it, singular and with multiple eigenvalues."""
    for n in (1, 2, 5, 12):
        for kind in ("real", "complex"):
            A = ginibre(n, kind, seed=n)
            yield A
            yield np.triu(A) * 3
    yield from (np.eye(3), np.diag([1.0, 1.0, -2.0]), np.zeros((3, 3)), np.eye(6, k=1), np.ones((4, 4)))


def smallest(A, z):
    return np.linalg.svd(z * np.eye(len(A)) - A, compute_uv=False)[-1]


def scan(A, z):
    return np.array([smallest(A, point) for point in z.ravel()]).reshape(z.shape)


# Hermitian parts, departure, conditions


@pytest.mark.parametrize("A", list(matrices()))
def test_parts_and_departure_are_what_they_are_by_definition(A):
    parts = hermitian_parts(A)
    np.testing.assert_array_equal(parts.hermitian, parts.hermitian.conj().T)
    np.testing.assert_array_equal(parts.antihermitian, -parts.antihermitian.conj().T)
    np.testing.assert_allclose(parts.hermitian + parts.antihermitian, A, atol=1e-15)
    # The difference of squares loses half of the digits; of the Schur form nothing is lost.
    by_difference = max(0.0, np.linalg.norm(A) ** 2 - (np.abs(np.linalg.eigvals(A)) ** 2).sum()) ** 0.5
    assert abs(henrici(A) - by_difference) <= 1e-6 * max(1, np.linalg.norm(A))


def test_a_normal_matrix_departs_by_rounding_alone():
    Q = np.linalg.qr(ginibre(30, seed=0))[0]
    normal = Q @ np.diag(np.arange(30.0)) @ Q.T
    assert henrici(normal) < 100 * 2.0**-53 * np.linalg.norm(normal)


@pytest.mark.parametrize("A", [A for A in matrices() if len(A) in (2, 5, 12)])
def test_perturbations_move_eigenvalues_as_their_conditions_say(A):
    """To first order by at most kappa ||E||, and by as much for the worst E, `l r* / (||l|| ||r||)`."""
    found, size = eigenvalues(A), 1e-7
    values, _ = np.linalg.eig(A)
    np.testing.assert_allclose(np.sort_complex(found.values), np.sort_complex(values.astype(complex)), atol=1e-8)
    assert (found.petermann == found.conditions**2).all() and (found.conditions >= 1).all()
    if not found.converged.all() or found.conditions.max() > 1e3:
        return
    random = np.random.default_rng(0)
    for _ in range(20):
        E = ginibre(len(A), seed=random)
        moved = np.linalg.eigvals(A + size * E / np.linalg.norm(E, 2))
        nearest = np.abs(found.values[:, None] - moved).min(1)
        assert (nearest <= size * found.conditions * 1.01 + 1e-12).all()


def test_conditions_are_those_of_the_closed_form():
    """[[a, m], [0, b]] has kappa = (1 + m^2/(a - b)^2)^(1/2) for both eigenvalues; a Jordan block has none."""
    np.testing.assert_allclose(eigenvalues([[0.9, 10.0], [0.0, 0.8]]).conditions, (1 + 100**2) ** 0.5, rtol=1e-9)
    jordan = eigenvalues(np.eye(2, k=1))
    assert (jordan.conditions > 1e15).all() and not jordan.converged.any()
    single = np.array([[0.9, 10.0], [0.0, 0.8]], dtype=np.float32)
    assert (eigenvalues(single).error >= 2.0**-24 * 10 * 99).all()


# The numerical range


@pytest.mark.parametrize("A", list(matrices()))
def test_the_numerical_radius_is_that_of_a_fine_scan(A):
    found = numerical_range(A, points=8)
    angles = np.linspace(0, 2 * np.pi, 2001)
    heights = [np.linalg.eigvalsh((np.exp(-1j * t) * A + np.exp(1j * t) * A.conj().T) / 2)[-1] for t in angles]
    # Between two angles d apart a support function exceeds both by at most w (1/cos(d/2) - 1).
    gap = found.radius * (1 / np.cos(np.pi / 2000) - 1)
    assert max(heights) - 1e-13 - found.error <= found.radius <= max(heights) + gap + found.error
    assert found.converged
    random = np.random.default_rng(0)
    for _ in range(50):
        x = random.standard_normal(len(A)) + 1j * random.standard_normal(len(A))
        value = x.conj() @ A @ x / np.linalg.norm(x) ** 2
        assert abs(value) <= found.radius + 1e-12 and value.real <= found.abscissa + 1e-12


# Pseudospectra on a grid


@pytest.mark.parametrize("A", list(matrices()))
def test_a_grid_has_the_smallest_singular_values(A):
    found = pseudospectrum(A, n=9)
    exact = scan(A, found.z)
    assert (np.abs(found.sigma_min - exact) <= found.error).all()
    assert found.converged.all() and found.z.shape == found.sigma_min.shape == (9, 9)
    shifted = pseudospectrum(A, found.z[:3] + 0.1)
    assert (np.abs(shifted.sigma_min - scan(A, shifted.z)) <= shifted.error).all()
    at = pseudospectrum(A, found.eigenvalues)
    assert (at.sigma_min <= 2 * at.error).all()


def test_every_point_of_a_fine_grid_is_right():
    """Where a start vector happens to lack the vector sought, a stop by small steps would keep another singular value."""
    A = np.triu(np.tril(np.ones((40, 40)), 3)) - np.eye(40, k=-1)
    found = pseudospectrum(A, n=60)
    exact = scan(A, found.z)
    deep = exact > 1e-9 * found.norm
    assert (np.abs(found.sigma_min - exact) / exact)[deep].max() < 1e-6


def test_planted_loose_end_of_the_iteration_is_found(monkeypatch):
    monkeypatch.setattr(lanczos, "RESIDUAL", 0.1)
    with pytest.raises(AssertionError):
        test_every_point_of_a_fine_grid_is_right()


def test_planted_triangle_without_its_conjugate_is_found(monkeypatch):
    solve = lanczos._solve_lower
    monkeypatch.setattr(lanczos, "STEPS", 20)
    monkeypatch.setattr(lanczos, "_solve_lower", lambda lower, inverse, *rest: solve(lower, inverse.conj(), *rest))
    with pytest.raises(AssertionError):
        test_a_grid_has_the_smallest_singular_values(ginibre(5, "complex", seed=5))


def test_values_too_small_for_float64_end_without_a_warning():
    A = 3 * np.eye(400, k=1)
    found = pseudospectrum(A, [0.0, 0.5, 1j])
    assert (found.sigma_min <= found.error).all() and found.converged.all()


def test_contours_are_where_sigma_is_the_level():
    A = [[0.0, 1.0], [0.0, 0.0]]
    x = np.linspace(-1, 1, 201)
    curves = contours(pseudospectrum(A, x + 1j * x[:, None]), [0.1, 0.3])
    for eps, (curve,) in curves.items():
        assert curve[0] == curve[-1]
        np.testing.assert_allclose(np.abs(curve), (eps + eps**2) ** 0.5, rtol=1e-3)


# Criss-cross


@pytest.mark.parametrize("A", list(matrices()))
@pytest.mark.parametrize("eps", [0.03, 0.5])
def test_perturbations_do_not_reach_beyond_and_one_reaches(A, eps):
    random = np.random.default_rng(0)
    abscissa, radius = pseudospectral_abscissa(A, eps), pseudospectral_radius(A, eps)
    for found, height in ((abscissa, lambda z: z.real), (radius, np.abs)):
        assert found.converged and abs(height(np.array(found.at)) - found.value) < 1e-12
        assert smallest(A, found.at) <= eps + 1e-9
        for _ in range(20):
            left, right = (random.standard_normal((len(A), 2)) @ [1, 1j] for _ in range(2))
            E = eps * np.outer(left, right.conj()) / (np.linalg.norm(left) * np.linalg.norm(right))
            assert height(np.linalg.eigvals(A + E)).max() <= found.value + 1e-9
        left, _, right = np.linalg.svd(found.at * np.eye(len(A)) - A)
        E = eps * np.outer(left[:, -1], right[-1])
        assert height(np.linalg.eigvals(A + E)).max() >= found.value - 1e-5


@pytest.mark.parametrize("A", [A for A in matrices() if len(A) in (2, 5, 12)])
def test_the_reach_is_that_of_a_fine_grid(A):
    """Of a grid of spacing h, sigma_min being 1-Lipschitz: the set at eps - h meets the grid within the one at eps."""
    eps = 0.2
    abscissa, radius = pseudospectral_abscissa(A, eps), pseudospectral_radius(A, eps)
    x = np.linspace(-1.2, 1.2, 81) * (np.linalg.norm(A, 2) + eps)
    z = x + 1j * x[:, None]
    inside = z[pseudospectrum(A, z).sigma_min <= eps]
    spacing = x[1] - x[0]
    for found, heights in ((abscissa, inside.real), (radius, np.abs(inside))):
        assert heights.max() <= found.value + 1e-9
        assert found.value <= heights.max() + 3 * spacing or found.value <= heights.max() + eps


def test_planted_search_that_never_leaves_its_line_is_found(monkeypatch):
    """On a ring of three bumps the rightmost eigenvalue is not where the pseudospectrum reaches farthest."""
    A = np.array([[0.1, 0, 0, 0], [0, -0.5 + 1j, 0, 0], [0, 0, 0, 5.0], [0, 0, 0, 0.05]]) + np.diag([0, 0, 2j, 2j])
    right = pseudospectral_abscissa(A, 0.1)
    assert right.at.imag > 1.5
    monkeypatch.setattr(criss_cross.Line, "middles", lambda self, crossings: crossings[:0])
    assert pseudospectral_abscissa(A, 0.1).value < right.value - 0.1


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_the_distance_to_instability_is_the_least_on_the_boundary(kind, n):
    A = 0.5 * ginibre(n, "complex", seed=n) - (2 if kind == "continuous" else 0) * np.eye(n)
    found = distance_to_instability(A, kind)
    t = np.linspace(-4, 4, 4001)
    boundary = 1j * t if kind == "continuous" else np.exp(1j * t)
    scanned = scan(A, boundary).min()
    assert scanned - 0.001 <= found.value <= scanned + found.error
    assert abs(smallest(A, found.at) - found.value) < 1e-12
    assert distance_to_instability(A + 9 * np.eye(n), kind).value == 0


# Transient growth and Kreiss constants


@pytest.mark.parametrize("A", list(matrices()))
def test_the_largest_power_lies_between_the_bounds(A):
    growth = transient_growth(A, steps=60)
    norms = [np.linalg.norm(np.linalg.matrix_power(A, k), 2) for k in range(len(growth.norms))]
    assert (np.abs(growth.norms - norms) <= 2 * growth.error + 1e-12 * np.array(norms)).all()
    assert growth.lower <= max(norms) <= growth.upper
    if np.abs(np.linalg.eigvals(A)).max() > 1 + 1e-9:
        assert np.isinf(growth.upper) and not growth.converged


def test_a_bound_beyond_the_steps_holds():
    A = np.array([[0.99, 10.0], [0.0, 0.99]])
    early, late = transient_growth(A, steps=20), transient_growth(A, steps=5000)
    assert late.converged and early.lower < late.lower <= late.upper <= early.upper < np.inf
    assert not early.converged


def test_exact_powers_are_within_the_error_of_those_computed():
    from fractions import Fraction

    A = [[Fraction(0.9), Fraction(-3.3)], [Fraction(0.7), Fraction(-2.1)]]
    growth = transient_growth(np.array(A, dtype=float), steps=30)
    power = [[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]]
    for norm, error in zip(growth.norms, growth.error):
        exact = np.linalg.norm(np.array(power, dtype=float), 2)
        assert abs(norm - exact) <= error + 4 * 2.0**-53 * exact
        power = [[sum(power[i][k] * A[k][j] for k in range(2)) for j in range(2)] for i in range(2)]


@pytest.mark.parametrize("M", [0.5, 2.0, 3.0, 10.0, 100.0])
def test_the_kreiss_constant_of_a_nilpotent_block_is_the_closed_form(M):
    found = kreiss_constant([[0.0, M], [0.0, 0.0]])
    expected = M / 4 + 1 / M if M >= 2 else 1.0
    assert abs(found.value - expected) < 1e-12 * expected
    assert found.value - 1e-12 <= expected <= found.value + found.error


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_no_point_of_a_scan_is_above_the_kreiss_constant(kind, n):
    A = np.triu(ginibre(n, "complex", seed=n)) * 3
    values = np.diag(A)
    A = A - np.diag(values) + np.diag(0.8 * values / np.abs(values) if kind == "discrete" else -0.2 - np.abs(values))
    found = kreiss_constant(A, kind)
    assert found.converged and found.value >= 1
    x, y = np.linspace(0.01, 4, 60), np.linspace(-np.pi, np.pi, 60) * (1 if kind == "discrete" else 1.5)
    z = ((1 + x) * np.exp(1j * y[:, None])) if kind == "discrete" else x + 1j * y[:, None]
    quotient = np.broadcast_to(x, z.shape) / scan(A, z)
    assert quotient.max() <= found.value * (1 + 1e-9)
    if np.isfinite(found.at):
        height = abs(found.at) - 1 if kind == "discrete" else found.at.real
        assert abs(height / smallest(A, found.at) - found.value) < 1e-9 * found.value
    if kind == "discrete":
        growth = transient_growth(A)
        assert found.value <= growth.upper and growth.lower <= np.e * n * (found.value + found.error)


def test_planted_kreiss_constant_by_the_first_eps_alone_is_found(monkeypatch):
    monkeypatch.setattr(transient, "_climbed", lambda A, start, height, best: (0.9 * best, start))
    with pytest.raises(AssertionError):
        test_the_kreiss_constant_of_a_nilpotent_block_is_the_closed_form(10.0)


def test_kreiss_constants_without_an_end():
    assert kreiss_constant(2 * np.eye(2)).value == np.inf
    assert kreiss_constant(np.eye(2), "continuous").value == np.inf
    marginal = kreiss_constant([[1.0, 1.0], [0.0, 0.5]])
    assert abs(marginal.value - 5**0.5) < 1e-6 and not marginal.converged and marginal.error == np.inf
    contraction = kreiss_constant(np.linalg.qr(ginibre(4, seed=0))[0])
    assert (contraction.value, contraction.converged) == (1, True)


# Without a matrix


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("dimension", [1, 5, 20, 60])
def test_a_subspace_gives_upper_bounds_with_a_singular_value_within_the_error(kind, dimension):
    A = np.eye(60) + 0.5 * np.triu(ginibre(60, kind, seed=3)) + 3 * np.outer(*ginibre(60, seed=4)[:2])
    exact = pseudospectrum(A, n=8)
    found = krylov_pseudospectrum(A, exact.z, dimension=dimension)
    assert (found.sigma_min >= exact.sigma_min - exact.error).all()
    for z, sigma, error in zip(found.z.ravel(), found.sigma_min.ravel(), found.error.ravel()):
        singular = np.linalg.svd(z * np.eye(60) - A, compute_uv=False)
        assert np.abs(singular - sigma).min() <= error
    if dimension == 60:
        np.testing.assert_allclose(found.sigma_min, exact.sigma_min, atol=1e-6)
        assert found.converged.all()


def test_more_dimensions_give_lower_bounds_and_no_adjoint_an_honest_error():
    A = np.eye(80) + np.triu(ginibre(80, seed=5)) + 3 * np.outer(*ginibre(80, seed=6)[:2])
    z = pseudospectrum(A, n=6).z
    exact = pseudospectrum(A, z).sigma_min
    ratio = [np.median(krylov_pseudospectrum(A, z, dimension=k).sigma_min / exact) for k in (10, 40, 70)]
    assert ratio[0] > ratio[1] > ratio[2] >= 1 - 1e-6 and ratio[2] < 1.05
    blind = LinearMap(80, linear_map(A).apply)
    found = krylov_pseudospectrum(blind, z, dimension=40)
    assert (found.sigma_min >= exact - 1e-9).all() and not found.converged.any()
    assert (found.error >= found.sigma_min).all()


def test_an_invariant_space_ends_the_krylov_space():
    P = np.diag([1.0, 2.0, 3.0] + [0.0] * 30)
    basis, projected = krylov.arnoldi(linear_map(P), 20)
    assert projected.shape == (4, 4) and basis.shape == (33, 4)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(projected).real), [0, 1, 2, 3], atol=1e-12)


def test_planted_residual_in_the_subspace_alone_is_found(monkeypatch):
    """Within the subspace the vectors are exact: only the whole map knows what was left out."""
    smallest_of = krylov._smallest
    monkeypatch.setattr(krylov, "_smallest", lambda parts, z: (smallest_of(parts, z)[0], np.zeros(len(z))))
    with pytest.raises(AssertionError):
        test_a_subspace_gives_upper_bounds_with_a_singular_value_within_the_error("real", 5)
