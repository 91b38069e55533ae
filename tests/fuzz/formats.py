"""The formats that are fuzzed, by name, and one good file of each kind."""

import gzip
import json
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.fuzz import columnar, delimited, jsonl, plain, warc
from tests.fuzz.case import Case

FILES: dict[str, Callable[[Case, Path], None]] = {
    "parquet": columnar.make_parquet,
    "arrow": partial(columnar.make_arrow, stream=False),
    "arrow-stream": partial(columnar.make_arrow, stream=True),
    "jsonl": partial(jsonl.make, ending=".jsonl"),
    "jsonl.gz": partial(jsonl.make, ending=".jsonl.gz"),
    "jsonl.zst": partial(jsonl.make, ending=".jsonl.zst"),
    "json": partial(jsonl.make, ending=".json"),
    "csv": partial(delimited.make, endings=(".csv", ".csv", ".tsv")),
    "csv.packed": partial(delimited.make, endings=(".csv.bz2", ".csv.xz", ".tsv.gz")),
    "warc": partial(warc.make, ending=".warc"),
    "warc.gz": partial(warc.make, ending=".warc.gz"),
    "wet": partial(warc.make, ending=".wet"),
    "wet.gz": partial(warc.make, ending=".wet.gz"),
    "txt": plain.make,
}
NAMES = tuple(FILES)


def examples(folder: Path) -> None:
    """One good file of each format, with copies and near-duplicates among them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zstandard

    words = [f"word{number}" for number in range(30)]
    texts = [" ".join(words[start : start + 20]) for start in (0, 0, 1, 5, 10)]
    rows = pa.table({"text": texts, "score": list(range(len(texts)))})
    pq.write_table(rows, folder / "a.parquet")
    for name, maker in (("a.arrow", pa.ipc.new_file), ("b.arrow", pa.ipc.new_stream)):
        with maker(str(folder / name), rows.schema) as out:
            out.write_table(rows)
    lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)
    web = {"WARC-Type": "response", "WARC-Record-ID": "<urn:a>", "Content-Type": "application/http"}
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>%s</p>" % texts[0].encode()
    text = {"WARC-Type": "conversion", "WARC-Record-ID": "<urn:b>", "Content-Type": "text/plain"}
    records = [warc.record(web, answer), warc.record(text, texts[1].encode())]
    for name, content in {
        "a.jsonl": lines,
        "b.jsonl.gz": gzip.compress(lines),
        "c.jsonl.zst": zstandard.compress(lines),
        "d.json": b"[" + lines.strip().replace(b"\n", b",") + b"]",
        "a.csv": ("text,score\n" + "".join(f'"{text}",1\n' for text in texts)).encode(),
        "b.tsv.xz": lzma.compress(("text\n" + "\n".join(texts)).encode()),
        "a.warc": b"".join(records),
        "b.warc.gz": b"".join(map(gzip.compress, records)),
        "a.txt": texts[0].encode(),
        "giant.txt": b" ".join(b"word%d" % number for number in range(1 << 18)),
    }.items():
        (folder / name).write_bytes(content)
