"""Theorems and the rules that make them; nothing else makes a Theorem.

A theorem says: under its hypotheses, `lhs` and `rhs` are the same map, whatever maps the nonlinear atoms are, whatever
linear maps the linear atoms are, whatever states the states are, and whatever split gives the dressings their meaning.
Each theorem keeps the rule, arguments and premises that made it, so that it can be made again.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, final, overload

from opalgebra.display import Displayed
from opalgebra.dressing import dressing
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import (
    Compose,
    Index,
    Operator,
    Sum,
    at,
    bound_symbol,
    compose,
    factors,
    linear_combination,
    postorder,
    terms,
)
from opalgebra.indexed import Binder, IndexedSum, Range
from opalgebra.scalar import Scalar, ScalarLike, Symbol, as_scalar, fits, free_symbols, is_surely_natural, scalar_of, the_symbol


@final
class Equation(Displayed):
    """An unproved statement `lhs = rhs` between maps of the same spaces; SpaceError when the spaces differ."""

    __slots__ = ("lhs", "rhs")
    hypotheses: ClassVar[frozenset[Any]] = frozenset()

    lhs: Operator
    rhs: Operator

    def __init__(self, lhs: Operator, rhs: Operator) -> None:
        if (lhs.domain, lhs.codomain) != (rhs.domain, rhs.codomain):
            raise SpaceError(
                f"the two sides map {lhs.domain} to {lhs.codomain} and {rhs.domain} to {rhs.codomain}; an equation "
                "needs the same spaces on both sides"
            )
        _set(self, lhs=lhs, rhs=rhs)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"equations are immutable: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equation) and (self.lhs, self.rhs) == (other.lhs, other.rhs)

    def __hash__(self) -> int:
        return hash((self.lhs, self.rhs))

    def __reduce__(self) -> tuple[Any, ...]:
        return Equation, (self.lhs, self.rhs)

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The free symbols of both sides."""
        return self.lhs.symbols | self.rhs.symbols

    def at(self, values: Mapping[Symbol, Scalar]) -> "Equation":
        """The equation with values in place of symbols."""
        return Equation(at(self.lhs, values), at(self.rhs, values))


def _set(value: object, **parts: Any) -> None:
    for name, part in parts.items():
        object.__setattr__(value, name, part)


def equation(lhs: Operator, rhs: Operator) -> Equation:
    """The unproved statement `lhs = rhs`, for `verify`. InputError for what is no operator."""
    for side in (lhs, rhs):
        if not isinstance(side, Operator):
            raise InputError(f"{side!r} is no operator, and an equation has one on each side; build it from atoms or parse it")
    return Equation(lhs, rhs)


_SEAL = object()


@final
class Theorem(Displayed):
    """A proved equation: `hypotheses |- lhs = rhs`. Made by the rules of this module only."""

    __slots__ = ("arguments", "hypotheses", "lhs", "premises", "rhs", "rule")

    rule: str
    arguments: tuple[Any, ...]
    premises: tuple["Theorem", ...]
    lhs: Operator
    rhs: Operator
    hypotheses: frozenset[Equation]

    def __init__(
        self, seal: object, rule: str, arguments: tuple[Any, ...], premises: tuple["Theorem", ...],
        lhs: Operator, rhs: Operator, hypotheses: frozenset[Equation] | None = None,
    ) -> None:  # fmt: skip
        if seal is not _SEAL:
            raise InputError("a Theorem is proved, not constructed; use expand, or the rules of opalgebra.kernel")
        if hypotheses is None:
            hypotheses = frozenset().union(*(premise.hypotheses for premise in premises))
        _set(self, rule=rule, arguments=arguments, premises=premises, lhs=lhs, rhs=rhs, hypotheses=hypotheses)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"theorems are immutable: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        rule = _unfold if self.rule == "unfold" else globals()[self.rule]
        return rule, (*self.premises, *self.arguments)


def _theorem(
    rule: str,
    arguments: tuple[Any, ...],
    lhs: Operator,
    rhs: Operator,
    *premises: Theorem,
    hypotheses: frozenset[Equation] | None = None,
) -> Theorem:
    return Theorem(_SEAL, rule, arguments, premises, lhs, rhs, hypotheses)


