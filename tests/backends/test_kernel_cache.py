"""Where compiled kernels are kept: nowhere that others can write to, and a run that finds no such folder goes on."""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import gpulsh
from gpulsh.backends.compiling import COMPILING, Compiling, Stopwatch
from gpulsh.backends.cpu.kernel import _kernels
from gpulsh.backends.kernel_cache import find_kernel_cache, sources
from gpulsh.cli import main
from gpulsh.report.summary import funnel_table
from gpulsh.run.progress import open_progress
from gpulsh.stats.counts import COUNTS
from gpulsh.stats.stages import Funnel, StageRow

ROOT = Path(gpulsh.__file__).parents[1]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with a package, a home and a temporary folder; below pytest's own, which is private."""
    for name in ("package", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path


def found(own: Path, **environment: str) -> Any:
    return find_kernel_cache({"HOME": str(own / "home"), **environment}, own / "package")


def unwritable(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Also where this user is root, who can write everywhere."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) not in folders and access(path, mode))


def test_the_packages_own_folder(own: Path) -> None:
    assert found(own).folder == str(own / "package/__pycache__")
    assert found(own, NUMBA_CACHE_DIR=str(own / "given")).folder.startswith(str(own / "given/gpulsh-"))


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o1777])
@pytest.mark.parametrize("shared", ["package", "package/__pycache__"])
def test_a_folder_that_others_write_to_is_not_trusted(own: Path, shared: str, mode: int) -> None:
    (own / "package/__pycache__").mkdir()
    (own / shared).chmod(mode)
    cache = found(own)
    private = str(own / "package/__pycache__")
    sticky = mode & stat.S_ISVTX and shared == "package"  # what is there already, nobody else can replace
    if sticky:
        assert cache.folder == private
    else:
        assert cache.folder.startswith(str(own / "home/.cache/gpulsh-"))
        assert cache.refused == (f"{own / shared}: can be written to by others",)
        assert stat.S_IMODE((own / "home/.cache").stat().st_mode) == 0o700


