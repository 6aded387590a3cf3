"""How far a matrix is from normal, `A A* = A* A`: its Hermitian parts, Henrici's departure, the conditions of its eigenvalues.

A normal matrix is known by its eigenvalues. For others, and all blocks of a Transformer are others, the eigenvalues say what
happens after many applications, the numerical range what happens at the first, pseudospectra what happens in between.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from opalgebra.analysis.matrices import UNIT, Array, spectral_norm, square, unit_of
from opalgebra.display import Tabulated


@dataclass(frozen=True, eq=False)
class HermitianParts(Tabulated):
    """`A = hermitian + antihermitian`; ratio is `||antihermitian||_F / ||A||_F`, between 0 and 1, and 0 for a zero matrix."""

    hermitian: Array
    antihermitian: Array
    ratio: float


def hermitian_parts(A: Any) -> HermitianParts:
    """`(A + A*)/2` and `(A - A*)/2`; of a real matrix the symmetric and the antisymmetric part.

    The two are orthogonal in the trace product, so that their squared Frobenius norms add up to that of A. InputError as
    for every function of this module: an empty or not square array, nan or infinity.

    >>> from opalgebra.analysis import hermitian_parts
    >>> hermitian_parts([[0.0, 1.0], [0.0, 0.0]]).ratio
    0.7071067811865476
    """
    A = square(A)
    hermitian, antihermitian = (A + A.conj().T) / 2, (A - A.conj().T) / 2
    size = float(np.linalg.norm(A))
    return HermitianParts(hermitian, antihermitian, float(np.linalg.norm(antihermitian)) / size if size else 0.0)


def henrici(A: Any) -> float:
    """Henrici's departure from normality, `(||A||_F^2 - sum |lambda_i|^2)^(1/2)`: 0 for normal matrices and for no others.

    It is the Frobenius norm of the strictly upper part of a Schur form, which is how it is computed: the difference above
    would lose half of the digits. The absolute error is a small multiple of `u ||A||_F`, u = 1.1e-16.

    >>> from opalgebra.analysis import henrici
    >>> henrici([[1.0, 3.0], [0.0, 2.0]])
    3.0

    Henrici, Numer. Math. 4 (1962) 24.
    """
    triangular = linalg.schur(square(A), output="complex")[0]
    return float(np.linalg.norm(np.triu(triangular, 1)))


@dataclass(frozen=True, eq=False)
class Eigenvalues(Tabulated):
    """values (n,), complex, by decreasing modulus; conditions (n,) at least 1, infinite where left and right vectors are
    orthogonal; error (n,): how far rounding of A moves each value, to first order; converged (n,): whether that order is valid.
    """

    values: Array
    conditions: Array
    error: Array
    converged: Array

    @property
    def petermann(self) -> Array:
        """(n,): Petermann's excess-noise factors `K = <l|l><r|r> / |<l|r>|^2`, the squares of the conditions."""
        squares: Array = self.conditions**2
        return squares


def eigenvalues(A: Any) -> Eigenvalues:
    """Eigenvalues with their conditions, `kappa_i = ||l_i|| ||r_i|| / |l_i* r_i|`, always computed in float64.

    A change E of the matrix moves a simple eigenvalue by at most `kappa_i ||E||` to first order; `error` is this for
    `||E|| = u ||A||` with u the unit roundoff of the numbers as they were given, times n for the rounding of the
    algorithm in float64. First order holds no longer where `kappa_i u^(1/2) >= 1`: half of the digits are lost, an
    eigenvalue is defective to working accuracy, and `converged` is False there; pseudospectra say what can be known.

    >>> from opalgebra.analysis import eigenvalues
    >>> found = eigenvalues([[0.9, 10.0], [0.0, 0.8]])
    >>> found.values.real, found.conditions.round(2)
    (array([0.9, 0.8]), array([100., 100.]))

    Wilkinson, The Algebraic Eigenvalue Problem (1965), ch. 2; Petermann, IEEE J. Quantum Electron. 15 (1979) 566.
    """
    unit = unit_of(A)
    A = square(A)
    values, left, right = linalg.eig(A, left=True, right=True)
    overlap = np.abs(np.einsum("ij,ij->j", left.conj(), right))
    lengths = np.linalg.norm(left, axis=0) * np.linalg.norm(right, axis=0)
    with np.errstate(divide="ignore"):
        conditions = np.maximum(lengths / overlap, 1.0)
    order = np.argsort(-np.abs(values), kind="stable")
    values, conditions = np.asarray(values, dtype=np.complex128)[order], conditions[order]
    moved = max(unit, len(A) * UNIT) * spectral_norm(A)
    error = conditions * moved if moved else np.zeros(len(A))
    return Eigenvalues(values, conditions, error, conditions * max(unit, UNIT) ** 0.5 < 1)
