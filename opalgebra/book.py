"""An article of all proofs in a folder: what each file says of its theorem, and its derivation."""

import ast
from pathlib import Path

from opalgebra.errors import InputError
from opalgebra.render.document import Document, document
from opalgebra.render.escaping import escape


def book_of_proofs(folder: Path) -> Document:
    """An article of all proofs of a folder: what the docstring of each file says, and its derivation NAME.tex.

    InputError for a folder without proofs, or a proof without a derivation: `opalgebra prove all` writes them.
    """
    items: list[object] = []
    for proof in sorted(folder.glob("*.py")):
        derived = proof.with_suffix(".tex")
        if not derived.is_file():
            raise InputError(f"{derived} is missing; write it with opalgebra prove {proof.stem}")
        said = ast.get_docstring(ast.parse(proof.read_text(encoding="utf-8"))) or ""
        title, _, text = said.partition("\n\n")
        items += [
            rf"\subsection*{{{escape(title)}}}",
            *map(_paragraph, text.split("\n\n")),
            derived.read_text(encoding="utf-8"),
        ]
    if not items:
        raise InputError(f"there is no proof in {folder}; name the folder where they lie")
    return document(items, title="Theorems and their derivations")


def _paragraph(text: str) -> str:
    """A paragraph of a docstring; what is indented stays as it is written, in letters that are small enough for its lines."""
    if text.startswith("    "):
        longest = max(map(len, text.split("\n")))
        size = "footnotesize" if longest <= 85 else "scriptsize"
        return f"{{\\{size}\\begin{{verbatim}}\n{text}\n\\end{{verbatim}}}}"
    return escape(text)
