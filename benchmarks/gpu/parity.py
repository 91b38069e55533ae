"""python -m benchmarks.gpu.parity: the exercise, the kernels' tests on this device, the stress, the sanitizers.

The exercise, every operation once, says within a minute whether the device works, and fills CuPy's cache of kernels.
All parts together take nine minutes at most, and a part alone may take as long: what takes longer is interrupted, then
ended. One folder holds a record of each part, and the outcome of each test as it ends, and is packed as one archive.

It fails if a test fails, if a test of the device is skipped for a reason other than missing memory or a missing
library, if a result of the stress differs from the CPU's, or if a sanitizer finds anything.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gpu.device import describe, folder_of, pack
from benchmarks.gpu.outcomes import FILE, read
from benchmarks.machine import cores
from gpulsh.backends.cuda import devices, why_unavailable
from gpulsh.backends.cuda.device import import_cupy

SHARES = {"exercise": 60, "device": 200, "stress": 60, "memcheck": 85, "racecheck": 75, "synccheck": 60}  # of the time
BY_NAME = {"host": 300}  # shows nothing of the device: asked for by name alone
QUICK = ("exercise", "device", "memcheck")
TESTS = ("tests/kernels", "tests/backends/parity")
EXERCISE, STRESS = "benchmarks.gpu.exercise", "benchmarks.gpu.stress"
COMPARED = {"exercise": EXERCISE, "stress": STRESS}
UNSUPPORTED = "Device not supported"
SMALL_STRESS = ("--megabytes=2", "--rounds=2", f"--batch={1 << 16}")  # under a sanitizer
EQUAL = " equal the "  # in the lines that say what was compared
SHOWN = 60  # last lines of an output
SANITIZER_PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
FOUND_SOMETHING = 99
# CuPy's own scan behind `nonzero` reads and writes shared memory within a warp, as racecheck warns; it is not ours.
EXCLUDED = {"racecheck": ("--kernel-name-exclude", "kernel_substring=cupy_")}
WORKERS, FAILURES = 8, 20  # processes that test side by side; failures that end a run of tests
GRACE = 10.0  # seconds from an interrupt to the end of what does not heed it
# What is not promised to be there.
EXCUSED = re.compile(
    r": ((torch|jax|cudf|orjson) is not installed$|(torch|jax) sees no CUDA device|too little device memory)"
)


def _arguments(given: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    ask = argparse.ArgumentParser(prog="ci/test-gpu", description=__doc__, epilog="All other arguments go to pytest.")
    ask.add_argument("--parts", help=f"of {','.join([*SHARES, *BY_NAME])}; all but {','.join(BY_NAME)} where none is")
    ask.add_argument("--quick", action="store_true", help="only the default cut of the work, and memcheck")
    ask.add_argument("--output", type=Path, help="a folder, instead of benchmarks/record/<device>/<date>")
    ask.add_argument("--commit", help="of the tree, for records and the archive, where git cannot be asked")
    ask.add_argument("--seconds", default=540.0, type=float, help="for all parts together; one alone may take all")
    return ask.parse_known_args(given)


def main(arguments: Sequence[str] | None = None) -> int:
    given, for_pytest = _arguments(arguments)
    parts = given.parts.split(",") if given.parts else list(QUICK if given.quick else SHARES)
    if not set(parts) <= {*SHARES, *BY_NAME}:
        print(f"test-gpu: --parts {given.parts}: give some of {','.join([*SHARES, *BY_NAME])}", file=sys.stderr)
        return 2
    # Without a device the suite would pass on the host alone, which is not what was asked for.
    reason = why_unavailable()
    if reason is not None:
        print(f"test-gpu: {reason}", file=sys.stderr)
        return 1
    print("\n".join(devices()), flush=True)
    command = " ".join(["ci/test-gpu", *(sys.argv[1:] if arguments is None else arguments)])
    header = {"what": "parity", **describe(import_cupy(), command, given.commit)}
    folder = given.output or folder_of(header)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {part: SHARES.get(part, BY_NAME.get(part, 0)) for part in parts}
    start, share, failed = time.monotonic(), 0.0, []
    for part in parts:
        # A part that took less than its share leaves the rest to those behind it.
        share += weights[part] / sum(weights.values())
        began = time.monotonic()
        limit = start + share * given.seconds - began
        print(f"test-gpu: {part}: up to {limit:.0f} s", flush=True)
        found = run_part(part, limit, for_pytest, folder, quick=given.quick)
        found["seconds"] = round(time.monotonic() - began, 1)
        print(f"test-gpu: {part}: {found['verdict']}", flush=True)
        # A record for each part: runs of single parts leave those of the others, and a broken run what it did.
        path = folder / record_of(part)
        path.write_text(json.dumps({**header, "part": part, **found}, indent=1) + "\n")
        print(pack(folder, "test-gpu", header), flush=True)
        failed += [] if found["passed"] else [part]
    if failed:
        print(f"test-gpu: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def record_of(part: str) -> str:
    """The name of a part's record."""
    return f"parity-{part}.json"


