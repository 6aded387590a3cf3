"""The main job from end to end: derive the series, evaluate every order on a real model, verify, write it up."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from opalgebra.architecture import transformer
from opalgebra.expand import expand
from opalgebra.facts import equation
from opalgebra.files import write_text
from opalgebra.models.bind import bind
from opalgebra.models.load import load
from opalgebra.numeric.binding import Binding
from opalgebra.numeric.orders import Orders, undressed
from opalgebra.numeric.verify import Report, verify
from opalgebra.plot import orders_figure, save_figure
from opalgebra.render.document import Document, document
from opalgebra.render.escaping import escape
from opalgebra.render.series_latex import series_legend
from opalgebra.render.table import Formula, Table

PROMPT = "When Mary and John went to the store, John gave a drink to"
SHOWN = 12


def demo(folder: str | Path, *, say: Callable[[str], None] = print) -> list[Report]:
    """Runs the main job on SmolLM2 and writes report.tex, orders.csv and orders.svg; gives the two verification reports.

    Two wrong equations are verified beside them and must be rejected.

    ModelError when the weights are not installed; InputError when the folder cannot be written.
    """
    folder = Path(folder)
    binding = bind(load("smollm2"), PROMPT)
    say(f"{binding}")
    say(f"symbolic: {binding.T}; series: {binding.T.dyson()}")
    results = {f"counting {counting}": binding.orders(counting=counting) for counting in ("all", "attention")}
    results["undressed (does not hold)"] = undressed(binding)
    say(orders_table(results))
    logits = results["counting attention"].logits(" Mary", minus=" John")
    summed = logits.orders.sum() + logits.readout_bias
    say(f"logit of ' Mary' minus ' John': {summed:.6f} summed over orders, {logits.model:.6f} by the model")
    reports = [verify(binding.T.dyson(counting=counting), binding) for counting in ("all", "attention")]
    for report in reports:
        say(str(report))
    wrong = rejected(binding)
    for report in wrong:
        say(f"{report.what}: {report.verdict}, residual {report.residual:.2e}, bound {report.bound:.2e}")
    write_text(folder / "orders.csv", orders_csv(results))
    save_figure(orders_figure(results), folder / "orders.svg")
    article(binding, results, [*reports, *wrong]).save(folder / "report.tex")
    say(f"written: {folder}/report.tex, orders.csv, orders.svg")
    return reports


def rejected(binding: Binding) -> list[Report]:
    """Two wrong equations of the same model and input: the stages of layer 2 swapped, and a head of layer 8 left out."""
    T = binding.T
    attention, ffn = T.stages[2].factor, T.stages[3].factor
    swapped = verify(equation(T.x[4], attention @ ffn @ T.x[2]), binding)
    by_heads = bind(binding.model, PROMPT, heads=True)
    stage = by_heads.T.stages[14]
    kept = tuple(vertex for vertex in stage.vertices if vertex is not by_heads.T.head[8, 3])
    dropped = verify(equation(by_heads.T.x[15], (1 + stage.branch(kept)) @ by_heads.T.x[14]), by_heads)
    return [
        replace(swapped, what="layer 2 in the wrong order"),
        replace(dropped, what="head 3 of layer 8 left out"),
    ]


def orders_table(results: Mapping[str, Orders], *, position: int = -1, shown: int = SHOWN) -> str:
    """Plain text: norms and partial-sum errors by order at one token, a pair of columns a result."""
    head = "order" + "".join(f"  {label:>25}" for label in results)
    lines = [f"relative norm of each order, and error of the partial sum, at token {position}", head]
    for order in range(shown):
        cells = (f"{r.norms[order, position]:12.3e} {r.partial_errors[order, position]:12.3e}" for r in results.values())
        lines.append(f"{order:5d}" + "".join(f"  {cell}" for cell in cells))
    lines.append(
        f"{'all':>5}"
        + "".join(f"  {r.norms[:, position].sum():12.3e} {r.partial_errors[-1, position]:12.3e}" for r in results.values())
    )
    lines.append("cond." + "".join(f"  {r.condition[position]:12.4g} {'':12}" for r in results.values()))
    return "\n".join(lines)


def orders_csv(results: Mapping[str, Orders]) -> str:
    """Every order at every token: a header line, then one line each."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["series", "token", "text", "order", "norm", "source_norm", "partial_error"])
    for label, result in results.items():
        for token, text in enumerate(result.binding.token_texts):
            for order in range(len(result.norms)):
                figures = (result.norms, result.source_norms, result.partial_errors)
                table.writerow([label, token, text, order, *(f"{float(values[order, token])!r}" for values in figures)])
    return out.getvalue()


def article(binding: Binding, results: Mapping[str, Orders], reports: list[Report]) -> Document:
    """The derivation, the orders and the verification as an article."""
    architecture = binding.T
    one_layer = transformer(1, norms="absorbed")
    every, attention = (architecture.dyson(counting=counting) for counting in ("all", "attention"))
    terms = f"{every.total:,}".replace(",", "{,}")
    labels = "; ".join(escape(label) for label in results)
    orders = Table(
        [Formula("$n$"), *(cell for _ in results for cell in (Formula(r"$\|y_n\|/\|x_L\|$"), "error"))],
        [
            [order, *(float(v[order, -1]) for r in results.values() for v in (r.norms, r.partial_errors))]
            for order in range(SHOWN)
        ],
        Formula(f"Relative norm of each order and error of the partial sum, from left to right: {labels}."),
    )
    verification = Table(
        ["statement", "verdict", "residual", "bound", "would catch"],
        [[r.what, r.verdict, r.residual, r.bound, r.would_catch.median.error] for r in reports],
        "Verification against the model's own forward; the last column is the relative error in the output of the "
        "median vertex that would turn the verdict.",
    )
    items = [
        "A layer is a factor $1 + V$, later factors stand to the left, and the forward pass is the ordered product",
        architecture,
        r"of nonlinear maps. On a state every map is a linear operator and a source, "
        r"$F x = F\langle x\rangle x + f\langle x\rangle$, so that one layer expands exactly, each term with its background:",
        expand(one_layer.operator @ one_layer.x[0]),
        f"For {escape(binding.model.name)} with all {len(architecture.stages)} stages counted the series has {terms} terms,",
        every,
        series_legend(every),
        "Counting attention alone and resumming the feed-forward networks,",
        attention,
        series_legend(attention),
        f"The prompt is ``{escape(PROMPT)}'' ({binding.tokens} tokens); the split is {escape(str(binding.split['ffn']))} "
        f"for the feed-forward networks and {escape(str(binding.split['attention']))} patterns for attention. Last token:",
        orders,
        verification,
    ]
    return document(items, title="Dyson series of a Transformer")
