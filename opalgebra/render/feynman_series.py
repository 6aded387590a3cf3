"""A whole order as a row of its topologies, as a paper shows a series; and Dyson's equation for the full propagator."""

from collections.abc import Mapping
from itertools import pairwise
from math import lcm

from opalgebra.errors import InputError
from opalgebra.render.feynman import ATTENTION, MARKS, Leg, Stop, path_picture
from opalgebra.render.label import CELL, Label, Run, roman, variable
from opalgebra.render.layout import Picture, row_of, stack_of
from opalgebra.scalar import Polynomial, Scalar, ScalarLike, as_scalar, is_scalar
from opalgebra.series import Series
from opalgebra.space import Kind
from opalgebra.topology import Word, topologies

_LETTERS = {Kind.ATTENTION: "A", Kind.FFN: "F", Kind.NONLINEAR: "B", Kind.LINEAR: "V", Kind.NORM: "N"}
_SOURCE = "source of "
WIDTH = 360.0


def picture_of_order(series: Series, order: int) -> Picture:
    """All topologies of an order with their multiplicities. Lines are those of the series: with a blob where vertices that are
    not counted are resummed in them, double where norms follow vertices, else bare. What is wider than the text of an article
    goes on in a line below. LimitError as `topologies`.

    >>> import opalgebra as oa
    >>> S = oa.transformer(3).dyson()
    >>> oa.picture_of_order(S, 2).title
    'Order 2: 3 attention attention + 6 attention ffn + 3 ffn attention + 3 ffn ffn'
    """
    found = topologies(series, order)
    follows = any(stage.follows for stage in series.stages)
    return picture_of_topologies(found, order=order, has_blobs=not series.is_complete, is_normed=follows)


def picture_of_topologies(
    multiplicities: Mapping[Word, ScalarLike], *, order: int | None = None, has_blobs: bool = False, is_normed: bool = False
) -> Picture:
    """The same from `topologies` or `topology_polynomials`: words of kinds, acting first first, with their multiplicities.

    order: names the sum, `S_2 =`. has_blobs, is_normed: what lines are like. InputError for what is no such mapping.

    >>> import opalgebra as oa
    >>> oa.picture_of_topologies(oa.topology_polynomials(1, oa.symbol("L"))).title
    'L attention + L ffn'
    """
    if not isinstance(multiplicities, Mapping) or not multiplicities:
        raise InputError("a picture of no topologies was asked; give the mapping that topologies(series, order) returns")
    leg = Leg("double" if is_normed else "plain", has_blob=has_blobs)
    items: list[Picture] = []
    spoken = []
    for place, (word, times) in enumerate(multiplicities.items()):
        count = _checked(word, times)
        sign = roman("+") if place else () if order is None else (*variable("S", str(order)), *roman(" ="))
        factor = () if count == 1 else scalar_label(count)
        before = (*sign, *(roman(" ") if sign and factor else ()), *factor)
        items.append(row_of([*([before] if before else []), _word_picture(word, leg)], title=""))
        spoken.append(" ".join(([] if count == 1 else [str(count)]) + list(word or ("the propagator",))))
    title = " + ".join(spoken)
    lines = [row_of(line, title="") for line in _balanced(items)]
    return stack_of(lines, title=title if order is None else f"Order {order}: {title}")


def _balanced(items: list[Picture]) -> list[list[Picture]]:
    """The items in as few lines of at most `WIDTH` as they need, and these as equally long as they can be."""
    found = _lines(items, WIDTH)
    width = WIDTH
    while (width := width - CELL) > 0 and len(narrower := _lines(items, width)) == len(found):
        found = narrower
    return found


def _lines(items: list[Picture], width: float) -> list[list[Picture]]:
    lines: list[list[Picture]] = []
    room = 0.0
    for item in items:
        if not lines or item.size[0] > room:
            lines.append([])
            room = width
        lines[-1].append(item)
        room -= item.size[0] + CELL
    return lines


def picture_of_dyson_equation(full: str = "G", bare: str = "G_0", self_energy: str = "Σ") -> Picture:
    """Dyson's equation `G = G_0 + G_0 Σ G` for the full propagator, which is the thick line; what acts first stands below.

    The self-energy is the blob: all that cannot be cut in two by cutting one bare line (`dyson_equation`, `self_energy`).
    """
    whole, free, blob = (_letter(name) for name in (full, bare, self_energy))
    ends = (Stop("end"), Stop("end"))
    left = path_picture(ends, [Leg("thick", whole, spare=2)], title=full)
    first = path_picture(ends, [Leg("plain", free, spare=2)], title=bare)
    product = [Stop("end"), Stop("blob", blob), Stop("end")]
    second = path_picture(product, [Leg("thick", whole), Leg("plain", free)], title=self_energy)
    return row_of(
        [left, roman("="), first, roman("+"), second],
        title=f"Dyson's equation {full} = {bare} + {bare} {self_energy} {full}",
    )


def _letter(name: str) -> Label:
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{name!r} is no name of a propagator; use a letter such as 'G', or with an index 'G_0'")
    letter, _, below = name.partition("_")
    return variable(letter, below)


def _checked(word: Word, times: ScalarLike) -> Scalar:
    kinds = [letter.removeprefix(_SOURCE) for letter in word] if isinstance(word, tuple) else [""]
    if not is_scalar(times) or any(kind not in _LETTERS for kind in kinds):
        raise InputError(f"{word!r}: {times!r} is no topology with a multiplicity; use those of topologies(series, order)")
    return as_scalar(times)


def _word_picture(word: Word, leg: Leg) -> Picture:
    stops = [_stop(letter) for letter in word]
    if not word or not word[0].startswith(_SOURCE):
        stops.insert(0, Stop("end"))
    stops.append(Stop("end"))
    return path_picture(stops, [leg for _ in pairwise(stops)], title=" ".join(word))


def _stop(letter: str) -> Stop:
    kind = Kind(letter.removeprefix(_SOURCE))
    name = _LETTERS[kind]
    if letter.startswith(_SOURCE):
        return Stop("source", variable(name.lower()))
    return Stop(ATTENTION if kind == Kind.ATTENTION else MARKS[kind], variable(name))


def scalar_label(value: Scalar) -> Label:
    """A number or a polynomial over one denominator, `(L^2 + L)/2`."""
    if not isinstance(value, Polynomial):
        return roman(str(value))
    below = lcm(*(coefficient.denominator for _, coefficient in value.terms))
    runs: list[Run] = []
    for monomial, coefficient in value.terms:
        number = int(coefficient * below)
        sign = ("−" if number < 0 else "") if not runs else (" − " if number < 0 else " + ")
        runs += roman(sign + (str(abs(number)) if abs(number) != 1 or not monomial else ""))
        for (name, _), exponent in monomial:
            runs += [Run(name, "variable"), *([Run(str(exponent), level=1)] if exponent != 1 else [])]
    if below != 1 or len(value.terms) > 1:
        runs = [*roman("("), *runs, *roman(")" if below == 1 else f")/{below}")]
    return tuple(runs)
