"""The cost of the form of a corpus: lengths, one giant document, scripts, sizes of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu import corpora
from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.operations import FAMILY, KEYS, SHAPE, SHINGLING
from gpulsh.arrays import TextBatch

TITLE = "Forms of a corpus: text in device memory to band digests (`sign`) and to sets of shingles (`shingle_sets`)"

MEGABYTES = 256.0
TWEETS = 1e6
GIANT_MB = 100.0
BATCHES_MB = (1, 4, 16, 64, 256)


def run(bench: Bench) -> Found:
    found = Found()
    size = MEGABYTES * bench.scale
    forms: dict[str, Callable[[], TextBatch]] = {
        "lengths all alike": lambda: corpora.even(size, corpora.PAGE),
        "lengths uniform": lambda: corpora.uniform(size),
        "lengths log-normal": lambda: corpora.log_normal(size),
        "tweets": lambda: corpora.even(size, corpora.TWEET),
        "CJK, log-normal": lambda: corpora.log_normal(size, script="cjk"),
        "Latin and CJK, log-normal": lambda: corpora.log_normal(size, script="mixed"),
        "one giant among tweets": lambda: giant(bench),
        "the same bytes in tweets": lambda: spread(bench),
    }
    for form, make in forms.items():
        if bench.left < 3:
            found.not_measured.append(f"{form}: no time left")
            continue
        text = bench.text(make())
        for operation in ("sign", "shingle_sets"):
            _measure(bench, found, operation, form, [text])
        bench.free()
    for operation in ("sign", "shingle_sets"):
        _compare_giant(found, operation)
    if bench.left > 3:
        host = corpora.log_normal(size)
        for megabytes in BATCHES_MB:
            cuts = [bench.text(_own(part)) for part in corpora.cut(host, max(int(megabytes * 1e6 * bench.scale), 500))]
            _measure(bench, found, "sign", f"log-normal in batches of {megabytes} MB", cuts)
    return found


def giant(bench: Bench) -> TextBatch:
    lengths = np.full(bench.count(TWEETS, 20), corpora.TWEET, np.int64)
    # Not where a copy is planted, which would be a second giant, nor before such a place.
    lengths[len(lengths) // 10 * 5] = int(GIANT_MB * 1e6 * bench.scale / corpora.PHRASE)
    return corpora.make_text(lengths)


def spread(bench: Bench) -> TextBatch:
    total = int(giant(bench).offset[-1])
    return corpora.make_text(np.full(total // (corpora.TWEET * corpora.PHRASE), corpora.TWEET, np.int64))


def _measure(bench: Bench, found: Found, operation: str, form: str, batches: list[TextBatch]) -> None:
    ops, family = bench.backend, FAMILY
    size = sum(len(batch.values) for batch in batches)

    def call() -> Any:
        for batch in batches:
            given = (
                ops.sign(batch, SHINGLING, family, SHAPE, KEYS)
                if operation == "sign"
                else ops.shingle_sets(batch, SHINGLING)
            )
        return given

    times, kernels = bench.measure([call], limit=2.0)
    found.rows.append(
        {
            "form": form,
            "operation": operation,
            "documents": sum(len(batch) for batch in batches),
            "batches": len(batches),
            **times.columns(),
            "text GB/s": size / times.median / 1e9,
            "kernels": kernels,
        }
    )
    bench.say(f"  {operation:13}{form:34}{times.median * 1e3:10.3f} ms {size / times.median / 1e9:8.2f} GB/s of text")


def _compare_giant(found: Found, operation: str) -> None:
    rates = {row["form"]: row["text GB/s"] for row in found.rows if row["operation"] == operation}
    if {"one giant among tweets", "the same bytes in tweets"} <= set(rates):
        cost = rates["the same bytes in tweets"] / rates["one giant among tweets"]
        found.figures[f"cost of a giant, {operation}"] = cost


def _own(part: TextBatch) -> TextBatch:
    """A batch that begins at 0, so that only its bytes go to the device."""
    start, stop = int(part.offset[0]), int(part.offset[-1])
    return TextBatch(part.values[start:stop], part.offset - start)
