"""Processor time of `gpulsh dedup --key url --key-only` against a bare pyarrow group-by.

    python -m benchmarks.keys FOLDER [--rows 4000000] [--rounds 5]

Makes a Parquet file of URLs, dates and short texts in FOLDER; a fifth of the URLs come twice or more. pyarrow reads
the URLs and groups the rows by them, with the least row of each group. gpulsh reads the same column, decides, and
writes the evidence, a row for each dropped document. Both must drop the same number of rows.

Each job runs in its own process, in turns. It first warms up on a small file, and touches as much memory as a job
needs. A virtual machine gets memory from its host at the first touch, and that may take longer than the job. The
processor time of all threads counts.

The record is written to record/<device>/<date>/keys.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.record import new_folder, table, write_page

MAX_RATIO = 1.5  # times the group-by
GROUP_ROWS = 1 << 17
TOUCHED = 4 << 30  # bytes


def make(path: Path, rows: int) -> None:
    """URLs of about 60 bytes, drawn from more pages than there are rows."""
    source = np.random.default_rng(rows)
    pages = source.integers(0, 2 * rows, rows)
    schema = pa.schema([("text", pa.string()), ("url", pa.string()), ("date", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="zstd") as out:
        for start in range(0, rows, GROUP_ROWS):
            some = pages[start : start + GROUP_ROWS].tolist()
            urls = [f"https://www.site{page % 9973}.example.org/articles/{page:012x}/index.html" for page in some]
            texts = [f"page {page} of many pages, and some words more" for page in some]
            dates = source.integers(0, 1 << 40, len(some))
            out.write_table(pa.table([texts, urls, dates], schema))


def spent() -> float:
    """Processor time of this process."""
    times = os.times()
    return times.user + times.system


def by_arrow(path: Path) -> int:
    """Dropped rows."""
    urls = pq.ParquetFile(path).read(["url"])
    rows = urls.append_column("row", pa.array(np.arange(len(urls))))
    return len(rows) - len(rows.group_by("url").aggregate([("row", "min")]))


def by_gpulsh(path: Path, keep: str) -> int:
    """Dropped rows."""
    import gpulsh

    out = path.with_suffix(f".{os.getpid()}")
    asked: dict[str, Any] = {"key": "url", "key_only": True, "write": "duplicates", "backend": "cpu", "keep": keep}
    dropped: int = gpulsh.deduplicate_files([str(path)], out, overwrite=True, **asked).funnel["dropped"]
    shutil.rmtree(out)
    return dropped


JOBS = {
    "pyarrow group-by": by_arrow,
    "gpulsh --key url --key-only": lambda path: by_gpulsh(path, "first"),
    "gpulsh --key url --key-only --keep date": lambda path: by_gpulsh(path, "date"),
}


def child(job: str, small: Path, path: Path) -> dict[str, float]:
    """The time of a job, after a warm-up."""
    JOBS[job](small)
    np.ones(TOUCHED, np.uint8)
    began, clock = spent(), time.perf_counter()
    dropped = JOBS[job](path)
    return {"processor": spent() - began, "seconds": time.perf_counter() - clock, "dropped": dropped}


def measure(folder: Path, rows: int, rounds: int) -> list[dict[str, Any]]:
    """A row for each job."""
    small, path = folder / "small.parquet", folder / "urls.parquet"
    make(small, 10_000)
    make(path, rows)
    found: dict[str, list[dict[str, float]]] = {job: [] for job in JOBS}
    for _ in range(rounds):
        for job, times in found.items():
            command = [sys.executable, "-m", "benchmarks.keys", "--child", job, str(small), str(path)]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            times.append(json.loads(told.splitlines()[-1]))
    if len({each["dropped"] for times in found.values() for each in times}) != 1:
        raise SystemExit(f"the jobs drop different rows: {found}")
    bare = [each["processor"] for each in next(iter(found.values()))]
    return [
        {
            "job": job,
            "rows": rows,
            "dropped": int(times[0]["dropped"]),
            "processor s": round(statistics.median(each["processor"] for each in times), 3),
            "seconds": round(statistics.median(each["seconds"] for each in times), 3),
            "times the group-by": round(
                statistics.median(each["processor"] / one for each, one in zip(times, bare, strict=True)), 2
            ),
        }
        for job, times in found.items()
    ]


def main() -> None:
    """Measure, and write the record."""
    if sys.argv[1] == "--child":
        print(json.dumps(child(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with new_folder(asked.folder) as folder:
        found = measure(folder, asked.rows, asked.rounds)
    print(table(found))
    holds = found[1]["times the group-by"] <= MAX_RATIO
    command = f"python -m benchmarks.keys FOLDER --rows {asked.rows} --rounds {asked.rounds}"
    text = (
        f"Processor time of all threads, the median of {asked.rounds} rounds in warm interpreters. The aim is at most"
        f" {MAX_RATIO} times the group-by for the first row of gpulsh.\n\n{table(found)}"
    )
    write_page("keys", "copies by a key", command, {"rows": found, "holds": holds}, text)
    if not holds:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
