"""The derivative of an operator in a real parameter, letters in their order: the product rule does not commute.

    d(a A + b B) = a' A + b' B + a dA + b dB          d(A @ B) = dA @ B + A @ dB            for linear A
    d(F @ B) = dF @ B  for any F, when B is constant  d(A^-1) = -A^-1 @ dA @ A^-1           for linear A that has an inverse
    d(sum of B(i)) = sum of dB(i)                     dP(a..b) = sum over i of P(i+1..b) @ dB(i) @ P(a..i-1)
    dE_n = sum over i and k of E_(n-1-k)(B(l + i), L - i) @ dB(i) @ E_k(B(l), i - 1)        for ordered products P and sums E_n

with linear bodies B in the last two; and the product rule in each part of tensor products, commutators, traces, adjoints and
transposes, which are linear in it (the forms that define adjoints are constant). Other chain rules need what no node
here stands for: the tangent of a nonlinear map, the derivative of a split in its background, an integral.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from opalgebra.atoms import Family
from opalgebra.display import Displayed
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import Atom, Compose, Dressed, Operator, Source, Sum, Zero, as_index, linear_combination, postorder
from opalgebra.facts import Fact, Inverse, is_member
from opalgebra.function import FunctionOf
from opalgebra.indexed import Binder, IndexedSum, OrderedProduct, OrderedSum, indexed_sum, ordered_sum
from opalgebra.inverse import InverseOf
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import Polynomial, Scalar, Symbol, as_scalar, fresh_names, symbol, the_symbol
from opalgebra.space import Kind
from opalgebra.tensor import pulled_out

Letter = Atom | Family


@final
@dataclass(frozen=True, repr=False)
class Derivative(Displayed):
    """The derivative `value` of an operator in a parameter, of the same spaces, where the hypotheses hold.

    `given` pairs letters with the derivatives that they were given.
    """

    operator: Operator
    parameter: Symbol
    given: tuple[tuple[Letter, Operator | Family], ...]
    value: Operator
    hypotheses: frozenset[Fact]


def derivative(operator: Operator, t: Scalar, given: Mapping[Letter, Operator | Family] | None = None) -> Derivative:
    """The derivative of an operator in the parameter t, by the laws of the module.

    Coefficients are polynomials in t; the atoms and families in `given` depend on t and have the derivatives given there (of
    `V[l]` for a family V, the member with this index of the family given); all other atoms, and all splits of those, are
    constant. Each inverse that is differentiated exists by hypothesis.

    NotLinearError for a nonlinear map of what depends on t, or a derivative of a linear operator that is not known to be
    linear. InputError for a function or a dressing of what depends on t, a t that is no parameter, and an inverse under an
    index. SpaceError for a derivative between other spaces.

    >>> import opalgebra as oa
    >>> t = oa.parameter("t")
    >>> S, R = oa.atoms("S R", kind="linear")
    >>> print(derivative(S @ S, t, {S: R}))
    [d/dt S = R] d/dt (S @ S) = R @ S + S @ R
    >>> print(derivative(oa.inverse(1 - t * S), t).value)
    inverse(1 - t*S) @ S @ inverse(1 - t*S)
    """
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no derivative here; build one from atoms")
    rules = _Rules(operator, parameter_of(t), dict(given or {}))
    value = without_recursion(rules.of(operator))
    return Derivative(operator, rules.parameter, tuple(rules.given.items()), value, frozenset(rules.hypotheses))


def parameter_of(value: Scalar) -> Symbol:
    """The symbol of a parameter. InputError for anything else, and for a symbol of natural numbers."""
    found = the_symbol(value)
    if found.sort == "natural":
        raise InputError(f"{found.name} stands for a natural number, and a real parameter is needed; use parameter('t')")
    return found


def named(atom: Atom, letters: Iterable[Letter]) -> Letter | None:
    """Which of the letters is the atom, or the family of it. InputError where that is open or looks like a mistake."""
    known = list(letters)
    for letter in known:
        if is_member(atom, letter):
            return letter
    for letter in known:
        if isinstance(letter, Atom) and letter.base == atom.base and atom.symbols:
            raise InputError(
                f"{letter} was named, but {atom.base} also stands with an index that has no value, where it may be {letter} or "
                "not; name the family, or give the index values"
            )
        if letter.name == (atom.name if isinstance(letter, Atom) else atom.base * bool(atom.indices)):
            raise InputError(f"{letter} was named, but the {atom.base} that occurs is of another kind or between other spaces")
    return None


def as_letter(value: object) -> Letter:
    """A family, or an atom with values for its indices. InputError for anything else."""
    if not isinstance(value, Atom | Family):
        raise InputError(f"{value!r} is no atom and no family; name the letters that the operator is made of")
    if isinstance(value, Atom) and value.symbols:
        raise InputError(f"{value} has an index without a value and may be any of its family; name the family")
    return value


def check_closed(hypotheses: Iterable[Fact], index: Scalar, binder: Binder) -> None:
    """InputError when a hypothesis speaks of the index that a binder binds."""
    for hypothesis in hypotheses:
        if the_symbol(index) in hypothesis.symbols:
            raise InputError(
                f"{binder} needs that {hypothesis}, for every {index}, which is no hypothesis here; give the bounds values"
            )


class _Rules:
    """The derivatives found so far, which nodes depend on the parameter, and the hypotheses used."""

    def __init__(self, root: Operator, parameter: Symbol, given: dict[Letter, Operator | Family]) -> None:
        for letter, change in given.items():
            _check_change(as_letter(letter), change)
        self.parameter = parameter
        self.given = given
        self.free = [root, *(change for change in given.values() if isinstance(change, Operator))]
        self.hypotheses: set[Fact] = set()
        self.varies: dict[Operator, bool] = {}
        self.done: dict[Operator, Operator] = {}
        self.mark(root)

    def mark(self, root: Operator) -> None:
        """Finds out which nodes depend on the parameter, backgrounds and what stands under binders included."""
        for node in postorder(root, backgrounds=True, bodies=True):
            if isinstance(node, Atom):
                self.varies[node] = named(node, self.given) is not None
            else:
                below = node.fields if isinstance(node, Dressed | Source) else node.parts or node.bodies
                self.varies[node] = self.parameter in node.symbols or any(self.varies[part] for part in below)

    def of(self, node: Operator) -> Steps[Operator]:
        if not self.varies[node]:
            return Zero(node.domain, node.codomain)
        if node not in self.done:
            self.done[node] = yield self._of(node)
        return self.done[node]

    def _of(self, node: Operator) -> Steps[Operator]:
        if isinstance(node, Atom):
            letter = named(node, self.given)
            assert letter is not None
            change = self.given[letter]
            return change if isinstance(change, Operator) else change[node.indices]
        result: Operator
        if isinstance(node, Compose):
            result = yield self._product(node)
            return result
        if isinstance(node, InverseOf | Binder):
            result = yield self._inverse(node) if isinstance(node, InverseOf) else self._under_index(node)
            return result
        if not node.is_multilinear:
            raise self._refusal(node)
        parts: list[tuple[Scalar | int, Operator]] = []
        for place, part in enumerate(node.parts):
            if isinstance(node, Sum):
                coefficient = node.terms[place][0]
                parts += [(slope(coefficient, self.parameter), part), (coefficient, (yield self.of(part)))]
            elif self.varies[part]:
                changed = yield self.of(part)
                parts.append((1, node.remade([*node.parts[:place], changed, *node.parts[place + 1 :]])))
        return linear_combination(parts, node.domain, node.codomain)

    def _product(self, node: Compose) -> Steps[Operator]:
        outer: Operator = yield self.of(node.left)
        if not self.varies[node.right]:
            return outer @ node.right
        self._need_linear(node, node.left)
        inner = yield self.of(node.right)
        return outer @ node.right + pulled_out(node.left @ inner)

    def _inverse(self, node: InverseOf) -> Steps[Operator]:
        self._need_linear(node, node.operator)
        inside: Operator = yield self.of(node.operator)
        self.hypotheses.add(Inverse(node.operator))
        return pulled_out(node @ (-1 * inside)) @ node

    def _under_index(self, node: Binder) -> Steps[Operator]:
        index = node.free_index(*self.free)
        body = node.opened(index)
        self.mark(body)
        if not isinstance(node, IndexedSum):
            self._need_linear(node, node if isinstance(node, OrderedSum) else body)
        inside: Operator = yield self.of(body)
        check_closed(self.hypotheses, index, node)
        if isinstance(node, OrderedSum):
            line = node.line_at(index)
            self.mark(line)
            changed = yield self.of(line)
            check_closed(self.hypotheses, index, node)
            return _words(node, inside, index, node.order - 1) + _words(node, changed, index, node.order)
        if isinstance(inside, Zero):
            return Zero(node.domain, node.codomain)
        if isinstance(node, IndexedSum):
            return node.over(inside, index)
        if isinstance(node, OrderedProduct):
            return _places(node, inside, index)
        raise self._refusal(node)

    def _need_linear(self, node: Operator, part: Operator) -> None:
        if not part.is_linear:
            raise NotLinearError(
                f"the derivative of {node} in {self.parameter.name} was asked, but {part} is not known to be linear, and its "
                f"tangent, which the chain rule needs, is no operator here; name {node} as one atom and give its derivative"
            )

    def _refusal(self, node: Operator) -> InputError:
        asked = f"the derivative of {node} in {self.parameter.name} was asked"
        if isinstance(node, Dressed | Source):
            return InputError(
                f"{asked}, but a split is an arbitrary function of the map and its background, and these depend on "
                f"{self.parameter.name}; differentiate before dressing, or put an atom with a given derivative for {node}"
            )
        if isinstance(node, FunctionOf):
            return InputError(
                f"{asked}, but {node.operator} need not commute with its derivative: that of exp(A) is Duhamel's integral of "
                "exp(s A) @ dA @ exp((1 - s) A) over s from 0 to 1, and no operator here; put an atom with a given "
                f"derivative for {node}"
            )
        return InputError(f"{asked}, and {type(node).__name__} has no rule; put an atom with a given derivative for it")


def slope(scalar: Scalar, parameter: Symbol) -> Scalar:
    """The derivative of a coefficient."""
    total: Scalar = as_scalar(0)
    for monomial, coefficient in scalar.terms if isinstance(scalar, Polynomial) else ():
        powers = dict(monomial)
        power = powers.pop(parameter, 0)
        lowered = {**powers, parameter: power - 1} if power != 1 else powers
        total = total + Polynomial._make([(tuple(sorted(lowered.items())), coefficient * power)])
    return total


def _check_change(letter: Letter, change: object) -> None:
    if not isinstance(change, Family if isinstance(letter, Family) else Operator):
        raise InputError(f"{change!r} is no derivative of {letter}; give an operator for an atom, and a family for a family")
    assert isinstance(change, Operator | Family)
    if (letter.domain, letter.codomain) != (change.domain, change.codomain):
        raise SpaceError(f"{change} cannot be the derivative of {letter}, for they map between different spaces")
    if letter.kind == Kind.LINEAR and change.kind != Kind.LINEAR:
        raise NotLinearError(f"{change} cannot be the derivative of {letter}: that of a linear operator is linear")


def _places(node: OrderedProduct, inside: Operator, index: Scalar) -> Operator:
    """The sum over the place of the changed factor."""
    later, earlier = node.between(index + 1, node.upper), node.between(node.lower, index - 1)
    return indexed_sum(later @ inside @ earlier, index, node.lower, node.upper)


def _words(node: OrderedSum, inside: Operator, index: Scalar, order: Any) -> Operator:
    """The sum over the place of what is changed, and over the number of letters before it, of `order` others in all."""
    if isinstance(inside, Zero):
        return Zero(node.domain, node.codomain)
    taken = {the_symbol(index)} | node.symbols | node.body.symbols | node.line.symbols | inside.symbols
    letter, before = (symbol(name) for name in fresh_names(taken, 2))
    upper: Any = node.upper - index
    after, length, chosen = letter + index, as_index(index - 1, of="length"), as_index(before, of="order")
    later = ordered_sum(node.opened(after), letter, upper, order - before, node.line_at(after))
    earlier = ordered_sum(node.opened(letter), letter, length, chosen, node.line_at(letter))
    placed = indexed_sum(later @ pulled_out(inside @ earlier), before, 0, order)
    return indexed_sum(placed, index, 1, node.upper)
