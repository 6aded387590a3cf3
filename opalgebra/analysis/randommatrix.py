"""Ensembles of random matrices without symmetry, and what is known of them exactly: the null models of a spectrum.

Matrices have entries of variance 1/n unless another is asked, so that spectra keep to the unit disc as n grows. A `seed` is an
integer or a `numpy.random.Generator`, and is always given: a null model without one cannot be repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import comb, log, pi, sqrt
from typing import Any

import numpy as np
from scipy import integrate, optimize, spatial, special

from opalgebra.analysis.matrices import Array, array
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.scalar import is_natural

Seed = int | np.random.Generator


def ginibre(n: int, kind: str = "real", *, seed: Seed, variance: float | None = None) -> Array:
    """An n x n matrix of independent normal entries of variance 1/n, or as given. kind: "real", or "complex" with
    `E |g|^2` the variance. InputError for another kind, an n that is no positive integer, a negative variance.

    >>> from opalgebra.analysis import ginibre
    >>> ginibre(3, seed=0).shape
    (3, 3)

    Ginibre, J. Math. Phys. 6 (1965) 440.
    """
    return _normal((n, n), kind, generator_of(seed), _variance(variance, checked_size(n)))


def elliptic(n: int, tau: float, *, seed: Seed) -> Array:
    """A real n x n matrix with entries of variance 1/n and correlation tau of A_ij and A_ji: tau = 1 symmetric, 0 Ginibre, -1
    antisymmetric. The diagonal has variance (1 + tau)/n. Its spectrum fills the ellipse of `elliptic_law`.

    >>> from opalgebra.analysis import elliptic
    >>> A = elliptic(4, -1, seed=0)
    >>> bool((A == -A.T).all())
    True

    Girko, Theory Probab. Appl. 30 (1986) 677; Sommers, Crisanti, Sompolinsky, Stein, Phys. Rev. Lett. 60 (1988) 1895.
    """
    a, _ = elliptic_law(tau)
    normal = ginibre(n, seed=seed)
    symmetric, antisymmetric = (normal + normal.T) / sqrt(2), (normal - normal.T) / sqrt(2)
    return sqrt(a / 2) * symmetric + sqrt(1 - a / 2) * antisymmetric


def elliptic_law(tau: float) -> tuple[float, float]:
    """The semi-axes 1 + tau and 1 - tau along the real and the imaginary axis. InputError for tau outside -1 .. 1."""
    if not -1 <= tau <= 1:
        raise InputError(f"tau={tau!r} was asked; a correlation lies between -1 and 1")
    return 1.0 + tau, 1.0 - tau


def gaussian_product(shapes: Sequence[tuple[int, int]], kind: str = "real", *, seed: Seed) -> Array:
    """The product of Gaussian factors of these shapes, the leftmost first, each with entries of variance 1/columns.

    The null model of a product of weights: `W_O W_V` of a head is one of (d, k) and (k, d), of rank k. Its non-zero
    eigenvalues are those of the cyclic product (k, d)(d, k). InputError for shapes that do not fit together.

    >>> from opalgebra.analysis import gaussian_product
    >>> gaussian_product([(5, 2), (2, 5)], seed=0).shape
    (5, 5)

    Akemann and Ipsen, Acta Phys. Pol. B 46 (2015) 1747.
    """
    if not shapes or any(left[1] != right[0] for left, right in pairwise(shapes)):
        raise InputError(f"shapes={shapes!r} cannot be multiplied; each factor has as many columns as the next has rows")
    random = generator_of(seed)
    product: Array | None = None
    for rows, columns in shapes:
        factor = _normal((checked_size(rows), checked_size(columns)), kind, random, 1 / columns)
        product = factor if product is None else product @ factor
    assert product is not None
    return product


def circular_law_moments(k: int) -> Array:
    """(k,): `E |lambda|^{2j} = 1/(j + 1)` for j = 1 .. k, lambda uniform on the unit disc.

    >>> from opalgebra.analysis import circular_law_moments
    >>> circular_law_moments(3)
    array([0.5       , 0.33333333, 0.25      ])
    """
    return np.array([radial_moment(2 * power) for power in range(1, checked_size(k, "k") + 1)])


def radial_moment(power: float) -> float:
    """`E |lambda|^p = 2/(p + 2)` in the circular law, for p > -2: the mean modulus is 2/3."""
    if not power > -2:
        raise InputError(f"power={power!r}: moments of the circular law exist above -2")
    return 2 / (power + 2)


def circular_law(radius: Any) -> Any:
    """The share of the eigenvalues within a radius, `r^2` up to 1."""
    return np.clip(radius, 0, 1) ** 2


@dataclass(frozen=True)
class SpectralRadiusLaw(Tabulated):
    """The largest modulus of an eigenvalue of a complex Ginibre matrix, exact at every n: `P(r) = prod_k P(k, n r^2)`."""

    n: int

    def cdf(self, radius: float) -> float:
        """The probability of a spectral radius of at most `radius`; P(k, x) is the regularised incomplete gamma function."""
        return float(np.prod(special.gammainc(np.arange(1, self.n + 1), self.n * max(radius, 0.0) ** 2)))

    @property
    def median(self) -> float:
        return float(optimize.brentq(lambda r: self.cdf(r) - 0.5, 0.0, 4.0, xtol=1e-15, rtol=1e-15))

    @property
    def mean(self) -> float:
        options = {"epsabs": 1e-14, "epsrel": 1e-13, "limit": 200}
        left = integrate.quad(lambda r: 1 - self.cdf(r), 0, self.median, **options)[0]
        return float(left + integrate.quad(lambda r: 1 - self.cdf(r), self.median, 4.0, **options)[0])


def ginibre_radius(n: int) -> SpectralRadiusLaw:
    """The law of the spectral radius of complex Ginibre matrices of size n: the moduli squared are independent gamma variables.

    >>> from opalgebra.analysis import ginibre_radius
    >>> round(ginibre_radius(10).median, 12)
    1.084072449698

    Kostlan, Linear Algebra Appl. 162 (1992) 385.
    """
    return SpectralRadiusLaw(checked_size(n))


@dataclass(frozen=True)
class RadiusEdge(Tabulated):
    """The spectral radius is about `centre + scale * G` with G of Gumbel's law."""

    gamma: float
    centre: float
    scale: float


