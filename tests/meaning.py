"""What expressions mean: exact evaluation over a finite field, straight from the nodes and by none of the algebra's laws.

A space has the product of its factors' dimensions, and a vector is a tuple of residues modulo `PRIME`. Linear atoms are
random matrices; nonlinear ones random cubic maps with a constant term; states random vectors. A dressing `F<s>` is a
random matrix that depends on the VALUE of s, and its source is what is then left over of `F(s)`. Symbols have the values
of an environment, and a product or sum over an index is taken factor by factor and term by term. Every factor of a space has
a random symmetric bilinear form, by which an adjoint is taken. An inverse that does not exist is zero.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from math import prod
from random import Random
from typing import Any

from opalgebra.adjoint import AdjointOf, TransposeOf
from opalgebra.commutator import Commutator
from opalgebra.expr import Atom, Compose, Dressed, Identity, Operator, Source, Sum, Zero
from opalgebra.function import FunctionOf
from opalgebra.indexed import IndexedSum, OrderedProduct, OrderedSum
from opalgebra.inverse import InverseOf
from opalgebra.scalar import Polynomial
from opalgebra.space import ONE, Kind, Space
from opalgebra.tensor import Tensor
from opalgebra.trace import TraceOf

PRIME = 2_147_483_647
Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]
Map = Callable[[Vector], Vector]


Environment = Mapping[str, int]


def number(scalar: Polynomial | Fraction | int, environment: Environment) -> Fraction:
    """The value of a scalar in an environment."""
    if not isinstance(scalar, Polynomial):
        return Fraction(scalar)
    total = Fraction(0)
    for monomial, coefficient in scalar.terms:
        powers = (Fraction(environment[found.name]) ** power for found, power in monomial)
        total += coefficient * prod(powers, start=Fraction(1))
    return total


def residue(scalar: Fraction | int) -> int:
    """A rational number modulo `PRIME`."""
    value = Fraction(scalar)
    return value.numerator * pow(value.denominator, -1, PRIME) % PRIME


def add(*vectors: Vector) -> Vector:
    return tuple(sum(entries) % PRIME for entries in zip(*vectors, strict=True))


def scale(scalar: Fraction | int, vector: Vector) -> Vector:
    factor = residue(scalar)
    return tuple(factor * entry % PRIME for entry in vector)


def apply(matrix: Matrix, vector: Vector) -> Vector:
    return tuple(sum(a * b for a, b in zip(row, vector, strict=True)) % PRIME for row in matrix)


def random_matrix(random: Random, rows: int, columns: int) -> Matrix:
    return tuple(tuple(random.randrange(PRIME) for _ in range(columns)) for _ in range(rows))


def transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def times(left: Matrix, right: Matrix) -> Matrix:
    return tuple(tuple(sum(a * b for a, b in zip(row, column)) % PRIME for column in zip(*right)) for row in left)


def kronecker(left: Matrix, right: Matrix) -> Matrix:
    return tuple(tuple(a * b % PRIME for a in row for b in other) for row in left for other in right)


def inverted(matrix: Matrix) -> Matrix:
    """The inverse by Gauss and Jordan; a zero matrix when there is none."""
    size = len(matrix)
    rows = [[*row, *(int(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = next((row for row in rows[column:] if row[column]), None)
        if pivot is None or len(matrix[0]) != size:
            return ((0,) * size,) * len(matrix[0])
        rows.remove(pivot)
        shrink = pow(pivot[column], -1, PRIME)
        pivot = [entry * shrink % PRIME for entry in pivot]
        rows = [[(a - row[column] * b) % PRIME for a, b in zip(row, pivot)] for row in rows]
        rows.insert(column, pivot)
    return tuple(tuple(row[size:]) for row in rows)


@dataclass
class Interpretation:
    """Random maps for all atoms; `splits` replaces the random dressing of some of them by a matrix for each state, `maps`
    the random value of some of them by a function of vectors.
    """

    seed: int
    dimensions: Mapping[str, int] = field(default_factory=lambda: {"positions": 1, "features": 2})
    splits: Mapping[Atom, Callable[[Vector], Matrix]] = field(default_factory=dict)
    maps: Mapping[Atom, Map] = field(default_factory=dict)
    _values: dict[Any, Vector] = field(default_factory=dict)
    _matrices: dict[Any, Any] = field(default_factory=dict)

    def dimension(self, space: Space) -> int:
        """The dimension of a space; the one-point space has no coordinates."""
        return 0 if space == ONE else prod(self.dimensions.get(name, 2) for name in space.factors)

    def point(self, space: Space, number: int) -> Vector:
        """A random vector of a space; the one point of `ONE`."""
        random = Random(f"{self.seed} point {number}")
        return tuple(random.randrange(PRIME) for _ in range(self.dimension(space)))

    def _drawn(self, atom: Atom, purpose: str, matrices: int) -> tuple[Matrix, ...]:
        key = (atom, purpose)
        if key not in self._matrices:
            random = Random(f"{self.seed} {atom.name} {atom.kind} {atom.domain} {atom.codomain} {purpose}")
            rows, columns = self.dimension(atom.codomain), self.dimension(atom.domain)
            self._matrices[key] = tuple(random_matrix(random, rows, max(columns, 1)) for _ in range(matrices))
        return self._matrices[key]  # type: ignore[no-any-return]

    def atom(self, atom: Atom, argument: Vector) -> Vector:
        """The value of the map that an atom stands for."""
        if atom in self.maps:
            return self.maps[atom](argument)
        if atom.kind == Kind.STATE:
            return tuple(row[0] for row in self._drawn(atom, "state", 1)[0])
        if atom.kind == Kind.LINEAR:
            return apply(self._drawn(atom, "linear", 1)[0], argument)
        constant, linear, square, mixed, cube = self._drawn(atom, "nonlinear", 5)
        turned = (*argument[1:], argument[0])
        return add(
            tuple(row[0] for row in constant),
            apply(linear, argument),
            apply(square, tuple(a * a % PRIME for a in argument)),
            apply(mixed, tuple(a * b % PRIME for a, b in zip(argument, turned))),
            apply(cube, tuple(a * a * b % PRIME for a, b in zip(argument, turned))),
        )

    def split(self, atom: Atom, state: Vector) -> Matrix:
        """The matrix `atom<state>`."""
        return self.splits[atom](state) if atom in self.splits else self._drawn(atom, f"split at {state}", 1)[0]

    def left_over(self, atom: Atom, state: Vector) -> Vector:
        """The source: what `atom<state>` leaves over of the value of the atom at the state."""
        return add(self.atom(atom, state), scale(-1, apply(self.split(atom, state), state)))

    def value(self, operator: Operator, argument: Vector = (), environment: Environment | None = None) -> Vector:
        """The value of an operator at a vector, or of a state."""
        names = {found.name for found in operator.symbols}
        known = {name: value for name, value in (environment or {}).items() if name in names}
        key = (operator, argument, tuple(sorted(known.items())))
        if key not in self._values:
            self._values[key] = self._value(operator, argument, known)
        return self._values[key]

    def _value(self, operator: Operator, argument: Vector, known: Environment) -> Vector:
        match operator:
            case Atom():
                return self.atom(member(operator, known), argument)
            case Identity():
                return argument
            case Zero():
                return (0,) * self.dimension(operator.codomain)
            case Sum():
                return add(*(scale(number(c, known), self.value(term, argument, known)) for c, term in operator.terms))
            case Compose():
                return self.value(operator.left, self.value(operator.right, argument, known), known)
            case Dressed():
                return apply(self.split(member(operator.operator, known), self.value(operator.state, (), known)), argument)
            case Source():
                return self.left_over(member(operator.operator, known), self.value(operator.state, (), known))
            case OrderedProduct():
                for index in self.range(operator.lower, operator.upper, known):
                    argument = self.value(operator.body, argument, {**known, f"#{operator.level}": index})
                return argument
            case IndexedSum():
                indices = self.range(operator.lower, operator.upper, known)
                parts = [self.value(operator.body, argument, {**known, f"#{operator.level}": index}) for index in indices]
                return add((0,) * self.dimension(operator.codomain), *parts)
            case OrderedSum():
                return self.words(operator, argument, known)
            case Tensor():
                return apply(self.side_by_side(operator, known), argument)
            case InverseOf():
                return self.inverse(operator, argument, known)
            case AdjointOf():
                inside = operator.operator
                forms = self.form(inside.domain), self.form(inside.codomain)
                matrix = times(inverted(forms[0]), times(transposed(self.matrix(inside, known)), forms[1]))
                return apply(matrix, argument)
            case TransposeOf():
                return apply(transposed(self.matrix(operator.operator, known)), argument)
            case Commutator():
                one = self.value(operator.left, self.value(operator.right, argument, known), known)
                other = self.value(operator.right, self.value(operator.left, argument, known), known)
                return add(one, scale(-1, other))
            case FunctionOf():
                matrix = self.matrix(operator.operator, known)
                random = Random(f"{self.seed} {operator.name} {matrix}")
                return apply(random_matrix(random, len(matrix), len(matrix)), argument)
            case TraceOf():
                return apply(self.traced(operator, known), argument)
        raise TypeError(f"a node without a meaning: {type(operator).__name__}")

    def matrix(self, operator: Operator, known: Environment) -> Matrix:
        """The matrix of a linear operator, from its values at the unit vectors."""
        size = self.dimension(operator.domain)
        units = [tuple(int(i == j) for j in range(size)) for i in range(size)]
        return transposed(tuple(self.value(operator, unit, known) for unit in units))

    def form(self, space: Space) -> Matrix:
        """The symmetric bilinear form of a space."""
        total: Matrix = ((1,),)
        for name in space.factors:
            size = self.dimensions.get(name, 2)
            half = random_matrix(Random(f"{self.seed} form {name}"), size, size)
            total = kronecker(total, tuple(map(add, half, transposed(half))))
        return total

    def side_by_side(self, tensor: Tensor, known: Environment) -> Matrix:
        total: Matrix = ((1,),)
        for block in tensor.blocks:
            total = kronecker(total, self.matrix(block, known))
        return total

    def inverse(self, operator: InverseOf, argument: Vector, known: Environment) -> Vector:
        """By matrices; of a map that is no matrix, by correcting a guess until it is right."""
        if operator.is_linear:
            return apply(inverted(self.matrix(operator.operator, known)), argument)
        guess = argument
        for _ in range(2 * len(argument) + 2):
            wrong = add(argument, scale(-1, self.value(operator.operator, guess, known)))
            if not any(wrong):
                return guess
            guess = add(guess, wrong)
        raise ArithmeticError(f"{operator.operator!r} has no inverse that corrections find")

    def traced(self, trace: TraceOf, known: Environment) -> Matrix:
        """The sum of the blocks on the diagonal, entry by entry."""
        matrix = self.matrix(trace.operator, known)
        rows, columns = (
            list(product(*(range(self.dimensions.get(name, 2)) for name in space.factors)))
            for space in (trace.operator.codomain, trace.operator.domain)
        )
        entries: dict[Any, int] = {}
        for row, left in zip(matrix, rows):
            for entry, right in zip(row, columns):
                if all(left[leg] == right[leg] for leg in trace.over):
                    place = tuple(tuple(i for leg, i in enumerate(side) if leg not in trace.over) for side in (left, right))
                    entries[place] = (entries.get(place, 0) + entry) % PRIME
        kept = [sorted({place[side] for place in entries}) for side in (0, 1)]
        return tuple(tuple(entries[left, right] for right in kept[1]) for left in kept[0])

    def range(self, lower: Any, upper: Any, known: Environment) -> range:
        """The values of an index."""
        return range(int(number(lower, known)), int(number(upper, known)) + 1)

    def words(self, total: OrderedSum, argument: Vector, known: Environment) -> Vector:
        """Every increasing choice of indices, one after the other."""
        found = (0,) * self.dimension(total.codomain)
        for chosen in combinations(self.range(1, total.upper, known), int(number(total.order, known))):
            vector = argument
            for index in self.range(1, total.upper, known):
                body = total.body if index in chosen else total.line
                vector = self.value(body, vector, {**known, f"#{total.level}": index})
            found = add(found, vector)
        return found

    def tree(self, tree: Any, argument: Vector = ()) -> Vector:
        """The value of a plain tree of `strategies.trees`, of which no law has been used."""
        match tree:
            case ("sum", terms):
                return add(*(scale(coefficient, self.tree(term, argument)) for coefficient, term in terms))
            case ("compose", left, right):
                return self.tree(left, self.tree(right, argument))
            case ("dressed", operator, state):
                return self.tree_dressing(operator, self.tree(state))[0](argument)
            case ("source", operator, state):
                return self.tree_dressing(operator, self.tree(state))[1]
            case ("leaf", operator):
                return self.value(operator, argument)
        raise TypeError(f"a tree without a meaning: {tree!r}")

    def tree_dressing(self, tree: Any, state: Vector) -> tuple[Map, Vector]:
        """The linear part and the source of a plain tree at the value of a state, by the chain rule on values."""
        match tree:
            case ("leaf", Atom() as atom) if atom.kind != Kind.LINEAR:
                matrix = self.split(atom, state)
                return lambda vector: apply(matrix, vector), self.left_over(atom, state)
            case ("sum", terms):
                parts = [(coefficient, *self.tree_dressing(term, state)) for coefficient, term in terms]
                return (
                    lambda vector: add(*(scale(coefficient, linear(vector)) for coefficient, linear, _ in parts)),
                    add(*(scale(coefficient, source) for coefficient, _, source in parts)),
                )
            case ("compose", left, right):
                inner, inner_source = self.tree_dressing(right, state)
                outer, outer_source = self.tree_dressing(left, self.tree(right, state))
                return lambda vector: outer(inner(vector)), add(outer(inner_source), outer_source)
        return lambda vector: self.tree(tree, vector), scale(0, self.tree(tree, state))


def member(atom: Atom, known: Environment) -> Atom:
    """The atom that a member of a family is in an environment."""
    indices = [int(number(index, known)) for index in atom.indices]
    name = atom.base + "_".join(map(str, indices))
    return Atom(name, kind=atom.kind, domain=atom.domain, codomain=atom.codomain)


def counterexample(
    lhs: Operator,
    rhs: Operator,
    *,
    interpretations: Iterable[Interpretation] | None = None,
    points: int = 3,
    environment: Environment | None = None,
) -> str | None:
    """Where two operators differ as maps, in words; None when they agree at every random point."""
    if (lhs.domain, lhs.codomain) != (rhs.domain, rhs.codomain):
        return f"{lhs} maps {lhs.domain} to {lhs.codomain}, {rhs} maps {rhs.domain} to {rhs.codomain}"
    for model in interpretations or (Interpretation(1), Interpretation(2)):
        for number in range(points):
            argument = model.point(lhs.domain, number)
            left, right = model.value(lhs, argument, environment), model.value(rhs, argument, environment)
            if left != right:
                return f"{lhs} is {left} and {rhs} is {right} at {argument}, seed {model.seed}"
    return None


def tree_counterexample(tree: Any, built: Operator, *, points: int = 3) -> str | None:
    """Where a plain tree and the operator built from it differ, in words; None when they agree."""
    for model in (Interpretation(1), Interpretation(2)):
        for number in range(points):
            argument = model.point(built.domain, number)
            left, right = model.tree(tree, argument), model.value(built, argument)
            if left != right:
                return f"{tree} is {left} and {built} is {right} at {argument}, seed {model.seed}"
    return None
