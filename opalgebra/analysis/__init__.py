"""What is asked of matrices, of series, of bases, and of a bound model beyond its series.

    lie                                         Lie series of matrices, with the error of what is cut off
    sequences                                   what every extrapolator is given and gives
    rational, borel_sums                        Pade approximants and Borel sums of power series
    epsilon, minimal_polynomial, transforms     extrapolation of numbers and vectors to their limit
    fixed_point                                 Anderson's method and DIIS
    resummation                                 a series by any of these, beside its partial sum
    basis, channels                             the embedding as a frame, kernels and independence of heads
    regulators                                  what keeps a deep product finite, taken away one at a time
    strongest, token_flow                       diagrams by what they contribute to a logit
    measurement                                 probabilities, and logits along depth

Names are resolved on first use. Arrays are NumPy's or torch's; results are frozen, with NumPy arrays in float64.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_HOMES = {
    "lie": "bch magnus",
    "strongest": "Strongest strongest_diagrams strongest_worldlines",
    "token_flow": "token_flow",
    "sequences": "Estimate",
    "rational": "Pade pade",
    "borel_sums": "borel borel_pade",
    "epsilon": "topological_epsilon vector_epsilon wynn_epsilon",
    "minimal_polynomial": "extrapolate_depth mpe rre",
    "transforms": "aitken levin richardson",
    "fixed_point": "FixedPoint anderson diis",
    "resummation": "Recovery Resummation recovery resum",
    "basis": "AttentionKernel Gram attention_kernel gram",
    "channels": "Channels channels",
    "regulators": "REGULATORS Regulated regulated",
    "measurement": "Measurement frozen_logits logit_lens measurement",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'opalgebra.analysis' has no attribute {name!r}")
    try:
        value = getattr(import_module(f"opalgebra.analysis.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        refusal = import_module("opalgebra.models.packages").absent(f"opalgebra.analysis.{name}", error)
        if refusal is None:
            raise
        raise refusal from error
    globals()[name] = value
    return value


class _Package(ModuleType):
    """A package whose public names win over its submodules: `saturation` is the function, also once its module is loaded."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOME or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
