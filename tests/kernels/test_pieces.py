"""Documents in pieces of a few bytes, sets in parts: the same bits as whole, never more than a piece at a time."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Array, TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.launcher import kernel_folder
from gpulsh.backends.cuda.sign import cut_pieces, sign_in_pieces
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend, sketches
from gpulsh.backends.reference.texts import classify, code_points
from gpulsh.params import PLAIN, SKETCHES, BandShape, Family, Reading, Shingling, Unit
from tests.kernels.cuts import HOST_DEFAULT, SMALL_CUT, build_kernels
from tests.kernels.device_arrays import DeviceModule
from tests.kernels.host import HostLauncher
from tests.support.rows import random_table
from tests.support.same import same
from tests.support.texts import AWKWARD, KEYS, READINGS, awkward_documents, batch_of, shinglings_of

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
FAMILY, SHAPE = Family(num_perm=6), BandShape(bands=3, rows=2)
FEW = 90  # pieces of a document, each of which takes many launches
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "bits.json").read_text())

sizes = st.one_of(st.integers(1, 8), st.sampled_from([31, 33, 63, 64]))
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
befores = st.sampled_from([b"", b"a", b"\xe4\xb8"])
DOCUMENTS = [
    *(b"", b" ", b"a", b" \n" * 40, b"\xff" * 60, b"\0" * 33, b"x" * 700, b" x", b"x ", b"a" + b" " * 60 + b"b"),
    ("語" * 50).encode(),
    "e\u0301\u0301\u0301 \u0301 e\u0301".encode(),
    "नमस्ते दुनिया ".encode() * 4,
    b"one two " + b"\xf0\x9f\x98" * 9 + "😀é".encode() * 9,
]


class Watched(DeviceModule):
    """Keeps the most bytes of text of an upload, and the most values of a sort."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self.sorted = 0

    def sort(self, array: Any) -> Any:
        self.sorted = max(self.sorted, len(array))
        return super().sort(array)

    def asarray(self, array: Any) -> Any:
        if getattr(array, "dtype", None) == np.uint8:
            self.most = max(self.most, len(array))
        return super().asarray(array)


def with_pieces(cuda: CudaBackend, piece_bytes: int, arrays: Any = None) -> CudaBackend:
    machine = cuda._machine
    return CudaBackend(arrays or machine.arrays, machine.launch, replace(machine.geometry, piece_bytes=piece_bytes))


def signed(
    cuda: CudaBackend, text: TextBatch, how: Shingling, piece: int, family: Family = FAMILY, shape: BandShape = SHAPE
) -> Any:
    return sign_in_pieces(cuda._machine, text, how, family, shape, KEYS, piece)


def assert_signed(
    cuda: CudaBackend, text: TextBatch, how: Shingling, piece: int, family: Family = FAMILY, shape: BandShape = SHAPE
) -> None:
    wanted = REFERENCE.sign(text, how, family, shape, KEYS)
    same(signed(cuda, text, how, piece, family, shape), wanted, cuda.asnumpy)


def there(cuda: CudaBackend, text: TextBatch) -> TextBatch:
    return TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))


def pieces_of(document: bytes, unit: Unit, piece_bytes: int, reading: Reading = PLAIN) -> list[tuple[bytes, bool]]:
    values = np.frombuffer(document, np.uint8)
    cut = list(cut_pieces(lambda low, high: values[low:high], len(document), unit, piece_bytes, reading))
    assert [piece.start for piece in cut] == [0, *(piece.stop for piece in cut)][: len(cut)]
    assert (cut[-1].stop if cut else 0) == len(document)
    return [(document[piece.start : piece.stop], piece.spaced) for piece in cut]


