"""The folder of compiled kernels: other users cannot write to it, and a run works without such a folder."""

import ast
import gc
import importlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from subprocess import Popen
from typing import Any
from unittest.mock import Mock

import pytest
from numba.core.dispatcher import Dispatcher

import gpulsh
from gpulsh.backends import cpu as second
from gpulsh.backends import kernel_cache
from gpulsh.backends.compiling import COMPILING, Compiling, Stopwatch
from gpulsh.backends.cpu import second_compiler
from gpulsh.backends.cpu.kernel import _kernels
from gpulsh.backends.kernel_cache import KernelCache, find_kernel_cache, sources
from gpulsh.cli import main
from gpulsh.report.summary import funnel_table
from gpulsh.run.progress import open_progress
from gpulsh.stats.counts import COUNTS
from gpulsh.stats.stages import Funnel, StageRow
from tests.support.bounds import bounds
from tests.support.files import write_rows
from tests.support.runs import python

ROOT = Path(gpulsh.__file__).parents[1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package, a home and a temporary folder, in pytest's private folder."""
    for name in ("package", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


def find(own: Path, **environment: str) -> Any:
    return find_kernel_cache({"HOME": str(own / "home"), **environment}, own / "package")


def test_the_package_folder_keeps_the_kernels(place: Path) -> None:
    assert find(place).folder == str(place / "package/__pycache__")
    assert find(place, NUMBA_CACHE_DIR=str(place / "given")).folder.startswith(str(place / "given/gpulsh-"))


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
@pytest.mark.parametrize("shared", ["package", "package/__pycache__"])
def test_a_folder_writable_by_others_is_not_trusted(place: Path, shared: str, mode: int) -> None:
    (place / "package/__pycache__").mkdir()
    (place / shared).chmod(mode)
    cache = find(place)
    if mode & stat.S_ISVTX and shared == "package":  # other users cannot replace existing files
        assert cache.folder == str(place / "package/__pycache__")
    else:
        assert cache.folder.startswith(str(place / "home/.cache/gpulsh-"))
        assert cache.refused == (f"{place / shared}: can be written to by others",)
        assert stat.S_IMODE((place / "home/.cache").stat().st_mode) == 0o700


def test_a_folder_of_another_user_is_not_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lstat, foreign = os.lstat, os.stat_result([stat.S_IFDIR | 0o700, 0, 0, 1, 4711, 0, 0, 0, 0, 0])
    monkeypatch.setattr(os, "lstat", lambda path: foreign if Path(path) == place / "package" else lstat(path))
    assert find(place).refused == (f"{place}/package: is another user's",)


@pytest.fixture
def homeless(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a home who cannot write to the package, even as root."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place / "package" and access(path, mode))
    (place / "home").rmdir()
    return place


def test_a_user_without_a_home_gets_a_temporary_folder(homeless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, mine = find(homeless), homeless / f"tmp/gpulsh-{os.geteuid()}"
    assert cache.folder.startswith(f"{mine}/gpulsh-")
    assert cache.refused == (
        f"{homeless}/package: cannot be written to",
        f"{homeless}/home: the home folder does not exist",
    )
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user without a name
    assert find_kernel_cache({}, homeless / "package").refused[1] == "HOME is not set, and the user has no home folder"
    monkeypatch.chdir(homeless / "tmp")
    assert find(homeless).folder is not None
    (homeless / "tmp").chmod(0o755)  # the current folder, and not for all: Python's last resort
    mine.rename(homeless / "before")
    assert find(homeless).refused[2] == "there is no temporary folder that can be written to"
    assert not list((homeless / "tmp").iterdir())


@pytest.mark.parametrize("what", ["link", "file", "open", "foreign", "unsticky"])
def test_a_prepared_temporary_folder_is_not_trusted(homeless: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    mine = homeless / f"tmp/gpulsh-{os.geteuid()}"
    if what == "link":
        (homeless / "elsewhere").mkdir(mode=0o700)
        mine.symlink_to(homeless / "elsewhere")
    elif what == "file":
        mine.touch()
    else:
        mine.mkdir(mode=0o750 if what == "open" else 0o700)
        if what == "unsticky":
            (homeless / "tmp").chmod(0o777)
        elif what == "foreign":
            monkeypatch.setattr(os, "geteuid", lambda: 4711)
            mine.rename(homeless / "tmp/gpulsh-4711")
    cache = find(homeless)
    assert cache.folder is None and len(cache.refused) == 3
    assert list((homeless / "tmp").rglob("*")) == list((homeless / "tmp").iterdir())


def test_info_reports_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    own = kernel_cache.kernel_cache()
    assert main(["info", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["kernels"]
    assert printed == {"cache": own.folder, "refused": list(own.refused)}
    assert main(["info"]) == 0
    assert f"folder      {own.folder}" in capsys.readouterr().out


KERNELS = """
import logging, sys
import numpy as np
from gpulsh.backends import kernel_cache
cache = kernel_cache.KernelCache(sys.argv[1])
kernel_cache.kernel_cache = lambda: cache
if len(sys.argv) > 2:
    kernel_cache.sources_digest = lambda: b"other sources"
from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.cpu.buckets import _components, components
from numba.core.runtime import rtsys
logging.basicConfig(format="%(message)s")
found = components(4, np.array([[1, 3]])).tolist()
loaded = rtsys.library._shared_module is not None  # Numba's runtime, of a library that was loaded
print(found, COMPILING.seconds() > 0, loaded, "numba.core.typing.arraydecl" in sys.modules)
(kept,) = _components.overloads.values()
print(len(list(kept.library._get_module_for_linking().functions)) > 0)
from gpulsh.backends.cpu.texts import gather
print(gather(np.arange(9, dtype=np.uint8), np.array([1, 5]), np.array([3, 6])).values.tolist())
"""


def run_kernels(folder: Path, *changed: str) -> tuple[list[str], str]:
    """The output and the warnings of a process that needs kernels and keeps them in a folder."""
    command = [sys.executable, "-c", KERNELS, str(folder), *changed]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    return ran.stdout.splitlines(), ran.stderr


@pytest.fixture(scope="module")
def cached_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the kernels of a process that compiled them."""
    folder = tmp_path_factory.mktemp("kept")
    assert run_kernels(folder) == (["[0, 1, 2, 1] True True True", "True", "[1, 2, 5]"], "")
    return folder


def test_cached_kernels_load_without_the_compiler(cached_kernels: Path) -> None:
    assert run_kernels(cached_kernels) == (["[0, 1, 2, 1] False True False", "False", "[1, 2, 5]"], "")


def test_damaged_and_outdated_kernels_are_compiled_again(cached_kernels: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(cached_kernels, tmp_path / "kept")
    for ending, left in (("nbi", 20), ("nbc", 99)):
        paths = sorted(folder.glob(f"*.{ending}"))
        assert [path.name.partition(".")[0] for path in paths] == ["buckets", "runtime", "texts"]
        for path in paths[1:] if ending == "nbi" else paths[:1]:
            path.write_bytes(path.read_bytes()[:left])
    printed, warned = run_kernels(folder)
    assert printed[0].startswith("[0, 1, 2, 1] True") and printed[2] == "[1, 2, 5]"
    assert warned and all(line.startswith(f"{folder}: holds a damaged kernel, which") for line in warned.splitlines())
    printed, warned = run_kernels(folder, "changed")
    assert printed[0].startswith("[0, 1, 2, 1] True") and not warned


def test_the_digest_covers_the_sources_that_kernels_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes with each file that a kernel may use, even at equal size and time, and with no other file."""
    shutil.copytree(ROOT / "gpulsh", tmp_path / "gpulsh", ignore=shutil.ignore_patterns("__pycache__"))
    digest = kernel_cache.sources_digest.__wrapped__
    before = digest()
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "gpulsh/backends/kernel_cache.py"))
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path / "gpulsh/backends/cpu")
    (tmp_path / "gpulsh/backends/select.py").write_text("")
    assert digest() == before
    changed = tmp_path / "gpulsh/backends/protocol.py"
    times = changed.stat()
    changed.write_text(changed.read_text("utf-8").replace("the", "teh", 1), "utf-8")
    os.utime(changed, ns=(times.st_mtime_ns, times.st_mtime_ns))  # packages built alike have it
    assert changed.stat().st_size == times.st_size and digest() != before


def test_kernels_import_constants_from_digested_sources_alone() -> None:
    counted = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in sources()}
    for path in (ROOT / "gpulsh/backends/cpu").rglob("*.py"):
        if not re.search(r"^ *@(kernel|subroutine|llvm|inlined)\b", path.read_text("utf-8"), re.MULTILINE):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpulsh"):
                taken = [f"{node.module}.{name.name}" for name in node.names if name.name.isupper()]
                of_module = [f"{node.module}.{name.name}" for name in node.names if name.name == "protocol"]
                assert {name.rpartition(".")[0] for name in taken} | set(of_module) <= counted, path


def test_no_kernel_calls_another_or_reads_a_patched_bound() -> None:
    """The cache could keep a kernel after the other one changed, or with the patched bound."""
    changed = {tuple(name.rpartition(".")[::2]) for name in bounds()}
    for path in (ROOT / "gpulsh/backends/cpu").rglob("*.py"):
        module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for function in vars(importlib.import_module(module)).values():
            if isinstance(function, Dispatcher):
                known, names = function.py_func.__globals__, function.py_func.__code__.co_names
                assert not [name for name in names if (module, name) in changed], (path, function)
                called = [name for name in names if id(known.get(name)) in _kernels]
                assert id(function) not in _kernels or not called, (path, function, called)


# --- seconds of compiling


def test_a_run_without_a_cache_does_not_claim_to_keep_kernels() -> None:
    parameters = {"threshold": 0.8, "verify": "exact", "index": None, "within": False, "across": False}
    report = {
        "funnel": {**dict.fromkeys(COUNTS, 0), "bytes": 0, "shingles": 0, "seconds": {"sign": 1.0}},
        "parameters": parameters,
        "sources": [],
        "backend": {"name": "cpu", "device": None},
        "seconds": 3.0,
        "compiling": 2.0,
    }
    assert funnel_table(report).splitlines()[-1] == "3.0 s on cpu: sign 1.0; 2.0 to compile kernels"


def test_concurrent_compilations_count_once_and_pause_the_collector() -> None:
    clock = Compiling()
    clock.begin()
    clock.begin()
    time.sleep(0.02)
    clock.end()
    assert clock.seconds() >= 0.02 and not gc.isenabled()
    clock.end()
    before = clock.seconds()
    time.sleep(0.02)
    assert clock.seconds() == before < 5 and gc.isenabled()
    gc.disable()  # the user's own program may do so
    try:
        clock.begin()
        clock.end()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_stage_seconds_and_rates_exclude_compilation(capsys: pytest.CaptureFixture[str]) -> None:
    funnel, shown, row = Funnel(), open_progress(True), StageRow("sign", "", "documents")
    watch = Stopwatch()
    with funnel.stage(shown, row, 10):
        for _ in range(2):
            COMPILING.begin()
            time.sleep(0.2)
            COMPILING.end()
        shown.advance(10)
    assert funnel.seconds["sign"] < 0.2 and watch.seconds() < 0.2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("gpulsh: compiling kernels for this processor; later runs reuse them")
    assert float(second.partition(" in ")[2].partition(" s")[0]) < 0.2
    events = open_progress("json")
    with funnel.stage(events, row, 10):
        COMPILING.begin()
        COMPILING.end()
    printed = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert printed == ["begin", "compile", "end"]


# --- a first run compiles some kernels in a second process

LATE_KERNELS = """
    import json, sys
    from pathlib import Path
    from numba.core.dispatcher import Dispatcher
    from gpulsh import deduplicate_files
    from gpulsh.backends.cpu import compile_late
    from gpulsh.backends.cpu.kernel import _kernels

    def compiled():
        modules = [module for name, module in sys.modules.items() if name.startswith("gpulsh.backends.cpu")]
        known = {id(value): value for module in modules for value in vars(module).values()}
        return {
            f"{value.py_func.__module__}.{value.py_func.__name__}": sorted(map(str, value.signatures))
            for value in known.values() if isinstance(value, Dispatcher) and id(value) in _kernels and value.signatures
        }

    compile_late()
    late = compiled()
    deduplicate_files([sys.argv[1]], sys.argv[2], backend="cpu")
    print(json.dumps([late, compiled()]))
"""


def test_the_second_compiler_compiles_the_kernels_after_signing(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [f"some words of a text about {n // 2} and more" for n in range(400)])
    late, needed = json.loads(python(LATE_KERNELS, path, tmp_path / "out"))
    assert {kernel: needed[kernel] for kernel in late} == late
    signs = {"fingerprinting.documents.fingerprint_documents", "sketches.minhash._minhash", "buckets._band_digests"}
    assert {kernel.removeprefix("gpulsh.backends.cpu.") for kernel in needed.keys() - late.keys()} == signs


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Popen[bytes]]:
    """The processes started from here on, on a machine with two processors."""
    found: list[Popen[bytes]] = []

    def start(*given: Any, **named: Any) -> Popen[bytes]:
        found.append(Popen(*given, **named))
        return found[-1]

    monkeypatch.setattr(second, "Popen", start)
    monkeypatch.setattr(second, "processors", lambda: 2)
    return found


def compile_one() -> None:
    COMPILING.begin()
    COMPILING.end()


def test_the_second_compiler_starts_with_the_first_kernel(processes: list[Popen[bytes]]) -> None:
    with pytest.raises(ZeroDivisionError), second_compiler():
        assert not processes
        compile_one()
        compile_one()
        raise ZeroDivisionError
    compile_one()
    (process,) = processes
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("lacks", ["folder", "processor", "python", "room"])
def test_no_useless_compiler_starts(processes: list[Popen[bytes]], monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    if lacks == "folder":
        monkeypatch.setattr(second, "kernel_cache", lambda: KernelCache(None))
    elif lacks == "processor":
        monkeypatch.setattr(second, "processors", lambda: 1)
    elif lacks == "python":
        monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    else:
        full = BlockingIOError(11, "Resource temporarily unavailable")
        monkeypatch.setattr(second, "Popen", Mock(side_effect=full))
    with second_compiler():
        compile_one()
    assert not processes


def test_lists_of_texts_do_not_load_pyarrow() -> None:
    code = "import sys, gpulsh; gpulsh.deduplicate(['a', 'b'], backend='cpu'); print('pyarrow' in sys.modules)"
    assert python(code) == "False\n"
