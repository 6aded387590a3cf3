"""What is asked of a bound model beyond its series."""

from opalgebra.analysis.measurement import frozen_logits, logit_lens

__all__ = ["frozen_logits", "logit_lens"]
