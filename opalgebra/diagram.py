"""Diagrams: one term of a Dyson series as a path through depth, and back: `Diagram(d.to_term()) == d`.

A term is a word of dressed vertices, dressed norms and resummed factors `1 + ...`, as an operator, on a named state, or on
the source that one vertex or norm leaves over. A diagram is that term, read; nothing is added to it, so that equal terms are
equal diagrams. A factor reads the state it is dressed by, and so stands at the depth of that state: the number of factors
`1 + ...` in it. Depths never decrease along a path. Norms are told from vertices by their kind.

The graph is a `networkx.MultiDiGraph` of plain values. Nodes are numbered in the order in which they act and have

    kind      "in", "source", a kind of vertex ("attention", "ffn", "nonlinear", "linear"), "norm", "out"
    name      the atom, or None;  layer, head: its indices, or None
    stage     the residual stage it belongs to, counted from 1; None where the term does not say
    emitter   the kind of the atom whose source is born there; None elsewhere

A norm is a node where the next vertex reads it or where it reads what the vertex before it adds; every other norm dresses the
line that passes it. One propagator joins each node to the next, with

    kind      "resummed" where the line passes factors `1 + ...`, else "normed" where it passes norms, else "bare"
    interval  [stages passed at its begin, at its end]; an open path begins at 0; None where the term does not say, as at the
              end of the last line
    norms, resummed   the names of the norms that the line passes, and of the vertices and biases resummed in it
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, final

from opalgebra.adjoint import TransposeOf, transpose
from opalgebra.display import Drawn
from opalgebra.dressing import source
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom, Compose, Dressed, Identity, Operator, Source, Sum, Zero, check_operators, factors, postorder
from opalgebra.interchange import LONGEST, from_json, to_json
from opalgebra.series import Counting, Series, counter
from opalgebra.space import Kind

if TYPE_CHECKING:
    import networkx

FORMAT = "opalgebra diagram"
VERSION = 1


@dataclass(frozen=True)
class Node:
    """A point of the path: an atom or None, what it is there, and the stages passed before and after it."""

    kind: str
    atom: Atom | None = None
    stage: int | None = None
    begin: int | None = None
    end: int | None = None
    emitter: str | None = None

    @property
    def vertex(self) -> Atom | None:
        """The vertex that stands here or whose source is born here; None for norms and for the ends."""
        return None if self.kind == "in" or Kind.NORM in (self.kind, self.emitter) else self.atom

    @property
    def attributes(self) -> dict[str, Any]:
        """The node in the graph."""
        indices = () if self.atom is None or self.kind == "in" else self.atom.indices
        layer, head = ([i if isinstance(i, int) else str(i) for i in indices] + [None, None])[:2]
        name = None if self.atom is None else self.atom.name
        return {
            "kind": self.kind, "name": name, "layer": layer, "head": head, "stage": self.stage, "emitter": self.emitter,
        }  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A propagator from one node to the next: the factors it passes, and the stages passed where it begins and ends."""

    factors: tuple[Operator, ...]
    begin: int | None
    end: int | None

    @property
    def resummed(self) -> tuple[Atom, ...]:
        """The vertices and biases resummed in it, in the order in which their stages act."""
        summed = (factor for factor in self.factors if isinstance(factor, Sum))
        return tuple(atom for factor in summed for atom in _acting(factor) if atom.kind != Kind.NORM)

    @property
    def norms(self) -> tuple[Atom, ...]:
        """The norms that it passes, in the order in which they act."""
        return tuple(factor.operator for factor in self.factors if isinstance(factor, Dressed))

    @property
    def kind(self) -> str:
        """ "resummed" where it passes factors `1 + ...`, else "normed" where it passes norms, else "bare"."""
        summed = any(isinstance(factor, Sum) for factor in self.factors)
        return "resummed" if summed else "normed" if self.norms else "bare"

    @property
    def attributes(self) -> dict[str, Any]:
        """The propagator in the graph."""
        return {
            "kind": self.kind,
            "interval": [self.begin, self.end],
            "norms": [atom.name for atom in self.norms],
            "resummed": [atom.name for atom in self.resummed],
        }


