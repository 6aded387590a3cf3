"""A network as one resolvent: its blocks are the propagators, on random nonlinear layers and on known numbers."""

import pickle
from itertools import combinations_with_replacement, pairwise
from random import Random

import pytest
from meaning import Interpretation, counterexample, random_matrix, times
from test_direct_sum import in_blocks

import opalgebra as oa
from opalgebra.expr import Identity, Zero

SPACES = (oa.Space("first"), oa.Space("second"), oa.Space("third"), oa.Space("fourth"))
SIZES = {"first": 2, "second": 3, "third": 2, "fourth": 2}
V, l, m, n, L = oa.family("V", kind="linear"), *map(oa.symbol, "lmnL")


def layers(kind):
    pairs = pairwise(SPACES)
    return [oa.Atom(f"T{l + 1}", kind=kind, domain=domain, codomain=codomain) for l, (domain, codomain) in enumerate(pairs)]


def models(net, sizes=SIZES):
    return [in_blocks(net.states, sizes, seed) for seed in (1, 2)]


def holds(theorem, interpretations):
    return counterexample(theorem.lhs, theorem.rhs, interpretations=interpretations) is None


def test_the_resolvent_of_nonlinear_layers_holds_every_state_of_a_forward_pass():
    net = oa.network(layers("nonlinear"))
    T1, T2, T3 = net.layers
    theorem = oa.network_states(net)
    inj = net.states.injection
    assert theorem.rhs == inj(0) + inj(1) @ T1 + inj(2) @ T2 @ T1 + inj(3) @ T3 @ T2 @ T1
    assert holds(theorem, models(net))
    assert holds(oa.resolvent_identity(net.operator), models(net))
    x = oa.state("x", codomain=SPACES[0])
    last = oa.simplify(net.states.projection(3) @ theorem.rhs @ x, facts=net.states.facts)
    assert last.rhs == T3 @ T2 @ T1 @ x


def test_the_resolvent_of_linear_layers_is_the_sum_over_all_pairs_of_depths():
    net = oa.network(layers("linear"))
    theorem = oa.network_resolvent(net)
    assert holds(theorem, models(net))
    for earlier, later in combinations_with_replacement(range(4), 2):
        block = oa.simplify(net.states.block(theorem.rhs, later, earlier), facts=net.states.facts)
        assert block.rhs == oa.propagator(net.layers, later, earlier)
        above = oa.simplify(net.states.block(theorem.rhs, earlier, later), facts=net.states.facts)
        assert earlier == later or above.rhs == Zero(SPACES[later], SPACES[earlier])
    missing = theorem.rhs - net.states.operator({(3, 1): oa.propagator(net.layers, 3, 1)})
    assert counterexample(theorem.lhs, missing, interpretations=models(net)) is not None


def test_the_network_operator_is_nilpotent_for_linear_layers_alone():
    net = oa.network(layers("linear"))
    theorem = oa.network_nilpotent(net)
    assert (theorem.lhs, theorem.rhs) == (net.operator**4, Zero(net.states.space, net.states.space))
    assert set(theorem.hypotheses) <= set(net.states.facts)
    assert holds(theorem, models(net))
    assert counterexample(net.operator**3, theorem.rhs, interpretations=models(net)) is not None
    series = oa.network_neumann(net)
    assert series.rhs == 1 + net.operator + net.operator**2 + net.operator**3
    assert holds(series, models(net))
    nonlinear = oa.network(layers("nonlinear"))
    power = nonlinear.operator**4
    assert counterexample(power, theorem.rhs, interpretations=models(nonlinear)) is not None
    for claim in (oa.network_nilpotent, oa.network_neumann, oa.network_resolvent):
        with pytest.raises(oa.NotLinearError, match="T1 is not known to be linear, and this theorem, unlike"):
            claim(nonlinear)


def test_dressed_layers_are_linear_and_layers_are_never_expanded():
    F, x = oa.family("F", kind="nonlinear"), oa.state("x")
    states = [x]
    for depth in range(1, 9):
        states.append((1 + F[depth]) @ states[-1])
    net = oa.network([oa.dressed(1 + F[depth], states[depth - 1]) for depth in range(1, 9)])
    theorem = oa.network_resolvent(net)
    assert oa.propagator(net.layers, 2, 0) == oa.dressed((1 + F[2]) @ (1 + F[1]), x)
    assert pickle.loads(pickle.dumps(theorem)).rhs is theorem.rhs
    assert len(oa.network_states(oa.network([1 + F[depth] for depth in range(1, 9)])).rhs.terms) == 9


