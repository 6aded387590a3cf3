"""Pseudospectra on a grid: time of one singular value decomposition a point over that of `pseudospectrum`, and its error.

Each line is `NAME ratio=MEASURED bar=BOUND`: a ratio of times is at least its bar, a relative error at most. Both sides run in
this process and its threads, in turns; the least time of each is taken. At 768 the decompositions are timed on a sample of
the points and scaled to all of them. Errors are taken wherever sigma_min > 1e-12 ||A||: against the decomposition down to
1e-8 ||A||, below which its own rounding shows, and there against inverse iteration in long double on a sample of points.
"""

import time

import numpy as np
import torch

from opalgebra.analysis import ginibre, pseudospectrum

SAMPLE, EXTENDED = 12, 40


def main() -> None:
    print(f"# numpy {np.__version__}, {torch.get_num_threads()} threads of torch, float64 on the CPU")
    for n, bar, repeats in ((100, 12, 3), (200, 16, 2)):
        compare(f"grcar_{n}", grcar(n), rectangle(-1, 3.5, -3.5, 3.5, 100), bar, repeats=repeats)
    compare("ginibre_768", ginibre(768, seed=0), rectangle(-1.3, 1.3, -1.3, 1.3, 30), 40, sample=SAMPLE, repeats=2)


def compare(name, A, z, bar, *, repeats, sample=None) -> None:
    """Prints the ratio of times and the largest relative error."""
    points = z.ravel() if sample is None else np.random.default_rng(0).choice(z.ravel(), sample, replace=False)
    naive, ours = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        found = pseudospectrum(A, z)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        exact = np.array([smallest(A, point) for point in points])
        naive.append((time.perf_counter() - start) * z.size / len(points))
    same = found.sigma_min.ravel() if sample is None else pseudospectrum(A, points).sigma_min
    norm = np.linalg.norm(A, 2)
    error = (np.abs(same - exact) / exact)[exact > 1e-8 * norm].max()
    deep = np.flatnonzero((same > 1e-12 * norm) & (same <= 1e-8 * norm))
    if len(deep):
        chosen = np.random.default_rng(0).choice(deep, min(EXTENDED, len(deep)), replace=False)
        deeper = extended(A, points[chosen])
        beside = (np.abs(exact[chosen] - deeper) / deeper).max()
        print(f"# {name}: the decomposition itself is off by {beside:.1e} of values down to 1e-12 of the norm")
        error = max(error, (np.abs(same[chosen] - deeper) / deeper).max())
    scaled = "" if sample is None else f", scaled from {sample} of {z.size} points"
    print(f"# {name}: {min(ours):.2f} s for {z.size} points, one decomposition each {min(naive):.1f} s{scaled}")
    print(f"pseudospectrum_{name} ratio={min(naive) / min(ours):.1f} bar={bar}")
    print(f"pseudospectrum_{name}_relative_error ratio={error:.1e} bar=1.0e-06", flush=True)


def smallest(A, point):
    return np.linalg.svd(point * np.eye(len(A)) - A, compute_uv=False)[-1]


def extended(A, points, *, steps=10):
    """The same in long double: inverse iteration with an LU decomposition, rows exchanged, for all points at once."""
    if np.finfo(np.longdouble).eps > 1e-18:
        raise SystemExit("this machine has no numbers longer than float64 to compare with")
    n, m, every = len(A), len(points), np.arange(len(points))
    U = points.astype(np.clongdouble)[:, None, None] * np.eye(n) - A
    L, order = np.zeros((m, n, n), np.clongdouble), np.tile(np.arange(n), (m, 1))
    for k in range(n):
        pivot = np.abs(U[:, k:, k]).argmax(1) + k
        for rows in (U, L, order):
            rows[every, pivot], rows[:, k] = rows[:, k].copy(), rows[every, pivot].copy()
        L[:, k:, k] = U[:, k:, k] / U[:, k, k, None]
        U[:, k + 1 :, k:] -= L[:, k + 1 :, k, None] * U[:, k, None, k:]
    x = np.random.default_rng(1).standard_normal((m, n)).astype(np.clongdouble)
    for _ in range(steps):
        for k in range(n):  # U* y = x, then L* of the permuted
            x[:, k] = (x[:, k] - (U[:, :k, k].conj() * x[:, :k]).sum(1)) / U[:, k, k].conj()
        for k in reversed(range(n)):
            x[:, k] -= (L[:, k + 1 :, k].conj() * x[:, k + 1 :]).sum(1)
        sigma = (np.abs(x) ** 2).sum(1) ** -0.5
        for k in range(n):  # (P* P = 1) L y = x, U x = y
            x[:, k] -= (L[:, k, :k] * x[:, :k]).sum(1)
        for k in reversed(range(n)):
            x[:, k] = (x[:, k] - (U[:, k, k + 1 :] * x[:, k + 1 :]).sum(1)) / U[:, k, k]
        x /= np.sqrt((np.abs(x) ** 2).sum(1))[:, None]
    return sigma.astype(float)


def rectangle(left, right, low, high, n):
    return np.linspace(left, right, n) + 1j * np.linspace(low, high, n)[:, None]


def grcar(n):
    """Minus one below the diagonal, one on it and on the three above it."""
    return np.triu(np.tril(np.ones((n, n)), 3)) - np.eye(n, k=-1)


if __name__ == "__main__":
    main()
