"""Processor seconds of `gpulsh dedup` that no stage has: to load the program, find and check files, sum up and report.

    python -m benchmarks.start FILE FOLDER [--rounds 9]

Runs the command on FILE, of little text, several times and takes the median processor time, which leaves out other
work on the machine. On a quiet machine that waits for no disk it is the time of a run outside of its stages; `gpulsh
plan` counts it once a run (`process` in gpulsh/forecast/rates.json).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

RUN = """
import contextlib, json, sys, time
from gpulsh.stats.stages import Funnel
inside, stage = [], Funnel.stage

@contextlib.contextmanager
def timed(*given):
    began = time.process_time()
    with stage(*given):
        yield
    inside.append(time.process_time() - began)

Funnel.stage = timed
from gpulsh.cli import main
status = main(["dedup", *sys.argv[1:]])
print(json.dumps({"stages": sum(inside), "process": time.process_time() - sum(inside)}))
sys.exit(status)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    command = [sys.executable, "-c", RUN, str(given.file), "-o", str(given.folder), "--overwrite", "--backend", "cpu"]
    found = []
    for _ in range(given.rounds + 1):  # the first one warms up
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    medians = {name: round(statistics.median(one[name] for one in found[1:]), 4) for name in found[0]}
    print(json.dumps({**medians, "raw": found[1:]}, indent=1))


if __name__ == "__main__":
    main()
