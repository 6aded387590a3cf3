"""The factors of frozen dressings under a binding: patterns, scales and token projectors on positions, weights on features.

The names are those of `opalgebra.frozen`; all of them act on arrays (..., batch, tokens, features) along one axis.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from opalgebra.errors import InputError
from opalgebra.expr import Atom
from opalgebra.frozen import CENTERING, NEURONS, PATTERNS, TOKENS, WEIGHTS, norm_factors
from opalgebra.numeric.attention import FrozenAttention
from opalgebra.numeric.ffn import FrozenFFN
from opalgebra.numeric.interpretation import Interpretation
from opalgebra.numeric.maps import Affine, beside
from opalgebra.space import Kind

Factor = tuple[Callable[[Tensor], Tensor], int]


def factor(binding: Interpretation, atom: Atom) -> Factor:
    """The function that a factor is, and its summed inner dimension. InputError for what this binding has no value of."""
    norms = binding.frozen_norms
    if atom is CENTERING and any(norm.centered for norm in norms.values()):
        return (lambda states: states - states.mean(-1, keepdim=True)), binding.states.shape[-1] + 1
    indices: Any = atom.indices
    if indices and all(isinstance(index, int) for index in indices):
        if atom is TOKENS[indices] and indices[0] < binding.tokens:
            return _only(indices[0])
        for norm, frozen in norms.items():
            scale, weight = (found[norm.indices] for found in norm_factors(norm))
            if atom in (scale, weight):
                return _times(frozen.scale if atom is scale else frozen.weight), frozen.inner
        for stage, frozen_stage in zip(binding.T.stages, binding.frozen):
            for branch, here in zip(stage.branches, frozen_stage.branches):
                if stage.layer == indices[0] and len(indices) == 2:
                    found = _of_vertex(atom, indices, branch.kind, here.vertex, binding.tokens)
                    if found is not None:
                        return found
    raise InputError(
        f"{atom.name} has no value under this binding: it is no pattern, scale or weight of a dressing that its split "
        f"({', '.join(f'{kind} {choice}' for kind, choice in binding.split.items())}) freezes; see frozen_forms"
    )


def _of_vertex(atom: Atom, indices: Any, kind: Kind, vertex: Affine, tokens: int) -> Factor | None:
    last = indices[1]
    if kind == Kind.ATTENTION and isinstance(vertex, FrozenAttention) and last < _heads(vertex):
        head = vertex.restricted([last])
        if atom is PATTERNS[indices]:
            return _mixed(head)
        if atom is WEIGHTS[indices]:
            return _moved(head)
    if kind == Kind.FFN and isinstance(vertex, FrozenFFN) and atom is NEURONS[indices] and last < tokens:
        return _gated(vertex, last)
    return None


def _times(diagonal: Tensor | float) -> Callable[[Tensor], Tensor]:
    return lambda states: states * (diagonal.to(states.device) if isinstance(diagonal, Tensor) else diagonal)


def _heads(vertex: FrozenAttention) -> int:
    return vertex.pattern.shape[1] * vertex.pattern.shape[2]


def _only(token: int) -> Factor:
    def only(states: Tensor) -> Tensor:
        kept = torch.zeros_like(states)
        kept[..., token, :] = states[..., token, :]
        return kept

    return only, 1


def _mixed(head: FrozenAttention) -> Factor:
    pattern = head.pattern[:, 0, 0]
    return lambda states: torch.matmul(pattern.to(states.device), states), pattern.shape[-1]


def _moved(head: FrozenAttention) -> Factor:
    def moved(states: Tensor) -> Tensor:
        here = beside(head, states)
        return functional.linear(functional.linear(here, head.value), head.output).to(states.device)

    return moved, sum(head.value.shape)


def _gated(vertex: FrozenFFN, token: int) -> Factor:
    one = FrozenFFN(tuple((frozen[:, token : token + 1], weight) for frozen, weight in vertex.paths), vertex.down, vertex.inner)
    return one, vertex.inner
