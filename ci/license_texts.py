"""Write the licence texts of the installed package `licensedcode-data` to a Parquet file.

Usage: license_texts.py OUT.parquet
The package (CC-BY-4.0, of ScanCode) has licences and "rules": notices and passages from real source code, many of them
with small changes. Columns: kind, name, text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import files

import pyarrow as pa
import pyarrow.parquet as pq

MARK = b"---\n"


def license_texts() -> Iterator[tuple[str, str, bytes]]:
    """Kind ("licenses" or "rules"), file name and text, by file name; the text stands after a front matter."""
    for path in sorted(files("licensedcode-data") or ()):
        if path.parent.as_posix() in ("licensedcode/data/licenses", "licensedcode/data/rules"):
            content = path.locate().read_bytes()
            if content.startswith(MARK):
                _, _, content = content.removeprefix(MARK).partition(b"\n" + MARK)
            yield path.parent.name, path.name, content


def main(out: str) -> None:
    kinds, names, texts = zip(*license_texts(), strict=True)
    table = pa.table({"kind": kinds, "name": names, "text": [text.decode("utf-8", "replace") for text in texts]})
    pq.write_table(table, out)
    megabytes = sum(map(len, texts)) / 1e6
    print(
        f"{out}: {len(table):,} real texts, {kinds.count('licenses'):,} licences and the rest rules, {megabytes:.1f} MB"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
