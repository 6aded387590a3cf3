"""The symbolic Transformer: its stages, vertices, states and operator, and the architectures it refuses."""

import pickle
from dataclasses import FrozenInstanceError

import pytest

import opalgebra as oa
from opalgebra.expr import Atom, factors
from opalgebra.space import Kind


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def vertex(name, kind):
    return Atom(name, kind=kind)


def test_two_layers_are_four_residual_factors_later_ones_to_the_left():
    T = oa.transformer(layers=2)
    assert str(T.operator) == "(1 + F2 @ M2) @ (1 + A2 @ N2) @ (1 + F1 @ M1) @ (1 + A1 @ N1)"
    assert factors(T.operator) == [stage.factor for stage in reversed(T.stages)]


def test_absorbed_norms_leave_the_vertices_alone():
    assert str(oa.transformer(2, norms="absorbed").operator) == "(1 + F2) @ (1 + A2) @ (1 + F1) @ (1 + A1)"


def test_heads_are_vertices_counted_from_zero():
    T = oa.transformer(1, heads=3)
    assert str(T.operator) == "(1 + F1 @ M1) @ (1 + (A1_0 + A1_1 + A1_2) @ N1)"
    assert sorted(T.head) == [(1, 0), (1, 1), (1, 2)]


def test_the_bias_that_belongs_to_no_head_is_a_map_of_its_own_and_no_vertex():
    T = oa.transformer(1, heads=2, biases=True)
    assert str(T.operator) == "(1 + F1 @ M1) @ (1 + (A1_0 + A1_1 + B1) @ N1)"
    assert str(T.attention[1]) == "A1_0 + A1_1 + B1" and [v.name for v in T.stages[0].vertices] == ["A1_0", "A1_1"]
    assert oa.transformer(1, biases=True).operator == oa.transformer(1).operator


def test_vertices_by_layer_and_head():
    T = oa.transformer(2)
    assert T.attention == {1: vertex("A1", "attention"), 2: vertex("A2", "attention")}
    assert T.ffn == {1: vertex("F1", "ffn"), 2: vertex("F2", "ffn")}
    assert T.head == {}
    with_heads = oa.transformer(2, heads=2)
    assert with_heads.head[2, 1] == vertex("A2_1", "attention")
    assert with_heads.attention[2] == vertex("A2_0", "attention") + vertex("A2_1", "attention")


@pytest.mark.parametrize(("name", "kind", "layer", "head"), [("F2", Kind.FFN, 2, None), ("A2_1", Kind.ATTENTION, 2, 1)])
def test_a_vertex_knows_its_kind_layer_and_head(name, kind, layer, head):
    T = oa.transformer(3, heads=2)
    found = T.ffn[layer] if head is None else T.head[layer, head]
    assert (found.name, found.kind, found.layer, found.head) == (name, kind, layer, head)


def test_no_vertex_is_taken_for_linear():
    T = oa.transformer(1, heads=2)
    assert [atom.name for atom in T.operator.atoms] == ["A1_0", "A1_1", "F1", "M1", "N1"]
    assert not any(atom.is_linear for atom in T.operator.atoms)


def test_states_are_counted_from_the_embedding_and_share_what_came_before():
    T = oa.transformer(2)
    assert len(T.x) == 5
    assert T.x[0] == oa.state("x")
    for number in range(1, 5):
        assert T.x[number] == T.stages[number - 1].factor @ T.x[number - 1]
        assert T.x[number].right is T.x[number - 1]
    assert T.x[4] == T.operator @ T.x[0]


def test_stages_have_numbers_kinds_layers_norms_and_vertices():
    stages = oa.transformer(2, heads=2).stages
    assert [(s.number, s.kind, s.layer, s.norm.name) for s in stages] == [
        (1, "attention", 1, "N1"),
        (2, "ffn", 1, "M1"),
        (3, "attention", 2, "N2"),
        (4, "ffn", 2, "M2"),
    ]
    assert [[v.name for v in s.vertices] for s in stages] == [["A1_0", "A1_1"], ["F1"], ["A2_0", "A2_1"], ["F2"]]
    assert all(s.norm is None for s in oa.transformer(2, norms="absorbed").stages)


def test_a_branch_is_the_sum_of_its_vertices_behind_the_norm():
    stage = oa.transformer(1, heads=2).stages[0]
    first, second = stage.vertices
    assert stage.branch((first,)) == first @ stage.norm
    assert stage.branch((first, second)) == (first + second) @ stage.norm
    assert stage.branch(()) == oa.Zero()
    assert stage.factor == 1 + (first + second) @ stage.norm


