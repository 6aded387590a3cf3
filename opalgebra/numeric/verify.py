"""Verification: an identity against a model's own numbers, with an estimate of what rounding alone can do.

The verdict is `False` when a token differs by more than the rounding estimate, `True` when none does, and `None`, cannot
tell, when the check says too little: when the estimate is above `RESOLUTION`, so that not even two digits are compared, when
the median vertex could be left out unnoticed, or when both sides are zero. An estimate above the size of the result never
gives `False` either. A state `M.T.x[s]` that stands alone on a side, and the last state that a series adds up to, are
taken from the model's own forward; `M.T.x[s] = M.T.x[s]` compares it with the binding's.
"""

import platform
from dataclasses import asdict, dataclass, replace
from functools import cache, singledispatch
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from opalgebra.display import Tabulated
from opalgebra.errors import InputError, ModelError
from opalgebra.expr import Operator
from opalgebra.facts import Equal, Fact, Form
from opalgebra.kernel import Theorem
from opalgebra.numeric import evaluation, roundoff
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.evaluation import Value
from opalgebra.numeric.faithful import full_precision, tf32
from opalgebra.numeric.maps import beside
from opalgebra.numeric.memory import plan
from opalgebra.numeric.stages import part_of
from opalgebra.render.table import Table, table
from opalgebra.series import Series
from opalgebra.space import ONE, X

PROBE_SEED = 20260311
RESOLUTION = 1e-2


@dataclass(frozen=True)
class Detection:
    """The smallest relative error in the output of `vertex` that turns the verdict to `does not hold`."""

    vertex: str
    error: float


@dataclass(frozen=True)
class WouldCatch:
    """What the check is sensitive to: the median vertex, and the worst, whose errors are hardest to see."""

    median: Detection
    worst: Detection


@dataclass(frozen=True)
class Report(Tabulated):
    """What was compared, and how well it agrees.

    holds: True, False, or None when the check cannot tell. residual, bound and condition belong to the token with the
    largest residual over bound; per_position and bounds have all tokens (a list a row for an input of token ids).
    residual is |difference| / |result|, bound the rounding estimate at failure probability 1e-6, worst_case the same
    without that assumption, condition the sum of the norms of what was added up over the norm of the result. tf32: whether
    float32 products were allowed to be shorter ones while this was computed; they never are.
    """

    what: str
    holds: bool | None
    residual: float
    bound: float
    worst_case: float
    condition: float
    would_catch: WouldCatch
    per_position: list[Any]
    bounds: list[Any]
    model: str
    split: dict[str, str]
    dtype: str
    tf32: bool
    device: str
    versions: dict[str, str]

    @property
    def verdict(self) -> str:
        """`holds`, `does not hold` or `cannot tell`."""
        return {True: "holds", False: "does not hold", None: "cannot tell"}[self.holds]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"verdict": self.verdict, **asdict(self)}

    def __str__(self) -> str:
        worst, median = self.would_catch.worst, self.would_catch.median
        split = ", ".join(f"{kind} {choice}" for kind, choice in self.split.items())
        caught = f"{median.error:.1e} in {median.vertex}"
        if worst != median:
            caught += f" (median vertex), {worst.error:.1e} in {worst.vertex} (worst)"
        return "\n".join((
            f"{self.what}: {self.verdict}",
            f"  residual {self.residual:.2e}   bound {self.bound:.2e} (estimate; worst case {self.worst_case:.1e})",
            f"  condition {self.condition:.3g}   model {self.model}   split {split}   {self.dtype} on {self.device}",
            f"  would catch a relative error of {caught}",
        ))  # fmt: skip

    __repr__ = __str__


def verify(statement: Series | Theorem | Equal, binding: Binding) -> Report:
    """Whether a series, theorem or equation holds for a bound model, up to rounding; see the module for the verdicts.

    A series is summed over its orders and compared with the model's last state. An equation of states is evaluated on
    both sides; one of maps is applied to the embedded input and to a random state of the same norms (fixed seed).
    InputError for other statements, another architecture, or two sides that are one expression, where nothing could fail.
    """
    if not isinstance(binding, Binding):
        raise InputError(f"a {type(binding).__name__} is no binding of a model; verify(statement, bind(model, prompt))")
    with torch.no_grad(), full_precision():
        return _verify(statement, binding)


