"""JSON and back gives the same object; a tampered text is refused by an error of the library, or is well typed."""

import json
import sys
import time
from importlib import import_module
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import operators, states
from test_structure import TREES, build

import opalgebra as oa
from opalgebra.commutator import Commutator
from opalgebra.errors import OpalgebraError
from opalgebra.expr import Atom, Compose, Dressed, Source, Sum, compose, postorder
from opalgebra.function import FunctionOf
from opalgebra.interchange import LONGEST, from_json, to_json
from opalgebra.space import ONE, K, Space, X
from opalgebra.tensor import Tensor
from opalgebra.trace import TraceOf

interchange = import_module("opalgebra.interchange")

A, B = oa.atoms("A B", kind="linear")
F = oa.Atom("F", kind="nonlinear")
V = oa.family("V", kind="linear")
x = oa.state("x")
l, m, n, L = map(oa.symbol, "l m n L".split())
g, t = oa.parameter("g"), oa.parameter("t", positive=True)
M = oa.Atom("M", kind="linear")
SPACE = ["positions", "features"]

EVERY_NODE = (
    oa.Identity(),
    oa.Identity(K),
    oa.Zero(ONE, X),
    2 * A - B,
    (g**2 - L / t) * A @ B + g,
    oa.dressed(F, F @ x) @ x + oa.source(F, x),
    oa.tensor(A, 1 + B, M),
    oa.trace(oa.tensor(A, A) @ oa.tensor(B, A)),
    oa.trace(M, "features"),
    oa.inverse(1 - g * A),
    oa.inverse(F),
    oa.adjoint(oa.dressed(F, x)) @ oa.transpose(A) @ oa.adjoint(oa.transpose(B)),
    oa.commutator(A, B),
    oa.function("exp", t * A),
    V[l**2 + 3] @ V[10**30] @ oa.Atom("A2_1", kind="attention") @ oa.Atom("one3", kind="ffn"),
    oa.ordered_product(1 + g * V[l], l, 1, L),
    oa.indexed_sum(oa.ordered_product(1 + V[l] @ oa.family("W", kind="nonlinear")[m, l], m, 0, l - 1), l, L, 2 * n + 1),
    oa.ordered_sum(oa.ordered_sum(V[l] + V[n], n, L, l), l, L, 3),
    oa.ordered_sum(V[l], l, L, n, oa.ordered_product(1 + V[n] @ V[l], n, 1, l)),
    oa.Atom("E", kind="linear", domain=Space("hidden"), codomain=K),
)


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def whole(*rows):
    return json.dumps({"format": "opalgebra expression", "version": 1, "rows": rows})


def atom(name, kind="linear", domain=SPACE, codomain=SPACE):
    return ["Atom", name, [], kind, domain, codomain]


# Round trips


@given(st.one_of(operators(), states(4), TREES.map(build)))
def test_what_is_written_is_read_back_to_the_same_object(operator):
    assert from_json(to_json(operator)) is operator


@pytest.mark.parametrize("operator", EVERY_NODE, ids=str)
def test_every_node_is_read_back_to_the_same_object(operator):
    assert from_json(to_json(operator)) is operator


def test_transformers_and_their_series_are_read_back():
    T = oa.transformer(3, heads=2)
    for operator in (T.operator, T.x[6], T.dyson()[2], oa.expand(T.x[3]).rhs):
        assert from_json(to_json(operator)) is operator


def test_a_table_is_as_documented():
    assert to_json(oa.ordered_product(1 + g * V[l], l, 1, L)) == (
        '{"format": "opalgebra expression", "version": 1, "rows": [\n'
        '["Identity", ["positions", "features"]],\n'
        '["Atom", "V", [[["1", [["#1", "natural", 1]]]]], "linear", ["positions", "features"], ["positions", "features"]],\n'
        '["Sum", [["1", 0], [[["1", [["g", "real", 1]]]], 1]]],\n'
        '["OrderedProduct", 2, 1, "1", [["1", [["L", "natural", 1]]]]]\n'
        "]}\n"
    )


