"""Any text is read or refused by an error of the library within 50 ms of computing: mutated prints, token soups, brackets."""

import time
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BETWEEN, LINEAR, NONLINEAR, STATES, operators, states
from test_structure import SPACES, build, letters, trees

import opalgebra as oa
from opalgebra.errors import OpalgebraError
from opalgebra.parse import parse

SECONDS = 0.050
LONGEST = 1_000
PLACED = dict.fromkeys(atom for domain in SPACES for codomain in SPACES for atom in letters(domain, codomain))
ATOMS = (*LINEAR, *NONLINEAR, *STATES, *BETWEEN, *PLACED)
STRUCTURED = st.tuples(st.sampled_from(SPACES), st.sampled_from(SPACES)).flatmap(lambda ends: trees(*ends, 3).map(build))
TOKENS = (
    *"ABCxyhk01279()<>@+-*/.,=:;_$%#&|!?~^`'\"\\[]{}",
    *"where source one zero linear nonlinear state attention -> X K hidden 1/2 0.25 1/0 V1 V2 A1_0 C<x> one(X) x1=x".split(),
    *("source(C, x)", "zero(1, X)", "(1 + A)", "C<(1 + A) @ x>", " where A: linear"),
    *"ordered_product( sum( ordered_sum( ordered_product(1+V[l],l,1,L) sum(A,l,0,L+1) ordered_sum(V[l],l,L,3)".split(),
    *"V[ V[l] V[l+1,2] V[]:linear L:natural g:real g g^2 g^-1 g* (1+g)* ^ [] l L l^2 V[l^9] 999 s= P=A@B,Q=P@P s=F2@x".split(),
    *"tensor inverse adjoint transpose commutator trace function tensor( inverse( adjoint( transpose( commutator(".split(),
    *"trace( trace(A) ,0) ,1) ,0,1) function(exp, tensor(A,B) inverse(2*A) adjoint(A@B) commutator(A,B)".split(),
    *"trace(tensor(A,B),1) one(positions) one(K) positions features positions*features -> tensor(A,B)@".split(),
    *"V[l+k^2] sum(V[l],l,1,n) ordered_product(1+V[l],l,1,96) zero(1,X) zero(X,K)".split(),
)
BRACKETS = tuple(pair.split("|") for pair in "(|) C<|> C@(1+|) source(C,|) -(|) 2*(A+|) C<x+|>@x V[l+|]".split())
STRUCTURES = tuple(
    pair.split("|")
    for pair in (
        "tensor(A,|) tensor(|,A) tensor(A,B@|) inverse(|) inverse(1-|) adjoint(|) adjoint(A@|) transpose(1+A@|) transpose(|@A) "
        "commutator(A,|) commutator(|@B,A) function(exp,|) function(log,1+|) trace(|) trace(A@|) trace(tensor(A,|),0) "
        "trace(tensor(A,|),0,1) inverse(tensor(A,|)) adjoint(tensor(|,2*B)) tensor(A,B)@tensor(1,|) 1*(A@|) 1*(|@A) "
        "(1+g)*(g+|) (1+h)*(|) ordered_product(1+|,l,1,L) sum(A@|,l,1,3) sum(V[l]@|,l,1,m) ordered_sum(B+|,l,L,2) "
        "ordered_sum(B,l,L,2,|) ordered_product(V[l,m]@|,l,1,m) ordered_product(|@V[m],m,1,9) sum(V[l^2]+|,l,1,2*n)"
    ).split()
)
ODD = "λψ₃²٣ⅷéßıﬁ𝔸字\u0301\u200b\u202e\ufeff\x00\x1f\x85\u2028\ud800\U0010ffff\n\t"


@cache
def prints() -> tuple[str, ...]:
    """What `repr` and `str` give for a fixed set of random operators."""
    found = []

    @settings(max_examples=1_000, derandomize=True, database=None)
    @given(st.one_of(operators(), states(4), STRUCTURED))
    def collect(operator):
        found.extend((repr(operator), str(operator)))

    collect()
    return tuple(text for text in dict.fromkeys(found) if len(text) <= LONGEST)


