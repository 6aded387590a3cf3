"""The command line. Exit status: 0 holds, 1 does not hold, 2 bad usage or input, 3 cannot tell; errors are one line."""

import importlib.metadata
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from opalgebra.errors import OpalgebraError

STATUS = {True: 0, False: 1, None: 3}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="opalgebra")
def cli() -> None:
    """Transformers as ordered products of noncommuting operators."""


@cli.command()
@click.option("--out", default="build/demo", show_default=True, type=click.Path(path_type=Path), help="Folder for the results.")
def demo(out: Path) -> int:
    """Derive, evaluate, verify and write up the Dyson series of SmolLM2 on a real prompt."""
    from opalgebra.report import demo as run

    return max(STATUS[report.holds] for report in run(out, say=click.echo))


@cli.command()
@click.argument("model")
@click.option("--prompt", required=True, help="The text on which the series is verified.")
@click.option("--counting", default="all", show_default=True, help="What counts as an order: all, attention or ffn.")
@click.option("--order", type=int, help="Truncate the series at this order.")
@click.option("--split", default="gate", show_default=True, help="gate, tangent or source of the network; or jacobian.")
@click.option("--heads", is_flag=True, help="Make every attention head a vertex.")
@click.option("--dtype", default="float64", show_default=True, help="float64, float32, bfloat16 or float16.")
@click.option("--device", default="cpu", show_default=True, help="A torch device.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Also write the report here.")
def verify(
    model: str,
    prompt: str,
    counting: str,
    order: int | None,
    split: str,
    heads: bool,
    dtype: str,
    device: str,
    json_file: Path | None,
) -> int:
    """Verify that the Dyson series of MODEL sums to its own forward pass. MODEL is a known name, a folder or a hub id."""
    from opalgebra.files import write_text
    from opalgebra.models.bind import bind
    from opalgebra.models.load import load
    from opalgebra.numeric.verify import verify as check
    from opalgebra.series import check_order, counter

    counter(counting)
    check_order(order)
    binding = bind(load(model, dtype=dtype, device=device), prompt, split=split, heads=heads)
    report = check(binding.T.dyson(counting=counting, order=order), binding)
    click.echo(str(report))
    if json_file is not None:
        write_text(json_file, json.dumps(report.to_dict(), indent=1) + "\n")
    return STATUS[report.holds]


@cli.command()
@click.argument("expression")
@click.option("--latex", "as_latex", is_flag=True, help="Print LaTeX.")
@click.option("--nonlinear", default="", help="Names, separated by commas, that are nonlinear maps; all others are linear.")
@click.option("--states", default="", help="Names, separated by commas, that are states.")
@click.option("--real", default="", help="Names, separated by commas, that are real parameters, such as a coupling g.")
@click.option("--limit", default=200_000, show_default=True, help="Refuse an expansion with more terms.")
def expand(expression: str, as_latex: bool, nonlinear: str, states: str, real: str, limit: int) -> int:
    """Expand EXPRESSION as far as linearity allows: "(1 + V3) @ (1 + V2) @ (1 + V1)"."""
    from opalgebra.display import render
    from opalgebra.expand import expand as run
    from opalgebra.expr import Atom
    from opalgebra.parse import parse
    from opalgebra.scalar import parameter

    named = [Atom(name, kind=kind) for names, kind in ((nonlinear, "nonlinear"), (states, "state")) for name in _names(names)]
    parameters = map(parameter, _names(real))
    theorem = run(parse(expression, atoms=[*named, *parameters], kind="linear"), limit=limit)
    click.echo(render("latex" if as_latex else "unicode", theorem.rhs))
    return 0


@cli.command()
@click.argument("term", required=False)
@click.option("--states", default="", help="Names in TERM, separated by commas, that are states; all others are linear.")
@click.option("--layers", type=int, help="Without TERM: the layers of a Transformer whose series is drawn.")
@click.option("--heads", type=int, help="Make so many heads a layer its vertices.")
@click.option("--norm", default="pre", show_default=True, help="pre, post, sandwich or branch.")
@click.option("--parallel", is_flag=True, help="Attention and feed-forward network read the same state.")
@click.option("--counting", default="all", show_default=True, help="What counts as an order: all, attention or ffn.")
@click.option("--order", default=2, show_default=True, help="The order that is drawn, by its topologies with multiplicities.")
@click.option("--rank", type=int, help="Draw one term of the order, counted from 0.")
@click.option("--tokens", type=int, help="Resolve the term over so many tokens.")
@click.option("--format", "form", default="text", show_default=True, type=click.Choice(["text", "svg", "tikz"]))
def diagram(
    term: str | None,
    states: str,
    layers: int | None,
    heads: int | None,
    norm: str,
    parallel: bool,
    counting: str,
    order: int,
    rank: int | None,
    tokens: int | None,
    form: str,
) -> int:
    """Draw TERM, such as "V3 @ V1 @ x", or of the series of a Transformer a whole order or one term."""
    from opalgebra.architecture import transformer
    from opalgebra.diagram import Diagram
    from opalgebra.errors import InputError
    from opalgebra.expr import Atom
    from opalgebra.parse import parse
    from opalgebra.render.feynman_series import picture_of_order
    from opalgebra.render.svg import svg
    from opalgebra.render.terminal import terminal
    from opalgebra.render.tikz import tikz
    from opalgebra.worldlines import token_diagram

    if (term is None) == (layers is None):
        raise InputError("a diagram is drawn of a TERM, or of a Transformer by --layers; give one of them")
    shown: Any
    if term is not None:
        shown = Diagram(parse(term, atoms=[Atom(name, kind="state") for name in _names(states)], kind="linear"))
    else:
        series = transformer(layers or 0, heads, norm=norm, parallel=parallel).dyson(counting=counting)
        shown = picture_of_order(series, order) if rank is None else Diagram(series.term(order, rank) @ series.states[0])
    if tokens is not None:
        if not isinstance(shown, Diagram):
            raise InputError("--tokens resolves one term; name it by --rank, or give a TERM")
        shown = token_diagram(shown, tokens)
    click.echo({"text": terminal, "svg": svg, "tikz": tikz}[form](shown))
    return 0