def test_shared_parts_are_written_once_and_a_deep_expression_is_read_back():
    shared = A + B
    for _ in range(100):
        shared = F @ shared + F @ (B @ shared)
    assert len(to_json(shared)) < 20_000
    assert from_json(to_json(shared)) is shared
    deep = oa.ordered_product([1 + V[number] for number in range(10_000)])
    assert from_json(to_json(deep)) is deep


def test_a_table_in_another_order_is_read_as_what_it_means():
    table = whole(atom("A"), atom("B"), ["Compose", 0, 1], ["Compose", 2, 0], ["Sum", [["2", 3], ["-4/2", 0], ["1/3", 3]]])
    assert from_json(table) is oa.parse("7/3*A @ B @ A - 2*A", atoms=[A, B])


# Refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is no JSON from character 1 on (Expecting value); write it with to_json"),
        ("[" * 100_000, "the text is nested more deeply than the format ever is; write it with to_json"),
        (whole([]).replace("[]", "[" * 50_000 + "]" * 50_000), "the text is nested more deeply than the format ever is; "),
        ('{"a":' * 100_000, "the text is nested more deeply than the format ever is; write it with to_json"),
        ("1" * 100_000, "11111111111111111111... is too large for the number of a row, a place or an exponent; "),
        ("NaN", "NaN is no number of the format, which is exact; write fractions as text, as in '1/2'"),
        ("[1.5]", "1.5 is no number of the format, which is exact; write fractions as text, as in '1/2'"),
        ("[]", 'the text needs "format": "opalgebra expression"; write it with to_json'),
        ('{"a": 1, "a": 2}', "a name occurs twice in one object; each of format, version and rows is given once"),
        (whole().replace("1,", "2,"), "the version '2' is unknown; this library reads version 1"),
        (whole().replace("1,", "true,"), "the version 'True' is unknown; this library reads version 1"),
        (whole(), "the text has format, version, and rows, at least one; write it with to_json"),
        (whole([]), "row 0: None is no name of a row; this library knows Atom, Identity, Zero, Sum, Compose, "),
        (whole(7), "row 0: 7 is no list of a name and fields"),
        (whole(["__import__", "os"]), "row 0: '__import__' is no name of a row; this library knows Atom, "),
        (whole(["Identity"]), "row 0: Identity has the fields space; 0 are given"),
        (whole(atom("A") * 2), "row 0: Atom has the fields base, indices, kind, domain, codomain; 11 are given"),
        (whole(atom("A"), ["Compose", 0, 1]), "row 1: 1 is not the number of an earlier row"),
        (whole(atom("A"), ["Compose", 0, -1]), "row 1: -1 is not the number of an earlier row"),
        (whole(atom("A"), ["Compose", 0, True]), "row 1: True is no whole number"),
        (whole(atom("A"), ["Compose", 0, "0"]), "row 1: '0' is no whole number"),
        (whole(atom("A"), ["Sum", []]), "row 1: a sum has at least one term; write the zero map between two spaces as Zero"),
        (whole(atom("A"), ["Sum", [["1e3", 0]]]), "row 1: '1e3' is no fraction of at most 1,000 digits, such as '3' or '-1/2'"),
        (whole(atom("A"), ["Sum", [["1/0", 0]]]), "row 1: '1/0' is no fraction of at most 1,000 digits, such as '3' or '-1/2'"),
        (whole(atom("A"), ["Sum", [["9" * 1001, 0]]]), "row 1: '99999999999999999999' is no fraction of at most "),
        (whole(atom("A"), ["Sum", [[[["1", [["g", "complex", 1]]]], 0]]]), "row 1: 'complex' is no sort of a symbol; "),
        (whole(atom("A"), ["Sum", [[[["1", [["g h", "real", 1]]]], 0]]]), "row 1: 'g h' is no name of a symbol; use letters "),
        (whole(atom("A"), ["Sum", [[[["1", [["#1", "natural", 1]]]], 0]]]), "#1 is an index that no product or sum binds; "),
        (whole(atom("A1")), "row 0: 'A1' ends in an index and names no family; use a name without digits at its end"),
        (whole(atom("trace")), "row 0: 'trace' is no name of an operator; use letters and then indices, as in V3 or A2_1"),
        (whole(atom("A", kind="bosonic")), "row 0: A: the kind 'bosonic' is unknown; use one of linear, nonlinear, state, "),
        (whole(atom("A", domain=["1"])), "row 0: A: 1 -> X is no linear operator; only a state is a map out of ONE"),
        (whole(atom("A", domain=["a b"])), "row 0: the factors of a space are named by identifiers, not by ('a b',); "),
        (whole(["Identity", ["a"] * 1001]), "row 0: a space has 1,001 factors, more than 1,000; give several of them one name"),
        (whole(atom("A"), ["OrderedProduct", 0, 2, "1", "3"]), "row 1: a binder over row 0 has the level 1, one above "),
        (whole(atom("A"), ["OrderedProduct", 0, 1, "1/2", "3"]), "row 1: lower[Fraction(1, 2)]: an index is a natural number "),
        (whole(atom("A"), ["Sum", [[[["1", [["g", "real", -1]]]], 0]]]), "row 1: 1/g was asked, but g may be zero; declare "),
        (whole(atom("A"), ["IndexedSum", 0, 1, "-1", [["1", [["L", "natural", 1]]]]]), "row 1: lower[-1]: an index is a "),
        (whole(atom("A"), ["TraceOf", 0, []]), "row 1: a trace is over at least one factor, counted from 0"),
        (whole(atom("A"), ["TraceOf", 0, [2]]), "row 1: A maps X to X, and 2 names no one factor of both"),
        (whole(atom("F", kind="nonlinear"), ["AdjointOf", 0]), "row 1: the adjoint of F was asked, but it is not known to be "),
        (whole(atom("A"), ["FunctionOf", "os.system", 0]), "row 1: 'os.system' is no name of a function; use small letters, "),
    ],
)
def test_what_is_not_of_the_format_is_refused_in_one_line(text, message):
    assert refused(OpalgebraError, lambda: from_json(text)).startswith(message)


