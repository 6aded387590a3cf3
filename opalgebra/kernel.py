"""Theorems and the rules that make them; nothing else makes a Theorem.

A theorem says: under its hypotheses, `lhs` and `rhs` are the same map, whatever maps the nonlinear atoms are, whatever
linear maps the linear atoms are, whatever states the states are, and whatever split gives the dressings their meaning.
Each theorem keeps the rule, arguments and premises that made it, so that it can be made again.
"""

from typing import Any, ClassVar, NoReturn, final

from opalgebra.display import Displayed
from opalgebra.dressing import dressing
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import Compose, Operator, Sum, compose, factors, linear_combination, postorder, terms


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

    def __reduce__(self) -> tuple[Any, ...]:
        return Equation, (self.lhs, self.rhs)


def _set(value: object, **parts: Any) -> None:
    for name, part in parts.items():
        object.__setattr__(value, name, part)


def equation(lhs: Operator, rhs: Operator) -> Equation:
    """The unproved statement `lhs = rhs`, for `verify`."""
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
    hypotheses: frozenset[Any]

    def __init__(
        self, seal: object, rule: str, arguments: tuple[Any, ...], premises: tuple["Theorem", ...],
        lhs: Operator, rhs: Operator,
    ) -> None:  # fmt: skip
        if seal is not _SEAL:
            raise InputError("a Theorem is proved, not constructed; use expand, or the rules of opalgebra.kernel")
        hypotheses = frozenset().union(*(premise.hypotheses for premise in premises))
        _set(self, rule=rule, arguments=arguments, premises=premises, lhs=lhs, rhs=rhs, hypotheses=hypotheses)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"theorems are immutable: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return globals()[self.rule], (*self.premises, *self.arguments)


def _theorem(rule: str, arguments: tuple[Any, ...], lhs: Operator, rhs: Operator, *premises: Theorem) -> Theorem:
    return Theorem(_SEAL, rule, arguments, premises, lhs, rhs)


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
