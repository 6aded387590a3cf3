"""Traces of linear operators over some or all factors of a space, linear and cyclic.

    tr(a A + b B) = a tr(A) + b tr(B)      tr(A @ B) = tr(B @ A)      tr(A (x) B) = tr(A) (x) tr(B), a map of K

and over the features alone, for operators A, B on the other factors and W on the features,

    tr_f(A (x) W) = tr(W) (x) A                 tr_f((A (x) 1) @ M @ (B (x) 1)) = A @ tr_f(M) @ B
    tr_f((1 (x) W) @ M) = tr_f(M @ (1 (x) W))

are used when a trace is built; of all rotations of a word one is kept. Spaces are finite dimensional.
"""

from collections.abc import Sequence
from typing import Any, final

from opalgebra import expr
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import Identity, Operator, factors, linear_combination, ordered_product, terms
from opalgebra.space import K, Space
from opalgebra.tensor import Tensor, blocks_of, is_scalar_operator, layer, legs, pulled_out, tensor


@final
class TraceOf(Operator):
    """The trace of a word over some factors of its space, numbered from 0; a linear map of what is left, K for all."""

    __slots__ = ()
    is_multilinear = True

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return _over(*fields)

    operator: Operator = expr._part(0)
    over: tuple[int, ...] = expr._part(1)

    @property
    def parts(self) -> tuple[Operator, ...]:
        return (self.operator,)

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return _over(parts[0], self.over)

    def _composed(self, right: Operator) -> Operator:
        if is_scalar_operator(self) and is_scalar_operator(right):
            return layer([self, *blocks_of(right)])
        return super()._composed(right)


def trace(operator: Operator, *over: str | int) -> Operator:
    """The trace over the named factors of a space, over all of it without names; a number names a factor from 0 on.

    Of `A: Y*Z -> X*Z` over Z, a map Y -> X; of a map of a space to itself, over all, a map of K to itself. NotLinearError for
    a map that is not known to be linear; SpaceError where domain and codomain do not have the factor in the same place.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.trace(A @ B) - oa.trace(B @ A) == oa.Zero(oa.K, oa.K)
    True
    """
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no trace; use a linear map")
    if operator.is_state or not operator.is_linear:
        raise NotLinearError(f"{operator} has no trace: it is not known to be a linear map; dress it on a state first")
    if not over and operator.domain != operator.codomain:
        raise SpaceError(f"{operator} maps {operator.domain} to {operator.codomain}; a full trace needs one space")
    chosen = range(legs(operator.domain)) if not over else sorted({_place(operator, name) for name in over})
    return _over(operator, tuple(chosen))


def _place(operator: Operator, name: str | int) -> int:
    domain, codomain = operator.domain.factors, operator.codomain.factors
    if isinstance(name, int) and not isinstance(name, bool) and 0 <= name < min(len(domain), len(codomain)):
        place = name
    elif isinstance(name, str) and domain.count(name) == codomain.count(name) == 1:
        place = domain.index(name)
    else:
        raise SpaceError(f"{operator} maps {operator.domain} to {operator.codomain}, and {name!r} names no one factor of both")
    if len(domain) != len(codomain) or domain[place] != codomain[place]:
        raise SpaceError(
            f"{operator} maps {operator.domain} to {operator.codomain}; a trace over {name} needs it in the same place of both"
        )
    return place


def _over(operator: Operator, over: tuple[int, ...]) -> Operator:
    spaces = (_without(operator.domain, over), _without(operator.codomain, over))
    words = ((c * share, word) for c, term in terms(operator) for share, word in terms(pulled_out(term)))
    return linear_combination(((c, _word(word, over)) for c, word in words), *spaces)


def _without(space: Space, over: tuple[int, ...]) -> Space:
    return Space(*(name for place, name in enumerate(space.factors) if place not in over))


def _word(word: Operator, over: tuple[int, ...]) -> Operator:
    """The trace of a word, by the laws of the module."""
    if not over:
        return word
    if isinstance(word, TraceOf):
        open_legs = [leg for leg in range(legs(word.operator.domain)) if leg not in word.over]
        return _word(word.operator, tuple(sorted({*word.over, *(open_legs[leg] for leg in over)})))
    if len(over) == legs(word.domain):
        return _all(word)
    return _some(word, over)


