"""The power series of an operator in a parameter: its coefficients, letters in their order.

    A = C_0 + g C_1 + ... + g^n C_n + O(g^(n+1))

Sums, and products in the order of their letters, give C_k as the sum of all products with k factors of g. With
`A = A_0 + g A_1 + ...`, `A^-1` has `C_0 = A_0^-1` and `C_k = -C_0 @ (A_1 @ C_(k-1) + ... + A_k @ C_0)`, where A_0 has an
inverse by hypothesis unless it is a number; `ordered_product(1 + g^d B(l), l, a, b)` has the ordered sums of B.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from opalgebra.calculus import check_closed, parameter_of
from opalgebra.display import Displayed
from opalgebra.errors import InputError, LimitError, NotLinearError
from opalgebra.expr import (
    Compose,
    Dressed,
    Identity,
    Operator,
    Source,
    Sum,
    Zero,
    at,
    linear_combination,
    terms,
)
from opalgebra.facts import Fact, Inverse
from opalgebra.indexed import Binder, IndexedSum, OrderedProduct, OrderedSum, ordered_sum
from opalgebra.inverse import InverseOf, inverse
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import Polynomial, Scalar, Symbol, as_scalar, is_natural, the_symbol

LIMIT = 200_000


@final
@dataclass(frozen=True, repr=False)
class Coefficients(Displayed):
    """`operator = c[0] + g c[1] + ... + g^n c[n]`, up to O(g^(n+1)) for g to 0 unless `is_exact`; g is the parameter.

    It holds where the hypotheses do. `terms` are all coefficients, over which it iterates.
    """

    operator: Operator
    parameter: Symbol
    terms: tuple[Operator, ...]
    is_exact: bool
    hypotheses: frozenset[Fact]

    def __getitem__(self, power: int) -> Operator:
        """The coefficient of a power of the parameter. InputError for one that was not computed."""
        if not is_natural(power) or power >= len(self.terms):
            g, last = self.parameter.name, len(self.terms) - 1
            raise InputError(
                f"the coefficient of {g}^{power} was asked, and these go from {g}^0 to {g}^{last}; ask a higher order"
            )
        return self.terms[power]

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)


def coefficients(operator: Operator, g: Scalar, order: int, *, limit: int | None = LIMIT) -> Coefficients:
    """The coefficients of `g^0, ..., g^order` of an operator that is a polynomial or a formal power series in the parameter g.

    The products are not multiplied out; `expand` does that.

    NotLinearError for a nonlinear map of what depends on g, an inverse or ordered product of one; InputError for negative
    powers of g, for g in a background, under a function, or in another ordered product without a length; LimitError when
    more than `limit` terms would be written (None: no limit).

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> g = oa.parameter("g")
    >>> print(*coefficients((1 + g * A) @ (1 + g * B), g, 2), sep=", ")
    1, A + B, A @ B
    >>> print(coefficients(oa.inverse(A - g * B), g, 1))
    [A invertible] inverse(A - g*B) = inverse(A) + g*inverse(A) @ B @ inverse(A) + O(g^2)
    """
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no power series; build one from atoms")
    if not is_natural(order):
        raise InputError(f"order={order!r}: a power series is written up to a natural number")
    rules = _Rules(operator, g, int(order), limit)
    series = without_recursion(rules.of(operator))
    nothing = Zero(operator.domain, operator.codomain)
    found = tuple(series.terms.get(power, nothing) for power in range(order + 1))
    is_exact = series.degree is not None and series.degree <= order
    return Coefficients(operator, rules.parameter, found, is_exact, frozenset(rules.hypotheses))


@dataclass(frozen=True)
class _Series:
    """The coefficients up to the order that are not zero; no power is above the degree, None where that is not known."""

    terms: Mapping[int, Operator]
    degree: int | None


class _Rules:
    """The series found so far, the hypotheses used, and the number of terms written."""

    def __init__(self, root: Operator, g: Scalar, order: int, limit: int | None) -> None:
        self.root, self.parameter, self.order, self.limit = root, parameter_of(g), order, limit
        self.hypotheses: set[Fact] = set()
        self.done: dict[Operator, _Series] = {}
        self.written = 0
        self.count(order + 1)

    def count(self, number: int) -> None:
        """LimitError before terms are written that are too many."""
        self.written += number
        if self.limit is not None and self.written > self.limit:
            raise LimitError(
                f"the coefficients up to {self.parameter.name}^{self.order} have {self.written:,} terms or more, and the limit "
                f"is {self.limit:,}; raise it, ask a lower order, or give a product of many factors a symbol for its length"
            )

    def of(self, node: Operator) -> Steps[_Series]:
        if self.parameter not in node.symbols:
            return _Series({0: node}, 0)
        if node not in self.done:
            self.done[node] = yield self._of(node)
        return self.done[node]

    def _of(self, node: Operator) -> Steps[_Series]:
        result: _Series
        if isinstance(node, InverseOf | Binder):
            result = yield self._inverse(node) if isinstance(node, InverseOf) else self._under_index(node)
            return result
        if isinstance(node, Compose) and self.parameter in node.right.symbols:
            self._need_linear(node, node.left)
        if not isinstance(node, Compose) and not node.is_multilinear:
            raise self._refusal(node)
        parts: list[_Series] = []
        for part in node.parts:
            parts.append((yield self.of(part)))  # noqa: PERF401
        if isinstance(node, Sum):
            return self._sum(node, parts)
        choices: list[tuple[int, tuple[Operator, ...]]] = [(0, ())]
        for series in parts:
            self.count(len(choices) * len(series.terms))
            longer = ((low + high, (*chosen, term)) for low, chosen in choices for high, term in series.terms.items())
            choices = [choice for choice in longer if choice[0] <= self.order]
        products = [(power, as_scalar(1), node.remade(chosen)) for power, chosen in choices]
        degrees = [series.degree for series in parts if series.degree is not None]
        return self._collected(node, products, sum(degrees) if len(degrees) == len(parts) else None)

    def _sum(self, node: Sum, parts: list[_Series]) -> _Series:
        pieces: list[tuple[int, Scalar, Operator]] = []
        degrees: list[int] = []
        for (coefficient, _), series in zip(node.terms, parts):
            powers = self._powers(node, coefficient)
            degrees += [] if series.degree is None else [max(powers) + series.degree]
            pieces += ((low + high, c, term) for low, c in powers.items() for high, term in series.terms.items())
        return self._collected(node, pieces, max(degrees) if len(degrees) == len(parts) else None)

    def _collected(self, node: Operator, pieces: list[tuple[int, Scalar, Operator]], degree: int | None) -> _Series:
        """The sums of (power, coefficient, operator) with the same power."""
        gathered: dict[int, list[tuple[Scalar, Operator]]] = {}
        for power, coefficient, term in pieces:
            if power <= self.order:
                self.count(len(terms(term)))
                gathered.setdefault(power, []).append((coefficient, term))
        sums = {power: linear_combination(parts, node.domain, node.codomain) for power, parts in gathered.items()}
        return _Series({power: total for power, total in sums.items() if not isinstance(total, Zero)}, degree)

    def _powers(self, node: Operator, scalar: Scalar) -> dict[int, Scalar]:
        """The coefficient of each power of the parameter in a scalar."""
        found: dict[int, Scalar] = {}
        for monomial, number in scalar.terms if isinstance(scalar, Polynomial) else (((), scalar),):
            powers = dict(monomial)
            power = powers.pop(self.parameter, 0)
            if power < 0:
                raise InputError(f"{self._asked(node)} has a negative power of it; multiply by a power of it first")
            found[power] = found.get(power, as_scalar(0)) + Polynomial._make([(tuple(powers.items()), number)])
        return found

    def _inverse(self, node: InverseOf) -> Steps[_Series]:
        self._need_linear(node, node.operator)
        inside: _Series = yield self.of(node.operator)
        if 0 not in inside.terms:
            raise InputError(
                f"{self._asked(node)} begins with a negative power, for {node.operator} is 0 at {self.parameter.name} = 0; "
                "take the power out of what is inverted"
            )
        first = inside.terms[0]
        start = inverse(first)
        if not all(isinstance(c, Fraction) and isinstance(term, Identity) for c, term in terms(first)):
            self.hypotheses.add(Inverse(first))
        found = {0: start}
        for power in range(1, self.order + 1):
            lower = [(inside.terms[taken], found[power - taken]) for taken in inside.terms if taken and power - taken in found]
            self.count(sum(len(terms(outer)) * len(terms(inner)) for outer, inner in lower))
            products = [(-1, outer @ inner) for outer, inner in lower]
            total = linear_combination(products, node.domain, node.domain)
            if not isinstance(total, Zero):
                found[power] = linear_combination(((c, start @ term) for c, term in terms(total)), node.domain, node.codomain)
        return _Series(found, None)

    def _under_index(self, node: Binder) -> Steps[_Series]:
        index = node.free_index(self.root)
        body = node.opened(index)
        inside: _Series = yield self.of(body)
        check_closed(self.hypotheses, index, node)
        if isinstance(node, IndexedSum):
            return _Series({power: node.over(term, index) for power, term in inside.terms.items()}, inside.degree)
        self._need_linear(node, body)
        found: dict[int, Operator] = {}
        varies = isinstance(node, OrderedSum) and self.parameter in node.line.symbols
        powers = [power for power in inside.terms if power]
        if isinstance(node, OrderedProduct) and len(powers) <= 1 and 0 in inside.terms:
            line, upper = _from_one(node, inside.terms[0], index)
            found[0] = node.over(inside.terms[0], index)
            for power in powers:
                letter, _ = _from_one(node, inside.terms[power], index)
                for taken in range(1, self.order // power + 1):
                    found[power * taken] = ordered_sum(letter, index, upper, taken, line)
            return _Series(found, None)
        if isinstance(node, OrderedSum) and isinstance(node.order, int) and len(inside.terms) <= 1 and not varies:
            for power, term in inside.terms.items():
                found |= {power * node.order: node.over(term, index)} if power * node.order <= self.order else {}
            return _Series(found, None if inside.degree is None else inside.degree * node.order)
        raise InputError(
            f"{self._asked(node)} is written for products of U + g B and for sums of words of a known number of letters g B "
            "alone; give the bounds values"
        )

    def _asked(self, node: Operator) -> str:
        return f"the series of {node} in {self.parameter.name} was asked, which"

    def _need_linear(self, node: Operator, part: Operator) -> None:
        if not part.is_linear:
            raise NotLinearError(
                f"{self._asked(node)} needs a linear map where {part} stands, for that may be any function of the parameter; "
                "on a state, dress it first and use grading"
            )

    def _refusal(self, node: Operator) -> InputError:
        if isinstance(node, Dressed | Source):
            why = "no split has, for it is an arbitrary function of the background; use grading, which leaves backgrounds alone"
        else:
            why = f"no law gives for {type(node).__name__}; put an atom in place of what depends on the parameter"
        return InputError(f"{self._asked(node)} {why}")


def _from_one(product: OrderedProduct, body: Operator, index: Scalar) -> tuple[Operator, Any]:
    """The body and the upper bound of the same range with an index that begins at one."""
    shift = as_scalar(product.lower) - 1
    return at(body, {the_symbol(index): index + shift}), as_scalar(product.upper) - shift
