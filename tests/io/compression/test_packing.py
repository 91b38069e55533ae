"""What is kept takes no more bytes than it did: codec, level, pages, dictionaries and encodings are the input's."""

from __future__ import annotations

import gzip
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner

import gpulsh
from gpulsh.cli.dedup import dedup
from gpulsh.errors import ParameterError
from gpulsh.io.compression import packing
from gpulsh.io.compression.packing import LEVELS, Packing
from gpulsh.io.files.inputs import find_files
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.parquet.pages import pages_of, reader
from tests.support.texts import licences

FOOTER = 512  # bytes that may be written otherwise: names of codecs, statistics


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Real text of about 2 MB."""
    found = licences()
    sizes = np.cumsum([len(text) for text in found])
    return found[: int(np.searchsorted(sizes, 2_000_000))]


def kept(path: Path, keep: np.ndarray, packing: Packing | None = None) -> Path:
    (file,) = find_files([str(path)])
    target = path.with_name("kept-" + path.name)
    format_of(file).write_kept(file, keep, str(target), packing=packing)
    return target


PARQUET = [
    *(("none", None), ("snappy", None), ("lz4", None), ("lz4", 9)),
    *(("gzip", level) for level in (1, 6, 9)),
    *(("zstd", level) for level in (1, 3, 9, 15)),
    *(("brotli", level) for level in (1, 5)),
]


@pytest.mark.parametrize(
    ("codec", "level", "version"), [(*how, ("1.0", "2.0")[place % 2]) for place, how in enumerate(PARQUET)]
)
def test_a_parquet_file_is_packed_as_well(
    codec: str, level: int | None, version: str, texts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": texts, "id": [str(row) for row in range(len(texts))]})
    pq.write_table(table, path, compression=codec, compression_level=level, data_page_version=version)
    everything = np.ones(len(texts), bool)
    assert kept(path, everything).stat().st_size <= path.stat().st_size + FOOTER
    some = everything.copy()
    some[::7] = False
    target = kept(path, some)
    assert target.stat().st_size <= path.stat().st_size
    assert pq.read_table(target).equals(table.filter(pa.array(some)))
    chunk = pq.read_metadata(target).row_group(0).column(0)
    assert chunk.compression == pq.read_metadata(path).row_group(0).column(0).compression
    if level is not None:  # no slower than it has to be
        again = tmp_path / "again.parquet"
        pq.write_table(table, again, compression=codec, compression_level=max(level - 3, LEVELS[codec][0]))
        assert level < 5 or kept(path, everything).stat().st_size < again.stat().st_size * 1.02


@pytest.mark.parametrize("level", [1, 3])
def test_a_cheap_level_stays(level: int, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", compression="zstd", compression_level=level)
    taken: list[Any] = []
    writer = pq.ParquetWriter

    def watched(*arguments: Any, **options: Any) -> Any:
        taken.append(options["compression_level"])
        return writer(*arguments, **options)

    monkeypatch.setattr(pq, "ParquetWriter", watched)
    kept(tmp_path / "a.parquet", np.ones(len(texts), bool))
    assert taken == [{"text": level}]


def test_a_slow_level_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    packing._tell_slow.cache_clear()
    for needed, told in ((14, []), (15, ["zstd:3"]), (15, ["zstd:3"])):
        sizes = partial(lambda needed, _, level: 10 + (level < needed), needed)
        assert packing.cheapest_level("zstd", [packing.Sample(b"", 10)], sizes) == needed
        assert [re.findall(r"compression='(\S+)'", record.message) for record in caplog.records] == [told] * len(told)


def test_pages_dictionaries_encodings_and_codecs_stay(texts: list[str], tmp_path: Path) -> None:
    rows = len(texts)
    table = pa.table(
        {
            "text": texts,
            "name": [f"https://example.org/{row:09}/page" for row in range(rows)],
            "number": np.arange(rows) * 1000,
            "share": np.linspace(0, 1, rows),
            "kind": [str(row % 3) * 2_000 for row in range(rows)],
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(
        table,
        path,
        compression={"text": "zstd", "name": "snappy", "number": "none", "share": "zstd", "kind": "gzip"},
        use_dictionary=["kind"],
        column_encoding={
            "name": "DELTA_BYTE_ARRAY",
            "number": "DELTA_BINARY_PACKED",
            "share": "BYTE_STREAM_SPLIT",
        },
        data_page_size=16 << 20,
    )
    target = kept(path, np.ones(rows, bool))
    before, after = (pq.read_metadata(found).row_group(0) for found in (path, target))
    for place in range(5):
        one, other = before.column(place), after.column(place)
        assert other.compression == one.compression and set(other.encodings) == set(one.encodings)
        assert other.total_compressed_size <= one.total_compressed_size
    assert pq.read_table(target).equals(table)


@pytest.mark.parametrize("page_size", [1 << 20, 6 << 20])
def test_pages_become_no_larger(page_size: int, texts: list[str], tmp_path: Path) -> None:
    """Of values of which a run is more than a page, too: larger ones take fresh memory, and longer."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [text[:3000].ljust(2500) for text in (texts * 30)[:9000]]})
    pq.write_table(table, path, use_dictionary=False, data_page_size=page_size)
    found = []
    for written in (path, kept(path, np.ones(len(table), bool))):
        (file,) = find_files([str(written)])
        with reader(file) as read:
            pages = list(pages_of(read, pq.read_metadata(written).row_group(0).column(0)))
            found.append([page.values for page in pages])
    before, after = found
    assert len(before) > 1 and max(after) <= max(before) and len(after) <= len(before) + 1


