"""Functions that are swept in other processes, which import them from here."""

import os
import time
from pathlib import Path

TROUBLE = 7


def length(prompt):
    return {"length": len(prompt), "thirds": [len(prompt) / 3, 0.1]}


def slowly(prompt):
    time.sleep(0.01 * (20 - prompt) if prompt < 20 else 0.0)
    return prompt * prompt


def fails(prompt):
    if prompt == TROUBLE:
        raise ValueError("seven is too much")
    return prompt


def dies(prompt):
    if prompt == TROUBLE:
        os._exit(1)
    return prompt


def noted(prompt, folder):
    """Leaves a note of each beginning in a folder."""
    with (Path(folder) / f"{prompt}").open("a") as note:
        note.write(f"{os.getpid()}\n")
    time.sleep(0.02)
    return prompt / 3


def orders(seed):
    """The orders of a tiny random model at random tokens; a note of each beginning is left in the folder SWEPT_NOTES."""
    with (Path(os.environ["SWEPT_NOTES"]) / f"{seed}").open("a") as note:
        note.write(f"{os.getpid()}\n")
    import torch
    from families import inputs, tiny

    import opalgebra as oa

    torch.set_num_threads(1)
    return oa.bind(tiny("llama", seed=0), inputs("llama", seed=seed)).orders(counting="attention").to_dict()
