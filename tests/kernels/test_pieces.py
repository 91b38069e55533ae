"""Documents in pieces of a few bytes, sets in parts: the same bits as whole, never more than a piece at a time.

`tests/backends/parity/test_any.py` signs any documents by any sketch in pieces, and takes their sets in parts.
"""

import mmap
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend, Shared
from gpulsh.backends.cuda.launcher import kernel_folder
from gpulsh.backends.cuda.sign import cut_pieces, sign_in_pieces
from gpulsh.backends.cuda.sketches import MinHash
from gpulsh.backends.cuda.texts import TokenSums
from gpulsh.backends.protocol import NO_DIGEST, NO_VALUE, sketched
from gpulsh.backends.reference import ReferenceBackend, sketches
from gpulsh.backends.reference.hashing import mix64, shingle_hash
from gpulsh.backends.reference.texts import classify, code_points
from gpulsh.params import PLAIN, BandShape, Family, Reading, Shingling, Unit
from gpulsh.permutations import Coefficients, coefficients
from tests.kernels.cuts import HOST_DEFAULT, SMALL_CUT, build_kernels
from tests.kernels.device_arrays import DeviceArray, DeviceModule
from tests.kernels.host import HostLauncher
from tests.support.rows import random_table, same
from tests.support.texts import AWKWARD, KEYS, READINGS, batch_of

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
FAMILY, SHAPE = Family(num_perm=6), BandShape(bands=3, rows=2)

units = st.sampled_from(["word", "char"])
# Text that offers few cuts, next to text that offers many: words longer than pieces, runs of separators, sequences of
# two to four bytes with and without case, letters written without spaces, bytes that are not UTF-8.
texts = st.lists(
    st.one_of(
        st.sampled_from(AWKWARD),
        st.sampled_from(["é", "x", "नि", "e\u0301\u0323", "𐐀", "語", " ", "\0", "😀", "-a"]).flatmap(
            lambda piece: st.integers(1, 70).map(lambda n: (piece * n).encode())
        ),
    ),
    max_size=12,
).map(b"".join)


class Watched(DeviceModule):
    """Records the most bytes of text in one upload."""

    def __init__(self) -> None:
        super().__init__()
        self.most = 0

    def asarray(self, array: Any) -> Any:
        if getattr(array, "dtype", None) == np.uint8:
            self.most = max(self.most, len(array))
        return super().asarray(array)


def with_pieces(cuda: CudaBackend, piece_bytes: int, arrays: Any = None) -> CudaBackend:
    geometry = replace(cuda.geometry, piece_bytes=piece_bytes)
    return CudaBackend(Shared(arrays or cuda.arrays, cuda.launch, geometry))


def signed(cuda: CudaBackend, text: TextBatch, how: Shingling, piece: int) -> Any:
    return sign_in_pieces(cuda, text, how, FAMILY, SHAPE, KEYS, piece)


def pieces_of(document: bytes, unit: Unit, piece_bytes: int, reading: Reading = PLAIN) -> list[tuple[bytes, bool]]:
    values = np.frombuffer(document, np.uint8)
    cut = list(cut_pieces(lambda low, high: values[low:high], len(document), unit, piece_bytes, reading))
    assert [piece.start for piece in cut] == [0, *(piece.stop for piece in cut)][: len(cut)]
    assert (cut[-1].stop if cut else 0) == len(document)
    return [(document[piece.start : piece.stop], piece.spaced) for piece in cut]


def longest(document: bytes, unit: Unit) -> int:
    """The bytes of the longest stretch that a cut must not split: a token of words, a code point of characters."""
    most = run = 0
    for character in document.decode("utf-8", "surrogateescape"):
        escaped = 0xDC80 <= ord(character) <= 0xDCFF
        word = not escaped and classify(ord(character))[0] == 1 and unit == "word"
        size = 1 if escaped else len(character.encode())
        run = run + size if word else size
        most = max(most, run)
        run = run if word else 0
    return most


# --- cuts, which need no kernel


@given(st.one_of(texts, st.binary(max_size=60)), units, st.integers(1, 50), st.sampled_from(READINGS))
def test_tokens_of_pieces_equal_the_whole(document: bytes, unit: Unit, piece_bytes: int, reading: Reading) -> None:
    found: list[list[int]] = []
    for piece, spaced in pieces_of(document, unit, piece_bytes, reading):
        assert 0 < len(piece) <= max(piece_bytes, longest(document, unit))
        more = code_points(piece, unit, reading)
        leading = classify(ord(piece.decode("utf-8", "replace")[0]), reading)[0] == 0
        if unit == "char" and more and found and (spaced or leading):
            found.append([0x20])
        found += more
    assert found == code_points(document, unit, reading)


