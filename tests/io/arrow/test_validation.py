"""Damaged Arrow arrays: an error names the file and the column, and no memory beyond a buffer is read."""

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpulsh
from gpulsh.errors import DamagedInputError
from gpulsh.run.index.jobs import build_index
from tests.support.files import write_rows
from tests.support.runs import run

ROWS = 4
LONG = [f"a page of words, long enough for a view, number {row}" for row in range(ROWS)]
ENDS = np.cumsum([0, *map(len, LONG)])


def packed(*values: int, kind: str = "i") -> bytes:
    return struct.pack(f"<{len(values)}{kind}", *values)


def view(text: str, offset: int, length: int | None = None, buffer: int = 0) -> bytes:
    return packed(length or len(text)) + text[:4].encode() + packed(buffer, offset)


def strings(last: int, kind: str = "i") -> tuple[bytes, bytes]:
    return packed(*ENDS, kind=kind), packed(*ENDS[:-1], last, kind=kind)


CODES = pa.array([0, 1, 2, 0], pa.int32())
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([3, ROWS], pa.int32()), pa.array(["p", "q"]))
UNION = pa.UnionArray.from_dense(pa.array([0] * 4, pa.int8()), pa.array(range(4), pa.int32()), [pa.array(LONG)])
# A valid array, bytes of its buffers, and others in their place.
FAULTS: dict[str, tuple[Any, bytes, bytes]] = {
    "string-far": (pa.array(LONG), *strings(60000)),
    "string-negative": (pa.array(LONG), *strings(-1)),
    "large_string-far": (pa.array(LONG, pa.large_string()), *strings(1 << 40, "q")),
    "dictionary-code": (pa.DictionaryArray.from_arrays(CODES, LONG[:3]), packed(0, 1, 2, 0), packed(0, 1, 3, 0)),
    "dictionary-words": (pa.DictionaryArray.from_arrays(CODES, LONG[:3]), packed(*ENDS[:4]), packed(*ENDS[:3], 9999)),
    "view-far": (pa.array(LONG, pa.string_view()), view(LONG[1], ENDS[1]), view(LONG[1], 1 << 20)),
}
ELSEWHERE: dict[str, tuple[Any, bytes, bytes]] = {
    "list": (pa.array([[7], [8, 9], [], [1]]), packed(0, 1, 3, 3, 4), packed(0, 1, 3, 3, 1 << 20)),
    "struct": (pa.array([{"a": {"b": text}} for text in LONG]), *strings(60000)),
    "union-offset": (UNION, packed(0, 1, 2, 3), packed(0, 1, 2, 1 << 20)),
    "run_end": (RUNS, packed(3, ROWS), packed(3, 2)),
    "dictionary_of_lists": (
        pa.DictionaryArray.from_arrays(CODES, pa.array([[7], [8, 9], []])),
        *(packed(0, 1, 3, 3), packed(0, 1, 3, 1 << 20)),
    ),
}
if hasattr(pa, "opaque"):  # of later releases
    opaque = pa.opaque(pa.string(), "a", "b")
    FAULTS["extension"] = (pa.ExtensionArray.from_storage(opaque, pa.array(LONG)), *strings(999))


def write(path: Path, column: str, fault: tuple[Any, bytes, bytes]) -> str:
    array, true, false = fault
    columns = {"text": pa.array([f"{text} alike" for text in LONG[:1] * ROWS]), "id": pa.array(range(ROWS))}
    table = pa.table({**columns, column: array})
    write_rows(path, table)
    data = path.read_bytes()
    assert data.count(true) == 1
    path.write_bytes(data.replace(true, false))
    return str(path)


COLUMNS = [
    *((fault, ("text", "id", "other")[at % 3], (".arrow", ".arrows")[at % 2]) for at, fault in enumerate(FAULTS)),
    *((fault, column, ".arrow") for fault in ELSEWHERE for column in ("id", "other")),
]


@pytest.mark.parametrize(("fault", "column", "ending"), COLUMNS)
def test_a_damaged_column_is_named(tmp_path: Path, fault: str, column: str, ending: str) -> None:
    path = write(tmp_path / f"a{ending}", column, {**FAULTS, **ELSEWHERE}[fault])
    with pytest.raises(DamagedInputError, match=rf"^\S+/a{ending}: column '{column}' is damaged: [^\n]+$"):
        run(path, tmp_path / "out", id_column="id")
    assert not (tmp_path / "out").exists() or column == "other"
    if column != "other":
        with pytest.raises(DamagedInputError, match=f"column '{column}'"):
            build_index(tmp_path / "known", [path], id_column="id", backend="reference")


def test_a_type_that_pyarrow_cannot_read_is_refused(tmp_path: Path) -> None:
    """pyarrow writes no intervals of months: the test changes the unit of others in the schema."""
    path = tmp_path / "a.arrow"
    write_rows(path, pa.table({"text": LONG, "other": pa.array([None] * ROWS, pa.month_day_nano_interval())}))
    content = path.read_bytes()
    for place in [place for place, byte in enumerate(content) if byte == 2]:
        changed = content[:place] + b"\0" + content[place + 1 :]
        with suppress(pa.ArrowException, OSError, KeyError):
            if "month_interval" in str(pa.ipc.open_file(changed).schema.field("other").type):
                content = changed
    path.write_bytes(content)
    with pytest.raises(DamagedInputError, match=r"column 'other' is of type month_interval, which pyarrow"):
        run(path, tmp_path / "out")


