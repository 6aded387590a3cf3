"""What an operator expression is: a few immutable nodes, and constructors that apply only laws valid for ALL maps.

Maps form a near-ring under pointwise `+` and composition `@`. The constructors below use, without asking whether a map
is linear:

    (A + B) + C = A + (B + C)      A + B = B + A      A + 0 = A      a A + b A = (a + b) A
    (A @ B) @ C = A @ (B @ C)      1 @ A = A = A @ 1      0 @ A = 0      (c A) @ B = c (A @ B)

and nothing else: `(A + B) @ C = A @ C + B @ C` also always holds but is left to `expand`, and `C @ (A + B)`,
`C @ (c A)` and `C @ 0` stay as written. A state is an operator out of the one-point space `ONE`.

Nodes are interned: equal expressions are one object, so `==` is identity, hashing is free and shared subterms are
stored once. Kind and spaces are part of equality. Compositions are right-nested pairs, so `h_l = (1 + V_l) @ h_{l-1}`
shares `h_{l-1}`. Every traversal is iterative: a product of 10,000 factors works.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from numbers import Complex, Number, Real
from typing import Any, ClassVar, NoReturn, TypeVar, final
from weakref import WeakValueDictionary

from opalgebra.display import Displayed, render
from opalgebra.errors import InputError, LimitError, SpaceError
from opalgebra.scalar import (
    LONGEST_NAME,
    RESERVED,
    Polynomial,
    Scalar,
    ScalarLike,
    Symbol,
    as_scalar,
    free_symbols,
    is_natural,
    is_scalar,
    largest_integer,
)
from opalgebra.space import ONE, Kind, Space, X, check_spaces

_ONE = Fraction(1)
_NAME = re.compile(r"(?P<base>[^\W\d]\w*?)(?P<indices>(?:0|[1-9][0-9]*)(?:_(?:0|[1-9][0-9]*))*)?")
_LARGEST = 10**1000
_LONGEST_POWER = 100_000

Node = TypeVar("Node", bound="Operator")
Terms = tuple[tuple[Scalar, "Operator"], ...]
Index = int | Polynomial


def _part(index: int) -> Any:
    return property(lambda node: node.fields[index])


class Operator(Displayed):
    """An immutable map `domain -> codomain`, or a state when `domain` is `ONE`; abstract.

    Built from atoms with `@` (composition, the right factor acts first), `+`, `-` and `*` (an exact scalar on the
    left). A scalar `c` in a sum stands for `c` times the identity. `is_linear` says what the kinds of the atoms prove.
    """

    __slots__ = ("__weakref__", "codomain", "digest", "domain", "fields", "height", "is_linear", "symbols")
    _interned: ClassVar[WeakValueDictionary[tuple[Any, ...], "Operator"]] = WeakValueDictionary()
    is_multilinear: ClassVar[bool] = False
    __array_ufunc__: ClassVar[None] = None

    domain: Space
    codomain: Space
    is_linear: bool
    digest: bytes
    fields: tuple[Any, ...]
    symbols: frozenset[Symbol]
    height: int

    def __new__(cls, *_: Any, **__: Any) -> Any:
        raise InputError(f"{cls.__name__} is built by @, +, dressed and source, not by its class; use those")

    @classmethod
    def _intern(
        cls: type[Node], fields: tuple[Any, ...], domain: Space, codomain: Space, is_linear: bool, *, level: int = 0
    ) -> Node:
        """The one node with these fields. A binder of an index has a `level`, above those of the binders inside it."""
        key = (cls, fields)
        known = Operator._interned.get(key)
        if known is not None:
            return known  # type: ignore[return-value]
        node = object.__new__(cls)
        operators, scalars = flattened(fields)
        symbols = frozenset().union(*(part.symbols for part in operators), *map(free_symbols, scalars))
        for name, value in (
            ("domain", domain), ("codomain", codomain), ("is_linear", is_linear), ("fields", fields),
            ("digest", blake2b(cls.__name__.encode() + _encode(fields), digest_size=16).digest()),
            ("symbols", symbols - {bound_symbol(level)} if level else symbols),
            ("height", max((level, *(part.height for part in operators)))),
        ):  # fmt: skip
            object.__setattr__(node, name, value)
        return Operator._interned.setdefault(key, node)  # type: ignore[return-value]

    @classmethod
    def _rebuilt(cls, *fields: Any) -> "Operator":
        """The operator with these fields in place of a node's own, by the laws of its constructor."""
        return cls._make(*fields)  # type: ignore[attr-defined, no-any-return]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"operators are immutable: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return from_table, (table(self),)

    def __repr__(self) -> str:
        return render("declared", self)

    @property
    def is_state(self) -> bool:
        """Whether this is a map out of the one-point space."""
        return self.domain == ONE

    @property
    def parts(self) -> "tuple[Operator, ...]":
        """The operators that this one is made of, apart from backgrounds and what stands under a binder.

        A node is a function of its parts; it is linear in each of them when `is_multilinear`.
        """
        return ()

    def remade(self, parts: "Sequence[Operator]") -> "Operator":
        """The same function of other parts, by the laws of the constructor."""
        return self

    def _composed(self, right: "Operator") -> "Operator":
        """`self @ right` when neither is an identity, a zero, a composition on the left, or a multiple on the left."""
        return Compose._make(self, right)

    @property
    def bodies(self) -> "tuple[Operator, ...]":
        """What stands under the binder of an index, with the index as a symbol; empty for most nodes."""
        return ()

    @property
    def kind(self) -> Kind:
        """`linear`, `nonlinear` or `state`; an atom may have a more telling kind."""
        if self.is_state:
            return Kind.STATE
        return Kind.LINEAR if self.is_linear else Kind.NONLINEAR

    @property
    def atoms(self) -> tuple["Atom", ...]:
        """Every atom in the expression, backgrounds included, in order of name and numeric index."""
        found = (node for node in postorder(self, backgrounds=True, bodies=True) if isinstance(node, Atom))
        return tuple(sorted(found, key=lambda atom: atom.sort_key))

    def __matmul__(self, other: "Operator") -> "Operator":
        return compose(self, other) if isinstance(other, Operator) else _not_composed(other)

    def __rmatmul__(self, other: object) -> NoReturn:
        return _not_composed(other)  # type: ignore[misc]

    def __add__(self, other: "Operator | ScalarLike") -> "Operator":
        return _plus(1, self, other)

    def __sub__(self, other: "Operator | ScalarLike") -> "Operator":
        return _plus(-1, self, other)

    def __radd__(self, other: ScalarLike) -> "Operator":
        return _plus(1, self, other)

    def __rsub__(self, other: ScalarLike) -> "Operator":
        return _plus(1, -self, other)

    def __neg__(self) -> "Operator":
        return -1 * self

    def __rmul__(self, scalar: ScalarLike) -> "Operator":
        if not is_scalar(scalar):
            return _no_coefficient(scalar)  # type: ignore[no-any-return]
        return linear_combination([(scalar, self)], self.domain, self.codomain)

    def __mul__(self, other: object) -> NoReturn:
        raise InputError("'*' multiplies by a scalar on the left and is not composition; write 2 * A, or A @ B")

    def __truediv__(self, other: object) -> NoReturn:
        if isinstance(other, Operator):
            raise InputError("'/' would have two meanings for operators; write inverse(B) @ A, or A @ inverse(B)")
        share = f"Fraction(1, {other})" if isinstance(other, int) and other else "(1/c)"
        raise InputError(f"'/' divides scalars alone, and a multiple has its scalar on the left; write {share} * A")

    def __rtruediv__(self, other: object) -> NoReturn:
        raise InputError("'/' divides by scalars alone; write inverse(A) for an operator")

    def __pow__(self, exponent: int) -> "Operator":
        if not is_natural(exponent):
            raise InputError(f"a power of an operator is a natural number, not {exponent!r}; use repeated @")
        if self.domain != self.codomain:
            raise SpaceError(f"{self} maps {self.domain} to {self.codomain}; only a map of a space to itself has powers")
        if exponent > _LONGEST_POWER:
            raise LimitError(f"a power would have {exponent:,} factors, more than {_LONGEST_POWER:,}; use ordered_product")
        return ordered_product([self] * exponent, space=self.domain)


