"""Each bad input is one clear line and exit status 1 or 2; nothing is left behind, nothing of the user's is touched."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from gpulsh.cli import main
from tests.support.runs import environment

TEXT = "one two three four five six seven"
LINE = json.dumps({"text": TEXT, "n": 1}).encode()
GOOD = b"\n".join([LINE] * 4_000)


def write(path: str, content: bytes) -> Callable[[], None]:
    def make() -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    return make


def parquet(path: str, **columns: object) -> Callable[[], None]:
    return lambda: pq.write_table(pa.table(columns), path)


def broken_parquet() -> None:
    pq.write_table(pa.table({"text": [TEXT + str(n) for n in range(9999)]}), "a.parquet")
    content = bytearray(Path("a.parquet").read_bytes())
    content[100:20000] = b"\xff" * 19900  # the pages, not the footer: found only when they are read
    Path("a.parquet").write_bytes(content)


def nothing() -> None:
    pass


def used_folder() -> None:
    write("a.jsonl", LINE)()
    write("out/mine.txt", b"mine")()


def output_is_a_file() -> None:
    write("a.jsonl", LINE)()
    write("out", b"mine")()


def output_of_another_program() -> None:
    write("a.jsonl", LINE)()
    write("out/report.json", b'{"by": "someone else"}')()


RECORDS = [LINE] * 4
good = write("a.jsonl", LINE)

# name: (what is there, arguments, exit status, what the line must say)
CASES: dict[str, tuple[Callable[[], None], str, int, list[str]]] = {
    "missing file": (nothing, "no.parquet", 1, ["no.parquet", "no such file"]),
    "missing among others": (good, "a.jsonl no/such.jsonl", 1, ["no/such.jsonl", "no such file"]),
    "no match": (good, "*.parquet", 1, ["*.parquet", "no file matches"]),
    "missing url": (nothing, "memory://not-there/a.parquet", 1, ["memory://not-there", "no such file"]),
    "unknown protocol": (nothing, "nonsense://a.parquet", 1, ["nonsense://a.parquet", "cannot be opened"]),
    "unknown format": (write("a.xyz", b"x"), "a.xyz", 1, ["a.xyz", "no known format", ".parquet", "--as-text '*.xyz'"]),
    "format of others": (write("a.html", b"x"), "a.html", 1, ["a.html: is HTML; convert to Parquet or CSV first"]),
    "empty folder": (lambda: os.mkdir("in"), "in", 1, ["in: holds no file", ".jsonl"]),
    "folder without data": (write("in/_SUCCESS", b""), "in", 1, ["in: holds no file"]),
    "file twice": (good, "a.jsonl ./a.jsonl", 1, ["./a.jsonl: is reached twice"]),
    "missing column": (parquet("a.parquet", body=[TEXT]), "a.parquet", 1, ["a.parquet", "'text'", "body"]),
    "missing field": (write("a.jsonl", b'{"body": "x"}\n{"body": "y"}'), "a.jsonl", 1, ["a.jsonl", "'text'", "body"]),
    "missing keep column": (good, "a.jsonl --keep score", 1, ["a.jsonl", "'score'"]),
    "missing keep column of Parquet": (
        parquet("a.parquet", text=[TEXT]),
        "a.parquet --keep score",
        1,
        ["a.parquet", "'score'", "text"],
    ),
    "missing id column": (good, "a.jsonl --id-column key", 1, ["a.jsonl", "'key'"]),
    "keep column of text": (
        parquet("a.parquet", text=[TEXT], s=["x"]),
        "a.parquet --keep s",
        1,
        ["a.parquet: row 0", "'s' is 'x'; --keep takes numbers, or dates"],
    ),
    "keep field of text": (
        write("a.jsonl", b'{"text": "x", "s": 1}\n{"text": "y", "s": "high"}'),
        "a.jsonl --keep s",
        1,
        ["a.jsonl: line 2", "'s' is 'high'"],
    ),
    "NaN priority": (
        parquet("a.parquet", text=[TEXT] * 3, s=[1.0, 2.0, float("nan")]),
        "a.parquet --keep s",
        1,
        ["a.parquet: row 2", "'s' is NaN"],
    ),
    "NaN priority in JSON": (
        write("a.jsonl", b'{"text": "x", "s": 1}\n{"text": "y", "s": NaN}'),
        "a.jsonl --keep s",
        1,
        ["a.jsonl: line 2", "'s' is NaN"],
    ),
    "plain text has no keep column": (write("a.txt", b"x"), "a.txt --keep s", 1, ["a.txt", "no column 's'"]),
    "column of numbers": (parquet("a.parquet", text=[1, 2]), "a.parquet", 1, ["a.parquet", "'text' is int64"]),
    "truncated gzip": (write("a.jsonl.gz", gzip.compress(GOOD)[:-9]), "a.jsonl.gz", 1, ["a.jsonl.gz", "truncated"]),
    "gzip cut at its head": (write("a.jsonl.gz", gzip.compress(GOOD)[:5]), "a.jsonl.gz", 1, ["a.jsonl.gz"]),
    "truncated zstd": (
        write("a.jsonl.zst", zstandard.compress(GOOD)[:-9]),
        "a.jsonl.zst",
        1,
        ["a.jsonl.zst", "truncated"],
    ),
    "no gzip": (write("a.jsonl.gz", GOOD), "a.jsonl.gz", 1, ["a.jsonl.gz", "broken"]),
    "no zstd": (write("a.jsonl.zst", GOOD), "a.jsonl.zst", 1, ["a.jsonl.zst", "broken"]),
    "no Parquet": (write("a.parquet", b"PAR1 and no more"), "a.parquet", 1, ["a.parquet", "cannot be read"]),
    "empty Parquet": (write("a.parquet", b""), "a.parquet", 1, ["a.parquet", "cannot be read"]),
    "broken Parquet": (broken_parquet, "a.parquet", 1, ["a.parquet", "cannot be read"]),
    "no Arrow": (write("a.arrow", b"ARROW1 and no more"), "a.arrow", 1, ["a.arrow", "cannot be read"]),
    "broken JSON": (
        write("a.jsonl", b"\n".join([*RECORDS, b"", b'{"text": "x"', LINE])),
        "a.jsonl",
        1,
        ["a.jsonl: line 6 is not JSON"],
    ),
    "broken string": (
        write("a.jsonl", b"\n".join([LINE, b'{"text": "x', LINE])),
        "a.jsonl",
        1,
        ["a.jsonl: line 2 is not JSON: Invalid control character; give"],
    ),
    "no object": (write("a.jsonl", b"\n".join([*RECORDS, b"[1]"])), "a.jsonl", 1, ["a.jsonl: line 5 is a list"]),
    "wrong type": (
        write("a.jsonl", b"\n".join([*RECORDS, b'{"text": 5}'])),
        "a.jsonl",
        1,
        ["a.jsonl: line 5: 'text' is a number", "string"],
    ),
    "nested JSON bomb": (write("a.jsonl", b"[" * 100_000), "a.jsonl", 1, ["a.jsonl: line 1"]),
    "output in use": (used_folder, "a.jsonl", 1, ["out: is not empty"]),
    "output of another program": (
        output_of_another_program,
        "a.jsonl --overwrite",
        1,
        ["out", "gpulsh did not write"],
    ),
    "output is a file": (output_is_a_file, "a.jsonl", 1, ["out: is a file"]),
    "output below a file": (good, "a.jsonl -o a.jsonl/out", 1, ["a.jsonl/out", "cannot be made"]),
    "output equals input": (write("in/a.jsonl", LINE), "in -o in", 1, ["in: is the input"]),
    "output inside input": (write("in/a.jsonl", LINE), "in -o in/out", 1, ["in/out: lies inside the input in"]),
    "input inside output": (write("out/a.jsonl", LINE), "out/a.jsonl --overwrite", 1, ["out: holds the input"]),
    "remote output": (good, "a.jsonl -o nowhere://bucket/out", 1, ["nowhere://bucket/out", "Protocol not known"]),
    "remote index": (good, "a.jsonl --index s3://bucket/known", 1, ["s3://bucket/known: is a URL", "local path"]),
    "bands times rows": (good, "a.jsonl --bands 30 --rows 5", 2, ["150", "128"]),
    "threshold of nought": (good, "a.jsonl --threshold 0", 2, ["threshold is 0"]),
    "threshold above one": (good, "a.jsonl --threshold 1.5", 2, ["threshold is 1.5"]),
    "threshold NaN": (good, "a.jsonl --threshold nan", 2, ["threshold is nan"]),
    "threshold in words": (good, "a.jsonl --threshold high", 2, ["--threshold", "high"]),
    "bad shingle": (good, "a.jsonl --shingle word", 2, ["'word'", "word:SIZE"]),
    "bad shingle size": (good, "a.jsonl --shingle word:0", 2, ["'word:0'", "1 to 64"]),
    "bad shingle unit": (good, "a.jsonl --shingle byte:5", 2, ["'byte:5'", "char:SIZE"]),
    "format of no rows": (
        good,
        "a.jsonl --write duplicates --format parquet",
        2,
        ["format is 'parquet' and write is 'duplicates', which writes no rows; leave one of them out"],
    ),
    "compression of no rows": (
        good,
        "a.jsonl --write duplicates --compression zstd:3",
        2,
        ["compression is 'zstd:3' and write is 'duplicates'", "leave one of them out"],
    ),
    "bad seed": (good, "a.jsonl --seed -1", 2, ["seed is -1"]),
    "empty keep": (good, "a.jsonl --keep column:", 2, ["keep is 'column:'"]),
    "no such choice": (good, "a.jsonl --verify maybe", 2, ["maybe", "exact"]),
    "no such option": (good, "a.jsonl --no-such", 2, ["--no-such"]),
    "no input": (good, "", 2, ["INPUT"]),
}


def tree() -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(Path().rglob("*"))}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, arguments, status, told = CASES[name]
    monkeypatch.chdir(tmp_path)
    make()
    before = tree()
    output = [] if " -o " in arguments else ["-o", "out"]
    assert main(["dedup", *arguments.split(), *output, "--backend", "reference"]) == status
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if line.startswith("gpulsh: error: ")]
    assert printed.out == ""
    assert len(lines) == 1 and printed.err.endswith(lines[0] + "\n"), printed.err
    assert "Traceback" not in printed.err
    assert "unexpected" not in lines[0]
    assert [part for part in told if part not in lines[0]] == [], lines[0]
    assert tree() == before


def test_signatures_behind_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    good()
    assert main(["sign", "a.jsonl", "-o", "s3://bucket/signed.parquet"]) == 1
    assert capsys.readouterr().err.startswith("gpulsh: error: s3://bucket/signed.parquet: is a URL; give a local path")


def test_cuda_without_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from gpulsh.backends.select import backend_status

    if backend_status()["cuda"] is None:
        pytest.skip("CUDA works here")
    monkeypatch.chdir(tmp_path)
    good()
    before = tree()
    assert main(["dedup", "a.jsonl", "-o", "out", "--backend", "cuda"]) == 1
    assert capsys.readouterr().err.startswith("gpulsh: error: backend 'cuda'")
    assert tree() == before


def test_no_right_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    good()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "out")

    monkeypatch.setattr(Path, "mkdir", refused)
    assert main(["dedup", "a.jsonl", "-o", "out", "--backend", "reference"]) == 1
    assert capsys.readouterr().err == "gpulsh: error: out: cannot be made: Permission denied\n"


def test_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    good()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "out/_work/report.json")

    monkeypatch.setattr("gpulsh.run.files.write_report", full)
    assert main(["dedup", "a.jsonl", "-o", "out", "--backend", "reference"]) == 1
    assert "out/_work/report.json: cannot be written: No space left on device" in capsys.readouterr().err
    assert os.listdir() == ["a.jsonl"]


@pytest.mark.parametrize("name", ["missing file", "broken JSON", "truncated gzip", "bad shingle", "output in use"])
def test_bad_input_in_a_process_of_its_own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, arguments, status, told = CASES[name]
    monkeypatch.chdir(tmp_path)
    make()
    before = tree()
    command = [sys.executable, "-m", "gpulsh", "dedup", *arguments.split(), "-o", "out", "--backend", "reference"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=environment())
    assert (ran.returncode, ran.stdout) == (status, "")
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("gpulsh: compiling kernels ")]
    assert len(lines) == 1 and lines[0].startswith("gpulsh: error: "), ran.stderr
    assert all(part in ran.stderr for part in told)
    assert tree() == before
