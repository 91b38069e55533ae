"""All pairs of 64-bit signatures within 3 bits: tables, their rivals, and all pairs one by one; and SimHash of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench import Bench, find, good, line, row
from benchmarks.job import Job

TITLE = "Hamming search: all pairs within 3 bits"
DISTANCE = 3
SIZES = (1000, 2000, 5000, 10_000, 100_000, 1_000_000)
MAX_SIGNATURES = {"popcount": 100_000, "text-dedup": 100_000}  # signatures that some engines are given
CHECKED = 10_000
TEXTS, CHARACTERS = 1000, 3  # documents that SimHash is made of, by shingles of as many characters
PUBLISHED = 626  # seconds that text-dedup's page tells of its SimHash, of 100,000 papers


def made(count: int) -> NDArray[np.uint64]:
    """Random signatures; a tenth of them differ from others in at most five bits."""
    generator = np.random.default_rng(count)
    words = generator.integers(0, 2**64, count, np.uint64)
    some = generator.choice(count, max(count // 10, 1), replace=False)
    flipped = np.bitwise_or.reduce(np.uint64(1) << generator.integers(0, 64, (len(some), 5), np.uint64), axis=1)
    kept = generator.integers(0, 2**64, len(some), np.uint64) | generator.integers(0, 2**64, len(some), np.uint64)
    words[some] = words[generator.integers(0, count, len(some))] ^ flipped & kept
    return words


def load(engine: Any, job: Job, rows: int) -> Any:
    return engine.signatures(made(rows)) if job.work == "near_pairs" else engine.load(job.corpus, rows)


def _near_pairs(engine: Any, signatures: Any, job: Job) -> Callable[[], Any]:
    return lambda: engine.near_pairs(signatures, DISTANCE)


def _pairs(engine: Any, found: NDArray[np.int64], job: Job) -> dict[str, Any]:
    if job.answer:
        np.savez(job.answer, pairs=found[np.lexsort((found[:, 1], found[:, 0]))])
    return {"pairs": len(found)}


def _text_to_bits(engine: Any, texts: Any, job: Job) -> Callable[[], Any]:
    return lambda: engine.text_to_bits(texts, CHARACTERS)


WORK = {"near_pairs": (_near_pairs, _pairs), "text_to_bits": (_text_to_bits, lambda engine, found, job: {})}


def run(bench: Bench) -> dict[str, Any]:
    names = bench.with_case("hamming", "near_pairs")
    jobs = [
        Job("hamming", "near_pairs", name, "", rows=size)
        for size in SIZES
        for name in names
        if size <= MAX_SIGNATURES.get(name, size)
    ]
    jobs += [
        Job("hamming", "text_to_bits", name, bench.corpus, rows=min(TEXTS, bench.rows or TEXTS))
        for name in bench.with_case("hamming", "text_to_bits")
    ]
    checks = _check(bench, [job for job in jobs if job.rows == CHECKED and job.work == "near_pairs"])
    measured = bench.paired(jobs)
    rows = [{"work": job.work, "of": job.rows, **row(job, outcomes)} for job, outcomes in measured]
    ours = find([one for one in measured if one[0].rows == SIZES[-1]], "gpulsh", 1)
    lines = []
    if ours and good(ours):
        statement = (
            f"all pairs of {SIZES[-1]:,}: times as fast as text-dedup's published {PUBLISHED} s of 100,000 papers"
        )
        measure = round(PUBLISHED / float(np.median(good(ours))), 1)
        lines.append(line(statement, measure, 100, at_least=True))
    return {"rows": rows, "checks": checks, "lines": lines, "raw": measured}


def _check(bench: Bench, jobs: list[Job]) -> list[dict[str, Any]]:
    """All find the same pairs as bit counts of Python's integers."""
    words = [int(word) for word in made(CHECKED)]
    wanted, checks = None, []
    for job in jobs:
        outcome, answer = bench.answer(job)
        if not answer:
            checks.append({"engine": job.engine, **outcome})
            continue
        pairs = answer["pairs"]
        assert all((words[i] ^ words[j]).bit_count() <= DISTANCE for i, j in pairs.tolist()), job.engine
        wanted = pairs if wanted is None else wanted
        np.testing.assert_array_equal(pairs, wanted, err_msg=job.engine)
        checks.append({"engine": job.engine, "signatures": CHECKED, "pairs, alike for all": len(pairs)})
    return checks
