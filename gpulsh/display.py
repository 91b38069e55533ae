"""Tables as a notebook shows them, in HTML that anybody's text is safe in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table under its caption; None is an empty cell.

    >>> html_table("a < b", ["n"], [[1], [None]])
    '<table><caption>a &lt; b</caption><tr><th>n</th></tr><tr><td>1</td></tr><tr><td></td></tr></table>'
    """
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    told = (f"<{tag}>{'' if cell is None else escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{''.join(told)}</tr>"