FEW = pa.Array.from_buffers(pa.string(), 4, pa.array([LONG[0], None, None, LONG[3]]).buffers(), null_count=1)


@pytest.mark.parametrize("column", [FEW, pa.StructArray.from_arrays([FEW], ["a"])], ids=["string", "struct"])
def test_a_wrong_count_of_nulls_is_damage(tmp_path: Path, column: pa.Array) -> None:
    path = write_rows(tmp_path / "a.arrow", pa.table({"text": LONG, "other": column}))
    with pytest.raises(DamagedInputError, match="column 'other' is damaged"):
        run(path, tmp_path / "out", backend="cpu")
    assert not (tmp_path / "out").exists()


def test_ids_must_be_utf8_and_other_columns_need_not(tmp_path: Path) -> None:
    raw = pa.array([b"\xff", b"\xff a b", b"c\xc3", b"\xff a b"], pa.binary())
    for kind in (pa.string(), pa.string_view(), pa.list_(pa.string())):
        odd = pa.array([b"\xff"] * ROWS, pa.binary())
        odd = odd.cast(pa.binary_view()).view(kind) if kind == pa.string_view() else odd.view(pa.string())
        if kind == pa.list_(pa.string()):
            odd = pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), odd)
        table = pa.table({"text": raw.view(pa.string()), "id": odd, "n": range(ROWS)})
        for name in ("a.arrow", "a.parquet"):
            path = write_rows(tmp_path / name, table)
            assert run(path, tmp_path / "out", overwrite=True).funnel["dropped"] == 1
            with pytest.raises(DamagedInputError, match=rf"{name}: column 'id' is damaged: .*UTF-?8"):
                run(path, tmp_path / "failed", id_column="id")


# Ways to give an Arrow array: as an object of pyarrow or pandas, or of another library, by Arrow's interface.
KNOWING_SIZES: list[Callable[[Any], Any]] = [
    lambda array: pa.chunked_array([array]),
    lambda array: pd.Series(pd.arrays.ArrowExtensionArray(array)),
    lambda array: array,
]
BLIND: list[Callable[[Any], Any]] = [
    lambda array: SimpleNamespace(__arrow_c_array__=array.__arrow_c_array__),
    lambda array: SimpleNamespace(__arrow_c_stream__=pa.chunked_array([array]).__arrow_c_stream__),
]


@pytest.mark.parametrize(
    ("fault", "give"),
    [
        *((fault, KNOWING_SIZES[place % 3]) for place, fault in enumerate(FAULTS)),
        *zip(["string-negative", "dictionary-code"], BLIND, strict=True),  # which show without them
    ],
)
def test_damaged_arrays_in_memory_are_refused(tmp_path: Path, fault: str, give: Callable[[Any], Any]) -> None:
    given = give(pa.ipc.open_file(write(tmp_path / "a.arrow", "text", FAULTS[fault])).get_batch(0).column("text"))
    message = r"^texts, an? \w+, is damaged: [^\n]+ passes its validate\(full=True\)$"
    with pytest.raises(DamagedInputError, match=message):
        gpulsh.deduplicate(given, backend="reference")
    with pytest.raises(DamagedInputError, match="is damaged"):
        gpulsh.shingle(given, backend="cpu")


def test_damaged_keys_and_tables_are_refused(tmp_path: Path) -> None:
    batch = pa.ipc.open_file(write(tmp_path / "a.arrow", "id", FAULTS["string-far"])).get_batch(0)
    odd = pa.array([b"a\xff", b"b", b"c", b"d"], pa.binary()).view(pa.string())
    texts = list("abcd")
    for keys in (batch.column("id"), odd):
        with pytest.raises(DamagedInputError, match="keys is damaged"):
            gpulsh.Index(backend="reference").add(keys, texts)
    result = gpulsh.deduplicate(texts, backend="reference")
    column = batch.column("id")
    for table in (column, pa.chunked_array([column]), pa.Table.from_batches([batch]), batch):
        with pytest.raises(DamagedInputError, match="table is damaged"):
            result.filter(table)
    assert result.filter(odd) == odd


def test_damaged_dictionary_codes_of_parquet_are_refused(tmp_path: Path) -> None:
    # Codes 0, 1, 2 of two bits each, in runs as Parquet has them: 24 is eight codes.
    path = tmp_path / "a.parquet"
    for column in ("text", "id", "other"):
        words = pa.array([f"{text} word" for text in ["a b c d", "e f g h", "i j k l"] * 8])
        table = pa.table({"text": words, "id": range(24), column: words.dictionary_encode()})
        pq.write_table(table, path, compression="none", use_dictionary=[column], write_statistics=False)
        valid = path.read_bytes()
        place = valid.index(bytes([2, 7, 0x24, 0x49]))
        path.write_bytes(valid[: place + 2] + b"\xff" + valid[place + 3 :])
        with pytest.raises(DamagedInputError, match=f"column '{column}' is damaged: .*indices"):
            run(str(path), tmp_path / f"out {column}", id_column="id")