def test_a_folder_of_another_user_is_not_trusted(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lstat = os.lstat

    def foreign(path: Any) -> os.stat_result:
        told = list(lstat(path))
        if Path(path) == own / "package":
            told[4] = 4711
        return os.stat_result(told)

    monkeypatch.setattr(os, "lstat", foreign)
    assert found(own).refused == (f"{own}/package: is another user's",)


def test_without_a_home_there_is_a_folder_of_ones_own_in_the_temporary_one(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwritable(monkeypatch, own / "package")
    shutil.rmtree(own / "home")
    cache = found(own)
    mine = own / f"tmp/gpulsh-{os.geteuid()}"
    assert cache.folder.startswith(f"{mine}/gpulsh-")
    assert cache.refused == (f"{own}/package: cannot be written to", f"{own}/home: the home does not exist")
    assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # of a user whom nobody knows
    assert find_kernel_cache({}, own / "package").refused[1] == "HOME is not set, and the user has no home"


def test_the_current_folder_is_no_temporary_one(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unwritable(monkeypatch, own / "package")
    shutil.rmtree(own / "home")
    monkeypatch.chdir(own / "tmp")
    assert found(own).folder is not None
    (own / "tmp").chmod(0o755)
    (own / f"tmp/gpulsh-{os.geteuid()}").rename(own / "before")
    assert found(own).refused[2] == "there is no temporary folder that can be written to"
    assert not list((own / "tmp").iterdir())


@pytest.mark.parametrize("what", ["link", "file", "open", "foreign", "unsticky"])
def test_a_temporary_folder_that_somebody_prepared(own: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    unwritable(monkeypatch, own / "package")
    shutil.rmtree(own / "home")
    mine = own / f"tmp/gpulsh-{os.geteuid()}"
    if what == "link":
        (own / "elsewhere").mkdir(mode=0o700)
        mine.symlink_to(own / "elsewhere")
    elif what == "file":
        mine.touch()
    else:
        mine.mkdir(mode=0o700)
        if what == "open":
            mine.chmod(0o750)
        elif what == "unsticky":
            (own / "tmp").chmod(0o777)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 4711)
            mine.rename(own / "tmp/gpulsh-4711")
    cache = found(own)
    assert cache.folder is None and len(cache.refused) == 3
    assert list((own / "tmp").rglob("*")) == list((own / "tmp").iterdir())


def test_info_tells(capsys: pytest.CaptureFixture[str]) -> None:
    from gpulsh.backends.kernel_cache import kernel_cache

    assert main(["info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["kernels"]
    assert told == {"cache": kernel_cache().folder, "refused": list(kernel_cache().refused)}
    assert main(["info"]) == 0
    assert f"kept in     {kernel_cache().folder}" in capsys.readouterr().out


KERNELS = """
    import logging, sys
    from pathlib import Path
    import numpy as np
    from gpulsh.backends import kernel_cache
    cache = kernel_cache.KernelCache(sys.argv[1] or None)
    kernel_cache.kernel_cache = lambda: cache
    from gpulsh.backends.compiling import COMPILING
    from gpulsh.backends.cpu.buckets import components
    logging.basicConfig(format="%(message)s")
    print(components(4, np.array([[1, 3]])).tolist(), COMPILING.seconds() > 0)
"""


def compiled(folder: str, root: Path = ROOT) -> tuple[list[str], str]:
    command = [sys.executable, "-c", textwrap.dedent(KERNELS), folder]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root, env={})  # which Python looks in
    return ran.stdout.split("] "), ran.stderr


def test_kernels_are_kept_and_what_is_damaged_is_compiled_again(tmp_path: Path) -> None:
    assert compiled(str(tmp_path)) == (["[0, 1, 2, 1", "True\n"], "")
    assert compiled(str(tmp_path)) == (["[0, 1, 2, 1", "False\n"], "")
    for ending in ("nbi", "nbc"):
        paths = sorted(tmp_path.glob(f"*.{ending}"))
        assert [path.name.partition(".")[0] for path in paths] == ["buckets", "runtime"]
        for path in paths:
            path.write_bytes(path.read_bytes()[: 20 if ending == "nbi" else 99])
        said, told = compiled(str(tmp_path))
        assert said == ["[0, 1, 2, 1", "True\n"]
        assert told.startswith(f"{tmp_path}: holds a damaged kernel, which is compiled again: ")
        assert len(told.splitlines()) == 1
        if ending == "nbi":
            shutil.rmtree(tmp_path)
            tmp_path.mkdir()
            compiled(str(tmp_path))


def test_kernels_are_compiled_again_when_a_file_that_they_may_take_from_changes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "gpulsh", tmp_path / "gpulsh", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "kernels").mkdir()

    def anew() -> bool:
        said, told = compiled(str(tmp_path / "kernels"), tmp_path)
        assert not told
        return said[1] == "True\n"

    assert (anew(), anew()) == (True, False)
    changed = tmp_path / "gpulsh/backends/protocol.py"
    before = changed.stat()
    changed.write_text(changed.read_text("utf-8").replace("the", "teh", 1), "utf-8")
    os.utime(changed, ns=(before.st_mtime_ns, before.st_mtime_ns))  # as packages have them that are built alike
    assert changed.stat().st_size == before.st_size
    assert (anew(), anew()) == (True, False)
    (tmp_path / "gpulsh/backends/select.py").write_text("")
    assert not anew()


def test_kernels_take_constants_from_files_that_count_for_the_cache() -> None:
    counted = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in sources()}
    for path in (ROOT / "gpulsh/backends/cpu").rglob("*.py"):
        if not re.search(r"^ *@(kernel|subroutine|lowered|inlined)\b", path.read_text("utf-8"), re.MULTILINE):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpulsh"):
                taken = [f"{node.module}.{name.name}" for name in node.names if name.name.isupper()]
                of_module = [f"{node.module}.{name.name}" for name in node.names if name.name == "protocol"]
                assert {name.rpartition(".")[0] for name in taken} | set(of_module) <= counted, path


def test_a_kernel_that_is_kept_is_loaded_without_the_compiler(tmp_path: Path) -> None:
    compiled(str(tmp_path))
    prepared = "print('numba.core.typing.arraydecl' in sys.modules)"
    code = f"""{textwrap.dedent(KERNELS)}
from numba.core.runtime import rtsys
print(rtsys.library._shared_module is not None)  # of a library that was loaded
from gpulsh.backends.cpu.buckets import _components
(loaded,) = _components.overloads.values()
print(list(loaded.library._get_module_for_linking().functions))
{prepared}
from gpulsh.arrays import Fingerprints
from gpulsh.backends.cpu import CpuBackend
print(CpuBackend(1).unique(Fingerprints(np.ones(3, np.uint64), np.array([0, 3]))).values.tolist())
{prepared}
print(COMPILING.seconds() > 0)
"""
    ran = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, env={"PYTHONPATH": str(ROOT)}
        ).stdout.split(b"\n")
        for _ in range(2)
    ]
    assert ran[0][:4] == ran[1][:4] == [b"[0, 1, 2, 1] False", b"True", b"[]", b"False"]
    assert ran[0][4] == ran[1][4]  # one that is compiled beside it and one that is loaded
    assert ran[0][5:7] == [b"True", b"True"] and ran[1][5:7] == [b"False", b"False"]


