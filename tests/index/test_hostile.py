"""An index, or a work folder, that somebody made on purpose, checksums and all: a clear error, never a crash."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gpulsh
from gpulsh.errors import DamagedInputError, InputError, OutputError
from gpulsh.store.manifest import Manifest

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
    "keys that go on behind the file": ("keys", packed(5, 10, 15), packed(5, 10, 1 << 40)),
    "keys that go back": ("keys", packed(5, 10, 15), packed(5, -10, 15)),
    "keys that are no text": ("keys", b"key 1key", b"key \xffkey"),
    "keys of other columns": ("keys", b"key_row", b"row_key"),
    "sizes below zero": ("documents", packed(6, 6, 6), packed(-6, 6, 18)),
    "sizes beyond all": ("documents", packed(6, 6, 6), packed(1 << 62, 6, 6)),
    "documents that are not there": ("digests", packed(7), packed(70)),
    "documents in another order": ("documents", packed(1, 2, 3), packed(3, 2, 1)),
    "columns of another type": ("hashes", b"hash_0", b"hash_9"),
    "blocks of no rows": ("fingerprints", b"first_row", b"last_rows"),
}


@pytest.mark.parametrize("file", FILES)
def test_files_that_lie(known: Path, file: str) -> None:
    change_file(known, *FILES[file])
    with pytest.raises(DamagedInputError, match="is damaged"):
        use(known)


def without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda told: told.pop(name)


def having(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda told: told.update(values)


SHAPES: dict[str, Callable[[dict[str, Any]], object]] = {
    **{f"no {name}": without(name) for name in ("format", "parameters", "next_number", "segments", "keys", "removed")},
    "no file": lambda told: told["segments"][0]["files"].pop("keys"),
    "no size": lambda told: told["segments"][0]["files"]["keys"].pop("size"),
    "a size of text": lambda told: told["segments"][0]["files"]["keys"].update(size="9"),
    "no threshold": lambda told: told["parameters"].pop("threshold"),
    "a threshold of text": lambda told: told["parameters"].update(threshold="high"),
    "a threshold of nothing": lambda told: told["parameters"].update(threshold=0.0),
    "other bands": lambda told: told["parameters"]["banding"].update(bands=5),
    "more bands than values": lambda told: told["parameters"]["family"].update(num_perm=5),
    "a parameter of no name": lambda told: told["parameters"]["family"].update(strange=5),
    "a number that is none": having(next_number=float("nan")),
    "segments that are none": having(segments=[1]),
    "runs of text": having(runs={"a": "bc"}),
    "runs that are none": having(runs=[1]),
    "keys of no kind": having(keys="0.1.0"),
    "keys of another kind": having(keys="integer"),
    "no secret": without("secret"),
    "a secret of nothing": having(secret=""),
    "half a secret": having(secret="0f" * 16),
    "a secret of other letters": having(secret="0F" * 32),
    "a secret that is a number": having(secret=7),
}


def nulls(rows: pa.Table, name: str) -> pa.Table:
    place = rows.column_names.index(name)
    return rows.set_column(place, rows.schema.field(place), pa.nulls(len(rows), rows.schema.field(place).type))


def backwards(rows: pa.Table, name: str) -> pa.Table:
    """One column of the rows as they were, the last first, so that what should ascend does not."""
    place = rows.column_names.index(name)
    return rows.set_column(place, rows.schema.field(place), rows.column(place).take(list(range(len(rows)))[::-1]))


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        *(("fingerprints", name, nulls) for name in ("values", "coded")),
        *(("hashes", name, backwards) for name in ("hash_0", "hash_1", "row")),
        *(("digests", name, backwards) for name in ("digest", "document")),
    ],
)
def test_values_that_lie(known: Path, kind: str, name: str, change: Callable[[pa.Table, str], pa.Table]) -> None:
    """What cannot be told from an index's own gives other results, and never a defect."""
    told = manifest(known)
    (segment,) = told["segments"]
    path = known / f"{kind}-{segment['name']}.arrow"
    with pa.ipc.open_file(path.read_bytes()) as reader:
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    with pa.ipc.new_file(str(path), batches[0].schema) as out:
        for batch in batches:
            out.write_table(change(pa.Table.from_batches([batch]), name))
    data = path.read_bytes()
    segment["files"][kind] = {"size": len(data), "crc32": zlib.crc32(data)}
    write_manifest(known, json.dumps(told).encode())
    with contextlib.suppress(InputError), gpulsh.Index.open(known, backend="cpu") as index:
        index.query(TEXTS)
        index.add(["another"], [TEXTS[3]])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_manifest_of_another_shape(known: Path, shape: str) -> None:
    told = manifest(known)
    SHAPES[shape](told)
    write_manifest(known, json.dumps(told).encode())
    with pytest.raises(DamagedInputError, match=r"known\S*: (the index )?is damaged: [^\n]+; restore it from a copy"):
        gpulsh.Index.open(known, backend="reference")


CONTENTS = {
    "nothing": b"",
    "no object": b"[]",
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "digits": b'{"format": ' + b"1" * 5000 + b"}",
    "no UTF-8": b"\xff\xfe\xfd",
    "twice": b'{"format": 2, "format": 2}',
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_manifest_that_is_none(known: Path, content: str) -> None:
    write_manifest(known, CONTENTS[content])
    with pytest.raises(DamagedInputError, match=r"index\.json: is damaged: it"):
        gpulsh.Index.open(known, backend="reference")


@pytest.mark.parametrize("content", [*CONTENTS.values(), b'{"step": "a"}', b'{"step": 1, "files": {}, "facts": {}}'])
def test_a_manifest_of_a_run_that_is_none(tmp_path: Path, content: bytes) -> None:
    Manifest.begin(tmp_path, {"a": 1}, bytes(32))
    with (tmp_path / "manifest.jsonl").open("ab") as file:
        file.write(b"%08x %s\n" % (zlib.crc32(content), content))
    with pytest.raises(OutputError, match=r"manifest\.jsonl: is damaged: .*; begin again with overwrite=True"):
        Manifest.open(tmp_path)
