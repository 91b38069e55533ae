"""The part of report.json that is about near-duplicates: counts, evidence and files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from gpulsh import __version__
from gpulsh.backends.parallel import processors
from gpulsh.budget import shares
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
    lists = [EVIDENCE, *([] if job.earlier else [COUNTED]), *(["rejected.parquet"] if job.on_error == "skip" else [])]
    lists += ["contamination.parquet"] if job.policy.overlap is not None else []
    return {
        "gpulsh": __version__,
        "parameters": parameters,
        "inputs": list(job.policy.inputs),
        "files": [{"file": file.name} for file in job.files],
        "funnel": Funnel().to_dict(),
        "outputs": [
            *sorted(f"{DATA}/{job.files[number].relative}" for number in written_files(job)),
            *lists,
            REPORT,
            *([] if missing_requirement() else [PAGE]),
        ],
    }


def finished_report(
    job: Job, parameters: Mapping[str, Any], run: OpenRun, decided: RunDecisions, stages: Stages
) -> Mapping[str, Any]:
    """The part of the report about results that have been made."""
    work, engine, funnel = run.work, run.engine, stages.funnel
    held = stages.runner.held
    known = [of for of in (None if held is None else held.beginnings, decided.beginnings) if of is not None]
    threads = parameters["threads"] or processors()
    evidence = summarise(work / EVIDENCE, job.files, job.columns, job.method.threshold, known, threads)
    stages.release_texts()
    outputs = {name: name for name in result_files(work)}  # in order, and quick to search
    rows = []
    for number, (file, count) in enumerate(zip(job.files, decided.layout.rows(), strict=True)):
        kept = {"kept": decided.kept[number]} if number in decided.kept else {}
        rows.append({"file": file.name, "rows": count, **kept})
    return {
        "parameters": parameters,
        "digest": job.method.digest(),
        "memory": shares(engine.memory, engine.ops.sizes()),
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
        "counts": cluster_counts(work / COUNTED),
        SAMPLED.name: similarity_counts(decided.sample.similarity),
        "outputs": list(outputs),
    }
