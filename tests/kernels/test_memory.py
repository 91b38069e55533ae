"""Little memory, several devices, few transfers, and numbers beyond 32 bits: the bits stay."""

import gc
import logging
import random
import weakref
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import gpulsh
from gpulsh import Decision
from gpulsh.arrays import Buckets, Fingerprints, TextBatch
from gpulsh.backends.cuda import CudaBackend, Shared, buckets
from gpulsh.backends.cuda.buckets import collisions, may_repeat
from gpulsh.backends.cuda.launcher import Geometry
from gpulsh.backends.cuda.machine import KEPT, Machine
from gpulsh.backends.cuda.memory import HELD, MAX_PINNED, RESIDENT, SMALLEST, text_sizes
from gpulsh.backends.protocol import NO_DIGEST
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.select import select_backend
from gpulsh.decide.compare import compare, exact_jaccard
from gpulsh.decide.fingerprint_source import ShingledTexts
from gpulsh.errors import BackendError, DeviceMemoryError
from gpulsh.io.memory.device import DeviceTexts
from gpulsh.io.memory.texts import open_texts
from gpulsh.lsh.collisions import find_buckets
from gpulsh.method import Method
from gpulsh.params import Family, Shingling
from gpulsh.run.memory import DigestsByBand, decide, sign
from gpulsh.secret import TOKEN_FAR, WORDS, evidence_keys
from gpulsh.stats.stages import Progress, no_progress
from tests.kernels.cuts import assert_decisions, texts, with_sizes
from tests.kernels.device_arrays import DeviceArray, DeviceModule, Transfer, counted_transfers, scarce_memory
from tests.kernels.host import HostLauncher
from tests.kernels.test_lanes import Arrays
from tests.support.texts import KEYS

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("kernels_built", "in_one_order")]
# A lane has its own keys; the Unicode table is the device's.
KEY_BYTES = 8 * (WORDS + TOKEN_FAR)  # secret ones, and public ones, of which there are fewer


def decided(documents: Any, ops: Any, order: Any = None, **options: Any) -> tuple[Decision, list[Transfer]]:
    """The decision, and the transfers after `sign`."""
    source = documents if isinstance(documents, DeviceTexts) else open_texts(documents, ops)
    method = Method.choose(**options)
    signed = sign(source, method, KEYS, ops, Progress())
    with counted_transfers() as found:
        decision = decide(signed, source, order, method, KEYS, ops, Progress())
    return decision, found


def decision(ops: Any, documents: Any) -> Decision:
    return decided(documents, ops)[0]


# --- several devices


SmallBatches = with_sizes(batch=700)


@pytest.mark.parametrize("devices", [None, [1, 0], [1]])
def test_several_devices_decide_as_one(devices: list[int] | None) -> None:
    documents, launcher = texts(60), HostLauncher()
    ops = SmallBatches(Shared(DeviceModule(devices=2), launcher), devices=devices)
    assert_decisions(decision(ops, documents), decision(ReferenceBackend(), documents))
    assert launcher.devices == set(devices or [0, 1])


@pytest.mark.parametrize(("devices", "nulls"), [([0, 1], True), ([0, 1], False), ([1], False)])
def test_text_on_one_device_is_shared_by_all(devices: list[int], nulls: bool) -> None:
    launcher = HostLauncher()
    ops = SmallBatches(Shared(DeviceModule(devices=2), launcher), devices=devices)
    documents = texts(60)
    rows = [(text or "hidden").encode() for text in documents]
    text = TextBatch(ops.asarray(np.frombuffer(b"".join(rows), np.uint8)), ops.asarray(np.cumsum([0, *map(len, rows)])))
    with ops.use_device():
        null = ops.asarray(np.array([text is None for text in documents]))
    with counted_transfers() as crossed:
        found = decision(ops, DeviceTexts(text, null if nulls else None, ops))
    wanted = decision(ReferenceBackend(), documents if nulls else [text or "hidden" for text in documents])
    assert_decisions(found, wanted)
    assert launcher.devices == set(devices)
    copied = [one.items for one in crossed if one.to_host is None and one.dtype == np.uint8]
    assert max(copied, default=0) < len(text.values) // 2, "a batch dragged its column along"


def test_a_missing_device_is_named() -> None:
    with pytest.raises(BackendError, match="devices names 2; this machine has 2"):
        CudaBackend(Shared(DeviceModule(devices=2), HostLauncher()), devices=[0, 2])


# --- too little memory


