"""Passages of files with bad records: `on_error="skip"` lists them, and they are in nothing else."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh import budget
from gpulsh.cli import main
from gpulsh.errors import InputError
from tests.run.test_passages_files import SPANS
from tests.support.files import read_rows, rejected

SAME = "one two three four five six seven"
TEXTS = [f"a {SAME}", None, f"b {SAME}", "c", None, f"d\n{SAME}\n{SAME}", f"e\n{SAME}"]
BAD = {1: '{"text": "no end', 4: '{"text": 7}'}
GIVEN: dict[str, Any] = {"backend": "cpu", "threads": 1, "cut": True, "min_left": 0}


@pytest.fixture(params=["plain", "gzip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Seven rows, of which two are bad."""
    rows = [BAD.get(number, json.dumps({"text": text})) for number, text in enumerate(TEXTS)]
    packed = gzip.compress if request.param == "gzip" else bytes
    path = tmp_path / ("a.jsonl.gz" if request.param == "gzip" else "a.jsonl")
    path.write_bytes(packed("".join(f"{row}\n" for row in rows).encode()))
    return path


@pytest.mark.parametrize("options", [{"tokens": 5}, {"unit": "line", "max_copies": 1}], ids=str)
def test_bad_records_are_listed_and_left_out(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    for name in ("PARTITION_BYTES", "PARALLEL_BYTES"):
        monkeypatch.setattr(budget, name, 40)
    with pytest.raises(InputError, match=r"a\.jsonl"):
        gpulsh.passages_files(path, tmp_path / "failed", **GIVEN, **options)
    result = gpulsh.passages_files(path, tmp_path / "out", **GIVEN, **options, on_error="skip")
    columns = [*SPANS[:3], "first_row", *SPANS[4:]]
    wanted = gpulsh.passages(TEXTS, backend="cpu", **options).select(columns)
    assert pq.read_table(result.passages).select(columns).to_pylist() == wanted.to_pylist() != []
    rejected = pq.read_table(tmp_path / "out" / "rejected.parquet")
    assert rejected["row"].to_pylist() == [1, 4]
    found = result.report["passages"]
    assert (found["documents"], found["nulls"], found["rejected"]) == (5, 0, 2)
    assert "rejected.parquet" in result.report["outputs"] and result.report["parameters"]["on_error"] == "skip"
    data = (result.data / path.name).read_bytes()
    kept = [row["text"] for row in read_rows(result.data / path.name)]
    expected = gpulsh.cut(TEXTS, gpulsh.passages(TEXTS, backend="cpu", **options), min_left=0, backend="cpu")
    assert kept == [text for number, text in enumerate(expected.texts.to_pylist()) if number not in BAD]
    again = gpulsh.cut_files(path, tmp_path / "cut", passages=result.passages, min_left=0, backend="cpu")
    assert (again.data / path.name).read_bytes() == data


def test_a_damaged_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"{number} {SAME}" for number in range(6)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=2, compression="none", use_dictionary=False)
    group = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    content[group.data_page_offset : group.data_page_offset + 12] = b"\xff" * 12
    path.write_bytes(content)
    result = gpulsh.passages_files(path, tmp_path / "out", **GIVEN, tokens=5, on_error="skip")
    assert [row["row"] for row in read_rows(result.passages)] == [1, 4, 5]
    assert [(row["row"], row["rows"]) for row in rejected(tmp_path / "out")] == [(2, 2)]
    assert pq.read_table(result.data / "a.parquet").num_rows == 4


def test_the_command(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert main(["passages", str(path), "-o", out, "--tokens", "5", "--on-error", "skip"]) == 0
    assert "Bad records are in rejected.parquet: 2." in capsys.readouterr().out
