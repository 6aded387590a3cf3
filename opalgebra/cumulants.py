"""Cumulants: what remains of moments when the products of smaller ones are taken away, by the kind of partitions that are used.

    classical    all partitions           m_n = sum over k of binomial(n - 1, k - 1) c_k m_{n - k}
    free         non-crossing ones        M(z) = C(z M(z)),        M = 1 + sum m_n z^n, C = 1 + sum c_n z^n
    Boolean      intervals                m_n = sum over k of c_k m_{n - k}

For operators the order of factors counts. With M(1..n) the mean of a product of operators at times t_1 > ... > t_n, the ordered
cumulants are the kernels of the two exact equations of motion of the mean propagator,

    K(1..n) = sum over p of (-1)^(p - 1) sum over b_1, ..., b_p of M(b_1) M(b_2) ... M(b_p),

b_1 with the latest time: over the ways to cut 1..n into p intervals for the equation with memory (time-convolution, Nakajima
and Zwanzig: the self-energy), over all partitions into p blocks, every order of b_2, ..., b_p, for the one without
(time-convolutionless, van Kampen).
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, permutations
from math import comb
from typing import Any

from opalgebra.atoms import Family
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Operator, check_operators, linear_combination, ordered_product
from opalgebra.resolvent import refuse_nonlinear
from opalgebra.scalar import Scalar, ScalarLike, as_scalar, is_scalar

KINDS = ("classical", "free", "boolean")
ORDERED = ("convolution", "convolutionless")
_LIMIT = 200_000
Moments = Family | Callable[[tuple[int, ...]], Operator]


def cumulants(moments: Sequence[ScalarLike], *, kind: str) -> tuple[Scalar, ...]:
    """The cumulants `c_1, ..., c_n` of moments `m_1, ..., m_n`; `kind` is "classical", "free" or "boolean". Exact.

    InputError for another kind, and for what is no sequence of scalars.

    >>> cumulants([0, 1, 0, 3], kind="free")
    (Fraction(0, 1), Fraction(1, 1), Fraction(0, 1), Fraction(1, 1))

    Source: A. Nica, R. Speicher, Lectures on the Combinatorics of Free Probability (2006), lectures 11 and 12; R. Speicher,
    R. Woroudi, Fields Inst. Commun. 12 (1997) 267, for the Boolean ones.
    """
    given = _scalars(moments, kind)
    found: list[Scalar] = []
    for n in range(1, len(given)):
        found.append(given[n] - _from_smaller(given, [as_scalar(1), *found, as_scalar(0)], n, kind))
    return tuple(found)


def moments(cumulants: Sequence[ScalarLike], *, kind: str) -> tuple[Scalar, ...]:
    """The moments `m_1, ..., m_n` of cumulants: the inverse of `cumulants`. Errors as there.

    >>> moments([0, 1, 0, 0], kind="classical")
    (Fraction(0, 1), Fraction(1, 1), Fraction(0, 1), Fraction(3, 1))
    """
    given = _scalars(cumulants, kind)
    found: list[Scalar] = [as_scalar(1)]
    for n in range(1, len(given)):
        found.append(_from_smaller([*found, as_scalar(0)], given, n, kind))
    return tuple(found[1:])


def _scalars(values: Sequence[ScalarLike], kind: str) -> list[Scalar]:
    if kind not in KINDS:
        raise InputError(f"kind={kind!r} is unknown; use {', '.join(KINDS)}")
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(map(is_scalar, values)):
        raise InputError(f"{values!r} is no sequence of scalars; give the moments or cumulants of order 1, 2, ... in a list")
    return [as_scalar(1), *map(as_scalar, values)]


def _from_smaller(m: Sequence[Scalar], c: Sequence[Scalar], n: int, kind: str) -> Scalar:
    """The sum over partitions of the moment m_n, from c_1, ..., c_n and the smaller moments."""
    total: Scalar = as_scalar(0)
    if kind == "free":
        powers = [as_scalar(1), *[as_scalar(0)] * n]
        for k in range(1, n + 1):
            powers = [_sum(powers[i] * m[place - i] for i in range(place + 1)) for place in range(n + 1 - k)]
            total = total + c[k] * powers[n - k]
        return total
    for k in range(1, n + 1):
        ways = comb(n - 1, k - 1) if kind == "classical" else 1
        total = total + ways * c[k] * m[n - k]
    return total


def _sum(values: Iterator[Scalar]) -> Scalar:
    total: Scalar = as_scalar(0)
    for value in values:
        total = total + value
    return total


def ordered_cumulant(moment: Moments, times: Sequence[int], *, kind: str) -> Operator:
    """The ordered cumulant `K(times)` of operator-valued moments, latest time first.

    `moment` is a family, whose members `M[1, 2]` are the moments, or a function of tuples of times; `kind` is "convolution" or
    "convolutionless". NotLinearError for a moment that is not linear, InputError for another kind, for times that are not
    different or none; LimitError for more than 200,000 terms.

    >>> import opalgebra as oa
    >>> M = oa.family("M", kind="linear")
    >>> print(ordered_cumulant(M, (1, 2), kind="convolution"))
    M1_2 - M1 @ M2

    Source: N. G. van Kampen, Physica 74 (1974) 239; R. H. Terwiel, Physica 74 (1974) 248.
    """
    if kind not in ORDERED:
        raise InputError(f"kind={kind!r} is unknown; use {', '.join(ORDERED)}")
    times = tuple(times)
    if not times or len(set(times)) < len(times):
        raise InputError(f"the cumulant of the times {times} was asked; give one or more different times, the latest first")
    count = _count(len(times), kind)
    if count > _LIMIT:
        raise LimitError(f"the ordered cumulant has {count:,} terms and the limit is {_LIMIT:,}; give fewer times")
    parts = []
    for blocks in _intervals(times) if kind == "convolution" else _orders(times):
        factors = [_moment(moment, block) for block in blocks]
        parts.append(((-1) ** (len(blocks) - 1), ordered_product(factors[::-1])))
    first = parts[0][1]
    return linear_combination(parts, first.domain, first.codomain)


def _moment(moment: Any, block: tuple[int, ...]) -> Operator:
    if not callable(moment) and not isinstance(moment, Family):
        raise InputError(f"{moment!r} gives no moments; pass a family, or a function of a tuple of times")
    found: Operator = moment[block] if isinstance(moment, Family) else moment(block)
    check_operators(found)
    refuse_nonlinear(found, needs="an ordered cumulant")
    return found


def _count(number: int, kind: str) -> int:
    """How many terms there are: 2^(n - 1), or `1 + sum over k of binomial(n - 1, k) (ordered partitions of k)`."""
    if kind == "convolution":
        return int(2 ** (number - 1))
    ordered = [1]
    for n in range(1, number):
        ordered.append(sum(comb(n, k) * ordered[n - k] for k in range(1, n + 1)))
    return sum(comb(number - 1, k) * ordered[k] for k in range(number))


def _intervals(times: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """The ways to cut a sequence into intervals."""
    places = range(1, len(times))
    for number in range(len(times)):
        for cuts in combinations(places, number):
            ends = [0, *cuts, len(times)]
            yield [times[start:end] for start, end in pairwise(ends)]


def _orders(times: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """The partitions of a sequence, the block of the first time first and the others in every order."""
    for blocks in set_partitions(times):
        for others in permutations(blocks[1:]):
            yield [blocks[0], *others]


def set_partitions(items: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """The partitions of a sequence into blocks that keep its order, the block of the first item first."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for number in range(len(rest) + 1):
        for chosen in combinations(rest, number):
            others = tuple(item for item in rest if item not in chosen)
            for blocks in set_partitions(others):
                yield [(first, *chosen), *blocks]
