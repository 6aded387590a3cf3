"""Models in which the hypotheses of each theorem of `proofs/` hold, exact modulo a prime; by none of the algebra's laws."""

from meaning import PRIME, Interpretation, add, apply, scale, times

import opalgebra as oa
from opalgebra.indexed import IndexedSum

LENGTH = 3
ENVIRONMENT = {
    "L": LENGTH, "T": LENGTH, "H": 2, "c": 7, "z": 11, "heads": 2, "t": 1, "g": 1, "h": 2, "i": 3, "j": 4,
}  # fmt: skip
INDICES = range(4 * LENGTH)


def over(a, b):
    return a * pow(b, -1, PRIME) % PRIME


def by_name(theorem, name):
    atoms = {
        atom.name: atom
        for side in (theorem.lhs, theorem.rhs, *(o for f in theorem.hypotheses for o in f.operators))
        for atom in side.atoms
    }
    return atoms[name]


def family_of(theorem, base):
    """The member of a family of the theorem at each index."""
    sides = (theorem.lhs, theorem.rhs, *(operator for fact in theorem.hypotheses for operator in fact.operators))
    found = next(atom for side in sides for atom in side.atoms if atom.base == base and atom.indices)
    return oa.family(base, kind=found.kind, domain=found.domain, codomain=found.codomain)


def matrix_map(matrix):
    return lambda vector: apply(matrix, vector)


def zero(size):
    return lambda vector: (0,) * size


def of_norm_scaling(theorem):
    N, M = (by_name(theorem, name) for name in "NM")
    plain = Interpretation(5)
    return Interpretation(5, maps={M: lambda v: plain.atom(N, scale(7, v))})


def of_norm_invariance(theorem):
    N, D = (by_name(theorem, name) for name in "ND")
    return Interpretation(5, maps={D: lambda v: scale(11, v), N: lambda v: (over(v[0], v[1]), over(v[0] ** 2, v[1] ** 2))})


def of_softmax(theorem):
    softmax, ones = (by_name(theorem, name) for name in ("softmax", "ones"))
    maps = {softmax: lambda y: (3 * (y[0] - y[1]) ** 3 % PRIME, (y[1] - y[0]) % PRIME), ones: lambda v: (v[0], v[0])}
    return Interpretation(5, maps=maps)


def of_centring(theorem):
    return Interpretation(5, maps={by_name(theorem, "M"): matrix_map(((3, 6), (PRIME - 1, PRIME - 2)))})


def of_rotary(theorem):
    """Rotations of a plane, with cosine and sine (1 - t^2, 2 t) / (1 + t^2), and maps that turn and scale it."""
    M, R = (family_of(theorem, base) for base in "MR")
    maps = {}
    for index in INDICES:
        slope = index + 2
        cosine, sine = over(1 - slope**2, 1 + slope**2), over(2 * slope, 1 + slope**2)
        maps[R[index]] = matrix_map(((cosine, -sine % PRIME), (sine, cosine)))
        maps[M[index]] = matrix_map(((index + 2, -5 % PRIME), (5, index + 2)))
    return Interpretation(5, maps=maps)


def of_gauge_attention(theorem):
    turned, pattern = (family_of(theorem, base) for base in "ba")
    plain = Interpretation(5)
    return Interpretation(5, maps={turned[k]: lambda v, k=k: plain.atom(pattern[k], v) for k in INDICES})


def of_frozen(theorem):
    forms = [fact for fact in theorem.hypotheses if isinstance(fact, oa.Form)]
    model = Interpretation(5, dimensions={"positions": 2, "features": 2})
    letters = model.matrix
    model.splits.update({fact.dressing.operator: lambda s, form=fact.form: letters(form, {"heads": 2}) for fact in forms})
    return model


def lower_triangular(diagonal):
    return tuple(tuple(i * 5 + j + 1 if j < i else diagonal[i] * (i == j) for j in range(4)) for i in range(4))


def prefixes(theorem):
    """The projectors on the first positions of four; on all of them from the last one on."""
    P = family_of(theorem, "P")
    return {P[t]: (lambda v, t=t: tuple(x if place <= t else 0 for place, x in enumerate(v))) for t in INDICES}


def of_strictly_causal(theorem):
    maps = {**prefixes(theorem), by_name(theorem, "N"): matrix_map(lower_triangular((0,) * 4))}
    return Interpretation(5, dimensions={"positions": 4, "features": 1}, maps=maps)


def of_triangular(theorem):
    D, diagonal = family_of(theorem, "D"), (11, 13, 17, 19)
    maps = {**prefixes(theorem), by_name(theorem, "A"): matrix_map(lower_triangular(diagonal))}
    maps |= {D[t]: (lambda v, t=t: scale(diagonal[t] if t < 4 else 23, v)) for t in INDICES}
    return Interpretation(5, dimensions={"positions": 4}, maps=maps)


