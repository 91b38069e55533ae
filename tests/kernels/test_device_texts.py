"""Texts on the device: TextBatch, cuDF's columns, the Arrow device interface. No text passes through the host."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsh
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.protocol import DeviceBuffer
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import BackendError, InputTypeError
from gpulsh.io.memory.device import device_column
from gpulsh.io.memory.texts import open_texts
from tests.kernels.cuts import DEFAULT_CUT, HOST_DEFAULT, address, assert_decisions, device_array, memory_of, texts
from tests.kernels.device_arrays import DeviceArray, DeviceModule, counted_transfers

pytestmark = pytest.mark.kernels

TEXTS = ["a", "é" * 10, None, "x" * 40, "", "w" * 5, "日本語😀\0", None, "exactly 12 b"]


class TypeId(IntEnum):
    INT32, INT64, STRING = 3, 4, 23


class Span:
    """An Arrow buffer in device memory, as pylibcudf returns it."""

    def __init__(self, ops: CudaBackend, buffer: pa.Buffer) -> None:
        self.owner = memory_of(ops, np.frombuffer(buffer, np.uint8))
        self.ptr, self.size = address(self.owner), 0  # a slice's size is not to be trusted


class Column:
    """The part of pylibcudf 26.10's Column that the library uses."""

    def __init__(
        self, kind: TypeId, size: int = 1, data: Any = None, mask: Any = None, nulls: int = 0, offset: int = 0, *of: Any
    ) -> None:
        self.type = lambda: SimpleNamespace(id=lambda: kind)
        self.size, self.offset, self.null_count = (lambda: size), (lambda: offset), (lambda: nulls)
        self.data, self.null_mask = (lambda: data), (lambda: mask)
        self.child = lambda index: of[index]


def column(ops: CudaBackend, array: pa.Array, skip: int = 0) -> Column:
    """An Arrow column of strings as libcudf would hold it, `skip` more offsets in front of its child's."""
    wide = pa.types.is_large_string(array.type)
    mask, offsets, data = (None if buffer is None else Span(ops, buffer) for buffer in array.buffers())
    if skip and offsets is not None:
        offsets.ptr -= skip * (8 if wide else 4)
    children = [Column(TypeId.INT64 if wide else TypeId.INT32, 0, offsets, offset=skip)] if len(array) else []
    return Column(TypeId.STRING, len(array), data, mask, array.null_count, array.offset, *children)


class Series:
    """A `cudf.Series` of strings; every way to the host fails the test."""

    __module__ = "cudf.core.series"

    def __init__(self, ops: CudaBackend, array: pa.Array, dtype: str = "str") -> None:
        self._ops, self._array, self.dtype, self.ndim = ops, array, dtype, 1

    def __len__(self) -> int:
        return len(self._array)

    def to_pylibcudf(self) -> tuple[Column, dict[str, Any]]:
        assert self.dtype != "category", "its buffers are codes"
        return column(self._ops, self._array), {"name": None}

    def astype(self, dtype: str) -> Series:
        return Series(self._ops, self._array, dtype)

    def to_arrow(self) -> Any:
        raise AssertionError("the text came to the host")

    iloc = property(to_arrow)
    __array__ = to_arrow


class DeviceBytes:
    """A pyarrow array on a CUDA device."""

    def __init__(self, ops: CudaBackend, array: pa.Array) -> None:
        self._ops, self._array, self._spans = ops, array, list[Span]()

    def __arrow_c_device_array__(self, requested: Any = None, **_: Any) -> Any:
        capsules = self._array.__arrow_c_device_array__()
        there = device_column(SimpleNamespace(__arrow_c_device_array__=lambda: capsules)).array
        there.device_type = 2
        for number, buffer in enumerate(self._array.buffers()):
            if buffer is not None:
                self._spans.append(Span(self._ops, buffer))
                there.array.buffers[number] = self._spans[-1].ptr
        return capsules


