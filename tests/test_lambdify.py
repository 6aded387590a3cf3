"""Compiled operators compute on arrays what they mean: against exact rationals, brute force and PyTorch; shapes are checked."""

import subprocess
import sys
from fractions import Fraction
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from strategies import SPACES, build, operators, states, trees

import opalgebra as oa
from opalgebra import lambdify as lambdify_function
from opalgebra.expr import Atom, Compose, Dressed, Identity, Source, Sum, Zero, postorder
from opalgebra.lambdify import lambdify
from opalgebra.scalar import parameter, symbol
from opalgebra.space import ONE, K, Space, X

compiler = sys.modules["opalgebra.lambdify"]
A, B, C = oa.atoms("A B C", kind="linear")
F, G = oa.atoms("F G", kind="nonlinear")
x, y = oa.state("x"), oa.state("y")
Y = Space("hidden")
UP, DOWN = oa.Atom("U", kind="linear", codomain=Y), oa.Atom("W", kind="linear", domain=Y)
SIZES = {X: 3, Y: 2, K: 1}
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
        (lambda: lambdify(oa.Identity())(), "1 needs the size of X, and no value on that space gives it; give an argument"),
        (
            lambda: lambdify(Zero(X, Y))(None, v),
            "zero(X, hidden) needs the size of hidden, and no value on that space gives it; give an argument",
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


def test_symbolic_coefficients_and_lengths_are_refused():
    index, length, coupling = symbol("l"), symbol("L"), parameter("g")
    assert refused(oa.InputError, lambda: lambdify(A + coupling * B)) == (
        "the coefficient g has symbols and so is no number; give them values"
    )
    V = oa.family("V", kind="linear")
    assert refused(oa.InputError, lambda: lambdify(A @ oa.ordered_product(1 + V[index], index, 1, length))) == (
        "ordered_product(1 + V[l], l, 1, L) (OrderedProduct) has no array; write it as sums and products"
    )
    assert np.array_equal(lambdify(V[index] @ A)({V[index]: b, A: a}), b @ a)


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
    constant = compiler._Arrays.constant

    def ones(self, node, *inputs):
        found = constant(self, node, *inputs)
        return np.ones_like(found) if isinstance(node, Identity) else found

    assert broken_matrix(1 + A) is None
    monkeypatch.setattr(compiler._Arrays, "constant", ones)
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
        turned = [s if s.leaf is not None or s.coefficients else compiler.Step(s.number, None, s.inputs[::-1]) for s in steps]
        return run((turned, result, finished), *rest)

    monkeypatch.setattr(compiler, "_run", backwards)
    assert broken_matrix(A + B) is None
    assert broken_matrix(A @ B) is not None
    assert_search_finds(broken_matrix, SMALL)


def test_planted_forgotten_coefficient_is_found(monkeypatch):
    monkeypatch.setattr(compiler, "_number", lambda coefficient, array: 1)
    assert broken_matrix(A + B) is None
    assert broken_matrix(A - B) is not None
    assert_search_finds(broken_matrix, SMALL)
