"""Kept rows have the input's codec, or the one that `--compression` names."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import gpulsh
from gpulsh.cli.dedup import dedup
from gpulsh.errors import ParameterError
from gpulsh.io.packing import LEVELS, Packing
from tests.support.files import write_kept, write_rows
from tests.support.texts import licences


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Real text of about 400 kB."""
    found = licences()
    sizes = np.cumsum([len(text) for text in found])
    return found[: int(np.searchsorted(sizes, 400_000))]


def test_parquet_keeps_codecs_and_dictionaries(texts: list[str], tmp_path: Path) -> None:
    kinds = [str(row % 3) * 20 for row in range(len(texts))]
    table = pa.table({"text": texts, "name": texts[::-1], "kind": kinds, "number": range(len(texts)), "share": texts})
    codecs = {"text": "zstd", "name": "snappy", "kind": "gzip", "number": "none", "share": "lz4"}
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression=codecs, use_dictionary=["kind"], row_group_size=len(texts) // 3)
    keep = np.ones(len(texts), bool)
    keep[::7] = False
    target = write_kept(path, keep)
    assert pq.read_table(target).equals(table.filter(pa.array(keep)))
    before, after = (pq.read_metadata(found).row_group(0) for found in (path, target))
    for place in range(table.num_columns):
        one, other = before.column(place), after.column(place)
        assert (other.compression, other.has_dictionary_page) == (one.compression, one.has_dictionary_page)


def test_levels_are_the_librarys_own(texts: list[str], tmp_path: Path) -> None:
    """Whatever the input's level: a high one would take minutes."""
    found = []
    for level in (1, 19):
        path = tmp_path / f"{level}.parquet"
        pq.write_table(pa.table({"text": texts}), path, compression="zstd", compression_level=level)
        found.append(write_kept(path, np.ones(len(texts))).read_bytes())
    assert found[0] == found[1]


def test_what_is_asked_for(texts: list[str], tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.parquet", texts)
    write_rows(tmp_path / "in" / "b.jsonl.gz", [" ".join(text.split()[::-1]) for text in texts])
    sizes = []
    for level in (1, 9):
        out = tmp_path / f"out{level}"
        result = gpulsh.deduplicate_files(tmp_path / "in", out, compression=f"gzip:{level}", backend="cpu")
        assert result.report["parameters"]["compression"] == f"gzip:{level}"
        chunk = pq.read_metadata(out / "data" / "a.parquet").row_group(0).column(0)
        assert chunk.compression == "GZIP"
        sizes.append((chunk.total_compressed_size, (out / "data" / "b.jsonl.gz").stat().st_size))
    assert sizes[0][0] > sizes[1][0] and sizes[0][1] > sizes[1][1]
    asked = ["--compression", "none", "--backend", "cpu"]
    assert CliRunner().invoke(dedup, [str(tmp_path / "in"), "-o", str(tmp_path / "o"), *asked]).exit_code == 0
    assert pq.read_metadata(tmp_path / "o" / "data" / "a.parquet").row_group(0).column(0).compression == "UNCOMPRESSED"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("zip", "give one of none, snappy, gzip"),
        ("zstd:", "of zstd, levels are 1 to 19"),
        ("zstd:20", "of zstd, levels are 1 to 19"),
        ("zstd:-1", "of zstd, levels are 1 to 19"),
        ("snappy:1", "of snappy, there are no levels"),
        ("lz4:2", "of lz4, levels are 1, 3 to 12"),
        (9, "give one of none"),
    ],
)
def test_what_is_no_compression(given: Any, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some")
    with pytest.raises(ParameterError, match=told):
        gpulsh.deduplicate_files(tmp_path / "a.txt", tmp_path / "out", compression=given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "compression", "taken"),
    [
        ("a.jsonl", "zstd:3", False),
        ("a.txt", "none", False),
        ("a.jsonl.gz", "zstd:3", False),
        ("a.jsonl.gz", "gzip", False),  # as it is, at the level that it has
        ("a.jsonl.gz", "gzip:3", True),
    ],
)
def test_a_compression_that_no_input_can_have(name: str, compression: str, taken: bool, tmp_path: Path) -> None:
    line = b'{"text": "some words"}\n'
    (tmp_path / name).write_bytes(gzip.compress(line) if name.endswith("gz") else line)
    pq.write_table(pa.table({"text": ["other words"]}), tmp_path / "test.parquet")  # is only read
    asked: dict[str, Any] = {"compression": compression, "backend": "reference", "protect": tmp_path / "test.parquet"}
    if taken:
        gpulsh.deduplicate_files(tmp_path / name, tmp_path / "out", **asked)
        return
    with pytest.raises(ParameterError, match=f"'{compression}', but no input can be written so"):
        gpulsh.deduplicate_files(tmp_path / name, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()


def test_levels_are_all_known() -> None:
    for codec, levels in LEVELS.items():
        for level in levels:
            assert Packing.parse(f"{codec}:{level}") == Packing(codec, level)
            name = "lz4_raw" if codec == "lz4" else codec
            content = b"some words " * 100
            packed = pa.Codec(name, compression_level=level).compress(content)
            assert pa.Codec(name).decompress(packed, len(content)).to_pybytes() == content
