"""A stand-alone article that compiles with plain pdflatex: paragraphs, displayed formulas, tables.

Long sums are broken into lines before a sign that stands outside all brackets.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opalgebra.errors import InputError
from opalgebra.files import write_text
from opalgebra.render.latex import latex
from opalgebra.render.lines import INDENT, WIDTH, broken

_PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[a4paper,margin=2.5cm]{geometry}
\usepackage{amsmath,amssymb,booktabs}
\allowdisplaybreaks
"""


@dataclass(frozen=True)
class Table:
    """A booktabs table; cells are LaTeX, the first column is text, the others are numbers aligned to the right."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str

    def latex(self) -> str:
        head, *body = (" & ".join(row) + r" \\" for row in (self.headers, *self.rows))
        columns = "l" + "r" * (len(self.headers) - 1)
        lines = [
            r"\begin{table}[htbp]\centering", rf"\caption{{{self.caption}}}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule",
            head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{table}",
        ]  # fmt: skip
        return "\n".join(lines)


@dataclass(frozen=True)
class Document:
    """A title and items in order: LaTeX paragraphs, tables, and values that are displayed as formulas.

    A formula belongs to the paragraph before it, which a text in lower case continues after it.
    """

    items: tuple[object, ...]
    title: str

    def __str__(self) -> str:
        body = "".join(_separator(before, item) + _item(item) for before, item in zip(("", *self.items), self.items))
        return (
            rf"{_PREAMBLE}\title{{{self.title}}}"
            + f"\n\\date{{}}\n\\begin{{document}}\n\\maketitle\n{body}\n\n\\end{{document}}\n"
        )

    def save(self, path: str | Path) -> Path:
        """Writes the article whole or not at all."""
        return write_text(path, str(self))


def document(items: Iterable[object], *, title: str) -> Document:
    """An article of the items, each a LaTeX paragraph (str), a Table, or a value with a LaTeX form.

    >>> import opalgebra as oa
    >>> r"\\begin{align*}" in str(oa.document([oa.transformer(1).operator], title="One layer"))
    True
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise InputError(f"the items of a document are a list, not a {type(items).__name__}; write document([it], title='T')")
    if not isinstance(title, str):
        raise InputError(f"title={title!r} is no text; write document([it], title='T')")
    return Document(tuple(items), title)


def escape(text: str) -> str:
    """Plain text as LaTeX; a character that plain pdflatex has no glyph for is written as its code, `[U+03B1]`."""
    return "".join(map(_escaped, text))


_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "\n": " ", "\t": " ",
    **{character: f"\\{character}" for character in "#$%&_{}"},
}  # fmt: skip
_ACCENTS = frozenset("\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0327")


def _escaped(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    parts = unicodedata.normalize("NFD", character)
    accented = len(parts) == 2 and parts[0].isascii() and parts[1] in _ACCENTS and character <= "\u017f"
    return character if accented or (character.isascii() and character.isprintable()) else f"[U+{ord(character):04X}]"


def display(value: object) -> str:
    """A value as a displayed formula, broken into lines of at most about `WIDTH` visible characters."""
    first, *others = broken(latex(value), width=WIDTH)
    body = " \\\\\n".join([f"&{first}", *(f"&{INDENT} {line.removeprefix(INDENT).strip()}" for line in others)])
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


def _separator(before: object, item: object) -> str:
    if isinstance(item, str):
        continues = item[:1].islower() and not isinstance(before, str | Table)
    else:
        continues = isinstance(before, str) and not isinstance(item, Table)
    return "\n" if continues else "\n\n"


def _item(item: object) -> str:
    if isinstance(item, str):
        return item
    return item.latex() if isinstance(item, Table) else display(item)
