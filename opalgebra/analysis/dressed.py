"""The dressed stages of a bound model as linear maps on its T x d states, and their Gaussian twins.

A frozen stage `after (1 + sum of branches)` is affine; its linear part acts on states of all tokens at once and is never
written as a matrix. With split="jacobian" the same maps are the tangent of the model's own forward.

The twin of a stage has every weight matrix replaced by one of independent normal entries of the same Frobenius norm, and keeps
its patterns, gates and norms: what is left of an exponent is due to them, and the difference to how the weights are aligned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opalgebra.analysis.linear_map import LinearMap, composed
from opalgebra.analysis.matrices import Array
from opalgebra.analysis.products import DepthExponents, depth_exponents
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.numeric.attention import FrozenAttention
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.ffn import FrozenFFN
from opalgebra.numeric.maps import Affine, Constant, Derivative, beside
from opalgebra.numeric.norms import Diagonal
from opalgebra.numeric.stages import FrozenBranch, FrozenStage


def dressed_stages(binding: Binding, *, layer: int | None = None) -> list[LinearMap]:
    """The linear part of every stage, in order, or of the stages of one layer, which count from 1.

    A map acts on columns (tokens * features, k), a state flattened token by token; its adjoint is by automatic
    differentiation. InputError for a binding of several rows, with padding or in less than float64, and for a layer that
    the model does not have.
    """
    return [_as_map(binding, stage) for stage in _stages(binding, layer)]


def dressed_layer(binding: Binding, layer: int) -> LinearMap:
    """All stages of one layer as one linear map on T x d states; errors as `dressed_stages`."""
    return composed(dressed_stages(binding, layer=layer))


def gaussian_stages(binding: Binding, *, seed: int, layer: int | None = None) -> list[LinearMap]:
    """The Gaussian twins of the dressed stages. InputError also for a split that freezes no weights, such as the jacobian."""
    random = np.random.default_rng(seed)
    return [_as_map(binding, _twin(stage, random)) for stage in _stages(binding, layer)]


@dataclass(frozen=True, eq=False)
class ModelExponents(Tabulated):
    """own: of the model's dressed stages; per stage, as many as asked. baseline (draws, k): exponents of Gaussian twins."""

    own: DepthExponents
    baseline: Array


def model_exponents(binding: Binding, k: int = 8, *, draws: int = 5, sweeps: int = 8, seed: int = 0) -> ModelExponents:
    """The k leading finite-depth exponents of a model's dressed product, beside those of Gaussian twins of it.

    Matrix-free: one sweep costs two passes over the stages with k + 4 states. Errors as `dressed_stages`.
    """
    own = depth_exponents(dressed_stages(binding), k, sweeps=sweeps, seed=seed)
    twins = [gaussian_stages(binding, seed=seed + 1 + draw) for draw in range(draws)]
    rows = [depth_exponents(twin, k, sweeps=sweeps, seed=seed).exponents for twin in twins]
    return ModelExponents(own, np.array(rows).reshape(draws, k))


def token_blocks(binding: Binding, token: int = -1) -> list[Array]:
    """(features, features) for every stage: what it makes of a token's own state, the others held at zero.

    In a causal model the blocks of a token multiply: the product of the blocks is the block of the product, since what goes
    to earlier tokens is zero. InputError for a model that is not causal, where they do not, and a token it does not have.
    """
    if not binding.T.causal:
        raise InputError(
            f"one token's blocks were asked of {binding.model.name}, which is not causal; its blocks do not multiply"
        )
    if not isinstance(token, int) or not -binding.tokens <= token < binding.tokens:
        raise InputError(f"token {token!r} was asked of {binding.tokens}; they count from 0, and -1 is the last")
    tokens, features = binding.states.shape[-2:]
    one = torch.eye(features, dtype=torch.float64, device=binding.states.device)[:, None, None]
    return [_linear(_at_token(stage, token % tokens), one)[:, 0, 0].mT.cpu().numpy() for stage in _stages(binding, None)]


