"""From Parquet files to files without near-duplicates: gpulsh's one command and datatrove's four stages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import Bench, find, line, ratio, row
from benchmarks.engines.files import FilesEngine
from benchmarks.job import Job
from benchmarks.score import score

TITLE = "Files to files at 0.8 (datatrove unverified)"
THRESHOLD = 0.8
GROUP_ROWS = 5_000
FEW = 64  # rows, for a run that loads and compiles


def load(engine: FilesEngine, job: Job, rows: int | None) -> Path:
    """The folder of the inputs, or of few rows like them."""
    return Path(job.corpus) if rows is None else _few(Path(job.corpus))


def prepare(engine: FilesEngine, inputs: Path, job: Job) -> Callable[[], Path]:
    output = inputs.with_name(f"{inputs.name}-{engine.name}")
    shutil.rmtree(output, ignore_errors=True)
    return lambda: engine.deduplicate_files(inputs, output, job.threshold)


def facts(engine: FilesEngine, output: Path, job: Job) -> dict[str, Any]:
    keep = np.zeros(sum(pq.read_metadata(path).num_rows for path in Path(job.corpus).iterdir()), bool)
    keep[engine.kept_ids(output)] = True
    if job.answer:
        np.savez(job.answer, keep=keep)
    written = sum(path.stat().st_size for path in (output / "data").rglob("*") if path.is_file())
    shutil.rmtree(output)
    return {"kept": int(keep.sum()), "dropped": int((~keep).sum()), "written_MB": round(written / 1e6, 1)}


WORK = {"files": (prepare, facts)}


def run(bench: Bench) -> dict[str, Any]:
    names = bench.with_case("datatrove", "files")
    inputs = _inputs(bench)
    answers = []
    for name in names:
        outcome, answer = bench.answer(Job("datatrove", "files", name, str(inputs), max(bench.threads), THRESHOLD))
        found = score(bench.truth(), THRESHOLD, answer["keep"]) if answer else outcome
        answers.append({"engine": name, **found})
    jobs = [Job("datatrove", "files", name, str(inputs), t, THRESHOLD) for t in bench.threads for name in names]
    measured = bench.paired(jobs)
    lines = []
    for threads in bench.threads:
        theirs, ours = find(measured, "datatrove", threads), find(measured, "gpulsh", threads)
        if theirs and ours:
            said = "one thread" if threads == 1 else f"{threads} threads"
            statement = f"files to files, {said}: datatrove's four stages / gpulsh verified"
            lines.append(line(statement, ratio(theirs, ours), 10, at_least=True))
    resolved = {a["engine"]: a.get("true_pairs_resolved") for a in answers}
    if None not in (ours := resolved.get("gpulsh"), theirs := resolved.get("datatrove")):
        both = round(100 * (ours - theirs), 3)
        lines.append(line("true pairs resolved, gpulsh less datatrove, %", both, 0, at_least=True))
    megabytes = bench.text_bytes(bench.corpus, bench.rows) / 1e6
    # A process of its own is where datatrove's memory lies, which the worker's peak does not tell.
    rows = [{k: v for k, v in row(j, o, megabytes).items() if k != "peak_MiB"} for j, o in measured]
    return {"rows": rows, "checks": answers, "lines": lines, "raw": measured}


def _inputs(bench: Bench) -> Path:
    """A file a thread, for datatrove divides its work by files; the codec is the one Parquet files have by default."""
    texts = pq.read_table(bench.corpus, columns=["text"]).slice(0, bench.rows)
    texts = texts.append_column("id", pa.array(np.arange(len(texts))).cast(pa.string()))
    inputs = bench.work / f"files-{len(texts)}"
    for folder, count in ((inputs, len(texts)), (_few(inputs), FEW)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        cuts = np.linspace(0, min(count, len(texts)), max(bench.threads) + 1).astype(int)
        for number, (start, stop) in enumerate(pairwise(cuts)):
            path = folder / f"{number:05d}.parquet"
            pq.write_table(texts.slice(start, stop - start), path, row_group_size=GROUP_ROWS)
    return inputs


def _few(inputs: Path) -> Path:
    return inputs.with_name(f"{inputs.name}-few")
