"""Memory of `gpulsh dedup --memory 512MiB` on files that expand to gigabytes, or have documents as large as allowed.

    python -m benchmarks.hostile FOLDER [--cases first-line.jsonl.gz,...]

Each file is made in FOLDER, given to the command in a process of its own, and removed. The peak of the process tree is
sampled; a run beyond 3 GiB is killed, for the machine may be shared. A case holds if the run succeeds, or ends in one
line with its budget and its need, and the peak is within the budget and a tenth. The kernel may end it a little above.

The record is written to record/<device>/<date>/hostile-memory.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.corpora.hostile_files import FILES
from benchmarks.record import FOLDER, table
from benchmarks.tree_memory import TreeMemory

BUDGET = 512 << 20
MAX_BYTES, MAX_SECONDS = 3 << 30, 300
OPTIONS = {"large-ids.parquet": ["--id-column", "id"]}


def run(folder: Path, name: str) -> dict[str, Any]:
    source, out = folder / name, folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    # In a process of its own, whose memory is the system's again.
    subprocess.run([sys.executable, "-m", "benchmarks.hostile", str(folder), "--make", name], check=True)
    size = source.stat().st_size
    command = [sys.executable, "-m", "gpulsh", "dedup", str(source), "-o", str(out), "--backend", "cpu", "--json"]
    began = time.perf_counter()
    with (
        subprocess.Popen(
            [*command, "--memory", str(BUDGET), *OPTIONS.get(name, ())],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process,
        TreeMemory(process.pid) as watched,
    ):
        while process.poll() is None:
            if watched.peak > MAX_BYTES or time.perf_counter() - began > MAX_SECONDS:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.05)
        assert process.stderr is not None
        told = process.stderr.read().strip().splitlines()
    seconds = time.perf_counter() - began
    shutil.rmtree(out, ignore_errors=True)
    source.unlink()
    message = told[-1].replace(str(folder), "") if told and process.returncode else ""
    return {
        "file": name,
        "bytes": size,
        "peak PSS MiB": watched.peak >> 20,
        "status": process.returncode,
        "seconds": round(seconds, 1),
        "holds": (watched.peak <= BUDGET * 11 // 10 or "this process may allocate" in message)
        and process.returncode in (0, 1)
        and "unexpected" not in message,
        "message": message,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", default=",".join(FILES))
    parser.add_argument("--make", choices=FILES, help="only make this file")
    parser.add_argument("--no-record", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.make:
        FILES[given.make](given.folder / given.make)
        return
    described, today = machine.describe(), date.today().isoformat()
    rows = []
    for name in given.cases.split(","):
        rows.append(run(given.folder, name))
        print(rows[-1], flush=True)
    shown = table(rows)
    if not given.no_record:
        record = FOLDER / machine.device_name() / today / "hostile-memory.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"date": today, "machine": described, "rows": rows}, indent=1) + "\n")
        record.with_suffix(".md").write_text(
            f"# {described['cpu']}, {described['cores']} cores, {today}: files that expand to gigabytes, at 512 MiB\n\n"
            f"`python -m benchmarks.hostile FOLDER`, commit {described['commit']}, load before:"
            f" {described['load_before']}.\nPeak of the process tree, sampled every 20 ms; killed beyond 3 GiB or"
            f" {MAX_SECONDS} seconds.\nEach case once, from start to end of the process.\n\n{shown}\n"
        )
    if not all(row["holds"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
