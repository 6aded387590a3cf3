"""Simplification by declared facts: a sum of words, in which every word that a fact rewrites has been rewritten.

Each fact is an equation between sums of words, and becomes a rule: the largest word of the equation, by number of letters
and then by name, is replaced by the rest; rules are rewritten by each other once. Two exceptions: `Homogeneous` takes
positive factors out of an argument, and `Form` always puts the form for the dressing. The words are read in tensor
products, inverses, traces and under the binders of indices as well, and sums over an index are taken around a word;
backgrounds are left alone.

Nothing here is trusted: each step is a theorem of the kernel, and the facts used are the hypotheses of the result. Two
equal operators may have different results, for the rules are not completed; the same result always proves them equal.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from math import gcd, lcm
from operator import add
from typing import Any

from opalgebra.atoms import Family
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom, Compose, Identity, Operator, Sum, Zero, check_operators, compose, factors, postorder, terms
from opalgebra.facts import Adjoint as AdjointFact
from opalgebra.facts import Causal, Commute, Every, Fact, Form, Homogeneous, Inverse, Linear, as_facts, is_member, is_positive
from opalgebra.growth import largest_expansion, written_count
from opalgebra.indexed import Binder, IndexedSum
from opalgebra.kernel import Theorem, assume, cong, distribute, refl, sum_left, sum_of_sums, sum_right, sym, trans, under
from opalgebra.matching import first_factor, later_factors
from opalgebra.recursion import Steps, without_recursion
from opalgebra.rewrite import Head, added, longest_first, rebuilt, without_beginning
from opalgebra.scalar import Polynomial, Scalar, as_scalar, fresh_names, scalar_of, symbol, the_symbol

LIMIT = 10_000
TERMS = 200_000


def simplify(operator: Operator, *, facts: Iterable[Fact] = (), limit: int | None = LIMIT) -> Theorem:
    """The theorem `operator = its expansion, rewritten by the facts until none applies`; its hypotheses are those used.

    No map is dressed. LimitError after `limit` rewritings, or for an expansion to more than `TERMS` terms (None: no limit);
    InputError for what is no fact, or for one that is no rule because its largest word has a coefficient that may be zero.

    >>> import opalgebra as oa
    >>> A, P = oa.atoms("A P", kind="linear")
    >>> print(oa.simplify(P @ (A + P) @ P, facts=[oa.Idempotent(P)]))
    |- [P idempotent] P @ (A + P) @ P = P + P @ A @ P
    """
    check_operators(operator)
    given = list(as_facts(facts))
    for fact in given:
        if isinstance(fact, Every):
            raise InputError(f"'{fact}' is used at a value of its index; give the equations it is needed at, fact.equation(3)")
    if limit is not None and (count := largest_expansion(operator, given)) > TERMS:
        raise LimitError(
            f"what is simplified would first be expanded to {written_count(count)} terms, and {TERMS:,} is the limit; "
            "use limit=None for none"
        )
    return without_recursion(_Simplifier(given, limit).reduced(operator))


class _Simplifier:
    """The rules of some facts, and the normal forms found so far."""

    def __init__(self, facts: list[Fact], limit: int | None) -> None:
        self.limit = limit
        self.steps = 0
        self.linear = [fact for fact in facts if isinstance(fact, Linear)]
        self.homogeneous = [fact for fact in facts if isinstance(fact, Homogeneous)]
        self.swaps = [fact for fact in facts if isinstance(fact, Commute) and _of_letters(fact)]
        others = [fact for fact in facts if not isinstance(fact, Linear | Homogeneous) and fact not in self.swaps]
        self.schemes = [(fact, operands) for fact in others if (operands := _families(fact))]
        self.taken = {found for fact in facts for found in fact.symbols}
        self.rules: dict[Operator, Theorem] = {}
        self.head: Head[Theorem] | None = None
        self.members: list[Operator] = []
        self.met: set[Operator] = set()
        self.known: dict[Operator, Theorem] = {}
        self.blocked: Operator | None = None
        for fact in others:
            if not _families(fact):
                self.declare(fact)
        forms = {fact.dressing for fact in others if isinstance(fact, Form)}
        for word in [word for word in self.rules if word not in forms]:
            self.reduce_rule(word)

    def declare(self, fact: Fact, *members: Operator) -> None:
        """The rules of a fact, for members of its families."""
        if isinstance(fact, Inverse | AdjointFact):
            statements = [assume(fact, side, *members[:1]) for side in ("left", "right")]
        elif isinstance(fact, Causal):
            *operands, projector = members
            statements = [assume(fact, projector.indices, *operands)]  # type: ignore[attr-defined]
        elif isinstance(fact, Commute):
            chosen = iter(members)
            pair = [next(chosen) if isinstance(operand, Family) else operand for operand in (fact.left, fact.right)]
            statements = [assume(fact, *pair)]
        else:
            statements = [assume(fact, *members)]
        for statement in statements:
            rule = statement if isinstance(fact, Form) else self.oriented(statement)
            self.add(rule)

    def add(self, rule: Theorem | None) -> None:
        """A rule more; when there is one of the same word, that both have equal right sides."""
        while rule is not None and rule.lhs in self.rules:
            rule = self.oriented(trans(sym(self.rules[rule.lhs]), rule))
        if rule is not None:
            self.rules[rule.lhs] = rule
            self.head = None

    def reduce_rule(self, word: Operator) -> None:
        """Rewrites both sides of the rule of a word by the others, and what stands inside its letters."""
        rule, self.blocked = self.rules[word], word
        lhs, rhs = (without_recursion(self.reduced(side)) for side in (rule.lhs, rule.rhs))
        self.blocked = None
        self.known.clear()
        if lhs.rhs is not word or rhs.rhs is not rhs.lhs:
            renewed = self.oriented(trans(sym(lhs), trans(rule, rhs)))
            if renewed is not None:
                del self.rules[word]
                self.add(renewed)

    def oriented(self, statement: Theorem) -> Theorem | None:
        """From an equation, `w = the rest` for its largest word w; None when both sides expand to the same."""
        lhs, rhs = (distribute(side, self.linear) for side in (statement.lhs, statement.rhs))
        equation = trans(trans(sym(lhs), statement), rhs)
        difference = terms(equation.lhs - equation.rhs)
        if not difference:
            return None
        coefficient, word = max(difference, key=lambda term: _size(term[1]))
        if not is_positive(coefficient) and not is_positive(-coefficient):
            raise InputError(f"{statement} is no rule: the coefficient {coefficient} of {word} may be zero; make it positive")
        scaled = cong(compose, refl(1 / coefficient * Identity(word.codomain)), equation)
        return cong(add, scaled, refl(word - scaled.lhs))

    def meet(self, operator: Operator) -> None:
        """Makes the rules of facts of families for the members that stand in an operator."""
        waiting = [operator] if self.schemes else []
        while waiting:
            node = waiting.pop()
            if node in self.met:
                continue
            self.met.add(node)
            waiting += node.parts
            if isinstance(node, Atom) and node.indices:
                self.members.append(node)
                for fact, operands in self.schemes:
                    choices = ([m for m in self.members if is_member(m, operand)] for operand in operands)
                    for members in product(*choices):
                        if node in members:
                            self.declare(fact, *members)

    def reduced(self, operator: Operator) -> Steps[Theorem]:
        """`operator = its normal form`."""
        if operator not in self.known:
            self.meet(operator)
            proof = distribute(operator, self.linear)
            parts = terms(proof.rhs)
            if len(parts) == 1 and parts[0][0] == 1:
                proof = trans(proof, (yield self.word(parts[0][1])))
            elif parts:
                found = []
                for coefficient, term in parts:
                    scale = refl(coefficient * Identity(term.codomain))
                    found.append(cong(compose, scale, (yield self.word(term))))
                proof = trans(proof, added(found))
            self.known[operator] = proof
        return self.known[operator]

    def word(self, word: Operator) -> Steps[Theorem]:
        """`word = its normal form`, of a word that is distributed."""
        if word in self.known:
            return self.known[word]
        proof, rest = (yield self.letter(first_factor(word))), later_factors(word)
        distributed = proof.rhs is proof.lhs
        if rest is not None:
            later = yield (self.reduced(rest) if isinstance(rest, Sum) else self.word(rest))
            distributed = distributed and _is_word(later.rhs)
            proof = cong(compose, proof, later)
            if proof.lhs is not word:
                proof, distributed = refl(word), False
        if proof.rhs is word:
            step = self.step(word)
            if step is None:
                self.known[word] = refl(word)
                return self.known[word]
            self.count(word)
            proof, distributed = step
            self.meet(proof.rhs)
        self.known[word] = trans(proof, (yield (self.word if distributed else self.reduced)(proof.rhs)))
        return self.known[word]

    def count(self, word: Operator) -> None:
        self.steps += 1
        if self.limit is not None and self.steps > self.limit:
            raise LimitError(
                f"simplification stopped at {word} after {self.limit:,} rewritings; the facts may lead in circles: declare "
                "fewer, or raise the limit"
            )

    def step(self, word: Operator) -> tuple[Theorem, bool] | None:
        """One rewriting at the beginning of a word, and whether what it gives is known to be a word that is distributed."""
        if self.head is None:
            self.head = longest_first(self.rules)
        found = self.head(word)
        if found is not None and found[0].lhs is not self.blocked:
            rule, rest = found
            distributed = all(map(_is_word, factors(rule.rhs))) and (rest is None or _is_word(rest))
            return (rule if rest is None else cong(compose, rule, rest)), distributed
        rest = later_factors(word)
        if isinstance(letter := first_factor(word), IndexedSum) and rest is not None:
            return sum_right(letter, rest), False
        if isinstance(rest, IndexedSum) and letter.is_linear:
            return sum_left(letter, rest), False
        swapped = self.swapped(word)
        proof = swapped or self.scaled(word)
        return None if proof is None else (proof, swapped is not None and not isinstance(factors(word)[-1], Sum))

    def swapped(self, word: Operator) -> Theorem | None:
        """The first two letters of a word in the order of their names, where they commute."""
        rest = later_factors(word)
        if rest is None:
            return None
        first, second = first_factor(word), first_factor(rest)
        if _size(first) <= _size(second):
            return None
        for fact in self.swaps:
            for members, turn in (((first, second), lambda t: t), ((second, first), sym)):
                if is_member(members[0], fact.left) and is_member(members[1], fact.right):
                    rule, later = turn(assume(fact, *members)), later_factors(rest)
                    return rule if later is None else cong(compose, rule, later)
        return None

    def scaled(self, word: Operator) -> Theorem | None:
        """A positive factor taken out of the argument of a homogeneous map."""
        for fact in self.homogeneous:
            head = first_factor(word) if isinstance(fact.operator, Family) else fact.operator
            rest = without_beginning(head, word) if is_member(head, fact.operator) else None
            content = _content(rest) if isinstance(rest, Sum) else as_scalar(1)
            if content != 1:
                return assume(fact, content, 1 / content * rest, head)  # type: ignore[operator]
        return None

    def letter(self, letter: Operator) -> Steps[Theorem]:
        """`letter = the same with normal forms inside it`."""
        if isinstance(letter, Binder):
            names = {*self.taken, *letter.symbols, *letter.body.symbols}
            index = symbol(*fresh_names(names, 1))
            body = yield self.reduced(letter.opened(index))
            proof = refl(letter) if body.lhs is body.rhs else under(body, letter, the_symbol(index))
            return trans(proof, sum_of_sums(proof.rhs)) if isinstance(proof.rhs, IndexedSum) else proof
        parts = []
        for part in () if isinstance(letter, Atom | Sum) else letter.parts:
            parts.append((yield self.reduced(part)))  # noqa: PERF401
        if all(part.lhs is part.rhs for part in parts):
            return refl(letter)
        return rebuilt(letter, parts)


def _is_word(operator: Operator) -> bool:
    """Whether an operator has one term, with coefficient 1, and is no multiple of an identity."""
    return not isinstance(operator, Sum | Zero | Identity)


def _families(fact: Fact) -> list[Family]:
    """The families whose members a fact takes, in this order, prefix projectors last."""
    families = [operand for operand in vars(fact).values() if isinstance(operand, Family)]
    return families[:1] if isinstance(fact, Inverse | AdjointFact) else families


def _of_letters(fact: Commute) -> bool:
    return not any(isinstance(operand, Compose | Sum) for operand in (fact.left, fact.right))


def _size(word: Operator) -> tuple[Any, ...]:
    """Orders words by their number of letters, those in inverses and the like counted, and then by the names of letters."""
    letters = factors(word)
    count = sum(1 for letter in letters for _ in _leaves(letter))
    return (count, len(letters), [_name(letter) for letter in letters])


def _leaves(letter: Operator) -> Iterator[Operator]:
    return (node for node in postorder(letter, backgrounds=False) if not isinstance(node, Compose | Sum | Identity))


def _name(letter: Operator) -> tuple[Any, ...]:
    return (0, letter.sort_key) if isinstance(letter, Atom) else (1, type(letter).__name__, letter.digest)


def _content(total: Sum) -> Scalar:
    """The largest positive factor that all coefficients of a sum have in common."""
    monomials = [part for c, _ in total.terms for part in (c.terms if isinstance(c, Polynomial) else (((), c),))]
    numbers = [number for _, number in monomials]
    content: Scalar = Fraction(gcd(*(n.numerator for n in numbers)), lcm(*(n.denominator for n in numbers)))
    for found in {s for monomial, _ in monomials for s, _ in monomial if s.sort == "positive"}:
        content = content * scalar_of(found) ** min(dict(monomial).get(found, 0) for monomial, _ in monomials)
    return content
