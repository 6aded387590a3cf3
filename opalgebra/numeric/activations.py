"""The elementwise functions of feed-forward networks by name, recognised by their values."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.errors import ModelError

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": functional.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "quick_gelu": lambda values: values * torch.sigmoid(1.702 * values),
    "relu_squared": lambda values: functional.relu(values).square(),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "identity": lambda values: values,
}


def name_of(activation: Activation) -> str:
    """The name of the function with the same values on a grid from -40 to 40, up to rounding. ModelError for another one."""
    grid = torch.linspace(-40, 40, 2001, dtype=torch.float64)
    values = activation(grid.clone())
    for name, known in ACTIVATIONS.items():
        expected = known(grid)
        if torch.allclose(values, expected, rtol=2.0**-44, atol=2.0**-44):
            return name
    raise ModelError(
        f"the activation {type(activation).__name__} is none of {', '.join(ACTIVATIONS)}, so it cannot be stored by name; "
        "record with weights='reference'"
    )
