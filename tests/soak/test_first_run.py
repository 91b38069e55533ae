"""A first run compiles the kernels that it needs, and nothing else of Numba."""

import subprocess
import sys

from tests.backends.test_first_run import ENVIRONMENT

COUNTED = """
import sys
import numpy as np
from numba.core import event
from gpulsh.backends import kernel_cache
cache = kernel_cache.KernelCache(None)
kernel_cache.kernel_cache = lambda: cache
from gpulsh.arrays import Buckets, Fingerprints
from gpulsh.backends.cpu import CpuBackend
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
print(*foreign)
"""


def test_a_first_run_compiles_little() -> None:
    """Numba makes functions of its own of np.sort, and of slices assigned to slices, in more time than of all else."""
    ran = subprocess.run([sys.executable, "-c", COUNTED], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    own = {"_unique_rows", "_counted", "_scattered", "_collisions", "_positions", "_pairs", "sort"}
    found = ran.stdout.split()
    assert own - {"_counted", "_scattered"} <= set(found)
    assert len(found) < 32 and not any("sort" in name and name != "sort" for name in found)
    assert not any("raise_with_shape" in name or "str" in name for name in found)
