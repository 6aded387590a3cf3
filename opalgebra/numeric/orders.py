"""All orders of the Dyson series at once: one pass over depth, never a list of terms.

With y_k the part of the state that passed k counted vertices, a stage V does, for all k together,

    y_k <- y_k + V y_{k-1}      if V is counted        y_k <- y_k + V y_k      if it is not (resummed)

and then passes each part through the norm after it, in n (n + 1) / 2 block applications for n stages instead of 2^n; see
`opalgebra.numeric.stages`. Parts born at a source run on a ladder of their own with the same rule.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opalgebra.display import Tabulated
from opalgebra.errors import InputError, ModelError
from opalgebra.numeric.faithful import full_precision
from opalgebra.numeric.interpretation import Interpretation, Run
from opalgebra.numeric.maps import beside
from opalgebra.numeric.memory import plan
from opalgebra.numeric.stages import Step
from opalgebra.render.table import Table, table
from opalgebra.series import Counting, check_order, counter


class Ladder:
    """The orders `y_0 ... y_n` of one initial state, updated in place stage by stage; without memory before one is born."""

    def __init__(self, orders: int, like: Tensor) -> None:
        self.parts = like.new_zeros(()).expand(orders, *like.shape)
        self.filled = 0

    def born(self, state: Tensor, order: int) -> None:
        """Adds a part at an order; a part beyond the last order is not kept."""
        if order < len(self.parts):
            if not self.filled:
                self.parts = state.new_zeros(self.parts.shape)
            self.parts[order] += state
            self.filled = max(self.filled, order + 1)

    def pass_through(self, step: Step, chunk: int | None = None) -> None:
        """The recurrence for one stage, on its device, `chunk` orders together."""
        if self.filled:
            self.parts = beside(step, self.parts)
            self.filled = step.carry(self.parts, self.filled, chunk)

    def add(self, other: "Ladder") -> None:
        """Adds the orders of another."""
        if other.filled:
            self.parts += other.parts


def kept_orders(steps: Sequence[Step], order: int | None) -> int:
    """How many orders there are, up to `order`."""
    full = sum(step.counts for step in steps)
    return 1 + (full if order is None else min(full, order))


def ladders(
    x0: Tensor, steps: Sequence[Step], order: int | None, progress: bool | None = False, chunk: int | None = None
) -> tuple[Ladder, Ladder]:
    """The ladder of x0 (batch, tokens, features) and the ladder of the sources, after all stages.

    `order` truncates: orders above it are neither kept nor computed. progress: None shows a bar on a terminal. chunk: how
    many orders pass a stage together, all for None.
    """
    from tqdm import tqdm

    kept = kept_orders(steps, order)
    initial, sources = Ladder(kept, x0), Ladder(kept, x0)
    initial.born(x0, 0)
    with torch.no_grad():
        for step in tqdm(
            steps, desc="orders", unit="stage", disable=not progress if progress is not None else None, leave=False
        ):
            for ladder in (initial, sources):
                ladder.pass_through(step, chunk)
            for source, order_of_source in step.births():
                sources.born(source, order_of_source)
    for ladder in (initial, sources):
        ladder.parts = ladder.parts.to(x0.device)
    return initial, sources


def steps_of(binding: Interpretation, counting: Counting) -> list[Step]:
    """The stages of a binding with their vertices shared out by a counting."""
    chosen = counter(counting)
    return [frozen.shared(stage, chosen) for stage, frozen in zip(binding.T.stages, binding.frozen)]


@dataclass(frozen=True, eq=False)
class LogitOrders(Tabulated):
    """A logit (or a difference of two) before any soft cap, by order: `orders.sum() + readout_bias` is the model's, `model`.

    `capped` is what the model returns, the same without a cap. Arrays are float64 on the CPU: orders (orders,), the others
    scalars; a leading batch axis for ids. What follows the last state, the final norm, is frozen at it.
    """

    orders: Any
    readout_bias: Any
    model: Any
    capped: Any

    @property
    def rounding(self) -> Any:
        """What the model's own rounding adds: `model` less the sum of all the rest."""
        return self.model - self.orders.sum(-1) - self.readout_bias


