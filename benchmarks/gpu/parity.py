"""python -m benchmarks.gpu.parity: the kernels' tests on this device, then the sanitizers; writes a record.

Fails where a test fails, where one that the device takes part in is skipped (but for want of memory or of another
library), or where a sanitizer finds anything.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.device import describe, folder_of
from gpulsh.backends.cuda import devices, why_unavailable
from gpulsh.backends.cuda.device import import_cupy

PARTS = ("device", "memcheck", "racecheck", "host")
RECORD = "parity.json"
SANITIZER_PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
FOUND_SOMETHING = 99
EXCUSED = re.compile(r": ((torch|cudf) is not installed$|too little device memory)")  # what is not promised to be there


def _arguments(given: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    ask = argparse.ArgumentParser(prog="ci/test-gpu", description=__doc__, epilog="All other arguments go to pytest.")
    ask.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)}")
    ask.add_argument("--quick", action="store_true", help="only the default cut of the work, and memcheck")
    ask.add_argument("--output", type=Path, help="a folder, instead of benchmarks/record/<device>/<date>")
    ask.add_argument("--limit", default=300, type=int, help="seconds for one part")
    return ask.parse_known_args(given)


def main(arguments: Sequence[str] | None = None) -> int:
    given, for_pytest = _arguments(arguments)
    parts = given.parts.split(",")
    if not set(parts) <= set(PARTS):
        print(f"test-gpu: --parts {given.parts}: give some of {','.join(PARTS)}", file=sys.stderr)
        return 2
    # Without a device the suite would pass on the host alone, which is not what was asked for.
    reason = why_unavailable()
    if reason is not None:
        print(f"test-gpu: {reason}", file=sys.stderr)
        return 1
    print("\n".join(devices()), flush=True)
    record = {"what": "parity", **describe(import_cupy(), " ".join(["ci/test-gpu", *sys.argv[1:]])), "parts": {}}
    wanted = [part for part in parts if not given.quick or part in ("device", "memcheck")]
    chosen = {"device": "device-default" if given.quick else "device", "host": "not device"}
    folder = given.output or folder_of(record)
    folder.mkdir(parents=True, exist_ok=True)
    for part in wanted:
        began = time.monotonic()
        print(f"test-gpu: {part}", flush=True)
        if part in chosen:
            found = run_tests(chosen[part], for_pytest, given.limit, skips_allowed=part == "host")
        else:
            found = run_sanitizer(part, given.limit)
        found["seconds"] = round(time.monotonic() - began, 1)
        record["parts"][part] = found
        print(f"test-gpu: {part}: {found['verdict']}", flush=True)
        (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")  # a run that is broken off leaves its parts
    print(folder / RECORD)
    return 0 if all(part["passed"] for part in record["parts"].values()) else 1


def run_tests(chosen: str, for_pytest: Sequence[str], limit: int, *, skips_allowed: bool) -> dict[str, Any]:
    """pytest on the kernels' tests whose names hold `chosen`."""
    with tempfile.TemporaryDirectory() as work:
        report = Path(work) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "tests/kernels", "-m", "kernels", "-k", chosen),
            *("-q", "-p", "no:cacheprovider", f"--junitxml={report}", *for_pytest),
        ]
        try:
            status = subprocess.run(command, check=False, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            return {"passed": False, "verdict": f"not done after {limit} s"}
        found = read_report(report) if report.exists() else {"tests": 0}
    found |= judge(found, status, skips_allowed=skips_allowed)
    return found


def read_report(path: Path) -> dict[str, Any]:
    """Counts of a JUnit report, and the names of what was skipped."""
    cases = list(ET.parse(path).getroot().iter("testcase"))
    skipped = [f"{case.get('name')}: {skip.get('message')}" for case in cases for skip in case.iter("skipped")]
    bad = [str(case.get("name")) for case in cases if [*case.iter("failure"), *case.iter("error")]]
    on_device = [case for case in cases if re.search(r"\bdevice-\w+", str(case.get("name")))]
    return {"tests": len(cases), "on_device": len(on_device), "failed": bad, "skipped": skipped}


def judge(found: dict[str, Any], status: int, *, skips_allowed: bool) -> dict[str, Any]:
    """Whether a run of tests shows what it is to show, in words."""
    if status != 0 or found["tests"] == 0 or found["failed"]:
        return {"passed": False, "verdict": f"failed: pytest's status {status}, {found.get('failed')}"}
    unexcused = [told for told in found["skipped"] if not EXCUSED.search(told)]
    if not skips_allowed and unexcused:
        return {"passed": False, "verdict": f"skipped, where nothing may be: {'; '.join(unexcused)}"}
    if not skips_allowed and not found["on_device"]:
        return {"passed": False, "verdict": "no test ran on the device"}
    counted = f"{found['tests']} tests, {found['on_device']} on the device, {len(found['skipped'])} skipped"
    return {"passed": True, "verdict": counted}


def run_sanitizer(tool: str, limit: int) -> dict[str, Any]:
    """compute-sanitizer over every operation at a small size; passed, and said so, where there is no sanitizer."""
    program = sanitizer()
    if program is None:
        return {"passed": True, "verdict": "not run: compute-sanitizer is neither on the path nor with CUDA"}
    command = [
        *(program, "--tool", tool, "--error-exitcode", str(FOUND_SOMETHING), "--print-limit", "20"),
        *(sys.executable, "-m", "benchmarks.gpu.exercise"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"passed": False, "verdict": f"not done after {limit} s"}
    lines = (done.stdout + done.stderr).splitlines()
    summary = [line for line in lines if "SUMMARY" in line]
    if done.returncode != 0 or not summary or not all(re.search(r"SUMMARY: 0 ", line) for line in summary):
        print("\n".join(lines[-60:]), flush=True)
        return {"passed": False, "verdict": f"status {done.returncode}", "summary": summary, "output": lines[-60:]}
    exercised = [line for line in lines if "equal the reference" in line or "not exercised" in line]
    return {"passed": True, "verdict": "; ".join(summary), "summary": summary, "exercised": exercised}


def sanitizer() -> str | None:
    """Where compute-sanitizer is."""
    return shutil.which("compute-sanitizer") or next(
        (found for place in SANITIZER_PLACES if (found := shutil.which("compute-sanitizer", path=place))), None
    )


if __name__ == "__main__":
    sys.exit(main())
