"""JSON lines and arrays, CSV and TSV, plain and compressed: lines that are awkward as records, as text or as bytes."""

import bz2
import csv
import io
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.case import Case, documents, options
from tests.fuzz.damage import MIB, damaged, gzip_member, integer, odd_stream, repeated_member

IDS = ["url", "score", "text", "deep"]
KEYS = ["score", "column:score", "url"]


def make_json(case: Case, folder: Path, ending: str) -> None:
    source = case.source()
    texts = documents(source)
    content = b"".join(_line(source, text) for text in texts)
    if source.random() < 0.4:
        content = case.noted(_odd_lines(source, content))
    if source.random() < 0.3:
        content = case.noted(damaged(source, content))
    if ending == ".json" and source.random() < 0.8:
        content = _array(source, content)
    if ending.endswith((".gz", ".zst")):
        content = _packed(case, source, content, ending)
    (folder / "in" / f"a{ending}").write_bytes(content)
    given = [f"in/a{ending}"]
    if source.random() < 0.3:
        others = [text for text in (*texts, *documents(source, 6)) if source.random() < 0.6]
        (folder / "in/b.jsonl").write_bytes(b"".join(_line(source, text) for text in others))
        given.append("in/b.jsonl")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, IDS, KEYS, case.large)]


def _packed(case: Case, source: Random, content: bytes, ending: str) -> bytes:
    import zstandard

    pack = gzip_member if ending.endswith(".gz") else zstandard.compress
    how = source.random()
    if how < 0.4:
        content = case.noted(odd_stream(source, content, pack))
    elif how < 0.44:
        case.large = True
        content = case.noted(_bomb(source, content, ending))
    else:
        content = pack(content)
    return case.noted(damaged(source, content)) if source.random() < 0.3 else content