@pytest.mark.parametrize("letter", ["a", "한", "𐐀"])
def test_cuts_are_found_far_from_the_wanted_place(letter: str) -> None:
    count = 200_000 // len(letter.encode())
    for document in (letter * count, "b " + letter * count + " c", letter * (count // 3) + "語" + letter * count):
        pieces = [piece for piece, _ in pieces_of(document.encode(), "word", 100)]
        found = [token for piece in pieces for token in code_points(piece, "word")]
        assert found == code_points(document.encode(), "word") and len(pieces) <= 4


def test_the_nearest_cut_is_found_across_windows() -> None:
    """Windows of 64 and 1024 bytes adjoin: no place between them is missed."""
    for distance in (*range(1, 140), *range(1080, 1100)):
        behind = pieces_of(b"a" * 50 + b" " + b"b" * 2000, "word", 50 + distance)
        assert [len(piece) for piece, _ in behind] == [51, 2000]
        ahead = pieces_of(b"a" * (30 + distance) + b" " * 9, "word", 30)
        assert [len(piece) for piece, _ in ahead] == [30 + distance, 9]


def test_little_is_read_to_find_a_cut() -> None:
    asked = []

    def read(low: int, high: int) -> Any:
        asked.append(high - low)
        return np.full(high - low, ord(" "), np.uint8)

    assert len(list(cut_pieces(read, 10**12, "word", 2 * 10**10))) == 50
    assert len(asked) == 49 and max(asked) < 100


# --- signing


@SMALL_CUT
@pytest.mark.parametrize("unit", ["word", "char"])
def test_shingles_are_counted_across_pieces(cuda: CudaBackend, unit: Unit) -> None:
    """A last piece without a token must not add a short shingle after exactly one full one."""
    for count, size in ((0, 5), (1, 1), (1, 64), (31, 64), (32, 5), (33, 1), (255, 5), (257, 64)):
        tokens, shingling = count + size - 1, Shingling(unit=unit, size=size)
        text = " ".join(f"w{i}" for i in range(tokens)) if unit == "word" else "x" * tokens
        for end in (b"", b"." * 150):
            batch = batch_of([text.encode() + end])
            wanted = REFERENCE.sign(batch, shingling, FAMILY, SHAPE, KEYS)
            same(signed(cuda, batch, shingling, 100), wanted, cuda.asnumpy)


def test_unprobed_bins_of_one_permutation_equal_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual number of probes fills every bin, so this test makes none."""
    folder = tmp_path / "kernels"
    shutil.copytree(kernel_folder(), folder)
    source = (folder / "one_permutation.cu").read_text("utf-8")
    assert source.count("ROUNDS = 64;") == 1
    (folder / "one_permutation.cu").write_text(source.replace("ROUNDS = 64;", "ROUNDS = 0;"), "utf-8")
    monkeypatch.setattr(sketches, "ROUNDS", 0)
    build_kernels()
    cuda, rows = CudaBackend(Shared(DeviceModule(), HostLauncher(folder))), random_table([1, 0, 2, 5, 30])
    for columns in (2, 33, 70):
        family = Family(name="one_permutation", num_perm=columns)
        same(sketched(cuda, rows.moved(cuda.asarray), family), sketched(REFERENCE, rows, family), cuda.asnumpy)


# --- memory


@HOST_DEFAULT
def test_one_piece_is_uploaded_at_a_time(cuda: CudaBackend) -> None:
    text = batch_of([("some words of one giant, 語語, é " * 200).encode()] * 2 + [b"small"] * 9)
    for unit in ("word", "char"):
        shingling = Shingling(unit=unit, size=5)  # type: ignore[arg-type]
        watched = Watched()
        few = with_pieces(cuda, 300, watched)
        giant = TextBatch(text.values, text.offset[:2])
        same(signed(few, giant, shingling, 300), REFERENCE.sign(giant, shingling, FAMILY, SHAPE, KEYS), few.asnumpy)
        assert 290 < watched.most <= 300
        same(few.shingle_part(text, shingling, 1, 3), REFERENCE.shingle_part(text, shingling, 1, 3), few.asnumpy)
        assert 290 < watched.most <= 300


@HOST_DEFAULT
def test_repeats_over_many_pieces_are_held_once(cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    text, shingling = batch_of([" ".join(f"w{i}" for i in range(30)).encode() * 60]), Shingling(size=1)
    sort, sizes = DeviceArray.sort, list[int]()
    monkeypatch.setattr(DeviceArray, "sort", lambda array: sizes.append(len(array)) or sort(array))
    found = with_pieces(cuda, 20).shingle_part(text, shingling, 0, 1)
    assert len(found.values) == 31  # the last word of a round is one with the first of the next
    assert 31 < max(sizes) <= 3 * 31


# --- token sums to band digests in one kernel


@pytest.mark.parametrize(("count", "spared"), [(1, None), (2, 0), (8, 39), (300, 32), (1500, None), (1500, 39)])
def test_a_document_with_minima_of_all_ones_has_no_digest(cuda: CudaBackend, count: int, spared: int | None) -> None:
    """One fingerprint, repeated, that every function maps to all ones: no digest, unless one column says otherwise.

    The document behind it has others, in the next row of minima where both reach beyond a span.
    """
    sums, family, shape = np.full(count + 10, 7, np.uint64), Family(num_perm=40), BandShape(bands=3, rows=13)
    sums[count:] = np.arange(10)
    hashes = [mix64(value) for value in sums.tolist()]
    documents = hashes[:count], hashes[count:]
    rows = [[shingle_hash(row[i : i + 2]) for i in range(max(len(row) - 1, 1))] for row in documents]
    upper = [np.array(row, np.uint64) >> np.uint64(32) for row in rows]
    multiplier = coefficients(family).multiplier
    addend = (np.uint64(NO_VALUE) - (multiplier * upper[0][0] & np.uint64(NO_VALUE))).astype(np.uint32)
    if spared is not None:
        addend[spared] -= np.uint32(1)
    sketch = MinHash(cuda, family)
    sketch.functions = Coefficients(cuda.asarray(multiplier), cuda.asarray(addend))
    given = TokenSums(cuda.asarray(sums), cuda.asarray(np.array([0, count, count + 10], np.int64)), 0)
    digests, shingles = sketch.digests(given, 2, shape)
    signatures = np.stack([(x.astype(np.uint32)[:, None] * multiplier + addend).min(axis=0) for x in upper])
    np.testing.assert_array_equal(cuda.asnumpy(digests), ReferenceBackend().band_digests(signatures, shape))
    assert cuda.asnumpy(shingles).tolist() == list(map(len, rows))
    assert (cuda.asnumpy(digests)[0] == np.uint64(NO_DIGEST)).all() == (spared is None)


@pytest.mark.parametrize("span_begin", [(1 << 29) + 1024, (1 << 30) + 1024, 1 << 31])
def test_a_span_of_a_document_beyond_32_bits_of_tokens_is_signed(kernels_built: None, span_begin: int) -> None:
    """Only one warp in the middle runs; the host could not run the whole grid."""
    span, size, tokens, row = 1024, 5, (1 << 31) + 2005, 5
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, which Python names from 3.13 on
    sums = np.frombuffer(mmap.mmap(-1, 8 * (tokens + 10), flags), np.uint64)
    sums[span_begin : span_begin + span + size] = np.random.default_rng(4).integers(0, 2**64, span + size, np.uint64)
    number, spans, family = span_begin // span, -(-(tokens + 10) // span), coefficients(Family(num_perm=1))
    minima, straddlers = np.full((spans, 1), NO_VALUE, np.uint32), np.full(spans, -9, np.int64)
    digests = np.full((3, 1), NO_DIGEST, np.uint64)
    out = [DeviceArray(array) for array in (digests, minima, straddlers)]
    launcher = HostLauncher()
    launcher.first_block = number
    launcher(
        *("sketch", "sketch_2_columns", (1, 1), 32, DeviceArray(sums), np.int64(tokens + 10)),
        *(DeviceArray(np.array([0, row, tokens, tokens + 10], np.int64)), np.int64(3), np.int32(0), np.int32(size)),
        *(DeviceArray(family.multiplier), DeviceArray(family.addend), np.int32(1), np.int32(1), np.int32(1)),
        *(np.int32(span), *out),
    )
    hashes = [mix64(value) for value in sums[span_begin : min(span_begin + span + size - 1, tokens)].tolist()]
    windows = [shingle_hash(hashes[i : i + size]) >> 32 for i in range(len(hashes) - size + 1)]
    values = np.array(windows, np.uint32) * family.multiplier[0] + family.addend[0]
    wanted = np.full((spans, 1), NO_VALUE, np.uint32)
    wanted[0] = values.min()  # with the span that the document begins in
    np.testing.assert_array_equal(out[1].get(), wanted)
    assert (out[0].get() == np.uint64(NO_DIGEST)).all()
    assert out[2].get()[number] == -1 and (np.delete(out[2].get(), number) == -9).all()
