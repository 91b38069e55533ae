"""Lanes and what they wait for: one owner at a time, pinned memory, streams, sleeping threads.

CuPy's own waiting keeps a core busy, so that the backend reads computed arrays only after it has slept until their
stream was done.
"""

import gc
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import sleep
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend, Shared, backend, staging
from gpulsh.backends.cuda.backend import LANES
from gpulsh.backends.cuda.memory import MAX_PINNED
from gpulsh.backends.cuda.staging import SLOT, Staging
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import Family, Shingling
from gpulsh.ragged import TextParts
from tests.kernels.cuts import install, texts, with_sizes
from tests.kernels.device_arrays import (
    CUDARuntimeError,
    DeviceArray,
    DeviceModule,
    _Event,
    _Stream,
    counted_transfers,
    current_device,
)
from tests.kernels.host import HostLauncher
from tests.kernels.host_cupy import HostCupy, devices_unknown
from tests.support.rows import random_table
from tests.support.texts import batch_of

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("kernels_built", "in_one_order")]
SHINGLING = Shingling(size=2)


def batches(word: str, count: int) -> list[TextBatch]:
    return [batch_of([f"{word}{n:02} two three {word} four five {n:02}".encode()]) for n in range(count)]


class Watched(with_sizes(batch=200, tile=300)):  # type: ignore[misc]
    """Fails where two open `pipelined_map` share a lane."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.open: list[set[Any]] = []
        self.deepest = 0

    def pipelined_map(self, items: Iterable[Any], work: Callable[[Any, Any], Any]) -> Iterator[Any]:
        mine: set[Any] = set()

        def watched(lane: Any, item: Any) -> Any:
            assert not any(lane in others for others in self.open if others is not mine), "a lane has two owners"
            mine.add(lane)
            return work(lane, item)

        self.open.append(mine)
        self.deepest = max(self.deepest, len(self.open))
        try:
            yield from super().pipelined_map(items, watched)
        finally:
            self.open.remove(mine)


def test_an_index_compares_and_signs_in_different_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = Watched(Shared(DeviceModule(devices=2), HostLauncher()))
    install(monkeypatch, ops)
    documents = texts(60)
    plain = gpulsh.deduplicate(documents, backend="reference", threshold=0.5)
    index = gpulsh.Index(backend="cuda", threshold=0.5)
    added = index.add(range(len(documents)), documents)
    assert added.duplicate_of.tolist() == plain.duplicate_of.tolist() and not plain.keep.all()
    assert ops.deepest == 2, "nothing ran inside"


@pytest.mark.parametrize(("held", "only", "lanes"), [(True, 300, 1), (True, 0, 2), (False, 300, 2), (False, 99_999, 1)])
def test_tiles_are_compared_in_lanes_only_while_texts_are_copied(
    held: bool, only: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lanes` counts the calls that work in lanes: to sign, and to compare."""
    calls: list[int] = []

    class Small(with_sizes(batch=200, tile=150, largest_tile=150, only=only)):  # type: ignore[misc]
        def hold(self, text: TextBatch) -> TextBatch | None:
            return super().hold(text) if held else None

        def pipelined_map(self, items: Iterable[Any], work: Callable[[Any, Any], Any]) -> Iterator[Any]:
            calls.append(1)
            return super().pipelined_map(items, work)

    install(monkeypatch, Small(Shared(DeviceModule(), HostLauncher())))
    documents = texts(60)
    plain = gpulsh.deduplicate(documents, backend="reference", threshold=0.5)
    found = gpulsh.deduplicate(documents, backend="cuda", threshold=0.5).to_numpy()
    np.testing.assert_array_equal(found.pairs, plain.pairs)
    np.testing.assert_array_equal(found.pair_similarity, plain.pair_similarity)
    assert len(calls) == lanes and len(plain.pairs)


