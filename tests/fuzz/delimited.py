"""CSV and TSV, plain and compressed: quotes, separators and line ends wherever they do not belong."""

import bz2
import csv
import io
import lzma
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.fuzz.case import Case, documents, options
from tests.fuzz.damage import damaged, gzip_member, odd_stream

IDS = ["id", "score", "text", "none"]
KEYS = ["score", "column:score", "id"]
HEADERS = [["id", "text", "score"], ["text"], ["text", "score"], ["score", "text", "text"], ["body"]]
ODD = [b'"', b'""', b'"""', b",", b"\t", b"\r", b"\n", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b'"\n"', b'x"y']
PACKS = {".gz": gzip_member, ".bz2": bz2.compress, ".xz": lzma.compress}


def make(case: Case, folder: Path, endings: Sequence[str]) -> None:
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
    case.arguments = ["dedup", *given, "-o", "out", *options(source, IDS, KEYS)]


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