def refl(operator: Operator) -> Theorem:
    """`A = A`."""
    return _theorem("refl", (operator,), operator, operator)


def sym(theorem: Theorem) -> Theorem:
    """From `A = B`, `B = A`."""
    return _theorem("sym", (), theorem.rhs, theorem.lhs, theorem)


def trans(first: Theorem, second: Theorem) -> Theorem:
    """From `A = B` and `B = C`, `A = C`. InputError when the middle differs."""
    if first.rhs is not second.lhs:
        raise InputError(f"the first theorem ends in {first.rhs}, the second begins with {second.lhs}; they must be equal")
    return _theorem("trans", (), first.lhs, second.rhs, first, second)


def cong_compose(left: Theorem, right: Theorem) -> Theorem:
    """From `A = B` and `C = D`, `A @ C = B @ D`: equal maps have equal compositions."""
    return _theorem("cong_compose", (), left.lhs @ right.lhs, left.rhs @ right.rhs, left, right)


def cong_sum(left: Theorem, right: Theorem) -> Theorem:
    """From `A = B` and `C = D`, `A + C = B + D`: the sum is pointwise."""
    return _theorem("cong_sum", (), left.lhs + right.lhs, left.rhs + right.rhs, left, right)


def right_dist(total: Operator, right: Operator) -> Theorem:
    """`(a A + b B) @ C = a A @ C + b B @ C`, for all maps: the sum is pointwise, so it is taken at the value of C."""
    rhs = linear_combination(((c, term @ right) for c, term in terms(total)), right.domain, total.codomain)
    return _theorem("right_dist", (total, right), total @ right, rhs)


def left_dist(left: Operator, total: Operator) -> Theorem:
    """`C @ (a A + b B) = a C @ A + b C @ B` and `C @ 0 = 0`, for linear C only, by the definition of linear.

    NotLinearError otherwise.
    """
    if not left.is_linear:
        raise NotLinearError(
            f"{left} @ ({total}) cannot be distributed: {left} is not known to be linear; on a state, dress it first "
            "(expand does), or declare it with kind='linear' if it is"
        )
    rhs = linear_combination(((c, left @ term) for c, term in terms(total)), total.domain, left.codomain)
    return _theorem("left_dist", (left, total), left @ total, rhs)


def dress(operator: Operator) -> Theorem:
    """`s = t` for a state s, where every map in t acts linearly: `F @ s = F<s> @ s + f<s>` from the inside out.

    Sound because the dressing equation defines `f<s>`, the chain rule repeats it, and the remaining state is replaced
    by an equal one only in the argument of the linear `F<s>`; backgrounds keep the state they were built with.
    """
    if not operator.is_state:
        raise SpaceError(f"{operator} maps {operator.domain} to {operator.codomain}; only a state can be dressed")
    done: dict[Operator, Operator] = {}
    for node in postorder(operator, backgrounds=False):
        if isinstance(node, Sum) and node.is_state:
            done[node] = linear_combination(((c, done[term]) for c, term in node.terms), node.domain, node.codomain)
        elif isinstance(node, Compose) and node.is_state:
            linear, source = dressing(node.left, node.right)
            done[node] = linear @ done[node.right] + source
        else:
            done[node] = node
    return _theorem("dress", (operator,), operator, done[operator])


def distribute(operator: Operator) -> Theorem:
    """The whole of right distribution, left distribution over linear factors, and collection, as one computed step.

    `(A + B) @ C` always becomes `A @ C + B @ C`; `C @ (A + B)` becomes `C @ A + C @ B` and `C @ (c A)` becomes
    `c C @ A` when C is linear, and `C @ 0` then becomes 0. Nothing enters a background. Each move is an instance of
    `right_dist` or `left_dist` under congruence, and the smart constructors collect equal terms.
    """
    done: dict[Operator, Operator] = {}
    for node in postorder(operator, backgrounds=False):
        if isinstance(node, Sum):
            done[node] = linear_combination(((c, done[term]) for c, term in node.terms), node.domain, node.codomain)
        elif isinstance(node, Compose):
            parts = [(c, _act(term, done[node.right])) for c, term in terms(done[node.left])]
            done[node] = linear_combination(parts, node.domain, node.codomain)
        else:
            done[node] = node
    return _theorem("distribute", (operator,), operator, done[operator])


