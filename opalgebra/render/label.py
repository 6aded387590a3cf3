"""Labels of pictures: short texts with indices, in the form of every skin, and a width that none of these forms exceeds.

A label is a tuple of runs. A run is a `variable` (italic, or Greek), `roman` (upright in a formula) or `text` (words, such as a
token of a prompt), on the line, below it (level -1) or above it (level 1).
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from opalgebra.expr import Atom
from opalgebra.render.escaping import escape
from opalgebra.render.text import source_name

CELL, LINE = 6.0, 12.0
SIZE = 10.0
SMALLER = 0.7
SHIFTS = {-1: -0.22, 0: 0.0, 1: 0.36}

_GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
).split()
_GREEK = dict(zip(_GREEK_NAMES, "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"))
_COMMANDS = {letter: rf"\{name} " for name, letter in _GREEK.items()} | {
    "⟨": r"\langle ", "⟩": r"\rangle ", "−": "-", "…": r"\ldots ", "×": r"\times ", "·": r"\cdot ", "ᵀ": r"\mathsf{T}",
}  # fmt: skip
_IN_TEXT = {"␣": r"\textvisiblespace{}", "…": r"\ldots{}", "−": "$-$", "·": r"$\cdot$", "$": r"\char36{}"}
_BELOW = dict(zip("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")) | {",": ",", "…": "…"}
_ABOVE = dict(zip("0123456789+-−=()T", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵀ"))

_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")

# Advances in units of the font size that the text faces in use (Computer Modern, Times, DejaVu Serif) do not exceed.
_ADVANCE = dict.fromkeys("MWmw@%—", 1.12) | dict.fromkeys("ijl.,:;'|()[] !", 0.45) | {"…": 1.3, "␣": 0.75}
_CAPITAL, _OTHER = 0.9, 0.72


@dataclass(frozen=True)
class Run:
    """A piece of a label in one style at one level."""

    text: str
    style: str = "roman"
    level: int = 0


Label = tuple[Run, ...]


def name_label(atom: Atom, *, is_transposed: bool = False) -> Label:
    """The name of an atom with its indices below the line; what follows an underscore in a name is an index too."""
    return _indexed(atom.base, atom, is_transposed)


def source_label(atom: Atom, maps: frozenset[str]) -> Label:
    """The name of the source that an atom leaves over; `maps` are the base names in use."""
    return _indexed(source_name(atom, maps), atom, False)


def _indexed(base: str, atom: Atom, is_transposed: bool) -> Label:
    stem, *below = base.split("_")
    letter = _GREEK.get(stem, stem)
    indices = ",".join([part for part in below if part] + [str(index).replace(" ", "") for index in atom.indices])
    runs = [Run(letter, "variable" if len(letter) == 1 else "roman")] if letter else []
    if indices:
        runs.append(Run(indices, level=-1))
    return (*runs, Run("T", level=1)) if is_transposed else tuple(runs)


def words(text: str) -> Label:
    """Plain text, such as a token: control characters are written as escapes, and a token of blanks alone as signs for them."""
    shown = "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in _UNSEEN else character
        for character in text
    )
    return (Run(shown if shown.strip() else "␣" * len(shown), "text"),) if shown else ()


def roman(text: str) -> Label:
    """Signs and numbers of a formula."""
    return (Run(text),) if text else ()


def variable(letter: str, below: str = "") -> Label:
    """A variable with an index below the line."""
    return (Run(letter, "variable"), Run(below, level=-1)) if below else (Run(letter, "variable"),)


def families(atoms: Iterable[Atom]) -> Label:
    """Many atoms in little room: of each family the first and the last, `F_1 … F_{30}`."""
    groups: dict[str, list[Atom]] = {}
    for atom in sorted(set(atoms), key=lambda atom: atom.sort_key):
        groups.setdefault(atom.base, []).append(atom)
    found: list[Run] = []
    for members in groups.values():
        found += roman(", ") if found else ()
        found += name_label(members[0])
        if len(members) > 1:
            found += [*roman("…" if len(members) > 2 else ", "), *name_label(members[-1])]
    return tuple(found)


def unicode_of(label: Label) -> str:
    """The label as characters of a terminal, one cell each but for wide ones."""
    return "".join(map(_unicode, label))


def _unicode(run: Run) -> str:
    table, mark = {-1: (_BELOW, "_"), 0: ({}, ""), 1: (_ABOVE, "^")}[run.level]
    if run.level == 0:
        return run.text
    return "".join(table[c] for c in run.text) if all(c in table for c in run.text) else mark + run.text


def cells_of(label: Label) -> int:
    """How many cells of a terminal the label takes."""
    return sum(map(cells, unicode_of(label)))


def cells(character: str) -> int:
    """How many cells of a terminal a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def latex_of(label: Label) -> str:
    """The label in LaTeX, words as text and all else as a formula; no package is needed."""
    pieces: list[tuple[bool, str]] = []
    for run in label:
        is_text = run.style == "text"
        written = _latex_text(run.text) if is_text else _latex_formula(run)
        if pieces and pieces[-1][0] == is_text:
            pieces[-1] = (is_text, pieces[-1][1] + written)
        else:
            pieces.append((is_text, written))
    return "".join(written if is_text else f"${written.strip()}$" for is_text, written in pieces)


def _latex_text(text: str) -> str:
    return "".join(_IN_TEXT.get(character) or _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return f"${_COMMANDS[character].strip()}$" if character in _COMMANDS else escape(character)


def _latex_formula(run: Run) -> str:
    body = "".join(map(_latex_sign, run.text))
    letters = any(character.isascii() and character.isalpha() for character in run.text)
    if run.style == "roman" and letters:
        body = r"\mathsf{T}" if (run.text, run.level) == ("T", 1) else rf"\mathrm{{{body}}}"
    mark = {-1: "_", 0: "", 1: "^"}[run.level]
    return f"{mark}{{{body.strip()}}}" if mark else body


def _latex_sign(character: str) -> str:
    if character in _COMMANDS:
        return _COMMANDS[character]
    if character.isascii() and (character.isalnum() or character in "+-=,.()[]/<>|*!:; '"):
        return r"\ " if character == " " else character
    return rf"\mbox{{{escape(character)}}}"


def width_of(label: Label, size: float) -> float:
    """A width that the label does not exceed in any skin, for a font size in the units of the picture."""
    advances = sum(_advance(character) * (SMALLER if run.level else 1.0) for run in label for character in run.text)
    return max(advances * size, cells_of(label) * CELL)


def spelled(text: str) -> str:
    """The text with each character that not every text face has as its code, `[U+6F22]`."""
    return "".join(character if _is_common(character) else escape(character) for character in text)


def _is_common(character: str) -> bool:
    return ord(character) <= 0x17F or character in _COMMANDS or character in _IN_TEXT


@cache
def _advance(character: str) -> float:
    if not _is_common(character):
        return max(1.1, _OTHER * len(escape(character)))
    return _ADVANCE.get(character, _CAPITAL if character.isupper() or character in "_-+=<>−×" else _OTHER)
