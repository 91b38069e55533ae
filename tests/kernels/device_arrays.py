"""An array module with CuPy's manners on NumPy's memory: host code that leans on NumPy alone fails without a GPU, too.

As in CuPy, nothing mixes with a NumPy array or becomes one unasked, reductions and single elements stay arrays, and
functions take no arguments of NumPy's own.
Arrays belong to the device that was current when they were made, and are used there alone. Only what the backend uses
is here. New memory is poisoned, and can be made scarce.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gpulsh.arrays import DEVICE_MEMORY

CUDA = (2, 0)  # DLPack's name of the first device

# CuPy's functions and methods that the library uses, with all accepted arguments.
LIKE = "dtype order subok shape"
FUNCTIONS = f"""
    arange(start stop step dtype) argmax(a axis dtype out keepdims) argmin(a axis dtype out keepdims)
    argsort(a axis kind) concatenate(tup axis out dtype casting) copyto(dst src casting where) count_nonzero(a axis)
    cumsum(a axis dtype out) diff(a n axis prepend append) empty(shape dtype order) empty_like(a {LIKE}) flatnonzero(a)
    full(shape fill_value dtype order) full_like(a fill_value {LIKE}) isin(element test_elements assume_unique invert)
    maximum(x1 x2 out dtype) minimum(x1 x2 out dtype) moveaxis(a source destination) ones(shape dtype order)
    ones_like(a {LIKE}) searchsorted(a v side sorter) sort(a axis kind) stack(tup axis out dtype casting)
    take_along_axis(a indices axis) unpackbits(a axis bitorder) where(condition x y) zeros(shape dtype order)
    zeros_like(a {LIKE})"""
METHODS = """
    all(axis out keepdims) any(axis out keepdims) compress(condition axis out) max(axis out keepdims)
    mean(axis dtype out keepdims) min(axis out keepdims) sum(axis dtype out keepdims) take(indices axis out)"""


class OutOfMemoryError(MemoryError):
    """CuPy's error where neither the device nor the pool has memory."""


class CUDARuntimeError(RuntimeError):
    """CuPy's error where the runtime refuses a call."""


class _Memory:
    """The memory that arrays hold on all devices together."""

    def __init__(self) -> None:
        self.limit = 1 << 62
        self.held = self.peak = 0
        self._lock = threading.RLock()  # arrays may be collected, and so given back, while one is taken

    def take(self, size: int) -> None:
        with self._lock:
            if self.held + size > self.limit:
                raise OutOfMemoryError(f"{size} bytes of {self.limit - self.held}")
            self.held += size
            self.peak = max(self.peak, self.held)

    def give(self, size: int) -> None:
        with self._lock:
            self.held -= size


MEMORY = _Memory()


@contextmanager
def scarce_memory(size: int) -> Iterator[_Memory]:
    """Allow only `size` bytes more than are held now."""
    MEMORY.limit, MEMORY.peak = MEMORY.held + size, MEMORY.held
    try:
        yield MEMORY
    finally:
        MEMORY.limit = 1 << 62


_current = threading.local()


def current_device() -> int:
    return getattr(_current, "device", 0)


@contextmanager
def _workspace(size: int) -> Iterator[None]:
    """The memory of a sort beside its arrays. Thrust allocates it, and its C++ exception is not CuPy's own error."""
    try:
        MEMORY.take(size)
    except OutOfMemoryError:
        raise MemoryError("std::bad_alloc") from None
    try:
        yield
    finally:
        MEMORY.give(size)


class Transfer(NamedTuple):
    to_host: bool | None  # None: between devices
    dtype: Any
    items: int
    nbytes: int


_counting: list[list[Transfer]] = []  # where transfers are counted


@contextmanager
def counted_transfers() -> Iterator[list[Transfer]]:
    """Record every copy between the host and a device or two devices, by any thread."""
    _counting.append([])
    try:
        yield _counting[-1]
    finally:
        _counting.pop()


def _count(to_host: bool | None, host: np.ndarray) -> None:
    for found in _counting:
        found.append(Transfer(to_host, host.dtype, host.size, host.nbytes))


def _copy(there: int, here: int, size: int, kind: int, stream: int) -> None:
    """`size` bytes from the host to the device."""
    assert kind == 1
    _count(False, np.broadcast_to(np.uint8(0), size))
    ctypes.memmove(there, here, size)


PLACES: list[tuple[int, int, int]] = []  # of device memory that no DeviceArray holds; the first device where none says


def put(memory: np.ndarray, device: int) -> None:
    """Put arrays made of `memory` on `device`, until PLACES is cleared."""
    PLACES.append((*np.lib.array_utils.byte_bounds(memory), device))


