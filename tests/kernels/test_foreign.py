"""Arrays of other libraries in: on the host as NumPy takes them, on a device without a copy, and none by accident."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import TextBatch, on_host
from gpulsh.backends.buffer import DeviceBuffer
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import ParameterError
from tests.kernels.cuts import WHERE
from tests.kernels.device_arrays import DeviceArray
from tests.kernels.test_pipeline import selected, texts

__all__ = ["selected"]

ON_HOST = [where for where in WHERE if where == "host-default"]
pytestmark = [pytest.mark.kernels, pytest.mark.parametrize("cuda", ON_HOST, indirect=True)]


class Tensor:
    """As torch's: a dtype of its own kind, DLPack, no CUDA array interface on the host, no hidden copy."""

    class DType:
        def __init__(self, name: str) -> None:
            self._name = name

        def __str__(self) -> str:
            return f"torch.{self._name}"

    def __init__(self, array: Any, device: tuple[int, int] = (2, 0)) -> None:
        self.memory = np.ascontiguousarray(array)
        self.device, self.asked = device, dict[str, Any]()
        self.dtype, self.ndim, self.shape = self.DType(self.memory.dtype.name), self.memory.ndim, self.memory.shape

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
        return self.memory.__dlpack__()


class Copied(Tensor):
    def cpu(self) -> Tensor:
        return Tensor(self.memory, (1, 0))


class NumbaArray:
    """As Numba's: NumPy's dtype, the CUDA array interface alone."""

    def __init__(self, array: Any) -> None:
        self.memory = np.ascontiguousarray(array)
        self.dtype, self.ndim, self.shape, self.size = (
            *(self.memory.dtype, self.memory.ndim, self.memory.shape),
            self.memory.size,
        )

    def __len__(self) -> int:
        return len(self.memory)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.memory.__array_interface__, "version": 3, "stream": None}

    def copy_to_host(self) -> np.ndarray:
        return self.memory.copy()


def address(array: Any) -> int:
    return int((array.host if isinstance(array, DeviceArray) else array).ctypes.data)


@pytest.mark.parametrize("library", [Tensor, NumbaArray])
def test_device_memory_is_used_where_it_lies(cuda: CudaBackend, library: Any) -> None:
    given = library(np.arange(6, dtype=np.uint64).reshape(2, 3))
    found = cuda.asarray(given)
    assert isinstance(found, DeviceArray) and address(found) == given.memory.ctypes.data
    assert found.dtype == np.uint64 and found.shape == (2, 3)
    if library is Tensor:
        assert given.asked["stream"] == 1, "the producer is told which stream waits"


def test_host_memory_of_another_library_is_copied_to_the_device(cuda: CudaBackend) -> None:
    found = cuda.asarray(Tensor(np.arange(5), (1, 0)))
    assert isinstance(found, DeviceArray) and found.get().tolist() == [0, 1, 2, 3, 4]


