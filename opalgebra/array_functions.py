"""Operators as functions of arrays, by a function given for each atom: the values alone, by none of the algebra's laws.

Sums, compositions, commutators and tensor products are computed from the functions given; any other node needs a function
of its own. Arrays pass between functions in float64, and each function gets a new array in the dtype asked for.
"""

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

import numpy as np

from opalgebra.atoms import Family
from opalgebra.commutator import Commutator
from opalgebra.errors import InputError
from opalgebra.expr import Atom, Compose, Identity, Index, Operator, Sum, Zero
from opalgebra.facts import Every, is_member
from opalgebra.recursion import Steps, without_recursion
from opalgebra.scalar import Polynomial, is_natural
from opalgebra.space import POSITIONS, Space, X
from opalgebra.tensor import Tensor

Array = np.ndarray[Any, Any]
Nudge = Callable[[Array], Array]
Shapes = tuple[int, ...] | Mapping[Space, tuple[int, ...]]


class NotFiniteError(Exception):
    """A function gave NaN or infinity; says which and where."""


@final
class ArrayFunctions:
    """Operators as functions of float64 arrays, by functions that compute in a dtype of their own.

    `unit` is the unit roundoff of the coarsest dtype met, `inner` the entries of the largest array met.
    """

    def __init__(self, functions: Mapping[Any, Any], shapes: Shapes, dtype: Any, inner: int | None) -> None:
        self.functions: dict[Operator, Any] = {}
        for key, value in functions.items():
            if isinstance(key, Family) and isinstance(value, Mapping):
                self.functions |= {key[index]: member for index, member in value.items()}
            elif isinstance(key, Operator):
                self.functions[key] = value
            else:
                raise InputError(f"{key!r} has no function; give {{F: f}} of an operator, or {{V: {{1: f, 2: g}}}} of a family")
        for node, value in self.functions.items():
            if callable(value) == node.is_state:
                raise InputError(f"{node} is given as {type(value).__name__}; give a map its function, and a state its array")
        self.shapes = dict(shapes) if isinstance(shapes, Mapping) else {X: tuple(shapes)}
        if not isinstance(shapes, Mapping) and len(shapes) == len(X.factors):
            self.shapes |= {Space(name): (size,) for name, size in zip(X.factors, shapes)}
        for space, sizes in self.shapes.items():
            if not all(is_natural(size) and size for size in sizes):
                raise InputError(f"the shape {sizes!r} of {space} is no tuple of whole numbers from 1 on")
        self.make, self.limits = _library(dtype)
        self.unit = max(float(self.limits.eps) / 2, 2.0**-53)
        self.given, self.inner = inner is not None, 1 if inner is None else inner

    def shape(self, space: Space) -> tuple[int, ...]:
        """The shape of arrays in a space. InputError when it was not given."""
        parts = [self.shapes.get(Space(name)) for name in space.factors]
        if space not in self.shapes and None in parts:
            raise InputError(f"no shape is given for {space}; pass shape={{space: (size, ...), ...}} with it or its factors")
        return self.shapes[space] if space in self.shapes else tuple(size for part in parts for size in part or ())

    def members(self, operand: Operator | Family) -> list[Operator]:
        """The operator, or the members of a family that have functions."""
        if isinstance(operand, Operator):
            return [operand]
        found = [atom for atom in self.functions if is_member(atom, operand)]
        if not found:
            raise InputError(f"no function is given for a member of {operand}; give {{{operand.name}: {{1: f, 2: g}}}}")
        return found

    def indices(self, fact: Every) -> list[int]:
        """The values of the index at which every member that a fact speaks of has a function."""
        met = [index for atom in self.functions if isinstance(atom, Atom) for index in atom.indices if isinstance(index, int)]
        stated = {index: fact.equation(index) for index in range(max(met, default=-1) + 1)}
        found = [i for i, both in stated.items() if {*both.lhs.atoms, *both.rhs.atoms} <= self.functions.keys()]
        if not found:
            raise InputError(f"'{fact}' has no functions at any index; give {{V: {{0: f, 1: g}}}} of each of its families")
        return found

    def projectors(self, family: Family, space: Space) -> dict[Index, Callable[[Array], Array]]:
        """The projectors on the positions up to each one: those given, or on all but the last, whose projector is 1."""
        given = [atom for atom in self.functions if isinstance(atom, Atom) and is_member(atom, family)]
        if given:
            return {atom.indices[0]: partial(self.apply, atom) for atom in given}
        name = POSITIONS.factors[0]
        if space.factors.count(name) != 1 or POSITIONS not in self.shapes:
            raise InputError(f"no axis of {space} is known to be that of positions; give the projectors {family.name}[t]")
        axis = len(self.shape(Space(*space.factors[: space.factors.index(name)])))
        size = self.shape(space)[axis]

        def kept(position: int, array: Array) -> Array:
            return np.where(np.arange(size).reshape(-1, *[1] * (array.ndim - axis - 1)) <= position, array, 0)

        return {position: partial(kept, position) for position in range(size - 1)}

    def rounded(self, array: Array) -> Array:
        """The array in the dtype of the functions' arguments."""
        return _read(self.make(array))[0]

    def apply(self, operator: Operator, argument: Array | None, nudge: Nudge | None = None) -> Array:
        """The value of an operator at an argument, None for a state; `nudge` changes what enters and leaves functions."""
        nudged = nudge or (lambda array: array)
        start = None if argument is None else nudged(argument)
        return without_recursion(self._applied(operator, start, {}, nudged))

    def _applied(self, node: Operator, at: Array | None, known: dict[Any, Any], nudge: Nudge) -> Steps[Array]:
        key = (node, id(at))
        if key not in known:
            known[key] = at, (yield self._computed(node, at, known, nudge))
        return known[key][1]  # type: ignore[no-any-return]

    def _computed(self, node: Operator, at: Any, known: dict[Any, Any], nudge: Nudge) -> Steps[Any]:
        if node in self.functions:
            return nudge(self._value(node, at))
        if isinstance(node, Compose):
            right = yield self._applied(node.right, at, known, nudge)
            return (yield self._applied(node.left, right, known, nudge))
        if isinstance(node, Sum):
            total: Any = 0
            for coefficient, term in node.terms:
                assert not isinstance(coefficient, Polynomial)
                total = total + float(coefficient) * (yield self._applied(term, at, known, nudge))
            return total
        if isinstance(node, Commutator):
            return (yield self._applied(node.unfolded, at, known, nudge))
        if isinstance(node, Tensor):
            return (yield self._side_by_side(node, at, known, nudge))
        if isinstance(node, Identity):
            return at
        if isinstance(node, Zero):
            return np.zeros(self.shape(node.codomain))
        raise InputError(f"no function is given for {node}; give it one of its own, as {{{node}: f}}")

    def _side_by_side(self, node: Tensor, at: Array, known: dict[Any, Any], nudge: Nudge) -> Steps[Array]:
        """Each block on its own axes, at every value of the others."""
        start = 0
        for block in node.blocks:
            domain, codomain = self.shape(block.domain), self.shape(block.codomain)
            end = start + len(domain)
            before, after = at.shape[:start], at.shape[end:]
            slices = np.moveaxis(at.reshape(*before, math.prod(domain), *after), start, -1).reshape(-1, *domain)
            images = []
            for one in slices:
                images.append((yield self._applied(block, one, known, nudge)))  # noqa: PERF401
            image = np.moveaxis(np.array(images).reshape(*before, *after, math.prod(codomain)), -1, start)
            at = image.reshape(*before, *codomain, *after)
            start += len(codomain)
        return at

    def _value(self, node: Operator, at: Array | None) -> Array:
        """The value of a function, or the array of a state, checked."""
        with np.errstate(all="ignore"):
            image = self.functions[node] if node.is_state else self.functions[node](self.make(at))
        array, unit = _read(image)
        if array.shape != self.shape(node.codomain) or unit is None:
            raise InputError(
                f"the function of {node} gives an array of shape {array.shape} and dtype {getattr(image, 'dtype', None)}, but "
                f"floating-point numbers of the shape {self.shape(node.codomain)} are expected"
            )
        if not np.isfinite(array).all():
            place = np.argwhere(~np.isfinite(array))[0]
            raise NotFiniteError(f"{node} gives {array[tuple(place)]} at {place.tolist()}")
        self.unit = max(self.unit, unit)
        if not self.given:
            self.inner = max(self.inner, array.size, 0 if at is None else at.size)
        return array


