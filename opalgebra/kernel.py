"""Theorems and the rules that make them; nothing else makes a Theorem.

A theorem says: under its hypotheses, `lhs` and `rhs` are the same map, whatever maps the nonlinear atoms are, whatever
linear maps the linear atoms are, whatever states the states are, and whatever split gives the dressings their meaning.
Each theorem keeps the rule, arguments and premises that made it, so that it can be made again.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from math import prod
from operator import add
from typing import Any, NoReturn, final, overload

from opalgebra.adjoint import adjoint, transpose
from opalgebra.atoms import Family
from opalgebra.commutator import Commutator, commutator
from opalgebra.display import Displayed
from opalgebra.dressing import dressed, dressing, source
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import (
    Atom,
    Compose,
    Index,
    Operator,
    Sum,
    at,
    bound_symbol,
    check_operators,
    compose,
    factors,
    is_bound,
    linear_combination,
    postorder,
    terms,
)
from opalgebra.facts import Equal, Fact, Linear, as_facts, is_linear, is_member
from opalgebra.function import function
from opalgebra.indexed import Binder, IndexedSum, Range
from opalgebra.instances import choices_of, instance, instance_of_fact
from opalgebra.inverse import inverse
from opalgebra.scalar import Symbol, as_scalar, fits, free_symbols, is_surely_natural, scalar_of, the_symbol
from opalgebra.tensor import tensor
from opalgebra.trace import trace

_SEAL = object()
_ONE = as_scalar(1)


@final
class Theorem(Displayed):
    """A proved equation: `hypotheses |- lhs = rhs`. Made by the rules of this module only."""

    __slots__ = ("arguments", "hypotheses", "lhs", "rhs", "rule")

    rule: str
    arguments: tuple[Any, ...]
    lhs: Operator
    rhs: Operator
    hypotheses: frozenset[Fact]

    def __init__(
        self, seal: object, rule: str, arguments: tuple[Any, ...], lhs: Operator, rhs: Operator, hypotheses: frozenset[Fact]
    ) -> None:
        if seal is not _SEAL:
            raise InputError("a Theorem is proved, not constructed; use expand, or the rules of opalgebra.kernel")
        for name, part in zip(self.__slots__, (arguments, hypotheses, lhs, rhs, rule)):
            object.__setattr__(self, name, part)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"theorems are immutable: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return globals()[{"unfold": "_unfold", "distribute": "_distribute"}.get(self.rule, self.rule)], self.arguments

    @property
    def premises(self) -> tuple["Theorem", ...]:
        """The theorems among the arguments of the rule."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Theorem))


def _theorem(
    rule: str, arguments: tuple[Any, ...], lhs: Operator, rhs: Operator, *, hypotheses: Iterable[Fact] | None = None
) -> Theorem:
    if hypotheses is None:
        hypotheses = (fact for part in arguments if isinstance(part, Theorem) for fact in part.hypotheses)
    assumed = frozenset(hypotheses)
    for stated in (lhs, rhs, *assumed):
        if not isinstance(stated, Operator | Fact):
            raise InputError(f"{stated!r} is no operator, and theorems are about operators")
    _refuse_bound(lhs, rhs, *assumed, *arguments)
    return Theorem(_SEAL, rule, arguments, lhs, rhs, assumed)


def _refuse_bound(*parts: Any) -> None:
    """InputError for the index of a product or sum anywhere among arguments and results, where another would capture it."""
    for part in parts:
        if isinstance(part, Mapping | tuple | frozenset) and not isinstance(part, Symbol):
            _refuse_bound(*(part.items() if isinstance(part, Mapping) else part))
            continue
        found = part.symbols if isinstance(part, Operator | Fact) else free_symbols(part)
        if any(map(is_bound, [part] if isinstance(part, Symbol) else found)):
            raise InputError(f"{part} has an index that a product or sum binds; open its body at a symbol of your own")


def refl(operator: Operator) -> Theorem:
    """`A = A`."""
    return _theorem("refl", (operator,), operator, operator)


def sym(theorem: Theorem) -> Theorem:
    """From `A = B`, `B = A`."""
    return _theorem("sym", (theorem,), theorem.rhs, theorem.lhs)


def trans(first: Theorem, second: Theorem) -> Theorem:
    """From `A = B` and `B = C`, `A = C`. InputError when the middle differs."""
    if first.rhs is not second.lhs:
        raise InputError(f"the first theorem ends in {first.rhs}, the second begins with {second.lhs}; they must be equal")
    return _theorem("trans", (first, second), first.lhs, second.rhs)


_FUNCTIONS = (compose, add, tensor, commutator, inverse, adjoint, transpose, trace, function, dressed, source)