@pytest.mark.parametrize(
    ("options", "operator", "said"),
    [
        ({}, "(1 + F1 @ M1) @ (1 + A1 @ N1)", "pre-norm Transformer: 1 layer, 2 stages"),
        ({"norm": "post"}, "M1 @ (1 + F1) @ N1 @ (1 + A1)", "post-norm Transformer: 1 layer, 2 stages"),
        ({"norm": "branch"}, "(1 + M1 @ F1) @ (1 + N1 @ A1)", "branch-norm Transformer: 1 layer, 2 stages"),
        (
            {"norm": "sandwich"},
            "(1 + Q1 @ F1 @ M1) @ (1 + P1 @ A1 @ N1)",
            "sandwich-norm Transformer: 1 layer, 2 stages",
        ),
        ({"parallel": True}, "1 + A1 @ N1 + F1 @ M1", "parallel pre-norm Transformer: 1 layer, 1 stage"),
        (
            {"parallel": True, "norm": "post", "causal": False},
            "N1 @ (1 + A1 + F1)",
            "parallel post-norm bidirectional Transformer: 1 layer, 1 stage",
        ),
        ({"norm": "post", "norms": "absorbed"}, "(1 + F1) @ (1 + A1)", "post-norm Transformer: 1 layer, 2 stages"),
    ],
)
def test_every_architecture_is_the_product_that_it_says(options, operator, said):
    T = oa.transformer(1, **options)
    assert str(T.operator) == operator
    assert str(T) == said
    assert T.operator @ T.x[0] == T.x[-1]
    assert (T.attention[1].name, T.ffn[1].name) == ("A1", "F1")


def test_heads_are_vertices_in_every_architecture():
    T = oa.transformer(2, 2, norm="sandwich", parallel=True)
    assert str(T.operator).startswith("(1 + P2 @ (A2_0 + A2_1) @ N2 + Q2 @ F2 @ M2) @ ")
    assert [T.head[2, h].name for h in range(2)] == ["A2_0", "A2_1"]


def test_architectures_are_values():
    assert oa.transformer(2) == oa.transformer(layers=2, norm="pre", parallel=False)
    assert oa.transformer(2) != oa.transformer(2, heads=1)
    assert oa.transformer(2).operator is oa.transformer(2).operator
    with pytest.raises(FrozenInstanceError):
        oa.transformer(2).layers = 3


def test_printing():
    assert str(oa.transformer(2)) == repr(oa.transformer(2)) == "pre-norm Transformer: 2 layers, 4 stages"
    assert str(oa.transformer(30, heads=9)) == "pre-norm Transformer: 30 layers, 9 heads each, 60 stages"


def test_a_hundred_layers_are_built_at_once():
    T = oa.transformer(100, heads=16)
    assert len(factors(T.operator)) == 200
    assert len(T.x) == 201
    assert len(T.head) == 1600


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: oa.transformer(0), "layers=0: a Transformer has a positive number of layers"),
        (lambda: oa.transformer(-3), "layers=-3: a Transformer has a positive number of layers"),
        (lambda: oa.transformer(2.0), "layers=2.0: a Transformer has a positive number of layers"),
        (lambda: oa.transformer("2"), "layers='2': a Transformer has a positive number of layers"),
        (lambda: oa.transformer(2, heads=0), "heads=0: a Transformer has a positive number of heads"),
        (
            lambda: oa.transformer(2, norm="batch"),
            "norm='batch' is unknown; use 'pre', 'post', 'sandwich', 'branch'",
        ),
        (lambda: oa.transformer(2, norms="none"), "norms='none' is unknown; use 'explicit', 'absorbed'"),
    ],
)
def test_what_is_not_known_is_refused_by_name(act, message):
    assert refused(oa.InputError, act) == message


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: oa.transformer(2).head[1, 0],
            "head[1, 0] was asked, but heads are no vertices here; ask by heads= in transformer, or heads=True in bind",
        ),
        (lambda: oa.transformer(2, 3).head[1, 3], "head[1, 3] was asked, but its index is (layer, head) from (1, 0) to (2, 2)"),
        (lambda: oa.transformer(2, 3).head[1], "head[1] was asked, but its index is (layer, head) from (1, 0) to (2, 2)"),
        (lambda: oa.transformer(2).attention[99], "attention[99] was asked, but its index is a layer from 1 to 2"),
        (lambda: oa.transformer(2).ffn[0], "ffn[0] was asked, but its index is a layer from 1 to 2"),
        (lambda: oa.transformer(2).x[1000], "x[1000] was asked, but its index is a number of stages from 0 to 4"),
        (lambda: oa.transformer(2).x["a"], "x['a'] was asked, but its index is a number of stages from 0 to 4"),
    ],
)
def test_an_index_that_is_not_there_is_refused_with_those_that_are(act, message):
    assert refused(oa.InputError, act) == message


def test_vertices_and_states_stay_a_mapping_and_a_tuple():
    T = oa.transformer(2, heads=2)
    assert T.head.get((3, 0)) is None and (3, 0) not in T.head and next(iter(T.head)) == (1, 0)
    assert T.x[1:3] == tuple(T.x)[1:3] and T.x[-1] is list(T.x)[4]
    copied = pickle.loads(pickle.dumps(T))
    assert (copied.head, copied.x) == (T.head, T.x)
    assert refused(oa.InputError, lambda: copied.head[9, 9]) == refused(oa.InputError, lambda: T.head[9, 9])
