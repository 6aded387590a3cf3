"""All orders of a Dyson series from the network's own modules: one pass of the whole network an order, and no adapter.

In the network with frozen nonlinearities (see `replay`) let x be the initial state and e what the counted vertices emit in
place of what they make. The last state, and what vertex v makes, are affine in x and e together; `response(x, e)` and
`V_v(x, e)` are their linear parts. The orders are a Neumann series, each pass emitting what the vertices made of the one
before:

    initial-born    i_0 = response(x[0], 0)           e_v = V_v(x[0], 0)      i_k = response(0, e),  e_v <- V_v(0, e)
    source-born     s_0 = the last state at x, e = 0  e_v = what v makes then s_k = response(0, e),  e_v <- V_v(0, e)

until nothing is emitted, and y_k = i_k + s_k. A pass runs over all of depth for one order; the recurrence of `orders` runs
over all orders at one stage. Nothing is shared with it, nor with any adapter or block.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from opalgebra.errors import InputError, ModelError
from opalgebra.numeric import roundoff
from opalgebra.numeric.recording import Vertex
from opalgebra.numeric.replay import Recording

Counted = Callable[[Vertex], bool]
COUNTINGS: dict[str, Counted] = {
    "all": lambda vertex: True,
    "attention": lambda vertex: vertex.kind == "attention",
    "ffn": lambda vertex: vertex.kind == "ffn",
}


@dataclass(frozen=True, eq=False)
class OracleOrders:
    """parts, sources (orders, batch, tokens, features): the orders y_k, and the source-born part of each.

    Relative to the norm of the network's own last state, in float64: norms, source_norms (orders, batch, tokens);
    condition (batch, tokens), the sum of the norms of the orders; error (batch, tokens), what all orders together miss of
    that state; bound (batch, tokens), how much of it rounding may be.
    """

    recording: Recording
    parts: Tensor
    sources: Tensor

    @property
    def norms(self) -> Tensor:
        return self.relative(self.parts)

    @property
    def source_norms(self) -> Tensor:
        return self.relative(self.sources)

    @property
    def condition(self) -> Tensor:
        return self.norms.sum(0)

    @property
    def error(self) -> Tensor:
        return self.relative(self.parts.double().sum(0) - self.recording.final.double())

    @property
    def bound(self) -> Tensor:
        return roundoff.probable(self.recording.inner, self.parts.dtype) * self.condition

    def relative(self, states: Tensor) -> Tensor:
        """Norms over features, over the norm of the network's own last state."""
        return states.double().norm(dim=-1) / self.recording.final.double().norm(dim=-1)


def oracle_orders(recording: Recording, counting: str | Counted = "all") -> OracleOrders:
    """All orders of a recorded network, in about 2 n + 4 passes for n counted vertices one behind the other.

    counting: "all", "attention", "ffn", or a predicate on its vertices. ModelError when the orders together are not the
    network's own last state: something nonlinear was not frozen.
    """
    if isinstance(counting, str) and counting not in COUNTINGS:
        raise InputError(f"counting={counting!r} is unknown; use {', '.join(COUNTINGS)}, or a predicate on vertices")
    counted = COUNTINGS[counting] if isinstance(counting, str) else counting
    numbers = [number for number, vertex in enumerate(recording.vertices) if counted(vertex)]
    nothing = torch.zeros_like(recording.initial)
    silence = silent(recording, numbers)
    rest, rest_made = recording.run(nothing, silence)

    def respond(initial: Tensor, emitted: dict[int, Tensor]) -> tuple[Tensor, dict[int, Tensor]]:
        last, made = recording.run(initial, emitted)
        return last - rest, {number: made[number] - rest_made[number] for number in numbers}

    def ladder(part: Tensor, made: dict[int, Tensor]) -> list[Tensor]:
        parts = [part]
        while any(emitted.any() for emitted in made.values()) and len(parts) <= len(numbers):
            part, made = respond(nothing, made)
            parts.append(part)
        return parts

    initial_born = ladder(*respond(recording.initial, silence))
    source_born = ladder(rest, {number: rest_made[number] for number in numbers})
    parts = recording.final.new_zeros((max(len(initial_born), len(source_born)), *nothing.shape))
    sources = torch.zeros_like(parts)
    parts[: len(initial_born)] += torch.stack(initial_born)
    sources[: len(source_born)] += torch.stack(source_born)
    orders = OracleOrders(recording, parts + sources, sources)
    _check_sum(orders)
    return orders


def silent(recording: Recording, numbers: list[int]) -> dict[int, Tensor]:
    """Emissions of zero for some vertices."""
    return {number: torch.zeros_like(recording.vertices[number].output) for number in numbers}


def _check_sum(orders: OracleOrders) -> None:
    missed = torch.where(orders.error <= orders.bound, 0.0, orders.error).nan_to_num(nan=torch.inf)
    if missed.any():
        row, token = (int(index) for index in torch.unravel_index(missed.argmax(), missed.shape))
        raise ModelError(
            f"the orders of {type(orders.recording.network).__name__} do not add up to its own last state: they miss "
            f"{missed[row, token].item():.1e} of it at token {token} of row {row}, with a rounding bound of "
            f"{orders.bound[row, token].item():.1e}; it has a nonlinear function that is not frozen, and cannot be checked"
        )