@final
class Identity(Operator):
    """The identity of a space."""

    __slots__ = ()

    def __new__(cls, space: Space = X) -> "Identity":
        check_spaces(space)
        if space == ONE:
            raise SpaceError("an identity of the one-point space was asked, but that is no space of vectors; use a state")
        return cls._intern((space,), space, space, True)

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return cls(*fields)


@final
class Zero(Operator):
    """The map that sends everything to zero; out of `ONE`, the zero state."""

    __slots__ = ()

    def __new__(cls, domain: Space = X, codomain: Space = X) -> "Zero":
        check_spaces(domain, codomain)
        if codomain == ONE:
            raise SpaceError("a zero into the one-point space was asked, but that is no space of vectors; use K")
        return cls._intern((domain, codomain), domain, codomain, domain != ONE)

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return cls(*fields)


@final
class Atom(Operator):
    """A named operator or state. A name ends in its indices: `V3` has index 3, `A2_1` has layer 2 and head 1.

    `kind` is one of `linear`, `nonlinear`, `state`, or a part of a Transformer (`attention`, `ffn`, `norm`: nonlinear).
    A member of a family may have an index without a value, `V[l]`.
    """

    __slots__ = ()

    def __new__(cls, name: str, *, kind: str, domain: Space | None = None, codomain: Space = X) -> "Atom":
        return cls._make(*split_name(name), kind, domain, codomain)

    @classmethod
    def _make(
        cls, base: str, indices: tuple[Index, ...], kind: str, domain: Space | None = None, codomain: Space = X
    ) -> "Atom":
        name = _atom_name(base, indices)
        if kind not in list(Kind):
            shown = repr(kind) if len(repr(kind)) <= LONGEST_NAME else f"{repr(kind)[:20]}..."
            raise InputError(f"{name}: the kind {shown} is unknown; use one of {', '.join(Kind)}")
        is_state = kind == Kind.STATE
        domain = (ONE if is_state else X) if domain is None else domain
        check_spaces(domain, codomain)
        if (domain == ONE) != is_state or codomain == ONE:
            raise SpaceError(f"{name}: {domain} -> {codomain} is no {kind} operator; only a state is a map out of ONE")
        return cls._intern((base, indices, Kind(kind), domain, codomain), domain, codomain, kind == Kind.LINEAR)

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        base, indices, kind, domain, codomain = fields
        return cls._make(base, tuple(as_index(index, of=base) for index in indices), kind, domain, codomain)

    base: str = _part(0)
    """The name without its indices."""
    indices: tuple[Index, ...] = _part(1)
    kind: Kind = _part(2)

    @property
    def name(self) -> str:
        """The base and the indices: `V3`, `A2_1`, or `V[l + 1]` where an index has no value yet."""
        return _atom_name(self.base, self.indices)

    @property
    def layer(self) -> Index | None:
        """The first index: the layer of a vertex, counted from 1."""
        return self.indices[0] if self.indices else None

    @property
    def head(self) -> Index | None:
        """The second index: the head of an attention vertex, counted from 0."""
        return self.indices[1] if len(self.indices) > 1 else None

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Orders atoms by base name, then by numeric index: V2 before V10."""
        indices = tuple((isinstance(i, Polynomial), i if isinstance(i, int) else str(i)) for i in self.indices)
        return (self.base, indices, str(self.kind), self.digest)


@final
class Sum(Operator):
    """A linear combination of different operators that are themselves no sums; `2 A` is a sum of one term."""

    __slots__ = ()

    @classmethod
    def _make(cls, *terms: tuple[Scalar, Operator]) -> "Sum":
        if any(largest_integer(c) >= _LARGEST for c, _ in terms):
            raise LimitError("a coefficient would have more than 1,000 digits; use scalars with fewer")
        first = terms[0][1]
        return cls._intern(terms, first.domain, first.codomain, all(term.is_linear for _, term in terms))

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return linear_combination(fields, fields[0][1].domain, fields[0][1].codomain)

    is_multilinear = True

    @property
    def terms(self) -> Terms:
        """Pairs (coefficient, operator), in an order fixed by their structure."""
        return self.fields

    @property
    def parts(self) -> tuple[Operator, ...]:
        return tuple(term for _, term in self.fields)

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return linear_combination(((c, part) for (c, _), part in zip(self.terms, parts)), self.domain, self.codomain)


@final
class Compose(Operator):
    """`left @ right`: right acts first, and left is no composition."""

    __slots__ = ()

    @classmethod
    def _make(cls, left: Operator, right: Operator) -> "Compose":
        return cls._intern((left, right), right.domain, left.codomain, left.is_linear and right.is_linear)

    @classmethod
    def _rebuilt(cls, *fields: Any) -> Operator:
        return compose(*fields)

    left: Operator = _part(0)
    right: Operator = _part(1)

    @property
    def parts(self) -> tuple[Operator, ...]:
        return self.fields

    def remade(self, parts: Sequence[Operator]) -> Operator:
        return compose(*parts)


@final
class Dressed(Operator):
    """`F<s>`: the linear part of a nonlinear atom F at the state s. A binding's split gives it a value."""

    __slots__ = ()

    @classmethod
    def _make(cls, operator: Atom, state: Operator) -> "Dressed":
        return cls._intern((operator, state), operator.domain, operator.codomain, True)

    operator: Atom = _part(0)
    state: Operator = _part(1)