def test_a_buffer_waits_for_its_event(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    cuda_module = cuda._machine.arrays.cuda
    wait = lambda *given: waited.append(given)  # noqa: E731
    monkeypatch.setattr(cuda_module.runtime, "streamWaitEvent", wait, raising=False)
    monkeypatch.setattr(cuda_module, "get_current_stream", lambda: SimpleNamespace(ptr=7))
    memory = np.arange(4, dtype=np.uint8)
    found = cuda.asarray(DeviceBuffer(memory.ctypes.data, 4, memory, event=9))
    assert waited == [(7, 9)] and found.get().tolist() == [0, 1, 2, 3]
    assert len(cuda.asarray(DeviceBuffer(0, 0, None))) == 0


@pytest.mark.parametrize("ops", [CpuBackend(1), ReferenceBackend()], ids=lambda ops: ops.name)
def test_on_the_host(cuda: CudaBackend, ops: Any) -> None:
    tensor = Tensor(np.arange(5), (1, 0))
    assert address(ops.asarray(tensor)) == tensor.memory.ctypes.data, "host memory is not copied"
    assert ops.asarray(DeviceArray(np.arange(3))).tolist() == [0, 1, 2]
    assert ops.asarray(NumbaArray(np.arange(3))).tolist() == [0, 1, 2]
    assert ops.asarray(Copied(np.arange(3))).tolist() == [0, 1, 2]
    with pytest.raises(ParameterError, match=r"cannot be copied from its device .*; give it as a CuPy or NumPy array"):
        ops.asarray(Tensor(np.arange(3)))


@pytest.mark.parametrize("library", [Tensor, NumbaArray, DeviceArray, lambda array: Tensor(array, (1, 0))])
def test_the_single_steps_take_them(selected: CudaBackend, library: Any) -> None:
    wanted = gpulsh.shingle(texts(20), backend="reference")
    fingerprints = gpulsh.Fingerprints(library(wanted.values), library(wanted.offset))
    signatures = gpulsh.MinHash(num_perm=16)(fingerprints, backend="cuda")
    np.testing.assert_array_equal(signatures, gpulsh.MinHash(num_perm=16)(wanted, backend="reference"))
    digests = gpulsh.Banding(bands=8, rows=2)(gpulsh.Signatures(library(np.asarray(signatures))), backend="cuda")
    pairs = gpulsh.candidate_pairs(gpulsh.BandDigests(library(np.asarray(digests))), backend="cuda")
    rows = library(pairs.get())
    for sketches, plain in [(fingerprints, wanted), (signatures, gpulsh.Signatures(np.asarray(signatures)))]:
        found = gpulsh.jaccard(sketches, rows, backend="cuda")
        np.testing.assert_array_equal(found.get(), gpulsh.jaccard(plain, pairs.get(), backend="reference"))
    found = gpulsh.containment(fingerprints, rows, backend="cuda")
    np.testing.assert_array_equal(found.get(), gpulsh.containment(wanted, pairs.get(), backend="reference"))


def test_classes_of_foreign_arrays(cuda: CudaBackend) -> None:
    host = gpulsh.Signatures(Tensor(np.ones((2, 3), np.uint32), (1, 0)))
    assert isinstance(host.values, np.ndarray) and host.dtype == np.uint32
    device = gpulsh.Signatures(Tensor(np.ones((2, 3), np.uint32)))
    assert device.dtype == np.uint32 and device.shape == (2, 3) and len(device) == 2
    assert device.__dlpack_device__() == (2, 0)
    numba = gpulsh.BandDigests(NumbaArray(np.ones((2, 3), np.uint64)))
    assert numba.__cuda_array_interface__["shape"] == (2, 3) and np.asarray(numba).sum() == 6
    with pytest.raises(ParameterError, match=r"Signatures.values is torch.int32 with 2 dimensions; give an array of"):
        gpulsh.Signatures(Tensor(np.ones((2, 3), np.int32)))
    with pytest.raises(ParameterError, match=r"Fingerprints.values is list with no dimensions"):
        gpulsh.Fingerprints([1], [0, 1])


@pytest.mark.parametrize("offset", [[0, 3, 2], [-1, 0, 2], [0, 1, 9]])
def test_offsets_on_the_device_are_checked_where_they_are_used(selected: CudaBackend, offset: list[int]) -> None:
    values, rows = DeviceArray(np.zeros(4, np.uint64)), DeviceArray(np.array(offset))
    with pytest.raises(ParameterError, match=r"Fingerprints.offset does not ascend within \[0, 4\]"):
        gpulsh.MinHash()(gpulsh.Fingerprints(values, rows), backend="cuda")
    text = gpulsh.TextBatch(DeviceArray(np.zeros(4, np.uint8)), rows)
    with pytest.raises(ParameterError, match=r"TextBatch.offset does not ascend within \[0, 4\]"):
        gpulsh.shingle(text, backend="cuda")


def test_torch_tensors_of_the_host(cuda: CudaBackend) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.arange(8, dtype=torch.uint8)
    batch = TextBatch(values, torch.tensor([0, 3, 8]))
    assert address(batch.values) == values.data_ptr()
    assert on_host(values).tolist() == list(range(8))
