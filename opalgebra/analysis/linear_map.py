"""A linear map known by what it does to columns, for products too large to be written as matrices."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from opalgebra.analysis.matrices import square
from opalgebra.errors import InputError

Columns = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True, eq=False)
class LinearMap:
    """apply and adjoint take columns (size, k) in float64 on `device` to columns; adjoint is None where it is not known."""

    size: int
    apply: Columns
    adjoint: Columns | None = None
    device: torch.device | str = "cpu"
    dtype: torch.dtype = torch.float64

    def __call__(self, columns: Tensor) -> Tensor:
        return self.apply(columns)


def linear_map(given: Any, *, name: str = "matrix") -> LinearMap:
    """A square matrix (NumPy or torch, on its own device) as a linear map, in float64 or complex128; a linear map as it is.

    InputError for an array that is empty or not square, nan or infinity.

    >>> from opalgebra.analysis import linear_map
    >>> linear_map([[0.0, 1.0], [0.0, 0.0]]).size
    2
    """
    if isinstance(given, LinearMap):
        return given
    device = given.device if isinstance(given, Tensor) else torch.device("cpu")
    matrix = torch.from_numpy(square(given, name=name)).to(device)

    def applied(to: Tensor, columns: Tensor) -> Tensor:
        dtype = torch.promote_types(to.dtype, columns.dtype)
        return to.to(dtype) @ columns.to(dtype)

    return LinearMap(len(matrix), partial(applied, matrix), partial(applied, matrix.mH), device, matrix.dtype)


def composed(maps: Sequence[LinearMap]) -> LinearMap:
    """The product of linear maps of one size; the first given acts first. InputError without any, or for several sizes.

    >>> from opalgebra.analysis import composed, linear_map
    >>> shear = linear_map([[1.0, 1.0], [0.0, 1.0]])
    >>> import torch
    >>> composed([shear, shear])(torch.tensor([[0.0], [1.0]], dtype=torch.float64)).flatten().tolist()
    [2.0, 1.0]
    """
    maps = tuple(maps)
    if not maps:
        raise InputError("a product of no maps was asked, and its size is unknown; give at least one")
    check_sizes(maps)

    def apply(columns: Tensor) -> Tensor:
        for part in maps:
            columns = part.apply(columns)
        return columns

    def adjoint(columns: Tensor) -> Tensor:
        for part in reversed(maps):
            assert part.adjoint is not None
            columns = part.adjoint(columns)
        return columns

    both = adjoint if all(part.adjoint is not None for part in maps) else None
    dtype = torch.complex128 if any(part.dtype.is_complex for part in maps) else torch.float64
    return LinearMap(maps[0].size, apply, both, maps[0].device, dtype)


def check_sizes(maps: Iterable[LinearMap]) -> None:
    """InputError unless all maps have one size."""
    sizes = list(dict.fromkeys(part.size for part in maps))
    if len(sizes) > 1:
        raise InputError(f"maps of sizes {sizes[0]} and {sizes[1]} were given; the factors of a product act on one space")


def random_frame(size: int, k: int, seed: int, like: LinearMap) -> Tensor:
    """k orthonormal columns, the same for a seed on every device."""
    random = np.random.default_rng(seed)
    columns = torch.from_numpy(random.standard_normal((size, k))).to(like.device)
    frame: Tensor = torch.linalg.qr(columns.to(like.dtype))[0]
    return frame