def _all(word: Operator) -> Operator:
    if isinstance(word, Identity) and legs(word.domain) > 1:
        return tensor(*(_all(Identity(Space(name))) for name in word.domain.factors))
    if isinstance(word, Tensor) and all(block.domain == block.codomain for block in word.blocks):
        return tensor(*(_over(block, tuple(range(legs(block.domain)))) for block in word.blocks))
    letters = factors(word)
    for _ in letters:
        if len(letters) < 2 or not (isinstance(letters[0], Tensor) and isinstance(letters[-1], Tensor)):
            break
        letters = factors(letters[-1] @ ordered_product(reversed(letters[:-1])))
    start = _least_rotation([letter.digest for letter in letters])
    turned = ordered_product(reversed(letters[start:] + letters[:start]))
    if len(letters) < len(factors(word)):
        return _all(turned)
    return TraceOf._intern((turned, tuple(range(legs(turned.domain)))), K, K, True)


def _least_rotation(keys: list[bytes]) -> int:
    """Where the lexicographically least rotation of a list begins: two candidates race, the loser skips what it lost."""
    size, first, second, same = len(keys), 0, 1, 0
    while first < size and second < size and same < size:
        one, other = keys[(first + same) % size], keys[(second + same) % size]
        if one == other:
            same += 1
            continue
        if one > other:
            first += same + 1
        else:
            second += same + 1
        second += first == second
        same = 0
    return min(first, second)


def _some(word: Operator, over: tuple[int, ...]) -> Operator:
    """The trace over some factors: what acts on the others alone goes out, what acts on these alone from left to right."""
    left: Operator = Identity(_without(word.codomain, over))
    right: Operator = Identity(_without(word.domain, over))
    seen: set[Operator] = set()
    while word not in seen:
        seen.add(word)
        if isinstance(word, Identity | Tensor) and _keeps_legs(word):
            return left @ tensor(*(_over(block, own) for block, own in _with_legs(word, over))) @ right
        first, *later = factors(word)
        outside, inside, kept = _separated(first, over)
        if kept is not first:
            left = left @ outside
            word = ordered_product([_moved(inside, word.domain), *reversed(later), kept])
            continue
        *earlier, last = factors(word)
        outside, inside, kept = _separated(last, over, below=True)
        if not isinstance(outside, Identity):
            right = outside @ right
            word = ordered_product([inside, kept, *reversed(earlier)])
    spaces = (_without(word.domain, over), _without(word.codomain, over))
    return left @ TraceOf._intern((word, over), *spaces, True) @ right


def _moved(inside: Operator, space: Space) -> Operator:
    """A layer that acts on traced legs alone, composed with a map out of the space from the right: its identities are of it."""
    blocks: list[Operator] = []
    place = 0
    for block in blocks_of(inside):
        end = place + legs(block.codomain)
        blocks.append(Identity(Space(*space.factors[place:end])) if isinstance(block, Identity) else block)
        place = end
    return layer(blocks)


def _keeps_legs(operator: Operator) -> bool:
    return all(legs(block.domain) == legs(block.codomain) for block in blocks_of(operator))


def _with_legs(operator: Operator, over: tuple[int, ...]) -> list[tuple[Operator, tuple[int, ...]]]:
    """The blocks of a layer, identities one factor at a time, each with those of its own legs that are traced."""
    found, start = [], 0
    for block in blocks_of(operator):
        units: list[Operator] = [block]
        if isinstance(block, Identity):
            units = [Identity(Space(name)) for name in block.domain.factors]
        for unit in units:
            end = start + legs(unit.domain)
            found.append((unit, tuple(leg - start for leg in over if start <= leg < end)))
            start = end
    return found


def _separated(factor: Operator, over: tuple[int, ...], *, below: bool = False) -> tuple[Operator, Operator, Operator]:
    """A layer as what acts on open legs alone, on traced legs alone (in the whole space), and the rest between them.

    The layer is `(outside (x) 1) @ inside @ rest`, or with `below` `rest @ inside @ (outside (x) 1)`.
    """
    if not isinstance(factor, Tensor) or not _keeps_legs(factor):
        end = factor.domain if below else factor.codomain
        return Identity(_without(end, over)), Identity(end), factor
    outside: list[Operator] = []
    inside: list[Operator] = []
    kept: list[Operator] = []
    for block, own in _with_legs(factor, over):
        end, middle = (block.domain, block.codomain) if below else (block.codomain, block.domain)
        if not own:
            outside.append(block)
            inside.append(Identity(middle))
            kept.append(Identity(middle))
        elif len(own) == legs(block.domain):
            inside.append(block)
            kept.append(Identity(middle))
        else:
            outside.append(Identity(_without(end, own)))
            inside.append(Identity(end))
            kept.append(block)
    return layer(outside), layer(inside), layer(kept)
