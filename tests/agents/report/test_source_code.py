"""Source as markup: escaped, marked, and plain where it cannot be read."""

from __future__ import annotations

from html import unescape
from re import sub

import pytest

from spade_agents.report.source_code import marked_source

SOURCES = [
    "def f(x):\n    return 'a<b' # <c>\n",
    'text = """two\nlines & more"""\n',
    "bröken = 'ünïcode' + \"\U0001f600\" + 1\n",
    "x = 1\r\ny = 2\r\n",
    "no newline = at end",
    "",
    "if True:\n\tx = [\n1]\n",
]


@pytest.mark.parametrize("source", SOURCES)
def test_the_text_of_the_markup_is_the_source(source: str):
    assert unescape(sub(r"<[^>]*>", "", marked_source(source))) == source


def test_keywords_strings_numbers_and_comments_are_marked():
    marked = marked_source("return 'a<b', 2  # <c>")
    assert '<span class="key">return</span>' in marked
    assert '<span class="str">&#x27;a&lt;b&#x27;</span>' in marked
    assert '<span class="num">2</span>' in marked
    assert '<span class="com"># &lt;c&gt;</span>' in marked


def test_source_that_does_not_tokenise_is_shown_plain_and_escaped():
    assert marked_source("x = '''<b>") == "x = &#x27;&#x27;&#x27;&lt;b&gt;"
