"""Memory and cost of a run under a budget: peak of the process tree, seconds, microseconds per document.

    python -m benchmarks.bounded FOLDER [--cases short,pages,large,growth,index,passages]

Corpora of random words are made in FOLDER (35 GB for all cases) and run from file to file in a process of its own:

    short     8 million documents of 84 bytes at 512 MiB
    small     2.4 GB of pages of 2.7 kB at 512 MiB
    pages     10.8 GB of pages of 2.7 kB at 1 GiB
    large     17.3 GB of the same at 4 GiB
    growth    0.5, 1, 2, 4 and 8 million documents of 84 bytes with the default budget
    index     2 and 4 million documents of 84 bytes at 512 MiB, taken into a new index
    passages  `gpulsh passages` on 0.1 to 8 GB of pages at 512 MiB

The record is written to record/<device>/<date>/bounded-CASE.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.corpora import random_words
from benchmarks.record import FOLDER, table
from benchmarks.tree_memory import TreeMemory

SHORT, PAGE = 12, 386  # words of a document
CASES: dict[str, list[tuple[int, int, str | None]]] = {
    "short": [(8_000_000, SHORT, "512MiB")],
    "small": [(900_000, PAGE, "512MiB")],
    "pages": [(4_000_000, PAGE, "1GiB")],
    "large": [(6_400_000, PAGE, "4GiB")],
    "growth": [(number, SHORT, None) for number in (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)],
    "index": [(number, SHORT, "512MiB") for number in (2_000_000, 4_000_000)],
    "passages": [(number, PAGE, "512MiB") for number in (37_000, 370_000, 1_480_000, 2_960_000)],
}


def run(folder: Path, documents: int, words: int, memory: str | None, case: str) -> dict[str, Any]:
    source = random_words.make(folder / f"{documents}-{words}.parquet", documents, words)
    out = folder / "out"
    index = folder / "index"
    for path in (out, index):
        shutil.rmtree(path, ignore_errors=True)
    job = "passages" if case == "passages" else "dedup"
    command = [sys.executable, "-m", "gpulsh", job, str(source), "-o", str(out), "--backend", "cpu", "--json"]
    began, spent = time.perf_counter(), processor_seconds()
    with subprocess.Popen(
        [*command, *(["--memory", memory] if memory else []), *(["--index", str(index)] if case == "index" else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        with TreeMemory(process.pid) as watched:
            printed, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{command} ended with {process.returncode}")
    seconds, spent = time.perf_counter() - began, processor_seconds() - spent
    report = json.loads(printed)
    funnel = report["funnel"] if job == "dedup" else {**report["passages"], "seconds": report["stages"]}
    for path in (out, index):
        shutil.rmtree(path, ignore_errors=True)
    return {
        "documents": documents,
        "GB of text": round(funnel["bytes"] / 1e9, 2),
        "--memory": memory or "default",
        "peak PSS MiB": watched.peak >> 20,
        "seconds": round(seconds, 1),
        "us a document": round(seconds / documents * 1e6, 2),
        "processor ns a byte": round(spent / funnel["bytes"] * 1e9, 2),
        **{name: funnel[name] for name in ("dropped", "passages") if name in funnel},
        "stages": {name: round(took, 2) for name, took in funnel["seconds"].items()},
    }


def processor_seconds() -> float:
    """Processor time of all processes that this one started and waited for."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", default=",".join(CASES))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.cases.split(","):
        described = machine.describe()
        rows = [run(given.folder, *case, name) for case in CASES[name]]
        today = date.today().isoformat()
        record = FOLDER / machine.device_name() / today / f"bounded-{name}.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"date": today, "machine": described, "rows": rows}, indent=1) + "\n")
        shown = table([{key: value for key, value in row.items() if key != "stages"} for row in rows])
        stages = table([{"documents": row["documents"], **row["stages"]} for row in rows])
        record.with_suffix(".md").write_text(
            f"# {described['cpu']}, {described['cores']} cores, {today}: {name} under a budget\n\n"
            f"`python -m benchmarks.bounded FOLDER --cases {name}`, commit {described['commit']},"
            f" load before: {described['load_before']}.\nPeak of the process tree, sampled every 20 ms."
            f" Each case once, from start to end of the process.\n\n{shown}\n\nSeconds by stage:\n\n{stages}\n"
        )
        print(shown, flush=True)


if __name__ == "__main__":
    main()
