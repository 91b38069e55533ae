"""One run of the command in a process of its own, as its user would start it, and what it took."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import BinaryIO, NamedTuple

from gpulsh.account.costs import Corpus
from gpulsh.account.stages import FORETOLD, OF_CONTAINMENT
from gpulsh.errors import InputError, ParameterError
from gpulsh.facts import Facts
from gpulsh.run.foretell.growth import START, Taken
from gpulsh.run.stages.collide import SMALLEST

# What is imported there is what would be imported here.
_CODE = (
    "import sys; end = 2 + int(sys.argv[1]); sys.path[:] = sys.argv[2:end]; sys.argv[1:] = sys.argv[end:];"
    " from gpulsh.cli import main; sys.exit(main())"
)
WRONG_USAGE = 2  # exit status of a command that refuses what it was given
LOOK = 0.01  # seconds between two looks at the process
# Stages that are counted with another: what is done in its place.
WITHIN = {"compare": "verify", **dict.fromkeys(OF_CONTAINMENT, "collide")}


class Ended(NamedTuple):
    """A run that was let go to its end."""

    report: Facts
    met: int  # documents that were read again
    buckets: Mapping[int, int]  # pairs by the size, at most, of their smallest bucket
    seconds: float
    processor: float
    memory: int  # bytes at most


def run(arguments: Sequence[str], out: Path) -> tuple[Ended, Taken]:
    """Let `gpulsh dedup ARGUMENTS -o OUT` run to its end, and say what it took.

    Raises InputError where the run fails, ParameterError where it refuses what it was given.
    """
    ended = _ended(["dedup", "-o", str(out), "--json", *arguments], out.parent)
    return ended, taken(ended, out)


def taken(ended: Ended, out: Path) -> Taken:
    """What a run took whose results are in `out`."""
    report, funnel = ended.report, ended.report["funnel"]
    documents = max(funnel["documents"], 1)
    seconds = dict.fromkeys(FORETOLD, 0.0)
    for name, spent in funnel["seconds"].items():
        seconds[WITHIN.get(name, name)] += spent
    in_stages = sum(seconds.values()) + report["compiling"]
    sizes = {name: (out / name).stat().st_size for name in report["outputs"]}
    return Taken(
        corpus=Corpus(
            documents=documents,
            bytes=max(funnel["bytes"], 1),
            met=min(ended.met / documents, 1.0),
            pairs=funnel["candidates"] / documents,
            dropped=funnel["dropped"] / documents,
            bytes_per_shingle=max(funnel["bytes"] / max(funnel["shingles"], 1), 1.0),
        ),
        seconds={**seconds, START: max(ended.seconds - in_stages, 0.0)},
        processor=ended.processor,
        memory=ended.memory,
        data=sum(size for name, size in sizes.items() if name.startswith("data/")),
        evidence=sizes["duplicates.parquet"],
    )


def _ended(arguments: Sequence[str], folder: Path) -> Ended:
    """Run a command to its end, or end it with this process's own work."""
    command = [sys.executable, "-c", _CODE, str(len(sys.path)), *sys.path, *arguments]
    told, said = folder / "stdout", folder / "stderr"
    began, memory = time.perf_counter(), 0
    with told.open("wb") as out, said.open("wb") as err, _started(command, out, err) as child:
        try:
            while True:
                memory = max(memory, _peak(child.pid))
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                time.sleep(LOOK)
        except BaseException:
            child.kill()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    lines = said.read_text(encoding="utf-8", errors="replace").splitlines()
    if child.returncode:
        last = lines[-1] if lines else f"it ended with status {child.returncode}"
        kind = ParameterError if child.returncode == WRONG_USAGE else InputError
        raise kind(last.removeprefix("gpulsh: error: "))
    ends = [event for event in map(json.loads, filter(_is_event, lines)) if event["event"] == "end"]
    met = sum(event.get("documents", 0) for event in ends if event["stage"] == "gather")
    noted = [event.items() for event in ends if event["stage"] == "collide"]
    buckets = {int(name.removeprefix(SMALLEST)): n for of in noted for name, n in of if name.startswith(SMALLEST)}
    return Ended(json.loads(told.read_bytes()), met, buckets, seconds, usage.ru_utime + usage.ru_stime, memory)


def _started(command: Sequence[str], out: BinaryIO, err: BinaryIO) -> Popen[bytes]:
    try:
        return Popen(command, stdin=DEVNULL, stdout=out, stderr=err)
    except OSError as error:
        raise InputError(f"no process can be started to run a sample: {os.strerror(error.errno or 0)}") from error


def _is_event(line: str) -> bool:
    return line.startswith('{"event"')


def _peak(pid: int) -> int:
    """The most bytes that a process has had so far; 0 where the system does not tell."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace"))
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0
