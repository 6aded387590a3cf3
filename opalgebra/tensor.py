"""The tensor product of linear operators, and one canonical order for operators on different factors of a space.

    (A (x) B) @ (C (x) D) = A @ C (x) B @ D      (A (x) B) (x) C = A (x) (B (x) C)      1_K (x) A = A = A (x) 1_K
    1_X (x) 1_Y = 1_(X*Y)      (c A) (x) B = c (A (x) B) = A (x) (c B)      0 (x) B = 0      t (x) A = A (x) t for t on K

hold for linear operators and are used when one is built; `(A + B) (x) C = A (x) C + B (x) C` is left to `expand`.

A composition of tensor products is kept as layers of blocks side by side. A block that is composed from the left falls
through the identities below it, joins a block on exactly the same factors, or else rests on what it meets (the Foata
normal form of partially commuting words), so two orders of operators on different factors are one object. A block that
changes the number of factors, such as a map from or to K, joins and rests but falls no further than one layer: two
bracketings of a word with such blocks have one meaning, but may be two objects.
"""

from collections.abc import Iterable, Sequence
from typing import Any, final

from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import Compose, Identity, Operator, Sum, Zero, compose, factors
from opalgebra.scalar import Scalar, as_scalar
from opalgebra.space import ONE, K, Space


@final
class Tensor(Operator):
    """Linear blocks side by side, `A (x) B`; at least two, none of them a tensor product, a multiple or 1 on K."""

    __slots__ = ()
    is_multilinear = True

    @classmethod
    def _make(cls, *blocks: Operator) -> "Tensor":
        return cls._intern(blocks, _product(b.domain for b in blocks), _product(b.codomain for b in blocks), True)

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return tensor(*fields)

    @property
    def blocks(self) -> tuple[Operator, ...]:
        """The operators from the first factor of the space to the last."""
        return self.fields

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self.fields

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return tensor(*parts)

    def _composed(self, right: Operator) -> Operator:
        if is_scalar_operator(self) and is_scalar_operator(right):
            return layer([*self.blocks, *blocks_of(right)])
        resting: list[Operator] = []
        leg = legs(self.domain)
        for block in reversed(self.blocks):
            leg -= legs(block.domain)
            lower = None if isinstance(block, Identity) else _absorbed(right, block, leg)
            resting.append(block if lower is None else Identity(block.codomain))
            right = right if lower is None else lower
        top = layer(reversed(resting))
        return Compose._make(top, right) if isinstance(top, Tensor) else compose(top, right)


def tensor(*operators: Operator) -> Operator:
    """`A (x) B (x) ...`, a linear map of the product of the domains to that of the codomains; 1 on K without operators.

    NotLinearError for a map that is not known to be linear, SpaceError for a state: K, not the one-point space, is the unit.

    >>> import opalgebra as oa
    >>> A, B = (oa.Atom(name, kind="linear", domain=oa.POSITIONS, codomain=oa.POSITIONS) for name in "AB")
    >>> W = oa.Atom("W", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES)
    >>> oa.tensor(A, W) @ oa.tensor(B, W) == oa.tensor(A @ B, W @ W)
    True
    """
    coefficient: Scalar = as_scalar(1)
    words: list[Operator] = []
    for operator in operators:
        _check(operator)
        word = pulled_out(operator)
        if isinstance(word, Sum) and len(word.terms) == 1:
            share, word = word.terms[0]
            coefficient = coefficient * share
        words.append(word)
    if any(isinstance(word, Zero) for word in words):
        return Zero(_product(word.domain for word in words), _product(word.codomain for word in words))
    if all(is_layer(word) for word in words):
        result = layer(block for word in words for block in blocks_of(word))
    else:
        result = Identity(_product(word.domain for word in words))
        for place in reversed(range(len(words))):
            before = [Identity(word.domain) for word in words[:place]]
            after = [Identity(word.codomain) for word in words[place + 1 :]]
            for factor in reversed(factors(words[place])):
                result = compose(layer([*before, *blocks_of(factor), *after]), result)
    return result if coefficient == 1 else coefficient * result


def pulled_out(operator: Operator) -> Operator:
    """The same map, with `A @ (c B) = c (A @ B)` and `A @ 0 = 0` used for linear A all along a word."""
    if isinstance(operator, Sum) and len(operator.terms) == 1:
        coefficient, term = operator.terms[0]
        return coefficient * pulled_out(term)
    *left, result = factors(operator)
    if not isinstance(result, Zero | Sum):
        return operator
    for letter in reversed(left):
        if letter.is_linear and isinstance(result, Zero):
            result = Zero(result.domain, letter.codomain)
        elif letter.is_linear and isinstance(result, Sum) and len(result.terms) == 1:
            share, term = result.terms[0]
            result = share * compose(letter, term)
        else:
            result = compose(letter, result)
    return result