def run_part(part: str, limit: float, for_pytest: Sequence[str], folder: Path, *, quick: bool) -> dict[str, Any]:
    """The findings of a part within `limit` seconds."""
    if part in ("device", "host"):
        chosen = ["-k", "device-default"] * (quick and part == "device") + [*for_pytest]
        marked = "device" if part == "device" else "not device"
        return run_tests(marked, chosen, limit, folder / f"{part}.jsonl", skips_allowed=part == "host")
    if part in COMPARED:
        return run_compared(COMPARED[part], limit)
    return run_sanitizer(part, limit)


def run_tests(
    marked: str, for_pytest: Sequence[str], limit: float, outcomes: Path, *, skips_allowed: bool
) -> dict[str, Any]:
    """pytest on the kernels' tests with the markers `marked`; each outcome is written to `outcomes` as it comes."""
    outcomes.unlink(missing_ok=True)
    side_by_side = ["-n", str(min(WORKERS, cores())), "--dist", "loadfile"] if find_spec("xdist") else []
    command = [
        *(sys.executable, "-m", "pytest", *TESTS, "-m", f"kernels and {marked}", "-p", "benchmarks.gpu.outcomes"),
        *("-q", "-p", "no:cacheprovider", f"--maxfail={FAILURES}", *side_by_side, *for_pytest),
    ]
    # Hypothesis makes the same examples in every geometry then, and the reference's answers are there already.
    environment = {**os.environ, "CI": "1", FILE: str(outcomes.resolve())}
    environment.pop("PYTEST_XDIST_WORKER", None)  # of a test that tests this
    status, _ = run_bounded(command, limit, shown=True, environment=environment)
    found = read(outcomes)
    if status is None:
        counted = f"{found['tests']} tests until then, {len(found['failed'])} failed"
        return found | {"passed": False, "verdict": f"not done after {limit:.0f} s; {counted}"}
    return found | judge(found, status, skips_allowed=skips_allowed)


def run_bounded(
    command: Sequence[str], limit: float, *, shown: bool, environment: Mapping[str, str] | None = None
) -> tuple[int | None, list[str]]:
    """The status of a command and, unless it is `shown`, its lines; None if it and all that it started was ended.

    It is interrupted first, so that it can say what it has found.
    """
    pipe = None if shown else subprocess.PIPE
    error = None if shown else subprocess.STDOUT
    grace = min(GRACE, limit / 4)
    with subprocess.Popen(
        command, stdout=pipe, stderr=error, text=True, start_new_session=True, env=environment
    ) as running:
        for seconds, end in ((limit - grace, signal.SIGINT), (grace, signal.SIGKILL)):
            try:
                output, _ = running.communicate(timeout=max(seconds, 0.1))
                break
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, end)
        else:
            output, _ = running.communicate()
        if end is signal.SIGKILL:  # it was interrupted
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # a sanitizer's own child would keep the device
            return None, (output or "").splitlines()
    return running.returncode, (output or "").splitlines()


