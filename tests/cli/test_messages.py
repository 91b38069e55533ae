"""Messages give advice that their reader can follow: keywords in Python, options in the command, existing names."""

import ast
import inspect
import io
import logging
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import get_args

import click
import pytest

import gpulsh
from gpulsh import errors
from gpulsh.cli import group
from gpulsh.errors import GpulshError, InputError, OutputError, ParameterError
from gpulsh.run.output.folder import refuse_difference
from gpulsh.run.progress import open_progress
from tests.support.command import Command
from tests.support.files import write_rows

PACKAGE = Path(gpulsh.__file__).parent
ON = ("--backend", "reference")


@pytest.fixture
def here(folder: Path) -> Path:
    for name in ("a", "b"):
        write_rows(f"{name}.jsonl", [{"id": f"{name}{n}", "text": f"text {name} {n} of some words"} for n in "123"])
    return folder


def test_advice_names_options_or_keywords(
    here: Path, command: Command, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpulsh.deduplicate_files("a.jsonl", "out", backend="reference")
    with pytest.raises(OutputError) as caught:
        gpulsh.deduplicate_files("a.jsonl", "out", backend="reference")
    assert str(caught.value).endswith("give another folder, or overwrite=True to replace them")
    assert command("dedup a.jsonl -o out", *ON).error.endswith("give another folder, or --overwrite to replace them")
    both = command("dedup a.jsonl -o out --resume --overwrite", *ON).error  # one keeps what the other removes
    assert both.startswith("--overwrite and --resume are both given; give --resume to continue")
    with pytest.raises(ParameterError, match="give resume=True to continue the unfinished run, or overwrite=True"):
        gpulsh.deduplicate_files("a.jsonl", "out", backend="reference", resume=True, overwrite=True)
    other = command("dedup a.jsonl -o new --drop-containing", *ON).error
    assert other == "--drop-containing is given, and --measure is 'jaccard'; give --measure 'containment'"
    other = command("dedup a.jsonl -o new --measure containment --and simhash", *ON).error
    assert other.startswith("--and is given with --measure 'containment', which has no default distance")
    other = command("dedup a.jsonl -o new --keep source:z", *ON).error
    assert other.startswith("--keep is 'source:z' and 'z' matches none of the INPUTs")
    other = command("dedup", *map(str, range(1000)), "-o", "new", "--keep", "source:z", *ON).error
    assert other.endswith("; the INPUTs are: 0, 1, 2, 3, 4 and 995 more")
    other = command("dedup a.jsonl -o new --sketch simhash --rows 3", *ON).error
    assert other.startswith("--rows is given, and a sketch of bits has no bands")
    monkeypatch.setitem(sys.modules, "w3lib.url", None)
    other = command("dedup a.jsonl -o new --key id --normalize-url", *ON).error
    assert other.startswith("--normalize-url needs w3lib")
    Path("short.jsonl").write_text('{"text": "a title"}\n{"text": "a second one"}\n')
    gpulsh.deduplicate_files("short.jsonl", "out", backend="reference", overwrite=True)
    assert ", such as shingling='word:1' or shingling='char:4'" in caplog.messages[-1]
    monkeypatch.setattr(logging.getLogger("gpulsh"), "propagate", False)  # so that only the command listens
    warned = command("dedup short.jsonl -o out --overwrite", *ON).err
    assert ", such as --shingle word:1 or --shingle char:4" in warned
    done = "x: holds an unfinished run; `gpulsh dedup --resume` continues it"
    assert str(OutputError(done)) == done
    named = InputError("my--memory.txt: x--overwrite--y is none; give --memory 550MiB or more")
    assert str(named) == "my--memory.txt: x--overwrite--y is none; give memory='550MiB' or more"
    assert str(GpulshError()) == ""


def test_every_option_named_in_a_message_exists() -> None:
    """Each option is also a keyword, so that `python_message` names one that exists."""
    commands = [group.get_command(click.Context(group), name) for name in ("dedup", "passages")]
    parameters = [parameter for command in commands if command is not None for parameter in command.params]
    options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    functions = gpulsh.passages, gpulsh.passages_files, gpulsh.deduplicate_files
    keywords = {name: of for function in functions for name, of in inspect.signature(function).parameters.items()}
    assert all(keywords[name.replace("-", "_")].default is False for name in errors.SWITCHES)
    for path in PACKAGE.rglob("*.py"):
        if "cli" in path.parts:
            continue
        for raised in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(raised, ast.Raise):
                texts = [part.value for part in ast.walk(raised) if isinstance(part, ast.Constant)]
                message = re.sub("`ray [^`]*`", "", " ".join(text for text in texts if isinstance(text, str)))
                for option in re.findall(r"--[a-z-]+", message):
                    assert option in options, f"{path}: {option}"
                    assert errors.python_message(option).split("=")[0] in keywords, f"{path}: {option}"


def test_extras_are_named_in_quotes_and_exist() -> None:
    """Some shells take unquoted brackets for a pattern."""
    declared = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(get_args(errors.Extra)) == declared.keys() - {"cxx", "dev", "docs"}
    written = [PACKAGE.parent / "README.md", *(PACKAGE.parent / "docs").glob("*.md"), *PACKAGE.rglob("*.py")]
    for path in written:
        for line in path.read_text(encoding="utf-8").splitlines():
            for before, extra in re.findall(r"(.{0,13})gpulsh\[([a-z0-9]+)\]", line):
                assert before.endswith('"') and extra in declared, f"{path}: {line}"


def test_messages_name_documents_columns_and_the_nearest_option(here: Path, command: Command) -> None:
    for ids, index in (("", "known"), ("--id-column id", "ids")):
        assert command(f"index build {index} a.jsonl {ids}", *ON).status == 0
    known = "known: has a document with the key 'a.jsonl:0', so it contains a.jsonl already"
    message = command("index add known b.jsonl a.jsonl", *ON).error
    assert message == f"{known}; leave the file out, or give --id-column"
    b, out = Path("b.jsonl").read_text(), "-o out"
    Path("b.jsonl").write_text(b.replace('"b2"', '"a3"'))
    message = command("index add ids b.jsonl --id-column id", *ON).error
    assert message == "b.jsonl: line 2: its key is 'a3', which is in the index; leave it out"
    Path("b.jsonl").write_text(b.replace('"b3"', '"b1"'))
    message = command(f"dedup b.jsonl {out} --index new --id-column id", *ON).error
    assert message.startswith("b.jsonl: line 3: its key is 'b1', the same as b.jsonl: line 1")
    assert message.endswith("; give distinct ids, or leave out --id-column: keys are then FILE:ROW")
    message = command(f"dedup a.jsonl {out} --keep best", *ON).error
    others = "(it also takes first, longest and source:INPUT,INPUT);"
    assert f"has no column 'best', which --keep names {others}" in message
    assert message.endswith("its columns are: id, text")
    columns = "no column 'x'; its columns are: id, text; name one by --text-column"
    for line, message in (
        ("dedup a.jsonl -o out --text-column x", columns),
        ("dedup a.jsonl -o out --treshold 0.8", "'--treshold'. Did you mean --threshold?"),
        ("dedup a.jsonl -o out --keeep first", "'--keeep'. Did you mean --keep?"),
        ("dedup a.jsonl -o out --text-key body", "'--text-key'. Did you mean --text-column?"),
        ("dedup a.jsonl -o out --ngram_size 5", "'--ngram_size'. Did you mean --shingle?"),
        ("passages a.jsonl -o out --ngram 5", "No such option '--ngram'; see `gpulsh passages --help`"),
        ("dedup a.jsonl -o out --hashes-per-bucket 8", "'--hashes-per-bucket'. Did you mean --rows?"),
        ("plam --docs 1", "No such command 'plam'. Did you mean plan?"),
        ("index build known a.jsonl --on-error skip", "No such option '--on-error'; see `gpulsh index build --help`"),
        ("plan a.jsonl --key url", "No such option '--key'; see `gpulsh plan --help`"),
        ("plan a.jsonl -o out", "No such option '-o'; see `gpulsh plan --help`"),
        ("dedup", "Missing argument 'INPUT...'; see `gpulsh dedup --help`"),
        ("index build", "Missing argument 'PATH'; see `gpulsh index build --help`"),
        ("nothing", "No such command 'nothing'; see `gpulsh --help`"),
        ("index nothing", "No such command 'nothing'; see `gpulsh index --help`"),
        ("index quary known", "No such command 'quary'. Did you mean query?"),
    ):
        assert command(line, *ON).error.endswith(message)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [46, 90])
