"""Writing proofs: rewriting by theorems, what normal forms decide, and chains of named steps.

    rewrite(A, theorem)          A with the left side of the theorem replaced by its right side, everywhere or at a path
    auto(A, B)                   A = B, where expansion, collection and declared facts decide it
    calc(A).to(B, by=...)        the chain A = B = C ..., each step by a theorem, a fact, a rule, or `auto`

Nothing here is trusted: every result is a theorem of the kernel. A path names a part of a part: in a composition 0 is the first
factor and 1 the rest, in a sum the number of a term, in a product or sum over an index 0 is the body, in a dressing 0 is the
state, and elsewhere the number of a part.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, final, overload

from opalgebra.display import Displayed
from opalgebra.dressing import dressed, source
from opalgebra.errors import InputError
from opalgebra.expand import expand
from opalgebra.expr import Compose, Dressed, Identity, Operator, Source, Sum, check_operators, compose
from opalgebra.facts import Equal, Fact
from opalgebra.indexed import Binder
from opalgebra.kernel import Theorem, assume, cong, refl, sym, trans, under
from opalgebra.recursion import Steps, without_recursion
from opalgebra.rewrite import added, rebuilt, without_beginning
from opalgebra.scalar import fresh_names, symbol, the_symbol
from opalgebra.simplify import simplify

Known = Theorem | Callable[[Any], Theorem]
Rule = Known | Fact
Proof = Callable[[], Theorem]
PROOFS: dict[str, Proof] = {}
"""What `theorem` has registered, by name."""
CITED: dict[str, tuple[str, ...]] = {}
"""The theorems that the derivation of each cites."""


def rewrite(operator: Operator, rule: Rule, *, at: tuple[int, ...] | None = None) -> Theorem:
    """`operator = the operator rewritten by a rule`, everywhere, or at the path `at` alone.

    The rule is a theorem or a fact `A = B`, and then words that begin with A begin with B instead; or a function, such as
    `unfold` or `dress`, that gives a theorem `A = B` for the part A at the path, which it then needs. States inside of
    dressings and what stands under binders are rewritten too. InputError when nothing is rewritten, or for no path.

    >>> import opalgebra as oa
    >>> A, B, C = oa.atoms("A B C", kind="linear")
    >>> print(oa.rewrite(C @ A @ B + A @ B @ C, oa.Commute(A, B)))
    |- [A B = B A] A @ B @ C + C @ A @ B = B @ A @ C + C @ B @ A
    """
    check_operators(operator)
    known = _theorem(rule)
    if at is not None:
        return without_recursion(_at(operator, known, at))
    if not isinstance(known, Theorem):
        raise InputError(f"{getattr(rule, '__name__', rule)} is no theorem; a function rewrites the part at a path, at=")
    found = without_recursion(_everywhere(operator, known, {}))
    if found.rhs is operator:
        raise InputError(f"nothing in {operator} begins with {known.lhs}; rewrite what stands there as it is written")
    return found


def _theorem(rule: Rule) -> Known:
    return assume(rule) if isinstance(rule, Fact) else rule


def _at_head(operator: Operator, rule: Theorem) -> tuple[Theorem, Operator | None] | None:
    """The rule at the beginning of a word, and what follows it there."""
    if rule.lhs is operator:
        return rule, None
    rest = without_beginning(rule.lhs, operator)
    return None if rest is None else (rule, rest)


def _everywhere(operator: Operator, rule: Theorem, done: dict[Operator, Theorem]) -> Steps[Theorem]:
    if operator in done:
        return done[operator]
    found = _at_head(operator, rule)
    if found is not None:
        proof, rest = found
        if rest is not None:
            proof = cong(compose, proof, (yield _everywhere(rest, rule, done)))
    else:
        parts = _inside(operator, rule)
        proofs = []
        for part in parts:
            proofs.append((yield _everywhere(part, rule, done)))  # noqa: PERF401
        changed = any(proof.rhs is not proof.lhs for proof in proofs)
        proof = _congruent(operator, parts, proofs) if changed else refl(operator)
    done[operator] = proof
    return proof


def _at(operator: Operator, rule: Known, path: tuple[int, ...]) -> Steps[Theorem]:
    if not path:
        if not isinstance(rule, Theorem):
            return rule(operator)
        found = _at_head(operator, rule)
        if found is None:
            raise InputError(f"{operator} stands at this path and does not begin with {rule.lhs}; name another")
        return found[0] if found[1] is None else cong(compose, *found)
    parts = _inside(operator, rule)
    if not 0 <= path[0] < len(parts):
        raise InputError(f"{operator} has {len(parts)} parts, and the path names part {path[0]}; they are numbered from 0")
    inner = yield _at(parts[path[0]], rule, path[1:])
    return _congruent(operator, parts, [inner if place == path[0] else refl(part) for place, part in enumerate(parts)])


def _inside(operator: Operator, rule: Known) -> list[Operator]:
    """What stands inside an operator; a body is opened at a symbol that nothing else has."""
    if isinstance(operator, Dressed | Source):
        return [operator.state]
    if isinstance(operator, Binder):
        taken = {*operator.symbols, *operator.body.symbols}
        if isinstance(rule, Theorem):
            taken |= {*rule.lhs.symbols, *rule.rhs.symbols, *(found for fact in rule.hypotheses for found in fact.symbols)}
        return [operator.opened(symbol(*fresh_names(taken, 1)))]
    return list(operator.parts)


def _congruent(operator: Operator, parts: list[Operator], proofs: list[Theorem]) -> Theorem:
    """From equations of the parts, the equation of the whole."""
    if isinstance(operator, Sum):
        scales = [coefficient * Identity(operator.codomain) for coefficient, _ in operator.terms]
        return added([cong(compose, scale, proof) for scale, proof in zip(scales, proofs)])
    if isinstance(operator, Compose):
        return cong(compose, *proofs)
    if isinstance(operator, Dressed | Source):
        return cong(dressed if isinstance(operator, Dressed) else source, operator.operator, *proofs)
    if isinstance(operator, Binder):
        (index,) = parts[0].symbols - operator.symbols or {None}
        return refl(operator) if index is None else under(proofs[0], operator, the_symbol(index))
    return rebuilt(operator, proofs)


def auto(lhs: Operator, rhs: Operator, *, facts: Iterable[Fact] = ()) -> Theorem:
    """`lhs = rhs`, where the normal forms of both sides are the same: expanded, collected, and rewritten by the facts.

    States are dressed when it does not hold without. InputError with both normal forms when they differ, which says nothing
    about whether the equation holds.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> print(oa.auto((A + B) @ (A - B), A @ A - oa.commutator(A, B) - B @ B))
    |- (A + B) @ (A - B) = -[A, B] + A @ A - B @ B
    """
    Equal(lhs, rhs)
    if lhs is rhs:
        return refl(lhs)
    given = tuple(facts)
    sides = [simplify(side, facts=given) for side in (lhs, rhs)]
    if sides[0].rhs is not sides[1].rhs and lhs.is_state:
        dressed_sides = [expand(side, facts=given) for side in (lhs, rhs)]
        sides = [trans(side, simplify(side.rhs, facts=given)) for side in dressed_sides]
    if sides[0].rhs is not sides[1].rhs:
        raise InputError(
            f"{lhs} = {rhs} is not decided by normal forms: the left side gives {sides[0].rhs}, the right side {sides[1].rhs}; "
            "take a smaller step, or declare the facts that it needs"
        )
    return trans(sides[0], sym(sides[1]))


@final
@dataclass(frozen=True, repr=False)
class Calculation(Displayed):
    """A chain of equations, each with its reason; `theorem` says that the first side equals the last, `goal` what is wanted."""

    start: Operator
    steps: tuple[tuple[Theorem, str], ...] = ()
    goal: Operator | None = None

    @property
    def last(self) -> Operator:
        """The side that was reached."""
        return self.steps[-1][0].rhs if self.steps else self.start

    def to(self, side: Operator, *, by: Rule | None = None, facts: Iterable[Fact] = (), name: str = "") -> "Calculation":
        """One equation more: by a theorem or fact used once or everywhere, in either direction, or by normal forms alone.

        What is left after the rule is used is decided by `auto`. InputError when it is not.
        """
        found, reason = self._step(side, by, tuple(facts))
        return replace(self, steps=(*self.steps, (found, name or reason)))

    def _step(self, side: Operator, by: Rule | None, facts: tuple[Fact, ...]) -> tuple[Theorem, str]:
        here = self.last
        if by is None:
            return auto(here, side, facts=facts), "normal form" if not facts else ", ".join(map(str, facts))
        rule, reason = _theorem(by), _reason(by)
        if not isinstance(rule, Theorem):
            first = rule(here)
            return trans(first, auto(first.rhs, side, facts=facts)), reason
        for one in (rule, sym(rule)):
            if one.lhs is here and one.rhs is side:
                return one, reason
        refusal: InputError | None = None
        for one in (rule, sym(rule)):
            try:
                first = rewrite(here, one)
                return trans(first, auto(first.rhs, side, facts=facts)), reason
            except InputError as error:
                refusal = refusal or error
        raise InputError(f"{here} = {side} does not follow by {by}: {refusal}")

    def rewritten(self, rule: Rule, *, at: tuple[int, ...] | None = None, name: str = "") -> "Calculation":
        """One equation more, to what a rule makes of the last side; see `rewrite`."""
        return replace(self, steps=(*self.steps, (rewrite(self.last, rule, at=at), name or _reason(rule))))

    @property
    def theorem(self) -> Theorem:
        """The first side equals the last. InputError while a goal is not reached."""
        if self.goal is not None and self.last is not self.goal:
            raise InputError(f"the goal {self.goal} is not reached; the chain ends in {self.last}")
        return reduce(trans, (step for step, _ in self.steps)) if self.steps else refl(self.start)


def _reason(rule: Rule) -> str:
    if isinstance(rule, Fact):
        return str(rule)
    return (rule.rule if isinstance(rule, Theorem) else getattr(rule, "__name__", "rule")).replace("_", " ")


def calc(start: Operator, *, goal: Operator | None = None) -> Calculation:
    """A chain of equations that begins with an operator; a goal is shown until it is reached.

    >>> import opalgebra as oa
    >>> A, P = oa.atoms("A P", kind="linear")
    >>> chain = oa.calc((1 - P) @ (1 - P), goal=1 - P).to(1 - 2 * P + P @ P)
    >>> print(chain)
    (1 - P) @ (1 - P)
      = 1 - 2*P + P @ P    by normal form
    goal: 1 - P
    >>> print(chain.to(1 - P, by=oa.Idempotent(P)).theorem)
    |- [P idempotent] (1 - P) @ (1 - P) = 1 - P
    """
    check_operators(start, *(() if goal is None else (goal,)))
    return Calculation(start, (), goal)


@overload
def theorem(prove: Proof) -> Proof: ...


@overload
def theorem(*, cites: Iterable[str]) -> Callable[[Proof], Proof]: ...


def theorem(prove: Proof | None = None, *, cites: Iterable[str] = ()) -> Proof | Callable[[Proof], Proof]:
    """Registers a function without arguments that proves a theorem, under its name: `@theorem` in a file of proofs.

    `opalgebra prove` runs such files and writes the certificate and the derivation beside each. With `cites`, names of other
    theorems of the folder, the derivation refers to what is proved by induction there.
    """
    if prove is None:
        return lambda given: _registered(given, tuple(cites))
    return _registered(prove, ())


def _registered(prove: Proof, cites: tuple[str, ...]) -> Proof:
    PROOFS[prove.__name__], CITED[prove.__name__] = prove, cites
    return prove
