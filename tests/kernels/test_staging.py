"""Text on its way to the device: through pinned memory, of which there is little, or none."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import sleep
from typing import Any

import numpy as np
import pytest

from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import memory as staging
from gpulsh.backends.cuda.memory import LEAST_PINNED, Staging
from tests.kernels.device_arrays import CUDARuntimeError, DeviceModule

pytestmark = pytest.mark.kernels
SIZES = (0, 1, LEAST_PINNED, LEAST_PINNED + 1, 3 * LEAST_PINNED, 3 * LEAST_PINNED + 7, 5)


def texts(size: int) -> TextBatch:
    """A batch that begins and ends within its values."""
    values = np.random.default_rng(size).integers(0, 256, size + 9, np.uint8)
    return TextBatch(values, np.array([4, 4 + size // 2, 4 + size], np.int64))


def check(staging: Staging, size: int) -> None:
    batch = texts(size)
    there = staging.on_device(batch)
    np.testing.assert_array_equal(there.values.get(), batch.values[4 : 4 + size])
    np.testing.assert_array_equal(there.offset.get(), batch.offset - 4)


def test_no_text_pins_more_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, asked = DeviceModule(), list[int]()

    def pinned(size: int) -> bytearray:
        asked.append(size)
        return bytearray(size)

    monkeypatch.setattr(staging, "MOST_PINNED", LEAST_PINNED)
    monkeypatch.setattr(arrays.cuda, "alloc_pinned_memory", pinned)
    way = Staging(arrays)
    for size in SIZES:
        check(way, size)
    assert asked == [LEAST_PINNED]


def test_threads_do_not_overwrite_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The buffer is one, and a text is copied from it after it was filled."""
    filled = Staging._filled

    def late(way: Staging, source: Any) -> Any:
        buffer = filled(way, source)
        sleep(0.01)
        return buffer

    monkeypatch.setattr(Staging, "_filled", late)
    way = Staging(DeviceModule())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(check, way), range(1000, 1008)))


def test_without_pinned_memory_text_is_copied_as_it_lies(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    arrays, asked = DeviceModule(), list[int]()

    def refused(size: int) -> Any:
        asked.append(size)
        if size > LEAST_PINNED:
            raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        return bytearray(size)

    monkeypatch.setattr(arrays.cuda, "alloc_pinned_memory", refused)
    way = Staging(arrays)
    with caplog.at_level(logging.WARNING, "gpulsh"):
        for size in SIZES:
            check(way, size)
    assert asked == [LEAST_PINNED, 2 * LEAST_PINNED] and len(caplog.records) == 1
    way.release()
    check(way, 3)
    assert asked == [LEAST_PINNED, 2 * LEAST_PINNED, LEAST_PINNED], "who comes next may be lucky"
