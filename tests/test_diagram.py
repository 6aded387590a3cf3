"""Diagrams: terms read and given back, JSON both ways, topologies against brute force, and planted errors that are found."""

import json
import subprocess
import sys
import time
from collections import Counter
from itertools import product

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opalgebra as oa
from opalgebra import diagram as diagram_module
from opalgebra import topology as topology_module
from opalgebra.expr import Atom
from opalgebra.series import Branch, Series, Stage
from opalgebra.space import Kind

COUNTINGS = ("all", "attention", "ffn", lambda vertex: vertex.layer != 2)
x = oa.state("x")
A, F = (oa.family(name, kind=kind) for name, kind in (("A", "attention"), ("F", "ffn")))

architectures = st.builds(
    lambda layers, heads, **options: oa.transformer(layers, heads, **options),
    st.integers(1, 4),
    st.sampled_from([None, 1, 2, 3]),
    norm=st.sampled_from(["pre", "post", "sandwich", "branch"]),
    parallel=st.booleans(),
    norms=st.sampled_from(["explicit", "absorbed"]),
    biases=st.booleans(),
)
series = st.tuples(architectures, st.sampled_from(COUNTINGS)).map(lambda drawn: drawn[0].dyson(counting=drawn[1]))


@st.composite
def operators_of_series(draw):
    """A series, the vertices of one of its selections, and the operator of that selection."""
    S = draw(series)
    order = draw(st.integers(0, S.max_order))
    rank = draw(st.integers(0, S.count(order) - 1))
    return S, S.selection(order, rank), S.term(order, rank)


@st.composite
def states_of_series(draw):
    """A series, the vertices of one selection after a source, that source's stage and emitter, and the state."""
    S = draw(series)
    order = draw(st.integers(0, S.max_order))
    births = [(stage, emitter, left) for stage, emitter, left in S.births(order) if S._count(stage.number, left)]
    if not births:
        return draw(states_of_series())
    stage, emitter, left = draw(st.sampled_from(births))
    chosen = S._selection(stage.number, left, draw(st.integers(0, S._count(stage.number, left) - 1)))
    return S, chosen, stage, emitter, S.propagator(chosen, stage.number) @ S.born(stage, emitter)


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def stages_of(d):
    return [node.stage for node in d.nodes if node.vertex is not None]


def round_trips(term):
    d = oa.Diagram(term)
    again = oa.Diagram.from_json(d.to_json())
    assert d.to_term() is term
    assert oa.Diagram(d.to_term()) == d == again
    assert hash(again) == hash(d)
    assert graphs_agree(again.graph, d.graph)
    return d


def graphs_agree(left, right):
    return networkx.node_link_data(left, edges="edges") == networkx.node_link_data(right, edges="edges")


# Terms and back


@given(operators_of_series())
@settings(max_examples=150)
def test_an_operator_of_a_series_is_read_and_given_back(drawn):
    S, selection, term = drawn
    d = round_trips(term)
    assert d.vertices == selection
    assert stages_of(d) == [S._places[vertex] + 1 for vertex in selection]
    assert d.order(S.counting) == len(selection)
    assert sum(d.orders.values()) == d.order() == len(selection)
    assert d.topology == tuple(vertex.kind for vertex in selection)
    on_state = round_trips(term @ S.states[0])
    assert on_state.nodes[1:] == d.nodes[1:] and on_state.lines == d.lines and on_state != d


@given(states_of_series())
@settings(max_examples=150)
def test_a_source_of_a_series_is_read_and_given_back(drawn):
    S, selection, stage, emitter, state = drawn
    d = round_trips(state)
    first = d.nodes[0]
    assert (first.kind, first.atom, first.stage, first.emitter) == ("source", emitter, stage.number, emitter.kind)
    assert d.vertices == (*([] if emitter.kind == Kind.NORM else [emitter]), *selection)
    assert stages_of(d)[-len(selection) or len(d.nodes) :] == [S._places[vertex] + 1 for vertex in selection]
    assert d.topology == (f"source of {emitter.kind}", *(vertex.kind for vertex in selection))


