"""From files to files without near-duplicates: gpulsh's one command and datatrove's four stages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.bench import Bench, find, line, on_threads, ratio, row
from benchmarks.engines.files import FilesEngine
from benchmarks.job import Job
from benchmarks.score import score

TITLE = "Files to files at 0.8 (datatrove unverified)"
THRESHOLD = 0.8
GROUP_ROWS = 5_000
FEW = 32  # rows and copies of them with a word more, for a run that loads and compiles all that there is to do


def load(engine: FilesEngine, job: Job, rows: int | None) -> Path:
    """The folder of the inputs, or of few rows like them."""
    return Path(job.corpus) if rows is None else _few(Path(job.corpus))


def prepare(engine: FilesEngine, inputs: Path, job: Job) -> Callable[[], Path]:
    output = inputs.with_name(f"{inputs.name}-{engine.name}")
    shutil.rmtree(output, ignore_errors=True)
    return lambda: engine.deduplicate_files(inputs, output, job.threshold)


def facts(engine: FilesEngine, output: Path, job: Job) -> dict[str, Any]:
    keep = np.zeros(len(_ids(Path(job.corpus))), bool)
    keep[_ids(output / "data")] = True
    if job.answer:
        np.savez(job.answer, keep=keep)
    written = sum(path.stat().st_size for path in (output / "data").rglob("*") if path.is_file())
    shutil.rmtree(output)
    return {"kept": int(keep.sum()), "dropped": int((~keep).sum()), "written_MB": round(written / 1e6, 1)}


WORK = {"Parquet": (prepare, facts), "JSON lines": (prepare, facts)}


def run(bench: Bench) -> dict[str, Any]:
    names = bench.with_case("datatrove", "files")
    inputs = {kind: str(_inputs(bench, kind)) for kind in WORK}
    answers = []
    for kind, folder in inputs.items():
        for name in names:
            outcome, answer = bench.answer(Job("datatrove", kind, name, folder, max(bench.threads), THRESHOLD))
            found = score(bench.truth(), THRESHOLD, answer["keep"]) if answer else outcome
            answers.append({"engine": name, "files": kind, **found})
    jobs = [
        Job("datatrove", kind, name, folder, threads, THRESHOLD)
        for threads in bench.threads
        for kind, folder in inputs.items()
        for name in names
    ]
    measured = bench.paired(jobs)
    lines = []
    for threads in bench.threads:
        for kind in WORK:
            of_kind = [(job, outcomes) for job, outcomes in measured if job.work == kind]
            theirs, ours = find(of_kind, "datatrove", threads), find(of_kind, "gpulsh", threads)
            if theirs and ours:
                statement = f"files to files, {kind}, {on_threads(threads)}: datatrove's four stages / gpulsh verified"
                lines.append(line(statement, ratio(theirs, ours), 10, at_least=True))
    resolved = {a["engine"]: a.get("true_pairs_resolved") for a in answers}  # whatever the files were
    if None not in (ours := resolved.get("gpulsh"), theirs := resolved.get("datatrove")):
        both = round(100 * (ours - theirs), 3)
        lines.append(line("true pairs resolved, gpulsh less datatrove, %", both, 0, at_least=True))
    megabytes = bench.text_bytes(bench.corpus, bench.rows) / 1e6
    # A process of its own is where datatrove's memory lies, which the worker's peak does not tell.
    rows = [
        {"files": j.work, **{k: v for k, v in row(j, o, megabytes).items() if k != "peak_MiB"}} for j, o in measured
    ]
    return {"rows": rows, "checks": answers, "lines": lines, "raw": measured}


def _inputs(bench: Bench, kind: str) -> Path:
    """A file per thread, for datatrove divides its work by files; Parquet has the codec that it has by default."""
    texts = pq.read_table(bench.corpus, columns=["text"]).slice(0, bench.rows)
    texts = texts.append_column("id", pa.array(np.arange(len(texts))).cast(pa.string()))
    inputs = bench.work / f"{kind.replace(' ', '-')}-{len(texts)}"
    few = texts.slice(0, FEW)
    again = few.set_column(0, "text", pc.binary_join_element_wise(few["text"], "again", " "))
    for folder, table in ((inputs, texts), (_few(inputs), pa.concat_tables([few, again]))):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        cuts = np.linspace(0, len(table), max(bench.threads) + 1).astype(int)
        for number, (start, stop) in enumerate(pairwise(cuts)):
            part = table.slice(start, stop - start)
            if kind == "Parquet":
                pq.write_table(part, folder / f"{number:05d}.parquet", row_group_size=GROUP_ROWS)
            else:
                lines = (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in part.to_pylist())
                (folder / f"{number:05d}.jsonl").write_bytes(b"".join(lines))
    return inputs


def _ids(folder: Path) -> NDArray[np.int64]:
    """The ids of all rows of a folder."""
    ids: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".parquet":
            ids += pq.read_table(path, columns=["id"])["id"].to_pylist()
        else:
            ids += [orjson.loads(line)["id"] for line in path.read_bytes().splitlines()]
    return np.array(ids).astype(np.int64)


def _few(inputs: Path) -> Path:
    return inputs.with_name(f"{inputs.name}-few")
