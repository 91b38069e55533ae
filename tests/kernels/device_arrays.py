"""An array module with CuPy's manners on NumPy's memory: host code that leans on NumPy alone fails without a GPU, too.

As in CuPy, nothing mixes with a NumPy array or becomes one unasked, and reductions and single elements stay arrays.
Only what the backend uses is here. New memory is poisoned.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    __slots__ = ("host",)

    def __init__(self, host: np.ndarray) -> None:
        self.host = host

    def get(self) -> np.ndarray:
        return self.host.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("implicit conversion to a NumPy array is not allowed; call get()")

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        # NumPy's own functions hand over to CuPy, where every array is CuPy's.
        return _wrap(function(*map(_unwrap, given), **{key: _unwrap(value) for key, value in options.items()}))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__":
            raise TypeError(f"{ufunc.__name__}.{method} is not CuPy's")
        options = {name: _unwrap(value) for name, value in options.items()}
        return _wrap(ufunc(*map(_unwrap, inputs), **options))

    def __getitem__(self, key: Any) -> DeviceArray:
        return _wrap(self.host[_unwrap(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[_unwrap(key)] = _unwrap(value)

    def __len__(self) -> int:
        return len(self.host)

    def __int__(self) -> int:
        return int(self.host)

    def __bool__(self) -> bool:
        return bool(self.host)

    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    shape = property(lambda self: self.host.shape)
    size = property(lambda self: self.host.size)
    flags = property(lambda self: self.host.flags)

    def astype(self, dtype: Any) -> DeviceArray:
        return _wrap(self.host.astype(dtype))

    def copy(self) -> DeviceArray:
        return DeviceArray(self.host.copy())

    def reshape(self, *shape: Any) -> DeviceArray:
        return _wrap(self.host.reshape(*shape))

    def view(self, dtype: Any) -> DeviceArray:
        return _wrap(self.host.view(dtype))

    def __getattr__(self, name: str) -> Any:
        if name not in {"all", "any", "max", "min", "sum", "mean"}:
            raise AttributeError(f"{name} is not among the methods known to be CuPy's")
        return lambda **options: _wrap(getattr(self.host, name)(**options))


class DeviceModule:
    """What the backend takes of `cupy`."""

    def asarray(self, array: Any) -> DeviceArray:
        return array if isinstance(array, DeviceArray) else DeviceArray(np.array(array))

    def empty(self, shape: Any, dtype: Any) -> DeviceArray:
        host = np.empty(shape, dtype)
        host.reshape(-1).view(np.uint8)[:] = 0xA5
        return DeviceArray(host)

    def argsort(self, array: DeviceArray, *, kind: str) -> DeviceArray:
        assert kind == "stable"
        return _wrap(np.argsort(_unwrap(array), kind="stable"))

    def __getattr__(self, name: str) -> Any:
        if name not in {
            *("zeros", "ones", "full", "arange", "concatenate", "cumsum", "searchsorted", "sort", "diff", "maximum"),
            *("minimum", "where", "flatnonzero", "stack", "ascontiguousarray"),
        }:
            raise AttributeError(f"{name} is not among the functions known to be CuPy's")
        function = getattr(np, name)

        def call(*given: Any, **options: Any) -> Any:
            return _wrap(function(*map(_unwrap, given), **{key: _unwrap(value) for key, value in options.items()}))

        return call


def _wrap(value: Any) -> DeviceArray:
    return DeviceArray(np.asarray(value))


def _unwrap(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_unwrap, value))
    if isinstance(value, DeviceArray):
        return value.host
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("a NumPy array was given where a device array is needed")
    return value
