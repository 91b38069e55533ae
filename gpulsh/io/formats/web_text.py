"""The text of web pages as archives hold them, by FastWARC (HTTP) and Resiliparse (character sets, HTML).

A page's text is all that it shows, as in WET files: a guess at its main content could leave the same few words of two
different pages. The Content-Type of HTTP, or of a record without HTTP, names the character set, otherwise the page.
Without either gpulsh detects it from the bytes.

Many archives hold bodies that were decoded when they were fetched, with their old headers: an encoding that the body
does not show is ignored. So are names that HTTP does not know, such as "none" and "utf-8". If WARC-Truncated says that
a record is incomplete, gpulsh reads the part that is there.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import Literal, NamedTuple

import numpy as np

from gpulsh.errors import InputError, install_command
from gpulsh.io.html import page_text
from gpulsh.io.limits import CostError
from gpulsh.io.rows import Bytes

Kind = Literal["html", "text"]

CHUNK = re.compile(rb"([0-9A-Fa-f]+)[ \t]*(?:;[^\r\n]*)?\r\n")  # the line before a chunk (RFC 9112, section 7.1)
MAX_CHUNK_HEADER = 256
CHARSET = re.compile(r"""(?i)\bcharset\s*=\s*["']?([^\s;,"']+)""")
MARKUP = re.compile(rb"\s*<[!?A-Za-z]")  # begins HTML that has no encoding
SMALL = 1 << 20  # bytes of a body that takes little memory with any content
SHOWN = SMALL + (64 << 10)  # bytes of a record in which its headers must end
HEADERS = re.compile(rb"(?:[^\n]*+\n)*?\r?\n((?:[^\n]*+\n)*?\r?\n)")  # of WARC, and of HTTP
CONTENT_LENGTH = re.compile(rb"(?im)^content-length:[^\r\n]*")
BARE = re.compile(rb"(?<!\r)\n")  # an end of a line in HTTP, as some servers write it
STEP = 1 << 20
MAX_COUNTED = 16 << 30
TAG_COST, ATTRIBUTE_COST = 310, 270
TAG = re.compile(rb"<[^>]*+")
BETWEEN_ATTRIBUTES = np.isin(np.arange(256), np.frombuffer(b" \t\r\n\f/\"'", np.uint8))
GZIP_MAGIC = b"\x1f\x8b"
GZIP = {"gzip", "x-gzip"}
UNKNOWN = {"compress", "x-compress", "exi", "pack200-gzip", "aes128gcm", "dcb", "dcz"}  # of HTTP's encodings
LINE_END = b"\r\n"


class Page(NamedTuple):
    """How the content of a record becomes the text of a document."""

    kind: Kind
    body: int | None = None  # bytes at the end of the content that are the body; None: all of it
    charset: str | None = None
    transfer: Sequence[str] = ()  # its encodings, in the order in which they were applied
    content: Sequence[str] = ()
    broken: str | None = None  # why the content cannot be read
    is_truncated: bool = False  # the end of the content is missing

    def text(self, content: Bytes, most: int | None = None) -> bytes:
        """The text as UTF-8. A ValueError or OSError if the content's encoding is broken.

        A CostError where it would take more than `most` additional bytes.
        """
        if self.broken is not None:
            raise ValueError(self.broken)
        body = bytes(self._decoded(content, most))
        if most is not None and len(body) > SMALL and (cost := _cost(self.kind, body, most)) > most:
            raise CostError(cost)
        return page_text(body, self.charset, is_html=self.kind == "html")

    def _decoded(self, content: Bytes, most: int | None) -> Bytes:
        """The body without its transfer and content encodings."""
        body: Bytes = content if self.body is None else content[max(len(content) - self.body, 0) :]
        encodings = self.content
        if "chunked" in self.transfer and CHUNK.match(bytes(body[:MAX_CHUNK_HEADER])):
            body = _without_chunks(body, self.is_truncated)
            encodings = [*encodings, *self.transfer]
        if not body or (not GZIP.isdisjoint(self.content) and body[:2] != GZIP_MAGIC):
            encodings = encodings[len(self.content) :]
        for name in reversed(encodings):
            body = _decode_content(name, body, most)
        return body


UTF8 = Page("text")  # the content is the text


def http_page(raw: Bytes, size: int, is_whole: bool) -> Page | None:
    """The document of a `response` record, given its beginning and the size of its content; None if it is neither HTML
    nor plain text.
    """
    from fastwarc.warc import ArchiveIterator

    shown = bytes(raw[:SHOWN])
    headed = HEADERS.match(shown)
    if headed is None and not (is_whole and len(raw) <= SHOWN):
        return Page("text", broken="its HTTP header has no end")
    if headed is not None and headed[1].startswith(b"HTTP/"):  # FastWARC knows only the line ends of the standard
        head, added = BARE.subn(LINE_END, headed[1])
        if added:
            of_warc = CONTENT_LENGTH.sub(b"Content-Length: %d" % (size + added), shown[: headed.start(1)])
            shown = of_warc + head + shown[headed.end() :]
    try:
        records = ArchiveIterator(
            BytesIO(shown), parse_http=True, auto_decode="none", stream_detect=False, max_header_len=len(shown)
        )
        record = next(iter(records))
    except (OSError, StopIteration) as error:
        return Page("text", broken=f"its HTTP is broken ({error})")
    kind = content_kind(record.http_content_type or record.headers.get("WARC-Identified-Payload-Type"))
    if kind is None:
        return None
    headers = {name.lower(): value.lower() for name, value in record.http_headers.items()}
    transfer, content = (
        [name.strip() for name in headers.get(header, "").split(",")]
        for header in ("transfer-encoding", "content-encoding")
    )
    charset, is_truncated = charset_of(headers.get("content-type", "")), "WARC-Truncated" in record.headers
    # FastWARC takes the headers of HTTP from the length of the content.
    return Page(kind, record.content_length, charset, transfer, content, is_truncated=is_truncated)


def content_kind(content_type: str | None) -> Kind | None:
    """The kind of content that a Content-Type names: "html", "text", or None."""
    name = (content_type or "").partition(";")[0].strip().lower()
    if name in ("text/html", "application/xhtml+xml"):
        return "html"
    return "text" if name == "text/plain" else None


def charset_of(content_type: str) -> str | None:
    """The character set that a Content-Type names."""
    found = CHARSET.search(content_type)
    return found[1] if found else None


def require_extra(name: str) -> None:
    """InputError if FastWARC or Resiliparse cannot be imported; `name` is the file that needs them."""
    try:
        import fastwarc.warc  # noqa: F401
        import resiliparse.extract.html2text  # noqa: F401
    except ImportError as error:
        raise InputError(f"{name}: holds web pages, and {error}; {install_command('warc')}") from error


def _without_chunks(body: Bytes, is_truncated: bool) -> bytes:
    """Without the encoding "chunked". Extensions of chunks, and all after the last one, are skipped.

    Many archives lack the last chunk. ValueError for anything else that is wrong, or missing before the end.
    """
    pieces = []
    at = 0
    while at < len(body):
        line = CHUNK.match(body, at)
        if line is None:
            if is_truncated and len(body) - at < MAX_CHUNK_HEADER:  # its size is cut short
                break
            raise ValueError(f"no chunk begins with {bytes(body[at : at + 20])!r}")
        size = int(line[1], 16)
        if size == 0:
            break
        end = line.end() + size
        at = end + len(LINE_END)
        if at > len(body) and not is_truncated:
            raise ValueError("a chunk is cut short")
        if body[end:at] != LINE_END[: len(body[end:at])]:
            raise ValueError("a chunk does not end after the bytes that its size states")
        pieces.append(body[line.end() : end])
    return b"".join(pieces)


def _decode_content(name: str, body: Bytes, most: int | None) -> Bytes:
    """The content without the encoding `name`, or as it is if it is HTML without it. ValueError for other content.

    Content beyond `most` bytes is only counted, and not without end.
    """
    from fastwarc.stream_io import BrotliReader, GzipReader, ZstdReader

    if name in UNKNOWN:
        raise ValueError(f"the encoding {name} is not supported")
    kind = GzipReader if name in GZIP else {"br": BrotliReader, "zstd": ZstdReader}.get(name)
    if kind is None and name != "deflate":
        return body
    held: list[bytes] = []
    size = 0
    try:
        for piece in _inflate(body) if kind is None else iter(partial(kind(BytesIO(body)).read, STEP), b""):
            size += len(piece)
            if most is None or size <= most:
                held.append(piece)
            elif size > MAX_COUNTED:
                break
            else:
                held.clear()
    except (OSError, ValueError):
        if MARKUP.match(body) is None:
            raise
        return body
    if most is not None and size > most:
        raise CostError(size)
    return b"".join(held)


def _inflate(body: Bytes) -> Iterator[bytes]:
    """Without the encoding "deflate", which is zlib's; some servers leave out its frame."""
    framed = len(body) > 1 and body[0] & 15 == zlib.DEFLATED and int.from_bytes(body[:2]) % 31 == 0
    decoder = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
    try:
        for at in range(0, len(body), STEP):
            held: Bytes = body[at : at + STEP]
            while held and not decoder.eof:
                yield decoder.decompress(held, STEP)
                held = decoder.unconsumed_tail
        yield decoder.flush()
    except zlib.error as error:
        raise ValueError(str(error)) from error


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
