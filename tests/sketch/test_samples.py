"""Broder's sketches and b-bit signatures against naive Python sets, and their estimates against theory."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import Fingerprints, Signatures
from gpulsh.backends.protocol import MIX_1, MIX_2, STREAM_BITS
from gpulsh.backends.reference.hashing import key, mix64
from gpulsh.permutations import stream
from gpulsh.sketch.b_bit import BITS
from tests.sketch.test_theory import sets_with
from tests.support.rows import NORMAL, lists_of, table
from tests.support.texts import every_backend

MASK = (1 << 64) - 1
BACKENDS = ["reference", "cpu"]
some_rows = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=30), min_size=1, max_size=6)


def permuted(x: int, name: str, seed: int) -> int:
    multiplier, addend = (int(word) for word in stream(name, seed, 2))
    y = ((multiplier | 1) * x + addend) & MASK
    y = (y ^ y >> 27) * MIX_1 & MASK
    y = (y ^ y >> 33) * MIX_2 & MASK
    return y ^ y >> 27


@every_backend
@given(rows=some_rows, size=st.integers(1, 12), seed=st.integers(0, 2**64 - 1))
def test_bottom_s_holds_the_least_values_of_a_set(backend: Any, rows: list[list[int]], size: int, seed: int) -> None:
    sketch = gpulsh.BottomS(size=size, seed=seed)
    samples = sketch(table(rows, 3), backend=backend)
    sets = [{permuted(x, "bottom_s", seed) for x in row} for row in rows]
    assert lists_of(samples) == [sorted(values)[:size] for values in sets]

    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows))]
    wanted = []
    for i, j in pairs:
        a, b = sets[i], sets[j]
        least = set(sorted(a | b)[:size])
        wanted.append(len(least & a & b) / len(least) if least else 0)
    np.testing.assert_array_equal(sketch.estimate(samples, np.array(pairs), backend=backend), wanted)


@every_backend
@given(rows=some_rows, modulus=st.integers(1, 5), seed=st.integers(0, 2**64 - 1))
def test_mod_m_holds_the_multiples_of_its_modulus(backend: Any, rows: list[list[int]], modulus: int, seed: int) -> None:
    sketch = gpulsh.ModM(modulus=modulus, seed=seed)
    samples = sketch(table(rows, 3), backend=backend)
    sets = [{y for x in row if (y := permuted(x, "mod_m", seed)) % modulus == 0} for row in rows]
    assert lists_of(samples) == [sorted(values) for values in sets]

    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows))]
    both = [(sets[i], sets[j]) for i, j in pairs]
    resemblance = [len(a & b) / len(a | b) if a | b else np.nan for a, b in both]
    containment = [len(a & b) / len(a) if a else np.nan for a, b in both]
    np.testing.assert_array_equal(sketch.estimate(samples, np.array(pairs), backend=backend), resemblance)
    np.testing.assert_array_equal(sketch.estimate_containment(samples, np.array(pairs), backend=backend), containment)


def test_the_containment_estimate_is_unbiased() -> None:
    sets = sets_with(600, 200, 3000, np.random.default_rng(5))  # 800 each; the common part of the second half
    keep = np.tile(np.r_[np.ones(800, bool), np.ones(600, bool), np.zeros(200, bool)], 3000)
    offset = np.cumsum(np.r_[0, np.tile([800, 600], 3000)])
    rows = Fingerprints(sets.values[keep], offset)
    sketch = gpulsh.ModM(modulus=16)
    asked = np.arange(6000).reshape(-1, 2)
    found = sketch.estimate_containment(sketch(rows, backend="cpu"), asked, backend="cpu")
    assert abs(found.mean() - 0.75) < NORMAL * found.std() / np.sqrt(len(found))
    assert (sketch.estimate_containment(sketch(rows, backend="cpu"), asked[:, ::-1], backend="cpu") == 1).all()


@pytest.mark.parametrize("size", [3, 50, 300])
def test_the_deviation_of_mod_m_equals_an_exact_sum(size: int) -> None:
    """In fractions: the mean of the variance of k of `size` without replacement, where k is binomial and not 0."""
    chances = {
        k: math.comb(size, k) * Fraction(1, 16) ** k * Fraction(15, 16) ** (size - k) for k in range(1, size + 1)
    }
    mean = sum(chance * Fraction(size - k, k * (size - 1)) for k, chance in chances.items()) / sum(chances.values())
    assert gpulsh.ModM(modulus=16).standard_deviation(0.3, size) == pytest.approx(math.sqrt(0.21 * float(mean)))


@pytest.mark.parametrize("modulus", [2, 16, 2**32])
@pytest.mark.parametrize("kept", [1 << 10, 1 << 20, (1 << 20) + 1, 1 << 29])
def test_the_deviation_of_mod_m_follows_theory_for_large_unions(modulus: int, kept: int) -> None:
    """It was noise, raised OverflowError, or took seconds."""
    found = gpulsh.ModM(modulus=modulus).standard_deviation(0.5, kept * modulus)
    assert found == pytest.approx(math.sqrt(0.25 * (1 - 1 / modulus) / kept), rel=1 / kept + 1e-9)


@every_backend
@pytest.mark.parametrize(
    ("sketch", "weights"),
    [
        *((sketch, {}) for sketch in (gpulsh.BottomS(size=2), gpulsh.ModM(modulus=2))),
        *((gpulsh.SimHash(bits=128, weights=weights), {}) for weights in ("set", "count", "idf")),  # type: ignore[arg-type]
        *((gpulsh.WeightedMinHash(num_perm=7), {"weights": weights}) for weights in ("count", "idf")),
    ],
)
def test_batches_of_texts_give_the_same_samples(
    sketch: Any, weights: dict[str, Any], backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any column, in any batches, gives the sketches of the fingerprints or weights of all texts."""
    texts = [None, "", *(f"one two three four five six {i % 7} seven eight {i // 2}" for i in range(20)), "a b c"]
    how = {"shingling": gpulsh.Shingling(size=2), "backend": backend, **weights}
    wanted = sketch((gpulsh.weigh if weights else gpulsh.shingle)(texts, **how), backend=backend)
    for column in (texts, pa.array(texts), pa.chunked_array([texts[:9], texts[9:]])):
        for size in (1, 100, 1 << 20):
            monkeypatch.setattr("gpulsh.text.documents.BATCH_BYTES", size)
            assert sketch.from_texts(column, **how) == wanted
    assert len(sketch.from_texts([], **how)) == 0


