"""An article that compiles with plain pdflatex, or its body for `\\input`: paragraphs, displayed formulas, tables.

Long sums are broken into lines before a sign that stands outside all brackets.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opalgebra.display import Drawn, Tabulated
from opalgebra.errors import InputError
from opalgebra.files import write_text
from opalgebra.render.latex import latex
from opalgebra.render.lines import INDENT, WIDTH, broken
from opalgebra.render.notation import PLAIN, Notation, check_notation
from opalgebra.render.table import floating, table
from opalgebra.render.tikz import PREAMBLE, tikz

_PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[a4paper,margin=2.5cm]{geometry}
\usepackage{amsmath,amssymb,booktabs}
\allowdisplaybreaks
"""


@dataclass(frozen=True, repr=False)
class Document:
    """A title and items in order: LaTeX paragraphs, tables, and values that are displayed as formulas in one notation.

    A formula belongs to the paragraph before it, which a text in lower case continues after it. `str` is the whole article.
    """

    items: tuple[object, ...]
    title: str
    notation: Notation = PLAIN

    def __repr__(self) -> str:
        return f"Document({self.title!r}, {len(self.items)} items)"

    @property
    def body(self) -> str:
        """What stands between the beginning and the end of the document; it needs amsmath, amssymb, booktabs, and for
        pictures what `opalgebra.render.tikz.PREAMBLE` says."""
        pairs = zip(("", *self.items), self.items)
        return "".join(_separator(before, item) + _item(item, self.notation) for before, item in pairs).lstrip("\n")

    def __str__(self) -> str:
        body = self.body
        pictures = f"{PREAMBLE}\n" if r"\begin{tikzpicture}" in body else ""
        return (
            rf"{_PREAMBLE}{pictures}\title{{{self.title}}}"
            + f"\n\\date{{}}\n\\begin{{document}}\n\\maketitle\n\n{body}\n\n\\end{{document}}\n"
        )

    def save(self, path: str | Path, *, fragment: bool = False) -> Path:
        """Writes the article, or its body alone for `\\input`, whole or not at all."""
        return write_text(path, self.body + "\n" if fragment else str(self))


def document(items: Iterable[object], *, title: str, notation: Notation = PLAIN) -> Document:
    """An article of the items, each LaTeX text (str), a result or Table, a diagram or picture, or a value with a formula.

    >>> import opalgebra as oa
    >>> r"\\begin{align*}" in str(oa.document([oa.transformer(1).operator], title="One layer"))
    True
    """
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise InputError(f"the items of a document are a list, not a {type(items).__name__}; write document([it], title='T')")
    if not isinstance(title, str):
        raise InputError(f"title={title!r} is no text; write document([it], title='T')")
    return Document(tuple(items), title, check_notation(notation))


def display(value: object, *, notation: Notation = PLAIN) -> str:
    """A value as a displayed formula, broken into lines of at most about `WIDTH` visible characters."""
    first, *others = broken(latex(value, notation=notation), width=WIDTH)
    body = " \\\\\n".join([f"&{first}", *(f"&{INDENT} {line.removeprefix(INDENT).strip()}" for line in others)])
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


def _separator(before: object, item: object) -> str:
    if isinstance(item, str):
        continues = item[:1].islower() and not isinstance(before, str | Drawn | Tabulated)
    else:
        continues = isinstance(before, str) and not isinstance(item, Drawn | Tabulated)
    return "\n" if continues else "\n\n"


def _item(item: object, notation: Notation) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, Drawn):
        return f"\\begin{{center}}\n{tikz(item)}\n\\end{{center}}"
    return floating(table(item)) if isinstance(item, Tabulated) else display(item, notation=notation)