# As if there were memory for large batches: documents beyond it go through in pieces of a few bytes.
SmallPieces = with_sizes(batch=1 << 20, tile=1 << 20, largest_tile=1 << 20)
PIECES = replace(Geometry(), piece_bytes=2000)


@pytest.fixture
def ops() -> CudaBackend:
    made = SmallPieces(Shared(DeviceModule(), HostLauncher(), PIECES))
    made.shingle(TextBatch(made.asarray(np.zeros(1, np.uint8)), made.asarray(np.array([0, 1]))), Shingling())  # tables
    gc.collect()
    return made


MANY = [f"word{number}" for number in np.random.default_rng(5).integers(0, 1 << 40, 3000)]
LONG, NEAR = " ".join(MANY), " ".join([*MANY[:1500], "another", *MANY[1501:]])


@pytest.mark.parametrize(
    ("documents", "room", "message"),
    [
        (texts(200), 2 * KEY_BYTES + 100_000, "it is halved"),
        ([LONG, "short text", NEAR, LONG.upper(), "another short text"], KEY_BYTES + 60_000, "signed in pieces"),
    ],
)
def test_documents_and_pairs_beyond_device_memory_decide_alike(
    ops: CudaBackend, documents: list[Any], room: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = decision(ReferenceBackend(), documents)
    assert not wanted.keep.all()
    with caplog.at_level(logging.WARNING, "gpulsh"), scarce_memory(room):
        found = decision(ops, documents)
    assert_decisions(found, wanted)
    assert message in caplog.text


def test_giant_text_of_another_device_is_signed_in_pieces(caplog: pytest.LogCaptureFixture) -> None:
    arrays = DeviceModule(devices=2)
    ops = SmallPieces(Shared(arrays, HostLauncher(), PIECES), devices=[1])
    source, method = random.Random(7), Method.choose()
    rows = [" ".join(f"word{source.randrange(300)}" for _ in range(count)).encode() for count in (20, 6000, 30)]
    host = TextBatch(np.frombuffer(b"".join(rows), np.uint8), np.cumsum([0, *map(len, rows)]))
    text = host.moved(arrays.asarray)  # on the first device
    asked = method.backend_shingling, method.family, method.banding, KEYS
    ops.sign(host.slice(0, 1), *asked)  # tables and keys
    wanted = ReferenceBackend().sign(host, *asked)
    gc.collect()
    with caplog.at_level(logging.WARNING, "gpulsh"), scarce_memory(135_000):
        signed = ops.sign(text, *asked)
        sets = [ops.shingle_part(text, method.backend_shingling, part, 2) for part in range(2)]
    for name in ("digests", "exact", "shingles"):
        np.testing.assert_array_equal(getattr(signed, name).get(), getattr(wanted, name))
    assert "it is halved" in caplog.text and "signed in pieces" in caplog.text
    for part, found in enumerate(sets):
        assert found.moved(ops.asnumpy) == ReferenceBackend().shingle_part(host, method.backend_shingling, part, 2)


@pytest.mark.parametrize(("documents", "bands"), [(100, 40), (2000, 1)])
def test_digests_beyond_device_memory_are_grouped_in_parts(documents: int, bands: int) -> None:
    """Memory runs out in array code between operations, too."""
    ops = CudaBackend(Shared(DeviceModule(), HostLauncher()))
    digests = np.random.default_rng(1).integers(0, 2**63, (documents, bands)).astype(np.uint64)
    digests[-1] = digests[0]
    pieces, none = [ops.asarray(digests[:50]), ops.asarray(digests[50:])], ops.asarray(np.empty(0, np.int64))
    gc.collect()
    with scarce_memory(12_000):
        small = find_buckets(DigestsByBand(pieces, none, bands, documents, ops), ops, no_progress, [].append)
    assert len(pieces) == 2 and small.ids.get().tolist() == bands * [0, documents - 1]


def test_pairs_beyond_device_memory_are_halved(ops: CudaBackend) -> None:
    every, done = np.arange(80), list[int]()
    source = open_texts([f"one two three four five {number % 7}" for number in every])
    read = ShingledTexts(every, ops, source.choose(every), Method.choose(), KEYS)
    pairs = ops.asarray(np.stack(np.triu_indices(80, 1), axis=1))
    wanted = compare(pairs, read, exact_jaccard, 0.8, ops).get()
    gc.collect()
    with scarce_memory(200_000):  # of which the pairs need more than the texts
        found = compare(pairs, read, exact_jaccard, 0.8, ops, done.append)
    np.testing.assert_array_equal(found.get(), wanted)
    assert sum(done) == len(pairs)


def test_every_failed_allocation_is_a_device_memory_error() -> None:
    """Allocations fail with CuPy's error and sorts with C++'s."""
    ops = CudaBackend(Shared(DeviceModule(), HostLauncher(), replace(Geometry(), row_limit=32)))
    values = np.random.default_rng(1).integers(0, 2**64, 500, np.uint64)
    fingerprints = Fingerprints(ops.asarray(values), ops.asarray(np.array([0, 250, 500])))
    messages = ""
    for room in range(0, 100_000, 500):
        gc.collect(1)  # the memory that the last error held
        try:
            with scarce_memory(room):
                found = ops.unique(fingerprints)
        except DeviceMemoryError as error:
            messages += str(error)
        else:
            break
    assert found.values.get().tolist() == sorted(values[:250].tolist()) + sorted(values[250:].tolist())
    assert "std::bad_alloc" in messages and "bytes of" in messages
    with scarce_memory(100), pytest.raises(DeviceMemoryError, match="CUDA device 0 does not suffice"):
        decision(ops, ["some text that is long enough to need more than a hundred bytes"] * 4)


def test_a_failed_attempt_frees_its_memory_at_once() -> None:
    """The halves need that memory at once."""
    ops = CudaBackend(Shared(DeviceModule(), HostLauncher()))
    values = ops.asarray(np.random.default_rng(1).integers(0, 2**64, 5000, np.uint64))
    fingerprints = Fingerprints(values, ops.asarray(np.array([0, 5000])))
    gc.collect()
    gc.disable()
    try:
        with scarce_memory(60_000) as memory:
            before = memory.held
            with suppress(DeviceMemoryError):
                ops.unique(fingerprints)
                before = -1
            assert memory.held == before < memory.peak
    finally:
        gc.enable()


def test_an_unused_backend_frees_its_memory_at_once() -> None:
    """Each call makes a backend with page-locked memory, keys and sketches."""
    text = TextBatch(np.frombuffer(b"one text", np.uint8), np.array([0, 8]))
    gc.collect()
    gc.disable()
    try:
        with scarce_memory(1 << 30) as memory:
            before, ops = memory.held, CudaBackend(Shared(DeviceModule(), HostLauncher()))
            ops.text_signatures(text, Shingling(), Family(num_perm=8))
            slots = weakref.ref(ops.staging)
            assert memory.held > before
            del ops
            assert memory.held == before and slots() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "message", ["cudaErrorMemoryAllocation: out of memory", "CUDA_ERROR_OUT_OF_MEMORY: out of memory", "std::bad_alloc"]
)
def test_memory_errors_of_runtime_and_driver_are_converted(message: str) -> None:
    """The runtime and the driver have their own errors for want of memory, which are no MemoryError."""
    ops = CudaBackend(Shared(DeviceModule(), HostLauncher()))
    wanted = rf"CUDA device 0 does not suffice \({message}\); free"  # named once, however deep
    with pytest.raises(DeviceMemoryError, match=wanted), ops.use_device(), ops.use_device():
        raise RuntimeError(message)
    with pytest.raises(RuntimeError, match="an illegal memory access") as error, ops.use_device():
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
    assert error.type is RuntimeError
    with pytest.raises(MemoryError, match="of the host"), ops.use_device():
        raise MemoryError("of the host")