@dataclass(frozen=True, eq=False)
class Orders(Tabulated):
    """The orders of a Dyson series at one input. Every array is float64 NumPy; a leading batch axis for token ids.

    norms (orders, tokens): |y_n| / |x_L|, source-born parts included; source_norms: those alone. partial_errors (orders,
    tokens): |sum_{m<=n} y_m - x_L| / |x_L|. condition (tokens,): sum of norms over the norm of the sum. x_L is from the
    model's own forward. `parts` is the tensor (orders, batch, tokens, features) of the y_n themselves.
    rounding (tokens,): |x_L - sum of all y_m| / |x_L|, the row of what the model itself rounded; None for a truncation.
    Figures at padded positions are NaN.
    """

    binding: Run
    counting: str
    order: int | None
    parts: Tensor
    norms: Any
    source_norms: Any
    partial_errors: Any
    condition: Any
    rounding: Any

    @property
    def remainder(self) -> Tensor:
        """(batch, tokens, features): x_L less the sum of the parts."""
        return self.binding.reference.states[-1].to(self.parts) - self.parts.sum(0)

    def logits(self, token: str | int, minus: str | int | None = None) -> LogitOrders:
        """The logit of a token (a text that is one token, or an id) at the last position, by order, before any cap."""
        binding, readout = self.binding, self.binding.readout
        if readout.unembedding is None or binding.reference.logits is None:
            raise InputError(f"{binding.model.name} has no unembedding and so no logits; bind a model with a language head")
        ids = [binding.model.token_id(part) for part in ([token] if minus is None else [token, minus])]
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64)[: len(ids)]
        rows = torch.arange(len(binding.ids), device=self.parts.device)
        state = binding.reference.states[-1].to(self.parts)[rows, binding.last][:, None]
        by_order, constant = readout.by_part(self.parts[:, rows, binding.last][:, :, None], state, ids)
        capped = binding.reference.logits[rows, binding.last][:, ids]
        own = capped if binding.reference.uncapped is None else binding.reference.uncapped[rows, binding.last][:, ids]
        four = (by_order[:, :, 0].movedim(0, 1), constant[:, 0], own, capped)
        return LogitOrders(*(binding.unbatched(values.double().cpu() @ signs).numpy() for values in four))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and strings, for JSON."""
        names = ("norms", "source_norms", "partial_errors", "condition", "rounding")
        arrays = {name: _plain(getattr(self, name)) for name in names}
        binding = self.binding
        return {
            "model": binding.model.name, "tokens": binding.token_texts, "split": dict(binding.split),
            "counting": self.counting, "order": self.order, "dtype": binding.dtypes, **arrays,
        }  # fmt: skip

    def to_pandas(self) -> Any:
        """A table with a row for each (row of the batch,) order and token."""
        import pandas

        shape = self.norms.shape if self.binding.has_batch else (1, *self.norms.shape)
        index = pandas.MultiIndex.from_product([range(n) for n in shape], names=["batch", "order", "token"])
        names = ("norms", "source_norms", "partial_errors")
        frame = pandas.DataFrame({name: getattr(self, name).ravel() for name in names}, index=index)
        return frame if self.binding.has_batch else frame.droplevel("batch")

    def __repr__(self) -> str:
        truncated = "" if self.order is None else f" up to {self.order}"
        return f"Orders(counting {self.counting}: {self.norms.shape[-2]} orders{truncated}, {self.norms.shape[-1]} tokens)"


def _plain(figures: Any) -> Any:
    """Nested lists, with None at padded positions; None for None."""
    if figures is None or not hasattr(figures, "tolist"):
        return figures
    return [_plain(each) for each in figures] if figures.ndim else None if math.isnan(figures) else figures.tolist()


def orders(
    binding: Interpretation, *, counting: Counting = "all", order: int | None = None, memory: int | None = None
) -> Orders:
    """All orders (up to `order`) at the binding's input. A progress bar is shown on a terminal.

    Cost: n (n + 1) / 2 applications of a stage for n counted stages, `order` times n for a truncation; memory
    (n + 1) states, and what a stage takes for the orders that pass it together: as many as fit into `memory` bytes, by
    default nine tenths of what is free. LimitError when one at a time does not fit, ModelError when a part is not finite,
    naming its order and token.
    """
    steps, kept = _asked(binding, counting, order)
    chosen = plan(steps, binding.states[0], kept, memory)
    with full_precision():
        initial, sources = ladders(binding.states[0], steps, order, progress=None, chunk=chosen.chunk)
    initial.add(sources)
    complete = order is None or order >= sum(step.counts for step in steps)
    return summarise(binding, initial.parts, sources.parts, counting, order, complete)


def peak_memory(
    binding: Interpretation, *, counting: Counting = "all", order: int | None = None, memory: int | None = None
) -> int:
    """The bytes that `orders` asked in the same way takes at most, beyond what is allocated before it."""
    steps, kept = _asked(binding, counting, order)
    return plan(steps, binding.states[0], kept, memory).peak


def _asked(binding: Interpretation, counting: Counting, order: int | None) -> tuple[list[Step], int]:
    check_order(order)
    steps = steps_of(binding, counting)
    return steps, kept_orders(steps, order)


def summarise(
    binding: Run, parts: Tensor, sources: Tensor, counting: Counting, order: int | None, complete: bool
) -> Orders:
    """The figures of `Orders` from the parts (orders, batch, tokens, features), all of them if `complete`, and their
    source-born share.
    """
    broken = (~binding.real(torch.stack([torch.isfinite(part).all(-1) for part in parts]), True)).nonzero()
    if len(broken):
        at = broken[0].tolist()
        raise ModelError(f"order {at[0]} is not finite at token {at[2]} (row {at[1]}); use a longer dtype or fewer orders")
    exact = binding.reference.states[-1].double()
    length = exact.norm(dim=-1)
    size = torch.stack([part.double().norm(dim=-1) for part in parts])
    source_size = torch.stack([part.double().norm(dim=-1) for part in sources])
    partial = torch.zeros_like(exact)
    errors = []
    for part in parts:
        partial += part.double()
        errors.append((partial - exact).norm(dim=-1) / length)
    by_order = [binding.real(a, torch.nan) for a in (size / length, source_size / length, torch.stack(errors))]
    norms, source_norms, partial_errors = (binding.unbatched(a.movedim(1, 0)).cpu().numpy() for a in by_order)
    condition = binding.real(size.sum(0) / partial.norm(dim=-1), torch.nan)
    condition = binding.unbatched(condition).cpu().numpy()
    name = counting if isinstance(counting, str) else getattr(counting, "__name__", "predicate")
    rounding = partial_errors[..., -1, :] if complete else None
    return Orders(binding, name, order, parts, norms, source_norms, partial_errors, condition, rounding)


def _each(function: Callable[[Tensor], Tensor], parts: Tensor) -> Tensor:
    """A map of states (batch, tokens, features) on each part; together where the batch has one row, as maps act on any."""
    if parts.shape[1] == 1:
        return function(parts.flatten(0, 1)).view_as(parts)
    return torch.stack([function(part) for part in parts])


def undressed(binding: Interpretation) -> Orders:
    """The paper's recurrence read literally, `y_k <- y_k + V(y_{k-1})` with the bare nonlinear blocks, counting all.

    Its sum is NOT the model's state: a nonlinear map does not distribute over the sum of orders. The partial errors say by
    how much; this is the comparison that shows why vertices are dressed.
    """
    x0 = binding.states[0]
    parts = x0.new_zeros((len(binding.maps) + 1, *x0.shape))
    parts[0] = x0
    with torch.no_grad():
        for filled, stage in enumerate(binding.maps, start=1):
            parts = beside(stage, parts)
            parts[1 : filled + 1] += _each(lambda part, stage=stage: stage.sum(part) - part, parts[:filled])
            if stage.after is not None:
                parts[: filled + 1] = _each(stage.after, parts[: filled + 1])
    parts = parts.to(x0.device)
    return summarise(binding, parts, torch.zeros_like(parts), "all, undressed", None, False)


@table.register
def _(value: Orders) -> Table:
    """The orders at the last token of each row, from which the model predicts."""
    binding, batch = value.binding, range(len(value.binding.ids))
    figures = [value.norms, value.source_norms, value.partial_errors]
    rows, last = [figure if binding.has_batch else figure[None] for figure in figures], binding.last.tolist()
    cells = [
        [*([row] if binding.has_batch else []), order, *(float(figure[row, order, last[row]]) for figure in rows)]
        for row in batch
        for order in range(value.norms.shape[-2])
    ]
    headers = [*(["row"] if binding.has_batch else []), "order", "norm", "source-born", "error of the partial sum"]
    caption = f"{binding.model.name}: orders at the last token, counting {value.counting}, relative to the last state"
    return Table(headers, cells, caption)


@table.register
def _(value: LogitOrders) -> Table:
    """The logit by order, then what the read-out adds, and the model's own value; a column for each row of a batch."""
    columns = value.orders.reshape(-1, value.orders.shape[-1]).T.tolist()
    rest = [(name, part.reshape(-1).tolist()) for name, part in (("bias", value.readout_bias), ("model", value.model))]
    headers = [f"row {row}" for row in range(len(columns[0]))] if value.orders.ndim > 1 else ["logit"]
    return Table(
        ["order", *headers], [[name, *logits] for name, logits in [*((str(n), c) for n, c in enumerate(columns)), *rest]]
    )
