"""Files to files: writes kept rows with all columns, and a table of dropped rows with their kept duplicates.

    python examples/files.py INPUT... OUT       # Parquet, Arrow, JSON lines, WARC or text files, folders or globs

gpulsh divides the work to fit `memory`. After a kill or Ctrl-C, run it again: `resume` continues from the
last finished step, and leaves a finished run as it is.
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq

import gpulsh


def main(inputs: list[str], out: str) -> None:
    result = gpulsh.deduplicate_files(inputs, out, keep="longest", memory="1GiB", resume=True)

    counts = result.funnel
    print(f"{counts['documents']:,} documents, {counts['dropped']:,} dropped")
    print(f"kept rows: {result.data}")

    # A row for each dropped document: its place, and the place of the kept document that it duplicates.
    duplicates = pq.read_table(result.duplicates)
    for row in duplicates.slice(0, 5).to_pylist():
        this, other = (f"{row[f'{of}file']}:{row[f'{of}row']}" for of in ("", "duplicate_of_"))
        print(f"{this} is {row['similarity']:.1%} {other}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/files.py INPUT... OUT")
    main(sys.argv[1:-1], sys.argv[-1])
