"""Resummation of a series, always beside the partial sum of the same terms, and it says which of the two is the better.

A method of vectors takes each term as one vector (a matrix as the vector of its entries); a method of numbers takes every
entry as a series of its own. Whether it helps is not known beforehand: on SmolLM2 with every block counted the orders grow to
22 times the result, and extrapolation gains orders of magnitude; with attention alone counted the partial sums converge
faster than geometrically, which no sum of geometric sequences does, and every method loses against them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opalgebra.analysis.borel_sums import borel_transform, laplace, signs
from opalgebra.analysis.epsilon import epsilon_trail, topological_trail
from opalgebra.analysis.minimal_polynomial import extrapolated, minimal_weights, reduced_weights
from opalgebra.analysis.rational import pade
from opalgebra.analysis.sequences import (
    DOUBLE,
    Array,
    Estimate,
    Noisy,
    Trail,
    floats,
    judged,
    last_error,
    numbers,
    plain,
    relative_tolerance,
    sizes,
)
from opalgebra.analysis.transforms import aitken_trail, levin_trail, richardson_trail
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.orders import Orders
from opalgebra.scalar import is_natural


@dataclass(frozen=True, eq=False)
class Resummation(Tabulated):
    """value and partial_sum: of the same terms, in the shape of a term, (tokens, features) for the orders of a model.

    error, noise: what is estimated of the distance from the sum, and of the share of rounding in it; partial_error: the same of
    the partial sum, as norms (absolute values). converged: whether the error is within the tolerance. exact: the sum
    where it is known, as for the orders of a model, whose last state its own forward gives; otherwise None. One figure for a
    series, (tokens,) for the orders of a model, with a leading batch axis for token ids.
    """

    method: str
    orders: int
    value: Any
    error: Any
    converged: Any
    noise: Any
    partial_sum: Any
    partial_error: Any
    exact: Any = None
    is_real: Any = True

    @property
    def deviation(self) -> Any:
        """`|value - exact| / |exact|`, NaN at padded positions; None where the sum is not known."""
        return self._deviation(self.value)

    @property
    def partial_deviation(self) -> Any:
        """The same of the partial sum."""
        return self._deviation(self.partial_sum)

    @property
    def is_worse(self) -> Any:
        """Whether the partial sum is the better of the two: by the exact sum where it is known, otherwise by the estimates."""
        if self.exact is not None:
            return plain(np.asarray(self.deviation) > np.asarray(self.partial_deviation))
        return plain(np.asarray(self.error) > np.asarray(self.partial_error))

    def _deviation(self, found: Any) -> Any:
        if self.exact is None:
            return None
        axes = tuple(range(np.ndim(self.error), np.ndim(found)))
        difference, exact = floats(np.asarray(found - self.exact)), floats(np.asarray(self.exact))
        lengths = [np.sqrt((np.abs(part) ** 2).sum(axes)) for part in (difference, exact)]
        return plain(np.where(self.is_real, lengths[0] / lengths[1], np.nan))

    def __repr__(self) -> str:
        known = self.exact is not None
        figures = (self.deviation, self.partial_deviation) if known else (self.error, self.partial_error)
        own, partial, worse = (np.ravel(figure)[-1] for figure in (*figures, self.is_worse))
        where = " at the last token" if np.ndim(self.error) else ""
        kind = "error" if known else "estimated error"
        verdict = ": resummation is worse than the partial sum" if worse else ""
        return f"{self.method} of {self.orders} orders{where}: {kind} {own:.1e}, partial sum {partial:.1e}{verdict}"


@dataclass(frozen=True, eq=False)
class Recovery(Tabulated):
    """How far resummation and partial sums of 1, 2, ... orders are from the exact sum, relatively: `orders`, `deviations` and
    `partial_deviations` have one entry for each number of orders.
    """

    method: str
    orders: Array
    deviations: Array
    partial_deviations: Array

    def needed(self, tolerance: float) -> tuple[int | None, int | None]:
        """The fewest orders from which on the error stays within the tolerance: resummed, by partial sums; None for never."""

        def fewest(errors: Array) -> int | None:
            above = np.flatnonzero(~(errors <= tolerance))
            first = 0 if not len(above) else int(above[-1]) + 1
            return int(self.orders[first]) if first < len(errors) else None

        return fewest(self.deviations), fewest(self.partial_deviations)


def resum(
    series: Any,
    *,
    method: str = "vector_epsilon",
    orders: int | None = None,
    exact: Any = None,
    tolerance: float | None = None,
) -> Resummation:
    """The sum of a series by one method, with the partial sum of the same terms.

    series: terms (not partial sums), numbers (orders,), vectors (orders, d) or matrices (orders, a, b), NumPy's or PyTorch's;
    or the result of `M.orders(...)`, every token a series of vectors. orders: how many of the terms are used, from order 0
    on; all by default. exact: the sum, where it is known; `M.orders(...)` knows its own. method: of vectors "vector_epsilon",
    "topological_epsilon" (with the last term as covector), "mpe", "rre"; of numbers, on every entry, "wynn_epsilon",
    "aitken", "levin", "richardson", "pade" (nearest to the diagonal), "borel_pade". Estimates and tolerance are those of the
    functions of these names. InputError for an unknown method, more orders than there are, and a term that is not finite,
    with its place.

    >>> resum([1.0, -0.5, 1 / 3, -0.25, 0.2, -1 / 6, 1 / 7, -0.125, 1 / 9], exact=0.6931471805599453)
    vector_epsilon of 9 orders: error 2.2e-07, partial sum 7.6e-02
    >>> import math
    >>> resum([1 / math.factorial(k) for k in range(9)], exact=math.e)
    vector_epsilon of 9 orders: error 4.1e-08, partial sum 1.1e-06
    """
    terms, target, unit, is_real, shape = _read(series, exact)
    if orders is not None and not (is_natural(orders) and 0 < orders <= len(terms)):
        raise InputError(f"orders={orders!r} were asked of a series of {len(terms)}; give 1 to {len(terms)}")
    if method not in METHODS:
        raise InputError(f"method={method!r} is not known; use {', '.join(map(repr, METHODS))}")
    terms = terms[:orders]
    sums = np.cumsum(terms, axis=0)
    start = Noisy(sums, unit * np.sqrt(np.cumsum(sizes(terms) ** 2, axis=0)))
    found = METHODS[method](terms, start, unit, tolerance)
    trail = Trail(floats(sums), start.noise, np.arange(1, len(sums) + 1))
    value, partial = (np.asarray(part).reshape(shape) for part in (found.value, sums[-1]))
    figures = (found.error, found.converged, found.noise)
    error, converged, noise = (plain(np.asarray(figure).reshape(is_real.shape)) for figure in figures)
    partial_error = plain(last_error(trail).reshape(is_real.shape))
    value, partial = (plain(part) for part in (value, partial))
    return Resummation(method, len(terms), value, error, converged, noise, partial, partial_error, target, is_real)


def recovery(
    series: Any, *, method: str = "vector_epsilon", exact: Any = None, position: int = -1, orders: int | None = None
) -> Recovery:
    """From how few orders the sum is recovered: the errors of `resum` and of partial sums for 1, 2, ... up to `orders` terms.

    series: as `resum` reads it; of the orders of a model the token at `position` is taken, of one row. InputError as `resum`,
    and where the sum is not known.

    >>> found = recovery([0.5**k for k in range(20)], exact=2.0)
    >>> found.deviations[:2].tolist(), found.needed(1e-3)
    ([0.5, 0.25], (3, 10))
    """
    if isinstance(series, Orders):
        if series.binding.has_batch and len(series.binding.ids) > 1:
            raise InputError("recovery reads one row; bind a text, or one row of token ids")
        exact = series.binding.reference.states[-1][0, position].double().cpu().numpy()
        series = series.parts[:, 0, position]
    if exact is None:
        raise InputError("recovery compares with the exact sum, which is not known; pass exact=, or the orders of a model")
    count = len(series) if orders is None else orders
    each = [resum(series, method=method, orders=n, exact=exact) for n in range(1, count + 1)]
    errors = (np.array([float(getattr(one, name)) for one in each]) for name in ("deviation", "partial_deviation"))
    return Recovery(method, np.arange(1, count + 1), *errors)


def _read(series: Any, exact: Any) -> tuple[Array, Any, float, Array, tuple[int, ...]]:
    """Terms (orders, *batch, components), the exact sum, the unit roundoff, which of the batch count, the shape of a sum."""
    if isinstance(series, Orders):
        binding = series.binding
        values, unit = numbers(series.parts, "the series")
        target = binding.unbatched(binding.reference.states[-1].double().cpu()).numpy()
        counted = np.ones(binding.ids.shape, dtype=bool) if binding.mask is None else binding.mask.cpu().numpy()
        is_real = counted if binding.has_batch else counted[0]
        return values, target, unit, is_real, target.shape
    values, unit = numbers(series, "the series")
    if not 1 <= values.ndim <= 3 or not len(values):
        raise InputError(f"a series has numbers, vectors or matrices as its terms, not an array of the shape {values.shape}")
    target = None
    if exact is not None:
        target = np.asarray(numbers(exact, "the exact sum")[0])
        if target.shape != values.shape[1:]:
            shapes = f"the shape {target.shape}, and a term has {values.shape[1:]}"
            raise InputError(f"the exact sum has {shapes}; give one of a term")
    return values.reshape(len(values), -1), target, unit, np.array(True), values.shape[1:]


Method = Callable[[Array, Noisy, float, float | None], Estimate]


def _of_vectors(trail: Callable[[Noisy, Array], Trail]) -> Method:
    """A method that has a trail on vectors."""

    def method(terms: Array, start: Noisy, unit: float, tolerance: float | None) -> Estimate:
        exactless = Noisy(floats(start.values), start.noise)
        return judged(trail(exactless, floats(terms)), unit, tolerance, start=exactless)

    return method


def _of_polynomial(weights: Any) -> Method:
    """MPE or RRE, one sequence of a batch after the other."""

    def method(terms: Array, start: Noisy, unit: float, tolerance: float | None) -> Estimate:
        values, shape = floats(start.values), start.noise.shape[1:]
        each = [
            extrapolated(Noisy(values[(slice(None), *at)], start.noise[(slice(None), *at)]), weights, unit, tolerance)
            for at in np.ndindex(shape)
        ]
        parts = (np.array([getattr(one, name) for one in each]) for name in ("value", "error", "converged", "noise", "terms"))
        return Estimate(*(part.reshape((*shape, *part.shape[1:])) for part in parts))

    return method


def _of_numbers(trail: Callable[[Noisy, Array, float], Trail], *, accelerates_powers: bool = False) -> Method:
    """A method that has a trail on numbers, every entry by itself; errors are put together as norms."""

    def method(terms: Array, start: Noisy, unit: float, tolerance: float | None) -> Estimate:
        noise = unit * np.sqrt(np.cumsum(np.abs(floats(terms)) ** 2, axis=0))
        entries = Noisy(start.values[..., None], noise)
        found = judged(
            trail(entries, terms[..., None], unit), unit, tolerance, start=None if accelerates_powers else entries, scalar=True
        )
        error, scatter = (np.linalg.norm(np.atleast_1d(part), axis=-1) for part in (found.error, found.noise))
        size = sizes(np.atleast_1d(found.value))
        settled = error <= relative_tolerance(unit, tolerance) * size
        return Estimate(found.value, error, settled, scatter, found.terms)

    return method


TRAIL = 7
"""Of Pade and Borel, which solve equations for every estimate, the last ones: an error looks back on four others."""


def _fitted(sum_: Callable[[Array], Any]) -> Callable[[Noisy, Array, float], Trail]:
    """The trail of a function of coefficients; its noise from coefficients that are moved by their rounding."""

    def trail(start: Noisy, terms: Array, unit: float) -> Trail:
        lengths = np.arange(max(1, len(terms) - TRAIL + 1), len(terms) + 1)
        values = np.empty((len(lengths), *terms.shape[1:]), dtype=floats(terms).dtype)
        noise = np.empty(values.shape[:-1])
        for at in np.ndindex(terms.shape[1:-1]):
            own = terms[(slice(None), *at, 0)]
            for row, length in enumerate(lengths.tolist()):
                value = sum_(own[:length])
                moved = [sum_(own[:length] * (1 + unit * signed)) for signed in signs(length)] if unit else []
                values[(row, *at, 0)] = value
                noise[(row, *at)] = max((abs(other - value) for other in moved), default=0.0) + DOUBLE * abs(value)
        with np.errstate(invalid="ignore"):
            return Trail(values, np.where(np.isfinite(noise), noise, np.inf), lengths)

    return trail


def _pade_sum(c: Array) -> Any:
    return _number(pade(c, len(c) // 2, len(c) - 1 - len(c) // 2)(1))


def _borel_sum(c: Array) -> Any:
    n = len(c) // 2
    return laplace(pade(borel_transform(c), len(c) - 1 - n, n), 1.0)[0]


def _number(value: Any) -> Any:
    """A number of NumPy or a fraction as one of Python."""
    return complex(value) if np.iscomplexobj(value) else float(value)


METHODS: dict[str, Method] = {
    "vector_epsilon": _of_vectors(lambda start, terms: epsilon_trail(start)),
    "topological_epsilon": _of_vectors(lambda start, terms: topological_trail(start, terms[-1])),
    "mpe": _of_polynomial(minimal_weights),
    "rre": _of_polynomial(reduced_weights),
    "wynn_epsilon": _of_numbers(lambda start, terms, unit: epsilon_trail(start)),
    "aitken": _of_numbers(lambda start, terms, unit: aitken_trail(start)),
    "levin": _of_numbers(lambda start, terms, unit: levin_trail(start), accelerates_powers=True),
    "richardson": _of_numbers(lambda start, terms, unit: richardson_trail(start), accelerates_powers=True),
    "pade": _of_numbers(_fitted(_pade_sum)),
    "borel_pade": _of_numbers(_fitted(_borel_sum)),
}
"""Each method by the name of its function."""
