"""Kernels for the vectors that the host has: none wider, nothing spilt, and no kernel of another host is loaded."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.codegen import get_host_cpu_features

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
