"""The text of web pages as archives hold them, by FastWARC (HTTP) and Resiliparse (character sets, HTML).

A page's text is all that it shows, as in WET files: a guess at its main content could leave the same few words of two
different pages. HTTP names the character set, otherwise the page does; without either gpulsh detects it from the bytes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO, RawIOBase
from typing import Any, Literal

import numpy as np

from gpulsh.errors import InputError, install
from gpulsh.io.limits import CostError
from gpulsh.io.rows import Bytes

Kind = Literal["html", "text"]

CHUNK = re.compile(rb"([0-9A-Fa-f]+)[ \t]*(?:;[^\r\n]*)?\r\n")  # the line before a chunk (RFC 9112, section 7.1)
MOST_CHUNK_HEADER = 256
SMALL = 1 << 20  # bytes of a record or body that takes little memory with any content
SHOWN = SMALL + (64 << 10)  # bytes of a large record in which its headers must end
HEADERS = re.compile(rb"(?:[^\n]*+\n)*?\r?\n(?:[^\n]*+\n)*?\r?\n")  # of WARC, and of HTTP
STEP = 1 << 20
MOST_COUNTED = 16 << 30
TAG_COST, ATTRIBUTE_COST = 310, 270
TAG = re.compile(rb"<[^>]*+")
BETWEEN_ATTRIBUTES = np.isin(np.arange(256), np.frombuffer(b" \t\r\n\f/\"'", np.uint8))
GZIP_MAGIC = b"\x1f\x8b"
GZIP = {"gzip", "x-gzip"}
UNKNOWN = {"compress", "x-compress", "exi", "pack200-gzip", "aes128gcm", "dcb", "dcz"}  # of HTTP's encodings
LINE_END = b"\r\n"


class WebText:
    """A document whose text is extracted when it is needed."""

    def __init__(self, kind: Kind, read: Callable[[], Iterator[Bytes]], charset: str | None = None) -> None:
        self._kind, self._read, self._charset = kind, read, charset

    def text(self, most: int | None = None) -> bytes:
        """The text as UTF-8. A ValueError or OSError if the content's encoding is broken.

        A CostError where it would take more than `most` additional bytes.
        """
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

        body = _body(self._read(), most)
        if most is not None and len(body) > SMALL and (cost := _cost(self._kind, body, most)) > most:
            raise CostError(cost)
        named = map_encoding_to_html5(self._charset, fallback_utf8=False) if self._charset else None
        encoding = named or detect_encoding(body, from_html_meta=self._kind == "html") or "utf-8"
        text: str = bytes_to_str(body, encoding=encoding, errors="replace")
        del body
        if self._kind == "html":
            text = extract_plain_text(text, list_bullets=False)
        return text.encode("utf-8", "replace")


def _body(pieces: Iterator[Bytes], most: int | None) -> bytes:
    """All pieces together; those beyond `most` bytes are only counted, and not without end."""
    held: list[Bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if most is None or size <= most:
            held.append(piece)
        elif size > MOST_COUNTED:
            break
        else:
            held.clear()
    if most is not None and size > most:
        raise CostError(size)
    return bytes(held[0]) if len(held) == 1 else b"".join(held)


def _cost(kind: Kind, body: bytes, most: int) -> int:
    """Additional bytes that a page takes, as measured. HTML beyond `most` takes at most so many."""
    # Python holds characters in up to four bytes each; of the text, too, there is a copy.
    if kind == "text":
        return (3 if body.isascii() else 6) * len(body)
    cost = 8 * len(body) + TAG_COST * body.count(b"<")
    if cost > most:
        return cost
    tags = np.frombuffer(b"".join(TAG.findall(body)), np.uint8)
    between = BETWEEN_ATTRIBUTES[tags]
    return cost + ATTRIBUTE_COST * int(np.count_nonzero(between[:-1] & ~between[1:]))


class _Pieces(RawIOBase):
    """Pieces of bytes for reading; `BytesIO` would hold a copy of them."""

    def __init__(self, pieces: Iterator[Bytes]) -> None:
        self._pieces, self._held, self._place = pieces, memoryview(b""), 0

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes, as from a raw file."""
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._held = memoryview(piece)
        piece = bytes(self._held[:size] if size >= 0 else self._held)
        self._held, self._place = self._held[len(piece) :], self._place + len(piece)
        return piece

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place


def http_text(raw: Bytes) -> WebText | None:
    """The document of a `response` record, given the whole record; None if it is neither HTML nor plain text."""
    try:
        shown = raw if len(raw) <= SHOWN else bytes(raw[:SHOWN])
        if shown is not raw and HEADERS.match(shown) is None:
            return WebText("text", _failing("its HTTP header has no end"))
        record = _record(shown)
    except (OSError, StopIteration) as error:
        return WebText("text", _failing(f"its HTTP is broken ({error})"))
    kind = kind_of(record.http_content_type or record.headers.get("WARC-Identified-Payload-Type"))
    return None if kind is None else WebText(kind, lambda: _decoded(raw), record.http_charset)


