"""Records the run of a tiny random model on a device: the trace that every run of the tests binds and verifies.

The model is made on the CPU from a fixed seed, so that the run can be made again on any other device.
"""

import argparse
import sys
from pathlib import Path

import torch

import opalgebra as oa

MODELS = Path(__file__).parent.parent / "models"
FAMILY, SEED, LAYERS = "llama with biases", 11, 4


def model() -> torch.nn.Module:
    sys.path.insert(0, str(MODELS))
    from families import tiny

    return tiny(FAMILY, seed=SEED, layers=LAYERS)


def ids() -> torch.Tensor:
    return torch.tensor([[3, 11, 7, 30, 5, 2, 19, 23, 4], [8, 8, 1, 25, 14, 9, 4, 36, 2]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=MODELS)
    asked = parser.parse_args()
    trace = oa.record(oa.load(model(), device=asked.device), ids())
    path = asked.folder / f"trace_{torch.device(asked.device).type}.safetensors"
    trace.save(path)
    print(f"{path}: {path.stat().st_size:,} bytes; {trace!r}")


if __name__ == "__main__":
    main()
