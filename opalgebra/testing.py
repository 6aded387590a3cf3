"""What to test with: declared facts checked on functions of arrays, bindings checked on models, and planted errors.

Checks of facts need NumPy alone; those of bindings, and planting, need PyTorch, as the bindings do.
"""

from typing import TYPE_CHECKING, Any

from opalgebra.conformance import Conformance, assert_fact, check_fact
from opalgebra.errors import InputError
from opalgebra.expr import Atom

if TYPE_CHECKING:
    from opalgebra.numeric.agreement import ModelCheck
    from opalgebra.numeric.binding import Binding

__all__ = ["Conformance", "assert_fact", "check_fact", "check_model", "plant"]

ROWS, TOKENS, SEED = 2, 12, 20260311


def plant(binding: "Binding", vertex: Atom, error: float) -> "Binding":
    """The binding with the output of one vertex wrong by a relative error, in its dressed form; backgrounds unchanged.

    What a verification must be seen to reject before it is believed. InputError when the vertex is not the model's.
    """
    from opalgebra.numeric.planting import planted

    return planted(binding, vertex, error)


def check_model(model: Any, input: Any = None, *, split: Any = "gate") -> "ModelCheck":
    """Whether the orders that `bind` finds for a model are those that its own modules give, adapter aside.

    The oracle runs the model's own forward again with its softmax patterns, norm scales and gates frozen, each vertex
    emitting what it made of the order before; it knows no family and reads no weights. Compared are all orders at all
    tokens, and their source-born parts, counting all, attention and ffn. The record says what the comparison would have
    caught, and what it cannot tell, such as norm weights that are all one: then `holds` is None.

    model and input as for `bind`; without an input, 2 rows of 12 random token ids (fixed seed). split: "gate", "source", or a
    mapping of attention ("frozen", "source") and ffn. InputError for other splits and inputs; ModelError for a model that no
    adapter reads, or of which the oracle cannot say how it is built.
    """
    from opalgebra.models.bind import bind
    from opalgebra.models.load import Model, load
    from opalgebra.numeric.agreement import agreement

    model = model if isinstance(model, Model) else load(model)
    binding = bind(model, _random_ids(model) if input is None else input, split=split, check=False)
    return agreement(model.network, binding)


def _random_ids(model: Any) -> Any:
    import torch

    config = getattr(model.network, "config", None)
    vocabulary = getattr(config, "vocab_size", None)
    if not vocabulary:
        raise InputError(f"{model.name} says nothing of its vocabulary; give token ids (batch, tokens) as input")
    longest = getattr(config, "max_position_embeddings", None) or TOKENS
    generator = torch.Generator().manual_seed(SEED)
    return torch.randint(vocabulary, (ROWS, min(TOKENS, longest)), generator=generator)
