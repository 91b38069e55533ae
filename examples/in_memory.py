"""Texts in memory: which are near-duplicates, of what, and how similar.

python examples/in_memory.py TEXTS.parquet      # a column "text"; ci/license_texts.py writes such a file
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq

import gpulsh


def main(path: str) -> None:
    table = pq.read_table(path)
    texts = table.column("text")

    # The earlier of two duplicates is kept; `priority=` would say otherwise. Nulls and empty texts are always kept.
    result = gpulsh.deduplicate(texts, threshold=0.8)
    kept = result.filter(table)
    print(f"{len(kept):,} of {len(table):,} kept")

    # The evidence: each dropped text, the kept one that it duplicates, and their exact Jaccard similarity.
    dropped = (~result.keep).nonzero()[0]
    for row in dropped[:5]:
        witness = result.duplicate_of[row]
        print(f"{result.similarity[row]:.3f}  {str(texts[row])[:40]!r}  duplicates  {str(texts[witness])[:40]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
