"""The rows of a file as its format says, read whole and simply, by code that is not gpulsh's.

`read` gives None where this reader does not know what is right: then only what does not depend on the rows is judged.
A file that is broken where a reader cannot pass over it is a `Broken`.
"""

from __future__ import annotations

import bz2
import csv
import json
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST = 48 << 20  # bytes of content that are read at all


class Broken(Exception):
    """No reader should take this for a whole file."""


class Unknown(Exception):
    """This reader does not know."""


@dataclass
class Rows:
    """`texts`: bytes, or None where null. `whole`: what each row is, to be compared with another file's rows."""

    texts: list[bytes | None]
    whole: Any

    def __len__(self) -> int:
        return len(self.texts)


def read(path: Path) -> Rows:
    """All of it. Raises Broken or Unknown."""
    reader = next((READERS[ending] for ending in READERS if path.name.lower().endswith(ending)), None)
    if reader is None or path.stat().st_size > MOST:
        raise Unknown
    return reader(path)


def _lines(path: Path) -> Rows:
    content = _content(path)
    texts: list[bytes | None] = []
    lines: list[bytes] = []
    for number, line in enumerate(content.split(b"\n")):
        record = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        if not record.strip():
            continue
        try:
            value = json.loads(record.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise Unknown from None  # a bad line; which ones are depends on the parser
        text = value.get("text") if isinstance(value, dict) else 0
        if text is not None and not isinstance(text, str) and text == text:
            raise Unknown
        texts.append(None if text is None or text != text else text.encode("utf-8", "surrogatepass"))
        lines.append(line)
    return Rows(texts, lines)


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".gz":
        return _inflated(raw)
    if path.suffix in (".bz2", ".xz"):
        return _unpacked(raw, bz2.BZ2Decompressor if path.suffix == ".bz2" else lzma.LZMADecompressor)
    if path.suffix == ".zst":
        import zstandard

        try:
            reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True)
            content = reader.read(MOST + 1)
        except zstandard.ZstdError:
            raise Unknown from None  # what is behind a frame, and how large a window may be, is for each to say
        if len(content) > MOST:
            raise Unknown
        return content
    return raw


def _unpacked(raw: bytes, opened: Callable[[], Any]) -> bytes:
    parts: list[bytes] = []
    while raw := raw.lstrip(b"\0"):
        member = opened()
        try:
            parts.append(member.decompress(raw, MOST))
        except (OSError, lzma.LZMAError) as error:
            raise Broken(f"packed: {error}") from None
        if not member.eof:
            raise Broken("packed: ends too early")
        raw = member.unused_data
    return b"".join(parts)


def _inflated(raw: bytes) -> bytes:
    parts: list[bytes] = []
    room = MOST
    while raw := raw.lstrip(b"\0"):
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(raw, room))
        except zlib.error as error:
            raise Broken(f"gzip: {error}") from None
        room -= len(parts[-1])
        if room <= 0:
            raise Unknown
        if not member.eof:
            raise Broken("gzip: ends too early")
        raw = member.unused_data
    return b"".join(parts)


