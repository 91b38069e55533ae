"""Standard input and named pipes are read once; other special files are refused without waiting for them."""

import bz2
import gzip
import json
import lzma
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from gpulsh.cli import main
from gpulsh.errors import InputError
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from tests.support.files import record
from tests.support.runs import below, environment, evidence, run

LINES = b'{"text": "one and the same"}\n{"text": "another"}\n{"text": "one and the same"}\n'
KEPT = [b'{"text": "one and the same"}', b'{"text": "another"}', b""]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary copies; the test leaves it empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    assert list(folder.iterdir()) == []


def command(*arguments: object, given: bytes) -> int:
    """The status of a command in this process with that standard input."""
    before = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(given)
        file.seek(0)
        os.dup2(file.fileno(), 0)
        try:
            return main([*map(str, arguments)])
        finally:
            os.dup2(before, 0)
            os.close(before)


def write_to(pipe: Path, content: bytes) -> threading.Thread:
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: pipe.write_bytes(content), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_read_by_all_commands(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, backend = tmp_path / "out", ("--backend", "reference")
    assert command("dedup", name, "-o", out, *backend, given=LINES) == 0
    assert "rror" not in capfd.readouterr().err
    assert (out / "data/stdin.jsonl").read_bytes().split(b"\n") == KEPT
    (row,) = evidence(out)
    assert (row["file"], row["row"], row["duplicate_of_row"]) == (name, 2, 0)
    assert command("dedup", name, "-o", out, *backend, "--resume", given=LINES) == 0
    assert command("dedup", name, "-o", out, *backend, "--resume", given=LINES[::-1]) == 1
    assert command("index", "build", tmp_path / "index", name, *backend, given=LINES) == 0
    capfd.readouterr()
    assert command("index", "query", tmp_path / "index", name, *backend, given=LINES) == 0
    assert [json.loads(line)["row"] for line in capfd.readouterr().out.splitlines()] == [0, 1, 2]


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": ["one and the same", "another", "one and the same"]}), sink)
    return sink.getvalue().to_pybytes()


RECORDS = b"".join(map(record, "abc", [b"one and the same", b"another", b"one and the same"]))
SHEET = b"n,text\n1,the same\n2,another\n3,the same\n"
# The name of the pipe, what its documents' format adds, and what is written to it.
CONTENTS: list[tuple[str, str, bytes]] = [
    *(("pipe", ".jsonl", LINES), ("a.ndjson", "", LINES), ("b.jsonl.gz", "", gzip.compress(LINES))),
    ("array", ".json", b" [" + LINES.strip().replace(b"\n", b",") + b"]"),
    *(("packed", ".jsonl.gz", gzip.compress(LINES)), ("frames", ".jsonl.zst", zstandard.compress(LINES))),
    *(("table", ".parquet", parquet()), ("crawl", ".warc", RECORDS)),
    ("packed crawl", ".warc.gz", gzip.compress(RECORDS)),
    ("sheet", ".csv", b"\xef\xbb\xbf" + SHEET),
    ("packed sheet", ".tsv.xz", lzma.compress(SHEET.replace(b",", b"\t"))),
    ("lines", ".txt.bz2", bz2.compress(b"the same, as said\nanother\nthe same, as said\n")),
]


@pytest.mark.parametrize(("name", "added", "content"), CONTENTS, ids=[name for name, *_ in CONTENTS])
def test_named_pipes_of_every_format_are_read(name: str, added: str, content: bytes, tmp_path: Path) -> None:
    writer = write_to(tmp_path / name, content)
    result = run(tmp_path / name, tmp_path / "out", lines=name == "lines")
    writer.join(10)
    assert result.funnel["dropped"] == 1
    assert below(tmp_path / "out/data") == {name + added}


@pytest.mark.parametrize(
    "content", ["[Verse 1]\n{\n", "BZhang, who wrote it\n\n", "{curly}, [square]\n5\n", "", "\n\n"]
)
def test_lines_from_a_pipe_are_not_taken_for_another_format(content: str, tmp_path: Path) -> None:
    """They begin with a bracket, or with the first bytes of bzip2."""
    writer = write_to(tmp_path / "pipe", content.encode())
    result = run(tmp_path / "pipe", tmp_path / "out", lines=True)
    writer.join(10)
    assert result.funnel["documents"] == content.count("\n")
    assert (tmp_path / "out/data/pipe.txt").read_text() == content


def test_text_from_a_pipe_needs_lines(tmp_path: Path) -> None:
    write_to(tmp_path / "pipe", b"some words\nmore words\n")
    with pytest.raises(InputError, match=r"line 1 is not JSON: .* for each line, or lines=True for text"):
        run(tmp_path / "pipe", tmp_path / "out")


def test_a_pipe_given_twice_is_refused(tmp_path: Path) -> None:
    write_to(tmp_path / "pipe", LINES)
    (tmp_path / "again").symlink_to("pipe")
    with pytest.raises(InputError, match=r"again: can be read only once, and is given as .*pipe too"):
        run([tmp_path / "pipe", tmp_path / "again"], tmp_path / "out")


def test_closed_standard_input_is_a_plain_error(tmp_path: Path) -> None:
    code = "import os, sys; os.close(0); from gpulsh.cli import main; sys.exit(main(['dedup', '-', '-o', sys.argv[1]]))"
    line = [sys.executable, "-c", code, str(tmp_path / "out")]
    done = subprocess.run(line, env=environment(), capture_output=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (1, b"gpulsh: error: -: cannot be read: Bad file descriptor\n")


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *(("pipe", "folder"), ("pipe", "glob"), ("pipe", "link")),
        *(("socket", "folder"), ("socket", "url"), ("socket", "link")),
        *(("device", "folder"), ("device", "glob"), ("device", "url"), ("device", "file"), ("device", "url of a file")),
    ],
)
def test_special_files_in_a_folder_are_refused(tmp_path: Path, kind: str, how: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.jsonl").write_bytes(LINES)
    special = folder / ("a.jsonl" if how != "link" else ".special")
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "pipe":
            os.mkfifo(special)
        elif kind == "socket":
            before = os.getcwd()
            os.chdir(folder)  # the name of a socket is short
            server.bind(special.name)
            os.chdir(before)
        else:
            special.symlink_to("/dev/zero")
        if how == "link":
            (folder / "a.jsonl").symlink_to(special)
        given = {"glob": f"{folder}/*.jsonl"}.get(how, f"{folder}/a.jsonl" if "file" in how else str(folder))
        given = f"file://{given}" if "url" in how else given
        with pytest.raises(InputError, match=rf"a\.jsonl: is a (named )?{kind}, not a regular file; leave it out"):
            run(given, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.arrow", "a.txt.gz"])
def test_a_pipe_in_place_of_a_file_is_refused_without_waiting(name: str, tmp_path: Path) -> None:
    """A thread that reads ahead waited for a writer, and the process for the thread, whatever the signal."""
    (tmp_path / name).write_text("")
    files = find_files([str(tmp_path / name)])
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="is a named pipe, not a regular file; put the file itself there"):
        list(FileTexts(files, Columns("text"), readers=2).batches(1 << 20))


def test_find_files_refuses_streams(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="give it as an INPUT of its own, which is read once"):
        find_files([str(tmp_path / "a.jsonl")])
