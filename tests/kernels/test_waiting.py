"""What a device has computed is read when its stream was waited for, asleep: CuPy's own waiting keeps a core busy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.params import Shingling
from gpulsh.run import memory
from tests.kernels.cuts import WHERE, on_device
from tests.kernels.device_arrays import DeviceArray, DeviceModule, _Event
from tests.kernels.host import HostLauncher
from tests.kernels.test_pipeline import texts
from tests.support.rows import random_table
from tests.support.texts import batch_of

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("kernels_built")]


@pytest.fixture
def awake(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the backend that read what was begun since this thread waited asleep."""
    begun, found = threading.local(), []

    def begins(name: str) -> None:
        before = getattr(DeviceArray, name)

        def begin(*given: Any, **options: Any) -> Any:
            begun.here = True
            return before(*given, **options)

        monkeypatch.setattr(DeviceArray, name, begin)

    def reads(name: str) -> None:
        before = getattr(DeviceArray, name)

        def read(*given: Any, **options: Any) -> Any:
            caller = sys._getframe(1)
            if getattr(begun, "here", False) and caller.f_globals["__name__"].startswith("gpulsh.backends."):
                found.append(f"{caller.f_code.co_filename}:{caller.f_lineno}")
            return before(*given, **options)

        monkeypatch.setattr(DeviceArray, name, read)

    def waits(wait: Callable[[_Event], None]) -> Callable[[_Event], None]:
        def waited(self: _Event) -> None:
            wait(self)
            begun.here = getattr(begun, "here", False) and not self.blocks

        return waited

    launch, call = HostLauncher.__call__, DeviceModule.__getattr__

    def launched(*given: Any) -> None:
        begun.here = True
        launch(*given)

    def called(self: DeviceModule, name: str) -> Any:
        begun.here = True
        return call(self, name)

    monkeypatch.setattr(HostLauncher, "__call__", launched)
    monkeypatch.setattr(DeviceModule, "__getattr__", called)
    monkeypatch.setattr(_Event, "synchronize", waits(_Event.synchronize))
    for name in ("__array_ufunc__", "__array_function__", "__getattr__", "__setitem__", "set", "sort", "astype"):
        begins(name)
    for name in ("__int__", "__bool__", "get"):
        reads(name)
    return found


def test_a_whole_run(awake: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = HostLauncher()
    ops = CudaBackend(DeviceModule(), launcher)
    monkeypatch.setattr(memory, "select_backend", lambda *_, **__: ops)
    assert gpulsh.deduplicate(texts(60), backend="cuda").funnel["dropped"] > 5
    assert launcher.launches and not awake


@pytest.mark.parametrize("cuda", [where for where in WHERE if not on_device(where)], indirect=True)
def test_operations_alone(awake: list[str], cuda: CudaBackend) -> None:
    rows = cuda.unique(random_table([5, 0, 300, 40]).moved(cuda.asarray))
    counts = cuda.frequencies(rows, cuda.asarray(np.zeros(16, np.uint8)))
    cuda.prefixes(rows, counts, cuda.asarray(np.array([2, 0, 9, 40])))
    digests = cuda.asarray(np.repeat(np.arange(5, 70, dtype=np.uint64) << np.uint64(57), 3))
    for ids in (np.arange(195), np.arange(195)[::-1] + 2**33):
        buckets = cuda.collisions(digests, cuda.asarray(np.ascontiguousarray(ids)))
        cuda.candidates(buckets, (3, 9))
    cuda.candidates(buckets)
    text = batch_of([b"a b c d e f " * 30, b"one two", b""])
    there = TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))
    cuda.shingle_part(there, Shingling(size=2), 0, 2)
    assert not awake