@final
class Source(Operator):
    """`f<s>`: the state that is left over in `F @ s = F<s> @ s + f<s>`, for a nonlinear atom F."""

    __slots__ = ()

    @classmethod
    def _make(cls, operator: Atom, state: Operator) -> "Source":
        return cls._intern((operator, state), ONE, operator.codomain, False)

    operator: Atom = _part(0)
    state: Operator = _part(1)


def check_operators(*values: object) -> None:
    """InputError for the first value that is no operator."""
    for value in values:
        if not isinstance(value, Operator):
            raise InputError(f"{value!r} is no operator; build one from atoms, or read a text with parse")


def bound_symbol(level: int) -> Symbol:
    """The symbol that a binder of this level binds; no symbol of a user has its name."""
    return Symbol(f"#{level}", "natural")


def is_bound(symbol: Symbol) -> bool:
    """Whether a symbol is one that binders bind."""
    return symbol.name.startswith("#")


def as_index(value: Any, *, of: str) -> Index:
    """A natural number, or a polynomial with integer coefficients in natural symbols. InputError for anything else."""
    if isinstance(value, int | Fraction) and value >= _LARGEST:
        raise LimitError(f"an index of {of} would have more than 1,000 digits; use a smaller one, or a symbol")
    if isinstance(value, Polynomial):
        if all(c.denominator == 1 and all(s.sort == "natural" and e > 0 for s, e in m) for m, c in value.terms):
            return value
    elif is_natural(value):
        return int(value)
    elif isinstance(value, Fraction) and value.denominator == 1 and value >= 0:
        return value.numerator
    raise InputError(f"{of}[{value!r}]: an index is a natural number or made of symbols for them; use {of}[3] or symbol('l')")


