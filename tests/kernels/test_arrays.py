"""Arrays of other libraries and of every layout through the public calls: strides, Fortran's order, other devices.

On the host they are taken as NumPy takes them, on a device without a needless copy. The host launcher refuses arrays
that are not contiguous; a device, which sees only a pointer, could not.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpulsh
from gpulsh import arrays
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cuda import CudaBackend, Shared
from gpulsh.backends.protocol import DeviceBuffer
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import BackendError, ParameterError
from gpulsh.io.memory.texts import open_texts
from tests.kernels.cuts import (
    DEFAULT_CUT,
    DEVICE_DEFAULT,
    HOST_DEFAULT,
    address,
    assert_decisions,
    device_array,
    install,
    memory_of,
    on_host,
    texts,
)
from tests.kernels.device_arrays import PLACES, DeviceArray, DeviceModule, counted_transfers, put
from tests.kernels.host import HostLauncher
from tests.kernels.test_device_texts import DeviceBytes, documents
from tests.support.rows import same

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("in_one_order")]


# --- libraries


class Tensor:
    """Like torch's: a dtype of its own, DLPack, no CUDA array interface on the host, no hidden copy."""

    def __init__(self, array: Any, device: tuple[int, int] = (2, 0)) -> None:
        self.memory = array
        self.device, self.asked = device, dict[str, Any]()
        self.dtype, self.ndim, self.shape = f"torch.{array.dtype.name}", array.ndim, array.shape

    def __len__(self) -> int:
        return len(self.memory)

    def size(self) -> tuple[int, ...]:
        return self.shape

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        self.asked = options
        if not isinstance(self.memory, np.ndarray):
            return self.memory.__dlpack__(**options)
        version = {} if self.memory.flags.writeable else {"max_version": (1, 0)}  # which has a word for read-only
        return self.memory.__dlpack__(**version)


class Copied(Tensor):
    def cpu(self) -> Tensor:
        return Tensor(on_host(self.memory), (1, 0))


class NumbaArray:
    """Like Numba's: NumPy's dtype, the CUDA array interface alone."""

    def __init__(self, array: Any) -> None:
        self.memory = array
        self.dtype, self.ndim, self.shape, self.size = array.dtype, array.ndim, array.shape, array.size

    def __len__(self) -> int:
        return len(self.memory)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not isinstance(self.memory, np.ndarray):
            return {**self.memory.__cuda_array_interface__}
        return {**self.memory.__array_interface__, "version": 3, "stream": None}

    def copy_to_host(self) -> np.ndarray:
        return on_host(self.memory).copy()


LIBRARIES: dict[str, Callable[[CudaBackend, np.ndarray], Any]] = {
    "NumPy": lambda ops, array: array,
    "CuPy": device_array,
    "DLPack": lambda ops, array: Tensor(memory_of(ops, array)),
    "DLPack of the host": lambda ops, array: Tensor(array, (1, 0)),
    "CUDA array interface": lambda ops, array: NumbaArray(memory_of(ops, array)),
}
ON_DEVICES = ["CuPy", "DLPack", "CUDA array interface"]


@DEFAULT_CUT
@pytest.mark.parametrize("library", [Tensor, NumbaArray])
def test_device_memory_is_used_in_place(cuda: CudaBackend, library: Any) -> None:
    given = library(memory_of(cuda, np.arange(6, dtype=np.uint64).reshape(2, 3)))
    found = cuda.asarray(given)
    assert isinstance(found, cuda.arrays.ndarray) and address(found) == address(given.memory)
    assert found.dtype == np.uint64 and found.shape == (2, 3)
    if library is Tensor:
        assert given.asked["stream"] == 1, "the producer must know which stream waits"