@given(operators_of_series())
@settings(max_examples=100)
def test_the_graph_is_a_path_of_plain_values_whose_depths_never_decrease(drawn):
    _, _, term = drawn
    graph = oa.Diagram(term).graph
    assert isinstance(graph, networkx.MultiDiGraph)
    assert list(networkx.topological_sort(graph)) == list(range(len(graph)))
    assert sorted(graph.edges()) == [(place, place + 1) for place in range(len(graph) - 1)]
    assert (graph.nodes[0]["kind"], graph.nodes[len(graph) - 1]["kind"]) == ("in", "out")
    ends = [end for _, _, line in graph.edges(data=True) for end in line["interval"]]
    assert ends == [*sorted(ends[:-1]), None] and ends[0] == 0
    data = networkx.node_link_data(graph, edges="edges")
    assert json.loads(json.dumps(data)) == data


@given(operators_of_series())
@settings(max_examples=60)
def test_the_lines_and_nodes_hold_every_norm_and_every_resummed_vertex_once(drawn):
    S, selection, term = drawn
    graph = oa.Diagram(term).graph
    resummed = [name for _, _, line in graph.edges(data=True) for name in line["resummed"]]
    chosen = {S._places[vertex] for vertex in selection}
    passing = [(stage, counted) for place, (stage, counted) in enumerate(zip(S.stages, S.counted)) if place not in chosen]
    rest = [sorted((v for v in stage.maps if v not in counted), key=lambda v: v.sort_key) for stage, counted in passing]
    assert resummed == [vertex.name for maps in rest for vertex in maps]
    norms = [name for _, _, line in graph.edges(data=True) for name in line["norms"]]
    norms += [name for _, name in graph.nodes(data="name") if name and name[0] in "NMPQ"]
    branches = [b for place in chosen for b in S.stages[place].branches if set(b.vertices) & set(selection)]
    own = [norm for branch in branches for norm in (branch.before, branch.after) if norm is not None]
    assert Counter(norms) == Counter(n.name for n in (*own, *(s.after for s in S.stages if s.after is not None)))


def test_the_schema_of_a_sandwich_norm_with_heads_by_hand():
    S = oa.transformer(2, 2, norm="sandwich").dyson(counting="attention")
    graph = oa.Diagram(S.term(1, 3)).graph
    assert [(n["kind"], n["name"], n["layer"], n["head"], n["stage"]) for _, n in graph.nodes(data=True)] == [
        ("in", None, None, None, None),
        ("norm", "N2", 2, None, 3),
        ("attention", "A2_1", 2, 1, 3),
        ("norm", "P2", 2, None, 3),
        ("out", None, None, None, None),
    ]
    assert [(a, b, line["kind"], line["interval"], line["resummed"]) for a, b, line in graph.edges(data=True)] == [
        (0, 1, "resummed", [0, 2], ["F1"]),
        (1, 2, "bare", [2, 2], []),
        (2, 3, "bare", [3, 3], []),
        (3, 4, "resummed", [3, None], ["F2"]),
    ]


def test_the_norms_after_a_stage_dress_the_lines():
    S = oa.transformer(2, norm="post").dyson()
    lines = [line for *_, line in oa.Diagram(S.term(1, 1)).graph.edges(data=True)]
    assert [(line["kind"], line["norms"], line["interval"]) for line in lines] == [
        ("bare", [], [0, 1]),
        ("bare", [], [1, 1]),
        ("normed", ["M1", "N2", "M2"], [2, None]),
    ]


def test_diagrams_come_lazily_terms_first_and_then_sources():
    S = oa.transformer(2, 2).dyson()
    assert [d.to_term() for d in oa.diagrams(S, 2)] == [*S.terms(2), *S.sources(2)]
    assert next(iter(oa.diagrams(oa.transformer(96, 96).dyson(), 3))).order() == 3


def test_a_series_of_linear_vertices_has_diagrams_without_depths_and_no_sources():
    vertices = [Atom(f"V{number}", kind="linear") for number in (1, 2)]
    stages = tuple(Stage(n, n, (Branch(Kind.LINEAR, (v,)),)) for n, v in enumerate(vertices, 1))
    S = Series(stages, (x, (1 + vertices[0]) @ x, (1 + vertices[1]) @ (1 + vertices[0]) @ x))
    (d,) = oa.diagrams(S, 2)
    assert (round_trips(d.to_term()).vertices, stages_of(d)) == (tuple(vertices), [None, None])


def test_the_repr_names_the_term():
    assert repr(oa.Diagram(oa.dressed(A[1], x))) == f"Diagram({oa.dressed(A[1], x)!r})"


