"""The host's work for each document of a run on a device: nanoseconds, and the rate above which it holds a device back.

    python -m benchmarks.gpu.host_costs [--megabytes 60] [--rounds 7] [--output FILE]

Needs no device: a device's answers are made up, in the layout in which it hands them over. Every answer of the host's
is checked before the clock runs. The costs are those that each document has, or each that is compared or a copy:

gather   texts that are compared are read again from an Arrow column, a tile of the device's at a time
copies   exact copies are folded; every third document is one
order    band digests and exact hashes are put in order and written to the files of a run

`alone` is the time that keeps others waiting. Lanes do `gather` in parallel, so there it is the share that holds the
interpreter's lock: how much less often another thread wakes up meanwhile than during work without the lock. For
`copies` and `order` it is the processor time of the one thread that reads the lanes' results. `all` is the processor
time of all threads. The ceiling is the bytes of a document by `alone`, or by `all` of the processors if that is less.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.machine import cores, describe
from benchmarks.record import table
from gpulsh.arrays import SignedBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.protocol import Sizes
from gpulsh.decide.copies import first_copies
from gpulsh.io.memory.texts import open_texts
from gpulsh.run.records.tables import DIGESTS
from gpulsh.run.stages import sign

KINDS = {"pages": 2700, "tweets": 100}  # bytes per document
TILE = 2 << 20  # bytes of text that are compared at a time
BANDS = 21  # of 128 permutations at 0.8
BATCH = 32 << 20  # bytes of text that are signed at a time
MANY = 1 << 18  # texts that are asked for before the clock runs: a job for a device has more
WAKES = 2e-4  # seconds that a thread sleeps which wants to do little, but often

Work = Callable[[], Any]


def _arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--megabytes", type=float, default=60.0, help="of text of each kind")
    ask.add_argument("--rounds", type=int, default=7)
    ask.add_argument("--output", type=Path, help="a JSON file to write as well")
    return ask.parse_args()


def main() -> int:
    given = _arguments()
    rows = []
    with tempfile.TemporaryDirectory(prefix="gpulsh-host-") as folder:
        for kind, size in KINDS.items():
            rows += measured(kind, size, int(given.megabytes * 1e6) // size, given.rounds, Path(folder))
    print(table(rows))
    if given.output:
        header = {"date": date.today().isoformat(), "command": " ".join(["host_costs", *sys.argv[1:]])}
        given.output.write_text(json.dumps({**header, "machine": describe(), "rows": rows}, indent=1) + "\n")
    return 0


def measured(kind: str, size: int, count: int, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """A row a cost of `count` documents of `size` bytes, and one of all together."""
    costs = {
        "gather": gather(size, count),
        "copies": copies(count),
        "order": order(size, count, folder),
    }
    found = []
    for name, (work, documents) in costs.items():
        one, all_ = _times(work, rounds)
        share = _share_alone(work) if name == "gather" else 1.0
        found.append(_row(kind, name, size, one * share / documents, all_ / documents))
    whole = [sum(row[column] for row in found) for column in ("alone ns", "all ns")]
    return [*found, _row(kind, "together", size, *(value / 1e9 for value in whole))]


def _row(kind: str, name: str, size: int, alone: float, all_: float) -> dict[str, Any]:
    slowest = max(alone, all_ / cores(), 1e-12)
    return {
        "documents": kind,
        "cost": name,
        "alone ns": round(alone * 1e9, 1),
        "all ns": round(all_ * 1e9, 1),
        "ceiling GB/s": float(f"{size / slowest / 1e9:.3g}"),
    }


def gather(size: int, count: int) -> tuple[Work, int]:
    """Every second document of an Arrow column, tile after tile."""
    text = np.random.default_rng(1).integers(ord("a"), ord("z") + 1, size * count, np.uint8)
    offset = np.arange(count + 1, dtype=np.int64) * size
    column = pa.Array.from_buffers(pa.large_string(), count, [None, pa.py_buffer(offset), pa.py_buffer(text)])
    ids = np.arange(0, count, 2)
    chosen = open_texts(column).choose(ids)
    places = np.array_split(np.arange(len(ids)), max(1, len(ids) * size // TILE))

    def work() -> None:
        for some in places:
            chosen.take(some)

    for _ in range(0, MANY, len(ids)):
        work()
    for some in places[:: max(1, len(places) // 4)]:
        batch = chosen.take(some)
        bounds = batch.offset.tolist()
        for place, (start, stop) in zip(some.tolist(), pairwise(bounds), strict=True):
            begin = int(ids[place]) * size
            assert batch.values[start:stop].tobytes() == text[begin : begin + size].tobytes()
    return work, len(ids)


def copies(count: int) -> tuple[Work, int]:
    """Hashes; every third repeats the hash of an earlier document."""
    draw = np.random.default_rng(2)
    exact = draw.integers(0, 1 << 63, (count, 2), np.int64).astype(np.uint64)
    later = np.arange(3, count, 3)
    exact[later] = exact[later - 1 - draw.integers(0, 2, len(later))]
    ids, ops = np.arange(count), CpuBackend(1)
    rank = np.arange(count)

    def work() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return first_copies(exact, ids, rank.__getitem__, ops)

    seen: dict[bytes, int] = {}
    wanted = [seen.setdefault(row.tobytes(), number) for number, row in enumerate(exact)]
    found, first = work()
    assert found.tolist() == [number for number, of in enumerate(wanted) if of != number]
    assert first.tolist() == [wanted[number] for number in found.tolist()]
    return work, count


def order(size: int, count: int, folder: Path) -> tuple[Work, int]:
    """The digests, band after band, and exact hashes of batches, as a device hands them over, to the files of a run."""
    draw = np.random.default_rng(3)
    ops = _Device(cores())
    batches = []
    for start in range(0, count, BATCH // size):
        rows = min(BATCH // size, count - start)
        digests, exact = (draw.integers(0, 1 << 63, (rows, wide), np.int64).astype(np.uint64) for wide in (BANDS, 2))
        batches.append(SignedBatch(np.asfortranarray(digests), exact, np.ones(rows, np.int64)))

    def work() -> None:
        sign._write_runs(folder, 0, iter(batches), BANDS, ops)

    work()
    wanted = np.concatenate([batch.digests for batch in batches])
    seen = 0
    for number, run in enumerate(DIGESTS.open(folder, 0).runs()):
        upper = run.digest >> np.uint64(48)
        assert (upper[1:] >= upper[:-1]).all()
        assert (run.digest == wanted[run.row, number % BANDS]).all()
        seen += len(upper)
    assert seen == wanted.size
    return work, count


class _Device(CpuBackend):
    """Leaves all threads to the host, as a device does."""

    def sizes(self) -> Sizes:
        return super().sizes()._replace(readers=cores())


def _times(work: Work, rounds: int) -> tuple[float, float]:
    """Processor seconds of the calling thread and of all threads: medians."""
    ones, alls = [], []
    gc.collect()
    for _ in range(rounds):
        one, all_ = time.thread_time(), time.process_time()
        work()
        ones.append(time.thread_time() - one)
        alls.append(time.process_time() - all_)
    return median(ones), median(alls)


def _share_alone(work: Work) -> float:
    """The share of `work` in which another thread cannot run Python."""
    large = np.zeros(1 << 24, np.uint8)
    beside = _wakes(large.copy, 0.5)  # a copy without the lock
    return min(max(1 - _wakes(work, 0.5) / beside, 0.0), 1.0)


def _wakes(work: Work, seconds: float) -> float:
    """How often in a second another thread wakes up while `work` is done again and again."""
    woken, done = 0, threading.Event()

    def wake() -> None:
        nonlocal woken
        while not done.is_set():
            time.sleep(WAKES)
            woken += 1

    thread = threading.Thread(target=wake)
    with _lock_given_up_by_no_one():
        thread.start()
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            work()
        elapsed = time.perf_counter() - began
        done.set()
        thread.join()
    return woken / elapsed


@contextmanager
def _lock_given_up_by_no_one() -> Iterator[None]:
    """Inside, the interpreter never takes its lock from a running thread; only a thread that gives it up loses it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


if __name__ == "__main__":
    sys.exit(main())
