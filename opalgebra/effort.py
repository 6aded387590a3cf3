"""A limit on what a foreign text may ask to be built: each construction is estimated, and refused before it is begun.

A text of a few characters can ask for words of any length (`ordered_product(A, l, 1, 10^9)`, names that stand for each other
twice over) and constructors may walk all of a word at each of many levels. A step is about the work of building one node.
What `repr` prints and `to_json` writes is in canonical form, and takes a few steps for each node.
"""

from collections.abc import Callable, Iterable, Mapping
from math import comb, prod
from typing import Any

from opalgebra.adjoint import adjoint, transpose
from opalgebra.commutator import Commutator, commutator
from opalgebra.dressing import dressed, source
from opalgebra.errors import LimitError
from opalgebra.expr import Atom, Compose, Operator, Sum, bound_symbol, children, compose, factors, flattened, postorder, terms
from opalgebra.indexed import Binder, Range, indexed_sum, ordered_product, ordered_sum
from opalgebra.inverse import InverseOf, inverse
from opalgebra.scalar import LONGEST, Polynomial, Scalar, Symbol, as_scalar, free_symbols, is_scalar, largest_integer
from opalgebra.tensor import Tensor, blocks_of, is_layer, legs, tensor
from opalgebra.trace import TraceOf, trace

MOST_DIGITS = 1_000
_TOO_LARGE: int = 10**MOST_DIGITS
_HEAVIEST = 10**9
_LAYER = 40
_LONG = 5_000


