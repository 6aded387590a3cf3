"""An architecture as an ordered product, and its series with the ordered sums unexpanded, as LaTeX in a notation."""

from opalgebra.architecture import Architecture
from opalgebra.expr import Atom, Index
from opalgebra.render.notation import PLAIN, Notation, name
from opalgebra.scalar import Scalar, symbol
from opalgebra.series import Series
from opalgebra.space import Kind
from opalgebra.stage import Stage


def architecture_formula(value: Architecture, notation: Notation) -> str:
    """The ordered product over layers of the stages of layer l."""
    layer = "".join(_stage(stage, notation, value.heads) for stage in reversed([s for s in value.stages if s.layer == 1]))
    return rf"\mathop{{\overleftarrow{{\prod}}}}\limits_{{l=1}}^{{{value.layers}}}\,{layer}"


def _stage(stage: Stage, notation: Notation, heads: int | None) -> str:
    """A stage of layer l."""

    def member(atom: Atom, *indices: str) -> str:
        return name(notation, atom.base, tuple(map(symbol, ("l", *indices))), is_operator=True)

    parts = []
    for branch in stage.branches:
        vertex = member(branch.vertices[0])
        if heads is not None and branch.kind == Kind.ATTENTION:
            vertex = rf"{{\textstyle\sum_{{h=0}}^{{{heads - 1}}}}} {member(branch.vertices[0], 'h')}"
            if branch.bias is not None:
                vertex = rf"\bigl({vertex} + {member(branch.bias)}\bigr)"
        around = [member(norm) if norm else "" for norm in (branch.after, branch.before)]
        parts.append(r"\,".join(filter(None, [around[0], vertex, around[1]])))
    line = "" if stage.after is None else rf"{member(stage.after)}\,"
    return f"{line}({notation.identity} + {' + '.join(parts)})"


def series_formula(value: Series, notation: Notation) -> str:
    """The series with its ordered sums unexpanded; `series_legend` says what its symbols mean."""
    n = len(value.stages)
    first, second, last = (_counted(notation, symbol(f"s_{mark}")) for mark in ("1", "2", "k"))
    start, end, born = (_state(notation, *found) for found in (("x", 0), ("x", n), ("v", symbol("s_1"))))
    if value.is_bare:
        word, line, inside = rf"{last} \cdots {second}", start, start
    else:
        word = rf"U({n}, s_k)\,{last} \cdots {second}\, U(s_2 - 1, s_1)"
        line, inside = rf"X({n})", "X(s_1 - 1)"
    sums = rf"\sum_{{k=1}}^{{{value.max_order}}}\;\sum_{{1 \le s_1 < \cdots < s_k \le {n}}}"
    relation = "=" if value.is_exact else r"\approx"
    return rf"{end} {relation} {line} + {sums} {word} \bigl({first} {inside} + {born}\bigr)"


def series_legend(value: Series, *, notation: Notation = PLAIN) -> str:
    """What the symbols of `latex(series)` mean, as a sentence of text with inline formulas."""
    reads = "the state before it" if all(not stage.follows for stage in value.stages) else "what it reads, norms included"
    bare, barred = (_counted(notation, symbol("s"), above=above) for above in ("", r"\bar"))
    before, born = _state(notation, "x", symbol("s") - 1), _state(notation, "v", symbol("s"))
    counted = (
        rf"Here ${barred} = {bare}\langle {before}\rangle$ is the counted part of stage $s$, dressed by {reads}, and "
        rf"${born}$ its source"
    )
    if value.is_bare:
        return counted + "."
    of_stage, upper, lower = (_line(notation, symbol(place) + step) for place, step in (("r", 0), ("a", 0), ("b", 1)))
    start, left_over = _state(notation, "x", 0), _state(notation, "w", symbol("r"))
    return counted + (
        rf"; ${of_stage}$ is stage $r$ where nothing counted is chosen, dressed, and ${left_over}$ its source, "
        rf"$U(a, b) = {upper}\cdots{lower}$, and $X(s) = U(s, 0)\,{start} + \sum_{{r \le s}} U(s, r)\,{left_over}$."
    )


def _counted(notation: Notation, stage: Scalar, *, above: str = r"\bar") -> str:
    """What is counted in a stage."""
    return name(notation, "V", (stage,), is_operator=True, above=above)


def _line(notation: Notation, stage: Scalar) -> str:
    """A stage where nothing counted is chosen."""
    return name(notation, "U", (stage,), is_operator=True, above=r"\bar")


def _state(notation: Notation, letter: str, stage: Index | Scalar) -> str:
    return name(notation, letter, (stage,), is_operator=False)
