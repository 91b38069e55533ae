"""Whole runs of `gpulsh` against AI2's Dolma, which finds equal texts and equal paragraphs with a Bloom filter.

    python -m benchmarks.dolma CORPUS.parquet FOLDER --dolma PROGRAM [--files 8] [--rounds 5]

CORPUS has the columns `id` and `text`. FOLDER gets its rows as JSON lines with gzip, and results. PROGRAM is the
command `dolma` in an environment of its own, since Dolma needs an older NumPy. `dolma dedupe` marks and `dolma mix`
writes; gpulsh does both in one run. Each command is a process of its own, on the same two cores, and `race/process.py`
measures it. Jobs take turns, and the figures are medians; the greatest memory of a command counts.

Dolma's filter has a rate of 1e-8 for false positives. Its threads share it, so another copy may stay in each run.
gpulsh keeps the first copy and writes the evidence. It compares lines as words; Dolma compares their bytes.

The record is written to record/<device>/<date>/dolma.json and .md.
"""

from __future__ import annotations

import gzip
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.race.process import Taken, measure
from benchmarks.record import arguments, new_folder, table, write_page

CORES, LIMIT = 2, 600.0  # LIMIT: seconds of a command
DATA = "data/documents"
FALSE_POSITIVES, LINES_OF_TEXT = 1e-8, 60  # more lines than a text has on average: the filter must not be too small
KINDS = {
    "equal texts": ["dedup", "--key", "text", "--key-only"],
    "equal lines": ["passages", "--unit", "line", "--max-copies", "1", "--cut", "--min-left", "0"],
}


def write_files(corpus: Path, folder: Path, files: int) -> int:
    """The rows of the corpus in so many files; their number."""
    folder.mkdir(parents=True)
    rows = pq.read_table(corpus, columns=["id", "text"]).to_pylist()
    for number in range(files):
        some = rows[number * len(rows) // files : (number + 1) * len(rows) // files]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in some)
        (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 6))
    return len(rows)


def run(command: list[str], folder: Path) -> Taken:
    """Run a command, which must end well."""
    taken = measure(command, folder, CORES, LIMIT)
    if taken.failed:
        raise SystemExit(f"{' '.join(command)}: {taken.failed}")
    return taken


def by_gpulsh(kind: str, folder: Path) -> list[Taken]:
    """The run of gpulsh."""
    program = [sys.executable, "-m", "gpulsh", KINDS[kind][0], DATA, "-o", "out", "--backend", "cpu"]
    return [run([*program, *KINDS[kind][1:]], folder)]


def by_dolma(kind: str, folder: Path, program: str, rows: int) -> list[Taken]:
    """The runs of `dolma dedupe` and `dolma mix`."""
    what: dict[str, Any] = {"documents": {"attribute_name": "found", "key": "$.text"}}
    change: dict[str, Any] = {"filter": {"exclude": [".attributes.found != null"], "syntax": "jq"}}
    count = rows
    if kind == "equal lines":
        what, count = {"paragraphs": {"attribute_name": "found"}}, rows * LINES_OF_TEXT
        change = {"span_replacement": [{"span": "$.attributes.found", "min_score": 0.5, "replacement": ""}]}
    bloom = {"file": "bloom", "estimated_doc_count": count, "desired_false_positive_rate": FALSE_POSITIVES}
    marks = {
        "documents": [f"{folder}/{DATA}/*.gz"],
        "dedupe": {"name": "marks", "skip_empty": True, **what},
        "bloom_filter": {"read_only": False, **bloom},
        "processes": CORES,
    }
    output = {"path": f"{folder}/out/data", "max_size_in_bytes": 1 << 24}
    stream = {"name": "kept", "documents": marks["documents"], "attributes": ["marks"], "output": output, **change}
    found = []
    for verb, given in (("dedupe", marks), ("mix", {"streams": [stream], "processes": CORES})):
        (folder / "given.json").write_text(json.dumps(given))
        found.append(run([program, "-c", "given.json", verb], folder))
    return found


def written(folder: Path) -> dict[str, int]:
    """The documents that a job wrote, and the bytes of their texts."""
    texts = [
        json.loads(line)["text"]
        for path in sorted(folder.rglob("data/**/*.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]
    return {"kept": len(texts), "MB kept": round(sum(len(text.encode()) for text in texts) / 1e6)}


def compare(folder: Path, jobs: dict[str, Callable[[str], list[Taken]]], rounds: int) -> list[dict[str, Any]]:
    """A row for each kind and job."""
    found: list[dict[str, Any]] = []
    for kind in KINDS:
        times: dict[str, list[dict[str, float]]] = {job: [] for job in jobs}
        kept: dict[str, dict[str, int]] = {}
        for _ in range(rounds):
            for job, of_job in times.items():
                steps = jobs[job](kind)
                one = {"seconds": sum(step.seconds for step in steps)}
                one["processor s"] = sum(step.cpu_seconds for step in steps)
                of_job.append(one | {"MiB": max(step.memory for step in steps) / 2**20})
                kept[job] = written(folder / "out")
                shutil.rmtree(folder / "out")
                shutil.rmtree(folder / "data/attributes", ignore_errors=True)
                (folder / "bloom").unlink(missing_ok=True)
        for job, of_job in times.items():
            medians = {name: round(statistics.median(one[name] for one in of_job), 2) for name in of_job[0]}
            found.append({"kind": kind, "job": job, **kept[job], **medians})
    return found


def main() -> None:
    """Measure, and write the record."""
    parser = arguments(__doc__)
    parser.add_argument("--dolma", required=True)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with new_folder(asked.folder) as folder:
        rows = write_files(asked.corpus, folder / DATA, asked.files)
        jobs = {
            "gpulsh": lambda kind: by_gpulsh(kind, folder),
            "Dolma": lambda kind: by_dolma(kind, folder, asked.dolma, rows),
        }
        found = compare(folder, jobs, asked.rounds)
    print(table(found))
    command = f"python -m benchmarks.dolma CORPUS.parquet FOLDER --dolma DOLMA --files {asked.files}"
    asks = "from importlib.metadata import version; print(version('dolma'))"
    version = subprocess.check_output([Path(asked.dolma).with_name("python"), "-c", asks], text=True).strip()
    text = f"Dolma {version}. Medians of {asked.rounds} rounds, whole processes, {rows:,} documents.\n\n{table(found)}"
    write_page(
        "dolma", "equal texts and lines, with Dolma", f"{command} --rounds {asked.rounds}", {"rows": found}, text
    )


if __name__ == "__main__":
    main()
