"""The value of a state expression under a binding, with what rounding it rests on.

A value carries its array, the sum of the norms of the terms that were added up to make it (per token, so that the
quotient by its own norm is a condition number) and the number of inner dimensions summed along its longest path.
Shared subterms are evaluated once, and nothing recurses.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from opalgebra.errors import InputError
from opalgebra.expr import Atom, Compose, Dressed, Identity, Operator, Source, Sum, Zero, factors
from opalgebra.numeric.factors import factor as factor_of
from opalgebra.numeric.interpretation import Interpretation
from opalgebra.numeric.maps import beside
from opalgebra.recursion import Steps, without_recursion
from opalgebra.space import FEATURES, POSITIONS
from opalgebra.tensor import Tensor as TensorProduct


@dataclass(frozen=True, eq=False)
class Value:
    """array (batch, tokens, features), magnitude (batch, tokens) in float64, inner: see the module."""

    array: Tensor
    magnitude: Tensor
    inner: int

    def through(self, array: Tensor, inner: int) -> "Value":
        """The value of a map of this one, as ill-conditioned as the worst token that it may have read."""
        own = norms(self.array)
        condition = torch.where(own > 0, self.magnitude / own, 1.0).max()
        return Value(array, norms(array) * condition, self.inner + inner)


def norms(array: Tensor) -> Tensor:
    """Norm over features, in float64."""
    return array.double().norm(dim=-1)


def leaf(array: Tensor, inner: int = 0) -> Value:
    """A value that is given, not summed."""
    return Value(array, norms(array), inner)


def evaluate(binding: Interpretation, state: Operator) -> Value:
    """The value of a state; InputError for a map, or for atoms that are not the model's."""
    if not state.is_state:
        raise InputError(f"{state} maps {state.domain} to {state.codomain}; only a state has a value: apply it to M.T.x[0]")
    return without_recursion(_Evaluator(binding).value(state))


def act(binding: Interpretation, operator: Operator, value: Value) -> Value:
    """The value of `operator` at a given array."""
    return without_recursion(_Evaluator(binding).act(operator, value))


class _Evaluator:
    def __init__(self, binding: Interpretation) -> None:
        self.binding = binding
        self.known: dict[Operator, Value] = {}
        self.own = {node: s for s, node in enumerate(binding.T.x)}

    def value(self, state: Operator) -> Steps[Value]:
        if state not in self.known:
            self.known[state] = yield self._value(state)
        return self.known[state]

    def _value(self, state: Operator) -> Steps[Value]:
        binding = self.binding
        if state in self.own:
            return self._own_state(self.own[state])
        if isinstance(state, Zero):
            return leaf(torch.zeros_like(binding.states[0]))
        if isinstance(state, Source):
            source = (yield self._dressing(state)).source
            nothing = torch.zeros_like(binding.states[0])
            return leaf(nothing if source is None else source.to(nothing.device).expand_as(nothing))
        if isinstance(state, Sum):
            parts = []
            for coefficient, term in state.terms:
                parts.append((float(coefficient), (yield self.value(term))))
            return _total(parts)
        if isinstance(state, Compose):
            return (yield self.act(state.left, (yield self.value(state.right))))
        raise InputError(f"{state} is not a state of this model; its states are M.T.x[s]")

    def _own_state(self, s: int) -> Value:
        states = self.binding.states
        magnitude = norms(states[0]) + sum(norms(states[i + 1] - states[i]) for i in range(s))
        return Value(states[s], magnitude, sum(stage.inner for stage in self.binding.frozen[:s]))

    def _dressing(self, node: Dressed | Source) -> Steps:
        if (node.operator, node.state) not in self.binding.known_dressings:
            own = self.binding.own_dressing(node.operator, node.state)
            if own is None:
                background = yield self.value(node.state)
                function = self.binding.map_of(node.operator)
                own = function.freeze(beside(function, background.array))
            self.binding.known_dressings[node.operator, node.state] = own
        return self.binding.known_dressings[node.operator, node.state]

    def act(self, operator: Operator, value: Value) -> Steps[Value]:
        for factor in reversed(factors(operator)):
            if isinstance(factor, Zero):
                value = leaf(torch.zeros_like(value.array))
            elif isinstance(factor, Sum):
                parts = []
                for coefficient, term in factor.terms:
                    parts.append((float(coefficient), (yield self.act(term, value))))
                value = _total(parts)
            elif isinstance(factor, Dressed):
                affine = yield self._dressing(factor)
                value = value.through(affine(value.array), affine.inner)
            elif isinstance(factor, TensorProduct):
                for block in factor.blocks:
                    value = yield self.act(block, value)
            elif isinstance(factor, Atom) and factor.domain in (POSITIONS, FEATURES):
                along, inner = factor_of(self.binding, factor)
                value = value.through(along(value.array), inner)
            elif isinstance(factor, Atom):
                function = self.binding.map_of(factor)
                array = function(beside(function, value.array)).to(value.array.device)
                value = value.through(array, function.inner)
            elif not isinstance(factor, Identity):
                raise InputError(f"{factor} has no value under this binding")
        return value


def _total(parts: list[tuple[float, Value]]) -> Value:
    array = sum(coefficient * part.array for coefficient, part in parts)
    magnitude = sum(abs(coefficient) * part.magnitude for coefficient, part in parts)
    return Value(array, magnitude, max(part.inner for _, part in parts) + len(parts))
