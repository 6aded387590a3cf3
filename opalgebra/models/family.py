"""What every family's adapter gives: the embedded input, the maps of each stage, the read-out, and the sizes of `M.T`."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from opalgebra.numeric.blocks import Map
from opalgebra.numeric.interpretation import Readout


@dataclass(frozen=True, eq=False)
class Parts:
    """embedded (batch, tokens, features); maps: the norm and the vertex of each stage; layers and heads of the model."""

    embedded: Tensor
    maps: Sequence[tuple[Map, Map]]
    readout: Readout
    layers: int
    heads: int
