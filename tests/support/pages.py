"""The blocks of a page of documentation, and the output of its Python."""

import ast
import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
MANUAL = sorted((ROOT / "docs").rglob("*.md"))


class Block(NamedTuple):
    """Between two fences: its language, the rest of that line, its text, and the output shown right below."""

    language: str
    title: str
    text: str
    shown: str | None


def blocks(page: Path) -> list[Block]:
    """All blocks of a page but the outputs, which belong to the block above them."""
    fenced = re.compile(r"^```(\w*) *([^\n]*)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
    return [Block(*found.groups()) for found in fenced.finditer(page.read_text(encoding="utf-8"))]


def run_python(text: str, names: dict[str, Any]) -> int:
    """Run statements; each expression must equal the literal in its comment. Returns the number of such comments."""
    lines, compared = text.splitlines(), 0
    for statement in ast.parse(text).body:
        source = ast.get_source_segment(text, statement)
        assert source is not None
        if not isinstance(statement, ast.Expr):
            exec(source, names)
            continue
        value = eval(source, names)
        note = re.search(r"# (.*?)(?:: .*)?$", lines[statement.end_lineno - 1][statement.end_col_offset :])
        try:
            literal = ast.literal_eval(note[1]) if note else None
        except (ValueError, SyntaxError):
            continue
        if note:
            assert (value.tolist() if hasattr(value, "tolist") else value) == literal, source
            compared += 1
    return compared
