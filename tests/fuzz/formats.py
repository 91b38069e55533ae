"""The formats that are fuzzed, by name, and one good file of each kind."""

import gzip
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.fuzz import columnar, lines, warc
from tests.fuzz.case import Case, documents, options
from tests.fuzz.damage import damaged
from tests.support.files import write_rows

ODD_NAMES = ["a.txt", "b.txt", "c/a.txt", "c/d/e.txt", "é.txt", "a b.txt", "\x1b[31m.txt", "\u202etxt.txt", "n\nl.txt"]
ODD_NAMES += [".TXT.txt", "-o.txt", "*.txt", "[a].txt", "s3:.txt", "x" * 240 + ".txt", "_work.txt", "~.txt"]
ODD_NAMES += ["duplicates.parquet.txt"]


def make_plain(case: Case, folder: Path) -> None:
    source = case.source()
    names = source.sample(ODD_NAMES, source.randint(1, 8))
    texts = documents(source, 30)
    for name in names:
        content = (source.choice(texts or [""]) or "").encode("utf-8", "surrogatepass")
        if source.random() < 0.4:
            content = case.noted(damaged(source, content))
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if source.random() < 0.02:  # a hole, which takes no disk
            size = source.choice([100 << 20, 600 << 20, 5 << 30])
            os.truncate(path, size)
            case.damage.append(f"{name!a}: {size} zeros")
            case.large = True
    whole = ["in"] if source.random() < 0.7 else [f"in/{name}" for name in names]
    case.arguments = ["dedup", "-o", "out", *options(source, [], [], case.large), "--", *whole]


FILES: dict[str, Callable[[Case, Path], None]] = {
    "parquet": columnar.make_parquet,
    "arrow": partial(columnar.make_arrow, stream=False),
    "arrow-stream": partial(columnar.make_arrow, stream=True),
    "jsonl": partial(lines.make_json, ending=".jsonl"),
    "jsonl.gz": partial(lines.make_json, ending=".jsonl.gz"),
    "jsonl.zst": partial(lines.make_json, ending=".jsonl.zst"),
    "json": partial(lines.make_json, ending=".json"),
    "csv": partial(lines.make_delimited, endings=(".csv", ".csv", ".tsv")),
    "csv.packed": partial(lines.make_delimited, endings=(".csv.bz2", ".csv.xz", ".tsv.gz")),
    "warc": partial(warc.make, ending=".warc"),
    "warc.gz": partial(warc.make, ending=".warc.gz"),
    "wet": partial(warc.make, ending=".wet"),
    "wet.gz": partial(warc.make, ending=".wet.gz"),
    "txt": make_plain,
}
NAMES = tuple(FILES)


def examples(folder: Path) -> None:
    """One good file of each format, with copies and near-duplicates among them."""
    words = [f"word{number}" for number in range(30)]
    texts = [" ".join(words[start : start + 20]) for start in (0, 0, 1, 5, 10)]
    rows = [{"text": text, "score": number} for number, text in enumerate(texts)]
    for name in ("a.parquet", "a.arrow", "a.jsonl", "b.jsonl.gz", "c.jsonl.zst", "d.json", "a.csv", "b.tsv.xz"):
        write_rows(folder / name, rows)
    (folder / "b.arrow").write_bytes(Path(write_rows(folder / "b.arrows", rows)).read_bytes())
    (folder / "b.arrows").unlink()
    web = {"WARC-Type": "response", "WARC-Record-ID": "<urn:a>", "Content-Type": "application/http"}
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>%s</p>" % texts[0].encode()
    text = {"WARC-Type": "conversion", "WARC-Record-ID": "<urn:b>", "Content-Type": "text/plain"}
    records = [warc.record(web, answer), warc.record(text, texts[1].encode())]
    for name, content in {
        "a.warc": b"".join(records),
        "b.warc.gz": b"".join(map(gzip.compress, records)),
        "a.txt": texts[0].encode(),
        "giant.txt": b" ".join(b"word%d" % number for number in range(1 << 18)),
    }.items():
        (folder / name).write_bytes(content)
