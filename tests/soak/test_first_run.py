"""A first run compiles the kernels that it needs, and no other function of Numba."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest
from numba.core.codegen import get_host_cpu_features

import gpulsh
from tests.support.files import write_rows
from tests.support.runs import environment, python

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


def test_a_first_run_compiles_few_functions() -> None:
    """Numba's np.sort, and its assignments of slices to slices, took longer to compile than all else."""
    own = {"_unique_rows", "_collisions", "_positions", "_pairs", "sort"}
    found = python(COUNTED).split()
    assert own <= set(found)
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
    """Whether the kernel was loaded, a hash of its output, and its instructions if it was compiled."""
    environment = {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": ",".join(features), "PYTHONHASHSEED": "1"}
    environment |= {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(__file__).parents[2])}
    printed = subprocess.run(
        [sys.executable, "-c", SIGNED], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    ).stdout
    facts, _, code = printed.partition("\n")
    loaded, found = map(int, facts.split())
    return loaded, found, code


@pytest.mark.skipif("+avx2" not in HOST, reason="needs AVX2")
def test_narrower_vectors_get_kernels_of_their_own(tmp_path: Path) -> None:
    """Its kernel keeps all of the loop in registers, and does not come from the cache that a wider host filled."""
    narrow = [re.sub(r"\+(avx512|fma$)", r"-\1", name) for name in HOST]  # unlike the host, if that is narrow as well
    _, wanted, _ = signed(tmp_path, HOST)
    loaded, found, code = signed(tmp_path, narrow)
    assert (loaded, found) == (0, wanted) and "%ymm" in code and "%zmm" not in code
    folded = re.findall(r"^\tv(?:pmulld|pminud).*", code, re.MULTILINE)
    assert folded and not [line for line in folded if "(%rsp)" in line]
    assert signed(tmp_path, narrow)[:2] == signed(tmp_path, HOST)[:2] == (1, wanted)


# --- a first run of another user, in a container, also with little room for temporary files ---


ROOT = Path(gpulsh.__file__).parents[1]
AS_NOBODY = ["prlimit", "--nofile=64", "setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]
READING = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # Python, where root alone may see it


@dataclass(frozen=True)
class Container:
    """The place of a user without name, home or environment, who may open 64 files and write to two folders."""

    base: Path
    command: tuple[str, ...]
    temporary: Path

    def python(self, *arguments: str, stdin: BinaryIO | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"TMPDIR": str(self.temporary), "PATH": os.environ["PATH"]}
        given = [*self.command, sys.executable, *arguments]
        return subprocess.run(given, check=False, capture_output=True, text=True, env=environment, stdin=stdin)

    def gpulsh(self, *arguments: str, stdin: BinaryIO | None = None) -> subprocess.CompletedProcess[str]:
        path = str(self.base / "lib")
        code = f"import sys; sys.path.insert(0, {path!r}); from gpulsh.cli import main; sys.exit(main())"
        return self.python("-c", code, *arguments, stdin=stdin)


@pytest.fixture
def container() -> Iterator[Container]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("takes root, who becomes another user")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        base = Path(name)
        base.chmod(0o755)
        shutil.copytree(ROOT / "gpulsh", base / "lib/gpulsh", ignore=shutil.ignore_patterns("__pycache__"))
        (base / "work").mkdir()
        (base / "tmp").mkdir()
        for folder in ("work", "tmp"):
            os.chown(base / folder, 12345, 12345)
        write_rows(base / "work/a.jsonl", [f"some words of a text about {n // 2} and more" for n in range(400)])
        for more in ([], READING):
            made = Container(base, (*AS_NOBODY, *more), base / "tmp")
            if made.python("-c", "import numpy, pyarrow, numba").returncode == 0:
                break
        else:
            pytest.skip("the Python of this machine is not for other users")
        yield made
        assert not (base / "work/~").exists() and not Path("~").exists()


def test_a_user_without_a_home_caches_kernels_in_tmp(container: Container) -> None:
    base = container.base
    kernels = json.loads(container.gpulsh("info", "--json").stdout)["kernels"]
    assert kernels["cache"].startswith(str(base / "tmp/gpulsh-12345/gpulsh-"))
    assert len(kernels["refused"]) == 2
    for attempt in range(2):
        ran = container.gpulsh("dedup", str(base / "work/a.jsonl"), "-o", str(base / f"work/out{attempt}"))
        assert ran.returncode == 0, ran.stderr
        assert ("compiling kernels" in ran.stderr) == (attempt == 0)


def test_a_full_temporary_folder_is_reported(container: Container) -> None:
    base, small = container.base, container.base / "small"
    small.mkdir()
    mounting = 'mount -t tmpfs -o size=64k,mode=1777 tmpfs "$0" && exec "$@"'
    inside = ("unshare", "--mount", "sh", "-c", mounting, str(small))
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    boxed = Container(base, (*inside, *container.command), small)
    ran = boxed.gpulsh("dedup", str(base / "work/a.jsonl"), "-o", str(base / "work/out"))
    assert ran.returncode == 0, ran.stderr
    cache = f"gpulsh: {small}/gpulsh-12345/gpulsh-"
    (refused,) = [line for line in ran.stderr.splitlines() if line.startswith(cache)]
    assert refused.endswith(": cannot keep compiled kernels: No space left on device")
    assert "later runs" not in ran.stdout
    (base / "work/long.jsonl").write_bytes((base / "work/a.jsonl").read_bytes() * 10)
    with open(base / "work/long.jsonl", "rb") as stream:
        ran = boxed.gpulsh("dedup", "-", "-o", str(base / "work/streamed"), stdin=stream)
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"gpulsh: error: {small}/gpulsh-")
    assert line.endswith("set TMPDIR to a folder with room for it")
    assert not (base / "work/streamed").exists()