def _stages(binding: Binding, layer: int | None) -> Sequence[FrozenStage]:
    if not isinstance(binding, Binding):
        raise InputError(f"{type(binding).__name__} is no bound model; bind one at an input")
    if binding.mask is not None or len(binding.ids) != 1:
        raise InputError("dressed maps of several rows, or of padded ones, were asked; bind one text, or one row of token ids")
    if binding.dtype != torch.float64:
        raise InputError(f"the stages are evaluated in {binding.dtypes}; bind with accumulate='float64', exponents need it")
    chosen = [frozen for stage, frozen in zip(binding.T.stages, binding.frozen) if layer in (None, stage.layer)]
    if not chosen:
        last = binding.T.stages[-1].layer
        raise InputError(f"layer {layer!r} was asked of a model of {last}; layers count from 1 to {last}")
    return chosen


def _as_map(binding: Binding, stage: FrozenStage) -> LinearMap:
    tokens, features = binding.states.shape[-2:]

    def apply(columns: Tensor) -> Tensor:
        return _linear(stage, columns.mT.reshape(-1, 1, tokens, features)).reshape(-1, tokens * features).mT

    def adjoint(columns: Tensor) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            at = torch.zeros_like(columns).requires_grad_()
            (found,) = torch.autograd.grad(apply(at), at, columns.clone())
        return found

    return LinearMap(tokens * features, apply, adjoint, binding.states.device)


def _linear(stage: FrozenStage, states: Tensor) -> Tensor:
    """The linear part of a stage on states (k, batch, tokens, features)."""
    total = states
    for branch in stage.branches:
        read = states if branch.before is None else _act(branch.before, states)
        value = _act(branch.vertex, read)
        total = total + (value if branch.after is None else _act(branch.after, value))
    return total if stage.after is None else _act(stage.after, total)


def _act(part: Affine, states: Tensor) -> Tensor:
    """The linear part of an affine map, in a form that can be differentiated."""
    if not isinstance(part, Derivative):
        return part(states)
    here = beside(part, states)
    moved = [torch.func.jvp(part.map, (part.state.clone(),), (tangent.clone(),))[1] for tangent in here]
    return torch.stack(moved).to(states.device)


def _at_token(stage: FrozenStage, token: int) -> FrozenStage:
    """The stage on one token alone: what attention moves from it to itself, its own gates and scales."""
    kept = slice(token, token + 1)

    def at(part: Affine | None) -> Any:
        if part is None or isinstance(part, Constant):
            return part if part is None else Constant(part.source[:, kept])
        if isinstance(part, Diagonal):
            return replace(part, scale=part.scale[:, kept])
        if isinstance(part, FrozenAttention):
            return replace(part, pattern=part.pattern[..., kept, kept])
        if isinstance(part, FrozenFFN):
            return replace(part, paths=tuple((factor[:, kept], weight) for factor, weight in part.paths))
        raise InputError(f"the block of one token was asked of {type(part).__name__}; bind with split='gate' or 'tangent'")

    branches = (FrozenBranch(at(part.vertex), at(part.before), at(part.after)) for part in stage.branches)
    return FrozenStage(tuple(branches), at(stage.after))


def _twin(stage: FrozenStage, random: np.random.Generator) -> FrozenStage:
    return replace(stage, branches=tuple(replace(part, vertex=_gaussian(part.vertex, random)) for part in stage.branches))


def _gaussian(vertex: Affine, random: np.random.Generator) -> Affine:
    def drawn(weight: Tensor) -> Tensor:
        normal = torch.from_numpy(random.standard_normal(tuple(weight.shape))).to(weight)
        scaled: Tensor = normal * (weight.norm() / normal.norm())
        return scaled

    if isinstance(vertex, FrozenAttention):
        return replace(vertex, value=drawn(vertex.value), output=drawn(vertex.output))
    if isinstance(vertex, FrozenFFN):
        paths = tuple((factor, drawn(weight)) for factor, weight in vertex.paths)
        return replace(vertex, paths=paths, down=drawn(vertex.down))
    if isinstance(vertex, Constant):
        return vertex
    kind: Any = type(vertex).__name__
    raise InputError(f"a Gaussian twin of {kind} was asked, whose weights are not apart from its state; bind with split='gate'")
