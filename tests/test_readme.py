"""The README's blocks run as they are pasted; its commands parse, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gpulsh.cli import group
from tests.support.pages import README, ROOT, Block, blocks

COMMANDS = re.findall(r"\| `(gpulsh [^`]*)` \|$", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
BLOCKS = [pytest.param(block, id=block.text.split("\n")[0]) for block in blocks(README) if block.language]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs_as_pasted(block: Block, tmp_path: Path) -> None:
    """By an interpreter or shell of its own, in an empty folder; what is shown below is what it prints."""
    with_scripts = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = {"python": [sys.executable, "-c"], "bash": ["bash", "-euc"]}[block.language]
    command = [*shell, block.text]
    ran = subprocess.run(command, cwd=tmp_path, env=with_scripts, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert block.shown is None or ran.stdout == block.shown


def test_there_are_blocks_of_python_and_of_the_shell() -> None:
    assert {block.language for block in blocks(README)} == {"python", "bash", ""}  # "": to install


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
