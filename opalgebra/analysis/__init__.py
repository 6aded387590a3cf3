"""What is asked of a bound model beyond its series."""

from opalgebra.analysis.measurement import frozen_logits, logit_lens
from opalgebra.analysis.strongest import Strongest, strongest_diagrams, strongest_worldlines
from opalgebra.analysis.token_flow import token_flow

__all__ = ["Strongest", "frozen_logits", "logit_lens", "strongest_diagrams", "strongest_worldlines", "token_flow"]