def test_known_blocks_of_three_layers():
    """(1 - N)^-1 of three layers of two features: the corner is T3 T2 T1, det(1 - z N) = 1, N^4 = 0 and N^3 is not."""
    matrices = [((1, 1), (0, 1)), ((1, 0), (1, 1)), ((2, 0), (0, 1))]
    spaces = [oa.Space(f"s{depth}") for depth in range(4)]
    given = [oa.Atom(f"T{depth + 1}", kind="linear", domain=spaces[depth], codomain=spaces[depth + 1]) for depth in range(3)]
    net = oa.network(given)
    model = in_blocks(net.states, {}, matrices=dict(zip(given, matrices)))
    whole = model.matrix(oa.network_resolvent(net).rhs, {})
    assert whole == model.matrix(net.resolvent, {})

    def block(row, column):
        return tuple(tuple(line[2 * column : 2 * column + 2]) for line in whole[2 * row : 2 * row + 2])

    assert block(3, 0) == ((2, 2), (1, 2)) == model.matrix(oa.propagator(given, 3, 0), {})
    assert block(2, 0) == ((1, 1), (1, 2))
    assert block(3, 1) == ((2, 0), (1, 1))
    matrix = model.matrix(1 - net.operator, {})
    assert all(matrix[i][j] == int(i == j) for i in range(8) for j in range(i, 8))
    powers = [model.matrix(net.operator**power, {}) for power in (3, 4)]
    assert [any(map(any, power)) for power in powers] == [True, False]


def test_propagators_compose_and_split_at_any_depth():
    given = layers("linear")
    for earlier, middle, later in combinations_with_replacement(range(4), 3):
        whole = oa.propagator(given, later, earlier)
        assert oa.propagator(given, later, middle) @ oa.propagator(given, middle, earlier) == whole
    assert oa.propagator(given, 2, 2) == Identity(SPACES[2])
    P = oa.ordered_product(1 + V[l], l, 1, L + m + n)
    whole = oa.propagator(P, L + m + n, L)
    law = oa.split(whole, L + m)
    assert law.rhs == oa.propagator(P, L + m + n, L + m) @ oa.propagator(P, L + m, L)
    assert oa.propagator(P, L, L) == Identity()
    environment = {"L": 1, "m": 2, "n": 1}
    assert counterexample(law.lhs, law.rhs, interpretations=[Interpretation(3)], environment=environment) is None


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: oa.propagator(layers("linear"), 1, 2), "goes to later depths, and -1 may be negative"),
        (lambda: oa.propagator(oa.ordered_product(V[l], l, 1, L), m, n), "m - n may be negative"),
        (lambda: oa.propagator(layers("linear"), 4, 0), "depths of these layers are numbers from 0 to 3"),
        (lambda: oa.propagator(layers("linear"), 1, -1), "depths of these layers are numbers from 0 to 3"),
        (lambda: oa.propagator([], 0, 0), "a propagator of no layers has no space"),
        (lambda: oa.propagator(layers("linear"), 2.0, 0), "depths of these layers are numbers from 0 to 3"),
        (lambda: oa.propagator(oa.ordered_product(V[l], l, 1, L), L + 5, 0), "may leave the layers 1 to L"),
        (lambda: oa.propagator(V[1], 1, 0), "V1 is no product over an index"),
        (lambda: oa.network([]), "a network has at least one layer"),
    ],
)
def test_what_is_no_propagator_is_refused(ask, text):
    with pytest.raises(oa.InputError, match=text):
        ask()


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(oa.SpaceError):
        oa.network(layers("linear")[::-1])


def test_planted_propagator_in_the_wrong_order_gives_no_theorem(monkeypatch):
    module = oa.network.__globals__
    right = module["ordered_product"]
    monkeypatch.setitem(module, "ordered_product", lambda factors, **options: right(list(factors)[::-1], **options))
    x = [oa.Atom(f"T{depth}", kind="nonlinear") for depth in (1, 2, 3)]
    with pytest.raises(oa.InputError, match="was to be proved"):
        oa.network_states(oa.network(x))


def test_random_layers_multiply_to_the_propagator():
    given = layers("linear")
    random = Random(7)
    sizes = [(SIZES[str(layer.codomain)], SIZES[str(layer.domain)]) for layer in given]
    matrices = {layer: random_matrix(random, *size) for layer, size in zip(given, sizes)}
    model = in_blocks(oa.network(given).states, SIZES, matrices=matrices)
    first, second, third = matrices.values()
    assert model.matrix(oa.propagator(given, 3, 0), {}) == times(third, times(second, first))
