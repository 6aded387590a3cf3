"""Sums of words against FORM, SymPy and OpenFermion, in one run: medians of five, taken in turns.

Each line is `NAME ratio=R bar=B`: R is how many times faster than the other program, or the bytes that the name tells; a line
without a bar is for information. Exact coefficients and collection are included, making Python terms of the columns is not.
FORM tells its own time (`timer_`, milliseconds) for the programs in `form`: from its start, or for `random_sums` from when
both sums are read. What is not installed is named and left out.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from opalgebra._words.brackets import nested_commutators
from opalgebra._words.graded import Words, product
from opalgebra._words.ordered import ordered_product
from opalgebra._words.packing import Alphabet
from opalgebra._words.series import logarithm
from opalgebra._words.small import Rational, Word

PROGRAMS = Path(__file__).parent / "form"
REPEATS = 5
BARS = {"product_20": 10, "two_vertices_8": 4, "order3_96": 4, "log_order4_16": 3, "commutators_8": 10, "random_sums": 2}
COUNTS = {"product_20": 2**20, "two_vertices_8": 2**16, "order3_96": 147_537, "log_order4_16": 69_904, "commutators_8": 3_938}
BYTES_BAR = 48
SYMPY_BAR = 1_000
Terms = dict[Word, Rational]


def main() -> None:
    left, right = (random_sum(Random(seed)) for seed in (1, 2))
    letters = Alphabet.plain(range(8))
    columns = [Words.of(letters, terms) for terms in (left, right)]
    work: dict[str, Callable[[], Words]] = {
        "product_20": lambda: layers(20),
        "two_vertices_8": two_vertices,
        "order3_96": lambda: layers(96, 3),
        "log_order4_16": lambda: logarithm(layers(16, 4), cut=(4,)),
        "commutators_8": commutators,
        "random_sums": lambda: product(*columns),
    }
    print(f"# Python {sys.version.split()[0]}, NumPy {np.__version__}, {form_version() or 'FORM is not installed'}")
    with tempfile.TemporaryDirectory() as folder:
        for name, terms in (("left", left), ("right", right)):
            Path(folder, f"{name}.h").write_text(written(terms))
        for name, run in work.items():
            compare(name, run, Path(folder))
    memory()
    sympy(left)
    openfermion(left, right)


def compare(name: str, run: Callable[[], Words], folder: Path) -> None:
    """Seconds of the engine and of FORM, in turns."""
    ours, theirs = [], []
    for _ in range(REPEATS):
        seconds, words = timed(run)
        ours.append(seconds)
        if form_version():
            found = form(name, folder)
            theirs.append(found[0])
            if words.count != found[1] or words.count != COUNTS.get(name, words.count):
                raise SystemExit(f"{name}: {words.count:,} words, and {found[1]:,} of FORM")
    if theirs:
        print(f"# {name}: {words.count:,} words, {median(ours):.4f} s, FORM {median(theirs):.4f} s")
        print(f"{name} ratio={median(theirs) / median(ours):.1f} bar={BARS[name]}", flush=True)


def timed(run: Callable[[], Words]) -> tuple[float, Words]:
    start = time.perf_counter()
    words = run()
    return time.perf_counter() - start, words


def layers(count: int, order: int | None = None) -> Words:
    """(1 + V_count) ... (1 + V_1), up to an order."""
    factors: list[Terms] = [{(): 1, (number,): 1} for number in range(count)]
    return ordered_product(Alphabet.plain(range(count)), factors, cut=None if order is None else (order,))


def two_vertices() -> Words:
    """The product of 1 + A_l + F_l + F_l A_l over 8 layers; A_l has the number 2 l, F_l the number 2 l + 1."""
    factors: list[Terms] = [{(): 1, (n,): 1, (n + 1,): 1, (n + 1, n): 1} for n in range(0, 16, 2)]
    return ordered_product(Alphabet.plain(range(16)), factors)


def commutators() -> Words:
    """The sum of (i + 2 j + 3 k + 5 l) [V_i, [V_j, [V_k, V_l]]] over i, j, k, l = 1, ..., 8."""
    i, j, k, l = (places.ravel() for places in np.indices((8,) * 4) + 1)
    words = Words.from_columns(Alphabet.plain(range(8)), np.stack([i, j, k, l], axis=1) - 1, i + 2 * j + 3 * k + 5 * l)
    return nested_commutators(words)


def random_sum(random: Random) -> Terms:
    """2,000 words of 1 to 6 of 8 letters with rational coefficients."""
    terms: Terms = {}
    while len(terms) < 2_000:
        word = tuple(random.randrange(8) for _ in range(random.randint(1, 6)))
        terms.setdefault(word, Fraction(random.choice((-1, 1)) * random.randint(1, 9), random.randint(1, 9)))
    return terms


def written(terms: Terms) -> str:
    """A sum as FORM reads it."""
    return "\n".join(f"+({c})*" + "*".join(f"V{number + 1}" for number in word) for word, c in terms.items()) + "\n"


def form_version() -> str:
    if shutil.which("form") is None:
        return ""
    return subprocess.run(["form", "-v"], capture_output=True, text=True, check=False).stdout.splitlines()[0]


def form(name: str, folder: Path) -> tuple[float, int]:
    """Seconds by FORM's own clock, and the number of terms of its result."""
    program = str(PROGRAMS / f"{name}.frm")
    lines = subprocess.run(["form", program], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
    elapsed = next(line for line in lines if line.startswith("elapsed"))
    terms = [line for line in lines[: lines.index(elapsed)] if "Terms in output" in line]
    return int(elapsed.split()[1]) / 1000, int(terms[-1].split("=")[1])


def memory() -> None:
    """Bytes a word of product_20, kept and at the highest."""
    tracemalloc.start()
    words = layers(20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"product_20_bytes_per_word ratio={words.nbytes / words.count:.1f} bar={BYTES_BAR}")
    print(f"product_20_peak_bytes_per_word ratio={peak / words.count:.1f}", flush=True)


def sympy(left: Terms) -> None:
    """Words a second of product_20 over those of SymPy for the product of 14 layers."""
    import sympy

    layer = sympy.symbols("V1:15", commutative=False)
    factored = sympy.Mul(*(1 + V for V in reversed(layer)))
    start = time.perf_counter()
    count = len(sympy.expand(factored).args)
    theirs = count / (time.perf_counter() - start)
    ours = 2**20 / median(timed(lambda: layers(20))[0] for _ in range(REPEATS))
    print(f"# SymPy {sympy.__version__}: {count:,} words of 14 layers at {theirs:,.0f} /s; product_20 at {ours:,.0f} /s")
    print(f"product_20_over_sympy_14 ratio={ours / theirs:,.0f}".replace(",", "") + f" bar={SYMPY_BAR}", flush=True)


def openfermion(left: Terms, right: Terms) -> None:
    """The product of the random sums, as products of eight fermion operators that are left in their order."""
    try:
        from openfermion import FermionOperator
    except ImportError:
        print("# OpenFermion is not installed, and is left out; it multiplies floats, not rational numbers")
        return
    sums = []
    for terms in (left, right):
        total = FermionOperator()
        for word, c in terms.items():
            total += FermionOperator(tuple((number, 1) for number in word), float(c))
        sums.append(total)
    start = time.perf_counter()
    count = len((sums[0] * sums[1]).terms)
    theirs = time.perf_counter() - start
    letters = Alphabet.plain(range(8))
    columns = [Words.of(letters, terms) for terms in (left, right)]
    ours = median(timed(lambda: product(*columns))[0] for _ in range(REPEATS))
    print(f"# OpenFermion: {count:,} words with floats in {theirs:.2f} s, once")
    print(f"random_sums_over_openfermion ratio={theirs / ours:.1f}")


if __name__ == "__main__":
    main()
