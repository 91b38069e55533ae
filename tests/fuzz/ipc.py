"""Arrow IPC: the integers of its flatbuffers and its buffers of offsets: a reader that trusts them reads on and on."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from tests.fuzz.case import Case, options
from tests.fuzz.damage import damaged, integer
from tests.fuzz.tables import NAMES, table

GOES_ON = b"\xff\xff\xff\xff"


def make(case: Case, folder: Path, stream: bool) -> None:
    """`in/a.arrow`, perhaps beside a whole file."""
    source = case.source()
    content = written(source, table(source, parquet=False), stream)
    for _ in range(source.choice([0, 1, 1, 1, 2, 4])):
        content, note = changed(source, content)
        case.damage.append(note)
    (folder / "in/a.arrow").write_bytes(content)
    given = ["in/a.arrow"]
    if source.random() < 0.3:
        (folder / "in/b.arrow").write_bytes(written(source, table(source, parquet=False), source.random() < 0.5))
        given.append("in/b.arrow")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, [*NAMES, "text"], NAMES)]


def written(source: Random, rows: Any, stream: bool) -> bytes:
    """The table as a file or a stream."""
    out = io.BytesIO()
    packing = source.choice([None, None, None, "lz4", "zstd"])
    settings = pa.ipc.IpcWriteOptions(compression=packing, emit_dictionary_deltas=stream and source.random() < 0.3)
    make_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make_writer(out, rows.schema, options=settings) as writer:
        writer.write_table(rows, max_chunksize=source.choice([3, 10, 100]))
    return out.getvalue()


class Message(NamedTuple):
    """Where the flatbuffer of a message, and what comes with it, stand in a file."""

    head: int
    body: int
    end: int


def messages(content: bytes) -> Iterator[Message]:
    """Those of a file or a stream, as long as they make sense."""
    at = 8 if content[:6] == b"ARROW1" else 0
    while content[at : at + 4] == GOES_ON and at + 8 < len(content):
        size = int.from_bytes(content[at + 4 : at + 8], "little")
        body = at + 8 + size
        if size == 0 or body > len(content):
            return
        end = body + _body_length(content[at + 8 : body])
        if not body <= end <= len(content):
            return
        yield Message(at + 8, body, end)
        at = end


def _body_length(flatbuffer: bytes) -> int:
    try:
        (root,) = struct.unpack_from("<I", flatbuffer, 0)
        table_of = root - struct.unpack_from("<i", flatbuffer, root)[0]
        (place,) = struct.unpack_from("<H", flatbuffer, table_of + 10)  # of its fourth field
        return int(struct.unpack_from("<q", flatbuffer, root + place)[0]) if place else 0
    except struct.error:
        return -1


def changed(source: Random, content: bytes) -> tuple[bytes, str]:
    """One change that knows the format, or one that does not."""
    found = list(messages(content))
    how = source.random()
    if not found or how < 0.2:
        content, note = damaged(source, content)
        return content, f"anywhere: {note}"
    message = source.choice(found)
    if how < 0.5:
        content, note = change_message(source, content, message.head, message.body)
        return content, f"message {found.index(message)}: {note}"
    if how < 0.85 and any(each.body < each.end for each in found):
        message = source.choice([each for each in found if each.body < each.end])
        width = source.choice([4, 4, 8])
        at = message.body + source.randrange(max((message.end - message.body) // width, 1)) * width
        (before,) = struct.unpack_from("<i" if width == 4 else "<q", content.ljust(at + 8, b"\0"), at)
        beside = before + source.choice([-1, 1, 3, 60_000, 1 << 20, -before])
        value = source.choice([integer(source, 8 * width), beside]) & (1 << 8 * width) - 1
        changed_content = content[:at] + value.to_bytes(width, "little") + content[at + width :]
        return changed_content, f"body {found.index(message)} at {at - message.body}: {before} is {value}"
    if how < 0.93:
        other = source.choice(found)
        start, stop = other.head - 8, other.end
        piece = source.choice([b"", content[message.head - 8 : message.end], content[start:stop] * 2])
        return content[:start] + piece + content[stop:], f"message {found.index(other)} gone, twice or another"
    start = source.choice([found[-1].end, max(len(content) - 200, 0)])  # the footer of a file, the end of a stream
    return change_message(source, content, start)


def change_message(source: Random, content: bytes, start: int, stop: int | None = None) -> tuple[bytes, str]:
    """An awkward integer at an even place between, or a step beside the one that is there."""
    stop = len(content) if stop is None else stop
    width = source.choice([2, 4, 4, 8])
    at = start + source.randrange(max((stop - start) // width, 1)) * width
    before = int.from_bytes(content[at : at + width], "little")
    beside = before + source.choice([-1, 1, 2, 4, -4, 8, before])
    value = source.choice([integer(source, 8 * width), beside, beside]) & (1 << 8 * width) - 1
    return content[:at] + value.to_bytes(width, "little") + content[
        at + width :
    ], f"at {at - start}: {before} is {value}"
