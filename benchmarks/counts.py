"""Processor time of `gpulsh dedup` with counts and marks against the same run without them.

    python -m benchmarks.counts CORPUS.parquet FOLDER [--rounds 5] [--other TREE]

CORPUS has the columns `text` and `id`; FOLDER gets a copy as JSON lines, and results. Jobs take turns. Each runs in its
own process: once to warm up, then three times. The least processor time of all threads counts. All jobs must drop the
same number of rows. With `--other`, a checkout of a commit before counts, each ratio is to its run.

The record is written to record/<device>/<date>/counts.json and .md.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.record import arguments, new_folder, table, write_page

MAX_RATIO = 1.05  # times the run without
TURNS = 3
JOBS: dict[str, dict[str, Any]] = {
    "without": {},
    "--add-counts": {"add_counts": True},
    "--write marked": {"write": "marked"},
}


def spent() -> float:
    """Processor time of this process."""
    times = os.times()
    return times.user + times.system


def child(job: str, path: str, out: str) -> dict[str, float]:
    """The least time of a job."""
    import gpulsh

    given = {"backend": "cpu", "id_column": "id", "threshold": 0.7, "overwrite": True}
    found, dropped = [], 0
    for _ in range(1 + TURNS):
        began = spent()
        dropped = gpulsh.deduplicate_files(path, out, **given, **JOBS[job]).funnel["dropped"]
        found.append(spent() - began)
    shutil.rmtree(out)
    return {"processor": min(found[1:]), "dropped": dropped}


def measure(corpus: Path, folder: Path, rounds: int, other: Path | None) -> list[dict[str, Any]]:
    """A row for each format and job."""
    lines = folder / "texts.jsonl"
    rows = pq.read_table(corpus, columns=["id", "text"]).to_pylist()
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found: list[dict[str, Any]] = []
    here = Path(__file__).parents[1]
    for path in (corpus, lines):
        jobs = [("without", other)] if other else []
        jobs += [(job, here) for job in JOBS]
        times: list[list[dict[str, float]]] = [[] for _ in jobs]
        for _ in range(rounds):
            for (job, tree), of_job in zip(jobs, times, strict=True):
                command = [sys.executable, str(Path(__file__)), "--child", job, str(path), str(folder / "out")]
                environment = {**os.environ, "PYTHONPATH": f"{tree}:{here}"}
                ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
                of_job.append(json.loads(ran.stdout.splitlines()[-1]))
        if len({each["dropped"] for of_job in times for each in of_job}) != 1:
            raise SystemExit(f"the jobs drop different rows: {times}")
        bare = [each["processor"] for each in times[0]]
        for (job, tree), of_job in zip(jobs, times, strict=True):
            ratios = [each["processor"] / one for each, one in zip(of_job, bare, strict=True)]
            found.append(
                {
                    "format": path.suffix[1:],
                    "job": job if tree == here else f"{job}, before counts",
                    "rows": len(rows),
                    "dropped": int(of_job[0]["dropped"]),
                    "processor s": round(statistics.median(each["processor"] for each in of_job), 3),
                    "times the first": round(statistics.median(ratios), 3),
                }
            )
    return found


def main() -> None:
    """Measure, and write the record."""
    if sys.argv[1] == "--child":
        print(json.dumps(child(*sys.argv[2:])))
        return
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--other", type=Path)
    asked = parser.parse_args()
    with new_folder(asked.folder) as folder:
        found = measure(asked.corpus.resolve(), folder, asked.rounds, asked.other)
    print(table(found))
    holds = all(row["times the first"] <= MAX_RATIO for row in found)
    command = f"python -m benchmarks.counts CORPUS.parquet FOLDER --rounds {asked.rounds}"
    text = (
        f"Processor time of all threads, the median of {asked.rounds} rounds in warm interpreters. The aim is at most"
        f" {MAX_RATIO} times the first row of each format.\n\n{table(found)}"
    )
    write_page("counts", "counts and marks", command, {"rows": found, "holds": holds}, text)
    if not holds:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
