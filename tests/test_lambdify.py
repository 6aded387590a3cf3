"""Compiled operators compute on arrays what they mean: against exact rationals, brute force and PyTorch; shapes are checked."""

import subprocess
import sys
from fractions import Fraction
from functools import reduce
from itertools import combinations
from math import comb
from random import Random

import numpy as np
import pytest
import test_structure as structure
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from strategies import SPACES, build, operators, states, trees

import opalgebra as oa
from opalgebra import lambdify as lambdify_function
from opalgebra.expr import Atom, Compose, Dressed, Identity, Source, Sum, Zero, postorder
from opalgebra.lambdify import lambdify
from opalgebra.scalar import parameter, symbol
from opalgebra.space import FEATURES, ONE, K, Space, X

compiler, arrays = sys.modules["opalgebra.lambdify"], sys.modules["opalgebra.arrays"]
A, B, C = oa.atoms("A B C", kind="linear")
F, G = oa.atoms("F G", kind="nonlinear")
x, y = oa.state("x"), oa.state("y")
Y = Space("hidden")
UP, DOWN = oa.Atom("U", kind="linear", codomain=Y), oa.Atom("W", kind="linear", domain=Y)
SIZES = {X: 3, Y: 2, K: 1}
V, l, L, coupling = oa.family("V", kind="linear"), symbol("l"), symbol("L"), parameter("g")
a = np.array([[0.0, 1.0], [2.0, 3.0]])
b = np.array([[1.0, -1.0], [4.0, 0.5]])
v = np.array([1.0, 2.0])


def refused(error, act):
    with pytest.raises(error) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Exact rational arithmetic, straight from the nodes, with nested tuples for matrices and vectors.


def times(matrix, vector):
    return tuple(sum(m * e for m, e in zip(row, vector, strict=True)) for row in matrix)


def cubic(matrix):
    """A nonlinear map with a constant term; the same function serves tuples and arrays of objects."""

    def function(vector):
        if isinstance(vector, tuple):
            return tuple(1 + e + e * e for e in times(matrix, vector))
        image = np.array(matrix, dtype=object) @ vector
        return 1 + image + image * image

    return function


def interpreted(operator, seed):
    """Random rational values of all atoms, dressings and sources of an operator."""
    values = {}
    for node in postorder(operator, backgrounds=False):
        if isinstance(node, Atom | Dressed | Source):
            random = Random(f"{seed} {node}")

            def row(length, random=random):
                return tuple(Fraction(random.randint(-4, 4), random.randint(1, 3)) for _ in range(length))

            if node.is_state:
                values[node] = row(SIZES[node.codomain])
            else:
                matrix = tuple(row(SIZES[node.domain]) for _ in range(SIZES[node.codomain]))
                values[node] = matrix if node.is_linear else cubic(matrix)
    return values


def exact(operator, values, vector=()):
    """The value of an operator at a vector."""
    match operator:
        case Sum():
            parts = [tuple(c * e for e in exact(term, values, vector)) for c, term in operator.terms]
            return tuple(map(sum, zip(*parts, strict=True)))
        case Compose():
            return exact(operator.left, values, exact(operator.right, values, vector))
        case Identity():
            return vector
        case Zero():
            return (Fraction(0),) * SIZES[operator.codomain]
    value = values[operator]
    if operator.is_state:
        return value
    return times(value, vector) if operator.is_linear else value(vector)


def exact_matrix(operator, values):
    units = [tuple(Fraction(int(i == j)) for j in range(SIZES[operator.domain])) for i in range(SIZES[operator.domain])]
    return np.array([exact(operator, values, unit) for unit in units], dtype=object).T


def as_arrays(values):
    return {node: value if callable(value) else np.array(value, dtype=object) for node, value in values.items()}


def computed(operator, values, *argument):
    """The compiled value on exact arrays; None where no value tells a size."""
    try:
        return lambdify(operator)(as_arrays(values), *argument)
    except oa.InputError as error:
        assert "needs the size of" in str(error) or "cannot be made an array" in str(error)
        return None


def broken_matrix(operator):
    """Where the compiled matrix differs from the exact one; None when they agree."""
    if not operator.is_linear:
        return None
    values = interpreted(operator, 1)
    found = computed(operator, values)
    return None if found is None or np.array_equal(found, exact_matrix(operator, values)) else f"{found}"


@given(operators())
def test_the_matrix_of_a_linear_operator_is_exact(operator):
    assert broken_matrix(operator) is None


@given(operators())
def test_a_map_on_an_argument_is_exact(operator):
    if not operator.is_state:
        values = interpreted(operator, 2)
        argument = tuple(Fraction(n + 1, 2) for n in range(SIZES[operator.domain]))
        found = computed(operator, values, np.array(argument, dtype=object))
        assert found is None or tuple(found) == exact(operator, values, argument)


@given(st.sampled_from(SPACES).flatmap(lambda space: trees(ONE, space)).map(build))
def test_a_state_is_exact(state):
    values = interpreted(state, 3)
    found = computed(state, values)
    assert found is None or tuple(found) == exact(state, values)


@given(states())
def test_an_expansion_computes_what_its_state_does_when_its_sources_are_what_dressings_leave_over(state):
    expansion = oa.expand(state).rhs
    values = interpreted(expansion, 4)
    found = computed(expansion, values)
    assert found is None or tuple(found) == exact(expansion, values)


