"""Tables for notebooks: HTML in which any text is safe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table under its caption; None is an empty cell, a fraction has four digits.

    >>> html_table("a < b", ["n", "p"], [[1, 2 / 3], [2, None]])[48:]
    '<th>p</th></tr><tr><td>1</td><td>0.6667</td></tr><tr><td>2</td><td></td></tr></table>'
    """
    html = [f"<table><caption>{escape(caption)}</caption>"]
    for tag, cells in [("th", head), *(("td", row) for row in rows)]:
        html += ["<tr>", *(f"<{tag}>{_cell(cell)}</{tag}>" for cell in cells), "</tr>"]
    return "".join([*html, "</table>"])


def _cell(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return "" if cell is None else escape(str(cell))
