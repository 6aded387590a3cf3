"""Inverses and resolvents `R = (1 - A)^-1`: identities, each a theorem under the hypothesis that its inverses exist.

    R = 1 + A @ R              for every map A             R = 1 + R @ A                 for linear A
    R = 1 + A + ... + A^(n-1) + A^n @ R                    for linear A, the Neumann series with its remainder
    A @ (1 - B @ A)^-1 = (1 - A @ B)^-1 @ A                for linear A and every map B
    (1 - B - C)^-1 = G + G @ C @ (1 - B - C)^-1,  G = (1 - B)^-1,  for linear B and every map C: B resummed into G
    (1 - A)^-1 = D + D @ P @ A @ (1 - A)^-1,  D = (1 - (1 - P) @ A)^-1,  for linear A and P: Dyson's equation, D without P
    (A @ B)^-1 = B^-1 @ A^-1   for every two maps that have inverses

Only the rules of the kernel are used, so a map is distributed from the left where it is linear and nowhere else.
"""

from collections.abc import Callable
from operator import add

from opalgebra.errors import InputError, LimitError, NotLinearError
from opalgebra.expr import Atom, Identity, Operator, check_operators, compose
from opalgebra.facts import Inverse, Nilpotent
from opalgebra.inverse import inverse
from opalgebra.kernel import Theorem, assume, cong, instantiate, left_dist, refl, right_dist, sym, trans
from opalgebra.scalar import is_natural
from opalgebra.space import Kind

MOST_ORDERS = 300


def for_letters(prove: Callable[..., Theorem], *operators: Operator) -> Theorem:
    """A theorem proved for atoms of the same spaces, linear where the operators are, and instantiated at these."""
    kinds = [Kind.LINEAR if operator.is_linear else Kind.NONLINEAR for operator in operators]
    spaces = [(operator.domain, operator.codomain) for operator in operators]
    letters = [
        Atom(f"A{number}", kind=kind, domain=domain, codomain=codomain)
        for number, (kind, (domain, codomain)) in enumerate(zip(kinds, spaces), 1)
    ]
    return instantiate(prove(*letters), dict(zip(letters, operators)))


def refuse_nonlinear(*operators: Operator, needs: str) -> None:
    """NotLinearError for the first operator that is not known to be linear, and does not need to be for what follows."""
    check_operators(*operators)
    for operator in operators:
        if not operator.is_linear:
            raise NotLinearError(
                f"{operator} is not known to be linear, and {needs} needs it to be; on a state, dress it first, or declare its "
                "atoms with kind='linear' if they are"
            )


def resolvent_identity(operator: Operator, *, mirror: bool = False) -> Theorem:
    """`(1 - A)^-1 = 1 + A @ (1 - A)^-1` for every map A; with `mirror`, `1 + (1 - A)^-1 @ A` for linear A alone.

    NotLinearError for the mirror form of another map. SpaceError unless A maps one space to itself.

    >>> import opalgebra as oa
    >>> print(oa.resolvent_identity(oa.Atom("F", kind="nonlinear")))
    |- [1 - F invertible] inverse(1 - F) = 1 + F @ inverse(1 - F)
    """
    check_operators(operator)
    if mirror:
        refuse_nonlinear(operator, needs="the mirror form")
    factor = 1 - operator
    resolvent = inverse(factor)
    if mirror:
        moved, opened = sym(left_dist(resolvent, operator)), left_dist(resolvent, factor)
        stated = assume(Inverse(factor), "left")
    else:
        moved, opened = sym(right_dist(operator, resolvent)), right_dist(factor, resolvent)
        stated = assume(Inverse(factor))
    return trans(sym(cong(add, opened, refl(moved.lhs))), cong(add, stated, moved))


def neumann(operator: Operator, order: int, *, nilpotent: bool = False) -> Theorem:
    """`(1 - A)^-1 = 1 + A + ... + A^(n-1) + A^n @ (1 - A)^-1` for linear A and n = order; exact, whether it converges or not.

    With `nilpotent`, under the hypothesis `A^n = 0`, the finite sum. NotLinearError for another map, InputError for an order
    that is no positive number, LimitError for one above `MOST_ORDERS`.
    """
    if not is_natural(order) or order == 0:
        raise InputError(f"order={order!r}: a Neumann series is written up to a positive order")
    if order > MOST_ORDERS:
        raise LimitError(f"a Neumann series of {order:,} terms was asked, more than {MOST_ORDERS:,}; keep the resolvent")
    refuse_nonlinear(operator, needs="a Neumann series")
    return for_letters(lambda letter: _neumann(letter, order, nilpotent), operator)


def _neumann(operator: Operator, order: int, nilpotent: bool) -> Theorem:
    identity = resolvent_identity(operator)
    resolvent, proof = identity.lhs, identity
    for power in range(1, order):
        word = operator**power
        step = trans(cong(compose, word, identity), left_dist(word, identity.rhs))
        proof = trans(proof, cong(add, refl(proof.rhs - word @ resolvent), step))
    if not nilpotent:
        return proof
    vanishing = cong(compose, assume(Nilpotent(operator, order)), resolvent)
    return trans(proof, cong(add, refl(proof.rhs - vanishing.lhs), vanishing))