def cong(build: Callable[..., Operator], *parts: Any) -> Theorem:
    """From `A = B`, `C = D`, ...: `build(A, C, ...) = build(B, D, ...)`; what is no theorem among the parts stays as it is.

    Sound for the constructors `compose`, `add` (of the module operator), `tensor`, `commutator`, `inverse`, `adjoint`,
    `transpose`, `trace`, `function`, for they are functions of maps; and for the state, but not the operator, of `dressed`
    and `source`, for a dressing is a function of the value of its background, but two ways to write one map may have
    different splits. InputError for another constructor or for the operator of a dressing.
    """
    if not any(build is known for known in _FUNCTIONS) or (build in (dressed, source) and isinstance(parts[0], Theorem)):
        name = getattr(build, "__name__", build)
        raise InputError(f"{name} is no function of the maps that it is given, so that these are equal proves nothing")
    lhs = build(*(part.lhs if isinstance(part, Theorem) else part for part in parts))
    rhs = build(*(part.rhs if isinstance(part, Theorem) else part for part in parts))
    return _theorem("cong", (build, *parts), lhs, rhs)


def right_dist(total: Operator, right: Operator) -> Theorem:
    """`(a A + b B) @ C = a A @ C + b B @ C`, for all maps: the sum is pointwise, so it is taken at the value of C."""
    check_operators(total, right)
    rhs = linear_combination(((c, term @ right) for c, term in terms(total)), right.domain, total.codomain)
    return _theorem("right_dist", (total, right), total @ right, rhs)


def left_dist(left: Operator, total: Operator, facts: Iterable[Fact] = ()) -> Theorem:
    """`C @ (a A + b B) = a C @ A + b C @ B` and `C @ 0 = 0`, for linear C only, by the definition of linear.

    The facts `Linear` among those given may be needed to know it, and are then hypotheses. NotLinearError otherwise.
    """
    check_operators(left, total)
    used = _used(facts, left)
    if not is_linear(left, used):
        raise NotLinearError(
            f"{left} @ ({total}) cannot be distributed: {left} is not known to be linear; on a state, dress it first "
            "(expand does), or declare it with kind='linear' if it is"
        )
    rhs = linear_combination(((c, left @ term) for c, term in terms(total)), total.domain, left.codomain)
    return _theorem("left_dist", (left, total, used), left @ total, rhs, hypotheses=used)


def _used(facts: Iterable[Fact], operator: Operator) -> frozenset[Fact]:
    """The facts `Linear` of what is not known to be linear in an operator."""
    declared = [fact for fact in as_facts(facts) if isinstance(fact, Linear)]
    unknown = [node for node in postorder(operator, backgrounds=False) if not node.is_linear] if declared else []
    return frozenset(fact for fact in declared if any(is_member(node, fact.operator) for node in unknown))


def dress(operator: Operator, facts: Iterable[Fact] = ()) -> Theorem:
    """`s = t` for a state s, where every map in t acts linearly: `F @ s = F<s> @ s + f<s>` from the inside out.

    Sound because the dressing equation defines `f<s>`, the chain rule repeats it, and the remaining state is replaced
    by an equal one only in the argument of the linear `F<s>`; backgrounds keep the state they were built with. What the
    facts `Linear` say to be linear is not dressed, which needs no hypothesis.
    """
    check_operators(operator)
    used = _used(facts, operator)
    if not operator.is_state:
        raise SpaceError(f"{operator} maps {operator.domain} to {operator.codomain}; only a state can be dressed")
    done: dict[Operator, Operator] = {}
    for node in postorder(operator, backgrounds=False):
        if isinstance(node, Sum) and node.is_state:
            done[node] = linear_combination(((c, done[term]) for c, term in node.terms), node.domain, node.codomain)
        elif isinstance(node, Compose) and node.is_state:
            linear, left_over = (node.left, 0) if is_linear(node.left, used) else dressing(node.left, node.right)
            done[node] = linear @ done[node.right] + left_over
        else:
            done[node] = node
    return _theorem("dress", (operator, used), operator, done[operator])


