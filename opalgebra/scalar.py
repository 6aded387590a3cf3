"""Coefficients are exact: rational numbers, and polynomials over them in named symbols, Laurent in the positive ones.

Floats are taken at their exact binary value. A polynomial without symbols is a `Fraction`, so that equal scalars are
equal objects of one type. A symbol is a natural number, as an index or a length is, or a real number, as a coupling is.
"""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple, NoReturn, final

from opalgebra.display import Displayed
from opalgebra.errors import InputError, LimitError

DIGITS = 24
LONGEST = 1_000
LONGEST_NAME = 200
_NAME = re.compile(r"[^\W\d]\w*")
RESERVED = frozenset(
    "where source one zero sum ordered_product ordered_sum tensor inverse adjoint transpose commutator trace function".split()
)
"""Names that a text gives a meaning of their own."""


class Symbol(NamedTuple):
    """What a scalar symbol is: its name, and `natural`, `real` or `positive`."""

    name: str
    sort: str


Monomial = tuple[tuple[Symbol, int], ...]


@final
class Polynomial(Displayed):
    """A polynomial with rational coefficients and at least one symbol; made from `symbol` by `+ - * / **`.

    Negative powers are of positive symbols alone: `1/g * g = 1` must hold for every value of g.
    """

    __slots__ = ("terms",)

    terms: tuple[tuple[Monomial, Fraction], ...]

    def __init__(self) -> None:
        raise InputError("a Polynomial is made from symbols by + - * / **; start with symbol('L') or parameter('g')")

    @staticmethod
    def _make(terms: Iterable[tuple[Monomial, Fraction]]) -> "Scalar":
        collected: dict[Monomial, Fraction] = {}
        for monomial, coefficient in terms:
            before = collected.get(monomial)
            collected[monomial] = coefficient if before is None else before + coefficient
        kept = tuple(sorted(((m, c) for m, c in collected.items() if c), key=_reading_order))
        for found in (symbol for m, _ in kept for symbol, exponent in m if exponent < 0 and symbol.sort != "positive"):
            raise InputError(f"1/{found.name} was asked, but {found.name} may be zero; declare it with positive=True")
        if len(kept) > LONGEST:
            raise LimitError(f"a coefficient would have {len(kept):,} terms, more than {LONGEST:,}; give symbols values")
        if all(not monomial for monomial, _ in kept):
            return kept[0][1] if kept else Fraction(0)
        polynomial = object.__new__(Polynomial)
        object.__setattr__(polynomial, "terms", kept)
        return polynomial

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"polynomials are immutable: {name} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return Polynomial._make, (self.terms,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols that occur."""
        return frozenset(symbol for monomial, _ in self.terms for symbol, _ in monomial)

    def __add__(self, other: Any) -> Any:
        return Polynomial._make((*self.terms, *_terms(other))) if is_scalar(other) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if not is_scalar(other):
            return NotImplemented
        products = ((_times(m, n), c * d) for m, c in self.terms for n, d in _terms(other))
        return Polynomial._make(products)

    def __neg__(self) -> "Scalar":
        return -1 * self  # type: ignore[no-any-return]

    def __sub__(self, other: Any) -> Any:
        return self + -1 * as_scalar(other) if is_scalar(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __pow__(self, exponent: int) -> "Scalar":
        if not isinstance(exponent, int) or (exponent < 0 and len(self.terms) > 1):
            raise InputError(f"({self})**{exponent!r} is no Laurent polynomial; only a single term has negative powers")
        if len(self.terms) == 1:
            ((monomial, coefficient),) = self.terms
            return Polynomial._make([(tuple((s, e * exponent) for s, e in monomial if exponent), coefficient**exponent)])
        result: Scalar = Fraction(1)
        for _ in range(exponent):
            result = result * self
        return result

    def __truediv__(self, other: Any) -> Any:
        if not is_scalar(other):
            return NotImplemented
        divisor = as_scalar(other)
        return self * (divisor**-1 if isinstance(divisor, Polynomial) else 1 / divisor)

    def __rtruediv__(self, other: Any) -> Any:
        return self**-1 * other

    __radd__, __rmul__ = __add__, __mul__

    def at(self, values: Mapping[Symbol, "Scalar"]) -> "Scalar":
        """The scalar with values in place of some symbols. InputError where a symbol to a negative power becomes zero."""
        if values.keys().isdisjoint(self.symbols):
            return self
        total: Scalar = Fraction(0)
        for monomial, coefficient in self.terms:
            product: Scalar = coefficient
            for symbol, exponent in monomial:
                value = values.get(symbol)
                if value == 0 and exponent < 0:
                    raise InputError(f"{symbol.name} = 0 was asked in {self}, which divides by it; give another value")
                product = product * (scalar_of(symbol) if value is None else value) ** exponent
            total = total + product
        return total

    def __float__(self) -> float:
        raise InputError(f"{self} has no number; give its symbols values with instantiate")

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            term, sign = _term(monomial, abs(coefficient)), "-" if coefficient < 0 else "+"
            text += f" {sign} {term}" if text else f"-{term}" if sign == "-" else term
        return text

    __repr__ = __str__


Scalar = Fraction | Polynomial
ScalarLike = int | float | Fraction | Polynomial


def _terms(scalar: Any) -> tuple[tuple[Monomial, Fraction], ...]:
    return scalar.terms if isinstance(scalar, Polynomial) else (((), as_scalar(scalar)),)  # type: ignore[return-value]


def _times(left: Monomial, right: Monomial) -> Monomial:
    exponents = dict(left)
    for symbol, exponent in right:
        exponents[symbol] = exponents.get(symbol, 0) + exponent
    return tuple(sorted((symbol, exponent) for symbol, exponent in exponents.items() if exponent))


def _reading_order(term: tuple[Monomial, Fraction]) -> tuple[Any, ...]:
    """Higher degrees first, then by the names of the symbols."""
    monomial, _ = term
    return (-sum(exponent for _, exponent in monomial), monomial)


def _term(monomial: Monomial, coefficient: Fraction) -> str:
    powers = [symbol.name if exponent == 1 else f"{symbol.name}^{exponent}" for symbol, exponent in monomial]
    return "*".join([str(coefficient)] * (coefficient != 1 or not powers) + powers)


def symbol(name: str) -> Scalar:
    """A natural number without a value: an index, or the length of a product. `symbol("l") + 1`.

    Two symbols are equal when their names are; different symbols are never assumed to have different values.
    """
    return _symbol(name, "natural")


def parameter(name: str, *, positive: bool = False) -> Scalar:
    """A real number without a value, such as a coupling; `positive=True` declares that it is greater than zero."""
    return _symbol(name, "positive" if positive else "real")


def _symbol(name: str, sort: str) -> Scalar:
    check_symbol(name)
    return scalar_of(Symbol(name, sort))


def check_symbol(name: str) -> None:
    """InputError for what is no name of a symbol."""
    if isinstance(name, str) and len(name) > LONGEST_NAME:
        raise InputError(f"{name[:20]!r}... has {len(name):,} characters; a name has at most {LONGEST_NAME}")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or name in RESERVED:
        raise InputError(f"{name!r} is no name of a symbol; use letters and digits, as in L or g2")


def scalar_of(found: Symbol) -> Scalar:
    """A symbol as a scalar."""
    return Polynomial._make([(((found, 1),), Fraction(1))])


def the_symbol(value: object) -> Symbol:
    """The symbol that a scalar is. InputError when it is anything else."""
    found = value if isinstance(value, Symbol) else next(iter(free_symbols(value)), None)
    if found is None or (value != found and value != scalar_of(found)):
        raise InputError(f"{value} is no single symbol; use one such as L = symbol('L')")
    return found


def is_scalar(value: object) -> bool:
    """Whether `value` can be a coefficient."""
    if isinstance(value, int | float | Fraction | Polynomial):
        return not isinstance(value, bool)
    return isinstance(value, Rational) or (isinstance(value, Real) and hasattr(value, "as_integer_ratio"))


def is_natural(value: object) -> bool:
    """Whether `value` is a natural number: 0, 1, 2, ..."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def as_scalar(value: ScalarLike) -> Scalar:
    """`value` exactly; InputError for NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"a coefficient must be finite, not {value}; use a number")
    if isinstance(value, Polynomial | Fraction):
        return value
    try:
        if isinstance(value, Rational):
            return Fraction(int(value.numerator), int(value.denominator))
        return Fraction(*value.as_integer_ratio()) if isinstance(value, Real) else Fraction(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        raise InputError(f"{value!r} is no scalar; use a number, a fraction, or a symbol from symbol or parameter") from None


def is_negative(scalar: Scalar) -> bool:
    """Whether a scalar is written with a minus sign: a negative number, or a single term with a negative coefficient."""
    return scalar.terms[0][1] < 0 and len(scalar.terms) == 1 if isinstance(scalar, Polynomial) else scalar < 0


def largest_integer(scalar: Scalar) -> int:
    """The largest numerator or denominator in a scalar, without its sign."""
    return max(max(abs(c.numerator), c.denominator) for _, c in _terms(scalar))


def free_symbols(scalar: object) -> frozenset[Symbol]:
    """The symbols of a scalar or index; a number has none."""
    return scalar.symbols if isinstance(scalar, Polynomial) else frozenset()


def is_surely_natural(scalar: Scalar | int) -> bool:
    """Whether a scalar is a natural number for all natural values of its symbols, by its coefficients alone."""
    return all(
        c.denominator == 1 and c >= 0 and all(s.sort == "natural" and e > 0 for s, e in monomial)
        for monomial, c in _terms(scalar)
    )


def fits(symbol: Symbol, value: Scalar) -> bool:
    """Whether a value is of the sort of a symbol, for all values of its own symbols and by its coefficients alone."""
    if symbol.sort == "natural":
        return is_surely_natural(value)
    if symbol.sort == "positive":
        return all(c > 0 and all(s.sort == "positive" for s, _ in m) for m, c in _terms(value)) and value != 0
    return True


def fresh_names(taken: Iterable[Symbol], count: int) -> list[str]:
    """Names for indices, `l`, `n`, `m`, ..., that none of the symbols has."""
    used = {symbol.name for symbol in taken}
    letters = (f"{letter}{number or ''}" for number in range(len(used) + count) for letter in "lnmkji")
    return [name for name in letters if name not in used][:count]


def written_number(value: int) -> str:
    """All digits of a natural number, or the first three of one that has more than `DIGITS`."""
    digits = str(value)
    return f"{value:,}" if len(digits) <= DIGITS else f"{digits[0]}.{digits[1:3]}...e{len(digits) - 1}"


def binomial(upper: ScalarLike, lower: int) -> Scalar:
    """`upper (upper - 1) ... (upper - lower + 1) / lower!`: the words of `ordered_sum(V[l], l, upper, lower)`, as a polynomial.

    >>> binomial(symbol("L"), 2)
    1/2*L^2 - 1/2*L
    """
    if not is_natural(lower):
        raise InputError(f"binomial({upper}, {lower!r}): the lower number is a natural number, such as an order")
    if lower > LONGEST:
        raise LimitError(f"binomial({upper}, {lower:,}) would take {lower:,} factors, more than {LONGEST:,}; use a lower order")
    result: Scalar = Fraction(1)
    for step in range(lower):
        result = result * (as_scalar(upper) - step) / (step + 1)
    return result