def test_no_kernel_calls_another_which_may_be_kept_without_what_that_takes() -> None:
    for path in (ROOT / "gpulsh/backends/cpu").rglob("*.py"):
        module = importlib.import_module(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
        for function in vars(module).values():
            if id(function) in _kernels:
                known = function.py_func.__globals__
                called = [name for name in function.py_func.__code__.co_names if id(known.get(name)) in _kernels]
                assert not called, (path, function, called)


def test_kernels_that_cannot_be_kept(tmp_path: Path) -> None:
    assert compiled("") == (["[0, 1, 2, 1", "True\n"], "")
    said, told = compiled(str(tmp_path / "gone"))
    assert said == ["[0, 1, 2, 1", "True\n"]
    assert told.splitlines() == [f"{tmp_path}/gone: cannot keep compiled kernels: No such file or directory"]


# --- what is told of compiling ---


def test_a_run_that_keeps_no_kernels_does_not_say_that_it_does() -> None:
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


def test_seconds_of_several_threads_count_once() -> None:
    clock = Compiling()
    clock.begin()
    clock.begin()
    time.sleep(0.02)
    clock.end()
    assert clock.seconds() >= 0.02
    clock.end()
    before = clock.seconds()
    time.sleep(0.02)
    assert clock.seconds() == before < 5


def test_nothing_is_collected_until_the_last_is_compiled() -> None:
    clock = Compiling()
    clock.begin()
    clock.begin()
    clock.end()
    assert not gc.isenabled()
    clock.end()
    assert gc.isenabled()
    gc.disable()  # as the user's own program may have it
    try:
        clock.begin()
        clock.end()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_stage_and_its_rates_are_without_them(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert (
        first
        == "gpulsh: compiling kernels for this processor; later runs reuse them, and compile only others that they need"
    )
    assert float(second.partition(" in ")[2].partition(" s")[0]) < 0.2
    events = open_progress("json")
    with funnel.stage(events, row, 10):
        COMPILING.begin()
        COMPILING.end()
    told = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert told == ["begin", "compile", "end"]


# --- a stranger's container ---


AS_NOBODY = ["prlimit", "--nofile=64", "setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]
READING = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # Python, where root alone may see it


@dataclass(frozen=True)
class Container:
    """A place of a user without a name, a home or an environment, who may open 64 files and write to two folders."""

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
        lines = [json.dumps({"text": f"some words of a text about {number // 2} and more"}) for number in range(400)]
        (base / "work/a.jsonl").write_text("\n".join(lines) + "\n")
        for more in ([], READING):
            made = Container(base, (*AS_NOBODY, *more), base / "tmp")
            if made.python("-c", "import numpy, pyarrow, numba").returncode == 0:
                break
        else:
            pytest.skip("the Python of this machine is not for other users")
        yield made
        assert not (base / "work/~").exists() and not Path("~").exists()


def test_the_main_job_in_a_strangers_container(container: Container) -> None:
    base = container.base
    kernels = json.loads(container.gpulsh("info", "--json").stdout)["kernels"]
    assert kernels["cache"].startswith(str(base / "tmp/gpulsh-12345/gpulsh-"))
    assert len(kernels["refused"]) == 2
    for attempt in range(2):
        told = container.gpulsh("dedup", str(base / "work/a.jsonl"), "-o", str(base / f"work/out{attempt}"))
        assert told.returncode == 0, told.stderr
        assert ("compiling kernels" in told.stderr) == (attempt == 0)
