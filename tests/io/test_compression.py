"""Compressed streams: the same content gives the same bytes, and a stream that is cut anywhere is an error."""

import io
import random
from pathlib import Path

import pytest
import zstandard

from gpulsh.io import packing
from gpulsh.io.compression import Compression, blocks, member_pieces
from gpulsh.io.file import File
from gpulsh.io.formats.streamed import split_lines
from gpulsh.io.packing import packed_writer
from tests.support.files import PACK, UNPACK

MEMBER_BYTES = 1 << 17
CONTENT = random.Random(5).randbytes(1 << 16) * (2 * MEMBER_BYTES // (1 << 16)) + b"the end of the last member"


def unpacked(data: bytes, kind: Compression) -> bytes:
    return b"".join(blocks(io.BytesIO(data), kind))


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("content", [b"", b"x", CONTENT], ids=["nothing", "little", "members"])
def test_written_and_read_back(
    kind: Compression, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "MEMBER_BYTES", MEMBER_BYTES)
    written = []
    for threads, step in ((1, 1000), (4, 1 << 20)):
        monkeypatch.setattr(packing, "processors", lambda threads=threads: threads)
        with packed_writer(str(tmp_path / "out"), kind) as out:
            for start in range(0, len(content), step):
                out.write(content[start : start + step])
        written.append((tmp_path / "out").read_bytes())
    assert unpacked(written[0], kind) == content
    if kind in ("gz", "bz2"):
        assert written[0] == written[1]  # whatever the threads and the size of the pieces
    assert UNPACK[kind](written[0]) == content


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_cut_anywhere(kind: Compression) -> None:
    pack = PACK[kind]
    data = pack(b"some text, and some more") + pack(random.Random(6).randbytes(300))
    whole = unpacked(data, kind)
    between = len(pack(b"some text, and some more"))
    for length in range(1, len(data)):
        if length == between:
            assert unpacked(data[:length], kind) == b"some text, and some more"
            continue
        with pytest.raises((EOFError, ValueError)):
            unpacked(data[:length], kind)
    assert len(whole) == 324


def test_lines_are_split_alike_wherever_the_blocks_end() -> None:
    content = b"one\n\ntwo and more\r\n\n\n \n\nthree\n\r\n\r\nlast"
    for size in range(1, len(content) + 1):
        blocks_of = (content[start : start + size] for start in range(0, len(content), size))
        groups = list(split_lines(File("a", "a", "a"), blocks_of))
        found = {number + place: bytes(line) for number, lines in groups for place, line in enumerate(lines)}
        every = dict(enumerate(io.BytesIO(content).readlines(), 1))
        assert {number: line for number, line in found.items() if line.strip()} == {
            number: line for number, line in every.items() if line.strip()
        }


def test_cut_in_a_frame_without_content() -> None:
    data = zstandard.compress(b"some text") + b"\x50\x2a\x4d\x18\x05\0\0\0hello" + zstandard.compress(b"and more")
    assert unpacked(data, "zst") == b"some textand more"
    with pytest.raises(ValueError, match="truncated"):
        unpacked(data[: data.index(b"llo")], "zst")


def test_content_that_compresses_well_comes_in_pieces_after_some_that_does_not() -> None:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [packer.compress(part) for part in (random.Random(7).randbytes(1 << 20), *[bytes(1 << 20)] * 160)]
    packed = b"".join([*parts, packer.flush()])
    sizes = [len(piece.content) for piece in member_pieces("zst", io.BytesIO(packed))]
    assert sum(sizes) == 161 << 20 and max(sizes) <= 64 << 20
