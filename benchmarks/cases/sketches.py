"""Signatures of ready fingerprints on one thread: which sketch pays for which documents and lengths of signature."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np

from benchmarks.bench import Bench, line
from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import sketched
from gpulsh.params import SKETCHES, Family

TITLE = "Sketches of ready fingerprints"
WORK: dict[str, Any] = {}
SHINGLES = {440: 1000, 20_000: 24}  # a document, and how many documents
LENGTHS = (128, 1024)
PAYING = {(440, 128): 1.5, (440, 1024): 4, (20_000, 1024): 10}  # times as fast as MinHash
CHEAPER = ("one_permutation", "fast_similarity")


def run(bench: Bench) -> dict[str, Any]:
    """Paired: each round takes every sketch of the same documents once."""
    ops, rows, lines = CpuBackend(1), [], []
    for shingles, documents in SHINGLES.items():
        values = np.random.default_rng(shingles).integers(0, 2**64, shingles * documents, np.uint64)
        sets = Fingerprints(values, np.arange(documents + 1, dtype=np.int64) * shingles)
        for length in LENGTHS:
            families = [Family(name=name, num_perm=length) for name in SKETCHES]
            _check(ops, sets, families)
            took = [[_seconds(ops, sets, family) for family in families] for _ in range(max(bench.rounds, 5))]
            ratios = {family.name: [one[0] / one[i] for one in took] for i, family in enumerate(families)}
            for i, family in enumerate(families):
                seconds = median(one[i] for one in took)
                row: dict[str, Any] = {"shingles": shingles, "num_perm": length, "family": family.name}
                row["us_a_document"] = round(seconds / documents * 1e6, 2)
                row["ns_a_value"] = round(seconds / (len(values) * length) * 1e9, 4)
                rows.append({**row, "times_minhash": round(median(ratios[family.name]), 2)})
            for name in CHEAPER if (shingles, length) in PAYING else ():
                statement = f"{name} / MinHash, {shingles:,} shingles, {length} values, one thread"
                measured = round(median(ratios[name]), 2)  # type: ignore[index]
                lines.append(line(statement, measured, PAYING[shingles, length], at_least=True))
    return {"rows": rows, "checks": [], "lines": lines, "raw": []}


def _check(ops: CpuBackend, sets: Fingerprints, families: list[Family]) -> None:
    """Every sketch of a set equals that of the same set, is filled, and is loaded before the clock runs."""
    size = int(sets.offset[1])
    twice = Fingerprints(np.tile(sets.values[:size], 2), np.array([0, size, 2 * size]))
    for family in families:
        first, again = sketched(ops, twice, family)
        assert (first == again).all() and (first != np.iinfo(first.dtype).max).any(), family.name


def _seconds(ops: CpuBackend, sets: Fingerprints, family: Family) -> float:
    began = time.process_time()
    sketched(ops, sets, family)
    return time.process_time() - began
