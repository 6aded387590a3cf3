"""Products and sums over an index without a value: one node at any length, with a bound index.

    ordered_product(B, l, a, b)   B(b) @ ... @ B(a), the identity when b < a or B = 1; later factors stand to the left
    indexed_sum(B, l, a, b)       B(a) + ... + B(b), zero when b < a
    ordered_sum(B, l, L, n)       the sum over 1 <= l_1 < ... < l_n <= L of B(l_n) @ ... @ B(l_1);
                                  1 when n = 0, 0 when n > L or n < 0
    ordered_sum(B, l, L, n, U)    the same with U(l) at every l from 1 to L that was not chosen: what is between is resummed

The index is bound: it is stored as a symbol of its own, numbered above every binder inside the body, so that expressions
which differ in the names of bound indices alone are one object and no name is ever captured. Where the bounds differ by
a number, products and sums are written out. Two symbols are never assumed to have different values.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, final

from opalgebra import expr
from opalgebra.errors import InputError, LimitError, NotLinearError, SpaceError
from opalgebra.expr import Index, Operator, Zero, at, bound_symbol, linear_combination
from opalgebra.scalar import (
    Polynomial,
    Scalar,
    Symbol,
    as_scalar,
    fresh_names,
    is_natural,
    is_surely_natural,
    scalar_of,
    symbol,
)
from opalgebra.space import ONE, Space

LONGEST = 20_000


class Binder(Operator):
    """An operator with a bound index: `body` holds it as the symbol of `level`; abstract."""

    __slots__ = ()

    body: Operator = expr._part(0)
    level: int = expr._part(1)

    @property
    def bodies(self) -> tuple[Operator, ...]:
        return (self.body,)

    def opened(self, index: Scalar | int) -> Operator:
        """The body with a value or symbol in place of the bound index."""
        return at(self.body, {bound_symbol(self.level): as_scalar(index)})

    def over(self, body: Operator, index: Scalar) -> Operator:
        """The same product or sum with the same bounds over another body."""
        raise NotImplementedError

    def unfolded(self, *, lower: bool) -> Operator:
        """By the recursion at the upper or lower end; see `kernel.unfold`."""
        raise NotImplementedError

    def free_index(self, *others: Operator) -> Scalar:
        """A symbol that neither this operator nor the others have."""
        return symbol(*fresh_names({found for operator in (self, self.body, *others) for found in operator.symbols}, 1))

    def _nonempty(self, distance: Scalar | int, what: str) -> None:
        if not is_surely_natural(distance):
            raise InputError(f"{self} cannot be unfolded: {what} is {distance} and may be negative; make the length L + 1")


class Range(Binder):
    """A product or sum over `lower, ..., upper`; abstract."""

    __slots__ = ()

    lower: Index = expr._part(2)
    upper: Index = expr._part(3)

    @staticmethod
    def joined(later: Operator, earlier: Operator) -> Operator:
        """Of two parts of the range, the whole."""
        raise NotImplementedError

    def between(self, lower: Index | Scalar, upper: Index | Scalar) -> Operator:
        """The same body between other bounds."""
        return self._rebuilt(self.body, self.level, _length(lower), _length(upper))

    def over(self, body: Operator, index: Scalar) -> Operator:
        symbol, level = _index(index), body.height + 1
        inside = at(body, {symbol: scalar_of(bound_symbol(level))})
        return self._rebuilt(inside, level, self.lower, self.upper)

    def shifted(self, shift: int) -> Operator:
        """`body(i + shift)` with both bounds lower by the shift."""
        bound = bound_symbol(self.level)
        moved = at(self.body, {bound: scalar_of(bound) + shift})
        return self._rebuilt(moved, self.level, *(_length(as_scalar(end) - shift) for end in (self.lower, self.upper)))

    def unfolded(self, *, lower: bool) -> Operator:
        self._nonempty(as_scalar(self.upper) - as_scalar(self.lower), "the upper bound minus the lower")
        if lower:
            return self.joined(self.between(as_scalar(self.lower) + 1, self.upper), self.opened(self.lower))
        return self.joined(self.opened(self.upper), self.between(self.lower, as_scalar(self.upper) - 1))


@final
class OrderedProduct(Range):
    """`body(upper) @ ... @ body(lower)`; the identity when upper < lower."""

    __slots__ = ()

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        body, level, lower, upper = fields
        return _product(body, bound_symbol(level), lower, upper)

    @staticmethod
    def joined(later: Operator, earlier: Operator) -> Operator:
        return later @ earlier


@final
class IndexedSum(Range):
    """`body(lower) + ... + body(upper)`; zero when upper < lower."""

    __slots__ = ()

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        body, level, lower, upper = fields
        return _sum(body, bound_symbol(level), lower, upper)

    @staticmethod
    def joined(later: Operator, earlier: Operator) -> Operator:
        return later + earlier


@final
class OrderedSum(Binder):
    """The sum over `1 <= l_1 < ... < l_order <= upper` of the products of `body` at these places and `line` at all others."""

    __slots__ = ()

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        body, level, upper, order, line = fields
        return _words(body, line, bound_symbol(level), upper, order)

    upper: Index = expr._part(2)
    order: Index = expr._part(3)
    line: Operator = expr._part(4)

    @property
    def bodies(self) -> tuple[Operator, ...]:
        return (self.body, self.line)

    @property
    def has_bare_line(self) -> bool:
        """Whether nothing stands between the chosen places."""
        return isinstance(self.line, expr.Identity)

    def line_at(self, index: Scalar | int) -> Operator:
        """The line with a value or symbol in place of the bound index."""
        return at(self.line, {bound_symbol(self.level): as_scalar(index)})

    def over(self, body: Operator, index: Scalar) -> Operator:
        return _words(body, self.line_at(index), _index(index), self.upper, self.order)

    def unfolded(self, *, lower: bool) -> Operator:
        if lower:
            raise InputError(f"{self} is unfolded at its upper end alone; leave out lower=True")
        if not self.is_linear:
            part = "line" if self.body.is_linear else "body"
            raise NotLinearError(f"{self} cannot be unfolded: its {part} is not known to be linear; dress it first")
        upper, order = as_scalar(self.upper) - 1, as_scalar(self.order) - 1
        self._nonempty(upper, "the upper bound minus one")
        self._nonempty(order, "the order minus one")
        bound = bound_symbol(self.level)
        same, less = (_words(self.body, self.line, bound, _length(upper), _length(count)) for count in (self.order, order))
        return self.line_at(self.upper) @ same + self.opened(self.upper) @ less


def ordered_product(
    factors: Operator | Iterable[Operator],
    index: Scalar | None = None,
    lower: Index | None = None,
    upper: Index | None = None,
    *,
    space: Space | None = None,
) -> Operator:
    """The composition in which the first factor acts first: of given factors, or of a body over an index from lower to upper.

    `[A, B, C]` gives `C @ B @ A`; an empty product is the identity of `space`, which it then needs. SpaceError when spaces
    do not fit, InputError for a body without an index.

    >>> import opalgebra as oa
    >>> V, l, L = oa.family("V", kind="linear"), oa.symbol("l"), oa.symbol("L")
    >>> oa.ordered_product(1 + V[l], l, 1, L)
    ordered_product(1 + V[l], l, 1, L) where V[]: linear
    >>> oa.ordered_product(1 + V[l], l, 1, 2)
    (1 + V2) @ (1 + V1) where V1, V2: linear
    """
    if not isinstance(factors, Operator):
        return expr.ordered_product(factors, space=space)
    if index is None or lower is None or upper is None:
        raise InputError("an ordered product of one body needs its index and bounds; write ordered_product(1 + V[l], l, 1, L)")
    return _product(factors, _index(index, lower, upper), expr.as_index(lower, of="lower"), _length(upper))


def indexed_sum(body: Operator, index: Scalar, lower: Index, upper: Index) -> Operator:
    """The sum of a body over an index from lower to upper; zero when upper < lower. InputError as in `ordered_product`."""
    expr.check_operators(body)
    return _sum(body, _index(index, lower, upper), expr.as_index(lower, of="lower"), _length(upper))


def ordered_sum(body: Operator, index: Scalar, upper: Index, order: Index, line: Operator | None = None) -> Operator:
    """The sum over `1 <= l_1 < ... < l_order <= upper` of `body(l_order) @ ... @ body(l_1)`, with a line U(l) between.

    The order-th term of the Dyson series of `ordered_product(1 + body, index, 1, upper)` for linear bodies; it has
    `binomial(upper, order)` words. With a `line` it is that of the product of `line + body`: the line acts at every l from 1 to
    upper that was not chosen. InputError as in `ordered_product`, and for an order that is no natural number; SpaceError for a
    line between other spaces.

    >>> import opalgebra as oa
    >>> V, l = oa.family("V", kind="linear"), oa.symbol("l")
    >>> oa.ordered_sum(V[l], l, oa.symbol("L"), 2)
    ordered_sum(V[l], l, L, 2) where V[]: linear
    """
    expr.check_operators(body)
    order = expr.as_index(order, of="order")
    between = expr.Identity(body.domain) if line is None else line
    expr.check_operators(between)
    if (between.domain, between.codomain) != (body.domain, body.codomain):
        spaces = f"{between.domain} to {between.codomain}"
        raise SpaceError(f"{between} maps {spaces} and cannot stand where {body} was not chosen; give a map of the same space")
    return _words(body, between, _index(index, upper, order), _length(upper), order)


def _product(body: Operator, symbol: Symbol, lower: Index, upper: Index) -> Operator:
    _square(body)
    _natural(lower)
    if isinstance(body, expr.Identity):
        return body
    written = _written(body, symbol, lower, upper)
    if written is not None:
        return expr.ordered_product(written, space=body.domain)
    return _bind(OrderedProduct, body, symbol, _length(lower), _length(upper))


def _sum(body: Operator, symbol: Symbol, lower: Index, upper: Index) -> Operator:
    _natural(lower)
    written = _written(body, symbol, lower, upper)
    if written is not None:
        return linear_combination(((1, term) for term in written), body.domain, body.codomain)
    return _bind(IndexedSum, body, symbol, _length(lower), _length(upper))


def _words(body: Operator, line: Operator, symbol: Symbol, upper: Index, order: Index) -> Operator:
    _square(body)
    upper, order = _length(upper), _length(order)
    if order == 0:
        return _product(line, symbol, 1, upper)
    excess = as_scalar(order) - as_scalar(upper)
    if (isinstance(order, int) and order < 0) or (not isinstance(excess, Polynomial) and excess > 0):
        return Zero(body.domain, body.codomain)
    return _bind(OrderedSum, body, symbol, upper, order, line)


def _written(body: Operator, symbol: Symbol, lower: Index, upper: Index) -> list[Operator] | None:
    """The bodies at every value of the index, when their number is known."""
    distance = as_scalar(upper) - as_scalar(lower)
    if isinstance(distance, Polynomial):
        return None
    count = max(int(distance) + 1, 0)
    size = count * max(len(expr.terms(body)), len(expr.factors(body)))
    if size > LONGEST:
        raise LimitError(f"{size:,} factors or terms would be written out, more than {LONGEST:,}; use a symbol for the length")
    return [at(body, {symbol: as_scalar(lower) + step}) for step in range(count)]


def _bind(binder: type[Binder], body: Operator, symbol: Symbol, *rest: Index | Operator) -> Operator:
    bodies = [body, *(part for part in rest if isinstance(part, Operator))]
    level = 1 + max(part.height for part in bodies)
    for part in bodies:
        if bound_symbol(level) in part.symbols and symbol != bound_symbol(level):
            raise InputError(f"{part} has an index that a product or sum binds; open its body at a symbol of your own")
    bound = {symbol: scalar_of(bound_symbol(level))}
    fields = (at(body, bound), level, *(at(part, bound) if isinstance(part, Operator) else part for part in rest))
    is_linear = all(part.is_linear for part in bodies)
    return binder._intern(fields, body.domain, body.codomain, is_linear, level=level)


def _natural(lower: Index | Scalar) -> None:
    if not is_surely_natural(as_scalar(lower)):
        raise InputError(f"a product or sum from {lower} on was asked, which may be negative; an index is a natural number")


def _square(body: Operator) -> None:
    if body.domain != body.codomain or body.domain == ONE:
        raise SpaceError(f"{body} maps {body.domain} to {body.codomain}; only maps of a space to itself have ordered products")


def _index(index: Scalar, *bounds: Index) -> Symbol:
    """The one symbol that an index is. InputError when it is something else, or occurs in the bounds."""
    found = next(iter(index.symbols)) if isinstance(index, Polynomial) else None
    if found is None or found.sort != "natural" or index != scalar_of(found):
        raise InputError(f"{index} is no index; use a symbol for natural numbers, as in l = symbol('l')")
    if any(isinstance(bound, Polynomial) and found in bound.symbols for bound in bounds):
        raise InputError(f"the bounds {', '.join(map(str, bounds))} contain the index {index} itself; use another symbol")
    return found


def _length(value: Index | Scalar) -> Index:
    """A bound: an integer, or a polynomial with integer coefficients in natural symbols."""
    if isinstance(value, Polynomial):
        return expr.as_index(value, of="bound")
    if (isinstance(value, Fraction) and value.denominator == 1) or is_natural(value) or is_natural(-value):
        return int(value)
    raise InputError(f"{value!r} is no bound of a product or sum; use an integer or a symbol such as L = symbol('L')")
