"""The rows of a file as its format defines them, read whole and simply, by code that is not gpulsh's.

A file that is broken beyond what a reader may skip raises `Broken`. `Unknown` means that this reader does not know the
right rows: then the judge looks only at what does not depend on them.
"""

import bz2
import csv
import json
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

MAX_BYTES = 48 << 20  # the most bytes of content that are read
BOM = b"\xef\xbb\xbf"


class Broken(Exception):
    """No reader should read such a file as a whole one."""


class Unknown(Exception):
    """This reader does not know."""


@dataclass
class Rows:
    """`texts`: bytes, or None if null. `whole`: each whole row, to be compared with another file's rows."""

    texts: list[bytes | None]
    whole: Any

    def __len__(self) -> int:
        return len(self.texts)


def read(path: Path) -> Rows:
    reader = next((READERS[ending] for ending in READERS if path.name.lower().endswith(ending)), None)
    if reader is None or path.stat().st_size > MAX_BYTES:
        raise Unknown
    return reader(path)


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix == ".zst":
        import zstandard

        try:
            reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True)
            content = reader.read(MAX_BYTES + 1)
        except zstandard.ZstdError:
            raise Unknown from None  # readers differ in what may follow a frame, and in the largest window
        if len(content) > MAX_BYTES:
            raise Unknown
        return content
    opened = OPENED.get(path.suffix)
    if opened is None:
        return raw
    parts: list[bytes] = []
    while raw := raw.lstrip(b"\0"):
        member = opened()
        try:
            parts.append(member.decompress(raw, MAX_BYTES))
        except (OSError, lzma.LZMAError, zlib.error) as error:
            raise Broken(f"packed: {error}") from None
        if sum(map(len, parts)) >= MAX_BYTES:
            raise Unknown
        if not member.eof:
            raise Broken("packed: ends too early")
        raw = member.unused_data
    return b"".join(parts)


OPENED: dict[str, Callable[[], Any]] = {
    ".gz": partial(zlib.decompressobj, wbits=31),
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
}


def _text_of(value: Any) -> bytes | None:
    text = value.get("text") if isinstance(value, dict) else 0
    if text is None or text != text:
        return None
    if not isinstance(text, str):
        raise Unknown
    return text.encode("utf-8", "surrogatepass")


def _loaded(content: bytes) -> Any:
    try:
        return json.loads(content.removeprefix(BOM).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Unknown from None  # parsers differ in what they refuse


def _lines(path: Path) -> Rows:
    lines = [line for line in _content(path).removeprefix(BOM).split(b"\n") if line.strip()]
    return Rows([_text_of(_loaded(line)) for line in lines], lines)


def _json(path: Path) -> Rows:
    content = path.read_bytes()
    if not content.removeprefix(BOM).lstrip(b" \t\r\n").startswith(b"["):
        return _lines(path)
    found = _loaded(content)
    return Rows([_text_of(value) for value in found], [json.dumps(value) for value in found])


def _delimited(path: Path) -> Rows:
    content = _content(path).removeprefix(BOM).decode("latin-1")
    if "\r" in content.replace("\r\n", "") or content.count('"') % 2:
        raise Unknown  # readers differ: a carriage return may end a line; open quotes may reach to the end
    csv.field_size_limit(MAX_BYTES)
    lines = re.findall(r"[^\n]*\n|[^\n]+$", content)
    reader = csv.reader(lines, delimiter="\t" if ".tsv" in path.name else ",")
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

    failures = (pa.ArrowException, OSError, ValueError, KeyError)
    try:
        with pq.ParquetFile(path) as file:
            groups = range(file.num_row_groups)
            if sum(file.metadata.row_group(group).total_byte_size for group in groups) > MAX_BYTES:
                raise Unknown
            if file.schema_arrow.names.count("text") != 1:
                raise Unknown
            texts = _texts(file.read(["text"]).column("text"))
    except failures as error:
        raise Broken(f"Parquet: {error}") from None
    try:
        whole = pq.read_table(path)
    except failures:
        return Rows(texts, None)
    return Rows(texts, whole if len(whole) == len(texts) else None)


def _ipc(path: Path) -> Rows:
    """A column that gpulsh does not use may be broken."""
    import pyarrow as pa

    raw = path.read_bytes()

    def reader(columns: list[int] | None = None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=columns)
        return (pa.ipc.open_file if raw[:6] == b"ARROW1" else pa.ipc.open_stream)(raw, options=options)

    failures = (pa.ArrowException, OSError, ValueError, IndexError, OverflowError)
    try:
        names = reader().schema.names
        if names.count("text") != 1:
            raise Unknown
        texts = reader([names.index("text")]).read_all().column("text")
        if texts.nbytes > MAX_BYTES:
            raise Unknown
        _check(texts)
    except failures as error:
        raise Broken(f"Arrow: {error}") from None
    try:
        whole = reader().read_all()
        for column in whole.columns:
            _check(column)
    except failures:
        return Rows(_texts(texts), None)
    if whole.nbytes > MAX_BYTES:
        raise Unknown
    return Rows(_texts(texts), whole)


def _check(column: Any) -> None:
    """Arrow's own full check, except of UTF-8: gpulsh takes other bytes, too."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


def _texts(column: Any) -> list[bytes | None]:
    """The bytes of a column of text of any of Arrow's types."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        decoded = [chunk.dictionary_decode() for chunk in column.chunks]
        column = pa.chunked_array(decoded, column.type.value_type)
    if re.fullmatch("(large_)?(string|binary)|(string|binary)_view", str(column.type)) is None:
        raise Unknown
    found: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return found


def _plain(path: Path) -> Rows:
    content = path.read_bytes()
    return Rows([content], [content])


RECORD = re.compile(rb"WARC/\d\.\d\r\n((?:[^\r\n]+\r\n)*)\r\n")


def _warc(path: Path) -> Rows:
    content = _content(path)
    texts: list[bytes | None] = []
    records: list[bytes] = []
    at = 0
    while at < len(content):
        head = RECORD.match(content, at)
        if head is None:
            raise Unknown
        lines = [line.partition(b":") for line in head[1].split(b"\r\n")[:-1]]
        headers = {name.lower(): value.strip() for name, _, value in lines}
        length = headers.get(b"content-length", b"")
        if any(not colon or name != name.strip() for name, colon, _ in lines) or len(headers) != len(lines):
            raise Unknown
        if not re.fullmatch(rb"\d{1,9}", length):
            raise Unknown
        end = head.end() + int(length)
        if content[end : end + 4] != b"\r\n\r\n":
            raise Unknown
        kind = headers.get(b"warc-type", b"").lower()
        if kind == b"conversion" and headers.get(b"content-type", b"").startswith(b"text/plain"):
            texts.append(content[head.end() : end])
            records.append(content[at : end + 4])
        elif kind != b"request":
            raise Unknown  # a page, whose text takes more than this reader to extract
        at = end + 4
    return Rows(texts, records)


READERS: dict[str, Callable[[Path], Rows]] = {
    ".parquet": _parquet,
    ".arrow": _ipc,
    ".json": _json,
    **dict.fromkeys((".jsonl", ".jsonl.gz", ".jsonl.zst"), _lines),
    **dict.fromkeys((".csv", ".tsv", ".tsv.gz", ".csv.bz2", ".csv.xz", ".tsv.xz"), _delimited),
    ".txt": _plain,
    **dict.fromkeys((".warc", ".wet", ".warc.gz", ".wet.gz"), _warc),
}