def test_sizes_and_types_of_the_argument_are_checked():
    assert refused(oa.LimitError, lambda: from_json(" " * (LONGEST + 1))).startswith("the text has 10,000,001 characters")
    assert refused(oa.LimitError, lambda: from_json(to_json(A), limit=10)).endswith("pass a larger limit= if it is yours")
    assert refused(oa.InputError, lambda: from_json(b"{}")).startswith("bytes is no text")
    assert refused(oa.InputError, lambda: to_json(3)) == "3 is no operator and has no table; to_json writes operators"


def test_deep_nesting_is_refused_on_a_nearly_full_stack_too():
    def deeper(levels):
        if levels:
            return deeper(levels - 1)
        return refused(oa.InputError, lambda: from_json("[" * 2_000))

    assert deeper(sys.getrecursionlimit() - 400).startswith("the text is nested more deeply")


def test_the_refusal_of_a_large_operator_is_short():
    rows = [atom("F", "nonlinear"), atom("A"), ["Compose", 0, 1]]
    for number in range(2, 62):
        rows += [["Compose", 0, 2 * number - 2], ["Sum", [["1", 2 * number - 1], ["2", 2 * number - 2]]]]
    last = len(rows) - 1
    rows.append(atom("h", domain=SPACE, codomain=["hidden"]))
    for row in (["Compose", last, last + 1], ["AdjointOf", last], ["Tensor", [last, 0]], ["Sum", [["1", 0], ["1", last + 1]]]):
        message = refused(OpalgebraError, lambda row=row: from_json(whole(*rows, row)))
        assert len(message) < 300
        assert f"row{last}" in message or f"row {last + 1}" in message


# Tables that ask for much


def doubling(first, row, count=60):
    """The rows of `first`, then rows made of the last one."""
    rows = list(first)
    for _ in range(count):
        rows += row(len(rows) - 1)
    return whole(*rows)


def names(number):
    return [[str(number), [["#1", "natural", 1]]]]


