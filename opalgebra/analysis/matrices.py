"""The arrays that an analysis takes: NumPy or torch, any device and number type; computed with in float64 or complex128.

Shorter numbers are taken as exact, since the spectrum of a non-normal matrix in float32 is noise: the cast loses nothing, and
how far the original was rounded, `unit_of`, enters the error estimates of what is asked of it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opalgebra.errors import InputError

Array = NDArray[Any]
UNIT = 2.0**-53
"""The unit roundoff of float64."""


def array(values: Any, *, name: str = "A", axes: int = 2) -> Array:
    """A copy in float64, or complex128 for complex numbers, in the memory of the CPU.

    InputError for another number of axes, an empty array, what is no number, and nan or infinity, named with their place.
    """
    found = _numpy(values, name)
    if found.ndim != axes:
        raise InputError(f"{name} has the shape {found.shape}, but an array of {axes} axes is needed; reshape it")
    if not found.size:
        raise InputError(f"{name} is empty, with the shape {found.shape}; give at least one number")
    found = np.array(found, dtype=np.complex128 if np.iscomplexobj(found) else np.float64)
    finite = np.isfinite(found)
    if not finite.all():
        place = tuple(int(index) for index in np.argwhere(~finite)[0])
        raise InputError(f"{name} is {found[place]} at index {place}; mend it, nothing can be computed from it")
    return found


def square(values: Any, *, name: str = "A") -> Array:
    """The same for a square matrix. InputError for another shape."""
    found = array(values, name=name)
    if found.shape[0] != found.shape[1]:
        raise InputError(f"{name} has the shape {found.shape}, but a square matrix is needed; give one")
    return found


def unit_of(values: Any) -> float:
    """The unit roundoff of the numbers as given: of float32, say; of float64 for integers and Python's numbers."""
    name = str(getattr(values, "dtype", "float64")).removeprefix("torch.")
    bits = {"float32": 24, "complex64": 24, "float16": 11, "complex32": 11, "bfloat16": 8}.get(name, 53)
    return float(2.0**-bits)


def spectral_norm(A: Array) -> float:
    """The largest singular value."""
    return float(np.linalg.norm(A, 2))


def _numpy(values: Any, name: str) -> Array:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) in ("torch.bfloat16", "torch.float16"):
            values = values.double()
        values = values.resolve_conj().numpy()
    found = np.asarray(values)
    if found.dtype.kind not in "biufc":
        raise InputError(f"{name} holds {found.dtype} and no numbers; give an array of numbers, of NumPy or torch")
    return found