@given(operators())
def test_the_matrix_applied_to_a_vector_is_the_map_of_the_vector(operator):
    if operator.is_linear:
        values = interpreted(operator, 5)
        argument = np.array([Fraction(n - 1) for n in range(SIZES[operator.domain])], dtype=object)
        matrix, image = computed(operator, values), computed(operator, values, argument)
        assert matrix is None or image is None or np.array_equal(matrix @ argument, image)


# Numeric code from symbols, as reported


def test_a_product_is_the_matrix_product_a_number_the_identity_and_a_power_the_matrix_power():
    assert np.array_equal(lambdify(A @ B)(A=a, B=b), a @ b)
    assert not np.array_equal(lambdify(A @ B)(A=a, B=b), a * b)
    assert np.array_equal(lambdify(1 + A)(A=a), np.eye(2) + a)
    assert not np.array_equal(lambdify(1 + A)(A=a), 1 + a)
    assert np.array_equal(lambdify(A**2)(A=a), np.linalg.matrix_power(a, 2))
    assert np.array_equal(lambdify((2 + A) @ (B - 1))(A=a, B=b), (2 * np.eye(2) + a) @ (b - np.eye(2)))


def test_random_products_agree_with_brute_force():
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((5, 5)) for name in "ABC"}
    p, q, r = arrays.values()
    vector = rng.standard_normal(5)
    operator = (1 + A @ B) @ (Fraction(1, 3) * C - B) @ (2 - A) @ x + 4 * x
    expected = (np.eye(5) + p @ q) @ (r / 3 - q) @ (2 * np.eye(5) - p) @ vector + 4 * vector
    np.testing.assert_allclose(lambdify(operator)(arrays, x=vector), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_torch_keeps_its_dtype_and_device(dtype):
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.randn(3, 3, dtype=dtype, generator=generator) for _ in range(2))
    state = torch.randn(3, 4, dtype=dtype, generator=generator)
    operator = (1 + Fraction(1, 2) * A) @ B - 3
    found = lambdify(operator)(A=p, B=q)
    assert found.dtype == dtype and found.device == p.device
    one = torch.eye(3, dtype=dtype)
    torch.testing.assert_close(found, (one + p / 2) @ q - 3 * one)
    torch.testing.assert_close(lambdify(operator @ x)(A=p, B=q, x=state), ((one + p / 2) @ q - 3 * one) @ state)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_numpy_keeps_its_dtype(dtype):
    assert lambdify(1 + Fraction(1, 3) * A)(A=a.astype(dtype)).dtype == dtype
    assert lambdify((1 - 7 * A) @ x)(A=a.astype(dtype), x=v.astype(dtype)).dtype == dtype


def test_integers_stay_integers_until_a_fraction_meets_them():
    whole = np.array([[1, 2], [3, 4]])
    assert lambdify(1 + 2 * A @ A)(A=whole).tolist() == [[15, 20], [30, 45]]
    assert lambdify(Fraction(1, 2) * A)(A=whole).tolist() == [[0.5, 1.0], [1.5, 2.0]]


def test_a_coefficient_is_the_nearest_float():
    third = Fraction(1, 3)
    assert lambdify(third * A)(A=np.eye(1))[0, 0] == float(third)
    assert lambdify((10**30 + third) * A)(A=np.eye(1))[0, 0] == 1e30
    assert lambdify(10**300 * A)(A=np.eye(1))[0, 0] == 1e300
    assert refused(oa.InputError, lambda: lambdify(10**400 * A)(A=np.eye(1))) == (
        "a coefficient is larger than every float; use arrays of exact numbers (dtype=object)"
    )
    assert lambdify(10**400 * A)(A=np.array([[2]], dtype=object))[0, 0] == 2 * 10**400


def test_gradients_pass_through_a_compiled_operator():
    p = torch.tensor(a, requires_grad=True)
    lambdify((1 + A @ A) @ x)(A=p, x=torch.tensor(v)).sum().backward()
    ones = torch.ones(2, dtype=torch.float64)
    assert torch.allclose(
        p.grad, torch.outer(ones, torch.tensor(a @ v)) + torch.outer(torch.tensor(a.T) @ ones, torch.tensor(v))
    )


def test_nonlinear_maps_are_functions_of_state_arrays():
    operator = F @ (1 + A @ G) @ x
    assert np.array_equal(lambdify(operator)(A=a, F=np.tanh, G=np.sin, x=v), np.tanh(v + a @ np.sin(v)))
    compiled = lambdify(F @ (1 + A) + G)
    assert np.array_equal(compiled({"A": a, "F": np.tanh, "G": np.sin}, v), np.tanh(v + a @ v) + np.sin(v))
    assert np.array_equal(compiled({A: a, F: np.tanh}, v, G=np.sin), compiled(None, v, A=a, F=np.tanh, G=np.sin))


def test_states_may_be_columns():
    columns = np.stack([v, 2 * v, -v], axis=1)
    assert np.array_equal(lambdify(A @ x + 2 * x)(A=a, x=columns), a @ columns + 2 * columns)
    assert np.array_equal(lambdify(1 + A @ F)({A: a, F: np.tanh}, columns), columns + a @ np.tanh(columns))


def test_other_spaces_have_other_sizes():
    up, down = np.arange(6.0).reshape(3, 2), np.ones((2, 3))
    assert np.array_equal(lambdify(1 + DOWN @ UP)(U=up, W=down), np.eye(2) + down @ up)
    assert np.array_equal(lambdify(1 + UP @ DOWN)(U=up, W=down), np.eye(3) + up @ down)
    bra = oa.Atom("bra", kind="linear", codomain=K)
    assert np.array_equal(lambdify(bra @ x)(bra=np.array([[1.0, 2.0]]), x=v), [5.0])


