"""What the arrays of one call agree on: library, device and dtype, the columns of states, and the size of every space.

The size of a product of spaces is the product of the sizes of its factors, and the scalars have the size 1. A size that no
array tells is concluded from the others where it can be: of `positions*features` and of `positions`, that of `features`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any, final

from opalgebra.errors import InputError
from opalgebra.expr import Identity, Operator
from opalgebra.inverse import InverseOf
from opalgebra.scalar import is_natural
from opalgebra.space import K, Space
from opalgebra.trace import TraceOf

Array = Any


def combination(coefficients: Sequence[Fraction], arrays: Sequence[Array]) -> Array:
    """The linear combination of arrays, a coefficient as an integer or the nearest float."""
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
class Arrays:
    """What the arrays of one call agree on: the size of each space, the columns of states, library, device and dtype."""

    def __init__(self, sizes: Mapping[Space, int]) -> None:
        self.sizes: dict[Space, tuple[int, object]] = {K: (1, "definition")}
        for space, size in sizes.items():
            if not is_natural(size) or (space == K and size != 1):
                raise InputError(f"the size of {space} is given as {size!r}; give a natural number, and 1 for K")
            self.sizes[space] = (int(size), "its own value")
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

    def settle(self) -> None:
        """Concludes the sizes of single factors from those of products. InputError when they contradict each other."""
        products = [space for space in self.sizes if len(space.factors) > 1]
        for _ in range(sum(len(space.factors) for space in products) + 1):
            for space in products:
                size, where = self.sizes[space]
                unknown = [name for name in space.factors if Space(name) not in self.sizes]
                known = prod(self.sizes[Space(name)][0] for name in space.factors if name not in unknown)
                if known and (len(unknown) > 1 or (unknown and size % known == 0)):
                    if len(unknown) == 1:
                        self.sizes[Space(*unknown)] = (size // known, where)
                elif size != known:
                    raise InputError(
                        f"{space} has the size {size} by {where}, which its factors of known size, together {known}, do not "
                        "fit; give arrays whose sizes fit"
                    )

    def size(self, *spaces: Space, needed_by: object = "a factor of a space") -> int:
        """The size of a product of spaces. InputError when no value tells it."""
        whole = Space(*(name for space in spaces for name in space.factors)) if len(spaces) != 1 else spaces[0]
        if whole in self.sizes:
            return self.sizes[whole][0]
        names = whole.factors if all(Space(name) in self.sizes for name in whole.factors) else ()
        if not names and len(spaces) > 1:
            return prod(self.size(space, needed_by=needed_by) for space in spaces)
        if not names:
            raise InputError(
                f"{needed_by} needs the size of {whole}, and no value on that space gives it; give an argument or {{space: "
                "size}"
            )
        return prod(self.sizes[Space(name)][0] for name in names)

    def constant(self, node: Operator, *inputs: Array) -> Array:
        """The matrix of an identity or zero; a zero state, or the zero that a zero map makes of its input."""
        spaces = (node.codomain,) if inputs or node.is_state else (node.codomain, node.domain)
        sizes = [self.size(space, needed_by=node) for space in spaces]
        if self.first is None or (namespace := _namespace(self.first[0])) is None:
            raise InputError(f"{node} cannot be made an array, as no value says of which library; give NumPy or PyTorch arrays")
        array = self.first[0]
        options = {name: getattr(array, name) for name in ("dtype", "device") if hasattr(array, name)}
        if isinstance(node, Identity):
            return namespace.eye(sizes[0], **options)
        columns = inputs[0].shape[1:] if inputs else self.columns[0] if self.columns and len(spaces) == 1 else ()
        return namespace.zeros((*sizes, *columns), **options)


def kronecker(first: Array, *others: Array) -> Array:
    """The Kronecker product of matrices."""
    for other in others:
        rows, columns = (one * two for one, two in zip(first.shape, other.shape))
        first = (first[:, None, :, None] * other[None, :, None, :]).reshape((rows, columns))
    return first


def gathered(before: int, size: int, state: Array) -> Array:
    """A state in a product of spaces of the sizes `before`, `size`, ..., with one of them first and the others as columns."""
    return state.reshape((before, size, -1)).swapaxes(0, 1).reshape((size, -1))


def scattered(before: int, size: int, after: int, image: Array, columns: tuple[int, ...]) -> Array:
    """The inverse of `gathered`, of a state with these columns."""
    return image.reshape((size, before, -1)).swapaxes(0, 1).reshape((before * size * after, *columns))


def solved(node: InverseOf, matrix: Array, *state: Array) -> Array:
    """The inverse of a matrix, or the solution of a linear system. InputError when it has none to working precision."""
    rows, columns = matrix.shape
    linalg = getattr(_namespace(matrix), "linalg", None)
    dtype = str(getattr(matrix, "dtype", "")).removeprefix("torch.")
    if rows != columns:
        raise InputError(f"{node} has no value: the matrix of {node.operator} has the shape ({rows}, {columns})")
    if linalg is None or dtype == "object":
        raise InputError(f"{node} cannot be computed of {_make(matrix)} with the dtype {dtype}; use arrays of floats")
    try:
        rank = int(linalg.matrix_rank(matrix))
        if rank == rows:
            return linalg.solve(matrix, *state) if state else linalg.inv(matrix)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"{node} cannot be computed: {str(error).splitlines()[0]}") from None
    raise InputError(
        f"{node} has no value: the matrix of {node.operator} is singular to the precision of {dtype}, with the rank {rank} of "
        f"{rows}; give other values"
    )


def exponential(node: Operator, matrix: Array) -> Array:
    """The matrix exponential: that of the library of the array, or for NumPy SciPy's. InputError where there is none."""
    space = _namespace(matrix)
    known = getattr(getattr(space, "linalg", None), "matrix_exp", None)
    if known is None and getattr(space, "__name__", "") == "numpy":
        known = _exponential_of_scipy(node)
    if known is None:
        raise InputError(f"{node} needs a matrix exponential, which {_make(matrix)} has none of; give the function exp by name")
    return known(matrix)


def _exponential_of_scipy(node: Operator) -> Callable[[Array], Array]:
    try:
        from scipy.linalg import expm
    except ModuleNotFoundError:
        raise InputError(
            f"{node} needs a matrix exponential, which for NumPy is SciPy's; run `pip install 'opalgebra[analysis]'`, or "
            "give the function exp by name"
        ) from None
    return expm  # type: ignore[no-any-return]


def traced(trace: TraceOf, size: Callable[..., int], matrix: Array) -> Array:
    """The sum over the diagonal of some factors of the domain and codomain of a matrix; runs of them together, last first."""
    rows, columns = list(trace.operator.codomain.factors), list(trace.operator.domain.factors)
    over = list(trace.over)
    while over:
        end = over.pop() + 1
        start = end - 1
        while over and over[-1] == start - 1:
            start = over.pop()
        width = size(Space(*rows[start:end]))
        above, left = size(Space(*rows[:start])), size(Space(*columns[:start]))
        blocks = matrix.reshape((above, width, matrix.shape[0] // (above * width), left, width, -1))
        below, right = blocks.shape[2], blocks.shape[5]
        matrix = sum(blocks[:, i, :, :, i, :] for i in range(width)).reshape((above * below, left * right))
        del rows[start:end], columns[start:end]
    return matrix


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
