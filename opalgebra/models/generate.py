"""A model generating, each new token decomposed as it is read: its column of the Dyson series, from the cache.

The model's own forward reads the new token with its cache of keys and values, and gives the states that freeze every stage;
the orders of the new token follow from what was kept of the tokens before it (see `opalgebra.numeric.streaming`). No token is
read twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from types import ModuleType
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from opalgebra.display import Tabulated
from opalgebra.errors import InputError, ModelError
from opalgebra.models.bind import Options, architecture_of, check_heads, forward_of, known_model, parts_under, split_choices
from opalgebra.models.family import Parts, Prompt
from opalgebra.models.load import Model
from opalgebra.models.prompt import prompt_of
from opalgebra.models.trace import Trace
from opalgebra.numeric import roundoff
from opalgebra.numeric.faithful import Reference, full_precision, one_at_a_time
from opalgebra.numeric.interpretation import Run
from opalgebra.numeric.orders import LogitOrders, Orders, summarise
from opalgebra.numeric.streaming import Stream
from opalgebra.render.table import Table, table
from opalgebra.scalar import is_natural
from opalgebra.series import Counting, check_order, counter

Choose = Callable[[Any], int]
PIECE = 128


@final
@dataclass(frozen=True, eq=False)
class Generated(Tabulated):
    """One generated token and its column of the series: the orders of the state that the model has there after the last stage.

    token: its id, and `text` what the reader sees; position: its place, counted from 0 with the prompt. norms (orders,),
    source_norms (orders,), partial_errors (orders,), condition and rounding are those of `Orders` at this token, float64 NumPy.
    bound: the estimate of what rounding alone can make of `rounding`; for a truncation both are None. chosen: the logit of
    this token at the position before it, by order: why it was chosen. For an input of token ids (batch, tokens) each has a
    leading batch axis, and token and text are lists.
    """

    token: Any
    text: Any
    position: int
    norms: Any
    source_norms: Any
    partial_errors: Any
    condition: Any
    rounding: Any
    bound: Any
    chosen: LogitOrders
    column: Orders

    def logits(self, token: str | int, minus: str | int | None = None) -> LogitOrders:
        """The logit of a token as the next one, at this position, by order; see `Orders.logits`."""
        return self.column.logits(token, minus)

    def __repr__(self) -> str:
        return f"Generated({self.text!r} at position {self.position}: {self.norms.shape[-1]} orders)"


def generate(
    model: Model | torch.nn.Module | str,
    prompt: str | Tensor,
    *,
    counting: Counting = "all",
    tokens: int = 8,
    order: int | None = None,
    split: str | Mapping[str, str] = "gate",
    gated: str = "gate",
    heads: bool = False,
    choose: Choose | None = None,
    check: bool = True,
) -> Iterator[Generated]:
    """The next `tokens` tokens of a causal model, one at a time, each with the orders of its own column.

    prompt: a text, or token ids (batch, tokens). counting, order, split, gated and heads are those of `bind` and `orders`;
    the split "jacobian" is not known here. choose: the id of the next token from the model's own logits (vocabulary,), a
    float64 NumPy array, row by row; the largest by default. Generation goes on after an end of text: stop the iteration.

    A new token costs its own column and one row of attention over the tokens before it, whatever their number; memory is that
    of the values of every order at every token. The prompt is read in pieces of `PIECE` tokens. With `check`, ModelError when
    the orders of a token do not sum to the model's own state within the rounding bound.

    InputError for a prompt that with `tokens` is longer than the model reads, a trace, a model that reads tokens on both sides
    or has no unembedding; and, with ModelError, where `bind` raises them.

    >>> import opalgebra as oa
    >>> for step in oa.generate("smollm2", "The capital of France is", counting="attention", tokens=2):  # doctest: +SKIP
    ...     print(repr(step.text), step.condition)
    """
    options = Options(split_choices(split, gated), gated, check_heads(heads), check)
    check_order(order)
    counter(counting)
    if "norm" in options.choices:
        raise InputError("split='jacobian' differentiates the keys of every token, which are not kept; use 'gate' or 'tangent'")
    if not is_natural(tokens) or tokens == 0:
        raise InputError(f"tokens={tokens!r}: how many tokens to generate is a positive number")
    if isinstance(model, Trace):
        raise InputError("a trace is one run, and cannot go on; generate with the model itself")
    found, family = known_model(model)
    if getattr(found.network, "get_output_embeddings", lambda: None)() is None:
        raise InputError(f"{found.name} has no unembedding and so chooses no token; give a model with a language head")
    first = prompt_of(found, prompt, None, None)
    given = first.ids.shape[1]
    _check_length(found, given, tokens)
    cache = _empty_cache(found.network)
    reader = _Reader(found, family, options, counting, order, not isinstance(prompt, str), given + tokens, cache)
    return _steps(reader, first.ids, tokens, choose)


def _check_length(model: Model, given: int, tokens: int) -> None:
    longest = getattr(model.network.config, "max_position_embeddings", None)
    if longest is not None and given + tokens > longest:
        raise InputError(
            f"the prompt has {given:,} tokens and {tokens:,} are to follow, but {model.name} reads at most {longest:,}; "
            "shorten the prompt or ask for fewer"
        )


def _empty_cache(network: torch.nn.Module) -> dict[str, Any]:
    """A cache of transformers by the name that the model's forward has for it; older releases call it past_key_values."""
    from transformers import DynamicCache

    name = "cache" if "cache" in signature(network.forward).parameters else "past_key_values"
    return {name: DynamicCache(config=network.config)}


