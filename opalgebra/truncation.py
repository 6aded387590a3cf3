"""Products, exponentials and logarithms of linear operators up to a grade, or up to several grades at once.

    truncation(A, order=n)      the words of A with at most n letters that count
    exponential(A, order=n)     sum over k of A^k / k!, up to that grade
    logarithm(A, order=n)       A - 1 - (A - 1)^2 / 2 + ..., for A with the constant 1

`order` is a number, by which every letter counts but norms, or a dictionary from what counts, as `Series` names it, to numbers:
`{"attention": 2, "ffn": 1}` keeps the words that have at most two vertices of attention and at most one of a feed-forward
network. No word above a grade is formed, and how many there are is known before.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opalgebra.errors import InputError
from opalgebra.expr import Atom, Dressed, Operator
from opalgebra.lie import check_arguments
from opalgebra.resolvent import refuse_nonlinear
from opalgebra.scalar import is_natural
from opalgebra.series import Counting, counter
from opalgebra.space import Kind

if TYPE_CHECKING:
    from opalgebra._words.graded import Words

Order = int | Mapping[Counting, int]
LIMIT = 10_000_000


def truncation(operator: Operator, *, order: Order, limit: int | None = LIMIT) -> Operator:
    """The words of a linear operator that have no grade above `order`.

    Letters are all operators but sums, products, commutators and multiples. NotLinearError for a nonlinear operator,
    InputError for an order that is no natural number and for coefficients with symbols, LimitError when more than `limit`
    words would be formed.

    >>> import opalgebra as oa
    >>> V = oa.family("V", kind="linear")
    >>> product = oa.ordered_product(1 + V[l] for l in range(1, 51))
    >>> len(truncation(product, order=2).terms)
    1276
    """
    words, _ = _read(operator, order, limit, "a truncation")
    return _written(words, operator)


def exponential(operator: Operator, *, order: Order, limit: int | None = LIMIT) -> Operator:
    """`exp(operator)` up to a grade. Errors as in `truncation`; InputError for words of grade 0, whose powers never end.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> print(exponential(A + B @ A, order=2))
    1 + A + 1/2*A @ A + B @ A
    """
    from opalgebra._words.series import exponential as series

    check_arguments(operator, order=0, of="an exponential")
    words, cut = _read(operator, order, limit, "an exponential")
    return _written(series(words, cut=cut, limit=limit), operator)


def logarithm(operator: Operator, *, order: Order, limit: int | None = LIMIT) -> Operator:
    """`log(operator)` up to a grade. Errors as in `exponential`; InputError unless the constant is 1.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> print(logarithm((1 + A) @ (1 + B), order={"all": 2}))
    A + B - 1/2*A @ A + 1/2*A @ B - 1/2*B @ A - 1/2*B @ B
    """
    from opalgebra._words.series import logarithm as series

    check_arguments(operator, order=0, of="a logarithm")
    words, cut = _read(operator, order, limit, "a logarithm")
    return _written(series(words, cut=cut, limit=limit), operator)


def _read(operator: Operator, order: Order, limit: int | None, of: str) -> "tuple[Words, tuple[int | None, ...]]":
    from opalgebra._words.reading import alphabet_of, read

    refuse_nonlinear(operator, needs=of)
    given: Mapping[Any, int] = order if isinstance(order, Mapping) else {"all": order}
    for most in given.values():
        if not is_natural(most):
            raise InputError(f"order={order!r}: {of} goes up to a natural number, or to one for each of what counts")
    chosen = [counter(counting) for counting in given]

    def weight(letter: Operator) -> tuple[int, ...]:
        vertex = letter.operator if isinstance(letter, Dressed) else letter
        if isinstance(vertex, Atom):
            return tuple(int(vertex.kind != Kind.NORM and bool(counts(vertex))) for counts in chosen)
        return tuple(int(counting == "all") for counting in given)

    cut = tuple(int(most) for most in given.values())
    return read(operator, alphabet_of(operator, weight), cut=cut, limit=limit), cut


def _written(words: "Words", like: Operator) -> Operator:
    from opalgebra._words.reading import written

    return written(words, like)