# What is no term


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (lambda: 3, "3 is no operator; build one from atoms, or read a text with parse"),
        (lambda: A[1], "A1 is no factor of a term: these are dressed vertices and norms, linear atoms and resummed stages "
         "1 + ...; dress nonlinear maps on states, and take one term of a sum"),
        (lambda: A[1] @ x, "A1 is no factor of a term"),
        (lambda: oa.dressed(F[1], x) @ A[1], "A1 is no factor of a term"),
        (lambda: 2 * oa.dressed(A[1], x), "a sum is no factor of a term"),
        (lambda: 1 - oa.dressed(A[1], x), "a sum is no factor of a term"),
        (lambda: oa.Zero(), "a zero is no factor of a term"),
        (lambda: oa.transformer(2).dyson()[1], "a term acts on a named state or on one source, not on a sum; name the state by "
         "state('x'), and take one term of a sum"),
        (lambda: oa.dressed(A[1], x) @ (2 * x), "a term acts on a named state or on one source, not on a sum"),
        (lambda: oa.source(A[1], x) + x, "a term acts on a named state or on one source, not on a sum"),
        (lambda: oa.dressed(A[1], x) @ oa.dressed(F[1], (1 + A[1]) @ x), "A1 dressed reads the state after 0 stages, but "
         "what acts before it ends at stage 2; in a term depths never decrease"),
        (lambda: oa.transpose(oa.dressed(A[1], x)) @ oa.dressed(F[1], x), "a transposeof is no factor of a term"),
    ],
)  # fmt: skip
def test_what_is_no_term_is_refused(term, message):
    found = refused(oa.InputError, lambda: oa.Diagram(term()))
    assert found.startswith(message) and "\n" not in found


def test_other_wrong_arguments_are_refused():
    d = oa.Diagram(oa.dressed(A[1], x))
    for act in (oa.diagrams, oa.topologies):
        assert "is no series" in refused(oa.InputError, lambda act=act: act(d, 1))
    assert "an order is a natural number" in refused(oa.InputError, lambda: oa.diagrams(oa.transformer(1).dyson(), -1))
    assert "an order is a natural number" in refused(oa.InputError, lambda: oa.topologies(oa.transformer(1).dyson(), -1))
    assert "is no set of vertices" in refused(oa.InputError, lambda: d.is_irreducible(3))
    assert "is no set of vertices" in refused(oa.InputError, lambda: d.is_irreducible(["A1"]))
    assert "counting='heads' is unknown" in refused(oa.InputError, lambda: d.is_irreducible("heads"))
    with pytest.raises(TypeError):
        d @ d.to_term()


# JSON


def changed(text, change):
    data = json.loads(text)
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["graph"].update(format="other"), 'the text needs a graph with "format": "opalgebra diagram"'),
        (lambda data: data["graph"].update(version=2), "the version '2' is unknown; this library reads version 1"),
        (lambda data: data["nodes"][1].update(stage=7), "the nodes of the text are not those of its term"),
        (lambda data: data["edges"][0].update(kind="normed"), "the edges of the text are not those of its term"),
        (lambda data: data["graph"].update(transposed=True), "the graph of the text are not those of its term"),
        (lambda data: data.update(more=1), "the more of the text are not those of its term"),
        (lambda data: data["graph"].pop("term"), 'the text needs "format": "opalgebra expression"'),
        (lambda data: data.update(graph=[]), 'the text needs a graph with "format": "opalgebra diagram"'),
    ],
)
def test_a_changed_text_is_refused(change, message):
    text = oa.Diagram(oa.transformer(1).dyson().term(2, 0)).to_json()
    assert refused(oa.InputError, lambda: oa.Diagram.from_json(changed(text, change))).startswith(message)


def test_what_is_no_text_of_a_diagram_is_refused():
    assert refused(oa.InputError, lambda: oa.Diagram.from_json(b"{}")).startswith("bytes is no text")
    assert refused(oa.InputError, lambda: oa.Diagram.from_json("{")).startswith("the text is no JSON of a diagram")
    assert refused(oa.InputError, lambda: oa.Diagram.from_json("[" * 100_000)).startswith("the text is no JSON of a diagram")
    assert refused(oa.InputError, lambda: oa.Diagram.from_json("[]")).startswith("the text is no object of JSON")
    assert "no diagram that is read is so long" in refused(oa.LimitError, lambda: oa.Diagram.from_json(" " * 10_000_001))


