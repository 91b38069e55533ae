"""What a Parquet file's columns take is known before they are decoded, and refused by name where it is too much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import process_time, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import DamagedInputError, LargeDocumentError
from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts, PartitionFacts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import unseen
from gpulsh.io.formats.endings import format_of
from gpulsh.io.formats.parquet import costs, spilled_rows
from gpulsh.io.formats.parquet import format as parquet
from gpulsh.io.formats.parquet.pages import largest_pages, reader
from gpulsh.io.limits import Limit

LIMIT = Limit(16 << 20)


def write_kept(path: Path, keep: np.ndarray, target: Path, limit: Limit | None) -> pa.Table:
    (file,) = find_files([str(path)])
    format_of(file).write_kept(file, keep, str(target), limit=limit)
    with pq.ParquetFile(target) as written:  # the other way of reading one knows no two columns of one name
        return written.read()


def documents(path: Path, limit: Limit | None) -> int:
    texts = FileTexts(find_files([str(path)]), Columns(text="text"), limit=limit)
    return sum(len(batch) for batch in texts.batches(1 << 20))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_largest_pages(codec: str, version: str, tmp_path: Path) -> None:
    rows = 3000
    table = pa.table(
        {
            "text": [f"{row} " + "words " * (row % 50) for row in range(rows)],
            "list": [[row] * (row % 5) for row in range(rows)],
            "some": [None if row % 3 else "y" * 5000 + str(row) for row in range(rows)],
            "page": ["x" * 100_000 + str(row % 2) for row in range(rows)],
            "none": pa.nulls(rows, pa.string()),
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(
        table,
        path,
        compression=codec,
        data_page_version=version,
        use_dictionary=["page"],
        row_group_size=1000,
        data_page_size=20_000,
        write_page_checksum=True,
    )
    footer = pq.read_metadata(path)
    (file,) = find_files([str(path)])
    with reader(file) as read:
        for group in range(3):
            found = [largest_pages(read, footer.row_group(group).column(place), 0) for place in range(5)]
            text, numbers, some, page, none = found
            assert 20_000 <= text.largest < 1 << 19 and text.dictionary == 0
            assert 0 < numbers.largest < 1 << 16
            assert some.largest > 1_000_000 and 200_000 < page.dictionary < 200_100
            assert none.largest < 1000
            for place, pages in enumerate(found):
                size = footer.row_group(group).column(place).total_uncompressed_size
                assert pages.largest + pages.dictionary <= size + 100


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_large_page_is_refused_before_it_is_decoded(dictionary: bool, tmp_path: Path) -> None:
    pages = pa.array(["x" * (30 << 20), "y"])
    for name, table in (
        ("text", pa.table({"text": pages})),
        ("other", pa.table({"text": ["one", "two"], "other": pages})),
        ("nested", pa.table({"text": ["one", "two"], "nested": pa.StructArray.from_arrays([pages], ["part"])})),
    ):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path, compression="zstd", use_dictionary=dictionary)
        assert path.stat().st_size < 100_000
        before = pa.total_allocated_bytes()
        told = rf"row group 0: a page of column '{name}.*': about \d+ bytes .* of 16MiB allows 24MiB: give memory="
        with pytest.raises(LargeDocumentError, match=told):
            write_kept(path, np.ones(2, bool), tmp_path / "out", LIMIT)
        if name == "text":
            with pytest.raises(LargeDocumentError, match=told):
                documents(path, LIMIT)
        else:
            assert documents(path, LIMIT) == 2  # other columns are not decoded
        assert pa.total_allocated_bytes() - before < 1 << 20
        assert write_kept(path, np.ones(2, bool), tmp_path / "out", None).equals(table)


def test_pages_of_many_columns_are_refused_together(tmp_path: Path) -> None:
    table = pa.table({"text": ["a"], **{f"c{number}": ["x" * (1 << 20)] for number in range(40)}})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False)
    with pytest.raises(LargeDocumentError, match=r"row group 0: a page of each of its columns: about 8\d{7} bytes"):
        write_kept(tmp_path / "a.parquet", np.ones(1, bool), tmp_path / "out", LIMIT)


def test_a_value_of_a_dictionary_in_every_row_of_another_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 600
    table = pa.table({"text": [str(row) for row in range(rows)], "other": ["x" * 100_000] * rows})
    pq.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setattr(costs, "CHUNK_BYTES", 2 << 20)
    monkeypatch.setattr(costs, "WORST_BYTES", 1 << 20)
    (file,) = find_files([str(tmp_path / "a.parquet")])
    with parquet._opened(file) as source:
        sizes = [batch.nbytes for batch in parquet._kept_batches(file, source, 0, 0, np.ones(rows, bool), unseen, None)]
    assert max(sizes) <= 2 << 20 and len(sizes) < rows
    assert write_kept(tmp_path / "a.parquet", np.ones(rows, bool), tmp_path / "out", None).equals(table)
    monkeypatch.setattr(parquet, "MOST_DECODED", 4)
    with pytest.raises(LargeDocumentError, match=r"row group 0: only \d+ of its rows: about \d+ bytes to read"):
        write_kept(tmp_path / "a.parquet", np.ones(rows, bool), tmp_path / "out", LIMIT)


def test_large_pages_are_written_in_few_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [chr(97 + row) * (300_000 + row) for row in range(9)]
    table = pa.table({"text": texts, "small": [str(row % 2) for row in range(9)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4, use_dictionary=["small"])
    monkeypatch.setattr(costs, "LARGE_PAGE", 1 << 18)
    keep = np.arange(9) != 3
    found = write_kept(tmp_path / "a.parquet", keep, tmp_path / "out", None)
    assert found.equals(table.filter(pa.array(keep)))
    group = pq.read_metadata(tmp_path / "out").row_group(0)
    assert [group.column(place).has_dictionary_page for place in (0, 1)] == [False, True]
    assert [group.column(place).is_stats_set for place in (0, 1)] == [False, True]
    assert [pq.read_metadata(tmp_path / "out").row_group(number).num_rows for number in range(3)] == [3, 4, 1]


def test_headers_that_are_none_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 1_000_000] * 3}), path, use_dictionary=False, compression="zstd")
    place = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    for wrong in (b"\x00" * 20, b"\xff" * 20, b"\x15\x00\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"):
        content[place : place + len(wrong)] = wrong
        path.write_bytes(content)
        with pytest.raises(DamagedInputError, match=r"a\.parquet: cannot be read: "):
            documents(path, LIMIT)


def test_a_number_without_end_is_told_soon(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x" * 500_000] * 3}), path, use_dictionary=False, compression="none")
    place = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[place : place + 1_000_000] = b"\x15" + b"\xff" * 999_999
    path.write_bytes(content)
    began = process_time()
    with pytest.raises(DamagedInputError, match=r"a\.parquet: cannot be read: "):
        documents(path, LIMIT)
    assert process_time() - began < 5  # to put it together would take the square of its bytes


def test_a_row_of_many_values_is_refused(tmp_path: Path) -> None:
    lists = pa.LargeListArray.from_arrays(np.array([0, 2_000_000]), pa.array(np.full(2_000_000, 7)))
    pq.write_table(pa.table({"text": ["one"], "list": lists}), tmp_path / "a.parquet", data_page_size=1 << 28)
    with pytest.raises(LargeDocumentError, match=r"row group 0: a row of column 'list.*': about 112000000 bytes"):
        write_kept(tmp_path / "a.parquet", np.ones(1, bool), tmp_path / "out", LIMIT)


@pytest.mark.parametrize("group", [200_000, 1000])
def test_rows_of_nothing(group: int, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.nulls(200_000, pa.string())}), tmp_path / "a.parquet", row_group_size=group)
    (tmp_path / "a.jsonl").write_bytes(b'{"text":null}\n' * 200_000)
    for name in ("a.parquet", "a.jsonl"):
        texts = FileTexts(find_files([str(tmp_path / name)]), Columns(text="text"), limit=Limit(4 << 20))
        partitions = texts.partitions(1 << 20)
        if name == "a.parquet" and group == 1000:
            assert len(partitions) > 2  # rows without text are cut, too
            continue
        with pytest.raises(LargeDocumentError, match=r"\d+ documents that cannot be read apart: about \d+ bytes"):
            for _ in texts.read(partitions[0].pieces, 1 << 20, PartitionFacts()):
                pass


@contextmanager
def most_held() -> Iterator[list[int]]:
    """Bytes that Arrow has at once at most while inside, beyond what it had before."""
    found, done = [0], Event()
    before = pa.total_allocated_bytes()

    def watch() -> None:
        while not done.is_set():
            found[0] = max(found[0], pa.total_allocated_bytes() - before)
            sleep(0.0002)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


SIZE, COUNT = 12 << 20, 3
VALUES = {
    "plain": pa.array([chr(97 + row) * SIZE for row in range(COUNT)]),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0] * COUNT, pa.int32()), pa.array(["x" * SIZE])),
    "list": pa.array([["x" * SIZE]] * COUNT),
    "lists": pa.array([["x" * (SIZE // 4)] * 4] * COUNT),
    "struct": pa.array([{"a": "x" * SIZE}] * COUNT),
    "random": pa.array([np.random.default_rng(row).bytes(SIZE) for row in range(COUNT)]),
}


@pytest.mark.parametrize("groups", [1, COUNT])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("kind", VALUES)
def test_what_large_values_take_is_foretold(
    kind: str, dictionary: bool, groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"text": [str(row) for row in range(COUNT)], "other": VALUES[kind]})
    path, keep = tmp_path / "a.parquet", np.ones(COUNT, bool)
    pq.write_table(
        table,
        path,
        compression="zstd" if groups == 1 else "none",  # of what is made smaller a page of any size is asked for
        use_dictionary=dictionary,
        write_batch_size=1,
        row_group_size=COUNT // groups,
    )
    with pytest.raises(LargeDocumentError, match=r"a page of column 'other.*': about (\d+) bytes") as refused:
        write_kept(path, keep, tmp_path / "out", LIMIT)
    need = int(re.search(r"about (\d+) bytes", str(refused.value))[1])
    (file,) = find_files([str(path)])
    monkeypatch.setattr(costs, "LARGE_PAGE", 4 << 20)
    monkeypatch.setattr(spilled_rows, "HELD_BYTES", 1 << 20)
    with most_held() as most:
        format_of(file).write_kept(file, keep, str(tmp_path / "out"), limit=Limit((need + (1 << 20)) * 32 // 21))
    assert need / 3 < most[0] <= need + (4 << 20)
    assert pq.read_table(tmp_path / "out").equals(table)
    with pytest.raises(LargeDocumentError):
        write_kept(path, keep, tmp_path / "out", Limit(need * 32 // 21 - 64))


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_columns_of_one_name_and_with_points_in_it(kind: pa.DataType, tmp_path: Path) -> None:
    values = pa.array(["x" * 1000] * 3, pa.string()).cast(kind)
    table = pa.Table.from_arrays([pa.array(["a", "b", "c"]), values, values, values], ["text", "id", "id", "a.b"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert write_kept(tmp_path / "a.parquet", np.ones(3, bool), tmp_path / "out", LIMIT).equals(table)


def test_dictionaries_inside_of_others_are_foretold(tmp_path: Path) -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 3, pa.int32()), pa.array(["x" * (4 << 20)]))
    path = tmp_path / "a.parquet"
    for name, values in (("a.b", words), ("other", pa.StructArray.from_arrays([words], ["part"]))):
        pq.write_table(pa.table({"text": ["a", "b", "c"], name: values}), path, compression="zstd")
        with pytest.raises(LargeDocumentError, match=rf"a page of column '{name}.*': about 25\d{{6}} bytes to read"):
            write_kept(path, np.ones(3, bool), tmp_path / "out", Limit(8 << 20))