def test_a_damaged_page_does_not_decide(tmp_path: Path) -> None:
    """Pages that cannot be unpacked leave the usual level, and the error is of who reads them."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["some words " * 9000] * 9}), path, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)
    with pytest.raises(gpulsh.GpulshError, match="cannot be read"):
        kept(path, np.ones(9, bool))


@pytest.mark.parametrize(("ending", "level"), [("gz", 1), ("gz", 6), ("gz", 9), *(("zst", n) for n in (1, 3, 9, 15))])
def test_json_lines_are_packed_as_well(ending: str, level: int, texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl.{ending}"
    lines = [json.dumps({"text": text}).encode() + b"\n" for text in texts]
    content = b"".join(lines)
    if ending == "gz":
        path.write_bytes(gzip.compress(content, level))
    else:
        path.write_bytes(zstandard.ZstdCompressor(level=level).compress(content))
    everything = np.ones(len(texts), bool)
    allowed = path.stat().st_size * 1.01  # the sample is a part, and members begin anew
    assert kept(path, everything).stat().st_size <= allowed
    some = everything.copy()
    some[::7] = False
    target = kept(path, some)
    assert target.stat().st_size <= path.stat().st_size
    unpack = gzip.decompress if ending == "gz" else zstandard.ZstdDecompressor().stream_reader
    found = unpack(target.read_bytes())
    assert (found if isinstance(found, bytes) else found.read()) == b"".join(
        line for line, has in zip(lines, some, strict=True) if has
    )


def test_what_is_asked_for(texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": texts}), tmp_path / "in" / "a.parquet", compression="snappy")
    (tmp_path / "in" / "b.jsonl.gz").write_bytes(
        gzip.compress(b"".join(json.dumps({"text": " ".join(text.split()[::-1])}).encode() + b"\n" for text in texts))
    )
    sizes = []
    for level in (1, 9):
        out = tmp_path / f"out{level}"
        result = gpulsh.deduplicate_files(tmp_path / "in", out, compression=f"gzip:{level}", backend="cpu")
        assert result.report["parameters"]["compression"] == f"gzip:{level}"
        chunk = pq.read_metadata(out / "data" / "a.parquet").row_group(0).column(0)
        assert chunk.compression == "GZIP"
        sizes.append((chunk.total_compressed_size, (out / "data" / "b.jsonl.gz").stat().st_size))
    assert sizes[0][0] > sizes[1][0] and sizes[0][1] > sizes[1][1]
    ran = CliRunner().invoke(
        dedup, [str(tmp_path / "in"), "-o", str(tmp_path / "o"), "--compression", "none", "--backend", "cpu"]
    )
    assert ran.exit_code == 0
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
    with pytest.raises(ParameterError, match=f"'{compression}' and no input can be written so"):
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
