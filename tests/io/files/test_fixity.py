"""Digests of content: the same however it is cut, by the definition, another for any other content or key."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.backends.cpu.content import BLOCK, KEY_BYTES, SHIFT, content_sums
from gpulsh.errors import ChangedInputError
from gpulsh.io.files.fixity import Digest, Fixity, Reading
from gpulsh.io.files.inputs import find_files
from tests.support.texts import batch_of

KEY = bytes(range(32))


def naive(rows: list[bytes], keys: bytes) -> bytes:
    """NH as its paper has it, twice, of each block of each row, with the bytes that are left of the row."""

    def words(content: bytes, shift: int) -> int:
        content += bytes(-len(content) % 64)
        total = 0
        for at in range(0, len(content), 8):
            halves = [
                (int.from_bytes(content[at + i : at + i + 4], "little") + int.from_bytes(part, "little")) % 2**32
                for i in (0, 4)
                for part in [keys[shift + at + i : shift + at + i + 4]]
            ]
            total += halves[0] * halves[1]
        return total

    found = b""
    for row in rows:
        for start in range(0, max(len(row), 1), BLOCK):
            block = row[start : start + BLOCK]
            for total in (words(block, 0) + len(row) - start, words(block, SHIFT)):
                found += (total % 2**64).to_bytes(8, "little")
    return found


rows = st.lists(
    st.one_of(st.binary(max_size=200), st.integers(1000, 3100).map(lambda size: b"ab\xff" * size)), max_size=6
)


@given(rows, st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), st.binary(max_size=3))
def test_sums_by_definition(documents: list[bytes], keys: bytes, before: bytes) -> None:
    batch = batch_of(documents, before, b"xyz")
    found = content_sums(batch.values, batch.offset, np.frombuffer(keys, np.uint8))
    assert found.tobytes() == naive(documents, keys)


def digest_of(content: bytes, cuts: list[int], key: bytes = KEY) -> str:
    digest = Digest(key)
    for first, last in zip([0, *cuts], [*cuts, len(content)], strict=True):
        digest.add(memoryview(content)[first:last])
    return digest.value()


def test_any_cut_of_bytes_gives_one_digest() -> None:
    source = random.Random(3)
    for size in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK + 7):
        content = source.randbytes(size)
        wanted = digest_of(content, [])
        for count in (1, 5, 300):
            assert digest_of(content, sorted(source.choices(range(size + 1), k=count))) == wanted
        assert digest_of(content, [], bytes(32)) != wanted
        assert digest_of(content + b"\0", []) != wanted


def test_texts_are_told_from_those_that_are_cut_elsewhere() -> None:
    lists = [[b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"abc", b""], [b"", b"abc"], [b"abc\0"], [b"abc", b"\0"], []]
    lists += [[b"x" * 1024, b""], [b"x" * 1024], [b"x" * 1023 + b"y"], [b"x" * 1000, b"x" * 24], [b"x" * 2048]]
    found = set()
    for texts in lists:
        digest = Digest(KEY)
        digest.add_texts(batch_of(texts))
        found.add(digest.value())
    assert len(found) == len(lists)


def test_a_reading_is_of_the_whole_file(tmp_path: Path) -> None:
    """However little of it was read, and however often it was opened; what jumps about tells nothing."""
    content = random.Random(1).randbytes(300_000)
    (tmp_path / "a.txt").write_bytes(content)
    (file,) = find_files([str(tmp_path / "a.txt")])
    wanted = digest_of(content, [])
    with Reading(file, KEY) as reading:
        for first in (0, 10, 1 << 17, -1):
            with reading.file.open() as source:
                assert source.read(first) == (content[:first] if first >= 0 else content)
        with reading.file.open() as source:
            source.read(1000)
            source.seek(500)
            assert source.read(1000) == content[500:1500]
        with reading.file.open() as source:
            source.seek(500)
            assert source.read(1) == content[500:501]
        assert reading.digests() == [wanted] * 5


def test_what_differs_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"some text")
    fixity = Fixity.of(find_files([str(path)]))
    fixity.check_all()
    fixity.compare(0, "12", ["12", "12"])
    fixity.compare(0, None, ["12"])
    with pytest.raises(ChangedInputError, match=r"a\.txt: changed while it was read: it holds something else than at"):
        fixity.compare(0, "12", ["12", "13"])
    path.write_bytes(b"another text")
    with pytest.raises(ChangedInputError, match="it had 9 bytes and has 12; bring it back as it was, or begin again"):
        fixity.check_all()
    with pytest.raises(ChangedInputError, match="had 9 bytes"), fixity.kept([0]):
        raise KeyError("whatever a reader meets in it")
    path.write_bytes(b"SOME text")
    with pytest.raises(ChangedInputError, match="it was written to since the run began"):
        fixity.check_all()
    path.unlink()
    with pytest.raises(ChangedInputError, match="it is not there any more"):
        fixity.check_all()