def _record(raw: Bytes) -> Any:
    from fastwarc.warc import ArchiveIterator

    pieces = (memoryview(raw)[at : at + STEP] for at in range(0, len(raw), STEP))
    source = BytesIO(raw) if len(raw) <= SMALL else _Pieces(pieces)
    return next(iter(ArchiveIterator(source, parse_http=True, auto_decode="none", stream_detect=False)))


def _decoded(raw: Bytes) -> Iterator[bytes]:
    """The body without its transfer and content encodings.

    Many archives hold bodies that were decoded when they were fetched, under the headers of before: an encoding that
    the body does not show is ignored. So are names that HTTP does not know, such as "none" and "utf-8".
    """
    headers = {name.lower(): value.lower() for name, value in _record(raw).http_headers.items()}
    transfer, content = (_names(headers.get(name, "")) for name in ("transfer-encoding", "content-encoding"))
    in_chunks = "chunked" in transfer and CHUNK.match(_record(raw).reader.read(MOST_CHUNK_HEADER)) is not None

    def body() -> Any:
        reader = _record(raw).reader
        return _Pieces(_chunks(reader)) if in_chunks else reader

    if not GZIP.isdisjoint(content) and body().read(2) != GZIP_MAGIC:
        content = []
    reader = body()
    for name in reversed([*content, *(transfer if in_chunks else ())]):
        reader = _reader_of(name, reader)
    while piece := reader.read(STEP):
        yield piece


def _names(header: str) -> list[str]:
    return [name.strip() for name in header.split(",")]


def _reader_of(name: str, reader: Any) -> Any:
    """A reader of the content without the encoding `name`; ValueError if nothing here decodes that."""
    from fastwarc.stream_io import BrotliReader, GzipReader, ZstdReader

    if name == "deflate":
        return _Pieces(_inflated(reader))
    if name in UNKNOWN:
        raise ValueError(f"the encoding {name} is not supported")
    kind = GzipReader if name in GZIP else {"br": BrotliReader, "zstd": ZstdReader}.get(name)
    return reader if kind is None else kind(reader)


def _inflated(reader: Any) -> Iterator[bytes]:
    """Without the encoding "deflate", which is zlib's; some servers leave out its frame."""
    held = reader.read(STEP)
    framed = len(held) > 1 and held[0] & 15 == zlib.DEFLATED and int.from_bytes(held[:2]) % 31 == 0
    decoder = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
    try:
        while held and not decoder.eof:
            yield decoder.decompress(held, STEP)
            held = decoder.unconsumed_tail or reader.read(STEP)
        yield decoder.flush()
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _chunks(reader: Any) -> Iterator[bytes]:
    """Without the encoding "chunked". Extensions of chunks, and all behind the last one, are passed over.

    Many archives lack the last chunk. ValueError for anything else that is missing or wrong.
    """
    held, place, out = b"", 0, bytearray()
    while True:
        line = CHUNK.match(held, place)
        if line is None:
            more = reader.read(STEP) if len(held) - place <= MOST_CHUNK_HEADER else b""
            if not more and place == len(held):
                break
            if not more:
                raise ValueError(f"no chunk begins with {held[place : place + 20]!r}")
            held, place = held[place:] + more, 0
            continue
        place, left = line.end(), int(line[1], 16)
        if left == 0:
            break
        left += len(LINE_END)
        while left:
            if place == len(held):
                held, place = reader.read(STEP), 0
                if not held:
                    raise ValueError("a chunk is cut short")
            piece = held[place : place + left]
            place, left = place + len(piece), left - len(piece)
            out += piece
            if len(out) > STEP:  # what may be the line end stays
                yield bytes(out[: -len(LINE_END)])
                del out[: -len(LINE_END)]
        if not out.endswith(LINE_END):
            raise ValueError("a chunk does not end after the bytes that its size states")
        del out[-len(LINE_END) :]
    yield bytes(out)


def _failing(detail: str) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        raise ValueError(detail)

    return read


def kind_of(content_type: str | None) -> Kind | None:
    """The kind of content that a Content-Type names: "html", "text", or None."""
    name = (content_type or "").partition(";")[0].strip().lower()
    if name in ("text/html", "application/xhtml+xml"):
        return "html"
    return "text" if name == "text/plain" else None


def require_extra(name: str) -> None:
    """InputError if FastWARC or Resiliparse cannot be imported; `name` is the file that needs them."""
    try:
        import fastwarc.warc  # noqa: F401
        import resiliparse.extract.html2text  # noqa: F401
    except ImportError as error:
        raise InputError(f"{name}: holds web pages, and {error}; {install('warc')}") from error