def distribute(operator: Operator, facts: Iterable[Fact] = (), *, unfold: bool = True) -> Theorem:
    """The whole of right distribution, left distribution over linear factors, and collection, as one computed step.

    `(A + B) @ C` always becomes `A @ C + B @ C`; `C @ (A + B)` becomes `C @ A + C @ B` and `C @ (c A)` becomes
    `c C @ A` when C is linear, and `C @ 0` then becomes 0. Nothing enters a background. Each move is an instance of
    `right_dist` or `left_dist` under congruence, and the smart constructors collect equal terms. In the same way tensor
    products, commutators and traces, which are linear in each part, are distributed over the sums in them; `unfold` writes
    `[A, B]` as `A @ B - B @ A`, which defines it. The parts of inverses and functions are distributed by congruence. The
    facts `Linear` that are needed become hypotheses.
    """
    check_operators(operator)
    used = _used(facts, operator)
    done: dict[Operator, Operator] = {}
    for node in postorder(operator, backgrounds=False):
        if isinstance(node, Sum):
            done[node] = linear_combination(((c, done[term]) for c, term in node.terms), node.domain, node.codomain)
        elif isinstance(node, Compose):
            parts = [(c, _act(term, done[node.right], used)) for c, term in terms(done[node.left])]
            done[node] = linear_combination(parts, node.domain, node.codomain)
        elif node.is_multilinear:
            choices = product(*(terms(done[part]) for part in node.parts))
            parts = [(prod((c for c, _ in choice), start=_ONE), node.remade([t for _, t in choice])) for choice in choices]
            total = linear_combination(parts, node.domain, node.codomain)
            done[node] = _unfolded(total) if unfold and isinstance(node, Commutator) else total
        else:
            done[node] = node.remade([done[part] for part in node.parts])
    return _theorem("distribute", (operator, used, unfold), operator, done[operator], hypotheses=used)


def _distribute(operator: Operator, facts: frozenset[Fact], unfold: bool) -> Theorem:
    return distribute(operator, facts, unfold=unfold)


def _unfolded(total: Operator) -> Operator:
    """A sum of commutators of words, as words."""
    parts = ((c, term.unfolded if isinstance(term, Commutator) else term) for c, term in terms(total))
    return linear_combination(parts, total.domain, total.codomain)


def _act(term: Operator, argument: Operator, facts: Iterable[Fact] = ()) -> Operator:
    """`term @ argument`, one factor after another, each linear one distributed over the sum it meets."""
    for factor in reversed(factors(term)):
        if is_linear(factor, facts):
            parts = ((c, compose(factor, inner)) for c, inner in terms(argument))
            argument = linear_combination(parts, argument.domain, factor.codomain)
        else:
            argument = compose(factor, argument)
    return argument


def assume(fact: Fact, *arguments: Any) -> Theorem:
    """`{A = B} |- A = B`: under a hypothesis, the hypothesis, or an equation that the fact states; see `facts`."""
    statement = fact.equation(*arguments)
    return _theorem("assume", (fact, *arguments), statement.lhs, statement.rhs, hypotheses=[fact])


@overload
def instantiate(value: Theorem, values: Mapping[Any, Any]) -> Theorem: ...


@overload
def instantiate(value: Operator, values: Mapping[Any, Any]) -> Operator: ...


def instantiate(value: Theorem | Operator, values: Mapping[Any, Any]) -> Theorem | Operator:
    """From `H |- A = B`, the same with values in place of symbols and atoms, in H too: what holds for all holds for each.

    Of an operator, the operator with these values. `values` maps symbols to scalars, `{L: 3}`, atoms to operators, and
    families to families, operators or functions of their indices, `{V: lambda l: 2 * W[l]}`; symbols are taken first. Sound
    because a theorem holds for every scalar of a symbol's sort, for every map of an atom's spaces and linear where the atom is,
    and for every split. InputError, SpaceError or NotLinearError for a value that is not surely of this kind.
    """
    _refuse_bound(values)
    of_atoms = {key: given for key, given in values.items() if isinstance(key, Atom | Family)}
    scalars = {the_symbol(key): as_scalar(given) for key, given in values.items() if key not in of_atoms}
    for found, number in scalars.items():
        if not fits(found, number):
            raise InputError(f"{found.name} = {number} was asked, but {found.name} is {found.sort} and {number} may not be")
    if isinstance(value, Operator):
        there = at(value, scalars)
        return instance(there, choices_of(of_atoms, [there])) if of_atoms else there
    sides, facts = [at(side, scalars) for side in (value.lhs, value.rhs)], [fact.at(scalars) for fact in value.hypotheses]
    chosen = choices_of(of_atoms, [*sides, *(operator for fact in facts for operator in fact.operators)])
    if chosen:
        sides = [instance(side, chosen) for side in sides]
        facts = [known for fact in facts if (known := instance_of_fact(fact, chosen)) is not None]
    return _theorem("instantiate", (value, {**scalars, **chosen}), *sides, hypotheses=facts)


def under(theorem: Theorem, binder: Binder, index: Symbol, distance: Symbol | None = None) -> Theorem:
    """From `H |- A(i) = B(i)` for a natural i that is not free in H, equal products or sums of A and of B over i.

    `binder` gives the kind and the bounds; its own body is not used. Sound because every value that the index takes is a
    natural number, and the product or sum is a function of the bodies at these values. A natural symbol for the `distance`,
    not free in H either, stands for upper bound - i, which is natural wherever a range is not empty.
    """
    _not_free(index, theorem, binder)
    sides = [theorem.lhs, theorem.rhs]
    if distance is not None:
        _is(binder, Range)
        _not_free(distance, theorem, binder)
        to_end = as_scalar(binder.fields[3]) - scalar_of(index)
        sides = [at(side, {distance: to_end}) for side in sides]
    lhs, rhs = (binder.over(side, scalar_of(index)) for side in sides)
    return _theorem("under", (theorem, binder, index, distance), lhs, rhs)


