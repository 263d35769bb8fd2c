"""Python source as markup with its keywords, strings and comments marked; every character of it is escaped."""

from __future__ import annotations

import io
import keyword
import tokenize
from html import escape

__all__ = ["marked_source"]

_CLASSES = {tokenize.COMMENT: "com", tokenize.STRING: "str", tokenize.NUMBER: "num"}


def marked_source(source: str) -> str:
    """Markup of `source`; source that cannot be tokenised is shown plain.

    >>> marked_source("x = 2  # <b>")
    'x = <span class="num">2</span>  <span class="com"># &lt;b&gt;</span>'
    """
    try:
        spans = list(_spans(source))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return escape(source)
    drawn, end = [], 0
    for start, stop, name in spans:
        drawn.append(escape(source[end:start]))
        drawn.append(f'<span class="{name}">{escape(source[start:stop])}</span>')
        end = stop
    return "".join([*drawn, escape(source[end:])])


def _spans(source: str) -> list[tuple[int, int, str]]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source, newline="").readline):
        is_keyword = token.type == tokenize.NAME and keyword.iskeyword(token.string)
        name = "key" if is_keyword else _CLASSES.get(token.type)
        if name is not None:
            start, stop = (starts[row - 1] + column for row, column in (token.start, token.end))
            found.append((start, stop, name))
    return found
