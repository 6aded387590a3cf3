r"""How a paper writes letters: names of operators and states, their indices, and exact scalars, as LaTeX for math mode.

A `Notation` is the author's choice, one value that is passed to `latex` and `document`. By default a layer is `V_{3}`; with
`Notation(operator=r"\hat", index="superscript")` it is `\hat{V}^{(3)}`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

from opalgebra.errors import InputError
from opalgebra.expr import Index
from opalgebra.scalar import Polynomial, Scalar

_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
).split()
_GREEK = {**dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", _GREEK_NAMES)), **{name: name for name in _GREEK_NAMES}}
_COMMAND = re.compile(r"\\[A-Za-z]+")


@final
@dataclass(frozen=True)
class Notation:
    r"""The choices of a paper. InputError for a choice that is none.

    `operator` is a command around the letter of each operator, such as `\hat` or `\mathbf`, or nothing; `index` is
    `"subscript"`, as in `V_{3}`, or `"superscript"`, as in `V^{(3)}`; `identity` is the symbol of the identity, as in
    `\mathbb{1}`; `letters` has the LaTeX of names that are to be written otherwise, `{"A": r"\mathcal{A}"}`.

    >>> import opalgebra as oa
    >>> V = oa.family("V", kind="linear")
    >>> print(oa.latex(1 + V[3], notation=oa.Notation(operator=r"\hat", index="superscript", identity="I")))
    I + \hat{V}^{(3)}
    """

    operator: str = ""
    index: str = "subscript"
    identity: str = "1"
    letters: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.operator, str) or (self.operator and _COMMAND.fullmatch(self.operator) is None):
            raise InputError(rf"operator={self.operator!r} is no command such as '\hat' or '\mathbf'; leave it empty for none")
        if self.index not in ("subscript", "superscript"):
            raise InputError(f"index={self.index!r} is no place of an index; use 'subscript' or 'superscript'")
        if not isinstance(self.identity, str) or not self.identity:
            raise InputError(rf"identity={self.identity!r} is no symbol; write one, as in '1' or r'\mathbb{{1}}'")
        if not isinstance(self.letters, Mapping) or not all(isinstance(t, str) for pair in self.letters.items() for t in pair):
            raise InputError(rf"letters={self.letters!r} is no table of names; write {{'A': r'\mathcal{{A}}'}}")
        object.__setattr__(self, "letters", MappingProxyType(dict(self.letters)))

    def __reduce__(self) -> tuple[Callable[..., "Notation"], tuple[object, ...]]:
        return Notation, (self.operator, self.index, self.identity, dict(self.letters))


PLAIN = Notation()


def check_notation(value: object) -> Notation:
    """The value, if it is a Notation. InputError for anything else."""
    if not isinstance(value, Notation):
        raise InputError(rf"{value!r} is no notation; write Notation(operator=r'\hat', index='superscript')")
    return value


def name(notation: Notation, base: str, indices: tuple[Index | Scalar, ...] = (), *, is_operator: bool, above: str = "") -> str:
    """A letter with its indices; `above` is one more command around it."""
    stem, *marks = base.split("_")
    letter = notation.letters.get(stem) or (rf"\{_GREEK[stem]}" if stem in _GREEK else None)
    if letter is None:
        letter = stem if len(stem) == 1 and stem.isascii() else upright(stem) if stem else r"\_"
    for command in (above, notation.operator if is_operator else ""):
        letter = f"{command}{{{letter}}}" if command else letter
    below, places = [upright(mark) for mark in marks if mark], [index(place) for place in indices]
    if notation.index == "superscript":
        return letter + _mark("_", below) + (f"^{{({','.join(places)})}}" if places else "")
    return letter + _mark("_", below + places)


def _mark(sign: str, parts: list[str]) -> str:
    return f"{sign}{{{','.join(parts)}}}" if parts else ""


def upright(word: str) -> str:
    """A word in roman type; a character that plain pdflatex has no glyph for in formulas is written as its code."""
    if word.isascii():
        return rf"\mathrm{{{word}}}"
    return "".join(
        rf"{{\{_GREEK[character]}}}"
        if character in _GREEK
        else rf"\mathrm{{{character if character.isascii() else f'[U+{ord(character):04X}]'}}}"
        for character in word
    )


def scalar(value: Scalar) -> str:
    """A coefficient, in brackets where it has several terms."""
    if isinstance(value, Polynomial):
        return rf"({polynomial(value)})" if len(value.terms) > 1 else polynomial(value)
    return str(value) if value.denominator == 1 else rf"\tfrac{{{value.numerator}}}{{{value.denominator}}}"


def polynomial(value: Polynomial) -> str:
    """A polynomial without brackets."""
    text = ""
    for monomial, coefficient in value.terms:
        powers = [symbol_name(found) + (f"^{{{exponent}}}" if exponent != 1 else "") for (found, _), exponent in monomial]
        size = [scalar(abs(coefficient))] if abs(coefficient) != 1 or not powers else []
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} " if text else "-" if sign == "-" else ""
        text += r"\,".join(size + powers)
    return text


def symbol_name(written: str) -> str:
    """A symbol: digits at the end are an index, and so is what follows an underscore."""
    stem, underscore, mark = written.partition("_")
    if underscore and stem and mark:
        return rf"{symbol_name(stem)}_{{{mark.replace(' ', '')}}}"
    split = re.fullmatch(r"(.*?)((?:0|[1-9][0-9]*)?)", written)
    assert split is not None
    return name(PLAIN, split[1], (int(split[2]),) if split[2] else (), is_operator=False) if split[1] else written


def index(value: Index | Scalar) -> str:
    """An index or a bound."""
    return polynomial(value).replace(" ", "") if isinstance(value, Polynomial) else str(value)
