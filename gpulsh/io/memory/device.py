"""Texts in the memory of a CUDA device: batches are views, choices are gathered there, signed texts may stay there.

They come as buffers of a column, or from any library through the Arrow C device interface:
https://arrow.apache.org/docs/format/CDeviceDataInterface.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsh.arrays import DEVICE_MEMORY, HOST_MEMORY, Array, TextBatch
from gpulsh.backends.protocol import Backend, DeviceBuffer
from gpulsh.errors import DeviceMemoryError, InputTypeError
from gpulsh.io.memory.texts import MemoryTexts
from gpulsh.io.rows import Chosen, ChosenTexts, batch_cuts
from gpulsh.ragged import concat_rows, offsets

WIDE = {"u": False, "z": False, "U": True, "Z": True}  # string, binary and their large kinds: whether offsets are int64


class DeviceTexts:
    """`gpulsh.io.memory.texts.MemoryTexts` over `text`, whose arrays are the backend's; `null` bool [n], None: nowhere.

    Only offsets pass through the host, to find the ends of batches. NumPy's functions dispatch to CuPy. Results are
    complete for every stream and device: a thread that reads a number sleeps until all work before it is done.
    """

    def __init__(self, text: TextBatch, null: Array | None, ops: Backend) -> None:
        self._text, self._null, self._ops = text, null, ops
        self._apart = False
        with ops.use_device():
            self._begin, self._end = text.offset[:-1], text.offset[1:]
            if null is not None:
                # In Arrow a null row may cover bytes that are not text. If no row does, rows follow without gaps.
                covered, self._end = self._end, np.where(null, self._begin, self._end)
                self._apart = bool(ops.asnumpy((self._end < covered).any()))  # waits

    def __len__(self) -> int:
        return len(self._text)

    def batches(self, max_bytes: int) -> Iterator[TextBatch]:
        """All documents once, in order; views, unless a null row covers bytes."""
        for start, stop in batch_cuts(self._ops.asnumpy(self._text.offset), max_bytes):
            with self._ops.use_device():
                batch = self._text.slice(start, stop)
                if self._apart:
                    batch = _gather_texts(self._text.values, self._begin[start:stop], self._end[start:stop], self._ops)
            yield batch

    def lengths(self) -> Array:
        """int64 [n] on the device: bytes of each document, 0 where null."""
        with self._ops.use_device():
            return self._end - self._begin

    def null_rows(self) -> NDArray[np.bool_]:
        """bool [n], on the host: which documents are null."""
        null = self._null
        return np.zeros(len(self), np.bool_) if null is None else np.asarray(self._ops.asnumpy(null), np.bool_)

    def nulls(self) -> int:
        """How many documents are null."""
        with self._ops.use_device():
            return 0 if self._null is None else int(self._ops.asnumpy(self._null.sum()))

    def choose(self, ids: Array) -> Chosen:
        """The documents `ids`, of the host or the device; their sizes come back there."""
        rows = self._ops.asarray(ids)
        with self._ops.use_device():
            begin, end = self._begin[rows], self._end[rows]
            sizes = end - begin
            self._ops.asnumpy(sizes[:0])  # waits
            sizes = self._ops.asnumpy(sizes) if isinstance(ids, np.ndarray) else sizes

        def take(places: Array) -> TextBatch:
            some = self._ops.asarray(places)
            with self._ops.use_device():
                return _gather_texts(self._text.values, begin[some], end[some], self._ops)

        return Chosen(sizes, take)


def column_texts(
    data: DeviceBuffer,
    offsets: DeviceBuffer,
    wide: bool,
    mask: DeviceBuffer | None,
    first: int,
    rows: int,
    ops: Backend,
) -> DeviceTexts:
    """Rows [first, first + rows) of a column of strings as Arrow lays it out in device memory.

    `offsets` int64 where `wide`, otherwise int32; `mask` holds a bit per row, lowest first, 0 where null. Only their
    pointers count: the rows give their length.
    """
    if rows == 0:
        return DeviceTexts(TextBatch(ops.asarray(np.zeros(0, np.uint8)), ops.asarray(np.zeros(1, np.int64))), None, ops)

    def part(buffer: DeviceBuffer, start: int, size: int) -> Array:
        return ops.asarray(replace(buffer, pointer=buffer.pointer + start, size=size))

    with ops.use_device():
        kind: type[np.signedinteger] = np.int64 if wide else np.int32
        width = np.dtype(kind).itemsize
        offset = part(offsets, first * width, (rows + 1) * width).view(kind)
        offset = offset if wide else offset.astype(np.int64)
        begin, end = map(int, ops.asnumpy(offset[:: max(rows, 1)]))
        if 0 < begin <= end:  # a slice does not drag its column along from another device
            offset = offset - np.int64(begin)
        else:
            begin = 0
        values = part(data, begin, max(end - begin, 0))
        null = None
        if mask is not None:
            bits = part(mask, first // 8, (first + rows + 7) // 8 - first // 8)
            null = np.unpackbits(bits, bitorder="little")[first % 8 :][:rows] == 0
        # Not moved, but checked: only the offsets give the length of the text, and they may be wrong.
        return DeviceTexts(TextBatch(values, offset).moved(lambda array: array), null, ops)


def _gather_texts(values: Array, begin: Array, end: Array, ops: Backend) -> TextBatch:
    batch = ops.gather(values, begin, end)
    ops.asnumpy(batch.offset[:0])  # waits
    return batch


class _Schema(ctypes.Structure):
    _fields_ = (
        *(("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64)),
        *(("n_children", c_int64), ("children", c_void_p), ("dictionary", c_void_p), ("release", c_void_p)),
        ("private_data", c_void_p),
    )


class _Array(ctypes.Structure):
    _fields_ = (
        *(("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64)),
        *(("n_children", c_int64), ("buffers", POINTER(c_void_p)), ("children", c_void_p), ("dictionary", c_void_p)),
        *(("release", c_void_p), ("private_data", c_void_p)),
    )


class _DeviceArray(ctypes.Structure):
    _fields_ = (
        *(("array", _Array), ("device_id", c_int64), ("device_type", c_int32), ("sync_event", c_void_p)),
        ("reserved", c_int64 * 3),
    )


class DeviceColumn(NamedTuple):
    """A column from `__arrow_c_device_array__`; the capsules keep it alive."""

    schema: _Schema
    array: _DeviceArray
    capsules: tuple[object, object]

    @property
    def is_on_host(self) -> bool:
        """Whether it is in host memory."""
        return self.array.device_type in HOST_MEMORY

    def texts(self, ops: Backend, given: str) -> DeviceTexts:
        """The column as texts on the backend's device; `given` names the user's value."""
        array, kind = self.array.array, self.schema.format.decode()
        if self.array.device_type not in DEVICE_MEMORY:
            raise InputTypeError(f"texts, a {given}, is on a device of Arrow's type {self.array.device_type}, not CUDA")
        if kind not in WIDE or self.schema.dictionary:
            shown = "a dictionary" if self.schema.dictionary else f"of Arrow format {kind!r}"
            raise InputTypeError(
                f"texts, a {given}, is {shown}; give strings or large_strings, or binary that is UTF-8"
            )
        # The interface hands out a pointer to the event, which the stream of every use has to wait for.
        event = ctypes.cast(self.array.sync_event, POINTER(c_void_p))[0] if self.array.sync_event else None

        def buffer(number: int) -> DeviceBuffer:
            return DeviceBuffer(array.buffers[number] or 0, 0, self.capsules, event or 0)

        mask = buffer(0) if array.null_count and array.buffers[0] else None
        return column_texts(buffer(2), buffer(1), WIDE[kind], mask, array.offset, array.length, ops)


def device_column(texts: Any) -> DeviceColumn:
    """The column of an object with `__arrow_c_device_array__`, on the host or a device."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    schema, array = texts.__arrow_c_device_array__()
    return DeviceColumn(
        _Schema.from_address(get(schema, b"arrow_schema")),
        _DeviceArray.from_address(get(array, b"arrow_device_array")),
        (schema, array),
    )


