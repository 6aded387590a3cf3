"""Plain text as LaTeX."""

import unicodedata


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
