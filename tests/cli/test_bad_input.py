"""Each bad input is one clear line and exit status 1 or 2; no file is left behind, and no user's file changes."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from gpulsh.backends.select import backend_status
from tests.support.command import Command
from tests.support.runs import tree

pytestmark = pytest.mark.usefixtures("folder")

TEXT = "one two three four five six seven"
LINE = json.dumps({"text": TEXT, "n": 1}).encode()
GOOD = b"\n".join([LINE] * 4_000)


def write(path: str, content: bytes) -> Callable[[], None]:
    def make() -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    return make


def lines(*content: bytes) -> Callable[[], None]:
    return write("a.jsonl", b"\n".join(content))


def parquet(**columns: object) -> Callable[[], None]:
    return lambda: pq.write_table(pa.table(columns), "a.parquet")


def make_all(*makers: Callable[[], None]) -> Callable[[], None]:
    return lambda: [make() for make in makers] and None


def broken_parquet() -> None:
    pq.write_table(pa.table({"text": [TEXT + str(n) for n in range(9999)]}), "a.parquet")
    content = bytearray(Path("a.parquet").read_bytes())
    content[100:20000] = b"\xff" * 19900  # the pages, not the footer: found only when they are read
    Path("a.parquet").write_bytes(content)


def make_nothing() -> None:
    pass


good = lines(LINE)

# Existing files, arguments, and parts of the line; a case in WRONG_USAGE has status 2, others 1.
CASES: list[tuple[Callable[[], None], str, list[str]]] = [
    (make_nothing, "no.parquet", ["no.parquet", "no such file"]),
    (good, "a.jsonl no/such.jsonl", ["no/such.jsonl", "no such file"]),
    (good, "*.parquet", ["*.parquet", "no file matches"]),
    (make_nothing, "memory://not-there/a.parquet", ["memory://not-there", "no such file"]),
    (make_nothing, "nonsense://a.parquet", ["nonsense://a.parquet", "cannot be opened"]),
    (write("a.xyz", b"x"), "a.xyz", ["a.xyz", "no known format", ".parquet", "--as-text '*.xyz'"]),
    (write("a.html", b"x"), "a.html", ["a.html: is HTML"]),
    (write("in/_SUCCESS", b""), "in", ["in: holds no file", ".jsonl"]),
    (good, "a.jsonl ./a.jsonl", ["./a.jsonl: is given twice"]),
    (parquet(body=[TEXT]), "a.parquet", ["a.parquet", "'text'", "body"]),
    (lines(b'{"body": "x"}', b'{"body": "y"}'), "a.jsonl", ["a.jsonl", "'text'", "body"]),
    (lines(LINE, b"", b'{"text": "x", "n": "?"}'), "a.jsonl --date-column n", ["a.jsonl: line 1", "'n' is"]),
    (write("a.csv", b'text,n\n"a\nb",2024-01-31\nc,?\n'), "a.csv --date-column n", ["a.csv: line 4", "'n' is '?'"]),
    (good, "a.jsonl --keep score", ["a.jsonl", "'score'"]),
    (good, "a.jsonl --id-column key", ["a.jsonl", "'key'"]),
    (parquet(text=[TEXT], s=["x"]), "a.parquet --keep s", ["a.parquet: row 0", "'s' is 'x'"]),
    (lines(b'{"text": "x", "s": 1}', b'{"text": "y", "s": "high"}'), "a.jsonl --keep s", ["a.jsonl: line 2", "'high'"]),
    (parquet(text=[TEXT] * 2, s=[1.0, float("nan")]), "a.parquet --keep s", ["a.parquet: row 1", "'s' is NaN"]),
    (lines(b'{"text": "x", "s": 1}', b'{"text": "y", "s": NaN}'), "a.jsonl --keep s", ["a.jsonl: line 2", "NaN"]),
    (lines(LINE, b"", b'{"text": "x", "s": ' + b"9" * 400 + b"}"), "a.jsonl --keep s", ["a.jsonl: line 3: column 's'"]),
    (write("a.txt", b"x"), "a.txt --keep s", ["a.txt", "no column 's'"]),
    (parquet(text=[1, 2]), "a.parquet", ["a.parquet", "'text' is int64"]),
    (write("a.jsonl.gz", gzip.compress(GOOD)[:-9]), "a.jsonl.gz", ["a.jsonl.gz"]),
    (write("a.jsonl.zst", zstandard.compress(GOOD)[:-9]), "a.jsonl.zst", ["a.jsonl.zst"]),
    (write("a.jsonl.gz", GOOD), "a.jsonl.gz", ["a.jsonl.gz"]),
    (write("a.parquet", b"PAR1 and no more"), "a.parquet", ["a.parquet"]),
    (broken_parquet, "a.parquet", ["a.parquet"]),
    (write("a.arrow", b"ARROW1 and no more"), "a.arrow", ["a.arrow"]),
    (lines(LINE, LINE, b"", b'{"text": "x"', LINE), "a.jsonl", ["a.jsonl: line 4 is not JSON"]),
    (lines(LINE, b"[1]"), "a.jsonl", ["a.jsonl: line 2 is a list"]),
    (lines(LINE, b'{"text": 5}'), "a.jsonl", ["a.jsonl: line 2: 'text' is a number", "string"]),
    (lines(b"[" * 100_000), "a.jsonl", ["a.jsonl: line 1"]),
    (write("out/mine.txt", b"mine"), "missing.jsonl", ["out: is not empty"]),
    (make_all(good, write("out/report.json", b'{"by": "me"}')), "a.jsonl --overwrite", ["out", "gpulsh did not write"]),
    (make_all(good, write("out", b"mine")), "a.jsonl", ["out: is a file"]),
    (good, "a.jsonl -o a.jsonl/out", ["a.jsonl/out", "cannot be written"]),
    (write("in/a.jsonl", LINE), "in -o in", ["in: is the input"]),
    (write("in/a.jsonl", LINE), "in -o in/out", ["in/out", "input in"]),
    (write("out/a.jsonl", LINE), "out/a.jsonl --overwrite", ["out: holds the input"]),
    (good, "a.jsonl -o nowhere://bucket/out", ["nowhere://bucket/out", "Protocol not known"]),
    (good, "a.jsonl --index s3://bucket/known", ["s3://bucket/known: is a URL", "local path"]),
]
WRONG_USAGE: list[tuple[Callable[[], None], str, list[str]]] = [
    (good, "a.jsonl --bands 30 --rows 5", ["150", "128"]),
    (good, "a.jsonl --threshold 0", ["threshold is 0"]),
    (good, "a.jsonl --threshold nan", ["threshold is nan"]),
    (good, "a.jsonl --memory lots", ["memory is 'lots', not an amount of memory"]),
    (good, "a.jsonl --threads 99999999999999999999", ["threads is 99999999999999999999; give"]),
    (good, "a.jsonl --shingle word", ["'word'", "word:SIZE"]),
    (good, "a.jsonl --write duplicates --format parquet", ["--format is given and --write is 'duplicates'"]),
    (good, "a.jsonl --write duplicates --compression zstd:3", ["--compression is given and --write is 'duplicates'"]),
    (good, "a.jsonl --keep column:", ["keep is 'column:'"]),
    (good, "a.jsonl --verify maybe", ["maybe", "exact"]),
    (good, "a.jsonl --devices 0,x", ["'0,x' is not a list of device numbers"]),
    (good, "a.jsonl --no-such", ["--no-such"]),
    (good, "", ["INPUT"]),
]


@pytest.mark.parametrize(
    ("make", "arguments", "parts", "status"),
    [
        pytest.param(*case, status, id=f"{case[1]} {place}")
        for status, cases in ((1, CASES), (2, WRONG_USAGE))
        for place, case in enumerate(cases)
    ],
)
def test_bad_input_gives_one_line_and_changes_nothing(
    make: Callable[[], None], arguments: str, parts: list[str], status: int, command: Command
) -> None:
    make()
    before = tree()
    refused = command(f"dedup {arguments} {'' if ' -o ' in arguments else '-o out'} --backend reference")
    assert (refused.status, refused.out) == (status, "") and "Traceback" not in refused.err
    assert refused.err.count("gpulsh: error: ") == 1 and "unexpected" not in refused.error
    assert [part for part in parts if part not in refused.error] == [], refused.error
    assert tree() == before


def test_sign_refuses_a_url_as_output(command: Command) -> None:
    good()
    error = command("sign a.jsonl -o s3://bucket/signed.parquet").error
    assert error.startswith("s3://bucket/signed.parquet: is a URL; give a local path")


def test_backend_cuda_without_cuda_is_an_error(command: Command) -> None:
    if backend_status()["cuda"] is None:
        pytest.skip("CUDA works here")
    good()
    before = tree()
    for options in ("--backend cuda", "--devices 0"):
        assert command(f"dedup a.jsonl -o out {options}").error.startswith(options[:9]) and tree() == before


def test_a_full_disk_is_named_and_leaves_nothing(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    good()
    full = OSError(28, "No space left on device", "out/_work/report.json")
    monkeypatch.setattr("gpulsh.run.file_run.write_report", Mock(side_effect=full))
    error = command("dedup a.jsonl -o out --backend reference").error
    assert "out/_work/report.json: cannot be written: No space left on device" in error
    assert os.listdir() == ["a.jsonl"]
