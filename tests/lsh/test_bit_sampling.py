"""Bit sampling: digests of drawn bits, which collide as often as theory says."""

from typing import Any

import numpy as np
import pytest

from gpulsh import BitSampling, BitSignatures
from gpulsh.backends.reference import ReferenceBackend
from gpulsh.params import BandShape
from gpulsh.permutations import words_at


def random_signatures(count: int, width: int) -> BitSignatures:
    return BitSignatures(np.random.default_rng(4).integers(0, 2**64, (count, width), np.uint64))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("width", [1, 2, 6])
def test_the_definition(backend: Any, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_the_collision_curve(rows: int, distance: int) -> None:
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