def test_networkx_reads_the_text_as_a_graph():
    d = oa.Diagram(oa.transformer(2, norm="post").dyson(counting="ffn").term(1, 0))
    graph = networkx.node_link_graph(json.loads(d.to_json()), edges="edges")
    assert dict(graph.nodes(data=True)) == dict(d.graph.nodes(data=True))
    assert list(graph.edges(data=True)) == list(d.graph.edges(data=True))
    assert oa.from_json(json.dumps(graph.graph["term"])) is d.to_term()


# Composition, transposes, irreducibility


@given(operators_of_series(), st.data())
@settings(max_examples=60)
def test_composition_is_the_product_of_the_terms_and_transposes_turn_it_round(drawn, data):
    S, selection, term = drawn
    cut = data.draw(st.integers(0, len(selection)))
    place = S._places[selection[cut]] if cut < len(selection) else len(S.stages)
    early = Series(S.stages[:place], S.states[: place + 1], S.counting).propagator(selection[:cut])
    first, later = oa.Diagram(early), oa.Diagram(S.propagator(selection[cut:], place))
    whole = later @ first
    assert whole == oa.Diagram(term)
    assert whole.topology == first.topology + later.topology
    assert whole.transposed == first.transposed @ later.transposed
    assert whole.transposed.transposed == whole
    turned = round_trips(whole.transposed.to_term())
    assert turned.nodes == whole.nodes
    assert turned.is_transposed == (not isinstance(term, oa.Identity))
    expected = whole.graph.reverse() if turned.is_transposed else whole.graph
    assert sorted(turned.graph.edges()) == sorted(expected.edges())


def test_only_an_operator_has_a_transposed_diagram():
    message = refused(oa.InputError, lambda: oa.Diagram(oa.dressed(A[1], x) @ x).transposed)
    assert message == "the transpose of a diagram on a state was asked; only an operator has one, so leave out the state"


def test_a_product_whose_depths_decrease_is_no_diagram():
    first, later = (oa.Diagram(oa.transformer(1).dyson().term(1, rank)) for rank in (0, 1))
    assert (later @ first).topology == ("attention", "ffn")
    assert "depths never decrease" in refused(oa.InputError, lambda: first @ later)


@given(operators_of_series(), st.sets(st.integers(0, 8)))
@settings(max_examples=60)
def test_irreducible_is_without_vertices_of_the_set_strictly_inside(drawn, places):
    _, selection, term = drawn
    d = oa.Diagram(term)
    chosen = {vertex for place, vertex in enumerate(selection) if place in places}
    strictly_inside = {place for place in places if 0 < place < len(selection) - 1}
    assert d.is_irreducible(chosen) == (not strictly_inside) == d.is_irreducible(lambda vertex: vertex in chosen)
    assert d.is_irreducible("all") == (len(selection) <= 2)
    assert d.is_irreducible("ffn") == all(vertex.kind != Kind.FFN for vertex in selection[1:-1])


# Topologies


def brute(S, order, *, sources):
    """The topologies of all states of an order, each read as a diagram."""
    return Counter(oa.Diagram(state).topology for state in (S.sources(order) if sources else S.terms(order)))


