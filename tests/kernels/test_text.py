"""shingle and exact_hashes on text of every kind, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulsh.arrays import TextBatch
from gpulsh.backends.cuda import CudaBackend
from gpulsh.backends.protocol import sketched
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import BandShape, Family, Shingling, Unit
from tests.backends.parity.agreement import far_array
from tests.support.texts import KEYS

pytestmark = pytest.mark.kernels
REFERENCE = ReferenceBackend()

# Letters with and without case, marks, numbers, scripts written without spaces, separators of every length in bytes.
LETTERS = "abZ7éßЖİǅµªاनि्म한一ぁカกລကក̈１𐀀𐐀𝟘𠀀힣ﬁﾊ"
SEPARATORS = " \n-_.\0\x7f\xa0\u200b\u2028\u3000\ufffd\ufeff\ue000😀\U0001f1e6\U000e0001\U0010fffd"
# Truncated after each byte, overlong, surrogates, beyond U+10FFFF, continuations and bytes that are never UTF-8.
INVALID = [
    *(b"\x80", b"\xbf", b"\xc0\x80", b"\xc0\xaf", b"\xc1\xa1", b"\xc1\xbf", b"\xc2", b"\xdf", b"\xc3\x28", b"\xc3\xc3"),
    *(
        b"\xe0\x80\x80",
        b"\xe0\x81\xa1",
        b"\xe0\x9f\xbf",
        b"\xe0\xa4",
        b"\xe4\xb8",
        b"\xe4",
        b"\xe4\xb8\x61",
        b"\xe4\x61",
    ),
    *(b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf0\x80\x81\xa1"),
    *(b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x90", b"\xf0\x90", b"\xf0", b"\xf0\xa0\x80\x61", b"\xf4\x90\x80\x80"),
    *(b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xf8\x90\x80\x80", b"\xfc", b"\xfe", b"\xff", b"\x80" * 5),
]
PIECES = [*(c.encode() for c in LETTERS + SEPARATORS), *INVALID]

pieces = st.tuples(st.sampled_from(PIECES), st.sampled_from([1, 1, 1, 1, 2, 3, 33])).map(lambda p: p[0] * p[1])
documents = st.lists(st.lists(pieces, max_size=40).map(b"".join), max_size=12)
sizes = st.one_of(st.integers(1, 8), st.sampled_from([31, 33, 63, 64]))
units = st.sampled_from(["word", "char"])


def batch(rows: list[bytes], before: bytes = b"", behind: bytes = b"") -> TextBatch:
    """Documents end to end, the first not at offset 0 when `before` says so."""
    values = np.frombuffer(before + b"".join(rows) + behind, np.uint8)
    return TextBatch(values, len(before) + np.cumsum([0, *map(len, rows)], dtype=np.int64))


def assert_same(cuda: CudaBackend, text: TextBatch, unit: Unit, size: int) -> None:
    shingling = Shingling(unit=unit, size=size)
    given = TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))
    wanted, found = REFERENCE.shingle(text, shingling), cuda.shingle(given, shingling)
    np.testing.assert_array_equal(cuda.asnumpy(found.offset), wanted.offset)
    np.testing.assert_array_equal(cuda.asnumpy(found.values), wanted.values)
    for keys in (None, KEYS):
        tokens, hashed = REFERENCE.tokens(text, unit, keys), cuda.tokens(given, unit, keys)
        np.testing.assert_array_equal(cuda.asnumpy(hashed.offset), tokens.offset)
        np.testing.assert_array_equal(cuda.asnumpy(hashed.values), tokens.values)
        first = min(1, len(text))
        composed, inner = cuda.shingles(hashed, size, keys), cuda.shingles(hashed.slice(first, len(text)), size, keys)
        wanted = REFERENCE.shingles(tokens, size, keys)
        np.testing.assert_array_equal(cuda.asnumpy(composed.offset), wanted.offset)
        np.testing.assert_array_equal(cuda.asnumpy(composed.values), wanted.values)
        np.testing.assert_array_equal(cuda.asnumpy(inner.values), wanted.values[wanted.offset[first] :])
    sets, wanted = cuda.shingle_sets(given, shingling), REFERENCE.shingle_sets(text, shingling)
    keyed = cuda.shingle_sets(given, shingling, KEYS)
    np.testing.assert_array_equal(cuda.asnumpy(keyed.values), REFERENCE.shingle_sets(text, shingling, KEYS).values)
    np.testing.assert_array_equal(cuda.asnumpy(sets.offset), wanted.offset)
    np.testing.assert_array_equal(cuda.asnumpy(sets.values), wanted.values)
    exact = REFERENCE.exact_hashes(text, shingling, KEYS)
    np.testing.assert_array_equal(cuda.asnumpy(cuda.exact_hashes(given, shingling, KEYS)), exact)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_each_sequence_of_bytes_between_letters(cuda: CudaBackend, unit: Unit) -> None:
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    rest = [(0x80, 0xA1), (0xBF, 0xBF), (0x7F, 0x80), (0xC0, 0x80), (0xA0, 0x61), (0x95, 0xC3)]
    leads = [*range(0x7E, 0x82), *range(0xBE, 0xC4), 0xCE, *range(0xDE, 0xE3), *range(0xEB, 0x100)]
    rows = [bytes([0x61, lead, second, *more, 0x62]) for lead in leads for second in edges for more in rest]
    assert_same(cuda, batch(rows), unit, 1)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_awkward_documents(cuda: CudaBackend, unit: Unit) -> None:
    rows = [b"", b"x", b" ", b"", b" x ", b"  ", *PIECES, *(b"a" + piece for piece in PIECES), b"", b""]
    rows += [piece + b"a" for piece in PIECES] + [piece + "語".encode() + piece for piece in PIECES]
    assert_same(cuda, batch(rows, b"ab\xe4", b"\xb8\x80c"), unit, 2)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_sequences_cut_by_the_ends_of_documents(cuda: CudaBackend, unit: Unit) -> None:
    pieces = [piece for piece in PIECES if len(piece) > 1]
    rows = [
        part for piece in pieces for cut in range(1, len(piece)) for part in (b"a" + piece[:cut], piece[cut:] + b"b")
    ]
    assert_same(cuda, batch(rows), unit, 1)


@pytest.mark.parametrize("unit", ["word", "char"])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 255, 256, 257])
def test_counts_of_shingles(cuda: CudaBackend, unit: Unit, count: int) -> None:
    for size in (1, 5, 64):
        words = " ".join(f"w{i}" for i in range(count + size - 1))
        if unit == "char":
            words = "x" * (count + size - 1)
        assert_same(cuda, batch([words.encode(), b"", b"one", words.encode()]), unit, size)


def test_full_tiles_of_tokens_and_text(cuda: CudaBackend) -> None:
    assert_same(cuda, batch([" ".join(f"{i:x}" for i in range(2500)).encode()]), "word", 64)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_tokens_longer_than_tiles(cuda: CudaBackend, unit: Unit) -> None:
    lengths = [31, 119, 120, 121, 240, 671, 672, 673, 1500]
    rows = [b"a" * length for length in lengths] + [b"bc " + "é".encode() * length + b"-d" for length in lengths]
    rows += ["語".encode() * 400, b" " * 700 + b"end", b"z" + b"." * 999, b"", b"q" * 12000 + b" r"]
    assert_same(cuda, batch(rows), unit, 3)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_every_alignment_of_beginning_and_end(cuda: CudaBackend, unit: Unit) -> None:
    rows = [b"Alignment 0123456789 of 16 bytes, @[`{/:", b"", "é語x".encode() * 5, b"z"]
    for shift in range(16):
        assert_same(cuda, batch(rows, b"x" * shift, b"y" * (-3 * shift % 16)), unit, 1)


@pytest.mark.parametrize("unit", ["word", "char"])
def test_documents_of_one_byte_and_bytes_of_ascii(cuda: CudaBackend, unit: Unit) -> None:
    every = bytes(range(128))
    rows = [bytes([byte]) for byte in range(256)] + [b""] * 100 + [every, b"a" + b"a".join(bytes([b]) for b in every)]
    assert_same(cuda, batch(rows), unit, 1)


@pytest.mark.parametrize("rows", [[], [b""], [b"", b"", b""], [b"."], [b"\xff", b""]])
def test_nothing_to_hash(cuda: CudaBackend, rows: list[bytes]) -> None:
    for unit in ("word", "char"):
        assert_same(cuda, batch(rows), unit, 5)  # type: ignore[arg-type]
        assert_same(cuda, batch(rows, b"before", b"behind"), unit, 5)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(rows=documents, before=st.sampled_from([b"", b"a", b"\xe4\xb8", b"one two "]), unit=units, size=sizes)
def test_random_documents(cuda: CudaBackend, rows: list[bytes], before: bytes, unit: Unit, size: int) -> None:
    assert_same(cuda, batch(rows, before, b"\x80a"), unit, size)


@settings(max_examples=25)
@given(st.lists(st.text(max_size=30), max_size=8), units)
def test_random_code_points(cuda: CudaBackend, rows: list[str], unit: Unit) -> None:
    assert_same(cuda, batch([row.encode("utf-8", "surrogatepass") for row in rows]), unit, 2)


@settings(max_examples=20)
@given(rows=documents, unit=units, size=st.integers(1, 9))
def test_sign_is_its_parts(cuda: CudaBackend, rows: list[bytes], unit: Unit, size: int) -> None:
    text, family, shape = batch(rows), Family(num_perm=20), BandShape(bands=4, rows=5)
    shingling = Shingling(unit=unit, size=size)
    given = TextBatch(cuda.asarray(text.values), cuda.asarray(text.offset))
    signatures = cuda.asnumpy(cuda.text_signatures(given, shingling, family))
    np.testing.assert_array_equal(signatures, sketched(REFERENCE, REFERENCE.shingle(text, shingling), family))
    counts = cuda.asnumpy(cuda.text_frequencies(given, shingling, cuda.asarray(np.zeros(16, np.uint8))))
    np.testing.assert_array_equal(counts, REFERENCE.text_frequencies(text, shingling, np.zeros(16, np.uint8)))
    table = np.arange(16, dtype=np.uint8)
    for rare in (0, 7):
        prefixes, sizes = cuda.text_prefixes(given, shingling, cuda.asarray(table), rare, 0.7, KEYS)
        wanted_prefixes, wanted_sizes = REFERENCE.text_prefixes(text, shingling, table, rare, 0.7, KEYS)
        for found_array, wanted_array in (
            (prefixes.values, wanted_prefixes.values),
            (prefixes.offset, wanted_prefixes.offset),
            (sizes, wanted_sizes),
        ):
            np.testing.assert_array_equal(cuda.asnumpy(found_array), wanted_array)
    wanted = REFERENCE.sign(text, shingling, family, shape, KEYS)
    found = cuda.sign(given, shingling, family, shape, KEYS)
    for name in ("digests", "exact", "shingles"):
        np.testing.assert_array_equal(cuda.asnumpy(getattr(found, name)), getattr(wanted, name))


@pytest.mark.parametrize("first", [2**31 + 5, 2**32 + 7])
def test_first_offset_beyond_32_bits(cuda: CudaBackend, first: int) -> None:
    rows = ["many words 語 here".encode(), b"", b"and there"]
    values = far_array(cuda, first, np.frombuffer(b"".join(rows), np.uint8))
    text = TextBatch(values, cuda.asarray(first + np.cumsum([0, *map(len, rows)], dtype=np.int64)))
    for unit in ("word", "char"):
        shingling = Shingling(unit=unit, size=2)  # type: ignore[arg-type]
        found = cuda.shingle(text, shingling)
        wanted = REFERENCE.shingle(batch(rows), shingling)
        np.testing.assert_array_equal(cuda.asnumpy(found.values), wanted.values)
        np.testing.assert_array_equal(cuda.asnumpy(found.offset), wanted.offset)
        exact = cuda.exact_hashes(text, shingling, KEYS)
        np.testing.assert_array_equal(cuda.asnumpy(exact), REFERENCE.exact_hashes(batch(rows), shingling, KEYS))
