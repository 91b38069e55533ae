"""One job on two devices: they share the batches and the ranges of digests, and the bits are those of one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.launcher import Geometry
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import BackendError
from gpulsh.io.memory.device import DeviceTexts
from gpulsh.io.memory.texts import open_texts
from gpulsh.method import Method
from gpulsh.run.memory import decide, sign
from gpulsh.stats.stages import Progress
from tests.kernels.device_arrays import DeviceArray, DeviceModule, current_device
from tests.kernels.host import HostLauncher
from tests.kernels.test_pipeline import texts
from tests.support.texts import KEYS

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("kernels_built")]


class CountingLauncher(HostLauncher):
    """Counts the launches of each device."""

    def __init__(self) -> None:
        super().__init__()
        self.by_device: Counter[int] = Counter()

    def __call__(self, *given: Any) -> None:
        self.by_device[current_device()] += 1
        super().__call__(*given)


class SmallBatches(CudaBackend):
    """Many batches of little text."""

    def sizes(self) -> Any:
        return replace_sizes(super().sizes(), batch=700)


def replace_sizes(sizes: Any, **changed: int) -> Any:
    return sizes._replace(**changed)


def decision(ops: Any, documents: Any, **options: Any) -> Any:
    source, method = open_texts(documents, ops), Method.chosen(**options)
    return decide(sign(source, method, KEYS, ops, Progress()), source, None, method, KEYS, ops, Progress()).to_numpy()


@pytest.mark.parametrize("devices", [None, [0, 1], [1, 0], [1]])
def test_bits_are_those_of_one_device(devices: list[int] | None) -> None:
    documents = texts(60)
    launcher = CountingLauncher()
    geometry = replace(Geometry(), shared_digests=1)
    ops = SmallBatches(DeviceModule(devices=2), launcher, geometry, devices=devices)
    found, wanted = decision(ops, documents), decision(ReferenceBackend(), documents)
    for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    assert set(launcher.by_device) == set(devices or [0, 1])


def test_texts_of_one_device_are_signed_and_compared_on_both() -> None:
    documents = texts(60)
    host = next(open_texts(documents).batches(1 << 30))
    launcher = CountingLauncher()
    ops = SmallBatches(DeviceModule(devices=2), launcher)
    found = decision(ops, TextBatch(ops.asarray(host.values), ops.asarray(host.offset)))
    wanted = decision(ReferenceBackend(), documents)
    np.testing.assert_array_equal(found.duplicate_of, wanted.duplicate_of)
    np.testing.assert_array_equal(found.similarity, wanted.similarity)
    assert set(launcher.by_device) == {0, 1}


@pytest.mark.parametrize("devices", [[0, 1], [1, 0], [1]])
@pytest.mark.parametrize("nulls", [False, True])
def test_text_of_one_device_is_shared(devices: list[int], nulls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = CountingLauncher()
    ops = SmallBatches(DeviceModule(devices=2), launcher, devices=devices)
    documents = texts(60)
    rows = [(text or "hidden").encode() for text in documents]
    text = TextBatch(ops.asarray(np.frombuffer(b"".join(rows), np.uint8)), ops.asarray(np.cumsum([0, *map(len, rows)])))
    with ops.here():
        null = ops.asarray(np.array([text is None for text in documents]))
    copied: list[int] = []
    asarray = DeviceModule.asarray

    def counting(self: DeviceModule, array: Any) -> Any:
        if isinstance(array, DeviceArray) and array.dtype == np.uint8 and array.number != current_device():
            copied.append(array.size)
        return asarray(self, array)

    monkeypatch.setattr(DeviceModule, "asarray", counting)
    source, method = DeviceTexts(text, null if nulls else None, ops), Method.chosen()
    found = decide(sign(source, method, KEYS, ops, Progress()), source, None, method, KEYS, ops, Progress()).to_numpy()
    wanted = decision(ReferenceBackend(), documents if nulls else [text or "hidden" for text in documents])
    for name in ("keep", "duplicate_of", "similarity", "cluster", "pairs", "pair_similarity"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
    assert set(launcher.by_device) == set(devices)
    assert max(copied, default=0) < len(text.values) // 2, "a batch dragged its column along"


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(BackendError, match="devices names 2; this machine has 2"):
        CudaBackend(DeviceModule(devices=2), HostLauncher(), devices=[0, 2])
