"""Parquet: footers and page headers changed as what they are, pages with their checksum made right, dictionaries that
stand for gigabytes."""

from __future__ import annotations

import base64
import io
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz import ipc
from tests.fuzz.case import Case, options
from tests.fuzz.damage import damaged
from tests.fuzz.tables import NAMES, table
from tests.fuzz.thrift import BINARY, I32, I64, STRUCT, change, field, read_struct, set_field, write_struct

CODECS = ["NONE", "NONE", "NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]
END = b"PAR1"
ROW_GROUPS, COLUMNS, META, METADATA = 4, 1, 3, 5  # fields of the footer and of what is in it
TOTAL_SIZE, DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE = 7, 9, 10, 11
PACKED_SIZE, CHECKSUM = 3, 4  # fields of a page's header


def make(case: Case, folder: Path) -> None:
    """`in/a.parquet`, perhaps beside a whole file."""
    source = case.source()
    content = written(source, table(source, parquet=True))
    case.large = source.random() < 0.04
    if case.large:
        content = _swollen(source)
        case.damage.append("large values in a dictionary")
    for _ in range(source.choice([0, 1, 1, 1, 2, 3])):
        how = source.choice([_footer, _footer, _page, _page, _schema, _anywhere])
        try:
            content, note = how(source, content)
        except (ValueError, IndexError, TypeError, RecursionError):  # what is there is no Parquet file any more
            content, note = _anywhere(source, content)
        case.damage.append(note)
    (folder / "in/a.parquet").write_bytes(content)
    given = ["in/a.parquet"]
    if source.random() < 0.3:
        (folder / "in/b.parquet").write_bytes(written(source, table(source, parquet=True)))
        given.append("in/b.parquet")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, [*NAMES, "text"], NAMES, case.large)]


def written(source: Random, rows: Any) -> bytes:
    """A Parquet file of the table, written in any of the ways there are."""
    out = io.BytesIO()
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
        "use_byte_stream_split": False,
    }
    try:
        pq.write_table(rows, out, **settings)
    except (pa.ArrowException, ValueError, KeyError, OverflowError):  # a type that Parquet does not have
        out = io.BytesIO()
        pq.write_table(rows.select([name for name in ["text"] if name in rows.column_names]), out)
    return out.getvalue()


def _swollen(source: Random) -> bytes:
    """Few kilobytes with a large value in many rows, in one of the columns."""
    size, rows = source.choice([(10 << 20, 2000), (100 << 20, 3), (1 << 20, 3000), (40 << 20, 30)])
    value = "many words of text " * (size // 19)
    name = source.choice(["text", "extra", "extra"])
    many = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    columns = {"text": [f"document {row}" for row in range(rows)], "score": list(range(rows))} | {name: many}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="ZSTD", write_batch_size=64)
    return out.getvalue()


def _anywhere(source: Random, content: bytes) -> tuple[bytes, str]:
    content, how = damaged(source, content)
    return content, f"anywhere: {how}"


def footer(content: bytes) -> tuple[list[list[Any]], int]:
    """The footer, and where it begins."""
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    if start < 4 or content[-4:] != END:
        raise ValueError("no footer")
    return read_struct(content, start)[0], start


def with_footer(body: bytes, fields: list[list[Any]]) -> bytes:
    packed = write_struct(fields)
    return body + packed + len(packed).to_bytes(4, "little") + END


def _footer(source: Random, content: bytes) -> tuple[bytes, str]:
    fields, start = footer(content)
    notes = [change(source, fields) for _ in range(source.choice([1, 1, 2]))]
    return with_footer(content[:start], fields), "footer: " + ", ".join(notes)


def _schema(source: Random, content: bytes) -> tuple[bytes, str]:
    """The Arrow schema that is kept beside Parquet's own."""
    fields, start = footer(content)
    for entry in (field(fields, METADATA) or [STRUCT, []])[1]:
        if field(entry, 1) == b"ARROW:schema":
            raw = bytearray(base64.b64decode(field(entry, 2)))
            changed, how = ipc.change_message(source, bytes(raw), 8)
            set_field(entry, 2, BINARY, base64.b64encode(changed))
            return with_footer(content[:start], fields), f"Arrow schema: {how}"
    return _footer(source, content)


def chunks(fields: list[list[Any]]) -> list[list[list[Any]]]:
    """What the footer says of each column chunk."""
    groups = (field(fields, ROW_GROUPS) or [STRUCT, []])[1]
    return [meta for group in groups for chunk in field(group, COLUMNS)[1] if (meta := field(chunk, META))]


def _page(source: Random, content: bytes) -> tuple[bytes, str]:
    """A page's header, or what is in it, changed, and all that follows moved; the page's checksum is made right."""
    fields, start = footer(content)
    chunk = source.choice(chunks(fields))
    at = min(field(chunk, number) for number in (DATA_PAGE, DICTIONARY_PAGE) if field(chunk, number) is not None)
    stop = at + field(chunk, TOTAL_SIZE)
    pages = []
    while at < stop:
        header, body = read_struct(content, at)
        end = body + field(header, PACKED_SIZE)
        pages.append((at, header, body, end))
        at = end
    at, header, body, end = source.choice(pages)
    page = content[body:end]
    if source.random() < 0.5:
        note = f"page header: {change(source, header)}"
    else:
        page, how = damaged(source, page)
        note = f"page: {how}"
        if source.random() < 0.7:
            set_field(header, PACKED_SIZE, I32, len(page))
    if field(header, CHECKSUM) is not None:
        checksum = zlib.crc32(page)
        set_field(header, CHECKSUM, I32, checksum - (1 << 32) if checksum >> 31 else checksum)
    new = write_struct(header) + page
    moved = len(new) - (end - at)
    for each in chunks(fields):
        for number in (DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE):
            place = field(each, number)
            if place is not None and place > at:
                set_field(each, number, I64, place + moved)
    set_field(chunk, TOTAL_SIZE, I64, field(chunk, TOTAL_SIZE) + moved)
    return with_footer(content[:at] + new + content[end:start], fields), note