@HOST_DEFAULT
def test_a_device_buffer_waits_for_its_event(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []
    cuda_module = cuda.arrays.cuda
    wait = lambda *given: waited.append(given)  # noqa: E731
    monkeypatch.setattr(cuda_module.runtime, "streamWaitEvent", wait, raising=False)
    monkeypatch.setattr(cuda_module, "get_current_stream", lambda: SimpleNamespace(ptr=7))
    memory = np.arange(4, dtype=np.uint8)
    found = cuda.asarray(DeviceBuffer(memory.ctypes.data, 4, memory, event=9))
    assert waited == [(7, 9)] and found.get().tolist() == [0, 1, 2, 3]
    assert len(cuda.asarray(DeviceBuffer(0, 0, None))) == 0


@DEFAULT_CUT
@pytest.mark.parametrize("ops", [CpuBackend(1), ReferenceBackend()], ids=lambda ops: ops.name)
def test_host_backends_copy_device_arrays(cuda: CudaBackend, ops: Any) -> None:
    tensor = Tensor(np.arange(5), (1, 0))
    assert address(ops.asarray(tensor)) == tensor.memory.ctypes.data, "host memory is not copied"
    there = memory_of(cuda, np.arange(3))
    for given in (device_array(cuda, np.arange(3)), NumbaArray(there), Copied(there)):
        assert ops.asarray(given).tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match=r"cannot be copied from its device .*; give it as a CuPy or NumPy array"):
        ops.asarray(Tensor(there))


@DEFAULT_CUT
def test_public_classes_take_foreign_arrays(cuda: CudaBackend) -> None:
    host = gpulsh.Signatures(Tensor(np.ones((2, 3), np.uint32), (1, 0)))
    assert isinstance(host.values, np.ndarray) and host.dtype == np.uint32
    device = gpulsh.Signatures(Tensor(memory_of(cuda, np.ones((2, 3), np.uint32))))
    assert device.dtype == np.uint32 and device.shape == (2, 3) and len(device) == 2
    assert device.__dlpack_device__() == (2, 0)
    numba = gpulsh.BandDigests(NumbaArray(memory_of(cuda, np.ones((2, 3), np.uint64))))
    assert numba.__cuda_array_interface__["shape"] == (2, 3) and np.asarray(numba).sum() == 6
    with pytest.raises(
        ParameterError, match=r"Signatures.values is a 2-dimensional array of torch.int32; give a 2-dimensional array"
    ):
        gpulsh.Signatures(Tensor(memory_of(cuda, np.ones((2, 3), np.int32))))
    with pytest.raises(ParameterError, match=r"Fingerprints.values is of type list"):
        gpulsh.Fingerprints([1], [0, 1])


@HOST_DEFAULT  # CuPy has no such types
@pytest.mark.parametrize("library", ["NumPy", "CuPy", "CUDA array interface"])  # nor has DLPack
def test_wrong_dtypes_are_refused(cuda: CudaBackend, library: str) -> None:
    make = partial(LIBRARIES[library], cuda)
    with pytest.raises(
        ParameterError, match=r"Signatures.values is a 2-dimensional array of >u4; give a 2-dimensional array of uint32"
    ):
        gpulsh.Signatures(make(np.ones((2, 3), ">u4")))
    with pytest.raises(
        ParameterError, match=r"TextBatch.offset is a 1-dimensional array of >i8; give a 1-dimensional array of int64"
    ):
        gpulsh.TextBatch(make(np.zeros(4, np.uint8)), make(np.array([0, 4], ">i8")))
    with pytest.raises(ParameterError, match=r"Fingerprints.values is a 1-dimensional array of uint32"):
        gpulsh.Fingerprints(make(np.zeros(4, np.uint32)), make(np.array([0, 4])))


@DEFAULT_CUT
@pytest.mark.parametrize("offset", [[0, 3, 2], [-1, 0, 2], [0, 1, 9]])
def test_device_offsets_are_checked_on_use(selected: CudaBackend, offset: list[int]) -> None:
    values, rows = (device_array(selected, array) for array in (np.zeros(4, np.uint64), np.array(offset)))
    with pytest.raises(ParameterError, match=r"Fingerprints.offset does not ascend within \[0, 4\]"):
        gpulsh.MinHash()(gpulsh.Fingerprints(values, rows), backend="cuda")
    text = gpulsh.TextBatch(device_array(selected, np.zeros(4, np.uint8)), rows)
    with pytest.raises(ParameterError, match=r"TextBatch.offset does not ascend within \[0, 4\]"):
        gpulsh.shingle(text, backend="cuda")


def test_torch_tensors_on_the_host_are_not_copied() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.arange(8, dtype=torch.uint8)
    batch = TextBatch(values, torch.tensor([0, 3, 8]))
    assert address(batch.values) == values.data_ptr()
    assert arrays.on_host(values).tolist() == list(range(8))


