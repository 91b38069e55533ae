"""Arrays of every layout through the public door: strides, Fortran's order, both directions, read-only, other devices.

The host launcher refuses a kernel what is not contiguous, as a device, which sees a pointer alone, could not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpulsh
from gpulsh.backends.cuda import CudaBackend
from gpulsh.errors import BackendError, ParameterError
from tests.kernels.cuts import WHERE
from tests.kernels.device_arrays import PLACES, DeviceArray, DeviceModule
from tests.kernels.host import HostLauncher
from tests.kernels.test_device_texts import DECISIONS, DeviceBytes
from tests.kernels.test_foreign import NumbaArray, Tensor
from tests.kernels.test_pipeline import selected, texts

__all__ = ["selected"]

ON_HOST = [where for where in WHERE if where == "host-default"]
pytestmark = [pytest.mark.kernels, pytest.mark.parametrize("cuda", ON_HOST, indirect=True)]

Layout = Callable[[np.ndarray], np.ndarray]


def every_other(array: np.ndarray) -> np.ndarray:
    wide = np.full((2 * len(array) + 1, *array.shape[1:]), 0x5A, array.dtype)
    wide[1::2] = array
    return wide[1::2]


def column_of_a_table(array: np.ndarray) -> np.ndarray:
    table = np.full((*array.shape, 3), 0x5A, array.dtype)
    table[..., 1] = array
    return table[..., 1]


def backwards(array: np.ndarray) -> np.ndarray:
    return array[::-1].copy()[::-1]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS: dict[str, Layout] = {
    "every other": every_other,
    "column of a table": column_of_a_table,
    "backwards": backwards,
    "read-only": read_only,
    "fortran": np.asfortranarray,
    "part of each row": lambda array: np.concatenate((array, array), axis=-1)[..., : array.shape[-1]],
}


class StridedTensor(Tensor):
    """A tensor that hands out its memory as it lies."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (2, 0)) -> None:
        super().__init__(array, device)
        self.memory = array

    def __dlpack__(self, **options: Any) -> Any:
        version = {} if self.memory.flags.writeable else {"max_version": (1, 0)}  # which has a word for read-only
        return self.memory.__dlpack__(**version)


class StridedNumbaArray(NumbaArray):
    def __init__(self, array: np.ndarray) -> None:
        super().__init__(array)
        self.memory = array


LIBRARIES: dict[str, Callable[[np.ndarray], Any]] = {
    "NumPy": lambda array: array,
    "CuPy": DeviceArray,
    "DLPack": StridedTensor,
    "CUDA array interface": StridedNumbaArray,
}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Layout:
    return LAYOUTS[request.param]


def steps(lay: Callable[[np.ndarray], Any], backend: Any) -> list[Any]:
    """What each public call gives for arrays that `lay` lays out."""
    text = gpulsh.shingle(texts(25), backend="reference")
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
    return [np.asarray(array.get() if hasattr(array, "get") else array) for array in found]


