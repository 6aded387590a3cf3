"""Direct sums of spaces: operators in blocks, and the inverse of a block operator by the Schur complement.

A direct sum of X_0, ..., X_n has an injection `inj_i: X_i -> S` and a projection `proj_i: S -> X_i` for each part, linear,

    proj_i @ inj_i = 1      proj_i @ inj_j = 0 for i != j      inj_0 @ proj_0 + ... + inj_n @ proj_n = 1

and an operator in blocks is `sum of inj_i @ A_ij @ proj_j`. These equations are facts, and hypotheses of what uses them.
With `S = A - B @ D^-1 @ C`, the Schur complement of D in [[A, B], [C, D]], for linear blocks

    [[A, B], [C, D]]^-1 = [[S^-1, -S^-1 @ B @ D^-1], [-D^-1 @ C @ S^-1, D^-1 + D^-1 @ C @ S^-1 @ B @ D^-1]]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import final

from opalgebra.atoms import Family
from opalgebra.errors import InputError, SpaceError
from opalgebra.expr import Atom, Identity, Operator, Sum, Zero, compose, linear_combination
from opalgebra.facts import Equal, Inverse
from opalgebra.inverse import InverseOf, inverse
from opalgebra.kernel import Theorem, assume, cong, distribute, refl, sym, trans
from opalgebra.resolvent import for_letters, refuse_nonlinear, unique_inverse
from opalgebra.scalar import is_natural
from opalgebra.simplify import simplify
from opalgebra.space import ONE, Space
from opalgebra.tensor import pulled_out


@final
@dataclass(frozen=True)
class DirectSum:
    """The direct sum of spaces, its parts numbered from 0. `names` are those of the injections and projections."""

    space: Space
    parts: tuple[Space, ...]
    names: tuple[str, str]

    def injection(self, part: int) -> Atom:
        """`inj_i`, a linear map of a part into the sum."""
        return Family(self.names[0], kind="linear", domain=self._part(part), codomain=self.space)[part]

    def projection(self, part: int) -> Atom:
        """`proj_i`, a linear map of the sum onto a part."""
        return Family(self.names[1], kind="linear", domain=self.space, codomain=self._part(part))[part]

    def _part(self, part: int) -> Space:
        if not is_natural(part) or part >= len(self.parts):
            raise InputError(f"{part!r} is no part of a direct sum of {len(self.parts)}; they are numbered from 0")
        return self.parts[part]

    def unit(self, row: int, column: int) -> Equal:
        """The fact `proj_row @ inj_column = 1` or, for different parts, 0."""
        left, right = self.projection(row), self.injection(column)
        return Equal(left @ right, Identity(self.parts[row]) if row == column else Zero(right.domain, left.codomain))

    @cached_property
    def completeness(self) -> Equal:
        """The fact that the products `inj_i @ proj_i` add up to 1."""
        parts = ((1, self.injection(part) @ self.projection(part)) for part in range(len(self.parts)))
        return Equal(linear_combination(parts, self.space, self.space), Identity(self.space))

    @cached_property
    def facts(self) -> tuple[Equal, ...]:
        """The equations that make this a direct sum."""
        numbers = range(len(self.parts))
        return (*(self.unit(row, column) for row in numbers for column in numbers), self.completeness)

    def operator(self, blocks: Mapping[tuple[int, int], Operator]) -> Operator:
        """The sum of `inj_row @ block @ proj_column` over blocks by (row, column); SpaceError where a block does not fit."""
        parts = (self.injection(row) @ block @ self.projection(column) for (row, column), block in blocks.items())
        return linear_combination(((1, pulled_out(part)) for part in parts), self.space, self.space)

    def block(self, operator: Operator, row: int, column: int) -> Operator:
        """`proj_row @ operator @ inj_column`."""
        return self.projection(row) @ operator @ self.injection(column)


def direct_sum(*spaces: Space, name: str = "S", injection: str = "inj", projection: str = "proj") -> DirectSum:
    """The direct sum of spaces as a space of its own; InputError without parts, SpaceError for the one-point space.

    >>> import opalgebra as oa
    >>> both = oa.direct_sum(oa.X, oa.X)
    >>> print(oa.simplify(both.block(both.operator({(0, 1): oa.Atom("B", kind="linear")}), 0, 1), facts=both.facts).rhs)
    B
    """
    if not spaces:
        raise InputError("a direct sum has at least one part; name its spaces")
    for space in spaces:
        if not isinstance(space, Space):
            raise InputError(f"{space} is no space, and a direct sum is one of spaces; pass A.domain, or a Space")
    if ONE in spaces:
        raise SpaceError("the one-point space is no vector space and no part of a direct sum; use K")
    return DirectSum(Space(name), spaces, (injection, projection))


def schur_complement(a: Operator, b: Operator, c: Operator, d: Operator) -> Theorem:
    """The inverse of `[[A, B], [C, D]]` in blocks, under the hypotheses that it, D and the Schur complement have one.

    A: Y -> Y, B: Z -> Y, C: Y -> Z, D: Z -> Z, on the direct sum of Y and Z. NotLinearError unless all are linear.

    >>> import opalgebra as oa
    >>> theorem = oa.schur_complement(*oa.atoms("A B C D", kind="linear"))
    >>> print(oa.simplify(oa.direct_sum(oa.X, oa.X).projection(0) @ theorem.rhs, facts=theorem.hypotheses).rhs.parts[0])
    inverse(A - B @ inverse(D) @ C) @ proj0
    """
    refuse_nonlinear(a, b, c, d, needs="a Schur complement")
    return _of_blocks(_schur_complement, a, b, c, d)


def _of_blocks(prove: Callable[..., Theorem], *blocks: Operator) -> Theorem:
    """A theorem of blocks; for one that is a multiple proved for letters, and the multiples then taken out of the words."""
    if not any(isinstance(block, Sum) and len(block.terms) == 1 for block in blocks):
        return prove(*blocks)
    theorem = for_letters(prove, *blocks)
    lhs = theorem.lhs.parts[0]
    opened = cong(inverse, distribute(lhs)) if isinstance(theorem.lhs, InverseOf) else refl(theorem.lhs)
    return trans(sym(opened), trans(theorem, distribute(theorem.rhs)))


def _schur_complement(a: Operator, b: Operator, c: Operator, d: Operator) -> Theorem:
    both = direct_sum(a.domain, d.domain)
    whole = both.operator({(0, 0): a, (0, 1): b, (1, 0): c, (1, 1): d})
    lower = inverse(d)
    complement = a - pulled_out(b @ lower @ c)
    upper = inverse(complement)
    candidate = both.operator({
        (0, 0): upper,
        (0, 1): -pulled_out(upper @ b @ lower),
        (1, 0): -pulled_out(lower @ c @ upper),
        (1, 1): lower + pulled_out(lower @ c @ upper @ b @ lower),
    })  # fmt: skip
    one = simplify(candidate @ whole, facts=[*both.facts, Inverse(d), Inverse(complement)])
    return sym(unique_inverse(one, whole, candidate))


def self_energy(a: Operator, b: Operator, c: Operator, d: Operator) -> Theorem:
    """`proj_0 @ (1 - H)^-1 @ inj_0 = (1 - A - Sigma)^-1` with `Sigma = B @ (1 - D)^-1 @ C`, for `H = [[A, B], [C, D]]`.

    Sigma sums the words that leave the first part, stay outside, and come back: those with no inner line in it. Hypotheses
    and errors as in `schur_complement`.
    """
    refuse_nonlinear(a, b, c, d, needs="a self-energy")
    return for_letters(_self_energy, a, b, c, d)


def _self_energy(a: Operator, b: Operator, c: Operator, d: Operator) -> Theorem:
    both = direct_sum(a.domain, d.domain)
    dressed = schur_complement(1 - a, -1 * b, -1 * c, 1 - d)
    (whole,) = dressed.lhs.parts
    blocks = both.operator({(0, 0): a, (0, 1): b, (1, 0): c, (1, 1): d})
    parted = cong(add, sym(assume(both.completeness)), refl(-1 * blocks))
    same = trans(parted, trans(simplify(parted.rhs), sym(simplify(whole))))
    turned = trans(cong(inverse, same), dressed)
    block = cong(compose, both.projection(0), cong(compose, turned, both.injection(0)))
    return trans(block, simplify(block.rhs, facts=both.facts))