def rider_edge(n: int) -> RadiusEdge:
    """The edge for large n: gamma = ln n - 2 ln ln n - ln 2 pi, centre 1 + (gamma/4n)^(1/2), scale (4 n gamma)^(-1/2).

    InputError where gamma is not positive, up to n of some hundreds; `ginibre_radius` is exact at every n, and at the width
    of a layer still differs from this. Rider, J. Phys. A 36 (2003) 3401.
    """
    gamma = log(n) - 2 * log(log(n)) - log(2 * pi) if checked_size(n) > 1 else -np.inf
    if gamma <= 0:
        raise InputError(f"the edge expansion at n={n} was asked, but gamma is {gamma:.2f}; use ginibre_radius")
    return RadiusEdge(gamma, 1 + sqrt(gamma / (4 * n)), 1 / sqrt(4 * n * gamma))


def expected_real_eigenvalues(n: int) -> float:
    """How many eigenvalues of a real Ginibre matrix are real on average, about `(2n/pi)^(1/2)`; 2^(1/2) at n = 2.

    Edelman, Kostlan and Shub, J. Amer. Math. Soc. 7 (1994) 247.
    """
    is_odd = checked_size(n) % 2
    return is_odd + sqrt(2) * float(sum(comb(2 * half, half) / 4**half for half in range(is_odd, n - 1, 2)))


def all_real_probability(n: int) -> float:
    """The probability that all eigenvalues of a real Ginibre matrix are real, `2^{-n(n-1)/4}`. Edelman (1997)."""
    return float(2.0 ** (-Fraction(checked_size(n) * (n - 1), 4)))


def marchenko_pastur_moments(c: float, k: int) -> Array:
    """(k,): the moments of the squared singular values of an n x p matrix with entries of variance 1/p, c = n/p, at large n.

    `m_j = sum_r c^r/(r + 1) binomial(j, r) binomial(j - 1, r)`, Narayana's numbers. InputError for c that is not positive.

    >>> from opalgebra.analysis import marchenko_pastur_moments
    >>> marchenko_pastur_moments(1, 5)
    array([ 1.,  2.,  5., 14., 42.])
    """
    ratio = _ratio_of_sides(c)
    narayana = ([Fraction(comb(j, r) * comb(j - 1, r), r + 1) for r in range(j)] for j in range(1, checked_size(k, "k") + 1))
    return np.array([float(sum(number * ratio**r for r, number in enumerate(row))) for row in narayana])


@dataclass(frozen=True)
class Support(Tabulated):
    """lower and upper: the ends of the continuous part; atom: the share of zeros."""

    lower: float
    upper: float
    atom: float


def marchenko_pastur_support(c: float) -> Support:
    """`[(1 - c^(1/2))^2, (1 + c^(1/2))^2]`, and the share 1 - 1/c of zeros for c > 1. Marchenko and Pastur (1967)."""
    ratio = float(_ratio_of_sides(c))
    return Support((1 - sqrt(ratio)) ** 2, (1 + sqrt(ratio)) ** 2, max(0.0, 1 - 1 / ratio))


