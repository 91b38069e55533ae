"""WARC and WET: which records are documents, how they are framed, what is copied, and what is said of broken ones."""

import gzip
import io
import random
import sys
import zlib
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import DamagedInputError, InputError, LargeDocumentError
from gpulsh.io.columns import Columns
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Rules
from gpulsh.io.formats import warc
from gpulsh.io.formats import warc_records as framing
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit
from tests.support import files
from tests.support.files import write_kept
from tests.support.runs import evidence, run
from tests.support.traced import at_most

HTTP = "application/http; msgtype=response"


def record(kind: str, name: str, content: bytes, content_type: str | None = "text/plain", **more: str) -> bytes:
    headers = {"WARC-Type": kind, "WARC-Record-ID": f"<{name}>", "WARC-Date": "2024-01-01T00:00:00Z"}
    headers |= {header.replace("_", "-"): value for header, value in more.items()}
    headers |= {"Content-Type": content_type} if content_type else {}
    lines = ["WARC/1.0", *(f"{header}: {value}" for header, value in headers.items())]
    lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n\r\n"


def words(number: int, count: int = 30) -> str:
    return " ".join(f"w{number}x{place}" for place in range(count))


def page(name: str, body: bytes, content_type: str = "text/html", headers: tuple[str, ...] = (), **more: str) -> bytes:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {content_type}", *headers]).encode()
    return record("response", name, head + b"\r\n\r\n" + body, HTTP, **more)


INFO = record("warcinfo", "info", b"software: none\r\n", "application/warc-fields")
TEXTS = [words(0), words(1), "", words(0), words(2), words(1) + " and"]
WET = [INFO, *(record("conversion", f"t{row}", text.encode()) for row, text in enumerate(TEXTS))]
KEPT = [0, 1, 2, 3, 5]  # of WET: TEXTS[3] copies TEXTS[0], and TEXTS[5] nearly TEXTS[1]


def packed(records: list[bytes]) -> bytes:
    return b"".join(gzip.compress(one, mtime=0) for one in records)


@pytest.mark.parametrize("name", ["a.warc.wet.gz", "a.wet", "a.wet.gz", "a.warc"])
def test_kept_records_byte_for_byte(tmp_path: Path, name: str) -> None:
    join: Callable[[list[bytes]], bytes] = packed if name.endswith(".gz") else b"".join
    (tmp_path / name).write_bytes(join(WET))
    result = run(tmp_path / name, tmp_path / "out")
    assert (tmp_path / "out/data" / name).read_bytes() == join([WET[row] for row in KEPT])
    assert result.funnel["documents"] == 6
    assert [
        (row["row"], row["id"], row["duplicate_of_row"], row["duplicate_of_id"]) for row in evidence(result.output)
    ] == [(3, "<t3>", 0, "<t0>"), (5, "<t5>", 1, "<t1>")]


def test_records_that_share_a_member_get_one_each(tmp_path: Path) -> None:
    (tmp_path / "a.wet.gz").write_bytes(gzip.compress(b"".join(WET[:3])) + gzip.compress(b"".join(WET[3:])))
    run(tmp_path / "a.wet.gz", tmp_path / "out")
    content = (tmp_path / "out/data/a.wet.gz").read_bytes()
    assert gzip.decompress(content) == b"".join(WET[row] for row in KEPT)
    found = framed(content, True)
    assert [one.raw for one in found] == [WET[row] for row in KEPT]
    assert [one.span is not None for one in found] == [True] * len(KEPT)


