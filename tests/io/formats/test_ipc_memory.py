"""What a batch of an Arrow IPC file takes is known before it is decoded, and refused by name where it is too much."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from gpulsh.cli import main
from gpulsh.errors import DamagedInputError, InputError, LargeDocumentError
from gpulsh.io.columns import Columns
from gpulsh.io.file import File
from gpulsh.io.files.inputs import find_files
from gpulsh.io.format import Rules
from gpulsh.io.formats.endings import format_of
from gpulsh.io.limits import Limit

LIMIT = Limit(64 << 20)  # a batch may take half of it
ROWS = 1 << 10
TEXTS = pa.array([f"text {row}" for row in range(ROWS)])


def table(size: int) -> Any:
    """Texts, and beside them a column of `size` bytes of zeros."""
    return pa.table({"text": TEXTS, "page": pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(size // ROWS), ROWS, [None, pa.py_buffer(bytes(size))]
    )})  # fmt: skip


def words(size: int, number: int = 0) -> Any:
    """The same as a dictionary."""
    values = pa.array([bytes(size // 2 - 1) + bytes([number]), bytes(size // 2)])
    return pa.table({"text": TEXTS, "page": pa.DictionaryArray.from_arrays(np.zeros(ROWS, np.int32), values)})


def write(path: Path, stream: bool, codec: str | None, *tables: Any) -> None:
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(str(path), tables[0].schema, options=options) as out:
        for part in tables:
            out.write_table(part)


def read(path: Path, far: bool = False, limit: Limit | None = LIMIT) -> int:
    (file,) = find_files([str(path)])
    if far:
        memory = fsspec.filesystem("memory")
        memory.pipe("/" + path.name, path.read_bytes())
        file = File(path.name, path.name, "/" + path.name, memory)
    return sum(len(block.texts) for block in format_of(file).read(file, Columns("text"), rules=Rules(limit=limit)))


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("make", [table, words])
def test_a_large_batch_is_refused_before_it_is_decoded(
    make: Any, stream: bool, codec: str, far: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.arrow"
    write(path, stream, codec, make(30 << 20))
    assert read(path, far) == ROWS
    write(path, stream, codec, make(40 << 20))
    assert read(path, far, None) == ROWS
    before = pa.total_allocated_bytes()
    with pytest.raises(LargeDocumentError, match=r"a\.arrow: the record batch at byte \d+: about 4\d+ bytes to read"):
        read(path, far)
    assert pa.total_allocated_bytes() - before < 1 << 20
    if not far:
        (file,) = find_files([str(path)])
        with pytest.raises(LargeDocumentError, match="record batch"):
            format_of(file).write_kept(file, np.ones(ROWS, bool), str(tmp_path / "out"), limit=LIMIT)


def test_one_of_several_may_have_its_share(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", False, "zstd", table(30 << 20))
    with pytest.raises(LargeDocumentError, match="allows 24MiB"):
        read(tmp_path / "a.arrow", limit=Limit(LIMIT.memory, 4))


def test_small_files_are_looked_at_whatever_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.arrows"
    write(path, True, "zstd", table(60 << 20))
    assert path.stat().st_size < 12_000  # much of which is texts
    with pytest.raises(LargeDocumentError):
        read(path)


def test_dictionaries_that_replace_others_do_not_add_up(tmp_path: Path) -> None:
    path = tmp_path / "a.arrows"
    write(path, True, "zstd", *(words(20 << 20, number) for number in range(4)))
    assert read(path) == 4 * ROWS


def test_what_is_not_compressed_is_not_held(tmp_path: Path) -> None:
    for stream in (False, True):
        write(tmp_path / "a.arrow", stream, None, table(40 << 20), table(40 << 20))
        assert read(tmp_path / "a.arrow") == 2 * ROWS
        with pytest.raises(LargeDocumentError, match="record batch"):
            read(tmp_path / "a.arrow", far=True)  # there it is read whole


@pytest.mark.parametrize("claimed", [1 << 62, 1 << 40, -5])
def test_a_size_that_no_buffer_can_have(claimed: int, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write(path, False, "zstd", table(3 << 20))
    content = path.read_bytes()
    assert content.count(struct.pack("<q", 3 << 20)) >= 1
    place = content.index(struct.pack("<q", 3 << 20) + b"\x28\xb5\x2f\xfd")  # a frame of Zstandard behind it
    path.write_bytes(content[:place] + struct.pack("<q", claimed) + content[place + 8 :])
    with pytest.raises(DamagedInputError, match=r"a\.arrow"):
        read(path)


def test_metadata_that_leads_anywhere(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.arrow", np.random.default_rng(1)
    for stream in (False, True):
        write(path, stream, "lz4", table(1 << 20).slice(0, 50))
        content = np.frombuffer(path.read_bytes(), np.uint8)
        for _ in range(150):
            broken = content.copy()
            broken[rng.integers(0, len(broken), 3)] = rng.integers(0, 256, 3)
            path.write_bytes(broken.tobytes())
            try:
                read(path)
            except InputError as error:
                assert "a.arrow" in str(error)


def test_the_command_tells_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "a.arrow", tmp_path / "out"
    write(path, False, "zstd", table(300 << 20))
    assert main(["dedup", str(path), "-o", str(out), "--memory", "512MiB", "--backend", "reference"]) == 1
    told = capsys.readouterr().err
    assert "a.arrow: the record batch at byte" in told and "allows 256MiB: give --memory 650MiB or more" in told
