"""Cumulants against sums over partitions, published values, and the equations of motion of which ordered ones are kernels."""

from fractions import Fraction
from importlib import import_module
from itertools import combinations
from math import comb, prod

import pytest

import opalgebra as oa
from opalgebra.cumulants import set_partitions

module = import_module("opalgebra.cumulants")

MOMENTS = {
    "gauss": [0, 1, 0, 3, 0, 15, 0, 105], "semicircle": [0, 1, 0, 2, 0, 5, 0, 14], "bernoulli": [0, 1, 0, 1, 0, 1, 0, 1],
    "bell": [1, 2, 5, 15, 52, 203], "catalan": [1, 2, 5, 14, 42, 132], "powers of two": [1, 2, 4, 8, 16, 32],
}  # fmt: skip
KNOWN = {
    ("gauss", "classical"): [0, 1, 0, 0, 0, 0, 0, 0], ("gauss", "free"): [0, 1, 0, 1, 0, 4, 0, 27],
    ("gauss", "boolean"): [0, 1, 0, 2, 0, 10, 0, 74], ("semicircle", "classical"): [0, 1, 0, -1, 0, 5, 0, -56],
    ("semicircle", "free"): [0, 1, 0, 0, 0, 0, 0, 0], ("semicircle", "boolean"): [0, 1, 0, 1, 0, 2, 0, 5],
    ("bernoulli", "classical"): [0, 1, 0, -2, 0, 16, 0, -272], ("bernoulli", "free"): [0, 1, 0, -1, 0, 2, 0, -5],
    ("bernoulli", "boolean"): [0, 1, 0, 0, 0, 0, 0, 0], ("bell", "classical"): [1, 1, 1, 1, 1, 1],
    ("bell", "free"): [1, 1, 1, 2, 6, 21], ("bell", "boolean"): [1, 1, 2, 6, 22, 92],
    ("catalan", "classical"): [1, 1, 1, 0, -4, -10], ("catalan", "free"): [1, 1, 1, 1, 1, 1],
    ("catalan", "boolean"): [1, 1, 2, 5, 14, 42], ("powers of two", "classical"): [1, 1, 0, -2, 0, 16],
    ("powers of two", "free"): [1, 1, 0, -1, 0, 2], ("powers of two", "boolean"): [1, 1, 1, 1, 1, 1],
}  # fmt: skip


def crosses(blocks):
    """Whether a < b < c < d exist with a, c in one block and b, d in another."""
    place = {item: number for number, block in enumerate(blocks) for item in block}
    return any(place[a] == place[c] != place[b] == place[d] for a, b, c, d in combinations(sorted(place), 4))


KINDS = {
    "classical": lambda blocks: True,
    "free": lambda blocks: not crosses(blocks),
    "boolean": lambda blocks: all(block == tuple(range(block[0], block[-1] + 1)) for block in blocks),
}


@pytest.mark.parametrize(("law", "kind"), KNOWN, ids=" ".join)
def test_cumulants_of_known_laws_and_back(law, kind):
    found = oa.cumulants(MOMENTS[law], kind=kind)
    assert found == tuple(KNOWN[law, kind])
    assert oa.moments(found, kind=kind) == tuple(MOMENTS[law])


def test_the_numbers_of_partitions():
    for kind, counts in (("classical", [1, 2, 5, 15, 52, 203, 877]), ("free", [1, 2, 5, 14, 42, 132, 429]),
                         ("boolean", [1, 2, 4, 8, 16, 32, 64])):  # fmt: skip
        partitions = [list(filter(KINDS[kind], set_partitions(tuple(range(n))))) for n in range(1, 8)]
        assert list(map(len, partitions)) == counts
        assert oa.moments([1] * 7, kind=kind) == tuple(counts)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_sums_over_partitions(kind):
    assert moments_are_wrong(kind) is False


def moments_are_wrong(kind):
    cumulants = [Fraction(k * k - 5, k + 1) for k in range(1, 7)]
    wanted = tuple(
        sum(
            prod(cumulants[len(block) - 1] for block in blocks)
            for blocks in filter(KINDS[kind], set_partitions(tuple(range(n))))
        )
        for n in range(1, 7)
    )
    return oa.moments(cumulants, kind=kind) != wanted or oa.cumulants(wanted, kind=kind) != tuple(cumulants)


def test_cumulants_of_symbols_and_of_nothing():
    m, v = oa.parameter("m"), oa.parameter("v")
    assert oa.cumulants([m, v + m * m], kind="free") == (m, v)
    assert oa.cumulants([], kind="free") == oa.moments([], kind="classical") == ()
    assert oa.cumulants([0.5, 1], kind="boolean") == (Fraction(1, 2), Fraction(3, 4))


# Ordered cumulants

M = oa.family("M", kind="linear")