def test_dressings_and_sources_take_values_of_their_own():
    s = A @ x
    expansion = oa.expand(F @ s).rhs
    assert np.array_equal(lambdify(expansion)({oa.dressed(F, s): b, oa.source(F, s): v, "A": a, "x": v}), b @ a @ v + v)
    assert refused(oa.InputError, lambda: lambdify(oa.dressed(F, x))(F=np.tanh, x=v)) == (
        "no value for F<x>; give an atom its value by name, and a dressing, a source or one of two atoms of the same name by "
        "{node: value}"
    )


def test_identities_and_zeros_take_their_size_from_the_values_or_the_argument():
    assert lambdify(oa.Identity())(None, v) is v
    assert np.array_equal(lambdify(Zero())(None, v), [0.0, 0.0])
    assert np.array_equal(lambdify(A @ Zero())(A=a), np.zeros((2, 2)))
    assert np.array_equal(lambdify(A @ Zero(ONE, X) + x)(A=a, x=v), v)
    assert np.array_equal(lambdify(F @ Zero(ONE, X) + x)(F=np.cos, x=np.ones((2, 3))), np.ones((2, 3)) + 1)


def test_values_for_anything_else_are_ignored_and_the_package_name_is_the_function():
    assert np.array_equal(lambdify(A)(A=a, Q="anything"), a)
    assert lambdify_function is lambdify is oa.lambdify


# Tensor products, inverses, adjoints, traces, commutators and functions, against NumPy called on the plain tree

DIMENSIONS = {"positions": 2, "features": 3}
GIVEN = {Space(name): size for name, size in DIMENSIONS.items()}


def shape(space):
    return tuple(DIMENSIONS[name] for name in space.factors)


def drawn(atom, numbers):
    """The array of an atom of `structure`, of whole numbers as objects or of complex ones."""
    rows, columns = (int(np.prod(shape(space))) for space in (atom.codomain, atom.domain))
    random = np.random.default_rng(sum(map(ord, str(atom))))
    if numbers == "exact":
        return np.array(random.integers(-3, 4, (rows, columns)).tolist(), dtype=object).reshape((rows, columns))
    return random.uniform(-1, 1, (rows, columns)) + 1j * random.uniform(-1, 1, (rows, columns))


def square_plus_twice(matrix):
    return matrix @ matrix + 2 * matrix


class Brute:
    """The matrix of a plain tree, by NumPy; remembers the largest entry and the worst condition number that it met."""

    def __init__(self, numbers):
        self.numbers, self.largest, self.condition = numbers, 1.0, 1.0

    def matrix(self, tree):
        found = self._matrix(tree)
        if self.numbers != "exact":
            self.largest = max(self.largest, np.abs(found).max())
        return found

    def _matrix(self, tree):
        match tree:
            case ("leaf", Atom() as atom):
                return drawn(atom, self.numbers)
            case ("leaf", operator):
                rows, columns = (int(np.prod(shape(space))) for space in (operator.codomain, operator.domain))
                exact = self.numbers == "exact"
                return np.eye(rows, columns, dtype=object if exact else complex) * int(isinstance(operator, Identity))
            case ("sum", terms):
                return sum((c if self.numbers == "exact" else float(c)) * self.matrix(term) for c, term in terms)
            case ("compose", left, right):
                return self.matrix(left) @ self.matrix(right)
            case ("tensor", left, right):
                return np.kron(self.matrix(left), self.matrix(right))
            case ("transpose", inside):
                return self.matrix(inside).T
            case ("adjoint", inside):
                return np.conjugate(self.matrix(inside)).T
            case ("trace", place, (domain, codomain), inside):
                whole = self.matrix(inside).reshape(shape(codomain) + shape(domain))
                kept = np.trace(whole, axis1=place, axis2=len(shape(codomain)) + place)
                rows = int(np.prod(shape(codomain))) // shape(codomain)[place]
                return np.array(kept, dtype=whole.dtype).reshape((rows, -1))
            case ("commutator", left, right):
                return self.matrix(left) @ self.matrix(right) - self.matrix(right) @ self.matrix(left)
            case ("function", inside):
                return square_plus_twice(self.matrix(inside))
            case ("inverse", inside):
                whole = self.matrix(inside)
                self.condition = max(self.condition, np.linalg.cond(whole))
                return np.linalg.inv(whole) if self.condition < 30 else whole


def has_inverse(tree):
    return "inverse" in str(tree)


def broken_structure(tree):
    """Where a tree without inverses, built and compiled on exact numbers, differs from NumPy; on an argument and without."""
    operator, right = structure.build(tree), Brute("exact").matrix(tree)
    values = {**GIVEN, **{atom: drawn(atom, "exact") for atom in operator.atoms}, "exp": square_plus_twice}
    argument = np.arange(2 * right.shape[1]).reshape((right.shape[1], 2)).astype(object)
    compiled = lambdify(operator)
    if operator.atoms and not np.array_equal(compiled(values), right):
        return "the matrix"
    for state in (argument, argument[:, 0]):
        if not np.array_equal(compiled(values, state), right @ state):
            return "the map"
    return None


@settings(max_examples=200)
@given(structure.TREES.filter(lambda tree: not has_inverse(tree)))
def test_structured_maps_compute_exactly_what_numpy_computes(tree):
    assert broken_structure(tree) is None


