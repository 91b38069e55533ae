"""Files of a given number of parts, each of a row or a few bytes: they show the cost of a part."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = 12  # of a document


def texts(count: int, words: int = WORDS) -> list[str]:
    """Documents of words that repeat, none like another."""
    drawn = np.random.default_rng(1).integers(0, 20_000, (count, words))
    return [" ".join(f"w{word:05d}" for word in row) for row in drawn.tolist()]


def _table(count: int, words: int = WORDS) -> pa.Table:
    return pa.table({"id": np.arange(count), "text": texts(count, words)})


def row_groups(path: Path, count: int) -> None:
    """Parquet, a row group a row."""
    pq.write_table(_table(count), path, row_group_size=1)


def groups_of(rows: int) -> Callable[[Path, int], None]:
    """Parquet, so many rows per row group, of about 2 KB each."""

    def make(path: Path, count: int) -> None:
        pq.write_table(_table(count, 300), path, row_group_size=rows)

    return make


def batches(kind: str, words: str) -> Callable[[Path, int], None]:
    """Arrow IPC, a record batch a row, of plain texts, of one dictionary, or of a dictionary each."""

    def make(path: Path, count: int) -> None:
        table = _table(count)
        if words == "dictionary":
            table = table.set_column(1, "text", table["text"].combine_chunks().dictionary_encode())
        schema = table.schema
        found = table.to_batches(max_chunksize=1)
        if words == "dictionaries":
            schema = schema.set(1, pa.field("text", pa.dictionary(pa.int32(), pa.string())))
            columns = ([batch["id"], batch["text"].dictionary_encode()] for batch in found)
            found = [pa.record_batch(list(each), schema=schema) for each in columns]
        with pa.OSFile(str(path), "wb") as sink, getattr(pa.ipc, f"new_{kind}")(sink, schema) as out:
            for batch in found:
                out.write_batch(batch)

    return make


def members(codec: str) -> Callable[[Path, int], None]:
    """JSON lines, a gzip or Zstandard member a line."""

    def make(path: Path, count: int) -> None:
        import zstandard

        pack = gzip_member if codec == "gzip" else zstandard.ZstdCompressor().compress
        path.write_bytes(b"".join(pack(json.dumps({"text": text}).encode() + b"\n") for text in texts(count)))

    return make


def gzip_member(content: bytes) -> bytes:
    """A gzip member without a time in it."""
    return gzip.compress(content, mtime=0)


def lines(path: Path, count: int) -> None:
    """JSON lines."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts(count)))


def elements(path: Path, count: int) -> None:
    """A JSON array."""
    path.write_text(json.dumps([{"text": text} for text in texts(count)]))


def records(path: Path, count: int) -> None:
    """CSV."""
    path.write_text("id,text\n" + "".join(f'{row},"{text}"\n' for row, text in enumerate(texts(count))))


def web_records(path: Path, count: int) -> None:
    """WET, a gzip member a record."""
    with path.open("wb") as out:
        for number, text in enumerate(texts(count)):
            out.write(gzip_member(wet_record(number, text)))


def wet_record(number: int, text: str) -> bytes:
    """A record of WARC as in a WET file."""
    body = text.encode()
    head = (
        f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://a.example/{number}\r\n"
        f"WARC-Record-ID: <urn:x:{number}>\r\nWARC-Date: 2026-11-24T00:00:00Z\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


def columns(kind: str) -> Callable[[Path, int], None]:
    """Ten rows of so many columns, as Parquet, Arrow IPC, CSV or JSON lines."""

    def make(path: Path, count: int) -> None:
        table = pa.table({"text": texts(10), **{f"c{number}": ["x"] * 10 for number in range(count)}})
        if kind == "parquet":
            pq.write_table(table, path)
        elif kind == "arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
                out.write_table(table)
        elif kind == "csv":
            rows = [table.column_names, *(map(str, row.values()) for row in table.to_pylist())]
            path.write_text("".join(",".join(row) + "\n" for row in rows))
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))

    return make


def text_files(path: Path, count: int) -> None:
    """A folder of text files of 700 bytes, a hundred a folder."""
    for number, text in enumerate(texts(count, 100)):
        file = path / f"{number // 100:04d}" / f"{number:06d}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def line_files(path: Path, count: int) -> None:
    """A folder of JSON lines, three a file."""
    path.mkdir()
    found = [json.dumps({"text": text}) + "\n" for text in texts(3 * count, 50)]
    for number in range(count):
        (path / f"{number:06d}.jsonl").write_text("".join(found[3 * number : 3 * number + 3]))


# What is made, how its name ends, and how many parts the smallest has.
FILES: dict[str, tuple[Callable[[Path, int], None], str, int]] = {
    "row groups of Parquet": (row_groups, ".parquet", 1000),
    "batches of an Arrow file": (batches("file", "plain"), ".arrow", 2000),
    "batches of an Arrow file, one dictionary": (batches("file", "dictionary"), ".arrow", 2000),
    "batches of an Arrow stream": (batches("stream", "plain"), ".arrows", 2000),
    "batches of an Arrow stream, a dictionary each": (batches("stream", "dictionaries"), ".arrows", 2000),
    "gzip members": (members("gzip"), ".jsonl.gz", 5000),
    "Zstandard members": (members("zstd"), ".jsonl.zst", 5000),
    "WET records": (web_records, ".wet.gz", 5000),
    "JSON lines": (lines, ".jsonl", 20_000),
    "elements of a JSON array": (elements, ".json", 20_000),
    "CSV records": (records, ".csv", 20_000),
    "columns of Parquet": (columns("parquet"), ".parquet", 1000),
    "columns of an Arrow file": (columns("arrow"), ".arrow", 1000),
    "columns of CSV": (columns("csv"), ".csv", 2000),
    "fields of JSON lines": (columns("jsonl"), ".jsonl", 2000),
    "text files": (text_files, "", 1000),
    "files of JSON lines": (line_files, "", 500),
}
