"""Every proof runs, what lies beside it is up to date, and the theorem holds in models that share no code with it."""

import runpy
import shutil
from pathlib import Path

import meaning
import pytest
from click.testing import CliRunner
from meaning import PRIME, Interpretation, counterexample, scale
from test_direct_sum import in_blocks
from test_rendering import compile_with_pdflatex

import opalgebra as oa
from opalgebra.book import book_of_proofs
from opalgebra.cli import cli
from opalgebra.prove import PROOFS

FOLDER = Path(__file__).parent.parent / "proofs"
PATHS = sorted(FOLDER.glob("*.py"))
LENGTH = 3


@pytest.fixture(scope="module")
def proved():
    for path in PATHS:
        runpy.run_path(str(path))
    return {path.stem: PROOFS[path.stem]() for path in PATHS}


@pytest.mark.parametrize("name", [path.stem for path in PATHS])
def test_certificate_and_derivation_lie_beside_each_proof(name, proved):
    theorem = proved[name]
    text = (FOLDER / f"{name}.json").read_text()
    assert text == oa.certificate(theorem)
    assert (FOLDER / f"{name}.tex").read_text() == oa.latex(theorem, derivation=True) + "\n"
    again = oa.check(text)
    assert (again.lhs, again.rhs, again.hypotheses) == (theorem.lhs, theorem.rhs, theorem.hypotheses)


def test_the_command_line_proves_and_checks(tmp_path):
    shutil.copy(FOLDER / "dyson_series.py", tmp_path)
    run = CliRunner().invoke(cli, ["prove", "all", "--folder", str(tmp_path)], standalone_mode=False)
    assert run.output.startswith("dyson_series: |- ordered_product(1 + V[l], l, 1, L) = ")
    written = tmp_path / "dyson_series.json"
    assert written.read_text() == (FOLDER / "dyson_series.json").read_text()
    run = CliRunner().invoke(cli, ["check", str(written)], standalone_mode=False)
    assert run.return_value == 0 and "|- ordered_product(1 + V[l], l, 1, L) = " in run.output
    written.write_text(written.read_text().replace("induction", "trans"))
    run = CliRunner().invoke(cli, ["check", str(written), str(tmp_path / "none.json")], standalone_mode=False)
    assert run.return_value == 1 and run.output.count(": refused: ") == 2


# Models in which the hypotheses of each theorem hold, exact modulo a prime.


def matrix_map(matrix):
    return lambda vector: meaning.apply(matrix, vector)


def over(a, b):
    return a * pow(b, -1, PRIME) % PRIME


def by_name(theorem, name):
    atoms = {
        atom.name: atom
        for side in (theorem.lhs, theorem.rhs, *(o for f in theorem.hypotheses for o in f.operators))
        for atom in side.atoms
    }
    return atoms[name]


def of_norm_scaling(theorem):
    N, M = (by_name(theorem, name) for name in "NM")
    plain = Interpretation(5)
    return Interpretation(5, maps={M: lambda v: plain.atom(N, scale(7, v))})


def of_norm_invariance(theorem):
    N, D = (by_name(theorem, name) for name in "ND")
    return Interpretation(5, maps={D: lambda v: scale(11, v), N: lambda v: (over(v[0], v[1]), over(v[0] ** 2, v[1] ** 2))})


def of_softmax(theorem):
    softmax, ones = (by_name(theorem, name) for name in ("softmax", "ones"))
    maps = {softmax: lambda y: (3 * (y[0] - y[1]) ** 3 % PRIME, (y[1] - y[0]) % PRIME), ones: lambda v: (v[0], v[0])}
    return Interpretation(5, maps=maps)


def of_centring(theorem):
    return Interpretation(5, maps={by_name(theorem, "M"): matrix_map(((3, 6), (PRIME - 1, PRIME - 2)))})


def of_rotary(theorem):
    plane = {"M": (2, 5), "R_i": (3, 7), "R_j": (4, 9)}
    maps = {by_name(theorem, name): matrix_map(((a, -b % PRIME), (b, a))) for name, (a, b) in plane.items()}
    model = Interpretation(5, maps=maps)
    model.form = lambda space: tuple(
        tuple(int(i == j) for j in range(model.dimension(space))) for i in range(model.dimension(space))
    )
    return model


def of_frozen(theorem):
    forms = [fact for fact in theorem.hypotheses if isinstance(fact, oa.Form)]
    model = Interpretation(5, dimensions={"positions": 2, "features": 2})
    letters = model.matrix
    model.splits.update({fact.dressing.operator: lambda s, form=fact.form: letters(form, {"heads": 2}) for fact in forms})
    return model