@given(structure.TREES.filter(has_inverse))
def test_structured_maps_with_inverses_compute_what_numpy_computes(tree):
    brute = Brute("float")
    right = brute.matrix(tree)
    operator = structure.build(tree)
    if brute.condition < 30 and operator.atoms:
        values = {**GIVEN, **{atom: drawn(atom, "float") for atom in operator.atoms}, "exp": square_plus_twice}
        # at most three inverses inside each other, each of which multiplies an error by the condition number at most
        bound = 100 * np.finfo(float).eps * brute.condition**3 * brute.largest**3
        argument = np.linspace(-1, 1, right.shape[1])
        assert np.abs(lambdify(operator)(values) - right).max(initial=0) <= bound
        assert np.abs(lambdify(operator)(values, argument.astype(complex)) - right @ argument).max(initial=0) <= bound


def on(name, *factors):
    return oa.Atom(name, kind="linear", domain=Space(*factors), codomain=Space(*factors))


POSITION, FEATURE, MIXED = on("P", "positions"), on("Q", "features"), on("M", "positions", "features")
p, q = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [5.0, 1.0, 1.0]])
m = np.arange(36.0).reshape((6, 6)) ** 2 % 7


def test_a_tensor_product_is_the_kronecker_product_and_is_applied_without_its_matrix():
    operator = oa.tensor(POSITION, FEATURE)
    assert np.array_equal(lambdify(operator)(P=p, Q=q), np.kron(p, q))
    log, state = [], np.arange(6.0)
    found = lambdify(operator)({"P": Counted(p, log), "Q": Counted(q, log)}, state)
    assert np.array_equal(found, np.einsum("ij,kl,jl->ik", p, q, state.reshape(2, 3)).ravel())
    assert log == [(3, 2), (2, 3)]


def test_sizes_of_factors_are_concluded_or_given():
    assert np.array_equal(lambdify(oa.tensor(POSITION, oa.Identity(FEATURES)) @ MIXED)(P=p, M=m), np.kron(p, np.eye(3)) @ m)
    assert np.array_equal(lambdify(oa.tensor(POSITION, oa.Identity(FEATURES)))({FEATURES: 3}, P=p), np.kron(p, np.eye(3)))
    partial = oa.trace(MIXED, "features")
    assert np.array_equal(lambdify(partial)({FEATURES: 3}, M=m), np.einsum("iaja->ij", m.reshape(2, 3, 2, 3)))
    other = oa.trace(MIXED, "positions")
    assert np.array_equal(lambdify(other)({FEATURES: 3}, M=m), np.einsum("aiaj->ij", m.reshape(2, 3, 2, 3)))
    assert np.array_equal(lambdify(oa.trace(MIXED))(M=m), [[np.trace(m)]])
    assert refused(oa.InputError, lambda: lambdify(partial)(M=m)) == (
        "a factor of a space needs the size of features, and no value on that space gives it; give an argument or {space: size}"
    )
    assert refused(oa.InputError, lambda: lambdify(MIXED @ oa.tensor(POSITION, FEATURE))(M=m, P=p, Q=np.eye(2))) == (
        "X has the size 6 by M, which its factors of known size, together 4, do not fit; give arrays whose sizes fit"
    )
    assert refused(oa.InputError, lambda: lambdify(A)({X: -1}, A=a)) == (
        "the size of X is given as -1; give a natural number, and 1 for K"
    )


def test_an_inverse_solves_and_a_singular_matrix_is_refused_with_its_place():
    assert np.allclose(lambdify(oa.inverse(A))(A=a), np.linalg.inv(a), rtol=1e-14)
    assert np.allclose(lambdify(oa.inverse(1 - A) @ x)(A=a, x=v), np.linalg.solve(np.eye(2) - a, v), rtol=1e-14)
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    for values, dtype in (({"A": singular}, "float64"), ({"A": torch.tensor(singular, dtype=torch.float32)}, "float32")):
        assert refused(oa.InputError, lambda values=values: lambdify(A @ oa.inverse(A))(values)) == (
            f"inverse(A) has no value: the matrix of A is singular to the precision of {dtype}, with the rank 1 of 2; give "
            "other values"
        )
    nearly = singular + np.array([[0, 0], [0, 1e-17]])
    assert "is singular" in refused(oa.InputError, lambda: lambdify(oa.inverse(A) @ x)(A=nearly, x=v))
    assert refused(oa.InputError, lambda: lambdify(oa.inverse(UP))(U=np.ones((3, 2)))) == (
        "inverse(U) has no value: the matrix of U has the shape (3, 2)"
    )
    assert refused(oa.InputError, lambda: lambdify(oa.inverse(A))(A=np.eye(2).astype(object))) == (
        "inverse(A) cannot be computed of an array of numpy on cpu with the dtype object; use arrays of floats"
    )
    assert "inverse(A) cannot be computed" in refused(oa.InputError, lambda: lambdify(oa.inverse(A))(A=np.full((2, 2), np.nan)))


def test_the_inverse_of_a_nonlinear_map_has_a_value_of_its_own():
    operator = A @ oa.inverse(F) @ x
    assert np.array_equal(lambdify(operator)({oa.inverse(F): np.arctan, "A": a, "x": v}), a @ np.arctan(v))
    assert "no value for inverse(F)" in refused(oa.InputError, lambda: lambdify(operator)(A=a, x=v, F=np.tan))


