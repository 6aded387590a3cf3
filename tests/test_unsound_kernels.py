"""Each check of the kernel is needed: without it a false equation is proved, and the test of meaning finds it."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from meaning import Interpretation, counterexample

import opalgebra as oa
from opalgebra import kernel
from opalgebra.dressing import dressed
from opalgebra.errors import OpalgebraError
from opalgebra.expr import Compose, Dressed, Source, Sum, at
from opalgebra.scalar import the_symbol

A, B = oa.atoms("A B", kind="linear")
F, G = oa.atoms("F G", kind="nonlinear")
x = oa.state("x")
V, U = oa.family("V", kind="linear"), oa.family("U", kind="nonlinear")
i, k, l, L, n = map(oa.symbol, "iklLn")
SUM = oa.indexed_sum(V[l], l, 1, L)
PRODUCT = oa.ordered_product(1 + V[l], l, 1, L)
ENVIRONMENT = {"i": 2, "k": 1, "L": 3, "n": 3, "g": 5}


def zero(atom):
    return {atom: lambda v: (0,) * len(v)}


def same_map_other_split():
    plain = Interpretation(1)
    return Interpretation(1, maps={G: lambda v: plain.atom(F, v)})


def forgetful(operator, values):
    """Values in place of symbols, but not in backgrounds."""
    if isinstance(operator, Compose | Sum):
        return operator.remade([forgetful(part, values) for part in operator.parts])
    return operator if isinstance(operator, Dressed | Source) else at(operator, values)


MUTANTS = {
    "distribution over a map that is not linear": (
        "if not is_linear(left, used):", "if False:", lambda kernel: kernel.left_dist(F, A + B), {}
    ),
    "a sum taken out of a map that is not linear": (
        "if not left.is_linear:", "if False:", lambda kernel: kernel.sum_left(F, SUM), {}
    ),
    "an induction without its base": (
        "if (theorem.lhs, theorem.rhs) != (wished.lhs, wished.rhs):", "if theorem is step and False:",
        lambda kernel: kernel.induction(kernel.refl(A), kernel.assume(oa.Equal(V[n], oa.Zero())), the_symbol(n)), {},
    ),
    "an index that is free in a hypothesis": (
        "if any(index in hypothesis.symbols", "if False and any(index in hypothesis.symbols",
        lambda kernel: kernel.under(kernel.assume(oa.Equal(V[i], oa.Zero())), SUM, the_symbol(i)), zero(V[2]),
    ),
    "a distance that is free in a hypothesis": (
        "        _not_free(distance, theorem, binder)\n", "",
        lambda kernel: kernel.under(kernel.assume(oa.Equal(V[k], oa.Zero())), SUM, the_symbol(i), the_symbol(k)), zero(V[1]),
    ),
    "hypotheses that are not instantiated": (
        "[fact.at(scalars) for fact in value.hypotheses]", "list(value.hypotheses)",
        lambda kernel: kernel.instantiate(kernel.assume(oa.Equal(V[L], oa.Zero())), {L: 2}), zero(V[3]),
    ),
    "congruence in the operator of a dressing": (
        "(build in (dressed, source) and isinstance(parts[0], Theorem))", "False",
        lambda kernel: kernel.cong(dressed, kernel.assume(oa.Equal(F, G)), x), same_map_other_split,
    ),
    "a split outside of the product": (
        "if not (is_surely_natural(below) and is_surely_natural(above)):", "if False:",
        lambda kernel: kernel.split(PRODUCT, L + 2), {},
    ),
    "a middle that differs": (
        "if first.rhs is not second.lhs:", "if False:", lambda kernel: kernel.trans(kernel.refl(A), kernel.refl(B)), {}
    ),
}  # fmt: skip


def mutant(changes):
    """The kernel with some of its text changed, as a module of its own."""
    source = Path(kernel.__file__).read_text()
    for old, new in changes.items():
        assert source.count(old) >= 1
        source = source.replace(old, new)
    module = ModuleType("mutant")
    sys.modules["mutant"] = module
    exec(compile(source, "mutant", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(("old", "new", "prove", "given"), MUTANTS.values(), ids=MUTANTS)
def test_a_kernel_without_a_check_proves_what_is_false(old, new, prove, given):
    theorem = prove(mutant({old: new}))
    try:
        right = prove(kernel)
    except OpalgebraError:
        right = None
    assert right is None or (right.lhs, right.rhs, right.hypotheses) != (theorem.lhs, theorem.rhs, theorem.hypotheses)
    models = [given() if callable(given) else Interpretation(seed, maps=given) for seed in (1, 2)]
    for fact in theorem.hypotheses:
        stated = fact.equation()
        assert counterexample(stated.lhs, stated.rhs, interpretations=models, environment=ENVIRONMENT) is None
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=models, environment=ENVIRONMENT) is not None


def test_an_instance_that_forgets_backgrounds_is_false():
    right = kernel.instantiate(kernel.dress(F @ V[L] @ x), {L: 2})
    assert counterexample(right.lhs, right.rhs, environment=ENVIRONMENT) is None
    module = mutant({"    at,\n": ""})
    module.at = forgetful
    wrong = module.instantiate(module.dress(F @ V[L] @ x), {L: 2})
    assert counterexample(wrong.lhs, wrong.rhs, environment=ENVIRONMENT) is not None


def test_without_its_own_check_the_kernel_is_kept_from_dressing_maps_by_that_of_dressings():
    checks = {
        "if not operator.is_state:": "if False:",
        "isinstance(node, Compose) and node.is_state:": "isinstance(node, Compose):",
    }
    with pytest.raises(oa.SpaceError, match="only a state can be dressed"):
        kernel.dress(F @ A)
    with pytest.raises(oa.SpaceError, match="a background is a state"):
        mutant(checks).dress(F @ A)


def test_declared_rewrites_do_not_reach_the_operator_of_a_dressing():
    vertex = oa.dressed(F, x)
    assert oa.simplify(vertex, facts=[oa.Equal(F, G)]).rhs is vertex
    with pytest.raises(oa.InputError, match="nothing in"):
        oa.rewrite(vertex, oa.Equal(F, G))
    models = [same_map_other_split()]
    assert counterexample(vertex, oa.dressed(G, x), interpretations=models) is not None
