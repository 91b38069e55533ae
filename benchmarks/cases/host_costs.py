"""Host work of `deduplicate` for each document with a device: nanoseconds, stage by stage.

Needs no device. A device would do the operations and the calls of the array module; here the CPU and a stand-in for
CuPy do them, outside the clock (`benchmarks.gpu.stand_in`). The rest is the host's time. Its part that does not grow
with the documents is left out: the fastest run of all texts is compared with the fastest of half of them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench, line
from benchmarks.corpora.random_words import REPEATS, WORDS
from benchmarks.gpu.stand_in import Clock, stand_in
from gpulsh import deduplicate
from gpulsh.io.memory.texts import open_texts
from gpulsh.method import Method
from gpulsh.run.memory import decide, sign
from gpulsh.secret import chosen_secret, evidence_keys

TITLE = "The host's work for each document of a run on a device"
WORK: dict[str, Any] = {}
KINDS = {"pages": (386, 60_000, 40), "tweets": (14, 1_000_000, 15)}  # words, documents, nanoseconds at most
THRESHOLD = 0.8
KEPT = {-3: 32 << 20, -1: 1 << 30}  # mallopt(3): bytes of a block, M_MMAP_THRESHOLD, and of all, M_TRIM_THRESHOLD


def run(bench: Bench) -> dict[str, Any]:
    # A device's pool keeps what the stand-in would give back to the system.
    for option, size in KEPT.items():
        ctypes.CDLL(None).mallopt(option, size)
    rows, checks, lines = [], [], []
    for kind, (words, documents, most) in KINDS.items():
        count = bench.documents or documents
        texts = made(count, words)
        found, _ = costs(texts[: min(count, 20_000)])
        wanted = deduplicate(texts[: min(count, 20_000)], threshold=THRESHOLD, backend="cpu")
        checks.append({"documents": kind, "as on a CPU": found == wanted, "dropped": int((~wanted.keep).sum())})
        rounds = [[costs(some)[1] for some in (texts, texts[: count // 2])] for _ in range(bench.rounds)]
        part = count - count // 2
        stages = {
            name: max(min(whole[name] for whole, _ in rounds) - min(half[name] for _, half in rounds), 0.0) / part
            for name in rounds[0][0]
        }
        after = sum(seconds for name, seconds in stages.items() if name != "sign")
        for name, seconds in [*stages.items(), ("after sign", after)]:
            rows.append({"documents": kind, "stage": name, "host ns": round(seconds * 1e9, 1)})
        statement = f"{kind}: nanoseconds of the host a document, after signing"
        lines.append(line(statement, round(after * 1e9, 1), most, at_least=False))
    return {"rows": rows, "checks": checks, "lines": lines, "raw": []}


def made(documents: int, words: int) -> pa.Array:
    """`documents` of `words` random words; some repeat an earlier one, half of these with another word at an end."""
    random = np.random.default_rng(1)
    pages = random.integers(0, len(WORDS), (documents, words))
    repeated = np.flatnonzero(random.random(documents) < REPEATS)
    repeated = repeated[repeated > 0]
    pages[repeated] = pages[random.integers(0, repeated)]
    pages[repeated[::2], 0] = random.integers(0, len(WORDS), len(repeated[::2]))
    offset = np.arange(documents + 1, dtype=np.int64) * (7 * words)
    return pa.LargeStringArray.from_buffers(documents, pa.py_buffer(offset), pa.py_buffer(WORDS[pages].tobytes()))


def costs(texts: pa.Array) -> tuple[Any, dict[str, float]]:
    """The decision, and the host's seconds of each stage."""
    method, keys, clock = Method.choose(threshold=THRESHOLD), evidence_keys(chosen_secret(None)), Clock()
    with stand_in(clock) as ops:
        source = open_texts(texts, ops)
        signed = sign(source, method, keys, ops, clock)
        found = decide(signed, source, None, method, keys, ops, clock).to_numpy()
    return found, clock.host