def test_adjoints_conjugate_and_transposes_do_not():
    c = a + 1j * b
    assert np.array_equal(lambdify(oa.adjoint(A @ B))(A=c, B=b), (c @ b).conj().T)
    assert np.array_equal(lambdify(oa.transpose(A @ B))(A=c, B=b), (c @ b).T)
    assert np.array_equal(lambdify(oa.adjoint(oa.transpose(A)) @ x)(A=c, x=v), c.conj() @ v)
    assert np.array_equal(lambdify(oa.commutator(A, B) @ x)(A=c, B=b, x=v), c @ (b @ v) - b @ (c @ v))


def test_functions_of_matrices_are_given_by_name_and_exp_is_known():
    operator = oa.function("exp", A)
    assert np.array_equal(lambdify(operator)(A=a, exp=square_plus_twice), a @ a + 2 * a)
    assert np.array_equal(lambdify(operator @ x)({operator: square_plus_twice}, A=a, x=v), (a @ a + 2 * a) @ v)
    assert torch.equal(lambdify(operator)(A=torch.tensor(a)), torch.linalg.matrix_exp(torch.tensor(a)))
    both = oa.function("log", A) + oa.function("log", B)
    assert np.array_equal(lambdify(both)(A=a, B=b, log=np.cos), np.cos(a) + np.cos(b))
    assert np.allclose(lambdify(operator)(A=a), torch.linalg.matrix_exp(torch.tensor(a)).numpy(), rtol=1e-12)
    assert "no value for function(log, A)" in refused(oa.InputError, lambda: lambdify(oa.function("log", A))(A=a))
    assert refused(oa.InputError, lambda: lambdify(operator)(A=a, exp=b)) == (
        "exp is a function of matrices, not ndarray; give a function"
    )
    assert "the value of function(exp, A) has the shape (1, 2)" in refused(
        oa.InputError, lambda: lambdify(operator)(A=a, exp=lambda matrix: matrix[:1])
    )


def test_without_scipy_the_exponential_of_an_array_of_numpy_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    assert refused(oa.InputError, lambda: lambdify(oa.function("exp", A))(A=a)) == (
        "function(exp, A) needs a matrix exponential, which for NumPy is SciPy's; run `pip install 'opalgebra[analysis]'`, or "
        "give the function exp by name"
    )


def laplacian_of_a_tree():
    """Of the directed binary tree in which 0 leads to 1 and 2, 1 to 3 and 4, and 2 to 5 and 6."""
    found = np.zeros((7, 7))
    for parent, children in ((0, (1, 2)), (1, (3, 4)), (2, (5, 6))):
        for child in children:
            found[parent, parent] += 1
            found[parent, child] -= 1
    return found


@pytest.mark.parametrize(
    ("matrix", "first_column", "tolerance"),
    [
        ([[1, 1e6], [0, -1]], [2.718281828459045235360287, 0.0], 1e-13),
        ([[-1, 0], [1e6, 1]], [0.3678794411714423215955238, 1175201.193643801456882382], 1e-13),
        ([[-247.044225955, 0], [6283.1853, -6283.1853]], [5.129273793070002e-108, 5.339202199045955e-108], 1e-9),
        (-2000 * laplacian_of_a_tree().T, [0, 0, 0, 0.25, 0.25, 0.25, 0.25], 1e-12),
    ],
)
def test_exponentials_on_which_libraries_failed(matrix, first_column, tolerance):
    """Overscaling (Al-Mohy and Higham 2009), overflow, and a long time; of the tree the row of its root, as a column."""
    found = lambdify(oa.function("exp", A))(A=np.array(matrix))
    assert np.allclose(found[:, 0], first_column, rtol=tolerance, atol=0 if np.all(first_column) else 1e-15)


def test_torch_computes_every_structure_with_gradients():
    operator = oa.trace(oa.inverse(1 + oa.adjoint(MIXED) @ MIXED) @ oa.tensor(POSITION, oa.function("exp", FEATURE)))
    arrays_of = {"M": torch.tensor(m / 10, requires_grad=True), "P": torch.tensor(p), "Q": torch.tensor(q)}
    found = lambdify(operator)(arrays_of)
    whole = np.linalg.inv(np.eye(6) + (m / 10).T @ (m / 10)) @ np.kron(p, torch.linalg.matrix_exp(torch.tensor(q)).numpy())
    assert np.allclose(found.detach().numpy(), np.trace(whole), rtol=1e-12)
    found.sum().backward()
    assert arrays_of["M"].grad.abs().sum() > 0


# Symbols, and products and sums over an index


def members(length):
    random = np.random.default_rng(0)
    return {f"V{n}": np.array(random.integers(-3, 4, (2, 2)).tolist(), dtype=object) for n in range(length + 2)}


def test_symbols_of_coefficients_and_indices_take_numbers():
    assert np.array_equal(lambdify(coupling**2 * A + 1)(A=a, g=3), 9 * a + np.eye(2))
    assert np.array_equal(lambdify(coupling * A)({coupling: Fraction(1, 2)}, A=a), a / 2)
    assert np.array_equal(lambdify(l * V[l + 1] @ A)(A=a, l=2, V3=b), 2 * b @ a)
    assert "L = 1/2 was asked" in refused(oa.InputError, lambda: lambdify(L * A)(A=a, L=0.5))
    assert refused(oa.InputError, lambda: lambdify(L * A)({L: 2}, A=a, L=2)) == (
        "L is given 2 values; give one, by name or for the symbol"
    )
    assert refused(oa.InputError, lambda: lambdify(L * A)(A=a, L=a)) == (
        "L is a scalar symbol and is given as ndarray; give a number"
    )


