"""From operators to functions of arrays: composition is the matrix product, a number in a sum a multiple of the identity.

    lambdify(op)(values)              the matrix of a linear map, or the array of a state
    lambdify(op)(values, argument)    any map, applied to a state array

A linear atom is a matrix (codomain, domain), a state an array (n,), or (n, k) for k states as columns; a nonlinear atom is a
function of such an array. Then `A @ B` is `a @ b`, `1 + A` adds the identity matrix and not ones, `A**2` is `a @ a`, and
`F @ s` is `f(s)`. A dressing `F<s>` (a matrix), a source (a state) or the inverse of a nonlinear map (a function) has a value
of its own, given for the node. Of matrices,

    tensor(A, B)      the Kronecker product; the last factor of a space varies fastest
    inverse(A)        the solution of a linear system; a singular matrix is refused
    adjoint(A)        the conjugate transpose, of the standard inner product; transpose(A) without conjugation
    trace(A, ...)     the sum over the diagonal of these factors
    function(f, A)    the value of a matrix function f, given by name; exp is known of NumPy arrays with SciPy, and of PyTorch's

and products and sums over an index are written out: give their lengths, and the symbols of coefficients, values by name.

An operator is turned once into steps, each numbered by what it computes, so that nothing is computed twice; no text is
evaluated. On a state or an argument products of words are applied factor by factor, tensor products block by block, so that
no matrix is made but under inverses, functions, traces and adjoints. Arrays come from NumPy, PyTorch or any library with an
array namespace; a coefficient is an integer or the nearest float (a Fraction for arrays of objects), and dtypes are promoted
by the library. NaN and infinities are not looked for.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, final

from opalgebra.adjoint import AdjointOf, Reversed
from opalgebra.arrays import Array, Arrays, combination, exponential, gathered, kronecker, scattered, solved, traced
from opalgebra.commutator import Commutator
from opalgebra.errors import InputError, LimitError, NotLinearError
from opalgebra.expr import Atom, Compose, Dressed, Identity, Operator, Source, Sum, Zero
from opalgebra.function import FunctionOf
from opalgebra.indexed import OrderedSum
from opalgebra.inverse import InverseOf
from opalgebra.kernel import instantiate
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import Polynomial, Symbol, is_natural, is_scalar, scalar_of
from opalgebra.space import Space
from opalgebra.tensor import Tensor
from opalgebra.trace import TraceOf

LIMIT = 1_000_000
Values = Mapping[Any, Any]
Found = dict[Operator, Any]
Numbers = tuple[tuple[Symbol, Any], ...]
Spaces = tuple[Space, ...]

MATRIX, POINT, ARGUMENT = -1, -2, -3


def lambdify(operator: Operator) -> Callable[..., Array]:
    """The function `f(values=None, argument=None, **named)` that computes the operator on arrays.

    `values` maps atoms, names of atoms and of functions, dressings, sources and inverses of nonlinear maps to what they stand
    for, scalar symbols and their names to numbers, and spaces to their sizes where no array tells them; keywords add values by
    name; values for anything else are ignored. Shapes: (codomain, domain) for a linear map without argument, else (codomain,)
    or (codomain, k) as the states have. InputError, naming the atom, for a missing value, a shape that does not fit, a matrix
    to be inverted that is singular, or arrays of different libraries, devices or (PyTorch) dtypes. NotLinearError for the
    matrix of a nonlinear map. LimitError for more than a million steps.

    >>> import numpy as np, opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.lambdify(1 + A @ B)(A=np.array([[0, 1], [1, 0]]), B=np.array([[1, 2], [3, 4]]))
    array([[4, 4],
           [1, 3]])
    """
    if not isinstance(operator, Operator):
        raise InputError(f"lambdify takes an operator, not {type(operator).__name__}; of a theorem, give .lhs or .rhs")

    @lru_cache(maxsize=16)
    def compiled(numbers: Numbers, start: int) -> tuple[Program, tuple[Operator, ...]]:
        at_values = instantiate(operator, dict(numbers)) if numbers else operator
        return _program(at_values, start), tuple(dict.fromkeys(_leaves(at_values)))

    def function(values: Values | None = None, argument: Array = None, /, **named: Any) -> Array:
        if argument is not None and operator.is_state:
            raise InputError(f"{operator} is a state and acts on nothing; call it without an argument")
        if argument is None and not operator.is_state and not operator.is_linear:
            raise NotLinearError(f"{operator} is not linear, so it has no matrix; give a state array as the second argument")
        start = POINT if operator.is_state else MATRIX if argument is None else ARGUMENT
        given = {} if values is None else values
        program, leaves = compiled(_numbers(operator, given, named), start)
        found = _lookup(leaves, given, named)
        return _run(program, found, _check(found, given, operator.domain, argument), argument)

    return function


def _numbers(operator: Operator, values: Values, named: Mapping[str, Any]) -> Numbers:
    """The values given for scalar symbols of an operator."""
    taken = {leaf.name for leaf in operator.atoms}
    found = []
    for symbol in sorted(operator.symbols):
        by_name = [symbol.name] if symbol.name not in taken else []
        given = [values[key] for key in (symbol, scalar_of(symbol), *by_name) if key in values]
        given += [named[key] for key in by_name if key in named]
        if len(given) > 1:
            raise InputError(f"{symbol.name} is given {len(given)} values; give one, by name or for the symbol")
        for value in given:
            if not is_scalar(value) and not is_natural(value):
                raise InputError(f"{symbol.name} is a scalar symbol and is given as {type(value).__name__}; give a number")
            found.append((symbol, value))
    return tuple(found)


def _leaves(operator: Operator) -> Iterator[Operator]:
    """What needs a value, from left to right."""
    seen: set[Operator] = set()
    stack = [operator]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Atom | Dressed | Source | FunctionOf) or _is_letter(node):
            yield node
        if isinstance(node, OrderedSum):
            stack.append(_written(node))
        elif not _is_letter(node):
            stack += reversed(node.parts)


def _is_letter(node: Operator) -> bool:
    return isinstance(node, InverseOf) and not node.is_linear


def _lookup(leaves: tuple[Operator, ...], values: Values, named: Mapping[str, Any]) -> Found:
    """The value of every leaf, given for its node or by its name. InputError when there is none, or more than one."""
    names: dict[Operator, str] = {leaf: leaf.name for leaf in leaves if isinstance(leaf, Atom | FunctionOf)}
    owners = Counter(name for name, _ in {(name, leaf if isinstance(leaf, Atom) else name) for leaf, name in names.items()})
    found: Found = {}
    for leaf in leaves:
        name = names.get(leaf, "")
        by_name = [name] if owners[name] == 1 else []
        given = [values[key] for key in (leaf, *by_name) if key in values] + [named[key] for key in by_name if key in named]
        if len(given) > 1:
            raise InputError(f"{leaf} is given {len(given)} values; give one, by name or for the node")
        found.update((leaf, value) for value in given)
    missing = [str(leaf) for leaf in leaves if leaf not in found and names.get(leaf) != "exp"]
    if missing:
        raise InputError(
            f"no value for {', '.join(missing[:5])}{' ...' * (len(missing) > 5)}; give an atom its value by name, and a "
            "dressing, a source or one of two atoms of the same name by {node: value}"
        )
    return found


@final
@dataclass(frozen=True)
class Step:
    """One computation from the results of earlier ones."""

    number: int
    operation: Callable[..., Array]
    inputs: tuple[int, ...]


Program = tuple[tuple[Step, ...], int, dict[int, list[int]]]


def _program(operator: Operator, start: int) -> Program:
    """Steps, the number of the result, and for each step the numbers that are not needed after it."""
    steps: list[Step] = []
    known: dict[tuple[Operator, int], int] = {}

    def emit(operation: Callable[..., Array], *inputs: int) -> int:
        if len(steps) >= LIMIT:
            raise LimitError(f"the operator needs more than {LIMIT:,} steps; name parts of it, and compute those first")
        steps.append(Step(len(steps), operation, inputs))
        return len(steps) - 1

    def computed(node: Operator, at: int) -> Steps[int]:
        """The number under which `node`, applied to what has the number `at`, is computed."""
        if (node, at) in known:
            return known[node, at]
        place = () if at in (MATRIX, POINT) else (at,)
        if isinstance(node, Compose):
            right = yield computed(node.right, at)
            left = yield computed(node.left, MATRIX if at == MATRIX else right)
            result = emit(_product, left, right) if at == MATRIX else left
        elif isinstance(node, Sum):
            inputs = []
            for _, term in node.terms:
                number = yield computed(term, at)
                inputs.append(number)
            result = emit(partial(_sum, _coefficients(node)), *inputs)
        elif isinstance(node, Identity) and at != MATRIX:
            result = at
        elif isinstance(node, Commutator):
            result = yield computed(node.unfolded, at)
        elif isinstance(node, OrderedSum):
            result = yield computed(_written(node), at)
        elif isinstance(node, Tensor):
            result = yield side_by_side(node, at)
        elif isinstance(node, InverseOf) and node.is_linear:
            inside = yield computed(node.operator, MATRIX)
            result = emit(partial(_solved, node), inside, *place)
        elif isinstance(node, Reversed | TraceOf | FunctionOf):
            if at == MATRIX:
                inside = yield computed(node.operator, MATRIX)
                result = emit(partial(_of_matrix, node), inside)
            else:
                whole = yield computed(node, MATRIX)
                result = emit(_product, whole, at)
        elif isinstance(node, Atom | Dressed | Source | Identity | Zero) or _is_letter(node):
            result = emit(partial(_leaf, node), *place)
        else:
            names = ", ".join(sorted(found.name for found in node.symbols))
            raise InputError(f"{node} is written out to be computed; give {names} a value")
        known[node, at] = result
        return result

    def side_by_side(node: Tensor, at: int) -> Steps[int]:
        """The Kronecker product; or one block after another, the last first, applied to its own factors of a state."""
        result = at
        matrices = []
        for place in reversed(range(len(node.blocks))):
            block = node.blocks[place]
            if at == MATRIX:
                matrices.append((yield computed(block, MATRIX)))
            elif not isinstance(block, Identity):
                before = tuple(other.domain for other in node.blocks[:place])
                after = tuple(other.codomain for other in node.blocks[place + 1 :])
                columns = emit(partial(_gathered, before, block.domain, after), result)
                applied = yield computed(block, columns)
                result = emit(partial(_scattered, before, block.codomain, after), applied, result)
        return emit(_kronecker, *reversed(matrices)) if at == MATRIX else result

    result = without_recursion(computed(operator, start))
    last = {number: step.number for step in steps for number in step.inputs}
    finished: dict[int, list[int]] = {}
    for number, step in last.items():
        finished.setdefault(step, []).append(number)
    return tuple(steps), result, finished


def _written(total: OrderedSum) -> Operator:
    """The sum over increasing indices, by its lowest: `E_n(a..) = E_n(a + 1..) @ U(a) + E_(n-1)(a + 1..) @ B(a)`, U the line.

    Holds for all maps, for a sum is distributed from the right.
    """
    if isinstance(total.upper, Polynomial) or isinstance(total.order, Polynomial):
        names = ", ".join(sorted(found.name for found in total.symbols))
        raise InputError(f"{total} is written out to be computed; give {names} a value")
    if total.upper * total.order > LIMIT:
        raise LimitError(f"the operator needs more than {LIMIT:,} steps; name parts of it, and compute those first")
    empty: Operator = Zero(total.domain, total.codomain)
    rows: list[Operator] = [Identity(total.domain), *[empty] * total.order]
    for index in range(total.upper, 0, -1):
        body, line = total.opened(index), total.line_at(index)
        rows = [rows[0] @ line, *(row @ line + shorter @ body for shorter, row in pairwise(rows))]
    return rows[-1]


def _coefficients(total: Sum) -> tuple[Fraction, ...]:
    for coefficient, _ in total.terms:
        if isinstance(coefficient, Polynomial):
            raise InputError(f"the coefficient {coefficient} has symbols and so is no number; give them values")
    return tuple(coefficient for coefficient, _ in total.terms if isinstance(coefficient, Fraction))


def _run(program: Program, found: Found, arrays: Arrays, argument: Array) -> Array:
    steps, result, finished = program
    computed = {ARGUMENT: argument}
    for step in steps:
        inputs = [computed[number] for number in step.inputs]
        computed[step.number] = step.operation(found, arrays, *inputs)
        for number in finished.get(step.number, ()):
            del computed[number]
    return computed[result]


def _leaf(leaf: Operator, found: Found, arrays: Arrays, *inputs: Array) -> Array:
    """The matrix or state of a leaf, or its value at an input."""
    if isinstance(leaf, Identity | Zero):
        return arrays.constant(leaf, *inputs)
    value = found[leaf]
    if not inputs:
        return value
    if leaf.is_linear:
        return value @ inputs[0]
    image = value(inputs[0])
    arrays.admit(f"the value of {leaf}", image, leaf.codomain)
    return image


def _product(found: Found, arrays: Arrays, left: Array, right: Array) -> Array:
    return left @ right


def _sum(coefficients: tuple[Fraction, ...], found: Found, arrays: Arrays, *inputs: Array) -> Array:
    return combination(coefficients, inputs)


def _solved(node: InverseOf, found: Found, arrays: Arrays, matrix: Array, *state: Array) -> Array:
    return solved(node, matrix, *state)


def _kronecker(found: Found, arrays: Arrays, *matrices: Array) -> Array:
    return kronecker(*matrices)


def _gathered(before: Spaces, space: Space, after: Spaces, found: Found, arrays: Arrays, state: Array) -> Array:
    return gathered(arrays.size(*before), arrays.size(space), state)


def _scattered(before: Spaces, space: Space, after: Spaces, found: Found, arrays: Arrays, image: Array, state: Array) -> Array:
    return scattered(arrays.size(*before), arrays.size(space), arrays.size(*after), image, state.shape[1:])


def _of_matrix(node: Operator, found: Found, arrays: Arrays, matrix: Array) -> Array:
    """The adjoint, transpose, trace or function of a matrix."""
    if isinstance(node, TraceOf):
        return traced(node, arrays.size, matrix)
    if isinstance(node, FunctionOf):
        image = found[node](matrix) if node in found else exponential(node, matrix)
        arrays.admit(f"the value of {node}", image, node.codomain, node.domain)
        return image
    return matrix.conj().T if isinstance(node, AdjointOf) else matrix.T


def _check(found: Found, values: Values, domain: Space, argument: Array) -> Arrays:
    """The values of a call, checked against each other. InputError naming the first that does not fit."""
    arrays = Arrays({space: size for space, size in values.items() if isinstance(space, Space)})
    if argument is not None:
        arrays.admit("the argument", argument, domain)
    for leaf, value in found.items():
        if isinstance(leaf, FunctionOf):
            if not callable(value) or hasattr(value, "shape"):
                raise InputError(f"{leaf.name} is a function of matrices, not {type(value).__name__}; give a function")
        elif leaf.is_state:
            arrays.admit(leaf, value, leaf.codomain)
        elif leaf.is_linear:
            arrays.admit(leaf, value, leaf.codomain, leaf.domain)
        elif not callable(value) or hasattr(value, "shape"):
            raise InputError(f"{leaf} is not linear, so its value is a function of a state array, not {type(value).__name__}")
    arrays.settle()
    return arrays