def mutated(random: Random, text: str) -> str:
    """The text after a few deletions, insertions, repetitions, swaps and splices."""
    for _ in range(random.choice((0, 1, 1, 1, 2, 5))):
        start, end = sorted(random.randint(0, len(text)) for _ in range(2))
        end = min(end, start + random.choice((1, 2, 5, 20)))
        piece = text[start:end]
        match random.randrange(7):
            case 0:
                piece = ""
            case 1:
                piece += random.choice(TOKENS)
            case 2:
                piece = random.choice(TOKENS)
            case 3:
                piece *= random.choice((2, 3, 50))
            case 4:
                piece = piece[::-1]
            case 5:
                piece = random.choice(prints())[start:end]
            case 6:
                piece = random.choice(ODD)
        text = text[:start] + piece + text[end:]
    return text


def soup(random: Random) -> str:
    """Tokens of the grammar, and others, in any order."""
    return random.choice(("", " ")).join(random.choices(TOKENS, k=random.randint(0, 40)))


def nested(random: Random) -> str:
    """Brackets, dressings and constructors inside each other, not always closed."""
    pairs = random.choices(random.choice((BRACKETS, STRUCTURES, BRACKETS + STRUCTURES)), k=random.randint(1, 5))
    left, right = zip(*pairs * random.randint(1, 60))
    fitting = max(1, next((n for n in range(len(left)) if sum(map(len, left[:n] + right[:n])) > LONGEST - 20), len(left)))
    left, right = left[:fitting], right[:fitting]
    kept = random.choice((len(left), len(left), len(left) - 1, len(left) + 1, 0))
    return "".join(left) + random.choice(("x", "A", "1", "x1", "")) + "".join((*right[::-1], ")")[:kept])


def defined(random: Random) -> str:
    """Names that stand for others, many times over."""
    first, step, last = random.choice(
        (
            ("A", "?@?", "A"), ("A+B", "?@?+?", "1"), ("x", "C@?+A@?", "x"), ("x", "C<?>@?+?", "A"), ("C", "(C+?)@(1+?)", "x"),
            ("A", "tensor(?,?)", "A"), ("A@B", "adjoint(?)@?", "B"), ("1+A", "inverse(?)@?", "x"),
            ("A", "commutator(?,B)+?", "1"), ("A", "trace(?)", "A"), ("A", "function(exp,?)@?", "A"),
            ("V[l]", "sum(?@?,l,1,L)", "A"), ("C", "C<?@x>@?", "x"),
            ("tensor(A,B)", "?@?", "tensor(B,A)"), ("C", "C@?+?", "x"), ("A", "ordered_product(?@?,l,1,3)", "B"),
        )
    )  # fmt: skip
    count = random.randint(1, 60)
    steps = (f"s{number + 1}=" + step.replace("?", f"s{number}") for number in range(count))
    what = random.choice(("?", "?@%", "%+?", "?<x>", "source(?,x)", "trace(?)", "?@?")).replace("%", last)
    return f"{what.replace('?', f's{count}')} where s0={first}, {', '.join(steps)}"


def numbers(random: Random) -> str:
    """Long numerals, fractions, decimals and names."""
    digits = "".join(random.choices("0123456789", k=random.choice((1, 10, 900, 1_000, 1_001))))
    second = random.choice("0012") + "".join(random.choices("012", k=random.choice((0, 1, 2, 300))))
    return random.choice(
        "{0}*A|{0}/{1}*A|{0}.{1}*A|{0} + {1}/{0}*A|V{0}|V{1}_{1}|{0}/{1}|A @ {0}|1/{1} @ V{1}|{0}A|g^{0}*A|V[{0}]|"
        "({1} + g)*({0}*g + 1)*A|ordered_product(A, l, 1, {0})|"
        "sum(V[l], l, {0}, {1})|ordered_sum(V[l], l, {0}, {1})|V[l - {0}]|"
        "ordered_product(V[l^{0}], l, 1, {1})|trace(A, {1})|V[l^2 * {0}]|sum(sum(V[m], m, 1, l * {1}), l, 1, {1})|"
        "ordered_product(V[l] + 1, l, L, L + {0})|ordered_sum(1 + V[l], l, {1}, {1})|{0}*g^{1}*A|(1 + g)*{0}*g^{0}*A".split("|")
    ).format(digits, second)


