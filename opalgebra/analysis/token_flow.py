"""The worldlines of one diagram weighed on a bound model: states forwards, the read-out covector backwards, met at each step.

With y_k the state before step k and c_k the covector after it, the hop from token s to token t of step A_k weighs

    c_k[t] . (A_k E_s y_k)[t],        E_s the projector on token s,

the sum over all worldlines through it. At every step the weights sum to what the diagram contributes to the logit.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from opalgebra.diagram import Diagram
from opalgebra.errors import InputError
from opalgebra.expr import Identity, Operator, factors, ordered_product
from opalgebra.numeric import evaluation
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.faithful import full_precision
from opalgebra.numeric.pullback import only, pulled, readout_covector
from opalgebra.space import X
from opalgebra.worldlines import Hop, TokenDiagram, connected, is_moving

Step = Callable[[Tensor], Tensor]


def token_flow(binding: Binding, diagram: Diagram, token: str | int, *, minus: str | int | None = None) -> TokenDiagram:
    """A diagram of `binding.T` with what each of its hops contributes to a logit at the last token, or to a difference of two.

    A diagram without a state is taken on the embedding. Its `contribution` is `R.logits(token, minus)` of this one term.
    InputError for several prompts, a model without an unembedding, a transposed diagram, or one that carries nothing there.
    """
    if not isinstance(binding, Binding):
        raise InputError(f"{type(binding).__name__} is no bound model; bind one at an input")
    if not isinstance(diagram, Diagram):
        raise InputError(f"{type(diagram).__name__} is no diagram; make one of a term by Diagram(term)")
    covector = readout_covector(binding, token, minus)
    on_state = diagram if diagram.term.is_state else Diagram(diagram.term @ binding.T.x[0])
    start, operators = _steps(on_state)
    with torch.no_grad(), full_precision():
        hops = _weighed(binding, on_state, evaluation.evaluate(binding, start).array[None], operators, covector)
    if not hops:
        raise InputError("the diagram carries nothing to this logit under the binding's split, and so has no worldlines")
    return TokenDiagram(on_state, token_texts(binding), tuple(hops), binding.T.causal, readout_name(token, minus))


def token_texts(binding: Binding) -> tuple[str, ...]:
    """The tokens of a prompt."""
    return tuple(binding.token_texts[0] if binding.has_batch else binding.token_texts)


def readout_name(token: str | int, minus: str | int | None) -> str:
    """How a picture names what is read."""
    names = [str(part).strip() or str(part) for part in (token, minus) if part is not None]
    return " − ".join(names)


def _steps(diagram: Diagram) -> tuple[Operator, list[Operator]]:
    """The state at which a diagram begins, and what each of its steps does."""
    start, *letters = [factor for factor in reversed(factors(diagram.term)) if not isinstance(factor, Identity)]
    waiting = iter(letters)
    operators: list[Operator] = [Identity(X)]
    for line in diagram.lines:
        operators.append(ordered_product([next(waiting) for _ in line.factors], space=X))
        operators.append(next(waiting, Identity(X)))
    return start, operators


def _weighed(binding: Binding, diagram: Diagram, state: Tensor, operators: list[Operator], covector: Tensor) -> list[Hop]:
    def step(operator: Operator) -> Step:
        return lambda states: evaluation.act(binding, operator, evaluation.leaf(states)).array

    states = [state]
    for operator in operators:
        states.append(state if isinstance(operator, Identity) else step(operator)(state))
        state = states[-1]
    found: list[list[Hop]] = []
    for number in reversed(range(len(operators))):
        own, after = step(operators[number]), states[number + 1]
        if is_moving(diagram, number):
            found.insert(0, _moves(number, own, states[number], covector))
        else:
            found.insert(0, [Hop(number, t, t, weight) for t, weight in _met(after[0, 0], covector)])
        covector = covector if isinstance(operators[number], Identity) else pulled(own, covector)
    return [hop for hops in connected(found) for hop in hops]


def _moves(number: int, step: Step, state: Tensor, covector: Tensor) -> list[Hop]:
    """The hops of a step that may carry from any token to any other."""
    read = [s for s in range(state.shape[-2]) if state[..., s, :].any()]
    images = step(torch.cat([only(s, state) for s in read])) if read else state[:0]
    return [Hop(number, s, t, weight) for s, image in zip(read, images[:, 0]) for t, weight in _met(image, covector)]


def _met(image: Tensor, covector: Tensor) -> list[tuple[int, float]]:
    """What a covector reads of an image (tokens, features) at each token where both are there."""
    present = (image != 0).any(-1) & (covector[0, 0] != 0).any(-1)
    weights = (image * covector[0, 0]).sum(-1)
    return [(t, float(weights[t])) for t in present.nonzero()[:, 0].tolist()]
