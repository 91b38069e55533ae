"""Columns of strings through the Arrow C device interface: device memory of any library, used where it lies.

https://arrow.apache.org/docs/format/CDeviceDataInterface.html
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from typing import Any, NamedTuple

from gpulsh.arrays import DEVICE_MEMORY, HOST_MEMORY
from gpulsh.backends.buffer import DeviceBuffer
from gpulsh.backends.protocol import Backend
from gpulsh.errors import InputTypeError
from gpulsh.io.memory.device import DeviceTexts, column_texts

WIDE = {"u": False, "z": False, "U": True, "Z": True}  # string, binary and their large kinds: whether offsets are int64


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
    """What `__arrow_c_device_array__` gave; the capsules keep it alive."""

    schema: _Schema
    array: _DeviceArray
    capsules: tuple[object, object]

    @property
    def is_on_host(self) -> bool:
        """Whether any library that knows nothing of devices can read it."""
        return self.array.device_type in HOST_MEMORY

    def texts(self, ops: Backend, given: str) -> DeviceTexts:
        """The column as texts on the backend's device; `given` names what the user gave."""
        array, kind = self.array.array, self.schema.format.decode()
        if self.array.device_type not in DEVICE_MEMORY:
            raise InputTypeError(
                f"texts, a {given}, lies on a device of Arrow's type {self.array.device_type}, not CUDA"
            )
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
    """What an object with `__arrow_c_device_array__` holds, wherever it lies."""
    schema, array = texts.__arrow_c_device_array__()
    return DeviceColumn(
        _Schema.from_address(_pointer(schema, b"arrow_schema")),
        _DeviceArray.from_address(_pointer(array, b"arrow_device_array")),
        (schema, array),
    )


def _pointer(capsule: object, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    address: int = get(capsule, name)
    return address
