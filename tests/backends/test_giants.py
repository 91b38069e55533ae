"""Documents that the CPU backend takes in pieces: the bits do not depend on the cuts, and little memory is used."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import TextBatch
from gpulsh.backends.cpu import CpuBackend, shingle
from gpulsh.backends.cpu.threads import Threads
from gpulsh.backends.protocol import Backend
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import DeviceMemoryError
from gpulsh.params import BandShape, Family, Shingling
from tests.support.bounds import set_bounds
from tests.support.rows import same
from tests.support.texts import ALL_READINGS, KEYS, NOT_UTF8, SEPARATORS, WORDS, batch_of
from tests.support.traced import at_most

REFERENCE, ONE = ReferenceBackend(), CpuBackend(1)
SIMHASH_KEYS = np.array([0, 2**64 - 1, 0x9E3779B97F4A7C15], np.uint64)
FAMILY, SHAPE = Family(num_perm=16), BandShape(bands=5, rows=3)


@contextmanager
def pieces_of(size: int) -> Iterator[None]:
    """Treat every document with a byte as a giant, in pieces of about `size` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shingle, "GIANT_BYTES", 0)
        patch.setattr(shingle, "PIECE_BYTES", size)
        for name in ("CHUNK_BYTES", "LONGEST_CHUNK"):
            patch.setattr(shingle, name, 1)
        yield


def operations(ops: Backend, text: TextBatch, shingling: Shingling, family: Family = FAMILY) -> Iterator[Any]:
    """The results of every operation of a backend on text."""
    yield ops.shingle(text, shingling)
    yield ops.exact_hashes(text, shingling, KEYS)
    yield ops.shingle_sets(text, shingling)
    yield ops.shingle_sets(text, shingling, KEYS)
    yield from (ops.shingle_part(text, shingling, part, 3) for part in range(3))
    yield from (ops.text_simhash(text, shingling, SIMHASH_KEYS, distinct) for distinct in (False, True))
    yield ops.text_signatures(text, shingling, family)
    yield ops.sign(text, shingling, family, SHAPE, KEYS)


def check(text: TextBatch, shingling: Shingling, *pieces: int) -> None:
    wanted = list(operations(REFERENCE, text, shingling))
    for piece in pieces:
        with pieces_of(piece):
            for found, one in zip(operations(ONE, text, shingling), wanted, strict=True):
                same(found, one)


@pytest.mark.parametrize("shingling", [ALL_READINGS[0], ALL_READINGS[3], ALL_READINGS[-1]])
def test_pieces_may_end_between_any_two_neighbours(shingling: Shingling) -> None:
    parts = [part.encode() for part in (*WORDS[:8:3], "हिन्दी", "漢字", "カー", "e\u0301", "𝒜", "\0", *SEPARATORS[::4])]
    parts += [*NOT_UTF8, b"\x80" * 5, b"\xc3\xa9\xa9\xa9\xa9", b"x" * 70, "é".encode() * 40]
    documents = [b"".join([one, other, one]) for one in parts for other in parts]
    text = batch_of(documents)
    wanted = REFERENCE.shingle(text, shingling), *REFERENCE.exact_hashes(text, shingling, KEYS)
    for piece in (1, 2, 3, 5, 8, 63, 64, 65) if shingling == ALL_READINGS[0] else (1, 3, 64):
        with pieces_of(piece):
            same((ONE.shingle(text, shingling), *ONE.exact_hashes(text, shingling, KEYS)), wanted)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_pieces_of_one_token_or_of_separators_equal_the_reference(unit: Any) -> None:
    documents = [b"w" * 500, "ß".encode() * 150, b" " * 500, b"\xff" * 450, b" " * 150 + b"a b" + b"." * 150]
    documents += ["漢".encode() + b"w" * 300 + "字".encode() * 3, b"w" * 200 + b" " * 200 + b"v" * 200]
    for size in (1, 64):
        check(batch_of(documents), Shingling(unit=unit, size=size), 32, 65)
        check(batch_of([document[:150] for document in documents]), Shingling(unit=unit, size=size), 1)


@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("symbols", [False, True])
def test_a_piece_has_no_more_shingles_than_bytes_and_one(unit: Any, symbols: bool) -> None:
    """This holds for any text: the arrays have no room for more."""
    documents = [
        text.encode() * 300 for text in ("a", "a ", " ", "é", "漢", "漢a", "漢 a", "कि", "𠀀", "🙂", "+", "a+")
    ]
    documents += [b"\x80" * 500, b"a\x80" * 300, b"\xe6\xbc" * 300, b" a" * 40 + b"\x80" * 500 + b" a" * 40]
    shingling = Shingling(unit=unit, size=1, symbols=symbols)
    for piece in (1, 3, 65):
        for row, document in enumerate(documents):
            with pieces_of(piece):
                found = shingle.TextPass(Threads(1), batch_of([document]), shingling).pieces(0, 1)
                assert max(len(rows.values) for rows in found) <= max(piece + 1, 2), (row, piece)


