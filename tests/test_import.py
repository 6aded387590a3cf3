"""Importing the package is quick and loads nothing heavy, and its public names mean the same whatever was imported before."""

import subprocess
import sys
import time

import pytest

import opalgebra as oa

HEAVY = ("torch", "numpy", "scipy", "sympy", "networkx", "lark", "click", "transformers", "safetensors", "matplotlib", "pandas")


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded_by(statement):
    """Which heavy packages a fresh interpreter holds after a statement."""
    return run(f"import sys\n{statement}\nprint(*sorted(set({HEAVY!r}) & set(sys.modules)))")


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("import opalgebra") == ""


def test_the_algebra_and_its_rendering_load_nothing_heavy():
    statement = (
        "import opalgebra as oa; from opalgebra import expand\n"
        "S = oa.transformer(2).dyson(); theorem = expand(S.states[2])\n"
        "str(theorem), repr(theorem), oa.latex(theorem), oa.latex(S), S[1], str(oa.document([S], title='T'))"
    )
    assert loaded_by(statement) == ""


def test_parsing_loads_the_parser_generator_and_nothing_else():
    assert loaded_by("from opalgebra.parse import parse; parse('A', kind='linear')") == "lark"


def test_importing_the_package_takes_less_than_half_a_second():
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run("pass")
        bare = time.perf_counter()
        run("import opalgebra")
        times.append((time.perf_counter() - bare) - (bare - start))
    assert min(times) < 0.5


def test_every_public_name_resolves_to_what_its_home_defines():
    program = (
        "import importlib, opalgebra as oa\n"
        "def home(name): return importlib.import_module(oa._HOME[name])\n"
        "print([name for name in oa.__all__ if getattr(oa, name) is not getattr(home(name), name)])"
    )
    assert run(program) == "[]"
    assert len(oa.__all__) == len(set(oa.__all__)) > 30


@pytest.mark.parametrize("first", ["oa.transformer(1)", "import opalgebra.parse, opalgebra.expand", "import opalgebra.cli"])
def test_public_functions_are_not_hidden_by_modules_of_the_same_name(first):
    program = (
        f"import opalgebra as oa\n{first}\n"
        "A, B = oa.atoms('A B', kind='linear')\n"
        "print(oa.expand(oa.parse('(A + B) @ A', atoms=[A, B])))"
    )
    assert run(program) == "|- (A + B) @ A = A @ A + B @ A"


def test_no_public_name_is_a_module_after_every_module_has_been_imported():
    program = (
        "import importlib, pkgutil, types, opalgebra as oa\n"
        "for module in ('errors', 'space', 'scalar', 'expr', 'atoms', 'dressing', 'kernel', 'expand', 'series', 'architecture',"
        " 'parse', 'render.latex', 'render.document'):\n"
        "    importlib.import_module('opalgebra.' + module)\n"
        "print([name for name in oa.__all__ if isinstance(getattr(oa, name), types.ModuleType)])"
    )
    assert run(program) == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError) as caught:
        oa.no_such_name  # noqa: B018
    assert str(caught.value) == "module 'opalgebra' has no attribute 'no_such_name'"
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        from opalgebra import no_such_name  # noqa: F401


def test_dir_lists_every_public_name_without_loading_it():
    assert set(oa.__all__) <= set(dir(oa))
    assert dir(oa) == sorted(dir(oa))
    assert run("import opalgebra, sys; dir(opalgebra); print('opalgebra.expr' in sys.modules)") == "False"


def test_a_star_import_gives_every_public_name():
    assert run("from opalgebra import *; import opalgebra; print(set(opalgebra.__all__) <= set(globals()))") == "True"


def test_the_contract_of_derivation_in_one_sitting():
    program = """
import opalgebra as oa
A, B, C = oa.atoms("A B C", kind="linear")
F = oa.Atom("F", kind="nonlinear")
assert oa.expand((A + B) @ C).rhs == A @ C + B @ C
assert oa.expand(F @ (A + B)).rhs == F @ (A + B)
x = oa.state("x")
assert oa.expand(F @ x).rhs == oa.dressed(F, x) @ x + oa.source(F, x)
V = oa.family("V", kind="linear")
assert V[3] == oa.Atom("V3", kind="linear")
P = oa.ordered_product(1 + V[l] for l in (1, 2, 3))
assert len(oa.expand(P).rhs.terms) == 8
operator = oa.expand(P).rhs
assert oa.parse(repr(operator)) == operator
assert oa.parse(str(operator), atoms=operator.atoms) == operator
T = oa.transformer(layers=2)
S = T.dyson()
assert [S.count(k) for k in range(5)] == [1, 4, 6, 4, 1]
assert oa.transformer(layers=96).dyson().total == 2**192
try:
    oa.left_dist(F, A + B)
except oa.NotLinearError:
    print("refused")
"""
    assert run(program) == "refused"


@pytest.mark.parametrize("name", ["load", "bind", "verify", "Report"])
def test_what_needs_torch_says_how_to_install_it(name):
    program = f"""
import sys
sys.modules["torch"] = None
import opalgebra as oa
try:
    oa.{name}
except oa.ModelError as error:
    print(error)
"""
    assert run(program) == f"opalgebra.{name} needs torch, which is not installed; run `pip install 'opalgebra[torch]'`"


def test_a_module_that_is_missing_for_another_reason_is_no_model_error():
    program = """
import sys
sys.modules["opalgebra.models.bind"] = None
import opalgebra as oa
try:
    oa.bind
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert run(program) == "opalgebra.models.bind"
