"""How independent the heads of a layer are: where they read, where they write, and whether their order would matter.

With its pattern frozen a head moves values by `w_h = W_O^h W_V^h`, from the row space of W_V^h, where it reads, into the column
space of W_O^h, where it writes. Two heads are independent channels if both pairs of spaces are orthogonal; of heads in two
layers one reads what the other writes (a virtual head) as far as w_2 w_1 is not small, and their order matters as far as
w_2 w_1 - w_1 w_2 is not.

Random spaces are the yardstick: the cosines of the principal angles between random spaces of size s in d dimensions fill
[0, 2 sqrt(s/d (1 - s/d))] for large d, and random w of rank s have |w_2 w_1| / (|w_2| |w_1|) about 1/sqrt(d).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from opalgebra.analysis.basis import attention_of
from opalgebra.analysis.sequences import Array
from opalgebra.display import Tabulated
from opalgebra.numeric.attention import Attention
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.maps import moved


@dataclass(frozen=True, eq=False)
class Channels(Tabulated):
    """Figures for every pair of a head of one layer (first axis) and of another, or of the same.

    read, write (heads, heads, size): the cosines of the principal angles between the spaces, descending, 1 for a shared
    direction. virtual (heads, heads): `|w_2 w_1| / (|w_2| |w_1|)` in Frobenius norms, with w_2 of the second layer;
    commutator: the same of `w_2 w_1 - w_1 w_2`. random_cosine, random_virtual: what they are at most, and about, for random
    heads of the same size.
    """

    read: Array
    write: Array
    virtual: Array
    commutator: Array
    random_cosine: float
    random_virtual: float


def channels(M: Binding, layer: int, other: int | None = None) -> Channels:
    """How independent the heads of a layer (from 1) are of each other, or of those of another layer, by their weights alone.

    Query heads of one group share their values and so read the same space. What stands between the layers, norms and
    their weights, is left out. InputError for a layer that the model does not have.

    >>> import opalgebra as oa
    >>> M = oa.bind(oa.load("minilm"), "Depth is discrete time.")
    >>> channels(M, 1).write.shape
    (12, 12, 32)

    Bjorck and Golub, Math. Comp. 27 (1973) 579, for principal angles by the SVD.
    """
    first = attention_of(M, layer)
    second = first if other is None else moved(attention_of(M, other), first.output.device)
    (values, outputs), (other_values, other_outputs) = _heads(first), _heads(second)
    size, features = values.shape[1:]
    read = _cosines(values.mT, other_values.mT)
    write = _cosines(outputs, other_outputs)
    whole, whole_other = outputs @ values, other_outputs @ other_values
    lengths = whole.norm(dim=(1, 2))[:, None] * whole_other.norm(dim=(1, 2))
    shape = (len(values), len(other_values))
    virtual, commutator = np.empty(shape), np.empty(shape)
    for i in range(shape[0]):
        for j in range(shape[1]):
            forward = (other_outputs[j] @ (other_values[j] @ outputs[i])) @ values[i]
            backward = (outputs[i] @ (values[i] @ other_outputs[j])) @ other_values[j]
            virtual[i, j] = float(forward.norm() / lengths[i, j])
            commutator[i, j] = float((forward - backward).norm() / lengths[i, j])
    share = min(size / features, 0.5)
    return Channels(read, write, virtual, commutator, 2 * sqrt(share * (1 - share)), features**-0.5)


def _heads(attention: Attention) -> tuple[Tensor, Tensor]:
    """(heads, size, features): the values of every query head; (heads, features, size): its outputs. In float64."""
    groups = attention.heads // attention.value.heads
    values = attention.value.weight.double().repeat_interleave(groups, dim=0)
    outputs = attention.output.double().unflatten(1, (attention.heads, -1)).permute(1, 0, 2)
    return values, outputs.contiguous()


def _cosines(one: Tensor, other: Tensor) -> Array:
    """The cosines of the principal angles between the column spaces of (heads, features, size) matrices."""
    bases = [torch.linalg.qr(part)[0] for part in (one, other)]
    products = torch.einsum("ifa,jfb->ijab", *(basis for basis in bases))
    return np.asarray(torch.linalg.svdvals(products).clamp(max=1.0).cpu())
