"""Inputs of single operations, made so that the answer is known; arrays in device memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu.bench import Bench
from benchmarks.machine import cores
from gpulsh.arrays import Buckets, Fingerprints

SHARED = 45  # of the 50 fingerprints of two mated rows
BUCKET = 5


def draw(count: int, seed: int, high: int = 2**64, dtype: Any = np.uint64) -> NDArray[Any]:
    """Random integers below `high`, drawn by all threads, the same with any number of them."""
    block = 1 << 22
    drawn = np.empty(count, dtype)

    def fill(start: int) -> None:
        stop = min(start + block, count)
        drawn[start:stop] = np.random.default_rng([seed, start // block]).integers(0, high, stop - start, dtype)

    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(fill, range(0, count, block)))
    return drawn


def rows_of(bench: Bench, values: Any, length: int) -> Fingerprints:
    """`values` cut into rows of `length`."""
    total = len(values)
    edges = np.append(np.arange(0, total, min(length, total), dtype=np.int64), total)
    return Fingerprints(values, bench.cupy.asarray(edges))


def signatures(bench: Bench, count: int, num_perm: int, seed: int) -> Any:
    drawn = draw(count * num_perm, seed, 2**32, np.uint32)
    return bench.cupy.asarray(drawn.reshape(count, num_perm))


def digests(bench: Bench, count: int, share: float) -> tuple[Any, int]:
    """Digests, a `share` of them repeated half an array apart, and the number of these pairs."""
    drawn = draw(count, 3, 2**64 - 2)
    pairs = int(count * share / 2)
    half = count // 2
    places = np.arange(pairs, dtype=np.int64) * (half // max(pairs, 1))
    drawn[half + places] = drawn[places]
    # Of 10^8 random 64-bit numbers any two are equal with a chance below 3 in 10,000; the caller would notice.
    return bench.cupy.asarray(drawn), pairs


def buckets(bench: Bench, count: int) -> Buckets:
    """Buckets of 5 ids from all over, no id twice: 10 pairs each."""
    ids = np.random.default_rng(4).permutation(count * BUCKET).reshape(count, BUCKET)
    ids.sort(axis=1)
    offset = np.arange(count + 1, dtype=np.int64) * BUCKET
    return Buckets(bench.cupy.asarray(ids.reshape(-1)), bench.cupy.asarray(offset))


def mated_rows(bench: Bench, count: int) -> tuple[Fingerprints, Any]:
    """Unique rows of 50 fingerprints; row 2i + 1 has all but the last 5 of row 2i. And those pairs."""
    count -= count % 2
    steps = draw(count * 50, 5, 2**58).reshape(count, 50) + np.uint64(2)
    values = np.cumsum(steps, axis=1, dtype=np.uint64)  # below 51 * 2^58, so rows ascend
    values[1::2] = values[::2]
    values[1::2, SHARED:] += np.uint64(1)
    offset = np.arange(count + 1, dtype=np.int64) * 50
    first = np.arange(0, count, 2, dtype=np.int64)
    mates = bench.cupy.asarray(np.stack((first, first + 1), axis=1))
    return Fingerprints(bench.cupy.asarray(values.reshape(-1)), bench.cupy.asarray(offset)), mates


def random_pairs(bench: Bench, rows: int, count: int) -> Any:
    """Pairs i < j from all over, half of them mates: verification meets both."""
    low = np.sort(draw(count, 6, rows - 1, np.int64))
    far = low + 1 + draw(count, 7, 2**40, np.int64) % (rows - 1 - low)
    mates = (np.arange(count) % 2 == 0) & (low % 2 == 0)
    return bench.cupy.asarray(np.stack((low, np.where(mates, low + 1, far)), axis=1))


def graphs(bench: Bench, count: int) -> Iterator[tuple[str, int, Any, Any]]:
    """(name, nodes, edges, labels or None where only consistency is known)."""
    xp = bench.cupy
    base = np.repeat(np.arange(count // 4, dtype=np.int64) * 5, 4)
    others = base + np.tile(np.arange(1, 5, dtype=np.int64), count // 4)
    nodes = count // 4 * 5
    yield "groups of 5", nodes, xp.asarray(np.stack((base, others), axis=1)), xp.arange(nodes, dtype=np.int64) // 5 * 5
    chain = np.arange(count, dtype=np.int64)
    yield "one chain", count + 1, xp.asarray(np.stack((chain, chain + 1), axis=1)), xp.zeros(count + 1, np.int64)
    star = np.stack((np.zeros(count, np.int64), chain + 1), axis=1)
    yield "one star", count + 1, xp.asarray(star), xp.zeros(count + 1, np.int64)
    nodes = max(count // 2, 2)
    low = draw(count, 8, nodes - 1, np.int64)
    far = low + 1 + draw(count, 9, 2**40, np.int64) % (nodes - 1 - low)
    yield "random, 4 a node", nodes, xp.asarray(np.stack((low, far), axis=1)), None