ADVERSARIES = {
    "words": doubling([atom("A")], lambda last: [["Compose", last, last]]),
    "words of sums": doubling([atom("A")], lambda last: [["Compose", last, last], ["Sum", [["1", last], ["1", last + 1]]]]),
    "sums": doubling([atom("F", "nonlinear")], lambda last: [["Sum", [["1", last], ["1", last]]]], 5_000),
    "tensor products": doubling([atom("A")], lambda last: [["Tensor", [last, last]]]),
    "tensor products of three": doubling([atom("A")], lambda last: [["Tensor", [last, 0, last]]]),
    "adjoint words": doubling([atom("A")], lambda last: [["AdjointOf", last], ["Compose", last + 1, last]]),
    "adjoint sums": doubling([atom("A")], lambda last: [["Compose", 0, last], ["Sum", [["1", 0], ["1", last + 1]]],
                                                        ["AdjointOf", last + 2]], 400),
    "traces": doubling([atom("A")], lambda last: [["Tensor", [last, 0]], ["TraceOf", last + 1, [0, 1]]]),
    "traces of layers": doubling(
        [atom("C", domain=["a", "a"], codomain=["a", "a"]), ["Identity", ["a"]], ["Tensor", [0, 1]]],
        lambda last: [["Tensor", [1, 0]], ["Compose", last + 1, last], ["Tensor", [0, 1]], ["Compose", last + 3, last + 2],
                      ["TraceOf", last + 4, [1]], ["Compose", last + 4, 2]], 300),
    "inverses": doubling([atom("A")], lambda last: [["InverseOf", last], ["Tensor", [last + 1, last]]]),
    "commutators": doubling([atom("A"), atom("B")], lambda last: [["Commutator", last, 0],
                                                                  ["Sum", [["1", last], ["1", last + 1]]]], 2_000),
    "functions": doubling([atom("A")], lambda last: [["FunctionOf", "exp", last], ["Compose", last + 1, last]]),
    "dressings": doubling([atom("F", "nonlinear"), atom("x", "state", ["1"]), ["Sum", [["2", 0]]]],
                          lambda last: [["Compose", last, last], ["Sum", [["1", last], ["1", last + 1]]],
                                        ["Dressed", last + 2, 1], ["Sum", [["1", last + 2], ["1", last + 3]]]]),
    "binders": doubling([["Atom", "V", [names(1)], "linear", SPACE, SPACE]],
                        lambda last: [["OrderedProduct", last, 1 + last, "1", [["1", [["L", "natural", 1]]]]]]),
    "long ranges": whole(["Atom", "V", [names(1)], "linear", SPACE, SPACE], ["OrderedProduct", 0, 1, "1", "9" * 900]),
    "ranges of ranges": doubling([["Atom", "V", [names(1)], "linear", SPACE, SPACE]],
                                 lambda last: [["OrderedProduct", last, 1, "1", "100"]], 8),
    "powers of an index": whole(["Atom", "V", [[["1", [["#1", "natural", 10**9]]]]], "linear", SPACE, SPACE],
                                ["OrderedProduct", 0, 1, "7", "9"]),
    "coefficients": doubling([atom("A"), ["Sum", [[[["1", [["g", "real", 1]]], ["1", [["h", "real", 1]]]], 0]]]],
                             lambda last: [["Compose", last, last]], 30),
    "large coefficients": doubling([atom("A")], lambda last: [["Sum", [["9" * 900, last]]]]),
    "many symbols": whole(atom("A"), ["Sum", [[[["1", [[f"g{i}", "real", 1]]] for i in range(5_000)], 0]]]),
    "one large row": whole(*[["Sum", [["1", 0]] * 200_000]] * 2),
    "empty lists": whole(*[[]] * 1_000_000),
}  # fmt: skip


@pytest.mark.parametrize("text", ADVERSARIES.values(), ids=ADVERSARIES)
def test_a_table_that_asks_for_much_is_read_or_refused_soon(text):
    start = time.process_time()
    try:
        assert_well_typed(from_json(text))
    except OpalgebraError as error:
        assert len(str(error)) < 500
    assert time.process_time() - start < 5


# Tampered texts


