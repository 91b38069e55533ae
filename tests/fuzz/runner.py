"""Cases made, run and judged, one after another; findings are saved with their files."""

import json
import os
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.fuzz import case as cases
from tests.fuzz import formats, judge
from tests.fuzz.case import Case
from tests.fuzz.judge import Finding
from tests.fuzz.server import Ended, Server

LIMIT = 20.0  # seconds of a processor
LARGE = 6  # times as many for cases of hundreds of megabytes
JUDGED = 60  # seconds in which a case must be judged


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
            ended = self._server.run(folder, case.arguments, writes=case.writes, limit=limit, target=case.target)
            findings = judge.conduct(case, folder, before, ended) or _results(case, folder, ended)
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
    """Copy a file whose holes stay holes, for some are larger than the disk."""
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
