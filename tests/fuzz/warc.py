"""WARC and WET, plain and gzip: false headers, nested and endless records, and pages that are not HTML."""

import gzip
import zlib
from pathlib import Path
from random import Random

from tests.fuzz.case import Case, documents, options
from tests.fuzz.damage import MIB, damaged, gzip_member, integer, odd_stream, repeated_member

IDS = ["WARC-Record-ID", "warc-target-uri", "WARC-Date", "X-None"]
KEYS = ["WARC-Date", "warc-date"]
LENGTHS = ["", " ", "-1", "+5", "0x10", "1e3", "٥", "5 5", "5;", "0" * 5000 + "5", "9" * 30, "9" * 5000, "None", "²"]
VERSIONS = [b"WARC/0.18", b"WARC/9.9", b"WARC/", b"WARC/1.0 ", b"warc/1.0", b"WARC/1.0\0", b""]
DATES = [b"0000-01-01", b"9999-12-31T23:59:59.999999Z", b"2020-W01", b"20200101", b"2020-01-01T00:00:00+23:59", b"1"]
DATES += [b"", b"\xff", b"0001-01-01T00:00:00+14:00", b"2020-01-01T00:00:00.0000001Z", b"9999-12-31T23:59:59-14:00"]
TYPES = [b"response", b"conversion", b"resource", b"revisit", b"", b"\xff", b"text/html", b"text/plain;charset=x"]
CHARSETS = [b"utf-7", b"utf-16", b"iso-2022-jp", b"x" * 3000, b"\xff", b"", b"unicode_escape", b"hz-gb-2312"]
CODINGS = [b"Content-Encoding: br", b"Content-Encoding: gzip, gzip", b"Content-Encoding: zstd"]
TAGS = [b"<div>", b"<b>", b"<table><tr><td>", b"<!--", b"<", b"&", b"<p a=", b"<svg><math>", b"<form><a>", b"&#0;"]
CHUNKS = [b"0", b"-1", b"ffffffff", b"ffffffffffffffff", b"7fffffffffffffff", b"5;a=b", b"1", b"z"]


def make(case: Case, folder: Path, ending: str) -> None:
    source = case.source()
    texts = documents(source, 16)
    records = [record for text in texts for record in _records(source, text or "", web=".warc" in ending)]
    place = source.randrange(max(len(records), 1))
    if records and source.random() < 0.5:
        records[place] = case.noted(_odd_record(source, records[place]))
    if records and source.random() < 0.3:
        records[place] = case.noted(damaged(source, records[place], source.choice(records)))
    content = _packed(case, source, records) if ending.endswith(".gz") else b"".join(records)
    if source.random() < 0.35:
        content = case.noted(damaged(source, content))
    (folder / "in" / f"a{ending}").write_bytes(content)
    given = [f"in/a{ending}"]
    if source.random() < 0.25:
        others = [record for text in texts[:6] for record in _records(source, text or "", web=False)]
        (folder / "in/b.wet").write_bytes(b"".join(others))
        given.append("in/b.wet")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, IDS, KEYS, case.large)]


