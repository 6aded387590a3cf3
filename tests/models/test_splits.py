"""Splits: each is exact, and each dressing is what its name says, against derivatives and formulas on the model's modules."""

import pytest
import torch
from models.families import ENCODERS, FAMILIES, inputs, tiny
from torch.nn.attention import SDPBackend, sdpa_kernel

import opalgebra as oa
from opalgebra.numeric.faithful import faithful

# As in test_families; a derivative of four stages sums three times as many products.
ROUNDING = 3e-12
GATED = ("llama", "llama with biases", "gemma2", "phi3", "mixtral")
SPLITS = (
    {"split": "tangent"},
    {"split": "source"},
    {"split": "jacobian"},
    {"split": {"attention": "source", "ffn": "gate"}},
    {"split": {"attention": "source", "ffn": "source"}},
)
CHOICES = [(family, choice) for family in FAMILIES for choice in SPLITS]
CHOICES += [(family, {"gated": gated}) for family in GATED for gated in ("up", "half")]


def named(choice):
    return f"{choice[0]} {choice[1]}"


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_every_split_is_exact_whatever_is_counted(choice):
    family, options = choice
    binding = oa.bind(tiny(family), inputs(family, tokens=5), heads=True, **options)
    for counting in ("all", lambda vertex: vertex.head == 1):
        report = oa.verify(binding.T.dyson(counting=counting), binding)
        assert report.holds is True and report.residual <= report.bound


@pytest.mark.parametrize("choice", CHOICES, ids=named)
def test_every_atom_is_its_dressing_and_its_source(choice):
    family, options = choice
    binding = oa.bind(tiny(family), inputs(family, tokens=5), heads=True, **options)
    T = binding.T
    for stage, here in zip(T.stages, T.x):
        for branch in stage.branches:
            read = here if branch.before is None else branch.before @ here
            atoms = [(vertex, read) for vertex in branch.maps]
            atoms += [] if branch.before is None else [(branch.before, here)]
            atoms += [] if branch.after is None else [(branch.after, branch.read(branch.maps) @ here)]
            atoms += [] if stage.after is None else [(stage.after, stage.sum @ here)]
            for atom, state in atoms:
                value, linear = binding.evaluate(atom @ state), binding.evaluate(oa.dressed(atom, state) @ state)
                source = binding.evaluate(oa.source(atom, state))
                assert (linear + source - value).norm() <= ROUNDING * (linear.norm() + source.norm()), atom.name


def layers_alone(network, ids):
    """The model's own layers as one function of the embedded input (batch, tokens, features), in the order of that input."""
    layers = {
        "GPT2LMHeadModel": lambda: network.transformer.h,
        "GPTNeoXForCausalLM": lambda: network.gpt_neox.layers,
        "BertForMaskedLM": lambda: network.bert.encoder.layer,
        "BertLMHeadModel": lambda: network.bert.encoder.layer,
        "TransformerEncoder": lambda: network.layers,
    }.get(type(network).__name__, lambda: network.model.layers)()
    called = []
    handles = [
        layer.register_forward_pre_hook(lambda module, given, named: called.append((module, given, named)), with_kwargs=True)
        for layer in layers
    ]
    encoder = isinstance(network, torch.nn.TransformerEncoder)
    turn = encoder and not layers[0].self_attn.batch_first
    with faithful(network):
        network(ids.transpose(0, 1) if turn else ids) if encoder else network(input_ids=ids, use_cache=False)
    for handle in handles:
        handle.remove()

    def run(state):
        state = state.transpose(0, 1) if turn else state
        with faithful(network), torch.enable_grad():
            for module, given, named in called:
                state = module(state, *given[1:], **named)
        return state.transpose(0, 1) if turn else state

    return run


def derivative(run, state, direction):
    """The derivative of a function of tensors, by dual numbers."""
    with torch.autograd.forward_ad.dual_level(), sdpa_kernel(SDPBackend.MATH):
        value = run(torch.autograd.forward_ad.make_dual(state, direction))
        return torch.autograd.forward_ad.unpack_dual(value).tangent.detach()


def difference(run, state, direction, step=1e-6):
    """The same by a symmetric difference, with an error of the square of the step, and of rounding over the step."""
    return (run(state + step * direction) - run(state - step * direction)).detach() / (2 * step)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_jacobian_is_the_derivative_of_the_model_s_own_layers(family):
    network, ids = tiny(family), inputs(family, tokens=5)
    binding = oa.bind(network, ids, split="jacobian")
    T, run = binding.T, layers_alone(network, ids)
    start, direction = binding.reference.states[0], binding.reference.states[1]
    assert (run(start).detach() - binding.reference.states[-1]).norm() <= ROUNDING * start.norm()
    moved = binding.evaluate(oa.dressed(T.operator, T.x[0]) @ T.x[1])
    exact = derivative(run, start, direction)
    assert (moved - exact).norm() <= ROUNDING * binding.orders().condition.max() * exact.norm()
    assert (moved - difference(run, start, direction)).norm() <= 1e-6 * exact.norm()
    frozen = oa.bind(network, ids)
    other = frozen.evaluate(oa.dressed(frozen.T.operator, frozen.T.x[0]) @ frozen.T.x[1])
    assert (other - exact).norm() > 1e-2 * exact.norm()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_jacobian_agrees_with_reverse_differentiation(family):
    network, ids = tiny(family), inputs(family, tokens=4)
    binding = oa.bind(network, ids, split="jacobian", heads=True)
    T, run = binding.T, layers_alone(network, ids)
    start, direction, seen = binding.reference.states[0], binding.reference.states[1], binding.reference.states[2]
    moved = binding.evaluate(oa.dressed(T.operator, T.x[0]) @ T.x[1])
    at = start.clone().requires_grad_()
    (pulled,) = torch.autograd.grad(run(at), at, seen)
    one, other = (moved * seen).sum(), (direction * pulled).sum()
    assert (one - other).abs() <= ROUNDING * moved.norm() * seen.norm() * 10


