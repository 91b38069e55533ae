"""Documents in pieces of a few bytes, sets in parts: the same bits as whole, never more than a piece at a time."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import Fingerprints, TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.cuda.cuts import classes_of, cut_pieces
from gpulsh.backends.cuda.launcher import kernel_folder
from gpulsh.backends.cuda.sign import Signer, TextPieces
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.backends.reference.sketches import one_permutation
from gpulsh.backends.reference.tokens import classify, code_points
from gpulsh.params import PLAIN, SKETCHES, BandShape, Family, FamilyName, Reading, Shingling, Unit
from tests.kernels.cuts import build_kernels
from tests.kernels.device_arrays import DeviceModule
from tests.kernels.host import HostLauncher
from tests.support.rows import random_table
from tests.support.same import same
from tests.support.texts import AWKWARD, KEYS, READINGS, awkward_documents, batch_of, shinglings_of

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()
FAMILY, SHAPE = Family(num_perm=6), BandShape(bands=3, rows=2)
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "bits.json").read_text())

sizes = st.one_of(st.integers(1, 8), st.sampled_from([31, 33, 63, 64]))
units = st.sampled_from(["word", "char"])
# Text that offers few cuts, next to text that offers many: words longer than pieces, runs of separators, sequences of
# two to four bytes with and without case, letters written without spaces, bytes that are no UTF-8.
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
    """Keeps the most bytes of text that one upload brings, and the most values that one sort is given."""

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


def signer(
    cuda: CudaBackend, shingling: Shingling, piece: int, family: Family = FAMILY, shape: BandShape = SHAPE
) -> Signer:
    pieces = TextPieces(cuda._machine, cuda._unicode(shingling), shingling, cuda._keys_of(None), piece)
    return Signer(pieces, cuda._staging, cuda._sketch_of(family), shape, cuda._keys_of(KEYS))


def assert_signed(
    cuda: CudaBackend, text: TextBatch, shingling: Shingling, piece: int, given: TextBatch | None = None
) -> None:
    wanted = REFERENCE.sign(text, shingling, FAMILY, SHAPE, KEYS)
    found = signer(cuda, shingling, piece).in_pieces(given or text)
    for name in ("digests", "exact", "shingles"):
        np.testing.assert_array_equal(cuda.asnumpy(getattr(found, name)), getattr(wanted, name), name)


def assert_rows(cuda: CudaBackend, found: Fingerprints, wanted: Fingerprints) -> None:
    np.testing.assert_array_equal(cuda.asnumpy(found.offset), wanted.offset)
    np.testing.assert_array_equal(cuda.asnumpy(found.values), wanted.values)
    assert found.values.dtype == np.uint64 and found.offset.dtype == np.int64


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
        code_point = ord(character)
        escaped = 0xDC80 <= code_point <= 0xDCFF
        size = 1 if escaped else len(character.encode())
        word = not escaped and classify(code_point)[0] == 1 and unit == "word"
        run = run + size if word else size
        most = max(most, run)
        run = run if word else 0
    return most


# --- cuts, which need no kernel


@settings(max_examples=80)
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


@settings(max_examples=80)
@given(
    st.one_of(texts, st.binary(max_size=60), st.text(max_size=40).map(lambda text: text.encode("utf-8", "replace"))),
    st.sampled_from(READINGS),
)
def test_classes_of_bytes(document: bytes, reading: Reading) -> None:
    classes, inside = classes_of(np.frombuffer(document, np.uint8), reading)
    wanted: list[int] = []
    began: list[bool] = []
    for character in document.decode("utf-8", "surrogateescape"):
        escaped = 0xDC80 <= ord(character) <= 0xDCFF
        size = 1 if escaped else len(character.encode())
        wanted += [0 if escaped else classify(ord(character), reading)[0]] * size
        began += [False] + [True] * (size - 1)
    assert (classes.tolist(), inside.tolist()) == (wanted, began)


@pytest.mark.parametrize("letter", ["a", "é", "한", "𐐀"])
def test_cuts_far_from_where_they_are_wanted(letter: str) -> None:
    count = 400_000 // len(letter.encode())
    for document in (letter * count, "b " + letter * count + " c", letter * (count // 3) + "語" + letter * count):
        values = np.frombuffer(document.encode(), np.uint8)
        cut = list(cut_pieces(lambda low, high, text=values: text[low:high], len(values), "word", 100))
        pieces = [values[piece.start : piece.stop].tobytes().decode() for piece in cut]
        assert [token for piece in pieces for token in code_points(piece.encode(), "word")] == code_points(
            document.encode(), "word"
        )
        assert len(pieces) <= 4


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

FEW = 90  # pieces of a document, each of which takes many launches


@settings(max_examples=15)
@given(text=texts, before=st.sampled_from([b"", b"a", b"\xe4\xb8"]), how=shinglings_of(sizes), piece=st.integers(1, 50))
def test_sign_in_pieces(cuda: CudaBackend, text: bytes, before: bytes, how: Shingling, piece: int) -> None:
    assert_signed(cuda, batch_of([text[: FEW * piece]], before, b"\x80a"), how, piece)


@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize(
    "document",
    [
        *(b"", b" ", b"a", b" \n" * 40, b"\xff" * 60, b"\0" * 33, b"x" * 700, b" x", b"x ", b"a" + b" " * 60 + b"b"),
        ("語" * 50).encode(),
        "e\u0301\u0301\u0301 \u0301 e\u0301".encode(),
        "नमस्ते दुनिया ".encode() * 4,
        b"one two " + b"\xf0\x9f\x98" * 9 + "😀é".encode() * 9,
    ],
)
def test_awkward_documents_in_pieces(cuda: CudaBackend, unit: Unit, document: bytes) -> None:
    for size, piece in ((1, 1), (3, 2), (9, 7), (64, 33))[len(document) % 2 :: 2]:
        text = batch_of([document[: FEW * piece]], b"before ", document[FEW * piece :])
        assert_signed(cuda, text, Shingling(unit=unit, size=size), piece)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_counts_of_shingles_in_pieces(cuda: CudaBackend, unit: Unit) -> None:
    for count in (0, 1, 31, 32, 33, 255, 257):
        for size in (1, 5, 64):
            text = " ".join(f"w{i}" for i in range(count + size - 1)) if unit == "word" else "x" * (count + size - 1)
            # With a last piece without a token, no short shingle follows exactly one full one.
            for end in (b"", b"." * 150):
                assert_signed(cuda, batch_of([text.encode() + end]), Shingling(unit=unit, size=size), 100)


@pytest.mark.parametrize("shingling", ["word:5", "char:9"])
def test_golden_documents_in_pieces(cuda: CudaBackend, shingling: str) -> None:
    pinned = GOLDEN["signed"][shingling]
    family, shape = Family(num_perm=16), BandShape(bands=8, rows=2)
    for i, document in enumerate(map(bytes.fromhex, GOLDEN["documents"])):
        how = Shingling.parse(shingling)
        found = signer(cuda, how, 23, family, shape).in_pieces(batch_of([document]))
        assert [f"{x:016x}" for x in cuda.asnumpy(found.exact)[0].tolist()] == pinned["exact"][i]
        assert [f"{x:016x}" for x in cuda.asnumpy(found.digests)[0].tolist()] == pinned["digests"]["8x2"][i]
        assert cuda.asnumpy(found.shingles).tolist() == [pinned["offset"][i + 1] - pinned["offset"][i]]


def test_a_document_on_the_device(cuda: CudaBackend) -> None:
    text = batch_of([b"a giant that already lies on the device, twice over " * 3], b"\xe4\xb8")
    given = TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))
    assert_signed(cuda, text, Shingling(), 20, given)


def test_bins_that_no_probe_fills_in_one_permutation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many probes as there are none is ever left; so here there are none."""
    folder = tmp_path / "kernels"
    shutil.copytree(kernel_folder(), folder)
    source = (folder / "one_permutation.cu").read_text("utf-8")
    assert source.count("ROUNDS = 64;") == 1
    (folder / "one_permutation.cu").write_text(source.replace("ROUNDS = 64;", "ROUNDS = 0;"), "utf-8")
    monkeypatch.setattr(one_permutation, "ROUNDS", 0)
    build_kernels()
    cuda, rows = CudaBackend(DeviceModule(), HostLauncher(folder)), random_table([1, 0, 2, 5, 30])
    for columns in (2, 33, 70):
        family = Family(name="one_permutation", num_perm=columns)
        same(sketched(cuda, rows.moved(cuda.asarray), family), sketched(REFERENCE, rows, family), cuda.asnumpy)