def test_giants_among_other_documents_equal_whole_ones() -> None:
    rng, size = np.random.default_rng(5), 1 << 16
    words = np.array([word.encode() for word in WORDS], object)
    smaller = b" ".join(rng.choice(words, 6000).tolist())
    letters = rng.choice(np.frombuffer(b"ab cd", np.uint8), size + 1).tobytes()
    assert size // 2 < len(smaller) < size
    text = batch_of([b"small", b"", letters, b"", smaller, letters, b"other words"] * 2, b"zz", b"zz")
    for unit in ("word", "char"):
        shingling = Shingling(unit=unit, size=4)  # type: ignore[arg-type]
        wanted = list(operations(ONE, text, shingling))  # as one document like others
        with pytest.MonkeyPatch.context() as patch:
            for name in ("GIANT_BYTES", "CHUNK_BYTES", "PIECE_BYTES"):
                patch.setattr(shingle, name, size)
            for found, one in zip(operations(CpuBackend(3), text, shingling), wanted, strict=True):
                same(found, one)


BESIDE = 24 << 20  # bytes that may be held beside the text


def test_a_giant_of_single_letters_is_signed_in_little_memory() -> None:
    """Half a token a byte: an array of all tokens would be four times the text. tests/soak has the other passes."""
    shingling = Shingling(size=5)
    text = batch_of([b"a b " * (8 << 20)])
    with at_most(BESIDE):
        signed = ONE.sign(text, shingling, FAMILY, SHAPE, KEYS)
    assert signed.shingles.tolist() == [len(text.values) // 2 - 4]
    same(signed.digests, ONE.sign(batch_of([b"a b " * 9]), shingling, FAMILY, SHAPE, KEYS).digests)  # the same set


def test_too_many_fingerprints_at_once_are_refused() -> None:
    ops = CpuBackend(2, memory=64 * 1000)
    text, shingling = batch_of([b"a b c d e f g h i j " * 2000, " ".join(map(str, range(990))).encode()]), Shingling()
    same(ops.shingle_sets(text, shingling), REFERENCE.shingle_sets(text, shingling))  # 10 and 986 of 1000
    more = batch_of([" ".join(map(str, range(start, start + 999))).encode() for start in (0, 2000)])
    with pytest.raises(DeviceMemoryError, match="more than 1000 fingerprints at once"):
        ops.shingle_sets(more, shingling)
    alone = more.slice(1, 2)
    with pieces_of(100):
        with pytest.raises(DeviceMemoryError):
            ops.shingle_sets(more, shingling)
        with pytest.raises(DeviceMemoryError, match="more than 500"):
            ops.shingle_part(alone, shingling, 0, 1)
        same(ops.shingle_part(alone, shingling, 1, 3), REFERENCE.shingle_part(alone, shingling, 1, 3))
        same(CpuBackend(1, memory=0).shingle_sets(alone, shingling), REFERENCE.shingle_sets(alone, shingling))


@pytest.mark.parametrize(("verify", "size"), [("exact", 3000), ("signature", 1 << 30)])
def test_decisions_when_few_fingerprints_fit_in_memory(verify: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    texts = []
    families = [(80, 20, 1), *2 * [(9, 200, 9), (2, 2000, 100)]]  # a large bucket, and small ones
    for documents, words, changed in families:
        one = rng.integers(0, 1 << 30, words)
        for _ in range(documents):
            other = one.copy()
            other[rng.integers(0, words, changed)] = rng.integers(0, 1 << 30, changed)
            texts.append(" ".join(map(str, other)))
    monkeypatch.setattr("gpulsh.lsh.collisions.SMALL_BUCKET", 40)
    wanted = gpulsh.deduplicate(texts, threshold=0.5, verify=verify, backend="cpu")
    assert wanted.funnel.crowded > 40
    set_bounds(monkeypatch, size, size)
    monkeypatch.setattr("gpulsh.backends.cpu.shingle.SETS", 26)  # 128 of 8 GiB, and 64 of a range
    found = gpulsh.deduplicate(texts, threshold=0.5, verify=verify, backend="cpu", threads=2)
    assert 10 < int(wanted.keep.sum()) < len(texts) - 10
    assert found == wanted
