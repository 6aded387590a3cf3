# %% [markdown]
# # Resummation and regulators
# When does resummation beat the partial sum, and what keeps a deep product finite? One prompt, three models, one page of
# figures, which goes to the path given as the argument, `build/resummation.svg` without one.

# %%
import math
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from matplotlib.figure import Figure

import opalgebra as oa
from opalgebra.analysis import (
    REGULATORS,
    extrapolate_depth,
    frozen_logits,
    logit_lens,
    measurement,
    recovery,
    regulated,
    resum,
)
from opalgebra.plot import save_figure

PROMPT = "When Mary and John went to the store, John gave a drink to"
model = oa.load("smollm2")
M = oa.bind(model, PROMPT)
series = {counting: M.orders(counting=counting) for counting in ("all", "attention")}

# %% Counting every block, orders grow to 22 times the result: resummation gains two digits. Counting attention it only loses.
for counting, orders in (("all", 17), ("all", 25), ("attention", 9)):
    print(f"counting {counting}: {resum(series[counting], orders=orders)}")

# %% From how few orders is the state at the last token recovered?
METHODS = ("vector_epsilon", "topological_epsilon", "mpe", "rre")
recovered = {(c, m): recovery(series[c], method=m, orders=31) for c in series for m in METHODS}
for (counting, method), found in recovered.items():
    resummed, partial = found.needed(1e-2)
    print(f"1 % counting {counting}: {resummed} orders by {method}, {partial} by partial sums")

# %% A logit is a series of numbers, for which there are more methods.
NUMBERS = ("wynn_epsilon", "pade", "borel_pade", "aitken", "levin")
gaps = {counting: R.logits(" Mary", minus=" John").orders for counting, R in series.items()}
logits = {(c, m): recovery(gap, method=m, exact=gap.sum(), orders=31) for c, gap in gaps.items() for m in NUMBERS}
for method in NUMBERS:
    print("logit of Mary less John:", resum(gaps["all"], method=method, orders=21, exact=gaps["all"].sum()))

# %% Depth is no geometric sequence: the state ten stages on is not foretold by the first forty.
states = M.reference.states[:, 0, -1].numpy()
foretold, actual = extrapolate_depth(states[:41], 50), states[50]
missed, moved = np.linalg.norm(foretold.value - actual), np.linalg.norm(states[40] - actual)
print(f"state 50 from states 0 to 40: off by {missed / moved:.1f} of its way from state 40, converged: {foretold.converged}")

# %% One regulator at a time, on a trained decoder, a trained encoder and a random decoder of 96 layers.
config = transformers.LlamaConfig(
    vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=96, num_attention_heads=4,
    num_key_value_heads=4, max_position_embeddings=64, attn_implementation="eager",
)  # fmt: skip
deep = transformers.LlamaForCausalLM(config).double().eval()
torch.manual_seed(0)
with torch.no_grad():
    for name, weight in deep.named_parameters():
        if weight.ndim == 2:
            weight.copy_(torch.randn_like(weight) * (1 if "embed" in name else weight.shape[1] ** -0.5))
bound = {
    "SmolLM2": M,
    "MiniLM": oa.bind(oa.load("minilm"), PROMPT),
    "random, 96 layers": oa.bind(deep, torch.arange(1, 15)[None]),
}
changes = {"unchanged": {}} | {f"{what} {how}": {how: what} for how, what in REGULATORS}
changed = {(name, label): regulated(own, **change) for name, own in bound.items() for label, change in changes.items()}


def figures(found):
    """Norms by order, condition, growth and rank at the last token, without a batch axis."""
    norms, growth, rank = (np.squeeze(part) for part in (found.norms, found.growth, found.rank))
    return norms[:, -1], float(np.squeeze(found.condition)[-1]), growth[:, -1], rank


for (name, label), found in changed.items():
    norms, condition, growth, rank = figures(found)
    reached = f"{'' if found.depth == len(bound[name].T.stages) else 'out of range after '}{found.depth} stages"
    print(f"{name}, {label}: condition {condition:.2g}, growth {growth[-1]:.1g}, rank {rank[-1]:.1f}, {reached}")

# %% Two readings of depth, and the model's own answer.
said = measurement(M)
answer = said.probabilities.argmax()
print(f"answer {model.token_texts([answer])[0]!r} at {said.probabilities[answer]:.0%}, entropy {said.entropy:.2f} nats")
mary, john = (model.token_id(word) for word in (" Mary", " John"))
readings = {"logit lens (norm of each depth)": logit_lens(M), "frozen logits (norm of the last)": frozen_logits(M)}

# %% The page. Colours are Okabe and Ito's, and every line has a marker or a dash of its own.
COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vPX"


