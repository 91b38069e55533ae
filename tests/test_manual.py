"""Every page of the manual, and the tutorial, runs from top to bottom beside small files: outputs are those shown."""

import ast
import contextlib
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import gpulsh
from gpulsh.cli import group, main
from tests.support.files import write_rows
from tests.support.pages import MANUAL, README, ROOT, Block, blocks, run_python

Row = dict[str, Any]
COMMANDS = re.findall(r"\| `(gpulsh [^`]*)` \|$", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
BLOCKS = [pytest.param(block, id=block.text.split("\n")[0]) for block in blocks(README) if block.language]


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_blocks_run_as_pasted(block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They run in an empty folder, and print the output shown below them."""
    if block.language == "python":
        run_python(block.text, {})
        out = capsys.readouterr().out
    else:
        with_scripts = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        shell: dict[str, Any] = {"cwd": tmp_path, "env": with_scripts, "capture_output": True, "text": True}
        ran = subprocess.run(["bash", "-euc", block.text], check=False, **shell)
        assert ran.returncode == 0, ran.stderr
        out = ran.stdout
    assert block.shown is None or out == block.shown


def test_readme_links_lead_to_files_and_headings() -> None:
    links = re.findall(r"\]\(([^)#\s]+)#?([^)\s]*)\)", README.read_text(encoding="utf-8"))
    assert len(links) >= 20
    for target, heading in links:
        page = ROOT / target
        assert page.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, heading


def test_the_readme_names_every_extra() -> None:
    of_developers = {"dev", "docs", "cxx"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*`) \| ", README.read_text(encoding="utf-8").partition("## In Python")[0], re.MULTILINE)
    assert set(re.findall("`(.*?)`", " ".join(rows))) == extras.keys() - of_developers


def test_readme_commands_parse() -> None:
    assert {block.language for block in blocks(README)} == {"python", "bash", ""}  # "": to install
    assert len(COMMANDS) >= 15
    for line in COMMANDS:
        parse(line)


def parse(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    parent = click.Context(group, **group.context_settings)  # names `-h`, which click remembers for the process
    command = group.get_command(parent, name)
    assert command is not None, name
    command.make_context(name, arguments, parent=parent, resilient_parsing=False)


def page(number: int, last: str = "end") -> Row:
    """A document of 60 words; documents of one number differ in the last word."""
    text = " ".join([*(f"word{number}of{place}" for place in range(60)), last])
    return {"id": f"{number}{last}", "url": f"https://example.org/{number}/{last}", "date": number, "text": text}


def near(numbers: range, last: str) -> list[Row]:
    return [page(number, last) for number in numbers]


FILES: dict[str, list[Row]] = {
    "crawl/a.parquet": [*near(range(12), "one"), *near(range(4), "two")],
    "crawl/b.jsonl": near(range(2, 9), "three"),
    "books/a.jsonl": near(range(8), "book"),
    "wiki/a.jsonl": near(range(4, 12), "wiki"),
    "january/a.jsonl": near(range(8), "january"),
    "february/a.jsonl": near(range(4, 12), "february"),
    "train/a.jsonl": near(range(10), "train"),
    "test/a.jsonl": near(range(8, 12), "test"),
    "titles.jsonl": [{"id": number, "title": f"Engineer {number}, senior (m/f/d)"} for number in range(6)],
    "code.jsonl": [{"text": f"def f{number}(x):\n    return x ** {number} + [x, {number}][0]"} for number in range(6)],
    "zh.jsonl": [{"text": "这是一个关于重复文档的例子" * 3 + str(number)} for number in range(4)],
}


@pytest.fixture
def beside_files(folder: Path) -> None:
    for name, rows in FILES.items():
        write_rows(name, rows)
    Path("broken.jsonl").write_text('{"text": "one"}\n{"text": "two"\n')
    Path("notes.docx").write_text("one")
    Path("page.txt").write_text("one two three")
    Path("excel.csv").write_bytes("id;text\n1;Größe\n".encode("cp1252"))
    Path("code").mkdir()
    Path("code/a.py").write_text("print(1)\n")


def commands(block: Block) -> Iterator[str]:
    """The commands of gpulsh in a block of shell; a backslash at the end continues one."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("gpulsh "):
            yield line.partition(" #")[0]


def run_commands(lines: list[str], shown: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Run all; they must succeed. The text shown below is the output of the last one, or its error."""
    for line in lines:
        capsys.readouterr()
        status = main(shlex.split(line)[1:])
        out, err = capsys.readouterr()
        if shown is not None and line == lines[-1]:
            assert shown == (out if status == 0 else err.splitlines(keepends=True)[-1])
        else:
            assert status == 0, err


@pytest.mark.parametrize("path", MANUAL, ids=lambda path: path.stem)
@pytest.mark.usefixtures("beside_files")
def test_manual_pages_run_and_show_their_output(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(path):
        if block.language == "python" and "title" in block.title:  # another library's: it need not be installed
            compile(block.text, path.name, "exec")
        elif block.language == "python":
            run_python(block.text, {})  # pasted alone: it knows no block above it
        elif block.language == "sh":  # needs a cluster, a device or a bucket
            for line in commands(block):
                parse(line)
        elif block.language == "bash":
            run_commands([*commands(block)], block.shown, capsys)
        elif block.language == "toml":  # another tool's settings
            assert tomllib.loads(block.text)
        else:
            assert block.language in ("text", "sql", "json"), f"{path.name} has a block of {block.language!r}"


def test_the_tutorial_shows_its_real_outputs() -> None:
    names: dict[str, Any] = {}
    cells = json.loads((ROOT / "examples/tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert sum(bool(cell["outputs"]) for cell in code) >= 10
    for cell in code:
        assert "".join(map(text_of, cell["outputs"])) == run_cell("".join(cell["source"]), names)


def text_of(output: dict[str, Any]) -> str:
    return "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])


def run_cell(source: str, names: dict[str, Any]) -> str:
    """The output of a cell, then the value of the expression at its end."""
    *statements, last = ast.parse(source).body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(statements, []), "cell", "exec"), names)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), "cell", "exec"), names)
            return printed.getvalue()
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue() + ("" if value is None else repr(value))


@pytest.fixture(scope="module")
def manual_pages() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "ci/manual_pages.py"))


def test_the_manual_has_every_option(manual_pages: dict[str, Any]) -> None:
    page = manual_pages["options_page"]()

    def check(command: click.Command, path: str) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), name)
                assert found is not None
                check(found, f"{path} {name}")
            return
        (section,) = re.findall(rf"^## {path}\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
        for option in command.params:
            assert not isinstance(option, click.Option) or f"\n`{', '.join(option.opts)}" in section, option.opts

    check(group, "gpulsh")


def test_the_manual_has_every_name(manual_pages: dict[str, Any]) -> None:
    assert re.findall(r"^## `(\w+)`$", manual_pages["api_page"](), flags=re.MULTILINE) == gpulsh.__all__


def test_manual_links_stay_within_the_manual() -> None:
    """mkdocs checks links to pages and headings; one out of docs/ would work on no site."""
    for path in MANUAL:
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            assert not target.startswith(("../", "/")), f"{path.name}: {target}"
