"""All orders of SmolLM2's Dyson series: time over the floor F / R, cost in forward passes, and peak memory.

F is the number of floating-point operations of the recurrence's matrix products, patterns included; R the float64 rate
of one (61 T, 576) @ (576, 1536) product in the same run and threads. Each line is `NAME ratio=MEASURED bar=BOUND`; a
line without a bar is for information. Times are the best of several interleaved runs.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import opalgebra as oa
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.faithful import faithful

REPEATS = {14: 7, 256: 3}
BAR = 1 / 0.6
MEMORY_BAR_GIB = 2.0


def main() -> None:
    model = oa.load("smollm2")
    config = model.network.config
    print(f"# torch {torch.__version__}, {torch.get_num_threads()} threads, float64 on the CPU")
    for tokens, repeats in REPEATS.items():
        ids = prompt(tokens)
        binding = oa.bind(model, ids)
        rows = (len(binding.frozen) + 1) * tokens
        left = torch.randn(rows, config.hidden_size, dtype=torch.float64)
        right = torch.randn(config.hidden_size, config.intermediate_size, dtype=torch.float64)
        with faithful(model.network) as network:

            def forward(network: torch.nn.Module = network, ids: torch.Tensor = ids) -> object:
                return network(input_ids=ids, use_cache=False)

            product, everything, low, eager = fastest(
                repeats,
                lambda left=left, right=right: left @ right,
                lambda binding=binding: binding.orders(),
                lambda binding=binding: binding.orders(order=2),
                forward,
            )
        rate = 2 * rows * config.hidden_size * config.intermediate_size / product
        floor = operations(binding) / rate
        print(f"# T={tokens}: all {everything:.3f} s, floor {floor:.3f} s at {rate / 1e9:.0f} Gflop/s, forward {eager:.3f} s")
        print(f"orders_all_T{tokens}_over_floor ratio={everything / floor:.2f} bar={BAR:.2f}")
        print(f"orders_all_T{tokens}_over_forward ratio={everything / eager:.2f}")
        print(f"orders_to_2_T{tokens}_over_forward ratio={low / eager:.2f}", flush=True)
    print(f"orders_all_T256_peak_memory_GiB ratio={peak_in_a_fresh_process():.2f} bar={MEMORY_BAR_GIB:.2f}")


def prompt(tokens: int) -> torch.Tensor:
    return torch.randint(0, 49_000, (1, tokens), generator=torch.Generator().manual_seed(0))


def fastest(repeats: int, *runs: Callable[[], object]) -> list[float]:
    """The least time of each run, taken in turns so that all see the same machine."""
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def operations(binding: Binding) -> int:
    """Multiplications and additions of the recurrence that counts every stage: stage s acts on s parts."""
    config = binding.model.network.config
    tokens, width, hidden = binding.tokens, config.hidden_size, config.intermediate_size
    heads = config.num_attention_heads
    size = width // heads
    values = config.num_key_value_heads * size
    attention = 2 * tokens * width * values + 2 * heads * tokens * tokens * size + 2 * tokens * heads * size * width
    ffn = 4 * tokens * width * hidden
    return sum(stage.number * (attention if stage.kind == "attention" else ffn) for stage in binding.T.stages)


def resident_gib(field: str) -> float:
    """VmRSS, the resident size now, or VmHWM, its maximum since it was last cleared; Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(field)).split()[1]) / 2**20


def peak_in_a_fresh_process() -> float:
    result = subprocess.run([sys.executable, __file__, "memory"], capture_output=True, text=True, check=True)
    return float(result.stdout)


def peak() -> float:
    """GiB: the maximum resident size during binding and all orders at 256 tokens, minus the size before."""
    model = oa.load("smollm2")
    with faithful(model.network) as network:
        network(input_ids=prompt(256), use_cache=False)
    before = resident_gib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    oa.bind(model, prompt(256)).orders()
    return resident_gib("VmHWM") - before


if __name__ == "__main__":
    if sys.argv[1:] == ["memory"]:
        print(peak())
    else:
        main()
