"""An expansion with proof against SymPy's without, and replaying certificates against proving, in one run.

Each line is `NAME ratio=MEASURED bar=BOUND`; a line without a bar is for information. Times are the best of several interleaved
runs, each with operators of new names, so that nothing is found in a cache.
"""

import gc
import runpy
import time
from collections.abc import Callable
from pathlib import Path

import sympy

import opalgebra as oa
from opalgebra.prove import PROOFS

FACTORS = 12
REPEATS = 15


def main() -> None:
    print(f"# sympy {sympy.__version__}, {2**FACTORS} terms")
    proved, expanded, replayed = [], [], []
    for number in range(REPEATS):
        names = [f"V{number}_{place}" for place in range(FACTORS)]
        product = oa.ordered_product(1 + oa.Atom(name, kind="linear") for name in names)
        symbols = [1 + sympy.Symbol(name, commutative=False) for name in names]
        elapsed, theorem = timed(lambda product=product: oa.expand(product))
        proved.append(elapsed)
        elapsed, found = timed(lambda symbols=symbols: sympy.expand(sympy.Mul(*reversed(symbols))))
        expanded.append(elapsed)
        assert len(theorem.rhs.terms) == len(found.args) == 2**FACTORS
        certificate = oa.certificate(theorem)
        del theorem, found
        replayed.append(timed(lambda certificate=certificate: oa.check(certificate))[0])
    print(f"expansion_with_proof_over_sympy_without ratio={min(proved) / min(expanded):.2f} bar=1.00")
    print(f"replay_of_the_expansion_over_proving ratio={min(replayed) / min(proved):.2f} bar=1.00")
    folder = Path(__file__).parent.parent.parent / "proofs"
    for path in folder.glob("*.py"):
        runpy.run_path(str(path))
    proving = sum(min(timed(prove)[0] for _ in range(REPEATS)) for prove in PROOFS.values())
    texts = [path.read_text() for path in folder.glob("*.json")]
    replaying = sum(min(timed(lambda text=text: oa.check(text))[0] for _ in range(REPEATS)) for text in texts)
    print(f"replay_of_all_proofs_over_proving ratio={replaying / proving:.2f}")


def timed(run: Callable[[], object]) -> tuple[float, object]:
    gc.collect()
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
