"""Homogeneous coordinates: the product of the stages with their sources is one linear operator, of every architecture."""

import pytest
from meaning import PRIME, counterexample, scale
from test_direct_sum import in_blocks

import opalgebra as oa
from opalgebra.homogeneous import BOTH, ONE_STATE, SOURCES

ARCHITECTURES = {
    "pre": oa.transformer(2),
    "heads with biases": oa.transformer(2, 2, biases=True),
    "post": oa.transformer(2, norm="post"),
    "sandwich": oa.transformer(1, 2, norm="sandwich"),
    "branch": oa.transformer(1, norm="branch"),
    "parallel post": oa.transformer(2, parallel=True, norm="post"),
    "absorbed": oa.transformer(2, norms="absorbed"),
}


def model_of(theorem, seed):
    """A random model in which e is the number 1 and every s takes it to the source that the hypothesis says."""
    model = in_blocks(BOTH, {"positions": 2, "features": 1}, seed)
    maps = dict(model.maps)
    maps[ONE_STATE] = lambda _: (1,)
    model.maps = maps
    for fact in theorem.hypotheses:
        if isinstance(fact, oa.Equal) and fact.lhs.atoms[-1].base == "s":
            letter = next(atom for atom in fact.lhs.atoms if atom.base == "s")
            maps[letter] = lambda v, source=fact.rhs: scale(v[0], model.value(source))
    return model


@pytest.mark.parametrize("counting", ["all", "attention"])
@pytest.mark.parametrize("T", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_the_product_in_homogeneous_coordinates_is_the_nonlinear_forward(T, counting):
    theorem = oa.homogeneous(T.dyson(counting=counting))
    assert theorem.rhs is BOTH.injection(0) @ T.x[-1] + BOTH.injection(1) @ ONE_STATE
    product, start = theorem.lhs, BOTH.injection(0) @ T.x[0] + BOTH.injection(1) @ ONE_STATE
    for _ in T.stages:
        assert product.left.is_linear
        product = product.right
    assert product is start
    models = [model_of(theorem, seed) for seed in (1, 2)]
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=models) is None


def test_a_source_that_is_another_is_found():
    theorem = oa.homogeneous(ARCHITECTURES["pre"].dyson())
    model = model_of(theorem, 1)
    letter = SOURCES[2]
    right = model.maps[letter]
    model.maps[letter] = lambda v: ((right(v)[0] + v[0]) % PRIME, right(v)[1])
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=[model]) is not None


def test_its_certificate_is_checked():
    theorem = oa.homogeneous(ARCHITECTURES["heads with biases"].dyson())
    again = oa.check(oa.certificate(theorem))
    assert (again.lhs, again.rhs, again.hypotheses) == (theorem.lhs, theorem.rhs, theorem.hypotheses)


def test_what_has_no_homogeneous_coordinates_is_refused():
    with pytest.raises(oa.InputError, match="is no series; pass one such as"):
        oa.homogeneous(oa.transformer(1))
