"""What no run may do, whatever it is given. Each finding is a kind and what was seen."""

from __future__ import annotations

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
    told: str


def state(folder: Path, case: Case) -> State:
    """Everything in the case's folder that must not change: of each path its kind, size and time of change."""
    found: State = {}
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        for entry in os.scandir(here):
            name = os.path.relpath(entry.path, folder)
            if name in case.writes:
                continue
            facts = entry.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(facts.st_mode)
            found[name] = (facts.st_mode,) if is_folder else (facts.st_mode, facts.st_size, facts.st_ctime_ns)
            if is_folder:
                waiting.append(Path(entry.path))
    return found


def conduct(case: Case, folder: Path, before: State, ended: Ended) -> list[Finding]:
    """How it ended, and what it did besides what it was asked for."""
    found: list[Finding] = []
    last = ended.error.strip().splitlines()[-1:] or [""]
    if ended.killed:
        found.append(Finding("memory" if "MiB" in ended.killed else "hang", ended.killed))
    elif ended.status < 0:
        found.append(Finding("signal", f"killed by signal {-ended.status}"))
    elif DEFECT.search(ended.error):
        found.append(Finding("unexpected", next(line for line in ended.error.splitlines() if DEFECT.search(line))))
    elif ended.status not in (0, 1, 2):
        found.append(Finding("status", f"exit status {ended.status}"))
    elif ended.status and not last[0].startswith("gpulsh: error: "):
        found.append(Finding("message", f"exit status {ended.status} and {last[0][:200]!r}"))
    if ended.memory > MOST_MEMORY and not ended.killed:
        found.append(Finding("memory", f"{ended.memory / (1 << 20):.0f} MiB of {BUDGET >> 20}"))
    found += [Finding("outside", told) for told in ended.broke]
    after = state(folder, case)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            how = "made" if name not in before else "gone" if name not in after else "changed"
            found.append(Finding("outside", f"{name} was {how}"))
    if not ended.killed and CONTROL.search(ended.error + ended.out):
        where = next(line for line in (ended.error + "\n" + ended.out).split("\n") if CONTROL.search(line))
        found.append(Finding("control", ascii(where[:300])))
    if ended.status > 0 and case.honest and (folder / "out").exists():
        left = sorted(os.listdir(folder / "out"))
        if left != ["_work"]:
            found.append(Finding("left", f"exit status {ended.status}, and out holds {left}"))
    return found


def results(case: Case, folder: Path, ended: Ended) -> list[Finding]:
    """What is wrong with the results of a run that says it is done."""
    if ended.status != 0 or not case.honest or case.arguments[0] != "dedup":
        return []
    return [
        Finding(kind, told) for kind, told in faults(folder, case.arguments, case.large and case.format == "parquet")
    ]
