"""Tables of results: for a terminal, for a notebook, and as booktabs for a paper.

A cell is a plain text, a number, or LaTeX, which is marked as `Formula`; None is an empty cell.
"""

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import singledispatch
from math import prod
from typing import Any, final

from opalgebra.display import Tabulated
from opalgebra.errors import InputError
from opalgebra.render.escaping import escape

Cell = str | int | float | None
_SHOWN, _LONGEST = 6, 60


@final
class Formula(str):
    """A text that is LaTeX already, such as `Formula(r"$\\|y_n\\|$")`; all other texts are plain."""

    __slots__ = ()


@final
@dataclass(frozen=True, repr=False)
class Table(Tabulated):
    """Headers, rows of as many cells, and a caption; `str` is the table for a terminal, `latex` gives its `tabular`."""

    headers: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.headers):
                raise InputError(f"row {number} has {len(row)} cells for {len(self.headers)} headers; give each header one")

    def __str__(self) -> str:
        cells = [list(map(_in_text, row)) for row in (self.headers, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = zip(*map(_aligned, zip(*cells), widths, _numeric(self)))
        return "\n".join([*([self.caption] if self.caption else []), *("  ".join(line).rstrip() for line in lines)])

    __repr__ = __str__


def _aligned(column: Sequence[str], width: int, is_number: bool) -> list[str]:
    return [cell.rjust(width) if is_number else cell.ljust(width) for cell in column]


def _numeric(shown: Table) -> list[bool]:
    """For each column whether it has numbers and no text."""
    columns = list(zip(*shown.rows)) or [()] * len(shown.headers)
    return [any(map(_is_number, column)) and all(cell is None or _is_number(cell) for cell in column) for column in columns]


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float)


def _in_text(cell: Cell) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else "" if cell is None else str(cell)


def _in_latex(cell: Cell) -> str:
    if isinstance(cell, str):
        return str(cell) if isinstance(cell, Formula) else escape(cell)
    return "" if cell is None else f"${cell}$" if isinstance(cell, int) else number(cell)


def _in_html(cell: Cell) -> str:
    return markup.escape(_in_text(cell))


def number(value: float) -> str:
    """A number in three digits as a formula."""
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    if not exponent:
        return {"nan": "--", "inf": r"$\infty$", "-inf": r"$-\infty$"}[mantissa]
    return f"${mantissa}$" if int(exponent) == 0 else rf"${mantissa}\cdot 10^{{{int(exponent)}}}$"


def tabular(shown: Table) -> str:
    """The table without its caption, legal in text and in formulas; columns of numbers are aligned to the right."""
    head, *body = (" & ".join(map(_in_latex, row)) + r" \\" for row in (shown.headers, *shown.rows))
    columns = "".join("r" if is_number else "l" for is_number in _numeric(shown))
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


def floating(shown: Table) -> str:
    """The table with its caption, for text."""
    caption = rf"\caption{{{_in_latex(shown.caption)}}}"
    return "\n".join([r"\begin{table}[htbp]\centering", caption, tabular(shown), r"\end{table}"])


def html(value: object) -> str:
    """The table of a value for a notebook."""
    shown = table(value)
    head, *body = ([_in_html(cell) for cell in row] for row in (shown.headers, *shown.rows))
    rows = ["".join(f"<td>{cell}</td>" for cell in row) for row in body]
    caption = f"<caption>{_in_html(shown.caption)}</caption>" if shown.caption else ""
    header = "".join(f"<th>{cell}</th>" for cell in head)
    inside = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{header}</tr></thead><tbody>{inside}</tbody></table>"


@singledispatch
def table(value: object) -> Table:
    """A result as a table; of a record without a table of its own, its fields, arrays by their shape and range.

    TypeError for what is no result.
    """
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} has no table; pass a result, or Table(headers, rows)")
    shown = [(part.name, getattr(value, part.name)) for part in fields(value) if part.repr]
    return Table(("", type(value).__name__), [(name, _summary(found)) for name, found in shown])


@table.register
def _(value: Table) -> Table:
    return value


def _summary(value: Any) -> Cell:
    """A number or text itself, a long array by its shape and dtype, anything else by its text, cut off."""
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        if 0 in value.shape or prod(value.shape) > _SHOWN:
            return f"{' x '.join(map(str, value.shape))} {value.dtype}".replace("torch.", "")
        return _shown(value.tolist())
    if value is None or isinstance(value, str | float) or type(value) is int:
        return value
    return _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    text = f"{value:.3g}" if isinstance(value, float | complex) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
