"""Rewriting words: a composition is read as the word of its factors, and only contiguous subwords are ever touched.

Factors do not commute, so no rule here reorders them, skips one, or reads `C @ (A + B)` as `C @ A + C @ B`. Every rule
visits the terms of sums and the factors that are sums, and enters no background unless told to. Results are built by
the constructors of `expr`, so what is put in is a map of the same spaces, and linear where what it replaces was.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, TypeVar

from opalgebra.adjoint import AdjointOf, TransposeOf, adjoint, transpose
from opalgebra.commutator import Commutator, commutator
from opalgebra.dressing import dressed, source
from opalgebra.errors import InputError, NotLinearError, SpaceError
from opalgebra.expr import (
    Compose,
    Dressed,
    Identity,
    Operator,
    Source,
    Sum,
    Zero,
    check_operators,
    compose,
    factors,
    linear_combination,
    ordered_product,
    postorder,
    terms,
)
from opalgebra.function import FunctionOf, function
from opalgebra.inverse import InverseOf, inverse
from opalgebra.kernel import Theorem, cong, left_dist, refl, right_dist, sym, trans
from opalgebra.matching import LIMIT, Pattern, Reader, as_pattern, budget_of, first_factor, later_factors, search
from opalgebra.recursion import Steps, without_recursion
from opalgebra.tensor import Tensor, tensor
from opalgebra.trace import TraceOf, trace

Put = TypeVar("Put")
Head = Callable[[Operator], tuple[Put, Operator | None] | None]


def substitute(operator: Operator, replacements: Mapping[Operator, Operator], *, backgrounds: bool = False) -> Operator:
    """The operator with contiguous subwords replaced, all at once.

    A word is scanned from the left; the longest pattern that stands there is replaced, and the scan goes on behind it.
    A replacement is not scanned again. Two laws, for two uses:

    * where each pattern equals its replacement as a map, the result equals the operator (backgrounds left alone);
    * with `backgrounds=True` and atoms as patterns, the result means what the operator means when each atom is
      interpreted, its dressings included, as its replacement. So both sides of a theorem may be substituted into:
      a dressed atom that is replaced is dressed anew by the chain rule, and the states inside are substituted into.

    InputError for a pattern that is no factor (a multiple, 1, 0) or that may stand under an index, SpaceError when a
    replacement has other spaces, NotLinearError when a linear pattern would be replaced by what is not known to be linear.

    >>> import opalgebra as oa
    >>> A, B, C, D = oa.atoms("A B C D", kind="linear")
    >>> print(substitute(A @ B @ C + A @ C @ B, {A @ C: D}))
    D @ B + A @ B @ C
    """
    check_operators(operator)
    for pattern, replacement in replacements.items():
        _check_word(pattern, "substituted")
        if not isinstance(replacement, Operator):
            raise InputError(
                f"{pattern} cannot be replaced by {replacement!r}, which is no operator; write c * Identity() for a scalar c"
            )
        _check_fit(pattern, replacement)
    if backgrounds:
        _check_indices(operator, replacements)
    return rewritten(operator, longest_first(replacements), backgrounds)


def _check_word(word: object, use: str) -> None:
    if not isinstance(word, Operator):
        raise InputError(f"{word!r} cannot be {use}, for it is no operator; name an atom, a word such as A @ B, or a sum")
    if isinstance(word, Identity | Zero) or (isinstance(word, Sum) and len(word.terms) == 1):
        raise InputError(f"{word} cannot be {use}, for it is no factor of a word; name an atom, a word such as A @ B, or a sum")


def _check_indices(operator: Operator, patterns: Iterable[Operator]) -> None:
    named = {atom.base: pattern for pattern in patterns for atom in pattern.atoms}
    for node in postorder(operator, backgrounds=True):
        for base in sorted(named.keys() & {atom.base for body in node.bodies for atom in body.atoms}):
            raise InputError(
                f"{named[base]} cannot be substituted in backgrounds and all, for {base} also stands under an index, where it "
                "may be any of its family; give the bounds of the index values first"
            )


def _check_spaces(pattern: Operator, replacement: Operator) -> None:
    if (pattern.domain, pattern.codomain) != (replacement.domain, replacement.codomain):
        raise SpaceError(
            f"{pattern} maps {pattern.domain} to {pattern.codomain} and cannot be replaced by {replacement}, which maps "
            f"{replacement.domain} to {replacement.codomain}; replace it by a map of the same spaces"
        )


def _check_fit(pattern: Operator, replacement: Operator) -> None:
    _check_spaces(pattern, replacement)
    if pattern.is_linear and not replacement.is_linear:
        raise NotLinearError(
            f"{pattern} is linear and cannot be replaced by {replacement}, which is not known to be linear; what holds for "
            "the one need not hold for the other: declare the atoms of the replacement with kind='linear' if they are"
        )


def replace(
    operator: Operator, pattern: Pattern | Operator, replacement: Pattern | Operator, *, limit: int | None = LIMIT
) -> Operator:
    """The operator with the subwords that match the pattern replaced, the matched subwords put in for the wildcards.

    Law: where every instance of the pattern equals that of the replacement, the result equals the operator. A word is
    scanned from the left; where a match begins, the first one (as `matches` orders them) is replaced and the scan goes on
    behind it; what was put in is not scanned again, and backgrounds are not entered. Errors as in `substitute`, and
    LimitError as in `matches`.

    >>> import opalgebra as oa
    >>> A, B, C = oa.atoms("A B C", kind="linear")
    >>> W = oa.wildcard("W")
    >>> print(replace(A @ B @ B @ A, A @ W @ A, W @ C))
    B @ B @ C
    """
    plain, put = as_pattern(pattern), as_pattern(replacement)
    _check_word(plain.operator, "replaced")
    if put.wild - plain.wild:
        unbound = ", ".join(sorted(atom.name for atom in put.wild - plain.wild))
        raise InputError(f"the replacement {put} has the wildcard {unbound}, which {plain} lacks; use it in the pattern too")
    _check_spaces(plain.operator, put.operator)
    reader = Reader(plain.operator, plain.wild, whole=False)
    budget = budget_of(limit)

    def head(word: Operator) -> tuple[Operator, Operator | None] | None:
        found = next(search(plain, reader, word, budget), None)
        if found is None:
            return None
        bindings = found.bindings()
        instance = rewritten(put.operator, longest_first({atom: bindings[atom] for atom in put.wild}), False)
        _check_fit(rewritten(plain.operator, longest_first(bindings), False), instance)
        return instance, found.rest

    return rewritten(operator, head, False)


def collect(operator: Operator, factor: Operator, *, side: str = "right") -> Theorem:
    """The theorem `operator = the same with a factor collected` on one side of the terms of the sum.

    `A @ C + B @ C + C = (A + B + 1) @ C` on the right, for all maps; `C @ A + C @ B = C @ (A + B)` on the left, for
    linear C only. Terms that do not end (begin) with the factor stay, and so does everything where no law allows more:
    the theorem is then `operator = operator`. The factor may be a word. InputError for what is no factor, or another side.

    >>> import opalgebra as oa
    >>> A, B, C = oa.atoms("A B C", kind="linear")
    >>> print(collect(A @ C + B @ C, C))
    |- A @ C + B @ C = (A + B) @ C
    """
    _check_word(factor, "collected")
    if side not in ("left", "right"):
        raise InputError(f"side={side!r}: a factor is collected on a side of the terms; use 'left' or 'right'")
    if side == "left" and not factor.is_linear:
        return refl(operator)
    quotient, law = (_without_end, _on_the_right) if side == "right" else (without_beginning, left_dist)
    quotients = [(c, term, quotient(factor, term)) for c, term in terms(operator)]
    inner = [(c, part) for c, _, part in quotients if part is not None]
    if len(inner) < 2:
        return refl(operator)
    total = linear_combination(inner, inner[0][1].domain, inner[0][1].codomain)
    spaces = (operator.domain, operator.codomain)
    untouched = refl(linear_combination(((c, term) for c, term, part in quotients if not isinstance(part, Sum)), *spaces))
    opened = [
        cong(compose, refl(c * Identity(operator.codomain)), law(factor, part))
        for c, _, part in quotients
        if isinstance(part, Sum)
    ]
    staying = refl(linear_combination(((c, term) for c, term, part in quotients if part is None), *spaces))
    proof, goal = added([untouched, *opened]), cong(add, law(factor, total), staying)
    if proof.lhs is not operator or proof.rhs is not goal.rhs or goal.lhs is operator:
        return refl(operator)
    return trans(proof, sym(goal))


def chain(*steps: Theorem) -> Theorem:
    """From `A = B`, `B = C`, ..., the equation of the first side and the last."""
    return reduce(trans, steps)


def added(theorems: list[Theorem]) -> Theorem:
    """The sum of theorems, in halves, so that many terms are not added up one at a time."""
    while len(theorems) > 1:
        pairs = zip(theorems[::2], theorems[1::2])
        theorems = [*(cong(add, one, other) for one, other in pairs), *theorems[len(theorems) // 2 * 2 :]]
    return theorems[0]


_BUILDERS: dict[type[Operator], Callable[..., Operator]] = {
    Tensor: tensor, InverseOf: inverse, AdjointOf: adjoint, TransposeOf: transpose, Commutator: commutator
}  # fmt: skip


def rebuilt(letter: Operator, parts: Sequence[Theorem]) -> Theorem:
    """By congruence, from equations of the parts of a letter, the equation of the letter."""
    if isinstance(letter, TraceOf):
        return cong(trace, *parts, *letter.over)
    if isinstance(letter, FunctionOf):
        return cong(function, letter.name, *parts)
    return cong(_BUILDERS[type(letter)], *parts)


def _on_the_right(factor: Operator, total: Operator) -> Theorem:
    return right_dist(total, factor)


def _without_end(factor: Operator, term: Operator) -> Operator | None:
    """P in `term = P @ factor`; None when the term does not end with the factor."""
    letters: list[Operator] = []
    rest: Operator | None = term
    while rest is not None and rest is not factor:
        letters.append(first_factor(rest))
        rest = later_factors(rest)
    if rest is None:
        return None
    return ordered_product(reversed(letters)) if letters else Identity(factor.codomain)


def without_beginning(factor: Operator, term: Operator) -> Operator | None:
    """P in `term = factor @ P`; None when the term does not begin with the factor."""
    rest: Operator | None = term
    for letter in factors(factor):
        if rest is None or first_factor(rest) is not letter:
            return None
        rest = later_factors(rest)
    return Identity(factor.domain) if rest is None else rest


def longest_first(replacements: Mapping[Operator, Put]) -> Head[Put]:
    """Finds the longest of the patterns at the head of a word, by a tree of their letters; what replaces it, and the rest."""
    root: dict[Operator | None, Any] = {}
    for pattern, replacement in replacements.items():
        branch = root
        for letter in factors(pattern):
            branch = branch.setdefault(letter, {})
        branch[None] = replacement

    def head(word: Operator) -> tuple[Put, Operator | None] | None:
        found, branch, rest = None, root, word
        while rest is not None and (branch := branch.get(first_factor(rest), {})):
            rest = later_factors(rest)  # type: ignore[assignment]
            if None in branch:
                found = branch[None], rest
        return found

    return head


def rewritten(root: Operator, head: Head[Operator], backgrounds: bool) -> Operator:
    """What becomes of an operator when `head` says, for a word, what replaces its beginning and which word follows."""
    done: dict[Operator, Operator] = {}

    def visit(node: Operator) -> Steps[Operator]:
        if node in done:
            return done[node]
        found = head(node)
        result = node
        if found is not None:
            result, rest = found
            if rest is not None:
                result = result @ (yield visit(rest))
        elif isinstance(node, Compose):
            left = yield visit(node.left)
            result = left @ (yield visit(node.right))
        elif node.parts:
            parts = []
            for part in node.parts:
                parts.append((yield visit(part)))  # noqa: PERF401
            result = node.remade(parts)
        elif backgrounds and isinstance(node, Dressed | Source):
            operator = yield visit(node.operator)
            state = yield visit(node.state)
            result = (dressed if isinstance(node, Dressed) else source)(operator, state)
        done[node] = result
        return result

    return without_recursion(visit(root))
