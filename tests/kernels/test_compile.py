"""NVIDIA's compiler takes every kernel, and the hot ones keep everything in registers.

tests/soak/figures.json holds the figures of each source for every architecture; ./ci/soak compiles them all. Here the
compiler sees changed files, and one other.
"""

from __future__ import annotations

import pytest

from gpulsh.backends.cuda.launcher import expanded_source
from tests.kernels.host import signatures
from tests.soak.device_compiler import ARCHITECTURES, Usage, compiler_for, compilers
from tests.soak.figures import FILES, committed, compiled, source_hash

pytestmark = pytest.mark.kernels
HOT = {
    *("tokens", "shingle", "minhash", "sketch", "band_digests", "intersect", "bitmaps", "overlap_bounds"),
    *("collisions", "unique"),
}
REGISTERS_OF_AN_SM = 65536
THREADS = 256


def check(file: str, name: str, used: Usage) -> None:
    assert 0 < used.registers <= REGISTERS_OF_AN_SM // THREADS // 4, f"{name}: less than 4 blocks fit an SM: {used}"
    assert used.shared <= 48 * 1024, f"{name}: more static shared memory than a block may have: {used}"
    if file in HOT:
        assert used.spills == 0 and used.stack == 0, f"{name}: {used}"


@pytest.mark.parametrize("file", FILES)
def test_what_a_kernel_takes(file: str) -> None:
    known, kernels = committed(), set(signatures(expanded_source(file)))
    if known["sources"].get(file) == source_hash(file):
        used = [(name, one) for name in kernels for one in known["kernels"][name].values()]
        found = [(name, Usage(*(one[field] for field in Usage._fields))) for name, one in used]
    else:
        found = [use for at in filter(compiler_for, ARCHITECTURES) for use in compiled(file, at).usage.items()]
        if not found:
            pytest.skip("no NVIDIA compiler: neither the nvidia-cuda-nvrtc wheel nor nvcc is there")
    assert {name for name, _ in found} == kernels
    for name, used in found:
        check(file, name, used)


def test_the_compiler_is_asked() -> None:
    if not compilers():
        pytest.skip("no NVIDIA compiler: neither the nvidia-cuda-nvrtc wheel nor nvcc is there")
    assert compiled("unique", 90).usage.keys() == signatures(expanded_source("unique")).keys()
    for compiler in compilers():
        with pytest.raises(AssertionError, match="undefined"):
            compiler.compile('extern "C" __global__ void broken() { missing(); }', 75)
