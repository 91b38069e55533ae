"""Lanes have one owner at a time: results of one `each` may be read while another runs inside it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend, backend, device
from gpulsh.backends.cuda.lanes import LANES
from gpulsh.backends.cuda.memory import LEAST_PINNED
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.index import index as index_module
from gpulsh.params import BandShape, Family, Shingling
from gpulsh.permutations import coefficients
from gpulsh.secret import evidence_keys
from tests.kernels.device_arrays import DeviceArray, DeviceModule, _Event, _Stream
from tests.kernels.host import HostLauncher
from tests.kernels.host_cupy import HostCupy
from tests.kernels.test_pipeline import texts
from tests.support.texts import SECRETS

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("kernels_built")]
SHINGLING = Shingling(size=2)


def batches(word: str, count: int) -> list[TextBatch]:
    """Batches of one size in bytes and many contents."""
    rows = [f"{word}{number:02} two three {word} four five {number:02}".encode() for number in range(count)]
    return [TextBatch(np.frombuffer(row, np.uint8), np.array([0, len(row)], np.int64)) for row in rows]


def shingled(lane: Any, batch: TextBatch) -> list[int]:
    values: list[int] = lane.asnumpy(lane.shingle(batch, SHINGLING).values).tolist()
    return values


def wanted(given: list[TextBatch]) -> list[list[int]]:
    return [ReferenceBackend().shingle(batch, SHINGLING).values.tolist() for batch in given]


def test_a_pinned_buffer_is_not_filled_again_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outer lanes have filled their buffers and copy nothing from them before the inner `each` is through."""
    outer, inner = batches("outer", 1 + LANES), batches("inner", 3 * LANES)
    ops, waits = CudaBackend(DeviceModule(), HostLauncher()), threading.local()
    filled, through = threading.Semaphore(0), threading.Event()
    copy = DeviceArray.set

    def later(self: DeviceArray, host: np.ndarray, stream: Any = None) -> None:
        if getattr(waits, "here", False):
            filled.release()
            assert through.wait(60)
        copy(self, host, stream)

    def work(lane: Any, item: tuple[int, TextBatch]) -> list[int]:
        waits.here = item[0] > 0
        return shingled(lane, item[1])

    monkeypatch.setattr(DeviceArray, "set", later)
    results = ops.pipelined_map(enumerate(outer), work)
    found = [next(results)]
    for _ in range(LANES):
        assert filled.acquire(timeout=60)
    assert list(ops.pipelined_map(inner, shingled)) == wanted(inner)
    through.set()
    assert found + list(results) == wanted(outer)


