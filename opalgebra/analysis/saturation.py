"""Saturation along depth: how far and in which direction each step moves a state, and how certain its read-out is.

A flow that relaxes, such as imaginary time `x' = -H x`, takes ever smaller steps, and its angle to the end falls as `tan t =
e^{-gt}` with the gap g; read out, its entropy falls. Where a Transformer does so, it is saturated: what later stages do is
small.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from opalgebra.analysis.matrices import Array, array
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.binding import Binding


@dataclass(frozen=True, eq=False)
class Saturation(Tabulated):
    """Row s belongs to the state after stage s. step (stages,): `||x_s - x_{s-1}|| / ||x_{s-1}||`. turn (stages,): the angle
    between the two, in radians. to_end (stages + 1,): the angle to the last state. entropy (stages + 1,): of the logit
    lens, in nats; None without a read-out. A text gives a leading axis of tokens, ids one of rows too; padded tokens are
    NaN.
    """

    step: Array
    turn: Array
    to_end: Array
    entropy: Array | None


def saturation(states: Any) -> Saturation:
    """Step sizes, angles and entropies along depth, of a bound model or of an array of states (depth, features).

    Angles are taken between lines of vectors as `2 atan2(|u - v|, |u + v|)` of unit vectors, which is right for small ones
    too. A zero state has no direction: NaN. InputError for one state alone, nan or infinity.

    >>> import numpy as np
    >>> from opalgebra.analysis import saturation
    >>> flow = np.array([[1.0, np.exp(-t)] for t in (0.0, 1.0, 40.0)])
    >>> np.tan(saturation(flow).to_end).round(12).tolist()
    [1.0, 0.367879441171, 0.0]
    """
    if isinstance(states, Binding):
        return _of_model(states)
    return _along(array(states, name="states"), None)


def _of_model(binding: Binding) -> Saturation:
    states = binding.real(binding.reference.states.double().norm(dim=-1), torch.nan)
    found = np.moveaxis(binding.reference.states.double().cpu().numpy(), 0, 2)
    entropy = None
    if binding.readout.unembedding is not None:
        rows = []
        for state in binding.reference.states:
            logs = torch.log_softmax(binding.readout.logits(state.to(binding.dtype)).double(), -1)
            rows.append(binding.real(-(logs.exp() * logs).nan_to_num(nan=0.0).sum(-1), torch.nan))
        entropy = np.moveaxis(torch.stack(rows).cpu().numpy(), 0, -1)
    result = _along(found, entropy)
    padded = torch.isnan(states[0]).cpu().numpy()
    for figures in (result.step, result.turn, result.to_end):
        figures[padded] = np.nan
    if binding.has_batch:
        return result
    return Saturation(result.step[0], result.turn[0], result.to_end[0], None if entropy is None else entropy[0])


def _along(states: Array, entropy: Array | None) -> Saturation:
    """Figures of states (..., depth, features)."""
    if states.shape[-2] < 2:
        raise InputError("saturation of one state was asked; a step is between two, so give the states along depth")
    lengths = np.linalg.norm(states, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = states / lengths[..., None]
        step = np.linalg.norm(np.diff(states, axis=-2), axis=-1) / lengths[..., :-1]
    return Saturation(step, _angle(unit[..., 1:, :], unit[..., :-1, :]), _angle(unit, unit[..., -1:, :]), entropy)


def _angle(first: Array, second: Array) -> Array:
    """Between unit vectors, in radians; Kahan's formula."""
    angle: Array = 2 * np.arctan2(np.linalg.norm(first - second, axis=-1), np.linalg.norm(first + second, axis=-1))
    return angle