def test_ordered_cumulants_of_three_times():
    """The kernels with and without memory, as van Kampen and Terwiel give them."""
    both = oa.ordered_cumulant(M, (1, 2), kind="convolution")
    assert both == oa.ordered_cumulant(M, (1, 2), kind="convolutionless") == M[1, 2] - M[1] @ M[2]
    memory = M[1, 2, 3] - M[1, 2] @ M[3] - M[1] @ M[2, 3] + M[1] @ M[2] @ M[3]
    assert oa.ordered_cumulant(M, (1, 2, 3), kind="convolution") == memory
    without = memory - M[1, 3] @ M[2] + M[1] @ M[3] @ M[2]
    assert oa.ordered_cumulant(M, (1, 2, 3), kind="convolutionless") == without
    assert oa.ordered_cumulant(M, (5,), kind="convolution") == M[5]


@pytest.mark.parametrize("kind", ["convolution", "convolutionless"])
@pytest.mark.parametrize("number", range(1, 6))
def test_ordered_cumulants_of_commuting_moments_at_equal_times(kind, number):
    """With memory the Boolean cumulant; without, as n! words of n times make t^n, the classical one, of d/dt log M."""
    moments = [Fraction(k + 2, k * k + 1) for k in range(1, number + 1)]
    found = oa.expand(
        oa.ordered_cumulant(lambda times: moments[len(times) - 1] * oa.Identity(), tuple(range(number)), kind=kind)
    )
    ((value, _),) = found.rhs.terms if hasattr(found.rhs, "terms") else ((1, found.rhs),)
    assert value == oa.cumulants(moments, kind="boolean" if kind == "convolution" else "classical")[-1]


def test_the_kernel_without_memory_turns_the_mean_propagator():
    """dM/dt = K M order by order, in every distribution of times over the factors: the one equation that defines K."""
    for number in range(1, 6):
        times = tuple(range(1, number + 1))
        total = 0 * M[1]
        for size in range(number):
            for chosen in combinations(times[1:], size):
                rest = tuple(time for time in times[1:] if time not in chosen)
                kernel = oa.ordered_cumulant(M, (1, *chosen), kind="convolutionless")
                total = total + (kernel @ M[rest] if rest else kernel)
        assert oa.expand(total).rhs == M[times]


def test_the_kernel_with_memory_is_the_self_energy():
    """dM/dt = sum over intervals of K M: M(1..n) = sum over k of K(1..k) M(k + 1..n)."""
    for number in range(1, 7):
        times = tuple(range(1, number + 1))
        parts = [oa.ordered_cumulant(M, times[:k], kind="convolution") @ M[times[k:]] for k in range(1, number)]
        assert oa.expand(sum(parts, start=oa.ordered_cumulant(M, times, kind="convolution"))).rhs == M[times]


def test_what_cumulants_refuse():
    F = oa.family("F", kind="nonlinear")
    for error, act, text in (
        (oa.InputError, lambda: oa.cumulants([1], kind="monotone"), "kind='monotone' is unknown; use classical, free, boolean"),
        (oa.InputError, lambda: oa.moments("12", kind="free"), "'12' is no sequence of scalars"),
        (oa.InputError, lambda: oa.cumulants([1j], kind="free"), "is no sequence of scalars; give the moments or cumulants"),
        (oa.InputError, lambda: oa.ordered_cumulant(M, (1,), kind="free"), "use convolution, convolutionless"),
        (oa.InputError, lambda: oa.ordered_cumulant(M, (), kind="convolution"), "give one or more different times"),
        (oa.InputError, lambda: oa.ordered_cumulant(M, (1, 1), kind="convolution"), "the times (1, 1) was asked"),
        (oa.InputError, lambda: oa.ordered_cumulant(3, (1, 2), kind="convolution"), "3 gives no moments; pass a family"),
        (oa.InputError, lambda: oa.ordered_cumulant(lambda times: 3, (1, 2), kind="convolution"), "3 is no operator"),
        (oa.NotLinearError, lambda: oa.ordered_cumulant(F, (1, 2), kind="convolution"), "an ordered cumulant needs it to be"),
        (oa.LimitError, lambda: oa.ordered_cumulant(M, range(12), kind="convolutionless"), "terms and the limit is 200,000"),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            act()
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)


def test_how_many_terms_there_are_is_known():
    for number in range(1, 7):
        for kind, ways in (("convolution", module._intervals), ("convolutionless", module._orders)):
            assert module._count(number, kind) == len(list(ways(tuple(range(number)))))


def test_planted_mistakes_are_seen(monkeypatch):
    real = module._from_smaller
    monkeypatch.setattr(module, "_from_smaller", lambda m, c, n, kind: real(m, c, n, "classical" if n < 4 else kind))
    assert [kind for kind in KINDS if moments_are_wrong(kind)] == ["boolean"]
    monkeypatch.setattr(module, "_from_smaller", lambda m, c, n, kind: real(m, c, n, "classical"))
    assert [kind for kind in KINDS if moments_are_wrong(kind)] == ["free", "boolean"]
    monkeypatch.setattr(module, "comb", lambda n, k: comb(n, k) + (k == 1))
    assert moments_are_wrong("classical")