class Effort:
    """The steps that are left; the only value of the library that changes, and it lives as long as one reading does."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self._weights: dict[Operator, int] = {}

    def spend(self, steps: int) -> None:
        """LimitError when more steps are asked than are left."""
        self.left -= steps
        if self.left < 0:
            raise LimitError(
                "what is written would take too many steps to build: it is too long when written out, or nested too deeply; "
                "use symbols for lengths, nest less, or build it by the functions of the library"
            )

    def charge(self, make: Callable[..., Operator], *arguments: Any) -> None:
        """Spends the steps of `make(*arguments)` for a constructor `make`."""
        self.spend(_STEPS[make](self, *arguments) if make in _STEPS else 0)

    def build(self, make: Callable[..., Operator], *arguments: Any) -> Operator:
        """`make(*arguments)`, when its steps are left."""
        self.charge(make, *arguments)
        return make(*arguments)

    def weight(self, operator: Operator) -> int:
        """The number of nodes when written out, backgrounds not counted; a tensor product, which others fall through, counts
        for many."""
        if operator in self._weights:
            return self._weights[operator]
        stack = [operator]
        while stack:
            node = stack[-1]
            inside = children(node, backgrounds=False, bodies=True)
            missing = [] if node in self._weights else [part for part in inside if part not in self._weights]
            if not missing:
                own = _LAYER if isinstance(node, Tensor) else 1
                own += sum(terms_of(c) - 1 for c, _ in node.terms) if isinstance(node, Sum) else 0
                self._weights[node] = min(own + sum(self._weights[part] for part in inside), _HEAVIEST)
                stack.pop()
            stack += missing
        return self._weights[operator]


def _multiple(operator: Operator) -> tuple[int, Operator]:
    """The number of terms of a coefficient, and what it multiplies."""
    count = 1
    while isinstance(operator, Sum) and len(operator.terms) == 1:
        coefficient, operator = operator.terms[0]
        count *= terms_of(coefficient)
    return count, operator


def terms_of(scalar: Scalar) -> int:
    """The number of terms of a scalar."""
    return len(scalar.terms) if isinstance(scalar, Polynomial) else 1


def _scaling(operators: Iterable[Operator]) -> int:
    """The steps for the product of the coefficients of operators."""
    return prod(_multiple(operator)[0] for operator in operators) - 1


def _composing(effort: Effort, left: Operator, right: Operator) -> int:
    """The letters on the left, the products of coefficients, and the layers that the blocks on the left may fall through."""
    count, upper = 1, list[Operator]()
    waiting = [left]
    while waiting and len(upper) <= effort.left + 1:
        item = waiting.pop()
        if isinstance(item, Compose):
            waiting += reversed(item.parts)
        elif isinstance(item, Sum) and len(item.terms) == 1:
            count = min(count * terms_of(item.terms[0][0]), LONGEST)
            waiting.append(item.terms[0][1])
        else:
            upper.append(item)
    lower = _multiple(right)[1]
    steps = len(upper) - 1 + (count * len(upper) * sum(terms_of(c) for c, _ in terms(right)) if count > 1 else 0)
    head = lower.left if isinstance(lower, Compose) else lower
    meet = isinstance(upper[-1], Tensor) and isinstance(head, Tensor) and upper[-1].domain == head.codomain
    if meet and (len(upper) > 1 or factors(compose(upper[0], head)) != [upper[0], head]):
        layers = sum(isinstance(factor, Tensor) for factor in (*upper, *factors(lower)))
        steps += layers * sum(len(blocks_of(factor)) for factor in upper) // 2
    return steps


def _tensoring(effort: Effort, *operators: Operator) -> int:
    words = [_multiple(operator)[1] for operator in operators]
    sizes = [sum(len(blocks_of(factor)) for factor in factors(word)) for word in words]
    spread = sum(legs(word.domain) + legs(word.codomain) for word in words) // 8 + _scaling(operators)
    return spread + sum(sizes) * (1 if all(map(is_layer, words)) else max(len(factors(word)) for word in words))


def _commuting(effort: Effort, left: Operator, right: Operator) -> int:
    return _scaling((left, right))


def _inverting(effort: Effort, operator: Operator) -> int:
    word = _multiple(operator)[1]
    return len(blocks_of(word)) + legs(word.domain) // 8


def _reversing(effort: Effort, operator: Operator) -> int:
    if not isinstance(operator, Compose | Sum | Tensor | InverseOf | Commutator | TraceOf | Range):
        return 1
    return effort.weight(operator) << 2 * operator.height


def _tracing(effort: Effort, operator: Operator, *over: Any) -> int:
    steps = 0
    for _, term in terms(operator):
        word = factors(term.operator if isinstance(term, TraceOf) else term)
        layers = [factor for factor in word if isinstance(factor, Tensor)]
        steps += len(word) + legs(term.domain) + len(layers) * len(word) // 4
        for factor in layers:
            steps += effort.weight(factor) + prod(sum(terms_of(c) for c, _ in terms(block)) for block in factor.blocks)
    return steps


def _dressing(effort: Effort, operator: Operator, state: Operator) -> int:
    if operator.is_linear or isinstance(operator, Atom):
        return 0
    return min(6 * effort.weight(operator), _HEAVIEST) << 2 * operator.height


def _ranging(effort: Effort, body: Operator, index: Scalar, lower: Any, upper: Any) -> int:
    """For a known length the nodes at all of its values, otherwise those that hold the index, at each level of binders."""
    bound = next(iter(free_symbols(index)), None)
    if bound is None or not (is_scalar(lower) and is_scalar(upper)):
        return 0
    distance = as_scalar(upper) - as_scalar(lower)
    if isinstance(distance, Polynomial):
        return _renaming(effort, body, bound)
    count = max(int(distance) + 1, 0)
    if not count:
        return 0
    inside = _written_out(body, {bound: largest_integer(as_scalar(upper))})
    powers, _ = _multiple(body)
    scaled = count * powers * LONGEST if powers > 1 else 0
    return min(scaled + count * inside * effort.weight(body), _HEAVIEST) << body.height


def _ordering(effort: Effort, body: Operator, index: Scalar, upper: Any, order: Any, line: Operator | None = None) -> int:
    bound = next(iter(free_symbols(index)), None)
    bodies = [part for part in (body, line) if isinstance(part, Operator)]
    written = 0
    if bound is not None and line is not None and order == 0 and not free_symbols(upper):
        written = _ranging(effort, line, index, 1, upper)
    return 0 if bound is None else written + sum(_renaming(effort, part, bound) for part in bodies)


def _renaming(effort: Effort, body: Operator, bound: Symbol) -> int:
    """The steps for another symbol in place of `bound`: a binder that holds it renames its own index again."""
    holding: set[Operator] = set()
    waiting = [body]
    while waiting:
        node = waiting.pop()
        if bound in node.symbols and node not in holding:
            holding.add(node)
            waiting += children(node, backgrounds=True, bodies=True)
    levels = {node.level for node in holding if isinstance(node, Binder)}
    work = sum(1 + sum(map(_replacing, _scalars(node))) for node in holding) << len(levels)
    return 30 + work + min(effort.weight(body) // 2, _LONG)


def _replacing(scalar: Polynomial) -> int:
    """The steps for a value in place of a symbol in a scalar, whose terms are added one by one."""
    return 2 * len(scalar.terms) + len(scalar.terms) ** 2 // 8


def substituting(values: Mapping[Symbol, Scalar], *operators: Operator) -> int:
    """The steps of scalar arithmetic for values in place of symbols, everywhere in operators. LimitError for huge numbers."""
    nodes = postorder(*operators, backgrounds=True, bodies=True, holding=values)
    return sum(_powers(scalar, values) for node in nodes for scalar in _scalars(node))


def _powers(scalar: Polynomial, values: Mapping[Symbol, Scalar]) -> int:
    """The products of terms for the powers of the values in a scalar, and the sums of these."""
    steps, widest = 0, 1
    for monomial, _ in scalar.terms:
        size = 1
        for symbol, exponent in monomial:
            if symbol in values:
                count, power = terms_of(values[symbol]), abs(exponent)
                if largest_integer(values[symbol]).bit_length() * power > 4 * MOST_DIGITS:
                    raise LimitError(f"a coefficient would have more than {MOST_DIGITS:,} digits; use lower powers")
                grown = count
                if count > 1 and power > 1:
                    grown = min(comb(min(power, _LONG) + min(count, 9) - 1, min(count, 9) - 1), _HEAVIEST)
                steps += grown * size + (0 if power == 1 else power * grown * count)
                size = min(size * grown, _HEAVIEST)
        widest = max(widest, size)
    return min(steps + len(scalar.terms) * widest, _HEAVIEST)


def instantiating(effort: Effort, operator: Operator, numbers: Mapping[Symbol, int], weight: int) -> int:
    """The steps for numbers in place of symbols and for other operators, of this weight in all, in place of atoms."""
    nodes = sum(1 for _ in postorder(operator, backgrounds=True, bodies=True))
    size = _written_out(operator, numbers) * (4 * nodes + effort.weight(operator)) * (1 + weight)
    return min(size, _HEAVIEST) << 2 * operator.height


def _written_out(body: Operator, numbers: Mapping[Symbol, int]) -> int:
    """How many times as long a body can be, when some symbols are numbers up to the given ones, and with them bounds inside.

    LimitError where a number would have more than `MOST_DIGITS` digits.
    """
    count = 1
    values = dict(numbers)
    for node in reversed(list(postorder(body, backgrounds=True, bodies=True))):
        sizes = [_largest_value(scalar, values) for scalar in _scalars(node)]
        if isinstance(node, Range) and {*free_symbols(node.lower), *free_symbols(node.upper)} <= values.keys():
            end, start = (_largest_value(as_scalar(value), values) for value in (node.upper, node.lower))
            inner = bound_symbol(node.level)
            values[inner] = max(values.get(inner, 0), end)
            count = min(count * (start + end + 1), _HEAVIEST)
        if any(size >= _TOO_LARGE for size in sizes):
            raise LimitError(f"an index would have more than {MOST_DIGITS:,} digits; use lower powers")
    return count


def _largest_value(scalar: Scalar, values: Mapping[Symbol, int]) -> int:
    """The largest integer in the parts of a scalar that have a value when the symbols have values up to the given ones."""
    total = 0
    for monomial, coefficient in scalar.terms if isinstance(scalar, Polynomial) else [((), scalar)]:
        powers = [(values.get(symbol, 1), abs(exponent)) for symbol, exponent in monomial]
        if sum(value.bit_length() * exponent for value, exponent in powers) > 4 * MOST_DIGITS:
            return _TOO_LARGE
        total += largest_integer(coefficient) * prod([value**exponent for value, exponent in powers])
    return total


def _scalars(node: Operator) -> list[Polynomial]:
    """The symbolic scalars among the fields of a node; their symbols are symbols of the node."""
    return flattened(node.fields)[1] if node.symbols else []


_STEPS: dict[Callable[..., Operator], Callable[..., int]] = {
    compose: _composing,
    tensor: _tensoring,
    commutator: _commuting,
    inverse: _inverting,
    adjoint: _reversing,
    transpose: _reversing,
    trace: _tracing,
    dressed: _dressing,
    source: _dressing,
    ordered_product: _ranging,
    indexed_sum: _ranging,
    ordered_sum: _ordering,
}
