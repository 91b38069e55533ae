"""`ci/fuzz SECONDS [SEED]`: runs cases of every format on all processors and prints a table of the findings."""

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

from tests.fuzz.formats import NAMES
from tests.fuzz.runner import LIMIT, Runner, Verdict

MOST_SHOWN = 3  # findings that look alike
LEFT_OUT = r"'.*'|[0-9]+|\b(int|float|str|bool|list|dict|NoneType)\b"  # when two findings are compared


def main() -> int:
    parser = argparse.ArgumentParser(prog="ci/fuzz", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, help="for all formats together")
    parser.add_argument("seed", nargs="?", default="1", help="the same seed gives the same cases  [1]")
    parser.add_argument("--format", action="append", choices=NAMES, help="only this one; may be repeated")
    parser.add_argument("--cases", type=int, help="this many of each format, instead of SECONDS")
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each format  [0]")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes  [all processors]")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of a processor for a case  [20]")
    parser.add_argument("--findings", type=Path, help="folder where findings are saved  [a new one]")
    parser.add_argument("--case", type=Path, help="run a finding again from its folder, and nothing else")
    asked = parser.parse_args()
    if asked.case is not None:
        return _again(asked.case, asked.limit)
    if (asked.seconds is None) == (asked.cases is None):
        parser.error("give SECONDS or --cases")
    asked.findings = (asked.findings or Path(tempfile.mkdtemp(prefix="gpulsh-findings-"))).absolute()
    return _campaign(asked)


def _again(saved: Path, limit: float) -> int:
    with Runner(limit=limit) as runner:
        verdict = runner.again(saved)
    print(f"gpulsh {' '.join(verdict.case.arguments)}", *verdict.case.damage, sep="\n  ")
    print(verdict.ended.out, verdict.ended.error, sep="\n")
    print(f"exit status {verdict.ended.status}, {verdict.ended.seconds} s, {verdict.ended.memory >> 20} MiB")
    for finding in verdict.findings:
        print(f"{finding.kind}: {finding.what}")
    return int(bool(verdict.findings))


def _work(asked: argparse.Namespace, job: int, verdicts: Any) -> None:
    """Run the cases of one job, which takes every `jobs`-th number of each format."""
    chosen = asked.format or NAMES
    with suppress(KeyboardInterrupt), Runner(asked.findings, limit=asked.limit) as runner:
        for format in chosen:
            end = time.monotonic() + (asked.seconds or 0) / len(chosen)
            for number in count(asked.first + job, asked.jobs):
                if number >= asked.first + asked.cases if asked.cases else time.monotonic() >= end:
                    break
                verdicts.put(runner.run(format, asked.seed, number))


def _campaign(asked: argparse.Namespace) -> int:
    start = time.monotonic()
    context = get_context("fork")
    verdicts = context.Queue()
    jobs = [context.Process(target=_work, args=(asked, job, verdicts)) for job in range(asked.jobs)]
    for process in jobs:
        process.start()
    found: dict[str, list[Verdict]] = defaultdict(list)
    alike: Counter[str] = Counter()
    with suppress(KeyboardInterrupt):
        while any(process.is_alive() for process in jobs) or not verdicts.empty():
            with suppress(Empty):
                verdict = verdicts.get(timeout=0.5)
                found[verdict.case.format].append(verdict)
                _show(verdict, alike)
    for process in jobs:
        process.join()
    for name, of_format in found.items():
        print(_summary(name, of_format))
    kinds = Counter(kind for of_format in found.values() for verdict in of_format for kind in verdict.kinds)
    failed = [process.exitcode for process in jobs if process.exitcode]
    if kinds:
        print(f"findings are in {asked.findings}; ci/fuzz --case FOLDER runs one again")
    elif asked.findings.exists() and not any(asked.findings.iterdir()):
        asked.findings.rmdir()
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()) or "no findings"
    failure = f", and {len(failed)} jobs failed" if failed else ""
    cases, seconds = sum(map(len, found.values())), time.monotonic() - start
    print(f"fuzz: {cases} cases of {len(found)} formats in {seconds:.0f} s: {counts}{failure}")
    return int(bool(kinds or failed))


def _show(verdict: Verdict, alike: Counter[str]) -> None:
    """Print the first finding of a case, unless enough of its look are printed."""
    for kind, what in verdict.findings[:1]:
        look = f"{verdict.case.format} {kind} {re.sub(LEFT_OUT, '', what)[:70]}"
        alike[look] += 1
        if alike[look] <= MOST_SHOWN:
            print(f"{verdict.case.format} {verdict.case.number}: {kind}: {what[:300]}\n    {verdict.saved}", flush=True)


def _summary(name: str, verdicts: list[Verdict]) -> str:
    statuses = dict(sorted(Counter(verdict.ended.status for verdict in verdicts).items()))
    kinds = Counter(kind for verdict in verdicts for kind in verdict.kinds)
    slowest = max(verdict.ended.seconds for verdict in verdicts)
    largest = max(verdict.ended.memory for verdict in verdicts)
    return (
        f"{name:13} {len(verdicts):6} cases  slowest {slowest:.1f} s, largest {largest >> 20} MiB  exit {statuses} "
        f" {dict(kinds) or 'nothing found'}"
    )


if __name__ == "__main__":
    sys.exit(main())
