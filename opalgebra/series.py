"""The Dyson series of an ordered product of stages, graded by the vertices one chooses to count; never listed to be counted.

A stage s acts as `1 + sum_v v @ n_s` with vertices v behind a norm n_s; norms may also follow the vertices of a branch, or
the whole stage. On the state x[0] every vertex and norm is dressed by what it really reads, and choosing at each stage
either one counted vertex or none gives

    x[n] = sum over k of S[k],    S[k] = sum of terms(k) @ x[0] + sum of sources(k).

Vertices that are not counted are resummed into the propagator: a stage where nothing was chosen acts as `1` plus its
uncounted vertices, behind the norm after it. A source has the order of the counted vertices it passed, the one that
emitted it included; the source of a norm after vertices, its shift, is born with order 0. Where heads are vertices, the bias
that belongs to none of them is a map of its own, never chosen; its source counts when every head does.
The number of selections of order k is the coefficient of z^k in `prod_s (1 + n_s z)`, n_s the counted vertices of s.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import comb, prod

from opalgebra.display import Displayed
from opalgebra.dressing import dressed, source
from opalgebra.errors import InputError, LimitError
from opalgebra.expr import Atom, Identity, Operator, linear_combination, ordered_product
from opalgebra.kernel import Theorem
from opalgebra.ladder import Step, climbed, ladder_theorem
from opalgebra.scalar import is_natural
from opalgebra.space import ONE, Kind, X
from opalgebra.stage import Branch, Stage

Counting = str | Callable[[Atom], bool]
LIMIT = 200_000


def counter(counting: Counting) -> Callable[[Atom], bool]:
    """The predicate on vertices that `counting` names: "all", "attention", "ffn", or a predicate itself."""
    if callable(counting):
        return counting
    choices: dict[str, Callable[[Atom], bool]] = {
        "all": lambda vertex: True,
        "attention": lambda vertex: vertex.kind == Kind.ATTENTION,
        "ffn": lambda vertex: vertex.kind == Kind.FFN,
    }
    if not isinstance(counting, str) or counting not in choices:
        raise InputError(f"counting={counting!r} is unknown; use {', '.join(choices)}, or a predicate on vertices")
    return choices[counting]


def check_order(order: int | None) -> None:
    """InputError unless `order` is None or a natural number."""
    if order is not None and not is_natural(order):
        raise InputError(f"order={order!r}: a truncation order is a natural number; leave it out for all orders")


@cache
def _coefficient(sizes: tuple[tuple[int, int], ...], order: int) -> int:
    """The coefficient of z^order in the product of `(1 + n z)^m` over the pairs (n, m)."""
    if order < 0 or order > sum(times for _, times in sizes):
        return 0
    if not sizes:
        return 1
    *others, (n, m) = sizes
    left = tuple(others)
    if not left:
        return comb(m, order) * int(n**order)
    return sum(comb(m, k) * int(n**k) * _coefficient(left, order - k) for k in range(min(m, order) + 1))


@dataclass(frozen=True)
class Series(Displayed):
    """A lazy graded sum with exact counts. `states[s]` is the state after stage s; `states[0]` the initial one.

    `order` truncates: higher orders are refused and `total` counts the kept ones.
    """

    stages: tuple[Stage, ...]
    states: tuple[Operator, ...]
    counting: Counting = "all"
    order: int | None = None
    counted: tuple[tuple[Atom, ...], ...] = field(init=False, repr=False)

    __repr__ = Displayed.__repr__

    def __post_init__(self) -> None:
        check_order(self.order)
        chosen = counter(self.counting)
        counted = tuple(tuple(v for v in stage.vertices if chosen(v)) for stage in self.stages)
        object.__setattr__(self, "counted", counted)

    @cached_property
    def max_order(self) -> int:
        """The highest order with terms: the number of stages with a counted vertex, or the truncation."""
        full = sum(1 for vertices in self.counted if vertices)
        return full if self.order is None else min(full, self.order)

    @property
    def is_exact(self) -> bool:
        """Whether the kept orders are all orders."""
        return self.max_order == sum(1 for vertices in self.counted if vertices)

    @property
    def is_complete(self) -> bool:
        """Whether every vertex is counted."""
        return all(len(stage.vertices) == len(vertices) for stage, vertices in zip(self.stages, self.counted))

    @property
    def is_bare(self) -> bool:
        """Whether a stage where nothing was chosen is the identity: all is counted, no norm follows a vertex."""
        return self.is_complete and not any(stage.follows or len(stage.maps) > len(stage.vertices) for stage in self.stages)

    @cached_property
    def _sizes(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """After the first s stages: how many of the later ones have each positive number of counted vertices."""
        rest: Counter[int] = Counter()
        rows: list[tuple[tuple[int, int], ...]] = [()]
        for vertices in reversed(self.counted):
            if vertices:
                rest[len(vertices)] += 1
            rows.append(tuple(sorted(rest.items())))
        return tuple(reversed(rows))

    def _count(self, passed: int, order: int) -> int:
        return _coefficient(self._sizes[passed], order)

    def _checked(self, order: int) -> int:
        if not is_natural(order):
            raise InputError(f"order {order!r} of a series was asked; an order is a natural number")
        if self.order is not None and order > self.order:
            raise InputError(f"order {order} was asked of a series truncated at order {self.order}; raise order=")
        return order

    @cached_property
    def total(self) -> int:
        """The number of vertex selections of all kept orders."""
        if self.is_exact:
            return prod(1 + len(vertices) for vertices in self.counted)
        return sum(self._count(0, order) for order in range(self.max_order + 1))

    def count(self, order: int) -> int:
        """The number of vertex selections of this order, exact."""
        return self._count(0, self._checked(order))

    def source_count(self, order: int) -> int:
        """The number of states in `sources(order)`, exact."""
        return sum(self._count(stage.number, left) for stage, _, left in self.births(self._checked(order)))

    def births(self, order: int) -> Iterator[tuple[Stage, Atom, int]]:
        """(stage, what emits there, counted vertices still to pass): every vertex, bias and norm after vertices."""
        for stage, counted in zip(self.stages, self.counted):
            for branch in stage.branches:
                for vertex in branch.vertices:
                    yield stage, vertex, order - (vertex in counted)
                if branch.bias is not None:
                    yield stage, branch.bias, order - all(vertex in counted for vertex in branch.vertices)
                if branch.after is not None:
                    yield stage, branch.after, order
            if stage.after is not None:
                yield stage, stage.after, order

    def selection(self, order: int, rank: int) -> tuple[Atom, ...]:
        """The vertices of one selection, earliest first. Rank 0 takes the earliest vertices; later ranks move up."""
        return self._selection(0, self._checked(order), rank)

    def _selection(self, passed: int, order: int, rank: int) -> tuple[Atom, ...]:
        if not 0 <= rank < self._count(passed, order):
            raise InputError(
                f"rank {rank} of order {order} was asked of {self._count(passed, order):,} selections; ranks count from 0"
            )
        chosen: list[Atom] = []
        for s in range(passed, len(self.stages)):
            block = self._count(s + 1, order - len(chosen) - 1)
            index, within = divmod(rank, block) if block else (len(self.counted[s]), 0)
            if index < len(self.counted[s]):
                chosen.append(self.counted[s][index])
                rank = within
            else:
                rank -= len(self.counted[s]) * block
        return tuple(chosen)

    def dressed_vertex(self, stage: Stage, maps: tuple[Atom, ...]) -> Operator:
        """What maps of a stage add, as a linear operator: each norm and vertex dressed by what it really reads."""
        here = self.states[stage.number - 1]
        parts = []
        for branch in stage.branches:
            own = branch.own(maps)
            if own:
                parts.append((1, self._after(branch, here) @ dressed(branch.read(own), here)))
        return linear_combination(parts)

    def _after(self, branch: Branch, here: Operator) -> Operator:
        """The norm after a branch, dressed by the sum of all its maps; the identity without one."""
        return Identity(X) if branch.after is None else dressed(branch.after, branch.read(branch.maps) @ here)

    def _line(self, stage: Stage) -> Operator:
        """The norm after a stage, dressed: what every part of the state passes there; the identity without one."""
        return Identity(X) if stage.after is None else dressed(stage.after, stage.sum @ self.states[stage.number - 1])

    def born(self, stage: Stage, emitter: Atom) -> Operator:
        """The state that a vertex, a bias or a norm leaves over, carried to the end of its stage."""
        here = self.states[stage.number - 1]
        if emitter is stage.after:
            return source(emitter, stage.sum @ here)
        for branch in stage.branches:
            if emitter is branch.after:
                return self._line(stage) @ source(emitter, branch.read(branch.maps) @ here)
            if emitter in branch.maps:
                break
        return self._line(stage) @ self._after(branch, here) @ source(branch.read((emitter,)), here)

    def propagator(self, selection: tuple[Atom, ...], passed: int = 0) -> Operator:
        """The dressed operator of one selection over the stages after the first `passed`."""
        chosen: dict[int, list[Atom]] = {}
        for vertex in selection:
            chosen.setdefault(self._places[vertex], []).append(vertex)
        factors: list[Operator] = []
        for place in range(passed, len(self.stages)):
            stage = self.stages[place]
            if place in chosen:
                factors += [self._counted_vertex(stage, tuple(chosen[place])), self._line(stage)]
            else:
                factors += self._passing[place]
        return ordered_product(factors, space=X)

    def _counted_vertex(self, stage: Stage, vertices: tuple[Atom, ...]) -> Operator:
        """`dressed_vertex`, kept for single vertices."""
        if len(vertices) > 1:
            return self.dressed_vertex(stage, vertices)
        if vertices[0] not in self._single:
            self._single[vertices[0]] = self.dressed_vertex(stage, vertices)
        return self._single[vertices[0]]

    @cached_property
    def _single(self) -> dict[Atom, Operator]:
        return {}

    @cached_property
    def _places(self) -> dict[Atom, int]:
        """The place of each vertex's stage."""
        return {vertex: place for place, stage in enumerate(self.stages) for vertex in stage.vertices}

    @cached_property
    def _passing(self) -> tuple[list[Operator], ...]:
        """The factors of each stage from which no vertex is chosen, identities left out."""
        found = []
        for stage, counted in zip(self.stages, map(set, self.counted)):
            resummed = tuple(vertex for vertex in stage.maps if vertex not in counted)
            factors = [1 + self.dressed_vertex(stage, resummed)] if resummed else []
            found.append([factor for factor in (*factors, self._line(stage)) if not isinstance(factor, Identity)])
        return tuple(found)

    def term(self, order: int, rank: int) -> Operator:
        """The operator of one selection; apply it to `states[0]`."""
        return self.propagator(self.selection(order, rank))

    def terms(self, order: int) -> Iterator[Operator]:
        """The operators of all selections of this order, in order of rank, one at a time."""
        return (self.term(order, rank) for rank in range(self.count(order)))

    def sources(self, order: int) -> Iterator[Operator]:
        """States: a source of any vertex or of a norm after vertices, followed by a selection of later stages."""
        for stage, emitter, left in self.births(self._checked(order)):
            count = self._count(stage.number, left)
            if count:
                born = self.born(stage, emitter)
                for rank in range(count):
                    yield self.propagator(self._selection(stage.number, left, rank), stage.number) @ born

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        """Each stage, dressed by the state before it, with its sources by order."""
        born: dict[int, tuple[list[Operator], list[Operator]]] = {stage.number: ([], []) for stage in self.stages}
        for stage, emitter, left in self.births(1):
            born[stage.number][1 - left].append(self.born(stage, emitter))
        steps = []
        for stage, counted in zip(self.stages, self.counted):
            line, through = ordered_product(self._passing[stage.number - 1], space=X), self._line(stage)
            chosen = through @ self.dressed_vertex(stage, counted) if counted else None
            resummed, own = (linear_combination(((1, part) for part in parts), ONE, X) for parts in born[stage.number])
            steps.append(Step(stage.factor, line, chosen, (resummed, own)))
        return tuple(steps)

    @cached_property
    def unexpanded(self) -> tuple[Operator, ...]:
        """The states `S[k]` as the recurrence `y_k <- line @ y_k + counted @ y_{k-1} + sources` gives them, not written out.

        They share their parts, so that thirty layers have them in seconds. InputError for a truncated series.
        """
        self._refuse_truncated()
        orders: tuple[Operator, ...] = (self.states[0],)
        for step in self._steps:
            orders = climbed(orders, step)
        return orders

    def theorem(self) -> Theorem:
        """`states[-1] = sum over k of S[k]`, with each `S[k]` as in `unexpanded`, proved. InputError for a truncated series.

        >>> import opalgebra as oa
        >>> print(oa.transformer(1, norms="absorbed").dyson().theorem())  # doctest: +ELLIPSIS
        |- (1 + F1) @ x1 = x + ... where x1 = (1 + A1) @ x
        """
        self._refuse_truncated()
        return ladder_theorem(self.states[0], self._steps)

    def _refuse_truncated(self) -> None:
        if not self.is_exact:
            raise InputError(f"a series truncated at order {self.order} is not the state; leave out order=")

    @cached_property
    def undressed(self) -> tuple[Operator, ...]:
        """The states `y_k` of the recurrence `y_k <- y_k + V @ y_{k-1}` with the bare vertices, every one counted.

        For linear vertices and norms their sum is `states[-1]`; for nonlinear ones it is not, which `verify` shows.
        """
        parts = [self.states[0]]
        for stage in self.stages:
            branch = stage.branch(stage.maps)
            moved = [branch @ part for part in parts]
            parts = [parts[0], *(part + below for part, below in zip(parts[1:], moved)), moved[-1]]
            if stage.after is not None:
                parts = [stage.after @ part for part in parts]
        return tuple(parts)

    def __iter__(self) -> Iterator[Operator]:
        """The states `S[k]` of all kept orders."""
        return (self[order] for order in range(self.max_order + 1))

    def __getitem__(self, order: int) -> Operator:
        """The state `S[k]`: all terms of this order on the initial state, and its sources. LimitError when too many."""
        size = self.count(order) + self.source_count(order)
        if size > LIMIT:
            raise LimitError(
                f"order {order} has {size:,} terms and the limit of a written sum is {LIMIT:,}; iterate over terms({order}) "
                "and sources, or evaluate all orders at once with a binding's orders()"
            )
        parts = [(1, term @ self.states[0]) for term in self.terms(order)]
        parts += [(1, state) for state in self.sources(order)]
        return linear_combination(parts, ONE, X)
