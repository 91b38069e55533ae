"""The part of report.json that is about near-duplicates: counts, evidence and files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from gpulsh import __version__
from gpulsh.backends.parallel import processors
from gpulsh.budget import memory_shares
from gpulsh.io.files.no_documents import COUNTED, DATA, EVIDENCE, REPORT
from gpulsh.report.evidence import cluster_counts, similarity_counts, summarise
from gpulsh.report.page import missing_requirement
from gpulsh.run.driver import RunDecisions, Stages
from gpulsh.run.file_run import OpenRun
from gpulsh.run.job import Job
from gpulsh.run.output.folder import PAGE, result_files
from gpulsh.run.stages.write import written_files
from gpulsh.stats.counts import SAMPLED, definitions
from gpulsh.stats.hints import give_hints
from gpulsh.stats.stages import Funnel


def planned_report(job: Job, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a dry run, before anything is read."""
    is_made = {
        EVIDENCE: True,
        COUNTED: job.earlier is None,
        "rejected.parquet": job.on_error == "skip",
        "contamination.parquet": job.policy.overlap is not None,
        REPORT: True,
        PAGE: missing_requirement() is None,
    }
    data = sorted(f"{DATA}/{job.files[number].relative}" for number in written_files(job))
    return {
        "gpulsh": __version__,
        "parameters": parameters,
        "inputs": list(job.policy.inputs),
        "files": [{"file": file.name} for file in job.files],
        "funnel": Funnel().to_dict(),
        "outputs": [*data, *(name for name, made in is_made.items() if made)],
    }


def finished_report(
    job: Job, parameters: Mapping[str, Any], run: OpenRun, decided: RunDecisions, stages: Stages
) -> Mapping[str, Any]:
    """The part of the report about results that have been made."""
    work, engine, funnel, held = run.work, run.engine, stages.funnel, stages.runner.held
    known = [] if held is None else [held.beginnings]
    known += [] if decided.beginnings is None else [decided.beginnings]
    threads = parameters["threads"] or processors()
    threshold, memory = job.method.threshold, parameters["memory"]
    evidence = summarise(work / EVIDENCE, job.files, job.columns, threshold, known, threads, memory)
    stages.release_texts()
    rows = zip(job.files, decided.layout.rows(), strict=True)
    files: list[dict[str, Any]] = [{"file": file.name, "rows": count} for file, count in rows]
    for number, kept in decided.kept.items():
        files[number]["kept"] = kept
    outputs = result_files(work)
    made, own = set(outputs), set(written_files(job))  # a protected file may have the name of another one in data/
    paths = [f"{DATA}/{file.relative}" if number in own else None for number, file in enumerate(job.files)]
    return {
        "parameters": parameters,
        "digest": job.method.digest(),
        "memory": memory_shares(engine.memory, engine.ops.sizes()),
        "files": files,
        "written": [path if path in made else None for path in paths],
        "sources": [
            {"input": of, "protected": of in job.policy.protect, "files": len(list(found))}
            for of, found in groupby(job.files, lambda file: file.source)
        ],
        "funnel": funnel.to_dict(),
        "definitions": definitions(job.method.measure),
        "hints": give_hints(job.method, funnel),
        "evidence": evidence,
        "counts": cluster_counts(work / COUNTED),
        SAMPLED.name: similarity_counts([decided.sample.similarity]),
        "outputs": outputs,
    }