@dataclass(frozen=True, eq=False)
class _Column(Run):
    """The run of a model on its newest tokens."""

    @property
    def dtype(self) -> torch.dtype:
        return self.arithmetic


@dataclass(eq=False)
class _Reader:
    """A model reading on and on: its cache, the stream of the orders, made at the first tokens, and how many were read."""

    model: Model
    family: ModuleType
    options: Options
    counting: Counting
    order: int | None
    has_batch: bool
    capacity: int
    cache: Mapping[str, Any]
    read: int = 0
    stream: Stream | None = None
    is_exact: bool = True

    def column(self, ids: Tensor) -> tuple[Orders, Any]:
        """The orders of the last of some new tokens (batch, tokens), and the rounding bound of their sum."""
        prompt = Prompt(ids, None, None, past=self.read, cache=self.cache)
        with one_at_a_time(), torch.no_grad(), full_precision():
            parts = parts_under(self.family, self.model, prompt, self.options.choices, self.options.gated)
            stream = self._stream(parts)
            own = forward_of(self.family, self.model, prompt)
            new = stream.advance(own.states, parts.maps)
        self.read += ids.shape[1]
        assert own.logits is not None
        uncapped = None if own.uncapped is None else own.uncapped[:, -1:]
        last = Reference(own.states[:, :, -1:], own.logits[:, -1:], uncapped)
        run = _Column(self.model, ids[:, -1:], self.has_batch, self.options.choices, last, parts.readout, None)
        found = summarise(run, new.parts[:, :, -1:], new.sources[:, :, -1:], self.counting, self.order, self.is_exact)
        bound = roundoff.probable(new.inner, run.arithmetic) * found.condition
        if self.options.check and self.is_exact:
            self._check(found, bound)
        return found, bound

    def _stream(self, parts: Parts) -> Stream:
        if self.stream is None:
            architecture = architecture_of(parts, heads=self.options.heads)
            if not architecture.causal:
                raise InputError(f"{self.model.name} reads tokens on both sides and generates none; give a causal model")
            series = architecture.dyson(counting=self.counting, order=self.order)
            self.is_exact = series.is_exact
            self.stream = Stream(series.stages, counter(self.counting), series.max_order + 1, self.capacity)
        return self.stream

    def _check(self, column: Orders, bound: Any) -> None:
        beyond = (column.rounding > bound) & (bound < 1)
        if beyond.any():
            raise ModelError(
                f"the orders of {self.model.name} at position {self.read - 1} do not sum to the model's own state: they differ "
                f"by {column.rounding[beyond].max():.1e}, and rounding alone by {bound[beyond].min():.1e} (check=False goes on)"
            )


def _steps(reader: _Reader, ids: Tensor, tokens: int, choose: Choose | None) -> Iterator[Generated]:
    for piece in ids.split(PIECE, dim=1):
        column, _ = reader.column(piece)
    for _ in range(tokens):
        chosen = _chosen(reader.model, column, choose)
        before, (column, bound) = column, reader.column(chosen)
        yield _generated(reader, chosen, before, column, bound)


def _chosen(model: Model, column: Orders, choose: Choose | None) -> Tensor:
    """The ids (batch, 1) of the tokens that follow a column."""
    logits = column.binding.reference.logits
    assert logits is not None
    if choose is None:
        return logits[:, -1].argmax(-1, keepdim=True)
    ids = []
    for row in logits[:, -1].double().cpu().numpy():
        given = choose(row)
        given = given.item() if hasattr(given, "item") else given
        if not is_natural(given):
            raise InputError(f"choose gave {given!r}; it gives the id of the next token, a natural number")
        ids.append([model.token_id(given)])
    return torch.tensor(ids, device=logits.device)


def _generated(reader: _Reader, ids: Tensor, before: Orders, column: Orders, bound: Any) -> Generated:
    rows = ids[:, 0].tolist()
    texts = [reader.model.token_texts([row])[0] for row in rows]
    chosen = [before.logits(row) for row in rows]

    def last(figures: Any) -> Any:
        return None if figures is None else figures[..., -1]

    return Generated(
        token=rows if reader.has_batch else rows[0],
        text=texts if reader.has_batch else texts[0],
        position=reader.read - 1,
        norms=last(column.norms),
        source_norms=last(column.source_norms),
        partial_errors=last(column.partial_errors),
        condition=last(column.condition),
        rounding=last(column.rounding),
        bound=last(bound) if reader.is_exact else None,
        chosen=_rows(chosen) if reader.has_batch else chosen[0],
        column=column,
    )


def _rows(logits: Sequence[LogitOrders]) -> LogitOrders:
    """Row n of the nth, for a batch that chose a token each."""
    return LogitOrders(*(
        np.stack([getattr(own, part.name)[row] for row, own in enumerate(logits)]) for part in fields(LogitOrders)
    ))  # fmt: skip


@table.register
def _(value: Generated) -> Table:
    return replace(table(value.column), caption=f"{value.text!r} at position {value.position}: the orders of its column")