def test_keep_copies_to_the_host_if_the_device_is_full() -> None:
    """Otherwise even a small part would hold a lane's whole memory."""
    ops = CudaBackend(Shared(DeviceModule(), HostLauncher()))
    values = np.arange(20_000, dtype=np.uint64).reshape(-1, 2)
    made = ops.asarray(values).T
    (kept,) = ops.keep(made)
    assert kept.host.flags.f_contiguous and not np.shares_memory(kept.host, made.host)
    np.testing.assert_array_equal(kept.get(), values.T)
    with scarce_memory(1000):
        (elsewhere,) = ops.keep(made)
    assert isinstance(elsewhere, np.ndarray)
    np.testing.assert_array_equal(elsewhere, values.T)
    other = CudaBackend(Shared(DeviceModule(), HostLauncher()))
    other.arrays.cuda.runtime.memGetInfo = Mock(side_effect=MemoryError("cudaErrorMemoryAllocation: out of memory"))
    (elsewhere,) = other.keep(made)
    assert isinstance(elsewhere, np.ndarray) and other.hold(TextBatch(np.zeros(9, np.uint8), np.arange(9))) is None


@pytest.mark.parametrize("free", [1 << 20, 1 << 30, 8 << 30, 139 << 30])
def test_sizes_follow_free_memory(free: int) -> None:
    sizes = text_sizes(free, 256 << 20)
    assert SMALLEST <= sizes.tile <= sizes.batch <= 256 << 20
    assert 3 * 20 * sizes.batch <= free or sizes.batch == SMALLEST