def _bomb(source: Random, content: bytes, ending: str) -> tuple[bytes, str]:
    """Much more content than memory, in a line or in many."""
    unit = source.choice([b"a", b" ", b"\n", b"{},", b"[", b'{"text": "a b"}\n', b"\0"])
    block, count = unit * (MIB // len(unit)), source.choice([64, 600, 1500])
    head = source.choice([content, b'{"text": "', b'{"text": "a", "x": [', b""])
    tail = source.choice([b'"}\n', b"{}]}\n", b"\n", b""]) + content
    note = f"{count} MiB of {unit!r} behind {head[-20:]!r}"
    if ending.endswith(".gz"):
        return repeated_member(head, block, count, tail), note
    import zstandard

    packer = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [packer.compress(part) for part in (head, *[block] * count, tail)]
    return b"".join([*parts, packer.flush()]), note


def _array(source: Random, lines: bytes) -> bytes:
    """The lines as elements of an array, sometimes with an error between them."""
    between = source.choice([b",\n", b",", b" , ", b",\r\n\t"])
    whole = b"[" + between.join(line for line in lines.split(b"\n") if line.strip()) + b"]"
    wrong = [whole[:-1], whole + b"x", whole.replace(b",", b",,", 1), b"[" + whole]
    return source.choice([b"", b"", b"\xef\xbb\xbf", b" \n"]) + source.choice([whole, whole, whole + b"\n", *wrong])


def _line(source: Random, text: str | None) -> bytes:
    record: dict[str, Any] = {"url": f"https://example.org/{source.randrange(1000)}", "score": source.randrange(100)}
    if text is not None or source.random() < 0.5:
        record["text"] = text
    return json.dumps(record, ensure_ascii=source.random() < 0.5 or text is None).encode() + b"\n"


NUMBERS = [b"1e400", b"-1e400", b"1e-400", b"NaN", b"Infinity", b"-0", b"0" * 10, b"1.", b".5", b"+1"]
ESCAPES = [b"\\ud800", b"\\udc00\\ud800", b"\\u0000", b"\\ud83d\\ude42", b"\\/", b"\\x41", b"\\u12", b"\\"]
RAW = [b"\xff\xfe", b"\xed\xa0\x80", b"\0", b"\x1b[2J", b"\t", b"\xc0\xaf", b"\r"]
WORDS = [b"true", b"null", b'""', b"[]", b"{}", b"nul", b"'a'", b"undefined", b"", b"[1,]", b"//"]


def _value(source: Random) -> bytes:
    """A JSON value, or almost one."""
    depth = source.choice([1, 100, 1020, 1030, 20_000, 200_000])
    return source.choice(
        [
            lambda: b"[" * depth + b"]" * depth,
            lambda: b'{"a":' * depth + b"1" + b"}" * depth,
            lambda: b"[" * depth,
            lambda: str(integer(source) ** source.choice([1, 1, 3])).encode(),
            lambda: source.choice([b"-", b""]) + b"9" * source.choice([19, 20, 400, 4300, 5000, 100_000]),
            lambda: source.choice(NUMBERS),
            lambda: b'"' + b"".join(source.choices(ESCAPES, k=source.randint(1, 6))) + b'"',
            lambda: b'"' + source.choice(RAW) + b'"',
            lambda: b"[" + b"{}," * source.choice([10, 100_000]) + b"{}]",
            lambda: b'"' + b"many words " * source.choice([10, 10_000, 300_000]) + b'"',
            lambda: source.choice(WORDS),
        ]
    )()


def _odd_lines(source: Random, content: bytes) -> tuple[bytes, str]:
    """The lines and one more, or all of them with other line ends or in another encoding."""
    lines = content.splitlines(keepends=True) or [b"\n"]
    name = source.choice([b"text", b"text", b"url", b"score", b"deep", b"url", b"a"])
    text = b"" if name == b"text" else b', "text": "a b c d e f g"'
    key = source.choice([b"\\u0000", b"__proto__", b"", b"\x1b]2;x\x07", b"\\ud800", b"k" * 100_000])
    blank = source.choice([b"\n", b"\r\n", b" \t\n", b"\x0b\x0c\n", b"\x1c\n", b"\xc2\xa0\n"])
    one = source.choice([b"{}\n", b"\n", b'{"text":""}\n', b'{"text":"a"}\n'])
    more = {
        "value": b'{"' + name + b'": ' + _value(source) + text + b"}\n",
        "key": b'{"text": "a b c", "' + key + b'": 1}\n',
        "twice": b'{"text": "a b c", "text": "d e f", "url": 1, "url": "x"}\n',
        "blank": blank * 50,
        "bom": b"\xef\xbb\xbf",
        "control": bytes(range(32)) * 3 + b"\n",
        "many": one * 20_000,
    }
    how = source.choice(["value", "value", "value", *more, "ends", "no end", "encoding"])
    if how == "ends":
        ends = [b"\r\n", b"\r", b"\n\r", b"\xe2\x80\xa8"]
        return b"".join(line.rstrip(b"\n") + source.choice(ends) for line in lines), how
    if how == "no end":
        return content + b'{"text": "the last line has no end"}' + source.choice([b"", b"\r", b" ", b"\0"]), how
    if how == "encoding":
        return content.decode("utf-8", "replace").encode(source.choice(["utf-16", "utf-32", "utf-7"])), how
    lines.insert(source.choice([0, source.randrange(len(lines) + 1)]), more[how])
    return b"".join(lines), how


# --- CSV and TSV: quotes, separators and line ends wherever they do not belong ---


COLUMN_IDS = ["id", "score", "text", "none"]
COLUMN_KEYS = ["score", "column:score", "id"]
HEADERS = [["id", "text", "score"], ["text"], ["text", "score"], ["score", "text", "text"], ["body"]]
ODD = [b'"', b'""', b'"""', b",", b"\t", b"\r", b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b'"\n"', b'x"y']
PACKS = {".gz": gzip_member, ".bz2": bz2.compress, ".xz": lzma.compress}


def make_delimited(case: Case, folder: Path, endings: Sequence[str]) -> None:
    source = case.source()
    ending = source.choice(endings)
    content = _written(source, documents(source), "\t" if ending.startswith(".tsv") else ",")
    if source.random() < 0.5:
        for _ in range(source.choice([1, 1, 3, 20])):
            at = source.randrange(len(content) + 1)
            content = content[:at] + source.choice(ODD) * source.choice([1, 1, 1, 2, 5000]) + content[at:]
        case.damage.append("odd bytes")
    if source.random() < 0.25:
        content = case.noted(damaged(source, content))
    pack = PACKS.get(Path(ending[1:]).suffix)
    if pack is not None:
        content = case.noted(odd_stream(source, content, pack)) if source.random() < 0.4 else pack(content)
        if source.random() < 0.4:
            content = case.noted(damaged(source, content))
    (folder / "in" / f"a{ending}").write_bytes(content)
    given = [f"in/a{ending}"]
    if source.random() < 0.3:
        (folder / "in/b.csv").write_bytes(_written(source, documents(source, 6), ","))
        given.append("in/b.csv")
    case.arguments = ["dedup", *given, "-o", "out", *options(source, COLUMN_IDS, COLUMN_KEYS)]


def _written(source: Random, texts: list[str | None], comma: str) -> bytes:
    out = io.StringIO(newline="")
    ends, quoting = source.choice(["\n", "\r\n"]), source.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(out, delimiter=comma, lineterminator=ends, quoting=quoting)
    names = source.choice(HEADERS)
    if source.random() < 0.9 and "text" not in names:
        names = ["text", *names]
    writer.writerow(names)
    for number, text in enumerate(texts):
        values = {"id": str(number), "score": source.choice(["1", "2.5", "-3", "", "high" if number == 7 else "4"])}
        writer.writerow([text if name == "text" else values.get(name, "") for name in names])
    content = out.getvalue().encode("utf-8", "surrogatepass")
    if source.random() < 0.2:
        content = content.removesuffix(ends.encode())
    return source.choice([b"", b"", b"", b"\xef\xbb\xbf"]) + content