@singledispatch
def _verify(statement: object, binding: Binding) -> Report:
    raise InputError(f"a {type(statement).__name__} cannot be verified; pass a Series, a Theorem or an equation")


@_verify.register
def _(series: Series, binding: Binding) -> Report:
    if series.stages != binding.T.stages:
        raise InputError("the series is of another architecture than the binding; take it from M.T.dyson()")
    result = binding.orders(counting=series.counting, order=series.order)
    exact = binding.reference.states[-1].double()
    total = result.parts.double().sum(0)
    magnitude = sum(evaluation.norms(part) for part in result.parts)
    inner = sum(stage.inner for stage in binding.frozen)
    name = f"Dyson series counting {result.counting}"
    if not series.is_exact:
        name += f", truncated at order {series.max_order}"
    report = _compare(name, binding, total, exact, magnitude, inner, binding.arithmetic)
    caught = _vertices_caught(binding, report)
    blind = report.holds is True and caught.median.error >= 1
    return replace(report, would_catch=caught, holds=None if blind else report.holds)


@_verify.register(Theorem)
@_verify.register(Equal)
def _(statement: Theorem | Equal, binding: Binding) -> Report:
    own = statement.lhs in binding.T.x[1:]
    for fact in statement.hypotheses if isinstance(statement, Theorem) else ():
        _refuse_other_split(fact, binding)
    if statement.lhs is statement.rhs and not own:
        raise InputError(
            "both sides are one and the same expression, so that nothing could fail; state an equation of two, or compare "
            "with a state M.T.x[s] that the model itself computed"
        )
    if statement.lhs.domain not in (ONE, X) or statement.lhs.codomain != X:
        raise InputError(
            f"only states and maps of {X} can be verified, not maps {statement.lhs.domain} -> {statement.lhs.codomain}"
        )
    lhs, rhs = (_side(binding, side) for side in (statement.lhs, statement.rhs))
    if statement.lhs is statement.rhs:
        rhs = evaluation.evaluate(binding, statement.rhs)
    name = type(statement).__name__.lower()
    compared = any(side in binding.T.x for side in (statement.lhs, statement.rhs))
    dtype = binding.arithmetic if compared else binding.dtype
    return _compare(name, binding, lhs.array, rhs.array, lhs.magnitude + rhs.magnitude, max(lhs.inner, rhs.inner), dtype)


def _side(binding: Binding, side: Operator) -> Value:
    states = binding.T.x
    if side in states:
        return replace(evaluation.evaluate(binding, side), array=binding.reference.states[states.index(side)])
    if side.is_state:
        return evaluation.evaluate(binding, side)
    embedded = binding.states[0]
    generator = torch.Generator().manual_seed(PROBE_SEED)
    random = torch.randn(embedded.shape, generator=generator, dtype=torch.float64).to(embedded)
    probe = random * (embedded.norm(dim=-1, keepdim=True) / random.norm(dim=-1, keepdim=True))
    values = [evaluation.act(binding, side, evaluation.leaf(state)) for state in (embedded, probe)]
    return Value(
        torch.cat([value.array for value in values], dim=1),
        torch.cat([value.magnitude for value in values], dim=1),
        max(value.inner for value in values),
    )


def _refuse_other_split(fact: Fact, binding: Binding) -> None:
    if not isinstance(fact, Form):
        return
    kind = fact.dressing.operator.kind  # type: ignore[attr-defined]
    split = binding.split.get(kind, "frozen")
    if fact.split != split:
        raise InputError(
            f"the theorem rests on the form {fact.dressing} = {fact.form} for split: {fact.split}, and this binding has {kind} "
            f"{split}; bind the model with that split, or use the forms of this one"
        )


