"""The embedding as a change of basis, and what attention compares in it.

A vocabulary of V tokens embeds into d < V features: the rows w_v of W_E are an overcomplete frame. What it spans is read off
the frame operator G = sum_v w_v w_v^T = W_E^T W_E of size d x d, never off the V x V Gram matrix, which has the same nonzero
spectrum. Attention compares the (normed) states of two positions by a bilinear form on the same features,

    logit of the query at position t for the key at s  =  scaling * y_t^T K y_s + terms of biases,    K = W_Q^T R W_K,

with R the rotation by the distance t - s of a rotary embedding. K is not symmetric: its symmetric part lets similar states
attend to each other, its antisymmetric part gives t and s different parts to play.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opalgebra.analysis.sequences import Array, numbers
from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.models.load import Model, load
from opalgebra.numeric.attention import Attention, Rotary
from opalgebra.numeric.binding import Binding
from opalgebra.scalar import is_natural

ROWS = 2048
"""Rows of the Gram matrix that are held at once."""


@dataclass(frozen=True, eq=False)
class Gram(Tabulated):
    """The frame of a vocabulary. embedding: (vocabulary, features) in float64; spectrum: eigenvalues of the frame operator,
    descending.
    """

    embedding: Array
    spectrum: Array

    @property
    def effective_dimension(self) -> float:
        """`(sum lambda)^2 / sum lambda^2`: d for a tight frame, 1 for parallel tokens."""
        return float(self.spectrum.sum() ** 2 / (self.spectrum**2).sum())

    @property
    def centred_dimension(self) -> float:
        """The same without the mean of the tokens, which often is most of the frame and tells no token from another."""
        centred = self.embedding - self.embedding.mean(0)
        spectrum = np.linalg.eigvalsh(centred.T @ centred)
        return float(spectrum.sum() ** 2 / (spectrum**2).sum())

    @property
    def condition(self) -> float:
        """The largest eigenvalue over the smallest, the ratio of the frame bounds; infinite where the tokens do not span."""
        smallest = self.spectrum[-1]
        return float(self.spectrum[0] / smallest) if smallest > 0 else float("inf")

    @property
    def welch(self) -> float:
        """What no coherence of as many unit vectors in as many dimensions is below: `sqrt((V - d) / (d (V - 1)))`."""
        count, features = self.embedding.shape
        return sqrt(max(count - features, 0) / (features * (count - 1))) if count > 1 else 0.0

    @cached_property
    def nearest(self) -> tuple[int, int, float]:
        """The two tokens whose embeddings are the most parallel or antiparallel, and |cos| of their angle; zero rows left out.

        All V (V - 1) / 2 pairs are looked at in float32, whose error in a product of unit vectors is at most (d + 2) u, and
        those that may be the largest again in float64: V = 49,152 takes about a minute on two cores.
        """
        lengths = np.linalg.norm(self.embedding, axis=1)
        kept = np.flatnonzero(lengths > 0)
        if len(kept) < 2:
            raise InputError("coherence compares two tokens whose embeddings are not zero, and there are not two")
        unit = torch.from_numpy(self.embedding[kept] / lengths[kept, None])
        single = unit.float()
        slack = 2 * (unit.shape[1] + 2) * torch.finfo(torch.float32).eps / 2
        best = torch.stack([_largest(single, start).max() for start in range(0, len(kept), ROWS)])
        found = (0, 0, -1.0)
        for number in (best >= best.max() - slack).nonzero().flatten().tolist():
            products = _largest(unit, number * ROWS)
            row, column = divmod(int(products.argmax()), products.shape[1])
            value = float(products[row, column])
            if value > found[2]:
                start = number * ROWS
                found = (int(kept[start + row]), int(kept[start + column]), min(value, 1.0))
        return found

    @property
    def coherence(self) -> float:
        """The largest |cos| between two tokens; see `nearest`, which is computed when this is first asked."""
        return self.nearest[2]


def gram(model: Any) -> Gram:
    """The frame that a vocabulary is, from a model's token embedding or from a matrix (vocabulary, features).

    model: a bound or loaded model, a model object, a known name, or an array, NumPy's or PyTorch's. Positions and a norm
    after the embedding do not belong to it; multipliers of the embedding (Gemma) do not either, and change nothing but the
    scale of the spectrum. InputError for a model without an embedding, for another shape, and for an entry that is not
    finite.

    >>> import numpy as np
    >>> frame = gram(np.array([[0.0, 1.0], [-(3**0.5) / 2, -0.5], [3**0.5 / 2, -0.5]]))
    >>> frame.spectrum.round(12), round(frame.effective_dimension, 12), round(frame.coherence, 12), round(frame.welch, 12)
    (array([1.5, 1.5]), 2.0, 0.5, 0.5)

    Casazza and Kutyniok, Finite Frames (2013); Welch, IEEE Trans. Inf. Theory 20 (1974) 397.
    """
    values, _ = numbers(_embedding(model), "the embedding")
    if values.ndim != 2 or not values.size:
        raise InputError(f"an embedding is a matrix (vocabulary, features), not an array of the shape {values.shape}")
    values = values.astype(float)
    return Gram(values, np.linalg.eigvalsh(values.T @ values)[::-1].clip(min=0.0))


@dataclass(frozen=True, eq=False)
class AttentionKernel(Tabulated):
    """kernel = symmetric + antisymmetric, float64 (features, features): `y_t^T kernel y_s` before the scaling, for a query at t
    and a key `distance` positions before it.
    """

    kernel: Array
    distance: int

    @property
    def symmetric(self) -> Array:
        """`(K + K^T) / 2`."""
        return (self.kernel + self.kernel.T) / 2

    @property
    def antisymmetric(self) -> Array:
        """`(K - K^T) / 2`."""
        return (self.kernel - self.kernel.T) / 2

    @property
    def ratio(self) -> float:
        """The Frobenius norm of the antisymmetric part over that of the symmetric; near 1 for a kernel without structure."""
        symmetric = np.linalg.norm(self.symmetric)
        return float(np.linalg.norm(self.antisymmetric) / symmetric) if symmetric > 0 else float("inf")


def attention_kernel(M: Binding, layer: int, head: int, distance: int = 0) -> AttentionKernel:
    """What a head compares, `W_Q^T R_distance W_K`, at a layer (from 1) for one of its query heads (from 0).

    distance: how many tokens the key stands before the query, of which the rotation depends where there is one; it is that
    between the last token of the input and the one as many before it, so that the input needs more tokens than that. Key
    heads serve the query heads of their group. InputError for what the model does not have, and for norms of queries or keys,
    with which the comparison is no bilinear form.

    >>> import opalgebra as oa
    >>> M = oa.bind(oa.load("minilm"), "Depth is discrete time.")
    >>> f"{attention_kernel(M, 1, 0).ratio:.2f}"
    '0.94'

    Elhage et al., A Mathematical Framework for Transformer Circuits (2021), for the kernel without rotation.
    """
    attention = attention_of(M, layer)
    if not is_natural(head) or head >= attention.heads:
        raise InputError(f"head {head!r} was asked of {attention.heads} of layer {layer}; they count from 0")
    if attention.query.norm is not None or attention.key.norm is not None:
        raise InputError(
            f"layer {layer} of {M.model.name} norms its queries and keys, so that what a head compares depends on the state "
            "and has no kernel; ask a model without such norms"
        )
    if not is_natural(distance) or distance >= M.tokens:
        most = M.tokens - 1
        raise InputError(f"distance {distance!r} was asked of {M.tokens} tokens; bind a longer input, or give 0 to {most}")
    group = head // (attention.heads // attention.key.heads)
    query, key = attention.query.weight[head].double(), attention.key.weight[group].double()
    if attention.rotary is not None:
        last = int(M.last[0])
        if last < distance:
            raise InputError(f"distance {distance} was asked of a row of {last + 1} tokens; give 0 to {last}")
        query, key = _turned(attention.rotary, query, last), _turned(attention.rotary, key, last - distance)
    return AttentionKernel((query.T @ key).cpu().numpy(), distance)


def attention_of(M: Binding, layer: int) -> Attention:
    """The attention of a layer. InputError where there is none that is described by weights alone."""
    if not isinstance(M, Binding):
        raise InputError(f"{type(M).__name__} is no bound model; bind one at an input")
    for stage, maps in zip(M.T.stages, M.maps):
        for branch in maps.branches:
            vertex = getattr(branch.vertex, "map", branch.vertex)
            if stage.layer == layer and isinstance(vertex, Attention):
                return vertex
    layers = max(stage.layer for stage in M.T.stages)
    raise InputError(f"layer {layer!r} was asked of {layers}, which count from 1; give 1 to {layers}")


def _turned(rotary: Rotary, weight: Tensor, token: int) -> Tensor:
    """The rows of a projection (size, features) turned as the heads at a token of the first row of the input are."""
    table = Rotary(*(part[:1, token : token + 1].double() for part in (rotary.cosine, rotary.sine)))
    return table(weight.T[None, :, None])[0, :, 0].T


def _embedding(model: Any) -> Any:
    if isinstance(model, Binding):
        model = model.model
    if isinstance(model, str):
        model = load(model)
    network = model.network if isinstance(model, Model) else model
    if not isinstance(network, torch.nn.Module):
        return network
    found = getattr(network, "get_input_embeddings", lambda: None)()
    if found is None:
        raise InputError(f"{type(network).__name__} has no embedding of tokens; give a model with one, or a matrix")
    return found.weight


def _largest(unit: Tensor, start: int) -> Tensor:
    """|products| of some rows with the rows from the first of them on, of those that come after each; the others are zero."""
    return (unit[start : start + ROWS] @ unit[start:].T).abs_().triu_(diagonal=1)
