"""All orders, and those up to the second, from short to long inputs: time over the floor F / R, and memory as predicted.

F is the number of floating-point operations of the recurrence's matrix products, patterns included; R the rate of one large
square matrix product of the same dtype, device and run. Each line is `NAME ratio=MEASURED bar=BOUND`; a line without a bar is
for information. Times are the best of several interleaved runs. The real peak is what the allocator of torch gave out at most.
`--model random` needs no weights: a random Llama with the shape of SmolLM2.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import opalgebra as oa
from opalgebra.files import write_text
from opalgebra.models.load import Model
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.faithful import faithful, full_precision
from opalgebra.numeric.verify import versions

REPEATS = {14: 9, 256: 3, 1024: 1}
SQUARE = {"cpu": 2048, "cuda": 8192}
BUDGET_IN_STATES = 170
BAR = 1 / 0.6
MEMORY_BAR = 1.1
SHAPE = {
    "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "vocab_size": 49152, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One measured ratio, with its bar or None, and what it was made from."""

    name: str
    ratio: float
    bar: float | None = None

    def __str__(self) -> str:
        return f"{self.name} ratio={self.ratio:.2f}" + ("" if self.bar is None else f" bar={self.bar:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--model", default="smollm2", help="a name or folder for load, or 'random'")
    parser.add_argument("--tokens", type=int, nargs="*", default=list(REPEATS))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    model = model_of(asked.model, asked.device, asked.dtype)
    hardware = torch.cuda.get_device_name() if asked.device.startswith("cuda") else f"{platform.machine()} CPU"
    made = {
        "device": hardware, "dtype": asked.dtype, "model": asked.model, "threads": torch.get_num_threads(),
        "versions": dict(versions()),
    }  # fmt: skip
    print("#", json.dumps(made), flush=True)
    lines, tables = [], []
    for tokens in asked.tokens:
        for line in at_length(model, tokens, REPEATS.get(tokens, 1), asked.device, tables):
            print(line, flush=True)
            lines.append(line)
    if asked.json:
        found = {**made, "runs": tables, "ratios": [asdict(line) for line in lines]}
        write_text(asked.json, json.dumps(found, indent=1) + "\n")


def model_of(name: str, device: str, dtype: str) -> Model:
    """The model of a name; for "random" a Llama of the shape of SmolLM2 with random weights, made on the device."""
    if name != "random":
        return oa.load(name, device=device, dtype=dtype)
    import transformers

    torch.manual_seed(0)
    with torch.device(device):
        network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE, attn_implementation="eager"))
    return oa.load(network.eval().requires_grad_(False), dtype=dtype, device=device)


def at_length(model: Model, tokens: int, repeats: int, device: str, tables: list[dict[str, Any]]) -> Iterator[Line]:
    """The lines of one length; what they are made of is added to the tables."""
    ids = prompt(tokens)
    binding = oa.bind(model, ids)
    budget = BUDGET_IN_STATES * binding.states[0].nbytes if tokens >= 1024 else None
    size = SQUARE["cuda" if device.startswith("cuda") else "cpu"]
    square = torch.randn(size, size, dtype=binding.dtype, device=binding.states.device)

    def forward() -> object:
        with faithful(model.network) as network:
            return network(input_ids=ids.to(device), use_cache=False)

    with full_precision():
        product, everything, low, own = fastest(
            repeats,
            device,
            lambda: square @ square,
            lambda: binding.orders(memory=budget),
            lambda: binding.orders(order=2, memory=budget),
            forward,
        )
    rate = 2 * size**3 / product
    for name, order, seconds in (("all", None, everything), ("to_2", 2, low)):
        floor = operations(binding, order) / rate
        predicted = binding.peak_memory(order=order, memory=budget)
        real = peak(lambda order=order: binding.orders(order=order, memory=budget), device)
        tables.append({
            "tokens": tokens, "orders": name, "seconds": seconds, "floor": floor, "tokens per second": tokens / seconds,
            "rate": rate, "forward": own, "budget": budget, "predicted peak": predicted, "real peak": real,
        })  # fmt: skip
        print(
            f"# T={tokens}, orders {name}: {seconds:.3f} s, floor {floor:.3f} s at {rate / 1e9:.0f} Gflop/s, "
            f"{tokens / seconds:.1f} tokens/s, forward {own:.3f} s, peak {predicted / 2**20:.1f} MiB predicted, "
            f"{real / 2**20:.1f} real"
        )
        yield Line(f"orders_{name}_T{tokens}_over_floor", seconds / floor, BAR)
        yield Line(f"orders_{name}_T{tokens}_over_forward", seconds / own)
        yield Line(f"orders_{name}_T{tokens}_peaks_real_and_predicted", max(real / predicted, predicted / real), MEMORY_BAR)


def prompt(tokens: int) -> torch.Tensor:
    return torch.randint(0, 49_000, (1, tokens), generator=torch.Generator().manual_seed(0))


def fastest(repeats: int, device: str, *runs: Callable[[], object]) -> list[float]:
    """The least time of each run, taken in turns so that all see the same machine."""
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for index, run in enumerate(runs):
            synchronise(device)
            start = time.perf_counter()
            run()
            synchronise(device)
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def operations(binding: Binding, order: int | None) -> int:
    """Multiplications and additions of the recurrence that counts every stage: stage s acts on s parts, at most `order`."""
    config = binding.model.network.config
    tokens, width, hidden = binding.tokens, config.hidden_size, config.intermediate_size
    heads = config.num_attention_heads
    size = width // heads
    values = config.num_key_value_heads * size
    attention = 2 * tokens * width * values + 2 * heads * tokens * tokens * size + 2 * tokens * heads * size * width
    ffn = 4 * tokens * width * hidden
    cost = {"attention": attention, "ffn": ffn}
    return sum(min(stage.number, order or stage.number) * cost[stage.kind] for stage in binding.T.stages)


def peak(run: Callable[[], object], device: str) -> int:
    """The bytes that the allocator gave out during a run beyond those before it, at most."""
    if device.startswith("cuda"):
        synchronise(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


if __name__ == "__main__":
    main()
