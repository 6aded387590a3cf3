"""Expansion: compositions over sums, as far as linearity allows, and on a state as far as dressing makes linear.

The number of terms is known before anything is built, see `growth`.
"""

from collections.abc import Iterable

from opalgebra.errors import LimitError
from opalgebra.expr import Operator, check_operators
from opalgebra.facts import Fact, as_facts
from opalgebra.growth import largest_expansion, written_count
from opalgebra.kernel import Theorem, distribute, dress, trans

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
            f"the expansion has {written_count(count)} terms and the limit is {limit:,}; raise it, or keep the product factored"
        )
    expansion = distribute(subject, declared, unfold=unfold)
    return expansion if proof is None else trans(proof, expansion)