def split_name(name: str) -> tuple[str, tuple[int, ...]]:
    """The base and the indices of the name of an atom. InputError for what is no name."""
    if isinstance(name, str) and len(name) > LONGEST_NAME:
        raise InputError(f"{name[:20]!r}... has {len(name):,} characters; a name has at most {LONGEST_NAME}")
    split = _NAME.fullmatch(name) if isinstance(name, str) else None
    if split is None or name in RESERVED:
        raise InputError(f"{name!r} is no name of an operator; use letters and then indices, as in V3 or A2_1")
    return split["base"], tuple(map(int, split["indices"].split("_"))) if split["indices"] else ()


def _atom_name(base: str, indices: tuple[Index, ...]) -> str:
    if all(isinstance(index, int) for index in indices):
        return base + "_".join(map(str, indices))
    return f"{base}[{', '.join(map(str, indices))}]"


def flattened(value: Any) -> tuple[list[Operator], list[Polynomial]]:
    """The operators and the symbolic scalars among the fields of a node."""
    operators: list[Operator] = []
    scalars: list[Polynomial] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting += item
        elif isinstance(item, Operator):
            operators.append(item)
        elif isinstance(item, Polynomial):
            scalars.append(item)
    return operators, scalars


def _encode(value: Any) -> bytes:
    if isinstance(value, Operator):
        return value.digest
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_encode, value)) + b")"
    if isinstance(value, Polynomial):
        return _encode(value.terms)
    text = str(value).encode()
    return b"%d:%s" % (len(text), text)


