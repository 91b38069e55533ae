"""The kernel enforces `--memory`: a run beyond it ends in one line that names the file or the stage."""

import errno
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpulsh.errors import DamagedInputError, DeviceMemoryError, GpulshError, MemoryLimitError
from gpulsh.io.file import File, reading
from gpulsh.memory_limit import is_out_of_memory, memory_error, memory_limit
from tests.support.command import Command
from tests.support.runs import python

FILE = File("a.parquet", "a.parquet", "a.parquet")


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (pa.ArrowMemoryError("malloc of size 9 failed"), True),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), True),
        (OSError("ZSTD compression failed: Allocation error : not enough memory"), True),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), False),
        (ValueError("no memory of that"), False),
        (DeviceMemoryError("on the device"), False),
    ],
)
def test_memory_errors_are_recognized(error: Exception, lacks: bool) -> None:
    assert is_out_of_memory(error) is lacks
    wrapped = RuntimeError("something else failed")
    wrapped.__cause__ = error
    assert is_out_of_memory(wrapped) is lacks


def test_a_file_beyond_the_memory_limit_is_named() -> None:
    message = r"^a\.parquet: needs more memory than the \d+ MiB .* larger --memory"
    with memory_limit(512 << 20, 1), pytest.raises(GpulshError) as raised, reading(FILE):
        raise pa.ArrowMemoryError("malloc of size 9 failed")
    assert isinstance(raised.value, MemoryLimitError) and re.search(message, raised.value.message)
    with pytest.raises(DamagedInputError, match="cannot be read: Couldn't deserialize"), reading(FILE):
        raise OSError("Couldn't deserialize thrift")


def test_a_lower_limit_of_the_shell_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch systems limit the address space, where a larger --memory would not help."""
    for data in (9 << 30, resource.RLIM_INFINITY):
        limits = {resource.RLIMIT_DATA: data, resource.RLIMIT_AS: 1 << 30}
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limits=limits: (limits[kind], limits[kind]))
        remedy = "1024 MiB that this process may allocate (ulimit -v); raise that limit, or give a smaller --memory"
        assert memory_error("write").message == f"write: needs more memory than the {remedy}"


def test_a_system_without_proc_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr("gpulsh.memory_limit.STATUS", tmp_path / "status")
    (tmp_path / "a.txt").write_text("some words")
    printed = command(f"dedup {tmp_path}/a.txt -o {tmp_path}/out --backend cpu")
    missing = f"{tmp_path}/status is missing, and gpulsh reads there how much memory it has; mount /proc"
    assert printed.status == 1 and printed.error == missing


@pytest.mark.parametrize("job", ["dedup {file} -o {out}", "index build {out} {file}"])
def test_a_footer_beyond_the_memory_limit_is_named(job: str, tmp_path: Path) -> None:
    """Arrow ends the process where a footer finds no memory, so no error could follow."""
    path = tmp_path / "a.parquet"
    pairs = {f"{number}": "v" * 100 for number in range(250_000)}
    pq.write_table(pa.table({"text": ["a b c"]}).replace_schema_metadata(pairs), path)
    line = f"-m gpulsh {job.format(file=path, out=tmp_path / 'out')} --memory 512MiB --backend reference"
    ran = subprocess.run([sys.executable, *line.split()], check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    assert re.search(r"^gpulsh: error: .*a\.parquet: needs more memory than the \d+ MiB", ran.stderr, re.M)


@pytest.mark.parametrize(
    ("job", "patched", "named"),
    [
        ("dedup", "gpulsh.run.stages.sign.sign_batches", "sign"),
        ("dedup", "gpulsh.run.file_run.write_report", ".*/out"),
        ("passages", "gpulsh.run.file_run.write_report", ".*/out"),
    ],
)
def test_jobs_beyond_the_memory_limit_are_one_line(
    job: str, patched: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    (tmp_path / "a.txt").write_text("some words")
    monkeypatch.setattr(patched, lambda *_: bytearray(2 << 30))
    last = command(f"{job} {tmp_path}/a.txt -o {tmp_path}/out --memory 512MiB --backend reference").error
    assert re.fullmatch(rf"{named}: needs more memory than the \d+ MiB that this .*; give a larger --memory", last)
    assert not (tmp_path / "out").exists() or named != "sign"


@pytest.mark.parametrize("job", ["build ix a.txt", "query known a.txt"])
def test_index_commands_beyond_the_memory_limit_are_one_line(
    job: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("some words")
    command("index build known a.txt --backend reference")
    monkeypatch.setattr("gpulsh.index.collection.Collection." + ("add" if "build" in job else "find_similar"), allocate)
    last = command(f"index {job} --memory 512MiB --backend reference").error
    assert re.fullmatch(r"index: needs more memory than the \d+ MiB that this .*; give a larger --memory", last)


def allocate(*_: object, **__: object) -> bytearray:
    return bytearray(2 << 30)


def test_the_command_itself_holds_little_memory() -> None:
    """Arrow's allocators may reserve memory that is never touched, or keep freed memory, and the kernel counts it."""
    assert int(python(ALLOCATED).splitlines()[-1]) < 256 << 10


ALLOCATED = """
    import re, sys
    from pathlib import Path
    from gpulsh.cli import main
    sys.argv = ["gpulsh", "--version"]
    main()
    import pyarrow

    def allocated():
        return int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

    before = allocated()
    for size in (1000, 100 << 20, 200 << 20, 1000):
        kept = pyarrow.allocate_buffer(size)
    print(allocated() - before)
"""


LITTLE = """
import resource
from gpulsh.backends.cpu import CpuBackend
from gpulsh.errors import MemoryLimitError
from gpulsh.memory_limit import _allocated_bytes
import numpy as np
resource.setrlimit(resource.RLIMIT_DATA, (_allocated_bytes() + {room}, resource.RLIM_INFINITY))
try:
    CpuBackend(threads=1).components(2, np.array([[0, 1]]))
except MemoryLimitError as error:
    print(error.message)
"""


@pytest.mark.parametrize(("room", "what"), [(4 << 20, "load"), (40 << 20, "compile")])
def test_kernels_get_memory_or_are_refused(
    room: int, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """LLVM ended the process, and OpenBLAS looped for ever while the compiler was loaded."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # has no kernels yet
    assert re.match(rf"{what} a kernel: needs more memory than the \d+ MiB", python(LITTLE.format(room=room)))