@pytest.mark.parametrize("norm", ["pre", "post", "sandwich", "branch"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("options", [{}, {"norms": "absorbed"}, {"biases": True}], ids=["plain", "absorbed", "biases"])
def test_multiplicities_are_those_of_brute_force(norm, parallel, heads, options):
    for counting in COUNTINGS:
        S = oa.transformer(2, heads, norm=norm, parallel=parallel, **options).dyson(counting=counting)
        for order in range(S.max_order + 2):
            for sources in (False, True):
                found = oa.topologies(S, order, sources=sources)
                assert found == brute(S, order, sources=sources)
                assert sum(found.values()) == (S.source_count(order) if sources else S.count(order))


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_polynomials_in_the_number_of_layers_are_the_multiplicities(parallel, heads, norm):
    for order, layers in product(range(5), range(1, 7)):
        found = oa.topologies(oa.transformer(layers, heads, parallel=parallel, norm=norm).dyson(), order)
        at = oa.topology_polynomials(order, layers, heads=heads, parallel=parallel)
        assert {word: times for word, times in at.items() if times} == found


def test_the_polynomials_of_order_two_are_binomials():
    L, H = oa.symbol("L"), oa.symbol("H")
    a, f = "attention", "ffn"
    assert oa.topology_polynomials(2, L) == {
        (a, a): oa.binomial(L, 2),
        (a, f): oa.binomial(L + 1, 2),
        (f, a): oa.binomial(L, 2),
        (f, f): oa.binomial(L, 2),
    }
    assert oa.topology_polynomials(3, L, heads=H)[(a, f, a)] == H**2 * oa.binomial(L + 1, 3)
    assert oa.topology_polynomials(0, L) == {(): 1}


def test_the_topologies_of_96_layers_with_96_heads_are_counted_without_being_listed():
    S = oa.transformer(96, 96).dyson()
    start = time.perf_counter()
    found = oa.topologies(S, 3)
    assert time.perf_counter() - start < 5
    assert sum(found.values()) == S.count(3)
    assert found == oa.topology_polynomials(3, 96, heads=96)
    assert sum(oa.topologies(S, 192).values()) == S.count(192)


def test_too_many_words_are_refused():
    S = oa.transformer(96).dyson()
    assert "order 96 has more than 200,000 words of kinds" in refused(oa.LimitError, lambda: oa.topologies(S, 96))
    assert oa.topologies(oa.transformer(96).dyson(counting="ffn"), 48) == {("ffn",) * 48: oa.binomial(96, 48)}
    assert refused(oa.LimitError, lambda: oa.topology_polynomials(18, oa.symbol("L"))) == (
        "order 18 has 2**18 words, more than 200,000; ask for a lower order"
    )
    assert "an order is a natural number" in refused(oa.InputError, lambda: oa.topology_polynomials(-1, 2))
    for layers, heads in (("L", None), (2, "H")):
        assert "use a natural number, or a symbol for one" in refused(
            oa.InputError, lambda layers=layers, heads=heads: oa.topology_polynomials(1, layers, heads=heads)
        )


# Planted errors


def found_by(act):
    with pytest.raises(AssertionError):
        act()


def test_planted_error_in_the_depth_of_a_state_is_found(monkeypatch):
    right = diagram_module._depth
    monkeypatch.setattr(diagram_module, "_depth", lambda state: right(state) + 1)
    found_by(depth_check)


def depth_check():
    S = oa.transformer(2, norm="sandwich").dyson()
    assert stages_of(oa.Diagram(S.term(2, 3))) == [S._places[vertex] + 1 for vertex in S.selection(2, 3)]


def test_planted_error_of_a_line_that_forgets_what_it_passes_is_found(monkeypatch):
    monkeypatch.setattr(diagram_module, "_is_stage", lambda factor: False)
    with pytest.raises(oa.InputError):
        round_trips(oa.transformer(2).dyson(counting="ffn").term(1, 0))
    monkeypatch.undo()
    monkeypatch.setattr(diagram_module, "_reads", lambda norm, before: False)
    found_by(test_the_schema_of_a_sandwich_norm_with_heads_by_hand)


def test_planted_error_of_a_diagram_that_forgets_its_state_is_found(monkeypatch):
    right = diagram_module.from_json
    monkeypatch.setattr(diagram_module, "from_json", lambda text: diagram_module.factors(right(text))[0])
    with pytest.raises((AssertionError, oa.InputError)):
        round_trips(oa.dressed(A[1], x) @ x)


def test_planted_error_of_heads_counted_once_is_found(monkeypatch):
    monkeypatch.setattr(topology_module, "Counter", lambda given=(): Counter(given if isinstance(given, dict) else set(given)))
    found_by(lambda: test_multiplicities_are_those_of_brute_force("pre", False, 2, {}))


def test_planted_error_of_layers_that_are_never_equal_is_found(monkeypatch):
    monkeypatch.setattr(topology_module, "pairwise", lambda word: ())
    found_by(lambda: test_the_polynomials_in_the_number_of_layers_are_the_multiplicities(False, None, "pre"))


def test_the_package_and_reading_a_term_load_no_networkx():
    program = (
        "import sys, opalgebra as oa\n"
        "d = next(iter(oa.diagrams(oa.transformer(2).dyson(), 2))); d.topology\n"
        "print('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout == "False\n"