def push_through(left: Operator, right: Operator) -> Theorem:
    """`A @ (1 - B @ A)^-1 = (1 - A @ B)^-1 @ A` for linear A and every map B. NotLinearError when A is not linear."""
    refuse_nonlinear(left, needs="what is pushed through")
    check_operators(right)
    return for_letters(_push_through, left, right)


def _push_through(left: Operator, right: Operator) -> Theorem:
    inner, outer = 1 - right @ left, 1 - left @ right
    resolvent = inverse(inner)
    solved = trans(sym(right_dist(inner, resolvent)), assume(Inverse(inner)))
    passed = trans(sym(left_dist(left, solved.lhs)), cong(compose, left, solved))
    one = trans(right_dist(outer, left @ resolvent), passed)
    other = cong(compose, assume(Inverse(outer), "left"), left @ resolvent)
    return trans(sym(other), cong(compose, inverse(outer), one))


def resummation(resummed: Operator, rest: Operator) -> Theorem:
    """`(1 - B - C)^-1 = G + G @ C @ (1 - B - C)^-1` with the dressed propagator `G = (1 - B)^-1`: B summed to all orders.

    For linear B and every map C, both maps of one space. NotLinearError when B is not linear.
    """
    refuse_nonlinear(resummed, needs="resummation into a propagator")
    check_operators(rest)
    return for_letters(_resummation, resummed, rest)


def _resummation(resummed: Operator, rest: Operator) -> Theorem:
    factor = 1 - resummed - rest
    return _resummed(resummed, rest, inverse(factor), assume(Inverse(factor)))


def _resummed(resummed: Operator, rest: Operator, resolvent: Operator, solved: Theorem) -> Theorem:
    """`R = G + G @ C @ R` from `(1 - B - C) @ R = 1`."""
    factor, part = 1 - resummed - rest, 1 - resummed
    propagator = inverse(part)
    opened = _acted(propagator, factor, resolvent)
    whole = trans(sym(opened), cong(compose, propagator, solved))
    moved = sym(_acted(propagator, rest, resolvent))
    alone = trans(sym(_acted(propagator, part, resolvent)), cong(compose, assume(Inverse(part), "left"), resolvent))
    return trans(sym(alone), cong(add, whole, moved))


def _acted(left: Operator, total: Operator, right: Operator) -> Theorem:
    """`C @ (A + B) @ D = C @ A @ D + C @ B @ D` for linear C."""
    inner = right_dist(total, right)
    return trans(cong(compose, left, inner), left_dist(left, inner.rhs))


def dyson_equation(operator: Operator, projector: Operator) -> Theorem:
    """`R = D + D @ P @ A @ R` with `R = (1 - A)^-1` and `D = (1 - (1 - P) @ A)^-1`, for linear A and P.

    D sums the words with no inner line in P, so that `A @ D` is the irreducible part, the self-energy; P need not be a
    projector for the equation to hold. NotLinearError when A or P is not linear.
    """
    refuse_nonlinear(operator, projector, needs="Dyson's equation")
    return for_letters(_dyson_equation, operator, projector)


def _dyson_equation(operator: Operator, projector: Operator) -> Theorem:
    irreducible, returning = (1 - projector) @ operator, projector @ operator
    one, minus = Identity(operator.domain), -1 * Identity(operator.domain)
    left, right = (cong(compose, minus, right_dist(factor, operator)) for factor in (projector, 1 - projector))
    parted = cong(add, cong(add, one, left), right)
    resolvent = inverse(1 - operator)
    solved = trans(cong(compose, parted, resolvent), assume(Inverse(1 - operator)))
    return _resummed(irreducible, returning, resolvent, solved)


def claimed(theorem: Theorem, lhs: Operator, rhs: Operator) -> Theorem:
    """The theorem, when it says `lhs = rhs`; InputError when it says something else."""
    if theorem.lhs is not lhs or theorem.rhs is not rhs:
        raise InputError(f"{lhs} = {rhs} was to be proved, but what is proved is {theorem.lhs} = {theorem.rhs}")
    return theorem


def unique_inverse(left_inverse: Theorem, operator: Operator, candidate: Operator) -> Theorem:
    """From `B @ A = 1`, `B = A^-1` under the hypothesis that A has an inverse: `B = B @ A @ A^-1 = A^-1`."""
    claimed(left_inverse, candidate @ operator, Identity(operator.domain))
    kept = cong(compose, candidate, assume(Inverse(operator)))
    return trans(sym(kept), cong(compose, left_inverse, inverse(operator)))


def inverse_of_product(left: Operator, right: Operator) -> Theorem:
    """`(A @ B)^-1 = B^-1 @ A^-1`, for every two maps, when all three inverses exist."""
    check_operators(left, right)
    return for_letters(_inverse_of_product, left, right)


def _inverse_of_product(left: Operator, right: Operator) -> Theorem:
    build: Callable[..., Operator] = compose
    first = cong(build, inverse(right), cong(build, assume(Inverse(left), "left"), right))
    cancelled = trans(first, assume(Inverse(right), "left"))
    return sym(unique_inverse(cancelled, left @ right, inverse(right) @ inverse(left)))