def _act(term: Operator, argument: Operator) -> Operator:
    """`term @ argument`, one factor after another, each linear one distributed over the sum it meets."""
    for factor in reversed(factors(term)):
        if factor.is_linear:
            parts = ((c, compose(factor, inner)) for c, inner in terms(argument))
            argument = linear_combination(parts, argument.domain, factor.codomain)
        else:
            argument = compose(factor, argument)
    return argument


def assume(statement: Equation) -> Theorem:
    """`{A = B} |- A = B`: under a hypothesis, the hypothesis."""
    return _theorem("assume", (statement,), statement.lhs, statement.rhs, hypotheses=frozenset([statement]))


@overload
def instantiate(value: Theorem, values: Mapping[Any, ScalarLike]) -> Theorem: ...


@overload
def instantiate(value: Operator, values: Mapping[Any, ScalarLike]) -> Operator: ...


def instantiate(value: Theorem | Operator, values: Mapping[Any, ScalarLike]) -> Theorem | Operator:
    """From `H |- A = B`, the same with values in place of symbols, in H too: what holds for all values holds for each.

    Of an operator, the operator with these values. `values` maps symbols to scalars, `{L: 3}`. InputError for a value that
    is not surely of the symbol's sort: a length is a natural number.
    """
    chosen = {the_symbol(key): as_scalar(number) for key, number in values.items()}
    for found, number in chosen.items():
        if not fits(found, number):
            raise InputError(f"{found.name} = {number} was asked, but {found.name} is {found.sort} and {number} may not be")
    if isinstance(value, Operator):
        return at(value, chosen)
    hypotheses = frozenset(hypothesis.at(chosen) for hypothesis in value.hypotheses)
    lhs, rhs = at(value.lhs, chosen), at(value.rhs, chosen)
    return _theorem("instantiate", (chosen,), lhs, rhs, value, hypotheses=hypotheses)


def under(theorem: Theorem, binder: Binder, index: Symbol) -> Theorem:
    """From `H |- A(i) = B(i)` for a natural i that is not free in H, equal products or sums of A and of B over i.

    `binder` gives the kind and the bounds; its own body is not used. Sound because every value that the index takes is a
    natural number, and the product or sum is a function of the bodies at these values.
    """
    _not_free(index, theorem, binder)
    lhs, rhs = (binder.over(side, scalar_of(index)) for side in (theorem.lhs, theorem.rhs))
    return _theorem("under", (binder, index), lhs, rhs, theorem)


def unfold(binder: Binder, *, lower: bool = False) -> Theorem:
    """The recursion of an indexed product or sum, at its upper end, or with `lower` at its lower one:

    `P(a..b) = B(b) @ P(a..b-1) = P(a+1..b) @ B(a)`, `S(a..b) = S(a..b-1) + B(b) = B(a) + S(a+1..b)`, when b - a is natural;
    `E_n(L) = E_n(L-1) + B(L) @ E_{n-1}(L-1)` when L - 1 and n - 1 are and B is linear: the last factor of a word is B(L) or
    it is not, and B(L) is distributed over the sum of the words before it. InputError when the symbols allow an empty
    product or sum, NotLinearError for an ordered sum of maps that are not linear.
    """
    return _theorem("unfold", (binder, lower), binder, binder.unfolded(lower=lower))


def _unfold(binder: Binder, lower: bool) -> Theorem:
    return unfold(binder, lower=lower)


def reindex(binder: Range, shift: int) -> Theorem:
    """`sum of B(i) for i = a..b` is `sum of B(i + k) for i = a-k..b-k`, and so for products: the same terms in the same order.

    InputError when a - k is not surely natural.
    """
    lower = as_scalar(binder.lower) - shift
    if not is_surely_natural(lower):
        raise InputError(f"reindexed by {shift}, {binder} would start at {lower}; an index is a natural number")
    return _theorem("reindex", (binder, shift), binder, binder.shifted(shift))


