"""A network as one resolvent: with the states of all depths side by side, `(1 - N)^-1` has all forward passes as blocks.

On the direct sum of the spaces of the states 0, ..., L let `N = sum of inj_l @ T_l @ proj_(l-1)`, which is block strictly
lower, and let `G(l, m) = T_l @ ... @ T_(m+1)` be the propagator from depth m to depth l. Then

    (1 - N)^-1 = 1 + N @ (1 - N)^-1                     for every map, see `resolvent_identity`
    (1 - N)^-1 @ inj_0 = sum of inj_l @ G(l, 0)         for every map: all states from the first one
    (1 - N)^-1 = sum over l >= m of inj_l @ G(l, m) @ proj_m          for linear layers
    N^(L+1) = 0  and  (1 - N)^-1 = 1 + N + ... + N^L                  for linear layers
    G(l, l) = 1      G(l, k) @ G(k, m) = G(l, m) for m <= k <= l

each a theorem under the facts of the direct sum. Dressed layers are linear. Layers are never expanded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import final

from opalgebra.direct_sum import DirectSum, direct_sum
from opalgebra.errors import InputError
from opalgebra.expr import Identity, Index, Operator, check_operators, compose, linear_combination, ordered_product
from opalgebra.facts import Inverse
from opalgebra.indexed import OrderedProduct
from opalgebra.inverse import inverse
from opalgebra.kernel import Theorem, assume, cong, left_dist, refl, right_dist, sym, trans
from opalgebra.resolvent import claimed, for_letters, neumann, refuse_nonlinear
from opalgebra.rewrite import added
from opalgebra.scalar import as_scalar, is_surely_natural


def propagator(layers: Sequence[Operator] | Operator, later: Index, earlier: Index) -> Operator:
    """`G(later, earlier)`, the product of the layers above depth `earlier` up to depth `later`; 1 when they are equal.

    Of a sequence of layers T_1, T_2, ..., or of an ordered product over an index at symbolic depths. InputError unless
    later >= earlier, for symbols by their coefficients alone.

    >>> import opalgebra as oa
    >>> V, l, L, M = oa.family("V", kind="linear"), *map(oa.symbol, "lLM")
    >>> oa.propagator(oa.ordered_product(1 + V[l], l, 1, L + M), L + M, L)
    ordered_product(1 + V[l], l, L + 1, L + M) where V[]: linear
    """
    distance = as_scalar(later) - as_scalar(earlier)
    if not is_surely_natural(distance):
        raise InputError(f"G({later}, {earlier}): a propagator goes to later depths, and {distance} may be negative")
    if isinstance(layers, OrderedProduct):
        for room in (as_scalar(earlier) + 1 - as_scalar(layers.lower), as_scalar(layers.upper) - as_scalar(later)):
            if not is_surely_natural(room):
                raise InputError(f"G({later}, {earlier}) may leave the layers {layers.lower} to {layers.upper} of {layers}")
        return layers.between(as_scalar(earlier) + 1, later)
    if isinstance(layers, Operator):
        raise InputError(f"{layers} is no product over an index; pass that, or the sequence of layers T_1, T_2, ...")
    if not isinstance(layers, Sequence):
        raise InputError(f"{layers!r} is no sequence of layers; pass T_1, T_2, ... or an ordered product over an index")
    if not layers:
        raise InputError("a propagator of no layers has no space; pass the layers T_1, T_2, ...")
    if not isinstance(later, int) or not isinstance(earlier, int) or earlier < 0 or later > len(layers):
        raise InputError(f"G({later}, {earlier}): depths of these layers are numbers from 0 to {len(layers)}")
    check_operators(*layers)
    space = layers[0].domain if earlier == 0 else layers[earlier - 1].codomain
    return ordered_product(layers[earlier:later], space=space)


@final
@dataclass(frozen=True, repr=False)
class Network:
    """Layers T_1, ..., T_L, and the direct sum of the spaces of the states 0, ..., L."""

    layers: tuple[Operator, ...]
    states: DirectSum

    def __repr__(self) -> str:
        return f"Network({len(self.layers)} layers on the direct sum of {len(self.states.parts)} spaces)"

    @cached_property
    def operator(self) -> Operator:
        """`N`, which takes every state to the next."""
        return self.states.operator({(depth + 1, depth): layer for depth, layer in enumerate(self.layers)})

    @cached_property
    def resolvent(self) -> Operator:
        """`(1 - N)^-1`."""
        return inverse(1 - self.operator)

    def column(self, depth: int) -> Operator:
        """The sum of `inj_l @ G(l, depth)` over l from the depth on: all that a state there leads to."""
        depths = range(depth, len(self.layers) + 1)
        parts = ((1, self.states.injection(later) @ propagator(self.layers, later, depth)) for later in depths)
        return linear_combination(parts, self.states.parts[depth], self.states.space)


def network(layers: Iterable[Operator]) -> Network:
    """The network of layers, the first of which acts first. InputError without layers, SpaceError where they do not fit.

    >>> import opalgebra as oa
    >>> print(oa.network_states(oa.network(oa.atoms("F G", kind="nonlinear"))).rhs)
    inj0 + inj1 @ F + inj2 @ G @ F
    """
    given = tuple(layers) if isinstance(layers, Iterable) else ()
    if not given:
        raise InputError("a network has at least one layer; pass T_1, T_2, ... in the order in which they act")
    ordered_product(given)
    return Network(given, direct_sum(given[0].domain, *(layer.codomain for layer in given)))


def network_states(net: Network) -> Theorem:
    """`(1 - N)^-1 @ inj_0 = sum of inj_l @ G(l, 0)`, for every map: the resolvent holds every state of a forward pass."""
    _check(net)
    return _for_letters(lambda letters: _column(letters, 0), net)


def network_resolvent(net: Network) -> Theorem:
    """`(1 - N)^-1 = sum over l >= m of inj_l @ G(l, m) @ proj_m` for linear layers; NotLinearError for others."""
    _refuse_nonlinear(net)
    return _for_letters(_resolvent, net)


def _resolvent(net: Network) -> Theorem:
    return _over_columns(net, net.resolvent, [_column(net, depth) for depth in range(len(net.states.parts))])


def network_nilpotent(net: Network) -> Theorem:
    """`N^(L+1) = 0` for linear layers, L of them; NotLinearError for others, since they may send 0 to something else."""
    _refuse_nonlinear(net)
    return _for_letters(_nilpotent, net)


def _nilpotent(net: Network) -> Theorem:
    depths = range(len(net.states.parts))
    steps = [_moved(net, depth) for depth in depths]
    columns = []
    for depth in depths:
        proof = refl(net.states.injection(depth))
        for power in range(len(depths)):
            pushed = cong(compose, net.operator, proof)
            if depth + power < len(depths):
                step = cong(compose, steps[depth + power], propagator(net.layers, depth + power, depth))
                pushed = trans(pushed, step)
            else:
                pushed = trans(pushed, left_dist(net.operator, proof.rhs))
            proof = pushed
        columns.append(proof)
    return _over_columns(net, net.operator ** len(depths), columns)


def network_neumann(net: Network) -> Theorem:
    """`(1 - N)^-1 = 1 + N + ... + N^L` for linear layers; NotLinearError for others."""
    _refuse_nonlinear(net)
    return _for_letters(_neumann, net)


def _neumann(net: Network) -> Theorem:
    vanishing = cong(compose, _nilpotent(net), net.resolvent)
    series = neumann(net.operator, len(net.states.parts))
    return trans(series, cong(add, refl(series.rhs - vanishing.lhs), vanishing))


def _for_letters(prove: Callable[[Network], Theorem], net: Network) -> Theorem:
    return for_letters(lambda *layers: prove(Network(layers, net.states)), *net.layers)


def _check(net: Network) -> None:
    if not isinstance(net, Network):
        raise InputError(f"{net!r} is no network; build one of its layers with network([T_1, T_2, ...])")


def _refuse_nonlinear(net: Network) -> None:
    _check(net)
    refuse_nonlinear(*net.layers, needs="this theorem, unlike network_states,")


def _moved(net: Network, depth: int) -> Theorem:
    """`N @ inj_m = inj_(m+1) @ T_(m+1)`, and 0 at the last depth, for linear layers."""
    state = net.states.injection(depth)
    return trans(right_dist(net.operator, state), _applied(net, state, {depth: Identity(state.domain)}))


def _applied(net: Network, states: Operator, known: dict[int, Operator]) -> Theorem:
    """`sum of inj_l @ T_l @ proj_(l-1) @ H = sum of inj_l @ T_l @ H_(l-1)`, from the parts H_k of H that are not zero."""
    parts = []
    for depth, layer in enumerate(net.layers):
        projection = net.states.projection(depth)
        read = left_dist(projection, states)
        units = [cong(compose, assume(net.states.unit(depth, k)), inside) for k, inside in known.items()]
        value = trans(read, added(units))
        put = cong(compose, net.states.injection(depth + 1) @ layer, value)
        parts.append(put if depth in known else trans(put, left_dist(net.states.injection(depth + 1) @ layer, value.rhs)))
    return added(parts)


def _column(net: Network, depth: int) -> Theorem:
    """`(1 - N)^-1 @ inj_m = sum of inj_l @ G(l, m)`, from `(1 - N) @ column = inj_m`; linear layers unless m = 0."""
    column = net.column(depth)
    known = {later: propagator(net.layers, later, depth) for later in range(depth, len(net.states.parts))}
    minus = cong(compose, refl(-1 * Identity(net.states.space)), _applied(net, column, known))
    solved = trans(right_dist(1 - net.operator, column), cong(add, refl(column), minus))
    claimed(solved, (1 - net.operator) @ column, net.states.injection(depth))
    back = cong(compose, assume(Inverse(1 - net.operator), "left"), column)
    return trans(sym(cong(compose, net.resolvent, solved)), back)


def _over_columns(net: Network, operator: Operator, columns: Sequence[Theorem]) -> Theorem:
    """From `A @ inj_m = C_m` for every m, `A = sum of C_m @ proj_m`, for linear A."""
    whole = cong(compose, operator, assume(net.states.completeness))
    parts = [cong(compose, theorem, net.states.projection(depth)) for depth, theorem in enumerate(columns)]
    return trans(sym(whole), trans(left_dist(operator, net.states.completeness.lhs), added(parts)))