def test_headers_are_columns(tmp_path: Path) -> None:
    dates = ["2024-01-01T00:00:00Z", "2024-05-01T00:00:00.5Z", "2023-01-01T00:00:00Z"]
    records = [
        record("conversion", f"n{row}", words(0).encode(), WARC_Date=date, WARC_Target_URI=f"http://x/{row}")
        for row, date in enumerate(dates)
    ]
    (tmp_path / "a.wet").write_bytes(b"".join(records))
    result = run(tmp_path / "a.wet", tmp_path / "out", id_column="warc-target-URI", keep="WARC-Date")
    assert (tmp_path / "out/data/a.wet").read_bytes() == records[1]
    assert [(row["id"], row["duplicate_of_id"]) for row in evidence(result.output)] == [
        ("http://x/0", "http://x/1"),
        ("http://x/2", "http://x/1"),
    ]
    with pytest.raises(InputError, match=r"a\.wet: has no column 'WARC-Color'.*warc-date"):
        run(tmp_path / "a.wet", tmp_path / "out2", id_column="WARC-Color")
    with pytest.raises(InputError, match=r"keep takes its header WARC-Date, not 'Content-Length'"):
        run(tmp_path / "a.wet", tmp_path / "out2", keep="Content-Length")


def test_only_text_is_a_document(tmp_path: Path) -> None:
    records = [
        INFO,
        record("conversion", "image", words(0).encode(), "image/png"),
        record("conversion", "typed", words(0).encode(), None),
        record("metadata", "about", words(0).encode()),
        record("conversion", "text", words(0).encode(), "text/plain; charset=utf-8"),
    ]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    result = run(tmp_path / "a.warc", tmp_path / "out")
    assert (result.funnel["documents"], result.funnel["dropped"]) == (2, 1)
    assert (tmp_path / "out/data/a.warc").read_bytes() == b"".join(records[:4])


# --- web pages ---

resiliparse = pytest.mark.skipif(find_spec("resiliparse") is None, reason="the extra warc is not installed")


def html(text: str, charset: str = "utf-8", meta: str = "") -> bytes:
    return f"<html><head>{meta}<title>t</title><style>p {{}}</style></head><body><p>{text}</p></body></html>".encode(
        charset
    )


def chunked(body: bytes) -> bytes:
    return (
        b"".join(b"%x\r\n%s\r\n" % (len(body[at : at + 7]), body[at : at + 7]) for at in range(0, len(body), 7))
        + b"0\r\n\r\n"
    )


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
    page("o", zlib.compress(html(WORDS)), headers=("Content-Encoding: deflate",)),
    page("o", zlib.compress(html(WORDS), wbits=-15), headers=("Content-Encoding: deflate",)),
    page("o", gzip.compress(zlib.compress(html(WORDS))), headers=("Content-Encoding: deflate, gzip",)),
    page("o", html(WORDS), headers=("Content-Encoding: utf-8",)),
    page("o", WORDS.encode("utf-16"), "text/plain; charset=utf-16"),
    page("o", html(WORDS), "application/xhtml+xml"),
    record("resource", "o", html(WORDS), "text/html"),
    record("conversion", "o", html(WORDS), "text/html"),
    record("conversion", "o", WORDS.encode()),
]


