"""`ci/fuzz SECONDS [SEED]`: runs cases of every format on all processors, and judges them; findings are saved."""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any, Self

from tests.fuzz import case as cases
from tests.fuzz import formats, judge
from tests.fuzz.case import Case
from tests.fuzz.formats import NAMES
from tests.fuzz.judge import Finding
from tests.fuzz.server import Ended, Server

LIMIT = 20.0  # seconds of a processor
LARGE = 6  # times as many for cases of hundreds of megabytes
JUDGED = 60  # seconds in which a case must be judged
MAX_SHOWN = 3  # findings that look alike
LEFT_OUT = r"'.*'|[0-9]+|\b(int|float|str|bool|list|dict|NoneType)\b"  # when two findings are compared


@dataclass(frozen=True)
class Verdict:
    case: Case
    ended: Ended
    findings: list[Finding]
    saved: Path | None

    @property
    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.findings}


class Runner:
    """A context with a server of its own. `findings` is the folder where they are saved, None to save none."""

    def __init__(self, findings: Path | None = None, *, limit: float = LIMIT) -> None:
        self._findings, self._limit, self._server = findings, limit, Server()

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="gpulsh-fuzz-"))
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, format: str, seed: str, number: int) -> Verdict:
        case, folder = Case(format, seed, number), self._folder / "case"
        cases.make_folders(folder)
        formats.FILES[format](case, folder)
        return self._judged(case, folder)

    def again(self, saved: Path) -> Verdict:
        folder = self._folder / "case"
        shutil.copytree(saved, folder, copy_function=_copy)
        case = Case.load(folder)
        (folder / cases.NAME).unlink()
        return self._judged(case, folder)

    def _judged(self, case: Case, folder: Path) -> Verdict:
        try:
            before = judge.state(folder, case)
            limit = self._limit * (LARGE if case.large else 1)
            ended = self._server.run(folder, case, limit=limit)
            findings = judge.conduct(case, folder, before, ended)
            if not ended.killed and any(finding.kind == "memory" for finding in findings):
                shutil.rmtree(folder / "out", ignore_errors=True)
                ended = self._server.run(folder, case, limit=limit, alone=True)
                findings = judge.conduct(case, folder, before, ended)
            findings = findings or _results(case, folder, ended)
            saved = self._save(case, folder, ended, findings) if findings and self._findings else None
            return Verdict(case, ended, findings, saved)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _save(self, case: Case, folder: Path, ended: Ended, findings: list[Finding]) -> Path:
        assert self._findings is not None
        target = self._findings / f"{case.format}-{case.seed}-{case.number}"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder, target, copy_function=_copy, ignore=shutil.ignore_patterns("out"))
        case.save(target)
        found = [f"{finding.kind}: {finding.what}" for finding in findings]
        how = f"gpulsh {' '.join(case.arguments)}\n{case.damage}\n{ended.status} in {ended.seconds} s\n"
        (target / "finding.txt").write_text("\n".join([*found, how, ended.error, ended.out]), errors="backslashreplace")
        return target


def _copy(source: str, target: str) -> None:
    """Copy a file and keep its holes: some files are larger than the disk."""
    size = os.path.getsize(source)
    if os.stat(source).st_blocks * 512 >= size // 2:
        shutil.copyfile(source, target)
        return
    with open(target, "wb") as out, open(source, "rb") as content:
        out.write(content.read(1 << 20))
        out.truncate(size)


def _results(case: Case, folder: Path, ended: Ended) -> list[Finding]:
    """The results judged in a process of its own: a file that killed a reader may kill this one, too."""
    if ended.status != 0 or not case.honest:
        return []
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(JUDGED)
        found = [Finding("judge", "the judge failed")]
        try:
            found = judge.results(case, folder)
        except BaseException as error:
            found = [Finding("judge", f"{type(error).__name__}: {error}")]
        finally:
            os.write(write, json.dumps(found[:20])[:60_000].encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        return [Finding("judge", f"ended with {status}")]
    return [Finding(*each) for each in json.loads(answer)]


# --- the command ---


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
        if alike[look] <= MAX_SHOWN:
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
