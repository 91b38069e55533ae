"""`gpulsh.passages` in memory: speed a core, memory, cost of more text, and what each rule leaves or destroys.

    python -m benchmarks.passages CORPUS.parquet FOLDER [--tokens 50] [--rounds 3]

CORPUS has a column `text`. Real licence texts are the second corpus, and FOLDER gets a copy of them. Jobs take turns,
each in a process of its own with one thread: once on a few texts to warm up, then three times. The least processor time
counts. gpulsh is compared with two plain ways: its own shingles of so many tokens, sorted by NumPy, and the suffix
array of all bytes by pydivsufsort, if that is installed. Repeated lines are compared with marin-dupekit, if it is
installed: it hashes lines as its paragraphs, and NumPy groups the hashes.

The rules are the values of `--keep`. AI2's `bsade` has the rule "minimal", Lee et al. 2022 have "none". Tests compare
both with oracles written from the papers. A window is so many consecutive tokens. Of the windows that occur more than
once, `destroyed` have no whole copy left after the cut, and `twice` have two or more.

The record is written to record/<device>/<date>/passages.json and .md.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from benchmarks.memory import PeakMemory
from benchmarks.record import arguments, table, write_page

GOALS = {"web": 100, "licences": 40}  # MB/s a core
TURNS = 3
SHARES = (0.25, 0.5, 1.0)  # of a corpus, for the cost of more text
KEEPS = ("first", "minimal", "none")
DUPEKIT_ROWS = 10_000  # of a batch
JOBS = {  # with the package that each needs
    "gpulsh": "gpulsh",
    "shingles and sort": "gpulsh",
    "suffix array": "pydivsufsort",
    "lines, gpulsh": "gpulsh",
    "lines, marin-dupekit": "dupekit",
}


def texts_of(path: str, share: float = 1.0) -> Any:
    """The first texts of a corpus as one Arrow array."""
    column = pq.read_table(path, columns=["text"])["text"].combine_chunks().cast(pa.large_string())
    return column.slice(0, int(len(column) * share))


def size_of(column: Any) -> int:
    """Bytes of text."""
    return int(pa.compute.sum(pa.compute.binary_length(column)).as_py())


def work_of(job: str, tokens: int) -> Any:
    """Run a job on a column of texts; returns the number of spans, of repeating windows, or of suffixes."""
    import gpulsh

    if job == "gpulsh":
        return lambda column: gpulsh.passages(column, tokens=tokens, backend="cpu", threads=1).num_rows
    if job == "shingles and sort":

        def sort(column: Any) -> int:
            shingles = gpulsh.shingle(column, shingling=f"word:{tokens}", backend="cpu", threads=1).values
            order = np.argsort(shingles, kind="stable")
            shingles = shingles[order]
            repeats = np.zeros(len(order), np.bool_)
            repeats[order[1:]] = shingles[1:] == shingles[:-1]
            return int(repeats.sum())

        return sort
    if job == "lines, gpulsh":
        return lambda column: gpulsh.passages(column, unit="line", max_copies=1, backend="cpu", threads=1).num_rows
    if job == "lines, marin-dupekit":
        return dupekit_lines
    from pydivsufsort import divsufsort

    return lambda column: len(divsufsort(np.array(bytearray("\0".join(column.to_pylist()).encode()))))


def dupekit_lines(column: Any) -> int:
    """Lines that occur before, as marin-dupekit splits and hashes them."""
    import dupekit
    from dupekit import HashAlgorithm, Transformation

    steps = [
        Transformation.SplitParagraphs("text", "id"),
        Transformation.Hash("paragraph_text", "hash", HashAlgorithm.Xxh3_128),
        Transformation.SelectColumns(["hash"]),
    ]
    hashes = []
    for start in range(0, len(column), DUPEKIT_ROWS):
        texts = column.slice(start, DUPEKIT_ROWS).cast(pa.string())
        batch = pa.record_batch({"id": pa.array(map(str, range(len(texts)))), "text": texts})
        hashes.append(np.asarray(dupekit.transform(batch, steps)["hash"].to_numpy(zero_copy_only=False), "S32"))
    found = np.sort(np.concatenate(hashes))
    return int((found[1:] == found[:-1]).sum())


def child(job: str, path: str, share: str, tokens: str) -> dict[str, float]:
    """The least processor time of a job, and its peak memory without the texts."""
    column = texts_of(path, float(share))
    work = work_of(job, int(tokens))
    work(column.slice(0, 200))
    seconds = []
    with PeakMemory() as memory:
        for _ in range(TURNS):
            began = time.process_time()
            found = work(column)
            seconds.append(time.process_time() - began)
    return {"processor": min(seconds), "peak": memory.peak, "found": found, "bytes": size_of(column)}


def measured(corpora: dict[str, str], tokens: int, rounds: int) -> list[dict[str, Any]]:
    """A row for each corpus, job and share of the corpus."""
    jobs = [(name, job, 1.0) for name in corpora for job, package in JOBS.items() if find_spec(package)]
    jobs += [(name, "gpulsh", share) for name in corpora for share in SHARES[:-1]]
    found: list[list[dict[str, float]]] = [[] for _ in jobs]
    for _ in range(rounds):
        for (name, job, share), of_job in zip(jobs, found, strict=True):
            given = [job, corpora[name], str(share), str(tokens)]
            command = [sys.executable, "-m", "benchmarks.passages", "--child", *given]
            ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
            of_job.append(json.loads(ran.stdout.splitlines()[-1]))
    rows = []
    for (name, job, _), of_job in sorted(zip(jobs, found, strict=True), key=lambda each: [*corpora].index(each[0][0])):
        seconds = statistics.median(each["processor"] for each in of_job)
        least = min(each["processor"] for each in of_job)
        rows.append(
            {
                "corpus": name,
                "job": job,
                "text MB": round(of_job[0]["bytes"] / 1e6, 1),
                "processor s": round(seconds, 3),
                "MB/s a core": round(of_job[0]["bytes"] / 1e6 / seconds, 1),
                "MB/s, best round": round(of_job[0]["bytes"] / 1e6 / least, 1),
                "peak MiB": round(max(each["peak"] for each in of_job) / 2**20),
                "found": int(of_job[0]["found"]),
            }
        )
    return rows


def rules(name: str, path: str, tokens: int) -> list[dict[str, Any]]:
    """The marks of each rule, and the windows left that occur more than once."""
    from gpulsh.params import Shingling
    from gpulsh.repeats.passages import repeats_in_documents
    from gpulsh.repeats.windows import mark
    from gpulsh.secret import evidence_keys
    from gpulsh.text.documents import Documents

    documents = Documents.open(texts_of(path), Shingling(), None, "cpu", None)
    found, base = repeats_in_documents(documents, tokens, evidence_keys(bytes(32)))
    all_tokens = int(documents.ops.tokens(next(documents.source.batches(1 << 40)), Shingling()).offset[-1])
    _, group = np.unique(found.first, return_inverse=True)
    rows = []
    for keep in KEEPS:
        spans = mark(found, tokens, keep)
        marks = np.zeros(int(base[-1]) + 1, np.int64)
        marks[spans.start] += 1
        marks[spans.stop] -= 1
        before = np.concatenate([[0], np.cumsum(np.cumsum(marks))])
        whole = before[found.place + tokens] == before[found.place]
        left = np.bincount(group, whole)
        rows.append(
            {
                "corpus": name,
                "rule": {"first": "first (gpulsh)", "minimal": "minimal (bsade)", "none": "none (Lee et al.)"}[keep],
                "marked tokens": f"{int((spans.stop - spans.start).sum()) / all_tokens:.1%}",
                "windows that repeat": len(left),
                "destroyed": f"{(left == 0).mean():.1%}",
                "whole once": f"{(left == 1).mean():.1%}",
                "twice": f"{(left > 1).mean():.1%}",
            }
        )
    return rows


def main() -> None:
    """Measure, and write the record."""
    if sys.argv[1] == "--child":
        print(json.dumps(child(*sys.argv[2:])))
        return
    parser = arguments(__doc__)
    parser.add_argument("--tokens", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    from benchmarks.corpora import licences

    asked.folder.mkdir(exist_ok=True)
    path = asked.folder / "licences.parquet"
    if not path.exists():
        licences.make(path)
    corpora = {"web": str(asked.corpus.resolve()), "licences": str(path.resolve())}
    speed = measured(corpora, asked.tokens, asked.rounds)
    left = [row for name, path in corpora.items() for row in rules(name, path, asked.tokens)]
    print(table(speed), table(left), sep="\n\n")
    goals = ", ".join(f"{name} {goal}" for name, goal in GOALS.items())
    command = f"python -m benchmarks.passages CORPUS.parquet FOLDER --tokens {asked.tokens} --rounds {asked.rounds}"
    text = (
        f"Processor time of one thread, medians of {asked.rounds} rounds. The aims, in MB/s a core: {goals}. `found`"
        f" counts spans, windows that repeat, suffixes, spans of lines, lines.\n\n{table(speed)}\n\n"
        f"What is left when the marked tokens are cut. A window is {asked.tokens} tokens.\n\n{table(left)}"
    )
    write_page("passages", "passages", command, {"speed": speed, "rules": left}, text)


if __name__ == "__main__":
    main()
