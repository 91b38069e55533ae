"""Rates of the stages of `gpulsh dedup` on this machine, and how well `gpulsh plan` estimates other sizes from them.

    python -m benchmarks.planner TEXTS.parquet FOLDER [--backend cpu] [--documents 25000,100000,400000] [--rounds 3]

Three corpora of job advertisements are recombined from TEXTS in FOLDER and run from file to file. The largest gives the
rates of a worker (a thread, or with --backend cuda a GPU), and the shares of documents in pairs and of dropped ones.
The others are estimated from these, and from the start: the time to sign 1,000 documents. The size of OUT/_work is
read while each size runs for the first time, outside of the clock. False candidates are counted in groups of documents
of known similarity. The record is written to record/<device>/<date>/plan.json and .md, the rates to
gpulsh/forecast/rates.json under the kind of worker; docs/scale.md shows a plan made of them (tests/test_manual.py).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import machine
from benchmarks.corpora import groups, job_ads
from benchmarks.record import FOLDER, table
from gpulsh.forecast.formula import Corpus, estimate, false_candidates
from gpulsh.stats.stages import ESTIMATED_STAGES

STARTED = 1_000  # documents that take hardly more than the start
GROUPS, MEMBERS = 400, (10, 20, 40)
RATES = Path(__file__).parents[1] / "gpulsh" / "forecast" / "rates.json"


class Watched:
    """The greatest size of a folder's files, but for the results in it, and of a process's memory."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.disk = self.memory = 0
        self._folder, self._status, self._done = folder, Path(f"/proc/{pid}/status"), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self.disk = max(self.disk, self._size())
            try:
                found = re.search(r"VmHWM:\s+(\d+)", self._status.read_text())
            except OSError:
                continue
            self.memory = int(found[1]) * 1024 if found else self.memory

    def _size(self) -> int:
        held = 0
        for path in self._folder.glob("*.*"):
            try:
                held += path.stat().st_size
            except OSError:  # it went while it was looked at
                continue
        return held

    def end(self) -> None:
        self._done.set()
        self._thread.join()


def run(path: Path, out: Path, options: list[str]) -> dict[str, Any]:
    """Report and stages' ends of one run in a process of its own; its input has been read before."""
    command = [sys.executable, "-m", "gpulsh", "dedup", str(path), "-o", str(out), "--overwrite", "--json", *options]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watched = Watched(out / "_work", process.pid)
        stdout, stderr = process.communicate()
        watched.end()
    if process.returncode:
        raise SystemExit(stderr)
    whole = time.perf_counter() - began
    told = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
    ends = {e["stage"]: e for e in told if e["event"] == "end"}
    report = json.loads(stdout)
    outside = whole - sum(report["funnel"]["seconds"].values())
    return {"report": report, "ends": ends, "disk": watched.disk, "memory": watched.memory, "process": outside}


def facts(found: dict[str, Any]) -> Corpus:
    funnel, ends = found["report"]["funnel"], found["ends"]
    return Corpus(
        documents=funnel["documents"],
        bytes=funnel["bytes"],
        met=ends["gather"].get("documents", 0) / funnel["documents"],
        pairs=funnel["candidates"] / funnel["documents"],
        dropped=funnel["dropped"] / funnel["documents"],
        bytes_per_shingle=funnel["bytes"] / funnel["shingles"],
    )


