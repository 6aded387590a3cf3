"""A model generating: time per new token after a long prompt over that after a short one, and over reading the text anew.

All orders of SmolLM2's new columns from the cache. Attention over the prefix grows with it and is part of the times, so that
the bar of 1.5 holds with it. Each line is `NAME ratio=MEASURED bar=BOUND`; times are the least of several tokens.
"""

import argparse
import time
from collections.abc import Iterator

import torch
from scale import model_of, prompt, synchronise

import opalgebra as oa
from opalgebra.models.load import Model

SHORT, LONG = 64, 512
TOKENS = 12
BAR = 1.5


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--dtype", default="float64")
    arguments.add_argument("--model", default="smollm2", help="a name or folder for load, or 'random'")
    asked = arguments.parse_args()
    model = model_of(asked.model, asked.device, asked.dtype)
    print(f"# torch {torch.__version__}, {torch.get_num_threads()} threads, {asked.dtype} on {asked.device}")
    started = time.perf_counter()
    generations = [oa.generate(model, prompt(tokens), tokens=TOKENS + 1) for tokens in (SHORT, LONG)]
    for generation in generations:
        next(generation)
    print(f"# both prompts read in {time.perf_counter() - started:.1f} s")
    short, long = taken_in_turns(generations, asked.device)
    anew = whole(model, SHORT + TOKENS)
    print(f"# {1 / short:.2f} tokens/s after {SHORT}, {1 / long:.2f} after {LONG}; {SHORT + TOKENS} tokens anew {anew:.2f} s")
    print(f"token_after_{LONG}_over_{SHORT} ratio={long / short:.2f} bar={BAR:.2f}")
    print(f"token_over_text_anew_T{SHORT + TOKENS} ratio={short / anew:.3f}")


def taken_in_turns(generations: list[Iterator[object]], device: str) -> list[float]:
    """The least time of a token of each, one after another so that all see the same machine."""
    best = [float("inf")] * len(generations)
    for _ in range(TOKENS):
        for index, generation in enumerate(generations):
            start = time.perf_counter()
            next(generation)
            synchronise(device)
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def whole(model: Model, tokens: int) -> float:
    ids = prompt(tokens)
    start = time.perf_counter()
    oa.bind(model, ids, check=False).orders()
    synchronise(str(next(model.network.parameters()).device))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
