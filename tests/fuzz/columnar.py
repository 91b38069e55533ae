"""Arrow IPC and Parquet: columns of every type, damaged anywhere, and dictionaries that expand to gigabytes.

pyarrow reads both containers.
"""

import datetime
import decimal
import io
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.case import Case, documents, options
from tests.fuzz.damage import damaged

NAMES = ["id", "score", "extra", "nested"]
ODD_NAMES = ["", "text.list", "a\0b", "\x1b[2J", "\u202e", "Text", "x" * 10_000]
ODD_NAMES += ["__index_level_0__", "first", "longest"]
TEXT_TYPES = ["string"] * 5 + ["large_string", "string_view", "binary", "large_binary", "binary_view", "dictionary"]
CODECS = ["NONE", "NONE", "NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]

FLOATS = [0.0, -0.0, 1.5, float("inf"), float("-inf"), 5e-324, 1e30]
STRINGS = ["", "a", "\0", "é" * 100, "x" * 5000, "\u202e", "漢"]
SIMPLE: list[tuple[Any, list[Any]]] = [  # types with values at their edges
    *((getattr(pa, f"int{bits}")(), [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]) for bits in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{bits}")(), [0, 1, 2**bits - 1]) for bits in (8, 16, 32, 64)),
    *((kind, FLOATS) for kind in (pa.float32(), pa.float64())),
    *((pa.float64(), [*FLOATS, float("nan")]), (pa.float16(), [0.0, 1.5])),
    *((kind, STRINGS) for kind in (pa.string(), pa.large_string()) * 3),
]
BOTH = [
    *SIMPLE * 2,
    *((pa.timestamp(unit, "UTC"), [0, -1, 10**18, -(10**18), 2**62]) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp("us", zone), [0, 1]) for zone in (None, "+14:00", "Europe/Berlin")),
    (pa.date32(), [datetime.date(year, 1, 1) for year in (1, 1970, 9999)]),
    *((pa.date64(), [0, 86_400_000 * 9]), (pa.time64("us"), [0, 86_399_999_999]), (pa.duration("s"), [0, -(2**40)])),
    *((pa.bool_(), [True, False]), (pa.null(), [None]), (pa.binary(3), [b"abc", b"\0\0\0"])),
    (pa.binary(), [b"", b"\xff", bytes(40)]),
    (pa.decimal128(38, 5), [decimal.Decimal(value) for value in (0, -1, 10**30)]),
    (pa.decimal256(60, 0), [decimal.Decimal(value) for value in (0, -1, 10**50)]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", ""]),
    (pa.dictionary(pa.int32(), pa.large_string()), ["a", "b" * 500, ""]),
    *((pa.list_(kind), [[], values, values[:1]]) for kind, values in SIMPLE),
    *((pa.struct([("a", kind), ("b", pa.list_(kind))]), [{"a": values[0], "b": values}]) for kind, values in SIMPLE),
    *((pa.map_(pa.string(), kind), [[], [("k", values[0])]]) for kind, values in SIMPLE),
    *((pa.list_(kind, 2), [values[:2]]) for kind, values in SIMPLE),
]
ONLY_ARROW = [
    (pa.string_view(), ["", "short", "a string that is not inlined in a view", "x" * 3000]),
    (pa.month_day_nano_interval(), [(1, 2, 3)]),
    *((pa.list_view(pa.int32()), [[], [1]]), (pa.large_list_view(pa.string()), [[]])),
]


def make_arrow(case: Case, folder: Path, stream: bool) -> None:
    """`in/a.arrow`, perhaps beside a whole file."""
    source = case.source()
    content = _ipc(source, stream)
    _finish(case, source, folder, ".arrow", content, lambda: _ipc(source, source.random() < 0.5))


def make_parquet(case: Case, folder: Path) -> None:
    source = case.source()
    case.large = source.random() < 0.04
    content = case.noted((_swollen(source), "large values in a dictionary")) if case.large else _parquet(source)
    _finish(case, source, folder, ".parquet", content, lambda: _parquet(source))


def _finish(case: Case, source: Random, folder: Path, ending: str, content: bytes, whole: Any) -> None:
    for _ in range(source.choice([0, 1, 1, 1, 2, 3])):
        content = case.noted(damaged(source, content))
    (folder / f"in/a{ending}").write_bytes(content)
    given = [f"in/a{ending}"]
    if source.random() < 0.3:
        (folder / f"in/b{ending}").write_bytes(whole())
        given.append(f"in/b{ending}")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, [*NAMES, "text"], NAMES, case.large)]