def of_strictly_causal(theorem):
    model = Interpretation(5, dimensions={"positions": 4, "features": 1})
    rows = tuple(tuple(i * 5 + j + 1 if j < i else 0 for j in range(4)) for i in range(4))
    maps = {by_name(theorem, f"P{t}"): (lambda v, t=t: (*v[: t + 1], *(0,) * (3 - t))) for t in range(4)}
    model.maps.update({**maps, by_name(theorem, "N"): matrix_map(rows)})
    return model


def of_triangular(theorem):
    model = Interpretation(5, dimensions={"positions": 4})
    rows = tuple(tuple(i * 5 + j + 1 if j < i else (11, 13, 17, 19)[i] * (i == j) for j in range(4)) for i in range(4))
    maps = {by_name(theorem, f"P{t}"): (lambda v, t=t: (*v[: t + 1], *(0,) * (3 - t))) for t in range(4)}
    model.maps.update({**maps, by_name(theorem, "A"): matrix_map(rows)})
    return model


def of_causal(theorem):
    model = Interpretation(5, dimensions={"positions": 3, "features": 1})
    F, G = (by_name(theorem, name) for name in "FG")
    P = oa.family("P", kind="linear")
    model.maps.update({
        F: lambda v: (v[0] ** 2 + 1, v[0] * v[1] + 2, v[0] + v[1] * v[2] + 3),
        G: lambda v: (v[0] + 5, v[1] ** 3 + v[0], v[0] * v[1] * v[2] + 1),
        P[1]: lambda v: (v[0], v[1], 0),
    })  # fmt: skip
    return model


MODELS = {
    "norm_scaling": of_norm_scaling, "norm_invariance": of_norm_invariance, "softmax_shift": of_softmax,
    "centring": of_centring,
    "gauge_rotary": of_rotary, "virtual_heads": of_frozen, "channels": of_frozen, "strictly_causal": of_strictly_causal,
    "causal_composition": of_causal, "triangular_pattern": of_triangular,
}  # fmt: skip
SUMS = {
    "resolvent_of_layers": oa.network(oa.atoms("T1 T2 T3", kind="linear")).states,
    "sources": oa.direct_sum(oa.X, oa.K, name="H"),
}
ENVIRONMENT = {"L": LENGTH, "c": 7, "heads": 2, "t": 1, "a0": 11, "a1": 13, "a2": 17, "a3": 19}


@pytest.mark.parametrize("name", [path.stem for path in PATHS])
def test_each_theorem_holds_in_models_of_its_hypotheses(name, proved):
    theorem = proved[name]
    if name in SUMS:
        models = [in_blocks(SUMS[name], {"positions": 2, "features": 1}, seed) for seed in (1, 2)]
    else:
        models = [MODELS[name](theorem)] if name in MODELS else [Interpretation(1), Interpretation(2)]
    for fact in theorem.hypotheses:
        if all(isinstance(value, oa.Operator) for value in vars(fact).values()):
            stated = fact.equation()
            assert counterexample(stated.lhs, stated.rhs, interpretations=models, environment=ENVIRONMENT) is None
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=models, environment=ENVIRONMENT) is None


def test_without_linearity_the_bare_series_is_false():
    F, L = oa.family("F", kind="nonlinear"), oa.symbol("L")
    two = (1 + F[2]) @ (1 + F[1])
    assert counterexample(two, 1 + F[1] + F[2] + F[2] @ F[1]) is not None
    with pytest.raises(oa.NotLinearError):
        oa.dyson_theorem(F, L)


def test_a_general_change_of_basis_under_rotary_is_no_theorem(proved):
    theorem = proved["gauge_rotary"]
    M = by_name(theorem, "M")
    model = of_rotary(theorem)
    del model.maps[M]
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=[model]) is not None


def test_the_counts_are_those_of_the_expansion(proved):
    z, V, L = oa.parameter("z"), oa.family("V", kind="linear"), oa.symbol("L")
    for length in range(8):
        counted = oa.instantiate(proved["dyson_series"], {L: length, V: z * oa.Identity()})
        assert counted.lhs is sum(oa.binomial(length, order) * z**order for order in range(length + 1)) * oa.Identity()
        total = oa.instantiate(proved["dyson_series"], {L: length, V: oa.Identity()})
        assert total.lhs is 2**length * oa.Identity()


@pytest.mark.tex
def test_all_derivations_compile_into_one_document(tmp_path):
    log = compile_with_pdflatex(book_of_proofs(FOLDER), tmp_path)
    assert "Missing character" not in log
