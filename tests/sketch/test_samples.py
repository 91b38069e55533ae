"""Broder's sketches against naive Python sets, and their estimates against theory."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpulsh
from gpulsh.arrays import Fingerprints
from gpulsh.backends.protocol import MIX_1, MIX_2
from gpulsh.permutations import stream
from tests.sketch.test_theory import NORMAL, sets_with
from tests.support.rows import lists_of, table

MASK = (1 << 64) - 1
BACKENDS = ["reference", "cpu"]
every_backend = pytest.mark.parametrize("backend", BACKENDS)
some_rows = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=30), min_size=1, max_size=6)


def permuted(x: int, name: str, seed: int) -> int:
    multiplier, addend = (int(word) for word in stream(name, seed, 2))
    y = ((multiplier | 1) * x + addend) & MASK
    y = (y ^ y >> 27) * MIX_1 & MASK
    y = (y ^ y >> 33) * MIX_2 & MASK
    return y ^ y >> 27


@every_backend
@given(rows=some_rows, size=st.integers(1, 12), seed=st.integers(0, 2**64 - 1))
def test_bottom_s_is_the_least_of_a_set(backend: Any, rows: list[list[int]], size: int, seed: int) -> None:
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
def test_mod_m_is_what_a_modulus_divides(backend: Any, rows: list[list[int]], modulus: int, seed: int) -> None:
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


def test_containment_is_unbiased() -> None:
    sets = sets_with(600, 200, 3000, np.random.default_rng(5))  # 800 each; of the second half what is common
    keep = np.tile(np.r_[np.ones(800, bool), np.ones(600, bool), np.zeros(200, bool)], 3000)
    offset = np.cumsum(np.r_[0, np.tile([800, 600], 3000)])
    rows = Fingerprints(sets.values[keep], offset)
    sketch = gpulsh.ModM(modulus=16)
    asked = np.arange(6000).reshape(-1, 2)
    found = sketch.estimate_containment(sketch(rows, backend="cpu"), asked, backend="cpu")
    assert abs(found.mean() - 0.75) < NORMAL * found.std() / np.sqrt(len(found))
    assert (sketch.estimate_containment(sketch(rows, backend="cpu"), asked[:, ::-1], backend="cpu") == 1).all()


@every_backend
def test_texts_in_batches(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a b c d e f g", None, "", "h i j k l m n o", "a b c d e f g", "p"] * 3
    for sketch in (gpulsh.BottomS(size=2), gpulsh.ModM(modulus=2)):
        whole = sketch(gpulsh.shingle(texts, backend=backend), backend=backend)
        monkeypatch.setattr("gpulsh.text.documents.BATCH_BYTES", 16)
        parts = sketch.from_texts(texts, backend=backend)
        assert lists_of(parts) == lists_of(whole)
        assert len(sketch.from_texts([], backend=backend)) == 0
