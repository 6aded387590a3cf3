"""Expansion: compositions over sums, as far as linearity allows, and on a state as far as dressing makes linear.

The number of terms is known before anything is built: with m terms in the argument, a linear factor gives m terms, a
nonlinear one a single term, a sum the total of its parts. So a factor is an affine function of m, and factors compose.
"""

from collections.abc import Iterable
from math import prod

from opalgebra.commutator import Commutator
from opalgebra.errors import LimitError
from opalgebra.expr import Compose, Identity, Operator, Sum, Zero, check_operators, postorder
from opalgebra.facts import Fact, as_facts, is_linear
from opalgebra.kernel import Theorem, distribute, dress, trans
from opalgebra.scalar import written_number

LIMIT = 200_000


def expand(operator: Operator, *, facts: Iterable[Fact] = (), unfold: bool = True, limit: int | None = LIMIT) -> Theorem:
    """The theorem `operator = its expansion`.

    Right distribution always, left distribution over linear maps only; in a state, every nonlinear map is dressed first
    (`F @ s = F<s> @ s + f<s>`) and so the expansion is complete. Backgrounds are left as they are. What the facts `Linear`
    declare linear is distributed and not dressed, and the facts are then hypotheses. Commutators are unfolded, or with
    `unfold=False` distributed and kept. LimitError when the expansion would have more than `limit` terms before collection
    (None: no limit).

    >>> import opalgebra as oa
    >>> A, B, C = oa.atoms("A B C", kind="linear")
    >>> print(oa.expand((A + B) @ C))
    |- (A + B) @ C = A @ C + B @ C
    """
    check_operators(operator)
    declared = as_facts(facts)
    proof = dress(operator, declared) if operator.is_state else None
    subject = operator if proof is None else proof.rhs
    count = largest_expansion(subject, declared)
    if limit is not None and count > limit:
        raise LimitError(
            f"the expansion has {written_number(count)} terms and the limit is {limit:,}; raise it, or keep the product "
            "factored"
        )
    expansion = distribute(subject, declared, unfold=unfold)
    return expansion if proof is None else trans(proof, expansion)


def expanded_count(operator: Operator, facts: Iterable[Fact] = ()) -> int:
    """The number of terms of `distribute(operator)` before equal terms are collected; exact, without building them."""
    return sum(_growth(operator, list(facts))[operator])


def largest_expansion(operator: Operator, facts: Iterable[Fact] = ()) -> int:
    """The same for the part that has most, be it the argument of a nonlinear map or what is inverted."""
    return max(sum(pair) for pair in _growth(operator, list(facts)).values())


def _growth(operator: Operator, declared: list[Fact]) -> dict[Operator, tuple[int, int]]:
    """For each node (p, q), when it makes p m + q terms of an argument of m terms."""
    growth: dict[Operator, tuple[int, int]] = {}
    for node in postorder(operator, backgrounds=False):
        if isinstance(node, Sum):
            parts = [growth[term] for _, term in node.terms]
            growth[node] = (sum(slope for slope, _ in parts), sum(constant for _, constant in parts))
        elif isinstance(node, Compose):
            (slope, constant), (inner_slope, inner_constant) = growth[node.left], growth[node.right]
            growth[node] = (slope * inner_slope, slope * inner_constant + constant)
        elif isinstance(node, Zero):
            growth[node] = (0, 0)
        elif node.is_multilinear:
            count = prod(sum(growth[part]) for part in node.parts)
            growth[node] = (2 * count if isinstance(node, Commutator) else count, 0)
        else:
            growth[node] = (1, 0) if isinstance(node, Identity) or is_linear(node, declared) else (0, 1)
    return growth