def laid_batch(lay: Callable[[np.ndarray], Any], documents: list[str | None]) -> gpulsh.TextBatch:
    rows = [(text or "").encode() for text in documents]
    offset = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return gpulsh.TextBatch(lay(np.frombuffer(b"".join(rows), np.uint8).copy()), lay(offset))


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_single_steps(selected: CudaBackend, library: str, layout: Layout) -> None:
    wanted = steps(lambda array: array, "reference")
    for one, other in zip(steps(lambda array: LIBRARIES[library](layout(array)), "cuda"), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_single_steps_on_the_host(cuda: CudaBackend, backend: str, layout: Layout) -> None:
    for one, other in zip(steps(layout, backend), steps(lambda array: array, "reference"), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("library", LIBRARIES)
def test_texts(selected: CudaBackend, library: str, layout: Layout) -> None:
    documents = texts(25)
    batch = laid_batch(lambda array: LIBRARIES[library](layout(array)), documents)
    wanted = gpulsh.deduplicate([text or "" for text in documents], backend="reference")
    found = gpulsh.deduplicate(batch, backend="cuda")
    for name in DECISIONS:
        np.testing.assert_array_equal(selected.asnumpy(getattr(found, name)), getattr(wanted, name), err_msg=name)
    shingles, plain = gpulsh.shingle(batch, backend="cuda"), gpulsh.shingle(documents, backend="reference")
    np.testing.assert_array_equal(shingles.values.get(), plain.values)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_texts_on_the_host(cuda: CudaBackend, backend: Any, layout: Layout) -> None:
    documents = texts(25)
    wanted = gpulsh.deduplicate([text or "" for text in documents], backend="reference")
    found = gpulsh.deduplicate(laid_batch(layout, documents), backend=backend)
    for name in DECISIONS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)


@pytest.mark.parametrize("library", [library for library in LIBRARIES if library != "DLPack"])  # it has no such types
def test_other_types_are_refused(cuda: CudaBackend, library: str) -> None:
    make = LIBRARIES[library]
    with pytest.raises(ParameterError, match=r"Signatures.values is >u4 with 2 dimensions; give an array of uint32"):
        gpulsh.Signatures(make(np.ones((2, 3), ">u4")))
    with pytest.raises(ParameterError, match=r"TextBatch.offset is >i8 with 1 dimensions; give an array of int64"):
        gpulsh.TextBatch(make(np.zeros(4, np.uint8)), make(np.array([0, 4], ">i8")))
    with pytest.raises(ParameterError, match=r"Fingerprints.values is uint32 with 1 dimensions"):
        gpulsh.Fingerprints(make(np.zeros(4, np.uint32)), make(np.array([0, 4])))


# Two devices.


@pytest.fixture
def second() -> Iterator[CudaBackend]:
    """A backend on the second of two devices."""
    yield CudaBackend(DeviceModule(devices=2), HostLauncher(), devices=[1])
    PLACES.clear()


def on_first(library: str, array: np.ndarray, device: int = 0) -> Any:
    """An array of a library in the memory of a device."""
    if library == "DLPack":
        return StridedTensor(array, (2, device))
    made = LIBRARIES[library](array)
    if library == "CuPy":
        made.number = device
    else:
        PLACES.put(array, device)
    return made


ON_DEVICES = ["CuPy", "DLPack", "CUDA array interface"]


@pytest.mark.parametrize("library", ON_DEVICES)
def test_what_lies_on_another_device_is_moved(
    cuda: CudaBackend, second: CudaBackend, library: str, layout: Layout
) -> None:
    wanted = np.arange(20, dtype=np.uint64).reshape(4, 5)
    given = on_first(library, layout(wanted))
    found = second.asarray(given)
    assert found.number == 1 and found.flags.c_contiguous
    with second.here():
        np.testing.assert_array_equal(second.asnumpy(found), wanted)
    del given  # and with it what it was copied from
    with second.here():
        np.testing.assert_array_equal(second.asnumpy(found), wanted)


@pytest.mark.parametrize("library", ON_DEVICES)
@pytest.mark.parametrize("lay", ["every other", "read-only"])
def test_steps_with_arrays_of_another_device(
    selected: CudaBackend, second: CudaBackend, monkeypatch: pytest.MonkeyPatch, library: str, lay: str
) -> None:
    for name, value in vars(second).items():
        monkeypatch.setattr(selected, name, value)
    wanted = steps(lambda array: array, "reference")
    with second.here():
        found = steps(lambda array: on_first(library, LAYOUTS[lay](array)), "cuda")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("library", ON_DEVICES)
def test_texts_of_another_device(
    cuda: CudaBackend, second: CudaBackend, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    documents = texts(25)
    wanted = gpulsh.deduplicate([text or "" for text in documents], backend="reference")
    monkeypatch.setattr("gpulsh.run.memory.select_backend", lambda *_, **__: second)
    batch = laid_batch(lambda array: on_first(library, column_of_a_table(array)), documents)
    found = gpulsh.deduplicate(batch, backend="cuda", devices=[1])
    for name in DECISIONS:
        np.testing.assert_array_equal(second.asnumpy(getattr(found, name)), getattr(wanted, name), err_msg=name)


def test_an_arrow_column_of_another_device(
    cuda: CudaBackend, second: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpulsh.io.memory.texts import open_texts
    from tests.kernels.test_device_texts import documents

    whole = pa.array([None, "before" * 100, *(text for text in texts(40)), "after"], pa.string())
    copied: list[int] = []
    asarray = DeviceModule.asarray

    def counting(self: DeviceModule, array: Any) -> Any:
        if isinstance(array, DeviceArray) and array.dtype == np.uint8:
            copied.append(array.size)
        return asarray(self, array)

    for array in (whole, whole[2:], whole[20:23], whole[5:5], whole.cast(pa.large_string())[11:]):
        copied.clear()
        for buffer in array.buffers():
            PLACES.put(np.frombuffer(buffer, np.uint8), 0)
        with monkeypatch.context() as patch:
            patch.setattr(DeviceModule, "asarray", counting)
            opened = open_texts(DeviceBytes(array), second)
            rows = [row for batch in opened.batches(500) for row in documents(batch)]
        plain = [(text or "").encode() for text in array.to_pylist()]
        assert rows == plain
        assert max(copied, default=0) <= sum(map(len, plain)) + len(plain), "a slice dragged its column along"


@pytest.mark.parametrize("library", ["DLPack", "CUDA array interface"])
def test_a_device_that_is_not_seen_is_named(cuda: CudaBackend, second: CudaBackend, library: str) -> None:
    with pytest.raises(BackendError, match="lies on CUDA device 2; this process sees 2, numbered from 0; copy it"):
        second.asarray(on_first(library, np.arange(3), device=2))