@pytest.mark.parametrize("length", [0, 1, 4])
def test_products_and_sums_over_an_index_are_those_of_their_members(length):
    values = members(length)
    one = np.eye(2, dtype=object)
    product, total = one, 0 * one
    for n in range(1, length + 1):
        product, total = (one + values[f"V{n}"] @ values[f"V{n + 1}"]) @ product, total + n * values[f"V{n}"]
    values |= {"A": 0 * one, "L": length, "x": v}
    assert np.array_equal(lambdify(A + oa.ordered_product(1 + V[l] @ V[l + 1], l, 1, L))(values), product)
    assert np.array_equal(lambdify(A + oa.indexed_sum(l * V[l], l, 1, L))(values), total)
    assert np.array_equal(lambdify(oa.indexed_sum(l * V[l] @ x, l, 1, L) + x)(values), total @ v + v)


@pytest.mark.parametrize("order", range(5))
def test_an_ordered_sum_is_the_sum_over_increasing_words_of_any_maps(order):
    nonlinear = oa.family("W", kind="nonlinear")
    squares = {f"W{n}": lambda state, n=n: state * state + n for n in range(1, 5)}
    state, expected = np.array([1, 2], dtype=object), np.array([0, 0], dtype=object)
    for word in combinations(range(1, 5), order):
        image = state
        for n in word:
            image = image * image + n
        expected = expected + image
    between = {f"U{n}": lambda state, n=n: n * state - state * state for n in range(1, 5)}
    lines = oa.family("U", kind="nonlinear")
    resummed = np.array([0, 0], dtype=object)
    for word in combinations(range(1, 5), order):
        image = state
        for n in range(1, 5):
            image = squares[f"W{n}"](image) if n in word else between[f"U{n}"](image)
        resummed = resummed + image
    total = oa.ordered_sum(nonlinear[l], l, L, order, lines[l])
    assert np.array_equal(lambdify(total)({**squares, **between, L: 4}, state), resummed)
    for bound in (4, L):
        total = oa.ordered_sum(nonlinear[l], l, bound, order)
        assert np.array_equal(lambdify(total)({**squares, L: 4}, state), expected)
    linear, values, one = oa.ordered_sum(V[l], l, L, order), members(4), np.eye(2, dtype=object)
    chosen = combinations(range(1, 5), order)
    words = [reduce(lambda image, n: values[f"V{n}"] @ image, word, one) for word in chosen]
    assert np.array_equal(lambdify(linear + A)({**values, "A": 0 * one}, L=4), sum(words))


def test_a_long_ordered_sum_takes_steps_in_proportion_to_length_and_order(monkeypatch):
    total = oa.ordered_sum(A, l, 80, 40)
    assert lambdify(total)(A=np.array([[1]], dtype=object)).tolist() == [[comb(80, 40)]]
    monkeypatch.setattr(compiler, "LIMIT", 1_000)
    assert "more than 1,000 steps" in refused(oa.LimitError, lambda: lambdify(total)(A=np.eye(1)))


# Sharing and order of evaluation


class Counted:
    """A matrix that logs the shapes of what it is multiplied with."""

    __array_ufunc__ = None

    def __init__(self, array, log):
        self.array, self.log = array, log

    def __getattr__(self, name):
        return getattr(self.array, name)

    def __matmul__(self, other):
        self.log.append(other.shape)
        return self.array @ other


class Bare:
    """A matrix of a library that names no array functions."""

    shape = (2, 2)


def test_on_a_state_only_matrix_vector_products_are_made():
    log = []
    operator = oa.expand((1 + A @ B) @ (2 + B) @ A, limit=None).rhs
    assert len(operator.terms) > 3
    values = {"A": Counted(a, log), "B": Counted(b, log), "x": v}
    expected = lambdify(operator)(A=a, B=b) @ v
    np.testing.assert_allclose(lambdify(operator @ x)(values), expected)
    assert set(log) == {(2,)}
    log.clear()
    np.testing.assert_allclose(lambdify((A @ B) @ (B @ A))(values, v), a @ b @ b @ a @ v)
    assert log == [(2,)] * 4


def test_shared_parts_are_computed_once():
    calls = []

    def counting(state):
        calls.append(1)
        return np.tanh(state)

    state = x
    for _ in range(30):
        state = F @ state + A @ state + state
    assert lambdify(state)(F=counting, A=a / 10, x=v).shape == (2,)
    assert len(calls) == 30


def test_a_matrix_that_doubles_its_paths_at_every_step_takes_one_product_a_step():
    map_ = A
    for _ in range(60):
        map_ = (map_ + 1) @ B + map_ @ A
    assert lambdify(map_)(A=a / 100, B=b / 100).shape == (2, 2)


def test_more_steps_than_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(compiler, "LIMIT", 1_000)
    assert refused(oa.LimitError, lambda: lambdify(A**2000)({"A": a}, v)) == (
        "the operator needs more than 1,000 steps; name parts of it, and compute those first"
    )


def test_ten_thousand_factors_are_computed():
    operator = oa.ordered_product([1 + A, B] * 5_000)
    values = {"A": np.array([[0.0, 1.0], [0.0, 0.0]]), "B": np.eye(2)}
    assert np.array_equal(lambdify(operator)(values), [[1.0, 5_000.0], [0.0, 1.0]])
    assert np.array_equal(lambdify(operator @ x)(values, x=v), [10_001.0, 2.0])


def test_ten_thousand_nested_sums_are_computed():
    nested = x
    for _ in range(10_000):
        nested = x + A @ nested
    assert np.array_equal(lambdify(nested)(A=np.zeros((2, 2)), x=v), v)


