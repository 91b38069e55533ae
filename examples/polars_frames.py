"""polars: removes near-duplicates from a frame, lazy or not, and from each group of rows.

    python examples/polars_frames.py INPUT... OUT

INPUT are Parquet files with columns "text" and "source". OUT is a Parquet file of the kept rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import gpulsh


def main(inputs: list[str], out: str) -> None:
    # The decision reads only the text of a LazyFrame. Collecting the kept rows reads the other columns.
    lazy = pl.scan_parquet(inputs)
    result = gpulsh.deduplicate(lazy, text_column="text", threshold=0.8)
    kept = result.filter(lazy).collect()
    kept.write_parquet(out)
    print(f"{len(kept):,} of {len(result):,} kept")

    # The evidence as a frame: which source loses how many to which.
    groups = lazy.select("source").collect().to_series()
    told = pl.from_arrow(result.duplicates(ids=groups)).group_by("id", "duplicate_of_id").len().sort("len", "id")
    for of, other, count in told.rows():
        print(f"{count:,} of source {of} duplicate a text of source {other}")

    # Each source alone: duplicates across sources stay.
    apart = lazy.collect().group_by("source", maintain_order=True).map_groups(deduplicated)
    print(f"{len(apart):,} kept where each source is alone")


def deduplicated(frame: pl.DataFrame) -> pl.DataFrame:
    return gpulsh.deduplicate(frame["text"], threshold=0.8).filter(frame)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/polars_frames.py INPUT... OUT")
    if Path(sys.argv[-1]).exists():
        sys.exit(f"{sys.argv[-1]} exists already; give another OUT")
    main(sys.argv[1:-1], sys.argv[-1])
