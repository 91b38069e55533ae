"""Damage in compressed files: nothing of a gzip member or zstd frame is taken that its checksum does not vouch for,
what is lost is listed, and reading goes on at the next one.
"""

import gc
import gzip
import io
import json
import random
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner

import gpulsh
from gpulsh.cli import group as command
from gpulsh.errors import DamagedInputError, ParameterError
from gpulsh.io import compression, output_codec
from gpulsh.io.compression import Compression, DamagedMember, Piece, blocks, intact_members, member_pieces
from gpulsh.io.file import File
from gpulsh.io.formats.streamed import split_lines
from gpulsh.io.output_codec import LEVELS, OutputCodec, compressed_writer
from tests.support.files import PACK, UNPACK, flipped, new_file, record, rejected, write_kept, write_rows
from tests.support.runs import run
from tests.support.texts import licences

DRAW = random.Random(9)
PAGES = [" ".join(f"{DRAW.getrandbits(40):x}" for _ in range(30)) for _ in range(60)]
PAGES[45], PAGES[50] = PAGES[3], PAGES[41]  # where 3 is lost, 45 is kept
LINES = [json.dumps({"text": page, "n": row}).encode() + b"\n" for row, page in enumerate(PAGES)]
MEMBERS = [b"".join(LINES[start : start + 20]) for start in (0, 20, 40)]


def kept_numbers(out: Path, kind: str) -> list[int]:
    content = UNPACK[kind]((out / f"data/a.jsonl.{kind}").read_bytes())
    return [json.loads(line)["n"] for line in content.splitlines()]