def assert_well_typed(operator):
    """Every node fits its parts, checked without the constructors, and no index is without its binder."""
    assert not any(found.name.startswith("#") for found in operator.symbols)
    for node in postorder(operator, backgrounds=True, bodies=True):
        match node:
            case Compose():
                assert (node.left.domain, node.domain, node.codomain) == (
                    node.right.codomain, node.right.domain, node.left.codomain
                )  # fmt: skip
            case Sum():
                assert {(term.domain, term.codomain) for _, term in node.terms} == {(node.domain, node.codomain)}
                assert all(coefficient for coefficient, _ in node.terms)
            case Dressed() | Source():
                assert isinstance(node.operator, Atom) and not node.operator.is_linear
                assert node.state.is_state and node.state.codomain == node.operator.domain
            case Tensor():
                assert all(block.is_linear and ONE not in (block.domain, block.codomain) for block in node.blocks)
            case Commutator() | FunctionOf() | TraceOf():
                assert all(part.is_linear for part in node.parts)
            case Atom():
                assert (node.kind == "state") == (node.domain == ONE) and node.codomain != ONE
    assert from_json(to_json(operator)) is operator


PIECES = (
    *'[ ] { } , : "1" "-1" "1/2" "0" 0 1 2 3 -1 true null 1e9 "#1" "#2" "natural" "linear" "state" [] ["1"] [0]'.split(),
    *(f'"{name}"' for name in interchange.NODES),
    *('["positions"]', '[["1", [["#1", "natural", 1]]]]', '[["1", [["g", "real", -1]]]]', '["Identity", []]', "\ud800", "\0"),
)


def tampered(random, text):
    """The text with a few of its pieces replaced, removed, repeated or exchanged."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        tokens = interchange.re.split(r'("[^"]*"|-?\d+|[\[\]{},:])', text)
        place, other = random.randrange(len(tokens)), random.randrange(len(tokens))
        what = random.randrange(6)
        if what == 0:
            tokens[place] = random.choice(PIECES)
        elif what == 1:
            tokens[place] = tokens[other]
        elif what == 2:
            tokens[place] = ""
        elif what == 3:
            tokens[place] *= 2
        elif what == 4:
            tokens[place], tokens[other] = tokens[other], tokens[place]
        elif tokens[place].lstrip("-").isdigit():
            tokens[place] = str(int(tokens[place]) + random.choice((-1, 1)))
        text = "".join(tokens)
    return text


def samples():
    found = []

    @settings(max_examples=150, derandomize=True, database=None)
    @given(st.one_of(operators(), states(3), TREES.map(build)))
    def collect(operator):
        found.append(to_json(operator))

    collect()
    return [text for text in [*map(to_json, EVERY_NODE), *found] if len(text) < 2_000]


def test_twenty_thousand_tampered_texts_are_refused_or_well_typed():
    random, texts, read = Random(0), samples(), 0
    for number in range(20_000):
        text = tampered(random, random.choice(texts))
        try:
            operator = from_json(text)
        except OpalgebraError as error:
            assert len(str(error).splitlines()) == 1, (number, text)
        except Exception as error:
            raise AssertionError(f"{number}: {text}") from error
        else:
            assert_well_typed(operator)
            read += 1
    assert 500 < read < 15_000


# Planted bugs: each is seen by a check above.


def test_a_reader_that_exchanges_the_factors_is_found(monkeypatch):
    planted = interchange.NODES["Compose"]._replace(build=lambda reader, left, right: reader.make(compose, [right, left]))
    monkeypatch.setitem(interchange.NODES, "Compose", planted)
    with pytest.raises(AssertionError):
        test_every_node_is_read_back_to_the_same_object(A @ B @ A)
        test_every_node_is_read_back_to_the_same_object(A @ B)


def test_a_writer_that_forgets_the_sort_of_a_symbol_is_found(monkeypatch):
    written = interchange.written

    def careless(field):
        return json.loads(json.dumps(written(field)).replace('"positive"', '"real"'))

    monkeypatch.setattr(interchange, "written", careless)
    with pytest.raises(AssertionError):
        test_every_node_is_read_back_to_the_same_object(t * A)


def test_a_reader_that_trusts_the_fields_is_found(monkeypatch):
    planted = interchange.NODES["Compose"]._replace(
        build=lambda reader, left, right: Compose._make(reader.operator(left), reader.operator(right))
    )
    monkeypatch.setitem(interchange.NODES, "Compose", planted)
    with pytest.raises(AssertionError):
        test_twenty_thousand_tampered_texts_are_refused_or_well_typed()