def test_a_lane_that_fails_waits_for_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, wait = list[Any](), _Event.synchronize
    monkeypatch.setattr(_Event, "synchronize", lambda event: waited.append(event._of) or wait(event))
    failed: list[Any] = []

    def fail(lane: Any, item: int) -> None:
        failed.append(lane._stream)
        waited.clear()
        raise ValueError("no such item")

    with pytest.raises(ValueError, match="no such item"):
        list(CudaBackend(Shared(DeviceModule(), HostLauncher())).pipelined_map([1], fail))
    assert failed[0] in waited


def test_items_that_another_thread_closes_restore_no_device_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.repeats.passages.sample_windows", Mock(side_effect=ValueError("no sample")))
    install(monkeypatch, with_sizes(tile=200)(Shared(DeviceModule(), HostLauncher())))
    with pytest.raises(ValueError, match="no sample"):
        gpulsh.passages(["some text"] * 99, bytes=50, backend="cuda")


@pytest.mark.parametrize("public", ["HammingTables.pieces", "Index.buckets"])
def test_a_device_is_current_only_while_a_piece_is_made(public: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece may be taken by another thread, or by one that has worked on another device meanwhile."""
    monkeypatch.setattr("gpulsh.lsh.hamming_tables.AT_ONCE", 7)
    ops = install(monkeypatch, CudaBackend(Shared(DeviceModule(devices=2), HostLauncher()), devices=[1]))

    def pieces() -> Iterator[Any]:
        if public == "HammingTables.pieces":
            signatures = gpulsh.BitSignatures(np.repeat(np.arange(20, dtype=np.uint64), 2)[:, None])
            return map(ops.asnumpy, gpulsh.HammingTables(distance=0).pieces(signatures, backend="cuda"))
        index = gpulsh.Index(backend="cuda", num_perm=4, bands=2)
        index.insert(["a", "b", "c"], ["one two three", "One, two, three!", "four"])
        return (keys for _, keys in index.buckets())

    found, waiting = [], pieces()
    while True:
        with ThreadPoolExecutor(1) as another:
            piece = another.submit(next, waiting, None).result()
            assert another.submit(current_device).result() == 0
        if piece is None:
            break
        found.append(piece.tolist())
    assert found == [piece.tolist() for piece in pieces()] and len(found) > 1


def test_permutations_are_uploaded_once() -> None:
    ops, given = CudaBackend(Shared(DeviceModule(), HostLauncher())), batches("some", 4 * LANES)
    families = [Family(num_perm=8, seed=seed) for seed in (1, 2)]

    def signatures(lane: Any, batch: TextBatch) -> list[list[int]]:
        return [lane.asnumpy(lane.text_signatures(batch, SHINGLING, family)).tolist() for family in families]

    wanted = [signatures(ReferenceBackend(), batch) for batch in given]
    with counted_transfers() as found:
        assert list(ops.pipelined_map(given, signatures)) == wanted
    uploads = [one for one in found if not one.to_host and (one.items, one.nbytes) == (8, 32)]
    assert 4 <= len(uploads) <= 4 * LANES


def test_lanes_are_reused() -> None:
    ops = CudaBackend(Shared(DeviceModule(), HostLauncher()))

    def owner(lane: Any, _: int) -> Any:
        barrier.wait(60)  # so that each lane has one
        return lane

    barrier = threading.Barrier(LANES)
    first = set(ops.pipelined_map(range(LANES), owner))
    left = ops.pipelined_map(range(100), lambda lane, _: lane)
    next(left)
    left.close()
    assert len(first) == LANES and set(ops.pipelined_map(range(LANES), owner)) == first


class Pinned(bytearray):
    """Page-locked memory that may still be in use."""


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostCupy]:
    """A process that finds CUDA, before its first call; `made` counts the streams and memory that calls make."""
    cupy = HostCupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    cupy.made, cupy.pinned = [], []

    def stream(**options: Any) -> _Stream:
        cupy.made.append("stream")
        return _Stream(**options)

    def pinned(size: int) -> Pinned:
        cupy.made.append(size)
        memory = Pinned(size)
        cupy.pinned.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(cupy.cuda, "Stream", stream)
    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", pinned)
    with devices_unknown():
        yield cupy


def test_calls_share_streams_and_hold_neither_text_nor_secrets(process: HostCupy) -> None:
    documents = texts(40)
    plain = gpulsh.deduplicate(documents, backend="reference")

    def call() -> None:
        found = gpulsh.deduplicate(documents, backend="cuda")
        assert found.to_numpy().duplicate_of.tolist() == plain.duplicate_of.tolist()

    call()
    streams = process.made.count("stream")
    assert 0 < streams <= LANES and not plain.keep.all()
    call()
    assert process.made.count("stream") == streams
    sizes = {size for size in process.made if size != "stream"}
    assert sizes == {SLOT}, "CuPy's pool has none of the same size to hand out"
    gc.collect()
    assert not any(memory() for memory in process.pinned)
    lanes = [lane for lanes in backend._device()._free[0] for lane in lanes]
    assert len(lanes) == LANES
    assert [lane.keys.cache_info().currsize for lane in lanes] == [0] * LANES


def test_concurrent_calls_have_lanes_of_their_own(process: HostCupy) -> None:
    given = [texts(25, seed=seed) for seed in range(4)]
    wanted = [gpulsh.deduplicate(documents, backend="reference").duplicate_of.tolist() for documents in given]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            found = pool.map(lambda documents: gpulsh.deduplicate(documents, backend="cuda").to_numpy(), given)
            assert [one.duplicate_of.tolist() for one in found] == wanted
    free = backend._device()._free[0]
    assert 1 <= len(free) <= 4 and len({lane for lanes in free for lane in lanes}) == LANES * len(free)


# --- pinned memory

LOST = CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
FULL = CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")


def text_of(size: int) -> TextBatch:
    """A batch that begins and ends inside its values."""
    values = np.random.default_rng(size).integers(0, 256, size + 9, np.uint8)
    return TextBatch(values, np.array([4, 4 + size // 2, 4 + size], np.int64))


def check(way: Staging, *sizes: int) -> None:
    """Copy a text of one size, or one in parts of these sizes, and compare it."""
    parts = [text_of(size) for size in sizes]
    batch = TextParts(parts) if len(parts) > 1 else parts[0]
    there = way.on_device(batch)
    assert len(parts) < 2 or "values" not in vars(batch), "the parts were joined on the host"
    np.testing.assert_array_equal(there.values.get(), np.concatenate([part.values[4:-5] for part in parts]))
    lengths = np.concatenate([np.diff(part.offset) for part in parts])
    np.testing.assert_array_equal(there.offset.get(), np.append(0, np.cumsum(lengths)))


class Arrays(DeviceModule):
    """Counts the requests for pinned memory, and refuses those after the first `slots`."""

    def __init__(self, slots: int = 1 << 30) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.slots = slots
        self.cuda.alloc_pinned_memory = self.alloc

    def alloc(self, size: int) -> bytearray:
        self.asked.append(size)
        if len(self.asked) > self.slots:
            raise FULL
        return bytearray(size)


@pytest.fixture
def stager(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Staging]:
    """Makes a `Staging` with slots of `slot` bytes, of which at most `most` bytes are used at once."""

    def make(arrays: DeviceModule, slot: int = 64, most: int = MAX_PINNED) -> Staging:
        monkeypatch.setattr(staging, "SLOT", slot)
        return Staging(arrays, most)

    return make


@pytest.mark.parametrize(
    ("slot", "most", "pinned"),
    [(64, 64, 1), (64, 3 * 64 + 1, 3), (64, 10, 1), *((slot, 3 * slot, 3) for slot in (1 << 20, 1000, 7))],
)
def test_texts_are_staged_through_a_bounded_number_of_slots(
    slot: int, most: int, pinned: int, stager: Callable[..., Staging]
) -> None:
    arrays = Arrays()
    way = stager(arrays, slot, most)
    for size in (0, 1, 64, 65, 3 * 64, 3 * 64 + 7, 5):
        check(way, size)
    check(way, 0, 3, 0, 50, 1, 1, 1, 2000, 0)
    assert 0 < len(arrays.asked) <= pinned and set(arrays.asked) == {min(slot, most)}
    way.release()
    assert way._slots == 0


@pytest.fixture
def late_fillers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Four threads fill slots and sleep before a slot is copied, so that they need their own slots."""
    fill = staging._fill

    def late(slot: Any, sources: Any) -> Any:
        size = fill(slot, sources)
        sleep(0.001)
        return size

    monkeypatch.setattr(staging, "_fill", late)
    with ThreadPoolExecutor(4) as pool:
        monkeypatch.setattr(staging, "_fillers", lambda: pool)
        yield


@pytest.mark.usefixtures("late_fillers")
def test_threads_do_not_overwrite_each_others_slots(stager: Callable[..., Staging]) -> None:
    """There are few slots, and a text is copied from its slot some time after it was filled."""
    way = stager(DeviceModule(), 100, 300)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(check, way), range(1000, 1008)))
    assert way._slots == 3


