"""Supershingles: the pairs that agree in enough groups, and no other; and bit sampling: digests of drawn bits."""

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulsh import BitSampling, BitSignatures, Fingerprints, MinHash, ParameterError, Signatures, Supershingles
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import BandShape
from gpulsh.permutations import words_at


@given(
    backend=st.sampled_from(["reference", "cpu"]),
    rows=st.lists(st.lists(st.integers(0, 1) | st.just(2**32 - 1), min_size=9, max_size=9), max_size=9),
    shape=st.sampled_from([(1, 1, 1), (4, 2, 1), (4, 2, 2), (4, 2, 4), (3, 3, 2), (9, 1, 5)]),
)
def test_any_signatures(backend: Any, rows: list[list[int]], shape: tuple[int, int, int]) -> None:
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
def test_the_collision_curve(similarity: float) -> None:
    """A group of 14 minima agrees with probability similarity^14; a pair is found where two of six do."""
    generator, pairs, size = np.random.default_rng(1), 3000, 400
    common = round(2 * size * similarity / (1 + similarity))
    values = generator.integers(0, 2**64, (pairs, 2, size), np.uint64)
    values[:, 1, :common] = values[:, 0, :common]
    rows = Fingerprints(values.reshape(-1), np.arange(2 * pairs + 1) * size)
    found = Supershingles()(MinHash(num_perm=84)(rows, backend="cpu"), backend="cpu")
    assert (found[:, 0] % 2 == 0).all() and (found[:, 1] == found[:, 0] + 1).all()
    group = (common / (2 * size - common)) ** 14
    wanted = sum(comb(6, k) * group**k * (1 - group) ** (6 - k) for k in range(2, 7))
    assert abs(len(found) / pairs - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / pairs)


@pytest.mark.parametrize(("groups", "agree"), [(65536, 32768), (30, 15)])
def test_too_many_choices(groups: int, agree: int) -> None:
    with pytest.raises(ParameterError, match=f"agree is {agree} of {groups} groups, which can be chosen in .* ways"):
        Supershingles(groups=groups, agree=agree)


# --- bit sampling


def random_signatures(count: int, width: int) -> BitSignatures:
    return BitSignatures(np.random.default_rng(4).integers(0, 2**64, (count, width), np.uint64))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_digests_of_drawn_bits(backend: Any, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signatures = random_signatures(30, width)
    signatures.values[3], signatures.values[4] = 0, 2**64 - 1
    places = [
        int(word >> 32) * 64 * width >> 32
        for word in words_at("bit_sampling", 7, np.arange(20, dtype=np.uint64)).tolist()
    ]
    bits = [[row[place // 64] >> place % 64 & 1 for place in places] for row in signatures.values.tolist()]
    wanted = ReferenceBackend().band_digests(np.array(bits, np.uint32), BandShape(bands=5, rows=4))
    for at_once in (1, 100, 1 << 20):
        monkeypatch.setattr("gpulsh.lsh.banding.BITS_AT_ONCE", at_once)
        found = BitSampling(bands=5, rows=4, seed=7)(signatures, backend=backend)
        np.testing.assert_array_equal(found.values, wanted)
    assert BitSampling(bands=5, rows=4)(BitSignatures(signatures.values[:0]), backend=backend).shape == (0, 5)


@pytest.mark.parametrize("rows", [1, 4, 12])
@pytest.mark.parametrize("distance", [0, 3, 16, 64, 128])
def test_the_collision_curve_of_drawn_bits(rows: int, distance: int) -> None:
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
