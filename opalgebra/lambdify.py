"""From operators to functions of arrays: composition is the matrix product, a number in a sum a multiple of the identity.

    lambdify(op)(values)              the matrix of a linear map, or the array of a state
    lambdify(op)(values, argument)    any map, applied to a state array

A linear atom is a matrix (codomain, domain), a state an array (n,), or (n, k) for k states as columns; a nonlinear atom is a
function of such an array. Then `A @ B` is `a @ b`, `1 + A` adds the identity matrix and not ones, `A**2` is `a @ a`, and
`F @ s` is `f(s)`. A dressing `F<s>` (a matrix) or a source (a state) has a meaning by a split only, so it needs a value of
its own, given for the node.

An operator is turned once into steps, each numbered by what it computes, so that nothing is computed twice; no text is
evaluated. On a state or an argument only matrix-vector products are made, never matrix-matrix ones. Arrays come from NumPy,
PyTorch or any library with an array namespace; a coefficient is an integer or the nearest float (a Fraction for arrays of
objects), and dtypes are promoted by the library. NaN and infinities are not looked for.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, final

from opalgebra.errors import InputError, LimitError, NotLinearError
from opalgebra.expr import Atom, Compose, Dressed, Identity, Operator, Source, Sum, Zero, postorder
from opalgebra.recursion import Steps, without_recursion
from opalgebra.space import K, Space

LIMIT = 1_000_000
Array = Any
Values = Mapping[str | Operator, Any]
Found = dict[Operator, Any]

MATRIX, POINT, ARGUMENT = -1, -2, -3


def lambdify(operator: Operator) -> Callable[..., Array]:
    """The function `f(values=None, argument=None, **named)` that computes the operator on arrays.

    `values` maps atoms, names of atoms, dressings and sources to what they stand for; keywords add values by name; values
    for anything else are ignored. Shapes: (codomain, domain) for a linear map without argument, else (codomain,) or
    (codomain, k) as the states have. InputError, naming the atom, for a missing value, a shape that does not fit, or arrays
    of different libraries, devices or (PyTorch) dtypes. NotLinearError for the matrix of a nonlinear map. LimitError for
    more than a million steps.

    >>> import numpy as np, opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.lambdify(1 + A @ B)(A=np.array([[0, 1], [1, 0]]), B=np.array([[1, 2], [3, 4]]))
    array([[4, 4],
           [1, 3]])
    """
    if not isinstance(operator, Operator):
        raise InputError(f"lambdify takes an operator, not {type(operator).__name__}; of a theorem, give .lhs or .rhs")
    nodes = list(postorder(operator, backgrounds=False))
    for node in nodes:
        _refuse_without_arrays(node)
    leaves = tuple(node for node in nodes if isinstance(node, Atom | Dressed | Source))
    program = cache(lambda start: _program(operator, start))

    def function(values: Values | None = None, argument: Array = None, /, **named: Any) -> Array:
        if argument is not None and operator.is_state:
            raise InputError(f"{operator} is a state and acts on nothing; call it without an argument")
        if argument is None and not operator.is_state and not operator.is_linear:
            raise NotLinearError(f"{operator} is not linear, so it has no matrix; give a state array as the second argument")
        start = POINT if operator.is_state else MATRIX if argument is None else ARGUMENT
        found = _lookup(leaves, {} if values is None else values, named)
        return _run(program(start), found, _check(found, operator.domain, argument), argument)

    return function


def _refuse_without_arrays(node: Operator) -> None:
    if not isinstance(node, Atom | Compose | Dressed | Identity | Source | Sum | Zero):
        raise InputError(f"{node} ({type(node).__name__}) has no array; write it as sums and products")
    for coefficient in [coefficient for coefficient, _ in node.terms] if isinstance(node, Sum) else []:
        if not isinstance(coefficient, Fraction):
            raise InputError(f"the coefficient {coefficient} has symbols and so is no number; give them values")


def _lookup(leaves: tuple[Operator, ...], values: Values, named: Mapping[str, Any]) -> Found:
    """The value of every leaf, given for its node or by its name. InputError when there is none, or more than one."""
    times = Counter(leaf.name for leaf in leaves if isinstance(leaf, Atom))
    found: Found = {}
    for leaf in leaves:
        name = leaf.name if isinstance(leaf, Atom) and times[leaf.name] == 1 else ""
        given = [values[key] for key in (leaf, name) if key in values] + [named[name] for _ in range(name in named)]
        if len(given) > 1:
            raise InputError(f"{leaf} is given {len(given)} values; give one, by name or for the node")
        found.update((leaf, value) for value in given)
    missing = [str(leaf) for leaf in leaves if leaf not in found]
    if missing:
        raise InputError(
            f"no value for {', '.join(missing[:5])}{' ...' * (len(missing) > 5)}; give an atom its value by name, and a "
            "dressing, a source or one of two atoms of the same name by {node: value}"
        )
    return found


@final
@dataclass(frozen=True)
class Step:
    """One computation: a leaf (of matrix, state, or applied to its input), a matrix product, or a linear combination."""

    number: int
    leaf: Operator | None
    inputs: tuple[int, ...]
    coefficients: tuple[Any, ...] = ()


Program = tuple[tuple[Step, ...], int, dict[int, list[int]]]


def _program(operator: Operator, start: int) -> Program:
    """Steps, the number of the result, and for each step the numbers that are not needed after it."""
    steps: list[Step] = []
    known: dict[tuple[Operator, int], int] = {}

    def emit(leaf: Operator | None, inputs: tuple[int, ...], coefficients: tuple[Any, ...] = ()) -> int:
        if len(steps) >= LIMIT:
            raise LimitError(f"the operator needs more than {LIMIT:,} steps; name parts of it, and compute those first")
        steps.append(Step(len(steps), leaf, inputs, coefficients))
        return len(steps) - 1

    def computed(node: Operator, at: int) -> Steps[int]:
        """The number under which `node`, applied to what has the number `at`, is computed."""
        if (node, at) in known:
            return known[node, at]
        if isinstance(node, Compose):
            right = yield computed(node.right, at)
            left = yield computed(node.left, MATRIX if at == MATRIX else right)
            result = emit(None, (left, right)) if at == MATRIX else left
        elif isinstance(node, Sum):
            inputs = []
            for _, term in node.terms:
                number = yield computed(term, at)
                inputs.append(number)
            result = emit(None, tuple(inputs), tuple(coefficient for coefficient, _ in node.terms))
        elif isinstance(node, Identity) and at != MATRIX:
            result = at
        else:
            result = emit(node, () if at in (MATRIX, POINT) else (at,))
        known[node, at] = result
        return result

    result = without_recursion(computed(operator, start))
    last = {number: step.number for step in steps for number in step.inputs}
    finished: dict[int, list[int]] = {}
    for number, step in last.items():
        finished.setdefault(step, []).append(number)
    return tuple(steps), result, finished


def _run(program: Program, found: Found, arrays: "_Arrays", argument: Array) -> Array:
    steps, result, finished = program
    computed = {ARGUMENT: argument}
    for step in steps:
        inputs = [computed[number] for number in step.inputs]
        if step.coefficients:
            computed[step.number] = _combination(step.coefficients, inputs)
        elif step.leaf is None:
            computed[step.number] = inputs[0] @ inputs[1]
        else:
            computed[step.number] = _leaf(step.leaf, found, arrays, *inputs)
        for number in finished.get(step.number, ()):
            del computed[number]
    return computed[result]


def _leaf(leaf: Operator, found: Found, arrays: "_Arrays", *inputs: Array) -> Array:
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


def _combination(coefficients: tuple[Any, ...], arrays: list[Array]) -> Array:
    total = None
    for coefficient, array in zip(coefficients, arrays):
        term = array if coefficient == 1 else _number(coefficient, array) * array
        total = term if total is None else total + term
    return total


def _number(coefficient: Fraction, array: Array) -> int | float | Fraction:
    if str(getattr(array, "dtype", "")) == "object":
        return coefficient
    if coefficient.denominator == 1 and abs(coefficient) < 2**53:
        return int(coefficient)
    try:
        return float(coefficient)
    except OverflowError:
        raise InputError("a coefficient is larger than every float; use arrays of exact numbers (dtype=object)") from None


@final
class _Arrays:
    """What the arrays of one call agree on: the size of each space, the columns of states, library, device and dtype."""

    def __init__(self) -> None:
        self.sizes: dict[Space, tuple[int, object]] = {K: (1, "definition")}
        self.columns: tuple[tuple[int, ...], object] | None = None
        self.first: tuple[Array, object] | None = None

    def admit(self, name: object, array: Array, *spaces: Space) -> None:
        """Takes the matrix of a map (codomain, domain), or an array of states in one space. InputError if it does not fit."""
        shape = getattr(array, "shape", None)
        space = spaces[0]
        wanted = f"a matrix ({space}, {spaces[1]})" if len(spaces) == 2 else f"a vector ({space},) or columns ({space}, k)"
        if shape is None:
            raise InputError(f"{name} is given as {type(array).__name__}, but {wanted} is expected; give an array")
        shape = tuple(shape)
        if len(shape) != 2 and not len(shape) == len(spaces) == 1:
            raise InputError(f"{name} has the shape {shape}, but {wanted} is expected; give an array of that shape")
        for space, size in zip(spaces, shape):
            known, where = self.sizes.setdefault(space, (size, name))
            if known != size:
                raise InputError(
                    f"{name} has the shape {shape}, but {wanted} is expected, and {space} has the size {known} by {where}; "
                    "give arrays whose sizes fit"
                )
        if len(spaces) == 1:
            columns, where = self.columns = self.columns or (shape[1:], name)
            if shape[1:] != columns:
                raise InputError(
                    f"{name} has {_columns(shape[1:])}, but {where} has {_columns(columns)}; give all states as vectors, or "
                    "all with as many columns"
                )
        known_array, where = self.first = self.first or (array, name)
        if _make(array) != _make(known_array):
            raise InputError(f"{name} is {_make(array)}, but {where} is {_make(known_array)}; convert one of them")

    def constant(self, node: Operator, *inputs: Array) -> Array:
        """The matrix of an identity or zero; a zero state, or the zero that a zero map makes of its input."""
        spaces = (node.codomain,) if inputs or node.is_state else (node.codomain, node.domain)
        for space in spaces:
            if space not in self.sizes:
                raise InputError(f"{node} needs the size of {space}, and no value on that space gives it; give an argument")
        if self.first is None or (namespace := _namespace(self.first[0])) is None:
            raise InputError(f"{node} cannot be made an array, as no value says of which library; give NumPy or PyTorch arrays")
        array = self.first[0]
        options = {name: getattr(array, name) for name in ("dtype", "device") if hasattr(array, name)}
        sizes = [self.sizes[space][0] for space in spaces]
        if isinstance(node, Identity):
            return namespace.eye(sizes[0], **options)
        columns = self.columns[0] if self.columns and len(spaces) == 1 else ()
        return namespace.zeros((*sizes, *columns), **options)


def _check(found: Found, domain: Space, argument: Array) -> _Arrays:
    """The values of a call, checked against each other. InputError naming the first that does not fit."""
    arrays = _Arrays()
    if argument is not None:
        arrays.admit("the argument", argument, domain)
    for leaf, value in found.items():
        if leaf.is_state:
            arrays.admit(leaf, value, leaf.codomain)
        elif leaf.is_linear:
            arrays.admit(leaf, value, leaf.codomain, leaf.domain)
        elif not callable(value) or hasattr(value, "shape"):
            raise InputError(f"{leaf} is not linear, so its value is a function of a state array, not {type(value).__name__}")
    return arrays


def _columns(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} columns" if shape else "no columns"


def _namespace(array: Array) -> Any:
    """The module of array functions of the library that the array is from; None when it names none."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    for library, kind in (("torch", "Tensor"), ("numpy", "ndarray")):
        module = sys.modules.get(library)
        if module is not None and isinstance(array, getattr(module, kind)):
            return module
    return None


def _make(array: Array) -> str:
    """Library and device in words; with the dtype where the library multiplies equal dtypes only."""
    name = getattr(_namespace(array), "__name__", type(array).__name__)
    dtype = f" {str(array.dtype).removeprefix('torch.')}" if name == "torch" else ""
    return f"an array of {name}{dtype}" + (f" on {array.device}" if hasattr(array, "device") else "")