@pytest.mark.parametrize("name", list(SKETCHES))
@pytest.mark.parametrize("unit", ["word", "char"])
def test_every_sketch_in_pieces(cuda: CudaBackend, name: FamilyName, unit: Unit) -> None:
    family, shape, shingling = Family(name=name, num_perm=12), BandShape(bands=4, rows=3), Shingling(unit=unit, size=3)
    documents = [b"", b"one", b"a b", b"a b c d e f " * 30, "漢字 かな हिन्दी ".encode() * 9, b" \xff "]
    for document in documents:
        text = batch_of([document])
        found = signer(cuda, shingling, 20, family, shape).in_pieces(text)
        same(found.digests, REFERENCE.sign(text, shingling, family, shape, KEYS).digests, cuda.asnumpy)


# --- parts


@settings(max_examples=10)
@given(
    rows=st.one_of(awkward_documents, st.lists(texts, max_size=4)),
    before=st.sampled_from([b"", b"a", b"\xe4\xb8"]),
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
    given = text if host else TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))
    whole = REFERENCE.shingle_sets(text, shingling).values
    # As many parts as fingerprints: one of them is all of its part, its first and its last.
    part = int(whole[len(whole) // 2]) if parts == 2**64 and len(whole) else parts * 5 // 9
    keyed = REFERENCE.shingle_part(text, shingling, part, parts, KEYS)
    assert_rows(cuda, with_pieces(cuda, piece).shingle_part(given, shingling, part, parts, KEYS), keyed)
    wanted = REFERENCE.shingle_part(text, shingling, part, parts)
    assert_rows(cuda, with_pieces(cuda, piece).shingle_part(given, shingling, part, parts), wanted)
    assert_rows(cuda, cuda.shingle_part(given, shingling, part, parts), wanted)


def test_intersections_are_sums_over_parts(cuda: CudaBackend) -> None:
    shared = " ".join(f"word{i}" for i in range(60))
    rows = [f"{shared} and more {shared}", f"less {shared}", shared, "", "none of it"]
    text, shingling = batch_of([row.encode() for row in rows]), Shingling(size=2)
    pairs = np.array([(i, j) for i in range(5) for j in range(i + 1, 5)], np.int64)
    wanted = REFERENCE.intersect(pairs, REFERENCE.shingle_sets(text, shingling))
    assert wanted[0].max() > 50
    pieces, there = with_pieces(cuda, 40), cuda.asarray(pairs)
    for parts in (1, 3):
        found = [cuda.intersect(there, pieces.shingle_part(text, shingling, part, parts)) for part in range(parts)]
        for column, total in enumerate(wanted):
            np.testing.assert_array_equal(sum(cuda.asnumpy(one[column]) for one in found), total)


# --- what is held


@pytest.mark.parametrize("cuda", ["host-default"], indirect=True)
def test_one_piece_is_uploaded_at_a_time(cuda: CudaBackend) -> None:
    text = batch_of([("some words of one giant, 語語, é " * 200).encode()] * 2 + [b"small"] * 9)
    giant = TextBatch(text.values, text.offset[:2])
    for unit in ("word", "char"):
        shingling = Shingling(unit=unit, size=5)  # type: ignore[arg-type]
        watched = Watched()
        few = with_pieces(cuda, 300, watched)
        assert_signed(few, giant, shingling, 300)
        assert 290 < watched.most <= 300
        assert_rows(few, few.shingle_part(text, shingling, 1, 3), REFERENCE.shingle_part(text, shingling, 1, 3))
        assert 290 < watched.most <= 300


@pytest.mark.parametrize("cuda", ["host-default"], indirect=True)
def test_repeats_over_many_pieces_are_held_once(cuda: CudaBackend) -> None:
    text, shingling = batch_of([" ".join(f"w{i}" for i in range(30)).encode() * 60]), Shingling(size=1)
    watched = Watched()
    found = with_pieces(cuda, 20, watched).shingle_part(text, shingling, 0, 1)
    assert len(found.values) == 31  # the last word of a round is one with the first of the next
    assert 31 < watched.sorted <= 3 * 31
