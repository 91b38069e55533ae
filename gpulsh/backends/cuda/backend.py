"""The operations on CUDA, each on the right device, stream and memory; the other files do the work.

`pipelined_map` works in lanes: a lane is a device, a stream and page-locked memory, and has one item of work at a time.
While one lane computes, the next copies its text to the device, so that bus and multiprocessors are busy together. Each
of several devices has its own lanes. A lane hands on a result when its stream has finished.

Each caller takes a whole set of lanes: one call may read its results while another call runs inside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial, wraps
from threading import Lock
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from gpulsh.arrays import Array, Fingerprints, Signed, TextBatch, Tokens
from gpulsh.backends.composed import one_pass
from gpulsh.backends.cuda import buckets, passages, rows, texts, weighted
from gpulsh.backends.cuda.device import import_cupy, visible_devices, why_unavailable
from gpulsh.backends.cuda.launcher import DeviceLauncher, Geometry, Launcher, Machine
from gpulsh.backends.cuda.memory import (
    HELD,
    LANES,
    MEMORY,
    MOST_PINNED,
    RESIDENT,
    copied,
    done,
    free_bytes,
    on_device,
    on_host,
    text_sizes,
    wait,
)
from gpulsh.backends.cuda.sign import Signer, TextPieces, shingle_part
from gpulsh.backends.cuda.sketches import AnywhereSketch, DeviceSketch, sketch_of
from gpulsh.backends.cuda.staging import Staging
from gpulsh.backends.cuda.texts import DeviceKeys, Table, TokenSums
from gpulsh.backends.lru_cache import LruCache
from gpulsh.backends.parallel import pipelined_map
from gpulsh.backends.protocol import Backend, Sizes, SketchFold
from gpulsh.backends.unicode_table import unicode_table
from gpulsh.errors import BackendError, DeviceMemoryError
from gpulsh.params import BandShape, Family, Reading, Shingling
from gpulsh.secret import EvidenceKeys

KEPT = 8  # keys, and sketches: small, and used again and again


Item = TypeVar("Item")
Result = TypeVar("Result")
Given = ParamSpec("Given")
Method: TypeAlias = "Callable[Concatenate[CudaBackend, Given], Result]"


def _on_device(method: Method[Given, Result]) -> Method[Given, Result]:
    """The method with the first device as the current one."""

    @wraps(method)
    def run(self: CudaBackend, /, *given: Given.args, **named: Given.kwargs) -> Result:
        with self._machine.here():
            return method(self, *given, **named)

    return run


def _method(operation: Callable[Concatenate[Machine, Given], Result]) -> Method[Given, Result]:
    """An operation on a machine as a method on the first device."""

    @wraps(operation)
    def run(self: CudaBackend, /, *given: Given.args, **named: Given.kwargs) -> Result:
        with self._machine.here():
            return operation(self._machine, *given, **named)

    return run


class CudaBackend(Backend):
    """Kernels on CUDA devices. Arrays in and out are CuPy's, on the first device and the caller's current stream.

    `devices` are their numbers; None takes all that are visible, the current one first. They share the items of
    `pipelined_map`; every other operation runs on the first. `memory` is the bytes of the host that the run may use;
    texts are handed over in parts of it. `arrays` and `launcher` replace CuPy and the devices together, `geometry` the
    cut of the work: for tests. Streams, lanes and tables outlive a backend: see `Shared`.

    Raises BackendError if CUDA, or one of the devices, does not work.
    """

    name = "cuda"

    gather = _method(texts.gather)
    unique = _method(rows.unique)
    winnow = _method(passages.winnow)
    frequencies = _method(rows.frequencies)
    prefixes = _method(rows.prefixes)
    intersect = _method(rows.intersect)
    bitmaps = _method(rows.bitmaps)
    overlap_bounds = _method(rows.overlap_bounds)
    simhash = _method(rows.simhash)
    band_digests = _method(buckets.band_digests)
    collisions = _method(buckets.collisions)
    candidates = _method(buckets.candidates)
    components = _method(buckets.components)
    occurrences = _method(weighted.occurrences)
    weighted_overlap = _method(weighted.weighted_overlap)
    weighted_minhash = _method(weighted.weighted_minhash)
    kleinberg_tardos = _method(weighted.kleinberg_tardos)

    def __init__(
        self,
        arrays: ModuleType | None = None,
        launcher: Launcher | None = None,
        geometry: Geometry | None = None,
        *,
        devices: Sequence[int] | None = None,
        memory: int = MEMORY,
        shared: Shared | None = None,
    ) -> None:
        self._shared = shared or _shared(arrays, launcher, geometry)
        arrays = self._shared.arrays
        self._devices = visible_devices(arrays, devices)
        self._machine = Machine(arrays, self._shared.launcher, self._shared.geometry, self._devices[0])
        self._budget = memory, len(self._devices)
        self._staging = Staging(arrays)
        self._keys = LruCache[EvidenceKeys | None, DeviceKeys](KEPT)
        self._sketches = LruCache[Family, DeviceSketch](KEPT)
        self._stream: Any = None  # of a lane, made for its first work
        self._room: dict[float, int] = {}  # bytes that `keep` and `hold` may still leave on the device, by their share

    def here(self) -> AbstractContextManager[None]:
        return self._machine.here()

    def sizes(self) -> Sizes:
        with self._machine.here():
            return text_sizes(free_bytes(self._machine.arrays), LANES, self._machine.geometry.text_bytes, *self._budget)

    @_on_device
    def sha1(self, text: TextBatch) -> Array:
        return texts.sha1(self._machine, text.moved(self.asarray))

    @_on_device
    def asarray(self, array: Array) -> Array:
        return on_device(self._machine.arrays, array)

    def asnumpy(self, array: Array) -> Array:
        return on_host(self._machine.arrays, array)

    @_on_device
    def tokens(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Tokens:
        return texts.hash_tokens(self._machine, self._tokens(text, shingling, self._keys_of(keys)))

    @_on_device
    def shingles(self, tokens: Tokens, size: int, keys: EvidenceKeys | None = None) -> Fingerprints:
        return texts.shingles(self._machine, tokens, size, self._keys_of(keys))

    @one_pass
    @_on_device
    def shingle(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys | None = None) -> Fingerprints:
        there = self._keys_of(keys)
        return texts.shingle_sums(self._machine, self._tokens(text, shingling, there), shingling.size, there)

    @_on_device
    def exact_hashes(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> Array:
        return self.counted_hashes(text, shingling, keys)[0]

    @_on_device
    def counted_hashes(self, text: TextBatch, shingling: Shingling, keys: EvidenceKeys) -> tuple[Array, Array]:
        proof = self._keys_of(keys)
        tokens = self._tokens(text, shingling, self._keys_of(None), proof)
        return texts.exact_hashes(self._machine, tokens, proof), tokens.counts(self._machine.arrays)

    @one_pass
    @_on_device
    def shingle_part(
        self, text: TextBatch, shingling: Shingling, part: int, parts: int, keys: EvidenceKeys | None = None
    ) -> Fingerprints:
        return shingle_part(self._pieces(shingling, keys), text, part, parts)

    @_on_device
    def token_bounds(self, text: TextBatch, shingling: Shingling, row: Array, token: Array) -> Array:
        there = self._staging.on_device(text)
        return passages.token_bounds(self._machine, self._unicode(shingling), there, shingling.unit, row, token)

    @_on_device
    def set_sketch(self, family: Family) -> SketchFold:
        return AnywhereSketch(self._sketch_of(family))

    @one_pass
    @_on_device
    def sign(
        self, text: TextBatch, shingling: Shingling, family: Family, shape: BandShape, keys: EvidenceKeys
    ) -> Signed:
        pieces, sketch = self._pieces(shingling, None), self._sketch_of(family)
        return Signer(pieces, self._staging, sketch, shape, self._keys_of(keys)).sign(text)

    def pipelined_map(self, items: Iterable[Item], work: Callable[[Backend, Item], Result]) -> Iterator[Result]:
        with self._shared.lanes(self._devices) as lanes:
            for lane in lanes:
                lane._budget, lane._staging.most = self._budget, min(self.sizes().batch, MOST_PINNED)
            try:
                yield from pipelined_map(self._ready(items), [partial(lane._work, work) for lane in lanes])
            finally:
                for lane in lanes:
                    lane._release()

    def keep(self, *arrays: Array) -> Sequence[Array]:
        kept = self._resident(RESIDENT, *arrays)
        return list(map(self.asnumpy, arrays)) if kept is None else kept

    def stage(self, text: TextBatch) -> TextBatch | None:
        try:
            with self._machine.here():
                return self._staging.on_device(text)
        except DeviceMemoryError:
            return None

    def hold(self, text: TextBatch) -> TextBatch | None:
        kept = self._resident(HELD, text.values, text.offset)
        return None if kept is None else TextBatch(*kept)

    def _resident(self, share: float, *arrays: Array) -> list[Array] | None:
        """Copies that stay on this device; None where that `share` of its memory is full."""
        try:
            with self._machine.here():
                if not self._room:
                    free = free_bytes(self._machine.arrays)
                    self._room = {share: int(share * free) for share in (RESIDENT, HELD)}
                self._room[share] -= sum(array.nbytes for array in arrays)
                if self._room[share] >= 0:
                    # Copied even on the same device: the original is part of a lane's memory, which has to become
                    # whole again for the next batch.
                    kept = [copied(self._machine.arrays, array) for array in arrays]
                    wait(self._machine.arrays)  # before a lane may reuse the original
                    return kept
        except DeviceMemoryError:
            self._room[share] = 0
        return None

    def _work(self, work: Callable[[Backend, Item], Result], item: Item) -> Result:
        """`work` of an item on the stream of this lane."""
        with self._machine.here():
            if self._stream is None:
                self._stream = self._machine.arrays.cuda.Stream(non_blocking=True)
            with self._stream:
                try:
                    return work(self, item)
                finally:  # even a failed item is released only when nothing reads it any more
                    wait(self._machine.arrays, self._stream)

    def _release(self) -> None:
        """Return pinned memory to CuPy's pool, and forget secrets."""
        with self._machine.here():
            self._staging.release()
            self._keys.remove(lambda keys: keys is not None)

    def _ready(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, each when its device memory is computed: other streams would not wait for it."""
        iterator = iter(items)
        while True:
            with self._machine.here():
                try:
                    item = next(iterator)
                except StopIteration:
                    return
                wait(self._machine.arrays)
            yield item
            del item  # or it would be held while the next one is made

    def _pieces(self, shingling: Shingling, keys: EvidenceKeys | None) -> TextPieces:
        """The way of a document that is too large for the device to hold whole."""
        most = min(self._machine.geometry.piece_bytes, self.sizes().tile)
        return TextPieces(self._machine, self._unicode(shingling), shingling, self._keys_of(keys), most)

    def _tokens(
        self, text: TextBatch, shingling: Shingling, keys: DeviceKeys, proof: DeviceKeys | None = None
    ) -> TokenSums:
        there = self._staging.on_device(text)
        return texts.token_sums(self._machine, self._unicode(shingling), there, shingling.unit, keys, proof)

    def _keys_of(self, keys: EvidenceKeys | None) -> DeviceKeys:
        return self._keys.get_or_make(keys, lambda: texts.keys_on_device(self._machine.arrays, keys))

    def _sketch_of(self, family: Family) -> DeviceSketch:
        return self._sketches.get_or_make(family, lambda: done(self._machine.arrays, sketch_of(self._machine, family)))

    def _unicode(self, shingling: Shingling) -> Table:
        return self._shared.table(self._machine.device, shingling.reading)


class Shared:
    """State that all backends of a process share, however many calls make one: lanes, and the Unicode tables.

    A call that made its own would wait each time for streams, page-locked memory and device memory. Lanes that nobody
    uses leave their memory to CuPy's pools, which `free_all_blocks` empties. Safe for threads.
    """

    def __init__(self, arrays: ModuleType, launcher: Launcher, geometry: Geometry) -> None:
        self.arrays, self.launcher, self.geometry = arrays, launcher, geometry
        self._tables: dict[tuple[int, Reading], Table] = {}
        # A stream has its own memory in CuPy's pool, which other streams cannot use: new streams would be new memory.
        self._free: dict[int, list[list[CudaBackend]]] = defaultdict(list)
        self._changing = Lock()

    def table(self, device: int, reading: Reading) -> Table:
        """The Unicode table on a device, the current one."""
        with self._changing:
            if (device, reading) not in self._tables:
                stage1, stage2 = map(self.arrays.asarray, unicode_table(reading))
                self._tables[device, reading] = done(self.arrays, Table(stage1, stage2, reading.plain))
            return self._tables[device, reading]

    @contextmanager
    def lanes(self, devices: Sequence[int]) -> Iterator[list[CudaBackend]]:
        """A set of lanes of each of `devices`, end to end, for this caller alone."""
        sets = [self._lane_set(device) for device in devices]
        try:
            yield [lane for lanes in sets for lane in lanes]
        finally:
            with self._changing:
                for device, lanes in zip(devices, sets, strict=True):
                    self._free[device].append(lanes)

    def _lane_set(self, device: int) -> list[CudaBackend]:
        with self._changing:
            if self._free[device]:
                return self._free[device].pop()
        return [CudaBackend(devices=[device], shared=self) for _ in range(LANES)]


def _shared(arrays: ModuleType | None, launcher: Launcher | None, geometry: Geometry | None) -> Shared:
    if arrays is not None and launcher is not None:
        return Shared(arrays, launcher, geometry or Geometry())
    reason = why_unavailable()
    if reason is not None:
        raise BackendError(f"CUDA does not work here: {reason}; use --backend cpu, or 'auto'")
    device = _device()
    return device if geometry is None else Shared(device.arrays, device.launcher, geometry)


@cache
def _device() -> Shared:
    """The shared state of this process: kernels are loaded and lanes made once, not once a call."""
    cupy = import_cupy()
    return Shared(cupy, DeviceLauncher(cupy), Geometry())
