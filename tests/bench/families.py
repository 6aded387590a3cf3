"""Prints the table of the README: the worst error of a series over its condition number, by family and dtype.

Tiny random models of four layers with random norm weights and biases, 20 seeds, every vertex counted; the error is that of
the sum of all orders against the model's own last state, the maximum is over seeds, rows and tokens that are not padded.
Run it as `python tests/bench/families.py`; it takes about six minutes on one core. `--seeds N` takes fewer.
"""

import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from models.families import FAMILIES, WINDOW, inputs, tiny

import opalgebra as oa

SEEDS, LAYERS = 20, 4
PROMPTS = {"below the window": WINDOW - 1, "above it": 3 * WINDOW}


def padded(family: str, tokens: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """An input of two rows, a third of the second padded at the left, and its mask."""
    mask = torch.ones(2, tokens, dtype=torch.bool)
    mask[1, : tokens // 3] = False
    return inputs(family, tokens=tokens, seed=seed), mask


def error(family: str, seed: int, tokens: int, dtype: torch.dtype, left: bool) -> float:
    """The largest error over condition of one model at one input."""
    ids, mask = padded(family, tokens, seed)
    result = oa.bind(tiny(family, seed, layers=LAYERS, dtype=dtype), ids, mask=mask if left else None).orders()
    return float(np.nanmax(result.rounding / result.condition))


def row(family: str, seeds: int) -> list[str]:
    """The cells of a family."""
    columns = [(tokens, torch.float64, left) for left in (False, True) for tokens in PROMPTS.values()]
    columns += [(PROMPTS["above it"], dtype, False) for dtype in (torch.float32, torch.bfloat16)]
    return [family, *(f"{max(error(family, seed, *column) for seed in range(seeds)):.1e}" for column in columns)]


def table(seeds: int) -> str:
    """The table in Markdown."""
    double = [f"{what}, {where}" for what in ("float64", "left-padded") for where in PROMPTS]
    head = ["family", *double, "float32", "bfloat16"]
    lines = [head, ["---"] * len(head), *(row(family, seeds) for family in FAMILIES)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    print(table(int(sys.argv[2]) if sys.argv[1:2] == ["--seeds"] else SEEDS))
