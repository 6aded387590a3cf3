# %% [markdown]
# # The strongest diagrams of a prompt
# SmolLM2-135M chooses " Mary" over " John". Attention counts, with every head a vertex, and feed-forward networks are resummed
# into the propagators. Which diagrams with two heads carry the difference of the two logits, and between which tokens?

# %%
from pathlib import Path

import opalgebra as oa
from opalgebra.analysis import strongest_diagrams, strongest_worldlines
from opalgebra.files import write_text

PROMPT = "When Mary and John went to the store, John gave a drink to"
M = oa.bind(oa.load("smollm2"), PROMPT, heads=True)

# %% Read-out covectors backwards, states forwards, met in the middle: 35,235 diagrams are weighed and twelve written down.
found = strongest_diagrams(M, " Mary", minus=" John", order=2, number=12)
print(f"{found.count:,} diagrams of order 2, together {found.total:+.4f}; sizes alone sum to {found.absolute:.2f}")
for resolved in found.diagrams:
    begin = max(resolved.steps[0], key=lambda hop: abs(hop.weight)).source
    vertices = " ".join(vertex.name for vertex in reversed(resolved.diagram.vertices))
    print(f"{resolved.contribution:+.3f}  {vertices:12} most of it from {resolved.tokens[begin].strip()}, token {begin}")

# %% The same total from the recurrence of all orders, and the first diagram from the value of its term.
by_order = M.orders(counting="attention", order=2).logits(" Mary", minus=" John")
print(f"order 2 of the series: {by_order.orders[2]:+.4f}")
state, norm, head = M.reference.states[-1][0, -1], M.readout.maps[0], M.readout.unembedding
mary, john = (head[M.model.token_id(token)] for token in (" Mary", " John"))
value = M.evaluate(found.diagrams[0].diagram.to_term())[-1] * norm.scale(state) * norm.factor
print(f"the first one as a term: {float(value @ (mary - john)):+.3f}")

# %% Single worldlines: one token at each depth.
single = strongest_worldlines(M, " Mary", minus=" John", order=2, number=4)
print(f"{single.count:,} worldlines, together {single.total:+.4f}")
for worldline in single.diagrams:
    vertices = " ".join(vertex.name for vertex in reversed(worldline.diagram.vertices))
    way = " -> ".join(f"{worldline.tokens[at].strip()} ({at})" for at in worldline.positions)
    print(f"{worldline.contribution:+.3f}  {vertices:12} {way}")

# %% One figure of the twelve, for a browser and for a paper.
figure = oa.picture_grid(found.diagrams, columns=4, title="The strongest diagrams of order 2 for Mary minus John")
print(write_text(Path("build/strongest_diagrams.svg"), oa.svg(figure)))
print(write_text(Path("build/strongest_diagrams.tex"), oa.tikz(figure)))
