"""JSON lines, plain and compressed: lines that are awkward as JSON, as text or as bytes, and streams that are so."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.case import Case, options
from tests.fuzz.damage import damaged, integer
from tests.fuzz.documents import documents
from tests.fuzz.packed import gzip_member, odd_gzip, odd_zstd, repeated_member, zstd_frame, zstd_raw, zstd_repeat

IDS = ["url", "score", "text", "deep"]
KEYS = ["score", "column:score", "url"]


def make(case: Case, folder: Path, ending: str) -> None:
    """`in/a` + `ending`, perhaps beside a whole file."""
    source = case.source()
    texts = documents(source)
    content, told = b"".join(_line(source, text) for text in texts), []
    if source.random() < 0.4:
        content, note = _odd_lines(source, content)
        told.append(note)
    if source.random() < 0.3:
        content, note = damaged(source, content)
        told.append(note)
    if ending == ".json" and source.random() < 0.8:
        content = _array(source, content)
    packed = content
    if ending.endswith(".gz"):
        packed = gzip_member(content)
        if source.random() < 0.4:
            packed, note = odd_gzip(source, content)
            told.append(f"gzip: {note}")
        elif source.random() < 0.07:
            packed, note = _gzip_bomb(source, content)
            told.append(note)
    elif ending.endswith(".zst"):
        import zstandard

        packed = zstandard.compress(content)
        if source.random() < 0.4:
            packed, note = odd_zstd(source, content)
            told.append(f"zstd: {note}")
        elif source.random() < 0.07:
            packed, note = _zstd_bomb(source, content)
            told.append(note)
    if ending.endswith((".gz", ".zst")) and source.random() < 0.3:
        packed, note = damaged(source, packed)
        told.append(f"packed: {note}")
    (folder / "in" / f"a{ending}").write_bytes(packed)
    given = [f"in/a{ending}"]
    if source.random() < 0.3:
        others = [text for text in (*texts, *documents(source, 6)) if source.random() < 0.6]
        (folder / "in/b.jsonl").write_bytes(b"".join(_line(source, text) for text in others))
        given.append("in/b.jsonl")
    case.damage += told
    case.large = any("MiB" in note for note in told)
    case.arguments = ["dedup", *given, "-o", "out", *options(source, IDS, KEYS, case.large)]


def _array(source: Random, lines: bytes) -> bytes:
    """The lines as elements, now and then with something wrong between them."""
    between = source.choice([b",\n", b",", b" , ", b",\r\n\t"])
    content = b"[" + between.join(line for line in lines.split(b"\n") if line.strip()) + b"]"
    return source.choice([b"", b"", b"\xef\xbb\xbf", b" \n"]) + source.choice(
        [
            content,
            content,
            content + b"\n",
            content[:-1],
            content + b"x",
            content.replace(b",", b",,", 1),
            b"[" + content,
        ]
    )


def _line(source: Random, text: str | None) -> bytes:
    record: dict[str, Any] = {"url": f"https://example.org/{source.randrange(1000)}", "score": source.randrange(100)}
    if text is not None or source.random() < 0.5:
        record["text"] = text
    ascii_only = source.random() < 0.5 or text is None
    return json.dumps(record, ensure_ascii=ascii_only).encode() + b"\n"


def _value(source: Random) -> bytes:
    """A JSON value, or nearly."""
    depth = source.choice([1, 100, 1020, 1030, 20_000, 200_000])
    kind = source.randrange(12)
    if kind == 0:
        return b"[" * depth + b"]" * depth
    if kind == 1:
        return b'{"a":' * depth + b"1" + b"}" * depth
    if kind == 2:
        return b"[" * depth
    if kind == 3:
        return str(integer(source) ** source.choice([1, 1, 3])).encode()
    if kind == 4:
        return source.choice([b"-", b""]) + b"9" * source.choice([19, 20, 400, 4300, 5000, 100_000])
    if kind == 5:
        return source.choice(
            [b"1e400", b"-1e400", b"1e-400", b"NaN", b"Infinity", b"-0", b"0" * 10, b"1.", b".5", b"+1"]
        )
    if kind == 6:
        escapes = ["\\ud800", "\\udc00\\ud800", "\\u0000", "\\ud83d\\ude42", "\\/", "\\x41", "\\u12", "\\"]
        return b'"' + "".join(source.choices(escapes, k=source.randint(1, 6))).encode() + b'"'
    if kind == 7:
        return b'"' + source.choice([b"\xff\xfe", b"\xed\xa0\x80", b"\0", b"\x1b[2J", b"\t", b"\xc0\xaf", b"\r"]) + b'"'
    if kind == 8:
        return b"[" + b"{}," * source.choice([10, 100_000]) + b"{}]"
    if kind == 9:
        return b'"' + b"many words " * source.choice([10, 10_000, 300_000]) + b'"'
    if kind == 10:
        return source.choice([b"true", b"null", b'""', b"[]", b"{}", b"nul", b"'a'", b"undefined", b"", b"[1,]", b"//"])
    return b'{"text":' + b'"\\u0061"' + b"}"


def _odd_lines(source: Random, content: bytes) -> tuple[bytes, str]:
    lines = content.splitlines(keepends=True) or [b"\n"]
    place = source.randrange(len(lines) + 1)
    how = source.choice(
        [
            "value",
            "value",
            "value",
            "value",
            "key",
            "twice",
            "blank",
            "bom",
            "ends",
            "no end",
            "utf-16",
            "control",
            "many",
        ]
    )
    if how == "value":
        name = source.choice([b"text", b"text", b"url", b"score", b"deep", b"url", b"a"])
        text = b"" if name == b"text" else b', "text": "a b c d e f g"'
        lines.insert(place, b'{"' + name + b'": ' + _value(source) + text + b"}\n")
    elif how == "key":
        name = source.choice([b"\\u0000", b"__proto__", b"", b"\x1b]2;x\x07", b"\\ud800", b"k" * 100_000])
        lines.insert(place, b'{"text": "a b c", "' + name + b'": 1}\n')
    elif how == "twice":
        lines.insert(place, b'{"text": "a b c", "text": "d e f", "url": 1, "url": "x"}\n')
    elif how == "blank":
        lines.insert(place, source.choice([b"\n", b"\r\n", b" \t\n", b"\x0b\x0c\n", b"\x1c\n", b"\xc2\xa0\n"]) * 50)
    elif how == "bom":
        lines.insert(source.choice([0, 0, place]), b"\xef\xbb\xbf")
    elif how == "ends":
        lines = [line.rstrip(b"\n") + source.choice([b"\r\n", b"\r", b"\n\r", b"\xe2\x80\xa8"]) for line in lines]
    elif how == "no end":
        lines.append(b'{"text": "the last line has no end"}' + source.choice([b"", b"\r", b" ", b"\0"]))
    elif how == "utf-16":
        return content.decode("utf-8", "replace").encode(source.choice(["utf-16", "utf-32", "utf-7"])), how
    elif how == "control":
        lines.insert(place, bytes(range(32)) * 3 + b"\n")
    else:
        lines.insert(place, source.choice([b"{}\n", b"\n", b'{"text":""}\n', b'{"text":"a"}\n']) * 20_000)
    return b"".join(lines), how


def _gzip_bomb(source: Random, content: bytes) -> tuple[bytes, str]:
    """Much more content than memory, a line or many."""
    unit = source.choice([b"a", b" ", b"\n", b"{},", b"[", b'{"text": "a b"}\n', b"\0"])
    block = unit * ((1 << 20) // len(unit))
    count = source.choice([64, 600, 1500])
    head = source.choice([content, b'{"text": "', b'{"text": "a", "x": [', b""])
    tail = source.choice([b'"}\n', b"{}]}\n", b"\n", b""])
    return repeated_member(head, block, count, tail + content), f"{count} MiB of {unit!r} behind {head[-20:]!r}"


def _zstd_bomb(source: Random, content: bytes) -> tuple[bytes, str]:
    byte = source.choice([b"a", b" ", b"\n", b"[", b"\0"])
    count = source.choice([512, 5000, 12_000])
    head = source.choice([content, b'{"text": "', b""])
    window = source.choice([0x38, 0x88, 0xA8])
    blocks = [*zstd_raw(head), *zstd_repeat(byte, count), *zstd_raw(b'"}\n' + content, last=True)]
    return zstd_frame(blocks, window=window), f"{count // 8} MiB of {byte!r} in a window {window:#x}"
