"""A Transformer as an ordered product of noncommuting operators: derive its Dyson series, write it, verify it.

Depth is discrete time, a layer is `1 + V`, later factors stand to the LEFT. The public names are resolved on first use,
so that `import opalgebra` loads nothing heavy. From the bottom up, each module importing only what stands before it:

    errors, display, space, scalar, expr    what an expression is
    tensor, trace, adjoint, inverse, ...    nodes of linear operators, and inverses of any
    dressing, atoms, facts, kernel, expand  dressing on states, names, declared facts, theorems, expansion
    matching, rewrite, simplify, subwords   wildcards, substitution and collection, rewriting by facts, repeated subwords
    dyson, resolvent, direct_sum, network   theorems for any depth, of inverses, of blocks, of all states at once
    counting, calculus, coupling, powers    numbers of words, derivatives, gradings and couplings, power series
    lie, magnus, truncation, cumulants      Lie series, on a private engine of words in columns, _words
    ladder, series, architecture, frozen    graded Dyson series; the symbolic Transformer; tensor forms of its dressings
    diagram, topology                       one term as a graph and back; how many terms have the same kinds of vertices
    worldlines                              a diagram on the lattice of tokens
    homogeneous                             the same with sources as linear maps of one more coordinate
    render, effort, parse, interchange      text, Unicode, LaTeX, pictures, JSON; and back, with a limit on the work
    arrays, lambdify, letters, cas          functions of arrays; to and from SymPy
    numeric                                 arrays for atoms, all orders in one pass, verification
    models                                  one architecture, one file; loading, binding, recording and generating
    sweep                                   one function over many prompts, resumed when it was stopped
    analysis                                non-normality, random matrices, growth; what is asked of a model beyond its series
    conformance, testing                    declared facts checked on functions of arrays; models checked; planted errors
    plot, plot_spectra, report, cli         figures, documents, the command line
"""

from typing import Any

from opalgebra.lazy import homes, resolved

__version__ = "0.1.0"

_HOMES = {
    "opalgebra.errors": "InputError LimitError ModelError NotLinearError OpalgebraError SpaceError",
    "opalgebra.space": "FEATURES K ONE POSITIONS Space X",
    "opalgebra.scalar": "binomial parameter symbol",
    "opalgebra.expr": "Atom Identity Operator Zero",
    "opalgebra.indexed": "indexed_sum ordered_product ordered_sum",
    "opalgebra.atoms": "atoms family state",
    "opalgebra.dressing": "dressed source",
    "opalgebra.tensor": "tensor",
    "opalgebra.inverse": "inverse",
    "opalgebra.commutator": "commutator",
    "opalgebra.function": "function",
    "opalgebra.trace": "trace",
    "opalgebra.adjoint": "adjoint transpose",
    "opalgebra.facts": "Adjoint Causal Commute Equal Every Form Homogeneous Idempotent Inverse Linear Nilpotent equation",
    "opalgebra.certificate": "certificate check",
    "opalgebra.kernel": "Theorem instantiate left_dist reindex split unfold",
    "opalgebra.dyson": "dyson_theorem",
    "opalgebra.expand": "expand",
    "opalgebra.counting": "word_count",
    "opalgebra.calculus": "derivative",
    "opalgebra.coupling": "coupling grading",
    "opalgebra.powers": "coefficients",
    "opalgebra.resolvent": "dyson_equation inverse_of_product neumann push_through resolvent_identity resummation",
    "opalgebra.direct_sum": "direct_sum schur_complement self_energy",
    "opalgebra.network": "network network_neumann network_nilpotent network_resolvent network_states propagator",
    "opalgebra.matching": "match wildcard",
    "opalgebra.rewrite": "collect replace substitute",
    "opalgebra.simplify": "simplify",
    "opalgebra.prove": "auto calc rewrite theorem",
    "opalgebra.telescoping": "telescoping",
    "opalgebra.subwords": "abbreviate common_subwords",
    "opalgebra.series": "Series",
    "opalgebra.lie": "bch lyndon_form symmetric_bch zassenhaus",
    "opalgebra.magnus": "magnus",
    "opalgebra.truncation": "exponential logarithm truncation",
    "opalgebra.cumulants": "cumulants moments ordered_cumulant",
    "opalgebra.architecture": "transformer",
    "opalgebra.diagram": "Diagram diagrams",
    "opalgebra.topology": "topologies topology_polynomials",
    "opalgebra.frozen": "frozen_forms",
    "opalgebra.render.latex": "latex",
    "opalgebra.render.notation": "Notation",
    "opalgebra.render.text": "text",
    "opalgebra.homogeneous": "homogeneous",
    "opalgebra.parse": "parse",
    "opalgebra.interchange": "from_json to_json",
    "opalgebra.lambdify": "lambdify",
    "opalgebra.cas": "from_sympy to_sympy",
    "opalgebra.numeric.verify": "Report verify",
    "opalgebra.models.bind": "bind record",
    "opalgebra.models.generate": "generate",
    "opalgebra.models.load": "load",
    "opalgebra.models.trace": "Trace",
    "opalgebra.render.document": "document",
    "opalgebra.render.table": "Formula Table table",
    "opalgebra.sweep": "sweep",
    "opalgebra.worldlines": "TokenDiagram token_diagram",
    "opalgebra.render.layout": "Picture",
    "opalgebra.render.pictures": "picture picture_grid picture_row",
    "opalgebra.render.feynman_series": "picture_of_dyson_equation picture_of_order picture_of_topologies",
    "opalgebra.render.svg": "svg",
    "opalgebra.render.tikz": "tikz",
    "opalgebra.render.terminal": "terminal",
    "opalgebra.render.axes": "draw",
}
_HOME = homes(__name__, _HOMES)
_PARTS = ("analysis", "testing")
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return resolved(__name__, {**_HOME, **dict.fromkeys(_PARTS)}, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_PARTS])
