"""Plain numbers are no fingerprints: sketches refuse those that they would take for equal, and never mixed ones."""

from typing import Any

import numpy as np
import pytest

import gpulsh
from gpulsh.arrays import Fingerprints, Values
from gpulsh.errors import ParameterError

ASKED = "give gpulsh.fingerprint"
UPPER = [gpulsh.MinHash(), gpulsh.MinHash(family="xor"), gpulsh.MinHash(family="tabulation"), gpulsh.FastSimilarity()]
LOWER = [gpulsh.OnePermutation(), gpulsh.FastSimilarity()]
WHOLE = [gpulsh.MinHash(family="affine61"), gpulsh.MinHash(family="multiply_shift"), gpulsh.CMinHash()]


def rows(values: Any, sets: int = 2) -> Fingerprints:
    array = np.array(values, np.uint64)
    return Fingerprints(array, np.linspace(0, len(array), sets + 1).astype(np.int64))


PLAIN: dict[str, Values] = {
    "two sets": np.arange(200),
    "of 36 bits": np.arange(0, 1 << 36, 1 << 26),
    "negative": np.arange(-1, -200, -1).astype(np.uint64),
    "hashes of 32 bits": np.random.default_rng(1).integers(0, 1 << 32, 5000),
    "one number each": np.array([7, 8]),
    "one number": np.array([7, 7]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_numbers(name: str) -> None:
    for sketch in UPPER:
        with pytest.raises(ParameterError, match=f"upper 32 bits of fingerprints repeat.*{ASKED}"):
            sketch(rows(PLAIN[name]), backend="cpu")
    for sketch in LOWER:
        with pytest.raises(ParameterError, match=ASKED):
            sketch(rows(PLAIN[name].astype(np.uint64) << np.uint64(48)), backend="cpu")


def test_counters_in_upper_bits() -> None:
    for sketch in LOWER:
        with pytest.raises(ParameterError, match=f"lower 32 bits of fingerprints repeat.*{ASKED}"):
            sketch(rows(np.arange(200) << 40), backend="cpu")


@pytest.mark.parametrize("sketch", WHOLE, ids=repr)
def test_sketches_that_read_all_bits_take_them(sketch: Any) -> None:
    for shift in (0, 32):
        found = sketch.estimate(sketch(rows(np.arange(200) << shift), backend="cpu"), [[0, 1]], backend="cpu")
        assert found[0] < 0.1


@pytest.mark.parametrize("sketch", [*UPPER, gpulsh.OnePermutation()], ids=repr)
def test_what_is_mixed_is_taken(sketch: Any) -> None:
    """Few values and many, repeats, hashes of 48 bits in either end, empty sets, a value with much that is 0."""
    generator = np.random.default_rng(1)
    for count in (0, 1, 2, 3, 4, 5, 1000, 3000):
        values = generator.integers(0, 1 << 64, count, np.uint64)
        for shift in (np.uint64(0), np.uint64(16)):
            sketch(rows(np.tile(values >> shift, 3)), backend="cpu")
            sketch(rows(np.tile(values << shift, 3)), backend="cpu")
    sketch(rows([1 << 40 | 1 << 17]), backend="cpu")
    sketch(gpulsh.fingerprint([range(5), [1], [], ["a"] * 0], backend="cpu"), backend="cpu")
    sketch(gpulsh.shingle(["a a a a a a a a a", "a", "", None], shingling="word:1", backend="cpu"), backend="cpu")


def test_the_first_values_are_looked_at() -> None:
    """Behind an offset, not before it."""
    mixed = np.random.default_rng(1).integers(0, 1 << 64, 100, np.uint64)
    both = np.concatenate([np.arange(100, dtype=np.uint64), mixed])
    gpulsh.MinHash()(Fingerprints(both, np.array([100, 200])), backend="cpu")
    with pytest.raises(ParameterError, match=ASKED):
        gpulsh.MinHash()(Fingerprints(both, np.array([0, 100])), backend="cpu")