def _check(operator: object) -> None:
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no tensor product; c * Identity(space) is the scalar c")
    if ONE in (operator.domain, operator.codomain):
        raise SpaceError(
            f"{operator} maps {operator.domain} to {operator.codomain}, and the one-point space has no tensor products; use a "
            "linear map K -> X for a state"
        )
    if not operator.is_linear:
        raise NotLinearError(
            f"{operator} has no tensor product with other operators: it is not known to be linear; dress it on a state first, "
            "or declare it with kind='linear' if it is"
        )


def _product(spaces: Iterable[Space]) -> Space:
    return Space(*(name for space in spaces for name in space.factors))


def legs(space: Space) -> int:
    """The number of factors of a space."""
    return len(space.factors)


def is_scalar_operator(operator: Operator) -> bool:
    """Whether a linear operator maps K to K, and is one letter or a tensor product of such: these commute with all."""
    if operator.domain.factors or operator.codomain.factors or not operator.is_linear:
        return False
    return not isinstance(operator, Compose | Sum | Identity | Zero)


def blocks_of(operator: Operator) -> tuple[Operator, ...]:
    """The blocks of a tensor product; any other operator is one block."""
    return operator.blocks if isinstance(operator, Tensor) else (operator,)


def is_layer(operator: Operator) -> bool:
    """Whether a word is one layer: a tensor product, or free of them."""
    return not isinstance(operator, Compose) or not any(isinstance(factor, Tensor) for factor in factors(operator))


def layer(blocks: Iterable[Operator]) -> Operator:
    """Blocks side by side, none of them a tensor product: scalars first, identities that touch as one."""
    scalars: list[Operator] = []
    kept: list[Operator] = []
    for block in blocks:
        if is_scalar_operator(block):
            scalars.append(block)
        elif not isinstance(block, Identity):
            kept.append(block)
        elif kept and isinstance(kept[-1], Identity):
            kept[-1] = Identity(kept[-1].domain * block.domain)
        elif block.domain != K:
            kept.append(block)
    kept = sorted(scalars, key=lambda block: block.digest) + kept
    if not kept:
        return Identity(K)
    return kept[0] if len(kept) == 1 else Tensor._make(*kept)


Gap = tuple[list[Operator], list[Operator], list[Operator], int]


def _gap(head: Tensor, letter: Operator, leg: int) -> Gap | None:
    """The blocks of a layer before, below and after a letter that stands on it from a leg on; and the leg below them.

    None when a block reaches out from under the letter.
    """
    place, end = 0, leg + legs(letter.domain)
    units: list[Operator] = []
    for block in head.blocks:
        size = legs(block.codomain)
        cuts = sorted({cut - place for cut in (leg, end) if place < cut < place + size}) if isinstance(block, Identity) else []
        names = block.codomain.factors
        pieces = zip((0, *cuts), (*cuts, size))
        units += [Identity(Space(*names[begin:stop])) for begin, stop in pieces] if cuts else [block]
        place += size
    place, start = 0, None
    for number, unit in enumerate([*units, None]):
        if start is None and place == leg and (end == leg or (unit is not None and legs(unit.codomain))):
            start = number
        if start is not None and place == end:
            below = sum(legs(before.domain) for before in units[:start])
            return units[:start], units[start:number], units[number:], below
        place += 0 if unit is None else legs(unit.codomain)
    return None


def _absorbed(word: Operator, letter: Operator, leg: int) -> Operator | None:
    """`(1 (x) letter (x) 1) @ word` with the letter in one of the layers at the head of the word; None when it rests on top."""
    passed: list[tuple[list[Operator], list[Operator]]] = []
    rest: Operator | None = word
    while True:
        head, below = (rest.left, rest.right) if isinstance(rest, Compose) else (rest, None)
        gap = _gap(head, letter, leg) if isinstance(head, Tensor) else None
        if gap is not None:
            before, met, after, lower = gap
            if len(met) == 1 and not isinstance(met[0], Identity):
                result = _over(layer([*before, letter @ met[0], *after]), below)
                break
            if all(isinstance(unit, Identity) for unit in met):
                passed.append((before, after))
                rest, leg = below, lower
                if rest is not None and met and legs(letter.codomain):
                    continue
        if not passed:
            return None
        before, after = passed.pop()
        result = _over(layer([*before, letter, *after]), rest)
        break
    for before, after in reversed(passed):
        result = _over(layer([*before, Identity(letter.codomain), *after]), result)
    return result


def _over(top: Operator, below: Operator | None) -> Operator:
    return top if below is None else Compose._make(top, below)
