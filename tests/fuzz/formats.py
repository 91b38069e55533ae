"""The formats that are fuzzed, by name, and one good file of each kind."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.fuzz import delimited, ipc, jsonl, parquet, plain, warc
from tests.fuzz.case import Case

FILES: dict[str, Callable[[Case, Path], None]] = {
    "parquet": parquet.make,
    "arrow": partial(ipc.make, stream=False),
    "arrow-stream": partial(ipc.make, stream=True),
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
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines))
    (folder / "c.jsonl.zst").write_bytes(zstandard.compress(lines))
    (folder / "d.json").write_bytes(json.dumps([{"text": text} for text in texts]).encode())
    (folder / "a.csv").write_text("text,score\n" + "".join(f'"{text}",1\n' for text in texts))
    (folder / "b.tsv.xz").write_bytes(lzma.compress(("text\n" + "\n".join(texts)).encode()))
    page = f"<p>{texts[0]}</p>".encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page
    web = {"WARC-Type": "response", "WARC-Record-ID": "<urn:a>", "Content-Type": "application/http"}
    text = {"WARC-Type": "conversion", "WARC-Record-ID": "<urn:b>", "Content-Type": "text/plain"}
    records = [warc.record(web, answer), warc.record(text, texts[1].encode())]
    (folder / "a.warc").write_bytes(b"".join(records))
    (folder / "b.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
    (folder / "a.txt").write_text(texts[0])
    (folder / "giant.txt").write_text(" ".join(f"word{number}" for number in range(1 << 18)))