def _compare(
    what: str, binding: Binding, lhs: Tensor, rhs: Tensor, magnitude: Tensor, inner: int, dtype: torch.dtype
) -> Report:
    """lhs, rhs (batch, tokens, features); magnitude (batch, tokens): what was added up, on both sides; dtype: the shorter."""
    twice = lhs.shape[1] // binding.tokens
    real = torch.ones_like(lhs[..., 0], dtype=torch.bool)
    if binding.mask is not None:
        real &= binding.mask.repeat(1, twice).to(lhs.device)
    size = torch.maximum(evaluation.norms(lhs), evaluation.norms(rhs)).masked_fill(~real, 0.0)
    broken = (~torch.isfinite(size)).nonzero()
    if len(broken):
        row, token = broken[0].tolist()
        raise ModelError(f"{what}: a side is not finite at token {token} of row {row}; use a longer dtype or check the input")
    size = torch.where(size > 0, size, 1.0)
    residual = evaluation.norms(lhs.double() - rhs.double()).masked_fill(~real, 0.0) / size
    condition = magnitude.masked_fill(~real, 0.0) / size
    bound = roundoff.probable(inner, dtype) * condition
    ratio = torch.where(residual > 0, residual / bound, 0.0)
    at = int(ratio.argmax())
    differs = bool(((residual > bound) & (bound < 1)).any())
    says_little = bool((bound > RESOLUTION).any()) or not bool(bound.any())
    side = Detection("a whole side", bound[bound > 0].min().item() if bool((bound > 0).any()) else 0.0)
    return Report(
        what=what,
        holds=False if differs else None if says_little else True,
        residual=residual.flatten()[at].item(),
        bound=bound.flatten()[at].item(),
        worst_case=roundoff.worst_case(inner, dtype) * condition.flatten()[at].item(),
        condition=condition.flatten()[at].item(),
        would_catch=WouldCatch(side, side),
        per_position=binding.unbatched(residual).tolist(),
        bounds=binding.unbatched(bound).tolist(),
        model=binding.model.name,
        split=dict(binding.split),
        dtype=binding.dtypes,
        tf32=tf32(),
        device=binding.devices,
        versions=dict(versions()),
    )


def _vertices_caught(binding: Binding, report: Report) -> WouldCatch:
    """Closed form: the dressed product is linear in each vertex, so a relative error e in its output moves the result by
    e times that output propagated to the end, and is seen when at some token this exceeds the bound.
    """
    allowed = torch.tensor(report.bounds, dtype=torch.float64).reshape(binding.ids.shape)
    allowed = binding.real(allowed * evaluation.norms(binding.reference.states[-1]).cpu(), torch.inf)
    names, propagated = propagated_outputs(binding)
    smallest = (allowed / torch.stack([evaluation.norms(output) for output in propagated]).cpu()).flatten(1).amin(1)
    order = smallest.argsort()
    median, worst = order[(len(order) - 1) // 2], order[-1]
    return WouldCatch(*(Detection(names[index], smallest[index].item()) for index in (median, worst)))


def propagated_outputs(binding: Binding) -> tuple[list[str], Tensor]:
    """The names of all vertices, and their outputs carried to the end by the dressed product.

    The tensor is (vertices, batch, tokens, features), in the order of the stages.
    """
    names = [vertex.name for stage in binding.T.stages for vertex in stage.vertices]
    steps = [frozen.shared(stage, lambda vertex: False) for stage, frozen in zip(binding.T.stages, binding.frozen)]
    chunk = plan(steps, binding.states[0], len(names), None).chunk
    outputs = binding.states.new_zeros((len(names), *binding.states[0].shape))
    filled = 0
    for stage, frozen, step, state in zip(binding.T.stages, binding.frozen, steps, binding.states):
        outputs, state = beside(frozen, outputs), beside(frozen, state)
        step.carry(outputs, filled, chunk)
        for branch, own in zip(stage.branches, frozen.branches):
            read = state if own.before is None else own.before.whole(state)
            for vertex in branch.vertices:
                moved = part_of(own.vertex, branch, (vertex,)).whole(read)
                for norm in (own.after, frozen.after):
                    moved = moved if norm is None else norm(moved)
                outputs[filled] = moved
                filled += 1
    return names, outputs.to(binding.states.device)


@cache
def versions() -> dict[str, str]:
    """The versions that a number depends on."""
    found = {"python": platform.python_version()}
    for package in ("opalgebra", "torch", "transformers"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


@table.register
def _(value: Report) -> Table:
    caught = value.would_catch.median
    split = ", ".join(f"{kind} {choice}" for kind, choice in value.split.items())
    rows = [
        ("verdict", value.verdict),
        ("residual", value.residual),
        ("bound (estimate)", value.bound),
        ("worst case", value.worst_case),
        ("condition", value.condition),
        ("would catch a relative error of", f"{caught.error:.1e} in {caught.vertex}"),
        ("model, split", f"{value.model}, {split}"),
        ("dtype, device", f"{value.dtype}, {value.device}"),
    ]
    return Table(["statement", value.what], rows)
