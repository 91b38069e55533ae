"""python -m benchmarks.gpu.exercise: every operation on a device, small, compared with the reference; for sanitizers.

Memory comes from the driver, not from CuPy's pool: a pool hands out parts of larger blocks, and a sanitizer sees no
access that leaves one part and meets the next.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from benchmarks.gpu import corpora, operations
from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend, why_unavailable
from gpulsh.backends.cuda.device import import_cupy
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import Shingling

SHINGLINGS = (Shingling(unit="word", size=5), Shingling(unit="char", size=9), Shingling(unit="word", size=1))
# Of no token, of a few, at the edges of words and blocks, one far longer than a block's part.
LENGTHS = (0, 1, 2, 3, 3, 5, 8, 13, 21, 21, 34, 60, 130, 0)
AWKWARD = (b"", b" ", b"\0", b"one", "一二三四五六七".encode(), "👍🏽 ok".encode(), b"\xff\xc3(\xe2\x82", b"a" * 3000)


def text() -> TextBatch:
    """Documents of several lengths and scripts, among them awkward ones, with copies and near-duplicates."""
    batches = [corpora.make_text(np.array(LENGTHS, np.int64), script=script) for script in ("latin", "mixed")]
    rows = [
        batch.values[start:stop].tobytes()
        for batch in batches
        for start, stop in zip(batch.offset[:-1].tolist(), batch.offset[1:].tolist(), strict=True)
    ]
    rows = [*AWKWARD, *rows, *AWKWARD[:-1]]  # the reference takes seconds for the last one
    return TextBatch(np.frombuffer(b"".join(rows), np.uint8), np.cumsum([0, *map(len, rows)], dtype=np.int64))


def main() -> int:
    reason = why_unavailable()
    if reason is not None:
        print(f"exercise: {reason}", file=sys.stderr)
        return 1
    cupy = import_cupy()
    cupy.cuda.set_allocator(None)
    backend, given, wanted = CudaBackend(), text(), ReferenceBackend()
    # The reference takes as long as to compile all kernels, so that other processes compute it meanwhile.
    with ProcessPoolExecutor(len(SHINGLINGS), get_context("spawn")) as others:
        expected = [others.submit(operations.run, wanted, given, shingling) for shingling in SHINGLINGS]
        for shingling, answers in zip(SHINGLINGS, expected, strict=True):
            names = operations.check(backend, given, wanted, shingling, answers.result)
            shown = f"{shingling.unit}:{shingling.size}: {len(given)} documents"
            print(f"{shown}, {len(names)} operations equal the reference", flush=True)
    missing = operations.operations_of() - set(names)
    if missing:
        print(f"not exercised: {', '.join(sorted(missing))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
