"""An index of damaged files with correct checksums: a clear error, never a crash."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpulsh
from gpulsh.errors import DamagedInputError

TEXTS = [f"a page of words number {number} " * 3 for number in range(12)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "known"
    with gpulsh.Index.create(folder, backend="reference") as index:
        index.insert([f"key {number}" for number in range(12)], TEXTS)
        index.save()
    return folder


@pytest.fixture
def known(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "known"))


def manifest(known: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((known / "index.json").read_bytes().partition(b"\n")[2])
    return told


def write_manifest(known: Path, content: bytes) -> None:
    (known / "index.json").write_bytes(b"crc32 %08x\n%s" % (zlib.crc32(content), content))


def change_file(known: Path, kind: str, before: bytes, after: bytes) -> None:
    """A file of the index is another, and the manifest says that it was written so."""
    told = manifest(known)
    (segment,) = told["segments"]
    path = known / f"{kind}-{segment['name']}.arrow"
    data = path.read_bytes()
    assert before in data
    data = data.replace(before, after)
    path.write_bytes(data)
    segment["files"][kind] = {"size": len(data), "crc32": zlib.crc32(data)}
    write_manifest(known, json.dumps(told).encode())


def packed(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def use(known: Path) -> None:
    for check in (True, False):
        with gpulsh.Index.open(known, backend="cpu", check=check) as index:
            index.query(TEXTS)
            assert "key 11" in index
            index.compact()


FILES: dict[str, tuple[str, bytes, bytes]] = {
    "keys beyond the file": ("keys", packed(5, 10, 15), packed(5, 10, 1 << 40)),
    "sizes below zero": ("documents", packed(6, 6, 6), packed(-6, 6, 18)),
    "absent documents": ("digests", packed(7), packed(70)),
    "columns of another type": ("hashes", b"hash_0", b"hash_9"),
    "blocks of no rows": ("fingerprints", b"first_row", b"last_rows"),
}


@pytest.mark.parametrize("file", FILES)
def test_damaged_files(known: Path, file: str) -> None:
    change_file(known, *FILES[file])
    with pytest.raises(DamagedInputError, match="is damaged"):
        use(known)


SHAPES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no format": lambda found: found.pop("format"),
    "no file": lambda found: found["segments"][0]["files"].pop("keys"),
    "a size of text": lambda found: found["segments"][0]["files"]["keys"].update(size="9"),
    "a threshold of nothing": lambda found: found["parameters"].update(threshold=0.0),
    "other bands": lambda found: found["parameters"]["banding"].update(bands=5),
    "more bands than values": lambda found: found["parameters"]["family"].update(num_perm=5),
    "segments that are numbers": lambda found: found.update(segments=[1]),
    "runs of text": lambda found: found.update(runs={"a": "bc"}),
    "keys of another kind": lambda found: found.update(keys="integer"),
    "half a secret": lambda found: found.update(secret="0f" * 16),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_manifest_of_another_shape(known: Path, shape: str) -> None:
    told = manifest(known)
    SHAPES[shape](told)
    write_manifest(known, json.dumps(told).encode())
    with pytest.raises(DamagedInputError, match=r"known\S*: (the index )?is damaged: [^\n]+; restore it from a copy"):
        gpulsh.Index.open(known, backend="reference")


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe\xfd"])
def test_a_manifest_that_is_not_an_object(known: Path, content: bytes) -> None:
    write_manifest(known, content)
    with pytest.raises(DamagedInputError, match=r"index\.json: is damaged: it"):
        gpulsh.Index.open(known, backend="reference")