@pytest.mark.usefixtures("late_fillers")
@pytest.mark.parametrize("alone", [False, True])
def test_a_stream_of_a_thread_is_used_in_that_thread(
    alone: bool, monkeypatch: pytest.MonkeyPatch, stager: Callable[..., Staging]
) -> None:
    """CUDA's per-thread default stream has one name in all threads: kernels would not wait for copies of fillers."""
    arrays, threads, stream = DeviceModule(), set[int](), _Stream()
    copy = arrays.cuda.runtime.memcpyAsync
    stream.ptr = arrays.cuda.runtime.streamPerThread if alone else 0
    monkeypatch.setattr(arrays.cuda, "get_current_stream", lambda: stream)
    monkeypatch.setattr(
        arrays.cuda.runtime, "memcpyAsync", lambda *given: threads.add(threading.get_ident()) or copy(*given)
    )
    check(stager(arrays), 3 * 64)
    assert (threads == {threading.get_ident()}) == alone


def test_a_slot_is_read_before_it_is_filled_again(monkeypatch: pytest.MonkeyPatch, stager: Callable[..., Any]) -> None:
    arrays, steps, fill = DeviceModule(), list[str](), staging._fill

    class Noted(_Event):
        def record(self, stream: Any = None) -> None:
            steps.append("copied")

        def synchronize(self) -> None:
            steps.append("read")

    monkeypatch.setattr(arrays.cuda, "Event", Noted)
    monkeypatch.setattr(staging, "_fill", lambda *given: steps.append("filled") or fill(*given))
    way = stager(arrays, most=64)
    check(way, 64)
    check(way, 3)
    way.release()
    assert steps == ["filled", "copied", "read", "filled", "copied", "read"]