def of_causal(theorem):
    F, G = (by_name(theorem, name) for name in "FG")
    P = oa.family("P", kind="linear")
    maps = {
        F: lambda v: (v[0] ** 2 + 1, v[0] * v[1] + 2, v[0] + v[1] * v[2] + 3),
        G: lambda v: (v[0] + 5, v[1] ** 3 + v[0], v[0] * v[1] * v[2] + 1),
        P[1]: lambda v: (v[0], v[1], 0),
    }
    return Interpretation(5, dimensions={"positions": 3, "features": 1}, maps=maps)


def of_layers(theorem):
    """The states of depths 0, ..., L side by side, and the map that takes each to the next by random layers."""
    T = oa.family("T", kind="linear")
    inj, proj, N = family_of(theorem, "inj"), family_of(theorem, "proj"), by_name(theorem, "N")
    size, depths = 2, LENGTH + 1
    plain = Interpretation(5)

    def block(states, depth):
        return states[size * depth : size * (depth + 1)]

    def shifted(states):
        later = (plain.atom(T[depth + 1], block(states, depth)) for depth in range(LENGTH))
        return tuple(entry for part in ((0,) * size, *later) for entry in part)

    maps = {N: shifted, **{inj[m]: zero(size * depths) for m in INDICES}, **{proj[m]: zero(size) for m in INDICES}}
    for depth in range(depths):
        maps[inj[depth]] = lambda v, depth=depth: (*(0,) * size * depth, *v, *(0,) * size * (LENGTH - depth))
        maps[proj[depth]] = lambda states, depth=depth: block(states, depth)
    return Interpretation(5, dimensions={"positions": 1, "features": size, "states": size * depths}, maps=maps)


def of_nilpotent(theorem):
    maps = {by_name(theorem, "N"): matrix_map(lower_triangular((0,) * 4))}
    return Interpretation(5, dimensions={"positions": 4, "features": 1}, maps=maps)


def of_logarithm(theorem):
    """The grades of the logarithm by their definitions, word by word, with E_n drawn from the layers V_l as they are."""
    exponential = any(isinstance(fact.rhs, IndexedSum) for fact in theorem.hypotheses)
    V, logs = oa.family("V", kind="linear"), oa.family("O", kind="linear")
    letters, size = Interpretation(5), 2
    layers = [letters.matrix(V[index], {}) for index in range(1, LENGTH + 1)]
    one = tuple(tuple(int(i == j) for j in range(size)) for i in range(size))

    def summed(*matrices):
        return tuple(map(add, *matrices)) if len(matrices) > 1 else matrices[0]

    def scaled(factor, matrix):
        return tuple(scale(factor, row) for row in matrix)

    def grades(factors):
        """The coefficients of z^0, ..., z^3 of a product of polynomials in z."""
        found = [one, *(scaled(0, one) for _ in range(3))]
        for factor in factors:
            found = [summed(*(times(factor[k], found[n - k]) for k in range(n + 1))) for n in range(4)]
        return found

    def factor(layer):
        square = times(layer, layer)
        powers = [over(1, 2), over(1, 6)] if exponential else [0, 0]
        return [one, layer, scaled(powers[0], square), scaled(powers[1], times(square, layer))]

    E = grades(map(factor, layers))
    square, cube = times(E[1], E[1]), times(E[1], times(E[1], E[1]))
    two = summed(E[2], scaled(over(-1, 2), square))
    crossed = summed(times(E[1], E[2]), times(E[2], E[1]))
    three = summed(E[3], scaled(over(-1, 2), crossed), scaled(over(1, 3), cube))
    return Interpretation(5, maps={logs[n]: matrix_map(found) for n, found in ((1, E[1]), (2, two), (3, three))})


def of_constant(theorem):
    F = by_name(theorem, "F2")
    return Interpretation(5, maps={F: lambda v: Interpretation(5).point(F.codomain, 9)})


MODELS = {
    "norm_scaling": of_norm_scaling, "norm_invariance": of_norm_invariance, "softmax_shift": of_softmax,
    "centring": of_centring, "gauge_rotary": of_rotary, "gauge_attention": of_gauge_attention, "virtual_heads": of_frozen,
    "channels": of_frozen, "strictly_causal": of_strictly_causal, "causal_composition": of_causal,
    "triangular_pattern": of_triangular, "nilpotent_layers": of_layers, "resolvent_of_layers": of_layers,
    "neumann_series": of_nilpotent, "log_of_product": of_logarithm, "log_of_exponentials": of_logarithm,
    "bare_series": of_constant,
}  # fmt: skip
SUMS = {"sources": oa.direct_sum(oa.X, oa.K, name="H")}
