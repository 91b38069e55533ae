"""Rates of the stages of `gpulsh dedup` on this machine, and how well `gpulsh plan` foretells other sizes from them.

    python -m benchmarks.planner TEXTS.parquet FOLDER [--documents 25000,100000,400000] [--rounds 3]

Three corpora of job advertisements are recombined from TEXTS in FOLDER and run from file to file. The largest gives the
rates of a worker (a thread), and its shares of documents that meet and are dropped; the others are foretold from those
and from what 1,000 documents take to sign, which is the start. The record is written to
record/<device>/<date>/plan.json and .md, the rates to gpulsh/report/rates.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import machine
from benchmarks.corpora import job_ads
from benchmarks.record import FOLDER, table
from gpulsh.report.estimate import STAGES, Corpus, Rates, estimate

STARTED = 1_000  # documents that take hardly more than the start
RATES = Path(__file__).parents[1] / "gpulsh" / "report" / "rates.json"


def run(path: Path, out: Path, threads: int) -> dict[str, Any]:
    """Report and stages' ends of one run in a process of its own; its input has been read before."""
    command = [sys.executable, "-m", "gpulsh", "dedup", str(path), "-o", str(out), "--overwrite", "--json"]
    ran = subprocess.run(
        [*command, "--backend", "cpu", "--threads", str(threads)], capture_output=True, text=True, check=True
    )
    told = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]
    return {"report": json.loads(ran.stdout), "ends": {e["stage"]: e for e in told if e["event"] == "end"}}


def facts(found: dict[str, Any]) -> Corpus:
    funnel, ends = found["report"]["funnel"], found["ends"]
    return Corpus(
        documents=funnel["documents"],
        bytes=funnel["bytes"],
        met=ends["read"].get("documents", 0) / funnel["documents"],
        pairs=ends["verify"].get("pairs", 0) / funnel["documents"],
        dropped=funnel["dropped"] / funnel["documents"],
        bytes_per_shingle=funnel["bytes"] / funnel["shingles"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", default="25000,100000,400000")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    described = machine.describe()
    threads = described["cores"]
    texts = pq.read_table(given.texts, columns=["text"])["text"].to_pylist()
    sizes = [STARTED, *(int(part) for part in given.documents.split(","))]
    given.folder.mkdir(parents=True, exist_ok=True)
    paths = [job_ads.make(given.folder / f"{documents}.parquet", texts, documents) for documents in sizes]
    # Size by size within a round, so that whatever else the machine does meets all sizes alike; the first one warms up.
    rounds = [[run(path, given.folder / "out", threads) for path in paths] for _ in range(given.rounds + 1)][1:]
    measured = []
    for runs in zip(*rounds, strict=True):
        took = [one["report"]["funnel"]["seconds"] for one in runs]
        medians = {name: statistics.median(one[name] for one in took) for name in STAGES}
        measured.append((facts(runs[0]), medians, took))

    start = measured.pop(0)[1]["sign"]
    largest, by_stage, _ = measured[-1]
    banding = rounds[0][0]["report"]["parameters"]["banding"]
    plain = estimate(largest, Rates(), workers=1, nodes=1, **banding)
    units = {stage.name: stage.unit for stage in plain.stages}
    rates = {
        stage.name: stage.amount / (by_stage[stage.name] - (start if stage.name == "sign" else 0)) / threads
        for stage in plain.stages
    }
    shares = {name: getattr(largest, name) for name in ("met", "pairs", "dropped", "bytes_per_shingle")}
    rows = []
    for corpus, seconds, _ in measured:
        guess = Corpus(documents=corpus.documents, bytes=corpus.bytes, **shares)
        foretold = estimate(guess, Rates(**rates), workers=threads, nodes=1, **banding, start=start)
        both = [(stage.name, stage.seconds or 0.0, seconds[stage.name]) for stage in foretold.stages]
        both.append(("all", sum(told for _, told, _ in both), sum(took for _, _, took in both)))
        for name, told, took in both:
            entry = {"documents": int(corpus.documents), "MB": round(corpus.bytes / 1e6, 1), "stage": name}
            rows.append(
                {**entry, "foretold": round(told, 3), "measured": round(took, 3), "ratio": round(told / took, 2)}
            )

    device, today = machine.device_name(), date.today().isoformat()
    record = FOLDER / device / today / "plan.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    header = {
        "date": today,
        "machine": described,
        "rounds": given.rounds,
        "threads": threads,
        "banding": banding,
        "start": start,
    }
    raw = [{"documents": int(corpus.documents), "seconds": every} for corpus, _, every in measured]
    record.write_text(
        json.dumps({**header, "rates": rates, "shares": shares, "rows": rows, "raw": raw}, indent=1) + "\n"
    )
    told = "\n".join(f"| {name} | {units[name]} | {rate:,.4g} |" for name, rate in rates.items())
    page = f"""# {described["cpu"]}, {threads} cores, {today}: the planner

`python -m benchmarks.planner`, commit {described["commit"]}, load before: {described["load_before"]}.
Job advertisements from file to file, {threads} threads, medians of {given.rounds} rounds after a first.
The rates are those of {int(largest.documents):,} documents, by which the others are foretold;
the start takes {start:.2f} s.

{table(rows)}

| stage | amount | a thread and second |
| --- | --- | --- |
{told}
"""
    record.with_suffix(".md").write_text(page)
    source = {
        "source": f"benchmarks/record/{device}/{today}/plan.json",
        "worker": f"one thread of {described['cpu']}, {threads} cores",
        "start": float(f"{start:.4g}"),
        "rates": {name: float(f"{rate:.4g}") for name, rate in rates.items()},
        "corpus": {name: float(f"{share:.4g}") for name, share in shares.items()},
    }
    RATES.write_text(json.dumps(source, indent=2) + "\n")
    print(page)


if __name__ == "__main__":
    main()
