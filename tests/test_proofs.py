"""Every proof runs, what lies beside it is up to date, and the theorem holds in models that share no code with it."""

import runpy
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from meaning import Interpretation, counterexample
from proof_models import ENVIRONMENT, LENGTH, MODELS, SUMS, family_of, of_rotary
from test_direct_sum import in_blocks
from test_rendering import compile_with_pdflatex

import opalgebra as oa
from opalgebra.book import book_of_proofs
from opalgebra.cli import cli
from opalgebra.prove import PROOFS

FOLDER = Path(__file__).parent.parent / "proofs"
PATHS = sorted(FOLDER.glob("*.py"))


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


def stated_by(fact):
    """The equations of a hypothesis, at each index for one that holds for every."""
    if isinstance(fact, oa.Every):
        return [fact.equation(index) for index in range(2 * LENGTH)]
    return [fact.equation()] if all(isinstance(value, oa.Operator) for value in vars(fact).values()) else []


@pytest.mark.parametrize("name", [path.stem for path in PATHS])
def test_each_theorem_holds_in_models_of_its_hypotheses(name, proved):
    theorem = proved[name]
    if name in SUMS:
        models = [in_blocks(SUMS[name], {"positions": 2, "features": 1}, seed) for seed in (1, 2)]
    else:
        models = [MODELS[name](theorem)] if name in MODELS else [Interpretation(1), Interpretation(2)]
    for stated in (one for fact in theorem.hypotheses for one in stated_by(fact)):
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
    model = of_rotary(theorem)
    del model.maps[family_of(theorem, "M")[ENVIRONMENT["g"]]]
    assert counterexample(theorem.lhs, theorem.rhs, interpretations=[model], environment=ENVIRONMENT) is not None


def test_the_bare_series_is_false_for_a_constant_by_that_constant(proved):
    theorem = proved["bare_series"]
    F = oa.family("F", kind="nonlinear")
    series = 1 + F[1] + F[2] + F[2] @ F[1]
    assert counterexample(theorem.lhs, series, interpretations=[MODELS["bare_series"](theorem)]) is not None


def test_the_counts_are_those_of_the_expansion(proved):
    z, V, L = oa.parameter("z"), oa.family("V", kind="linear"), oa.symbol("L")
    for length in range(8):
        counted = oa.instantiate(proved["dyson_series"], {L: length, V: z * oa.Identity()})
        assert counted.lhs is sum(oa.binomial(length, order) * z**order for order in range(length + 1)) * oa.Identity()
        total = oa.instantiate(proved["dyson_series"], {L: length, V: oa.Identity()})
        assert total.lhs is 2**length * oa.Identity()


def test_heads_multiply_the_number_of_terms(proved):
    z, W, H, L, l, h = oa.parameter("z"), oa.family("W", kind="linear"), *map(oa.symbol, "HLlh")
    for length in range(5):
        for heads in (1, 2, 3):
            values = {L: length, H: heads, W: lambda layer, head: z * oa.Identity()}
            counted = oa.instantiate(proved["heads_series"], values)
            expected = sum(oa.binomial(length, n) * heads**n * z**n for n in range(length + 1))
            assert counted.lhs is expected * oa.Identity()
            T = oa.transformer(length, heads) if length else None
            orders = [oa.binomial(length, n) * heads**n for n in range(length + 1)]
            assert T is None or [T.dyson(counting="attention").count(n) for n in range(length + 1)] == orders
    layer = oa.indexed_sum(W[l, h], h, 0, H - 1)
    for order in range(5):
        counted = oa.word_count(oa.ordered_sum(oa.instantiate(layer, {H: 3}), l, L, order))
        assert counted == 3**order * oa.binomial(L, order)


@pytest.mark.tex
def test_all_derivations_compile_into_one_document(tmp_path):
    log = compile_with_pdflatex(book_of_proofs(FOLDER), tmp_path)
    assert "Missing character" not in log
