"""Display hooks without imports: a value names its renderer as `module:function`, and it is imported at first display.

The algebra is below the renderers and may not import them; this registry is the one place where it names them.
"""

from importlib import import_module
from typing import Any

RENDERERS = {
    "text": "opalgebra.render.text:text",
    "unicode": "opalgebra.render.text:unicode",
    "declared": "opalgebra.render.text:declared",
    "latex": "opalgebra.render.latex:latex",
    "html": "opalgebra.render.table:html",
    "svg": "opalgebra.render.svg:svg",
}


def render(form: str, value: Any) -> str:
    """`value` in one of the forms of `RENDERERS`."""
    module, function = RENDERERS[form].split(":")
    return str(getattr(import_module(module), function)(value))


class Displayed:
    """Mixin of every value with a display of its own: `str` is ASCII, notebooks get LaTeX, IPython the Unicode form."""

    __slots__ = ()

    def __str__(self) -> str:
        return render("text", self)

    def __repr__(self) -> str:
        return render("unicode", self)

    def _repr_latex_(self) -> str:
        return "$\\displaystyle " + render("latex", self) + "$"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(render("unicode", self))


class Tabulated:
    """Mixin of results: notebooks get them as tables."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return render("html", self)


class Drawn:
    """Mixin of what has a picture: notebooks get it as SVG."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return render("svg", self)
