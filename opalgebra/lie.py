"""Baker-Campbell-Hausdorff and Zassenhaus series of linear operators, and Lie polynomials in a normal form.

    log(exp A exp B) = A + B + [A, B]/2 + [A, [A, B]]/12 + [[A, B], B]/12 + ...
    exp(A + B)       = exp A exp B exp C_2 exp C_3 ...,      C_2 = -[A, B]/2

as formal series in the number of factors A and B, with exact coefficients. They are found as words and written as commutators
in the basis of Lyndon words, in which equal Lie polynomials are written alike: Jacobi's identity holds by normal form. All of
it is false for nonlinear maps, which are refused.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from opalgebra.commutator import commutator
from opalgebra.errors import InputError, SpaceError
from opalgebra.expr import Operator, Zero, check_operators, linear_combination
from opalgebra.kernel import Theorem
from opalgebra.prove import auto
from opalgebra.resolvent import refuse_nonlinear
from opalgebra.scalar import is_natural

if TYPE_CHECKING:
    from opalgebra._words.graded import Words

LIMIT = 200_000


def bch(A: Operator, B: Operator, *, order: int, limit: int | None = LIMIT) -> Operator:
    """The Baker-Campbell-Hausdorff series `log(exp A exp B)` up to an order: the Lie polynomials of degree 1, ..., order.

    NotLinearError unless both are linear, SpaceError unless both map one space to itself, InputError for an order that is no
    natural number; LimitError when more than `limit` words would be formed, by default above order 15 (None: no limit).

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> print(oa.bch(A, B, order=2) - (A + B + oa.commutator(A, B)))
    -1/2*commutator(A, B)

    Source: K. Goldberg, Duke Math. J. 23 (1956) 13, has the coefficients of the words in closed form.
    """
    check_arguments(A, B, order=order, of="the Baker-Campbell-Hausdorff series")
    return _as_commutators(_log_of_exponentials([(0, Fraction(1)), (1, Fraction(1))], order, limit), (A, B))


def symmetric_bch(A: Operator, B: Operator, *, order: int, limit: int | None = LIMIT) -> Operator:
    """`log(exp(A/2) exp B exp(A/2))` up to an order, of which no even order is there. Errors as in `bch`.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> oa.symmetric_bch(A, B, order=2) == A + B
    True

    Source: the splitting of G. Strang, SIAM J. Numer. Anal. 5 (1968) 506.
    """
    check_arguments(A, B, order=order, of="the symmetric Baker-Campbell-Hausdorff series")
    half = Fraction(1, 2)
    return _as_commutators(_log_of_exponentials([(0, half), (1, Fraction(1)), (0, half)], order, limit), (A, B))


def zassenhaus(A: Operator, B: Operator, *, order: int, limit: int | None = LIMIT) -> tuple[Operator, ...]:
    """The exponents `(A, B, C_2, ..., C_order)` of `exp(A + B) = exp A exp B exp C_2 exp C_3 ...`, in that order.

    C_n is a Lie polynomial of degree n. Orders begin at 1, with `(A, B)`. Errors as in `bch`.

    >>> import opalgebra as oa
    >>> A, B = oa.atoms("A B", kind="linear")
    >>> print(oa.zassenhaus(A, B, order=2)[2])
    -1/2*commutator(A, B)

    Source: W. Magnus, Comm. Pure Appl. Math. 7 (1954) 649.
    """
    check_arguments(A, B, order=order, of="the Zassenhaus formula")
    if order < 1:
        raise InputError("the Zassenhaus formula was asked up to order 0, but it begins with A and B; ask order=1 or more")
    from opalgebra._words.graded import Words, combination, product
    from opalgebra._words.packing import Alphabet
    from opalgebra._words.series import exponential

    alphabet, cut = Alphabet.plain((0, 1)), (order,)
    first, second = (Words.letter(alphabet, number) for number in (0, 1))
    rest = exponential(combination([(1, first), (1, second)]), cut=cut, limit=limit)
    for exponent in (first, second):
        rest = product(exponential(exponent.scaled(-1), cut=cut), rest, cut=cut, limit=limit)
    exponents = [A, B]
    for degree in range(2, order + 1):
        lowest = rest.where(lambda key, degree=degree: key[0] == degree)  # type: ignore[misc]
        exponents.append(_as_commutators(lowest, (A, B)))
        rest = product(exponential(lowest.scaled(-1), cut=cut), rest, cut=cut, limit=limit)
    return tuple(exponents)


def lyndon_form(operator: Operator) -> Theorem:
    """The theorem `operator = its normal form` for a sum of commutators and letters, nested in any way.

    The normal form is the sum of the brackets of Lyndon words over the letters, in the order in which they act: equal Lie
    polynomials have the same one, so that Jacobi's identity needs no rule. Letters are all operators but sums, products,
    commutators and multiples.

    NotLinearError for a nonlinear operator, SpaceError unless it maps one space to itself; InputError for what is no Lie
    polynomial, as `A @ B`, and for coefficients with symbols; LimitError for more than ten million words.

    >>> import opalgebra as oa
    >>> A, B, C = oa.atoms("A B C", kind="linear")
    >>> c = oa.commutator
    >>> print(oa.lyndon_form(c(A, c(B, C)) + c(B, c(C, A)) + c(C, c(A, B))).rhs)
    0

    Source: C. Reutenauer, Free Lie Algebras (1993), theorem 5.1.
    """
    check_arguments(operator, order=0, of="the normal form of commutators")
    from opalgebra._words.packing import Alphabet
    from opalgebra._words.reading import letters_of, read

    letters = sorted(letters_of(operator), key=lambda letter: (str(letter), letter.digest))
    alphabet = Alphabet.plain(letters)
    words = read(operator, alphabet)
    try:
        normal = _as_commutators(words, letters, operator)
    except InputError:
        raise InputError(
            f"{operator} has no normal form of commutators, for it is no sum of commutators and letters; expand writes it as "
            "words"
        ) from None
    return auto(operator, normal)


def check_arguments(*operators: Operator, order: int, of: str) -> None:
    """The refusals that all series share."""
    check_operators(*operators)
    if not is_natural(order):
        raise InputError(f"order={order!r}: {of} is written up to a natural number")
    refuse_nonlinear(*operators, needs=of)
    spaces = {space for operator in operators for space in (operator.domain, operator.codomain)}
    if len(spaces) > 1:
        raise SpaceError(
            f"{of} was asked of maps between {', '.join(sorted(map(str, spaces)))}; it needs maps of one space to itself"
        )


def _log_of_exponentials(factors: Sequence[tuple[int, Fraction]], order: int, limit: int | None) -> "Words":
    """`log(exp(c_1 x_1) exp(c_2 x_2) ...)` in two letters, for (number, coefficient) from left to right."""
    from opalgebra._words.graded import Words, product
    from opalgebra._words.packing import Alphabet
    from opalgebra._words.series import exponential, logarithm

    alphabet, cut = Alphabet.plain((0, 1)), (order,)
    total = Words.scalar(alphabet)
    for number, coefficient in factors:
        total = product(total, exponential(Words.letter(alphabet, number).scaled(coefficient), cut=cut), cut=cut, limit=limit)
    return logarithm(total, cut=cut, limit=limit)


def _as_commutators(words: "Words", letters: Sequence[Operator], like: Operator | None = None) -> Operator:
    from opalgebra._words.lyndon import lyndon_coordinates

    return as_commutators(lyndon_coordinates(dict(words.terms())), letters, like or letters[0])


def as_commutators(
    coordinates: Mapping[tuple[int, ...], Fraction],
    letters: Sequence[Operator],
    like: Operator,
    *,
    commuting: Sequence[Any] = (),
) -> Operator:
    """The sum of brackets of Lyndon words with these coefficients, with operators for the letters.

    Letters with equal entries of `commuting`, if given, are powers of one operator and commute.
    """
    from opalgebra._words.lyndon import factorized

    brackets: dict[tuple[int, ...], Operator] = {(number,): letter for number, letter in enumerate(letters)}

    def bracket(word: tuple[int, ...]) -> Operator:
        if word not in brackets:
            left, right = factorized(word)
            if commuting and len(word) == 2 and commuting[word[0]] is commuting[word[1]]:
                brackets[word] = Zero(like.domain, like.codomain)
            else:
                brackets[word] = commutator(bracket(left), bracket(right))
        return brackets[word]

    return linear_combination(((c, bracket(word)) for word, c in coordinates.items()), like.domain, like.codomain)
