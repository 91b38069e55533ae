"""report.json: the parameters, counts and results of a run over files."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from gpulsh import __version__
from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.parallel import processors
from gpulsh.budget import shares
from gpulsh.io.files.no_documents import COUNTED, DATA, EVIDENCE, REPORT
from gpulsh.params import SCHEME
from gpulsh.report.evidence import by_similarity, counted, summarise
from gpulsh.report.page import missing
from gpulsh.report.reproduce import machine, versions
from gpulsh.run.driver import Decided, Stages
from gpulsh.run.file_run import OpenRun
from gpulsh.run.job import Job
from gpulsh.run.output.folder import PAGE
from gpulsh.run.stages.write import written
from gpulsh.stats.counts import SAMPLED, definitions
from gpulsh.stats.hints import give_hints
from gpulsh.stats.stages import Funnel


@dataclass(frozen=True)
class RunClock:
    """The time when a run began, and the clocks that measure it."""

    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.perf_counter)
    compiled: float = field(default_factory=COMPILING.seconds)

    def facts(self) -> Mapping[str, Any]:
        """The beginning of the report of a run that ends now."""
        return {
            "gpulsh": __version__,  # also marks the folder as gpulsh's own
            "scheme": SCHEME,
            "began": self.at.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self.clock, 3),
            "compiling": round(COMPILING.seconds() - self.compiled, 3),  # a part of the seconds, but not of any stage's
        }


def planned_report(job: Job, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a dry run, before anything is read."""
    lists = [EVIDENCE, *([] if job.earlier else [COUNTED]), *(["rejected.parquet"] if job.on_error == "skip" else [])]
    lists += ["contamination.parquet"] if job.policy.overlap is not None else []
    return {
        "gpulsh": __version__,
        "parameters": parameters,
        "inputs": list(job.policy.inputs),
        "files": [{"file": file.name} for file in job.files],
        "funnel": Funnel().to_dict(),
        "outputs": [
            *sorted(f"{DATA}/{job.files[number].relative}" for number in written(job)),
            *lists,
            REPORT,
            *([] if missing() else [PAGE]),
        ],
    }


def finished_report(
    job: Job,
    parameters: Mapping[str, Any],
    run: OpenRun,
    decided: Decided,
    stages: Stages,
    start: RunClock,
    no_page: str | None,
) -> dict[str, Any]:
    """The whole report, once the results are made; `no_page` says why there is no report.html."""
    work, engine, ops, funnel = run.work, run.engine, run.engine.ops, stages.funnel
    held = stages.runner.held
    known = [of for of in (None if held is None else held.beginnings, decided.beginnings) if of is not None]
    threads = parameters["threads"] or processors()
    evidence = summarise(work / EVIDENCE, job.files, job.columns, job.method.threshold, known, threads)
    stages.release_texts()
    outputs = {name: name for name in _written(work)}  # in order, and quick to search
    rows = []
    for number, (file, count) in enumerate(zip(job.files, decided.layout.rows(), strict=True)):
        kept = {"kept": decided.kept[number]} if number in decided.kept else {}
        rows.append({"file": file.name, "rows": count, **kept})
    return {
        **start.facts(),
        "parameters": parameters,
        "digest": job.method.digest(),
        "backend": {"name": ops.name, "device": getattr(ops, "device", None)},
        "memory": shares(engine.memory, ops.sizes()),
        "engine": engine.to_json(),
        "versions": versions(),
        "machine": machine(),
        "inputs": list(job.policy.inputs),
        "files": rows,
        "written": [outputs.get(f"{DATA}/{file.relative}") for file in job.files],
        "sources": [
            {"input": of, "protected": of in job.policy.protect, "files": len(list(found))}
            for of, found in groupby(job.files, lambda file: file.source)
        ],
        "funnel": funnel.to_dict(),
        "definitions": definitions(job.method.measure),
        "hints": give_hints(job.method, funnel),
        "evidence": evidence,
        "counts": counted(work / COUNTED),
        SAMPLED.name: by_similarity(decided.sample.similarity),
        "page": {"written": no_page is None, "reason": no_page},
        "outputs": [*outputs, *([] if no_page else [PAGE])],
        "job": job.to_json(),
    }


def _written(work: Path) -> list[str]:
    """The results, relative to OUT: a later `--overwrite` removes these and nothing else."""
    found = [
        name for name in (EVIDENCE, COUNTED, "rejected.parquet", "contamination.parquet") if (work / name).exists()
    ]
    for folder, _, names in os.walk(work / DATA):
        below = folder[len(f"{work}/") :]
        found += [f"{below}/{name}" for name in names]
    return [*sorted(found), REPORT]
