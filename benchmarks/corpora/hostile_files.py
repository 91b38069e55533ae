"""Small files that expand to gigabytes, and ordinary ones whose documents are as large as a budget allows."""

from __future__ import annotations

import itertools
import mmap
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

MIB, GIB = 1 << 20, 1 << 30
Run = tuple[bytes, int]  # bytes, and how often they stand one after another
EARLIER = b'{"text": "an ordinary line before"}\n'
WEIGHT = 120_000_000  # bytes of an ordinary large document: within a quarter of 512 MiB


def gzip_member(path: Path, runs: Iterable[Run], mode: str = "wb") -> None:
    """One gzip member of `runs`; what is repeated is compressed once."""
    crc = size = 0
    with open(path, mode) as out:
        out.write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
        for content, times in runs:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            packed = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
            for _ in range(times):
                out.write(packed)
                crc = zlib.crc32(content, crc)
            size += len(content) * times
        out.write(b"\x03\0" + crc.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little"))


def zstd_frame(path: Path, runs: Iterable[Run], window_log: int = 20) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
    with open(path, "wb") as out, zstandard.ZstdCompressor(compression_params=parameters).stream_writer(out) as packer:
        for content, times in runs:
            for _ in range(times):
                packer.write(content)


def plain(path: Path, runs: Iterable[Run]) -> None:
    with open(path, "wb") as out:
        for content, times in runs:
            for _ in range(times):
                out.write(content)


def long_line(size: int) -> list[Run]:
    return [(b'{"text": "', 1), (b"a" * MIB, size // MIB), (b'"}\n', 1)]


def many_values(value: bytes, size: int) -> list[Run]:
    times = 1 << 16
    return [(b'{"text": "a", "more": [', 1), (value * times, size // (len(value) * times)), (value[:-1] + b"]}\n", 1)]


def record(head: bytes, body: Run, kind: bytes = b"response", of: bytes = b"application/http") -> list[Run]:
    size = len(head) + len(body[0]) * body[1]
    header = (
        b"WARC/1.0\r\nWARC-Type: %s\r\nContent-Type: %s\r\nWARC-Record-ID: <urn:x>\r\nContent-Length: %d\r\n\r\n"
        % (kind, of, size)
    )
    return [(header + head, 1), body, (b"\r\n\r\n", 1)]


HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n"
SMALL = record(b"an ordinary page before", (b"", 0), b"conversion", b"text/plain")


def response(path: Path) -> None:
    gzip_member(path, record(HTTP % b"text/plain", (b"word " * (MIB // 4), 1638)))


def inner_gzip(path: Path) -> None:
    """A response of 2 MB whose body is gzip of 2 GiB."""
    with tempfile.NamedTemporaryFile() as body:
        gzip_member(Path(body.name), [(b"word " * (MIB // 4), 1638)])
        packed = body.read()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    gzip_member(path, record(head, (packed, 1)))


def many_tags(path: Path) -> None:
    gzip_member(path, record(HTTP % b"text/html", (b"<p>" * (MIB // 4), 100 * 4 // 3)))


def later_record(path: Path) -> None:
    gzip_member(path, [*SMALL, *record(b"", (b"word " * (MIB // 4), 2458), b"conversion", b"text/plain")])


def texts(number: int, size: int, seed: int = 1) -> Iterator[bytes]:
    """Documents of `size` bytes of random words: 32 bits of hexadecimal digits each."""
    random = np.random.default_rng(seed)
    for _ in range(number):
        words = random.integers(0, 1 << 32, size // 9 + 1, np.uint32)
        digits = np.empty((len(words), 9), np.uint8)
        for place in range(8):
            digits[:, place] = np.frombuffer(b"0123456789abcdef", np.uint8)[words >> np.uint32(4 * place) & 15]
        digits[:, 8] = 32
        yield digits.tobytes()[:size]


def large_lines(write: Callable[[Path, Iterable[Run]], None]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write(path, ((b'{"text": "' + text + b'", "id": 1}\n', 1) for text in texts(3, WEIGHT)))

    return make


def escaped_lines(path: Path) -> None:
    """Lines of 120 MB: every third character is an escape, or no character is one byte in memory."""
    plain(
        path,
        itertools.chain(
            *(
                [(b'{"text": "', 1), (word * (MIB // len(word)), 114), (b'"}\n', 1)]
                for word in (b'\\"a ', b"\\ud83d\\ude00 ", "\N{PILE OF POO} abc".encode(), b"\xff ")
            )
        ),
    )


def strings(path: Path, sizes: list[int], kind: Any = None) -> Any:
    """An array of texts of NUL bytes, which takes no memory: of a file without blocks."""
    with open(path, "w+b") as hollow:
        hollow.truncate(max(sum(sizes), 1))
        content = pa.py_buffer(mmap.mmap(hollow.fileno(), 0, access=mmap.ACCESS_READ))
    path.unlink()
    offsets = pa.py_buffer(np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))
    return pa.Array.from_buffers(kind or pa.large_string(), len(sizes), [None, offsets, content])


def parquet(path: Path, columns: dict[str, Any], **options: Any) -> None:
    options = {"compression": "zstd", "store_schema": False, "write_statistics": False, **options}
    pq.write_table(pa.table(columns), path, row_group_size=1 << 24, **options)


def other_column(path: Path) -> None:
    large = strings(path.with_suffix(".tmp"), [400_000_000] * 3)
    parquet(path, {"text": ["one", "two", "three"], "page": large}, use_dictionary=False)


def dictionary_value(path: Path) -> None:
    repeated = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), pa.array(["x" * 10_000_000]))
    parquet(path, {"text": [f"text {n}" for n in range(20_000)], "page": repeated}, dictionary_pagesize_limit=64 << 20)


def dictionary_text(path: Path) -> None:
    """The same in the column of text, 2,000 times: 20 GB."""
    repeated = pa.DictionaryArray.from_arrays(np.zeros(2_000, np.int32), pa.array(["x" * 10_000_000]))
    parquet(path, {"text": repeated}, dictionary_pagesize_limit=64 << 20)


def large_ids(path: Path) -> None:
    """Equal texts with identifiers of 1 MB: 2 GB of evidence."""
    ids = pa.DictionaryArray.from_arrays(np.zeros(2_000, np.int32), pa.array(["x" * 1_000_000]))
    parquet(path, {"text": ["the same words in every row"] * 2_000, "id": ids}, dictionary_pagesize_limit=64 << 20)


def long_lists(path: Path) -> None:
    """A row whose list has 400 million numbers."""
    values = pa.DictionaryArray.from_arrays(np.zeros(20_000_000, np.int8), pa.array([7]))
    lists = pa.LargeListArray.from_arrays(np.array([0, len(values)]), values.cast(pa.int64()))
    parquet(path, {"text": ["one"], "list": lists}, data_page_size=1 << 30)


def many_nulls(path: Path) -> None:
    """100 million rows that are null in 1 kB."""
    table = pa.table({"text": pa.nulls(100_000_000, pa.string())})
    pq.write_table(table, path, compression="zstd", row_group_size=100_000_000, data_page_size=1 << 30)


def large_rows(path: Path) -> None:
    with pq.ParquetWriter(path, pa.schema({"text": pa.large_string()}), use_dictionary=False) as out:
        columns = [pa.array([text], pa.large_binary()).cast(pa.large_string()) for text in texts(3, WEIGHT)]
        out.write_table(pa.table({"text": pa.chunked_array(columns)}))


def arrow_zeros(path: Path, compression: str | None, value: int) -> None:
    large = strings(path.with_suffix(".tmp"), [value] * 3)
    table = pa.table({"text": pa.array(["one", "two", "three"]), "page": large})
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table)


def arrow_rows(path: Path) -> None:
    schema = pa.schema({"text": pa.large_string()})
    with pa.ipc.new_file(str(path), schema) as out:
        for text in texts(3, WEIGHT):
            out.write_table(pa.table({"text": pa.array([text], pa.large_binary()).cast(pa.large_string())}))


FILES: dict[str, Callable[[Path], object]] = {
    "first-line.jsonl.gz": lambda path: gzip_member(path, long_line(3 * GIB)),
    "first-line.jsonl.zst": lambda path: zstd_frame(path, long_line(3 * GIB)),
    "later-line.jsonl.gz": lambda path: gzip_member(path, [(EARLIER, 1), *long_line(3 * GIB)]),
    "response.warc.gz": response,
    "inner-gzip.warc.gz": inner_gzip,
    "many-tags.warc.gz": many_tags,
    "later-record.warc.gz": later_record,
    "other-column.parquet": other_column,
    "dictionary-value.parquet": dictionary_value,
    "dictionary-text.parquet": dictionary_text,
    "large-ids.parquet": large_ids,
    "long-lists.parquet": long_lists,
    "many-nulls.parquet": many_nulls,
    "empty-objects.jsonl.gz": lambda path: gzip_member(path, many_values(b"{},", 115_000_000)),
    "empty-objects.jsonl": lambda path: plain(path, many_values(b"{},", 115_000_000)),
    "numbers.jsonl": lambda path: plain(path, many_values(b"1.5,", 100_000_000)),
    "short-strings.jsonl": lambda path: plain(path, many_values(b'"\xc3\xa4",', 100_000_000)),
    "deep.jsonl": lambda path: plain(
        path, [(b'{"text": "a", "more": ', 1), (b"[" * MIB, 60), (b"]" * MIB, 60), (b"}\n", 1)]
    ),
    "long-number.jsonl": lambda path: plain(path, [(b'{"text": "a", "more": ', 1), (b"9" * MIB, 100), (b"}\n", 1)]),
    "window.jsonl.zst": lambda path: zstd_frame(path, long_line(MIB) * 2_300, window_log=31),
    "large-rows.parquet": large_rows,
    "large-rows.jsonl": large_lines(plain),
    "large-rows.jsonl.gz": large_lines(gzip_member),
    "escaped.jsonl": escaped_lines,
    "large-rows.arrow": arrow_rows,
    "zeros.arrow": lambda path: arrow_zeros(path, "zstd", 400_000_000),
}  # fmt: skip
