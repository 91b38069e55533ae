"""What collisions, candidates and components hold and refuse, and numbers beyond 32 bits inside one launch."""

from __future__ import annotations

import numpy as np
import pytest

from gpulsh.arrays import Buckets
from gpulsh.backends.cuda import CudaBackend, candidates
from gpulsh.backends.cuda.collisions import collisions, may_repeat
from gpulsh.backends.cuda.launcher import Geometry, Machine
from gpulsh.backends.protocol import NO_DIGEST
from gpulsh.errors import BackendError
from tests.kernels.device_arrays import DeviceArray, DeviceModule, scarce_memory
from tests.kernels.host import HostLauncher

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def host(kernels_built: None) -> Machine:
    return Machine(DeviceModule(), HostLauncher(), Geometry())


def test_few_digests_that_do_not_repeat_are_sorted(host: Machine) -> None:
    digests = np.random.default_rng(2).integers(0, 2**64, 8000, np.uint64)
    digests[-2:] = digests[:2]
    digests[4000] = NO_DIGEST
    ids = np.arange(len(digests), dtype=np.int64)
    taken, whose = may_repeat(host, DeviceArray(digests), DeviceArray(ids), 0, NO_DIGEST - 1, 8000)
    assert {0, 1, 7998, 7999} <= set(whose.get().tolist()) and 4000 not in whose.get()
    assert len(taken) < 0.14 * len(digests)  # 1 - exp(-1 / 8) and some deviations
    np.testing.assert_array_equal(taken.get(), digests[whose.get()])
    half = may_repeat(host, DeviceArray(digests), DeviceArray(ids), 2**63, NO_DIGEST - 1, 4000)
    assert half[0].get().min() >= 2**63 and 0 < len(half[0]) < 0.07 * len(digests)


def test_memory_of_collisions(host: Machine) -> None:
    count = 20_000
    digests = DeviceArray(np.random.default_rng(6).permutation(count).astype(np.uint64) * np.uint64(2**64 // count))
    spread = digests * np.uint64(0x9E3779B97F4A7C15)  # distinct in all bits
    ids = DeviceArray(np.arange(count, dtype=np.int64))
    with scarce_memory(1 << 40) as memory:
        before = memory.peak
        assert len(collisions(host, spread, ids)) == 0
        unique = memory.peak - before
    with scarce_memory(1 << 40) as memory:
        before = memory.peak
        repeated = DeviceArray(np.repeat(spread.host[: count // 2], 2))
        assert len(collisions(host, repeated, ids)) == count // 2
        members = memory.peak - before - repeated.nbytes
    assert unique < (5 + 40 * 0.14) * count and members < 45 * count


def test_too_many_members_are_refused(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_MEMBERS", 2)
    with pytest.raises(BackendError, match="3 documents are in buckets, 2 fit on a device"):
        ids, offset = np.array([1, 2, 2**32], np.int64), np.array([0, 3], np.int64)
        cuda.candidates(Buckets(cuda.asarray(ids), cuda.asarray(offset)))


def test_pairs_beyond_32_bits(host: Machine) -> None:
    members = 100_000
    total = members * (members - 1) // 2
    keys = host.arrays.empty(300, np.uint64)
    host.run(
        *("candidates", "candidates", 300, 256, DeviceArray(np.arange(members, dtype=np.uint32))),
        *(DeviceArray(np.array([0, members], np.int64)), np.int64(1), DeviceArray(np.array([total], np.int64))),
        *(np.int64(total - 300), np.int64(total), keys),
    )
    wanted = np.arange(members - 301, members - 1, dtype=np.uint64) << np.uint64(32) | np.uint64(members - 1)
    np.testing.assert_array_equal(keys.get(), wanted)


def test_labels_of_a_long_chain(host: Machine) -> None:
    count = 100_000  # were nothing shortened, 5 * 10^9 steps
    parent = DeviceArray(np.maximum(np.arange(count), 1).astype(np.uint64) - np.uint64(1))
    host.run("components", "components_label", count, 256, np.int64(count), parent)
    assert not parent.get().any()