def _json(path: Path) -> Rows:
    content = path.read_bytes()
    if not content.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n").startswith(b"["):
        return _lines(path)
    try:
        found = json.loads(content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Unknown from None  # of what is bad, which elements are depends on the parser
    if not all(isinstance(value, dict) and isinstance(value.get("text"), str | None) for value in found):
        raise Unknown
    texts = [None if (text := value.get("text")) is None else text.encode("utf-8", "surrogatepass") for value in found]
    return Rows(texts, [json.dumps(value) for value in found])


def _delimited(path: Path) -> Rows:
    content = _content(path).removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    comma = "\t" if ".tsv" in path.name else ","
    if "\r" in content.replace("\r\n", "") or content.count('"') % 2:
        raise Unknown  # a carriage return ends a line for some; within open quotes all is one record for others
    csv.field_size_limit(MOST)
    lines = re.findall(r"[^\n]*\n|[^\n]+$", content)
    reader = csv.reader(lines, delimiter=comma)
    texts: list[bytes | None] = []
    whole: list[str] = []
    header: list[str] = []
    at = 0
    try:
        for fields in reader:
            record, at = "".join(lines[at : reader.line_num]), reader.line_num
            if not fields:
                continue
            header = header or fields
            if len(fields) != len(header) or header.count("text") != 1:
                raise Unknown
            text = fields[header.index("text")]
            if not text and '""' in record:
                raise Unknown  # null, or not
            texts.append(text.encode("latin-1") or None)
            whole.append(record)
    except csv.Error:
        raise Unknown from None
    return Rows(texts[1:], whole[1:])


def _parquet(path: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)) > MOST:
                raise Unknown
            names = file.schema_arrow.names
            if names.count("text") != 1:
                raise Unknown
            groups = [file.read_row_group(group, ["text"]) for group in range(file.num_row_groups)]
            texts = pa.concat_tables([file.schema_arrow.empty_table().select(["text"]), *groups]).column("text")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Broken(f"Parquet: {error}") from None
    found = _texts(texts)
    try:
        whole = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return Rows(found, None)
    return Rows(found, whole if len(whole) == len(found) else None)


def _ipc(path: Path) -> Rows:
    import pyarrow as pa

    raw = path.read_bytes()
    try:
        reader = pa.ipc.open_file(raw) if raw[:6] == b"ARROW1" else pa.ipc.open_stream(raw)
        rows = reader.read_all()
        if rows.nbytes > MOST or rows.schema.names.count("text") != 1:
            raise Unknown
        _check(rows.column("text"))
    except (pa.ArrowException, OSError, ValueError, IndexError, OverflowError) as error:
        raise Broken(f"Arrow: {error}") from None
    whole: Any = rows
    try:
        for column in rows.columns:
            _check(column)
    except pa.ArrowException:
        whole = None
    return Rows(_texts(rows.column("text")), whole)


def _check(column: Any) -> None:
    """Arrow's own full check, but of what is UTF-8: gpulsh takes bytes that are none."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


def _texts(column: Any) -> list[bytes | None]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type) if pa.types.is_binary(kind.value_type) else _decoded(column)
        kind = column.type
    name = str(kind)
    if name not in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        raise Unknown
    if "view" in name:
        views = {"string_view": pa.large_binary(), "binary_view": pa.large_binary()}
        return [each for chunk in column.chunks for each in chunk.cast(views[name]).to_pylist()]
    to_bytes = {"string": pa.binary(), "large_string": pa.large_binary()}
    return [each for chunk in column.chunks for each in chunk.view(to_bytes.get(name, kind)).to_pylist()]


def _decoded(column: Any) -> Any:
    import pyarrow as pa

    return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)


def _plain(path: Path) -> Rows:
    content = path.read_bytes()
    return Rows([content], [content])


RECORD = re.compile(rb"WARC/\d\.\d\r\n((?:[^\r\n]+\r\n)*)\r\n")


def _warc(path: Path) -> Rows:
    content = _inflated(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    texts: list[bytes | None] = []
    records: list[bytes] = []
    at = 0
    while at < len(content):
        head = RECORD.match(content, at)
        if head is None:
            raise Unknown
        lines = [line.partition(b":") for line in head[1].split(b"\r\n")[:-1]]
        if any(not colon or name != name.strip() for name, colon, _ in lines):
            raise Unknown
        names = [name.lower() for name, _, _ in lines]
        headers = {name.lower(): value.strip() for name, _, value in lines}
        length = headers.get(b"content-length", b"")
        if len(names) != len(set(names)) or not re.fullmatch(rb"\d{1,9}", length):
            raise Unknown
        end = head.end() + int(length)
        if content[end : end + 4] != b"\r\n\r\n":
            raise Unknown
        kind = headers.get(b"warc-type", b"").lower()
        if kind == b"conversion" and headers.get(b"content-type", b"").startswith(b"text/plain"):
            texts.append(content[head.end() : end])
            records.append(content[at : end + 4])
        elif kind != b"request":
            raise Unknown  # a page, whose text is not to be had so simply
        at = end + 4
    return Rows(texts, records)


READERS: dict[str, Callable[[Path], Rows]] = {
    ".parquet": _parquet,
    ".arrow": _ipc,
    ".json": _json,
    ".jsonl": _lines,
    ".jsonl.gz": _lines,
    ".jsonl.zst": _lines,
    **dict.fromkeys((".csv", ".tsv", ".tsv.gz", ".csv.bz2", ".csv.xz", ".tsv.xz"), _delimited),
    ".txt": _plain,
    **dict.fromkeys((".warc", ".wet", ".warc.gz", ".wet.gz"), _warc),
}
