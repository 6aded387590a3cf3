"""Long formulas in lines: broken before a sign, or a factor, that stands outside all brackets."""

import re
from itertools import chain

WIDTH = 68
INDENT = r"\quad"
_OPENING = r"(?:(?:\\bigl)?\(|\\langle(?![a-zA-Z]))"
_CLOSING = r"(?:(?:\\bigr)?\)|\\rangle(?![a-zA-Z]))"
_GROUPS = r"(?P<group>(?<!\\)\{)|(?P<end>(?<!\\)\})"
_TOKENS = re.compile(rf"{_GROUPS}|(?P<open>{_OPENING})|(?P<close>{_CLOSING})|(?P<sign> [-+] |\\quad\\text|,\\; )|(?P<thin>\\,)")


def broken(formula: str, *, width: int, inside: int = 0) -> list[str]:
    """The formula in pieces of at most about `width` visible characters, each starting at a sign outside brackets.

    A term that is wider by itself is broken between its factors, and such a factor inside at most so many brackets.
    """
    lines = [""]
    for term in _cut(formula, factors=False):
        factors = _cut(term, factors=True) if visible(term) > width else [term]
        pieces = (_cut(factor, factors=True, inside=inside) if visible(factor) > width else [factor] for factor in factors)
        for piece in chain.from_iterable(pieces):
            if lines[-1] and visible(lines[-1]) + visible(piece) > width:
                lines.append(piece)
            else:
                lines[-1] += piece
    return [line.strip() for line in lines]


def _cut(formula: str, *, factors: bool, inside: int = 0) -> list[str]:
    """The pieces that start at a sign, or with `factors` at a factor, outside all brackets or `inside` at most so many."""
    depth, group, cuts = 0, 0, [0]
    for token in _TOKENS.finditer(formula):
        starts_factor = token["thin"] or token["open"] in ("(", r"\bigl(")
        if group == 0 and depth <= inside and (token["sign"] or (factors and starts_factor)):
            cuts.append(token.start() + (3 if token["sign"] == r",\; " else 0))
        depth += bool(token["open"]) - bool(token["close"])
        group += bool(token["group"]) - bool(token["end"])
    return [formula[start:end] for start, end in zip(cuts, [*cuts[1:], len(formula)])]


def visible(latex_text: str) -> int:
    """About how many characters a formula is wide."""
    without_layout = re.sub(
        r"\\(?:(?:quad|text|mathrm|tfrac|bigl|bigr|bar|underbrace|limits|mathop)(?![a-zA-Z])|[^a-zA-Z])", "", latex_text
    )
    with_room = re.sub(r" [-+=] ", "+++", without_layout)
    return len(re.sub(r"[{}_^ ]", "", re.sub(r"\\[a-zA-Z]+", "x", with_room)))