class Watched(CudaBackend):
    """Little text at a time; a lane that two open `each` share is an error."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.open: list[set[Any]] = []
        self.deepest = 0

    def sizes(self) -> Any:
        return super().sizes()._replace(batch=200, tile=300)

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


@pytest.mark.parametrize("devices", [1, 2])
def test_an_index_compares_in_other_lanes_than_it_signs_in(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = Watched(DeviceModule(devices=devices), HostLauncher())
    monkeypatch.setattr(index_module, "select_backend", lambda *_, **__: ops)
    documents = texts(60)
    plain = gpulsh.deduplicate(documents, backend="reference", threshold=0.5)
    index = gpulsh.Index(backend="cuda", threshold=0.5)
    added = index.add(range(len(documents)), documents)
    assert added.duplicate_of.tolist() == plain.duplicate_of.tolist() and not plain.keep.all()
    assert ops.deepest == 2, "nothing ran inside"


def test_lanes_wait_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread waits for work on the device but by an event that blocks: any other way keeps a core busy."""
    state = threading.local()

    def busily(name: str, of: type) -> None:
        plain = getattr(of, name)

        def checked(self: Any, *given: Any, **options: Any) -> Any:
            assert not getattr(state, "asked", False), f"{of.__name__}.{name} waits for the device"
            return plain(self, *given, **options)

        monkeypatch.setattr(of, name, checked)

    def asks(name: str, of: type) -> None:
        plain = getattr(of, name)

        def asking(self: Any, *given: Any, **options: Any) -> Any:
            state.asked = True
            return plain(self, *given, **options)

        monkeypatch.setattr(of, name, asking)

    def asleep(self: _Event) -> None:
        assert self.blocks
        state.asked = False
        synchronize(self)

    synchronize = _Event.synchronize
    asks("__call__", HostLauncher)
    asks("set", DeviceArray)
    for name in ("get", "__int__", "__bool__"):
        busily(name, DeviceArray)
    busily("synchronize", _Stream)
    monkeypatch.setattr(_Event, "synchronize", asleep)
    ops = CudaBackend(DeviceModule(), HostLauncher())
    drawn, shape = Family(num_perm=8), BandShape(bands=2, rows=4)
    keys = evidence_keys(SECRETS[0])

    def signed(lane: Any, batch: TextBatch) -> list[int]:
        digests: list[int] = lane.asnumpy(lane.sign(batch, SHINGLING, drawn, shape, keys).digests).tolist()
        sets = lane.shingle_sets(batch, SHINGLING, keys)
        assert len(lane.asnumpy(sets.values)) == len(lane.asnumpy(lane.shingle(batch, SHINGLING).values)) > 0
        return digests

    given = batches("some", 3 * LANES)
    wanted = [ReferenceBackend().sign(batch, SHINGLING, drawn, shape, keys).digests.tolist() for batch in given]
    assert list(ops.pipelined_map(given, signed)) == wanted


def test_permutations_are_uploaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded: list[tuple[int, int]] = []
    asarray = DeviceModule.asarray

    def watched(self: DeviceModule, array: Any) -> DeviceArray:
        if isinstance(array, np.ndarray) and array.dtype == np.uint32:
            uploaded.append((len(array), int(array[0])))
        return asarray(self, array)

    monkeypatch.setattr(DeviceModule, "asarray", watched)
    ops = CudaBackend(DeviceModule(), HostLauncher())
    families = [Family(num_perm=8, seed=seed) for seed in (1, 2)]
    given = batches("some", 4 * LANES)

    def signatures(lane: Any, batch: TextBatch) -> list[list[int]]:
        return [lane.asnumpy(lane.text_signatures(batch, SHINGLING, family)).tolist() for family in families]

    wanted = [signatures(ReferenceBackend(), batch) for batch in given]
    assert list(ops.pipelined_map(given, signatures)) == wanted
    parts = [(len(part), int(part[0])) for family in families for part in coefficients(family)]
    assert all(1 <= uploaded.count(part) <= LANES for part in parts)


def test_lanes_are_used_again() -> None:
    ops = CudaBackend(DeviceModule(), HostLauncher())

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
    """Page-locked memory that somebody may still hold."""


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostCupy]:
    """A process that finds CUDA, before its first call; `made` counts what calls had it make."""
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
    caches = (device.why_unavailable, backend._device)
    for cache in caches:
        cache.cache_clear()
    yield cupy
    for cache in caches:
        cache.cache_clear()


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
    assert sizes == {LEAST_PINNED}, "CuPy's pool has none of the same size to hand out"
    gc.collect()
    assert not any(memory() for memory in process.pinned)
    lanes = [lane for lanes in backend._device()._free[0] for lane in lanes]
    assert len(lanes) == LANES
    assert {key for lane in lanes for key in lane._keys._values} <= {None}


def test_calls_at_once_have_lanes_of_their_own(process: HostCupy) -> None:
    given = [texts(25, seed=seed) for seed in range(4)]
    wanted = [gpulsh.deduplicate(documents, backend="reference").duplicate_of.tolist() for documents in given]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            found = pool.map(lambda documents: gpulsh.deduplicate(documents, backend="cuda").to_numpy(), given)
            assert [one.duplicate_of.tolist() for one in found] == wanted
    free = backend._device()._free[0]
    assert 1 <= len(free) <= 4 and len({lane for lanes in free for lane in lanes}) == LANES * len(free)
