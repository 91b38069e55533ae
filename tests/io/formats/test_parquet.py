"""Parquet: row groups of any size are read and written in parts; false pages, empty rows, odd columns."""

import gc
from base64 import b64decode, b64encode
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from gpulsh.errors import DamagedInputError
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import LARGE_TEXT, KnownTexts, Part, Rules
from gpulsh.io.formats import parquet
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit
from tests.support.files import documents, write_kept
from tests.support.runs import run

ROWS = 5000


def table(kind: str) -> pa.Table:
    texts = [None if row % 13 == 0 else f"{row} " + "some words " * (row % 40) for row in range(ROWS)]
    lists = [[row, None] if row % 3 else None for row in range(ROWS)]
    words = pa.array([f"word {row % 5}" for row in range(ROWS)]).dictionary_encode()
    return pa.table({"text": pa.array(texts, kind), "number": np.arange(ROWS), "list": lists, "word": words})


def group_rows(path: Path) -> list[int]:
    found = pq.read_metadata(path)
    return [found.row_group(number).num_rows for number in range(found.num_row_groups)]


@pytest.mark.parametrize(
    ("kind", "group", "run"),
    [
        *((kind, group, 1) for kind in ("string", "large_string", "binary") for group in (ROWS, 1024, 700)),
        ("string", 100, 2000),
    ],
)
def test_kept_rows_give_the_same_file_in_any_batches(
    kind: str, group: int, run: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches may be small, and texts held or decoded again; small row groups become one."""
    given, path = table(kind), tmp_path / "a.parquet"
    pq.write_table(given, path, row_group_size=group)
    keep = np.random.default_rng(3).random(ROWS) < 0.7
    keep[700:1400] = keep[2000:2100] = False
    monkeypatch.setattr(parquet, "RUN_ROWS", run)
    held = write_kept(path, keep, "held").read_bytes()
    monkeypatch.setattr(parquet, "DECODED_BYTES", 7000)
    assert write_kept(path, keep, "again").read_bytes() == held
    assert pq.read_table(tmp_path / "again").equals(given.filter(pa.array(keep)))
    rows = [int(keep[start : start + max(group, run)].sum()) for start in range(0, ROWS, max(group, run))]
    assert group_rows(tmp_path / "again") == [n for n in rows if n]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "again", "held"]

    def texts(part: Part) -> list[pa.Array] | None:
        if part.number == 2:
            return None
        rows = given.column("text").slice(part.start, part.rows)
        return [rows.slice(start, 450).combine_chunks() for start in range(0, part.rows, 450)]

    assert write_kept(path, keep, "known", known=KnownTexts(Columns("text"), texts)).read_bytes() == held
    (file,) = find_files([str(path)])
    chosen = np.flatnonzero(keep)[::7]
    assert format_of(file).values(file, "number", chosen).to_pylist() == chosen.tolist()


def test_large_dictionary_values_are_read_in_small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 40 kB that hold 80 MB: by the footer all rows would fit into one batch.
    page = "x" * 40_000
    pq.write_table(pa.table({"text": [page, "small"] * 1000}), tmp_path / "a.parquet")
    monkeypatch.setattr(parquet, "DECODED_BYTES", 1 << 19)
    (file,) = find_files([str(tmp_path / "a.parquet")])
    source = format_of(file)
    (part,) = source.parts(file, Columns("text")) or ()
    for block in source.read(file, Columns("text"), rules=Rules(part=part)):
        assert block.texts.lengths().sum() <= 1 << 20
    assert documents(tmp_path / "a.parquet") == [page.encode(), b"small"] * 1000


def test_invalid_page_headers_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 1_000_000] * 3}), path, use_dictionary=False, compression="zstd")
    place = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    for wrong in (b"\x00" * 20, b"\xff" * 20, b"\x15\x00\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"):
        content[place : place + len(wrong)] = wrong
        path.write_bytes(content)
        with pytest.raises(DamagedInputError, match=r"a\.parquet: cannot be read: "):
            documents(path, Limit(16 << 20))


def test_a_false_page_checksum_is_damage(tmp_path: Path) -> None:
    """The changed text was read as it was."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["some words"]}), path, compression="none", write_page_checksum=True)
    assert documents(path) == [b"some words"]
    path.write_bytes(path.read_bytes().replace(b"words", b"sword", 1))
    with pytest.raises(DamagedInputError, match=r"a\.parquet: cannot be read: .*checksum"):
        documents(path)


def test_rows_of_nulls_are_cut_into_partitions(tmp_path: Path) -> None:
    given = pa.table({"text": pa.nulls(200_000, pa.string())})
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=1000)
    texts = FileTexts(find_files([str(tmp_path / "a.parquet")]), Columns(text="text"), limit=Limit(4 << 20))
    assert len(texts.partitions(1 << 20)) > 2


