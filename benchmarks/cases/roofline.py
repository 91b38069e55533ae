"""How near the CPU ops come to the machine's limits: minhash against a roofline, shingle against all of Daft's work."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import Bench, find, good, line, ratio, row
from benchmarks.engines.base import NUM_PERM, Engine
from benchmarks.job import Job

TITLE = "Roofline: minhash and shingle, one thread"
SOURCE = Path(__file__).with_name("roofline.cpp")
SHAPES = [(lanes, held) for lanes in (4, 8, 16) for held in (4, 6, 8, 10)]


def _shingle(engine: Engine, texts: Any, job: Job) -> Callable[[], Any]:
    import gpulsh

    return lambda: gpulsh.shingle(texts, backend="cpu", threads=job.threads)


def _shingle_facts(engine: Engine, result: Any, job: Job) -> dict[str, Any]:
    return {"shingles": len(result.values)}


def _minhash(engine: Engine, texts: Any, job: Job) -> Callable[[], Any]:
    import gpulsh

    fingerprints = gpulsh.shingle(texts, backend="cpu", threads=job.threads)
    minhash = gpulsh.MinHash(num_perm=NUM_PERM, seed=1)

    def work() -> int:
        minhash(fingerprints, backend="cpu", threads=job.threads)
        return len(fingerprints.values)

    return work


def _minhash_facts(engine: Engine, result: Any, job: Job) -> dict[str, Any]:
    return {"evaluations": result * NUM_PERM}


def _signature(engine: Engine, texts: Any, job: Job) -> Callable[[], Any]:
    return lambda: engine.text_to_signature(texts)


WORK = {
    "shingle": (_shingle, _shingle_facts),
    "minhash": (_minhash, _minhash_facts),
    "signature": (_signature, lambda engine, result, job: {}),
}


def _compiler() -> list[str] | None:
    found = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    if found:
        return [found]
    return [sys.executable, "-m", "ziglang", "c++"] if importlib.util.find_spec("ziglang") else None


def build(folder: Path) -> dict[str, Path]:
    """One program a shape. Shapes wider than the machine's vectors compile too and are merely slower."""
    compiler = _compiler()
    programs = {}
    for lanes, held in SHAPES if compiler else []:
        program = folder / f"roofline-{lanes}-{held}"
        command = [
            *(compiler or []),
            "-O3",
            "-march=native",
            f"-DLANES={lanes}",
            f"-DP={held}",
            str(SOURCE),
            "-o",
            program,
        ]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            programs[f"{lanes} lanes, {held} permutations held"] = program
    return programs


def _rate(program: Path, seconds: float) -> float:
    core = max(os.sched_getaffinity(0))
    done = subprocess.run(
        [program, str(seconds)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    return float(done.stdout.split()[0])


def run(bench: Bench) -> dict[str, Any]:
    programs = build(bench.work)
    tried = {shape: _rate(program, 0.3) for shape, program in programs.items()}
    best = max(tried, key=lambda s: tried[s]) if tried else None
    jobs = [Job("roofline", w, "gpulsh", bench.corpus, 1, rows=bench.rows) for w in ("shingle", "minhash")]
    if "Daft" in bench.engines:
        jobs.append(Job("roofline", "signature", "Daft", bench.corpus, 1, rows=bench.rows))
    if "gpulsh" not in bench.engines:
        jobs = jobs[2:]
    roof = []
    measured = []
    for turn in range(bench.rounds):
        # The roof is measured again in each round, with the work that is compared with it.
        if best:
            roof.append(_rate(programs[best], 0.5))
            bench.say(f"  round {turn + 1}  roofline ({best}) {roof[-1] / 1e9:.2f} G evaluations/s")
        one = Bench(**{**vars(bench), "rounds": 1}).paired(jobs) if jobs else []
        measured.append(one)
    merged = [(job, [m[at][1][0] for m in measured]) for at, job in enumerate(jobs)]
    megabytes = bench.text_bytes(bench.corpus, bench.rows) / 1e6
    rows = []
    for job, outcomes in merged:
        at = row(job, outcomes, None if job.work == "minhash" else megabytes)
        rates = [o["evaluations"] / o["seconds"] / 1e9 for o in outcomes if "evaluations" in o]
        if rates:
            at["G evaluations/s"] = round(median(rates), 2)
        rows.append({"work": job.work, **at})
    if roof:
        rows.append({"work": "roofline", "engine": best, "threads": 1, "G evaluations/s": round(median(roof) / 1e9, 2)})
    lines = []
    shingle, minhash = (next((o for j, o in merged if j.work == w), None) for w in ("shingle", "minhash"))
    daft = find(merged, "Daft", 1)
    if minhash and roof and good(minhash):
        shares = [o["evaluations"] / o["seconds"] / r for o, r in zip(minhash, roof, strict=True) if "seconds" in o]
        lines.append(line("minhash: share of the roofline", round(median(shares), 3), 0.7, at_least=True))
    if shingle and daft:
        said = "shingle, one thread: Daft's text to signature / ours of shingle"
        lines.append(line(said, ratio(daft, shingle), 4, at_least=True))
    checks = [{"shape": shape, "G evaluations/s": round(rate / 1e9, 2)} for shape, rate in tried.items()]
    return {"rows": rows, "checks": checks, "lines": lines, "raw": merged}
