"""What no run may do, whatever its input. Each finding is a kind and an observation."""

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.case import Case
from tests.fuzz.evidence import faults
from tests.fuzz.server import Ended

BUDGET = 512 << 20  # that every case gives as --memory
MOST_MEMORY = BUDGET * 11 // 10
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
DEFECT = re.compile(r"error: unexpected \w+:|Traceback \(most recent call last\)|Exception ignored|Fatal Python error")
State = dict[str, tuple[int, ...]]


class Finding(NamedTuple):
    kind: str
    what: str


def state(folder: Path, case: Case) -> State:
    """Everything in the case's folder that must not change: of each path its kind, size and time of change."""
    found: State = {}
    waiting = [folder]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            name = os.path.relpath(entry.path, folder)
            if name in case.writes:
                continue
            facts = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                found[name] = (facts.st_mode,)
                waiting.append(Path(entry.path))
            else:
                found[name] = (facts.st_mode, facts.st_size, facts.st_ctime_ns)
    return found


def conduct(case: Case, folder: Path, before: State, ended: Ended) -> list[Finding]:
    """How it ended, and what else it did."""
    found: list[Finding] = []
    lines = f"{ended.error}\n{ended.out}".split("\n")
    last = (ended.error.strip().splitlines() or [""])[-1]
    if ended.killed:
        found.append(Finding("memory" if "MiB" in ended.killed else "hang", ended.killed))
    elif ended.status < 0:
        found.append(Finding("signal", f"killed by signal {-ended.status}"))
    elif DEFECT.search(ended.error):
        found.append(Finding("unexpected", next(filter(DEFECT.search, lines))))
    elif ended.status not in (0, 1, 2):
        found.append(Finding("status", f"exit status {ended.status}"))
    elif ended.status and not last.startswith("gpulsh: error: "):
        found.append(Finding("message", f"exit status {ended.status} and {last[:200]!r}"))
    if not ended.killed and ended.memory > MOST_MEMORY:
        found.append(Finding("memory", f"{ended.memory / (1 << 20):.0f} MiB of {BUDGET >> 20}"))
    if not ended.killed and (control := next(filter(CONTROL.search, lines), None)) is not None:
        found.append(Finding("control", ascii(control[:300])))
    found += [Finding("outside", act) for act in ended.broke]
    after = state(folder, case)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            how = "made" if name not in before else "gone" if name not in after else "changed"
            found.append(Finding("outside", f"{name} was {how}"))
    if ended.status > 0 and case.honest and (folder / "out").exists():
        left = sorted(os.listdir(folder / "out"))
        if left != ["_work"]:
            found.append(Finding("left", f"exit status {ended.status}, and out holds {left}"))
    return found


def results(case: Case, folder: Path) -> list[Finding]:
    """What is wrong with the results of a run that ended well."""
    if case.arguments[0] != "dedup":
        return []
    no_text = case.large and case.format == "parquet"
    return [Finding(kind, what) for kind, what in faults(folder, case.arguments, no_text)]
