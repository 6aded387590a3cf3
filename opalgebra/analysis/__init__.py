"""What is asked of a bound model beyond its series."""

from opalgebra.analysis.lie import bch, magnus
from opalgebra.analysis.measurement import frozen_logits, logit_lens

__all__ = ["bch", "frozen_logits", "logit_lens", "magnus"]