@pytest.mark.parametrize("memory", [512 << 20, 1 << 30, 8 << 30, 64 << 30])
@pytest.mark.parametrize("devices", [1, 8])
def test_sizes_follow_the_budget_of_the_host(memory: int, devices: int) -> None:
    sizes = text_sizes(139 << 30, 256 << 20, memory, devices)
    assert sizes.tile <= sizes.batch <= 256 << 20 and sizes.ahead is not None
    batches = (3 * devices + 2) * sizes.batch
    assert batches + sizes.pinned <= memory // 8 or sizes.batch == SMALLEST
    assert sizes.ahead <= memory // 8 and 0 < sizes.device <= 139 << 30
    assert sizes.pinned == 3 * devices * min(sizes.batch, MAX_PINNED)


def test_pinned_memory_is_at_most_a_batch() -> None:
    """This holds for a lane, and for operations outside lanes."""
    arrays = Arrays()
    little = CudaBackend(Shared(arrays, HostLauncher()), memory=32 << 20)
    text = TextBatch(np.full(3 << 20, ord("a"), np.uint8), np.array([0, 3 << 20], np.int64))
    assert little.sizes().batch == 1 << 20
    found = list(little.pipelined_map([text], lambda lane, batch: len(lane.stage(batch))))
    assert found == [1] and max(arrays.asked) == 1 << 20
    assert len(little.shingle_sets(text, Shingling())) == 1 and max(arrays.asked) == 1 << 20


def test_the_cuda_backend_gets_the_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr("gpulsh.backends.cuda.why_unavailable", lambda: None)
    monkeypatch.setattr("gpulsh.backends.cuda.CudaBackend", lambda **options: given.append(options))
    select_backend("cuda", memory=1 << 30, devices=[0])
    select_backend("auto")
    assert given == [{"devices": [0], "memory": 1 << 30}, {"devices": None}]


# --- transfers between the host and the device from `sign` to the result

DOCUMENTS = 300
BATCH = 20_000  # bytes of text
FEW = 16  # items of an array


def backend(held: int = 1 << 30, batch: int = BATCH) -> CudaBackend:
    """A backend that may hold so many bytes of texts."""
    ops = CudaBackend(Shared(DeviceModule(), HostLauncher(), Geometry(text_bytes=batch)))
    ops._room = {RESIDENT: 1 << 30, HELD: held}
    return ops


@pytest.mark.parametrize("options", [{"resolve": "components"}, {"also": gpulsh.SimHash()}])
def test_no_array_of_documents_crosses_to_the_host(options: dict[str, Any]) -> None:
    documents = texts(DOCUMENTS)
    decision, found = decided(documents, backend(), **options)
    assert_decisions(decision, gpulsh.deduplicate(documents, backend="reference", **options))
    assert decision.funnel.near_duplicates > DOCUMENTS // 20
    to_host = [one for one in found if one.to_host]
    assert max(one.items for one in to_host) <= FEW
    assert sum(one.nbytes for one in to_host) < DOCUMENTS * 8


def test_the_order_crosses_to_the_device_once() -> None:
    documents = texts(60)
    order = np.arange(len(documents))[::-1].copy()
    decision, found = decided(documents, backend(), order)
    assert_decisions(decision, gpulsh.deduplicate(documents, backend="reference", priority=order[::-1]))
    assert sum(one.items == len(order) for one in found if not one.to_host) == 1


def test_only_documents_of_large_buckets_cross_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 8)
    page = [f"word{number}" for number in range(60)]
    crowded = [" ".join([*page, f"own{number}"]) for number in range(12)]
    documents = [*texts(DOCUMENTS), *crowded]
    decision, found = decided(documents, backend())
    assert_decisions(decision, gpulsh.deduplicate(documents, backend="reference"))
    assert decision.funnel.crowded == len(crowded)
    bands = Method.choose().banding.bands
    assert FEW < max(one.items for one in found if one.to_host) <= len(crowded) * bands < DOCUMENTS


