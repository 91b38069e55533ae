"""WARC and WET: records that are documents, their frames, copied bytes, and reports of broken records."""

import gzip
import io
import random
import re
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpulsh.errors import DamagedInputError, InputError, LargeDocumentError, MemoryLimitError
from gpulsh.io.columns import Columns
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Rules
from gpulsh.io.formats import warc
from gpulsh.io.formats import warc_records as framing
from gpulsh.io.formats.endings import format_of
from gpulsh.io.html import page_text
from gpulsh.io.limits import Limit
from tests.support.files import documents, flipped, read_rows, record, rejected, write_kept
from tests.support.runs import evidence, run
from tests.support.traced import at_most

HTTP, REQUEST = "application/http; msgtype=response", "application/http; msgtype=request"


def words(number: int, count: int = 30) -> str:
    return " ".join(f"w{number}x{place}" for place in range(count))


def page(name: str, body: bytes, content_type: str = "text/html", headers: tuple[str, ...] = (), **more: str) -> bytes:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {content_type}", *headers]).encode()
    return record(name, head + b"\r\n\r\n" + body, "response", HTTP, **more)


INFO = record("info", b"software: none\r\n", "warcinfo", "application/warc-fields")
TEXTS = [words(0), words(1), "", words(0), words(2), words(1) + " and"]
WET = [INFO, *(record(f"t{row}", text.encode()) for row, text in enumerate(TEXTS))]
KEPT = [WET[row] for row in (0, 1, 2, 3, 5)]  # TEXTS[3] copies TEXTS[0], and TEXTS[5] nearly TEXTS[1]


def packed(records: list[bytes]) -> bytes:
    return b"".join(gzip.compress(one, mtime=0) for one in records)


@pytest.mark.parametrize(
    ("name", "content", "kept"),
    [
        ("a.warc", b"".join(WET), b"".join(KEPT)),
        ("a.wet", b"".join(WET), b"".join(KEPT)),
        ("a.warc.wet.gz", packed(WET), packed(KEPT)),
        ("members.wet.gz", packed([b"".join(WET[:3]), b"".join(WET[3:])]), None),  # those that share one get one each
    ],
)
def test_kept_records_are_copied_byte_for_byte(tmp_path: Path, name: str, content: bytes, kept: bytes | None) -> None:
    (tmp_path / name).write_bytes(content)
    result = run(tmp_path / name, tmp_path / "out")
    found = (tmp_path / "out/data" / name).read_bytes()
    records = read_records(found, name.endswith(".gz"))
    assert [one.raw for one in records] == KEPT and found == (kept or found)
    assert kept or all(one.span for one in records)
    assert result.funnel["documents"] == 6
    names = ("row", "id", "duplicate_of_row", "duplicate_of_id")
    dropped = [tuple(row[name] for name in names) for row in evidence(result.output)]
    assert dropped == [(3, "<urn:t3>", 0, "<urn:t0>"), (5, "<urn:t5>", 1, "<urn:t1>")]


def test_headers_serve_as_columns(tmp_path: Path) -> None:
    dates = ["2024-01-01T00:00:00Z", "2024-05-01T00:00:00.5Z", "2023-01-01T00:00:00Z"]
    headers = [{"WARC_Date": date, "WARC_Target_URI": f"http://x/{row}"} for row, date in enumerate(dates)]
    records = [record(row, words(0).encode(), **more) for row, more in enumerate(headers)]
    (tmp_path / "a.wet").write_bytes(b"".join(records))
    run(tmp_path / "a.wet", tmp_path / "out", id_column="warc-target-URI", keep="WARC-Date")
    assert (tmp_path / "out/data/a.wet").read_bytes() == records[1]
    ids = [(row["id"], row["duplicate_of_id"]) for row in evidence(tmp_path / "out")]
    assert ids == [("http://x/0", "http://x/1"), ("http://x/2", "http://x/1")]
    for option, message in {
        "id_column": r"a\.wet: has no column 'WARC-Color'.*warc-date",
        "source_column": r"a\.wet: has no column 'WARC-Color', which source_column",  # all documents had one source
        "date_column": r"a\.wet: has no column 'WARC-Color', which date_column",  # and no date
        "keep": "keep takes its header WARC-Date, not 'WARC-Color'",
    }.items():
        with pytest.raises(InputError, match=message):
            run(tmp_path / "a.wet", tmp_path / "out2", **{option: "WARC-Color"})