def not_done(limit: float, lines: Sequence[str] = ()) -> dict[str, Any]:
    return {"passed": False, "verdict": f"not done after {limit:.0f} s", "output": list(lines[-SHOWN:])}


def judge(found: dict[str, Any], status: int, *, skips_allowed: bool) -> dict[str, Any]:
    """The verdict on a run of tests, in words."""
    if status != 0 or found["tests"] == 0 or found["failed"]:
        return {"passed": False, "verdict": f"failed: pytest's status {status}, {found.get('failed')}"}
    unexcused = [told for told in found["skipped"] if not EXCUSED.search(told)]
    if not skips_allowed and unexcused:
        return {"passed": False, "verdict": f"skipped, where nothing may be: {'; '.join(unexcused)}"}
    if not skips_allowed and not found["on_device"]:
        return {"passed": False, "verdict": "no test ran on the device"}
    counted = f"{found['tests']} tests, {found['on_device']} on the device, {len(found['skipped'])} skipped"
    return {"passed": True, "verdict": counted}


def run_compared(module: str, limit: float) -> dict[str, Any]:
    """A program that compares results and says which are equal."""
    status, lines = run_bounded([sys.executable, "-m", module], limit, shown=False)
    print("\n".join(lines[-SHOWN:]), flush=True)
    if status is None:
        return not_done(limit, lines)
    if status != 0:
        return {"passed": False, "verdict": f"status {status}", "output": lines[-SHOWN:]}
    equal = [line for line in lines if EQUAL in line]
    return {"passed": bool(equal), "verdict": "; ".join(equal) or "nothing was compared", "output": lines[-SHOWN:]}


def run_sanitizer(tool: str, limit: float) -> dict[str, Any]:
    """compute-sanitizer over every operation and a small stress; passed, and said so, where there is no sanitizer."""
    program = sanitizer()
    if program is None:
        return {"passed": True, "verdict": "not run: compute-sanitizer is neither on the path nor with CUDA"}
    until = time.monotonic() + limit
    summary, exercised = [], []
    for under in ([EXERCISE], [STRESS, *SMALL_STRESS]):
        command = [
            *(program, "--tool", tool, "--error-exitcode", str(FOUND_SOMETHING), "--print-limit", "20"),
            *("--report-api-errors", "no"),  # CuPy asks the driver for things that it may refuse
            *EXCLUDED.get(tool, ()),
            *(sys.executable, "-m", *under),
        ]
        status, lines = run_bounded(command, until - time.monotonic(), shown=False)
        if status is None:
            return not_done(limit, lines)
        if any(UNSUPPORTED in line for line in lines):
            return {"passed": True, "verdict": f"not run: compute-sanitizer says: {UNSUPPORTED}"}
        told = [line for line in lines if "SUMMARY" in line]
        summary += told
        if status != 0 or not told or not all(re.search(r"SUMMARY: 0 ", line) for line in told):
            print("\n".join(lines[-SHOWN:]), flush=True)
            verdict = f"{under[0]}: status {status}"
            return {"passed": False, "verdict": verdict, "summary": summary, "output": lines[-SHOWN:]}
        exercised += [line for line in lines if EQUAL in line or "not exercised" in line]
    return {"passed": True, "verdict": "; ".join(summary), "summary": summary, "exercised": exercised}


def sanitizer() -> str | None:
    """The path of compute-sanitizer."""
    return shutil.which("compute-sanitizer") or next(
        (found for place in SANITIZER_PLACES if (found := shutil.which("compute-sanitizer", path=place))), None
    )


if __name__ == "__main__":
    sys.exit(main())
