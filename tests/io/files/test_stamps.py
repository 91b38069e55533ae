"""A file that is another than when the run began is noticed by size, time of change and inode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpulsh.errors import ChangedInputError
from gpulsh.io.files.inputs import find_files
from gpulsh.io.files.stamps import Stamps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(b"some text")
    return path


def test_what_differs(path: Path) -> None:
    stamps = Stamps.of(find_files([str(path)]))
    stamps.check()
    before = path.stat()
    path.write_bytes(b"another text")
    with pytest.raises(ChangedInputError, match="it had 9 bytes and has 12; restore it, or start again"):
        stamps.check()
    path.write_bytes(b"same size")
    with pytest.raises(ChangedInputError, match="it was written to"):
        stamps.check()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    stamps.check()  # that size and time were set back is not noticed
    (path.parent / "new").write_bytes(b"other one")
    os.utime(path.parent / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(path.parent / "new", path)
    with pytest.raises(ChangedInputError, match="it was written to"):
        stamps.check()
    path.unlink()
    with pytest.raises(ChangedInputError, match="is not there any more"):
        stamps.check()


def test_a_change_says_more_than_the_error_it_causes(path: Path) -> None:
    stamps = Stamps.of(find_files([str(path)]))
    with pytest.raises(KeyError), stamps.unchanged([0]):
        raise KeyError("of its own")
    with pytest.raises(ChangedInputError, match="had 9 bytes"), stamps.unchanged([0]):
        path.write_bytes(b"another text")
        raise KeyError("whatever a reader meets in it")
    entered = False
    with pytest.raises(ChangedInputError, match="had 9 bytes"), stamps.unchanged([0]):
        entered = True
    assert not entered
