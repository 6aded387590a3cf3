"""One picture of every kind of node, propagator and composition, for the tests of all skins and for looking at.

`python tests/gallery.py FOLDER` writes each skin of all of them there.
"""

import sys
from pathlib import Path

import opalgebra as oa
from opalgebra.files import write_text
from opalgebra.render.escaping import escape
from opalgebra.render.tikz import PREAMBLE
from opalgebra.worldlines import Hop, TokenDiagram

x = oa.state("x")
TOKENS = ("When", " Mary", " and", " John", " a b", "\n", " $5_%", "東京", "  ")


def pictures():
    """Name and what is drawn."""
    pre = oa.transformer(3).dyson()
    heads = oa.transformer(3, heads=2).dyson(counting="attention")
    post = oa.transformer(3, heads=2, norm="post").dyson(counting="attention")
    sandwich = oa.transformer(2, norm="sandwich").dyson()
    branch = oa.transformer(2, heads=2, norm="branch", biases=True).dyson(counting="attention")
    deep = oa.transformer(30, heads=9).dyson(counting="attention")
    V, theta = oa.family("V", kind="linear"), oa.Atom("theta_out1", kind="linear")
    G = oa.Atom("Gate", kind="nonlinear")
    attention = oa.Diagram(heads.term(2, 5) @ x)
    return {
        "a term on a state, norms before vertices": oa.Diagram(pre.term(3, 4) @ x),
        "an open term, transposed": oa.Diagram(pre.term(2, 3)).transposed,
        "norms before and after vertices": oa.Diagram(sandwich.term(3, 1)),
        "norms on lines, networks resummed": oa.Diagram(post.term(2, 5) @ x),
        "heads of a deep model": oa.Diagram(deep.term(2, 20_000) @ x),
        "a propagator alone": oa.Diagram(heads.term(0, 0)),
        "a source of a network": oa.Diagram(list(pre.sources(2))[-3]),
        "a source of a bias": oa.Diagram(list(branch.sources(1))[2]),
        "linear and other vertices": oa.Diagram(oa.dressed(G, V[1] @ x) @ V[3] @ theta @ x),
        "an order": oa.picture_of_order(pre, 2),
        "an order with resummed lines": oa.picture_of_order(post, 1),
        "an order of any depth": oa.picture_of_topologies(oa.topology_polynomials(2, oa.symbol("L")), order=2),
        "sources by topology": oa.picture_of_topologies(oa.topologies(pre, 1, sources=True)),
        "Dyson's equation": oa.picture_of_dyson_equation(),
        "a row": oa.picture_row([pre.term(1, 0), "− 2", pre.term(1, 1), "= …"]),
        "on a lattice": oa.token_diagram(attention, TOKENS[:5]),
        "with attention in its lines": oa.token_diagram(oa.Diagram(oa.transformer(2).dyson(counting="ffn").term(1, 1)), 4),
        "read both ways": oa.token_diagram(attention, 3, is_causal=False),
        "with weights": weighed(attention),
    }


def weighed(diagram):
    """Two worldlines of opposite signs and one too weak to be seen."""
    ways = {(1, 3, 8): 0.8, (3, 3, 8): -0.3, (0, 5, 8): 1e-3}
    hops = {}
    for (first, second, last), weight in ways.items():
        at = first
        targets = iter((second, last))
        for step in range(len(diagram.nodes) + len(diagram.lines)):
            moves = step % 2 == 0 and diagram.nodes[step // 2].kind == "attention"
            to = next(targets) if moves else at
            hops[step, at, to] = hops.get((step, at, to), 0.0) + weight
            at = to
    return TokenDiagram(diagram, TOKENS, tuple(Hop(*key, weight) for key, weight in sorted(hops.items())), True, "Mary − John")


def article(shown):
    """A document of the TikZ of some pictures, each under its name and no wider than a line."""
    parts = [r"\documentclass{article}\usepackage[a4paper,margin=2cm]{geometry}", PREAMBLE, r"\begin{document}"]
    for name, value in shown.items():
        parts.append(rf"\noindent\parbox{{\textwidth}}{{{escape(name)}\\[1ex]{oa.tikz(value)}}}\par\bigskip")
    return "\n".join([*parts, r"\end{document}"])


def main(folder):
    from matplotlib.figure import Figure

    shown = pictures()
    write_text(folder / "gallery.tex", article(shown))
    write_text(folder / "gallery.txt", "\n\n\n".join(f"{name}\n\n{oa.terminal(value)}" for name, value in shown.items()))
    figure = Figure(figsize=(18, 22))
    for place, (name, value) in enumerate(shown.items()):
        write_text(folder / f"{place:02}.svg", oa.svg(value))
        axes = figure.add_subplot(5, 4, place + 1)
        axes.set_title(name)
        oa.draw(value, axes)
    figure.savefig(folder / "gallery.png", dpi=80)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
