"""Device memory that does not suffice: batches are halved, documents and pairs cut, and the bits stay."""

from __future__ import annotations

import gc
import logging
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.launcher import Geometry
from gpulsh.backends.cuda.memory import SMALLEST, text_sizes
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import DeviceMemoryError
from gpulsh.params import Shingling
from gpulsh.secret import TOKEN_FAR, WORDS
from tests.kernels.device_arrays import DeviceModule, scarce_memory
from tests.kernels.host import HostLauncher
from tests.kernels.test_pipeline import texts
from tests.kernels.test_several_devices import decision, replace_sizes

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("kernels_built")]
NAMES = ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity")


# A lane has its own keys; the Unicode table is the device's.
KEYS = 8 * (WORDS + TOKEN_FAR)  # secret ones, and public ones, of which there are fewer


class SmallPieces(CudaBackend):
    """Large batches, as if there were memory for them; documents beyond it go through in pieces of a few bytes."""

    def sizes(self) -> Any:
        return replace_sizes(super().sizes(), batch=1 << 20, tile=1 << 20, largest_tile=1 << 20)


@pytest.fixture
def ops() -> CudaBackend:
    made = SmallPieces(DeviceModule(), HostLauncher(), replace(Geometry(), piece_bytes=2000))
    made.shingle(TextBatch(made.asarray(np.zeros(1, np.uint8)), made.asarray(np.array([0, 1]))), Shingling())  # tables
    gc.collect()
    return made


@pytest.mark.parametrize("room", [150_000, 80_000])
def test_batches_are_halved_and_said_to_be(ops: CudaBackend, room: int, caplog: pytest.LogCaptureFixture) -> None:
    documents = texts(200)
    wanted = decision(ReferenceBackend(), documents)
    with caplog.at_level(logging.WARNING, "gpulsh"), scarce_memory(2 * KEYS + room):
        found = decision(ops, documents)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    assert "it is halved" in caplog.text


def test_documents_and_pairs_beyond_the_device(ops: CudaBackend, caplog: pytest.LogCaptureFixture) -> None:
    source = random.Random(5)
    words = [f"word{source.randrange(1 << 40)}" for _ in range(3000)]
    long, near = " ".join(words), " ".join([*words[:1500], "another", *words[1501:]])
    documents = [long, "short text", near, long.upper(), "another short text"]
    wanted = decision(ReferenceBackend(), documents)
    assert wanted.duplicate_of.tolist() == [0, 1, 0, 0, 4]
    with caplog.at_level(logging.WARNING, "gpulsh"), scarce_memory(KEYS + 60_000):
        found = decision(ops, documents)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    assert "signed in pieces" in caplog.text


def test_what_cannot_be_cut_smaller_is_an_error() -> None:
    ops = CudaBackend(DeviceModule(), HostLauncher())
    gc.collect()
    with scarce_memory(100), pytest.raises(DeviceMemoryError, match="CUDA device 0 does not suffice"):
        decision(ops, ["some text that is long enough to need more than a hundred bytes"] * 4)


def test_whatever_needs_the_memory_it_is_one_error() -> None:
    """Allocations fail with CuPy's error and sorts with C++'s."""
    ops = CudaBackend(DeviceModule(), HostLauncher(), replace(Geometry(), row_limit=32))
    values = np.random.default_rng(1).integers(0, 2**64, 500, np.uint64)
    fingerprints = Fingerprints(ops.asarray(values), ops.asarray(np.array([0, 250, 500])))
    told = ""
    for room in range(0, 100_000, 500):
        gc.collect(1)  # what the last error held
        try:
            with scarce_memory(room):
                found = ops.unique(fingerprints)
        except DeviceMemoryError as error:
            told += str(error)
        else:
            break
    assert found.values.get().tolist() == sorted(values[:250].tolist()) + sorted(values[250:].tolist())
    assert "std::bad_alloc" in told and "bytes of" in told


def test_a_failed_attempt_holds_nothing_until_the_next_collection() -> None:
    """The halves need its memory at once."""
    ops = CudaBackend(DeviceModule(), HostLauncher())
    values = ops.asarray(np.random.default_rng(1).integers(0, 2**64, 5000, np.uint64))
    fingerprints = Fingerprints(values, ops.asarray(np.array([0, 5000])))
    failed = False
    gc.collect()
    gc.disable()
    try:
        with scarce_memory(60_000) as memory:
            before = memory.held
            try:
                with ops.here():
                    ops.unique(fingerprints)
            except DeviceMemoryError:
                failed = True
            assert failed and memory.held == before < memory.peak
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "told", ["cudaErrorMemoryAllocation: out of memory", "CUDA_ERROR_OUT_OF_MEMORY: out of memory", "std::bad_alloc"]
)
def test_whatever_is_out_of_memory_it_is_one_error(told: str) -> None:
    """The runtime and the driver need memory, too, and have errors of their own, which are no MemoryError."""
    ops = CudaBackend(DeviceModule(), HostLauncher())
    wanted = rf"CUDA device 0 does not suffice \({told}\); free"  # told once, however deep
    with pytest.raises(DeviceMemoryError, match=wanted), ops.here(), ops.here():
        raise RuntimeError(told)
    with pytest.raises(RuntimeError, match="an illegal memory access") as error, ops.here():
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
    assert error.type is RuntimeError


def test_what_is_kept_is_a_copy_on_the_host_where_there_is_no_room() -> None:
    """A part of a lane's memory would be held otherwise, however small it is."""
    ops = CudaBackend(DeviceModule(), HostLauncher())
    values = np.arange(20_000, dtype=np.uint64).reshape(-1, 2)
    made = ops.asarray(values).T
    kept = ops.keep(made)
    assert kept.host.flags.f_contiguous and not np.shares_memory(kept.host, made.host)
    np.testing.assert_array_equal(kept.get(), values.T)
    with scarce_memory(1000):
        elsewhere = ops.keep(made)
    assert isinstance(elsewhere, np.ndarray)
    np.testing.assert_array_equal(elsewhere, values.T)


def test_memory_of_the_host_is_not_the_devices() -> None:
    ops = CudaBackend(DeviceModule(), HostLauncher())
    with pytest.raises(MemoryError, match="of the host"), ops.here():
        raise MemoryError("of the host")


@pytest.mark.parametrize("free", [1 << 20, 1 << 30, 8 << 30, 139 << 30])
def test_sizes_follow_free_memory(free: int) -> None:
    sizes = text_sizes(free, 3, 256 << 20)
    assert SMALLEST <= sizes.tile <= sizes.batch <= 256 << 20
    assert 3 * 20 * sizes.batch <= free or sizes.batch == SMALLEST
