"""python -m benchmarks.gpu: measure the cases on this device; a JSON record a case, one page and one picture of all."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.gpu import page
from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.device import describe, folder_of, pack, smi
from gpulsh.backends.cuda import why_unavailable
from gpulsh.backends.cuda.device import import_cupy

QUICK = 0.1
LATE = 10.0  # seconds that a case may take beyond its own


def _chosen(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in CASES:
            raise argparse.ArgumentTypeError(f"{name}: not one of {', '.join(CASES)}")
    return names


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    ask = argparse.ArgumentParser(prog="ci/bench-gpu", description=__doc__)
    ask.add_argument("--cases", default=list(CASES), type=_chosen, help=f"of {','.join(CASES)}")
    ask.add_argument("--quick", action="store_true", help=f"inputs and times a tenth: --scale {QUICK}")
    ask.add_argument("--scale", default=1.0, type=float, help="size of the inputs; 1 is meant for an H200")
    ask.add_argument("--seconds", default=240.0, type=float, help="that each case may take")
    ask.add_argument("--commit", help="of the tree, for records and the archive, where git cannot be asked")
    ask.add_argument("--rounds", default=15, type=int, help="of each measurement")
    ask.add_argument("--output", type=Path, help="a folder, instead of benchmarks/record/<device>/<date>")
    return ask.parse_args(given)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """A TimeoutError where a case does not heed its time: the others still have theirs."""

    def end(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds + LATE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments(arguments)
    if given.quick:
        given.scale, given.seconds = given.scale * QUICK, given.seconds * 0.4
    reason = why_unavailable()
    if reason is not None:
        print(f"bench-gpu: {reason}", file=sys.stderr)
        return 1
    cupy = import_cupy()
    command = (
        f"ci/bench-gpu --cases {','.join(given.cases)} --scale {given.scale:g} --seconds {given.seconds:g}"
        f" --rounds {given.rounds}"
    )
    header = describe(cupy, command, given.commit)
    folder = given.output or folder_of(header)
    folder.mkdir(parents=True, exist_ok=True)
    modules = {name: import_module(f"benchmarks.gpu.cases.{name}") for name in given.cases}
    failed = []
    with tempfile.TemporaryDirectory(prefix="gpulsh-bench-") as work:
        bench = Bench(cupy, Path(work), given.scale, given.rounds, say=lambda text: print(text, flush=True))
        for name, module in modules.items():
            print(f"{name}: {module.TITLE}", flush=True)
            began = time.monotonic()
            bench.until = began + given.seconds
            record: dict[str, Any] = {"case": name, "title": module.TITLE, **header}
            try:
                with _at_most(given.seconds):
                    bench.found[name] = found = module.run(bench)
                record |= asdict(found)
            except Exception as error:  # the other cases may still say something
                traceback.print_exc()
                failed.append(name)
                record |= asdict(Found()) | {"error": f"{type(error).__name__}: {error}"}
            bench.free()
            record |= {"seconds": round(time.monotonic() - began, 1), "smi_behind": smi()}
            (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
            for what in record["not_measured"]:
                print(f"  not measured: {what}", flush=True)
            page.write(folder)
            print(pack(folder, "bench-gpu", header), flush=True)
    if failed:
        print(f"bench-gpu: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