@pytest.mark.usefixtures("late_fillers")
def test_without_pinned_memory_text_is_copied_directly(
    stager: Callable[..., Staging], caplog: pytest.LogCaptureFixture
) -> None:
    arrays = Arrays(slots=1)
    way = stager(arrays)
    with caplog.at_level(logging.WARNING, "gpulsh"):
        for size in (0, 1, 64, 65, 3 * 64 + 7, 5, 5000):
            check(way, size)
    assert arrays.asked == [64, 64] and len(caplog.records) == 1 and way._slots > 2
    way.release()
    check(way, 3)
    assert arrays.asked == [64, 64, 64], "who comes next may be lucky"


@pytest.mark.parametrize("fails", ["record", "synchronize"])
def test_a_failing_copy_of_a_text_raises(
    fails: str, monkeypatch: pytest.MonkeyPatch, stager: Callable[..., Staging]
) -> None:
    """A lost slot would be waited for without end."""
    arrays, errors = DeviceModule(), list[BaseException]()

    def failing(event: _Event, *given: Any) -> None:
        getattr(_Event, fails)(event, *given)
        raise LOST

    monkeypatch.setattr(arrays.cuda, "Event", type("Failing", (_Event,), {fails: failing}))
    way = stager(arrays, most=64)

    def use() -> None:
        for step in (lambda: check(way, 65), way.release):
            try:
                step()
            except CUDARuntimeError as error:
                errors.append(error)

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and errors and way._slots == 0


