"""How many terms an expression has when it is expanded, known before anything is built.

With m terms in the argument, a linear factor gives m terms, a nonlinear one a single term, a sum the total of its parts. So a
factor is an affine function of m, and factors compose. Numbers above `LARGEST` are given as that.
"""

from collections.abc import Iterable
from math import prod

from opalgebra.commutator import Commutator
from opalgebra.expr import Compose, Identity, Operator, Sum, Zero, postorder
from opalgebra.facts import Fact, is_linear
from opalgebra.scalar import written_number

LARGEST = 10**4000


def expanded_count(operator: Operator, facts: Iterable[Fact] = ()) -> int:
    """The number of terms of `distribute(operator)` before equal terms are collected, without building them."""
    return sum(_growth(operator, list(facts))[operator])


def expanded_total(operator: Operator, facts: Iterable[Fact] = ()) -> int:
    """The number of terms of all parts together, those of equal parts once: the work of `distribute`."""
    return sum(sum(pair) for pair in _growth(operator, list(facts)).values())


def largest_expansion(operator: Operator, facts: Iterable[Fact] = ()) -> int:
    """The same for the part that has most, be it the argument of a nonlinear map or what is inverted."""
    return max(sum(pair) for pair in _growth(operator, list(facts)).values())


def written_count(count: int) -> str:
    """A number of terms in digits, with `at least` where it is `LARGEST` or more."""
    return f"{'at least ' if count >= LARGEST else ''}{written_number(count)}"


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
        slope, constant = growth[node]
        growth[node] = (min(slope, LARGEST), min(constant, LARGEST))
    return growth