def test_nothing_is_evaluated_from_text(monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("text was evaluated")

    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr("builtins." + name, forbidden)
    assert np.array_equal(lambdify(1 + A @ B)(A=a, B=b), np.eye(2) + a @ b)


def test_neither_torch_nor_numpy_is_needed_by_the_compiler_and_torch_not_by_numpy():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import opalgebra as oa; A = oa.Atom('A', kind='linear'); f = oa.lambdify(1 + A)\n"
        "assert 'numpy' not in sys.modules\n"
        "import numpy as np; print(f(A=np.array([[1., 2.], [3., 4.]])).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[2.0, 2.0], [3.0, 5.0]]"


# Refusals word by word

NONE = "give an atom its value by name, and a dressing, a source or one of two atoms of the same name by {node: value}"
OTHER = oa.Atom("A", kind="nonlinear")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: lambdify(A @ B)(A=a), f"no value for B; {NONE}"),
        (lambda: lambdify(A + OTHER)({"A": a}, v), f"no value for A, A; {NONE}"),
        (
            lambda: lambdify(oa.ordered_product(oa.family("V", kind="linear")[n] for n in range(9)))(),
            f"no value for V8, V7, V6, V5, V4 ...; {NONE}",
        ),
        (lambda: lambdify(A)({"A": a}, A=a), "A is given 2 values; give one, by name or for the node"),
        (lambda: lambdify(A)({"A": a, A: a}), "A is given 2 values; give one, by name or for the node"),
        (
            lambda: lambdify(A)(A=np.ones((2, 3))),
            "A has the shape (2, 3), but a matrix (X, X) is expected, and X has the size 2 by A; give arrays whose sizes fit",
        ),
        (
            lambda: lambdify(B @ A)(A=a, B=np.eye(3)),
            "A has the shape (2, 2), but a matrix (X, X) is expected, and X has the size 3 by B; give arrays whose sizes fit",
        ),
        (
            lambda: lambdify(A @ DOWN)(A=a, W=np.ones((3, 2))),
            "W has the shape (3, 2), but a matrix (X, hidden) is expected, and X has the size 2 by A; give arrays whose sizes "
            "fit",
        ),
        (
            lambda: lambdify(oa.state("k", codomain=K))(k=v),
            "k has the shape (2,), but a vector (K,) or columns (K, k) is expected, and K has the size 1 by definition; give "
            "arrays whose sizes fit",
        ),
        (
            lambda: lambdify(A)(None, np.ones(3), A=a),
            "A has the shape (2, 2), but a matrix (X, X) is expected, and X has the size 3 by the argument; give arrays whose "
            "sizes fit",
        ),
        (lambda: lambdify(A)(A=v), "A has the shape (2,), but a matrix (X, X) is expected; give an array of that shape"),
        (
            lambda: lambdify(A)(A=np.ones((2, 2, 2))),
            "A has the shape (2, 2, 2), but a matrix (X, X) is expected; give an array of that shape",
        ),
        (
            lambda: lambdify(x)(x=np.ones((2, 2, 2))),
            "x has the shape (2, 2, 2), but a vector (X,) or columns (X, k) is expected; give an array of that shape",
        ),
        (lambda: lambdify(A)(A=[[1.0]]), "A is given as list, but a matrix (X, X) is expected; give an array"),
        (lambda: lambdify(A)(A=np.tanh), "A is given as ufunc, but a matrix (X, X) is expected; give an array"),
        (
            lambda: lambdify(x + y)(x=v, y=a),
            "y has 2 columns, but x has no columns; give all states as vectors, or all with as many columns",
        ),
        (
            lambda: lambdify(F)(None, v, F=a),
            "F is not linear, so its value is a function of a state array, not ndarray",
        ),
        (
            lambda: lambdify(F)(None, v, F=lambda state: state[:1]),
            "the value of F has the shape (1,), but a vector (X,) or columns (X, k) is expected, and X has the size 2 by the "
            "argument; give arrays whose sizes fit",
        ),
        (
            lambda: lambdify(F)(None, v, F=lambda state: None),
            "the value of F is given as NoneType, but a vector (X,) or columns (X, k) is expected; give an array",
        ),
        (lambda: lambdify(x)(None, v, x=v), "x is a state and acts on nothing; call it without an argument"),
        (
            lambda: lambdify(oa.Identity())(),
            "1 needs the size of X, and no value on that space gives it; give an argument or {space: size}",
        ),
        (
            lambda: lambdify(Zero(X, Y))(None, v),
            "zero(X, hidden) needs the size of hidden, and no value on that space gives it; give an argument or {space: size}",
        ),
        (
            lambda: lambdify(oa.Identity(K))(),
            "one(K) cannot be made an array, as no value says of which library; give NumPy or PyTorch arrays",
        ),
        (
            lambda: lambdify(1 + A)(A=Bare()),
            "1 cannot be made an array, as no value says of which library; give NumPy or PyTorch arrays",
        ),
        (lambda: lambdify(oa.expand(A)), "lambdify takes an operator, not Theorem; of a theorem, give .lhs or .rhs"),
    ],
)
def test_what_cannot_be_computed_is_refused_naming_what_is_expected(act, message):
    assert refused(oa.InputError, act) == message


def test_arrays_of_two_libraries_or_of_two_torch_dtypes_are_refused():
    double, single = torch.tensor(a), torch.tensor(v, dtype=torch.float32)
    assert refused(oa.InputError, lambda: lambdify(A)({A: double}, single)) == (
        "A is an array of torch float64 on cpu, but the argument is an array of torch float32 on cpu; convert one of them"
    )
    assert refused(oa.InputError, lambda: lambdify(A)({A: double}, v)) == (
        "A is an array of torch float64 on cpu, but the argument is an array of numpy on cpu; convert one of them"
    )