@DEVICE_DEFAULT
def test_torch_tensors_of_a_side_stream_are_waited_for(selected: CudaBackend) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    wanted, plain = laid_batch(lambda array: array), torch.zeros
    with torch.cuda.stream(torch.cuda.Stream()):  # which waits for no other stream, and no other for it
        values = plain(len(wanted.values), dtype=torch.uint8, device="cuda")
        offset = plain(len(wanted.offset), dtype=torch.int64, device="cuda")
        torch.cuda._sleep(200_000_000)
        values.copy_(torch.from_numpy(wanted.values.copy()), non_blocking=True)
        offset.copy_(torch.from_numpy(wanted.offset.copy()), non_blocking=True)
        assert_decisions(gpulsh.deduplicate(TextBatch(values, offset), backend="cuda"), wanted_decision())


@DEVICE_DEFAULT
def test_unfinished_jax_arrays_are_waited_for(selected: CudaBackend) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    if not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("jax sees no CUDA device")
    wanted = laid_batch(lambda array: array)
    enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64  # its place until 0.8
    with enable_x64(True):

        @jax.jit
        def late(array: Any) -> Any:  # the same, after some work on JAX's own stream
            work = jax.lax.fori_loop(0, 200, lambda _, matrix: matrix @ matrix / 2048, jax.numpy.ones((2048, 2048)))
            return array + (work.sum() < 0).astype(array.dtype)

        batch = TextBatch(late(jax.numpy.asarray(wanted.values)), late(jax.numpy.asarray(wanted.offset)))
        assert_decisions(gpulsh.deduplicate(batch, backend="cuda"), wanted_decision())


# --- layouts

Layout = Callable[[np.ndarray], np.ndarray]


def every_other(array: np.ndarray) -> np.ndarray:
    wide = np.full((2 * len(array) + 1, *array.shape[1:]), 0x5A, array.dtype)
    wide[1::2] = array
    return wide[1::2]


def column_of_a_table(array: np.ndarray) -> np.ndarray:
    table = np.full((*array.shape, 3), 0x5A, array.dtype)
    table[..., 1] = array
    return table[..., 1]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS: dict[str, Layout] = {
    "every other": every_other,
    "column of a table": column_of_a_table,
    "backwards": lambda array: array[::-1].copy()[::-1],
    "read-only": read_only,
    "fortran": np.asfortranarray,
    "part of each row": lambda array: np.concatenate((array, array), axis=-1)[..., : array.shape[-1]],
}
# Each library, and each layout, in few runs.
PAIRED = list(zip([*LIBRARIES, "CuPy"], LAYOUTS, strict=True))


def steps(lay: Callable[[np.ndarray], Any], backend: Any) -> tuple[Any, ...]:
    """The results of each public call on arrays in the layout that `lay` gives."""
    text = gpulsh.shingle(texts(12), backend="reference")
    fingerprints = gpulsh.Fingerprints(lay(text.values), lay(text.offset))
    minhash, banding = gpulsh.MinHash(num_perm=16), gpulsh.Banding(bands=8, rows=2)
    plain = gpulsh.MinHash(num_perm=16)(text, backend="reference")
    signatures = gpulsh.Signatures(lay(np.asarray(plain)))
    digests = gpulsh.BandDigests(lay(np.asarray(banding(plain, backend="reference"))))
    rows = np.asarray(gpulsh.candidate_pairs(banding(plain, backend="reference"), backend="reference"))
    found = [minhash(fingerprints, backend=backend), banding(signatures, backend=backend)]
    found += [gpulsh.candidate_pairs(digests, backend=backend)]
    found += [gpulsh.jaccard(sketches, lay(rows), backend=backend) for sketches in (fingerprints, signatures)]
    found += [gpulsh.containment(fingerprints, lay(rows), backend=backend)]
    return tuple(map(on_host, found))


@cache
def wanted_steps() -> tuple[Any, ...]:
    return steps(lambda array: array, "reference")


@cache
def wanted_decision() -> gpulsh.Decision:
    return gpulsh.deduplicate([text or "" for text in texts(12)], backend="reference")


