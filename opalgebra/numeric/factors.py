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
from opalgebra.frozen import NEURONS, PATTERNS, TOKENS, WEIGHTS, norm_factors
from opalgebra.numeric.blocks import FrozenAttention, FrozenGated, RMSNorm
from opalgebra.numeric.interpretation import Interpretation
from opalgebra.space import Kind

Factor = tuple[Callable[[Tensor], Tensor], int]


def factor(binding: Interpretation, atom: Atom) -> Factor:
    """The function that a factor is, and its summed inner dimension. InputError for what this binding has no value of."""
    indices: Any = atom.indices
    if indices and all(isinstance(index, int) for index in indices):
        if atom is TOKENS[indices] and indices[0] < binding.tokens:
            return _only(indices[0])
        for index, stage in enumerate(binding.T.stages):
            own = [] if stage.norm is None else [found[stage.norm.indices] for found in norm_factors(stage.norm)]
            if atom in own:
                return _of_norm(binding, index, own.index(atom))
            if stage.layer == indices[0] and len(indices) == 2:
                kind, vertex, last = stage.branches[0].kind, binding.frozen[index].vertex, indices[1]
                if kind == Kind.ATTENTION and isinstance(vertex, FrozenAttention) and last < _heads(vertex):
                    head = vertex.restricted([last])
                    if atom is PATTERNS[indices]:
                        return _mixed(head)
                    if atom is WEIGHTS[indices]:
                        return _moved(head)
                if kind == Kind.FFN and isinstance(vertex, FrozenGated) and atom is NEURONS[indices] and last < binding.tokens:
                    return _gated(vertex, last)
    raise InputError(
        f"{atom.name} has no value under this binding: it is no pattern, scale or weight of a dressing that its split "
        f"({', '.join(f'{kind} {choice}' for kind, choice in binding.split.items())}) freezes; see frozen_forms"
    )


def _heads(vertex: FrozenAttention) -> int:
    return vertex.pattern.shape[1] * vertex.pattern.shape[2]


def _only(token: int) -> Factor:
    def only(states: Tensor) -> Tensor:
        kept = torch.zeros_like(states)
        kept[..., token, :] = states[..., token, :]
        return kept

    return only, 1


def _of_norm(binding: Interpretation, index: int, part: int) -> Factor:
    norm = binding.maps[index][0]
    assert isinstance(norm, RMSNorm)
    diagonal = norm.weight if part else norm.scale(binding.reference.states[index].to(binding.dtype))
    return lambda states: states * diagonal, norm.inner


def _mixed(head: FrozenAttention) -> Factor:
    pattern = head.pattern[:, 0, 0]
    return lambda states: torch.matmul(pattern, states), pattern.shape[-1]


def _moved(head: FrozenAttention) -> Factor:
    def moved(states: Tensor) -> Tensor:
        return functional.linear(functional.linear(states, head.value), head.output)

    return moved, sum(head.value.shape)


def _gated(vertex: FrozenGated, token: int) -> Factor:
    gate = vertex.gate[:, token : token + 1]
    return lambda states: functional.linear(gate * functional.linear(states, vertex.up), vertex.down), vertex.inner