def fuss_catalan_moments(factors: int, k: int) -> Array:
    """(k,): the moments of the squared singular values of a product of s Ginibre matrices at large n, `binomial((s + 1) j,
    j)/(s j + 1)`.

    >>> from opalgebra.analysis import fuss_catalan_moments
    >>> fuss_catalan_moments(2, 4)
    array([ 1.,  3., 12., 55.])

    Penson and Zyczkowski, Phys. Rev. E 83 (2011) 061118.
    """
    s = checked_size(factors, "factors")
    return np.array([float(comb((s + 1) * j, j) // (s * j + 1)) for j in range(1, checked_size(k, "k") + 1)])


@dataclass(frozen=True, eq=False)
class SpacingRatios(Tabulated):
    """ratios (values,): complex; mean_modulus and mean_cosine with statistical errors, the ratios taken as independent."""

    ratios: Array
    mean_modulus: float
    mean_cosine: float
    modulus_error: float
    cosine_error: float


def spacing_ratios(values: Any, *, where: Any = None) -> SpacingRatios:
    """`z = (nearest - lambda)/(next nearest - lambda)` of each of at least 3 complex numbers, or of those that `where` marks.

    In the bulk of a Ginibre spectrum <|z|> is 0.739 and <cos arg z> -0.25, of independent points 2/3 and 0: the sign of
    repulsion, without unfolding. All values are neighbours, but only marked ones have a ratio. Those at the edge bias the
    cosine towards 0, and a real matrix has its spectrum twice: mark the bulk, and the upper half plane. The errors treat the
    ratios as independent; neighbours share some. InputError for fewer than 3 values, none marked, three that coincide, nan or
    infinity.

    >>> from opalgebra.analysis import spacing_ratios
    >>> abs(spacing_ratios([0, 1, 4j], where=[True, False, False]).ratios).tolist()
    [0.25]

    Sa, Ribeiro and Prosen, Phys. Rev. X 10 (2020) 021019.
    """
    values = array(values, name="values", axes=1).astype(np.complex128)
    if len(values) < 3:
        raise InputError(f"spacing ratios of {len(values)} values were asked; each needs two neighbours, so give at least 3")
    marked = np.ones(len(values), bool) if where is None else np.asarray(where)
    if marked.shape != values.shape or marked.dtype != bool or not marked.any():
        raise InputError("where= marks which values have a ratio; give True or False for each, and True for one at least")
    plane, places = np.column_stack((values.real, values.imag)), np.flatnonzero(marked)
    near = spatial.cKDTree(plane).query(plane[places], k=3)[1]
    others = np.array([[place for place in row if place != own][:2] for own, row in zip(places, near)])
    first, second = (values[others[:, place]] - values[places] for place in (0, 1))
    if (second == 0).any():
        own = places[int(np.argmax(second == 0))]
        raise InputError(f"three values coincide at {values[own]} (index {own}), without a spacing ratio; give simple values")
    ratios = first / second
    modulus, cosine = np.abs(ratios), np.cos(np.angle(ratios))
    means, errors = ([float(f(part)) for part in (modulus, cosine)] for f in (np.mean, np.std))
    root = sqrt(len(ratios))
    return SpacingRatios(ratios, means[0], means[1], errors[0] / root, errors[1] / root)


def _ratio_of_sides(c: float) -> Fraction:
    if not c > 0:
        raise InputError(f"c={c!r} was asked; the ratio of the sides of a matrix is positive")
    return Fraction(c)


def checked_size(n: int, name: str = "n") -> int:
    """A positive natural number. InputError, by its name, for another."""
    if not is_natural(n) or n < 1:
        raise InputError(f"{name}={n!r} was asked; it is a positive natural number")
    return n


def _variance(variance: float | None, n: int) -> float:
    if variance is not None and not variance >= 0:
        raise InputError(f"variance={variance!r} was asked; a variance is not negative")
    return 1 / n if variance is None else variance


def generator_of(seed: Seed) -> np.random.Generator:
    """A generator for an integer, or the one that is given."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def _normal(shape: tuple[int, int], kind: str, random: np.random.Generator, variance: float) -> Array:
    if kind not in ("real", "complex"):
        raise InputError(f"kind={kind!r} is not known; use 'real' or 'complex'")
    if kind == "real":
        return sqrt(variance) * random.standard_normal(shape)
    parts = random.standard_normal((2, *shape))
    complex_entries: Array = sqrt(variance / 2) * (parts[0] + 1j * parts[1])
    return complex_entries