@pytest.mark.parametrize("batch", [BATCH, 3000])
def test_only_texts_missing_on_the_device_are_read_again(batch: int) -> None:
    documents = texts(100)
    wanted = gpulsh.deduplicate(documents, backend="reference")
    size = sum(len((text or "").encode()) for text in documents)
    crossed = []
    for held in (1 << 30, size // 2, 0):
        decision, found = decided(documents, backend(held, batch))
        assert_decisions(decision, wanted)
        crossed.append(sum(one.nbytes for one in found if not one.to_host))
    assert crossed[0] < crossed[1] < crossed[2]


def test_texts_are_read_again_if_gathering_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = texts(60)
    monkeypatch.setattr(CudaBackend, "gather", Mock(side_effect=DeviceMemoryError("no memory")))
    assert_decisions(decided(documents, backend())[0], gpulsh.deduplicate(documents, backend="reference"))


def test_normalized_texts_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaBackend, "hold", None)
    documents = ["e\u0301 one two three four five", None, "é one two three four five", "", "six"] * 3
    for options in ({"folding": gpulsh.Folding(form="NFC")}, {"verify": "none"}):
        wanted = gpulsh.deduplicate(documents, backend="reference", **options)  # type: ignore[arg-type]
        assert_decisions(decided(documents, backend(), **options)[0], wanted)


# --- large numbers


@pytest.fixture(scope="module")
def host(kernels_built: None) -> Machine:
    return Machine(DeviceModule(), HostLauncher(), Geometry())


def test_a_machine_holds_few_secrets(host: Machine) -> None:
    """Calls outside a run release no secret, and each run has its own."""
    for number in range(3 * KEPT):
        host.keys(evidence_keys(bytes([number]) * 32))
    assert host.keys.cache_info().currsize == KEPT


def test_few_unique_digests_are_sorted(host: Machine) -> None:
    digests = np.random.default_rng(2).integers(0, 2**64, 8000, np.uint64)
    digests[-2:], digests[4000] = digests[:2], NO_DIGEST
    ids = DeviceArray(np.arange(len(digests), dtype=np.int64))
    for lowest, expected in ((0, 8000), (2**63, 4000)):
        taken, whose = may_repeat(host, DeviceArray(digests), ids, lowest, NO_DIGEST - 1, expected)
        np.testing.assert_array_equal(taken.get(), digests[whose.get()])
        assert {i for i in (0, 1, 7998, 7999) if digests[i] >= lowest} <= set(whose.get().tolist())
        assert 4000 not in whose.get() and taken.get().min() >= lowest
        assert 0 < len(taken) < 0.14 * expected  # 1 - exp(-1 / 8) and some deviations


def test_collisions_take_bounded_memory(host: Machine) -> None:
    count = 20_000
    digests = DeviceArray(np.random.default_rng(6).permutation(count).astype(np.uint64) * np.uint64(2**64 // count))
    spread = digests * np.uint64(0x9E3779B97F4A7C15)  # distinct in all bits
    ids = DeviceArray(np.arange(count, dtype=np.int64))
    with scarce_memory(1 << 40) as memory:
        before = memory.peak
        assert len(collisions(host, spread, ids)) == 0
        unique = memory.peak - before
    with scarce_memory(1 << 40) as memory:
        before = memory.peak
        repeated = DeviceArray(np.repeat(spread.host[: count // 2], 2))
        assert len(collisions(host, repeated, ids)) == count // 2
        members = memory.peak - before - repeated.nbytes
    assert unique < (5 + 40 * 0.14) * count and members < 45 * count


def test_too_many_bucket_members_are_refused(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "MAX_MEMBERS", 2)
    with pytest.raises(BackendError, match="3 documents are in buckets, 2 fit on a device"):
        ids, offset = np.array([1, 2, 2**32], np.int64), np.array([0, 3], np.int64)
        buckets.candidates(host, Buckets(DeviceArray(ids), DeviceArray(offset)))


def test_pair_numbers_beyond_32_bits_give_the_right_pairs(host: Machine) -> None:
    members = 100_000
    total = members * (members - 1) // 2
    keys = host.arrays.empty(300, np.uint64)
    ids, offset = DeviceArray(np.arange(members, dtype=np.uint32)), DeviceArray(np.array([0, members], np.int64))
    host.run("candidates", 300, ids, offset, 1, DeviceArray(np.array([total], np.int64)), total - 300, total, keys)
    wanted = np.arange(members - 301, members - 1, dtype=np.uint64) << np.uint64(32) | np.uint64(members - 1)
    np.testing.assert_array_equal(keys.get(), wanted)


def test_labels_of_a_long_chain_take_few_steps(host: Machine) -> None:
    count = 100_000  # were nothing shortened, 5 * 10^9 steps
    parent = DeviceArray(np.maximum(np.arange(count), 1).astype(np.uint64) - np.uint64(1))
    host.run("components", count, count, parent, kernel="components_label")
    assert not parent.get().any()
