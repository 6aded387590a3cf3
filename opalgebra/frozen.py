"""What dressings are when patterns, scales and gates are frozen: tensor products on positions (x) features.

Of a vertex or norm with layer l and head h, dressed on a state,

    attention head    a[l, h] (x) w[l, h]                   pattern (x) output times value weights
    attention         sum over heads h of a[l, h] (x) w[l, h]
    norm N            sigma_N[l] (x) gamma_N[l] @ C         scales of the tokens (x) weights after centering (C = 1 for RMS)
    FFN               sum over tokens t of E[t] (x) f[l, t] what one token has is a matrix of its own

The letters of vertices that are not named A and F end in the name of the vertex.

Each is a fact `Form` under its split and becomes a hypothesis of what uses it. Then which dressings commute follows from
the factors alone: E and sigma are diagonal, patterns are not; gamma is diagonal, weights are not.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations
from typing import Any

from opalgebra.atoms import Family, family
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom, Dressed, Index, Operator, Zero, as_index, postorder
from opalgebra.facts import Commute, Equal, Fact, Form, Idempotent
from opalgebra.indexed import indexed_sum
from opalgebra.scalar import free_symbols, fresh_names, symbol
from opalgebra.space import FEATURES, POSITIONS, Kind, X
from opalgebra.tensor import tensor

CENTERING = Atom("C", kind=Kind.LINEAR, domain=FEATURES, codomain=FEATURES)
TOKENS = family("E", kind=Kind.LINEAR, domain=POSITIONS, codomain=POSITIONS)
PATTERNS = family("a", kind=Kind.LINEAR, domain=POSITIONS, codomain=POSITIONS)
WEIGHTS = family("w", kind=Kind.LINEAR, domain=FEATURES, codomain=FEATURES)
NEURONS = family("f", kind=Kind.LINEAR, domain=FEATURES, codomain=FEATURES)
_MOST_TOKENS = 200


def frozen_forms(
    operator: Operator, *, tokens: Index | None = None, heads: Index | None = None, ffn: str = "gate", centered: bool = True
) -> tuple[Fact, ...]:
    """The forms of all dressings of attention, FFN and norms that act in an operator, and what is known of their factors.

    tokens, heads: how many, or symbols of these names when left out. ffn: the split of the FFN, `gate` or `tangent`.
    centered: whether norms centre the features (LayerNorm) or not (RMS norm). InputError for a vertex that is dressed on
    two states, which would need two forms, and for other options.

    >>> import opalgebra as oa
    >>> T = oa.transformer(1, heads=2)
    >>> head = oa.dressed(T.head[1, 1], T.x[0])
    >>> print(oa.simplify(head, facts=oa.frozen_forms(head)))
    |- [A1_1<x> = tensor(a1_1, w1_1) for split: frozen] A1_1<x> = tensor(a1_1, w1_1)
    """
    if not isinstance(operator, Operator):
        raise InputError(f"{operator!r} is no operator and has no dressings; dress one, as in dressed(T.operator, T.x[0])")
    if ffn not in ("gate", "tangent"):
        raise InputError(f"ffn={ffn!r}: the splits of an FFN in which it acts on each token are 'gate' and 'tangent'")
    count: Any = symbol("tokens") if tokens is None else as_index(tokens, of="tokens")
    channels: Any = symbol("heads") if heads is None else as_index(heads, of="heads")
    if isinstance(count, int) and count > _MOST_TOKENS:
        raise LimitError(f"tokens={count:,}: forms are written token by token up to {_MOST_TOKENS}; leave a symbol for more")
    forms: dict[Atom, Form] = {}
    diagonal: dict[Family, None] = {}
    for node in postorder(operator, backgrounds=False):
        if not isinstance(node, Dressed) or (node.domain, node.codomain) != (X, X):
            continue
        atom, split = node.operator, "frozen"
        if atom.kind == Kind.ATTENTION:
            form = _head(atom, atom.indices) if atom.head is not None else _attention(atom, channels)
        elif atom.kind == Kind.FFN:
            form, split = _ffn(atom, count), ffn
            diagonal[TOKENS] = None
        elif atom.kind == Kind.NORM:
            scale, weight = norm_factors(atom)
            form = tensor(scale[atom.indices], weight[atom.indices] @ CENTERING if centered else weight[atom.indices])
            diagonal[scale] = diagonal[weight] = None
        else:
            continue
        if forms.setdefault(atom, Form(node, form, split)).dressing is not node:
            raise InputError(f"{atom.name} is dressed on two states, {forms[atom].dressing} and {node}; take one at a time")
    return (*forms.values(), *_known(list(diagonal), count))


def norm_factors(norm: Atom) -> tuple[Family, Family]:
    """The scales of the tokens and the weights of the features of a norm, for its base name: `sigma_N` and `gamma_N`."""
    return (
        family(f"sigma_{norm.base}", kind=Kind.LINEAR, domain=POSITIONS, codomain=POSITIONS),
        family(f"gamma_{norm.base}", kind=Kind.LINEAR, domain=FEATURES, codomain=FEATURES),
    )


def _own(letters: Family, atom: Atom, usual: str) -> Family:
    """The letters of a vertex: those of the Transformer's own, `A` and `F`, and others for vertices with other names."""
    if atom.base == usual:
        return letters
    return family(f"{letters.name}_{atom.base}", kind=letters.kind, domain=letters.domain, codomain=letters.codomain)


def _head(atom: Atom, indices: tuple[Index, ...]) -> Operator:
    return tensor(_own(PATTERNS, atom, "A")[indices], _own(WEIGHTS, atom, "A")[indices])


def _attention(atom: Atom, heads: Any) -> Operator:
    (head,) = map(symbol, fresh_names(free_symbols(heads), 1))
    return indexed_sum(_head(atom, (*atom.indices, as_index(head, of="head"))), head, 0, heads - 1)


def _ffn(atom: Atom, tokens: Any) -> Operator:
    (token,) = map(symbol, fresh_names(free_symbols(tokens), 1))
    own = _own(NEURONS, atom, "F")[(*atom.indices, as_index(token, of="token"))]
    return indexed_sum(tensor(TOKENS[as_index(token, of="token")], own), token, 0, tokens - 1)


def _known(diagonal: list[Family], tokens: Index) -> Iterator[Fact]:
    """Diagonal matrices of one space commute, centering and the projectors on tokens are idempotent, these orthogonal."""
    for left, right in combinations_with_replacement(diagonal, 2):
        if left.domain == right.domain:
            yield Commute(left, right)
    if any(found.domain == FEATURES for found in diagonal):
        yield Idempotent(CENTERING)
    if TOKENS in diagonal:
        yield Idempotent(TOKENS)
        if isinstance(tokens, int):
            for one, other in permutations(range(tokens), 2):
                yield Equal(TOKENS[one] @ TOKENS[other], Zero(POSITIONS, POSITIONS))