# --- packed signatures, against Python integers


def bits_of(value: int, place: int, width: int = 32) -> int:
    exceeded = 2**width - 1 - value
    return ~mix64(exceeded * key(STREAM_BITS, place)) % 2**64


@given(backend=st.sampled_from(BACKENDS), bits=st.sampled_from(BITS), data=st.data(), columns=st.integers(1, 140))
def test_b_bit_packs_the_low_bits_of_each_value(backend: Any, bits: int, data: st.DataObject, columns: int) -> None:
    row = st.lists(st.integers(0, 2**32 - 1), min_size=columns, max_size=columns)
    rows = [*data.draw(st.lists(row, min_size=1, max_size=3)), [2**32 - 1] * columns]
    sketch = gpulsh.BBit(bits=bits, num_perm=columns)
    packed = sketch(Signatures(np.array(rows, np.uint32)), backend=backend)
    low = [[bits_of(value, place) % 2**bits for place, value in enumerate(row)] for row in rows]
    words = -(-columns * bits // 64)
    assert packed.shape == (len(rows), words)
    for row, wanted in zip(packed.values.tolist(), low, strict=True):
        number = sum(value << bits * i for i, value in enumerate(wanted))
        assert sum(word << 64 * i for i, word in enumerate(row)) == number

    pairs = np.array([(i, j) for i in range(len(rows)) for j in range(len(rows))])
    found = sketch.estimate(packed, pairs, backend=backend)
    for (i, j), estimate in zip(pairs.tolist(), found.tolist(), strict=True):
        share = sum(a == b for a, b in zip(low[i], low[j], strict=True)) / columns
        filled = all(any(value != 2**bits - 1 for value in low[k]) for k in (i, j))
        assert estimate == pytest.approx((share - 2**-bits) / (1 - 2**-bits) if filled else 0, abs=1e-12)


def test_b_bit_signatures_are_pinned() -> None:
    """Users store these bits: another scheme needs a line in CHANGELOG.md."""
    rows = Signatures(np.array([[0, 1, 2, 2**32 - 1], [7, 7, 7, 7], [2**32 - 1] * 4], np.uint32))
    wide = Signatures(np.array([[0, 1, 2**63, 2**64 - 1]], np.uint64))
    packed = gpulsh.BBit(bits=8, num_perm=4)(rows, backend="cpu").values.tolist()
    assert [f"{word:08x}" for (word,) in packed] == ["ffbedbbb", "1610f963", "ffffffff"]
    (word,) = gpulsh.BBit(bits=16, num_perm=4)(wide, backend="cpu").values[0].tolist()
    wanted = [bits_of(value, place, 64) % 2**16 for place, value in enumerate(wide.values[0].tolist())]
    assert [word >> 16 * place & 0xFFFF for place in range(4)] == wanted


@every_backend
def test_b_bit_signatures_of_texts_equal_packed_minhash(backend: Any) -> None:
    texts = ["a b c d e f", "A b c d e f!", None, "", "g h i"]
    sketch = gpulsh.BBit(bits=4, num_perm=64, seed=3)
    packed = sketch.from_texts(texts, backend=backend)
    signatures = gpulsh.MinHash(num_perm=64, seed=3).from_texts(texts, backend=backend)
    np.testing.assert_array_equal(packed, sketch(signatures, backend=backend))
    estimates = sketch.estimate(packed, [[0, 1], [2, 3], [0, 2], [3, 4]], backend=backend)
    assert estimates.tolist() == [1, 0, 0, 0] and not np.signbit(estimates).any()
