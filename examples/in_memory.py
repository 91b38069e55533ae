"""Texts in memory: removes near-duplicates, and shows their kept duplicates and similarities.

    python examples/in_memory.py INPUT... OUT

INPUT are Parquet files with a column "text"; ci/license_texts.py writes one. OUT is a Parquet file of the kept rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

import gpulsh


def main(inputs: list[str], out: str) -> None:
    table = pq.read_table(inputs)
    texts = table.column("text")

    # The earlier of two duplicates is kept; `priority=` would say otherwise. Nulls and empty texts are always kept.
    result = gpulsh.deduplicate(texts, threshold=0.8)
    kept = result.filter(table)
    pq.write_table(kept, out)
    print(f"{len(kept):,} of {len(table):,} kept")

    # The evidence: each dropped text, the kept one that it duplicates, and their exact Jaccard similarity.
    dropped = (~result.keep).nonzero()[0]
    for row in dropped[:5]:
        witness = result.duplicate_of[row]
        print(f"{result.similarity[row]:.3f}  {str(texts[row])[:40]!r}  duplicates  {str(texts[witness])[:40]!r}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/in_memory.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
