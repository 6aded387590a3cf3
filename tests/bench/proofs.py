"""An expansion with proof against SymPy's without, and replaying certificates against proving, in one run.

Each line is `NAME ratio=MEASURED bar=BOUND`; one without a bar is for information. Times are processor seconds, the best of
several interleaved runs. All begin with a text, be it a product, a file of `proofs/` or a certificate, and end with a theorem
or a sum; products have names that are new, so that nothing is found in a cache.
"""

import gc
import runpy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import sympy

import opalgebra as oa
from opalgebra.prove import PROOFS

FACTORS = 12
REPEATS = 15


def main() -> None:
    print(f"# sympy {sympy.__version__}, {2**FACTORS} terms")
    times: dict[str, list[float]] = {"prove": [], "replay": [], "sympy": []}
    for number in range(REPEATS):
        names = [f"V{number}_{place}" for place in range(FACTORS)]
        certificate = oa.certificate(proved(names))
        runs = [
            ("prove", partial(proved, names)),
            ("replay", partial(oa.check, certificate)),
            ("sympy", partial(expanded, names)),
        ]
        for name, run in runs[number % 3 :] + runs[: number % 3]:
            times[name].append(timed(run))
    best = {name: min(found) for name, found in times.items()}
    print(f"expansion_with_proof_over_sympy_without ratio={best['prove'] / best['sympy']:.2f} bar=1.00")
    print(f"replay_of_the_expansion_over_proving ratio={best['replay'] / best['prove']:.2f} bar=1.00")
    folder = Path(__file__).parent.parent.parent / "proofs"
    reading = proving = replaying = 0.0
    for path in sorted(folder.glob("*.py")):
        certificate = path.with_suffix(".json").read_text()
        runs = [
            (timed(partial(runpy.run_path, str(path))), timed(PROOFS[path.stem]), timed(partial(oa.check, certificate)))
            for _ in range(REPEATS)
        ]
        reading, proving, replaying = (total + min(times) for total, times in zip((reading, proving, replaying), zip(*runs)))
    print(f"replay_of_all_proofs_over_proving ratio={replaying / (reading + proving):.2f} bar=1.00")
    print(f"replay_of_all_proofs_over_proving_when_read ratio={replaying / proving:.2f}")


def proved(names: list[str]) -> oa.Theorem:
    theorem = oa.expand(oa.parse(product_of(names)))
    assert len(theorem.rhs.terms) == 2**FACTORS
    return theorem


def expanded(names: list[str]) -> sympy.Expr:
    total = sympy.expand(sympy.Mul(*(1 + sympy.Symbol(name, commutative=False) for name in names)))
    assert len(total.args) == 2**FACTORS
    return total


def product_of(names: list[str]) -> str:
    return f"{' @ '.join(f'(1 + {name})' for name in names)} where {', '.join(names)}: linear"


def timed(run: Callable[[], object]) -> float:
    """The processor seconds of a run, with no collection of garbage in it."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    result = run()
    elapsed = time.process_time() - start
    gc.enable()
    del result
    return elapsed


if __name__ == "__main__":
    main()