def test_records_without_an_id_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.wet").write_bytes(2 * re.sub(rb"WARC-Record-ID: .*\r\n", b"", WET[1]))
    (row,) = evidence(run(tmp_path / "a.wet", tmp_path / "out").output)
    assert (row["row"], row["id"], row["duplicate_of_id"]) == (1, None, None)


def test_only_text_records_are_documents(tmp_path: Path) -> None:
    text = words(0).encode()
    records = [
        *(INFO, record("image", text, of="image/png"), record("untyped", text, of=None)),
        *(record("about", text, "metadata"), record("text", text, of="text/plain; charset=utf-8")),
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    result = run(tmp_path / "a.warc", tmp_path / "out")
    assert (result.funnel["documents"], result.funnel["dropped"]) == (2, 1)
    assert (tmp_path / "out/data/a.warc").read_bytes() == b"".join(records[:4])


# --- web pages ---

resiliparse = pytest.mark.skipif(find_spec("resiliparse") is None, reason="the extra warc is not installed")


def html(text: str, charset: str = "utf-8", meta: str = "") -> bytes:
    head = f"<head>{meta}<title>t</title><style>p {{}}</style></head>"
    return f"<html>{head}<body><p>{text}</p></body></html>".encode(charset)


def chunked(body: bytes) -> bytes:
    chunks = [*(body[at : at + 7] for at in range(0, len(body), 7)), b""]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


WORDS = "naïve café 日本 " + words(0)
CHUNKED, ZIPPED = "Transfer-Encoding: chunked", "Content-Encoding: gzip"
PAGES = [  # all of one text
    page("p", html(WORDS)),
    page("o", html(WORDS.replace("日本", "&#26085;&#26412;"), "latin-1"), "text/html; charset=latin1"),
    page("o", html("na&iuml;ve caf&eacute; 日本 " + words(0), "shift_jis", "<meta charset=shift_jis>")),
    page("o", chunked(html(WORDS)), headers=(CHUNKED,)),
    page("o", gzip.compress(html(WORDS)), headers=(ZIPPED,)),
    page("o", chunked(gzip.compress(html(WORDS))), headers=(CHUNKED, ZIPPED)),
    # Decoded when it was fetched, under the headers of before.
    page("o", html(WORDS), headers=(CHUNKED, ZIPPED)),
    page("o", chunked(html(WORDS)), headers=(CHUNKED, ZIPPED)),
    page("o", gzip.compress(html(WORDS)), headers=(CHUNKED, ZIPPED)),
    # An extension of a chunk, a trailer, the old name of gzip, deflate with and without its frame, no encoding of HTTP.
    page("o", chunked(html(WORDS)).replace(b"7\r\n", b"7 ;a=b\r\n", 3), headers=(CHUNKED,)),
    page("o", chunked(html(WORDS))[:-2] + b"X-Seconds: 1\r\n\r\n", headers=(CHUNKED,)),
    page("o", chunked(gzip.compress(html(WORDS))), headers=(CHUNKED, "Content-Encoding: x-gzip")),
    *(page("o", html(WORDS), headers=(f"Content-Encoding: {name}",)) for name in ("br", "zstd", "deflate")),
    # Cut short in the frame of a chunk, or in the size of the next one.
    *(page("o", chunked(html(WORDS))[:-last], headers=(CHUNKED,), WARC_Truncated="time") for last in (4, 6, 7, 9)),
    page("o", zlib.compress(html(WORDS)), headers=("Content-Encoding: deflate",)),
    page("o", zlib.compress(html(WORDS), wbits=-15), headers=("Content-Encoding: deflate",)),
    page("o", gzip.compress(zlib.compress(html(WORDS))), headers=("Content-Encoding: deflate, gzip",)),
    page("o", html(WORDS), headers=("Content-Encoding: utf-8",)),
    page("o", WORDS.encode("utf-16"), "text/plain; charset=utf-16"),
    *(page("o", WORDS.encode("utf-16-be"), f"text/plain; charset={name}") for name in ('"utf-16be"', "'UTF-16BE'")),
    page("o", html(WORDS), "application/xhtml+xml"),
    page("o", html(WORDS), headers=(f"Set-Cookie: {'x' * 50_000}",), X="x" * 50_000),
    # Some servers end lines of HTTP with a line feed alone.
    record("o", b"HTTP/1.0 200 OK\nContent-Type: text/html\n\n" + html(WORDS), "response", HTTP),
    record("o", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\nX: 1\n\r\n" + html(WORDS) + b"\r\n", "response", HTTP),
    record("o", html(WORDS), "resource", "text/html"),
    record("o", html(WORDS), of="text/html"),
    record("o", WORDS.encode()),
]


@resiliparse
def test_pages_of_equal_text_are_exact_copies(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(b"".join(PAGES))
    result = run(tmp_path / "a.warc", tmp_path / "out")
    assert (result.funnel["documents"], result.funnel["exact_copies"]) == (len(PAGES), len(PAGES) - 1)
    assert [row["row"] for row in evidence(result.output)] == list(range(1, len(PAGES)))


ACCENT = "un café " + words(0)  # uchardet guesses no UTF-8 from one character of two bytes


@resiliparse
def test_character_sets_of_pages_with_one_accent(tmp_path: Path) -> None:
    """They are named by HTTP, by the record, by the page, or by nothing."""
    named, mac = html(ACCENT, "latin-1", "<meta charset=latin1>"), html(ACCENT, "mac-roman")
    pages = [
        page("p", html(ACCENT), "text/html; charset=utf-8"),
        *(page("o", mac, f"text/html; charset{name}") for name in (" = macintosh", "=macintosh,a")),
        *(record("o", html(ACCENT), "resource", f"text/html; charset={name}") for name in ("utf-8", '"UTF-8"')),
        record("o", ACCENT.encode("mac-roman"), "resource", "text/plain;x=y; Charset = 'macintosh'"),
        record("o", mac, of="text/html;charset=macintosh; x=y"),
        *(page("o", html(ACCENT), "text/html"), record("o", html(ACCENT), "resource", "text/html")),
        *(page("o", ACCENT.encode(), "text/plain"), page("o", html(ACCENT), "text/html; charset=none")),
        *(page("o", named, "text/html"), page("o", html(ACCENT, "latin-1"), "text/html")),
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(pages))
    result = run(tmp_path / "a.warc", tmp_path / "out")
    assert (result.funnel["documents"], result.funnel["exact_copies"]) == (len(pages), len(pages) - 1)


@resiliparse
def test_pages_without_a_body_are_empty(tmp_path: Path) -> None:
    """A redirect may name the encoding that a page would have."""
    none = [page(name, b"", headers=(f"Content-Encoding: {name}",)) for name in ("br", "deflate", "gzip", "zstd")]
    bare = b"\n".join([b"HTTP/1.0 302 Found", *[b"X: y"] * 9, b"Content-Type: text/html", b"", b""])
    none.append(record("bare", bare, "response", HTTP))
    (tmp_path / "a.warc").write_bytes(b"".join(none))
    assert run(tmp_path / "a.warc", tmp_path / "out").funnel["empty"] == 5


@resiliparse
def test_records_of_a_dropped_page_are_dropped_with_it(tmp_path: Path) -> None:
    get, ok, fields = b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", "application/warc-fields"
    before = [
        *(INFO, record("request a", get, "request", REQUEST, WARC_Concurrent_To="<urn:a>"), page("a", html(words(0)))),
        record("metadata a", b"x: y", "metadata", fields, WARC_Concurrent_To="<urn:a>"),
        page("image", b"\x89PNG", "image/png"),
    ]
    gone = [
        record("request b", get, "request", REQUEST),
        page("b", html(words(0)), WARC_Concurrent_To="<urn:request b>"),
        record("metadata b", b"x: y", "metadata", fields, WARC_Concurrent_To="<urn:b>"),
        record("revisit b", ok, "revisit", HTTP, WARC_Refers_To="<urn:b>"),
        record("more of b", b"more", "continuation", None, WARC_Segment_Origin_ID="<urn:b>"),
    ]
    behind = [record("revisit", ok, "revisit", HTTP, WARC_Refers_To="<urn:elsewhere>")]
    (tmp_path / "a.warc.gz").write_bytes(packed([*before, *gone, *behind]))
    result = run(tmp_path / "a.warc.gz", tmp_path / "out")
    assert result.funnel["documents"] == 2
    assert (tmp_path / "out/data/a.warc.gz").read_bytes() == packed([*before, *behind])


def test_a_missing_extra_is_named_and_wet_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fastwarc", "fastwarc.warc", "resiliparse", "resiliparse.extract.html2text"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.wet").write_bytes(b"".join(WET))
    assert run(tmp_path / "a.wet", tmp_path / "out").funnel["documents"] == 6
    (tmp_path / "a.warc").write_bytes(INFO + page("p", html(words(0))))
    message = r"a\.warc: holds web pages, and .*fastwarc.*; pip install .gpulsh\[warc\]."
    for on_error in ("fail", "skip"):
        with pytest.raises(InputError, match=message):
            run(tmp_path / "a.warc", tmp_path / "out2", on_error=on_error)


# --- framing ---


def read_records(content: bytes, compressed: bool, broken: list[Any] | None = None) -> list[framing.Record]:
    found_broken: list[Any] = [] if broken is None else broken
    found = list(framing.warc_records(io.BytesIO(content), compressed, lambda *what: found_broken.append(what)))
    assert broken is not None or not found_broken
    return found


def whole_record(content: bytes, compressed: bool, one: framing.Record) -> bytes:
    """All bytes of a record, even if it is not held."""
    if len(one.raw) == one.whole:
        return one.raw
    return b"".join(framing.record_bytes(io.BytesIO(content), compressed, one))


@pytest.mark.parametrize("step", [1, 7, 64, 4 << 20])
@pytest.mark.parametrize("large", [1, framing.LARGE])
def test_records_do_not_depend_on_how_the_file_is_read(step: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They equal those that FastWARC reads."""
    draw = random.Random(step)
    contents = [draw.randbytes(draw.choice([0, 1, 2, 50, 700])) for _ in range(12)]
    contents += [b"\r\n\r\n", b"\r\n\r\nWARC/1.0\r\nWARC-Type: conversion\r\n\r\n", b"\0" * 9, b"\r\n"]
    records = [record(row, content) for row, content in enumerate(contents)]
    for name in ("gpulsh.io.compression.PLAIN_STEP", "gpulsh.io.compression.PACKED_STEP"):
        monkeypatch.setattr(name, step)
    monkeypatch.setattr(framing, "PLAIN_STEP", step)
    monkeypatch.setattr(framing, "LARGE", large)
    padding = bytes(3 if step == 7 else 0)  # which FastWARC does not read
    members = [gzip.compress(one) + padding for one in records]
    shared = [gzip.compress(b"".join(some)) + padding for some in (records[:5], [], records[5:])]
    for parts, compressed in ((records, False), (members, True), (shared, True)):
        content = b"".join(parts)
        found = read_records(content, compressed)
        raw = [whole_record(content, compressed, one) for one in found]
        assert raw == records
        assert [bytes(one._replace(raw=all_of).content) for one, all_of in zip(found, raw, strict=True)] == contents
        if parts is shared:
            assert [one.span for one in found] == [None] * len(records)
        else:
            assert [one.offset for one in found] == [len(b"".join(parts[:row])) for row in range(len(parts))]
            assert not compressed or [content[slice(*one.span or ())] for one in found] == members
        if find_spec("fastwarc") and parts is not shared and not padding:
            from fastwarc.warc import ArchiveIterator

            theirs = ArchiveIterator(io.BytesIO(content), parse_http=False)
            ours = [(one.offset, one.header("warc-RECORD-id"), contents[row]) for row, one in enumerate(found)]
            assert [(one.stream_pos, one.record_id, one.reader.read()) for one in theirs] == ours


def test_odd_headers_and_blank_lines_are_read() -> None:
    odd = b"WARC/1.1\r\nwarc-type:conversion\r\nX:  a\r\n\t b\r\nNo colon\r\nX: c\r\nContent-Length:3\r\n\r\nabc"
    found = read_records(b"\r\n\n" + WET[1] + b"\r\n\r\n" + odd + b"\r\n\r\n" + WET[2].rstrip(b"\r\n") + b"\r\n", False)
    assert [bytes(one.content) for one in found] == [TEXTS[0].encode(), b"abc", TEXTS[1].encode()]
    assert found[1].headers["x"] == ["a b", "c"]
    assert found[1].header("WARC-Type") == "conversion"
    assert found[1].header("Missing") is None
    assert read_records(b"", False) == read_records(b"", True) == read_records(gzip.compress(b""), True) == []


def length_of(one: bytes, length: str) -> bytes:
    """A record that states another length."""
    return re.sub(rb"Content-Length: \d*", b"Content-Length: " + length.encode(), one)


# name: (the file, compressed where the name says so; records that are left; where it is broken; the message)
A, B, C = WET[1], WET[2], WET[5]
GA, GB, GC = (gzip.compress(one, mtime=0) for one in (A, B, C))
BROKEN: dict[str, tuple[bytes, list[bytes], int, str]] = {
    "cut in content": (A + B[:-40], [A], len(A), "cut short: "),
    "cut in header": (A + B[:50], [A], len(A), "cut short in its header"),
    "cut in a line of its header": (A + B[:50] + C + A, [A, A], len(A), "two headers WARC-Type"),
    "too long": (A + length_of(B, "99999") + C, [A, C], len(A), "cut short"),
    "too long by a record": (A + length_of(B, str(len(C) + 200)) + C + A, [A, C, A], len(A), "does not end"),
    "too short": (A + length_of(B, "9") + C, [A, C], len(A), "does not end after the 9 bytes"),
    "no length": (A + length_of(B, "") + C, [A, C], len(A), "Content-Length"),
    "longer than any file": (A + length_of(B, "9" * 18) + C, [A, C], len(A), "cut short"),
    "longer than any number": (A + length_of(B, "9" * 5000) + C, [A, C], len(A), "Content-Length"),
    "gzip, too great a length": (GA + gzip.compress(length_of(B, "9" * 19)) + GC, [A, C], len(GA), "Content-Length"),
    "negative length": (A + length_of(B, "-5") + C, [A, C], len(A), "Content-Length of the record is -5"),
    "noise between": (A + b"some noise\r\n\r\n" + C, [A, C], len(A), "no WARC record begins"),
    "noise before": (b"some noise\r\n" + C, [C], 0, "no WARC record begins"),
    "noise alone": (b"some noise", [], 0, "no WARC record begins"),
    "line feeds alone": (A.replace(b"\r\n", b"\n"), [], 0, "cut short in its header"),
    "gzip, cut": (GA + GB[:-30], [A], len(GA), "truncated"),
    "gzip, cut in the middle": (GA + GB[:-30] + GC + GA, [A, C, A], len(GA), "broken"),
    "gzip, checksum": (GA + flipped(GB, -7) + GC, [A, C], len(GA), "broken"),
    "gzip, first member": (flipped(GA, 3) + GB + GC, [B, C], 0, "broken"),
    "gzip, last member": (GA + GB + flipped(GC, 1), [A, B], len(GA + GB), "broken"),
    "gzip, record cut before it was packed": (GA + gzip.compress(B[:-40]) + GC, [A, C], len(GA), "cut short"),
    "gzip, noise packed": (GA + gzip.compress(b"noise") + GC, [A, C], len(GA), "no WARC record begins"),
    "gzip, noise": (GA + b"noise" + GC, [A, C], len(GA), "broken"),
    "gzip, no gzip": (A + B, [], 0, "it is not gzip"),
    "gzip, a shared member": (GA + flipped(gzip.compress(B + C), -7) + GA, [A, A], len(GA), "broken"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_named_and_the_rest_is_read(tmp_path: Path, name: str) -> None:
    content, left, place, message = BROKEN[name]
    file = tmp_path / ("a.wet.gz" if name.startswith("gzip") else "a.wet")
    file.write_bytes(content)
    with pytest.raises(DamagedInputError, match=rf"{file.name}: byte {place}: .*{message}"):
        run(file, tmp_path / "out")
    result = run(file, tmp_path / "out", on_error="skip")
    (row,) = rejected(result.output)
    assert (row["rows"], row["unit"], row["offset"]) == (0, "byte", place) and message in row["reason"]
    assert result.funnel["documents"] == len(left)
    data = tmp_path / "out/data" / file.name
    assert data.exists() == bool(left)
    if left:
        kept = data.read_bytes()
        assert (gzip.decompress(kept) if file.suffix == ".gz" else kept) == b"".join(dict.fromkeys(left))


def test_damage_up_to_the_next_record_is_one_stretch(tmp_path: Path) -> None:
    torn = b"WARC/1.0\r\n" + A[:30] + b"\r\nnoise\r\n" + length_of(B, "9")
    (tmp_path / "a.wet").write_bytes(torn + INFO + torn + C + torn)
    members = [gzip.compress(b"WARC/1.0\r\n"), flipped(GB, -7), gzip.compress(b"noise"), GA, flipped(GA, 3), GB[:-4]]
    (tmp_path / "b.wet.gz").write_bytes(b"".join(members))
    result = run([tmp_path / "a.wet", tmp_path / "b.wet.gz"], tmp_path / "out", on_error="skip")
    found = rejected(result.output)
    after = len(torn + INFO), len(torn + INFO + torn + C), len(b"".join(members[:4]))
    assert [(Path(row["file"]).name, row["row"], row["rows"], row["offset"]) for row in found] == [
        *(("a.wet", row, 0, offset) for row, offset in [(0, 0), (0, after[0]), (1, after[1])]),
        *(("b.wet.gz", row, 0, offset) for row, offset in [(0, 0), (1, after[2])]),
    ]
    reasons = ["the record is cut short in its header"] * 4 + ["its compressed data is broken (Error"]
    for row, reason in zip(found, reasons, strict=True):
        assert row["reason"].partition(": ")[2].startswith(reason)
    assert (result.funnel["documents"], result.funnel["rejected"]) == (2, 5)


PARTS = [
    *(b"WARC/1.0\r\n", b"WARC/0.17\r\n", b"WARC/1.0\n", b"\r\n", b"\r\n\r\n", b"\n", b"a: b\r\n", b"abc"),
    *(b"Content-Length: 0\r\n", b"content-LENGTH:3\r\n", b"Content-Length: 70\r\n", b" -length\r\n"),
    b"WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
    *(A, length_of(A, "100"), length_of(A, "300")),
]


@pytest.mark.parametrize("compressed", [False, True])
def test_records_of_random_files_depend_on_no_block_size(compressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are large, and the file is read in several ways."""
    draw, count = random.Random(1), 0
    for _ in range(400):
        parts = [b"".join(draw.choices(PARTS, k=draw.randrange(12))) for _ in range(draw.randrange(4))]
        content = packed(parts) if compressed else b"".join(parts)
        monkeypatch.setattr(framing, "LARGE", draw.choice([100, 8 << 20]))
        results = []
        for step in (4 << 20, 7):
            monkeypatch.setattr(framing, "PLAIN_STEP", step)
            broken: list[Any] = []
            found = read_records(content, compressed, broken)
            records = [(one.offset, one.span, one.size, whole_record(content, compressed, one)) for one in found]
            results.append((records, broken))
        assert results[0] == results[1]
        unpacked = gzip.decompress(content) if content and compressed else content
        assert all(raw in unpacked for *_, raw in results[0][0])
        count += len(found)
    assert count > 200


@resiliparse
@pytest.mark.parametrize(
    ("body", "header"),
    [
        (b"\x1f\x8b no gzip after all", ZIPPED),
        *((body, CHUNKED) for body in (b"5\r\nmore than five", b"5\r\nmor", b"5\r\nwords\r\nz\r\n")),
        (zlib.compress(html(words(0)))[:9] + bytes(40), "Content-Encoding: deflate"),
        (html(words(0)), "Content-Encoding: compress"),
    ],
)
def test_a_page_of_broken_content_is_rejected(tmp_path: Path, body: bytes, header: str) -> None:
    first, *others = [page("a", html(words(0))), page("b", html(words(0))), page("c", html(words(1)))]
    request = record("q", b"GET", "request", REQUEST, WARC_Concurrent_To="<urn:bad>")
    (tmp_path / "a.warc").write_bytes(b"".join([first, page("bad", body, headers=(header,)), *others, request]))
    message = rf"a\.warc: byte {len(first)}: the content of <urn:bad> cannot be read"
    with pytest.raises(DamagedInputError, match=message):
        run(tmp_path / "a.warc", tmp_path / "out")
    result = run(tmp_path / "a.warc", tmp_path / "out", on_error="skip")
    (row,) = rejected(result.output)
    assert (row["row"], row["rows"], row["unit"], row["offset"]) == (1, 1, "byte", len(first))
    assert (result.funnel["documents"], result.funnel["rejected"]) == (3, 1)
    assert [(row["row"], row["id"]) for row in evidence(result.output)] == [(2, "<urn:b>")]
    assert (tmp_path / "out/data/a.warc").read_bytes() == first + others[1]


@resiliparse
def test_an_undecodable_charset_is_unknown() -> None:
    assert page_text("<p>é".encode() * 2000, "\udce9", is_html=True).startswith("é".encode())


@resiliparse
def test_a_page_that_takes_too_long_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resiliparse's time for a tag grows with the square of its attributes."""
    tag = f"<p {' '.join(f'a{number}=1' for number in range(30_000))}>".encode()
    first, *others = [page("a", html(words(0)) * 20), page("b", html(words(0)) * 20), page("c", html(words(1)) * 20)]
    (tmp_path / "a.warc").write_bytes(b"".join([first, page("bad", tag + html(words(2))), *others]))
    monkeypatch.setattr("gpulsh.io.html.MIN_SECONDS", 1)
    monkeypatch.setattr("gpulsh.io.html.BYTE_SECONDS", 0)
    result = run(tmp_path / "a.warc", tmp_path / "out", on_error="skip")
    (row,) = rejected(result.output)
    assert row["row"] == 1 and row["reason"].endswith("its HTML takes more than 1 s of processor time")
    assert [(row["row"], row["id"]) for row in evidence(result.output)] == [(2, "<urn:b>")]


@resiliparse
@pytest.mark.parametrize(
    ("name", "value", "kind", "message"),
    [
        ("CHILD", "import os; os.write(1, b'+'); os.abort()", MemoryLimitError, "a.warc: byte 0: the record: "),
        ("CHILD", "import sys; sys.exit(3)", InputError, "no process can read HTML: .* ended with status 3"),
        ("sys.executable", "/no/python", InputError, "no process can be started to read HTML: No such file"),
    ],
)
def test_a_failing_html_process_is_a_plain_error(
    tmp_path: Path, name: str, value: str, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.warc").write_bytes(page("a", html(words(0)) * 20))
    monkeypatch.setattr("gpulsh.io.html._idle", [])
    monkeypatch.setattr(f"gpulsh.io.html.{name}", value)
    with pytest.raises(kind, match=message):
        run(tmp_path / "a.warc", tmp_path / "out", on_error="skip")


# --- records that are larger than a budget allows, or become so once unpacked, are never in memory ---


BODY = gzip.compress(b"word " * (13 << 20), 1)
TAGS = ("<p>", "<b a=1 c=2>", "<i a b c d e f g h>", "<br/>", "<")
TOO_LARGE = {
    "in a member": (8 << 20, "wet.gz", gzip.compress(record(1, b"one") + record(2, b"x" * (64 << 20)), 1)),
    **{kind: (8 << 20, "warc", page("p", BODY, kind, (ZIPPED,))) for kind in ("text/html", "text/plain")},
    **{tag: (100 << 20, "warc", page("p", tag.encode() * ((3 << 20) // len(tag)))) for tag in TAGS},
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_records_beyond_the_budget_are_refused(tmp_path: Path, name: str) -> None:
    budget, ending, content = TOO_LARGE[name]
    if ending == "warc":
        pytest.importorskip("resiliparse", reason="the extra warc is not installed")
    (tmp_path / f"a.{ending}").write_bytes(content)
    line = r"byte 0: the record: (has 67108864 bytes|about \d+ bytes to read; a memory budget of \d+MiB allows \d+MiB)"
    with at_most(24 << 20), pytest.raises(LargeDocumentError, match=line):
        documents(tmp_path / f"a.{ending}", Limit(budget))


@resiliparse
def test_large_pages_within_the_budget_are_read(tmp_path: Path) -> None:
    """One is a large ordinary page; the other is HTTP whose header has no end."""
    links = b'<p class="entry of a list"><a href="https://example.org/a/path?x=1">a link of a few words</a></p>\n'
    times = (4 << 20) // len(links)
    endless = record(2, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (1 << 19), "response", HTTP)
    (tmp_path / "a.warc").write_bytes(page("p", links * times) + endless + record(3, b"three"))
    (text, *others) = documents(tmp_path / "a.warc", Limit(512 << 20), skip=True)
    assert text.count(b"a link of a few words") == times and others == [b"", b"three"]


def test_kept_records_are_equal_whether_held_or_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    sizes = [10, 1_300_000, 200, 70_000, 2 << 20, 5]
    records = [record(row, random.integers(97, 105, size, np.uint8).tobytes()) for row, size in enumerate(sizes)]
    keep = [True, True, False, True, True, True]
    for name, packed in (("one.wet.gz", gzip.compress(b"".join(records), 1)), ("plain.wet", b"".join(records))):
        (tmp_path / name).write_bytes(packed)
        held = write_kept(tmp_path / name, keep, "held").read_bytes()
        with monkeypatch.context() as patch, at_most(24 << 20):
            patch.setattr(framing, "LARGE", 1000)
            patch.setattr(framing, "SHOWN", 100)
            passed = write_kept(tmp_path / name, keep, "passed")
        assert passed.read_bytes() == held
        content = gzip.decompress(held) if name.endswith("gz") else held
        assert content == b"".join(one for one, kept in zip(records, keep, strict=True) if kept)


@pytest.mark.parametrize("wrong", [1, 40])
def test_records_after_wrong_lengths_are_read(wrong: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "LARGE", 1000)
    false_lengths = length_of(record(7, b"y" * 1500), "1400") * wrong
    (tmp_path / "a.wet.gz").write_bytes(gzip.compress(record(1, b"one") + false_lengths + record(3, b"two")))
    assert documents(tmp_path / "a.wet.gz", Limit(4000), skip=True) == [b"one", b"two"]


def test_many_damaged_stretches_take_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "BLOCK_ROWS", 1000)
    path = tmp_path / "a.wet.gz"
    last = record(2, b"one")
    path.write_bytes(gzip.compress((record(1, b"", "metadata") + b"WARC/1.0\r\n") * 2500 + last, 1))
    (file,) = find_files([str(path)])
    blocks = format_of(file).read(file, Columns(text="text"), rules=Rules(skip=True))
    assert [len(block.rejected) for block in blocks] == [1000, 1000, 500]
    for inside, most in ((b"", 1 << 20), (b"\r\n", 1 << 20), (b"a", 8 << 20)):
        begin = b"WARC/1.0\r\nContent-Length: 900000\r\n\r\n" if inside == b"a" else b""
        path.write_bytes(gzip.compress(begin) + gzip.compress(inside) * 5000 + gzip.compress(last))
        with at_most(most):
            assert documents(path, Limit(8 << 20), skip=True) == [b"one"]


def test_records_become_rows_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.warc.wet").write_bytes(b"".join(record(number, b"page %d" % number) for number in range(5)))
    monkeypatch.setattr(warc, "BLOCK_ROWS", 2)
    data = run(tmp_path / "a.warc.wet", tmp_path / "out", format="jsonl").data
    (path,) = data.iterdir()
    assert [row["text"] for row in read_rows(path)] == [f"page {number}" for number in range(5)]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_text_of_a_large_record_is_whole(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LARGE", "SHOWN"):
        monkeypatch.setattr(framing, name, 1000)
    texts = [b"short", b"long words " * 20_000, b"another"]
    records = [record(number, text) for number, text in enumerate(texts)]
    path = tmp_path / f"a.warc.wet{ending}"
    path.write_bytes(b"".join(map(gzip.compress, records) if ending else records))
    assert documents(path) == texts
