"""The text of web pages as archives hold them, by FastWARC (HTTP) and Resiliparse (character sets, HTML).

A page's text is all that it shows, as in WET files: a guess at its main content could leave the same few words of two
different pages. Its character set is what HTTP says, otherwise what the page says, otherwise what its bytes look like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any, Literal

from gpulsh.errors import InputError
from gpulsh.io.rows import Bytes

Kind = Literal["html", "text"]
Decode = Literal["none", "content", "transfer", "all"]

CHUNK = re.compile(rb"[0-9A-Fa-f]+[ \t]*(?:;[^\r\n]*)?\r\n")  # the line before a chunk (RFC 9112, section 7.1)
MOST_CHUNK_HEADER = 256
GZIP_MAGIC = b"\x1f\x8b"


class WebText:
    """A document whose text is taken out when it is asked for."""

    def __init__(self, kind: Kind, read: Callable[[], bytes], charset: str | None = None) -> None:
        self._kind, self._read, self._charset = kind, read, charset

    def text(self) -> bytes:
        """The text as UTF-8. A ValueError or OSError where the content's encoding is broken."""
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

        body = self._read()
        told = map_encoding_to_html5(self._charset, fallback_utf8=False) if self._charset else None
        encoding = told or detect_encoding(body, from_html_meta=self._kind == "html") or "utf-8"
        text: str = bytes_to_str(body, encoding=encoding, errors="replace")
        if self._kind == "html":
            text = extract_plain_text(text, list_bullets=False)
        return text.encode("utf-8", "replace")


def http_text(raw: Bytes) -> WebText | None:
    """The document of a `response` record, given the whole record; None where it is neither HTML nor plain text."""
    try:
        record = _record(raw, "none")
    except (OSError, StopIteration) as error:
        return WebText("text", _failing(f"its HTTP is broken ({error})"))
    kind = kind_of(record.http_content_type or record.headers.get("WARC-Identified-Payload-Type"))
    return None if kind is None else WebText(kind, lambda: _decoded(raw), record.http_charset)


def _record(raw: Bytes, decode: Decode) -> Any:
    from fastwarc.warc import ArchiveIterator

    return next(iter(ArchiveIterator(BytesIO(raw), parse_http=True, auto_decode=decode, stream_detect=False)))


def _decoded(raw: Bytes) -> bytes:
    """The body without its transfer and content encodings.

    Many archives hold bodies that were decoded when they were fetched, under the headers of before: an encoding that
    the body does not show is not there.
    """
    headers = {name.lower(): value.lower() for name, value in _record(raw, "none").http_headers.items()}
    in_chunks = "chunked" in headers.get("transfer-encoding", "")
    if in_chunks:
        in_chunks = CHUNK.match(_record(raw, "none").reader.read(MOST_CHUNK_HEADER)) is not None
    zipped = "gzip" in headers.get("content-encoding", "")
    if zipped:
        zipped = _record(raw, "transfer" if in_chunks else "none").reader.read(2) == GZIP_MAGIC
    other = bool(headers.get("content-encoding")) and "gzip" not in headers["content-encoding"]
    content = zipped or other
    decode: Decode = "all" if in_chunks and content else "transfer" if in_chunks else "content" if content else "none"
    body: bytes = _record(raw, decode).reader.read()
    return body


def _failing(told: str) -> Callable[[], bytes]:
    def read() -> bytes:
        raise ValueError(told)

    return read


def plain_text(kind: Kind, body: Bytes) -> WebText:
    """A document of this content, without HTTP around it."""
    return WebText(kind, lambda: bytes(body))


def kind_of(content_type: str | None) -> Kind | None:
    """What a Content-Type says that is read here: "html", "text", or None."""
    name = (content_type or "").partition(";")[0].strip().lower()
    if name in ("text/html", "application/xhtml+xml"):
        return "html"
    return "text" if name == "text/plain" else None


def require_extra(name: str) -> None:
    """InputError where FastWARC or Resiliparse cannot be imported; `name` is the file that needs them."""
    try:
        import fastwarc.warc  # noqa: F401
        import resiliparse.extract.html2text  # noqa: F401
    except ImportError as error:
        raise InputError(f"{name}: holds web pages, and {error}; install gpulsh[warc]") from error
