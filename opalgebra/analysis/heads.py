"""The spectrum of every attention head against a null model: products of Gaussian factors of the same shapes.

A head moves values by `W_O W_V` and scores by `W_Q^T W_K`, d x d matrices of rank k, the size of the head. Their non-zero
eigenvalues are those of the small products `W_V W_O` and `W_K W_Q^T`, k x k. What is compared does not change when a head is
written in another basis, `W_V -> M W_V, W_O -> W_O M^{-1}`: eigenvalues are in units of `||W_O W_V||_F / d^(1/2)`, in which
Gaussian factors have a spectral radius near 1.

The eigenvalues of one matrix repel each other, so that tests for independent samples are wrong. Each statistic of a head is one
number, and its p-value is its rank among those of matrices drawn from the ensemble.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from opalgebra.analysis.matrices import UNIT, Array, array
from opalgebra.analysis.randommatrix import Seed, checked_size, generator_of
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.attention import Attention
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.maps import Differentiated, Map

STATISTICS = ("radius", "modulus", "positive", "real", "departure")
"""max |lambda|; mean |lambda|; sum Re lambda / sum |lambda|, between -1 and 1; share of real eigenvalues; and the departure
from normality over the norm, `(1 - sum |lambda|^2 / ||A||_F^2)^(1/2)`.
"""
BATCH = 64


@dataclass(frozen=True, eq=False)
class ProductEnsemble(Tabulated):
    """Draws of a (d, k)(k, d) product of Gaussian factors: statistics (draws, 5), as STATISTICS; eigenvalues (draws, k)."""

    outer: int
    inner: int
    statistics: Array
    eigenvalues: Array


def product_ensemble(outer: int, inner: int, *, draws: int = 999, seed: Seed) -> ProductEnsemble:
    """The null model of products of rank `inner` of outer x outer matrices. The least p-value that it can give is 2/(draws +
    1).

    >>> from opalgebra.analysis import product_ensemble
    >>> product_ensemble(8, 3, draws=19, seed=0).eigenvalues.shape
    (19, 3)
    """
    random = generator_of(seed)
    for size, name in ((outer, "outer"), (inner, "inner"), (draws, "draws")):
        checked_size(size, name)
    statistics, values = [], []
    for begin in range(0, draws, BATCH):
        count = min(BATCH, draws - begin)
        left, right = random.standard_normal((count, outer, inner)), random.standard_normal((count, inner, outer))
        found, spectrum = _statistics(left, right)
        statistics.append(found)
        values.append(spectrum)
    return ProductEnsemble(outer, inner, np.concatenate(statistics), np.concatenate(values))


@dataclass(frozen=True, eq=False)
class Deviation(Tabulated):
    """eigenvalues (..., k), in the unit of the module; statistics and p_values (..., 5), as STATISTICS; the ensemble."""

    eigenvalues: Array
    statistics: Array
    p_values: Array
    ensemble: ProductEnsemble


def deviation(left: Any, right: Any, ensemble: ProductEnsemble) -> Deviation:
    """The product `left @ right` of factors (d, k) and (k, d) against the ensemble of their shapes.

    A p-value is two-sided, `2 (1 + draws at least as far out)/(draws + 1)` up to 1: valid at any number of draws, ties
    included. Many heads are many tests; at a level a expect a share a of them below it. InputError for other shapes, nan or
    infinity.
    """
    left, right = array(left, name="left"), array(right, name="right")
    return _deviation(left[None], right[None], ensemble)


@dataclass(frozen=True, eq=False)
class HeadSpectra(Tabulated):
    """kind: "ov" or "qk". layers (layers,): their numbers, from 1. eigenvalues (layers, heads, k), statistics and p_values
    (layers, heads, 5), heads from 0; ensemble: the draws that all of them are compared with.
    """

    kind: str
    layers: Array
    eigenvalues: Array
    statistics: Array
    p_values: Array
    ensemble: ProductEnsemble


def head_spectra(binding: Binding, kind: str = "ov", *, draws: int = 999, seed: Seed = 0) -> HeadSpectra:
    """Every head of a bound model against products of Gaussian factors: kind "ov" for `W_O^h W_V^h`, "qk" for `W_Q^T W_K`.

    Weights alone: biases, rotary rotations and the weights of norms are left out. InputError for another kind or a model whose
    heads have several sizes.
    """
    if kind not in ("ov", "qk"):
        raise InputError(f"kind={kind!r} is not known; use 'ov' for what a head moves or 'qk' for how it scores")
    found = [(binding.T.stages[place].layer, head_factors(vertex, kind)) for place, _, vertex in attentions(binding)]
    shapes = {factors[0].shape for _, factors in found}
    if len(shapes) != 1:
        raise InputError(f"heads of {len(shapes)} shapes were found, and one ensemble serves one; compare them by deviation")
    left, right = (np.concatenate([factors[place] for _, factors in found]) for place in (0, 1))
    ensemble = product_ensemble(left.shape[1], left.shape[2], draws=draws, seed=seed)
    whole = _deviation(left, right, ensemble)
    parts = (whole.eigenvalues, whole.statistics, whole.p_values)
    values, statistics, p_values = (part.reshape(len(found), -1, part.shape[-1]) for part in parts)
    return HeadSpectra(kind, np.array([layer for layer, _ in found]), values, statistics, p_values, ensemble)


def attentions(binding: Binding) -> list[tuple[int, Map | None, Attention]]:
    """The attention of each stage that has one: the stage's place, the norm before it, and the map.

    InputError for a model without any, or what is no bound model.
    """
    if not isinstance(binding, Binding):
        raise InputError(f"{type(binding).__name__} is no bound model; bind one at an input")
    found = []
    for place, maps in enumerate(binding.maps):
        for branch in maps.branches:
            vertex = branch.vertex.map if isinstance(branch.vertex, Differentiated) else branch.vertex
            if isinstance(vertex, Attention):
                found.append((place, branch.before, vertex))
    if not found:
        raise InputError(f"{binding.model.name} has no attention, and so no heads")
    return found


def head_factors(vertex: Attention, kind: str) -> tuple[Array, Array]:
    """(heads, d, k) and (heads, k, d), whose products are `W_O^h W_V^h` or `W_Q^T W_K`; grouped heads share W_V and W_K."""
    group = vertex.heads // vertex.key.heads
    if kind == "ov":
        size = vertex.value.size
        left = vertex.output.view(-1, vertex.heads, size).permute(1, 0, 2)
        right = vertex.value.weight.repeat_interleave(vertex.heads // vertex.value.heads, 0)
    else:
        left, right = vertex.query.weight.transpose(1, 2), vertex.key.weight.repeat_interleave(group, 0)
    factors = tuple(array(part.detach(), name="weight", axes=3) for part in (left, right))
    return factors  # type: ignore[return-value]


def _deviation(left: Array, right: Array, ensemble: ProductEnsemble) -> Deviation:
    shapes = (ensemble.outer, ensemble.inner), (ensemble.inner, ensemble.outer)
    if (left.shape[1:], right.shape[1:]) != shapes:
        raise InputError(f"factors of shapes {left.shape[1:]} and {right.shape[1:]} were given for an ensemble of {shapes}")
    statistics, values = _statistics(left, right)
    draws = ensemble.statistics[:, None]
    above, below = (draws >= statistics).sum(0), (draws <= statistics).sum(0)
    p_values = np.minimum(1.0, 2 * (1 + np.minimum(above, below)) / (len(draws) + 1))
    return Deviation(values, statistics, p_values, ensemble)


def _statistics(left: Array, right: Array) -> tuple[Array, Array]:
    """(heads, 5) and the eigenvalues (heads, k) in their unit. A product that is zero has no unit: InputError."""
    outer, small = left.shape[1], right @ left
    norm = np.sqrt(np.einsum("hij,hji->h", right @ right.swapaxes(1, 2), left.swapaxes(1, 2) @ left))
    if not norm.all():
        raise InputError(f"the product of head {int(np.argmin(norm))} is zero, and its spectrum has no unit; leave it out")
    values = np.linalg.eigvals(small) / (norm / outer**0.5)[:, None]
    moduli = np.abs(values)
    total = np.maximum(moduli.sum(1), np.finfo(float).tiny)
    is_real = np.abs(values.imag) <= 4 * UNIT * moduli.max(1, keepdims=True)
    departure = np.sqrt(np.maximum(0.0, 1 - (moduli**2).sum(1) / outer))
    rows = (moduli.max(1), moduli.mean(1), values.real.sum(1) / total, is_real.mean(1), departure)
    return np.stack(rows, axis=1), values
