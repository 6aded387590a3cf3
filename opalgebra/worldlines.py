"""Token-resolved diagrams: a diagram expanded over the positions between which its vertices and propagators carry.

On the lattice of tokens and depth a path stays at its token but where attention acts, from a token that is read to one that is
written, and where attention is resummed in a propagator. In a causal model no token reads a later one: source <= target. A
path through the lattice is a worldline; the diagram is the sum over its worldlines.

    step 2 i      what node i of the diagram does;      step 2 i + 1      its propagator i

A *hop* is what one step does from one position to another, and its weight the sum over all worldlines that take this hop, so
that at every step the weights sum to the contribution of the whole diagram. Positions count from 0.

The graph is a `networkx.DiGraph` of plain values. Its nodes are (moment, position), moment 2 i before node i acts and 2 i + 1
after it, with

    moment, position, token    the token as text
    place                      i, the number of the node in `Diagram.graph`

and each hop is an edge with `step`, `source`, `target`, `weight` (None without a model) and the attributes of its node (kind,
name, layer, head, stage, emitter) or of its propagator (kind, interval, norms, resummed).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

from opalgebra.diagram import Diagram, Line, Node
from opalgebra.display import Drawn
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom
from opalgebra.scalar import is_natural
from opalgebra.space import Kind

if TYPE_CHECKING:
    import networkx

LIMIT = 1_000_000
ON_SITE = (Kind.FFN, Kind.NORM)


@dataclass(frozen=True)
class Hop:
    """What a step does from a source position to a target; the weight of all worldlines through it, None without a model."""

    step: int
    source: int
    target: int
    weight: float | None = None


@final
@dataclass(frozen=True, repr=False)
class TokenDiagram(Drawn):
    """A diagram on the lattice of its tokens, by its hops in order of step. Made by `token_diagram`, or from a bound model.

    `readout` names what is measured at the end, None where nothing is. InputError for hops that are no part of a worldline from
    the first step to the last, that move where nothing moves, or that are not causal in a causal model.
    """

    diagram: Diagram
    tokens: tuple[str, ...]
    hops: tuple[Hop, ...]
    is_causal: bool = True
    readout: str | None = None

    def __post_init__(self) -> None:
        if self.diagram.is_transposed:
            raise InputError("a transposed diagram was to be resolved into tokens; resolve its transpose, which reads upwards")
        for hop in self.hops:
            self._check(hop)
        for earlier, later in zip(self.steps, self.steps[1:]):
            if {hop.target for hop in earlier} != {hop.source for hop in later}:
                raise InputError(f"the hops of step {later[0].step if later else '?'} do not begin where those before it end")

    def _check(self, hop: Hop) -> None:
        where = f"hop {hop.source} -> {hop.target} of step {hop.step}"
        if not 0 <= hop.step < self.count_of_steps or not all(0 <= at < len(self.tokens) for at in (hop.source, hop.target)):
            raise InputError(f"{where}: {self.count_of_steps} steps and {len(self.tokens)} tokens are counted from 0")
        if hop.source != hop.target and not is_moving(self.diagram, hop.step):
            raise InputError(f"{where}: this step acts at each token alone; source and target are one position")
        if self.is_causal and hop.source > hop.target:
            raise InputError(f"{where}: a causal model reads no later token; take is_causal=False for another one")

    def __repr__(self) -> str:
        total = "" if self.contribution is None else f", contribution {self.contribution:+.3g}"
        names = " ".join(atom.name for atom in reversed(self.diagram.vertices)) or "a propagator"
        ways = f"{self.count:,} worldline{'' if self.count == 1 else 's'}"
        return f"TokenDiagram({names} on {len(self.tokens)} tokens, {ways}{total})"

    @property
    def count_of_steps(self) -> int:
        """Nodes and propagators."""
        return len(self.diagram.nodes) + len(self.diagram.lines)

    @cached_property
    def steps(self) -> tuple[tuple[Hop, ...], ...]:
        """The hops of each step."""
        found: list[list[Hop]] = [[] for _ in range(self.count_of_steps)]
        for hop in self.hops:
            found[hop.step].append(hop)
        return tuple(map(tuple, found))

    @cached_property
    def count(self) -> int:
        """The number of worldlines, without listing them."""
        ways = dict.fromkeys(range(len(self.tokens)), 1)
        for hops in self.steps:
            arriving: dict[int, int] = defaultdict(int)
            for hop in hops:
                arriving[hop.target] += ways[hop.source]
            ways = arriving
        return sum(ways.values())

    @property
    def contribution(self) -> float | None:
        """The sum over all worldlines; None without a model."""
        weights = [hop.weight for hop in self.steps[-1]]
        return None if not weights or None in weights else sum(weight for weight in weights if weight is not None)

    @property
    def positions(self) -> tuple[int, ...]:
        """Of a single worldline: where it begins, and where each vertex that may move brings it, or a propagator that does.

        InputError for several.
        """
        if self.count != 1:
            raise InputError(f"the positions of {self.count:,} worldlines were asked; only a single one has them")
        hops = [hop for (hop,) in self.steps]
        moving = (hop for hop in hops if hop.source != hop.target or (hop.step % 2 == 0 and is_moving(self.diagram, hop.step)))
        return (hops[0].source, *(hop.target for hop in moving))

    @property
    def graph(self) -> "networkx.DiGraph[tuple[int, int]]":
        """A new graph, by the schema of the module."""
        import networkx

        graph = networkx.DiGraph()
        for hop in self.hops:
            ends = ((hop.step, hop.source), (hop.step + 1, hop.target))
            for moment, position in ends:
                token = self.tokens[position]
                graph.add_node((moment, position), moment=moment, position=position, token=token, place=moment // 2)
            about = {"step": hop.step, "source": hop.source, "target": hop.target, "weight": hop.weight}
            graph.add_edge(*ends, **_part(self.diagram, hop.step).attributes, **about)
        return graph


def token_diagram(diagram: Diagram, tokens: int | Sequence[str], *, is_causal: bool = True) -> TokenDiagram:
    """A diagram with every hop that tokens allow, without weights: those before a token are read, or all if not causal.

    tokens: how many there are, or their texts. A vertex that is neither a feed-forward network nor a norm may move.

    >>> import opalgebra as oa
    >>> d = oa.Diagram(oa.transformer(2).dyson(counting="attention").term(2, 0))
    >>> oa.token_diagram(d, 4)
    TokenDiagram(A2 A1 on 4 tokens, 20 worldlines)
    """
    if not isinstance(diagram, Diagram):
        raise InputError(f"{type(diagram).__name__} is no diagram; make one of a term by Diagram(term)")
    texts = tuple(map(str, range(tokens))) if isinstance(tokens, int) and is_natural(tokens) else tokens
    if isinstance(texts, str) or not isinstance(texts, Sequence) or not texts or not all(isinstance(t, str) for t in texts):
        raise InputError(f"tokens={tokens!r}: a diagram is resolved over a positive number of tokens, or over their texts")
    positions = range(len(texts))
    steps = range(len(diagram.nodes) + len(diagram.lines))
    if len(steps) * len(texts) ** 2 > LIMIT:
        raise LimitError(f"{len(steps)} steps on {len(texts)} tokens have more than {LIMIT:,} hops; take fewer tokens")
    hops = []
    for step in steps:
        if is_moving(diagram, step):
            hops += [Hop(step, s, t) for t in positions for s in (range(t + 1) if is_causal else positions)]
        else:
            hops += [Hop(step, t, t) for t in positions]
    return TokenDiagram(diagram, tuple(texts), tuple(hops), is_causal)


def connected(steps: Sequence[Sequence[Hop]]) -> list[list[Hop]]:
    """Of the hops of each step, those that lie on a worldline from the first step to the last."""
    reached: set[int] | None = None
    found: list[list[Hop]] = []
    for hops in steps:
        found.append([hop for hop in hops if reached is None or hop.source in reached])
        reached = {hop.target for hop in found[-1]}
    for place in reversed(range(len(found) - 1)):
        needed = {hop.source for hop in found[place + 1]}
        found[place] = [hop for hop in found[place] if hop.target in needed]
    return found


def is_moving(diagram: Diagram, step: int) -> bool:
    """Whether a step may carry from one token to another."""
    part = _part(diagram, step)
    if isinstance(part, Line):
        return not all(_is_on_site(atom) for atom in part.resummed)
    return part.kind not in ("in", "source", "out") and part.kind not in ON_SITE


def _is_on_site(atom: Atom) -> bool:
    return atom.kind in ON_SITE


def _part(diagram: Diagram, step: int) -> Node | Line:
    return diagram.lines[step // 2] if step % 2 else diagram.nodes[step // 2]