def _place_of(pointer: int) -> int:
    return next((device for low, high, device in PLACES if low <= pointer < high), 0)


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    __slots__ = ("_size", "copies", "host", "number")

    def __init__(self, host: np.ndarray) -> None:
        self._size = 0
        size = host.nbytes if host.base is None else 0
        MEMORY.take(size)
        self._size = size
        self.copies: list[np.ndarray] = []  # made by another device, perhaps not yet
        self.host = host
        self.number = current_device()

    def __del__(self) -> None:
        MEMORY.give(self._size)
        for copy in self.copies if self._size else ():
            _poison(copy)  # the memory was used again before it was read

    def set(self, host: np.ndarray, stream: Any = None) -> None:
        assert host.flags.c_contiguous and host.dtype == self.dtype and host.shape == self.shape
        _count(False, host)
        self.host[...] = host

    def get(self, stream: Any = None, order: str = "C", out: np.ndarray | None = None) -> np.ndarray:
        _count(True, self.host)
        if out is None:
            return self.host.copy(order)
        out[...] = self.host
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("implicit conversion to a NumPy array is not allowed; call get()")

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        # NumPy's own functions hand over to CuPy, where every array is CuPy's.
        options.pop("like", None)
        _check(FUNCTIONS, function.__name__, given, **options)
        return _wrap(function(*map(_unwrap, given), **{key: _unwrap(value) for key, value in options.items()}))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or not options.keys() <= {"out", "dtype", "casting"}:
            raise TypeError(f"{ufunc.__name__}.{method} with {[*options]} is not CuPy's")
        for out in options.get("out", ()):
            _check_order(out.host, *inputs)
        options = {name: _unwrap(value) for name, value in options.items()}
        return _wrap(ufunc(*map(_unwrap, inputs), **options))

    def __getitem__(self, key: Any) -> DeviceArray:
        return _wrap(_unwrap(self)[_unwrap(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        host, places = _unwrap(self), _unwrap(key)
        if isinstance(value, DeviceArray):
            _check_order(host[places], value)
            by_number = isinstance(places, np.ndarray) and places.dtype != bool
            assert not by_number or len(np.unique(places)) == places.size, "CuPy writes to a place twice, in any order"
        host[places] = _unwrap(value)

    def __len__(self) -> int:
        return len(self.host)

    def __int__(self) -> int:
        _count(True, self.host)
        return int(self.host)

    def __float__(self) -> float:
        _count(True, self.host)
        return float(self.host)

    def __bool__(self) -> bool:
        _count(True, self.host)
        return bool(self.host)

    data = property(lambda self: SimpleNamespace(ptr=self.host.ctypes.data))
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    shape = property(lambda self: self.host.shape)
    T = property(lambda self: _wrap(self.host.T))
    size = property(lambda self: self.host.size)
    device = property(lambda self: _Device(self.number))
    nbytes = property(lambda self: self.host.nbytes)
    flags = property(lambda self: self.host.flags)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.host.__array_interface__, "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA[0], self.number

    def __dlpack__(self, **options: Any) -> Any:
        return self.host.__dlpack__()

    def sort(self) -> None:
        assert self.host.flags.c_contiguous, "CuPy sorts contiguous arrays alone"
        with _workspace(self.nbytes):
            self.host.sort(kind="stable")

    def astype(self, dtype: Any) -> DeviceArray:
        return _wrap(_unwrap(self).astype(dtype))

    def copy(self, order: str = "C") -> DeviceArray:
        return DeviceArray(self.host.copy(order)) if self.number == current_device() else _copied(self)

    def reshape(self, *shape: Any) -> DeviceArray:
        return _wrap(self.host.reshape(*shape))

    def view(self, dtype: Any) -> DeviceArray:
        return _wrap(self.host.view(dtype))

    def __getattr__(self, name: str) -> Any:
        _check(METHODS, name)

        def call(*given: Any, **options: Any) -> DeviceArray:
            _check(METHODS, name, given, **options)
            return _wrap(getattr(_unwrap(self), name)(*map(_unwrap, given), **options))

        return call


class DeviceModule:
    """The part of `cupy` that the backend uses, with any number of devices."""

    def __init__(self, devices: int = 1) -> None:
        self.cuda = SimpleNamespace(
            Device=_Device,
            Stream=_Stream,
            Event=_Event,
            get_current_stream=_Stream,
            alloc_pinned_memory=bytearray,
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            runtime=SimpleNamespace(
                getDevice=current_device,
                getDeviceCount=lambda: devices,
                memGetInfo=lambda: (min(MEMORY.limit - MEMORY.held, 1 << 34), 1 << 34),
                pointerGetAttributes=lambda pointer: SimpleNamespace(type=0, device=_place_of(pointer)),
                memoryTypeHost=1,
                streamPerThread=2,
                memcpyAsync=_copy,
                CUDARuntimeError=CUDARuntimeError,
            ),
        )

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)

    ndarray = DeviceArray

    def asarray(self, array: Any) -> DeviceArray:
        if isinstance(array, DeviceArray):
            return array if array.number == current_device() else _copied(array)
        if hasattr(array, "__cuda_array_interface__"):
            made = DeviceArray(np.asarray(_Interface(array)))
            made.number = _place_of(array.__cuda_array_interface__["data"][0])
            return self.asarray(made)
        made = DeviceArray(np.array(array))
        _count(False, made.host)
        return made

    def array(self, array: DeviceArray) -> DeviceArray:
        assert isinstance(array, DeviceArray)
        return DeviceArray(array.host.copy(order="K")) if array.number == current_device() else _copied(array)

    def from_dlpack(self, array: Any) -> DeviceArray:
        kind, number = array.__dlpack_device__()
        assert kind in DEVICE_MEMORY, "CuPy takes device memory alone"
        made = DeviceArray(np.from_dlpack(_Capsule(array)))
        made.number = number
        return made

    def empty(self, shape: Any, dtype: Any) -> DeviceArray:
        host = np.empty(shape, dtype)
        _poison(host)
        return DeviceArray(host)

    def ascontiguousarray(self, array: DeviceArray) -> DeviceArray:
        return array if array.flags.c_contiguous else _wrap(np.ascontiguousarray(_unwrap(array)))

    def argsort(self, array: DeviceArray, *, kind: str) -> DeviceArray:
        assert kind == "stable"
        with _workspace(2 * array.nbytes + 8 * array.size):  # of keys a copy to sort and a buffer, of places a buffer
            return _wrap(np.argsort(_unwrap(array), kind="stable"))

    def sort(self, array: DeviceArray) -> DeviceArray:
        sorted_ = array.copy()
        sorted_.sort()
        return sorted_

    def __getattr__(self, name: str) -> Any:
        _check(FUNCTIONS, name)
        function = getattr(np, name)

        def call(*given: Any, **options: Any) -> Any:
            _check(FUNCTIONS, name, given, **options)
            return _wrap(function(*map(_unwrap, given), **{key: _unwrap(value) for key, value in options.items()}))

        return call


class _Device:
    """A device; which ones to go back to is a stack of the thread, not of the block."""

    def __init__(self, number: int) -> None:
        self.id = number

    def __enter__(self) -> None:
        _current.__dict__.setdefault("before", []).append(current_device())
        _current.device = self.id

    def __exit__(self, *error: Any) -> None:
        _current.device = _current.before.pop()


class _Stream:
    """Each call is done at once, but for copies between devices."""

    ptr = 0

    def __init__(self, non_blocking: bool = False) -> None:
        self.number = current_device()

    def __enter__(self) -> None:
        if self.number != current_device():
            raise RuntimeError(f"CuPy uses a stream of device {self.number} there alone, not on {current_device()}")

    def __exit__(self, *error: Any) -> None:
        pass

    def synchronize(self) -> None:
        for copies in _unread():
            copies.clear()
        _unread().clear()


class _Event:
    """An event of a stream; waits for the stream, asleep where it blocks."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.blocks = block
        self._number = current_device()
        self._of: Any = None

    def record(self, stream: Any = None) -> None:
        self._of = stream or _Stream()
        assert self._of.number == self._number, "an event of one device is recorded on another's stream"

    def synchronize(self) -> None:
        assert self._of is not None, "an event is waited for that was never recorded"
        self._of.synchronize()


class _Interface:
    """An array interface that calls device memory host memory, and keeps it alive."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__cuda_array_interface__, "version": 3}


class _Capsule:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(stream=1)  # CuPy asks for the order before its current stream


def _check(known: str, name: str, given: Any = (), **options: Any) -> None:
    """Raise AttributeError for names unknown in CuPy, and TypeError for arguments that it does not take."""
    found = re.search(rf"\b{name}\((.*?)\)", known)
    if found is None:
        raise AttributeError(f"{name} is not among those known to be CuPy's")
    taken = found[1].split()
    wrong = name == "searchsorted" and any(isinstance(one, np.generic) for one in given)  # arrays, Python's numbers
    if wrong or len(given) > len(taken) or not options.keys() <= {*taken} or options.get("kind", "stable") != "stable":
        raise TypeError(f"CuPy's {name} takes {found[1]}, not {len(given)} arguments and {options}")


def _check_order(out: np.ndarray, *inputs: Any) -> None:
    """CuPy's threads may write to `out` before others read there, unless each reads what it writes."""
    for one in inputs:
        if isinstance(one, DeviceArray) and one.host.ctypes.data != out.ctypes.data:
            assert not np.shares_memory(one.host, out), "CuPy reads and writes the same memory in any order"


def _poison(host: np.ndarray) -> None:
    host.reshape(-1).view(np.uint8)[:] = 0xA5


def _copied(array: DeviceArray) -> DeviceArray:
    """A copy on the current device, complete when this thread synchronizes; until then `array` must be kept."""
    if not array.flags.c_contiguous and not array.flags.f_contiguous:
        raise NotImplementedError("CuPy cannot copy non-contiguous array between devices.")
    _count(None, array.host)
    copy = DeviceArray(array.host.copy(order="K"))
    array.copies.append(copy.host)
    _unread().append(array.copies)
    return copy


def _unread() -> list[list[np.ndarray]]:
    if not hasattr(_current, "unread"):
        _current.unread = []
    return _current.unread


def _wrap(value: Any) -> DeviceArray:
    return DeviceArray(np.asarray(value))


def _unwrap(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_unwrap, value))
    if isinstance(value, DeviceArray):
        assert value.number == current_device(), f"of device {value.number}, used on {current_device()}"
        return value.host
    if isinstance(value, np.ndarray):
        raise TypeError("a NumPy array was given where a device array is needed")
    return value
