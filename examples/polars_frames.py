"""polars: near-duplicates left out of a frame, lazy or not, of a query's result, and of each group alone.

python examples/polars_frames.py TEXTS.parquet COLUMN      # a column "text", and one whose values part it into groups
"""

from __future__ import annotations

import sys

import polars as pl

import gpulsh


def main(path: str, column: str) -> None:
    # Of a LazyFrame only the text is read to decide; the other columns when what is kept is collected.
    lazy = pl.scan_parquet(path)
    result = gpulsh.deduplicate(lazy, text_column="text", threshold=0.8)
    kept = result.filter(lazy).collect()
    print(f"{len(kept):,} of {len(result):,} kept")

    # The evidence as a frame: which of the groups lose what to which.
    groups = lazy.select(column).collect().to_series()
    told = pl.from_arrow(result.duplicates(ids=groups)).group_by("id", "duplicate_of_id").len().sort("len", "id")
    for of, other, count in told.rows():
        print(f"{count:,} of {column} {of} duplicate a text of {column} {other}")

    # Each group alone: languages, or sources that may repeat one another.
    apart = lazy.collect().group_by(column, maintain_order=True).map_groups(deduplicated)
    print(f"{len(apart):,} kept where each {column} is alone")


def deduplicated(frame: pl.DataFrame) -> pl.DataFrame:
    return gpulsh.deduplicate(frame["text"], threshold=0.8).filter(frame)


if __name__ == "__main__":
    main(*sys.argv[1:])