TANGENTS = [family for family in FAMILIES if family not in ENCODERS and not family.startswith(("bert", "mixtral"))]


@pytest.mark.parametrize("family", TANGENTS)
def test_the_tangent_is_the_derivative_of_the_network_alone(family):
    network, ids = tiny(family), inputs(family, tokens=5)
    binding = oa.bind(network, ids, split="tangent")
    T = binding.T
    stage = next(stage for stage in T.stages if any(branch.vertices[0] is T.ffn[1] for branch in stage.branches))
    branch = next(branch for branch in stage.branches if branch.vertices[0] is T.ffn[1])
    here = T.x[stage.number - 1]
    read = here if branch.before is None else branch.before @ here
    layer = network.transformer.h if family.startswith("gpt2") else getattr(network, "gpt_neox", None) or network.model
    mlp = (layer if family.startswith("gpt2") else layer.layers)[0].mlp
    with faithful(network):
        exact = torch.func.jvp(mlp, (binding.evaluate(read),), (binding.evaluate(T.x[1]),))[1]
    moved = binding.evaluate(oa.dressed(T.ffn[1], read) @ T.x[1])
    assert (moved - exact).norm() <= ROUNDING * exact.norm()


@pytest.mark.parametrize("gated", ["gate", "up", "half"])
@pytest.mark.parametrize("family", ["llama", "llama with biases", "gemma2"])
def test_the_frozen_factor_of_a_gated_unit_is_the_one_that_is_named(family, gated):
    network, ids = tiny(family), inputs(family, tokens=5)
    binding = oa.bind(network, ids, gated=gated)
    assert binding.split == {"attention": "frozen", "ffn": "gate", **({} if gated == "gate" else {"gated": gated})}
    T, mlp = binding.T, network.model.layers[0].mlp
    read = T.stages[1].branches[0].before @ T.x[1]
    state, other = binding.evaluate(read), binding.evaluate(T.x[2])
    q, u = mlp.gate_proj(state), mlp.up_proj(state)
    through_up = mlp.act_fn(q) * (other @ mlp.up_proj.weight.T)
    through_gate = mlp.act_fn(q) / q * u * (other @ mlp.gate_proj.weight.T)
    share = {"gate": 0.0, "half": 0.5, "up": 1.0}[gated]
    expected = (share * through_gate + (1 - share) * through_up) @ mlp.down_proj.weight.T
    moved = binding.evaluate(oa.dressed(T.ffn[1], read) @ T.x[2])
    assert (moved - expected).norm() <= ROUNDING * expected.norm()


def test_a_hidden_unit_that_is_zero_has_the_slope_at_zero_for_its_gate():
    for family, slope in (("gpt2", 0.5), ("gpt2 scaled by layer", 0.0), ("neox sequential", 0.5)):
        network, ids = tiny(family, layers=1), inputs(family)
        layer = network.transformer.h[0] if family.startswith("gpt2") else network.gpt_neox.layers[0]
        module = layer.mlp.c_fc if family.startswith("gpt2") else layer.mlp.dense_h_to_4h
        (module.weight[:, 3] if family.startswith("gpt2") else module.weight[3]).zero_()
        module.bias[3] = 0
        binding = oa.bind(network, ids)
        (branch,) = binding.frozen[1].branches
        ((gate, _),) = branch.vertex.paths
        assert (gate[..., 3] == slope).all() and gate.isfinite().all()
        assert oa.verify(binding.T.dyson(), binding).holds is True


def test_an_activation_that_is_not_zero_at_zero_has_no_gate_and_a_tangent():
    network, ids = tiny("gpt2", activation_function="sigmoid"), inputs("gpt2")
    with pytest.raises(oa.InputError) as caught:
        oa.bind(network, ids)
    assert str(caught.value) == (
        "the activation Sigmoid is 0.5 at zero, so that act(h)/h is no gate; use split='tangent' or split='source'"
    )
    for split in ("tangent", "source", "jacobian"):
        binding = oa.bind(network, ids, split=split)
        assert oa.verify(binding.T.dyson(), binding).holds is True


def test_a_form_of_the_frozen_split_is_refused_by_a_jacobian():
    network, ids = tiny("llama"), inputs("llama")
    binding = oa.bind(network, ids, split="jacobian", heads=True)
    head = oa.dressed(binding.T.head[1, 0], binding.T.stages[0].norm @ binding.T.x[0])
    theorem = oa.simplify(head, facts=oa.frozen_forms(head, tokens=7, heads=4, centered=False))
    with pytest.raises(oa.InputError, match="for split: frozen, and this binding has attention jacobian"):
        oa.verify(theorem, binding)
