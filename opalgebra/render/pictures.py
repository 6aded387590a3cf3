"""What has a picture, and how it is laid out; rows and grids of such things."""

from collections.abc import Iterable
from typing import Any

from opalgebra.diagram import Diagram
from opalgebra.errors import InputError
from opalgebra.expr import Operator
from opalgebra.render.feynman import diagram_picture
from opalgebra.render.label import Label, roman
from opalgebra.render.lattice import lattice_picture
from opalgebra.render.layout import Picture, grid_of, row_of
from opalgebra.worldlines import TokenDiagram


def picture(value: Any, *, in_cells: bool = False) -> Picture:
    """The layout of a Diagram, a TokenDiagram or a term, which every skin draws; a Picture is its own.

    in_cells: lays a TokenDiagram out for a terminal, with its tokens written across in columns as wide as they are there.

    InputError for what has no picture, or for an operator that is no term.

    >>> import opalgebra as oa
    >>> oa.picture(oa.Diagram(oa.transformer(1).dyson().term(1, 0))).title
    'Diagram: norm N1, attention A1'
    """
    if isinstance(value, Picture):
        return value
    if isinstance(value, TokenDiagram):
        return lattice_picture(value, in_cells=in_cells)
    if isinstance(value, Operator):
        value = Diagram(value)
    if isinstance(value, Diagram):
        return diagram_picture(value)
    raise InputError(
        f"{type(value).__name__} has no picture; draw a Diagram, a TokenDiagram, a term, or what a function picture_... returns"
    )


def picture_row(items: Iterable[Any], *, title: str | None = None) -> Picture:
    """Pictures beside each other, with signs between them given as texts such as "+" or "= 2".

    >>> import opalgebra as oa
    >>> S = oa.transformer(1).dyson()
    >>> oa.picture_row([S.term(1, 0), "+", S.term(1, 1)]).title
    'Diagram: norm N1, attention A1; Diagram: norm M1, ffn F1'
    """
    shown = _items(items)
    return row_of(shown, title=_title(shown) if title is None else title)


def picture_grid(items: Iterable[Any], *, columns: int = 4, title: str | None = None) -> Picture:
    """Pictures in rows of some columns, for a figure of many. InputError for none, or for no positive number of columns."""
    shown = [picture(item) for item in _listed(items)]
    return grid_of(shown, columns=columns, title=_title(shown) if title is None else title)


def _items(items: Iterable[Any]) -> list[Picture | Label]:
    return [roman(item) if isinstance(item, str) else picture(item) for item in _listed(items)]


def _listed(items: Iterable[Any]) -> list[Any]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise InputError(f"a list of pictures was asked of a {type(items).__name__}; give them in brackets, as in [d, '+', e]")
    return list(items)


def _title(shown: Iterable[Picture | Label]) -> str:
    return "; ".join(item.title for item in shown if isinstance(item, Picture) and item.title)
