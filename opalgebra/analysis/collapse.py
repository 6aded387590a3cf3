"""Rank collapse: how near the tokens of a state are to being one, and how much a pattern of attention can mix them.

A row-stochastic P with Dobrushin's coefficient c brings any two tokens of `P X` together: differences shrink by c in the
span between the largest and the smallest entry of a feature. Residual connections add the state itself, and do not shrink it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from opalgebra.analysis.heads import attentions
from opalgebra.analysis.matrices import UNIT, Array, array, square, unit_of
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.maps import beside

RANKS = ("stable", "participation", "entropy")


def rank_residual(X: Any, *, norm: str = "frobenius") -> float:
    """`||X - 1 x^T||` with x the mean of the rows, which makes it least in the Frobenius norm: 0 where all tokens are one.

    norm: "frobenius", or "composite" for `(||R||_1 ||R||_inf)^(1/2)` of the same residual R, the norm of `collapse_bound`;
    its own least value may be smaller. InputError for another norm, an array without two axes or empty, nan or infinity.

    >>> from opalgebra.analysis import rank_residual
    >>> rank_residual([[1.0, 2.0], [1.0, 2.0]]), rank_residual([[1.0], [-1.0]])
    (0.0, 1.4142135623730951)

    Dong, Cordonnier and Loukas, ICML (2021), arXiv:2103.03404.
    """
    X = array(X, name="X")
    residual = X - X.mean(0)
    if norm == "frobenius":
        return float(np.linalg.norm(residual))
    if norm == "composite":
        return float((np.linalg.norm(residual, 1) * np.linalg.norm(residual, np.inf)) ** 0.5)
    raise InputError(f"norm={norm!r} is not known; use 'frobenius' or 'composite'")


def effective_rank(s: Any, kind: str = "entropy") -> float:
    """How many singular values s count, between 1 and their number; of a zero matrix 0.

    kind "stable": `sum s^2 / max s^2`; "participation": `(sum s^2)^2 / sum s^4`; "entropy": `exp(-sum p ln p)`, p = s / sum s.
    InputError for another kind, negative or complex values, an empty array, nan or infinity.

    >>> from opalgebra.analysis import effective_rank
    >>> effective_rank([1.0, 0.5, 0.25, 0.125], kind="stable")
    1.328125

    Roy and Vetterli, EUSIPCO (2007).
    """
    s = array(s, name="s", axes=1)
    if kind not in RANKS:
        raise InputError(f"kind={kind!r} is not known; use {', '.join(map(repr, RANKS))}")
    if np.iscomplexobj(s) or (s < 0).any():
        raise InputError("an effective rank of complex or negative values was asked; give singular values")
    if not s.any():
        return 0.0
    s = s / s.max()
    if kind == "stable":
        return float((s**2).sum())
    if kind == "participation":
        return float((s**2).sum() ** 2 / (s**4).sum())
    p = s[s > 0] / s.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def dobrushin(P: Any) -> float:
    """`max over i, j of sum_k |P_ik - P_jk| / 2` of a row-stochastic matrix: 0 for equal rows, 1 for some that share nothing.

    It bounds the second largest modulus of an eigenvalue, and `osc(P x) <= c osc(x)` for the span osc of a vector. InputError
    for rows that are not probabilities, an array that is empty or not square, nan or infinity.

    >>> from opalgebra.analysis import dobrushin
    >>> round(dobrushin([[0.9, 0.1], [0.2, 0.8]]), 12)
    0.7

    Dobrushin, Theory Probab. Appl. 1 (1956) 65; Seneta, Non-negative Matrices and Markov Chains (1981), ch. 3.
    """
    P = _stochastic(P)
    return float(max(np.abs(P - row).sum(1).max() for row in P) / 2)


def birkhoff(P: Any) -> float:
    """`tanh(D/4)`, D = max ln (P_ik P_jl / (P_jk P_il)): how much a matrix of positive entries contracts Hilbert's metric.

    It is 1 as soon as a column has a zero beside a positive entry. So under a causal mask it is identically 1, whatever the
    scores are, for two tokens or more: the first row sees the first token alone. `dobrushin` still tells patterns apart
    there. Errors as `dobrushin`.

    >>> from opalgebra.analysis import birkhoff
    >>> round(birkhoff([[0.9, 0.1], [0.2, 0.8]]), 12), birkhoff([[1.0, 0.0], [0.5, 0.5]])
    (0.714285714286, 1.0)

    Birkhoff, Trans. Amer. Math. Soc. 85 (1957) 219; Hopf (1963).
    """
    P = _stochastic(P)
    P = P[:, P.any(0)]
    if not P.all():
        return 1.0
    logs = np.log(P)
    spread = max(np.ptp(logs - row, axis=1).max() for row in logs)
    return float(np.tanh(spread / 4))


def collapse_bound(residual: float, layers: int, *, beta: float, gamma: float, size: int) -> float:
    """`(4 gamma beta / size^(1/2))^((3^L - 1)/2) residual^(3^L)`: attention alone, one head, without residual connections.

    It bounds the composite residual after L layers with `||W_QK||_1 ||W_V||_{1,inf} <= beta`, and falls only where the
    residual begins below `(4 gamma beta / size^(1/2))^(-1/2)`. Infinite where it overflows. InputError for negative figures.

    >>> from opalgebra.analysis import collapse_bound
    >>> round(collapse_bound(0.9, 1, beta=0.5, gamma=1, size=64), 12)
    0.18225

    Dong, Cordonnier and Loukas, ICML (2021), arXiv:2103.03404, Theorem 2.2.
    """
    if min(residual, beta, gamma) < 0 or size < 1 or not isinstance(layers, int) or layers < 0:
        raise InputError("a collapse bound needs a size of at least 1, and other figures that are not negative")
    power = 3**layers
    try:
        return float((4 * gamma * beta / size**0.5) ** ((power - 1) // 2) * float(residual) ** power)
    except OverflowError:
        return float("inf")


@dataclass(frozen=True, eq=False)
class RankCollapse(Tabulated):
    """residual (stages + 1,): `||X - 1 x^T||_F / ||X||_F` of the state after each stage. rank (stages + 1,): its entropy rank.

    dobrushin (layers, heads): of every pattern. layers: their numbers, from 1.
    """

    residual: Array
    rank: Array
    dobrushin: Array
    layers: Array


def rank_collapse(binding: Binding) -> RankCollapse:
    """How near the tokens of each state of a bound model are to being one, and how each pattern mixes them.

    Row 0 is the embedding. InputError for a binding of several rows or with padding, a model without attention.
    """
    found = attentions(binding)
    if binding.mask is not None or len(binding.ids) != 1:
        raise InputError("rank collapse of several rows, or of padded ones, was asked; bind one text, or one row of token ids")
    states = binding.reference.states[:, 0].double().cpu().numpy()
    singular = np.linalg.svd(states, compute_uv=False)
    residual = np.array([rank_residual(X) / max(float(np.linalg.norm(X)), np.finfo(float).tiny) for X in states])
    patterns = []
    for place, before, vertex in found:
        here = beside(vertex, binding.reference.states[place].to(binding.dtype))
        pattern = vertex.pattern(here if before is None else before(here))
        patterns.append([dobrushin(P) for P in pattern[0].flatten(0, 1)])
    ranks = np.array([effective_rank(s) for s in singular])
    return RankCollapse(residual, ranks, np.array(patterns), np.array([binding.T.stages[place].layer for place, _, _ in found]))


def _stochastic(P: Any) -> Array:
    unit = unit_of(P)
    rows = square(P, name="P")
    if np.iscomplexobj(rows) or (rows < 0).any():
        raise InputError("P has complex or negative entries; the rows of a pattern are probabilities")
    off = np.abs(rows.sum(1) - 1)
    if (off > 4 * len(rows) * max(unit, UNIT)).any():
        row = int(np.argmax(off))
        raise InputError(f"row {row} of P sums to {rows[row].sum():.6g}; the rows of a pattern are probabilities and sum to 1")
    return rows