def batch_of(ops: CudaBackend, array: pa.Array) -> gpulsh.TextBatch:
    rows = [(text or "").encode() for text in array.to_pylist()]
    offset = 3 + np.cumsum([0, *map(len, rows)], dtype=np.int64)
    values = np.frombuffer(b"\xff\xff\xff" + b"".join(rows) + b"\xff", np.uint8)
    return gpulsh.TextBatch(device_array(ops, values), device_array(ops, offset))


KINDS: dict[str, Callable[[CudaBackend, pa.Array], Any]] = {
    "TextBatch": batch_of,
    "Series": Series,
    "Series of large strings": lambda ops, array: Series(ops, array.cast(pa.large_string())),
    "Series of categories": lambda ops, array: Series(ops, array, "category"),
    "Arrow": DeviceBytes,
    "Arrow large": lambda ops, array: DeviceBytes(ops, array.cast(pa.large_string())),
    "Arrow binary": lambda ops, array: DeviceBytes(ops, array.cast(pa.binary())),
}


def documents(batch: gpulsh.TextBatch) -> list[bytes]:
    assert not isinstance(batch.values, np.ndarray) and not isinstance(batch.offset, np.ndarray)
    offset = batch.offset.get().tolist()
    return [batch.values.get()[start:stop].tobytes() for start, stop in pairwise(offset)]


def check(ops: CudaBackend, given: Any, wanted: list[str | None], max_bytes: int, *, nulls: bool = True) -> None:
    found = open_texts(given, ops)
    plain = [(text or "").encode() for text in wanted]
    assert len(found) == len(plain)
    batches = [documents(batch) for batch in found.batches(max_bytes)]
    assert [document for batch in batches for document in batch] == plain
    assert all(len(batch) == 1 or sum(map(len, batch)) <= max_bytes for batch in batches)
    assert found.nulls() == (wanted.count(None) if nulls else 0)
    places = np.array([place for place in (4, 0, 0, 1) if place < (len(plain) + 1) // 2], np.int64)
    chosen = found.choose(np.arange(len(plain))[::2])
    assert chosen.sizes.tolist() == [len(document) for document in plain[::2]]
    assert documents(chosen.take(places)) == [plain[::2][place] for place in places]
    on_device = found.choose(device_array(ops, np.arange(len(plain))[::2].copy()))
    assert on_device.sizes.get().tolist() == chosen.sizes.tolist()
    assert documents(on_device.take(device_array(ops, places))) == documents(chosen.take(places))


@DEFAULT_CUT
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_device_texts_are_read_alike(cuda: CudaBackend, kind: str) -> None:
    whole = pa.array(["before" * 3, None, *TEXTS, "after"])
    cases = [(pa.array(TEXTS), TEXTS), (whole[2:-1], TEXTS), (whole[9:9], []), (pa.array([], pa.string()), [])]
    cases += [(pa.array([""] * 3), [""] * 3), (pa.array([None, None]), [None, None]), (whole[:1], ["before" * 3])]
    for max_bytes in (1, 30, 1 << 20):
        for array, wanted in cases:
            check(cuda, KINDS[kind](cuda, array.cast(pa.string())), wanted, max_bytes, nulls=kind != "TextBatch")


rows = st.lists(st.one_of(st.none(), st.text(max_size=9), st.sampled_from(["x" * 33, "語" * 11, ""])), max_size=40)


@DEFAULT_CUT
@settings(max_examples=20)
@given(
    rows, st.integers(0, 9), st.integers(0, 3), st.sampled_from([1, 20, 4096]), st.sampled_from([Series, DeviceBytes])
)
def test_slices_with_nulls_are_read(
    cuda: CudaBackend, given: list[str | None], start: int, less: int, max_bytes: int, kind: Any
) -> None:
    part = slice(start, max(len(given) - less, start))
    check(cuda, kind(cuda, pa.array(given, pa.string())[part]), given[part], max_bytes)


@DEFAULT_CUT
@pytest.mark.parametrize("kind", [Series, DeviceBytes])
def test_null_rows_that_cover_bytes_are_empty(cuda: CudaBackend, kind: Any) -> None:
    data, offsets = pa.py_buffer(b"onehiddentwo"), np.array([0, 3, 9, 12], np.int32)
    array = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(offsets.tobytes()), data])
    check(cuda, kind(cuda, array), ["one", None, "two"], 100)
    check(cuda, kind(cuda, array[1:]), [None, "two"], 100)


