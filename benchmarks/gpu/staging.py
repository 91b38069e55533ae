"""The host's time to bring texts in memory to a device: Arrow columns of one chunk and of many, and lists of str.

    python -m benchmarks.gpu.staging [OTHER_TREE] [--megabytes 60] [--rounds 7] [--output FILE]

Needs no device: its memory is never written, and its kernels are left out. It measures the processor time of all host
threads from the column or list to the pinned buffer. Before the clock runs, it compares the buffer with the text. With
OTHER_TREE, a checkout of another commit, each round measures both in turns, each in an interpreter of its own. The
ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

KINDS = {"pages": 2700, "tweets": 100}  # bytes per document
CHUNK = 1000  # rows
BATCH = 32 << 20  # bytes of text
TURNS = 3  # of the work in one interpreter, whose least time counts


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("other", nargs="?", type=Path, help="a checkout of another commit")
    ask.add_argument("--megabytes", type=float, default=60.0, help="of text of each kind")
    ask.add_argument("--rounds", type=int, default=7)
    ask.add_argument("--output", type=Path, help="a JSON file to write as well")
    ask.add_argument("--once", action="store_true", help="measure this tree once, and print JSON")
    given = ask.parse_args()
    if given.once:
        print(json.dumps(measured(int(given.megabytes * 1e6))))
        return 0
    from benchmarks.machine import describe
    from benchmarks.record import table

    here = Path(__file__).parents[2]
    trees = [here, *([given.other.resolve()] if given.other else [])]
    rounds: list[list[dict[str, float]]] = []
    for number in range(given.rounds):
        found = {tree: _once(tree, given.megabytes) for tree in (trees if number % 2 else trees[::-1])}
        rounds.append([found[tree] for tree in trees])
    rows = []
    for name in rounds[0][0]:
        row: dict[str, Any] = {"texts": name, "ns a document": round(median(of[0][name] for of in rounds), 1)}
        size = next(size for kind, size in KINDS.items() if name.startswith(kind))
        row["GB/s"] = float(f"{size / row['ns a document']:.3g}")
        if given.other:
            row["before"] = round(median(of[1][name] for of in rounds), 1)
            row["of before"] = round(median(of[0][name] / of[1][name] for of in rounds), 3)
        rows.append(row)
    print(table(rows))
    if given.output:
        header = {"date": date.today().isoformat(), "command": " ".join(["staging", *sys.argv[1:]])}
        given.output.write_text(json.dumps({**header, "machine": describe(), "rows": rows}, indent=1) + "\n")
    return 0


def _once(tree: Path, megabytes: float) -> dict[str, float]:
    command = [sys.executable, __file__, "--once", f"--megabytes={megabytes}"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measured(size: int) -> dict[str, float]:
    """Nanoseconds a document of each kind of texts, `size` bytes together."""
    from gpulsh.backends.cuda.staging import Staging
    from gpulsh.io.memory.texts import open_texts

    ops: Any = SimpleNamespace(name="cuda", sizes=lambda: SimpleNamespace(readers=len(os.sched_getaffinity(0))))
    found = {}
    for kind, each in KINDS.items():
        count = size // each
        text = np.random.default_rng(1).integers(ord("a"), ord("z") + 1, count * each, np.uint8)
        offset = np.arange(count + 1, dtype=np.int32) * np.int32(each)
        one = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offset), pa.py_buffer(text)])
        copies = [pa.array(one.slice(start, CHUNK).to_pylist(), pa.string()) for start in range(0, count, CHUNK)]
        accented = [f"é{row[2:]}" for row in one.to_pylist()]
        sources = {
            "one chunk": one,
            f"chunks of {CHUNK:,}": pa.chunked_array(copies),
            "list of ASCII": one.to_pylist(),
            "list of other str": accented,
        }
        for name, texts in sources.items():
            device = _Device()
            staging = Staging(device.module)

            def work(texts: Any = texts, staging: Any = staging) -> None:
                for batch in open_texts(texts, ops).batches(BATCH):
                    staging.on_device(batch)

            device.seen = {}
            work()
            wanted = "".join(accented).encode() if "other" in name else text.tobytes()
            assert b"".join(device.seen[start] for start in sorted(device.seen)) == wanted
            device.seen = None
            found[f"{kind}, {name}"] = _least(work) / count * 1e9
    return found


def _least(work: Callable[[], None]) -> float:
    seconds = []
    for _ in range(TURNS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


class _Device:
    """An array module whose copies to the device take no time of the host's."""

    def __init__(self) -> None:
        self.seen: dict[int, bytes] | None = None  # by place
        stream = SimpleNamespace(ptr=0)

        class Memory:
            def __init__(self, size: int, start: int) -> None:
                self.size, self.data = size, SimpleNamespace(ptr=start)

        def empty(size: int, _: Any) -> Memory:
            start = 0 if self.seen is None else sum(map(len, self.seen.values()))
            return _held(Memory(size, start))

        def copy(there: int, here: int, size: int, *_: Any) -> None:
            if self.seen is not None:
                self.seen[there] = ctypes.string_at(here, size)

        event = SimpleNamespace(record=lambda _: None, synchronize=lambda: None)
        runtime = SimpleNamespace(
            getDevice=lambda: 0,
            pointerGetAttributes=lambda _: SimpleNamespace(type=0),
            streamPerThread=2,
            memoryTypeHost=1,
            memcpyAsync=copy,
            CUDARuntimeError=RuntimeError,
        )
        cuda = SimpleNamespace(
            get_current_stream=lambda: stream,
            Device=nullcontext,
            Event=lambda **_: event,
            alloc_pinned_memory=bytearray,
            runtime=runtime,
        )
        # The offsets of a batch are checked by their type, so they stay arrays.
        self.module: Any = SimpleNamespace(empty=empty, asarray=np.asarray, cuda=cuda)


def _held(memory: Any) -> Any:
    memory.dtype, memory.ndim, memory.shape = np.dtype(np.uint8), 1, (memory.size,)
    type(memory).__len__ = lambda self: self.size
    return memory


if __name__ == "__main__":
    sys.exit(main())
