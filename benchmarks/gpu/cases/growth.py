"""The cost of one more document: `deduplicate` of more and more tweets, from host memory."""

from __future__ import annotations

import time

import numpy as np

import gpulsh
from benchmarks.gpu import corpora
from benchmarks.gpu.bench import Bench, Found

TITLE = "Growth: tweets of 138 bytes from host memory, exact verification"

DOCUMENTS = (1e6, 3e6, 10e6, 30e6, 100e6)


def run(bench: Bench) -> Found:
    found = Found()
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        found.not_measured.append(f"anything: {error}")
        return found
    warm = corpora.make_text(np.full(bench.count(1e5, 20), corpora.TWEET, np.int64))
    gpulsh.deduplicate(corpora.as_arrow(warm), backend="cuda")
    before: tuple[int, float] | None = None
    a_document = 0.0  # seconds that the last size took for one, making it included
    for full in DOCUMENTS:
        count = bench.count(full, 20)
        if count * a_document > bench.left:
            found.not_measured.append(
                f"{count:,} documents: would take about {count * a_document:.0f} s, {max(bench.left, 0):.0f} s are left"
            )
            continue
        began = time.perf_counter()
        texts = corpora.as_arrow(corpora.make_text(np.full(count, corpora.TWEET, np.int64), seed=3))
        start = time.perf_counter()
        result = gpulsh.deduplicate(texts, backend="cuda")
        seconds = time.perf_counter() - start
        funnel = result.funnel
        assert funnel.exact_copies >= count // 10, "planted copies were missed"
        extra = None if before is None else (seconds - before[1]) / (count - before[0]) * 1e9
        found.rows.append(
            {
                "documents": count,
                "seconds": seconds,
                "ns a document": seconds / count * 1e9,
                "ns an extra document": extra,
                "text GB/s": count * corpora.TWEET * corpora.PHRASE / seconds / 1e9,
                "candidates": funnel.candidates,
                "dropped": funnel.dropped,
                "stages": dict(funnel.seconds),
            }
        )
        bench.say(f"  {count:>12,} documents {seconds:8.3f} s {seconds / count * 1e9:8.1f} ns each")
        before = (count, seconds)
        del texts, result
        a_document = (time.perf_counter() - began) / count
    if len(found.rows) > 1:
        first, last = found.rows[0]["ns a document"], found.rows[-1]["ns a document"]
        found.figures["cost of a document, most documents / fewest"] = last / first
    return found