class ResidentTexts:
    """The first documents of `source`, as many as the device has room for; others are read again."""

    def __init__(self, source: MemoryTexts, ops: Backend, *, wanted: bool) -> None:
        self._source, self._ops = source, ops
        self._batches: list[TextBatch] = []  # on the device
        self.is_full = not wanted

    def append(self, text: TextBatch | None) -> None:
        """The next documents, on any device; None: they are not."""
        held = None if text is None or self.is_full else self._ops.hold(text)
        if held is None:
            self.is_full = True
        else:
            self._batches.append(held)

    def choose(self, ids: Array) -> ChosenTexts:
        """The documents `ids`, ascending positions, for reading again; all others are released."""
        if not self._batches:
            return self._source.choose(ids)
        ops, starts = self._ops, offsets([len(batch) for batch in self._batches])
        with ops.use_device():
            cuts = ops.asnumpy(np.searchsorted(ids, ops.asarray(starts))).tolist()
        try:
            with ops.use_device():
                parts = [TextBatch(ops.asarray(np.empty(0, np.uint8)), ops.asarray(np.zeros(1, np.int64)))]
                for number, start in enumerate(starts[:-1].tolist()):
                    text = self._batches[number]
                    self._batches[number] = parts[0]  # released as soon as its documents are copied
                    rows = ids[cuts[number] : cuts[number + 1]] - np.int64(start)
                    parts.append(ops.gather(text.values, text.offset[rows], text.offset[rows + 1]))
                first = DeviceTexts(concat_rows(parts), None, ops).choose(np.arange(cuts[-1], like=ids))
        except DeviceMemoryError:
            return self._source.choose(ids)
        finally:
            self._batches.clear()
        if cuts[-1] == len(ids):
            return first
        with ops.use_device():
            return _joined(first, self._source.choose(ids[cuts[-1] :]), cuts[-1], ops)


def _joined(first: Chosen, rest: ChosenTexts, count: int, ops: Backend) -> Chosen:
    """`count` documents of the device, then the others."""
    sizes = np.concatenate([first.sizes, ops.asarray(rest.sizes)])

    def take(places: Array) -> TextBatch:
        places = ops.asarray(places)
        with ops.use_device():
            there, here = (np.flatnonzero(some) for some in (places < count, places >= count))
            others = rest.take(ops.asnumpy(places[here] - np.int64(count)))
            if len(there) == 0:
                return others
            parts = [first.take(places[there]), others.moved(ops.asarray)]
            both = concat_rows(parts)
            begin, end = (np.empty_like(places) for _ in range(2))
            order = np.concatenate([there, here])
            begin[order], end[order] = both.offset[:-1], both.offset[1:]
            text = ops.gather(both.values, begin, end)
            ops.asnumpy(text.offset[:0])  # waits: others use it on streams of their own
            return text

    return Chosen(sizes, take)
