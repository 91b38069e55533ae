"""WARC and WET, plain and gzip: headers that lie, records that nest or never end, pages that are no pages."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from random import Random

from tests.fuzz.case import Case, options
from tests.fuzz.damage import damaged, integer
from tests.fuzz.documents import documents
from tests.fuzz.packed import gzip_member, odd_gzip, repeated_member

IDS = ["WARC-Record-ID", "warc-target-uri", "WARC-Date", "X-None"]
KEYS = ["WARC-Date", "warc-date"]
LENGTHS = ["", " ", "-1", "+5", "0x10", "1e3", "٥", "5 5", "5;", "0" * 5000 + "5", "9" * 30, "9" * 5000, "None", "²"]


def make(case: Case, folder: Path, ending: str) -> None:
    """`in/a` + `ending`, perhaps beside a whole file."""
    source = case.source()
    texts = documents(source, 16)
    records = [record for text in texts for record in _records(source, text or "", web=".warc" in ending)]
    told: list[str] = []
    if records and source.random() < 0.5:
        place = source.randrange(len(records))
        records[place], note = _odd_record(source, records[place])
        told.append(note)
    if records and source.random() < 0.3:
        place = source.randrange(len(records))
        records[place], note = damaged(source, records[place], source.choice(records))
        told.append(f"a record: {note}")
    content = b"".join(records)
    if ending.endswith(".gz"):
        content, note = _packed(source, records)
        told.append(note)
    if source.random() < 0.35:
        content, note = damaged(source, content)
        told.append(note)
    (folder / "in" / f"a{ending}").write_bytes(content)
    given = [f"in/a{ending}"]
    if source.random() < 0.25:
        others = [record for text in texts[:6] for record in _records(source, text or "", web=False)]
        (folder / "in/b.wet").write_bytes(b"".join(others))
        given.append("in/b.wet")
    case.damage += told
    case.large = any("MiB" in note for note in told)
    case.arguments = ["dedup", *given, "-o", "out", *options(source, IDS, KEYS, case.large)]


def _packed(source: Random, records: list[bytes]) -> tuple[bytes, str]:
    how = source.random()
    if how < 0.6:
        return b"".join(map(gzip_member, records)), "a member a record"
    if how < 0.75:
        return gzip_member(b"".join(records)), "all in one member"
    if how < 0.8:
        unit = source.choice([b"\0", b"a", b"\r\n", b"\n", b"WARC/1.0\r\n", b"x: y\r\n", b"<div>"])
        block, count = unit * ((1 << 20) // len(unit)), source.choice([2, 64, 600, 1500])
        size = len(block) * count
        kind = source.choice([b"conversion", b"response", b"resource", b"metadata"])
        of = {b"conversion": b"text/plain", b"resource": b"text/html"}.get(kind, b"application/http")
        head = b"WARC/1.0\r\nWARC-Type: " + kind + b"\r\nContent-Type: " + of
        told = source.choice([size, size, size - 5, size + 5, 0])
        head += b"\r\nContent-Length: %d\r\n\r\n" % told if source.random() < 0.7 else b"\r\n"
        bomb = repeated_member(head, block, count, b"\r\n\r\n")
        return b"".join(map(gzip_member, records)) + bomb, f"{count} MiB of {unit!r} as {kind.decode()}, told {told}"
    members, note = odd_gzip(source, b"".join(records))
    return members, f"gzip: {note}"


def _records(source: Random, text: str, web: bool) -> list[bytes]:
    """A document and what accompanies it."""
    name = f"<urn:uuid:{source.getrandbits(64):016x}>"
    body = text.encode("utf-8", "replace")
    date = f"20{source.randrange(100):02}-01-0{source.randint(1, 9)}T00:00:00Z"
    if not web or source.random() < 0.3:
        of = source.choice(["text/plain", "text/plain", "text/plain; charset=utf-8"])
        return [
            record({"WARC-Type": "conversion", "WARC-Record-ID": name, "WARC-Date": date, "Content-Type": of}, body)
        ]
    of = source.choice(["text/html", "text/html; charset=utf-8", "text/plain", "image/png", "application/xhtml+xml"])
    page = b"<html><body><p>" + body.replace(b" ", b"</p><p>", 2) + b"</p></body></html>" if "html" in of else body
    http = {"Content-Type": of}
    coding = source.random()
    if coding < 0.15:
        http["Content-Encoding"], page = "gzip", gzip.compress(page, mtime=0)
    elif coding < 0.2:
        http["Content-Encoding"], page = "deflate", zlib.compress(page)
    if source.random() < 0.2:
        http["Transfer-Encoding"], page = (
            "chunked",
            b"%x\r\n%s\r\n0\r\n\r\n" % (len(page), page) if page else b"0\r\n\r\n",
        )
    lines = "".join(f"{header}: {value}\r\n" for header, value in http.items())
    answer = b"HTTP/1.1 200 OK\r\n" + lines.encode() + b"\r\n" + page
    headers = {"WARC-Type": "response", "WARC-Record-ID": name, "WARC-Date": date, "WARC-Target-URI": "http://a.b/"}
    found = [record({**headers, "Content-Type": "application/http; msgtype=response"}, answer)]
    if source.random() < 0.3:
        request = {"WARC-Type": "request", "WARC-Concurrent-To": name, "WARC-Record-ID": name + "r"}
        found.append(
            record({**request, "Content-Type": "application/http; msgtype=request"}, b"GET / HTTP/1.1\r\n\r\n")
        )
    return found


def record(headers: dict[str, str], content: bytes, version: str = "WARC/1.0") -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{version}\r\n{lines}Content-Length: {len(content)}\r\n\r\n"
    return head.encode("utf-8", "surrogatepass") + content + b"\r\n\r\n"


def _odd_record(source: Random, whole: bytes) -> tuple[bytes, str]:
    head, _, content = whole.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    how = source.choice(
        [
            *(
                "length",
                "length",
                "no length",
                "lengths",
                "many lines",
                "long line",
                "folded",
                "ends",
                "version",
                "date",
            ),
            *("names itself", "type", "content type", "charset", "http", "deep page", "chunk", "no colon", "nested"),
        ]
    )
    at = source.randrange(1, len(lines) + 1)
    if how == "length":
        told = source.choice([*LENGTHS, str(integer(source)), str(len(content)), str(len(content) - 3)])
        lines = [b"Content-Length: " + told.encode() if line.startswith(b"Content-Length") else line for line in lines]
    elif how == "no length":
        lines = [line for line in lines if not line.startswith(b"Content-Length")]
    elif how == "lengths":
        lines.insert(at, b"content-length: 3")
    elif how == "many lines":
        line = source.choice([b"X-A: b", b"WARC-Concurrent-To: <urn:x>", b" more", b":", b"a:"])
        lines[at:at] = [line] * source.choice([100, 30_000, 200_000])
    elif how == "long line":
        lines.insert(
            at, b"X-A: " + source.choice([b"a", b" ", b":", b"\xff"]) * source.choice([1000, 1 << 20, 3 << 20])
        )
    elif how == "folded":
        lines[at:at] = [source.choice([b" ", b"\t", b" x"])] * source.choice([1, 50_000])
    elif how == "ends":
        return source.choice([b"\n", b"\r", b"\r\r\n"]).join(lines) + b"\n\n" + content, how
    elif how == "version":
        lines[0] = source.choice([b"WARC/0.18", b"WARC/9.9", b"WARC/", b"WARC/1.0 ", b"warc/1.0", b"WARC/1.0\0", b""])
    elif how == "date":
        dates = [b"0000-01-01", b"9999-12-31T23:59:59.999999Z", b"2020-W01", b"20200101", b"2020-01-01T00:00:00+23:59"]
        dates += [
            b"1",
            b"",
            b"\xff",
            b"0001-01-01T00:00:00+14:00",
            b"2020-01-01T00:00:00.0000001Z",
            b"9999-12-31T23:59:59-14:00",
        ]
        lines = [b"WARC-Date: " + source.choice(dates) if line.startswith(b"WARC-Date") else line for line in lines]
    elif how == "names itself":
        own = next((line.partition(b": ")[2] for line in lines if line.startswith(b"WARC-Record-ID")), b"<urn:x>")
        lines[at:at] = [b"WARC-Concurrent-To: " + own, b"WARC-Refers-To: " + own, b"WARC-Record-ID: \xff\x1b[2J"]
    elif how in ("type", "content type"):
        name = b"WARC-Type: " if how == "type" else b"Content-Type: "
        values = [
            b"response",
            b"conversion",
            b"resource",
            b"revisit",
            b"",
            b"\xff",
            b"text/html",
            b"text/plain;charset=x",
            b"application/http",
        ]
        lines = [name + source.choice(values) if line.startswith(name) else line for line in lines]
    elif how == "charset":
        charset = source.choice(
            [b"utf-7", b"utf-16", b"iso-2022-jp", b"x" * 3000, b"\xff", b"", b"unicode_escape", b"hz-gb-2312"]
        )
        return _http(b"Content-Type: text/html; charset=" + charset, b"<p>a page of +AGEAYgBj- \x1b$B words"), how
    elif how == "http":
        line = source.choice(
            [
                b"Content-Encoding: br",
                b"Content-Encoding: gzip, gzip",
                b"Content-Encoding: zstd",
                b"Transfer-Encoding: gzip",
            ]
        )
        body = source.choice(
            [
                gzip.compress(gzip.compress(b"words " * 50, mtime=0), mtime=0),
                b"\x1f\x8bbroken",
                b"",
                source.randbytes(200),
            ]
        )
        bomb = repeated_member(b"", b"a " * (1 << 19), 1500, b"") if source.random() < 0.1 else body
        return _http(line + b"\r\nContent-Type: text/html", bomb), how
    elif how == "deep page":
        tag = source.choice(
            [b"<div>", b"<b>", b"<table><tr><td>", b"<!--", b"<", b"&", b"<p a=", b"<svg><math>", b"<form><a>", b"&#0;"]
        )
        return _http(
            b"Content-Type: text/html", tag * source.choice([100, 5_000, 100_000]) + b" the words"
        ), f"{how} {tag!r}"
    elif how == "chunk":
        size = source.choice([b"0", b"-1", b"ffffffff", b"ffffffffffffffff", b"7fffffffffffffff", b"5;a=b", b"1", b"z"])
        return _http(
            b"Transfer-Encoding: chunked\r\nContent-Type: text/html", size + b"\r\nwords of a page\r\n0\r\n\r\n"
        ), how
    elif how == "no colon":
        lines.insert(at, source.choice([b"no colon here", b"", b"\0", b": only", b"\xff\xfe"]))
    else:
        inner = record({"WARC-Type": "conversion"}, content[:40])
        return record({"WARC-Type": "conversion", "Content-Type": "text/plain"}, inner * 3), how
    return b"\r\n".join(lines) + b"\r\n\r\n" + content, how


def _http(lines: bytes, body: bytes) -> bytes:
    headers = {"WARC-Type": "response", "WARC-Record-ID": "<urn:odd>", "WARC-Date": "2020-01-01T00:00:00Z"}
    answer = b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n" + body
    return record({**headers, "Content-Type": "application/http; msgtype=response"}, answer)