@final
@dataclass(frozen=True, repr=False)
class Diagram(Drawn):
    """One term of a Series, read from its factors. InputError for what is no term.

    >>> import opalgebra as oa
    >>> S = oa.transformer(2).dyson()
    >>> d = next(iter(oa.diagrams(S, 2)))
    >>> d.topology, oa.Diagram(d.to_term()) == d
    (('attention', 'ffn'), True)
    """

    term: Operator
    is_transposed: bool = field(init=False, compare=False)
    nodes: tuple[Node, ...] = field(init=False, compare=False)
    lines: tuple[Line, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        check_operators(self.term)
        turned = self.term.is_linear and _has_transposes(self.term)
        nodes, lines = _read(transpose(self.term) if turned else self.term)
        for name, value in (("is_transposed", turned), ("nodes", nodes), ("lines", lines)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Diagram({self.term!r})"

    def to_term(self) -> Operator:
        """The operator or state that this is the diagram of."""
        return self.term

    @property
    def graph(self) -> "networkx.MultiDiGraph[int]":
        """A new graph, by the schema of the module. A transposed diagram has every edge reversed."""
        import networkx

        graph = networkx.MultiDiGraph(transposed=self.is_transposed)
        for place, node in enumerate(self.nodes):
            graph.add_node(place, **node.attributes)
        for place, line in enumerate(self.lines):
            ends = (place + 1, place) if self.is_transposed else (place, place + 1)
            graph.add_edge(*ends, **line.attributes)
        return graph

    @cached_property
    def vertices(self) -> tuple[Atom, ...]:
        """The vertices that were chosen, earliest first; the one that emitted a source included, norms left out."""
        return tuple(node.vertex for node in self.nodes if node.vertex is not None)

    def order(self, counting: Counting = "all") -> int:
        """How many of the vertices count. A bias that belongs to no head is a vertex of kind "nonlinear" here."""
        return sum(map(counter(counting), self.vertices))

    @property
    def orders(self) -> Mapping[str, int]:
        """The number of vertices of each kind that occurs."""
        return dict(Counter(str(vertex.kind) for vertex in self.vertices))

    @property
    def topology(self) -> tuple[str, ...]:
        """The kinds of the vertices, acting first first, depths forgotten; of a source "source of" the kind it is born of."""
        nodes = (node for node in self.nodes if node.emitter or node.vertex is not None)
        return tuple(f"source of {node.emitter}" if node.emitter else node.kind for node in nodes)

    def is_irreducible(self, vertices: Counting | Collection[Atom]) -> bool:
        """Whether no vertex strictly inside the word belongs to a set: the first and the last may.

        The set is given by its vertices, or as `counting` in a series: a name or a predicate.
        """
        inside = self.vertices[1:-1]
        if isinstance(vertices, str) or callable(vertices):
            return not any(map(counter(vertices), inside))
        if not isinstance(vertices, Collection) or not all(isinstance(vertex, Atom) for vertex in vertices):
            raise InputError(f"{vertices!r} is no set of vertices; use atoms, 'all', 'attention', 'ffn', or a predicate")
        return not any(vertex in vertices for vertex in inside)

    def __matmul__(self, other: "Diagram") -> "Diagram":
        """The diagram of the product of the terms; the right one acts first. InputError when depths would decrease."""
        return Diagram(self.term @ other.term) if isinstance(other, Diagram) else NotImplemented

    @property
    def transposed(self) -> "Diagram":
        """The diagram of the transposed term, which reads from out to in. InputError for a state, which has no transpose."""
        if self.term.is_state:
            raise InputError(
                "the transpose of a diagram on a state was asked; only an operator has one, so leave out the state"
            )
        return Diagram(transpose(self.term))

    def to_json(self) -> str:
        """The graph as networkx writes node-link data, with the term in the graph as `opalgebra.to_json` writes it.

        >>> import opalgebra as oa
        >>> d = oa.Diagram(oa.transformer(1).dyson().term(1, 0))
        >>> oa.Diagram.from_json(d.to_json()) == d
        True
        """
        data = self._node_link()
        data["graph"] |= {"format": FORMAT, "version": VERSION, "term": json.loads(to_json(self.term))}
        return json.dumps(data)

    def _node_link(self) -> dict[str, Any]:
        import networkx

        return dict(networkx.node_link_data(self.graph, edges="edges"))

    @staticmethod
    def from_json(text: str) -> "Diagram":
        """The diagram that `to_json` wrote, read from its term. InputError for another text and for a graph not of its term."""
        data = _loaded(text)
        about = data.get("graph")
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise InputError(f'the text needs a graph with "format": "{FORMAT}"; write it with to_json of a diagram')
        version = about.get("version")
        if type(version) is not int or version != VERSION:
            raise InputError(f"the version {str(version)[:20]!r} is unknown; this library reads version {VERSION}")
        read = Diagram(from_json(json.dumps(about.get("term"))))
        own = json.loads(read.to_json())
        own["graph"]["term"] = about["term"]
        wrong = sorted(part for part in own.keys() | data.keys() if own.get(part) != data.get(part))
        if wrong:
            raise InputError(f"the {wrong[0]} of the text are not those of its term; write it with to_json of a diagram")
        return read


def diagrams(series: Series, order: int) -> Iterator[Diagram]:
    """The diagrams of an order, lazily: of `series.terms(order)`, then of `series.sources(order)` but those that are 0."""
    if not isinstance(series, Series):
        raise InputError(f"{series!r} is no series and has no diagrams; use those of transformer(...).dyson()")
    found = chain(series.terms(order), series.sources(order))
    return (Diagram(term) for term in found if not isinstance(factors(term)[-1], Zero))


def _loaded(text: str) -> dict[str, Any]:
    if not isinstance(text, str):
        raise InputError(f"{type(text).__name__} is no text; decode the bytes of a file, or read it with encoding='utf-8'")
    if len(text) > LONGEST:
        raise LimitError(f"the text has {len(text):,} characters, more than {LONGEST:,}; no diagram that is read is so long")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("the text is no JSON of a diagram; write it with to_json of a diagram") from None
    if not isinstance(data, dict):
        raise InputError("the text is no object of JSON; write it with to_json of a diagram")
    return data


def _has_transposes(term: Operator) -> bool:
    return any(isinstance(node, TransposeOf) for node in postorder(term, backgrounds=False))


def _acting(factor: Operator) -> list[Atom]:
    """The atoms that act in a factor, dressed or linear, in order of name and index."""
    nodes = postorder(factor, backgrounds=False)
    found = {n.operator if isinstance(n, Dressed) else n for n in nodes if isinstance(n, Dressed | Atom)}
    return sorted(found, key=lambda atom: atom.sort_key)


def _is_stage(factor: Operator) -> bool:
    return isinstance(factor, Sum) and any(isinstance(part, Identity) for part in factor.parts)


def _depth(state: Operator) -> int:
    """The stages that a state has passed, with the one inside whose branch it stands."""
    passed, inside = 0, 0
    for factor in factors(state)[:-1]:
        if _is_stage(factor):
            passed += 1
        elif not passed and factor.kind != Kind.NORM:
            inside = 1
    return passed + inside


def _read(term: Operator) -> tuple[tuple[Node, ...], tuple[Line, ...]]:
    """The nodes of a term, earliest first, and the lines between them."""
    letters = [factor for factor in factors(term) if not isinstance(factor, Identity)]
    start = letters.pop() if letters and letters[-1].is_state else None
    letters.reverse()
    nodes, lines = [_start(start)], []
    passed: list[Operator] = []
    depth = nodes[0].end
    for place, letter in enumerate(letters):
        begin, end = _interval(letter)
        if begin is not None:
            if depth is not None and begin < depth:
                raise InputError(
                    f"{_name(letter)} reads the state after {begin} stages, but what acts before it ends at stage {depth}; "
                    "in a term depths never decrease"
                )
            depth = end
        if not _on_line(letters, place, nodes[-1]):
            lines.append(Line(tuple(passed), nodes[-1].end, begin))
            nodes.append(_node(letter, begin, end, letters[place + 1 : place + 2]))
            passed = []
        else:
            passed.append(letter)
    lines.append(Line(tuple(passed), nodes[-1].end, None))
    return (*nodes, Node("out")), tuple(lines)


def _start(state: Operator | None) -> Node:
    """The node at which a path begins: open, a named state, or a source."""
    if state is None:
        return Node("in", end=0)
    if isinstance(state, Atom):
        return Node("in", state, end=0)
    born = next((part for part in (state, *state.parts) if isinstance(part, Source)), None)
    if born is None or state not in (born, _with_shift(born)):
        raise InputError(
            f"a term acts on a named state or on one source, not on {_name(state)}; name the state by state('x'), and take "
            "one term of a sum"
        )
    is_norm = born.operator.kind == Kind.NORM
    end = _depth(born.state) + (not is_norm)
    return Node("source", born.operator, end, None, end, str(born.operator.kind))


def _with_shift(born: Source) -> Operator:
    """What a vertex behind a norm leaves over, with the shift of that norm."""
    read = born.state
    norm = read.left if isinstance(read, Compose) else None
    return source(born.operator @ norm, read.right) if isinstance(norm, Atom) and isinstance(read, Compose) else born


def _interval(letter: Operator) -> tuple[int | None, int | None]:
    """The stages passed before and after a factor; (None, None) for a linear atom. InputError for no factor of a term."""
    if isinstance(letter, Dressed):
        begin = _depth(letter.state)
        return begin, begin + (letter.operator.kind != Kind.NORM)
    if isinstance(letter, Atom) and letter.is_linear:
        return None, None
    if not _is_stage(letter) or not _is_resummed(letter):
        raise InputError(
            f"{_name(letter)} is no factor of a term: these are dressed vertices and norms, linear atoms and resummed stages "
            "1 + ...; dress nonlinear maps on states, and take one term of a sum"
        )
    read = [_depth(part.state) for part in postorder(letter, backgrounds=False) if isinstance(part, Dressed)]
    return (min(read), min(read) + 1) if read else (None, None)


def _is_resummed(factor: Operator) -> bool:
    """Whether a sum is made of dressed maps and linear atoms by composition and addition alone."""
    nodes = list(postorder(factor, backgrounds=False))
    allowed = all(isinstance(n, Dressed | Sum | Compose | Identity) or (isinstance(n, Atom) and n.is_linear) for n in nodes)
    return allowed and all(c == 1 for n in nodes if isinstance(n, Sum) for c, _ in n.terms)


def _on_line(letters: list[Operator], place: int, before: Node) -> bool:
    """Whether a factor belongs to the propagator: resummed stages, and norms that are those of no vertex of the path."""
    letter = letters[place]
    if not isinstance(letter, Dressed):
        return isinstance(letter, Sum)
    return letter.operator.kind == Kind.NORM and not (
        _is_read(letter, letters[place + 1 : place + 2]) or _reads(letter, before)
    )


def _is_read(norm: Dressed, following: list[Operator]) -> bool:
    """Whether the next factor is a vertex that reads what a norm gives."""
    return any(
        isinstance(n, Dressed) and n.operator.kind != Kind.NORM and n.state == norm.operator @ norm.state for n in following
    )


def _reads(norm: Dressed, before: Node) -> bool:
    """Whether a norm reads what a branch adds that has the vertex before it."""
    branch = factors(norm.state)[0]
    return before.vertex is not None and not _is_stage(branch) and before.vertex in (branch, *branch.parts)


def _node(letter: Operator, begin: int | None, end: int | None, following: list[Operator]) -> Node:
    if not isinstance(letter, Dressed):
        return Node("linear", letter if isinstance(letter, Atom) else None)
    stage = end if end is None or not _is_read(letter, following) else end + 1
    return Node(str(letter.operator.kind), letter.operator, stage, begin, end)


def _name(operator: Operator) -> str:
    """A factor, or only what it is when it is long."""
    if isinstance(operator, Dressed):
        return f"{operator.operator.name} dressed"
    return operator.name if isinstance(operator, Atom) else f"a {type(operator).__name__.lower()}"
