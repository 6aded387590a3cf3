"""Series whose sums are known from elsewhere: their terms or partial sums, exact where they can be."""

from fractions import Fraction
from itertools import accumulate
from math import factorial

import numpy as np

LOGARITHMIC = 2.109742801236892
"""sum over n >= 2 of 1/(n ln^2 n), OEIS A115563."""

GOMPERTZ = 0.5963473623231940743410785
"""sum of (-1)^n n!, Borel: e E_1(1), OEIS A073003."""


def logarithmic(count: int) -> np.ndarray:
    """Partial sums of 1/(n ln^2 n)."""
    n = np.arange(2, count + 2)
    return np.cumsum(1 / (n * np.log(n) ** 2))


def cosines(count: int) -> np.ndarray:
    """Partial sums of cos(nx)/n^2 at x = pi/20, whose tenth term is zero; the sum is pi^2/6 - pi x/2 + x^2/4."""
    n = np.arange(1, count + 1)
    return np.cumsum(np.cos(n * np.pi / 20) / n**2)


COSINES = 1.404362459571673320138324


def alternating(count: int) -> list[Fraction]:
    """Partial sums of ln 2 = 1 - 1/2 + 1/3 - ..."""
    return list(accumulate(Fraction((-1) ** n, n + 1) for n in range(count)))


def factorials(count: int) -> list[int]:
    """Terms of Euler's series, (-1)^n n!."""
    return [(-1) ** n * factorial(n) for n in range(count)]


def squares(count: int) -> list[Fraction]:
    """Partial sums of zeta(2)."""
    return list(accumulate(Fraction(1, n * n) for n in range(1, count + 1)))


def anharmonic(order: int) -> list[Fraction]:
    """E_0 of p^2/2 + x^2/2 + g x^4 by powers of g: `-f''/2 + x f' + g x^4 f = (E - 1/2) f` for the factor of the Gaussian."""
    energies = [Fraction(1, 2)]
    factors: list[list[Fraction]] = [[Fraction(1)]]

    def coefficient(k: int, i: int) -> Fraction:
        return factors[k][i] if 0 <= i < len(factors[k]) else Fraction(0)

    for k in range(1, order + 1):
        here = [Fraction(0)] * (2 * k + 2)
        factors.append(here)
        for i in range(2 * k, 0, -1):
            mixed = sum(energies[j] * coefficient(k - j, i) for j in range(1, k))
            here[i] = (Fraction((2 * i + 2) * (2 * i + 1), 2) * here[i + 1] + mixed - coefficient(k - 1, i - 2)) / (2 * i)
        energies.append(-here[1])
    return energies


def divergent(count: int) -> np.ndarray:
    """Partial sums of A^k b for A = diag(2, -3, 1/2) and b = (1, 1, 1), which Pade sums to (1 - A)^-1 b = (-1, 1/4, 2)."""
    return np.cumsum(np.array([2.0, -3.0, 0.5]) ** np.arange(count)[:, None], axis=0)


RESOLVENT = np.array([-1.0, 0.25, 2.0])