@resiliparse
def test_the_text_of_a_page(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(b"".join(PAGES))
    result = run(tmp_path / "a.warc", tmp_path / "out")
    assert (result.funnel["documents"], result.funnel["exact_copies"]) == (len(PAGES), len(PAGES) - 1)
    assert [row["row"] for row in evidence(result.output)] == list(range(1, len(PAGES)))


@resiliparse
def test_what_belongs_to_a_dropped_page_goes_with_it(tmp_path: Path) -> None:
    records = {
        "info": INFO,
        "request a": record(
            "request", "qa", b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request", WARC_Concurrent_To="<a>"
        ),
        "a": page("a", html(words(0))),
        "metadata a": record("metadata", "ma", b"x: y", "application/warc-fields", WARC_Concurrent_To="<a>"),
        "image": page("i", b"\x89PNG", "image/png"),
        "request b": record("request", "qb", b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request"),
        "b": page("b", html(words(0)), WARC_Concurrent_To="<qb>"),
        "metadata b": record("metadata", "mb", b"x: y", "application/warc-fields", WARC_Concurrent_To="<b>"),
        "revisit b": record("revisit", "rb", b"HTTP/1.1 200 OK\r\n\r\n", HTTP, WARC_Refers_To="<b>"),
        "more of b": record("continuation", "cb", b"more", None, WARC_Segment_Origin_ID="<b>"),
        "revisit": record("revisit", "r", b"HTTP/1.1 200 OK\r\n\r\n", HTTP, WARC_Refers_To="<elsewhere>"),
    }
    gone = {"request b", "b", "metadata b", "revisit b", "more of b"}
    (tmp_path / "a.warc.gz").write_bytes(packed(list(records.values())))
    result = run(tmp_path / "a.warc.gz", tmp_path / "out")
    assert result.funnel["documents"] == 2
    kept = packed([one for name, one in records.items() if name not in gone])
    assert (tmp_path / "out/data/a.warc.gz").read_bytes() == kept


def test_a_missing_extra_is_named_and_wet_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fastwarc", "fastwarc.warc", "resiliparse", "resiliparse.extract.html2text"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.wet").write_bytes(b"".join(WET))
    assert run(tmp_path / "a.wet", tmp_path / "out").funnel["documents"] == 6
    (tmp_path / "a.warc").write_bytes(INFO + page("p", html(words(0))))
    for on_error in ("fail", "skip"):
        with pytest.raises(
            InputError, match=r"a\.warc: holds web pages, and .*fastwarc.*; pip install .gpulsh\[warc\]."
        ):
            run(tmp_path / "a.warc", tmp_path / "out2", on_error=on_error)


# --- framing ---


def framed(content: bytes, compressed: bool, broken: list[Any] | None = None) -> list[framing.Record]:
    told: list[Any] = [] if broken is None else broken
    found = list(framing.warc_records(io.BytesIO(content), compressed, lambda *what: told.append(what)))
    assert broken is not None or not told
    return found


def whole(content: bytes, compressed: bool, one: framing.Record) -> bytes:
    """All of a record, also of one that is not held."""
    if len(one.raw) == one.whole:
        return one.raw
    return b"".join(framing.record_bytes(io.BytesIO(content), compressed, one))


@pytest.mark.parametrize("step", [1, 7, 64])
def test_records_do_not_depend_on_how_the_file_is_read(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    draw = random.Random(step)
    contents = [draw.randbytes(draw.choice([0, 1, 2, 50, 700])) for _ in range(12)]
    contents += [b"\r\n\r\n", b"\r\n\r\nWARC/1.0\r\nWARC-Type: conversion\r\n\r\n", b"\0" * 9, b"\r\n"]
    records = [record("conversion", str(row), content, "text/plain") for row, content in enumerate(contents)]
    monkeypatch.setattr(framing, "PLAIN_STEP", step)
    monkeypatch.setattr("gpulsh.io.compression.PLAIN_STEP", step)
    monkeypatch.setattr("gpulsh.io.compression.PACKED_STEP", step)
    members = [gzip.compress(one) + bytes(draw.choice([0, 0, 3])) for one in records]
    shared = (
        gzip.compress(b"".join(records[:5])) + b"\0" * 5 + gzip.compress(b"") + gzip.compress(b"".join(records[5:]))
    )
    for large in (1, framing.LARGE):
        monkeypatch.setattr(framing, "LARGE", large)
        for content, compressed in ((b"".join(records), False), (b"".join(members), True), (shared, True)):
            found = framed(content, compressed)
            raw = [whole(content, compressed, one) for one in found]
            assert raw == records
            assert [bytes(one._replace(raw=all_of).content) for one, all_of in zip(found, raw, strict=True)] == contents
        assert [one.span for one in framed(shared, True)] == [None] * len(records)
        found = framed(b"".join(members), True)
        assert [b"".join(members)[slice(*one.span or ())] for one in found] == members
        assert [one.offset for one in found] == [len(b"".join(members[:row])) for row in range(len(members))]
    assert [one.offset for one in framed(b"".join(records), False)] == [
        len(b"".join(records[:row])) for row in range(len(records))
    ]


@resiliparse
def test_fastwarc_reads_the_same_records() -> None:
    from fastwarc.warc import ArchiveIterator

    draw = random.Random(4)
    records = [record("conversion", str(row), draw.randbytes(draw.randrange(3000))) for row in range(50)]
    for content, compressed in ((b"".join(records), False), (packed(records), True)):
        theirs = [
            (one.stream_pos, one.record_id, one.reader.read())
            for one in ArchiveIterator(io.BytesIO(content), parse_http=False)
        ]
        ours = [(one.offset, one.header("warc-RECORD-id"), bytes(one.content)) for one in framed(content, compressed)]
        assert ours == theirs


def test_what_is_between_records_and_how_headers_are_written() -> None:
    odd = b"WARC/1.1\r\nwarc-type:conversion\r\nX:  a\r\n\t b\r\nNo colon\r\nX: c\r\nContent-Length:3\r\n\r\nabc"
    found = framed(b"\r\n\n" + WET[1] + b"\r\n\r\n" + odd + b"\r\n\r\n" + WET[2].rstrip(b"\r\n") + b"\r\n", False)
    assert [bytes(one.content) for one in found] == [TEXTS[0].encode(), b"abc", TEXTS[1].encode()]
    assert found[1].headers["x"] == ["a b", "c"]
    assert found[1].header("WARC-Type") == "conversion"
    assert found[1].header("Missing") is None
    assert framed(b"", False) == framed(b"", True) == framed(gzip.compress(b""), True) == []


def wrong_length(one: bytes, length: bytes) -> bytes:
    head, _, rest = one.partition(b"Content-Length: ")
    return head + b"Content-Length: " + length + rest[rest.index(b"\r\n") :]


def flipped(content: bytes, place: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 0xFF
    return bytes(changed)


# name: (the file, compressed, records that are left, bytes of broken stretches, what is told of the first)
A, B, C = WET[1], WET[2], WET[5]
GA, GB, GC = (gzip.compress(one, mtime=0) for one in (A, B, C))
BROKEN: dict[str, tuple[bytes, bool, list[bytes], list[int], str]] = {
    "cut in content": (A + B[:-40], False, [A], [len(A)], "cut short: "),
    "cut in header": (A + B[:50], False, [A], [len(A)], "cut short in its header"),
    "too long": (A + wrong_length(B, b"99999") + C, False, [A, C], [len(A)], "cut short"),
    "too long by one record": (
        A + wrong_length(B, b"%d" % (len(C) + 200)) + C + A,
        False,
        [A, C, A],
        [len(A)],
        "does not end",
    ),
    "too short": (A + wrong_length(B, b"9") + C, False, [A, C], [len(A)], "does not end after the 9 bytes"),
    "no length": (A + wrong_length(B, b"") + C, False, [A, C], [len(A)], "Content-Length"),
    "negative length": (A + wrong_length(B, b"-5") + C, False, [A, C], [len(A)], "Content-Length of the record is -5"),
    "noise between": (A + b"some noise\r\n\r\n" + C, False, [A, C], [len(A)], "no WARC record begins"),
    "noise before": (b"some noise\r\n" + C, False, [C], [0], "no WARC record begins"),
    "noise alone": (b"some noise", False, [], [0], "no WARC record begins"),
    "line feeds alone": (A.replace(b"\r\n", b"\n"), False, [], [0], "cut short in its header"),
    "gzip, cut": (GA + GB[:-30], True, [A], [len(GA)], "truncated"),
    "gzip, cut in the middle": (GA + GB[:-30] + GC + GA, True, [A, C, A], [len(GA)], "broken"),
    "gzip, checksum": (GA + flipped(GB, -7) + GC, True, [A, C], [len(GA)], "broken"),
    "gzip, first member": (flipped(GA, 3) + GB + GC, True, [B, C], [0], "broken"),
    "gzip, last member": (GA + GB + flipped(GC, 1), True, [A, B], [len(GA + GB)], "broken"),
    "gzip, record cut before it was packed": (GA + gzip.compress(B[:-40]) + GC, True, [A, C], [len(GA)], "cut short"),
    "gzip, noise packed": (GA + gzip.compress(b"noise") + GC, True, [A, C], [len(GA)], "no WARC record begins"),
    "gzip, noise": (GA + b"noise" + GC, True, [A, C], [len(GA)], "broken"),
    "gzip, no gzip": (A + B, True, [], [0], "broken"),
    "gzip, damage in a shared member": (GA + flipped(gzip.compress(B + C), -7) + GA, True, [A, A], [len(GA)], "broken"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_told_and_the_rest_is_read(tmp_path: Path, name: str) -> None:
    content, compressed, left, places, told = BROKEN[name]
    broken: list[Any] = []
    found = framed(content, compressed, broken)
    assert [bytes(one.raw) for one in found] == left
    assert [place for place, _ in broken] == places
    assert told in broken[0][1]
    file = tmp_path / ("a.wet.gz" if compressed else "a.wet")
    file.write_bytes(content)
    with pytest.raises(DamagedInputError, match=rf"{file.name}: byte {places[0]}: .*{told}"):
        run(file, tmp_path / "out")
    result = run(file, tmp_path / "out", on_error="skip")
    (row,) = pq.read_table(tmp_path / "out/rejected.parquet").to_pylist()
    assert (row["rows"], row["unit"], row["offset"]) == (0, "byte", places[0])
    assert result.funnel["documents"] == len(left)
    unique = list(dict.fromkeys(left))
    data = tmp_path / "out/data" / file.name
    if left:
        content = data.read_bytes()
        assert (gzip.decompress(content) if compressed else content) == b"".join(unique)
    else:
        assert not data.exists()


def test_what_is_broken_up_to_the_next_record_is_one_stretch(tmp_path: Path) -> None:
    torn = b"WARC/1.0\r\n" + A[:30] + b"\r\nnoise\r\n" + wrong_length(B, b"9")
    (tmp_path / "a.wet").write_bytes(torn + INFO + torn + C + torn)
    members = [gzip.compress(b"WARC/1.0\r\n"), flipped(GB, -7), gzip.compress(b"noise"), GA, flipped(GA, 3), GB[:-4]]
    (tmp_path / "b.wet.gz").write_bytes(b"".join(members))
    result = run([tmp_path / "a.wet", tmp_path / "b.wet.gz"], tmp_path / "out", on_error="skip")
    found = pq.read_table(tmp_path / "out/rejected.parquet").to_pylist()
    after = len(torn + INFO), len(torn + INFO + torn + C), len(b"".join(members[:4]))
    assert [(Path(row["file"]).name, row["row"], row["rows"], row["offset"]) for row in found] == [
        *(("a.wet", row, 0, offset) for row, offset in [(0, 0), (0, after[0]), (1, after[1])]),
        *(("b.wet.gz", row, 0, offset) for row, offset in [(0, 0), (1, after[2])]),
    ]
    assert [row["reason"].partition(": ")[2][:35] for row in found] == [
        *["the record is cut short in its head"] * 4,
        "its compressed data is broken (Erro",
    ]
    assert (result.funnel["documents"], result.funnel["rejected"]) == (2, 5)


PARTS = [
    *(b"WARC/1.0\r\n", b"WARC/0.17\r\n", b"WARC/1.0\n", b"\r\n", b"\r\n\r\n", b"\n", b"a: b\r\n", b"abc"),
    *(b"Content-Length: 0\r\n", b"content-LENGTH:3\r\n", b"Content-Length: 70\r\n", b" -length\r\n"),
    b"WARC/1.0\r\nContent-Length: 0\r\n\r\n\r\n\r\n",
    *(A, wrong_length(A, b"100"), wrong_length(A, b"300")),
]


@pytest.mark.parametrize("compressed", [False, True])
def test_each_pass_finds_the_same_records(compressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones too, and however the file is read."""
    draw, count = random.Random(1), 0
    for _ in range(400):
        parts = [b"".join(draw.choices(PARTS, k=draw.randrange(12))) for _ in range(draw.randrange(4))]
        content = packed(parts) if compressed else b"".join(parts)
        monkeypatch.setattr(framing, "LARGE", draw.choice([100, 8 << 20]))
        results = []
        for step in (4 << 20, 7):
            monkeypatch.setattr(framing, "PLAIN_STEP", step)
            broken: list[Any] = []
            found = framed(content, compressed, broken)
            results.append(
                ([(one.offset, one.span, one.size, whole(content, compressed, one)) for one in found], broken)
            )
        assert results[0] == results[1]
        unpacked = gzip.decompress(content) if content and compressed else content
        assert all(raw in unpacked for *_, raw in results[0][0])
        count += len(found)
    assert count > 200


def test_broken_stretches_stand_before_the_row_that_follows(tmp_path: Path) -> None:
    (tmp_path / "a.wet").write_bytes(A + b"noise\r\n" + B + C + b"noise\r\n" + INFO)
    run(tmp_path / "a.wet", tmp_path / "out", on_error="skip")
    assert pq.read_table(tmp_path / "out/rejected.parquet").column("row").to_pylist() == [1, 3]


@resiliparse
@pytest.mark.parametrize(
    "bad",
    [
        page("bad", b"\x1f\x8b no gzip after all", headers=("Content-Encoding: gzip",)),
        page("bad", b"5\r\nmore than five", headers=("Transfer-Encoding: chunked",)),
        page("bad", b"5\r\nmor", headers=("Transfer-Encoding: chunked",)),
        page("bad", b"5\r\nwords\r\nz\r\n", headers=("Transfer-Encoding: chunked",)),
        page("bad", zlib.compress(html(words(0)))[:9] + bytes(40), headers=("Content-Encoding: deflate",)),
        page("bad", html(words(0)), headers=("Content-Encoding: compress",)),
    ],
)
def test_a_page_whose_content_is_broken(tmp_path: Path, bad: bytes) -> None:
    records = [page("a", html(words(0))), bad, page("b", html(words(0))), page("c", html(words(1)))]
    request = record("request", "q", b"GET", "application/http; msgtype=request", WARC_Concurrent_To="<bad>")
    (tmp_path / "a.warc").write_bytes(b"".join([*records, request]))
    with pytest.raises(
        DamagedInputError, match=rf"a\.warc: byte {len(records[0])}: the content of <bad> cannot be read"
    ):
        run(tmp_path / "a.warc", tmp_path / "out")
    result = run(tmp_path / "a.warc", tmp_path / "out", on_error="skip")
    (row,) = pq.read_table(tmp_path / "out/rejected.parquet").to_pylist()
    assert (row["row"], row["rows"], row["unit"], row["offset"]) == (1, 1, "byte", len(records[0]))
    assert (result.funnel["documents"], result.funnel["rejected"]) == (3, 1)
    assert [(row["row"], row["id"]) for row in evidence(result.output)] == [(2, "<b>")]
    assert (tmp_path / "out/data/a.warc").read_bytes() == records[0] + records[3]


# --- records that are larger than a budget allows, or become so once unpacked, are never in memory ---


LIMIT = Limit(8 << 20)
LARGE = 20 << 20
OF_HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


documents = partial(files.documents, limit=LIMIT)


def response(number: int, content: bytes) -> bytes:
    return files.record(number, content, "response", "application/http; msgtype=response")


def test_a_large_record_behind_others_in_a_member(tmp_path: Path) -> None:
    path = tmp_path / "a.wet.gz"
    path.write_bytes(gzip.compress(files.record(1, b"one") + files.record(2, b"x" * (64 << 20)), 1))
    with at_most(24 << 20), pytest.raises(LargeDocumentError, match=r"byte 0: the record: has 67108864 bytes"):
        documents(path)


def test_what_is_written_does_not_depend_on_what_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    sizes = [10, 1_300_000, 200, 70_000, 2 << 20, 5]
    records = [files.record(row, random.integers(97, 105, size, np.uint8).tobytes()) for row, size in enumerate(sizes)]
    keep = [True, True, False, True, True, True]
    for name, packed in (("one.wet.gz", gzip.compress(b"".join(records), 1)), ("plain.wet", b"".join(records))):
        (tmp_path / name).write_bytes(packed)
        held = write_kept(tmp_path / name, keep, "held").read_bytes()
        with monkeypatch.context() as patch, at_most(24 << 20):
            for bound, value in {"LARGE": 1000, "SHOWN": 100}.items():
                patch.setattr(framing, bound, value)
            passed = write_kept(tmp_path / name, keep, "passed")
        assert passed.read_bytes() == held
        content = gzip.decompress(held) if name.endswith("gz") else held
        assert content == b"".join(one for one, kept in zip(records, keep, strict=True) if kept)


@pytest.mark.parametrize("wrong", [1, 40])
def test_wrong_lengths_behind_others_in_a_member(wrong: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "LARGE", 1000)
    lies = [files.record(7, b"y" * 1500).replace(b"Length: 1500", b"Length: 1400")] * wrong
    records = [files.record(1, b"one"), *lies, files.record(3, b"two")]
    (tmp_path / "a.wet.gz").write_bytes(gzip.compress(b"".join(records)))
    assert documents(tmp_path / "a.wet.gz", limit=Limit(4000), skip=True) == [b"one", b"two"]


def test_many_stretches_and_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "BLOCK_ROWS", 1000)
    path = tmp_path / "a.wet.gz"
    path.write_bytes(
        gzip.compress((files.record(1, b"", "metadata") + b"WARC/1.0\r\n") * 2500 + files.record(2, b"one"), 1)
    )
    (file,) = find_files([str(path)])
    blocks = format_of(file).read(file, Columns(text="text"), rules=Rules(skip=True))
    assert [len(block.rejected) for block in blocks] == [1000, 1000, 500]
    for inside, most in ((b"", 1 << 20), (b"\r\n", 1 << 20), (b"a", 8 << 20)):
        begin = b"WARC/1.0\r\nContent-Length: 900000\r\n\r\n" if inside == b"a" else b""
        path.write_bytes(gzip.compress(begin) + gzip.compress(inside) * 5000 + gzip.compress(files.record(2, b"one")))
        with at_most(most):
            assert documents(path, skip=True) == [b"one"]


@resiliparse
@pytest.mark.parametrize("kind", [b"text/html", b"text/plain"])
def test_a_body_that_is_unpacked_to_more(kind: bytes, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\n\r\n" % kind
    (tmp_path / "a.warc").write_bytes(response(1, head + gzip.compress(b"word " * ((64 << 20) // 5), 1)))
    told = r"byte 0: the record: about \d+ bytes to read; a memory budget of 8MiB allows 4MiB: give memory="
    with at_most(24 << 20), pytest.raises(LargeDocumentError, match=told):
        documents(tmp_path / "a.warc")


@resiliparse
@pytest.mark.parametrize("tag", [b"<p>", b"<b a=1 c=2>", b"<i a b c d e f g h>", b"<br/>", b"<"])
def test_a_page_of_many_elements(tag: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(response(1, OF_HTML + tag * ((3 << 20) // len(tag))))
    with pytest.raises(LargeDocumentError, match=r"byte 0: the record: about \d+ bytes to read"):
        documents(tmp_path / "a.warc", limit=Limit(100 << 20))


@resiliparse
def test_an_ordinary_large_page(tmp_path: Path) -> None:
    links = b'<p class="entry of a list"><a href="https://example.org/a/path?x=1">a link of a few words</a></p>\n'
    (tmp_path / "a.warc").write_bytes(response(1, OF_HTML + links * ((4 << 20) // len(links))))
    (text,) = documents(tmp_path / "a.warc", limit=Limit(512 << 20))
    assert text.count(b"a link of a few words") == (4 << 20) // len(links)


@resiliparse
def test_a_large_record_whose_http_has_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.warc").write_bytes(
        response(1, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (1 << 19)) + files.record(2, b"two")
    )
    assert documents(tmp_path / "a.warc", limit=Limit(512 << 20), skip=True) == [b"", b"two"]