def test_symbols_without_a_value_are_refused():
    assert refused(oa.InputError, lambda: lambdify(A + coupling * B)(A=a, B=b)) == (
        "the coefficient g has symbols and so is no number; give them values"
    )
    assert refused(oa.InputError, lambda: lambdify(A @ oa.ordered_product(1 + V[l], l, 1, L))(A=a)) == (
        "ordered_product(1 + V[l], l, 1, L) is written out to be computed; give L a value"
    )
    assert refused(oa.InputError, lambda: lambdify(oa.ordered_sum(V[l], l, L, 2))()) == (
        "ordered_sum(V[l], l, L, 2) is written out to be computed; give L a value"
    )
    assert np.array_equal(lambdify(V[l] @ A)({V[l]: b, A: a}), b @ a)


def test_a_nonlinear_map_has_no_matrix():
    assert refused(oa.NotLinearError, lambda: lambdify(1 + F)(F=np.tanh)) == (
        "1 + F is not linear, so it has no matrix; give a state array as the second argument"
    )


# Planted bugs: each is a wrong meaning, and the check above is seen to find it.


SMALL = trees(X, X, 2, (X,)).map(build)


def assert_search_finds(broken, examples):
    once = settings(max_examples=2000, phases=[Phase.generate], database=None, deadline=None)
    find(examples, lambda example: broken(example) is not None, settings=once, random=Random(0))


def test_planted_number_as_a_matrix_of_ones_is_found(monkeypatch):
    constant = arrays.Arrays.constant

    def ones(self, node, *inputs):
        found = constant(self, node, *inputs)
        return np.ones_like(found) if isinstance(node, Identity) else found

    assert broken_matrix(1 + A) is None
    monkeypatch.setattr(arrays.Arrays, "constant", ones)
    assert broken_matrix(A @ B) is None
    assert broken_matrix(1 + A) is not None
    assert_search_finds(broken_matrix, SMALL)


def test_planted_elementwise_product_is_found(monkeypatch):
    class Elementwise(np.ndarray):
        def __matmul__(self, other):
            return np.asarray(self) * np.asarray(other)

    original = as_arrays
    monkeypatch.setitem(
        globals(), "as_arrays", lambda values: {node: value.view(Elementwise) for node, value in original(values).items()}
    )
    assert broken_matrix(A + B) is None
    assert broken_matrix(A @ B) is not None


def test_planted_product_in_the_wrong_order_is_found(monkeypatch):
    run = compiler._run

    def backwards(program, *rest):
        steps, result, finished = program
        product = compiler._product
        turned = [s if s.operation is not product else compiler.Step(s.number, product, s.inputs[::-1]) for s in steps]
        return run((turned, result, finished), *rest)

    monkeypatch.setattr(compiler, "_run", backwards)
    assert broken_matrix(A + B) is None
    assert broken_matrix(A @ B) is not None
    assert_search_finds(broken_matrix, SMALL)


def test_planted_forgotten_coefficient_is_found(monkeypatch):
    monkeypatch.setattr(arrays, "_number", lambda coefficient, array: 1)
    assert broken_matrix(A + B) is None
    assert broken_matrix(A - B) is not None
    assert_search_finds(broken_matrix, SMALL)


EXACT_TREES = structure.TREES.filter(lambda tree: not has_inverse(tree))


def test_planted_kronecker_product_in_the_wrong_order_is_found(monkeypatch):
    kronecker = compiler.kronecker
    monkeypatch.setattr(compiler, "kronecker", lambda *matrices: kronecker(*reversed(matrices)))
    assert broken_structure(("tensor", ("leaf", structure.A), ("leaf", structure.B))) is not None
    assert_search_finds(broken_structure, EXACT_TREES)


def test_planted_block_applied_to_the_wrong_factor_is_found(monkeypatch):
    gathered = compiler.gathered
    monkeypatch.setattr(compiler, "gathered", lambda before, size, state: gathered(1, size, state))
    assert broken_structure(("tensor", ("leaf", structure.A), ("leaf", structure.B))) is not None
    assert_search_finds(broken_structure, EXACT_TREES)


def test_planted_trace_over_the_wrong_factor_is_found(monkeypatch):
    traced = compiler.traced

    def shifted(node, size, matrix):
        return traced(node, lambda space: size(space) if space.factors else 2, matrix)

    monkeypatch.setattr(compiler, "traced", shifted)
    assert_search_finds(broken_structure, EXACT_TREES)


def test_planted_adjoint_that_forgets_to_transpose_is_found(monkeypatch):
    of_matrix = compiler._of_matrix
    monkeypatch.setattr(
        compiler, "_of_matrix", lambda node, *rest: rest[-1] if isinstance(node, compiler.Reversed) else of_matrix(node, *rest)
    )
    assert broken_structure(("adjoint", ("leaf", structure.M))) is not None


def test_planted_ordered_sum_that_repeats_an_index_is_found(monkeypatch):
    written = compiler._written
    monkeypatch.setattr(compiler, "_written", lambda total: written(total) + total.opened(1) @ total.opened(1))
    total = oa.ordered_sum(V[l], l, 3, 2)
    values = members(3)
    words = sum(values[f"V{j}"] @ values[f"V{i}"] for i, j in combinations(range(1, 4), 2))
    assert not np.array_equal(lambdify(total)(values), words)