def drawn(axes, place, x, y, label):
    """A line in the style of its place, with some seven markers."""
    style = {"color": COLOURS[place], "linestyle": STYLES[place], "marker": MARKERS[place], "markersize": 3, "linewidth": 1}
    axes.plot(x, y, label=label, markevery=(place, max(1, math.ceil(len(x) / 7))), **style)


page = Figure(figsize=(7.2, 11.6), layout="constrained")
panels = page.subplots(5, 2)
for place, (counting, R) in enumerate(series.items()):
    drawn(panels[0, 0], place + 1, range(len(R.norms)), R.norms[:, -1], f"counting {counting}")
ORDER, DEPTH = r"$\|y_n\|\,/\,\|x_L\|$", r"$\|x_s\|\,/\,\|x_0\|$"
panels[0, 0].set(yscale="log", ylim=(1e-4, 1e2), xlabel="order $n$", ylabel=ORDER, title="size of each order")
for axes, counting in ((panels[0, 1], "all"), (panels[1, 0], "attention")):
    drawn(axes, 0, recovered[counting, "mpe"].orders, recovered[counting, "mpe"].partial_deviations, "partial sum")
    for place, method in enumerate(METHODS, start=1):
        found = recovered[counting, method]
        drawn(axes, place, found.orders, found.deviations, method.replace("_", " ") if "_" in method else method.upper())
    axes.set(yscale="log", xlabel="orders summed", ylabel="relative error of $x_L$", title=f"resummation, counting {counting}")
panels[0, 1].set_ylim(1e-8, 1e2)
panels[1, 0].set_ylim(1e-16, 1e2)
for axes, counting in zip(panels[2], series):
    drawn(axes, 0, range(1, 32), logits[counting, "pade"].partial_deviations, "partial sum")
    for place, method in enumerate(NUMBERS, start=1):
        drawn(axes, place, range(1, 32), logits[counting, method].deviations, method.replace("_", " "))
    axes.set(yscale="log", xlabel="orders summed", title=f"logit of Mary less John, counting {counting}")
    axes.set_ylabel("relative error of the logit")
panels[2, 0].set_ylim(1e-8, 1e3)
panels[2, 1].set_ylim(1e-16, 1e2)
for label, reading in readings.items():
    difference = reading[:, mary] - reading[:, john]
    drawn(panels[1, 1], 1 + label.startswith("frozen"), range(len(difference)), difference, label)
panels[1, 1].set(xlabel="stage $s$ (attention and FFN alternate)", title="two readings of depth")
panels[1, 1].set_ylabel("logit of Mary less John (nats)")
for place, label in enumerate(changes):
    norms, condition, growth, rank = figures(changed["SmolLM2", label])
    drawn(panels[3, 0], place, range(len(norms)), norms, label)
    drawn(panels[3, 1], place, range(len(growth)), growth, label)
    drawn(panels[4, 0], place, range(len(rank)), rank, label)
panels[3, 0].set(yscale="log", ylim=(1e-4, 1e2), xlabel="order $n$", ylabel=ORDER, title="SmolLM2, regulators: orders")
panels[3, 1].set(yscale="log", ylim=(1e-1, 1e18), xlabel="stage $s$", ylabel=DEPTH, title="SmolLM2, regulators: growth")
panels[4, 0].set(xlabel="stage $s$", ylabel="effective rank of 14 tokens", title="SmolLM2, regulators: rank")
for place, label in enumerate(changes):
    for offset, name in enumerate(bound):
        found = changed[name, label]
        style = {"marker": "osD"[offset], "color": COLOURS[offset + 1], "linestyle": "", "markersize": 4}
        if found.depth < len(bound[name].T.stages):
            style["markerfacecolor"] = "none"
        row = len(changes) - 1 - place + 0.2 * (1 - offset)
        panels[4, 1].plot(figures(found)[1], row, label=name if place == 0 else None, **style)
panels[4, 1].plot([], [], "o", color="0.4", markerfacecolor="none", markersize=4, label="left the range of float64")
panels[4, 1].set(xscale="log", xlim=(0.7, 1e4), title="three models")
panels[4, 1].set_xlabel(r"condition number $\sum_n\|y_n\|\,/\,\|\sum_n y_n\|$")
panels[4, 1].set_yticks(range(len(changes)), list(changes)[::-1])
for axes in panels.flat:
    axes.title.set_size(9)
    axes.xaxis.label.set_size(8)
    axes.yaxis.label.set_size(8)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    if axes not in (panels[3, 0], panels[4, 0]):
        axes.legend(frameon=False, fontsize=6.5, loc="upper right" if axes is panels[3, 1] else "best")
path = Path(sys.argv[1] if len(sys.argv) > 1 else "build/resummation.svg")
path.parent.mkdir(parents=True, exist_ok=True)
save_figure(page, path)