def unfold(binder: Binder, *, lower: bool = False) -> Theorem:
    """The recursion of an indexed product or sum, at its upper end, or with `lower` at its lower one:

    `P(a..b) = B(b) @ P(a..b-1) = P(a+1..b) @ B(a)`, `S(a..b) = S(a..b-1) + B(b) = B(a) + S(a+1..b)`, when b - a is natural;
    `E_n(L) = U(L) @ E_n(L-1) + B(L) @ E_{n-1}(L-1)`, U the line, when L - 1 and n - 1 are and U and B are linear: the last
    factor of a word is B(L) or U(L), and both are distributed over the sum of the words before it. InputError when the symbols
    allow an empty product or sum, NotLinearError for an ordered sum of maps that are not linear.
    """
    _is(binder, Binder)
    return _theorem("unfold", (binder, lower), binder, binder.unfolded(lower=lower))


def _unfold(binder: Binder, lower: bool) -> Theorem:
    return unfold(binder, lower=lower)


def reindex(binder: Range, shift: int) -> Theorem:
    """`sum of B(i) for i = a..b` is `sum of B(i + k) for i = a-k..b-k`, and so for products: the same terms in the same order.

    InputError when a - k is not surely natural.
    """
    _is(binder, Range)
    if not isinstance(shift, int):
        raise InputError(f"{binder} was to be reindexed by {shift}; a shift is an integer")
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


def split(whole: Range, depth: Index) -> Theorem:
    """`P(a..b) = P(m+1..b) @ P(a..m)`, and `S(a..b) = S(a..m) + S(m+1..b)`, for a depth m with m + 1 - a and b - m natural."""
    _is(whole, Range)
    below, above = as_scalar(depth) + 1 - as_scalar(whole.lower), as_scalar(whole.upper) - as_scalar(depth)
    if not (is_surely_natural(below) and is_surely_natural(above)):
        raise InputError(f"{whole} cannot be split at {depth}: {below} and {above} are not surely natural numbers")
    first, last = whole.between(whole.lower, depth), whole.between(as_scalar(depth) + 1, whole.upper)
    return _theorem("split", (whole, depth), whole, whole.joined(last, first))


def induction(base: Theorem, step: Theorem, symbol: Symbol) -> Theorem:
    """From `H |- A(0) = B(0)` and `H, A(n) = B(n) |- A(n+1) = B(n+1)`, where n is not free in H: `H |- A(n) = B(n)`.

    The claim is read off the step: its one hypothesis that has n. InputError when base or step is not of this form.
    """
    if symbol.sort != "natural":
        raise InputError(f"{symbol.name} is {symbol.sort}; induction is over a natural number")
    found = [hypothesis for hypothesis in step.hypotheses if symbol in hypothesis.symbols]
    claims = [hypothesis for hypothesis in found if isinstance(hypothesis, Equal)]
    if len(claims) != 1 or len(found) != 1:
        raise InputError(f"the step has {len(found)} hypotheses with {symbol.name}; induction needs one, the claim")
    (claim,) = claims
    next_one = claim.at({symbol: scalar_of(symbol) + 1})
    first = claim.at({symbol: as_scalar(0)})
    for theorem, wished, at_value in ((base, first, "0"), (step, next_one, f"{symbol.name} + 1")):
        if (theorem.lhs, theorem.rhs) != (wished.lhs, wished.rhs):
            raise InputError(f"the claim at {at_value} is {wished}, but the premise proves {theorem.lhs} = {theorem.rhs}")
    if any(symbol in hypothesis.symbols for hypothesis in base.hypotheses):
        raise InputError(f"{symbol.name} is free in a hypothesis of the base; induction is over a symbol that none has")
    hypotheses = base.hypotheses | (step.hypotheses - {claim})
    return _theorem("induction", (base, step, symbol), claim.lhs, claim.rhs, hypotheses=hypotheses)


def _is(value: object, kind: type[Operator]) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{value} is no product or sum over an index; build one with ordered_product(1 + V[l], l, 1, L)")


def _not_free(index: Symbol, theorem: Theorem, binder: Binder) -> None:
    if any(index in hypothesis.symbols for hypothesis in theorem.hypotheses):
        raise InputError(f"{index.name} is free in a hypothesis, so the equation is not known for every {index.name}")
    if index.sort != "natural" or index in binder.symbols:
        raise InputError(f"{index.name} is no index that could be bound over the bounds of {binder}; use another symbol")