Damage = Callable[[list[bytes]], bytes]
# name: (the codec, the file of three packed members, members that are left, the message, the member that it names)
DAMAGE: dict[str, tuple[str, Damage, list[int], str, int]] = {
    "a bit of the first": ("gz", lambda m: flipped(m[0], len(m[0]) // 2) + m[1] + m[2], [1, 2], "broken", 0),
    "a bit of the second": ("zst", lambda m: m[0] + flipped(m[1], len(m[1]) // 2) + m[2], [0, 2], "broken", 1),
    "a bit of the last": ("bz2", lambda m: m[0] + m[1] + flipped(m[2], len(m[2]) // 2), [0, 1], "broken", 2),
    "a checksum": ("gz", lambda m: m[0] + flipped(m[1], -6) + m[2], [0, 2], "broken", 1),
    "a cut tail": ("zst", lambda m: m[0] + m[1] + m[2][:-9], [0, 1], "truncated", 2),
    "a cut head": ("xz", lambda m: m[0] + m[1] + m[2][:2], [0, 1], "truncated", 2),
    "cut in the middle": ("gz", lambda m: m[0] + m[1][: len(m[1]) // 2] + m[2], [0, 2], "broken", 1),
    "noise behind": ("zst", lambda m: b"".join(m) + b"some noise", [0, 1, 2], "broken", 3),
    "noise between": ("bz2", lambda m: m[0] + b"some noise" + m[1] + m[2], [0, 1, 2], "broken", 1),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("held", ["all", "nothing"])
def test_rows_of_intact_members_are_read(name: str, held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, make, left, message, damaged = DAMAGE[name]
    packed = [PACK[kind](content) for content in MEMBERS]
    (tmp_path / f"a.jsonl.{kind}").write_bytes(make(packed))
    begin = len(b"".join(packed[:damaged]))
    with pytest.raises(DamagedInputError, match=rf"a\.jsonl\.{kind}: cannot be read: byte {begin}: .*{message}"):
        run(tmp_path / f"a.jsonl.{kind}", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    if held == "nothing":
        monkeypatch.setattr(compression, "MAX_HELD", 0)
    # Member by member, and as many rows in each pass.
    result = run(tmp_path / f"a.jsonl.{kind}", tmp_path / "out", on_error="skip", id_column="n")
    rows = [row for member in left for row in range(20 * member, 20 * member + 20)]
    (stretch,) = rejected(tmp_path / "out")
    before = sum(20 for member in left if member < damaged)
    assert (stretch["row"], stretch["rows"], stretch["unit"]) == (before, 0, "row")
    assert stretch["reason"].startswith(f"byte {begin}: its compressed data ") and message in stretch["reason"]
    dropped = {row for row, of in ((45, 0), (50, 2)) if {of, 2} <= {*left}}
    assert kept_numbers(tmp_path / "out", kind) == [row for row in rows if row not in dropped]
    assert (result.funnel["documents"], result.funnel["rejected"]) == (len(rows), 1)
    found = pq.read_table(tmp_path / "out/duplicates.parquet").column("id").to_pylist()
    assert sorted(found) == sorted(dropped)


@pytest.mark.parametrize(("kind", "cut"), [("gz", 30), ("zst", 30), ("bz2", 0), ("gz", -1), ("gz", -30), ("xz", -30)])
def test_lines_that_are_cut_are_lost(kind: str, cut: int, tmp_path: Path) -> None:
    """Members need not end where lines do; a line that lost only its newline is whole."""
    content = b"".join(LINES)
    ends = [len(b"".join(LINES[:row])) + cut for row in (20, 40)]
    packed = [PACK[kind](part) for part in (content[: ends[0]], content[ends[0] : ends[1]], content[ends[1] :])]
    (tmp_path / f"a.jsonl.{kind}").write_bytes(packed[0] + flipped(packed[1], len(packed[1]) // 2) + packed[2])
    run(tmp_path / f"a.jsonl.{kind}", tmp_path / "out", on_error="skip")
    before, behind = (20 if cut >= -1 else 19), (41 if cut > 0 else 40)
    found = [*range(before), *range(behind, 60)]
    dropped = {45, 50} if 41 in found else {45}
    assert kept_numbers(tmp_path / "out", kind) == [row for row in found if row not in dropped]
    assert rejected(tmp_path / "out")[0]["row"] == before


@pytest.mark.parametrize("kind", [kind for kind in PACK if kind])
def test_many_damaged_members_are_listed(kind: str, tmp_path: Path) -> None:
    packed = [PACK[kind](line) for line in LINES]
    broken = [flipped(member, len(member) // 2) if row % 3 else member for row, member in enumerate(packed)]
    (tmp_path / f"a.jsonl.{kind}").write_bytes(b"".join(broken))
    run(tmp_path / f"a.jsonl.{kind}", tmp_path / "out", on_error="skip")
    assert kept_numbers(tmp_path / "out", kind) == [row for row in range(0, 60, 3) if row != 45]
    # One stretch, or a stretch a member: a small gzip member shows no beginning.
    assert sorted({found["row"] for found in rejected(tmp_path / "out")}) == list(range(1, 21))
    (tmp_path / f"a.jsonl.{kind}").write_bytes(b"".join(broken[1:3]))
    run(tmp_path / f"a.jsonl.{kind}", tmp_path / "out", on_error="skip", overwrite=True)
    assert len(rejected(tmp_path / "out")) == (1 if kind == "gz" else 2)
    assert not (tmp_path / f"out/data/a.jsonl.{kind}").exists()


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.wet.gz"])
def test_damage_is_released_without_a_collection(name: str, tmp_path: Path) -> None:
    """Each damaged member was in a cycle of references with its reader's buffers, in each pass over the file."""
    parts = MEMBERS if "jsonl" in name else [record(row, page.encode()) for row, page in enumerate(PAGES[:3])]
    first, second, third = map(gzip.compress, parts)
    (tmp_path / name).write_bytes(first + flipped(second, len(second) // 2) + third)
    gc.collect()
    gc.disable()
    try:
        run(tmp_path / name, tmp_path / "out", on_error="skip")
        left = [found for found in gc.get_objects() if type(found) is DamagedMember]
    finally:
        gc.enable()
    assert len(rejected(tmp_path / "out")) == 1 and left == []


def test_zeros_after_a_gzip_member_are_ignored(tmp_path: Path) -> None:
    first, second, _ = map(gzip.compress, MEMBERS)
    (tmp_path / "a.jsonl.gz").write_bytes(first + bytes(1000) + second + bytes(9))
    run(tmp_path / "a.jsonl.gz", tmp_path / "out", on_error="skip")
    assert kept_numbers(tmp_path / "out", "gz") == list(range(40))
    assert rejected(tmp_path / "out") == []


def test_no_record_of_a_damaged_large_member_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The damage shows only at the member's end, after readable records."""
    monkeypatch.setattr(compression, "MAX_HELD", 0)
    records = [record(row, page.encode() * 4) for row, page in enumerate(PAGES)]
    packed = [gzip.compress(b"".join(records[at : at + 20])) for at in (0, 20, 40)]
    (tmp_path / "a.wet.gz").write_bytes(packed[0] + flipped(packed[1], -6) + packed[2])
    result = run(tmp_path / "a.wet.gz", tmp_path / "out", on_error="skip")
    (stretch,) = rejected(tmp_path / "out")
    assert (stretch["row"], stretch["unit"], stretch["offset"]) == (20, "byte", len(packed[0]))
    assert result.funnel["documents"] == 40
    found = pq.read_table(tmp_path / "out/duplicates.parquet").column("id").to_pylist()
    assert found == ["<urn:45>", "<urn:50>"]


def test_large_members_are_read_twice_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """First for the checksum, then for the content; each pass has a decoder with a window of any size."""
    readings: list[str] = []

    def pieces(_: str, source: BinaryIO, start: int = 0) -> Generator[Piece]:
        readings.append("begins")
        try:
            for place in range(start, 42):  # of two large members and a small one
                size = compression.MAX_HELD if place < 40 else 1
                yield Piece(place // 20 * 20, b"x" * size, place + 1 if place in (19, 39, 41) else None)
        finally:
            readings.append("ends")

    monkeypatch.setattr(compression, "member_pieces", pieces)
    found = list(intact_members("gz", io.BytesIO()))
    assert [piece.end for piece in found if piece.end is not None] == [20, 40, 42] and len(found) == 42
    assert readings == ["begins", "ends"] * 5


# --- streams: the same content gives the same bytes, and a stream that is cut anywhere is an error ---


MEMBER_BYTES = 1 << 17
CONTENT = random.Random(5).randbytes(1 << 16) * (2 * MEMBER_BYTES // (1 << 16)) + b"the end of the last member"


def unpack(data: bytes, kind: Compression) -> bytes:
    return b"".join(blocks(io.BytesIO(data), kind))


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("content", [b"", b"x", CONTENT], ids=["nothing", "little", "members"])
def test_output_reads_back(kind: Compression, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_codec, "MEMBER_BYTES", MEMBER_BYTES)
    written = []
    for threads, step in ((1, 1000), (4, 1 << 20)):
        monkeypatch.setattr(output_codec, "processors", lambda threads=threads: threads)
        with compressed_writer(new_file(tmp_path / "out"), kind) as out:
            for start in range(0, len(content), step):
                out.write(content[start : start + step])
        written.append((tmp_path / "out").read_bytes())
    assert unpack(written[0], kind) == content
    if kind in ("gz", "bz2"):
        assert written[0] == written[1]  # whatever the threads and the size of the pieces
    assert UNPACK[kind](written[0]) == content


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_a_file_truncated_anywhere_is_an_error(kind: Compression) -> None:
    """So is one that ends in a Zstandard frame without content, between members."""
    parts = [b"some text, and some more", random.Random(6).randbytes(300)]
    first, last = map(PACK[kind], parts)
    first += b"\x50\x2a\x4d\x18\x05\0\0\0hello" if kind == "zst" else b""
    assert unpack(first + last, kind) == b"".join(parts) and unpack(first, kind) == parts[0]
    ends = {len(first), len(PACK[kind](parts[0]))}
    for length in {*range(1, len(first + last))} - ends:
        with pytest.raises((EOFError, ValueError)):
            unpack((first + last)[:length], kind)


@pytest.mark.parametrize(("kind", "codec"), compression.CODECS.items())
def test_a_plain_file_with_the_name_of_a_compressed_one_is_refused(kind: str, codec: str, tmp_path: Path) -> None:
    """Its error was the decoder's."""
    path = tmp_path / f"a.jsonl.{kind}"
    path.write_bytes(b"".join(LINES))
    with pytest.raises(DamagedInputError, match=f"it is not {codec}; rename it without .{kind}, or restore it$"):
        run(path, tmp_path / "out")


def test_lines_do_not_depend_on_block_ends() -> None:
    content = b"one\n\ntwo and more\r\n\n\n \n\nthree\n\r\n\r\nlast"
    for size in range(1, len(content) + 1):
        blocks_of = (content[start : start + size] for start in range(0, len(content), size))
        groups = list(split_lines(File("a", "a", "a"), blocks_of))
        found = [(number + place, bytes(line)) for number, lines in groups for place, line in enumerate(lines)]
        wanted = [(number, line) for number, line in enumerate(io.BytesIO(content).readlines(), 1) if line.strip()]
        assert [(number, line) for number, line in found if line.strip()] == wanted


def test_highly_compressed_content_comes_in_bounded_pieces() -> None:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [packer.compress(part) for part in (random.Random(7).randbytes(1 << 20), *[bytes(1 << 20)] * 160)]
    packed = b"".join([*parts, packer.flush()])
    sizes = [len(piece.content) for piece in member_pieces("zst", io.BytesIO(packed))]
    assert sum(sizes) == 161 << 20 and max(sizes) <= 64 << 20


# --- kept rows have the input's codec, or the one that `--compression` names ---


@pytest.fixture(scope="module")
def texts() -> list[str]:
    found = licences()
    sizes = np.cumsum([len(text) for text in found])
    return found[: int(np.searchsorted(sizes, 400_000))]


def test_parquet_keeps_codecs_and_dictionaries(texts: list[str], tmp_path: Path) -> None:
    kinds = [str(row % 3) * 20 for row in range(len(texts))]
    table = pa.table({"text": texts, "name": texts[::-1], "kind": kinds, "number": range(len(texts)), "share": texts})
    codecs = {"text": "zstd", "name": "snappy", "kind": "gzip", "number": "none", "share": "lz4"}
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression=codecs, use_dictionary=["kind"], row_group_size=len(texts) // 3)
    keep = np.ones(len(texts), bool)
    keep[::7] = False
    target = write_kept(path, keep)
    assert pq.read_table(target).equals(table.filter(pa.array(keep)))
    before, after = (pq.read_metadata(found).row_group(0) for found in (path, target))
    for place in range(table.num_columns):
        one, other = before.column(place), after.column(place)
        assert (other.compression, other.has_dictionary_page) == (one.compression, one.has_dictionary_page)


def test_the_level_of_the_input_does_not_matter(texts: list[str], tmp_path: Path) -> None:
    """Writing at a high level would take minutes, so the input's level is not kept."""
    found = []
    for level in (1, 19):
        path = tmp_path / f"{level}.parquet"
        pq.write_table(pa.table({"text": texts}), path, compression="zstd", compression_level=level)
        found.append(write_kept(path, np.ones(len(texts))).read_bytes())
    assert found[0] == found[1]


def test_compression_options_are_applied(texts: list[str], tmp_path: Path) -> None:
    write_rows(tmp_path / "in" / "a.parquet", texts)
    write_rows(tmp_path / "in" / "b.jsonl.gz", [" ".join(text.split()[::-1]) for text in texts])
    sizes = []
    for level in (1, 9):
        out = tmp_path / f"out{level}"
        result = gpulsh.deduplicate_files(tmp_path / "in", out, compression=f"gzip:{level}", backend="cpu")
        assert result.report["parameters"]["compression"] == f"gzip:{level}"
        chunk = pq.read_metadata(out / "data" / "a.parquet").row_group(0).column(0)
        assert chunk.compression == "GZIP"
        sizes.append((chunk.total_compressed_size, (out / "data" / "b.jsonl.gz").stat().st_size))
    assert sizes[0][0] > sizes[1][0] and sizes[0][1] > sizes[1][1]
    line = f"dedup {tmp_path}/in -o {tmp_path}/o --compression none --backend cpu"
    assert CliRunner().invoke(command, line.split()).exit_code == 0
    assert pq.read_metadata(tmp_path / "o" / "data" / "a.parquet").row_group(0).column(0).compression == "UNCOMPRESSED"


@pytest.mark.parametrize(
    ("name", "compression"),
    [("a.jsonl", "zstd:3"), ("a.txt", "none"), ("a.jsonl.gz", "zstd:3"), ("a.jsonl.gz", "gzip")],
)
def test_a_compression_that_no_input_takes_is_refused(name: str, compression: str, tmp_path: Path) -> None:
    """A codec alone keeps the file's level, so it applies to no INPUT; a codec with a level applies."""
    write_rows(tmp_path / name, ["some words"])
    test = write_rows(tmp_path / "test.parquet", ["other words"])  # is only read
    with pytest.raises(ParameterError, match=f"'{compression}', which no INPUT takes"):
        run(tmp_path / name, tmp_path / "out", compression=compression, protect=test)
    assert not (tmp_path / "out").exists()
    if compression == "gzip":
        run(tmp_path / name, tmp_path / "out", compression="gzip:3", protect=test)


def test_every_listed_level_is_accepted_by_its_codec() -> None:
    for codec, levels in LEVELS.items():
        for level in levels:
            assert OutputCodec.parse(f"{codec}:{level}") == OutputCodec(codec, level)
            name = "lz4_raw" if codec == "lz4" else codec
            content = b"some words " * 100
            packed = pa.Codec(name, compression_level=level).compress(content)
            assert pa.Codec(name).decompress(packed, len(content)).to_pybytes() == content
