"""How many words an expression has when it is written out, as a polynomial in its symbolic lengths.

With m words in the body and a length b - a + 1 that is a natural number for all values of the symbols,

    sum(B, l, a, b)             m (b - a + 1), or the sum of m(l) over l = a, ..., b, when m depends on the index
    ordered_sum(B, l, L, n)     m^n binomial(L, n), for linear B and n a number; so with a line of one word
    ordered_product(B, l, a, b) 1 when m = 1

and `ordered_product(1 + V[l], l, 1, L)` has 2^L words, which is no polynomial: binomial(L, n) of order n, the coefficients
of the generating function (1 + z)^L.
"""

from opalgebra.commutator import Commutator
from opalgebra.errors import InputError
from opalgebra.expr import Compose, Identity, Operator, Sum, Zero, bound_symbol, postorder
from opalgebra.indexed import Binder, IndexedSum, OrderedProduct, OrderedSum
from opalgebra.scalar import Polynomial, Scalar, Symbol, as_scalar, binomial, free_symbols, is_surely_natural, scalar_of

_ONE, _NONE = as_scalar(1), as_scalar(0)


def word_count(operator: Operator) -> Scalar:
    """The number of words of an operator before equal ones are collected; a polynomial in symbolic lengths.

    A nonlinear map keeps the sum in its argument, so that `F @ (A + B)` is one word. InputError where the number is no
    polynomial, or holds for some values of the symbols alone.

    >>> import opalgebra as oa
    >>> V, l, L = oa.family("V", kind="linear"), oa.symbol("l"), oa.symbol("L")
    >>> oa.word_count(oa.ordered_sum(V[l], l, L, 2) @ (1 + V[1]))
    L^2 - L
    """
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no words; build one from atoms, or read a text with parse")
    growth: dict[Operator, tuple[Scalar, Scalar]] = {}
    for node in postorder(operator, backgrounds=False, bodies=True):
        growth[node] = _growth(node, growth)
    slope, constant = growth[operator]
    return slope + constant


def _growth(node: Operator, known: dict[Operator, tuple[Scalar, Scalar]]) -> tuple[Scalar, Scalar]:
    """(p, q) when the node before a sum of m words gives p m + q words."""
    if isinstance(node, Sum):
        pairs = [known[term] for _, term in node.terms]
        return sum((p for p, _ in pairs), _NONE), sum((q for _, q in pairs), _NONE)
    if isinstance(node, Compose):
        (slope, constant), (inner_slope, inner_constant) = known[node.left], known[node.right]
        return slope * inner_slope, slope * inner_constant + constant
    if isinstance(node, Zero):
        return _NONE, _NONE
    if isinstance(node, IndexedSum):
        slope, constant = known[node.body]
        return _summed(node, slope), _summed(node, constant)
    if isinstance(node, OrderedSum) and not node.has_bare_line and known[node.line] != (_ONE, _NONE):
        raise InputError(f"the number of words of {node} is no polynomial in its length; its line {node.line} is not one word")
    if isinstance(node, Binder):
        return _of_product(node, *known[node.body])
    count = _ONE
    if node.is_multilinear:
        for part in node.parts:
            count = count * sum(known[part], _NONE)
        count = 2 * count if isinstance(node, Commutator) else count
    return (count, _NONE) if node.is_linear or isinstance(node, Identity) else (_NONE, count)


def _of_product(node: Binder, slope: Scalar, constant: Scalar) -> tuple[Scalar, Scalar]:
    """Of words of factors that each make p m + q words of m, chosen in order or all of them."""
    if bound_symbol(node.level) in free_symbols(slope) | free_symbols(constant):
        raise InputError(f"the number of words of the factors of {node} depends on the index; give the length a value")
    if isinstance(node, OrderedProduct) and slope == 1 and constant == 0:
        return _ONE, _NONE
    if isinstance(node, OrderedSum) and isinstance(node.order, int):
        if not is_surely_natural(as_scalar(node.upper)):
            raise InputError(f"the length {node.upper} of {node} may be negative; make it a natural number")
        chosen, powers = binomial(node.upper, node.order), [slope**power for power in range(node.order + 1)]
        return chosen * powers[-1], chosen * constant * sum(powers[:-1], _NONE)
    raise InputError(
        f"the number of words of {node} is no polynomial in its length; count one order at a time, as of "
        "ordered_sum(V[l], l, L, 2)"
    )


def _summed(node: IndexedSum, words: Scalar) -> Scalar:
    """The sum over the range of a polynomial in the index, by `sum of binomial(i, k) = binomial(b + 1, k + 1) - ...`."""
    lower, above = as_scalar(node.lower), as_scalar(node.upper) + 1
    if not is_surely_natural(above - lower):
        raise InputError(f"{node} has {above - lower} terms, which may be negative; make the length a natural number")
    index, total, rest = bound_symbol(node.level), _NONE, words
    for power in range(_degree(words, index), -1, -1):
        leading = _coefficient(rest, index, power)
        factor = leading
        for number in range(1, power + 1):
            factor = factor * number
        rest = rest - factor * binomial(scalar_of(index), power)
        total = total + factor * (binomial(above, power + 1) - binomial(lower, power + 1))
    return total


def _degree(value: Scalar, index: Symbol) -> int:
    return max((dict(monomial).get(index, 0) for monomial, _ in value.terms), default=0) if isinstance(value, Polynomial) else 0


def _coefficient(value: Scalar, index: Symbol, power: int) -> Scalar:
    """The coefficient of a power of the index."""
    if not isinstance(value, Polynomial):
        return value if power == 0 else _NONE
    found = _NONE
    for monomial, number in value.terms:
        exponents = dict(monomial)
        if exponents.pop(index, 0) == power:
            term: Scalar = number
            for symbol, exponent in exponents.items():
                term = term * scalar_of(symbol) ** exponent
            found = found + term
    return found
