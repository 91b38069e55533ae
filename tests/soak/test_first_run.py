"""A first run compiles the kernels that it needs, and nothing else of Numba."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.codegen import get_host_cpu_features

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


# --- kernels for the vectors that the host has: none wider, nothing spilt, and none of another host is loaded ---


HOST = get_host_cpu_features().split(",")
SIGNED = """
import numpy as np
from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu import CpuBackend
from gpulsh.backends.cpu.sketches import minhash
from gpulsh.backends.protocol import sketched
from gpulsh.params import Family
values = np.random.default_rng(1).integers(0, 2**64, 900, np.uint64)
found = sketched(CpuBackend(1), Fingerprints(values, np.array([0, 7, 900])), Family(num_perm=130))
kept = minhash._minhash
print(sum(kept.stats.cache_hits.values()), hash(found.tobytes()))
print(*kept.inspect_asm().values() if kept.stats.cache_misses else "")
"""


def signed(cache: Path, features: list[str]) -> tuple[int, int, str]:
    """Whether the kernel was loaded, a hash of what it gave, and its instructions where it was compiled."""
    environment = {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": ",".join(features), "PYTHONHASHSEED": "1"}
    environment |= {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(__file__).parents[2])}
    told = subprocess.run(
        [sys.executable, "-c", SIGNED], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    ).stdout
    facts, _, code = told.partition("\n")
    loaded, found = map(int, facts.split())
    return loaded, found, code


@pytest.mark.skipif("+avx2" not in HOST, reason="needs AVX2")
def test_a_host_of_narrower_vectors(tmp_path: Path) -> None:
    """Its kernel keeps all of the loop in registers, and does not come from the cache that a wider host filled."""
    narrow = [re.sub(r"\+(avx512|fma$)", r"-\1", name) for name in HOST]  # unlike the host, if that is narrow as well
    _, wanted, _ = signed(tmp_path, HOST)
    loaded, found, code = signed(tmp_path, narrow)
    assert (loaded, found) == (0, wanted) and "%ymm" in code and "%zmm" not in code
    folded = re.findall(r"^\tv(?:pmulld|pminud).*", code, re.MULTILINE)
    assert folded and not [line for line in folded if "(%rsp)" in line]
    assert signed(tmp_path, narrow)[:2] == signed(tmp_path, HOST)[:2] == (1, wanted)