def sum_of_sums(total: IndexedSum) -> Theorem:
    """`sum of (a A(i) + b B(i)) = a sum of A(i) + b sum of B(i)`: finite pointwise sums, in another order.

    A coefficient that holds the index stays inside.
    """
    bound, parts = bound_symbol(total.level), []
    for coefficient, term in terms(total.body):
        outside, inside = (1, coefficient * term) if bound in free_symbols(coefficient) else (coefficient, term)
        parts.append((outside, total.over(inside, scalar_of(bound))))
    return _theorem("sum_of_sums", (total,), total, linear_combination(parts, total.domain, total.codomain))


def sum_right(total: IndexedSum, right: Operator) -> Theorem:
    """`(sum of B(i)) @ C = sum of (B(i) @ C)`, for all maps: the sum is pointwise."""
    index = total.free_index(right)
    return _theorem("sum_right", (total, right), total @ right, total.over(total.opened(index) @ right, index))


def sum_left(left: Operator, total: IndexedSum) -> Theorem:
    """`C @ (sum of B(i)) = sum of (C @ B(i))` for linear C, by the definition of linear. NotLinearError otherwise."""
    if not left.is_linear:
        raise NotLinearError(f"{left} @ {total} cannot be distributed: {left} is not known to be linear; dress it first")
    index = total.free_index(left)
    return _theorem("sum_left", (left, total), left @ total, total.over(left @ total.opened(index), index))


def split(product: Range, depth: Index) -> Theorem:
    """`P(a..b) = P(m+1..b) @ P(a..m)`, and `S(a..b) = S(a..m) + S(m+1..b)`, for a depth m with m + 1 - a and b - m natural."""
    below, above = as_scalar(depth) + 1 - as_scalar(product.lower), as_scalar(product.upper) - as_scalar(depth)
    if not (is_surely_natural(below) and is_surely_natural(above)):
        raise InputError(f"{product} cannot be split at {depth}: {below} and {above} are not surely natural numbers")
    first, last = product.between(product.lower, depth), product.between(as_scalar(depth) + 1, product.upper)
    return _theorem("split", (product, depth), product, product.joined(last, first))


def induction(base: Theorem, step: Theorem, symbol: Symbol) -> Theorem:
    """From `H |- A(0) = B(0)` and `H, A(n) = B(n) |- A(n+1) = B(n+1)`, where n is not free in H: `H |- A(n) = B(n)`.

    The claim is read off the step: its one hypothesis that has n. InputError when base or step is not of this form.
    """
    claims = [hypothesis for hypothesis in step.hypotheses if symbol in hypothesis.symbols]
    if len(claims) != 1:
        raise InputError(f"the step has {len(claims)} hypotheses with {symbol.name}; induction needs one, the claim")
    (claim,) = claims
    next_one = claim.at({symbol: scalar_of(symbol) + 1})
    first = claim.at({symbol: as_scalar(0)})
    for theorem, wished, at_value in ((base, first, "0"), (step, next_one, f"{symbol.name} + 1")):
        if (theorem.lhs, theorem.rhs) != (wished.lhs, wished.rhs):
            raise InputError(f"the claim at {at_value} is {wished}, but the premise proves {theorem.lhs} = {theorem.rhs}")
    if any(symbol in hypothesis.symbols for hypothesis in base.hypotheses):
        raise InputError(f"{symbol.name} is free in a hypothesis of the base; induction is over a symbol that none has")
    hypotheses = base.hypotheses | (step.hypotheses - {claim})
    return _theorem("induction", (symbol,), claim.lhs, claim.rhs, base, step, hypotheses=hypotheses)


def _not_free(index: Symbol, theorem: Theorem, binder: Binder) -> None:
    if any(index in hypothesis.symbols for hypothesis in theorem.hypotheses):
        raise InputError(f"{index.name} is free in a hypothesis, so the equation is not known for every {index.name}")
    if index.sort != "natural" or index in binder.symbols:
        raise InputError(f"{index.name} is no index that could be bound over the bounds of {binder}; use another symbol")
