"""Elapsed time of `gpulsh dedup` whose parallel tasks share a process, or have processes of their own.

    python -m benchmarks.processes CORPUS.parquet FOLDER [--rounds 3] [--copies 5]

CORPUS has a column `text`. FOLDER gets its documents so many times, in the files of each of KINDS, and results. Each
run is a fresh interpreter that does the work once before the clock starts. Runs of a format take turns. The figures are
medians over the rounds: seconds of the stage `sign`, seconds of the whole run with the start of processes, and the
processor time of all processes.

The record is written to record/<device>/<date>/processes.json and .md.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.record import arguments, new_folder, table, write_page

KINDS = (("jsonl", 16), ("jsonl", 1), ("csv", 16), ("parquet", 16))  # formats, and numbers of files
WAYS = {"1 thread": (1, False), "2 threads": (2, False), "2 processes": (2, True)}


def child(folder: str, out: str, threads: str, apart: str) -> dict[str, float]:
    """The times of the second run."""
    import gpulsh
    from gpulsh.run.engines import local

    local.MIN_CHILDREN, local.MIN_BYTES = 2, 0 if apart == "True" else 1 << 60
    found: dict[str, float] = {}
    for _ in range(2):
        before, began = os.times(), time.perf_counter()
        result = gpulsh.deduplicate_files(folder, out, backend="cpu", threads=int(threads), overwrite=True)
        after = os.times()
        found = {
            "sign s": result.funnel["seconds"]["sign"],
            "all s": time.perf_counter() - began,
            "processor s": sum(after[:4]) - sum(before[:4]),
            "dropped": result.funnel["dropped"],
        }
    shutil.rmtree(out)
    return found


def write_files(texts: pa.Table, kind: str, files: int, folder: Path, copies: int) -> None:
    """The texts so many times, in so many files; a number makes the copies differ."""
    folder.mkdir()
    of_file = len(texts) * copies // files
    numbered = [f"{copy} {text}" for copy in range(copies) for text in texts["text"].to_pylist()]
    for number in range(files):
        rows = pa.table({"text": numbered[number * of_file : (number + 1) * of_file]})
        path = folder / f"{number:02d}.{kind}"
        if kind == "parquet":
            pq.write_table(rows, path, compression="zstd", row_group_size=5000)
        elif kind == "csv":
            pyarrow.csv.write_csv(rows, path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))


def measure(corpus: Path, folder: Path, rounds: int, copies: int) -> list[dict[str, Any]]:
    """A row for each format and way."""
    texts, found = pq.read_table(corpus, columns=["text"]), []
    for kind, files in KINDS:
        write_files(texts, kind, files, folder / kind, copies)
        size = sum(path.stat().st_size for path in (folder / kind).iterdir())
        times: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, given in WAYS.items():
                command = [sys.executable, "-m", "benchmarks.processes", "--child", folder / kind, folder / "out"]
                ran = subprocess.run(
                    [*command, *map(str, given)],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=Path(__file__).parents[1],
                )
                times[way].append(json.loads(ran.stdout.splitlines()[-1]))
        shutil.rmtree(folder / kind)
        if len({one["dropped"] for some in times.values() for one in some}) != 1:
            raise SystemExit(f"the runs drop different rows: {times}")
        for way, some in times.items():
            medians = {
                name: statistics.median(one[name] for one in some) for name in ("sign s", "all s", "processor s")
            }
            row = {"format": kind, "files": files, "GB": round(size / 1e9, 2), "tasks in": way}
            found.append(row | {name: round(value, 2) for name, value in medians.items()})
    return found


def main() -> None:
    """Measure, and write the record."""
    if sys.argv[1] == "--child":
        print(json.dumps(child(*sys.argv[2:])))
        return
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=5)
    asked = parser.parse_args()
    with new_folder(asked.folder) as folder:
        found = measure(asked.corpus.resolve(), folder, asked.rounds, asked.copies)
    print(table(found))
    command = f"python -m benchmarks.processes CORPUS.parquet FOLDER --rounds {asked.rounds} --copies {asked.copies}"
    text = f"Medians of {asked.rounds} rounds in warm interpreters; processes start in each run.\n\n{table(found)}"
    write_page("processes", "tasks in threads and in processes", command, {"rows": found}, text)


if __name__ == "__main__":
    main()
