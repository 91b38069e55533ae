"""What the CPU's kernels sort by hand, at sizes and repeats where each of their methods is taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpulsh.arrays import Buckets, Fingerprints
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.reference import ReferenceBackend

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
CPU, REFERENCE = CpuBackend(1), ReferenceBackend()


@pytest.mark.parametrize("documents", [400, 200_000])  # neighbours that lie close together, and far apart
def test_many_neighbours(documents: int) -> None:
    rng = np.random.default_rng(documents)
    buckets = [np.sort(rng.choice(documents, 60, replace=False)) for _ in range(120)]
    buckets += [np.sort(np.append(rng.choice(np.arange(1, documents), 40, replace=False), 0)) for _ in range(20)]
    found = Buckets(np.concatenate(buckets), np.concatenate([[0], np.cumsum([len(bucket) for bucket in buckets])]))
    assert np.array_equal(CPU.candidates(found), REFERENCE.candidates(found))


@pytest.mark.parametrize("distinct", [1, 3, 50, 3000])
@pytest.mark.parametrize("upper", [1 << 20, 1 << 64])
def test_many_equal_digests(distinct: int, upper: int) -> None:
    rng = np.random.default_rng(distinct)
    digests = rng.choice(rng.integers(0, upper, distinct, dtype=np.uint64), 20_000)
    for ids in (np.arange(20_000), rng.permutation(20_000)):
        ours, theirs = (backend.collisions(digests, ids) for backend in (CPU, REFERENCE))
        assert all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in ("ids", "offset"))


@pytest.mark.parametrize("upper", [1, 5, 1 << 10, 1 << 16, 1 << 40, 1 << 64])
def test_values_that_are_no_hashes(upper: int) -> None:
    values = np.random.default_rng(7).integers(0, upper, 30_000, dtype=np.uint64)
    rows = Fingerprints(values, np.array([0, 30, 30, 700, 30_000]))
    ours, theirs = CPU.unique(rows), REFERENCE.unique(rows)
    assert np.array_equal(ours.values, theirs.values) and np.array_equal(ours.offset, theirs.offset)


COUNTED = """
import sys
import numpy as np
from numba.core import event
from gpulsh.backends import kernel_cache
cache = kernel_cache.KernelCache(None)
kernel_cache.kernel_cache = lambda: cache
from gpulsh.arrays import Buckets, Fingerprints
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cpu.content import content_sums
foreign = []
class Listener(event.Listener):
    def on_start(self, event):
        foreign.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass
ops, ones = CpuBackend(1), np.ones(9, np.uint64)
with event.install_listener("numba:compile", Listener()):
    ops.unique(Fingerprints(ones, np.array([0, 9])))
    ops.collisions(ones, np.arange(9))
    ops.candidates(Buckets(np.arange(9), np.array([0, 9])))
    content_sums(np.zeros(9, np.uint8), np.array([0, 9]), np.zeros(2000, np.uint8))
print(*foreign)
"""


def test_a_first_run_compiles_little() -> None:
    """Numba makes functions of its own of np.sort, and of slices assigned to slices, in more time than of all else."""
    ran = subprocess.run([sys.executable, "-c", COUNTED], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    own = {"_unique_rows", "_counted", "_scattered", "_collisions", "_positions", "_pairs", "_sort", "_sums"}
    found = ran.stdout.split()
    assert own - {"_counted", "_scattered"} <= set(found)
    assert len(found) < 32 and not any("sort" in name and name != "_sort" for name in found)
    assert not any("raise_with_shape" in name or "str" in name for name in found)