def test_a_part_has_the_bytes_of_a_field_in_it(tmp_path: Path) -> None:
    rows = [{"meta": {"body": "some words " * 50, "rest": f"{row} other words " * 500}} for row in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", use_dictionary=False)
    (file,) = find_files([str(tmp_path / "a.parquet")])
    (part,) = format_of(file).parts(file, Columns("meta.body")) or ()
    assert 11_000 <= part.size < 20_000


def test_a_file_without_row_groups_is_written(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["one two"]}), tmp_path / "a.parquet")
    pq.ParquetWriter(tmp_path / "b.parquet", pa.schema([("text", pa.string())])).close()
    run([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "out", write="marked")
    first, second = (pq.ParquetFile(tmp_path / f"out/data/{name}.parquet") for name in "ab")
    assert (second.schema_arrow, second.num_row_groups) == (first.schema_arrow, 0)


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_columns_of_equal_or_dotted_names_are_written(kind: pa.DataType, tmp_path: Path) -> None:
    values = pa.array(["x" * 1000] * 3, pa.string()).cast(kind)
    given = pa.Table.from_arrays([pa.array(["a", "b", "c"]), values, values, values], ["text", "id", "id", "a.b"])
    pq.write_table(given, tmp_path / "a.parquet")
    written = write_kept(tmp_path / "a.parquet", [True] * 3, limit=Limit(16 << 20))
    assert pq.ParquetFile(written).read().equals(given)  # `read_table` knows no two columns of one name


def test_large_texts_are_written_without_statistics(tmp_path: Path) -> None:
    """Arrow copies them several times, and may end the process where these copies find no memory.

    A file beside it, which the same task writes, keeps its statistics: no result depends on the cut of the work.
    """
    large = {"a.parquet": "a" * LARGE_TEXT, "b.parquet": "a"}
    for name, text in large.items():
        pq.write_table(pa.table({"text": [text, f"b c {name}"], "id": [1, 2]}), tmp_path / name)
    run([tmp_path / name for name in large], tmp_path / "out", backend="cpu")
    for name in large:
        group = pq.ParquetFile(tmp_path / "out/data" / name).metadata.row_group(0)
        assert [group.column(place).is_stats_set for place in range(2)] == [name == "b.parquet", True]


def test_a_large_row_group_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts have whole rows and at most so many bytes; small row groups stay as they are."""
    monkeypatch.setattr(parquet, "RUN_ROWS", 1)
    monkeypatch.setattr(parquet, "GROUP_BYTES", 20_000)
    given = pa.table({"text": [f"{row:04}" * 250 for row in range(100)]})
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=60, use_dictionary=False)
    written = write_kept(tmp_path / "a.parquet", [True] * 100)
    rows = group_rows(written)
    assert pq.read_table(written).equals(given)
    assert sum(rows[:4]) == 60 and max(rows) < 20 and len(rows) == 7


@pytest.mark.parametrize("nested", [[["a"], ["b", None]], [{"x": "a"}, {"x": None}]])
def test_nested_dictionaries_in_several_row_groups_are_written(nested: list[Any], tmp_path: Path) -> None:
    """Arrow reads each row group, but not several at once: the run called the file unreadable."""
    word = pa.dictionary(pa.int8(), pa.string())
    kind = pa.list_(word) if isinstance(nested[0], list) else pa.struct([("x", word)])
    given = pa.table({"text": ["one two three", "one two three", "four"], "nested": pa.array([*nested, None], kind)})
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=1)
    run(tmp_path / "a.parquet", tmp_path / "out", write="marked")
    written = pq.read_table(tmp_path / "out/data/a.parquet")
    assert written.select(given.column_names).equals(given)
    assert written["kept"].to_pylist() == [True, False, True]


@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_may_differ_by_row_group(nested: bool, tmp_path: Path) -> None:
    """As pandas writes categories: those of all row groups may be more than 8 bits can tell apart."""
    words = pa.array([f"word {row}" for row in range(200)])
    parts = [words[start : start + 100].dictionary_encode() for start in (0, 100)]
    parts = [part.cast(pa.dictionary(pa.int8(), pa.string())) for part in parts]
    parts = [pa.StructArray.from_arrays([part], ["of"]) for part in parts] if nested else parts
    given = pa.table({"text": words, "word": pa.chunked_array(parts)})
    pq.write_table(given, tmp_path / "a.parquet", row_group_size=100)
    column = "word.of" if nested else "word"
    how: dict[str, Any] = {"key": column, "id_column": column, "source_column": column}
    run(tmp_path / "a.parquet", tmp_path / "out", shingling="word:2", add_counts=True, **how)
    written = pq.read_table(tmp_path / "out/data/a.parquet")
    assert written.select(given.column_names).equals(given)


def test_int96_times_of_any_year_are_kept(tmp_path: Path) -> None:
    """Nanoseconds made 9999-12-31 a day of 1816."""
    times = pa.array([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None], pa.timestamp("us"))
    given = pa.table({"text": ["a", "b", "c"], "time": times})
    pq.write_table(given, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert pq.read_table(write_kept(tmp_path / "a.parquet", [True] * 3)).equals(given)


class PlainKeys(pe.KmsClient):
    """Keys that are stored as they are."""

    def __init__(self, _: pe.KmsConnectionConfig) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return b64encode(key)

    def unwrap_key(self, key: bytes, _: str) -> bytes:
        return b64decode(key)


@pytest.mark.parametrize("column", ["text", "number"])
def test_encrypted_columns_are_refused(column: str, tmp_path: Path) -> None:
    """They ended the process: their entries in a plain footer cannot be read."""
    how = pe.EncryptionConfiguration("key", column_keys={"key": [column]}, plaintext_footer=True)
    keys = pe.CryptoFactory(PlainKeys).file_encryption_properties(pe.KmsConnectionConfig(), how)
    pq.write_table(pa.table({"text": ["a"], "number": [1]}), tmp_path / "a.parquet", encryption_properties=keys)
    with pytest.raises(DamagedInputError, match=r"a\.parquet: has encrypted columns; write it without encryption"):
        run(tmp_path / "a.parquet", tmp_path / "out")


def test_columns_are_named_by_the_schema(tmp_path: Path) -> None:
    """The footer names a column again in each row group. A damaged name, not UTF-8, was an unexpected error."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a b", "a b", "c"], "number": [1, 2, 3]}), path, store_schema=False)
    before, name, after = path.read_bytes().rpartition(b"number")
    path.write_bytes(before + name.replace(b"m", b"\x80") + after)
    with pytest.raises(UnicodeDecodeError):
        pq.read_metadata(path).row_group(0).column(1).path_in_schema  # noqa: B018
    run(path, tmp_path / "out")
    assert pq.read_table(tmp_path / "out/data").column("number").to_pylist() == [1, 3]


def test_footers_are_released_without_a_collection(tmp_path: Path) -> None:
    """A run over many files kept all their footers: each was in a cycle of references, and few objects are made."""
    path = tmp_path / "a.parquet"
    rows = {"text": [f"{number} a b c" for number in range(90)], "n": [{"x": 1}] * 90}
    pq.write_table(pa.table(rows), path, row_group_size=10)
    gc.collect()
    gc.disable()
    try:
        before = sum(type(found) is pq.FileMetaData for found in gc.get_objects())
        result = run(path, tmp_path / "out")
        after = sum(type(found) is pq.FileMetaData for found in gc.get_objects())
    finally:
        gc.enable()
    assert result.funnel["documents"] == 90 and after == before
