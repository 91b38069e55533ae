"""An index over days: finds the new texts of each day, without the texts of earlier days.

    python examples/index_over_days.py INPUT... OUT

INPUT are Parquet files with a column "text", one for each day, the earliest first. OUT is the folder of the index. The
first run makes it; later runs add to it and skip the days that it holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

import gpulsh


def main(days: list[str], out: str) -> None:
    known = Path(out)
    # One process writes; any number may read what was committed before they opened it.
    with gpulsh.Index.open(known) if known.exists() else gpulsh.Index.create(known, threshold=0.8) as index:
        for day in days:
            texts = pq.read_table(day).column("text")
            keys = [f"{Path(day).stem}:{row}" for row in range(len(texts))]  # unique; strings or integers
            if keys[0] in index:
                print(f"{Path(day).stem}: is in the index already")
                continue
            added = index.add(keys, texts)
            index.save()  # commits the day; the end of the block would commit them all
            held = len(index) - index.dropped()
            print(f"{Path(day).stem}: {added.keep.sum():,} of {len(texts):,} are new, {held:,} are held")
            for row in (~added.keep).nonzero()[0][:3]:
                print(f"  {keys[row]} is {added.similarity[row]:.1%} {added.duplicate_of[row]}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/index_over_days.py INPUT... OUT")
    main(sys.argv[1:-1], sys.argv[-1])
