"""The README's Python runs and gives what its comments say; its commands parse, and its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
import pyarrow as pa
import pytest

from gpulsh.cli import group
from tests.support.pages import README, ROOT, blocks, run_python

COMMANDS = [
    line.partition("#")[0]
    for block in blocks(README)
    if block.language == ""
    for line in block.text.splitlines()
    if line.startswith("gpulsh ")
]


def test_python_gives_what_its_comments_say() -> None:
    names: dict[str, Any] = {"table": pa.table({"row": [0, 1, 2]})}
    assert sum(run_python(block.text, names) for block in blocks(README) if block.language == "python") >= 5
    assert names["result"].filter(names["table"]).column("row").to_pylist() == [0, 1]


def test_links_lead_to_files_and_headings() -> None:
    links = re.findall(r"\]\(([^)#\s]+)#?([^)\s]*)\)", README.read_text(encoding="utf-8"))
    assert len(links) >= 20
    for target, heading in links:
        page = ROOT / target
        assert page.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, heading


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 15


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line: str) -> None:
    parse(line)


def parse(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    command = group.get_command(click.Context(group), name)
    assert command is not None, name
    command.make_context(name, arguments, resilient_parsing=False)
