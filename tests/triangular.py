"""An oracle for Lie series: strictly upper triangular rational matrices, with finite exponentials and logarithms.

Of matrices of size n + 1 every product of n + 1 vanishes, so that a series in the number of factors is exact after order n. An
operator is evaluated straight from its nodes.
"""

from fractions import Fraction
from random import Random

from opalgebra.commutator import Commutator
from opalgebra.expr import Atom, Compose, Identity, Operator, Sum, Zero
from opalgebra.function import FunctionOf

Matrix = tuple[tuple[Fraction, ...], ...]


def one(size: int) -> Matrix:
    return tuple(tuple(Fraction(i == j) for j in range(size)) for i in range(size))


def combined(*parts: tuple[Fraction | int, Matrix]) -> Matrix:
    size = range(len(parts[0][1]))
    return tuple(tuple(sum((c * m[i][j] for c, m in parts), start=Fraction(0)) for j in size) for i in size)


def times(left: Matrix, right: Matrix) -> Matrix:
    columns = list(zip(*right))
    return tuple(tuple(sum((a * b for a, b in zip(row, column)), start=Fraction(0)) for column in columns) for row in left)


def random_matrix(random: Random, size: int) -> Matrix:
    def entry(i: int, j: int) -> Fraction:
        return Fraction(random.randint(-4, 4), random.randint(1, 5)) if j > i else Fraction(0)

    return tuple(tuple(entry(i, j) for j in range(size)) for i in range(size))


def exponential(matrix: Matrix) -> Matrix:
    total = power = one(len(matrix))
    for k in range(1, len(matrix)):
        power = combined((Fraction(1, k), times(power, matrix)))
        total = combined((1, total), (1, power))
    return total


def logarithm(matrix: Matrix) -> Matrix:
    rest = combined((1, matrix), (-1, one(len(matrix))))
    total, power = combined((0, matrix)), one(len(matrix))
    for k in range(1, len(matrix)):
        power = times(power, rest)
        total = combined((1, total), (Fraction((-1) ** (k + 1), k), power))
    return total


def value(operator: Operator, atoms: dict[Operator, Matrix], size: int) -> Matrix:
    """The matrix of an operator."""
    match operator:
        case Atom():
            return atoms[operator]
        case Identity():
            return one(size)
        case Zero():
            return combined((0, one(size)))
        case Sum():
            return combined(*((c, value(term, atoms, size)) for c, term in operator.terms))
        case Compose():
            return times(value(operator.left, atoms, size), value(operator.right, atoms, size))
        case Commutator():
            left, right = (value(part, atoms, size) for part in operator.parts)
            return combined((1, times(left, right)), (-1, times(right, left)))
        case FunctionOf():
            return exponential(value(operator.operator, atoms, size))
    raise NotImplementedError(type(operator))
