"""What every family's adapter gives: the maps of each stage, the read-out, and the sizes of `M.T`."""

from collections.abc import Sequence
from dataclasses import dataclass

from opalgebra.numeric.blocks import Map
from opalgebra.numeric.interpretation import Readout


@dataclass(frozen=True, eq=False)
class Parts:
    """maps: the norm and the vertex of each stage; layers and heads of the model."""

    maps: Sequence[tuple[Map, Map]]
    readout: Readout
    layers: int
    heads: int
