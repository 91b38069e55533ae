"""The host launcher finds the faults of kernels, and the launch code passes the arguments that kernels expect."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpulsh import secret
from gpulsh.backends import protocol
from gpulsh.backends.cuda.launcher import Geometry, expanded_source, kernel_folder
from gpulsh.backends.cuda.machine import Machine
from gpulsh.backends.cuda.sketches import MAX_COLUMNS
from gpulsh.errors import BackendError
from tests.kernels.device_arrays import DeviceArray, DeviceModule
from tests.kernels.host import HostLauncher, signatures
from tests.soak.device_compiler import compiler_for, compilers
from tests.soak.figures import FILES, committed, compiled, source_hash

pytestmark = pytest.mark.kernels

BROKEN = """
typedef unsigned int u32;
typedef int i32;
typedef long long i64;

extern "C" __global__ void __launch_bounds__(256) reverse(u32* values) {
    __shared__ u32 kept[256];
    kept[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256) missing_barrier(u32* values) {
    __shared__ u32 kept[256];
    kept[threadIdx.x] = values[threadIdx.x];
    values[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256) divided_barrier(u32* values) {
    if (threadIdx.x > 3) __syncthreads();
    values[threadIdx.x] = 0;
}

extern "C" __global__ void __launch_bounds__(256) divided_warp(u32* values) {
    if (threadIdx.x > 3) values[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, threadIdx.x, 0);
}

extern "C" __global__ void __launch_bounds__(256) behind(u32* values, i64 count) { values[count] = 1; }

extern "C" __global__ void __launch_bounds__(256) before(u32* values) {
    if (values[-1] == 0) values[0] = 0;
}

extern "C" __global__ void __launch_bounds__(256) lost_update(u32* values) {
    const u32 seen = *(volatile u32*)values;
    atomicAdd(values + 1, 1u);
    values[0] = seen + 1;
}

extern "C" __global__ void __launch_bounds__(256) endless(u32* values) {
    while (*(volatile u32*)values != 99) {}
}

extern "C" __global__ void __launch_bounds__(256) wide_shift(u32* values, i64 count) { values[0] = 1u << count; }

extern "C" __global__ void __launch_bounds__(256) far_apart(u32* values, i32 last, i32 first) {
    if (last - first < 5) values[0] = 0;
}
"""


@pytest.fixture(scope="module")
def broken(kernels_built: None, tmp_path_factory: pytest.TempPathFactory) -> HostLauncher:
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "broken.cu").write_text(BROKEN)
    return HostLauncher(folder)


def values() -> DeviceArray:
    return DeviceArray(np.arange(1, 41, dtype=np.uint32))


def test_a_correct_kernel_runs(broken: HostLauncher) -> None:
    given = values()
    broken("broken", "reverse", (1, 1), 40, given)
    assert given.get().tolist() == list(range(40, 0, -1))


@pytest.mark.parametrize(
    ("kernel", "message", "scalars"),
    [
        ("missing_barrier", "values differs with descending threads", []),
        ("divided_barrier", "some threads of a block never reach a barrier", []),
        ("divided_warp", "some lanes of a warp never reach a warp operation", []),
        ("behind", "with ascending threads: a kernel reads or writes outside an array", [np.int64(40)]),
        ("before", "with descending threads: a kernel reads or writes outside an array", []),
        ("lost_update", "values differs with random threads", []),
        ("endless", "a kernel does not end", []),
        ("wide_shift", "a kernel shifts, counts or indexes beyond bounds", [np.int64(32)]),
        ("far_apart", "a kernel shifts, counts or indexes beyond bounds", [np.int32(2**30), np.int32(-(2**30))]),
    ],
)
def test_a_broken_kernel_is_found(broken: HostLauncher, kernel: str, message: str, scalars: list[np.generic]) -> None:
    with pytest.raises(AssertionError, match=message):
        broken("broken", kernel, (1, 1), 40, values(), *scalars)


def test_arguments_of_the_wrong_kind_are_refused(broken: HostLauncher) -> None:
    array, count = values(), np.int64(20)
    for given in ((array, 40), (array, np.int32(40)), (array,), (array.get(), count), (array[::2], count)):
        with pytest.raises(AssertionError):
            broken("broken", "behind", (1, 1), 40, *given)


@pytest.mark.parametrize(
    "call",
    [
        np.unique,
        lambda array: np.full(3, 1, like=array),  # NumPy passes on a device
        lambda array: np.argsort(array, kind="quicksort"),
        lambda array: array.max(initial=0),
        lambda array: array.argmax(),
        lambda array: array.__setitem__(slice(1, None), array[:-1]),
        lambda array: np.add(array[1:], array[:-1], out=array[1:]),
        lambda array: array.__setitem__(array[:2] * 0, array[:2]),
    ],
)
def test_device_arrays_refuse_what_cupy_lacks(call: Callable[[DeviceArray], object]) -> None:
    with pytest.raises((AssertionError, AttributeError, TypeError), match="CuPy"):
        call(values())


def test_kernel_constants_equal_those_of_python() -> None:
    source = (kernel_folder() / "bits.cuh").read_text()
    found = {name: int(value, 0) for name, value in re.findall(r"constexpr [ui]\d+ (\w+) = (0x[0-9A-F]+|\d+)", source)}
    of_arrays = {"STREAM_BITS", "STREAM_ITEM", "WINDOW_PART"}  # for array code alone
    wanted = {name: value for name, value in vars(protocol).items() if name.isupper() and name not in of_arrays}
    for name in ("PLACES", "EXACT_PLACES", "SHINGLE", "TOKEN_FAR", "EXACT", "EXACT_FAR", "EXACT_SPREAD"):
        wanted[name] = getattr(secret, name)
    assert wanted.items() <= found.items()
    assert "DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS, LEVELS = 3;" in source
    assert (secret.DIGITS, secret.LEVELS) == (1 << 10, 3)


def test_the_default_cut_fits_the_shared_arrays() -> None:
    text = "".join(path.read_text() for path in kernel_folder().iterdir() if path.suffix in (".cu", ".cuh"))
    bounds = {name: int(value) for name, value in re.findall(r"constexpr i32 (MAX_\w+) = (\d+);", text)}
    cut = Geometry()
    assert cut.threads <= bounds["MAX_THREADS"] and cut.minhash_threads <= 32 * bounds["MAX_WARPS"]
    assert cut.span <= bounds["MAX_SPAN"]
    assert cut.text_threads <= bounds["MAX_THREADS"]
    assert cut.minhash_threads % 32 == 0
    assert bounds["MAX_COLUMNS"] == MAX_COLUMNS
    assert cut.row_threads % 32 == 0 and cut.row_threads <= bounds["MAX_THREADS"] and cut.row_limit <= bounds["MAX_ROW"]


def test_more_blocks_than_a_grid_holds_are_refused() -> None:
    machine = Machine(DeviceModule(), HostLauncher(), Geometry())
    with pytest.raises(BackendError, match="would need 2147483648 x 1 blocks; give a smaller batch"):
        machine.run("tokens", 2**31, kernel="tokens_count", per="block")
    machine.run("tokens", 0, kernel="tokens_count")  # no work, no launch


def test_partial_warps_are_refused_by_warp_operations() -> None:
    launch = HostLauncher()
    parameters = len(launch.load("minhash")[1]["minhash_2_columns"])
    with pytest.raises(AssertionError, match="minhash_2_columns: 40 threads"):
        launch("minhash", "minhash_2_columns", (1, 1), 40, *[DeviceArray(np.zeros(1, np.uint64))] * parameters)


# --- NVIDIA's compiler takes every kernel, and the hot ones keep everything in registers

# tests/soak/figures.json has the figures of each source for every architecture; ./ci/soak compiles them all. Here
# changed files are compiled for some architectures, and one other.

HOT = {
    *("tokens", "shingle", "minhash", "sketch", "band_digests", "intersect", "bitmaps", "overlap_bounds"),
    *("collisions", "unique"),
}
SOME = [70, 90]  # the oldest, and the one that most figures are measured on; a compiler each
REGISTERS_OF_AN_SM = 65536
THREADS = 256


def test_kernels_keep_their_limits_of_registers_and_spills() -> None:
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


def test_the_nvidia_compiler_compiles_and_refuses() -> None:
    if not compilers():
        pytest.skip("no NVIDIA compiler: the nvidia-cuda-nvrtc wheel is not there")
    assert compiled("unique", 90).usage.keys() == signatures(expanded_source("unique")).keys()
    for compiler in compilers():
        with pytest.raises(AssertionError, match="undefined"):
            compiler.compile('extern "C" __global__ void broken() { missing(); }', 75)


@pytest.mark.parametrize(
    "refused",
    [
        lambda array: array + np.array(1),
        lambda array: np.add(array, array, where=True),
        np.add.reduce,
        lambda array: np.searchsorted(array, np.int64(1)),
    ],
)
def test_device_arrays_refuse_what_cupy_refuses(refused: Callable[[DeviceArray], Any]) -> None:
    with pytest.raises(TypeError, match=r"NumPy array|CuPy's"):
        refused(values())


def test_a_stream_is_entered_on_its_device() -> None:
    cuda = DeviceModule(devices=2).cuda
    stream = cuda.Stream()
    with cuda.Device(1), pytest.raises(RuntimeError, match="of device 0 there alone"), stream:
        pass
