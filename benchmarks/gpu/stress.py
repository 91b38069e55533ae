"""python -m benchmarks.gpu.stress: many small batches in flight in all lanes, every result compared with the CPU's.

Lanes take turns with pinned buffers, streams and memory that the one before has just given back; a comparison of one
batch at a time meets none of that. Each round signs all batches in another order, from pageable, pinned or device
memory, and keeps what it finds until the last one is signed. While results are read, another `each` runs inside, as an
index's does. Then come an index and the whole of `deduplicate`, cut as small.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu import corpora
from benchmarks.gpu.operations import FAMILY, KEYS, SHAPE, SHINGLING
from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend, Shared, why_unavailable
from gpulsh.backends.cuda.device import import_cupy
from gpulsh.backends.cuda.launcher import Geometry

MEGABYTES, ROUNDS, BATCH = 200.0, 10, 1 << 20
INSIDE = 16  # results read between one `each` inside and the next
DECISIONS = ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity")
ADDED = ("keep", "duplicate_of", "similarity")
REFERENCE_MB = 2.0  # where there is no Numba: NumPy alone takes seconds for a megabyte

Place = Callable[[TextBatch], TextBatch]


def mixed(megabytes: float, batch: int) -> TextBatch:
    """Documents of mixed lengths and scripts: empty ones, many as crawled pages are, a few larger than a batch."""
    mean = 40 * float(np.exp(0.5 * 1.5**2))
    count = max(int(0.85 * megabytes * 1e6 / (mean * corpora.PHRASE)), 40)
    lengths = np.random.default_rng(3).lognormal(np.log(40), 1.5, count).astype(np.int64)
    lengths[::97] = 0
    giants = max(int(0.2 * megabytes * 1e6 / (3 * batch)), 1)
    lengths[np.linspace(1, count - 1, giants).astype(np.int64)] = 3 * batch // corpora.PHRASE
    return corpora.make_text(lengths, script="mixed", seed=3)


def run(cupy: Any, megabytes: float, rounds: int, batch: int, say: Callable[[str], None] = print) -> None:
    """All of it; an AssertionError names the first result that differs."""
    oracle, judge, megabytes = _oracle(megabytes)
    text = mixed(megabytes, batch)
    device = CudaBackend()
    backend = CudaBackend(Shared(device.arrays, device.launch, Geometry(text_bytes=batch)))
    cuts = _cuts(text, batch)

    def sign(ops: Any, part: TextBatch) -> tuple[Any, ...]:
        signed = ops.sign(part, SHINGLING, FAMILY, SHAPE, KEYS)
        return signed.digests, signed.exact, signed.shingles

    def sets(ops: Any, part: TextBatch) -> tuple[Any, ...]:
        found = ops.shingle_sets(part, SHINGLING, KEYS)
        return found.values, found.offset

    wanted = [sign(oracle, text.slice(*cut)) for cut in cuts]
    inside = list(range(0, len(cuts), max(len(cuts) // 6, 1)))
    wanted_sets = {number: sets(oracle, text.slice(*cuts[number])) for number in inside}
    places = _places(cupy, backend)
    for number in range(rounds):
        name, place = places[number % len(places)]
        given = place(text)
        parts = [given.slice(*cut) for cut in cuts]
        order = np.random.default_rng(number).permutation(len(cuts))
        kept: list[tuple[int, tuple[Any, ...]]] = []
        results = backend.pipelined_map((parts[at] for at in order.tolist()), sign)
        for count, (at, found) in enumerate(zip(order.tolist(), results, strict=True)):
            kept.append((at, tuple(backend.keep(*found))))
            if count % INSIDE == 0:
                again = backend.pipelined_map([parts[at] for at in inside], sets)
                for which, sets_found in zip(inside, again, strict=True):
                    _check(backend, sets_found, wanted_sets[which], f"round {number}: sets of batch {which}, {name}")
        for at, found in kept:
            _check(backend, found, wanted[at], f"round {number}: batch {at}, {name}")
    count = f"{rounds} rounds of {len(cuts)} batches, {len(text):,} documents, {len(text.values) / 1e6:.4g} MB"
    say(f"each, keep: {count} equal the {judge}'s")
    _whole(backend, oracle, text, judge, say)


def _whole(backend: CudaBackend, oracle: Any, text: TextBatch, judge: str, say: Callable[[str], None]) -> None:
    """`Index.add`, in parts, and `deduplicate`."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        say(f"not exercised: Index.add and deduplicate ({error})")
        return
    import gpulsh

    parts = [text.slice(*cut) for cut in _cuts(text, max(len(text.values) // 4, 1))]
    found: dict[str, list[Any]] = {}
    for ops in (oracle, backend):
        with _selected(ops):
            index = gpulsh.Index(threshold=0.7, backend=ops.name, secret=bytes(range(32)))
            first, added = 0, []
            for part in parts:
                added.append(index.add(range(first, first + len(part)), part))
                first += len(part)
            decided = gpulsh.deduplicate(text, threshold=0.7, backend=ops.name).to_numpy()
        found[ops.name] = [getattr(some, name) for some in added for name in ADDED]
        found[ops.name] += [getattr(decided, name) for name in DECISIONS]
    for one, other in zip(found[backend.name], found[oracle.name], strict=True):
        np.testing.assert_array_equal(one, other, err_msg="Index.add, deduplicate")
    dropped = int((~decided.keep).sum())
    assert dropped, "texts without duplicates compare nothing"
    say(f"Index.add in {len(parts)} parts, deduplicate: {dropped:,} dropped, equal the {judge}'s")


def _oracle(megabytes: float) -> tuple[Any, str, float]:
    """Who judges, its name, and how much text it is given."""
    try:
        from gpulsh.backends.cpu import CpuBackend
    except ImportError:  # without Numba
        from gpulsh.backends.reference import ReferenceBackend

        return ReferenceBackend(), "reference", min(megabytes, REFERENCE_MB)
    return CpuBackend(), "CPU", megabytes


def _places(cupy: Any, backend: CudaBackend) -> list[tuple[str, Place]]:
    """Names and functions of the places where texts may be: the host, pinned memory, the device."""

    def pinned(text: TextBatch) -> TextBatch:
        size = len(text.values)
        values = np.frombuffer(cupy.cuda.alloc_pinned_memory(max(size, 1)), np.uint8, size)
        values[:] = text.values
        return TextBatch(values, text.offset)

    return [
        ("pageable memory", lambda text: text),
        ("pinned memory", pinned),
        ("device memory", lambda text: text.moved(backend.asarray)),
    ]


def _cuts(text: TextBatch, size: int) -> list[tuple[int, int]]:
    """Runs of documents of at most `size` bytes, longer only where one document is."""
    offset, cuts, start = text.offset, [], 0
    while start < len(text):
        fitting = int(np.searchsorted(offset, offset[start] + size, side="right")) - 1
        cuts.append((start, max(fitting, start + 1)))
        start = cuts[-1][1]
    return cuts


def _check(backend: CudaBackend, found: Sequence[Any], wanted: Sequence[NDArray[Any]], what: str) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one if isinstance(one, np.ndarray) else backend.asnumpy(one), other, err_msg=what)


@contextmanager
def _selected(ops: Any) -> Iterator[None]:
    """Inside, the library's functions get the backend `ops` for any request."""
    with ExitStack() as stack:
        for module in ("gpulsh.index.index", "gpulsh.run.memory"):
            stack.enter_context(patch(f"{module}.select_backend", lambda *_, **__: ops))
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    ask = argparse.ArgumentParser(prog="python -m benchmarks.gpu.stress", description=__doc__)
    ask.add_argument("--megabytes", default=MEGABYTES, type=float, help="of text")
    ask.add_argument("--rounds", default=ROUNDS, type=int)
    ask.add_argument("--batch", default=BATCH, type=int, help="bytes of text a batch")
    given = ask.parse_args(arguments)
    reason = why_unavailable()
    if reason is not None:
        print(f"stress: {reason}", file=sys.stderr)
        return 1
    run(import_cupy(), given.megabytes, given.rounds, given.batch, lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
