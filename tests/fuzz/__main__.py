"""`ci/fuzz SECONDS [SEED]`: cases of every format for so long, on all processors, and a table of what was found."""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.fuzz.formats import NAMES
from tests.fuzz.runner import LIMIT, Runner, Verdict

MOST_SHOWN = 3  # findings that look alike
LEFT_OUT = r"'.*'|[0-9]+|\b(int|float|str|bool|list|dict|NoneType)\b"  # where two are compared


def main() -> int:
    parser = argparse.ArgumentParser(prog="ci/fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, help="for all formats together")
    parser.add_argument("seed", nargs="?", default="1", help="the same seed gives the same cases  [1]")
    parser.add_argument("--format", action="append", choices=NAMES, help="only this one; may be given again")
    parser.add_argument("--cases", type=int, help="so many of each format, instead of SECONDS")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each format  [0]")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes  [all processors]")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a processor a case may take  [20]")
    parser.add_argument("--findings", type=Path, help="folder where findings are saved  [a new one]")
    parser.add_argument("--case", type=Path, help="run a finding again from its folder, and nothing else")
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)  # number of this process, which is one of the jobs
    asked = parser.parse_args()
    if asked.case is not None:
        return _again(asked.case, asked.limit)
    if (asked.seconds is None) == (asked.cases is None):
        parser.error("give SECONDS or --cases")
    if asked.job is not None:
        _work(asked)
        return 0
    asked.findings = (asked.findings or Path(tempfile.mkdtemp(prefix="gpulsh-findings-"))).absolute()
    return _campaign(asked)


def _again(saved: Path, limit: float) -> int:
    with Runner(limit=limit) as runner:
        verdict = runner.again(saved)
    print(f"gpulsh {' '.join(verdict.case.arguments)}", *verdict.case.damage, sep="\n  ")
    print(verdict.ended.out, verdict.ended.error, sep="\n")
    print(f"exit status {verdict.ended.status}, {verdict.ended.seconds} s, {verdict.ended.memory >> 20} MiB")
    for finding in verdict.findings:
        print(f"{finding.kind}: {finding.told}")
    return int(bool(verdict.findings))


def _work(asked: argparse.Namespace) -> None:
    """One job: every so manyth case of each format, in turn, told in a line each."""
    chosen = asked.format or NAMES
    with Runner(asked.findings, limit=asked.limit) as runner:
        for format in chosen:
            end = time.monotonic() + (asked.seconds or 0) / len(chosen)
            numbers: Iterator[int] = count(asked.first + asked.job, asked.jobs)
            for number in numbers:
                is_enough = number >= asked.first + asked.cases if asked.cases else time.monotonic() >= end
                if is_enough:
                    break
                print(json.dumps(_told(runner.run(format, asked.seed, number))), flush=True)


def _told(verdict: Verdict) -> dict[str, Any]:
    return {
        "format": verdict.case.format,
        "number": verdict.case.number,
        "status": verdict.ended.status,
        "seconds": verdict.ended.seconds,
        "memory": verdict.ended.memory,
        "findings": verdict.findings,
        "saved": str(verdict.saved),
    }


def _campaign(asked: argparse.Namespace) -> int:
    start = time.monotonic()
    commands = [[sys.executable, "-m", "tests.fuzz", *sys.argv[1:], "--job", str(job)] for job in range(asked.jobs)]
    commands = [[*command, "--jobs", str(asked.jobs), "--findings", str(asked.findings)] for command in commands]
    jobs = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    cases: Counter[str] = Counter()
    statuses: Counter[tuple[str, int]] = Counter()
    times: dict[str, list[float]] = {}
    kinds: Counter[tuple[str, str]] = Counter()
    alike: Counter[str] = Counter()
    slowest = dict.fromkeys(NAMES, 0.0)
    largest = dict.fromkeys(NAMES, 0)
    try:
        for told in _lines(jobs):
            name = told["format"]
            cases[name] += 1
            statuses[name, told["status"]] += 1
            times.setdefault(name, [time.monotonic()]).append(time.monotonic())
            slowest[name] = max(slowest[name], told["seconds"])
            largest[name] = max(largest[name], told["memory"])
            kinds.update((name, kind) for kind in {kind for kind, _ in told["findings"]})
            for kind, what in told["findings"][:1]:
                look = f"{name} {kind} {re.sub(LEFT_OUT, '', what)[:70]}"
                alike[look] += 1
                if alike[look] <= MOST_SHOWN:
                    print(f"{name} {told['number']}: {kind}: {what[:300]}\n    {told['saved']}", flush=True)
    except KeyboardInterrupt:
        print()
    for job in jobs:
        job.terminate() if job.poll() is None else None
        job.wait()
    for name in cases:
        ended = {status: count for (of, status), count in sorted(statuses.items()) if of == name}
        found = {kind: count for (of, kind), count in sorted(kinds.items()) if of == name}
        took = max(times[name][-1] - times[name][0], 1e-3)
        print(
            f"{name:13} {cases[name]:6} cases {(cases[name] - 1) / took:6.1f}/s  slowest {slowest[name]:.1f} s,"
            f" largest {largest[name] >> 20} MiB  exit {ended}  {found or 'nothing found'}"
        )
    failed = [job.returncode for job in jobs if job.returncode not in (0, -15)]
    if kinds:
        print(f"findings are in {asked.findings}; ci/fuzz --case FOLDER runs one again")
    elif asked.findings.exists() and not any(asked.findings.iterdir()):
        asked.findings.rmdir()
    total = Counter(kind for (_, kind), count in kinds.items() for _ in range(count))
    summary = ", ".join(f"{count} {kind}" for kind, count in total.most_common()) or "no findings"
    failure = f", and {len(failed)} jobs failed" if failed else ""
    seconds = time.monotonic() - start
    print(f"fuzz: {cases.total()} cases of {len(cases)} formats in {seconds:.0f} s: {summary}{failure}")
    return int(bool(kinds or failed))


def _lines(jobs: list[subprocess.Popen[bytes]]) -> Iterator[dict[str, Any]]:
    """What the jobs tell, as it comes."""
    waiting = selectors.DefaultSelector()
    for job in jobs:
        waiting.register(job.stdout, selectors.EVENT_READ)
    while waiting.get_map():
        for key, _ in waiting.select():
            line = key.fileobj.readline()
            if line:
                yield json.loads(line)
            else:
                waiting.unregister(key.fileobj)


if __name__ == "__main__":
    sys.exit(main())