@cli.command()
@click.argument("name")
@click.option("--folder", default="proofs", show_default=True, type=click.Path(path_type=Path), help="Where the proofs lie.")
@click.option("--book", type=click.Path(path_type=Path), help="Also write an article of all proofs of the folder, in LaTeX.")
def prove(name: str, folder: Path, book: Path | None) -> int:
    """Prove NAME, the theorem of NAME.py in the folder, or all; write its certificate NAME.json and derivation NAME.tex."""
    import runpy

    from opalgebra.certificate import certificate
    from opalgebra.errors import InputError
    from opalgebra.files import write_text
    from opalgebra.prove import CITED, PROOFS
    from opalgebra.render.latex import latex

    paths = sorted(folder.glob("*.py")) if name == "all" else [folder / f"{name}.py"]
    if not paths or not all(path.is_file() for path in paths):
        raise InputError(f"there is no proof {name} in {folder}; name a file there without its .py, or all")
    for path in paths:
        runpy.run_path(str(path))
        if path.stem not in PROOFS:
            raise InputError(f"{path} registers no theorem {path.stem}; put @theorem before a function of this name")
        for other in (folder / f"{name}.py" for name in CITED[path.stem]):
            if not other.is_file():
                raise InputError(f"{path} cites {other.stem}, and there is no {other}; write it, or cite another")
            runpy.run_path(str(other))
        theorem, cited = PROOFS[path.stem](), {name: PROOFS[name]() for name in CITED[path.stem]}
        write_text(path.with_suffix(".json"), certificate(theorem))
        write_text(path.with_suffix(".tex"), latex(theorem, derivation=True, cited=cited) + "\n")
        click.echo(f"{path.stem}: {theorem}")
    if book is not None:
        from opalgebra.book import book_of_proofs

        book_of_proofs(folder).save(book)
    return 0


@cli.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def check(files: tuple[Path, ...]) -> int:
    """Replay certificates and print what each proves; status 1 when one is refused."""
    from opalgebra.certificate import check as replay
    from opalgebra.certificate import read

    status = 0
    for path in files:
        try:
            click.echo(f"{path}: {replay(read(path))}")
        except (OpalgebraError, OSError, UnicodeDecodeError) as error:
            click.echo(f"{path}: refused: {error}")
            status = 1
    return status


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@cli.command()
def models() -> int:
    """List the models that can be loaded by name, and the families that can be bound."""
    from opalgebra.models import FAMILIES
    from opalgebra.models.packages import KNOWN, installed_packages

    for known, here in zip(KNOWN, installed_packages()):
        click.echo(f"{known.name:10} {known.description}")
        state = f"installed{', converted in ' + str(here.folder) if here.converted else ''}" if here.version else known.command
        bound = "" if known.family in FAMILIES else f"; the {known.family} family cannot be bound"
        click.echo(f"{'':10} {state}{bound}")
    families = ", ".join(FAMILIES)
    click.echo(f"families that can be bound (any folder, hub id or model object of transformers): {families}")
    return 0


@cli.command()
def doctor() -> int:
    """Say what is installed, and print the command for what is missing."""
    from opalgebra.models.packages import INSTALL, cache_folder, installed_packages

    complete = True
    for package, command in INSTALL.items():
        version = _version(package)
        complete &= version is not None
        click.echo(f"{package:24} {version or 'missing: ' + command}")
    for here in installed_packages():
        complete &= here.version is not None
        click.echo(f"{here.package:24} {here.version or 'missing: ' + here.command}")
    click.echo(f"{'cache':24} {cache_folder()}")
    return 0 if complete else 1


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main(arguments: Sequence[str] | None = None) -> Any:
    """Runs the command line and exits with its status."""
    try:
        status = cli.main(arguments, prog_name="opalgebra", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        status = 2
    except click.ClickException as error:
        status = _complain(error.format_message())
    except click.Abort:
        status = _complain("stopped; nothing was written")
    except OpalgebraError as error:
        status = _complain(str(error))
    except Exception as error:
        from opalgebra.models.packages import absent

        refusal = absent("this command", error) if isinstance(error, ModuleNotFoundError) else None
        status = _complain(
            str(refusal) if refusal else f"stopped by an error of its own, {type(error).__name__}: {error}; please report it"
        )
    sys.exit(status)


def _complain(message: str) -> int:
    click.echo(f"opalgebra: {' '.join(message.split())}", err=True)
    return 2


if __name__ == "__main__":
    main()