@DEFAULT_CUT
def test_offsets_may_begin_within_their_child(cuda: CudaBackend) -> None:
    series = Series(cuda, pa.array(TEXTS)[2:])
    series.to_pylibcudf = lambda: (column(cuda, series._array, skip=1), {})  # type: ignore[method-assign]
    check(cuda, series, TEXTS[2:], 30)


@DEFAULT_CUT
@pytest.mark.parametrize("kind", ["Series of large strings", "Arrow large", "TextBatch"])
def test_batches_of_device_texts_are_views(cuda: CudaBackend, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = pa.array(["some", "text", "here"], pa.large_string())
    given = KINDS[kind](cuda, array)
    memory: list[int] = []

    class Seen(Span):
        def __init__(self, *of: Any) -> None:
            super().__init__(*of)
            memory.append(self.ptr)

    monkeypatch.setattr(sys.modules[__name__], "Span", Seen)
    found = list(open_texts(given, cuda).batches(8))
    assert len(found) == 2
    offset, values = (address(given.offset), address(given.values)) if kind == "TextBatch" else memory
    assert {address(batch.values) for batch in found} == {values}
    assert kind == "TextBatch" or address(found[0].offset) == offset


@DEFAULT_CUT
@pytest.mark.parametrize("kind", ["TextBatch", "Series", "Arrow large"])
def test_deduplicate_moves_no_device_text_to_the_host(selected: CudaBackend, kind: str) -> None:
    given = texts(40)
    options: dict[str, Any] = {"verify": "signature"} if kind == "Series" else {}
    wanted, there = gpulsh.deduplicate(given, backend="reference", **options), KINDS[kind](selected, pa.array(given))
    with counted_transfers() as crossed:
        found = gpulsh.deduplicate(there, backend="cuda", **options)
    assert not [one for one in crossed if one.dtype == np.uint8 and one.items], "text left the device, or came to it"
    assert not wanted.keep.all()
    assert_decisions(found, wanted)
    assert (found.funnel.bytes, found.funnel.nulls) == (wanted.funnel.bytes, 0 if kind == "TextBatch" else 1)


@DEFAULT_CUT
@pytest.mark.parametrize("kind", ["TextBatch", "Series", "Arrow large"])
def test_shingle_and_sketch_take_device_texts(selected: CudaBackend, kind: str) -> None:
    given = ["e\u0301 accent", None, "plain", "\ufb01", *texts(20)]
    for folding in (None, gpulsh.Folding(form="NFKC")):
        there = gpulsh.shingle(KINDS[kind](selected, pa.array(given)), folding=folding, backend="cuda")
        wanted = gpulsh.shingle(given, folding=folding, backend="cpu")
        np.testing.assert_array_equal(there.values.get(), wanted.values)
        np.testing.assert_array_equal(there.offset.get(), wanted.offset)
    minhash = gpulsh.MinHash(num_perm=16)
    signatures = minhash.from_texts(KINDS[kind](selected, pa.array(given)), backend="cuda")
    np.testing.assert_array_equal(signatures, minhash.from_texts(given, backend="cpu"))


@DEFAULT_CUT
def test_host_backends_copy_device_texts_or_refuse_them(cuda: CudaBackend) -> None:
    array, ops = pa.array(TEXTS), ReferenceBackend()
    (batch,) = open_texts(batch_of(cuda, array), ops).batches(1 << 20)
    assert isinstance(batch.values, np.ndarray)
    assert [batch.values[i:j].tobytes() for i, j in pairwise(batch.offset)] == [(t or "").encode() for t in TEXTS]
    with pytest.raises(InputTypeError, match="DeviceBytes, is device memory; copy it to the host"):
        open_texts(DeviceBytes(cuda, array), ops)
    both = DeviceBytes(cuda, array)
    both.__arrow_c_array__ = array.__arrow_c_array__  # type: ignore[attr-defined]
    assert len(open_texts(both, ops)) == 9
    methods = ("__arrow_c_device_array__", "__arrow_c_array__")
    hosted = SimpleNamespace(**{name: getattr(array, name) for name in methods})
    (batch,) = open_texts(hosted, cuda).batches(1 << 20)
    assert isinstance(batch.values, np.ndarray), "Arrow memory of the host stays there"


@HOST_DEFAULT
@pytest.mark.parametrize(("variable", "stream"), [(None, 1), ("0", 1), ("1", 2)])
def test_columns_wait_for_the_stream_of_cudf(
    cuda: CudaBackend, variable: str | None, stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[Any] = []
    asarray = DeviceModule.asarray

    def seen(self: DeviceModule, array: Any) -> Any:
        if isinstance(array, DeviceBuffer):
            streams.append(array.__cuda_array_interface__["stream"])
        return asarray(self, array)

    monkeypatch.setattr(DeviceModule, "asarray", seen)
    monkeypatch.delenv("CUDF_PER_THREAD_STREAM", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDF_PER_THREAD_STREAM", variable)
    list(open_texts(Series(cuda, pa.array(TEXTS)), cuda).batches(100))
    assert streams == [stream] * 3, "offsets, text and nulls"


@DEFAULT_CUT
def test_columns_that_are_no_text_are_refused(cuda: CudaBackend) -> None:
    odd = Series(cuda, pa.array(["a"]))
    odd.to_pylibcudf = lambda: (Column(TypeId.INT32), {})  # type: ignore[method-assign]
    for odd_one, message in [
        (DeviceBytes(cuda, pa.array([1])), "a DeviceBytes, is of Arrow format 'l'; give strings"),
        (DeviceBytes(cuda, pa.array(["a"]).dictionary_encode()), "is a dictionary; give strings"),
        (Series(cuda, pa.array(["a"]), "int64"), "cuDF Series of int64"),
        (odd, "cuDF column of INT32"),
    ]:
        with pytest.raises(InputTypeError, match=message):
            open_texts(odd_one, cuda)


class Frame:
    """The part of cuDF's objects that results use."""

    __module__ = "cudf.core.dataframe"

    def __init__(self, columns: Any) -> None:
        self.columns = columns

    iloc = property(lambda self: self)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, mask: DeviceArray) -> Frame:
        assert isinstance(mask, DeviceArray) and mask.dtype == np.bool_
        return Frame({name: column[mask] for name, column in self.columns.items()})


@HOST_DEFAULT
def test_to_cudf_gives_device_columns(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    result = gpulsh.deduplicate(["a b", "A, b!", "c"], backend="cpu")
    monkeypatch.setitem(sys.modules, "cudf", None)
    with pytest.raises(BackendError, match=r"cuDF cannot be imported .*gpulsh\[cudf\]., or use to_arrow"):
        result.to_cudf()
    synchronized = []
    stream = SimpleNamespace(synchronize=lambda: synchronized.append(True))
    cupy = SimpleNamespace(asarray=DeviceModule().asarray, cuda=SimpleNamespace(get_current_stream=lambda: stream))

    def series(array: DeviceArray, nan_as_null: bool) -> DeviceArray:
        assert isinstance(array, DeviceArray) and not nan_as_null
        return array

    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cudf", SimpleNamespace(Series=series, DataFrame=Frame))
    frame = result.to_cudf()
    found = {name: column.get().tolist() for name, column in frame.columns.items()}
    assert (found["keep"], found["similarity"]) == ([True, False, True], [1.0] * 3)
    assert found["duplicate_of"] == found["cluster"] == [0, 0, 2] and len(found) == 4
    assert result.filter(frame).columns["duplicate_of"].get().tolist() == [0, 2]
    assert synchronized