def _packed(case: Case, source: Random, records: list[bytes]) -> bytes:
    """One member a record, all records in one, a bomb after them, or an odd stream."""
    how = source.random()
    members = b"".join(map(gzip_member, records))
    if how < 0.6:
        return members
    if how < 0.75:
        return gzip_member(b"".join(records))
    if how > 0.8:
        return case.noted(odd_stream(source, b"".join(records), gzip_member))
    unit = source.choice([b"\0", b"a", b"\r\n", b"\n", b"WARC/1.0\r\n", b"x: y\r\n", b"<div>"])
    block, count = unit * (MIB // len(unit)), source.choice([2, 64, 600, 1500])
    kind = source.choice([b"conversion", b"response", b"resource", b"metadata"])
    mime = {b"conversion": b"text/plain", b"resource": b"text/html"}.get(kind, b"application/http")
    length = len(block) * count + source.choice([0, 0, -5, 5])
    head = b"WARC/1.0\r\nWARC-Type: " + kind + b"\r\nContent-Type: " + mime
    head += b"\r\nContent-Length: %d\r\n\r\n" % length if source.random() < 0.7 else b"\r\n"
    case.large = True
    case.damage.append(f"{count} MiB of {unit!r} as {kind.decode()}, length {length}")
    return members + repeated_member(head, block, count, b"\r\n\r\n")


def _records(source: Random, text: str, web: bool) -> list[bytes]:
    """A document, perhaps with its request."""
    name = f"<urn:uuid:{source.getrandbits(64):016x}>"
    date = f"20{source.randrange(100):02}-01-0{source.randint(1, 9)}T00:00:00Z"
    headers, body = {"WARC-Record-ID": name, "WARC-Date": date}, text.encode("utf-8", "replace")
    if not web or source.random() < 0.3:
        mime = source.choice(["text/plain", "text/plain", "text/plain; charset=utf-8"])
        return [record({"WARC-Type": "conversion", **headers, "Content-Type": mime}, body)]
    mime = source.choice(["text/html", "text/html; charset=utf-8", "text/plain", "image/png", "application/xhtml+xml"])
    page = b"<html><body><p>" + body.replace(b" ", b"</p><p>", 2) + b"</p></body></html>" if "html" in mime else body
    http = [f"Content-Type: {mime}".encode()]
    coding = source.choice(["gzip", "deflate", *[""] * 6])
    if coding:
        http.append(b"Content-Encoding: " + coding.encode())
        page = gzip.compress(page, mtime=0) if coding == "gzip" else zlib.compress(page)
    if source.random() < 0.2:
        http.append(b"Transfer-Encoding: chunked")
        page = (b"%x\r\n%s\r\n" % (len(page), page) if page else b"") + b"0\r\n\r\n"
    found = [_answer(b"\r\n".join(http), page, {**headers, "WARC-Target-URI": "http://a.b/"})]
    if source.random() < 0.3:
        request = {"WARC-Type": "request", "WARC-Concurrent-To": name, "WARC-Record-ID": name + "r"}
        mime = "application/http; msgtype=request"
        found.append(record({**request, "Content-Type": mime}, b"GET / HTTP/1.1\r\n\r\n"))
    return found


def record(headers: dict[str, str], content: bytes, version: str = "WARC/1.0") -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{version}\r\n{lines}Content-Length: {len(content)}\r\n\r\n"
    return head.encode("utf-8", "surrogatepass") + content + b"\r\n\r\n"


def _answer(lines: bytes, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """A record of an answer over HTTP, with these header lines."""
    headers = headers or {"WARC-Record-ID": "<urn:odd>", "WARC-Date": "2020-01-01T00:00:00Z"}
    every = {"WARC-Type": "response", **headers, "Content-Type": "application/http; msgtype=response"}
    return record(every, b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n\r\n" + body)


PAGES = ["charset", "coding", "deep page", "chunk"]
LINES = ["length", "length", "no length", "many lines", "long line", "folded", "version", "date", "type"]


def _odd_record(source: Random, whole: bytes) -> tuple[bytes, str]:
    head, _, content = whole.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    how = source.choice([*LINES, "content type", "names itself", "one line more", "ends", "nested", *PAGES])
    if how in PAGES:
        return _odd_page(source, how), how
    if how == "ends":
        return source.choice([b"\n", b"\r", b"\r\r\n"]).join(lines) + b"\n\n" + content, how
    if how == "nested":
        inner = record({"WARC-Type": "conversion"}, content[:40])
        return record({"WARC-Type": "conversion", "Content-Type": "text/plain"}, inner * 3), how
    at = source.randrange(1, len(lines) + 1)
    if how == "version":
        lines[0] = source.choice(VERSIONS)
    elif how in ("length", "date", "type", "content type"):
        lengths = [*LENGTHS, str(integer(source)), str(len(content)), str(len(content) - 3)]
        name, values = {
            "length": (b"Content-Length", [length.encode() for length in lengths]),
            "date": (b"WARC-Date", DATES),
            "type": (b"WARC-Type", TYPES),
            "content type": (b"Content-Type", [*TYPES, b"application/http"]),
        }[how]
        lines = [name + b": " + source.choice(values) if line.startswith(name) else line for line in lines]
    elif how == "no length":
        lines = [line for line in lines if not line.startswith(b"Content-Length")]
    elif how == "many lines":
        line = source.choice([b"X-A: b", b"WARC-Concurrent-To: <urn:x>", b" more", b":", b"a:"])
        lines[at:at] = [line] * source.choice([100, 30_000, 200_000])
    elif how == "long line":
        value = source.choice([b"a", b" ", b":", b"\xff"]) * source.choice([1000, 1 << 20, 3 << 20])
        lines.insert(at, b"X-A: " + value)
    elif how == "folded":
        lines[at:at] = [source.choice([b" ", b"\t", b" x"])] * source.choice([1, 50_000])
    elif how == "names itself":
        own = next((line.partition(b": ")[2] for line in lines if line.startswith(b"WARC-Record-ID")), b"<urn:x>")
        lines[at:at] = [b"WARC-Concurrent-To: " + own, b"WARC-Refers-To: " + own, b"WARC-Record-ID: \xff\x1b[2J"]
    else:
        more = [b"content-length: 3", b"no colon here", b"", b"\0", b": only", b"\xff\xfe"]
        lines.insert(at, source.choice(more))
    return b"\r\n".join(lines) + b"\r\n\r\n" + content, how


def _odd_page(source: Random, how: str) -> bytes:
    html = b"Content-Type: text/html"
    if how == "charset":
        return _answer(html + b"; charset=" + source.choice(CHARSETS), b"<p>a page of +AGEAYgBj- \x1b$B words")
    if how == "deep page":
        return _answer(html, source.choice(TAGS) * source.choice([100, 5_000, 100_000]) + b" the words")
    if how == "chunk":
        body = source.choice(CHUNKS) + b"\r\nwords of a page\r\n0\r\n\r\n"
        return _answer(b"Transfer-Encoding: chunked\r\n" + html, body)
    if source.random() < 0.1:
        body = repeated_member(b"", b"a " * (MIB // 2), 1500, b"")
    else:
        twice = gzip.compress(gzip.compress(b"words " * 50, mtime=0), mtime=0)
        body = source.choice([twice, b"\x1f\x8bbroken", b"", source.randbytes(200)])
    return _answer(source.choice(CODINGS) + b"\r\n" + html, body)
