"""What is asked of matrices, of series, of bases, and of a bound model beyond its series. Needs the `analysis` extra.

    matrices, linear_map                        the arrays and linear maps that are taken
    nonnormal, numerical_range, transient       how far from normal, what happens at once, what happens before the limit
    pseudospectrum, criss_cross, krylov         pseudospectra on grids, how far they reach, and without a matrix
    randommatrix, heads                         null models; every attention head against products of Gaussian factors
    products, dressed                           growth exponents of ordered products; of the dressed stages of a model
    collapse, saturation, generator             rank collapse, saturation along depth, logarithms of products
    lie                                         Lie series of matrices, with the error of what is cut off
    sequences                                   what every extrapolator is given and gives
    rational, borel_sums                        Pade approximants and Borel sums of power series
    epsilon, minimal_polynomial, transforms     extrapolation of numbers and vectors to their limit
    fixed_point                                 Anderson's method and DIIS
    resummation                                 a series by any of these, beside its partial sum
    basis, channels                             the embedding as a frame, kernels and independence of heads
    regulators                                  what keeps a deep product finite, taken away one at a time
    strongest, token_flow                       diagrams by what they contribute to a logit
    measurement                                 probabilities, and logits along depth

Names are resolved on first use. Arrays are NumPy's or torch's; results are frozen, with NumPy arrays in float64.
"""

from typing import Any

from opalgebra.lazy import homes, resolved

_HOMES = {
    "linear_map": "LinearMap composed linear_map",
    "nonnormal": "Eigenvalues HermitianParts eigenvalues henrici hermitian_parts",
    "numerical_range": "NumericalRange numerical_range",
    "pseudospectrum": "Pseudospectrum contours pseudospectrum",
    "criss_cross": "Reach distance_to_instability pseudospectral_abscissa pseudospectral_radius",
    "transient": "KreissConstant TransientGrowth kreiss_constant transient_growth",
    "krylov": "krylov_pseudospectrum",
    "randommatrix": "RadiusEdge SpacingRatios SpectralRadiusLaw Support all_real_probability circular_law circular_law_moments "
    "elliptic elliptic_law expected_real_eigenvalues fuss_catalan_moments gaussian_product ginibre ginibre_radius "
    "marchenko_pastur_moments marchenko_pastur_support radial_moment rider_edge spacing_ratios",
    "heads": "Deviation HeadSpectra ProductEnsemble deviation head_spectra product_ensemble",
    "products": "DepthExponents GinibreExponents LyapunovSpectrum depth_exponents ginibre_exponents lyapunov_spectrum "
    "vector_growth",
    "dressed": "ModelExponents dressed_layer dressed_stages gaussian_stages model_exponents token_blocks",
    "collapse": "RankCollapse birkhoff collapse_bound dobrushin effective_rank rank_collapse rank_residual",
    "saturation": "Saturation saturation",
    "generator": "EffectiveGenerator effective_generator",
    "lie": "bch magnus",
    "strongest": "Strongest strongest_diagrams strongest_worldlines",
    "token_flow": "token_flow",
    "sequences": "Estimate",
    "rational": "Pade pade",
    "borel_sums": "borel borel_pade",
    "epsilon": "topological_epsilon vector_epsilon wynn_epsilon",
    "minimal_polynomial": "extrapolate_depth mpe rre",
    "transforms": "aitken levin richardson",
    "fixed_point": "FixedPoint anderson diis",
    "resummation": "Recovery Resummation recovery resum",
    "basis": "AttentionKernel Gram attention_kernel gram",
    "channels": "Channels channels",
    "regulators": "REGULATORS Regulated regulated",
    "measurement": "Measurement frozen_logits logit_lens measurement",
}
_HOME = homes(__name__, {f"{__name__}.{module}": names for module, names in _HOMES.items()})
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return resolved(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
