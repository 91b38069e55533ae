"""The device's own limits in this very run: integer multiply-adds, memory, bus; and pyarrow at reading Parquet."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.gpu.bench import Bench, Found
from benchmarks.gpu.timing import Times, by_clock, by_events
from gpulsh.backends.cuda.launcher import OPTIONS, expanded_source

TITLE = "The limits of the device"

SOURCE = Path(__file__).parents[1]
THREADS = 256
CHAINS, STEPS, COLUMNS, STAGE, SPREAD, STRIDE = 16, 8, 8, 128, 0x9E3779B1, 0x85EBCA77  # as in roofline.cu
A, B = 0x2C1B3C6D, 0x297A2D39
BLOCKS_OF_AN_SM = 8  # 2048 threads, as many as one holds


def expected(kernel: str, threads: int, rounds: int, a: int = A, b: int = B) -> NDArray[np.uint32]:
    """uint32 [threads]: what the kernels hand out, computed step by step."""
    thread = np.arange(threads, dtype=np.uint32)[:, None]
    if kernel == "multiply_add":
        x = (thread + np.arange(CHAINS, dtype=np.uint32)) * np.uint32(SPREAD)
        for _ in range(rounds * STEPS):
            x = x * np.uint32(a) + np.uint32(b)
        return np.bitwise_xor.reduce(x, axis=1)
    column = np.arange(COLUMNS, dtype=np.uint32)
    place = thread * np.uint32(COLUMNS) + column
    factor = (place * np.uint32(SPREAD) ^ np.uint32(a)) | np.uint32(1)
    addend = place * np.uint32(STRIDE) ^ np.uint32(b)
    least = np.full(factor.shape, 0xFFFFFFFF, np.uint32)
    for _ in range(rounds):
        for x in np.arange(STAGE, dtype=np.uint32) * np.uint32(SPREAD):
            least = np.minimum(least, factor * x + addend)
        addend = addend + np.uint32(SPREAD)
    return np.bitwise_xor.reduce(least, axis=1)


def run(bench: Bench) -> Found:
    found = Found()
    _arithmetic(bench, found)
    _memory(bench, found)
    _bus(bench, found)
    _parquet(bench, found)
    return found


def _row(found: Found, what: str, times: Times, figure: str, amount: float, unit: str, note: str = "") -> None:
    rate = amount / times.median
    found.figures[figure] = rate
    scaled = rate / (1e9 if unit.startswith("G") else 1e12)
    found.rows.append({"what": what, "rate": scaled, "unit": unit, **times.columns(), "note": note})


def _arithmetic(bench: Bench, found: Found) -> None:
    cupy = bench.cupy
    module = cupy.RawModule(code=expanded_source("roofline", SOURCE), options=OPTIONS, backend="nvrtc")
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    threads = properties["multiProcessorCount"] * BLOCKS_OF_AN_SM * THREADS
    for kernel, each, note in (
        ("multiply_add", CHAINS * STEPS, "16 independent chains a thread"),
        ("multiply_add_minimum", COLUMNS * STAGE, "a multiply-add and half a three-way minimum, as minhash has"),
    ):
        function = module.get_function(kernel)
        out = _launch(cupy, function, 2 * THREADS, 3)
        np.testing.assert_array_equal(out.get(), expected(kernel, 2 * THREADS, 3), err_msg=kernel)
        rounds = bench.count(400_000 // each)
        times = by_events(cupy, [partial(_launch, cupy, function, threads, rounds)], bench.rounds, 3)
        _row(found, kernel, times, kernel, float(threads * rounds * each), "T evaluations/s", note)
    found.checks.append("both kernels give what NumPy computes step by step")


def _launch(cupy: Any, function: Any, threads: int, rounds: int) -> Any:
    out = cupy.empty(threads, np.uint32)
    function((threads // THREADS, 1, 1), (THREADS, 1, 1), (np.int32(rounds), np.uint32(A), np.uint32(B), out))
    return out


def _memory(bench: Bench, found: Found) -> None:
    cupy, size = bench.cupy, bench.count(1 << 30, 64)
    one, other = cupy.zeros(size, np.uint8), cupy.ones(size, np.uint8)

    def call() -> None:
        one[...] = other

    times = by_events(cupy, [call], bench.rounds, 3)
    assert bool((one == other).all())
    _row(found, "device copy", times, "copy", 2.0 * size, "GB/s", "bytes read and written")


def _bus(bench: Bench, found: Found) -> None:
    cupy, size = bench.cupy, bench.count(1 << 30, 64)
    host = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
    sent = np.resize(np.arange(251, dtype=np.uint8), size)
    host[:] = sent
    array = cupy.zeros(size, np.uint8)
    stream = cupy.cuda.get_current_stream()
    up = by_events(cupy, [lambda: array.set(host, stream=stream)], bench.rounds, 3)
    host[:] = 0
    down = by_events(cupy, [lambda: array.get(stream=stream, out=host)], bench.rounds, 3)
    np.testing.assert_array_equal(host, sent)
    found.checks.append("what was sent to the device came back")
    _row(found, "host to device, pinned", up, "host to device", float(size), "GB/s")
    _row(found, "device to host, pinned", down, "device to host", float(size), "GB/s")


def _parquet(bench: Bench, found: Found) -> None:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        found.not_measured.append(f"reading Parquet: {error}")
        return
    from benchmarks.gpu.made import corpus, parquet_files

    files = parquet_files(bench)
    text = len(corpus(bench).values)

    def call() -> int:
        return int(pq.read_table(str(files[0].parent), columns=["text"], use_threads=True).num_rows)

    times, rows = by_clock(call, min(bench.rounds, 10), 8)
    assert rows[0] == len(corpus(bench))
    _row(found, "pyarrow reads Parquet", times, "pyarrow", float(text), "GB/s", "text bytes; all cores, page cache")
