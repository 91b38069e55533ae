"""python -m benchmarks.gpu: measure the cases on this device; a JSON record a case, one page and one picture of all."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.gpu import page
from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.device import describe, folder_of, smi
from gpulsh.backends.cuda import why_unavailable
from gpulsh.backends.cuda.device import import_cupy

QUICK = 0.1


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
    ask.add_argument("--seconds", default=360.0, type=float, help="about how long all cases may take")
    ask.add_argument("--rounds", default=15, type=int, help="of each measurement")
    ask.add_argument("--output", type=Path, help="a folder, instead of benchmarks/record/<device>/<date>")
    return ask.parse_args(given)


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
    header = describe(cupy, command)
    folder = given.output or folder_of(header)
    folder.mkdir(parents=True, exist_ok=True)
    modules = {name: import_module(f"benchmarks.gpu.cases.{name}") for name in given.cases}
    planned = sum(module.SECONDS for module in modules.values())
    failed = []
    with tempfile.TemporaryDirectory(prefix="gpulsh-bench-") as work:
        bench = Bench(cupy, Path(work), given.scale, given.rounds, say=lambda text: print(text, flush=True))
        start, share = time.monotonic(), 0.0
        for name, module in modules.items():
            # A case that took less than its part leaves the rest to those behind it.
            share += module.SECONDS / planned
            bench.until = start + share * given.seconds
            print(f"{name}: {module.TITLE}", flush=True)
            began = time.monotonic()
            record: dict[str, Any] = {"case": name, "title": module.TITLE, **header}
            try:
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
    print(page.write(folder))
    if failed:
        print(f"bench-gpu: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
