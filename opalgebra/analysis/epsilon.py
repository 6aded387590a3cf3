"""The epsilon algorithms: sequences that are sums of K geometric ones have their limit after 2K + 1 members.

Wynn's table on numbers or vectors x_0, x_1, ..., with eps_{-1} = 0 and eps_0^(n) = x_n,

    eps_{k+1}^(n) = eps_{k-1}^(n+1) + 1 / (eps_k^(n+1) - eps_k^(n)),    1/v = conj(v) / |v|^2,

has estimates of the limit in its even columns: on the partial sums of a power series those of Pade type [n+k/k]. Where two
neighbours agree their reciprocal is infinite; the entry two columns on then follows from the four around the infinite one,

    1/(N - C) + 1/(S - C) = 1/(W - C) + 1/(E - C),    E = N + S - W for C infinite,

Wynn's singular rule, which is used wherever C is longer than N, S and W together, since the plain rule cancels there. Two
entries agree when their difference is within the rounding noise of both: there the table ends by itself, instead of dividing
noise by noise. The topological algorithm moves vectors by the scalar table of their products with one covector.

Wynn (1956, 1962, 1963); Brezinski (1975); Brezinski and Redivo-Zaglia (2014), for the simplified topological algorithm.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from opalgebra.analysis.sequences import (
    Array,
    Estimate,
    Noisy,
    Trail,
    arithmetic,
    floats,
    judged,
    members,
    numbers,
    sizes,
    trailing,
)
from opalgebra.errors import InputError


def wynn_epsilon(s: Any, *, tolerance: float | None = None) -> Estimate:
    """The limit of a sequence of numbers by Wynn's epsilon algorithm, singular rules included.

    s: members of a real or complex sequence, such as partial sums; an infinite limit that Pade would sum is found too. The
    value is exact for exact members. Logarithmic convergence, which this algorithm does not accelerate, is reported as not
    converged. InputError for fewer than one member or a member that is not finite, with its place.

    >>> from fractions import Fraction
    >>> from itertools import accumulate
    >>> wynn_epsilon(list(accumulate(Fraction((-1) ** n, n + 1) for n in range(7)))).value
    Fraction(1073, 1548)

    Wynn, MTAC 10 (1956) 91.
    """
    found = members(s, axes=1)
    start = Noisy.of(found)
    return judged(epsilon_trail(start), found.unit, tolerance, start=start, scalar=True)


def vector_epsilon(S: Any, *, tolerance: float | None = None) -> Estimate:
    """The limit of a sequence of vectors (members, components) by the vector epsilon algorithm, real or complex.

    Exact for x_n = x + A^n e after 2K + 1 members, K the degree of the minimal polynomial of A for e, and invariant under
    rotations, scaling and shifts of all members. Errors as `wynn_epsilon`; `error` is in the Euclidean norm.

    >>> import numpy as np
    >>> A, b = np.diag([2.0, -3.0, 0.5]), np.ones(3)
    >>> S = np.cumsum([np.linalg.matrix_power(A, k) @ b for k in range(8)], axis=0)
    >>> vector_epsilon(S).value.round(9)
    array([-1.  ,  0.25,  2.  ])

    Wynn, Math. Comp. 16 (1962) 301; Graves-Morris, Numer. Math. 61 (1992) 475.
    """
    found = members(S, axes=2, exact=False)
    start = Noisy.of(found)
    return judged(epsilon_trail(start), found.unit, tolerance, start=start)


def topological_epsilon(S: Any, y: Any, *, tolerance: float | None = None) -> Estimate:
    """The limit of a sequence of vectors (members, components) by the topological epsilon algorithm with the covector y.

    Exact where `vector_epsilon` is, for y that sees all K geometric parts; y (components,) is paired as `sum(conj(y) * v)`.
    Errors as `wynn_epsilon`.

    >>> import numpy as np
    >>> A, b = np.diag([2.0, -3.0, 0.5]), np.ones(3)
    >>> S = np.cumsum([np.linalg.matrix_power(A, k) @ b for k in range(8)], axis=0)
    >>> topological_epsilon(S, [1.0, 1.0, 1.0]).value.round(9)
    array([-1.  ,  0.25,  2.  ])

    Brezinski, C. R. Acad. Sci. A 280 (1975) 729; Brezinski and Redivo-Zaglia, SIAM J. Sci. Comput. 36 (2014) A2227.
    """
    found = members(S, axes=2, exact=False)
    covector = floats(numbers(y, "the covector")[0])
    if covector.shape != found.values.shape[1:]:
        shapes = f"the shape {covector.shape}, but the vectors have {found.values.shape[1:]}"
        raise InputError(f"the covector has {shapes}; give one of theirs")
    start = Noisy.of(found)
    return judged(topological_trail(start, covector), found.unit, tolerance, start=start)


class Column(NamedTuple):
    """A column of the table: `infinite` marks entries that are; those that are not defined are infinite in every later one."""

    values: Array
    noise: Array
    infinite: Array

    @property
    def inner(self) -> "Column":
        """The entries that have two neighbours on both sides."""
        return Column(*(part[2:-2] for part in self))


def epsilon_trail(start: Noisy) -> Trail:
    """The trail of the epsilon table on numbers (one component) or vectors, several sequences at once."""
    return trailing([(column.values, column.noise) for column in even_columns(start)])


def even_columns(start: Noisy) -> list[Column]:
    """The columns eps_0, eps_2, ... of the table. An entry that is infinite has the value of the one that it would move."""
    here = Column(start.values, start.noise, np.zeros(start.noise.shape, dtype=bool))
    before: list[Column | None] = [None, None, _zeros(here)]
    even = [here]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        for number in range(1, len(start.values)):
            west, _, base = before
            assert base is not None
            before, here = [*before[1:], here], _next(here, base, west, is_even=number % 2 == 0)
            if number % 2 == 0:
                even.append(here)
    return even


def _zeros(first: Column) -> Column:
    """eps_{-1}, which has one entry more than eps_0."""
    values, noise, infinite = (np.concatenate([part, part[:1]]) for part in first)
    return Column(0 * values, 0 * noise, np.zeros_like(infinite))


def _next(here: Column, base: Column, west: Column | None, *, is_even: bool) -> Column:
    """The column after `here`, whose entries add to those of `base`, the one before; west: two before that, if there is one."""
    step = here.values[1:] - here.values[:-1]
    scatter, length = here.noise[1:] + here.noise[:-1], sizes(step)
    one, other = here.infinite[:-1], here.infinite[1:]
    flat = ~one & ~other & (length <= scatter)
    moves = ~(flat | one | other)
    centre = Column(*(part[1:-1] for part in base))
    values = centre.values + _reciprocal(step, moves)
    passed_on = np.where(moves, scatter / np.where(moves, length, 1.0) ** 2, 0.0)
    noise = np.hypot(np.hypot(centre.noise, passed_on), arithmetic(values) * sizes(values))
    # Between two infinite reciprocals stand three equal estimates; nothing is known of an entry between two infinite ones.
    unknown = one & other & (not is_even)
    noise, infinite = np.where(unknown, np.inf, noise), flat | centre.infinite | unknown
    if west is None:
        return Column(values, noise, infinite)
    found = _singular(Column(*(part[:-2] for part in base)), Column(*(part[2:] for part in base)), west.inner, centre)
    known = ~found.infinite
    return Column(
        np.where(known[..., None], found.values, values), np.where(known, found.noise, noise), np.where(known, False, infinite)
    )


def _singular(north: Column, south: Column, west: Column, centre: Column) -> Column:
    """What the rule of four neighbours gives, infinite where the plain rule is the better one or it has nothing to go by."""
    around = sizes(north.values) + sizes(south.values) + sizes(west.values)
    where = ~(north.infinite | south.infinite | west.infinite) & (centre.infinite | (sizes(centre.values) > around))
    small = np.where(centre.infinite[..., None], 0, _reciprocal(centre.values, where & ~centre.infinite))
    total = _bent(north.values, small) + _bent(south.values, small) - _bent(west.values, small)
    noise = np.hypot(np.hypot(north.noise, south.noise), west.noise) + arithmetic(total) * around
    return Column(_bent(total, -small), noise, ~where)


def _bent(values: Array, small: Array) -> Array:
    """`1 / (1/v - small)`, which is v where small is zero and zero where v is."""
    length = np.asarray(sizes(values))
    given = length > 0
    turned = _reciprocal(values, given) - small
    return np.where((sizes(small) == 0)[..., None], values, _reciprocal(turned, given & (sizes(turned) > 0)))


def _reciprocal(values: Array, where: Array) -> Array:
    """`conj(v) / |v|^2` where asked, zero elsewhere."""
    if values.dtype == object:
        found = np.full(values.shape, 0 * values.flat[0] if values.size else 0, dtype=object)
        found[where] = 1 / values[where]
        return found
    length = np.where(where, sizes(values), 1.0)[..., None]
    return np.where(where[..., None], values.conj() / length / length, 0)


def topological_trail(start: Noisy, covector: Array) -> Trail:
    """The trail of the simplified topological algorithm; the covector is the same for every sequence of a batch."""
    products = (start.values * covector.conj()).sum(-1, keepdims=True)
    scalars = even_columns(Noisy(products, start.noise * sizes(covector)))
    columns: list[tuple[Array, Array]] = [(start.values, start.noise)]
    for before, after in pairwise(scalars):
        values, noise = columns[-1]
        step = before.values[1:-1] - before.values[:-2]
        moves = sizes(step) > before.noise[1:-1] + before.noise[:-2]
        safe = np.where(moves[..., None], step, 1)
        factor = np.where(moves[..., None], (after.values - before.values[1:-1]) / safe, 0)
        difference = values[1:-1] - values[:-2]
        moved = values[1:-1] + factor * difference
        size = sizes(factor)
        drift = np.hypot(after.noise + before.noise[1:-1], size * (before.noise[1:-1] + before.noise[:-2])) / sizes(safe)
        spread = np.hypot((1 + size) * noise[1:-1], size * noise[:-2])
        scatter = np.hypot(spread, np.where(moves, drift * sizes(difference), 0.0))
        columns.append((moved, scatter + arithmetic(moved) * sizes(moved)))
    return trailing(columns)