def longest(document: bytes, unit: Unit) -> int:
    """Bytes of the longest stretch that no cut may enter: a token of words, a code point of characters."""
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
def test_tokens_of_pieces_are_those_of_the_document(
    document: bytes, unit: Unit, piece_bytes: int, reading: Reading
) -> None:
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
def test_cuts_far_from_where_they_are_wanted(letter: str) -> None:
    count = 200_000 // len(letter.encode())
    for document in (letter * count, "b " + letter * count + " c", letter * (count // 3) + "語" + letter * count):
        pieces = [piece for piece, _ in pieces_of(document.encode(), "word", 100)]
        found = [token for piece in pieces for token in code_points(piece, "word")]
        assert found == code_points(document.encode(), "word") and len(pieces) <= 4


def test_the_nearest_cut_in_any_window() -> None:
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


@settings(max_examples=9)
@given(text=texts | st.sampled_from(DOCUMENTS), before=befores, how=shinglings_of(sizes), piece=st.integers(1, 50))
def test_sign_in_pieces(cuda: CudaBackend, text: bytes, before: bytes, how: Shingling, piece: int) -> None:
    assert_signed(cuda, batch_of([text[: FEW * piece]], before, b"\x80a"), how, piece)


@SMALL_CUT
@pytest.mark.parametrize("unit", ["word", "char"])
def test_awkward_documents_and_counts_in_pieces(cuda: CudaBackend, unit: Unit) -> None:
    for number, document in enumerate(DOCUMENTS):
        size, piece = ((1, 1), (3, 2), (9, 7), (64, 33))[number % 4]
        text = batch_of([document[: FEW * piece]], b"before ", document[FEW * piece :])
        assert_signed(cuda, text, Shingling(unit=unit, size=size), piece)
    for count, size in ((0, 5), (1, 1), (31, 64), (32, 5), (33, 1), (255, 5), (257, 64)):
        text = " ".join(f"w{i}" for i in range(count + size - 1)) if unit == "word" else "x" * (count + size - 1)
        # With a last piece without a token, no short shingle follows exactly one full one.
        for end in (b"", b"." * 150):
            assert_signed(cuda, batch_of([text.encode() + end]), Shingling(unit=unit, size=size), 100)


@SMALL_CUT
@pytest.mark.parametrize("shingling", ["word:5", "char:9"])
def test_golden_documents_in_pieces(cuda: CudaBackend, shingling: str) -> None:
    def words(array: Array) -> list[str]:
        return [f"{x:016x}" for x in cuda.asnumpy(array)[0].tolist()]

    pinned, family, shape = GOLDEN["signed"][shingling], Family(num_perm=16), BandShape(bands=8, rows=2)
    for i, document in enumerate(map(bytes.fromhex, GOLDEN["documents"])):
        found = signed(cuda, batch_of([document]), Shingling.parse(shingling), 23, family, shape)
        assert (words(found.exact), words(found.digests)) == (pinned["exact"][i], pinned["digests"]["8x2"][i])
        assert cuda.asnumpy(found.shingles).tolist() == [pinned["offset"][i + 1] - pinned["offset"][i]]


def test_a_document_on_the_device(cuda: CudaBackend) -> None:
    text = batch_of([b"a giant that is on the device already, twice over " * 3], b"\xe4\xb8")
    found = signed(cuda, there(cuda, text), Shingling(), 20)
    same(found, REFERENCE.sign(text, Shingling(), FAMILY, SHAPE, KEYS), cuda.asnumpy)


def test_bins_that_no_probe_fills_in_one_permutation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so many probes no bin is ever left; so here there are none."""
    folder = tmp_path / "kernels"
    shutil.copytree(kernel_folder(), folder)
    source = (folder / "one_permutation.cu").read_text("utf-8")
    assert source.count("ROUNDS = 64;") == 1
    (folder / "one_permutation.cu").write_text(source.replace("ROUNDS = 64;", "ROUNDS = 0;"), "utf-8")
    monkeypatch.setattr(sketches, "ROUNDS", 0)
    build_kernels()
    cuda, rows = CudaBackend(DeviceModule(), HostLauncher(folder)), random_table([1, 0, 2, 5, 30])
    for columns in (2, 33, 70):
        family = Family(name="one_permutation", num_perm=columns)
        same(sketched(cuda, rows.moved(cuda.asarray), family), sketched(REFERENCE, rows, family), cuda.asnumpy)


@SMALL_CUT
def test_every_sketch_in_pieces(cuda: CudaBackend) -> None:
    documents = [b"", b"one", b"a b", b"a b c d e f " * 30, "漢字 かな हिन्दी ".encode() * 9, b" \xff "]
    for number, name in enumerate(SKETCHES):
        how = Shingling(unit="char" if number % 2 else "word", size=3)
        for document in documents:
            family = Family(name=name, num_perm=16)  # type: ignore[arg-type]
            assert_signed(cuda, batch_of([document]), how, 20, family, BandShape(bands=4, rows=3))


# --- parts


@SMALL_CUT
@settings(max_examples=6)
@given(
    rows=st.one_of(awkward_documents, st.lists(texts, max_size=4)),
    before=befores,
    unit=units,
    size=sizes,
    piece=st.integers(1, 50),
    parts=st.sampled_from([1, 2, 3, 7, 2**64]),
    host=st.booleans(),
)
def test_shingle_part(
    cuda: CudaBackend, rows: list[bytes], before: bytes, unit: Unit, size: int, piece: int, parts: int, host: bool
) -> None:
    text = batch_of([row[: FEW * piece] for row in rows], before, b"\x80a")
    shingling = Shingling(unit=unit, size=size)
    given = text if host else there(cuda, text)
    whole = REFERENCE.shingle_sets(text, shingling).values
    # As many parts as fingerprints: one of them is all of its part, its first and its last.
    part = int(whole[len(whole) // 2]) if parts == 2**64 and len(whole) else parts * 5 // 9
    in_pieces = with_pieces(cuda, piece)
    for ops, keys in ((in_pieces, KEYS), (in_pieces, None), (cuda, None)):
        wanted = REFERENCE.shingle_part(text, shingling, part, parts, keys)
        same(ops.shingle_part(given, shingling, part, parts, keys), wanted, cuda.asnumpy)


@SMALL_CUT
def test_intersections_are_sums_over_parts(cuda: CudaBackend) -> None:
    shared = " ".join(f"word{i}" for i in range(60))
    rows = [f"{shared} and more {shared}", f"less {shared}", shared, "", "none of it"]
    text, shingling = batch_of([row.encode() for row in rows]), Shingling(size=2)
    pairs = np.array([(i, j) for i in range(5) for j in range(i + 1, 5)], np.int64)
    wanted = REFERENCE.intersect(pairs, REFERENCE.shingle_sets(text, shingling))
    assert wanted[0].max() > 50
    pieces = with_pieces(cuda, 40)
    for parts in (1, 3):
        sets = [pieces.shingle_part(text, shingling, part, parts) for part in range(parts)]
        found = [cuda.intersect(cuda.asarray(pairs), one) for one in sets]
        for column, total in enumerate(wanted):
            np.testing.assert_array_equal(sum(cuda.asnumpy(one[column]) for one in found), total)


# --- memory


@HOST_DEFAULT
def test_one_piece_is_uploaded_at_a_time(cuda: CudaBackend) -> None:
    text = batch_of([("some words of one giant, 語語, é " * 200).encode()] * 2 + [b"small"] * 9)
    for unit in ("word", "char"):
        shingling = Shingling(unit=unit, size=5)  # type: ignore[arg-type]
        watched = Watched()
        few = with_pieces(cuda, 300, watched)
        assert_signed(few, TextBatch(text.values, text.offset[:2]), shingling, 300)
        assert 290 < watched.most <= 300
        same(few.shingle_part(text, shingling, 1, 3), REFERENCE.shingle_part(text, shingling, 1, 3), few.asnumpy)
        assert 290 < watched.most <= 300


@HOST_DEFAULT
def test_repeats_over_many_pieces_are_held_once(cuda: CudaBackend) -> None:
    text, shingling = batch_of([" ".join(f"w{i}" for i in range(30)).encode() * 60]), Shingling(size=1)
    watched = Watched()
    found = with_pieces(cuda, 20, watched).shingle_part(text, shingling, 0, 1)
    assert len(found.values) == 31  # the last word of a round is one with the first of the next
    assert 31 < watched.sorted <= 3 * 31
