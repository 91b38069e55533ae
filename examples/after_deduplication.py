"""After deduplication: count duplicates, keep documents from several sources, weight, and decide later.

    python examples/after_deduplication.py INPUT... OUT

INPUT are Parquet files with the columns "text" and "source". OUT is a new folder. One run marks all rows; each policy
is then a filter of these rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

import gpulsh


def main(given: list[str], out: str) -> None:
    folder = Path(out)
    if folder.exists():
        sys.exit(f"{out} exists already; give another OUT")
    result = gpulsh.deduplicate_files(given, folder / "run", write="marked", source_column="source")
    marked = pq.read_table(folder / "run/data")
    kept = marked.filter(marked["kept"])
    print(f"{len(kept):,} of {len(marked):,} documents stay")

    # FineWeb: clusters of a few documents stay whole.
    small = marked.filter(pc.or_(marked["kept"], pc.less(marked["component"], 3)))
    print(f"{len(small):,} stay if clusters of fewer than 3 are not cut")

    # MixMinMatch: what several sources hold.
    shared = kept.filter(pc.greater_equal(kept["sources"], 2))
    print(f"{len(shared):,} are held by 2 sources or more")
    for row in shared.sort_by([("sources", "descending"), ("near", "descending")]).slice(0, 3).to_pylist():
        print(f"  {row['copies']} copies and {row['near']} near-duplicates, from {', '.join(row['source_names'])}")

    # TxT360 and FineWeb-2: weights for sampling, of the finished run.
    rows = result.weigh(folder / "weighted", "txt360", weight_by="component")
    weights = pq.read_table(folder / "weighted")["weight"]
    print(f"{rows:,} rows have weights, {pc.sum(weights).as_py():,.0f} in all")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/after_deduplication.py INPUT... OUT")
    main(sys.argv[1:-1], sys.argv[-1])