def _plus(sign: int, operator: Operator, other: object) -> Operator:
    if is_scalar(other):
        if other == 0:
            return operator
        if operator.domain != operator.codomain:
            raise SpaceError(
                f"{other} in a sum is {other} times the identity, but {operator} maps {operator.domain} to "
                f"{operator.codomain}; add an operator or state with these spaces"
            )
        multiple = sign * as_scalar(other)  # type: ignore[arg-type]
        return linear_combination([(1, operator), (multiple, Identity(operator.domain))], operator.domain, operator.codomain)
    if not isinstance(other, Operator):
        return _no_coefficient(other)  # type: ignore[no-any-return]
    return linear_combination([(1, operator), (sign, other)], operator.domain, operator.codomain)


def _no_coefficient(value: object) -> Any:
    """NotImplemented for what may know of operators; InputError for a number of another kind, and for an array."""
    if hasattr(value, "__array__") and not isinstance(value, Number):
        what = f"an array ({type(value).__name__})"
        raise InputError(f"{what} is no operator and no coefficient; name an atom for it, and give lambdify the array")
    if isinstance(value, Number) and not isinstance(value, bool):
        imaginary = isinstance(value, Complex) and not isinstance(value, Real)
        use = "for i, declare J @ J = -1 of an atom J" if imaginary else "use an int, a Fraction, a float or a parameter"
        raise InputError(f"{value!r} is no coefficient, for these are exact and real; {use}")
    return NotImplemented


def _not_composed(value: object) -> Any:
    """As `_no_coefficient`, and InputError for a scalar."""
    if is_scalar(value):
        raise InputError(f"'@' composes operators, and {value} is a scalar; write c * A for a multiple, as in 2 * A")
    return _no_coefficient(value)


def linear_combination(terms: Iterable[tuple[ScalarLike, Operator]], domain: Space = X, codomain: Space = X) -> Operator:
    """The sum of `coefficient * operator` over the terms, collected; the zero map when nothing is left.

    Law: `(a A + b B)(v) = a A(v) + b B(v)` is the pointwise sum, so collecting equal operators holds for all maps.
    SpaceError when a term is not a map `domain -> codomain`.
    """
    collected: dict[Operator, Scalar] = {}
    for coefficient, operator in terms:
        if (operator.domain, operator.codomain) != (domain, codomain):
            raise SpaceError(
                f"{operator} maps {operator.domain} to {operator.codomain} and cannot be added to a map from {domain} "
                f"to {codomain}; the spaces of a sum are equal"
            )
        scale = as_scalar(coefficient)
        for inner, term in operator.terms if isinstance(operator, Sum) else ((_ONE, operator),):
            if not isinstance(term, Zero):
                share = inner if scale == 1 else scale * inner
                collected[term] = collected[term] + share if term in collected else share
    kept = sorted(((c, term) for term, c in collected.items() if c), key=lambda pair: pair[1].digest)
    if not kept:
        return Zero(domain, codomain)
    if len(kept) == 1 and kept[0][0] == 1:
        return kept[0][1]
    return Sum._make(*kept)


def compose(left: Operator, right: Operator) -> Operator:
    """`left @ right`, right-nested, by the laws of the module docstring. SpaceError when the spaces do not fit."""
    if left.domain != right.codomain:
        raise SpaceError(f"{left} acts on {left.domain}, but {right} maps to {right.codomain}; compose maps whose spaces fit")
    result = right
    work: list[Operator | Scalar] = [left]
    while work:
        item = work.pop()
        if not isinstance(item, Operator):
            result = item * result
        elif isinstance(item, Compose):
            work += (item.left, item.right)
        elif isinstance(item, Sum) and len(item.terms) == 1:
            work += item.terms[0]
        elif isinstance(item, Zero):
            result = Zero(result.domain, item.codomain)
        elif isinstance(result, Identity):
            result = item
        elif not isinstance(item, Identity):
            result = item._composed(result)
    return result


