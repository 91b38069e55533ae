"""Hamming tables find every pair that brute force finds, and follow the designs of the paper."""

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpulsh import BitSampling, BitSignatures, HammingTables, MinHash, Signatures, Supershingles
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.errors import ParameterError
from gpulsh.lsh.hamming_tables import designs
from gpulsh.params import BandShape
from gpulsh.permutations import words_at
from tests.sketch.test_theory import sets_with
from tests.support.traced import at_most

words = st.integers(0, 2**64 - 1) | st.integers(0, 15) | st.integers(0, 63).map(lambda bit: 1 << bit)
THREE = sorted(designs(64, 3))


def brute_force(words: NDArray[np.uint64], distance: int) -> list[list[int]]:
    rows = [sum(word << 64 * place for place, word in enumerate(row)) for row in words.tolist()]
    pairs = combinations(range(len(rows)), 2)
    return [[i, j] for i, j in pairs if (rows[i] ^ rows[j]).bit_count() <= distance]


def planted(count: int, width: int, distance: int, generator: np.random.Generator) -> NDArray[np.uint64]:
    """Random signatures, half of them another with up to `distance` + 1 bits changed; some equal, some without bits."""
    bits = generator.integers(0, 2, (count, 64 * width)).astype(bool)
    for row in range(count // 2, count):
        bits[row] = bits[generator.integers(0, row)]
        bits[row, generator.choice(64 * width, generator.integers(0, distance + 2), replace=False)] ^= True
    bits[generator.integers(0, count, 3)] = False
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def test_hamming_designs_equal_those_of_the_paper() -> None:
    known = designs(64, 3)
    bits = {tables: {key.bit_count() for key in design.keys} for tables, design in known.items()}
    assert bits == {4: {16}, 10: {25, 26}, 20: {31, 32, 33}, 16: {28}}
    assert known[16].candidates(2**34) == 16 * 64  # of 2^34 signatures a probe of a table leaves 64
    assert len(HammingTables().design(1000).keys) == 4 and len(HammingTables(tables=16).design(9).keys) == 16
    assert len(HammingTables().design(10**7).keys) == 10 and len(HammingTables().design(2**34).keys) > 10


@pytest.mark.parametrize(("bits", "distance"), [(64, 0), (64, 1), (64, 2), (64, 3), (64, 4), (128, 3), (192, 5)])
def test_some_key_avoids_any_flipped_bits(bits: int, distance: int) -> None:
    generator = np.random.default_rng(bits + distance)
    for design in designs(bits, distance).values():
        assert all(0 < key < 1 << bits for key in design.keys)
        for _ in range(500):
            flipped = sum(1 << int(bit) for bit in generator.choice(bits, distance, replace=False))
            assert any(key & flipped == 0 for key in design.keys)


@given(rows=st.lists(words, max_size=12), tables=st.sampled_from(["auto", *THREE]))
def test_hamming_pairs_equal_brute_force(tables: Any, rows: list[int]) -> None:
    given = np.array(rows, np.uint64).reshape(-1, 1)
    found = HammingTables(tables=tables).pairs(BitSignatures(given), backend="cpu")
    assert found.tolist() == brute_force(given, 3) and found.dtype == np.int64 and found.shape[1] == 2


@pytest.mark.parametrize(
    ("backend", "width", "distance"),
    [
        *(("cpu", 1, distance) for distance in (0, 1, 3, 5, 63)),
        *(("cpu", width, distance) for width, distance in ((2, 3), (6, 12))),
        ("reference", 2, 3),
    ],
)
def test_designs_find_planted_pairs(backend: Any, width: int, distance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpulsh.lsh.hamming_tables.AT_ONCE", 10_000)
    signatures = planted(200, width, distance, np.random.default_rng(width * 100 + distance))
    wanted = brute_force(signatures, distance)
    assert len(wanted) > 10
    for tables in ["auto", *(designs(64 * width, distance) if distance < 6 else ())]:
        search = HammingTables(bits=64 * width, distance=distance, tables=tables)  # type: ignore[arg-type]
        assert search.pairs(BitSignatures(signatures), backend=backend).tolist() == wanted
        pieces = np.concatenate(list(search.pieces(BitSignatures(signatures), backend=backend)))
        assert sorted(pieces.tolist()) == wanted


@pytest.mark.parametrize("tables", ["auto", *THREE])
def test_hamming_queries_equal_brute_force(tables: Any) -> None:
    signatures = planted(400, 1, 3, np.random.default_rng(5))
    known, asked = signatures[:300], signatures[300:]
    wanted: list[list[int]] = [[] for _ in asked]
    for i, j in brute_force(signatures, 3):
        if i < 300 <= j:
            wanted[j - 300].append(i)
    search = HammingTables(tables=tables)
    with pytest.raises(ParameterError, match="no tables are built; call build"):
        search.query(BitSignatures(asked), backend="cpu")
    built = search.build(BitSignatures(known), backend="cpu")
    for found in (built.query(BitSignatures(asked), backend="cpu"), search.query(BitSignatures(asked))):
        assert (found.ids.dtype, found.offset.dtype, len(found)) == (np.int64, np.int64, 100)
        rows = [found.ids[a:b].tolist() for a, b in zip(found.offset[:-1], found.offset[1:], strict=True)]
        assert rows == wanted
    assert len(search.query(BitSignatures(asked[:0]), backend="cpu")) == 0
    search.build(BitSignatures(known[:0]), backend="cpu")
    assert search.query(BitSignatures(asked), backend="cpu").offset.tolist() == [0] * 101
    assert search == HammingTables(tables=tables)


def test_many_signatures_lose_no_planted_pair() -> None:
    generator = np.random.default_rng(8)
    signatures = generator.integers(0, 2**64, 400_000, np.uint64)
    sources, copies = generator.permutation(400_000)[:20_000].reshape(2, -1)
    flips = np.zeros(10_000, np.uint64)
    for _ in range(3):  # up to three bits: the same may be flipped twice
        flips ^= np.uint64(1) << generator.integers(0, 64, 10_000, np.uint64)
    signatures[copies] = signatures[sources] ^ flips
    found = HammingTables().pairs(BitSignatures(signatures.reshape(-1, 1)), backend="cpu")
    near = np.bitwise_count(signatures[found[:, 0]] ^ signatures[found[:, 1]])
    assert (near <= 3).all() and (found[:, 0] < found[:, 1]).all()
    packed = found[:, 0] << 32 | found[:, 1]
    assert (np.diff(packed) > 0).all()
    wanted = np.minimum(sources, copies) << 32 | np.maximum(sources, copies)
    assert np.isin(wanted, packed).all() and len(packed) < 10_100  # by chance there is no other


def test_signatures_that_share_a_key_take_bounded_memory() -> None:
    """They share a key or are all equal: 2 million candidates, of which memory holds a piece."""
    for low in (np.arange(2000, dtype=np.uint64) << np.uint64(20), np.zeros(2000, np.uint64)):
        signatures = BitSignatures(low.reshape(-1, 1))
        with at_most(30_000_000):
            found = sum(len(piece) for piece in HammingTables(tables=4).pieces(signatures, backend="cpu"))
        assert found == (len(brute_force(signatures.values, 3)) if low.any() else 2000 * 1999 // 2)


# --- supershingles


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    rows=st.lists(st.lists(st.integers(0, 1) | st.just(2**32 - 1), min_size=9, max_size=9), max_size=9),
    shape=st.sampled_from([(1, 1, 1), (4, 2, 1), (4, 2, 2), (4, 2, 4), (3, 3, 2), (9, 1, 5)]),
)
def test_supershingles_equal_brute_force(backend: Any, rows: list[list[int]], shape: tuple[int, int, int]) -> None:
    groups, of, agree = shape
    given = np.array(rows, np.uint32).reshape(-1, 9)
    wanted = []
    for i, j in combinations(range(len(rows)), 2):
        both = sum(rows[i][g * of : g * of + of] == rows[j][g * of : g * of + of] for g in range(groups))
        empty = any(set(rows[row]) == {2**32 - 1} for row in (i, j))
        wanted += [[i, j]] if both >= agree and not empty else []
    found = Supershingles(groups=groups, of=of, agree=agree)(Signatures(given), backend=backend)
    assert found.tolist() == wanted and found.dtype == np.int64


@pytest.mark.parametrize("similarity", [0.8, 0.9, 0.95])
def test_supershingles_find_pairs_as_often_as_in_theory(similarity: float) -> None:
    """A group of 14 minima agrees with probability similarity^14; a pair is found where two of six do."""
    generator, pairs, size = np.random.default_rng(1), 3000, 400
    common = round(2 * size * similarity / (1 + similarity))
    rows = sets_with(common, size - common, pairs, generator)
    found = Supershingles()(MinHash(num_perm=84)(rows, backend="cpu"), backend="cpu")
    assert (found[:, 0] % 2 == 0).all() and (found[:, 1] == found[:, 0] + 1).all()
    group = (common / (2 * size - common)) ** 14
    wanted = sum(comb(6, k) * group**k * (1 - group) ** (6 - k) for k in range(2, 7))
    assert abs(len(found) / pairs - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / pairs)


@pytest.mark.parametrize(("groups", "agree"), [(65536, 32768), (30, 15)])
def test_too_many_choices_of_groups_are_refused(groups: int, agree: int) -> None:
    with pytest.raises(ParameterError, match=f"agree is {agree} of {groups} groups, which can be chosen in .* ways"):
        Supershingles(groups=groups, agree=agree)


# --- bit sampling


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_bit_sampling_digests_equal_single_bits(backend: Any, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signatures = BitSignatures(np.random.default_rng(4).integers(0, 2**64, (30, width), np.uint64))
    signatures.values[3], signatures.values[4] = 0, 2**64 - 1
    drawn = words_at("bit_sampling", 7, np.arange(20, dtype=np.uint64)).tolist()
    places = [int(word >> 32) * 64 * width >> 32 for word in drawn]
    bits = [[row[place // 64] >> place % 64 & 1 for place in places] for row in signatures.values.tolist()]
    wanted = ReferenceBackend().band_digests(np.array(bits, np.uint32), BandShape(bands=5, rows=4))
    for at_once in (1, 100, 1 << 20):
        monkeypatch.setattr("gpulsh.lsh.banding.BITS_AT_ONCE", at_once)
        found = BitSampling(bands=5, rows=4, seed=7)(signatures, backend=backend)
        np.testing.assert_array_equal(found.values, wanted)
    assert BitSampling(bands=5, rows=4)(BitSignatures(signatures.values[:0]), backend=backend).shape == (0, 5)


@pytest.mark.parametrize("rows", [1, 4, 12])
@pytest.mark.parametrize("distance", [0, 3, 16, 64, 128])
def test_bit_sampling_collides_as_often_as_in_theory(rows: int, distance: int) -> None:
    bands, pairs, bits = 8_000, 40, 128
    generator = np.random.default_rng(distance)
    first = generator.integers(0, 2, (pairs, bits)).astype(bool)
    second = first.copy()
    for row in second:
        row[generator.choice(bits, distance, replace=False)] ^= True
    packed = [BitSignatures(np.packbits(part, axis=1, bitorder="little").view(np.uint64)) for part in (first, second)]
    one, two = (BitSampling(bands=bands, rows=rows)(part, backend="cpu").values for part in packed)
    shares = (one == two).mean(axis=1)
    wanted = (1 - distance / bits) ** rows
    assert abs(shares.mean() - wanted) <= 3.29 * np.sqrt(wanted * (1 - wanted) / (bands * pairs)) * 1.5
    assert abs(shares - wanted).max() <= 4.5 * np.sqrt(wanted * (1 - wanted) / bands)