def false(folder: Path, options: list[str]) -> list[dict[str, Any]]:
    """Candidates that drop nothing, in groups that grow: their pairs grow by the square."""
    rows = []
    for members in MEMBERS:
        path = groups.make(folder / f"groups-{members}.parquet", GROUPS, members)
        report = run(path, folder / "out", options)["report"]
        expected = GROUPS * false_candidates(members, groups.SIMILARITY, **report["parameters"]["banding"])
        counted, dropped = report["funnel"]["candidates"], report["funnel"]["dropped"]
        assert not dropped, f"{dropped} of {path} were dropped"
        rows.append(
            {
                "documents": GROUPS * members,
                "pairs of that similarity": GROUPS * members * (members - 1) // 2,
                "estimated": round(expected),
                "counted": counted,
                "ratio": round(expected / counted, 2),
            }
        )
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backend", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--documents", default="25000,100000,400000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=Path, help="folder of the record; then the rates of gpulsh plan stay")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    described = machine.describe()
    kind, workers = ("thread", described["cores"]) if given.backend == "cpu" else ("GPU", 1)
    options = ["--backend", given.backend, *(["--threads", str(workers)] if kind == "thread" else ["--devices", "0"])]
    texts = pq.read_table(given.texts, columns=["text"])["text"].to_pylist()
    sizes = [STARTED, *(int(part) for part in given.documents.split(","))]
    given.folder.mkdir(parents=True, exist_ok=True)
    paths = [job_ads.make(given.folder / f"{documents}.parquet", texts, documents) for documents in sizes]
    # Size by size within a round, so that whatever else the machine does meets all sizes alike; the first one warms up.
    first, *rounds = [[run(path, given.folder / "out", options) for path in paths] for _ in range(given.rounds + 1)]
    measured = []
    for runs in zip(*rounds, strict=True):
        took = [one["report"]["funnel"]["seconds"] for one in runs]
        medians = {name: statistics.median(one[name] for one in took) for name in ESTIMATED_STAGES}
        measured.append((facts(runs[0]), medians, took))

    start = measured.pop(0)[1]["sign"]
    process = statistics.median(one[0]["process"] for one in rounds)
    largest, by_stage, _ = measured[-1]
    report = rounds[0][0]["report"]
    banding = report["parameters"]["banding"]
    plain = estimate(largest, {}, workers=1, nodes=1, **banding)
    units = {stage.name: stage.unit for stage in plain.stages}
    rates = {
        stage.name: stage.amount / (by_stage[stage.name] - (start if stage.name == "sign" else 0)) / workers
        for stage in plain.stages
        if stage.amount
    }
    shares = {name: getattr(largest, name) for name in ("met", "pairs", "dropped", "bytes_per_shingle")}
    rows, space = [], []
    for (corpus, seconds, _), watched in zip(measured, first[1:], strict=True):
        guess = Corpus(documents=corpus.documents, bytes=corpus.bytes, **shares)
        guessed = estimate(guess, rates, workers=workers, nodes=1, **banding, start=start, process=process)
        both = [(stage.name, stage.seconds or 0.0, seconds[stage.name]) for stage in guessed.stages]
        both.append(("all", sum(told for _, told, _ in both), sum(took for _, _, took in both)))
        size = {"documents": int(corpus.documents), "MB": round(corpus.bytes / 1e6, 1)}
        for name, told, took in both:
            times = {"estimated": round(told, 3), "measured": round(took, 3), "ratio": round(told / took, 2)}
            rows.append({**size, "stage": name, **times})
        space.append(
            {
                **size,
                "_work estimated MB": round(guessed.work_disk / 1e6, 1),
                "_work measured MB": round(watched["disk"] / 1e6, 1),
                "state estimated MB": round(max(stage.memory_each for stage in guessed.stages) / 1e6, 1),
                "peak of the process MB": round(watched["memory"] / 1e6, 1),
            }
        )
    wrong = false(given.folder, options)

    machine_told = f"{described['cpu']}, {workers} cores" if kind == "thread" else str(report["backend"]["device"])
    slug = machine.device_name() if kind == "thread" else re.sub(r"[^a-z0-9]+", "-", machine_told.lower()).strip("-")
    today = date.today().isoformat()
    record = (given.record or FOLDER / slug / today) / "plan.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "date": today,
        "machine": described,
        "rounds": given.rounds,
        "worker": f"one {kind}",
        "workers": workers,
        "banding": banding,
        "start": start,
        "process": process,
        "rates": rates,
        "shares": shares,
        "rows": rows,
        "space": space,
        "false": wrong,
        "raw": [{"documents": int(corpus.documents), "seconds": every} for corpus, _, every in measured],
    }
    record.write_text(json.dumps(found, indent=1) + "\n")
    told = "\n".join(f"| {name} | {units[name]} | {rate:,.4g} |" for name, rate in rates.items())
    page = f"""# {machine_told}, {today}: the planner

`python -m benchmarks.planner`, commit {described["commit"]}, load before: {described["load_before"]}.
Job advertisements from file to file, {workers} {kind}{"s" if workers != 1 else ""}; medians of {given.rounds} rounds
after a first. The rates are those of {int(largest.documents):,} documents, by which the others are estimated;
the start takes {start:.2f} s, and what no stage has (the program, files, the summary) {process:.2f} s.

{table(rows)}

Disk and memory in the first round of each size; the estimates leave out the texts in work:

{table(space)}

Candidates in {GROUPS} groups of documents that have a Jaccard similarity of {groups.SIMILARITY} to each other:

{table(wrong)}

| stage | amount | a {kind} and second |
| --- | --- | --- |
{told}
"""
    record.with_suffix(".md").write_text(page)
    if given.record is None:
        known = json.loads(RATES.read_text())
        known[kind] = {
            "source": f"benchmarks/record/{slug}/{today}/plan.json",
            "worker": f"one thread of {machine_told}" if kind == "thread" else f"one {machine_told}",
            "start": float(f"{start:.4g}"),
            "process": float(f"{process:.4g}"),
            "rates": {name: float(f"{rate:.4g}") for name, rate in rates.items()},
        }
        if kind == "thread":
            known["corpus"] = {name: float(f"{share:.4g}") for name, share in shares.items()}
        RATES.write_text(json.dumps(known, indent=2) + "\n")
    print(page)


if __name__ == "__main__":
    main()