def ordered_product(factors: Iterable[Operator], *, space: Space | None = None) -> Operator:
    """The composition in which the first factor given acts first: `[A, B, C]` gives `C @ B @ A`.

    An empty product is the identity of `space`, which it then needs (SpaceError).
    """
    result: Operator | None = None
    if not isinstance(factors, Iterable):
        raise InputError(f"{factors!r} is no sequence of factors; write ordered_product([A, B, C]), where A acts first")
    for factor in factors:
        check_operators(factor)
        result = factor if result is None else compose(factor, result)
    if result is not None:
        return result
    if space is None:
        raise SpaceError("an empty product is the identity of a space that was not named; pass space=")
    return Identity(space)


def factors(operator: Operator) -> list[Operator]:
    """The factors of a composition from left to right."""
    found = []
    while isinstance(operator, Compose):
        found.append(operator.left)
        operator = operator.right
    return [*found, operator]


def terms(operator: Operator) -> Terms:
    """The terms of a linear combination as pairs (coefficient, operator); the zero map has none."""
    if isinstance(operator, Sum):
        return operator.terms
    return () if isinstance(operator, Zero) else ((_ONE, operator),)


def children(operator: Operator, *, backgrounds: bool, bodies: bool = False) -> tuple[Operator, ...]:
    """The direct parts of a node: what acts; the atom and state of a dressing too when `backgrounds` is true, and what
    stands under the binder of an index when `bodies` is.
    """
    if backgrounds and isinstance(operator, Dressed | Source):
        return operator.fields
    return operator.parts or (operator.bodies if bodies else ())


def postorder(
    *roots: Operator, backgrounds: bool, bodies: bool = False, holding: Iterable[Symbol] | None = None
) -> Iterator[Operator]:
    """Every node below the roots once, parts before wholes, without recursion; or only those that have one of some symbols."""
    wanted = None if holding is None else frozenset(holding)
    seen: set[Operator] = set()
    stack: list[tuple[Operator, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen and (wanted is None or not node.symbols.isdisjoint(wanted)):
            seen.add(node)
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(children(node, backgrounds=backgrounds, bodies=bodies)))


def at(operator: Operator, values: Mapping[Symbol, Scalar]) -> Operator:
    """The operator with values in place of symbols, everywhere, backgrounds and what stands under binders included.

    Law: an identity that holds for all values of a symbol holds for each. Bound indices are no symbols of the operator.
    InputError when an index or length would be no natural number.
    """
    done: dict[Operator, Operator] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(replaced, value))
        if isinstance(value, Operator):
            return done.get(value, value)
        return value.at(values) if isinstance(value, Polynomial) else value

    for node in postorder(operator, backgrounds=True, bodies=True, holding=values):
        done[node] = node._rebuilt(*replaced(node.fields))
    return done.get(operator, operator)


class Row(int):
    """The number of an earlier row in a table, as opposed to an index."""

    __slots__ = ()


def table(root: Operator) -> tuple[tuple[type[Operator], tuple[Any, ...]], ...]:
    """The expression as rows (class, fields), parts before wholes; in the fields a `Row` names an earlier row."""
    position: dict[Operator, Row] = {}

    def encoded(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(encoded, value))
        return position[value] if isinstance(value, Operator) else value

    rows = []
    for node in postorder(root, backgrounds=True, bodies=True):
        rows.append((type(node), encoded(node.fields)))
        position[node] = Row(len(position))
    return tuple(rows)


def from_table(rows: Iterable[tuple[type[Operator], tuple[Any, ...]]]) -> Operator:
    """The inverse of `table`: interns again, so that the result equals the original."""
    built: list[Operator] = []

    def decoded(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(decoded, value))
        return built[value] if isinstance(value, Row) else value

    for node, fields in rows:
        built.append(node._rebuilt(*decoded(fields)))
    return built[-1]
