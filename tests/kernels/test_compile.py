"""NVIDIA's compiler takes every kernel, and the hot ones keep everything in registers.

tests/soak/figures.json has the figures of each source for every architecture; ./ci/soak compiles them all. This file
compiles changed files for some architectures, and one other.
"""

from typing import Any

import pytest

from gpulsh.backends.cuda.launcher import expanded_source
from tests.kernels.host import signatures
from tests.soak.device_compiler import compiler_for, compilers
from tests.soak.figures import FILES, committed, compiled, source_hash

pytestmark = pytest.mark.kernels
HOT = {
    *("tokens", "shingle", "minhash", "sketch", "band_digests", "intersect", "bitmaps", "overlap_bounds"),
    *("collisions", "unique"),
}
SOME = [70, 90]  # the oldest, and the one that most figures are measured on; a compiler each
REGISTERS_OF_AN_SM = 65536
THREADS = 256


def test_registers_spills_and_shared_memory() -> None:
    known = committed()
    for file in FILES:
        kernels = set(signatures(expanded_source(file)))
        if known["sources"].get(file) == source_hash(file):
            found = [(name, of) for name in kernels for of in known["kernels"][name].values()]
        else:
            used = [compiled(file, at).usage for at in filter(compiler_for, SOME)]
            found = [(name, of._asdict()) for by_name in used for name, of in by_name.items()]
            if not found:
                pytest.skip("no NVIDIA compiler: the nvidia-cuda-nvrtc wheel is not there")
        assert {name for name, _ in found} == kernels
        for name, of in found:
            check(file, name, of)


def check(file: str, name: str, of: dict[str, Any]) -> None:
    assert 0 < of["registers"] <= REGISTERS_OF_AN_SM // THREADS // 4, f"{name}: less than 4 blocks fit an SM: {of}"
    assert of["shared"] <= 48 * 1024, f"{name}: more static shared memory than a block may have: {of}"
    assert file not in HOT or of["spills"] == 0, f"{name}: {of}"


def test_the_compiler_compiles_and_refuses() -> None:
    if not compilers():
        pytest.skip("no NVIDIA compiler: the nvidia-cuda-nvrtc wheel is not there")
    assert compiled("unique", 90).usage.keys() == signatures(expanded_source("unique")).keys()
    for compiler in compilers():
        with pytest.raises(AssertionError, match="undefined"):
            compiler.compile('extern "C" __global__ void broken() { missing(); }', 75)
