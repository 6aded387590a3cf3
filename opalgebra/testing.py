"""What to test with: declared facts checked on functions of arrays, and errors planted to see a verification reject them.

Checks need NumPy alone; planting needs PyTorch, as the bindings it works on do.
"""

from typing import TYPE_CHECKING

from opalgebra.conformance import Conformance, assert_fact, check_fact
from opalgebra.expr import Atom

if TYPE_CHECKING:
    from opalgebra.numeric.binding import Binding

__all__ = ["Conformance", "assert_fact", "check_fact", "plant"]


def plant(binding: "Binding", vertex: Atom, error: float) -> "Binding":
    """The binding with the output of one vertex wrong by a relative error, in its dressed form; backgrounds unchanged.

    What a verification must be seen to reject before it is believed. InputError when the vertex is not the model's.
    """
    from opalgebra.numeric.planting import planted

    return planted(binding, vertex, error)
