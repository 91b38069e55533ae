"""Every kernel compiles for every architecture that is promised, and the hot ones keep all they hold in registers."""

from __future__ import annotations

import pytest

from gpulsh.backends.cuda.launcher import expanded_source
from tests.kernels.device_compiler import Usage, compilers
from tests.kernels.figures import FILES, committed, compiled, due
from tests.kernels.host import signatures

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
def test_compiles(file: str) -> None:
    """For the architectures that are due; of the others figures.json tells what came of this very source."""
    if not compilers():
        pytest.skip("no NVIDIA compiler: neither the nvidia-cuda-nvrtc wheel nor nvcc is there")
    kernels, refused = set(signatures(expanded_source(file))), []
    for architecture in due(file):
        try:
            found = compiled(file, architecture).usage
        except LookupError as error:
            refused.append(str(error))
            continue
        assert set(found) == kernels
        for name, used in found.items():
            check(file, name, used)
    for name in kernels:
        for told in committed()["kernels"][name].values():
            check(file, name, Usage(*(told[field] for field in Usage._fields)))
    if refused:
        pytest.skip("; ".join(refused))


def test_what_does_not_compile_is_an_error() -> None:
    for compiler in compilers():
        with pytest.raises(AssertionError, match="undefined"):
            compiler.compile('extern "C" __global__ void broken() { missing(); }', 75)
    if not compilers():
        pytest.skip("no NVIDIA compiler: neither the nvidia-cuda-nvrtc wheel nor nvcc is there")
