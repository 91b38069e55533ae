"""The child: load, warm up, measure one piece of work, say the outcome as the last line of standard output."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module

from benchmarks.job import Job

# Enough to compile, import, start pools and meet duplicates, whose kernels are loaded, too; far too little to matter.
WARM_UP = 1024


def processor_time() -> float:
    """Processor time of this process and of the processes it started that have ended."""
    return time.process_time() + sum(os.times()[2:4])


def main(text: str) -> None:
    job = Job.from_json(text)
    if job.threads == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # After the affinity: several libraries count their processors when imported.
    from benchmarks.engines import engine_class
    from benchmarks.memory import PeakMemory

    case = import_module(f"benchmarks.cases.{job.case}")
    engine = engine_class(job.engine)(job.threads)
    prepare, facts = case.WORK[job.work]
    load = getattr(case, "load", lambda engine, job, rows: engine.load(job.corpus, rows))
    prepare(engine, load(engine, job, WARM_UP), job)()
    texts = load(engine, job, job.rows)
    work = prepare(engine, texts, job)
    with PeakMemory() as memory:
        began, spent = time.perf_counter(), processor_time()
        result = work()
        seconds, cpu_seconds = time.perf_counter() - began, processor_time() - spent
    outcome = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "peak_MiB": round(memory.peak / 2**20, 1),
        **facts(engine, result, job),
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1])
