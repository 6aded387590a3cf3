"""The tensor forms of frozen dressings on a model's own numbers: patterns by the model, weights as it stores them."""

import pytest
import torch
from numeric.models import tiny_llama

import opalgebra as oa

IDS = torch.tensor([[3, 5, 7, 1, 9, 2]])


@pytest.fixture(scope="module")
def model():
    return tiny_llama(layers=2)


@pytest.fixture(scope="module")
def M(model):
    return oa.bind(model, IDS, heads=True)


@pytest.fixture(scope="module")
def forms(M):
    return oa.frozen_forms(oa.dressed(M.T.operator, M.T.x[0]), tokens=IDS.shape[1], centered=False)


def dressings(forms):
    return {fact.dressing.operator.name: fact.dressing for fact in forms if isinstance(fact, oa.Form)}


def test_every_form_holds_on_the_model(M, forms):
    checked = [oa.verify(fact.equation(), M) for fact in forms if isinstance(fact, oa.Form)]
    assert len(checked) == 2 * (4 + 1 + 2)
    assert all(report.holds is True for report in checked)


def test_what_follows_from_the_forms_holds_on_the_model(M, forms):
    D = dressings(forms)
    theorem = oa.simplify(D["A2_1"] @ D["N2"] @ D["F1"] @ D["M1"] @ D["A1_0"] @ D["N1"], facts=forms)
    assert theorem.hypotheses and oa.verify(theorem, M).holds is True
    a, w = (oa.family(name, kind="linear", domain=space, codomain=space) for name, space in
            (("a", oa.POSITIONS), ("w", oa.FEATURES)))  # fmt: skip
    product = D["A2_1"] @ D["A1_0"]
    assert oa.verify(oa.equation(product, oa.tensor(a[2, 1] @ a[1, 0], w[2, 1] @ w[1, 0])), M).holds is True
    for wrong in (
        oa.tensor(a[1, 0] @ a[2, 1], w[2, 1] @ w[1, 0]),
        oa.tensor(a[2, 1] @ a[1, 0], w[1, 0] @ w[2, 1]),
        oa.tensor(a[2, 1] @ a[1, 1], w[2, 1] @ w[1, 0]),
    ):
        assert oa.verify(oa.equation(product, wrong), M).holds is False


def test_a_head_is_the_models_own_pattern_times_its_own_weights(M, model, forms):
    """Patterns from the model's attention outputs, weights from its parameters; nothing of the library but the dressing.

    The model computes its patterns in float32, so that they are compared at that precision.
    """
    with torch.no_grad():
        patterns = model(IDS, output_attentions=True).attentions
    D = dressings(forms)
    for layer, head in ((1, 0), (1, 3), (2, 2)):
        attention = model.model.layers[layer - 1].self_attn
        size = attention.head_dim
        value = attention.v_proj.weight[head // 2 * size : (head // 2 + 1) * size]
        output = attention.o_proj.weight[:, head * size : (head + 1) * size]
        state = M.evaluate(M.T.x[1])
        expected = patterns[layer - 1][0, head].double() @ state @ (output @ value).double().T
        found = M.evaluate(D[f"A{layer}_{head}"] @ M.T.x[1])
        torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


def test_a_binding_of_another_split_is_refused(model, forms):
    other = oa.bind(model, IDS, heads=True, split={"attention": "frozen", "ffn": "source"})
    D = dressings(forms)
    theorem = oa.simplify(D["F1"] @ D["M1"], facts=forms)
    with pytest.raises(oa.InputError, match="for split: gate, and this binding has ffn source; bind the model with that split"):
        oa.verify(theorem, other)


def test_a_factor_that_the_binding_has_no_value_of_is_refused(M, forms):
    C = oa.Atom("C", kind="linear", domain=oa.FEATURES, codomain=oa.FEATURES)
    for factor, name in ((oa.tensor(oa.Identity(oa.POSITIONS), C), "C"), (oa.parse("tensor(a9_0, one(features)) where "
                         "a9_0: linear positions -> positions"), "a9_0")):  # fmt: skip
        with pytest.raises(oa.InputError, match=f"{name} has no value under this binding"):
            M.evaluate(factor @ M.T.x[1])
