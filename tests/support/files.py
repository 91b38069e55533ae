"""Files for the tests of `io`: packed and unpacked, WARC records, and the documents of a file."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpulsh.io.columns import Columns
from gpulsh.io.files.file_texts import FileTexts
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.read_options import ReadOptions
from gpulsh.io.format import Rules
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit
from gpulsh.io.output_codec import NewFile


def _zstandard() -> Any:
    """Tests of kernels run where it is not installed."""
    import zstandard

    return zstandard


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: _zstandard().ZstdCompressor(write_checksum=True).compress(content),
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "xz": lzma.decompress,
    "zst": lambda packed: _zstandard().ZstdDecompressor().stream_reader(packed, read_across_frames=True).read(),
}


def _kind(path: Path) -> tuple[str, str]:
    """The endings for the format and the compression."""
    packed = path.suffix[1:] if path.suffix[1:] in PACK else ""
    return Path(path.stem if packed else path.name).suffix, packed


def write_rows(path: str | Path, rows: Any, group: int | None = None) -> str:
    """A file in the format that its name tells, and its folder: of a table, or of rows, each an object or only a text.

    Row groups and batches have `group` rows.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind, packed = _kind(path)
    columnar = kind in (".parquet", ".arrow", ".arrows")
    if not isinstance(rows, pa.Table):
        rows = [row if isinstance(row, dict) else {"text": row} for row in rows]
        rows = pa.Table.from_pylist(rows) if columnar else rows
    if kind == ".parquet":
        pq.write_table(rows, path, row_group_size=group)
    elif columnar:
        with (pa.ipc.new_file if kind == ".arrow" else pa.ipc.new_stream)(str(path), rows.schema) as out:
            out.write_table(rows, group)
    else:
        rows = rows.to_pylist() if isinstance(rows, pa.Table) else rows
        text = io.StringIO(newline="")
        if kind in (".csv", ".tsv"):
            names = list(rows[0]) if rows else ["text"]
            table = csv.DictWriter(text, names, delimiter="," if kind == ".csv" else "\t")
            table.writeheader()
            table.writerows(rows)
        elif kind == ".json":
            json.dump(rows, text)
        else:
            text.writelines(json.dumps(row) + "\n" for row in rows)
        path.write_bytes(PACK[packed](text.getvalue().encode()))
    return str(path)


def read_table(path: str | Path) -> pa.Table:
    if Path(path).suffix == ".parquet":
        return pq.read_table(path)
    with (pa.ipc.open_file if Path(path).suffix == ".arrow" else pa.ipc.open_stream)(str(path)) as reader:
        return reader.read_all()


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a file of Parquet, Arrow or JSON."""
    kind, packed = _kind(Path(path))
    if kind in (".parquet", ".arrow", ".arrows"):
        return read_table(path).to_pylist()
    content = UNPACK[packed](Path(path).read_bytes())
    return json.loads(content) if kind == ".json" else [json.loads(line) for line in content.splitlines()]


def record(
    number: object, content: bytes, kind: str = "conversion", of: str | None = "text/plain", **more: str
) -> bytes:
    """A WARC record with that id and further headers, whose names have "_" for "-"."""
    headers = {"WARC-Type": kind, "WARC-Record-ID": f"<urn:{number}>", **({"Content-Type": of} if of else {})}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = ["WARC/1.0", *(f"{name}: {value}" for name, value in headers.items()), f"Content-Length: {len(content)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n\r\n"


def texts_of(path: str | Path, column: str = "text", **rules: Any) -> list[bytes]:
    """The texts of a file's column; its blocks must adjoin."""
    (file,) = find_files([str(path)], options=ReadOptions(lines=".txt" in Path(path).name))
    found: list[bytes] = []
    for block in format_of(file).read(file, Columns(column), rules=Rules(**rules)):
        assert block.start == len(found)
        found += map(bytes, block.texts.pieces(np.arange(len(block.texts))))
    return found


def new_file(path: str | Path) -> NewFile:
    """What opens a file there for writing."""

    def opened() -> BinaryIO:
        return open(path, "wb")

    return opened


def write_kept(path: Path, keep: Any, name: str = "kept", **how: Any) -> Path:
    """Write the kept rows of a file to a file beside it."""
    (file,) = find_files([str(path)])
    format_of(file).write_kept(file, np.asarray(keep, bool), new_file(path.with_name(name)), **how)
    return path.with_name(name)


def documents(
    path: Path,
    limit: Limit | None = None,
    *,
    skip: bool = False,
    readers: int = 1,
    max_bytes: int = 1 << 16,
    lines: bool = False,
) -> list[bytes]:
    """The texts of a file."""
    files = find_files([str(path)], options=ReadOptions(lines=lines))
    texts = FileTexts(files, Columns(text="text"), readers, skip, limit)
    texts.check()
    return [
        bytes(batch.values[start:stop])
        for batch in texts.batches(max_bytes)
        for start, stop in zip(batch.offset[:-1].tolist(), batch.offset[1:].tolist(), strict=True)
    ]


def flipped(content: bytes, place: int) -> bytes:
    """The bytes with all bits of one byte flipped."""
    changed = bytearray(content)
    changed[place] ^= 0xFF
    return bytes(changed)


def damage_column(path: Path, group: int, column: str) -> None:
    """Make the pages of a column in one row group of Parquet unreadable."""
    file = pq.ParquetFile(path)
    chunk = file.metadata.row_group(group).column(file.schema_arrow.get_field_index(column))
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    first, end = start + chunk.total_compressed_size // 4, start + chunk.total_compressed_size
    content = path.read_bytes()
    path.write_bytes(content[:first] + b"\xff" * (end - first) + content[end:])


def rejected(out: str | Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(f"{out}/rejected.parquet").to_pylist()
    return rows
