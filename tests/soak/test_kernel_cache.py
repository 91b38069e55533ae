"""A first run of another user, in a container with little room for temporary files."""

from __future__ import annotations

import subprocess

import pytest

from tests.backends.test_kernel_cache import Container, container

__all__ = ["container"]


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