def _library(dtype: Any) -> tuple[Callable[[Any], Any], Any]:
    """What makes arrays of a dtype, a new one each time, and the limits of the dtype."""
    in_torch = type(dtype).__module__ == "torch"
    if not (dtype.is_floating_point if in_torch else np.issubdtype(dtype, np.floating)):
        raise InputError(f"{dtype!r} has no floating-point numbers; use float64, or another dtype of NumPy or PyTorch that has")
    if in_torch:
        torch = sys.modules["torch"]
        return lambda array: torch.tensor(array, dtype=dtype), torch.finfo(dtype)
    return lambda array: np.array(array, dtype=dtype), np.finfo(dtype)


def _read(image: Any) -> tuple[Array, float | None]:
    """An array of NumPy or PyTorch in float64, and its unit roundoff; None when it has no floating-point numbers."""
    if type(image).__module__.startswith("torch") and hasattr(image, "detach"):
        unit = sys.modules["torch"].finfo(image.dtype).eps / 2 if image.is_floating_point() else None
        return image.detach().to("cpu", sys.modules["torch"].float64, copy=True).numpy(), unit
    array = np.asarray(image)
    if not np.issubdtype(array.dtype, np.floating):
        return array, None
    return array.astype(np.float64), float(np.finfo(array.dtype).eps) / 2