def laid_batch(lay: Callable[[np.ndarray], Any]) -> TextBatch:
    rows = [(text or "").encode() for text in texts(12)]
    offset = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return TextBatch(lay(np.frombuffer(b"".join(rows), np.uint8).copy()), lay(offset))


@DEFAULT_CUT
@pytest.mark.parametrize(("library", "layout"), PAIRED)
def test_every_layout_gives_the_same_results_on_the_device(selected: CudaBackend, library: str, layout: str) -> None:
    def lay(array: np.ndarray) -> Any:
        return LIBRARIES[library](selected, LAYOUTS[layout](array))

    same(steps(lay, "cuda"), wanted_steps())
    batch = laid_batch(lay)
    assert_decisions(gpulsh.deduplicate(batch, backend="cuda"), wanted_decision())
    shingles, plain = gpulsh.shingle(batch, backend="cuda"), gpulsh.shingle(texts(12), backend="reference")
    np.testing.assert_array_equal(on_host(shingles.values), plain.values)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_every_layout_gives_the_same_results_on_the_host(backend: Any) -> None:
    for layout in LAYOUTS.values():
        same(steps(layout, backend), wanted_steps())
    for layout in (every_other, read_only):
        assert_decisions(gpulsh.deduplicate(laid_batch(layout), backend=backend), wanted_decision())


# --- two devices


@pytest.fixture
def second_device() -> Iterator[CudaBackend]:
    """A backend on the second of two devices."""
    yield CudaBackend(Shared(DeviceModule(devices=2), HostLauncher()), devices=[1])
    PLACES.clear()


def array_on_first(library: str, array: np.ndarray, device: int = 0) -> Any:
    if library == "DLPack":
        return Tensor(array, (2, device))
    made = DeviceArray(array) if library == "CuPy" else NumbaArray(array)
    if library == "CuPy":
        made.number = device
    else:
        put(array, device)
    return made


@HOST_DEFAULT
@pytest.mark.parametrize("library", ON_DEVICES)
def test_arrays_of_another_device_are_moved(
    cuda: CudaBackend, second_device: CudaBackend, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    wanted = np.arange(20, dtype=np.uint64).reshape(4, 5)
    for layout in LAYOUTS.values():
        given = array_on_first(library, layout(wanted))
        found = second_device.asarray(given)
        assert found.number == 1 and found.flags.c_contiguous
        del given  # the copy does not depend on it
        with second_device.use_device():
            np.testing.assert_array_equal(second_device.asnumpy(found), wanted)
    install(monkeypatch, second_device)
    lay = {"CuPy": every_other, "DLPack": read_only, "CUDA array interface": column_of_a_table}[library]
    with second_device.use_device():
        same(steps(lambda array: array_on_first(library, lay(array)), "cuda"), wanted_steps())
    batch = laid_batch(lambda array: array_on_first(library, lay(array)))
    decided = gpulsh.deduplicate(batch, backend="cuda", devices=[1])
    assert_decisions(decided, wanted_decision())
    assert repr(decided) == repr(wanted_decision()) and decided._repr_html_() == wanted_decision()._repr_html_()
    if library != "CuPy":
        with pytest.raises(BackendError, match="is on CUDA device 2; this process sees 2, numbered from 0; copy it"):
            second_device.asarray(array_on_first(library, np.arange(3), device=2))


@HOST_DEFAULT
def test_a_slice_of_an_arrow_column_is_moved_alone(cuda: CudaBackend, second_device: CudaBackend) -> None:
    whole = pa.array([None, "before" * 100, *(text for text in texts(40)), "after"], pa.string())
    for array in (whole, whole[2:], whole[20:23], whole[5:5], whole.cast(pa.large_string())[11:]):
        for buffer in array.buffers():
            put(np.frombuffer(buffer, np.uint8), 0)
        with counted_transfers() as crossed:
            opened = open_texts(DeviceBytes(second_device, array), second_device)
            rows = [row for batch in opened.batches(500) for row in documents(batch)]
        plain = [(text or "").encode() for text in array.to_pylist()]
        assert rows == plain
        copied = [one.items for one in crossed if one.to_host is None and one.dtype == np.uint8]
        assert max(copied, default=0) <= sum(map(len, plain)) + len(plain), "a slice dragged its column along"
