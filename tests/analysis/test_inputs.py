"""What every function of a matrix takes and refuses: NumPy or torch, short numbers upcast, and no array without a meaning."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import opalgebra as oa
from opalgebra import analysis

SQUARE = {
    "henrici": lambda A: analysis.henrici(A),
    "hermitian_parts": lambda A: analysis.hermitian_parts(A).antihermitian,
    "eigenvalues": lambda A: analysis.eigenvalues(A).values,
    "numerical_range": lambda A: analysis.numerical_range(A, points=8).radius,
    "pseudospectrum": lambda A: analysis.pseudospectrum(A, [0.3, 1j]).sigma_min,
    "krylov_pseudospectrum": lambda A: analysis.krylov_pseudospectrum(A, [0.3, 1j]).sigma_min,
    "pseudospectral_abscissa": lambda A: analysis.pseudospectral_abscissa(A, 0.1).value,
    "pseudospectral_radius": lambda A: analysis.pseudospectral_radius(A, 0.1).value,
    "distance_to_instability": lambda A: analysis.distance_to_instability(A, "discrete").value,
    "transient_growth": lambda A: analysis.transient_growth(A).lower,
    "kreiss_constant": lambda A: analysis.kreiss_constant(A, tolerance=0.5).value,
    "lyapunov_spectrum": lambda A: analysis.lyapunov_spectrum([A] * 3).exponents,
    "depth_exponents": lambda A: analysis.depth_exponents([A] * 3).exponents,
    "effective_generator": lambda A: analysis.effective_generator([A]).generator,
}
STOCHASTIC = {"dobrushin": analysis.dobrushin, "birkhoff": analysis.birkhoff}
ANY = SQUARE | STOCHASTIC

REAL = np.array([[0.5, 0.25, 1.0], [0.125, 0.25, 0.0], [0.0, -0.5, 0.375]])
COMPLEX = REAL + 1j * REAL.T / 4
ROWS = np.array([[0.5, 0.25, 0.25], [0.125, 0.625, 0.25], [0.25, 0.0, 0.75]])


def example(name):
    return ROWS if name in STOCHASTIC else REAL


@pytest.mark.parametrize("name", ANY)
def test_an_array_that_has_no_spectrum_is_refused(name):
    for given, message in (
        (np.zeros((0, 0)), r"is empty, with the shape \(0, 0\); give at least one number"),
        (np.zeros((2, 3)), r"has the shape \(2, 3\), but a square matrix is needed"),
        (np.zeros(4), r"has the shape \(4,\), but an array of 2 axes is needed"),
        (np.array([[1.0, 2.0], [np.nan, 3.0]]), r"is nan at index \(1, 0\); mend it"),
        (np.array([[1.0, 2.0], [3.0, np.inf]]), r"is inf at index \(1, 1\); mend it"),
        (torch.tensor([[1.0, torch.nan], [3.0, 4.0]]), r"is nan at index \(0, 1\); mend it"),
        (np.array([["a", "b"], ["c", "d"]]), "holds <U1 and no numbers"),
        (np.array([[None, 1], [2, 3]]), "holds object and no numbers"),
    ):
        with pytest.raises(oa.InputError, match=message) as caught:
            ANY[name](given)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ANY)
def test_torch_and_numpy_and_short_numbers_have_the_same_results(name):
    """The entries are exact in float16, so that the upcast is the same matrix."""
    A, function = example(name), ANY[name]
    exact = function(A)
    given = [A.astype(np.float32), A.tolist(), torch.tensor(A), torch.tensor(A, dtype=torch.float32, requires_grad=True)]
    given += [torch.tensor(A, dtype=torch.bfloat16), torch.tensor(A, dtype=torch.float16), torch.tensor(A).T.contiguous().T]
    for one in given:
        np.testing.assert_array_equal(function(one), exact)


@pytest.mark.parametrize("name", SQUARE)
def test_complex_matrices_have_what_their_conjugates_have(name):
    exact = SQUARE[name](COMPLEX)
    for one in (COMPLEX.astype(np.complex64), torch.tensor(COMPLEX), torch.tensor(COMPLEX.conj()).conj()):
        np.testing.assert_array_equal(SQUARE[name](one), exact)
    if name not in ("hermitian_parts", "eigenvalues", "effective_generator", "pseudospectrum", "krylov_pseudospectrum"):
        np.testing.assert_allclose(SQUARE[name](COMPLEX.conj()), exact, rtol=1e-9)


@pytest.mark.parametrize("name", STOCHASTIC)
def test_a_pattern_is_no_complex_or_other_matrix(name):
    for given, message in (
        (COMPLEX, "complex or negative entries"),
        (REAL, "complex or negative entries"),
        (2 * ROWS, "row 0 of P sums to 2; the rows of a pattern are probabilities"),
        (np.diag([1.0, 0.0]), "row 1 of P sums to 0"),
    ):
        with pytest.raises(oa.InputError, match=message):
            STOCHASTIC[name](given)


ONE = {  # of the matrix [[0.5]]
    "henrici": 0,
    "hermitian_parts": [[0]],
    "eigenvalues": [0.5],
    "numerical_range": 0.5,
    "pseudospectrum": [0.2, 1.25**0.5],
    "krylov_pseudospectrum": [0.2, 1.25**0.5],
    "pseudospectral_abscissa": 0.6,
    "pseudospectral_radius": 0.6,
    "distance_to_instability": 0.5,
    "transient_growth": 1,
    "kreiss_constant": 1,
    "lyapunov_spectrum": [-np.log(2)],
    "depth_exponents": [-np.log(2)],
    "effective_generator": [[-np.log(2)]],
}
ZERO = {  # of the 2 x 2 zero matrix: singular
    "henrici": 0,
    "hermitian_parts": np.zeros((2, 2)),
    "eigenvalues": [0, 0],
    "numerical_range": 0,
    "pseudospectrum": [0.3, 1],
    "krylov_pseudospectrum": [0.3, 1],
    "pseudospectral_abscissa": 0.1,
    "pseudospectral_radius": 0.1,
    "distance_to_instability": 1,
    "transient_growth": 1,
    "kreiss_constant": 1,
    "lyapunov_spectrum": [-np.inf, -np.inf],
    "depth_exponents": [-np.inf, -np.inf],
    "effective_generator": np.full((2, 2), np.nan),
}


@pytest.mark.parametrize("name", SQUARE)
def test_one_number_and_a_singular_matrix(name):
    np.testing.assert_allclose(SQUARE[name]([[0.5]]), ONE[name], atol=1e-12)
    np.testing.assert_allclose(SQUARE[name](np.zeros((2, 2))), ZERO[name], atol=1e-12)


def test_one_token_has_nothing_to_mix():
    assert (analysis.dobrushin([[1.0]]), analysis.birkhoff([[1.0]]), analysis.rank_residual([[3.0, 1.0]])) == (0, 0, 0)


def test_the_rounding_of_short_numbers_enters_the_errors():
    for function in (
        lambda A: analysis.eigenvalues(A).error.min(),
        lambda A: analysis.pseudospectrum(A, [0.3]).error[0],
        lambda A: analysis.pseudospectral_radius(A, 0.1).error,
        lambda A: analysis.distance_to_instability(A, "discrete").error,
        lambda A: analysis.numerical_range(A).error,
    ):
        assert function(REAL.astype(np.float32)) > 2.0**-25 > 1e4 * function(REAL)


def test_an_eps_below_the_rounding_of_the_matrix_is_refused():
    assert analysis.pseudospectral_radius(REAL, 1e-9).value > 0
    with pytest.raises(oa.InputError, match=r"eps=1.0e-09 lies below the rounding .* of A, where nothing can be told"):
        analysis.pseudospectral_radius(REAL.astype(np.float32), 1e-9)
    for eps in (0, -1.0, np.nan, np.inf, True, "1"):
        with pytest.raises(oa.InputError, match="the eps of a pseudospectrum is a positive number"):
            analysis.pseudospectral_abscissa(REAL, eps)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: analysis.numerical_range(REAL, points=2), "points=2: a boundary needs at least 3 points"),
        (lambda: analysis.pseudospectrum(REAL, n=1), "n=1: a grid has at least 2 points along each side"),
        (lambda: analysis.pseudospectrum(REAL, [np.nan]), r"grid is nan at index \(0,\)"),
        (lambda: analysis.krylov_pseudospectrum(REAL, dimension=0), "dimension=0: the dimension of a subspace is a positive"),
        (lambda: analysis.contours(analysis.pseudospectrum(REAL, [0.0, 1.0]), [0.1]), "they need a rectangular grid"),
        (lambda: analysis.contours(analysis.pseudospectrum(REAL, n=4), [0.0]), "the eps of a pseudospectrum is positive"),
        (lambda: analysis.distance_to_instability(REAL, "slow"), "kind='slow' is not known; use 'continuous' or 'discrete'"),
        (lambda: analysis.kreiss_constant(REAL, "slow"), "kind='slow' is not known"),
        (lambda: analysis.kreiss_constant(REAL, tolerance=2), "tolerance=2: the relative height"),
        (lambda: analysis.transient_growth(REAL, steps=0), "steps=0: the number of powers is a positive"),
        (lambda: analysis.lyapunov_spectrum([]), "no factor is left after discarding 0"),
        (lambda: analysis.lyapunov_spectrum([REAL], discard=1), "no factor is left after discarding 1"),
        (lambda: analysis.lyapunov_spectrum([REAL], discard=-1), "discard=-1"),
        (lambda: analysis.lyapunov_spectrum([REAL, np.eye(2)]), "matrix 1 has the size 2 after 3"),
        (lambda: analysis.lyapunov_spectrum([REAL], 4), "k=4 exponents were asked of maps of size 3; ask for 1 to 3"),
        (lambda: analysis.depth_exponents([]), "the singular values of a product of no factors were asked"),
        (lambda: analysis.depth_exponents([REAL, np.eye(2)]), "maps of sizes 3 and 2 were given"),
        (lambda: analysis.depth_exponents([analysis.LinearMap(3, lambda x: x)], 1), "of a map without an adjoint; give it one"),
        (lambda: analysis.composed([]), "a product of no maps was asked"),
        (lambda: analysis.effective_generator([]), "the generator of a product of no matrices was asked"),
        (lambda: analysis.effective_generator([REAL, np.eye(2)]), "matrices of several sizes were given"),
        (lambda: analysis.effective_rank([1.0], "size"), "kind='size' is not known; use 'stable', 'participation', 'entropy'"),
        (lambda: analysis.effective_rank([-1.0]), "an effective rank of complex or negative values"),
        (lambda: analysis.rank_residual(REAL, norm="2"), "norm='2' is not known"),
        (lambda: analysis.collapse_bound(-1.0, 1, beta=1, gamma=1, size=1), "a collapse bound needs a size of at least 1"),
        (lambda: analysis.saturation([[1.0, 2.0]]), "saturation of one state was asked"),
        (lambda: analysis.saturation(np.zeros((2, 2, 2))), "but an array of 2 axes is needed"),
        (lambda: analysis.ginibre(0, seed=0), "n=0 was asked; it is a positive natural number"),
        (lambda: analysis.ginibre(2, "quaternion", seed=0), "kind='quaternion' is not known; use 'real' or 'complex'"),
        (lambda: analysis.ginibre(2, seed=0, variance=-1), "variance=-1 was asked"),
        (lambda: analysis.elliptic(2, 1.5, seed=0), "tau=1.5 was asked; a correlation lies between -1 and 1"),
        (lambda: analysis.gaussian_product([(2, 3), (2, 3)], seed=0), "cannot be multiplied"),
        (lambda: analysis.rider_edge(100), "the edge expansion at n=100 was asked, but gamma is -0.29; use ginibre_radius"),
        (lambda: analysis.rider_edge(1), "gamma is -inf"),
        (lambda: analysis.radial_moment(-2), "moments of the circular law exist above -2"),
        (lambda: analysis.circular_law_moments(0), "k=0 was asked"),
        (lambda: analysis.marchenko_pastur_moments(0, 2), "the ratio of the sides of a matrix is positive"),
        (lambda: analysis.fuss_catalan_moments(0, 2), "factors=0 was asked"),
        (lambda: analysis.spacing_ratios([1, 2]), "spacing ratios of 2 values were asked"),
        (lambda: analysis.spacing_ratios([1, 1, 1]), r"three values coincide at \(1\+0j\) \(index 0\)"),
        (lambda: analysis.spacing_ratios([1, 2, 3], where=[False] * 3), "where= marks which values have a ratio"),
        (lambda: analysis.ginibre_exponents(2, "quaternion"), "kind='quaternion' is not known"),
        (lambda: analysis.ginibre_exponents(0), "d=0 and variance=1.0 were asked"),
        (lambda: analysis.vector_growth(0), "n=0 was asked"),
        (lambda: analysis.product_ensemble(4, 0, seed=0), "inner=0 was asked"),
        (
            lambda: analysis.deviation(REAL, REAL, analysis.product_ensemble(4, 2, draws=3, seed=0)),
            r"factors of shapes \(3, 3\) and \(3, 3\) were given for an ensemble of \(\(4, 2\), \(2, 4\)\)",
        ),
        (
            lambda: analysis.deviation(np.zeros((4, 2)), np.ones((2, 4)), analysis.product_ensemble(4, 2, draws=3, seed=0)),
            "the product of head 0 is zero, and its spectrum has no unit",
        ),
    ],
)
def test_other_wrong_arguments_are_refused(act, message):
    with pytest.raises(oa.InputError, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_without_scipy_the_lens_works_and_the_rest_says_what_to_install():
    program = (
        "import sys\nsys.modules['scipy'] = None\nfrom opalgebra import analysis\nanalysis.logit_lens\n"
        "import opalgebra as oa\ntry:\n    analysis.henrici\nexcept oa.ModelError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    expected = "opalgebra.analysis.henrici needs scipy, which is not installed; run `pip install 'opalgebra[analysis]'`"
    assert done.stdout.strip() == expected
