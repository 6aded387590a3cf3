"""One residual step of a Transformer: branches of vertices that read one state, with norms before and after them.

    after @ (1 + sum over branches of after_b @ (sum of vertices, and a bias) @ before_b)

where each norm may be missing. Counting chooses among the vertices; norms are never counted.
"""

from dataclasses import dataclass
from functools import cached_property

from opalgebra.expr import Atom, Operator, linear_combination
from opalgebra.space import Kind


@dataclass(frozen=True)
class Branch:
    """What one block adds to the state: `after @ (sum_v v + bias) @ before`.

    The norms before and after the vertices may be None, and so may the bias, which belongs to no vertex alone.
    """

    kind: Kind
    vertices: tuple[Atom, ...]
    before: Atom | None = None
    after: Atom | None = None
    bias: Atom | None = None

    @property
    def has_heads(self) -> bool:
        """Whether the vertices are heads of attention."""
        return self.vertices[0].head is not None

    @property
    def maps(self) -> tuple[Atom, ...]:
        """The vertices, and the bias."""
        return self.vertices if self.bias is None else (*self.vertices, self.bias)

    def read(self, maps: tuple[Atom, ...]) -> Operator:
        """`(sum_v v) @ before` over some of the maps."""
        total = linear_combination((1, vertex) for vertex in maps)
        return total if self.before is None else total @ self.before

    def own(self, maps: tuple[Atom, ...]) -> tuple[Atom, ...]:
        """Those of the maps that belong to this branch, in its order."""
        return tuple(vertex for vertex in self.maps if vertex in maps)


@dataclass(frozen=True)
class Stage:
    """One residual step `after @ (1 + sum of branches)`, with a norm after it or None. Number and layer count from 1."""

    number: int
    layer: int
    branches: tuple[Branch, ...]
    after: Atom | None = None

    @property
    def follows(self) -> bool:
        """Whether a norm follows vertices of this stage."""
        return self.after is not None or any(branch.after is not None for branch in self.branches)

    @cached_property
    def vertices(self) -> tuple[Atom, ...]:
        """The vertices of all branches."""
        return tuple(vertex for branch in self.branches for vertex in branch.vertices)

    @cached_property
    def maps(self) -> tuple[Atom, ...]:
        """The vertices and biases of all branches."""
        return tuple(vertex for branch in self.branches for vertex in branch.maps)

    @property
    def kind(self) -> Kind:
        """The kind of the first branch."""
        return self.branches[0].kind

    @property
    def norm(self) -> Atom | None:
        """The norm before the first branch."""
        return self.branches[0].before

    def branch(self, maps: tuple[Atom, ...]) -> Operator:
        """What the given vertices and biases of the stage add, each behind and before the norms of its branch."""
        parts = []
        for branch in self.branches:
            own = branch.own(maps)
            if own:
                parts.append((1, branch.read(own) if branch.after is None else branch.after @ branch.read(own)))
        return linear_combination(parts)

    @cached_property
    def sum(self) -> Operator:
        """`1 + sum of branches`, before the norm after the stage."""
        return 1 + self.branch(self.maps)

    @cached_property
    def factor(self) -> Operator:
        """The whole step."""
        return self.sum if self.after is None else self.after @ self.sum
