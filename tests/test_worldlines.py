"""Diagrams on the lattice of tokens: every worldline and no other, causal where the model is, counted without being listed."""

from dataclasses import replace
from itertools import pairwise, product
from math import comb

import networkx
import pytest
from test_pictures import random_diagram, refused

import opalgebra as oa
from opalgebra import worldlines
from opalgebra.worldlines import Hop, TokenDiagram

x = oa.state("x")
TWO = oa.Diagram(oa.transformer(3, heads=2).dyson(counting="attention").term(2, 5) @ x)


def listed(resolved):
    """Every path through the graph from the first moment to the last, by networkx, as its positions."""
    graph = resolved.graph
    last = resolved.count_of_steps
    ends = [[node for node in graph if node[0] == moment] for moment in (0, last)]
    found = []
    for start, end in product(*ends):
        found += [tuple(position for _, position in path) for path in networkx.all_simple_paths(graph, start, end)]
    return found


@pytest.mark.parametrize("tokens", [1, 2, 5, 40])
@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_worldlines_of_causal_attention_are_the_weakly_rising_sequences(tokens, order):
    d = oa.Diagram(oa.transformer(4).dyson(counting="attention").term(order, 0))
    assert oa.token_diagram(d, tokens).count == comb(tokens + order, order + 1)
    assert oa.token_diagram(d, tokens, is_causal=False).count == tokens ** (order + 1)


@pytest.mark.parametrize("seed", range(25))
def test_the_graph_has_every_worldline_and_no_other(seed):
    d = random_diagram(seed)
    if d.is_transposed:
        d = d.transposed
    causal = seed % 2 == 0
    resolved = oa.token_diagram(d, 2, is_causal=causal)
    if resolved.count > 5_000:
        resolved = oa.token_diagram(d, 1, is_causal=causal)
    paths = listed(resolved)
    assert len(paths) == len(set(paths)) == resolved.count
    moving = {"attention", "linear", "nonlinear"}
    for path in paths:
        assert not causal or list(path) == sorted(path)
        for step, (before, after) in enumerate(pairwise(path)):
            part = d.lines[step // 2] if step % 2 else d.nodes[step // 2]
            if before != after:
                kinds = {atom.kind for atom in part.resummed} if step % 2 else {part.kind}
                assert kinds & moving


def test_the_schema_of_the_graph():
    resolved = oa.token_diagram(TWO, ["When", " Mary"])
    graph = resolved.graph
    assert networkx.is_directed_acyclic_graph(graph)
    kinds = [node.kind for node in TWO.nodes]
    assert kinds == ["in", "norm", "attention", "norm", "attention", "out"]
    assert graph.nodes[5, 1] == {"moment": 5, "position": 1, "token": " Mary", "place": 2}
    edge = graph.edges[(4, 0), (5, 1)]
    assert (edge["kind"], edge["name"], edge["layer"], edge["head"]) == ("attention", "A1_1", 1, 1)
    assert (edge["step"], edge["source"], edge["target"], edge["weight"]) == (4, 0, 1, None)
    assert graph.edges[(5, 1), (6, 1)]["resummed"] == ["F1"]
    assert not graph.has_edge((4, 1), (5, 0)) and not graph.has_edge((5, 0), (6, 1))


def test_one_worldline_has_positions():
    hops = oa.token_diagram(TWO, 3).hops
    way = {0: 0, 1: 0, 2: 0, 3: 0, 4: 2, 5: 2, 6: 2, 7: 2, 8: 2, 9: 2, 10: 2}
    at = 0
    single = []
    for step, target in way.items():
        single.append(Hop(step, at, target, 0.25))
        at = target
    assert {replace(hop, weight=None) for hop in single} <= set(hops)
    resolved = TokenDiagram(TWO, ("a", "b", "c"), tuple(single), readout="b")
    assert (resolved.count, resolved.positions, resolved.contribution) == (1, (0, 2, 2), 0.25)
    assert repr(resolved) == "TokenDiagram(A2_1 A1_1 on 3 tokens, 1 worldline, contribution +0.25)"
    assert refused(lambda: oa.token_diagram(TWO, 3).positions) == (
        "the positions of 10 worldlines were asked; only a single one has them"
    )


def test_refusals(monkeypatch):
    whole = oa.token_diagram(TWO, 3)
    later = "hop 2 -> 1 of step 4: a causal model reads no later token; take is_causal=False for another one"
    assert refused(lambda: replace(whole, hops=(*whole.hops, Hop(4, 2, 1)))) == later
    assert refused(lambda: replace(whole, hops=(Hop(2, 0, 1),))) == (
        "hop 0 -> 1 of step 2: this step acts at each token alone; source and target are one position"
    )
    assert refused(lambda: replace(whole, hops=(Hop(11, 0, 0),))) == (
        "hop 0 -> 0 of step 11: 11 steps and 3 tokens are counted from 0"
    )
    assert refused(lambda: replace(whole, hops=whole.hops[1:])) == ("the hops of step 1 do not begin where those before it end")
    assert refused(lambda: oa.token_diagram(TWO, 0)) == (
        "tokens=0: a diagram is resolved over a positive number of tokens, or over their texts"
    )
    assert refused(lambda: oa.token_diagram(TWO, "When Mary")) == (
        "tokens='When Mary': a diagram is resolved over a positive number of tokens, or over their texts"
    )
    assert refused(lambda: oa.token_diagram("A1", 2)) == "str is no diagram; make one of a term by Diagram(term)"
    turned = oa.Diagram(oa.transformer(1).dyson().term(1, 0)).transposed
    assert refused(lambda: oa.token_diagram(turned, 2)) == (
        "a transposed diagram was to be resolved into tokens; resolve its transpose, which reads upwards"
    )
    monkeypatch.setattr(worldlines, "LIMIT", 50)
    assert refused(lambda: oa.token_diagram(TWO, 3)) == ("11 steps on 3 tokens have more than 50 hops; take fewer tokens")


@pytest.mark.parametrize("error", ["a later token is read", "networks move"])
def test_planted_errors_are_seen(monkeypatch, error):
    if error == "networks move":
        monkeypatch.setattr(worldlines, "ON_SITE", ("norm",))
        with pytest.raises(AssertionError):
            test_worldlines_of_causal_attention_are_the_weakly_rising_sequences(5, 2)
    else:
        monkeypatch.setattr(worldlines, "range", lambda *ends: range(5), raising=False)
        with pytest.raises((AssertionError, oa.InputError)):
            test_worldlines_of_causal_attention_are_the_weakly_rising_sequences(5, 2)
