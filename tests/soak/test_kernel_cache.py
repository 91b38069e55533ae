"""A first run of another user, in a container, also with little room for temporary files."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

import gpulsh

ROOT = Path(gpulsh.__file__).parents[1]
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


def test_the_main_job_with_little_room_for_temporary_files(container: Container) -> None:
    base, small = container.base, container.base / "small"
    small.mkdir()
    mounting = 'mount -t tmpfs -o size=64k,mode=1777 tmpfs "$0" && exec "$@"'
    inside = ("unshare", "--mount", "sh", "-c", mounting, str(small))
    if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    boxed = Container(base, (*inside, *container.command), small)
    told = boxed.gpulsh("dedup", str(base / "work/a.jsonl"), "-o", str(base / "work/out"))
    assert told.returncode == 0, told.stderr
    cache = f"gpulsh: {small}/gpulsh-12345/gpulsh-"
    (refused,) = [line for line in told.stderr.splitlines() if line.startswith(cache)]
    assert refused.endswith(": cannot keep compiled kernels: No space left on device")
    assert "later runs" not in told.stdout
    (base / "work/long.jsonl").write_bytes((base / "work/a.jsonl").read_bytes() * 10)
    with open(base / "work/long.jsonl", "rb") as stream:
        told = boxed.gpulsh("dedup", "-", "-o", str(base / "work/streamed"), stdin=stream)
    assert told.returncode == 1
    (line,) = told.stderr.splitlines()
    assert line.startswith(f"gpulsh: error: {small}/gpulsh-") and line.endswith(
        "set TMPDIR to a folder with room for it"
    )
    assert not (base / "work/streamed").exists()