def _table(source: Random, parquet: bool) -> Any:
    """Up to 24 rows, of types that the format has."""
    texts = documents(source)
    columns = [_texts(source, texts, parquet)]
    names = ["text", *source.sample(NAMES, source.randint(0, len(NAMES)))]
    for _ in names[1:]:
        kind, values = source.choice(BOTH if parquet else [*BOTH, *ONLY_ARROW * 4])
        columns.append(pa.array(source.choices([*values, None], k=len(texts)), kind))
    if source.random() < 0.1:
        names[-1] = source.choice(ODD_NAMES)
    order = source.sample(range(len(names)), len(names))
    made = pa.table([columns[place] for place in order], names=[names[place] for place in order])
    if source.random() < 0.1:
        about = {source.choice(["pandas", "a", ""]): source.choice(["{}", "", "x" * 1000, "\0"])}
        made = made.replace_schema_metadata(about)
    return made


def _texts(source: Random, texts: list[str | None], parquet: bool) -> Any:
    kind = source.choice(TEXT_TYPES)
    if "binary" in kind:
        behind = [b"", b"", b"\xff", b"\xed\xa0\x80"]
        raw = [None if text is None else text.encode() + source.choice(behind) for text in texts]
        return pa.array(raw, pa.binary() if parquet and kind == "binary_view" else getattr(pa, kind)())
    whole = pa.array(texts, pa.string())
    return whole.dictionary_encode() if kind == "dictionary" else whole.cast(getattr(pa, kind)())


def _ipc(source: Random, stream: bool) -> bytes:
    out, rows = io.BytesIO(), _table(source, parquet=False)
    packing = source.choice([None, None, None, "lz4", "zstd"])
    settings = pa.ipc.IpcWriteOptions(compression=packing, emit_dictionary_deltas=stream and source.random() < 0.3)
    make_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make_writer(out, rows.schema, options=settings) as writer:
        writer.write_table(rows, max_chunksize=source.choice([3, 10, 100]))
    return out.getvalue()


def _parquet(source: Random) -> bytes:
    out, rows = io.BytesIO(), _table(source, parquet=True)
    settings: dict[str, Any] = {
        "compression": source.choice(CODECS),
        "version": source.choice(["1.0", "2.4", "2.6", "2.6"]),
        "data_page_version": source.choice(["1.0", "2.0"]),
        "use_dictionary": source.random() < 0.6,
        "write_page_checksum": source.random() < 0.4,
        "write_page_index": source.random() < 0.3,
        "row_group_size": source.choice([1, 5, 100]),
        "data_page_size": source.choice([16, 200, 1 << 20]),
        "store_schema": source.random() < 0.7,
    }
    try:
        pq.write_table(rows, out, **settings)
    except (pa.ArrowException, ValueError, KeyError, OverflowError):  # a type that Parquet does not have
        out = io.BytesIO()
        pq.write_table(rows.select([name for name in ["text"] if name in rows.column_names]), out)
    return out.getvalue()


def _swollen(source: Random) -> bytes:
    """A few kilobytes with a large value in many rows, in one of the columns."""
    size, rows = source.choice([(10 << 20, 2000), (100 << 20, 3), (1 << 20, 3000), (40 << 20, 30)])
    value = "many words of text " * (size // 19)
    many = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    columns = {"text": [f"document {row}" for row in range(rows)], "score": list(range(rows))}
    columns[source.choice(["text", "extra", "extra"])] = many
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="ZSTD", write_batch_size=64)
    return out.getvalue()
