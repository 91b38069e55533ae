"""Files of the tests of `io`: packed and unpacked, records of WARC, and the documents that a file has."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import zstandard

from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.limits import Limit

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "xz": lzma.decompress,
    "zst": lambda packed: zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read(),
}


def record(number: object, content: bytes, kind: str = "conversion", of: str | None = "text/plain") -> bytes:
    """A record of WARC with that id."""
    kind_of_content = f"Content-Type: {of}\r\n" if of else ""
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\n{kind_of_content}WARC-Record-ID: <urn:{number}>\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content + b"\r\n\r\n"


def documents(
    path: Path, limit: Limit | None = None, *, skip: bool = False, readers: int = 1, max_bytes: int = 1 << 16
) -> list[bytes]:
    """The texts of a file."""
    texts = FileTexts(find_files([str(path)]), Columns(text="text"), readers, skip, limit)
    texts.check()
    return [
        bytes(batch.values[start:stop])
        for batch in texts.batches(max_bytes)
        for start, stop in zip(batch.offset[:-1].tolist(), batch.offset[1:].tolist(), strict=True)
    ]


def rejected(out: str | Path) -> list[dict[str, Any]]:
    """The rows of rejected.parquet."""
    rows: list[dict[str, Any]] = pq.read_table(f"{out}/rejected.parquet").to_pylist()
    return rows