def test_progress_lines_drop_rates_that_do_not_fit(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": str(width), "LINES": "20", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    out = _Terminal()
    shown = open_progress(True, out)
    with shown.stage("sign", 10_000_000, "B"):
        for _ in range(4):
            shown.advance(2_000_000)
            shown.count(documents=12_345)
            time.sleep(0.12)
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()))]
    lines = [line for line in lines if line]
    assert lines and all(len(line) <= width for line in lines)
    assert not any("…" in line or "..." in line for line in lines)
    assert re.search(r"  sign +49,380 documents", lines[-1])
    whole = r"(\d[\d,.]* (documents|[kMGT]?B)(/s| in \d+\.\d s)?|\d+ dropped)"
    for line in lines:
        amounts = re.search(r"\d[\d,.]* (documents|[kMGT]?B).*", line)
        assert amounts is None or all(re.fullmatch(whole, part) for part in amounts[0].split(", ")), line


def test_a_run_of_other_inputs_lists_the_differences(here: Path) -> None:
    gpulsh.deduplicate_files(["a.jsonl", "b.jsonl"], "out", backend="reference", within=True)
    Path("c.jsonl").write_text(Path("a.jsonl").read_text())
    Path("b.jsonl").write_text(Path("a.jsonl").read_text() + "\n")
    with pytest.raises(OutputError) as caught:
        gpulsh.deduplicate_files(["b.jsonl", "c.jsonl"], "out", backend="reference", within=True, resume=True)
    assert str(caught.value) == (
        "out: belongs to another run: a.jsonl is no longer an input; b.jsonl has changed since; c.jsonl is a new input;"
        " give the same, another folder, or overwrite=True instead of resume=True"
    )


def test_a_run_of_less_memory_lists_no_sizes_that_follow_from_it() -> None:
    less, more = ({"cut": {"digests": size, "memory": size, "partition": size}, "seed": size} for size in (1024, 2048))
    memory = "memory was 2KiB and is 1KiB now, which is less; "
    with pytest.raises(OutputError, match=f"run: {memory}seed was 2048 and is 1024 now; give"):
        refuse_difference("out", more, less)
    with pytest.raises(
        OutputError, match="run: partition was 1024 and is 2048 now; seed was 1024 and is 2048 now; give"
    ):
        refuse_difference("out", less, more)
