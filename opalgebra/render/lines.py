"""Long formulas in lines: broken before a sign, or a factor, that stands outside all brackets."""

import re

WIDTH = 68
INDENT = r"\quad"
_OPENING = r"(?:(?:\\bigl)?[({]|\\langle(?![a-zA-Z]))"
_CLOSING = r"(?:(?:\\bigr)?[)}]|\\rangle(?![a-zA-Z]))"
_TOKENS = re.compile(rf"(?P<open>{_OPENING})|(?P<close>{_CLOSING})|(?P<sign> [-+] |\\quad\\text|,\\; )|(?P<thin>\\,)")


def broken(formula: str, *, width: int) -> list[str]:
    """The formula in pieces of at most about `width` visible characters, each starting at a sign outside brackets.

    A term that is wider by itself is broken between its factors.
    """
    lines = [""]
    for term in _cut(formula, factors=False):
        for piece in _cut(term, factors=True) if _visible(term) > width else [term]:
            if lines[-1] and _visible(lines[-1]) + _visible(piece) > width:
                lines.append(piece)
            else:
                lines[-1] += piece
    return [line.strip() for line in lines]


def _cut(formula: str, *, factors: bool) -> list[str]:
    """The pieces that start at a sign, or with `factors` at a factor, outside all brackets."""
    depth, cuts = 0, [0]
    for token in _TOKENS.finditer(formula):
        starts_factor = token["thin"] or token["open"] in ("(", r"\bigl(")
        if depth == 0 and (token["sign"] or (factors and starts_factor)):
            cuts.append(token.start() + (3 if token["sign"] == r",\; " else 0))
        depth += bool(token["open"]) - bool(token["close"])
    return [formula[start:end] for start, end in zip(cuts, [*cuts[1:], len(formula)])]


def _visible(latex_text: str) -> int:
    without_layout = re.sub(
        r"\\(?:(?:quad|text|mathrm|tfrac|bigl|bigr|bar|underbrace|limits|mathop)(?![a-zA-Z])|[^a-zA-Z])", "", latex_text
    )
    with_room = re.sub(r" [-+=] ", "+++", without_layout)
    return len(re.sub(r"[{}_^ ]", "", re.sub(r"\\[a-zA-Z]+", "x", with_room)))