def characters(random: Random) -> str:
    """Any characters, most of them far from the grammar."""
    return "".join(random.choices([*ODD, *"A @+(1)<>*,=: "], k=random.randint(0, 60)))


PRINTED = [lambda random: mutated(random, random.choice(prints()))]
KINDS = (*PRINTED * 5, soup, soup, nested, nested, defined, numbers, characters)


def fuzzed(number: int) -> tuple[str, str | None]:
    """The text of a number, and the kind that its unknown names get."""
    random = Random(number)
    text = random.choice(KINDS)(random)
    if random.random() < 0.1:
        text = mutated(random, text)
    return text[:LONGEST], random.choice((None, "linear", "linear", "nonlinear", "state"))


def seconds(text: str, kind: str | None) -> float:
    """The computing time until the text is read or refused; any other exception than one of the library passes through."""
    start = time.process_time()
    try:
        read = parse(text, atoms=ATOMS, kind=kind)
    except OpalgebraError as error:
        elapsed = time.process_time() - start
        assert str(error) and len(str(error).splitlines()) == 1
    else:
        elapsed = time.process_time() - start
        assert isinstance(read, oa.Operator)
    return elapsed


def offences(inputs: range) -> Iterator[str]:
    """Inputs that end in a foreign exception, or take more than `SECONDS` in each of four tries."""
    for number in inputs:
        text, kind = fuzzed(number)
        try:
            if seconds(text, kind) > SECONDS and (least := min(seconds(text, kind) for _ in range(3))) > SECONDS:
                yield f"{number}: {least:.3f} s for {text!r}, kind={kind!r}"
        except Exception as error:
            yield f"{number}: {type(error).__name__} for {text!r}, kind={kind!r}"


def first_offences(inputs: range) -> list[str]:
    return [offence for offence, _ in zip(offences(inputs), range(10))]


def test_twenty_thousand_texts_are_read_or_refused_in_time():
    assert first_offences(range(20_000)) == []


@pytest.mark.slow
def test_a_million_texts_are_read_or_refused_in_time():
    assert first_offences(range(20_000, 1_020_000)) == []


def test_the_texts_are_of_both_sorts_and_of_many_shapes():
    texts = [fuzzed(number) for number in range(2_000)]
    read = 0
    for text, kind in texts:
        try:
            parse(text, atoms=ATOMS, kind=kind)
            read += 1
        except OpalgebraError:
            continue
    assert 200 < read < 1_800
    assert len(set(texts)) > 1_500
    assert max(len(text) for text, _ in texts) == LONGEST


# Planted bugs: a reader that breaks or lingers is reported.

READ = parse


def test_a_reader_that_breaks_on_some_text_is_reported(monkeypatch):
    def breaking(text, **options):
        return [][0] if "<" in text else READ(text, **options)

    monkeypatch.setitem(globals(), "parse", breaking)
    assert "IndexError for" in next(offences(range(100)))


def test_a_reader_that_lingers_on_some_text_is_reported(monkeypatch):
    def lingering(text, **options):
        end = time.process_time() + 1.2 * SECONDS
        while "@" in text and time.process_time() < end:
            pass
        return READ(text, **options)

    monkeypatch.setitem(globals(), "parse", lingering)
    assert "s for" in next(offences(range(100)))
