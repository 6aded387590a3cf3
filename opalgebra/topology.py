"""Topologies: how many terms of an order have each word of kinds of vertices, their depths forgotten, by counting alone.

A word is read acting first first, as `Diagram.topology` gives it. Choosing later stages first,

    words after stage s - 1 = words after stage s + sum over kinds of n(s, kind) * (kind, *words after stage s)

with n(s, kind) the counted vertices of that kind at stage s. In the pre-norm Transformer of L layers attention acts before the
feed-forward network of its layer, so that layers may be equal at each step from A to F and increase at every other:

    a word of k letters with m steps from A to F has C(L + m, k) terms, and C(L, k) in parallel;

with H heads it has H^a times as many, a the number of its letters A.
"""

from collections import Counter
from itertools import pairwise, product
from math import prod

from opalgebra.errors import InputError, LimitError
from opalgebra.scalar import Scalar, ScalarLike, as_scalar, binomial, is_natural, is_scalar
from opalgebra.series import LIMIT, Series
from opalgebra.space import Kind

Word = tuple[str, ...]


def topologies(series: Series, order: int, *, sources: bool = False) -> dict[Word, int]:
    """The terms of an order by their word of kinds, with multiplicity; with `sources=True` the states of `series.sources`.

    The word of a source begins with "source of" the kind it is born of. The multiplicities sum to `series.count(order)` or
    `series.source_count(order)`. LimitError when there are too many words.

    >>> import opalgebra as oa
    >>> oa.topologies(oa.transformer(96).dyson(), 2)[("attention", "ffn")] == 97 * 96 // 2
    True
    """
    if not isinstance(series, Series):
        raise InputError(f"{series!r} is no series and has no topologies; use those of transformer(...).dyson()")
    series.count(order)
    later = _words(series, order)
    if not sources:
        return {word: times for word, times in sorted(later[0].items()) if len(word) == order}
    found: Counter[Word] = Counter()
    for stage, emitter, left in series.births(order):
        for word, times in later[stage.number].items():
            if len(word) == left:
                found[(f"source of {emitter.kind}", *word)] += times
    return dict(sorted(found.items()))


def _words(series: Series, order: int) -> list[Counter[Word]]:
    """For each number of stages passed, the words of the later ones that can still belong to an order."""
    words: Counter[Word] = Counter({(): 1})
    rows = [words]
    for passed in reversed(range(len(series.stages))):
        kinds = Counter(str(vertex.kind) for vertex in series.counted[passed])
        longer = Counter(words)
        for word, times in words.items():
            for kind, count in kinds.items() if len(word) < order else ():
                longer[(kind, *word)] += count * times
        words = Counter({word: times for word, times in longer.items() if len(word) + passed + 1 >= order})
        if len(words) > LIMIT:
            raise LimitError(
                f"order {order} has more than {LIMIT:,} words of kinds on the way to it; ask for a lower order, or "
                "count one kind alone by counting="
            )
        rows.append(words)
    return rows[::-1]


def topology_polynomials(
    order: int, layers: ScalarLike, *, heads: ScalarLike | None = None, parallel: bool = False
) -> dict[Word, Scalar]:
    """`topologies` of the Transformer of any number of layers with every vertex counted, as polynomials in it.

    `layers` and `heads` are numbers or symbols. Norms choose nothing, so that every `norm=` has the same.

    >>> import opalgebra as oa
    >>> oa.topology_polynomials(2, oa.symbol("L"))[("attention", "ffn")]
    1/2*L^2 + 1/2*L
    """
    if not is_natural(order):
        raise InputError(f"order {order!r} of a series was asked; an order is a natural number")
    for name, value in (("layers", layers), ("heads", 1 if heads is None else heads)):
        if not is_scalar(value):
            raise InputError(f"{name}={value!r} is no number of {name}; use a natural number, or a symbol for one")
    if order >= LIMIT.bit_length():
        raise LimitError(f"order {order} has 2**{order} words, more than {LIMIT:,}; ask for a lower order")
    found = {}
    for word in product((str(Kind.ATTENTION), str(Kind.FFN)), repeat=order):
        steps = 0 if parallel else sum(pair == (Kind.ATTENTION, Kind.FFN) for pair in pairwise(word))
        choices = prod([as_scalar(1 if heads is None else heads)] * word.count(Kind.ATTENTION), start=as_scalar(1))
        found[word] = choices * binomial(as_scalar(layers) + steps, order)
    return found
