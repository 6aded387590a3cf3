"""Whether the orders of a binding are those of the oracle, where they first differ, and what the comparison cannot tell.

Each order at each token, and its source-born part, is compared as a vector (the source-born part by its norm) under
`lambda sqrt(m) u` times the sum of the norms of all orders, m the inner dimensions of both computations, and times what a
softmax makes of the errors of its logits, since each computes its patterns for itself.

A part that could be wrong without being seen is named, and no verdict is given on it: an order or a vertex below the bound;
a norm whose weights are all one or a bias that is all zero, since reading it and not reading it give the same numbers; a
uniform attention, whose queries and keys do not matter; an expert that no token chose.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from opalgebra.display import Tabulated
from opalgebra.errors import InputError, ModelError
from opalgebra.numeric import roundoff
from opalgebra.numeric.oracle import COUNTINGS, OracleOrders, oracle_orders, silent
from opalgebra.numeric.replay import Recording, record

# Above this bound not even two digits are compared, as in `verify`.
RESOLUTION = 1e-2
VERDICTS = {True: "holds", False: "does not hold", None: "cannot tell"}
SPLITS = {"attention": ("frozen", "source"), "ffn": ("gate", "source")}


class BoundModel(Protocol):
    """What is asked of a binding."""

    @property
    def ids(self) -> Tensor:
        """The input (batch, tokens)."""

    @property
    def has_batch(self) -> bool:
        """Whether figures have a batch axis in front."""

    @property
    def T(self) -> Any:
        """Its architecture, which has `stages`."""

    @property
    def split(self) -> Mapping[str, str]:
        """The split of each kind of vertex."""

    @property
    def model(self) -> Any:
        """What it was bound from, which has a `name`."""

    def orders(self, *, counting: Any = "all", order: int | None = None) -> Any:
        """The orders: `parts` (orders, batch, tokens, features) and `source_norms`."""


@dataclass(frozen=True)
class Agreement:
    """One counting. residual, bound and condition belong to the place with the largest residual over bound.

    residual: |difference| / |last state|. what: "order" or "sources of order", of number `order`, at a token of a row of the
    batch. too_small: the orders below the bound at every token, on which nothing is said.
    """

    counting: str
    holds: bool | None
    residual: float
    bound: float
    condition: float
    what: str
    order: int
    row: int
    token: int
    too_small: tuple[int, ...]

    def __str__(self) -> str:
        text = (
            f"counting {self.counting}: {VERDICTS[self.holds]}   residual {self.residual:.2e}   bound {self.bound:.2e}   "
            f"condition {self.condition:.3g}   worst: {self.what} {self.order} at token {self.token} of row {self.row}"
        )
        return text + (f"   orders too small to tell: {_ranges(self.too_small)}" if self.too_small else "")


@dataclass(frozen=True)
class ModelCheck(Tabulated):
    """The record of `opalgebra.testing.check_model`.

    first_difference: the first stage after which the states differ, or None. would_catch: for each vertex, the smallest
    relative error in its output that would have been seen. cannot_tell: the parts that could be wrong without being seen.
    """

    model: str
    split: dict[str, str]
    dtype: str
    rows: int
    tokens: int
    agreements: tuple[Agreement, ...]
    first_difference: str | None
    would_catch: dict[str, float]
    cannot_tell: tuple[str, ...]

    @property
    def holds(self) -> bool | None:
        """False when a counting does not hold; None when one cannot tell or a part could be wrong unseen; else True."""
        verdicts = [agreement.holds for agreement in self.agreements]
        if False in verdicts:
            return False
        return None if None in verdicts or self.cannot_tell else True

    @property
    def verdict(self) -> str:
        """`holds`, `does not hold` or `cannot tell`."""
        return VERDICTS[self.holds]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"verdict": self.verdict, **asdict(self)}

    def __str__(self) -> str:
        split = ", ".join(f"{kind} {choice}" for kind, choice in self.split.items())
        ordered = sorted(self.would_catch, key=self.would_catch.__getitem__)
        median, worst = ordered[(len(ordered) - 1) // 2], ordered[-1]
        caught = f"{self.would_catch[median]:.1e} in the {median} (median vertex)"
        lines = [
            f"{self.model} against its own modules: {self.verdict}",
            f"  {self.rows} x {self.tokens} tokens   split {split}   {self.dtype}",
            *(f"  {agreement}" for agreement in self.agreements),
            f"  would catch a relative error of {caught}, {self.would_catch[worst]:.1e} in the {worst} (worst)",
        ]
        if self.first_difference is not None:
            lines.append(f"  first difference: {self.first_difference}")
        return "\n".join([*lines, *(f"  cannot tell: {part}" for part in self.cannot_tell)])

    __repr__ = __str__


def agreement(network: torch.nn.Module, binding: BoundModel, countings: Sequence[str] = tuple(COUNTINGS)) -> ModelCheck:
    """The orders of a binding against those of the oracle, on the binding's input and split. See the module.

    InputError for a split that the oracle does not know; ModelError when it cannot say how the network is built, or when
    it finds other vertices than the binding has.
    """
    for kind, choice in binding.split.items():
        if choice not in SPLITS.get(kind, ()):
            known = "; ".join(f"{name}: {', '.join(choices)}" for name, choices in SPLITS.items())
            raise InputError(f"the split {kind}={choice!r} cannot be checked; the oracle knows {known}")
    constant = [kind for kind, choice in binding.split.items() if choice == "source"]
    recording = record(network, binding.ids, constant=constant)
    _check_vertices(recording, binding)
    all_orders = oracle_orders(recording)
    own = {"all": all_orders} | {name: oracle_orders(recording, name) for name in countings if name != "all"}
    found = tuple(_compare(name, own[name], binding.orders(counting=name), binding) for name in countings)
    allowed = _both(all_orders)
    caught = _caught(recording, allowed)
    return ModelCheck(
        model=binding.model.name,
        split=dict(binding.split),
        dtype=str(recording.final.dtype).removeprefix("torch."),
        rows=recording.final.shape[0],
        tokens=recording.final.shape[1],
        agreements=found,
        first_difference=_first_difference(recording, binding, all_orders, allowed)
        if any(part.holds is False for part in found)
        else None,
        would_catch=caught,
        cannot_tell=tuple(_unseen(recording, caught)),
    )


def _check_vertices(recording: Recording, binding: BoundModel) -> None:
    own = sorted((vertex.layer, vertex.kind) for vertex in recording.vertices)
    theirs = sorted((stage.layer, str(branch.kind)) for stage in binding.T.stages for branch in stage.branches)
    if own != theirs:
        raise ModelError(
            f"the forward of {binding.model.name} has {len(own)} vertices, {_named(own)}, and the binding has {len(theirs)}, "
            f"{_named(theirs)}; bind it with an adapter that describes this model"
        )


def _named(vertices: list[tuple[int, str]]) -> str:
    return " ".join(f"{kind} {layer}" for layer, kind in vertices[:4]) + (" ..." if len(vertices) > 4 else "")


def _both(orders: OracleOrders) -> Tensor:
    """(batch, tokens): how far rounding may take two computations of the same orders apart, over the last state."""
    recording = orders.recording
    return roundoff.probable(2 * recording.inner, orders.parts.dtype) * orders.condition * _sharpness(recording)


def _sharpness(recording: Recording) -> float:
    """How much larger the relative error of a softmax is than that of its logits l: `1 + max over rows 2 sum p (1 - p) |l|`.

    A softmax p moves by `p_j (d_j - sum p d)` when logits move by d, so that with `|d_j| <= e |l_j|` its entries move by at
    most `2 e sum p (1 - p) |l|` in all. Logits that a fused function keeps to itself are not seen.
    """
    largest = 0.0
    for item in recording.applied:
        if item.kind == "pattern" and any(layer.holds(item.time) for layer in recording.layers):
            pattern = item.kept.double()
            moved = pattern * (1 - pattern) * torch.where(pattern > 0, item.args[0].double().abs(), 0.0)
            largest = max(largest, 2 * moved.sum(-1).max().item())
    return 1 + largest


def _compare(counting: str, own: OracleOrders, theirs: Any, binding: BoundModel) -> Agreement:
    """The agreement of one counting."""
    count = max(len(own.parts), len(theirs.parts))
    parts = _padded(own.parts.double(), count), _padded(theirs.parts.to(own.parts.device).double(), count)
    sources = _padded(own.source_norms, count), _padded(_by_order(theirs.source_norms, binding).to(own.source_norms), count)
    difference = torch.stack([own.relative(parts[0] - parts[1]), (sources[0] - sources[1]).abs()])
    allowed = _both(own)
    ratio = torch.where(difference == 0, 0.0, difference / allowed).nan_to_num(nan=torch.inf)
    what, order, row, token = (int(index) for index in torch.unravel_index(ratio.argmax(), ratio.shape))
    sizes = torch.maximum(own.relative(parts[0]), own.relative(parts[1]))
    small = ((sizes <= allowed).flatten(1).all(1) & (sizes > 0).flatten(1).any(1)).nonzero().flatten().tolist()
    differs = bool(((ratio > 1) & (allowed < 1)).any())
    says_little = bool((allowed > RESOLUTION).any()) or not bool((sizes > allowed).any())
    return Agreement(
        counting=counting,
        holds=False if differs else None if says_little else True,
        residual=difference[what, order, row, token].item(),
        bound=allowed[row, token].item(),
        condition=own.condition[row, token].item(),
        what=("order", "sources of order")[what],
        order=order,
        row=row,
        token=token,
        too_small=tuple(small),
    )


def _ranges(numbers: Sequence[int]) -> str:
    """`3, 7 to 12` for the numbers 3, 7, 8 ... 12."""
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(str(start) if start == end else f"{start} to {end}" for start, end in zip(starts, ends))


def _padded(orders: Tensor, count: int) -> Tensor:
    padded = orders.new_zeros((count, *orders.shape[1:]))
    padded[: len(orders)] = orders
    return padded


def _by_order(figures: Any, binding: BoundModel) -> Tensor:
    """(orders, batch, tokens) of figures that have their batch in front, or none."""
    array = torch.as_tensor(figures)
    return (array if binding.has_batch else array[None]).movedim(1, 0)


def _caught(recording: Recording, allowed: Tensor) -> dict[str, float]:
    """By vertex, the smallest relative error in its output that moves the last state by more than is allowed."""
    final, caught = recording.final, {}
    for number, vertex in enumerate(recording.vertices):
        without, _ = recording.run(recording.initial, silent(recording, [number]))
        moved = (final - without).double().norm(dim=-1) / final.double().norm(dim=-1)
        caught[str(vertex)] = (allowed / moved).min().item()
    return caught


def _first_difference(recording: Recording, binding: BoundModel, orders: OracleOrders, allowed: Tensor) -> str | None:
    """The first stage s such that order 0 differs when the vertices of all later stages are counted."""
    stages = binding.T.stages
    place = {(str(branch.kind), stage.layer): stage.number for stage in stages for branch in stage.branches}
    number_of = {vertex: stage.number for stage in stages for vertex in stage.vertices}
    nothing = torch.zeros_like(recording.initial)

    def later_than(number: int) -> Callable[[Any], bool]:
        return lambda vertex: number_of[vertex] > number

    for number in range(len(stages) + 1):
        later = [index for index, v in enumerate(recording.vertices) if place[v.kind, v.layer] > number]
        (whole, _), (sources, _) = (recording.run(x, silent(recording, later)) for x in (recording.initial, nothing))
        theirs = binding.orders(counting=later_than(number), order=0)
        found = orders.relative(whole - theirs.parts[0].to(whole))
        of_sources = (orders.relative(sources) - _by_order(theirs.source_norms, binding)[0].to(orders.norms)).abs()
        beyond = (torch.maximum(found, of_sources) > allowed).nonzero()
        if len(beyond):
            where = f"at token {int(beyond[0, 1])} of row {int(beyond[0, 0])}"
            if number == 0:
                return f"before any vertex, in the initial state or the norms on the stream, {where}"
            blocks = " and ".join(f"{branch.kind}" for branch in stages[number - 1].branches)
            return f"{blocks} of layer {stages[number - 1].layer} (stage {number}), {where}"
    return None


def _unseen(recording: Recording, caught: Mapping[str, float]) -> Iterator[str]:
    """What could be wrong without being seen."""
    for name, error in caught.items():
        if error >= 1:
            yield f"the {name}: it moves the last state by less than rounding"
    yield from _neutral(recording)
    for number, layer in enumerate(recording.layers, start=1):
        for item in (item for item in recording.applied if layer.holds(item.time)):
            if item.kind == "pattern" and _is_uniform(item.kept, recording):
                yield f"queries, keys and positions of layer {number}: its attention is uniform; give more tokens"
            if item.of == "topk":
                idle = sorted(set(range(item.args[0].shape[-1])) - set(item.kept[1].flatten().tolist()))
                if idle:
                    yield f"experts {', '.join(map(str, idle))} of layer {number}: no token chose them; give more tokens"


def _neutral(recording: Recording) -> Iterator[str]:
    """Vectors in the layers with which reading and not reading them is the same."""
    own = {id(parameter) for layer in recording.layers for parameter in layer.module.parameters() if parameter.ndim == 1}
    vectors = [(name, vector) for name, vector in recording.network.named_parameters() if id(vector) in own]
    for value in (1, 0):
        names = [name for name, vector in vectors if bool((vector == value).all())]
        if names:
            others = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"{names[0]}{others}: all {value}, so that leaving it out is not seen; give random values to norms and biases"


def _is_uniform(pattern: Tensor, recording: Recording) -> bool:
    expected = (pattern > 0) / (pattern > 0).sum(-1, keepdim=True)
    allowed = roundoff.probable(recording.inner, pattern.dtype)
    return bool(((pattern - expected).abs() <= allowed * expected).all())