@pytest.mark.usefixtures("late_fillers")
def test_no_byte_is_copied_after_a_failed_copy(monkeypatch: pytest.MonkeyPatch, stager: Callable[..., Staging]) -> None:
    """Its memory may already hold another text."""
    arrays, copied, failed = DeviceModule(), list[int](), threading.Event()
    copy = arrays.cuda.runtime.memcpyAsync

    def watched(*given: int) -> None:
        if not failed.is_set():
            failed.set()
            raise FULL
        sleep(0.01)
        copied.append(given[0])
        copy(*given)

    monkeypatch.setattr(arrays.cuda.runtime, "memcpyAsync", watched)
    way = stager(arrays)
    with pytest.raises(CUDARuntimeError, match="out of memory"):
        check(way, 2000)
    before = len(copied)
    way.release()
    sleep(0.2)
    assert len(copied) == before


# --- sleeping threads


@pytest.fixture
def busy_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the backend that read results before this thread slept until they were done."""
    begun, found, wait = threading.local(), list[str](), _Event.synchronize

    def first(effect: Callable[[], None], owner: Any, *names: str) -> None:
        """Before each of these methods runs."""
        for name in names:
            before = getattr(owner, name)

            def method(*given: Any, before: Any = before, **options: Any) -> Any:
                effect()
                return before(*given, **options)

            monkeypatch.setattr(owner, name, method)

    def begin() -> None:
        begun.here = True

    def read() -> None:
        caller = sys._getframe(2)
        if getattr(begun, "here", False) and caller.f_globals["__name__"].startswith("gpulsh.backends."):
            found.append(f"{caller.f_code.co_filename}:{caller.f_lineno}")

    def waited(self: _Event) -> None:
        wait(self)
        begun.here = getattr(begun, "here", False) and not self.blocks

    monkeypatch.setattr(_Event, "synchronize", waited)
    first(begin, HostLauncher, "__call__")
    first(begin, DeviceModule, "__getattr__")
    first(begin, DeviceArray, "__array_ufunc__", "__array_function__", "__getattr__")
    first(begin, DeviceArray, "__setitem__", "set", "sort", "astype")
    first(read, DeviceArray, "__int__", "__bool__", "get")
    return found


def test_a_run_sleeps_until_results_are_ready(busy_reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = HostLauncher()
    ops = CudaBackend(Shared(DeviceModule(), launcher))
    install(monkeypatch, ops)
    assert gpulsh.deduplicate(texts(60), backend="cuda").funnel["dropped"] > 5
    assert launcher.launches and not busy_reads


@pytest.mark.parametrize("cuda", ["host-small", "host-default"], indirect=True)
def test_single_operations_sleep_until_results_are_ready(busy_reads: list[str], cuda: CudaBackend) -> None:
    rows = cuda.unique(random_table([5, 0, 300, 40]).moved(cuda.asarray))
    counts = cuda.frequencies(rows, cuda.asarray(np.zeros(16, np.uint8)))
    cuda.prefixes(rows, counts, cuda.asarray(np.array([2, 0, 9, 40])))
    digests = cuda.asarray(np.repeat(np.arange(5, 70, dtype=np.uint64) << np.uint64(57), 3))
    for ids in (np.arange(195), np.arange(195)[::-1] + 2**33):
        buckets = cuda.collisions(digests, cuda.asarray(np.ascontiguousarray(ids)))
        cuda.candidates(buckets, (3, 9))
    cuda.candidates(buckets)
    text = batch_of([b"a b c d e f " * 30, b"one two", b""])
    there = TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))
    cuda.shingle_part(there, Shingling(size=2), 0, 2)
    assert not busy_reads
