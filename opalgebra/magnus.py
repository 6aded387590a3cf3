"""The logarithm of an ordered product of layers, order by order: the Magnus series of discrete depth.

    O(1 + V)       O_1 = sum V_l,     O_2 = 1/2 sum over i > j of [V_i, V_j] - 1/2 sum V_l^2
    O(exp V)       O_1 = sum V_l,     O_2 = 1/2 sum over i > j of [V_i, V_j]

later layers to the left. A layer of a residual network is `1 + V`, which is no exponential: `1 + V = exp(V - V^2/2 + V^3/3 -
...)`, and so its series has the powers `V^k`, of order k, as letters of their own. For a product without a value for its
length, with E_k the words of k layers,

    O_n = sum over n = k_1 + ... + k_m of (-1)^(m - 1)/m E_{k_1} ... E_{k_m}.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import factorial, prod

from opalgebra.errors import InputError
from opalgebra.expr import Identity, Operator, Sum, at, factors, linear_combination, terms
from opalgebra.expr import ordered_product as composed
from opalgebra.function import FunctionOf
from opalgebra.indexed import OrderedProduct, ordered_sum
from opalgebra.lie import as_commutators, check_arguments
from opalgebra.scalar import Scalar, as_scalar, the_symbol

_FORMS = ("commutators", "words")
Layer = tuple[Operator, Fraction, bool]
"""W and c of a layer with V = c W, and whether it is exp(V) rather than 1 + V."""


def magnus(product: Operator, *, order: int, form: str = "commutators", limit: int | None = 10_000_000) -> Operator:
    """`O_1 + ... + O_order` of `log(product)` for an ordered product of layers `1 + V` and `exp(V)`, `function("exp", V)`.

    Each V counts one order and is not taken apart. As "commutators" the result is the Lie polynomial in the V and, for layers
    `1 + V`, their powers, in the basis of Lyndon words; as "words" it is multiplied out. A product without a value for its
    length has `1 + V[l]` and gives products of ordered sums in any form.

    NotLinearError for a nonlinear map, SpaceError unless it maps one space to itself, InputError for a factor that is no
    layer, an unknown form, or an order that is no natural number; LimitError when more than `limit` words would be formed
    (None: no limit).

    >>> import opalgebra as oa
    >>> V = oa.family("V", kind="linear")
    >>> print(oa.magnus((1 + V[2]) @ (1 + V[1]), order=2, form="words"))
    V1 + V2 - 1/2*V1 @ V1 - 1/2*V1 @ V2 + 1/2*V2 @ V1 - 1/2*V2 @ V2
    >>> exponentials = oa.function("exp", V[2]) @ oa.function("exp", V[1])
    >>> print(oa.magnus(exponentials, order=2) - V[1] - V[2])
    -1/2*commutator(V1, V2)
    >>> l, L = oa.symbol("l"), oa.symbol("L")
    >>> print(oa.magnus(oa.ordered_product(1 + V[l], l, 1, L), order=1))
    ordered_sum(V[l], l, L, 1)

    Source: S. Blanes, F. Casas, J. A. Oteo, J. Ros, Phys. Rep. 470 (2009) 151; here each layer is one step of the product.
    """
    check_arguments(product, order=order, of="the Magnus series")
    if form not in _FORMS:
        raise InputError(f"form={form!r} is unknown; use {' or '.join(_FORMS)}")
    if isinstance(product, OrderedProduct):
        return _of_any_length(product, order)
    layers = [layer for factor in reversed(factors(product)) for layer in _layer(factor)]
    if not layers:
        return 0 * product
    return _as_words(layers, order, product, limit) if form == "words" else _as_lie(layers, order, product, limit)


def _layer(factor: Operator) -> list[Layer]:
    """What a layer adds, a number taken out of it, and whether it is an exponential; none for the identity."""
    if isinstance(factor, Identity):
        return []
    if isinstance(factor, FunctionOf) and factor.name == "exp":
        return [(*_multiple(factor.operator), True)]
    if isinstance(factor, Sum) and any(c == 1 and isinstance(term, Identity) for c, term in terms(factor)):
        return [(*_multiple(factor - 1), False)]
    raise InputError(f"the Magnus series needs layers 1 + V or exp(V), and {factor} is neither; put each layer into one factor")


def _multiple(operator: Operator) -> tuple[Operator, Fraction]:
    """An operator that is no multiple of another by a number, and the number."""
    if isinstance(operator, Sum) and len(operator.terms) == 1:
        ((c, term),) = operator.terms
        if isinstance(c, Fraction):
            return term, c
    return operator, Fraction(1)


def _as_words(layers: Sequence[Layer], order: int, like: Operator, limit: int | None) -> Operator:
    from opalgebra._words.ordered import ordered_product
    from opalgebra._words.packing import Alphabet
    from opalgebra._words.reading import written
    from opalgebra._words.series import logarithm
    from opalgebra._words.small import Rational, Word

    letters = list(dict.fromkeys(W for W, _, _ in layers))
    alphabet = Alphabet.plain(letters)
    steps: list[dict[Word, Rational]] = []
    for W, c, is_exponential in layers:
        step = dict[Word, Rational]({(): 1})
        for power in range(1, (order if is_exponential else min(order, 1)) + 1):
            step[(alphabet.numbers[W],) * power] = c**power / factorial(power)
        steps.append(step)
    total = ordered_product(alphabet, steps, cut=(order,), limit=limit)
    return written(logarithm(total, cut=(order,), limit=limit), like)


def _as_lie(layers: Sequence[Layer], order: int, like: Operator, limit: int | None) -> Operator:
    from opalgebra._words.graded import check_count
    from opalgebra._words.lyndon import lyndon_coordinates
    from opalgebra._words.ordered import ordered_product
    from opalgebra._words.packing import Alphabet
    from opalgebra._words.series import logarithm
    from opalgebra._words.small import Rational, Word

    residual = sum(not is_exponential for *_, is_exponential in layers)
    powers = list(dict.fromkeys((W, k) for W, _, exact in layers for k in range(1, (1 if exact else order) + 1)))
    alphabet, cut = Alphabet(tuple(powers), tuple((power,) for _, power in powers)), (order,)
    check_count(alphabet, {(order, cut): residual * 2**order}, limit)
    steps: list[dict[Word, Rational]] = []
    for W, c, is_exponential in layers:
        step = dict[Word, Rational]({(): 1})
        for n in range(1, order + 1):
            for parts in [(1,) * n] if is_exponential else _compositions(n):
                word = tuple([alphabet.numbers[W, part] for part in parts])
                step[word] = c**n * Fraction((-1) ** (n - len(parts)), factorial(len(parts)) * prod(parts))
        steps.append(step)
    total = logarithm(ordered_product(alphabet, steps, cut=cut, limit=limit), cut=cut, limit=limit)
    letters = [composed([W] * power, space=like.domain) for W, power in powers]
    commuting = [W for W, _ in powers]
    return as_commutators(lyndon_coordinates(dict(total.terms())), letters, like, commuting=commuting)


def _of_any_length(product: OrderedProduct, order: int) -> Operator:
    """The series of `1 + V[l]` over a range with symbols, in the ordered sums of V."""
    index = product.free_index(product)
    layers = _layer(product.opened(index))
    if not layers:
        return 0 * product
    ((W, c, is_exponential),) = layers
    if is_exponential:
        raise InputError(
            f"the Magnus series of {product} was asked, whose words repeat layers; give the length a value, or use layers 1 + V"
        )
    shift = as_scalar(product.lower) - 1
    body, upper = at(c * W, {the_symbol(index): index + shift}), as_scalar(product.upper) - shift
    words = {k: ordered_sum(body, index, upper, k) for k in range(1, order + 1)}  # type: ignore[arg-type]
    found: list[tuple[Scalar, Operator]] = []
    for n in range(1, order + 1):
        for parts in _compositions(n):
            sign = Fraction((-1) ** (len(parts) + 1), len(parts))
            found.append((sign, composed([words[k] for k in reversed(parts)], space=product.domain)))
    return linear_combination(found, product.domain, product.codomain)


def _compositions(number: int) -> list[tuple[int, ...]]:
    """The ways to write a number as a sum of positive ones in order."""
    if number == 0:
        return [()]
    return [(first, *rest) for first in range(1, number + 1) for rest in _compositions(number - first)]
