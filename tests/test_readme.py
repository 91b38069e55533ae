"""The README's Python runs and gives what its comments say; its commands parse."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return [block for named, block in fenced if named == language]


def test_python_gives_what_its_comments_say() -> None:
    found: dict[str, Any] = {"table": pa.table({"row": [0, 1, 2]})}
    code = "".join(blocks("python"))
    exec(code, found)
    said = re.findall(r"^([\w.]+(?:, [\w.]+)*) +# ([\[(].*?[\])])", code, flags=re.MULTILINE)
    assert len(said) == 6
    for expression, value in said:
        result = eval(expression, found)
        assert str(result.tolist() if hasattr(result, "tolist") else result) == value, expression
    assert found["result"].filter(found["table"]).column("row").to_pylist() == [0, 1]


COMMANDS = [line.partition("#")[0] for block in blocks("") for line in block.splitlines() if line.startswith("gpulsh ")]


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 15


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line: str) -> None:
    import gpulsh.cli

    _, name, *arguments = shlex.split(line)
    group = next(value for value in vars(gpulsh.cli).values() if isinstance(value, click.Group))
    command = group.get_command(click.Context(group), name)
    assert command is not None, name
    command.make_context(name, arguments, resilient_parsing=False)


def test_plan_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    from gpulsh.cli import main

    (line,) = [line for line in COMMANDS if line.startswith("gpulsh plan ") and "--rate" in line]
    assert main(shlex.split(line)[1:]) == 0
    (shown,) = blocks("text")
    assert capsys.readouterr().out == shown
